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

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np

from discreet.action_space import ActionSpace, ArmPoints, DecisionSets, arm_count
from discreet.audit.exact import Claim
from discreet.domain import Box, RewardBounds
from discreet.learners.base import Learner
from discreet.learners.messages import Actions
from discreet.learners.registry import make_learner
from discreet.learners.terms import Terms
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
        arm: that they report instead of the one the policy chose; None for that one.
    """

    where: tuple[Point, ...]
    reward: float
    arm: int | None = None

    def __str__(self) -> str:
        points = " ".join(f"({', '.join(f'{x:.4g}' for x in point)})" for point in self.where)
        arm = "" if self.arm is None else f", arm {self.arm}"
        return f"{points}{arm}, reward {self.reward:.4g}".removeprefix(", ").strip()


class Population(ABC):
    """People for one action space.

    Attributes:
        domain: the public bounds of contexts or points.
        space: what can be chosen.
        bounds: of rewards.
    """

    def __init__(self, domain: Box, space: ActionSpace, bounds: RewardBounds) -> None:
        self.domain = domain
        self.space = space
        self.bounds = bounds

    @abstractmethod
    def crowd(self, people: int, rng: np.random.Generator) -> Any:
        """Contexts of so many ordinary people."""

    @abstractmethod
    def part(self, contexts: Any, start: int, stop: int) -> Any:
        """The contexts of some of them."""

    @abstractmethod
    def with_person(self, contexts: Any, place: int, person: Person) -> Any:
        """The same people with one of them replaced."""

    @abstractmethod
    def many(self, person: Person, count: int) -> Any:
        """The contexts of so many copies of a person."""

    @abstractmethod
    def wheres(self, rng: np.random.Generator) -> list[tuple[Point, ...]]:
        """What people may bring, extremes first."""

    def candidates(self, rng: np.random.Generator) -> list[Person]:
        """People to compare, the likeliest extremes first."""
        return [Person(where, reward) for where in self.wheres(rng) for reward in (1.0, 0.0)]

    def strays(self) -> list[Person]:
        """People with values outside all bounds, or none at all: a refusal would tell of them."""
        d = self.domain.dimension
        return [
            Person(((value,) * d,), reward)
            for value, reward in ((2.0, 1.0), (-7.0, 0.0), (float("nan"), 1.0), (0.5, float("nan")))
        ] + [Person(((0.0,) * d,), 3.0)]

    def inside(self, person: Person) -> Person:
        """The person with every point moved inside the domain; the same if it was."""
        points = tuple(
            tuple(self.snapped(np.nan_to_num(np.array(point), nan=0.5))) for point in person.where
        )
        return replace(person, where=points)

    def near(self, person: Person, rng: np.random.Generator) -> Person:
        """Somebody like that person."""
        moved = tuple(
            tuple(self.snapped(np.array(point) + _STEP * rng.standard_normal(len(point))))
            for point in person.where
        )
        reward = float(rng.choice([0.0, 1.0, rng.random()]))
        return replace(person, where=moved, reward=reward)

    def snapped(self, points: FloatArray) -> list[float]:
        """A point (d,) inside the unit cube, on levels where the domain has them."""
        inside = np.clip(points, 0.0, 1.0)
        for column, count in enumerate(self.domain.levels):
            if count is not None:
                inside[column] = np.rint(inside[column] * (count - 1)) / (count - 1)
        levels: list[float] = inside.tolist()
        return levels

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
        random = [tuple(point) for point in self.unit(rng, _RANDOM).tolist()]
        points = [*corners, middle, *edges, *random]
        return list(dict.fromkeys(tuple(self.snapped(np.array(point))) for point in points))

    def rewards(self, table: FloatArray, actions: Actions) -> FloatArray:
        """(n,) rewards, in their units, of people with rows `table` (n, 997) for their actions."""
        code = actions.arms.astype(np.int64) % _CHOICES
        if actions.points is not None:
            whole = np.rint(np.asarray(actions.points) * _GRID).astype(np.int64)
            code = (code + whole @ np.arange(1, whole.shape[1] + 1)) % _CHOICES
        return self.in_units(table[np.arange(len(code)), code])

    def table(self, people: int, rng: np.random.Generator) -> FloatArray:
        """(n, 997) what every choice would give people."""
        drawn: FloatArray = rng.random((people, _CHOICES))
        return drawn

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


class ContextPeople(Population):
    """Everybody brings a context, and gets one of K arms."""

    def crowd(self, people: int, rng: np.random.Generator) -> FloatArray:
        return self.domain.from_unit(self.unit(rng, people))

    def part(self, contexts: FloatArray, start: int, stop: int) -> FloatArray:
        return contexts[start:stop]

    def with_person(self, contexts: FloatArray, place: int, person: Person) -> FloatArray:
        replaced = contexts.copy()
        replaced[place] = self.domain.from_unit(np.array(person.where))[0]
        return replaced

    def many(self, person: Person, count: int) -> FloatArray:
        return np.repeat(self.domain.from_unit(np.array(person.where)), count, axis=0)

    def wheres(self, rng: np.random.Generator) -> list[tuple[Point, ...]]:
        return [(point,) for point in self.points(rng)]

    def with_arms(self, rng: np.random.Generator) -> list[Person]:
        """People with any arm, where the arm was not chosen by a policy."""
        arms = range(arm_count(self.space) or 2)
        return [
            replace(person, arm=arm)
            for person in self.candidates(rng)[:: len(arms)]
            for arm in arms
        ]


class SetPeople(Population):
    """Everybody brings a decision set, and gets one of its points."""

    @property
    def _size(self) -> int:
        assert isinstance(self.space, DecisionSets)
        return min(self.space.most, _WIDEST)

    def crowd(self, people: int, rng: np.random.Generator) -> list[FloatArray]:
        return list(self.domain.from_unit(self.unit(rng, people, self._size)))

    def part(self, contexts: list[FloatArray], start: int, stop: int) -> list[FloatArray]:
        return contexts[start:stop]

    def with_person(
        self, contexts: list[FloatArray], place: int, person: Person
    ) -> list[FloatArray]:
        mine = self.domain.from_unit(np.array(person.where))
        return [*contexts[:place], mine, *contexts[place + 1 :]]

    def many(self, person: Person, count: int) -> FloatArray:
        return np.repeat(self.domain.from_unit(np.array(person.where))[None], count, axis=0)

    def wheres(self, rng: np.random.Generator) -> list[tuple[Point, ...]]:
        points = self.points(rng)
        wide = (points * self._size)[: self._size]
        random = [tuple(map(tuple, row)) for row in self.unit(rng, 2, self._size).tolist()]
        return [
            *((point,) for point in points),
            tuple(points[:2][: self._size]),
            tuple(wide),
            *random,
        ]


class PublicPeople(Population):
    """Nobody brings anything: only the reward is theirs."""

    def crowd(self, people: int, rng: np.random.Generator) -> int:
        return people

    def part(self, contexts: int, start: int, stop: int) -> int:
        return stop - start

    def with_person(self, contexts: int, place: int, person: Person) -> int:
        return contexts

    def many(self, person: Person, count: int) -> int:
        return count

    def wheres(self, rng: np.random.Generator) -> list[tuple[Point, ...]]:
        return [()]

    def strays(self) -> list[Person]:
        return [Person((), reward) for reward in (3.0, -2.0, float("nan"))]

    def candidates(self, rng: np.random.Generator) -> list[Person]:
        return [Person((), reward) for reward in (1.0, 0.0, 0.5, float(rng.random()))]


def people_for(domain: Box, space: ActionSpace, bounds: RewardBounds) -> Population:
    """People who can take part where this is offered."""
    if isinstance(space, DecisionSets):
        return SetPeople(domain, space, bounds)
    if isinstance(space, int | np.integer | ArmPoints):
        return ContextPeople(domain, space, bounds)
    return PublicPeople(domain, space, bounds)


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
        return Terms(self.domain, self.space, share * asked.epsilon, self.bounds, asked.delta)

    def crowd(self) -> Population:
        """People who can take part."""
        return people_for(self.domain, self.space, self.bounds)
