"""Who takes part, and which two people are hardest to hide from each other.

| array | shape    | meaning                                                                 |
|-------|----------|-------------------------------------------------------------------------|
| where | (c, d)   | a person's points in [0, 1]^d: one is a context, several a decision set |
| table | (n, 997) | rewards in [0, 1], by person and by what was chosen                     |

Worst cases are at the ends: contexts in corners of the domain and in its middle, decision sets of
one corner, rewards at their bounds, and another arm than the policy chose, where that is allowed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import numpy as np

from discreet.action_space import ActionSpace, ArmPoints, DecisionSets, arm_count
from discreet.domain import Box, RewardBounds
from discreet.learners.messages import Actions
from discreet.validation import FloatArray, InvalidInput

# Rewards are looked up by a hash of what was chosen; a prime, so that neighbours differ.
_CHOICES = 997
_GRID = 2.0**20


@dataclass(frozen=True)
class Person:
    """What is private about one person.

    Attributes:
        where: points of [0, 1]^d (see the module).
        reward: in [0, 1].
        arm: that they report instead of the one the policy chose; None for that one.
    """

    where: tuple[tuple[float, ...], ...]
    reward: float
    arm: int | None = None

    def __str__(self) -> str:
        points = " ".join(f"({', '.join(f'{x:g}' for x in point)})" for point in self.where)
        arm = "" if self.arm is None else f", arm {self.arm}"
        return f"{points}{arm}, reward {self.reward:g}".removeprefix(", ").strip()


Pair = tuple[Person, Person]


class People(ABC):
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
    def pairs(self) -> list[Pair]:
        """Neighbours to choose from, the likeliest worst case first."""

    def unit(self, rng: np.random.Generator, *shape: int) -> FloatArray:
        """Points (*shape, d) of the unit cube, on levels where the domain has them."""
        drawn = rng.random((*shape, self.domain.dimension))
        for column, count in enumerate(self.domain.levels):
            if count is not None:
                drawn[..., column] = np.rint(drawn[..., column] * (count - 1)) / (count - 1)
        return drawn

    def corners(self) -> list[tuple[float, ...]]:
        """The two opposite corners and the middle (the level next to it) of the unit cube."""
        middle = tuple(
            0.5 if count is None else round(0.5 * (count - 1)) / (count - 1)
            for count in self.domain.levels
        )
        low, high = (0.0,) * self.domain.dimension, (1.0,) * self.domain.dimension
        return list(dict.fromkeys([low, high, middle]))

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
        """Rewards in [0, 1] in their declared units."""
        return self.bounds.clip(
            self.bounds.lower + rewards * (self.bounds.upper - self.bounds.lower)
        )

    def acted(self, actions: Actions, person: Person, place: int) -> Actions:
        """The actions with the person's own arm, where they report another one."""
        if person.arm is None:
            return actions
        arms = actions.arms.copy()
        arms[place] = person.arm
        return Actions(arms, actions.tickets, actions.policy, actions.points)


class ContextPeople(People):
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

    def pairs(self) -> list[Pair]:
        low, high, *rest = self.corners()
        ends = [Person((at,), reward) for at in (low, high, *rest) for reward in (1.0, 0.0)]
        arms = arm_count(self.space) or 2
        others = [
            (Person((low,), 1.0, 0), Person((high,), 0.0, arms - 1)),
            (Person((low,), 1.0, 0), Person((low,), 0.0, 0)),
            (Person((high,), 1.0, 0), Person((high,), 1.0, arms - 1)),
        ]
        return [*combinations(ends, 2), *others]


class SetPeople(People):
    """Everybody brings a decision set, and gets one of its points."""

    @property
    def _size(self) -> int:
        assert isinstance(self.space, DecisionSets)
        return min(self.space.most, 3)

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

    def pairs(self) -> list[Pair]:
        low, high, *rest = self.corners()
        near = tuple(0.5 * (a + b) for a, b in zip(low, (rest or [high])[0], strict=True))
        sets: list[tuple[tuple[float, ...], ...]] = [(low,), (high,), (near,), (low, high)]
        sets = [one for one in sets if len(one) <= self._size]
        return list(combinations([Person(*one) for one in product(sets, (1.0, 0.0))], 2))


class PublicPeople(People):
    """Nobody brings anything: only the reward is theirs."""

    def crowd(self, people: int, rng: np.random.Generator) -> int:
        return people

    def part(self, contexts: int, start: int, stop: int) -> int:
        return stop - start

    def with_person(self, contexts: int, place: int, person: Person) -> int:
        return contexts

    def many(self, person: Person, count: int) -> int:
        return count

    def pairs(self) -> list[Pair]:
        return [(Person((), 1.0), Person((), 0.0)), (Person((), 1.0), Person((), 0.5))]


def people_for(domain: Box, space: ActionSpace, bounds: RewardBounds) -> People:
    """People who can take part where this is offered."""
    if isinstance(space, DecisionSets):
        return SetPeople(domain, space, bounds)
    if isinstance(space, int | np.integer | ArmPoints):
        return ContextPeople(domain, space, bounds)
    return PublicPeople(domain, space, bounds)


def places(people: int) -> Sequence[int]:
    """Where the person may stand: at the start, in the middle, at the end."""
    if people < 1:
        raise InvalidInput(f"people was {people}; a run needs at least one.")
    return sorted({0, people // 2, people - 1})
