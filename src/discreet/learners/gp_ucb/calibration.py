"""Noise, release times and posterior of a kernel learner.

`PosteriorBonus` is the default: geometric epochs, the Gram matrix with its noise taken off, a
Gaussian posterior and a bonus of some of its deviations. Calibrations with a proved width live with
the reproduction of their paper. Only `weights`, `mechanism` and `noise_multiplier`
touch privacy, and what they give is what the releases record; the rest is post-processing.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from discreet.codec import CheckedBy, Coded, Range
from discreet.learners.calibration import Calibration
from discreet.learners.gp_ucb.offers import Decision
from discreet.learners.gp_ucb.posterior import (
    MOST_REWARD_VARIANCE,
    UNIFORM_VARIANCE,
    GaussianPosterior,
    GramAxes,
    NoisySums,
    gram_posterior,
)
from discreet.privacy import Budget
from discreet.privacy.prefix_sums import (
    MECHANISMS,
    Doubling,
    FadingEpochs,
    GeometricEpochs,
    PrefixMechanism,
    SeparateEpochs,
)
from discreet.validation import FloatArray, InvalidInput

SYMMETRIC = math.sqrt(2.0)
# Growth of epochs and of updates: with decision sets, and on public points.
_SETS, _UPDATES, _PUBLIC = 1.1, 1.02, 1.5
# The first people on public points tell each place's mean to about this deviation.
_FIRST_DEVIATION = 0.12


@dataclass(frozen=True)
class RowWeights(Coded):
    """The weights of the parts of a row, and the range of centred rewards.

    Attributes:
        rewards: c, the weight of y phi.
        off_diagonal: w, the weight of phi_i phi_j for i < j; at most sqrt 2.
        centre: what is subtracted from rewards in [0, 1].
        with_squares: whether y^2 is released.
    """

    rewards: Annotated[float, Range(above=0.0)] = 2.0
    off_diagonal: Annotated[float, Range(above=0.0, high=SYMMETRIC)] = SYMMETRIC
    centre: Annotated[float, Range(0.0, 1.0)] = 0.5
    with_squares: bool = True

    @property
    def squares(self) -> float:
        """g, the weight of y^2."""
        return self.rewards / self.bound if self.with_squares else 0.0

    @property
    def bound(self) -> float:
        """b, the largest |y|."""
        return max(self.centre, 1.0 - self.centre)


def _prefix_sum(name: str) -> str:
    """Refuse those that grow without a horizon by themselves, forget (`drift`), or are read once
    only."""
    others = Doubling.name, FadingEpochs.name, "independent"
    known = [known for known in MECHANISMS if known not in others]
    if name not in known:
        raise InvalidInput(f"mechanism_name was {name!r}; it must be one of {known}.")
    return name


class KernelCalibration(Calibration):
    """What a kernel learner leaves open.

    Attributes:
        weights: what each part of a row counts.
        smoothness: of f, beyond that of the kernel's Gaussian process (posterior.py).
        confidence_multiplier: how many deviations are added to the mean on public points.
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
            horizon: how many people are expected.
            places: about how many public points have rewards of their own; None with decision sets.
        """

    @abstractmethod
    def next_update(self, people: int, public: bool) -> int:
        """Where releases cost nothing (local reports), the people at the next update."""

    @abstractmethod
    def posterior(
        self, gram: FloatArray, rewards: FloatArray, sums: NoisySums, axes: GramAxes
    ) -> tuple[GaussianPosterior, float]:
        """What is believed of theta, and how many of its deviations to add to the mean."""

    @abstractmethod
    def decision(self, public: bool) -> Decision:
        """How an action is chosen from the posterior."""


@dataclass(frozen=True)
class PosteriorBonus(KernelCalibration):
    """The Gaussian posterior of posterior.py.

    Attributes:
        mechanism_name: `geometric_epochs`, or a prefix sum: `buffered_toeplitz`, `binary_tree`.
        growth: of people from one release to the next, for epochs; None for 1.1 with decision
            sets, and 1.5 on public points, where each epoch is released alone.
        every: people between releases, for prefix sums.
        update_growth: of people from one update to the next where updates cost nothing; None for
            1.02 with decision sets, and 1.5 on public points.
        reward_weight: c, how much of the budget goes to rewards (decision_sets.py).
        choose: `ucb`, `thompson` or `matching`; None for `matching`.
        confidence_multiplier: how many posterior deviations are added to the mean.
        prior_variance: of f(x) on the scale of rewards in [0, 1].
        smoothness: of f, beyond that of the kernel's Gaussian process (posterior.py).
    """

    name: ClassVar[str] = "posterior"

    mechanism_name: Annotated[str, CheckedBy(_prefix_sum)] = "geometric_epochs"
    growth: Annotated[float, Range(above=1.0)] | None = None
    every: Annotated[int, Range(1)] = 1
    update_growth: Annotated[float, Range(above=1.0)] | None = None
    reward_weight: Annotated[float, Range(above=0.0)] = 2.0
    choose: Decision | None = None
    confidence_multiplier: Annotated[float, Range(0.0)] = 0.25
    prior_variance: Annotated[float, Range(above=0.0)] = UNIFORM_VARIANCE
    smoothness: Annotated[float, Range(0.0)] = 0.0

    @property
    def weights(self) -> RowWeights:  # type: ignore[override]
        """What each part of a row counts."""
        return RowWeights(rewards=self.reward_weight)

    def noise_multiplier(self, budget: Budget, features: int) -> float:
        return budget.noise_multiplier

    def mechanism(
        self, reward_noise: float, horizon: int | None, places: float | None
    ) -> PrefixMechanism:
        if self.mechanism_name == GeometricEpochs.name:
            if places is not None:
                # So many people at one place tell its mean; if it is known how many come, and they
                # are enough, every place can have them before the first release.
                first = max(1, math.ceil(reward_noise / _FIRST_DEVIATION))
                if horizon is not None:
                    first = min(math.ceil(places * first), max(1, horizon // 8))
                return SeparateEpochs(self.growth or _PUBLIC, min(first, 2**40), horizon)
            # Before this many people the noise is larger than what they could tell together.
            first = max(1, math.ceil(2.0 * reward_noise / math.sqrt(MOST_REWARD_VARIANCE)))
            if horizon is not None:
                first = min(first, max(1, horizon // 8))
            return GeometricEpochs(self.growth or _SETS, min(first, 2**40), horizon)
        kind: Any = MECHANISMS[self.mechanism_name]
        if horizon is None:
            return Doubling(kind=self.mechanism_name, first_rows=64, every=self.every)
        mechanism: PrefixMechanism = kind(rows=-(-horizon // self.every), every=self.every)
        return mechanism

    def next_update(self, people: int, public: bool) -> int:
        growth = self.update_growth or (_PUBLIC if public else _UPDATES)
        return max(people + 1, math.ceil(growth * people))

    def decision(self, public: bool) -> Decision:
        return self.choose or "matching"

    def posterior(
        self, gram: FloatArray, rewards: FloatArray, sums: NoisySums, axes: GramAxes
    ) -> tuple[GaussianPosterior, float]:
        believed = gram_posterior(gram, rewards, sums, axes, self.prior_variance)
        return believed, self.confidence_multiplier
