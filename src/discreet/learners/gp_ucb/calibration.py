"""Noise, release times and posterior of the two GP-UCB learners.

`PosteriorBonus` is the default: geometric epochs, the Gram matrix with its noise taken off, a
Gaussian posterior and a bonus of some of its deviations. Calibrations with a proved width live with
the reproduction of their paper. Only `weights`, `mechanism` and `noise_multiplier`
touch privacy, and releases record what they give; the rest is post-processing.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from discreet.codec import Range
from discreet.gaussian import Posterior
from discreet.learners.base import Calibration
from discreet.learners.gp_ucb.policy import RowWeights
from discreet.learners.gp_ucb.posterior import (
    MOST_REWARD_VARIANCE,
    UNIFORM_VARIANCE,
    GramAxes,
    NoisyStatistics,
    gram_posterior,
)
from discreet.privacy import Budget
from discreet.privacy.prefix_sums import (
    MECHANISMS,
    GeometricEpochs,
    PrefixMechanism,
    SeparateEpochs,
)
from discreet.validation import FloatArray, InvalidInput

DecisionRule = Literal["ucb", "thompson", "matching"]
MechanismName = Literal["geometric_epochs", "buffered_toeplitz", "binary_tree"]
# Growth of epochs and of updates: with decision sets, and on public points.
_SETS, _UPDATES, _PUBLIC = 1.1, 1.02, 1.5
# The first epoch on public points measures each place's mean to about this deviation.
_FIRST_DEVIATION = 0.12


class KernelCalibration(Calibration):
    """How a GP-UCB learner adds noise, releases and infers.

    Attributes:
        weights: the weights of the parts of a row.
        smoothness: of f, beyond that of the kernel's Gaussian process (posterior.py).
        confidence_multiplier: number of deviations added to the mean on public points.
    """

    weights: RowWeights
    smoothness: float = 0.0
    confidence_multiplier: float = 1.0

    @abstractmethod
    def noise_multiplier(self, budget: Budget, features: int) -> float:
        """scale / sensitivity of the whole stream (joint) or of one report (local)."""

    @abstractmethod
    def mechanism(
        self, reward_noise: float, horizon: int | None, places: float | None
    ) -> PrefixMechanism:
        """When releases happen and how their noise is correlated.

        Args:
            reward_noise: standard deviation of the noise on u if all were released at once.
            horizon: number of people, if known.
            places: number of public points with rewards of their own; None for decision sets.
        """

    @abstractmethod
    def next_update(self, people: int, public: bool) -> int:
        """Number of people at the next update, where updates cost nothing (local reports)."""

    @abstractmethod
    def posterior(
        self, gram: FloatArray, rewards: FloatArray, sums: NoisyStatistics, axes: GramAxes
    ) -> tuple[Posterior, float]:
        """The posterior of theta, and the number of deviations to add to the mean."""

    @abstractmethod
    def decision(self, public: bool) -> DecisionRule:
        """The rule by which actions are chosen from the posterior."""


@dataclass(frozen=True)
class PosteriorBonus(KernelCalibration):
    """The default: the Gaussian posterior of posterior.py.

    Attributes:
        mechanism_name: `geometric_epochs`, or a prefix sum: `buffered_toeplitz`, `binary_tree`.
        growth: of people from one release to the next, for epochs; None for 1.1 with decision
            sets, and 1.5 on public points, where each epoch is released alone.
        every: people between releases, for prefix sums.
        update_growth: of people from one update to the next where updates cost nothing; None for
            1.02 with decision sets, and 1.5 on public points.
        reward_weight: c, how much of the budget goes to rewards (sets/policy.py).
        choose: `ucb`, `thompson` or `matching`; None for `matching`.
        confidence_multiplier: number of posterior deviations added to the mean.
        prior_variance: of f(x) on the scale of rewards in [0, 1].
        smoothness: of f, beyond that of the kernel's Gaussian process (posterior.py).
    """

    name: ClassVar[str] = "posterior"

    mechanism_name: MechanismName = "geometric_epochs"
    growth: Annotated[float, Range(above=1.0)] | None = None
    every: Annotated[int, Range(1)] = 1
    update_growth: Annotated[float, Range(above=1.0)] | None = None
    reward_weight: Annotated[float, Range(above=0.0)] = 2.0
    choose: DecisionRule | None = None
    confidence_multiplier: Annotated[float, Range(0.0)] = 0.25
    prior_variance: Annotated[float, Range(above=0.0)] = UNIFORM_VARIANCE
    smoothness: Annotated[float, Range(0.0)] = 0.0

    @property
    def weights(self) -> RowWeights:  # type: ignore[override]
        """The weights of the parts of a row."""
        return RowWeights(rewards=self.reward_weight)

    def noise_multiplier(self, budget: Budget, features: int) -> float:
        return budget.noise_multiplier

    def mechanism(
        self, reward_noise: float, horizon: int | None, places: float | None
    ) -> PrefixMechanism:
        if self.mechanism_name == GeometricEpochs.name:
            if places is not None:
                # The number of people at one place that measure its mean. If the horizon is known
                # and long enough, every place gets them before the first release.
                first = max(1, math.ceil(reward_noise / _FIRST_DEVIATION))
                if horizon is not None:
                    first = min(math.ceil(places * first), max(1, horizon // 8))
                return SeparateEpochs(self.growth or _PUBLIC, min(first, 2**40), horizon)
            # Before this many people the noise is larger than their rewards' variation.
            first = max(1, math.ceil(2.0 * reward_noise / math.sqrt(MOST_REWARD_VARIANCE)))
            if horizon is not None:
                first = min(first, max(1, horizon // 8))
            return GeometricEpochs(self.growth or _SETS, min(first, 2**40), horizon)
        kind: Any = MECHANISMS[self.mechanism_name]
        if horizon is None:
            raise InvalidInput(
                f"horizon was None with mechanism_name = {self.mechanism_name!r}; a prefix sum is "
                "made for a number of people: give the horizon, or use geometric_epochs."
            )
        mechanism: PrefixMechanism = kind(rows=-(-horizon // self.every), every=self.every)
        return mechanism

    def next_update(self, people: int, public: bool) -> int:
        growth = self.update_growth or (_PUBLIC if public else _UPDATES)
        return max(people + 1, math.ceil(growth * people))

    def decision(self, public: bool) -> DecisionRule:
        return self.choose or "matching"

    def posterior(
        self, gram: FloatArray, rewards: FloatArray, sums: NoisyStatistics, axes: GramAxes
    ) -> tuple[Posterior, float]:
        believed = gram_posterior(gram, rewards, sums, axes, self.prior_variance)
        return believed, self.confidence_multiplier
