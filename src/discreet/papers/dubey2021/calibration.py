"""The noise, shift and width of Dubey (2021), for `GPUCB(..., calibration=...)`.

What is theirs stays as printed, except where the print contradicts itself; what it guarantees is
derived like everything else. The paper's alpha and beta are called epsilon and delta.

| symbol      | meaning                                                                  |
|-------------|--------------------------------------------------------------------------|
| B           | bound on |f|, and on rewards that are bounded: 1                         |
| T, n        | rounds, and nodes over one leaf of the tree: n = 1 + ceil(log2 T)        |
| m           | number of features                                                       |
| zeta        | failure probability of the confidence width                              |
| rho^2       | variance of a reward about its mean, at most 1/4 (section 6.1)           |

Rewards are in [0, 1] and are not centred. They are bounded, so the terms 2 rho^2 log(8 T / delta)
of Lemma 2 and 2 ln(8 m / delta) of Lemma 5 are left out, as in section 6.1. The term of Theorem 1
for the error of the features is left out too: the paper chooses it as T^-6.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from discreet.codec import Range
from discreet.gaussian import Posterior
from discreet.learners.gp_ucb.calibration import DecisionRule, KernelCalibration
from discreet.learners.gp_ucb.policy import SYMMETRIC, RowWeights
from discreet.learners.gp_ucb.posterior import MOST_REWARD_VARIANCE, GramAxes, NoisyStatistics
from discreet.learners.gp_ucb.sets.policy import row_sensitivity
from discreet.privacy import (
    Budget,
    Joint,
    Local,
)
from discreet.privacy.prefix_sums import BinaryTree, Independent, PrefixMechanism
from discreet.validation import (
    FloatArray,
    InvalidInput,
)

_RHO = math.sqrt(MOST_REWARD_VARIANCE)
# Halving an interval so often leaves less than a part in 10^12 of it.
_HALVINGS = 60


@dataclass(frozen=True)
class _Published(KernelCalibration):
    """What Algorithms 1 and 3 share.

    Attributes:
        horizon: T.
        norm_bound: B.
        failure_probability: zeta.
        regulariser: lambda.
    """

    horizon: Annotated[int, Range(1)]
    norm_bound: Annotated[float, Range(above=0.0)] = 1.0
    failure_probability: Annotated[float, Range(above=0.0, below=1.0)] = 0.1
    regulariser: Annotated[float, Range(above=0.0)] = 1.0

    def next_update(self, people: int, public: bool) -> int:
        return people + 1

    def decision(self, public: bool) -> DecisionRule:
        if public:
            raise InvalidInput(
                f"the calibration {self.name!r} is for decision sets that people bring; "
                "on public points use the learner's own."
            )
        return "ucb"

    @abstractmethod
    def spectrum(self, sums: NoisyStatistics, features: int) -> tuple[float, float]:
        """lambda_min and kappa for the noise on the sums; (0, 0) before any."""

    def posterior(
        self, gram: FloatArray, rewards: FloatArray, sums: NoisyStatistics, axes: GramAxes
    ) -> tuple[Posterior, float]:
        """theta = V^-1 u with covariance rho^2 V^-1 and the width of Theorem 1.

        V = noisy Gram + (2 lambda_min + lambda) I: the shift after Lemma 3, which makes all noise
        positive definite, so that lambda_max = 3 lambda_min.
        """
        size = len(rewards)
        least, kappa = self.spectrum(sums, size)
        shifted = gram + (2.0 * least + self.regulariser) * np.eye(size)
        values, vectors = np.linalg.eigh(shifted)
        # V is larger than lambda I except with probability zeta / 2T.
        values = np.maximum(values, self.regulariser)
        volume = float(np.log(values / (self.regulariser + least)).sum())
        width = (
            self.norm_bound * math.sqrt(3.0 * least / MOST_REWARD_VARIANCE + 1.0)
            + kappa / _RHO
            + math.sqrt(max(volume, 0.0) + 2.0 * math.log(2.0 / self.failure_probability))
        )
        mean = vectors @ ((vectors.T @ rewards) / values)
        return Posterior(mean, _RHO * vectors / np.sqrt(values)), width

    @property
    def _tail(self) -> float:
        """ln(2T / zeta)."""
        return math.log(2.0 * self.horizon / self.failure_probability)


@dataclass(frozen=True)
class PublishedJoint(_Published):
    """Algorithms 1 and 2 with Lemmas 2 and 3: a binary tree over single rounds.

    Every node carries (1/sqrt 2)(U + U'), U with iid entries of variance sigma^2: in coordinates
    (A_ii, sqrt 2 A_ij), iid with standard deviation sqrt 2 sigma. The reward enters as the last
    row and column of [phi, y]'[phi, y], hence with weight sqrt 2.

    Lemma 2 is read as a variance,

        sigma^2 = 16 n (1 + B^2)^2 ln(10 / delta)^2 / epsilon^2,

    which is what its proof in the appendix needs: the statement says sigma and the sketch says
    sigma^2 without squaring the sensitivity.
    """

    name: ClassVar[str] = "published_joint"

    @property
    def weights(self) -> RowWeights:  # type: ignore[override]
        """What each part of a row counts."""
        return RowWeights(rewards=SYMMETRIC, off_diagonal=SYMMETRIC, centre=0.0, with_squares=False)

    @property
    def nodes(self) -> int:
        """n."""
        return 1 + math.ceil(math.log2(self.horizon))

    def sigma(self, budget: Budget) -> float:
        """Standard deviation of an entry of U (Lemma 2), for as many contributions as are
        covered."""
        bounded = 1.0 + self.norm_bound**2
        log = math.log(10.0 / budget.delta)
        once = 4.0 * math.sqrt(self.nodes) * bounded * log / budget.epsilon
        return budget.times_noise * once

    def noise_multiplier(self, budget: Budget, features: int) -> float:
        """What makes the standard deviation on every node and coordinate sqrt 2 sigma."""
        if not isinstance(budget, Joint):
            raise InvalidInput(f"budget was {budget!r}; {self.name} takes Joint(epsilon, delta).")
        tree = BinaryTree(rows=self.horizon)
        sensitivity = row_sensitivity(features, self.weights) * tree.column_norm
        return SYMMETRIC * self.sigma(budget) / sensitivity

    def mechanism(
        self, reward_noise: float, horizon: int | None, places: float | None
    ) -> PrefixMechanism:
        self.decision(places is not None)
        if horizon != self.horizon:
            raise InvalidInput(
                f"the learner's horizon was {horizon}, the calibration's {self.horizon}; give both "
                "the same."
            )
        return BinaryTree(rows=self.horizon)

    def spectrum(self, sums: NoisyStatistics, features: int) -> tuple[float, float]:
        """Lemma 3."""
        sigma = sums.scale / SYMMETRIC
        if sigma == 0.0:
            return 0.0, 0.0
        root = math.sqrt(features)
        least = sigma * math.sqrt(2.0 * self.nodes) * (4.0 * root + 2.0 * self._tail)
        kappa = sigma * math.sqrt(self.nodes / least) * (root + math.sqrt(2.0 * self._tail))
        return least, kappa


@dataclass(frozen=True)
class PublishedLocal(_Published):
    """Algorithm 3 with Lemmas 5 and 6: every person adds noise to their own phi phi' and y phi.

        sigma_X^2 = 8 ln(5 / (2 delta)) / epsilon^2,   sigma_u^2 = 8 B^2 ln(5 / delta) / epsilon^2

    on the upper triangle of phi phi' (each entry once, so its weight is 1) and on y phi. Each part
    is meant to keep (epsilon / 2, delta / 2). Replacing a person moves phi phi' by up to sqrt 2,
    not 1, and y phi by up to 2 B, not B; both at once by `row_sensitivity` of the weighted row.

    kappa of Lemma 6, sigma_u sqrt(m T / Lambda), is taken as printed; by Definition 3 it lacks a
    factor 1 / sqrt(sigma_X).

    Attributes:
        delta: that of the budget; the ratio of the two noises depends on it.
    """

    name: ClassVar[str] = "published_local"

    delta: Annotated[float, Range(above=0.0, below=1.0)] = 0.1

    @property
    def weights(self) -> RowWeights:  # type: ignore[override]
        """What each part of a row counts: with noise sigma_X on all of it, y phi gets sigma_u."""
        ratio = math.sqrt(math.log(2.5 / self.delta) / math.log(5.0 / self.delta))
        return RowWeights(
            rewards=ratio / self.norm_bound, off_diagonal=1.0, centre=0.0, with_squares=False
        )

    def sigma_gram(self, budget: Budget) -> float:
        """sigma_X, for as many contributions as are covered."""
        if not isinstance(budget, Local) or budget.delta != self.delta:
            raise InvalidInput(
                f"budget was {budget!r}; this calibration was made for Local(epsilon, "
                f"{self.delta:g}), so give both the same delta."
            )
        once = math.sqrt(8.0 * math.log(2.5 / budget.delta)) / budget.epsilon
        return budget.times_noise * once

    def sigma_rewards(self, budget: Budget) -> float:
        """sigma_u."""
        return self.sigma_gram(budget) / self.weights.rewards

    def noise_multiplier(self, budget: Budget, features: int) -> float:
        """What makes the standard deviation on the upper triangle sigma_X."""
        return self.sigma_gram(budget) / row_sensitivity(features, self.weights)

    def mechanism(
        self, reward_noise: float, horizon: int | None, places: float | None
    ) -> PrefixMechanism:
        return Independent()

    def spectrum(self, sums: NoisyStatistics, features: int) -> tuple[float, float]:
        """Lemma 6."""
        gram = sums.scale
        if gram == 0.0 or sums.came == 0:
            return 0.0, 0.0
        base = math.sqrt(self.horizon) * (4.0 * math.sqrt(features) + 2.0 * self._tail)
        rewards = gram / self.weights.rewards
        return gram * base, rewards * math.sqrt(features * self.horizon / base)
