"""Private GP-UCB on people's own decision sets (Dubey 2021, Algorithms 1 to 3).

The set is as private as the reward. The rounds between two releases share one policy:

    x_t = argmax over D_t of mean + width      `SetPolicy`           Algorithm 1, line 8; eq. 8
    row of (x_t, y_t), added to the sums       `_statistics`         Algorithm 1, lines 15-18
    released sums of rows                      `_public_sums`
      joint: leave a stream with noise         `_release`            Algorithm 2; Lemma 2
      local: every row has noise already       `SetPolicy._report`   Algorithm 3; Lemma 5
    posterior of theta from (Gram, u)          `_policy`             Algorithm 1, line 6
    width                                      `calibration`         line 7; Theorem 1

As published the width is proved (`papers.dubey2021.calibration`), and noise is that of a binary
tree. By default the Gram matrix is denoised, the width is a share of a posterior deviation,
releases are geometric epochs, and a public coin sends some people to another point of their own set
where the knowledge gradient says so (policy.py).

| array   | shape           | meaning                                                            |
|---------|-----------------|--------------------------------------------------------------------|
| phi     | (n, m)          | features of chosen points divided by the norm                      |
| gram    | (m (m + 1)/2,)  | upper triangle of sum phi phi', by rows                            |
| rewards | (m,)            | sum y phi                                                          |
| squares | (1,)            | sum y^2                                                            |

Notes
-----
*Geometric epochs.* Only the latest estimate matters, and a weighted sum of which every
later release is a part needs the same noise whatever the horizon, several times less than prefix
sums (`benchmarks/prefix_sums.py`). Gram matrices of points of a known domain have few directions;
the others hold noise alone and are shrunk (posterior.py).
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any, ClassVar, Unpack

import numpy as np
from numpy.typing import NDArray

from discreet.gaussian import Posterior
from discreet.kernels import FeatureMap
from discreet.learners.gp_ucb.learner import GPUCBLearner, KernelOptions, kernel_features
from discreet.learners.gp_ucb.policy import (
    UNIT,
    GramStatistics,
    NoisyRows,
    PointObservations,
    ReleasedSums,
    exact_product,
    rounded,
)
from discreet.learners.gp_ucb.posterior import (
    CENTRE,
    MOST_REWARD_VARIANCE,
    GramAxes,
    NoisyStatistics,
    gram_axes,
    left_over,
)
from discreet.learners.gp_ucb.sets.policy import (
    KnowledgeGradient,
    SetPolicy,
    row_sensitivity,
    row_size,
    symmetric,
    triangle,
    triangle_weights,
)
from discreet.learners.gp_ucb.values import MODEL_ERROR_AVERAGE, MODEL_ERROR_UNCHOSEN, set_features
from discreet.learners.messages import Reports
from discreet.learners.values import ValuePosterior, linear_values
from discreet.people.domain import Box, DecisionSets, PublicSet
from discreet.privacy import Joint, Local, NonPrivate
from discreet.privacy.calibration import AdditiveNoise, in_unit_ball
from discreet.validation import FloatArray, IntArray, InvalidInput


class SetsGPUCB(GPUCBLearner[SetPolicy]):
    """Private GP-UCB where each person chooses from a set of their own; see `GPUCB`."""

    spaces: ClassVar[tuple[type[Any], ...]] = (DecisionSets,)
    record = "decision set and reward"
    data = SetPolicy.data
    sensitivity_source = SetPolicy.sensitivity_source
    learns_length_scales = False

    def __init__(
        self,
        domain: Box,
        space: DecisionSets,
        budget: Joint | Local | NonPrivate,
        **options: Unpack[KernelOptions],
    ) -> None:
        super().__init__(domain, space, budget, **options)
        count, self.weights = self.features.features, self.calibration.weights
        size = row_size(count)
        self.reward_weight = self.weights.rewards
        self.sensitivity = row_sensitivity(count, self.weights)
        self.non_negative = np.cumsum([0, *range(count, 1, -1)])
        if budget.is_local:
            if budget.delta == 0.0:
                raise InvalidInput(
                    f"delta was {budget.delta:g}; reports of gp_ucb from decision sets carry "
                    "Gaussian noise under local privacy: give a delta above 0, such as 1e-6, or "
                    "take private_glm, whose reports are pure."
                )
            multiplier = self.calibration.noise_multiplier(budget, count)
            self.local = AdditiveNoise.gaussian_for(multiplier, self.sensitivity, size)
            self.noisy_rows = True
        seen = [*[self.weights.rewards] * count, self.weights.squares]
        self._part = np.append(triangle_weights(count, self.weights.off_diagonal), seen)
        self._open(size)

    def _make_features(self, kernel: str, error: float) -> FeatureMap:
        return kernel_features(kernel, self.domain, error, self._points)

    def _statistics(self, policy: SetPolicy, reports: Reports) -> GramStatistics:
        if self.local is None:
            row: NDArray[Any] = self._exact_sums(self._taken(reports, PointObservations))
        else:
            rows = self._taken(reports, NoisyRows).rows
            if rows.shape[1] != self._row_length or len(rows) == 0:
                raise InvalidInput(
                    f"reports had rows of shape {rows.shape}; each must have {self._row_length} "
                    "numbers."
                )
            row = rows.sum(axis=0)
        return GramStatistics(reports=len(reports), row=row, design=np.zeros(0))

    def _exact_sums(self, observed: PointObservations) -> IntArray:
        """(row,) the sum of people's rows, in units of 2^-36."""
        # Checks the points too.
        phi = in_unit_ball(self.features.transform(observed.points) / self.norm)
        centred = observed.rewards - self.weights.centre
        if observed.over_limit is not None:
            phi[observed.over_limit], centred[observed.over_limit] = 0.0, 0.0
        return exact_sums(phi, centred)

    def _row(self, counted: NDArray[Any]) -> FloatArray:
        if self.local is not None:
            return np.asarray(counted, dtype=np.float64)
        row: FloatArray = counted * UNIT * self._part
        return row

    def _publish(self) -> SetPolicy:
        return self._policy(self._public_sums())

    def _policy(self, totals: ReleasedSums | None) -> SetPolicy:
        """The policy that follows from released sums; None before any."""
        if totals is None:
            totals = ReleasedSums(np.zeros(self._row_length), np.zeros(0), 0.0, 0, 0.0, 0.0)
        gram, rewards, sums = self._parts(totals)
        theta, confidence = self.calibration.posterior(gram, rewards, sums, self._axes)
        decision, gradient = self.calibration.decision(False), None
        if decision == "matching" and totals.came > 0:
            explained = float(2.0 * theta.mean @ rewards - theta.mean @ gram @ theta.mean)
            own = self.local.variance / self.weights.rewards**2 if self.local else 0.0
            gradient = KnowledgeGradient(
                came=totals.came,
                remaining=self._remaining().remaining,
                reward_variance=_reward_variance(sums, explained),
                release_variance=0.0 if self.local else sums.reward_variance,
                own_variance=own,
            )
        mean = np.concatenate([[self.weights.centre - CENTRE], theta.mean])
        root = np.vstack([np.zeros(theta.root.shape[1]), theta.root])
        return SetPolicy(
            **self._policy_fields(mean, root),
            confidence=confidence,
            thompson=decision == "thompson",
            knowledge_gradient=gradient,
            weights=self.weights,
        )

    def _parts(self, totals: ReleasedSums) -> tuple[FloatArray, FloatArray, NoisyStatistics]:
        """The noisy Gram matrix (m, m), sum of y phi (m,), and what is known of their noise."""
        count, weights = self.features.features, self.weights
        upper = count * (count + 1) // 2
        parts = totals.values[:-1] / self._part[:-1]
        noise = totals.variance * totals.scale**2
        known = weights.with_squares and totals.came > 0
        sums = NoisyStatistics(
            totals.people,
            noise,
            noise / weights.rewards**2,
            float(totals.values[-1]) / weights.squares if known else None,
            noise / weights.squares**2 if known else 0.0,
            totals.came,
            totals.scale,
        )
        return symmetric(parts[:upper], count), parts[upper:], sums

    def _value_posterior(self, contexts: Any) -> ValuePosterior:
        """f(x) = 1/2 + (1, phi(x))' theta on a public sample of decision sets."""
        policy = self._latest_policy
        model, most = policy.model, self.space.most  # type: ignore[union-attr]
        people, phi = set_features(contexts, self.domain, most, model.features, model.norm)
        return linear_values(
            np.concatenate([np.ones((*phi.shape[:2], 1)), phi], axis=2),
            Posterior(model.mean, model.root),
            CENTRE,
            people.present,
            contexts=contexts,
            weights=np.full(len(people), 1.0 / len(people)),
            where=f"the {len(people)} decision sets given",
            model_error_average=MODEL_ERROR_AVERAGE,
            model_error_unchosen=MODEL_ERROR_UNCHOSEN,
        )

    @cached_property
    def _axes(self) -> GramAxes:
        """Principal axes of Gram matrices over the domain; public."""
        return _shared_axes(self.features, self.norm, self.calibration.smoothness, self._points)


def exact_sums(phi: FloatArray, centred: FloatArray) -> IntArray:
    """(size,) `gram`, `rewards` and `squares` of n people, in units of 2^-36."""
    whole = rounded(phi)
    gram = exact_product(whole, whole)[triangle(phi.shape[1])]
    reward = rounded(centred)[:, None]
    seen = exact_product(np.hstack([whole, reward]), reward)[:, 0]
    return np.concatenate([gram, seen])


def _reward_variance(sums: NoisyStatistics, explained: float) -> float:
    """rho^2, from what a fit leaves of sum y^2."""
    if sums.squares is None or sums.people <= 0.0:
        return MOST_REWARD_VARIANCE
    return left_over(sums.squares - explained, sums.squares_variance, sums.people)


@lru_cache(maxsize=16)
def _shared_axes(
    features: FeatureMap, norm: float, smoothness: float, points: PublicSet | None
) -> GramAxes:
    """`gram_axes`, shared by replicates because they take a moment."""
    return gram_axes(features, norm, smoothness, None if points is None else points.array)
