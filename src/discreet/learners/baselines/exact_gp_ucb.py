"""GP-UCB with the exact posterior, not private (Srinivas, Krause, Kakade and Seeger 2010).

The action is the point with the largest mean(x) + confidence_multiplier x sd(x); the theorem's
multiplier grows with log t, here it is constant. One observation costs O(n^2), so the baseline is
for a few thousand people; `gp_ucb` with `NonPrivate()` costs the same at any number.

*Order.* Statistics are the multiset of observations, sorted by their numbers, so the order of
reports plays no part. When a policy is published, what came since the last one is appended in that
order.

*Variance of rewards.* Unless it is given: 1/4 (the most that is possible) for the first 16 people;
when their number passes 16, 32, 64, .. it is estimated from residuals, and everything is factorised
again.

*Public points.* In a box the best of 2048 public points and the last policy's point is improved by
long and short steps along the axes, one axis at a time and together. Everyone gets the one point
until the next policy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Unpack

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from discreet.action_space import ActionSpace, DecisionSets, PublicBox, PublicSet
from discreet.domain import Box
from discreet.kernels import public_points
from discreet.learners.base import Common, Learner
from discreet.learners.baselines.exact_gp import (
    MOST_REWARD_VARIANCE,
    ExactPosterior,
    GrowingPosterior,
    Prior,
)
from discreet.learners.baselines.exact_gp_policy import (
    ExactGPPolicy,
    ObservedRows,
    check_kernel,
    check_reward_variance,
)
from discreet.learners.gp_ucb.mode import PointObservations
from discreet.learners.schema import decode, encode
from discreet.privacy import Adjacency, NonPrivate
from discreet.validation import (
    FloatArray,
    InvalidInput,
    finite_number,
    positive_number,
    whole_number,
)

_PRIOR_VARIANCE = 1.0 / 12.0
_CONFIDENCE = 1.0
_MOST_POINTS = 4000
# The first capacity, and the first number of people at which the variance of rewards is estimated.
_FIRST = 16
_CANDIDATES = 2048
# Steps along the axes from the best public point of a box, as shares of the width; and how often.
_STEPS = (1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256)
_ROUNDS = 2


class ExactGPUCB(Learner[ExactGPPolicy, PointObservations, ObservedRows]):
    """GP-UCB with the exact posterior (see the module). It promises nothing.

    A policy is kept for every `batch_size` people. In memory they share one factor; a saved
    learner holds the data of each policy again, so save with `batch_size` above 1, or early.

    Args:
        domain: the public box of points.
        space: `DecisionSets(most)`, `PublicSet(points)` or `PublicBox()`.
        budget: `NonPrivate()`.
        kernel: a scikit-learn kernel in the units of the domain, or its text; by default
            `usual_kernel(domain)`, as for `gp_ucb`.
        prior_variance: what the kernel is multiplied with, on the scale of rewards in [0, 1].
        reward_variance: of a reward around its mean, on the same scale; learnt if None.
        confidence_multiplier: how many posterior deviations are added to the mean.
        batch_size: how many people share a policy.
        most_points: how many people can take part.

    Raises:
        InvalidInput: for a kernel that does not fit the domain, or a horizon above `most_points`.
    """

    name: ClassVar[str] = "exact_gp_ucb"
    trust_models: ClassVar[tuple[str, ...]] = ("none",)
    spaces: ClassVar[tuple[type[Any], ...]] = (DecisionSets, PublicSet, PublicBox)
    reports_type = PointObservations
    statistics_type = ObservedRows

    def __init__(
        self,
        domain: Box,
        space: ActionSpace,
        budget: NonPrivate,
        *,
        kernel: Kernel | str | None = None,
        prior_variance: float = _PRIOR_VARIANCE,
        reward_variance: float | None = None,
        confidence_multiplier: float = _CONFIDENCE,
        batch_size: int = 1,
        most_points: int = _MOST_POINTS,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(domain, space, budget, **common)
        self.confidence = finite_number(confidence_multiplier, "confidence_multiplier")
        if self.confidence < 0.0:
            raise InvalidInput(
                f"confidence_multiplier was {confidence_multiplier!r}; it must be 0 or more."
            )
        self._batch_size = whole_number(batch_size, "batch_size", minimum=1)
        self.most_points = whole_number(most_points, "most_points", minimum=1)
        self._given_variance = (
            None if reward_variance is None else check_reward_variance(reward_variance)
        )
        if self.horizon is not None:
            self._check_people(self.horizon, "the horizon was")
        variance = positive_number(prior_variance, "prior_variance")
        start = self._given_variance or MOST_REWARD_VARIANCE
        self._watched = self._public_points()
        self._growing = self._room(Prior(check_kernel(domain, kernel), variance, start), 1)
        # How many observations were appended together, since the last factorisation from scratch.
        self._blocks: list[int] = []
        self._new = self._empty()

    def _public_points(self) -> FloatArray | None:
        if isinstance(self.space, PublicSet):
            self.domain.to_unit(self.space.array)
            return self.space.array
        return public_points(self.domain, _CANDIDATES) if self.space == PublicBox() else None

    def _empty(self) -> ObservedRows:
        return ObservedRows(reports=0, rows=np.zeros((0, self.domain.dimension + 1)))

    @property
    def batch_size(self) -> int:
        return self._batch_size

    @property
    def adjacency(self) -> Adjacency:
        own = isinstance(self.space, DecisionSets)
        return Adjacency(record="decision set and reward" if own else "reward")

    def _check_people(self, people: int, what: str) -> None:
        if people > self.most_points:
            raise InvalidInput(
                f"{what} {people} people, but {self.name} takes at most {self.most_points} "
                "(most_points), because its cost grows with the square of their number; use "
                "gp_ucb with NonPrivate(), whose cost does not grow, or raise most_points."
            )

    def _check_sums(self, statistics: ObservedRows) -> None:
        self._check_people(self.people + statistics.reports, "the reports would make")
        if statistics.reports == 0:
            return
        rows = statistics.rows
        if rows.shape[1] != self.domain.dimension + 1:
            raise InvalidInput(
                f"statistics had {rows.shape[1]} columns; {self.name} adds rows of "
                f"{self.domain.dimension} coordinates and a reward."
            )
        self.domain.to_unit(rows[:, :-1])
        if not ((rows[:, -1] >= 0.0) & (rows[:, -1] <= 1.0)).all():
            raise InvalidInput(
                "statistics had rewards outside [0, 1]; send them as statistics() made them."
            )

    def _statistics(self, policy: ExactGPPolicy, reports: PointObservations) -> ObservedRows:
        return ObservedRows(reports=len(reports), rows=policy.rows(reports))

    def merge(self, statistics: ObservedRows) -> None:
        super().merge(statistics)
        self._new = self._new + statistics

    def _publish(self) -> ExactGPPolicy:
        if self._new.reports:
            self._append(self._new.rows)
            self._new = self._empty()
        posterior = self._growing.posterior()
        return ExactGPPolicy(
            **self.policy_header(),
            offered=self.space,  # type: ignore[arg-type]
            posterior=posterior,
            confidence=self.confidence,
            choice=self._best(posterior),
        )

    def _room(self, prior: Prior, people: int) -> GrowingPosterior:
        """An empty posterior with room for these, and for what comes until it doubles."""
        capacity = max(_FIRST, 1 << (people - 1).bit_length())
        return GrowingPosterior(prior, capacity, self.domain.dimension, self._watched)

    def _append(self, rows: FloatArray) -> None:
        present = self._growing
        if present.count + len(rows) > present.capacity:
            before, prior = present.posterior(), present.prior
            known = np.column_stack([before.points, before.rewards])
            rows = np.concatenate([known, rows])
            if self._given_variance is None and present.count:
                prior = Prior(prior.kernel, prior.variance, present.reward_variance())
            self._growing = self._room(prior, len(rows))
            self._blocks = []
        self._growing.append(rows[:, :-1], rows[:, -1])
        self._blocks.append(len(rows))

    def _best(self, posterior: ExactPosterior) -> FloatArray:
        """(d,) the public point with the largest bound; (0,) under decision sets."""
        if self._watched is None:
            return np.zeros(0)
        mean, deviation = self._growing.watched()
        score = mean + self.confidence * deviation
        best = self._watched[int(score.argmax())]
        if isinstance(self.space, PublicSet):
            choice: FloatArray = best.copy()
            return choice

        def bound(points: FloatArray) -> FloatArray:
            mean, deviation = posterior.unit(points)
            return mean + self.confidence * deviation

        starts = [best, *(policy.choice for policy in self._policies[-1:])]
        return climb(bound, np.array(starts), self.domain)

    def _options(self) -> dict[str, Any]:
        prior = self._growing.prior
        return {
            "kernel": prior.kernel,
            "prior_variance": prior.variance,
            "reward_variance": self._given_variance,
            "confidence_multiplier": self.confidence,
            "batch_size": self._batch_size,
            "most_points": self.most_points,
        }

    def _state(self) -> dict[str, Any]:
        return {"blocks": self._blocks, "new": encode(self._new)}

    def _restore(self, fields: dict[str, Any]) -> None:
        """Append the same blocks again, so that even roundings are the same."""
        self._new = decode(fields["new"], ObservedRows)
        blocks = [whole_number(size, "blocks", minimum=1) for size in fields["blocks"]]
        seen = np.zeros((0, self.domain.dimension + 1))
        if self._policies:
            last = self._policies[-1].posterior
            seen = np.column_stack([last.points, last.rewards])
            self._growing = self._room(last.prior, max(len(seen), 1))
        known = ObservedRows(reports=len(seen), rows=seen) + self._new
        if sum(blocks) != len(seen) or not np.array_equal(known.rows, self._sums.rows):
            raise InvalidInput(
                "the saved observations do not add up; read them as save() wrote them."
            )
        for block in np.split(seen, np.cumsum(blocks)[:-1]) if blocks else []:
            self._growing.append(block[:, :-1], block[:, -1])
        self._blocks = blocks


def climb(bound: Callable[[FloatArray], FloatArray], starts: FloatArray, domain: Box) -> FloatArray:
    """(d,) the best point found from `starts` by long and short steps along the axes."""
    d = domain.dimension
    # One level is the least step of a column that has levels.
    level = np.array([np.nan if count is None else 1.0 / (count - 1) for count in domain.levels])
    stepped = np.isfinite(level)
    shares = np.array([sign * share for share in _STEPS for sign in (1.0, -1.0)])
    lengths = np.sign(shares)[:, None] * np.fmax(np.abs(shares)[:, None], level)
    best: FloatArray = starts[int(bound(starts).argmax())]
    for _ in range(_ROUNDS):
        unit = domain.to_unit(best[None])[0]
        # (steps, d) where each step leads on each axis, and (steps, d, d) the points.
        moved = np.clip(unit + lengths, 0.0, 1.0)
        moved[:, stepped] = np.round(moved[:, stepped] / level[stepped]) * level[stepped]
        alone = np.where(np.eye(d, dtype=np.bool_), moved[:, None, :], unit)
        points = domain.from_unit(np.vstack([unit[None], alone.reshape(-1, d)]))
        points[0] = best
        value = bound(points)
        # What helps most along each axis alone, all at once.
        along = value[1:].reshape(-1, d)
        helpful = along.max(axis=0) > value[0]
        joint = np.where(helpful, moved[along.argmax(axis=0), np.arange(d)], unit)
        points = np.vstack([points, domain.from_unit(joint)])
        best = points[int(np.append(value, bound(points[-1:])).argmax())]
    return best
