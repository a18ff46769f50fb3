"""Who takes part, who is hard to hide from whom, and what learners are made of.

| array | shape    | meaning                                                                 |
|-------|----------|-------------------------------------------------------------------------|
| where | (c, d)   | a person's points in [0, 1]^d: one is a context, several a decision set |
| table | (n, 997) | rewards in [0, 1], by person and by what was chosen                     |

Any two people are neighbours, so a list of them is as many attacks as it has pairs. It holds the
likely extremes (corners, the middle, boundaries, rewards at their bounds, decision sets of one
point and of as many as are allowed), people at random, and, from `near`, those whom a search finds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np

from discreet.audit.exact import Claim
from discreet.learners.base import Learner
from discreet.learners.messages import Actions
from discreet.learners.registry import make_learner
from discreet.learners.terms import Terms
from discreet.people.domain import ActionSpace, Box, DecisionSets, RewardBounds, arm_count
from discreet.privacy import Budget, NoiseSource, SimulatedNoise
from discreet.validation import FloatArray

# Rewards are looked up by a hash of what was chosen; a prime, so that neighbours differ.
_CHOICES = 997
_GRID = 2.0**20
_RANDOM = 6
# Standard deviation of a step of the search, as a share of the domain.
_STEP = 0.15
# Decision sets of at most so many points are tried.
_WIDEST = 8

Point = tuple[float, ...]


@dataclass(frozen=True)
class Person:
    """What is private about one person.

    Attributes:
        where: points of [0, 1]^d (see the module).
        reward: in [0, 1].
        arm: that they report instead of the one the policy chose; None for that one, and NaN where
            it is missing.
    """

    where: tuple[Point, ...]
    reward: float
    arm: float | None = None

    def __str__(self) -> str:
        points = " ".join(f"({', '.join(f'{x:.4g}' for x in point)})" for point in self.where)
        arm = "" if self.arm is None else f", arm {self.arm}"
        return f"{points}{arm}, reward {self.reward:.4g}".removeprefix(", ").strip()


class Population:
    """People for one action space. What they bring is kept as points of the unit cube, (c, d) a
    person: a context where an arm is chosen (c = 1), a decision set, or nothing at all (c = 0).

    Attributes:
        domain: the public bounds of contexts or points.
        space: what can be chosen.
        bounds: of rewards.
        arms: how many there are to choose from; 0 where it is no matter of arms.
        size: how many points ordinary people bring.
    """

    def __init__(self, domain: Box, space: ActionSpace, bounds: RewardBounds) -> None:
        self.domain = domain
        self.space = space
        self.bounds = bounds
        self.arms = arm_count(space) or 0
        self.size = int(self.arms > 0)
        if isinstance(space, DecisionSets):
            self.size = min(space.most, _WIDEST)

    def crowd(self, people: int, rng: np.random.Generator) -> list[FloatArray]:
        """What so many ordinary people bring."""
        return list(self.unit(rng, people, self.size))

    def contexts(self, brought: Sequence[Any]) -> Any:
        """What people bring as a policy takes it."""
        if self.size == 0:
            return len(brought)
        if self.arms:
            return self.domain.from_unit(np.array(brought)[:, 0])
        return [self.domain.from_unit(np.array(points)) for points in brought]

    def candidates(self, rng: np.random.Generator) -> list[Person]:
        """People to compare, the likeliest extremes first."""
        if self.size == 0:
            return [Person((), reward) for reward in (1.0, 0.0, 0.5, float(rng.random()))]
        points = self.points(rng)
        wheres: list[tuple[Point, ...]] = [(point,) for point in points]
        if not self.arms:
            wide = (points * self.size)[: self.size]
            random = self.unit(rng, 2, self.size).tolist()
            wheres += [tuple(points[:2][: self.size]), tuple(wide)]
            wheres += [tuple(map(tuple, rows)) for rows in random]
        return [Person(where, reward) for where in wheres for reward in (1.0, 0.0)]

    def with_arms(self, rng: np.random.Generator) -> list[Person]:
        """People with any arm, where the arm was not chosen by a policy."""
        some = self.candidates(rng)[:: max(1, self.arms)]
        return [replace(person, arm=arm) for person in some for arm in range(self.arms)]

    def strays(self) -> list[Person]:
        """People with values outside all bounds, or none at all: a refusal would tell of them."""
        nan = float("nan")
        if self.size == 0:
            return [Person((), reward) for reward in (3.0, -2.0, nan)]
        values = ((2.0, 1.0), (-7.0, 0.0), (nan, 1.0), (0.5, nan), (0.0, 3.0))
        return [Person(((x,) * self.domain.dimension,), reward) for x, reward in values]

    def inside(self, person: Person) -> Person:
        """The person with every point moved inside the domain; the same if it was."""
        points = (np.nan_to_num(np.array(point), nan=0.5) for point in person.where)
        return replace(person, where=tuple(map(self.snapped, points)))

    def near(self, person: Person, rng: np.random.Generator) -> Person:
        """Somebody like that person."""
        moved = tuple(
            self.snapped(np.array(point) + _STEP * rng.standard_normal(len(point)))
            for point in person.where
        )
        reward = float(rng.choice([0.0, 1.0, rng.random()]))
        return replace(person, where=moved, reward=reward)

    def snapped(self, point: FloatArray) -> Point:
        """A point (d,) inside the unit cube, on levels where the domain has them."""
        inside = np.clip(point, 0.0, 1.0)
        for column, count in enumerate(self.domain.levels):
            if count is not None:
                inside[column] = np.rint(inside[column] * (count - 1)) / (count - 1)
        return tuple(inside.tolist())

    def unit(self, rng: np.random.Generator, *shape: int) -> FloatArray:
        """Points (*shape, d) of the unit cube, on levels where the domain has them."""
        drawn = rng.random((*shape, self.domain.dimension))
        flat = drawn.reshape(-1, self.domain.dimension)
        return np.array([self.snapped(point) for point in flat]).reshape(drawn.shape)

    def points(self, rng: np.random.Generator) -> list[Point]:
        """Corners, the middle, boundaries on either side, and random points of the unit cube."""
        d = self.domain.dimension
        corners = [(0.0,) * d, (1.0,) * d]
        if d <= 3:
            corners += list(product((0.0, 1.0), repeat=d))
        middle = (0.5,) * d
        edges = [(0.5, *(0.0,) * (d - 1)), (np.nextafter(0.5, 0.0), *(0.5,) * (d - 1)), (0.25,) * d]
        random = self.unit(rng, _RANDOM).tolist()
        points = [*corners, middle, *edges, *random]
        return list(dict.fromkeys(self.snapped(np.array(point)) for point in points))

    def table(self, people: int, rng: np.random.Generator) -> FloatArray:
        """(n, 997) what every choice would give people."""
        drawn: FloatArray = rng.random((people, _CHOICES))
        return drawn

    def rewards(self, table: FloatArray, actions: Actions) -> FloatArray:
        """(n,) rewards, in their units, of people with rows `table` (n, 997) for their actions."""
        code = actions.arms.astype(np.int64) % _CHOICES
        if actions.points is not None:
            whole = np.rint(np.asarray(actions.points) * _GRID).astype(np.int64)
            code = (code + whole @ np.arange(1, whole.shape[1] + 1)) % _CHOICES
        return self.in_units(table[np.arange(len(code)), code])

    def in_units(self, rewards: FloatArray) -> FloatArray:
        """Rewards in [0, 1] in their declared units; others stay outside the bounds."""
        width = self.bounds.upper - self.bounds.lower
        scaled: FloatArray = self.bounds.lower + rewards * width
        inside = (rewards >= 0.0) & (rewards <= 1.0)
        return np.where(inside, self.bounds.clip(scaled), scaled)

    def acted(self, actions: Actions, person: Person, place: int) -> Actions:
        """The actions with the person's own arm, where they report another one."""
        if person.arm is None:
            return actions
        arms = actions.arms.copy()
        arms[place] = person.arm
        return replace(actions, arms=arms)


