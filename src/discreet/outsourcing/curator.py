"""The curator: holds a table of people, releases it once, and answers questions about rows.

    curator = Curator("key")
    proposal = curator.propose(frame, bounds, Outsourced(3.0, 1e-5, radius=1.0), noise)
    certificate = curator.draw(proposal)       # proposal.certificate says what it will promise
    curator.publish(certificate.release, "release")
    answers = curator.answer(certificate.release, questions)

A release is drawn once for a table and a key. Asking again for the same gives what was drawn;
asking for another one is refused unless `Allowed(again=True)` says so, and then its certificate
covers both. A table is known by its people and their values, in whatever order a file has them.
What a key cannot know is another key: people who are released with two keys pay for both.

A proposal says what a release would promise, and whether it may be drawn at all. It is a function
of the table's people, of public facts (bounds, the number of rows, what is asked for) and of the
releases that the key knows. Nothing is drawn for it and nothing written, so it can be shown as
often as one likes.
"""

from __future__ import annotations

import logging
import math
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from sqlite3 import Connection

import numpy as np
import pandas as pd

from discreet.outsourcing.bounds import ROW, PublicBounds
from discreet.outsourcing.certificate import Certificate
from discreet.outsourcing.exchange import Format, check_out, sha256_of, table_bytes, write_release
from discreet.outsourcing.key import (
    Drawn,
    Key,
    Roster,
    announce,
    changing_key,
    check_folder,
    keep_answers,
    keep_release,
    keep_source,
    mark_published,
    read_key,
    released_rows,
)
from discreet.outsourcing.mechanisms import (
    AnswerRules,
    Question,
    RowProjection,
    Unmeasured,
    draw_rows,
    drawn_answers,
    mechanism_for,
    new_questions,
)
from discreet.privacy import NoiseSource, Outsourced, check_protects
from discreet.privacy.guarantee import rounded_up
from discreet.privacy.noise import NO_NOISE
from discreet.validation import BoolArray, FloatArray, InvalidInput

_LOG = logging.getLogger(__name__)
# The name of a release that was not drawn.
_UNDRAWN = "0" * 32


@dataclass(frozen=True)
class Allowed:
    """Options that must be set by name, because they are hardly ever meant.

    Attributes:
        again: another release of a table that was released; the costs add up.
        large_delta: a delta above 1 / rows.
        protects_nobody: an epsilon that gives no protection.
    """

    again: bool = False
    large_delta: bool = False
    protects_nobody: bool = False


@dataclass(frozen=True, eq=False)
class Proposal:
    """A request, and the certificate that it would lead to.

    Attributes:
        roster: the people of the table.
        coordinates: (n, d) their rows as points.
        noise: the source that would draw.
        seed: of simulated noise; None for secure noise.
        allowed: what was asked for by name.
        plan: the certificate that a first release would have.
        certificate: of the release as it would be, or as it was drawn before.
        drawn: whether it was drawn before; then nothing is drawn for it.
    """

    roster: Roster
    coordinates: FloatArray
    noise: NoiseSource
    seed: int | None
    allowed: Allowed
    plan: Certificate
    certificate: Certificate
    drawn: bool = False

    def against(self, key: Key | None) -> Proposal:
        """The proposal beside the releases that a key knows.

        Raises:
            InvalidInput: for a key of another table or other outcomes, and for what needs to be
                asked for by name.
        """
        plan = self.plan
        if key is not None:
            _check_same(key, self)
            same = [
                drawn
                for drawn in key.drawn
                if (drawn.seed, drawn.certificate.wish) == (self.seed, plan.wish)
            ]
            # After an interruption before publication the request is for that release.
            if same and not (self.allowed.again and same[-1].published):
                return replace(self, certificate=same[-1].certificate, drawn=True)
            before = [drawn.certificate for drawn in key.drawn]
            plan = replace(plan, earlier=tuple(earlier.mechanism for earlier in before))
            if any(earlier.answers != plan.answers for earlier in before):
                # Answers about a person are shared by all releases, so one promise covers them.
                raise InvalidInput(
                    "this table was released before with other rules for answers; answers about a "
                    "person count for all releases together, so keep the rules (their epsilon, "
                    "delta, bounds and repeats, and the source of noise) of the first release."
                )
            if key.drawn and not self.allowed.again:
                raise InvalidInput(_refusal(key, plan))
        _check_worth(plan, self.allowed)
        return replace(self, certificate=plan)

    def named(self) -> Certificate:
        """The certificate of a release that is about to be drawn, with a name and, where rows are
        projected, a projection of its own."""
        plan = self.certificate
        # Asked for in any case, so that a seed gives the same rows with and without a projection.
        seed = self.noise.keys(4)
        if plan.projection is not None:
            rng = np.random.default_rng([int(word) for word in seed])
            projection = RowProjection.draw(len(plan.bounds.columns), len(plan.names), rng)
            reach, extent = plan.radius, plan.bounds.extent
            mechanism = mechanism_for(plan.budget, reach, extent, plan.rows, projection, self.noise)
            plan = replace(plan, projection=projection, mechanism=mechanism)
        plan = replace(plan, release=os.urandom(16).hex())
        # What is drawn must be readable afterwards, here and by the modeler.
        Certificate.from_json(plan.to_json())
        return plan


