"""What a learner says after a release, for the dashboard.

Whatever is worked out here follows from what was released: a learner's `value` and `recommend` are
post-processing of its releases (learners/values.py), and a policy is public. No report and no
decision is looked at.

| array    | shape  | meaning                                                             |
|----------|--------|---------------------------------------------------------------------|
| weights  | (n,)   | the share of people at each place where the learner believes them   |
| chances  | (n, K) | probabilities of the arms there                                     |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.learners.messages import ArmPolicy
from discreet.learners.points import PointPolicy
from discreet.learners.values import Value
from discreet.service.deployment import AnyLearner
from discreet.validation import FloatArray, InvalidInput

# A column with more levels than this is cut into so many parts.
_MOST_LEVELS, _PARTS = 12, 8
# Places over which shares are averaged, of each part.
_PLACES = 256


@dataclass(frozen=True)
class Finding:
    """What a learner says after one release.

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


@dataclass(frozen=True)
class Part:
    """The people of a part of a column.

    Attributes:
        label: which part, in words.
        shares: (K,) of the arms there.
    """

    label: str
    shares: tuple[float, ...]


def finding(learner: AnyLearner, policy: Any, people: int) -> Finding:
    """What a learner says right after a release.

    Args:
        learner: as it was then.
        policy: that it published.
        people: how many reports had entered it.
    """
    known: dict[str, Any] = {}
    try:
        known["reward"] = learner.value()
        if isinstance(policy, ArmPolicy):
            beliefs = learner._beliefs(None)
            best = int((beliefs.weights @ beliefs.expected).argmax())
            shares = beliefs.weights @ policy.probabilities(beliefs.contexts)
            known |= {
                "played": learner.value(policy),
                "gain": learner.value(against=best),
                "choice": arm_names(policy)[best],
                "shares": tuple(map(float, shares)),
            }
        elif isinstance(policy, PointPolicy):
            domain, place = policy.domain, np.asarray(learner.recommend(), dtype=np.float64)
            known["point"] = tuple(
                (name, domain.text(column, float(f"{place[column]:.4g}")))
                for column, name in enumerate(domain.names)
            )
    except InvalidInput:  # it keeps no beliefs with a known error, or people bring their own points
        if isinstance(policy, ArmPolicy):
            unit = _places(policy, None)
            known["shares"] = tuple(map(float, policy.chances(unit).mean(axis=0)))
    return Finding(policy.version, people, **known)


def arm_names(policy: ArmPolicy) -> Sequence[str]:
    """The arms of a policy by name, or by number where nobody named them."""
    return policy.arm_names or [f"arm {arm}" for arm in range(policy.arms)]


def parts_of(policy: ArmPolicy, column: int) -> list[Part]:
    """Who is given what along one column, with the others evenly over the domain."""
    domain = policy.domain
    levels = domain.levels[column]
    few = levels is not None and levels <= _MOST_LEVELS
    parts = []
    for place in range(levels if few and levels else _PARTS):
        unit = _places(policy, column)
        low, high = place / _PARTS, (place + 1) / _PARTS
        if few and levels:
            low = high = place / (levels - 1)
        unit[:, column] = low + (high - low) * (np.arange(_PLACES) + 0.5) / _PLACES
        if levels is not None and not few:
            unit[:, column] = np.round(unit[:, column] * (levels - 1)) / (levels - 1)
        ends = domain.from_unit(np.stack([unit.min(axis=0), unit.max(axis=0)]))[:, column]
        if levels is None:
            wide = domain.upper[column] - domain.lower[column]
            ends = domain.lower[column] + wide * np.array([low, high])
        first, last = (domain.text(column, float(f"{end:.3g}")) for end in ends)
        chances = policy.chances(unit).mean(axis=0)
        label = first if first == last else f"{first} to {last}"
        parts.append(Part(label, tuple(map(float, chances))))
    return parts


def _places(policy: ArmPolicy, shown: int | None) -> FloatArray:
    """(n, d) places in [0, 1]^d, evenly over the domain; the same ones at every call."""
    unit = np.random.default_rng(0).random((_PLACES, policy.domain.dimension))
    for column, levels in enumerate(policy.domain.levels):
        if levels is not None and column != shown:
            unit[:, column] = np.round(unit[:, column] * (levels - 1)) / (levels - 1)
    return unit
