"""A release before it is drawn: what it would promise, and whether it may be drawn at all.

A proposal is a function of the table's people, of public facts (bounds, the number of rows, what is
asked for) and of the releases that the key knows. Nothing is drawn for it and nothing written, so
it can be shown as often as one likes.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from discreet.outsourcing.bounds import PublicBounds
from discreet.outsourcing.certificate import Certificate
from discreet.outsourcing.key import Key, fingerprint_of
from discreet.outsourcing.release import RowProjection, mechanism_for
from discreet.privacy import NoiseSource, check_protects
from discreet.privacy.guarantee import rounded_up
from discreet.problems.tables import column_of, numbers_of
from discreet.validation import FloatArray, InvalidInput, Refusals


@dataclass(frozen=True)
class Allowed:
    """What a user must ask for by name, because it is hardly ever meant.

    Attributes:
        again: another release of a table that was released; the costs add up.
        large_delta: a delta above 1 / rows.
        protects_nobody: an epsilon that protects nobody.
    """

    again: bool = False
    large_delta: bool = False
    protects_nobody: bool = False


@dataclass(frozen=True, eq=False)
class Roster:
    """The people of a table, sorted by id.

    Attributes:
        ids: (n,) their names.
        coordinates: (n, d) their rows as points.
        outcomes: (n,) what was measured, NaN where nothing was; None without such a column.
        fingerprint: of ids and coordinates.
    """

    ids: tuple[str, ...]
    coordinates: FloatArray
    outcomes: FloatArray | None
    fingerprint: str

    @classmethod
    def of(cls, frame: pd.DataFrame, bounds: PublicBounds) -> Roster:
        """The people of a table.

        Raises:
            InvalidInput: for everything that does not fit the bounds, at once.
        """
        refusals = Refusals()
        with refusals.collected():
            ids = ids_of(frame, bounds)
        with refusals.collected():
            coordinates = bounds.coordinates(frame)
        outcomes = None
        if bounds.outcome is not None:
            with refusals.collected():
                outcomes = finite_outcomes(frame, bounds.outcome)
        refusals.raise_if_any()
        by_id = sorted(range(len(ids)), key=ids.__getitem__)
        names = tuple(ids[place] for place in by_id)
        coordinates = coordinates[by_id]
        # By these a table is known, so they stay as they are until they are drawn.
        coordinates.setflags(write=False)
        outcomes = None if outcomes is None else outcomes[by_id]
        return cls(names, coordinates, outcomes, fingerprint_of(names, coordinates))


@dataclass(frozen=True, eq=False)
class Proposal:
    """What is asked for, and what it would lead to.

    Attributes:
        people: of the table.
        noise: the source that would draw.
        seed: of simulated noise; None for secure noise.
        asked: everything that decides what a release is, as JSON values.
        allowed: what was asked for by name.
        plan: the certificate that a first release would have.
        certificate: of the release as it would be, or as it was drawn before.
        drawn: whether it was drawn before; then nothing is drawn for it.
    """

    people: Roster
    noise: NoiseSource
    seed: int | None
    asked: dict[str, Any]
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
            same = [drawn for drawn in key.drawn if drawn.asked == self.asked]
            # Whoever was interrupted before a new release got out means that one.
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


def _check_worth(plan: Certificate, allowed: Allowed) -> None:
    """Refuse a promise that is worth nothing, unless it was asked for by name."""
    deltas = {"delta": plan.budget.delta}
    if plan.answers is not None:
        deltas["the delta of the answers"] = plan.answers.delta
    for name, delta in deltas.items():
        if delta * plan.rows > 1.0 and not allowed.large_delta:
            raise InvalidInput(
                f"{name} was {delta:g}, above 1 / {plan.rows} = {1.0 / plan.rows:.2g} (the number "
                "of rows is public): a release that shows someone's row as it is would then be "
                f"allowed now and then. Choose one far below that, such as "
                f"{_small_delta(plan.rows):g}, or ask for it by name (--allow-large-delta)."
            )
    check_protects(plan.guarantee, allowed.protects_nobody)
    if plan.with_answers is not None:
        check_protects(plan.with_answers, allowed.protects_nobody)


def _small_delta(rows: int) -> float:
    """A power of ten at least ten times below 1 / rows."""
    return min(1e-5, float(10.0 ** -(math.ceil(math.log10(rows)) + 1)))


def _check_same(key: Key, proposal: Proposal) -> None:
    """Refuse a key of another kind of noise, of other bounds, another table or other outcomes."""
    if key.drawn and key.simulated is not (proposal.seed is not None):
        raise InvalidInput(
            f"the key in {key.folder} belongs to simulated releases, which protect nobody; a real "
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
    if key.fingerprint != proposal.people.fingerprint:
        raise InvalidInput(
            f"the key in {key.folder} belongs to another table; name another key folder. People "
            "who are in both tables pay for both releases."
        )
    _check_same_outcomes(key, proposal.people.outcomes)


def _check_same_outcomes(key: Key, outcomes: FloatArray | None) -> None:
    """Answers come from the outcomes in the key; others would be left aside in silence."""
    if key.outcomes is None or outcomes is None:
        return
    known, given = ~np.isnan(key.outcomes), ~np.isnan(outcomes)
    changed = int((key.outcomes != outcomes)[known & given].sum())
    new, gone = int((given & ~known).sum()), int((known & ~given).sum())
    if changed + new + gone == 0:
        return
    raise InvalidInput(
        f"{changed + new + gone} of {len(outcomes)} outcomes are not those that the key in "
        f"{key.folder} holds ({changed} changed, {new} new, {gone} now empty). Released rows hold "
        "no outcomes, so the release stays as it is, and nothing was drawn or changed. Give new "
        f"outcomes with the answers: `discreet curate answer ... --outcomes TABLE`, with "
        f"{key.bounds.id} and {key.bounds.outcome} of those people alone. To get the release "
        "again, repeat the command with the outcomes as they were."
    )


def _refusal(key: Key, plan: Certificate) -> str:
    """What another release would cost."""
    last = key.drawn[-1].certificate
    both, before = plan.guarantee, last.guarantee
    text = (
        f"this table was released before with the key in {key.folder} (release {last.release}, "
        f"epsilon = {rounded_up(before.epsilon)}, delta = {before.delta:g} {_covering(last)}). "
        "With the release that you ask for, everybody's promise would become epsilon = "
        f"{rounded_up(both.epsilon)}, delta = {both.delta:g} {_covering(plan)}. If that is what "
        "you want, ask for a new release (--new-release); to get the earlier one again, repeat its "
        "own settings."
    )
    if key.simulated:
        text += f" As it was simulated, you can also delete {key.folder} and begin again."
    return text


def _covering(plan: Certificate) -> str:
    if plan.radius >= plan.bounds.diameter:
        return "for any replacement of a row"
    return f"for rows within distance {plan.radius:g}"


def ids_of(frame: pd.DataFrame, bounds: PublicBounds) -> tuple[str, ...]:
    """Names of the people, each once."""
    column = column_of(frame, bounds.id)
    if column.empty:
        raise InvalidInput("the table has no rows; give a table with people in it.")
    ids = tuple(
        "" if absent else str(value).strip()
        for value, absent in zip(column.tolist(), column.isna(), strict=True)
    )
    if "" in ids:
        raise InvalidInput(
            f"the id column {bounds.id!r} is empty in row {ids.index('')} (the first row is 0); "
            "give every person an id."
        )
    twice = {name: times for name, times in Counter(ids).items() if times > 1}
    if twice:
        name, times = next(iter(twice.items()))
        raise InvalidInput(
            f"the id {name!r} occurs {times} times in the table (ids with more than one row: "
            f"{len(twice)}); the promise is for people with one row each. Merge the rows of a "
            "person first."
        )
    return ids


def finite_outcomes(frame: pd.DataFrame, name: str) -> FloatArray:
    """(n,) the outcomes in a table, NaN where there is none."""
    values = numbers_of(column_of(frame, name), "drop", may_drop=False)
    infinite = np.isinf(values)
    if infinite.any():
        raise InvalidInput(
            f"the outcome {name!r} is infinite in {int(infinite.sum())} of {len(values)} rows, "
            f"first in row {int(np.argmax(infinite))} (the first row is 0); an outcome is a finite "
            "number, or empty if it is not known. Nothing was done."
        )
    return values