class Curator:
    """One table and its key (see the module).

    Args:
        key: the folder of the key; made by the first release.
    """

    def __init__(self, key: str | Path) -> None:
        self.folder = Path(key)

    def propose(
        self,
        frame: pd.DataFrame,
        bounds: PublicBounds,
        budget: Outsourced,
        noise: NoiseSource,
        *,
        projected: int | None = None,
        answers: AnswerRules | None = None,
        form: Format = "csv",
        seed: int | None = None,
        allowed: Allowed | None = None,
    ) -> Proposal:
        """The release that a request would lead to; nothing is drawn or written.

        Args:
            frame: the table, one row for each person.
            bounds: public bounds and units, with the columns of ids and outcomes.
            budget: epsilon, delta and the radius of neighbours.
            noise: the source of the noise.
            projected: to how many columns rows are projected; None to release all.
            answers: how questions will be answered; None for answers as they are, each row once.
            form: of the file with the rows, `csv` or `parquet`.
            seed: of `SimulatedNoise`, so that answers can be simulated too; None with
                `SecureNoise`.
            allowed: what is only done if it is asked for by name.

        Raises:
            InvalidInput: for a table that does not fit the bounds, a key of another table, and
                whatever `allowed` does not name.
        """
        if noise.name == NO_NOISE or noise.secure is not (seed is None):
            raise InvalidInput(
                f"the noise was {noise.name} with the seed {seed}; pass SecureNoise() and no seed, "
                "or, to try something out, SimulatedNoise(seed) and the same seed."
            )
        roster, coordinates = Roster.of(frame, bounds)
        rules, rows = answers or AnswerRules(), len(roster.ids)
        # All projections to this many columns have the same gain; which one it is, is drawn later.
        projection = None
        if projected is not None:
            projection = RowProjection.draw(
                len(bounds.columns), projected, np.random.default_rng(0)
            )
        reach = bounds.reach(budget.radius)
        plan = Certificate(
            release=_UNDRAWN,
            rows=rows,
            bounds=bounds,
            budget=budget,
            mechanism=mechanism_for(budget, reach, bounds.extent, rows, projection, noise),
            earlier=(),
            projection=projection,
            answers=rules.calibrated(noise),
            repeats=rules.repeats,
            file="rows.csv" if form == "csv" else "rows.parquet",
            sha256="",
        )
        proposal = Proposal(roster, coordinates, noise, seed, allowed or Allowed(), plan, plan)
        check_folder(self.folder)
        return proposal.against(read_key(self.folder))

    def draw(
        self, proposal: Proposal, progress: Callable[[int], None] | None = None
    ) -> Certificate:
        """Draw what was proposed, or give the release that was drawn for the same wish.

        Args:
            proposal: from `propose`; what the key says meanwhile is looked up once more.
            progress: called with the number of rows done.
        """
        with changing_key(self.folder) as (state, key):
            current = proposal.against(key)
            if current.drawn:
                return current.certificate
            if key is None:
                keep_source(state, current.roster, current.plan.bounds)
            plan = current.named()
            points, order = draw_rows(
                current.coordinates, plan.mechanism, plan.projection, current.noise, progress
            )
            frame = pd.DataFrame(points, columns=list(plan.names))
            frame.insert(0, ROW, np.arange(plan.rows))
            content = table_bytes(frame, "csv" if plan.file.endswith("csv") else "parquet")
            certificate = replace(plan, sha256=sha256_of(content))
            keep_release(state, Drawn(certificate, order, current.seed), content)
        drawn = certificate.release, plan.rows, plan.mechanism.scale, plan.mechanism.noise
        _LOG.info("drew release %s: %d rows, Gaussian noise, scale %g, noise %s", *drawn)
        return certificate

    def check_out(self, proposal: Proposal, out: str | Path) -> None:
        """Refuse, before anything is drawn, a folder that the release could not be written to."""
        check_out(Path(out), self.folder, proposal.certificate)

    def publish(self, release: str, out: str | Path) -> bool:
        """Write a release to the folder `out`, for the modeler; False if it was there already.

        What may be there is this release, even damaged, or a simulated one, which is replaced.
        """
        with self._opened() as (state, key):
            certificate = key.find(release).certificate
            rows = released_rows(state, release)
            if sha256_of(rows) != certificate.sha256:
                raise InvalidInput(
                    f"the release {release} in {self.folder} was changed; restore the key."
                )
            check_out(Path(out), self.folder, certificate)
            # Before anyone sees it, so that an older copy of the key is known for one.
            announce(self.folder, release)
            written = write_release(certificate, rows, Path(out))
            # Stopped before this line, the next request for a new release gets this one again.
            mark_published(state, release)
            return written

    def answer(
        self, release: str, questions: Sequence[Question], outcomes: pd.DataFrame | None = None
    ) -> list[Question]:
        """These questions with their answers, and before them all that were answered for the
        release.

        An answer is drawn once. The same question again gets the same answer; so does a person who
        is asked for in another release of the table as often as is allowed.

        Args:
            release: which release the rows are of.
            questions: what is asked.
            outcomes: a table with the columns of ids and outcomes, for people measured meanwhile;
                an empty outcome says that a person cannot be measured.

        Raises:
            Unmeasured: when an outcome is not known.
            InvalidInput: for questions that cannot be; nothing was answered then.
        """
        with self._opened() as (state, key):
            drawn = key.find(release)
            certificate = drawn.certificate
            before = [each.public for each in key.answers if each.release == release]
            new = new_questions(questions, before, certificate.rows, certificate.repeats)
            known, tried = _known_outcomes(key, outcomes)
            people = drawn.order[[question.row for question in new]]
            unknown = people[np.isnan(known[people]) & ~tried[people]].tolist()
            # Further answers about a person repeat the last one, so no outcome is needed.
            turns = Counter(person for person, _ in {(a.person, a.turn) for a in key.answers})
            missing = [person for person in unknown if turns[person] < certificate.repeats]
            if missing:
                raise Unmeasured(tuple(key.roster.ids[person] for person in dict.fromkeys(missing)))
            rules = certificate.repeats, certificate.answers
            given = drawn_answers(release, new, people, known, key.answers, rules, drawn.seed)
            keep_answers(state, given)
        # An answer is stored before it is shown.
        answered = [*before, *(each.public for each in given)]
        return sorted(answered, key=lambda question: question.number)

    def kept_answers(self, outcomes: pd.DataFrame) -> int:
        """The number of people whose answer was drawn from another outcome than this table's.

        Such an answer stays as it is: a second one would tell more about the person than was
        promised.
        """
        key = self._read()
        now, tried = _known_outcomes(key, outcomes)
        used = {each.person: each.outcome for each in key.answers if tried[each.person]}
        then = np.array([np.nan if value is None else value for value in used.values()])
        return int((~_same(then, now[list(used)])).sum())

    def outcome_columns(self) -> tuple[str, str]:
        """The names of the id and outcome columns in a table of outcomes."""
        bounds = self._read().bounds
        return bounds.id, bounds.outcome_column

    @contextmanager
    def _opened(self) -> Iterator[tuple[Connection, Key]]:
        """The key, for this process alone; what is done with it is kept together, or not at all."""
        if not self.folder.is_dir():
            raise self._absent()
        with changing_key(self.folder) as (state, key):
            if key is None:
                raise self._absent()
            yield state, key

    def _read(self) -> Key:
        if self.folder.is_dir():
            check_folder(self.folder)
        key = read_key(self.folder)
        if key is None:
            raise self._absent()
        return key

    def _absent(self) -> InvalidInput:
        return InvalidInput(
            f"there is no key in {self.folder}; give the folder that `discreet curate` made."
        )


