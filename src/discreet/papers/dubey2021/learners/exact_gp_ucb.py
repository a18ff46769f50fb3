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

| array    | shape      | meaning                                                            |
|----------|------------|--------------------------------------------------------------------|
| rows     | (n, d + 1) | observations: the point, then the reward on the scale [0, 1]       |
| choice   | (d,)       | the point that everyone is given; (0,) under decision sets         |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Annotated, Any, ClassVar, Unpack

import numpy as np
from numpy.typing import ArrayLike
from sklearn.gaussian_process.kernels import Kernel

from discreet.codec import Range, Shape
from discreet.kernels import kernel_to_text, public_points, read_kernel
from discreet.learners.base import Common, Learner
from discreet.learners.gp_ucb.learner import usual_kernel
from discreet.learners.gp_ucb.policy import PointObservations
from discreet.learners.gp_ucb.posterior import MOST_REWARD_VARIANCE
from discreet.learners.messages import Statistics
from discreet.learners.policy import Actions, CandidatesOrCount, PointPolicy
from discreet.learners.stream import Stream
from discreet.papers.dubey2021.learners.exact_gp import ExactPosterior, GrowingPosterior, Prior
from discreet.people.domain import ActionSpace, Box, Candidates, DecisionSets, PublicBox, PublicSet
from discreet.privacy import Adjacency, NoiseSource, NonPrivate, Release
from discreet.privacy.noise import NO_NOISE
from discreet.validation import (
    CoinArray,
    FloatArray,
    IntArray,
    InvalidInput,
    number_from,
    whole_number,
)

# How many people can take part.
MOST_PEOPLE = 4000
# The first capacity, and the first number of people at which the variance of rewards is estimated.
_FIRST = 16
_CANDIDATES = 2048
# Steps along the axes from the best public point of a box, as shares of the width; and how often.
_STEPS = (1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256)
_ROUNDS = 2


@dataclass(frozen=True, eq=False, kw_only=True)
class ObservedRows(Statistics):
    """A multiset of observations (see the module's table), in sorted order."""

    kind: ClassVar[str] = "observed-rows"

    rows: Annotated[FloatArray, Shape("reports", "columns")]

    def __post_init__(self) -> None:
        super().__post_init__()
        # Adding 0 leaves no negative zero, which would compare equal and print differently.
        rows = self.rows + 0.0
        rows = rows[np.lexsort(rows.T[::-1])] if rows.size else rows
        rows.setflags(write=False)
        object.__setattr__(self, "rows", rows)

    def __add__(self, other: ObservedRows) -> ObservedRows:
        parts = [sums.rows for sums in (self, other) if sums.reports] or [self.rows]
        if len({part.shape[1] for part in parts}) > 1:
            raise InvalidInput(
                f"statistics of {parts[0].shape[1]} and {parts[1].shape[1]} columns cannot be "
                "added; they come from different learners."
            )
        return ObservedRows(**self.tally(other), rows=np.concatenate(parts))


