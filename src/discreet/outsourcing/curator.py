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
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from sqlite3 import Connection

import numpy as np
import pandas as pd

from discreet.outsourcing.answers import (
    Answer,
    AnswerRules,
    Question,
    Unmeasured,
    drawn_answers,
    new_questions,
)
from discreet.outsourcing.bounds import ROW, PublicBounds
from discreet.outsourcing.certificate import Certificate
from discreet.outsourcing.exchange import Format, check_out, sha256_of, table_bytes, write_release
from discreet.outsourcing.key import (
    Drawn,
    Key,
    announce,
    check_folder,
    keep_answers,
    keep_release,
    keep_source,
    key_in,
    leave_notice,
    mark_published,
    open_folder,
    read_key,
    released_rows,
)
from discreet.outsourcing.proposal import (
    Allowed,
    Proposal,
    Roster,
    finite_outcomes,
    ids_of,
)
from discreet.outsourcing.release import RowProjection, draw_rows, mechanism_for
from discreet.privacy import NoiseSource, Outsourced
from discreet.privacy.noise import NO_NOISE
from discreet.validation import BoolArray, FloatArray, InvalidInput

# The name of a release that was not drawn.
_UNDRAWN = "0" * 32


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
        """What a release would be: nothing is drawn, and no file or folder changes.

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
        people, rules = Roster.of(frame, bounds), answers or AnswerRules()
        # All projections to this many columns have the same gain; which one it is, is drawn later.
        projection = None
        if projected is not None:
            projection = RowProjection.draw(
                len(bounds.columns), projected, np.random.default_rng(0)
            )
        rows, reach = len(people.ids), bounds.reach(budget.radius)
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
        asked = {
            "epsilon": budget.epsilon,
            "delta": budget.delta,
            "radius": budget.radius,
            "noise": noise.name,
            "seed": seed,
            "projected": None if projected is None else int(projected),
            "repeats": rules.repeats,
            "answers": rules.bounds and [rules.epsilon, rules.delta, *rules.bounds],
            "form": form,
        }
        proposal = Proposal(people, noise, seed, asked, allowed or Allowed(), plan, plan)
        check_folder(self.folder)
        return proposal.against(read_key(self.folder))

    def draw(
        self, proposal: Proposal, progress: Callable[[int], None] | None = None
    ) -> Certificate:
        """Draw what was proposed, or give the release that was drawn for the same wish.

        Args:
            proposal: from `propose`; what the key says meanwhile is looked up once more.
            progress: is told how many rows are done.
        """
        with open_folder(self.folder) as state:
            key = key_in(state, self.folder)
            current = proposal.against(key)
            if current.drawn:
                return current.certificate
            people = current.people
            if key is None:
                bounds = current.plan.bounds
                key = Key(self.folder, people.fingerprint, bounds, people.ids, people.outcomes)
                keep_source(state, key)
            plan = current.named()
            rows = draw_rows(
                people.coordinates, plan.mechanism, plan.projection, current.noise, progress
            )
            frame = pd.DataFrame(rows.points, columns=list(plan.names))
            frame.insert(0, ROW, np.arange(plan.rows))
            content = table_bytes(frame, "csv" if plan.file.endswith("csv") else "parquet")
            certificate = replace(plan, sha256=sha256_of(content))
            drawn = Drawn(plan.release, current.asked, certificate.to_json(), rows.order)
            keep_release(state, drawn, content)
        leave_notice(self.folder)
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
            written = write_release(certificate, rows, Path(out), self.folder)
            # Whoever is stopped before this line and asks for a new release gets this one again.
            mark_published(state, release)
            return written

    def answer(
        self, release: str, questions: Sequence[Question], outcomes: pd.DataFrame | None = None
    ) -> list[Answer]:
        """Answers to these questions, and before them all that were given for the release.

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
            before = [each.answer for each in key.answers if each.release == release]
            asked = [each.question for each in before]
            new = new_questions(questions, asked, certificate.rows, certificate.repeats)
            known, tried = _known_outcomes(key, outcomes)
            people = drawn.order[[question.row for question in new]]
            missing = people[np.isnan(known[people]) & ~tried[people]].tolist()
            if missing:
                raise Unmeasured(tuple(key.ids[person] for person in dict.fromkeys(missing)))
            rules = certificate.repeats, certificate.answers
            given = drawn_answers(release, new, people, known, key.answers, rules, drawn.seed)
            keep_answers(state, given)
        # Nobody sees an answer before it is kept.
        return sorted([*before, *(each.answer for each in given)], key=lambda each: each.question)

    def kept_answers(self, outcomes: pd.DataFrame) -> int:
        """How many people in a table of outcomes have an answer drawn from another outcome.

        Such an answer stays as it is: a second one would tell more about the person than was
        promised.
        """
        key = self._key()
        known, tried = _known_outcomes(key, outcomes)
        used = {each.person: each.outcome for each in key.answers if tried[each.person]}
        then = np.array(
            [np.nan if value is None else value for value in used.values()], dtype=float
        )
        now = known[list(used)]
        return int((~((then == now) | (np.isnan(then) & np.isnan(now)))).sum())

    def outcome_columns(self) -> tuple[str, str]:
        """What the columns of ids and outcomes are called in a table of outcomes."""
        return _outcome_columns(self._key())

    @contextmanager
    def _opened(self) -> Iterator[tuple[Connection, Key]]:
        """The key, for this process alone; what is done with it is kept together, or not at all."""
        if not self.folder.is_dir():
            self._key()
        with open_folder(self.folder) as state:
            key = key_in(state, self.folder)
            if key is None:
                raise self._absent()
            leave_notice(self.folder)
            yield state, key

    def _key(self) -> Key:
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


def _outcome_columns(key: Key) -> tuple[str, str]:
    return key.bounds.id, key.bounds.outcome or "outcome"


def _known_outcomes(key: Key, frame: pd.DataFrame | None) -> tuple[FloatArray, BoolArray]:
    """(n,) outcomes, NaN where there is none, and (n,) whether somebody tried to measure it."""
    known = np.full(len(key.ids), np.nan) if key.outcomes is None else key.outcomes.copy()
    tried = np.zeros(len(key.ids), dtype=np.bool_)
    if frame is None:
        return known, tried
    ids = ids_of(frame, key.bounds)
    places = {person: place for place, person in enumerate(key.ids)}
    strangers = [name for name in ids if name not in places]
    if strangers:
        raise InvalidInput(
            f"ids in the table of outcomes that are not in the released table: {len(strangers)}, "
            f"first {strangers[0]!r}; correct them. Nothing was answered."
        )
    values = finite_outcomes(frame, _outcome_columns(key)[1])
    at = np.array([places[name] for name in ids], dtype=np.int64)
    known[at], tried[at] = values, True
    return known, tried