def _known_outcomes(key: Key, frame: pd.DataFrame | None) -> tuple[FloatArray, BoolArray]:
    """(n,) outcomes, NaN where there is none, and (n,) whether a measurement was tried."""
    known = key.roster.outcomes.copy()
    tried = np.zeros(len(known), dtype=np.bool_)
    if frame is None:
        return known, tried
    ids = key.bounds.ids_of(frame)
    places = {person: place for place, person in enumerate(key.roster.ids)}
    strangers = [name for name in ids if name not in places]
    if strangers:
        raise InvalidInput(
            f"ids in the table of outcomes that are not in the released table: {len(strangers)}, "
            f"first {strangers[0]!r}; correct them. Nothing was answered."
        )
    at = [places[name] for name in ids]
    known[at], tried[at] = key.bounds.outcomes_of(frame), True
    return known, tried


def _same(outcomes: FloatArray, others: FloatArray) -> BoolArray:
    """Where outcomes are equal, or both missing."""
    same: BoolArray = (outcomes == others) | (np.isnan(outcomes) & np.isnan(others))
    return same


# What is refused.


def _check_same(key: Key, proposal: Proposal) -> None:
    """Refuse a key of another kind of noise, of other bounds, another table or other outcomes."""
    if key.drawn and key.simulated is not (proposal.seed is not None):
        raise InvalidInput(
            f"the key in {key.folder} belongs to simulated releases, which protect no one; a real "
            "release needs a key of its own. Name another folder, or delete this one."
            if key.simulated
            else f"the key in {key.folder} belongs to real releases; a simulated one keeps a key "
            "of its own. Name another folder."
        )
    if key.bounds.everything != proposal.plan.bounds.everything:
        raise InvalidInput(
            f"the key in {key.folder} was made with other bounds; a table that is released again "
            "keeps its bounds and units, or the releases could not be counted together."
        )
    if key.roster.fingerprint != proposal.roster.fingerprint:
        raise InvalidInput(
            f"the key in {key.folder} belongs to another table; name another key folder. People "
            "who are in both tables pay for both releases."
        )
    # Answers come from the outcomes in the key; others would be left aside in silence.
    kept, given = key.roster.outcomes, proposal.roster.outcomes
    differ = ~_same(kept, given)
    if differ.any():
        new, gone = int(np.isnan(kept[differ]).sum()), int(np.isnan(given[differ]).sum())
        changed = int(differ.sum())
        raise InvalidInput(
            f"{changed} of {len(kept)} outcomes are not those that the key in {key.folder} holds "
            f"({changed - new - gone} changed, {new} new, {gone} now empty). Released rows hold no "
            "outcomes, so the release stays as it is, and nothing was drawn or changed. Give new "
            "outcomes with the answers: `discreet curate answer ... --outcomes TABLE`, with "
            f"{key.bounds.id} and {key.bounds.outcome} of those people alone. To get the release "
            "again, repeat the command with the outcomes as they were."
        )


