"""Our locally private kernel bandit.

Every report is a noisy linear measurement of the arms' functions (measurement.py), so a Gaussian
posterior over all arms' coefficients (posterior.py) holds everything that was told, and what the
next people are asked follows from it. All of it reads reports that are private already, so none of
it costs privacy; a wrong density or prior costs regret, never privacy.

Reports of a source measure the same coefficients. Their sums are kept apart from the target's and
from each other, and added for as long as the source is believed. With the probability that those
which are believed contradict the target, what is believed is what it says alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from operator import add
from typing import Any, ClassVar, Unpack

import numpy as np
from numpy.typing import ArrayLike

from discreet.action_space import ArmPoints
from discreet.domain import Box
from discreet.learners.base import Common
from discreet.learners.forgetting import half_life, longest, sharpness
from discreet.learners.local_kernel.cells import Cells
from discreet.learners.local_kernel.features import (
    MOST_COLUMNS,
    CosineFeatures,
    Density,
    DensityBins,
    grid_of,
)
from discreet.learners.local_kernel.measurement import Measurements
from discreet.learners.local_kernel.policy import (
    KernelOffer,
    KernelPolicy,
    KernelSourcePolicy,
    KernelStatistics,
)
from discreet.learners.local_kernel.posterior import KernelPosterior, MixedPosterior
from discreet.learners.local_kernel.prior import Likely, Smooth, likely
from discreet.learners.local_kernel.questions import (
    CELL_COUNTS,
    PARTITIONS,
    Hearing,
    Questions,
    Stakes,
    most_cells,
    next_cells,
)
from discreet.learners.signs import SignedReports
from discreet.learners.sources import Belief, Information, TrustingLearner, believe
from discreet.learners.stream import Stream
from discreet.privacy import Local, NonPrivate
from discreet.privacy.frequency import k_ary_response
from discreet.validation import FloatArray, InvalidInput, positive_number, whole_number

_LEAST_DOUBT = 0.01
# Evidence is compared anew for every so many policies of the target.
_REVIEW_EVERY = 4
# Arms are told apart about as readily as halves of an axis.
_ARM_LENGTH_SCALE = 0.5
# Under so many hyperparameters functions are believed, and are predicted.
_MIXED, _MIXED_TO_PREDICT = 4, 8
# Hyperparameters are learnt after so many policies, and then every so many.
_LEARNING_FIRST, _LEARNING_EVERY = (2, 4, 6, 9, 12, 16, 20), 25
# A density is moved at most this many times as far as reports say.
_MOST_STRETCH = 3.0


class LocalKernel(
    TrustingLearner[KernelPolicy, SignedReports, KernelStatistics, KernelSourcePolicy]
):
    """Learns which arm is best where from one private value of each person.

    Auxiliary sources (`open_source`) enter the same posterior for as long as they do not contradict
    the target.

    Args:
        budget: `Local(epsilon)`, or `NonPrivate()` for the same learner without noise.
        density: "learned" from the reports, or "uniform" if contexts are known to be uniform.
        batch: least number of reports between two policies.
        growth: later, that number is this share of all reports so far.
        drift: after how many people a report counts half; None where rewards do not change.
    """

    name: ClassVar[str] = "local_kernel"
    trust_models: ClassVar[tuple[str, ...]] = ("local", "none")
    reports_type = SignedReports
    statistics_type = KernelStatistics
    source_policy_type = KernelSourcePolicy
    source_reports_type = SignedReports
    saved: ClassVar[tuple[str, ...]] = (
        *TrustingLearner.saved,
        "_likely",
        "_densities",
        "_reviewed",
    )
    _likely: Likely
    # Where the people of each stream are; of a source that reported with their arms, in Z K bins.
    _densities: dict[str, Density]
    # What was believed of sources when evidence was last compared.
    _reviewed: Belief

    def __init__(
        self,
        domain: Box,
        arms: int | ArmPoints,
        budget: Local | NonPrivate,
        *,
        density: str = "learned",
        batch: int = 50,
        growth: float = 0.01,
        drift: float | None = None,
        **common: Unpack[Common],
    ) -> None:
        if isinstance(domain, Box) and domain.dimension > MOST_COLUMNS:
            raise InvalidInput(
                f"domain had {domain.dimension} columns; local_kernel takes at most "
                f"{MOST_COLUMNS}. Choose the columns that matter, or use partition."
            )
        super().__init__(domain, arms, budget, **common)
        if density not in ("learned", "uniform"):
            raise InvalidInput(f"density was {density!r}; it must be 'learned' or 'uniform'.")
        self.density = density
        self.batch = whole_number(batch, "batch", minimum=1)
        self.growth = positive_number(growth, "growth")
        self.drift = half_life(drift)
        self.features = CosineFeatures.of(domain.levels, self.arms)
        self._likely = Likely(Smooth.first(domain.dimension))
        self._densities = {}
        self._reviewed = Belief({}, (), 0.0)

    @property
    def batch_size(self) -> int:
        return longest(self.drift, max(self.batch, int(self._published_at * self.growth)))

    def source_batch(self, name: str) -> int:
        return max(self.batch, int(self.source_total * 2.0 * self.growth))

    # Sums.

    @property
    def _size(self) -> tuple[int, int]:
        """K M, how many coefficients there are, and Z, how many bins."""
        return self.arms * len(self.features), len(DensityBins(self.domain.levels))

    def _empty(self) -> KernelStatistics:
        return KernelStatistics.zeros(*self._size)

    def _empty_source(self) -> KernelStatistics:
        coefficients, bins = self._size
        return KernelStatistics.zeros(coefficients, bins * self.arms)

    def _statistics(self, policy: KernelOffer, reports: SignedReports) -> KernelStatistics:
        policy.check(reports)
        return Measurements(policy).statistics(reports)

    _source_statistics = _statistics

    def _check_sums(self, statistics: KernelStatistics) -> None:
        statistics.check(*self._size, self.domain.dimension)

    # What is known.

    def _posterior(self, smooth: Smooth, *, alone: bool = False) -> KernelPosterior:
        """From the reports of the target, and of all sources that are believed unless `alone`."""
        information = self._own if alone else self._joint
        return KernelPosterior.of(self.features, smooth.prior(self.features), information)

    def _mixed(self, count: int, rng: np.random.Generator, doubt: float = 0.0) -> MixedPosterior:
        """Posteriors under at most so many likely hyperparameters; with the probability `doubt`
        that the sources do not share the target's functions, from the target's reports alone."""
        smooths, shares = self._likely.draw(count, rng)
        parts = [self._posterior(smooth) for smooth in smooths]
        if doubt > _LEAST_DOUBT:
            parts += [self._posterior(smooth, alone=True) for smooth in smooths]
            shares = np.concatenate([(1.0 - doubt) * shares, doubt * shares])
        return MixedPosterior.of(parts, shares)

    @property
    def _left(self) -> int:
        """How many people are still to come that what is learnt now is good for. Without a horizon
        as many are expected as came, and a thousand."""
        expected = 1000 + self.people if self.horizon is None else self.horizon - self.people
        return longest(self.drift, max(expected, 1), share=1.0 / math.log(2.0))

    @property
    def _own(self) -> Information:
        """What the target says."""
        return self._sums.information.scaled(sharpness(self.drift, self.people))

    @property
    def _joint(self) -> Information:
        """What the target and all sources that are heard say together."""
        sources = [source.sums.information for source in self._heard.values()]
        return reduce(add, sources, self._own)

    def _learn(self) -> None:
        """Look for likelier hyperparameters."""
        information = self._joint

        def evidence(smooth: Smooth) -> float:
            prior = smooth.prior(self.features)
            return KernelPosterior.of(self.features, prior, information).evidence

        self._likely = likely(self._likely.best, evidence, self.features.length_scales)

    def _belief(self) -> Belief:
        sources = {name: source.sums.information for name, source in self._heard.items()}

        prior = self._likely.best.prior(self.features)

        def evidence(information: Information) -> float:
            return KernelPosterior.of(self.features, prior, information).evidence

        return believe(self._own, sources, evidence)

    def _review(self, version: int) -> bool:
        """Before a policy of the target: compare evidence when it is time. Whether a source was
        given up."""
        if set(self._reviewed.used) == set(self._heard) and version % _REVIEW_EVERY:
            return False
        self._reviewed = belief = self._belief()
        lost = tuple(name for name in belief.trust if name not in belief.used)
        self._given_up += lost
        return bool(lost)

    def _density_of(
        self, stream: Stream[Any, KernelStatistics], stretch: float | None = None
    ) -> FloatArray:
        """Moved towards where people were located since the last policy (features.py)."""
        sums = stream.sums
        density = self._densities.get(stream.name) or Density.uniform(len(sums.located))
        density = density.with_sums(sums.located, sums.placed, len(stream.policies), stretch)
        if stream.people:
            self._densities[stream.name] = density
        return density.shares

    def predict(self, contexts: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Posterior mean and standard deviation (n, K) of each arm's reward at contexts (n, d).

        In the units of rewards; for plots, and for whoever decides without exploring.
        """
        rng = np.random.default_rng(self.public_seed)
        posterior = self._mixed(_MIXED_TO_PREDICT, rng)
        phi = self.features(self.domain.to_unit(contexts), posterior.used)
        width = self.reward_bounds.upper - self.reward_bounds.lower
        mean = self.reward_bounds.lower + width * 0.5 * (1.0 + phi @ posterior.mean.T)
        return mean, 0.5 * width * posterior.deviations(phi)

    @property
    def length_scales(self) -> tuple[float, ...]:
        """How far functions vary along each column, as a share of its bounds, as learnt so far."""
        return self._likely.best.length_scales

    # What is published.

    def _publish(self) -> KernelPolicy:
        version = len(self._policies)
        density = np.ones(self._size[1])
        if self.density == "learned":
            density = self._density_of(self._target)
        lost = self._review(version)
        if _learning_due(version) or lost:
            self._learn()
        rng = np.random.default_rng([self.public_seed, version, 2])
        posterior = self._mixed(_MIXED, rng, self._reviewed.doubt)
        grid = grid_of(self.public_seed, version, self.features)
        mass, phi = grid.weights(density), grid.phi[:, posterior.used]
        stakes = Stakes.of(posterior, phi, mass, rng)

        def ask(cells: Cells) -> Questions:
            mechanism = k_ary_response(cells.count, self.budget.epsilon)
            hearing = Hearing.of(cells, mechanism, grid.points, mass)
            return stakes.questions(hearing, self._left, rng)

        scales = np.array(self._likely.best.length_scales)
        cut = _cutting(grid.points, stakes.weights, scales, self.domain.levels, rng)
        counts = [count for count in CELL_COUNTS if count <= most_cells(self.budget.epsilon)]
        cells = next_cells(self._policies, counts, cut, ask)
        questions = ask(cells)
        return KernelPolicy(
            **self.policy_header(),
            used=posterior.used,
            values=questions.values.astype(np.float32),
            directions=questions.directions.astype(np.float32),
            cells=cells,
            density=density,
            epsilon=self.budget.epsilon,
        )

    def _publish_source(
        self, source: Stream[KernelSourcePolicy, KernelStatistics]
    ) -> KernelSourcePolicy:
        version, stretch = len(source.policies), None
        if version:
            # Near the likeliest density a step of expectation maximisation goes p - b of the way.
            # It is stretched, by no more than the root of that: noise is stretched with it.
            stretch = min(_MOST_STRETCH, source.policies[-1].mechanism.contrast ** -0.5)
        density = self._density_of(source, stretch)
        if self.people == 0 and self.source_total:  # later the target's policies see to it
            published = sum(len(other.policies) for other in self._sources.values())
            if _learning_due(published):
                self._learn()
        place = list(self._sources).index(source.name)
        rng = np.random.default_rng([self.public_seed, version, 3, place])
        posterior = self._mixed(_MIXED, rng)
        grid = grid_of(self.public_seed, version, self.features).with_arms(self.arms)
        share = density[grid.bins].reshape(-1, self.arms)
        share = share / share.sum()
        stakes = Stakes.of(posterior, grid.phi[:, posterior.used], share.sum(axis=1), rng)

        def ask(cells: Cells) -> Questions:
            mechanism = k_ary_response(cells.count, source.budget.epsilon)
            hearing = Hearing.of(cells, mechanism, grid.points, share.ravel())
            return stakes.source_questions(hearing, share, rng)

        # Cells are to weigh the same to whom they matter: contexts by their weight, and arms by how
        # often the people of the source there were given them.
        weights = (stakes.weights[:, None] * share / share.sum(axis=1, keepdims=True)).ravel()
        scales = np.array([*self._likely.best.length_scales, _ARM_LENGTH_SCALE])
        cut = _cutting(grid.points, weights, scales, (*self.domain.levels, self.arms), rng)
        counts = source_cell_counts(self.arms, source.budget.epsilon)
        cells = next_cells(source.policies, counts, cut, ask)
        return KernelSourcePolicy(
            **self.source_header(source),
            used=posterior.used,
            directions=ask(cells).directions.astype(np.float32),
            cells=cells,
            density=density,
        )


def _cutting(
    points: FloatArray,
    weights: FloatArray,
    length_scales: FloatArray,
    levels: tuple[int | None, ...],
    rng: np.random.Generator,
) -> Callable[[int], Cells]:
    """Cuts points with these weights into so many cells."""
    return lambda count: Cells.split(points, weights, count, PARTITIONS, length_scales, levels, rng)


def _learning_due(policies: int) -> bool:
    """Whether hyperparameters are learnt again after so many policies."""
    return policies in _LEARNING_FIRST or (policies > 0 and policies % _LEARNING_EVERY == 0)


def source_cell_counts(arms: int, epsilon: float) -> list[int]:
    """The numbers of cells that a source with this epsilon may have, increasing.

    With fewer than two for each arm nothing is learnt of where people and arms are.
    """
    least = min([count for count in CELL_COUNTS if count >= 2 * arms], default=CELL_COUNTS[-1])
    most = max(least, most_cells(epsilon))
    return [count for count in CELL_COUNTS if least <= count <= most]
