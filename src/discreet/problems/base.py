"""What a problem is: people, each with a context and the reward that every arm would give them.

| array    | shape  | meaning                                                              |
|----------|--------|----------------------------------------------------------------------|
| contexts | (n, d) | one row a person, in the units of the problem's domain               |
| rewards  | (n, K) | the reward person i would get from arm k (all potential outcomes)    |
| means    | (n, K) | f_k(x_i), where the problem knows it; None for real tables           |

Only a simulation sees all columns of `rewards`; a learner is shown the one for the arm chosen.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

import numpy as np

from discreet.domain import Box, RewardBounds
from discreet.validation import FloatArray, IntArray, InvalidInput

Metric = Literal["regret", "reward"]


@dataclass(frozen=True)
class People:
    """A sequence of people in the order in which they arrive (see the module's table)."""

    contexts: FloatArray
    rewards: FloatArray
    means: FloatArray | None = None

    def __len__(self) -> int:
        return len(self.contexts)

    def value(self, arms: IntArray, start: int = 0) -> FloatArray:
        """What each person from `start` on contributes to the metric, given their arm.

        The regret max_k f_k(x) - f_arm(x) where means are known, otherwise the reward received.
        """
        rows = np.arange(start, start + len(arms))
        if self.means is None:
            received: FloatArray = self.rewards[rows, arms].astype(np.float64)
            return received
        block = self.means[start : start + len(arms)]
        regret: FloatArray = block.max(axis=1) - block[np.arange(len(arms)), arms]
        return regret


class Problem(ABC):
    """Where contexts and rewards come from.

    Attributes:
        domain: the public bounds of a context.
        arm_names: one name for each of the K arms.
        reward_bounds: the public bounds of a reward.
        size: how many people there are, or None when any number can be drawn.
        source: one sentence that says where the data come from.
    """

    domain: Box
    arm_names: tuple[str, ...]
    reward_bounds: RewardBounds
    size: int | None
    source: str

    @property
    def arms(self) -> int:
        """The number of arms K."""
        return len(self.arm_names)

    @property
    @abstractmethod
    def metric(self) -> Metric:
        """`regret` where the mean rewards are known, otherwise `reward`."""

    @abstractmethod
    def sample(self, people: int, rng: np.random.Generator) -> People:
        """`people` persons in a random order; `InvalidInput` when there are not that many."""

    def check_size(self, people: int) -> None:
        """Refuse a number of people that the problem does not have."""
        if people < 1:
            raise InvalidInput(f"rounds was {people}; it must be at least 1.")
        if self.size is not None and people > self.size:
            raise InvalidInput(
                f"rounds was {people}, but this table has {self.size} people and each takes part "
                f"once; ask for {self.size} rounds or fewer."
            )