def _check_worth(plan: Certificate, allowed: Allowed) -> None:
    """Refuse a promise that is worth nothing, unless it was asked for by name."""
    deltas = {"delta": plan.budget.delta}
    if plan.answers is not None:
        deltas["the delta of the answers"] = plan.answers.delta
    for name, delta in deltas.items():
        if delta * plan.rows > 1.0 and not allowed.large_delta:
            # A power of ten at least ten times below 1 / rows.
            small = min(1e-5, float(10.0 ** -(math.ceil(math.log10(plan.rows)) + 1)))
            raise InvalidInput(
                f"{name} was {delta:g}, above 1 / {plan.rows} = {1.0 / plan.rows:.2g} (the number "
                "of rows is public): a release that shows someone's row as it is would then be "
                f"allowed now and then. Choose one far below that, such as {small:g}, or ask for "
                "it by name (--allow-large-delta)."
            )
    for guarantee in (plan.guarantee, plan.with_answers):
        if guarantee is not None:
            check_protects(guarantee, allowed.protects_nobody)


def _refusal(key: Key, plan: Certificate) -> str:
    """The refusal of another release, with what both would cost."""
    last = key.drawn[-1].certificate
    text = (
        f"this table was released before with the key in {key.folder} (release {last.release}, "
        f"{_cost(last)}). With the release that you ask for, everybody's promise would become "
        f"{_cost(plan)}. If that is what you want, ask for a new release (--new-release); to get "
        "the earlier one again, repeat its own settings."
    )
    if key.simulated:
        text += f" As it was simulated, you can also delete {key.folder} and begin again."
    return text


def _cost(plan: Certificate) -> str:
    """Epsilon, delta and reach of all releases so far."""
    held, radius = plan.guarantee, plan.guarantee.adjacency.radius
    reach = "any replacement of a row" if radius is None else f"rows within distance {radius:g}"
    return f"epsilon = {rounded_up(held.epsilon)}, delta = {held.delta:g} for {reach}"