@dataclass(frozen=True)
class Maker:
    """What a learner is made of as an audit makes it: small, with noise that can be played back.

    Attributes:
        learner: its registered name.
        domain: the public bounds of contexts or points.
        space: what can be chosen.
        budget: asked for.
        people: how many take part in a run.
        options: as in a study file.
        bounds: of rewards.
        public_seed: of the learner.
        horizon: what the learner is told; `people` if left out.
    """

    learner: str
    domain: Box
    space: ActionSpace
    budget: Budget
    people: int
    options: Mapping[str, Any] = field(default_factory=dict)
    bounds: RewardBounds = field(default_factory=RewardBounds)
    public_seed: int = 11
    horizon: int | None = None

    def make(self, noise: NoiseSource | None = None) -> Learner[Any, Any, Any]:
        """A new learner.

        Args:
            noise: under joint privacy; simulated if left out.

        Raises:
            InvalidInput: if the learner does not take these settings.
        """
        return make_learner(
            self.learner,
            self.domain,
            self.space,
            self.budget,
            options=self.options,
            horizon=self.horizon or self.people,
            reward_bounds=self.bounds,
            public_seed=self.public_seed,
            noise=(noise or SimulatedNoise(0)) if self.budget.protects_releases else None,
        )

    def asked(self, source: bool = False) -> Claim:
        """The budget of one person; reports of an auxiliary `source` are pure."""
        return Claim(self.budget.epsilon, 0.0 if source else self.budget.delta)

    def terms(self, source: bool = False, share: float = 1.0) -> Terms:
        """What a person's side agrees to: this learner, at that share of its epsilon."""
        asked = self.asked(source)
        epsilon, visits = share * asked.epsilon, 1 if source else self.budget.visits
        return Terms(self.domain, self.space, epsilon, self.bounds, asked.delta, visits)

    def crowd(self) -> Population:
        """People who can take part."""
        return Population(self.domain, self.space, self.bounds)
