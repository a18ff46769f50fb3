"""The curator: holds a table of people, releases it once, and answers questions about rows.

    curator = Curator("key")
    certificate = curator.release(frame, bounds, Outsourced(3.0, 1e-5, radius=1.0), noise)
    curator.publish(certificate.release, "release")
    answers = curator.answer(certificate.release, questions)

A release is drawn once for a table and a key. Asking again for the same gives what was drawn;
asking for another one is refused unless `again` says so, and then its certificate covers both. A
table is known by its people and their values, in whatever order a file has them. What a key cannot
know is another key: people who are released with two keys pay for both.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from discreet.outsourcing.answer_noise import AnswerNoise
from discreet.outsourcing.answering import (
    Unmeasured,
    answered,
    finite_outcomes,
    ids_of,
    known_outcomes,
    new_questions,
    outcome_columns,
)
from discreet.outsourcing.bounds import ROW, PublicBounds
from discreet.outsourcing.certificate import Certificate
from discreet.outsourcing.files import Format, sha256_of, table_bytes
from discreet.outsourcing.key import (
    Drawn,
    Key,
    fingerprint_of,
    open_folder,
    publish,
    read_key,
)
from discreet.outsourcing.projection import Projection
from discreet.outsourcing.questions import Answer, Question
from discreet.outsourcing.release import draw_rows, mechanism_for
from discreet.privacy import NoiseSource, Outsourced
from discreet.privacy.guarantee import rounded_up
from discreet.validation import (
    FloatArray,
    IntArray,
    InvalidInput,
    finite_number,
    positive_number,
    probability,
    whole_number,
)


@dataclass(frozen=True)
class AnswerRules:
    """How questions will be answered.

    Attributes:
        repeats: how often one row may be asked for.
        epsilon, delta: what answers about one person may cost; None for answers as they are.
        bounds: of outcomes, public; needed where answers are protected.
    """

    repeats: int = 1
    epsilon: float | None = None
    delta: float | None = None
    bounds: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "repeats", whole_number(self.repeats, "repeats", minimum=1))
        given = [one is not None for one in (self.epsilon, self.delta, self.bounds)]
        if any(given) and not all(given):
            raise InvalidInput(
                f"answers had epsilon = {self.epsilon}, delta = {self.delta} and bounds = "
                f"{self.bounds}; protected answers need all three, unprotected ones none."
            )
        if self.bounds is not None:
            low, high = (finite_number(one, "a bound of answers") for one in self.bounds)
            object.__setattr__(self, "bounds", (low, high))
            object.__setattr__(self, "epsilon", positive_number(self.epsilon, "epsilon of answers"))
            object.__setattr__(self, "delta", probability(self.delta, "delta of answers"))

    def calibrated(self, noise: NoiseSource) -> AnswerNoise | None:
        """The noise on answers; None for answers as they are."""
        if self.epsilon is None or self.delta is None or self.bounds is None:
            return None
        return AnswerNoise.calibrated(self.epsilon, self.delta, self.bounds, self.repeats, noise)


class Curator:
    """One table and its key (see the module).

    Args:
        key: the folder of the key; made by the first release.
    """

    def __init__(self, key: str | Path) -> None:
        self.folder = Path(key)

    def release(
        self,
        frame: pd.DataFrame,
        bounds: PublicBounds,
        budget: Outsourced,
        noise: NoiseSource,
        *,
        projected: int | None = None,
        answers: AnswerRules | None = None,
        form: Format = "csv",
        again: bool = False,
        seed: int | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Certificate:
        """Draw a release of the table, or give the one that was drawn for the same wish.

        Args:
            frame: the table, one row for each person.
            bounds: public bounds and units, with the columns of ids and outcomes.
            budget: epsilon, delta and the radius of neighbours.
            noise: the source of the noise.
            projected: to how many columns rows are projected; None to release all.
            answers: how questions will be answered; None for answers as they are, each row once.
            form: of the file with the rows, `csv` or `parquet`.
            again: whether to draw another release of a table that was released.
            seed: of `SimulatedNoise`, so that answers can be simulated too; None with
                `SecureNoise`.
            progress: is told how many rows are done.

        Raises:
            InvalidInput: for a table that does not fit the bounds, a key of another table, or a
                table that was released before; nothing has changed then.
        """
        if noise.secure is not (seed is None):
            raise InvalidInput(
                f"the noise was {noise.name} with the seed {seed}; give the seed of simulated "
                "noise, and none with secure noise."
            )
        ids, coordinates, outcomes = _people(frame, bounds)
        rules = AnswerRules() if answers is None else answers
        asked = _asked(budget, noise, projected, rules, form, seed)
        plan = _plan(len(ids), bounds, budget, noise, projected, rules, form)
        with open_folder(self.folder):
            key = read_key(self.folder)
            fingerprint = fingerprint_of(ids, coordinates)
            if key is None:
                key = Key(self.folder, fingerprint, bounds, ids, outcomes)
            _check_same_table(key, fingerprint, bounds)
            same = [one for one in key.drawn if one.asked == asked]
            # Whoever was interrupted before a new release got out means that one.
            if same and (not again or not key.was_published(same[-1].release)):
                return key.certificate(same[-1].release)
            before = [key.certificate(one.release) for one in key.drawn]
            plan = replace(plan, earlier=tuple(one.mechanism for one in before))
            _check_same_answers(plan, before)
            if key.drawn and not again:
                raise InvalidInput(_refusal(key, plan))
            # What is drawn must be readable afterwards, here and by the modeler.
            Certificate.from_json(plan.to_json())
            certificate, content, order = _drawn(plan, coordinates, noise, progress)
            key.with_release(Drawn(plan.release, asked, seed), certificate, content, order)
            return certificate

    def publish(self, release: str, out: str | Path) -> bool:
        """Write a release to the folder `out`, for the modeler; False if it was there already."""
        with self._opened() as key:
            key.find(release)
            return publish(key, release, Path(out))

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
        with self._opened() as key:
            drawn, certificate = key.find(release), key.certificate(release)
            log = key.answers()
            new = new_questions(certificate, release, questions, log)
            order = key.order(release)
            known, measured = known_outcomes(key, outcomes)
            people = order[[one.row for one in new]]
            missing = [int(p) for p in people if math.isnan(known[p]) and not measured[p]]
            if missing:
                raise Unmeasured(tuple(key.ids[p] for p in dict.fromkeys(missing)))
            fresh = answered(key, drawn, certificate, new, people, known, log)
            key.log(fresh)
            return [
                Answer(Question(one.question, one.row), one.value)
                for one in sorted([*log, *fresh], key=lambda one: one.question)
                if one.release == release
            ]

    def outcome_columns(self) -> tuple[str, str]:
        """What the columns of ids and outcomes are called in a table of outcomes."""
        return outcome_columns(self._key())

    @contextmanager
    def _opened(self) -> Iterator[Key]:
        """The key, for this process alone."""
        if not self.folder.is_dir():
            self._key()
        with open_folder(self.folder):
            yield self._key()

    def _key(self) -> Key:
        key = read_key(self.folder)
        if key is None:
            raise InvalidInput(
                f"there is no key in {self.folder}; give the folder that `discreet curate` made."
            )
        return key


def _people(
    frame: pd.DataFrame, bounds: PublicBounds
) -> tuple[tuple[str, ...], FloatArray, FloatArray | None]:
    """Ids, coordinates (n, d) and, if the table has them, outcomes (n,), sorted by id."""
    ids = ids_of(frame, bounds)
    coordinates = bounds.coordinates(frame)
    by_id = sorted(range(len(ids)), key=ids.__getitem__)
    outcomes = None
    if bounds.outcome is not None:
        outcomes = finite_outcomes(frame, bounds.outcome, ids)[by_id]
    return tuple(ids[place] for place in by_id), coordinates[by_id], outcomes


def _asked(
    budget: Outsourced,
    noise: NoiseSource,
    projected: int | None,
    rules: AnswerRules,
    form: Format,
    seed: int | None,
) -> dict[str, Any]:
    """Everything that decides what a release is, as JSON values."""
    return {
        "epsilon": budget.epsilon,
        "delta": budget.delta,
        "radius": budget.radius,
        "noise": noise.name,
        "seed": seed,
        "projected": None if projected is None else int(projected),
        "repeats": rules.repeats,
        "answers": None if rules.bounds is None else [rules.epsilon, rules.delta, *rules.bounds],
        "form": form,
    }


def _check_same_table(key: Key, fingerprint: str, bounds: PublicBounds) -> None:
    mine, theirs = ((one.to_dict(), one.id, one.outcome) for one in (key.bounds, bounds))
    if mine != theirs:
        raise InvalidInput(
            f"the key in {key.folder} was made with other bounds; a table that is released again "
            "keeps its bounds and units, or the releases could not be counted together."
        )
    if key.fingerprint != fingerprint:
        raise InvalidInput(
            f"the key in {key.folder} belongs to another table; name another key folder. People "
            "who are in both tables pay for both releases."
        )


def _check_same_answers(plan: Certificate, before: Sequence[Certificate]) -> None:
    """Answers about a person are shared by all releases, so one promise covers all of them."""
    if any(one.answers != plan.answers for one in before):
        raise InvalidInput(
            "this table was released before with other rules for answers; answers about a person "
            "count for all releases together, so keep the rules (their epsilon, delta, bounds and "
            "repeats, and the source of noise) of the first release."
        )


def _plan(
    rows: int,
    bounds: PublicBounds,
    budget: Outsourced,
    noise: NoiseSource,
    projected: int | None,
    rules: AnswerRules,
    form: Format,
) -> Certificate:
    """A release before anything of the table is drawn: a function of public facts and chance."""
    seed = noise.keys(4)
    projection = None
    if projected is not None:
        rng = np.random.default_rng([int(word) for word in seed])
        projection = Projection.draw(len(bounds.columns), projected, rng)
    radius = bounds.diameter if budget.radius is None else min(budget.radius, bounds.diameter)
    return Certificate(
        release=os.urandom(16).hex(),
        rows=rows,
        bounds=bounds,
        budget=budget,
        mechanism=mechanism_for(budget, radius, bounds.extent, rows, projection, noise),
        earlier=(),
        projection=projection,
        answers=rules.calibrated(noise),
        repeats=rules.repeats,
        file=f"rows.{form}",
        sha256="",
    )


def _drawn(
    plan: Certificate,
    coordinates: FloatArray,
    noise: NoiseSource,
    progress: Callable[[int], None] | None,
) -> tuple[Certificate, bytes, IntArray]:
    """The certificate with its file and the secret order."""
    rows = draw_rows(coordinates, plan.mechanism, plan.projection, noise, progress)
    frame = pd.DataFrame(rows.points, columns=list(plan.names))
    frame.insert(0, ROW, np.arange(plan.rows))
    content = table_bytes(frame, "csv" if plan.file.endswith("csv") else "parquet")
    return replace(plan, sha256=sha256_of(content)), content, rows.order


def _refusal(key: Key, plan: Certificate) -> str:
    """What another release would cost."""
    last = key.certificate(key.drawn[-1].release)
    both, one = plan.guarantee, last.guarantee
    return (
        f"this table was released before with the key in {key.folder} (release {last.release}, "
        f"epsilon = {rounded_up(one.epsilon)}, delta = {one.delta:g} {_reach(last)}). With the "
        "release that you ask for, everybody's promise would become epsilon = "
        f"{rounded_up(both.epsilon)}, delta = {both.delta:g} {_reach(plan)}. If that is what you "
        "want, ask for a new release (--new-release); to get the earlier one again, repeat its own "
        "settings."
    )


def _reach(plan: Certificate) -> str:
    if plan.radius >= plan.bounds.diameter:
        return "for any replacement of a row"
    return f"for rows within distance {plan.radius:g}"
