"""Summary of a release for the dashboard, written with it.

It is post-processing of releases: a learner's `value` and `recommend`, and the public policy. No
report and no decision is read.

| array    | shape  | meaning                                                             |
|----------|--------|---------------------------------------------------------------------|
| weights  | (n,)   | the share of people at each place where the learner believes them   |
| chances  | (n, K) | probabilities of the arms there                                     |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from discreet.learners.policy import ArmPolicy, PointPolicy
from discreet.learners.values import Value
from discreet.service.server.deployment import AnyLearner
from discreet.validation import FloatArray, InvalidInput

# A column with more levels is cut into parts.
_MOST_LEVELS, _PARTS = 12, 8
# Places over which shares are averaged, of each part.
_PLACES = 256


@dataclass(frozen=True)
class ReleaseSummary:
    """The summary of one release.

    Attributes:
        version: of the policy that was published.
        people: how many reports it follows from.
        reward: what its recommendation earns; None where it cannot say.
        played: what the policy earns as it is, which still tries out; None where it cannot say.
        gain: by how much the recommendation earns more than the best one choice for everyone.
        choice: that choice, by name.
        shares: (K,) what share of people is given each arm; () where actions are points.
        point: the best point by column, where everyone can be given the same.
    """

    version: int
    people: int
    reward: Value | None = None
    played: Value | None = None
    gain: Value | None = None
    choice: str = ""
    shares: tuple[float, ...] = ()
    point: tuple[tuple[str, str], ...] = ()


_FINDING = TypeAdapter(ReleaseSummary)


def written(found: ReleaseSummary) -> str:
    """As it is kept in the database."""
    return _FINDING.dump_json(found).decode()


def read(text: str) -> ReleaseSummary:
    """The inverse of `written`."""
    return _FINDING.validate_json(text)


@dataclass(frozen=True)
class LevelShares:
    """The people of a part of a column.

    Attributes:
        label: which part, in words.
        shares: (K,) of the arms there.
    """

    label: str
    shares: tuple[float, ...]


def finding(learner: AnyLearner, policy: Any, people: int) -> ReleaseSummary:
    """The summary of a learner right after a release.

    Args:
        learner: as it was then.
        policy: that it published.
        people: how many reports had entered it.
    """
    known: dict[str, Any] = {}
    try:
        posterior, bounds = learner._values(), learner.reward_bounds
        known["reward"] = posterior.value(bounds)
        if isinstance(policy, ArmPolicy):
            best = int((posterior.weights @ posterior.expected).argmax())
            shares = posterior.weights @ policy.probabilities(posterior.contexts)
            known |= {
                "played": posterior.value(bounds, policy),
                "gain": posterior.value(bounds, against=best),
                "choice": arm_names(policy)[best],
                "shares": tuple(map(float, shares)),
            }
        elif isinstance(policy, PointPolicy):
            domain, place = policy.domain, np.asarray(learner.recommend(), dtype=np.float64)
            known["point"] = tuple(
                (name, domain.text(column, float(f"{place[column]:.4g}")))
                for column, name in enumerate(domain.names)
            )
    except (
        InvalidInput
    ):  # it keeps no posterior with a known error, or people bring their own points
        return finding_of_policy(policy, people)
    return ReleaseSummary(policy.version, people, **known)


def finding_of_policy(policy: Any, people: int) -> ReleaseSummary:
    """What a policy alone tells: its shares, evenly over the domain."""
    shares: tuple[float, ...] = ()
    if isinstance(policy, ArmPolicy):
        shares = tuple(map(float, policy.chances(_places(policy)).mean(axis=0)))
    return ReleaseSummary(policy.version, people, shares=shares)


def arm_names(policy: ArmPolicy) -> Sequence[str]:
    """The arms of a policy by name, or by number where they have no names."""
    return policy.arm_names or [f"arm {arm}" for arm in range(policy.arms)]


def parts_of(policy: ArmPolicy, column: int) -> list[LevelShares]:
    """Who is given what along one column, with the others evenly over the domain."""
    domain, levels = policy.domain, policy.domain.levels[column]
    low, wide = domain.lower[column], domain.upper[column] - domain.lower[column]
    if levels is None:
        steps = np.linspace(0.0, 1.0, _PARTS + 1)
        within = (np.arange(_PLACES) + 0.5) / _PLACES
        along = [a + (b - a) * within for a, b in pairwise(steps)]
        ends = list(pairwise(steps))
    else:
        groups = np.array_split(np.arange(levels), levels if levels <= _MOST_LEVELS else _PARTS)
        along = [np.resize(group / (levels - 1), _PLACES) for group in groups]
        ends = [(group[0] / (levels - 1), group[-1] / (levels - 1)) for group in groups]
    unit, parts = _places(policy), []
    for places, pair in zip(along, ends, strict=True):
        unit[:, column] = places
        first, last = (domain.text(column, float(f"{low + wide * end:.4g}")) for end in pair)
        chances = policy.chances(unit).mean(axis=0)
        label = first if first == last else f"{first} to {last}"
        parts.append(LevelShares(label, tuple(map(float, chances))))
    return parts


def _places(policy: ArmPolicy) -> FloatArray:
    """(n, d) places in [0, 1]^d, evenly over the domain; the same ones at every call."""
    unit = np.random.default_rng(0).random((_PLACES, policy.domain.dimension))
    for column, levels in enumerate(policy.domain.levels):
        if levels is not None:
            unit[:, column] = np.floor(unit[:, column] * levels) / (levels - 1)
    return unit