@dataclass(frozen=True, eq=False)
class ExactGPPolicy(PointPolicy):
    """The point with the largest upper confidence bound.

    Attributes:
        posterior: what is believed.
        confidence: how many posterior deviations are added to the mean.
        choice: see the module's table.
    """

    kind: ClassVar[str] = "exact-gp-policy"

    posterior: ExactPosterior
    confidence: float
    choice: Annotated[FloatArray, Shape("d")]

    def __post_init__(self) -> None:
        super().__post_init__()
        _fitting(self.domain, self.posterior.prior.kernel)
        wanted = self.domain.dimension, 0 if self.own_sets else self.domain.dimension
        if (self.posterior.points.shape[1], len(self.choice)) != wanted:
            raise InvalidInput(
                f"a policy had points of shape {self.posterior.points.shape} and a choice of shape "
                f"{self.choice.shape}; they must have {wanted[0]} and {wanted[1]} columns."
            )
        if len(self.choice):
            self.domain.to_unit(self.choice[None])
            _ = self._place

    @property
    def own_sets(self) -> bool:
        """Whether people bring decision sets; otherwise all are given the same point."""
        return isinstance(self.offered, DecisionSets)

    @cached_property
    def _place(self) -> int:
        """The place of the choice in the public set; -1 in a box."""
        if not isinstance(self.offered, PublicSet):
            return -1
        same = np.flatnonzero((self.offered.array == self.choice).all(axis=1))
        if not len(same):
            raise InvalidInput(f"the choice {self.choice} of a policy is not in its public set.")
        return int(same[0])

    def sent(self) -> tuple[tuple[tuple[int, ...], FloatArray, FloatArray], ...]:
        """Where people are sent: the columns, points (1, d) and their probabilities (1,) of a
        single group; none where everyone brings points of their own."""
        if not self.choice.size:
            return ()
        return ((tuple(range(self.domain.dimension)), self.choice[None], np.ones(1)),)

    def predict(self, X: ArrayLike) -> tuple[FloatArray, FloatArray]:  # noqa: N803
        """Mean reward and its standard deviation at points of the domain, as `KernelModel` has."""
        self.domain.to_unit(X)
        mean, deviation = self.posterior.unit(np.asarray(X, dtype=np.float64))
        width = self.reward_bounds.upper - self.reward_bounds.lower
        return self.reward_bounds.lower + width * mean, width * deviation

    def _choose(self, people: Candidates, public_coins: CoinArray) -> tuple[IntArray, FloatArray]:
        n, c, d = people.points.shape
        mean, deviation = self.posterior.unit(people.points.reshape(n * c, d))
        score = (mean + self.confidence * deviation).reshape(n, c)
        arms: IntArray = np.where(people.present, score, -np.inf).argmax(axis=1)
        return arms, np.ones(n)

    def _draw(self, public_coins: CoinArray) -> tuple[IntArray, FloatArray, FloatArray]:
        if self.own_sets:
            return super()._draw(public_coins)
        n = len(public_coins)
        return np.full(n, self._place), np.tile(self.choice, (n, 1)), np.ones(n)

    def _report(
        self, people: CandidatesOrCount, actions: Actions, rewards: FloatArray, noise: NoiseSource
    ) -> PointObservations:
        points, public_coins = self.chosen(people, actions), actions.public_coins
        # Public points are the policy's own: a report cannot smuggle another one in.
        points, public_coins = (
            (points, public_coins[:0]) if self.own_sets else (points[:, :0], public_coins)
        )
        origin = self.origin(NO_NOISE)
        return PointObservations(
            **origin, points=points, public_coins=public_coins, rewards=rewards
        )

    def rows(self, reports: PointObservations) -> FloatArray:
        """(n, d + 1) the observations in reports; `InvalidInput` for any it cannot have made."""
        count, own = len(reports), self.own_sets
        wanted = (count, self.domain.dimension if own else 0), (0 if own else count,)
        if count == 0 or (reports.points.shape, reports.public_coins.shape) != wanted:
            raise InvalidInput(
                f"reports had points of shape {reports.points.shape} and public coins of shape "
                f"{reports.public_coins.shape}; for {count} people they must be {wanted[0]} and "
                f"{wanted[1]}."
            )
        if own:
            self.domain.to_unit(reports.points)
        points = reports.points if own else np.tile(self.choice, (count, 1))
        return np.column_stack([points, reports.rewards])

    def release(self, noise: str) -> Release | None:
        own = "the point chosen from the decision set, and " if self.own_sets else ""
        return self.unprotected_release(f"{own}the reward")


