"""Problems: people, each with a context and the reward of every action.

| array    | shape     | meaning                                                           |
|----------|-----------|-------------------------------------------------------------------|
| contexts | (n, d)    | one row a person, in the units of the problem's domain            |
|          | (n, c, d) | decision sets: c points of the domain for each person             |
|          | (n, 0)    | nothing, where all people have the same points                    |
| rewards  | (n, K)    | the reward of arm (or candidate) k for person i                   |
| means    | (n, K)    | f_k(x_i), where the problem knows it; None for real tables        |

Only a simulation sees all columns of `rewards`; a learner observes that of the action chosen.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, TypeVar

import numpy as np

from discreet.people.domain import (
    ActionSpace,
    ArmPoints,
    Box,
    DecisionSets,
    PublicSet,
    RewardBounds,
    arm_count,
)
from discreet.validation import FloatArray, IntArray, InvalidInput

if TYPE_CHECKING:
    from discreet.people.tables import RowCounts

Metric = Literal["regret", "reward"]

MOST_PEOPLE = 10_000_000_000
"""The largest study of synthetic people; more than are alive."""
_SHOWN = 8  # names of arms in a sentence


class Chosen(Protocol):
    """The actions of n people, as learners return them, with the policy that chose them."""

    @property
    def arms(self) -> IntArray: ...
    @property
    def policy(self) -> Any: ...
    @property
    def points(self) -> FloatArray | None: ...
    def __getitem__(self, people: IntArray) -> Self: ...


Choices = TypeVar("Choices", bound=Chosen)


class Population(ABC):
    """A sequence of people in the order in which they arrive.

    Attributes:
        contexts: see the module's table.
        ids: (n,) the person of each row; None where each person comes once.
    """

    contexts: FloatArray
    ids: IntArray | None = None

    def __len__(self) -> int:
        return len(self.contexts)

    def served(
        self, start: int, stop: int, act: Callable[[FloatArray], Choices]
    ) -> tuple[FloatArray, Choices]:
        """The contexts and actions of the people from `start` to `stop`, or of the first of them.

        `act` chooses for each row once. Logged decisions are accepted or skipped here.
        """
        contexts = self.contexts[start:stop]
        return contexts, act(contexts)

    @abstractmethod
    def received(self, actions: Chosen, start: int) -> FloatArray:
        """The rewards of the people from `start` on, given their actions."""

    @abstractmethod
    def value(self, actions: Chosen, start: int) -> FloatArray:
        """(n,) contributions to the metric of the people from `start` on, given their actions.

        The regret max f - f(action) where means are known, otherwise the reward received.
        """

    @abstractmethod
    def best_fixed(self) -> FloatArray:
        """(n,) contributions under the one action that is best for everyone together."""

    @abstractmethod
    def oracle(self) -> FloatArray:
        """(n,) contributions under the best action for each person."""

    def remarks(self, values: FloatArray) -> tuple[str, ...]:
        """Remarks on a run with these contributions (n,), each one sentence."""
        return ()

    @abstractmethod
    def earned(self, chosen: IntArray | FloatArray) -> float:
        """The mean reward of all people under these arms (n,) or this point (d,), without noise
        where means are known."""


@dataclass(frozen=True, eq=False)
class People(Population):
    """People whose rewards under every arm (or candidate) are tabulated."""

    contexts: FloatArray
    rewards: FloatArray
    means: FloatArray | None = None
    ids: IntArray | None = None

    @classmethod
    def bernoulli(cls, contexts: FloatArray, means: FloatArray, rng: np.random.Generator) -> People:
        """People with rewards of 0 and 1 whose means (n, K) are known."""
        return cls(contexts, (rng.random(means.shape) < means).astype(np.float64), means)

    def received(self, actions: Chosen, start: int) -> FloatArray:
        rows = np.arange(start, start + len(actions.arms))
        return self.rewards[rows, actions.arms].astype(np.float64)

    def value(self, actions: Chosen, start: int) -> FloatArray:
        return self.value_of(actions.arms, start)

    def value_of(self, arms: IntArray, start: int = 0) -> FloatArray:
        """(n,) contributions of the people from `start` on, given their arms."""
        rows = np.arange(start, start + len(arms))
        if self.means is None:
            received: FloatArray = self.rewards[rows, arms].astype(np.float64)
            return received
        block = self.means[start : start + len(arms)]
        regret: FloatArray = block.max(axis=1) - block[np.arange(len(arms)), arms]
        return regret

    def earned(self, chosen: IntArray | FloatArray) -> float:
        values = self.rewards if self.means is None else self.means
        return float(values[np.arange(len(self)), chosen.astype(np.int64)].mean())

    def best_fixed(self) -> FloatArray:
        if self.contexts.ndim != 2:
            raise InvalidInput(
                "best_fixed was asked for, but every person brings other points here; remove it."
            )
        totals = (self.rewards if self.means is None else self.means).sum(axis=0)
        return self.value_of(np.full(len(self), int(totals.argmax())))

    def oracle(self) -> FloatArray:
        if self.means is not None:
            return self.value_of(self.means.argmax(axis=1))
        _, group = np.unique(self.contexts, axis=0, return_inverse=True)
        group = group.reshape(-1)
        totals = np.zeros((int(group.max()) + 1, self.rewards.shape[1]))
        np.add.at(totals, group, self.rewards)
        return self.value_of(totals.argmax(axis=1)[group])


def exposure_of(table: str) -> str:
    """The notice on results about private people."""
    return (
        f"Every number, figure and map here is computed from the people of {table} without noise, "
        "and no epsilon covers that. Show it only to readers who may see these data."
    )


class Problem(ABC):
    """Where contexts and rewards come from.

    Attributes:
        domain: the public bounds of a context, or of a point where actions are points.
        arm_names: one name for each of the K arms; () where actions are points.
        reward_bounds: the public bounds of a reward.
        size: how many people there are, or None when any number can be drawn.
        source: one sentence on the origin of the data.
        rows: the counts of a table's rows; None where nothing is read.
        warnings: about data that can be used, each one sentence.
        files: the user's files that were read.
        tables: the digest of each table that was given in memory.
        ids: the person of each row; None where each person comes once.
    """

    rows: RowCounts | None = None
    warnings: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    tables: tuple[str, ...] = ()
    domain: Box
    arm_names: tuple[str, ...] = ()
    reward_bounds: RewardBounds = RewardBounds(0.0, 1.0)
    size: int | None = None
    source: str
    ids: IntArray | None = None
    _space: ActionSpace | None = None

    @property
    def arms(self) -> int:
        """The number of arms K."""
        return len(self.arm_names)

    @property
    def space(self) -> ActionSpace:
        """The actions: one of K arms by default."""
        return self.arms if self._space is None else self._space

    @property
    def offer(self) -> str:
        """The actions, in words."""
        space = self.space
        arms = arm_count(space)
        if isinstance(space, ArmPoints):
            low, high, columns = space.array.min(), space.array.max(), space.array.shape[1]
            where = f"of {columns} columns" if columns > 1 else f"from {low:g} to {high:g}"
            return f"{arms} arms, which are points {where}"
        if arms is not None:
            names = ", ".join(self.arm_names[:_SHOWN])
            more = f" and {arms - _SHOWN} more" if arms > _SHOWN else ""
            return f"{arms} arms: {names}{more}"
        if isinstance(space, DecisionSets):
            return f"every person brings up to {space.most} points of their own"
        if isinstance(space, PublicSet):
            return f"everyone can be given the same {len(space.points):,} points"
        return f"everyone can be given any point of a box with {self.domain.dimension} columns"

    @property
    def exposure(self) -> str:
        """The notice that results are not private; "" for public tables and synthetic people."""
        if not self.files and not self.tables:
            return ""
        return exposure_of(" and ".join(path.name for path in self.files) or "the table given")

    def check_reference(self, name: str) -> None:
        """`InvalidInput` where a reference (`best_fixed` or `oracle`) is not known here."""
        return

    @property
    def metric(self) -> Metric:
        """`regret` where the mean rewards are known, otherwise `reward`."""
        return "regret"

    @abstractmethod
    def sample(self, people: int, rng: np.random.Generator) -> Population:
        """A `Population` of `people` persons in a random order; `InvalidInput` if there are not."""

    def check_size(self, people: int) -> None:
        """Reject a number of people that the problem does not have."""
        if people < 1:
            raise InvalidInput(f"rounds was {people}; it must be at least 1.")
        if self.size is None and people > MOST_PEOPLE:
            raise InvalidInput(
                f"rounds was {people:.3g}, which is more people than are alive; it must be at most "
                f"{MOST_PEOPLE:,}. Ask for fewer."
            )
        if self.size is not None and people > self.size:
            raise InvalidInput(
                f"rounds was {people}, but this table has "
                f"{'1 person' if self.size == 1 else f'{self.size} people'} and each takes part "
                "once; ask for no more rounds than that."
            )

    @property
    def visits(self) -> IntArray | None:
        """(people,) how often each person comes, where some come more than once."""
        return None if self.ids is None else np.unique(self.ids, return_counts=True)[1]
