"""Our locally private kernel bandit.

Every report is a noisy linear measurement of the arms' functions (measurement.py), so a Gaussian
posterior over all arms' coefficients (posterior.py) holds everything that was told, and what the
next people are asked follows from it. All of it reads reports that are private already, so none of
it costs privacy; a wrong density or prior costs regret, never privacy.

Reports of a source measure the same coefficients. Their sums are kept apart from the target's and
from each other, and added for as long as the source is believed. With the probability that those
which are believed contradict the target, functions are drawn as if there were no source.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial, reduce
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
from discreet.learners.local_kernel.posterior import (
    CELL_COUNTS,
    COUNT_EVERY,
    FUNCTIONS,
    PARTITIONS,
    KernelPosterior,
    Questions,
    most_cells,
    next_cells,
)
from discreet.learners.local_kernel.prior import Likely, Prior, Smooth, likely
from discreet.learners.signs import SignedReports
from discreet.learners.sources import Belief, Information, TrustingLearner, believe
from discreet.learners.stream import Stream
from discreet.privacy import Local, NonPrivate
from discreet.validation import FloatArray, InvalidInput, positive_number, whole_number

_LEAST_DOUBT = 0.01
# Evidence is compared anew for every so many policies of the target.
_REVIEW_EVERY = 4
# Arms are told apart about as readily as halves of an axis.
_ARM_LENGTH_SCALE = 0.5
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

    def _posterior(self, *, alone: bool = False) -> KernelPosterior:
        """From the reports of the target, and of all sources that are believed unless `alone`."""
        information = self._own if alone else self._joint
        return KernelPosterior.of(self.features, self._likely.prior(self.features), information)

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
            prior = Prior.of(*smooth.variances(self.features))
            return KernelPosterior.of(self.features, prior, information).evidence

        self._likely = likely(self._likely.best, evidence)

    def _belief(self) -> Belief:
        sources = {name: source.sums.information for name, source in self._heard.items()}

        prior = self._likely.prior(self.features)

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
        posterior = self._posterior()
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
        if _learning_due(version) or lost or (version == 0 and self.source_total):
            self._learn()
        rng = np.random.default_rng([self.public_seed, version, 2])
        posterior = self._posterior()
        grid = grid_of(self.public_seed, version, self.features)
        mass = grid.weights(density)
        phi = grid.phi[:, posterior.used]
        questions = Questions.draw(posterior, phi, mass, rng)
        if self._reviewed.doubt > _LEAST_DOUBT:
            # As many functions from the target's own posterior as there is doubt.
            own = Questions.draw(self._posterior(alone=True), phi, mass, rng)
            questions = questions.beginning_with(own, math.ceil(self._reviewed.doubt * FUNCTIONS))
        policy = partial(
            KernelPolicy,
            **self.policy_header(),
            used=posterior.used,
            values=questions.values.astype(np.float32),
            directions=questions.directions.astype(np.float32),
            density=density,
            epsilon=self.budget.epsilon,
        )
        scales = np.array(self._likely.best.length_scales)
        cut = _cutting(grid.points, questions.weights, scales, self.domain.levels, rng)
        counts = [count for count in CELL_COUNTS if count <= most_cells(self.budget.epsilon)]
        cells = next_cells(self._policies, counts, cut, policy, posterior)
        if version % COUNT_EVERY == 0:  # cut anew: the very cells that looked best did so by chance
            cells = cut(cells.count)
        return policy(cells=cells)

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
            if published == 0 or _learning_due(published):
                self._learn()
        place = list(self._sources).index(source.name)
        rng = np.random.default_rng([self.public_seed, version, 3, place])
        posterior = self._posterior()
        grid = grid_of(self.public_seed, version, self.features).with_arms(self.arms)
        share = density[grid.bins].reshape(-1, self.arms)
        mass = share.sum(axis=1) / share.sum()
        questions = Questions.draw(posterior, grid.phi[:, posterior.used], mass, rng)
        policy = partial(
            KernelSourcePolicy,
            **self.source_header(source),
            used=posterior.used,
            directions=questions.directions.astype(np.float32),
            density=density,
        )
        # Cells are to weigh the same to whom they matter: contexts by their weight, and arms by how
        # often the people of the source there were given them.
        weights = (questions.weights[:, None] * share / share.sum(axis=1, keepdims=True)).ravel()
        scales = np.array([*self._likely.best.length_scales, _ARM_LENGTH_SCALE])
        cut = _cutting(grid.points, weights, scales, (*self.domain.levels, self.arms), rng)
        counts = source_cell_counts(self.arms, source.budget.epsilon)
        return policy(cells=next_cells(source.policies, counts, cut, policy, posterior))


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