@lru_cache(maxsize=64)
def _fitting(domain: Box, text: str) -> str:
    """The text of a kernel that is finite on the domain; every policy asks again."""
    try:
        fits = np.isfinite(read_kernel(text)(np.array([domain.lower, domain.upper]))).all()
        reason = "it is not finite there"
    except ValueError as error:
        fits, reason = False, str(error)
    if not fits:
        raise InvalidInput(
            f"kernel was {text}, which does not fit a domain of {domain.dimension} columns "
            f"({reason}); give one that does."
        )
    return text


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
        reward_variance: of a reward around its mean, on the scale [0, 1]; learnt if None.
        confidence_multiplier: how many posterior deviations are added to the mean.
        batch_size: how many people share a policy.

    Raises:
        InvalidInput: for a kernel that does not fit the domain, or a horizon above 4,000 people.
    """

    name: ClassVar[str] = "exact_gp_ucb"
    trust_models: ClassVar[tuple[str, ...]] = ("none",)
    spaces: ClassVar[tuple[type[Any], ...]] = (DecisionSets, PublicSet, PublicBox)
    reports_type = PointObservations
    statistics_type = ObservedRows
    saved = ("_blocks", "_new")
    # How many observations were appended together, since the last factorisation from scratch.
    _blocks: tuple[Annotated[int, Range(1)], ...]
    # What came since the last policy.
    _new: ObservedRows

    def __init__(
        self,
        domain: Box,
        space: ActionSpace,
        budget: NonPrivate,
        *,
        kernel: Kernel | str | None = None,
        reward_variance: float | None = None,
        confidence_multiplier: float = 1.0,
        batch_size: int = 1,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(domain, space, budget, **common)
        self.confidence_multiplier = number_from(
            confidence_multiplier, "confidence_multiplier", 0.0
        )
        self._batch_size = whole_number(batch_size, "batch_size", minimum=1)
        chosen = usual_kernel(domain) if kernel is None else read_kernel(kernel)
        self.kernel = _fitting(domain, kernel_to_text(chosen))
        self.reward_variance = reward_variance
        start = MOST_REWARD_VARIANCE if reward_variance is None else reward_variance
        self._check_people(self.horizon or 0, "the horizon was")
        self._watched: FloatArray | None = None
        if isinstance(self.space, PublicSet):
            self.domain.to_unit(self.space.array)
            self._watched = self.space.array
        elif isinstance(self.space, PublicBox):
            self._watched = public_points(self.domain, _CANDIDATES)
        self._growing = self._room(Prior(self.kernel, start), 1)
        self._blocks = ()
        self._new = self._empty()

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
        if people > MOST_PEOPLE:
            raise InvalidInput(
                f"{what} {people} people, but {self.name} takes at most {MOST_PEOPLE}, because its "
                "cost grows with the square of their number; use gp_ucb with NonPrivate(), whose "
                "cost does not grow."
            )

    def _check_sums(self, statistics: ObservedRows) -> None:
        self._check_people(self.people + statistics.reports, "the reports would make")
        points, rewards = statistics.rows[:, :-1], statistics.rows[:, -1]
        if points.shape[1] != self.domain.dimension or not ((rewards >= 0) & (rewards <= 1)).all():
            raise InvalidInput(
                f"statistics had {points.shape[1] + 1} columns, or rewards outside [0, 1]; "
                f"{self.name} adds rows of {self.domain.dimension} coordinates and a reward. Send "
                "them as statistics() made them."
            )
        if len(points):
            self.domain.to_unit(points)

    def _statistics(self, policy: ExactGPPolicy, reports: PointObservations) -> ObservedRows:
        return ObservedRows(reports=len(reports), rows=policy.rows(reports))

    def _add(
        self, parts: Sequence[tuple[Stream[ExactGPPolicy, ObservedRows], ObservedRows]]
    ) -> None:
        super()._add(parts)
        for _, statistics in parts:
            self._new = self._new + statistics if self._new.reports else statistics

    def _publish(self) -> ExactGPPolicy:
        if self._new.reports:
            self._append(self._new.rows)
            self._new = self._empty()
        posterior = self._growing.posterior()
        return ExactGPPolicy(
            **self.policy_header(),
            offered=self.space,  # type: ignore[arg-type]
            posterior=posterior,
            confidence=self.confidence_multiplier,
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
            rows = np.concatenate([np.column_stack([before.points, before.rewards]), rows])
            if self.reward_variance is None and present.count:
                prior = Prior(prior.kernel, present.reward_variance())
            self._growing = self._room(prior, len(rows))
            self._blocks = ()
        self._growing.append(rows[:, :-1], rows[:, -1])
        self._blocks = (*self._blocks, len(rows))

    def _best(self, posterior: ExactPosterior) -> FloatArray:
        """(d,) the public point with the largest bound; (0,) under decision sets."""
        if self._watched is None:
            return np.zeros(0)

        def bound(mean: FloatArray, deviation: FloatArray) -> FloatArray:
            return mean + self.confidence_multiplier * deviation

        best: FloatArray = self._watched[int(bound(*self._growing.watched()).argmax())]
        if isinstance(self.space, PublicSet):
            return best.copy()
        starts = [best, *(policy.choice for policy in self._policies[-1:])]
        return climb(lambda points: bound(*posterior.unit(points)), np.array(starts), self.domain)

    def _restore(self, saved: dict[str, Any]) -> None:
        """Append the same blocks again, so that even roundings are the same."""
        super()._restore(saved)
        seen = self._empty().rows
        if self._policies:
            last = self._policies[-1].posterior
            seen = np.column_stack([last.points, last.rewards])
            self._growing = self._room(last.prior, max(len(seen), 1))
        rows = np.concatenate([seen, self._new.rows])
        known = ObservedRows(reports=len(rows), rows=rows)
        if sum(self._blocks) != len(seen) or not np.array_equal(known.rows, self._sums.rows):
            raise InvalidInput(
                "the saved observations do not add up; read them as save() wrote them."
            )
        for block in np.split(seen, np.cumsum(self._blocks)[:-1]) if self._blocks else []:
            self._growing.append(block[:, :-1], block[:, -1])


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
