"""How the kernel bandit hears from auxiliary sources.

Every report of a source is a linear measurement of the same coefficients (measurement.py),
so its sums J_m and b_m say all. They are kept apart from the target's and from each other.

*Trust.* A source is believed to share the target's functions with probability w. The reports of
both are either explained by one set of functions or each by its own, and with the evidence E(J, b)
of posterior.py

    log w / (1 - w) = 3 + E(J + J_m, b + b_m) - E(J, b) - E(J_m, b_m).

A source with w below 0.1 is given up for good; J_m and b_m of all others are added to the target's.
With 1 - w of those together, the doubt, functions of the target are drawn as if there were no
source, so a source that contradicts is found out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, ClassVar, Unpack

import numpy as np

from discreet.action_space import ArmPoints
from discreet.codec import Range
from discreet.domain import Box
from discreet.learners.base import Common
from discreet.learners.local_kernel.cells import Cells
from discreet.learners.local_kernel.features import CosineFeatures, Density, DensityBins, grid_of
from discreet.learners.local_kernel.measurement import SourceMeasurements, pair_bins, pairs
from discreet.learners.local_kernel.policy import (
    KernelPolicy,
    KernelReports,
    KernelSourcePolicy,
    KernelStatistics,
)
from discreet.learners.local_kernel.posterior import (
    CELL_COUNTS,
    FUNCTIONS,
    PARTITIONS,
    KernelPosterior,
    Likely,
    Questions,
    Smooth,
    best_cells,
    likely,
    most_cells,
)
from discreet.learners.sources import SourceLearner
from discreet.learners.stream import Stream
from discreet.privacy import Local, NonPrivate
from discreet.validation import FloatArray

SourceStream = Stream[KernelSourcePolicy, KernelStatistics]

PRIOR_LOG_ODDS = 3.0
_LEAST_TRUST, _LEAST_DOUBT = 0.1, 0.01
# Evidence is compared anew for every so many policies of the target.
_REVIEW_EVERY = 4
# Cells are cut anew for every so many policies, into a number that is chosen every so many.
CELLS_EVERY, COUNT_EVERY = 4, 20
# Arms are told apart about as readily as halves of an axis.
_ARM_LENGTH_SCALE = 0.5
# A density is moved at most this many times as far as reports say.
_MOST_STRETCH = 3.0


class KernelSources(
    SourceLearner[KernelPolicy, KernelReports, KernelStatistics, KernelSourcePolicy]
):
    """The part of `LocalKernel` that hears from sources."""

    reports_type = KernelReports
    statistics_type = KernelStatistics
    source_policy_type: ClassVar[type[KernelSourcePolicy]] = KernelSourcePolicy
    source_reports_type: ClassVar[type[KernelReports]] = KernelReports

    batch: int
    growth: float
    features: CosineFeatures
    _likely: Likely
    # Where the people of each source that reported, and their arms, are: Z K bins.
    _pair_densities: dict[str, Density]
    # Sources that contradicted the target; what they said counts for nothing any more.
    _given_up: tuple[str, ...]
    # The sources that were believed when evidence was last compared, and the doubt then.
    _reviewed: tuple[str, ...]
    _doubt: Annotated[float, Range(0.0, 1.0)]

    def __init__(
        self,
        domain: Box,
        arms: int | ArmPoints,
        budget: Local | NonPrivate,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(domain, arms, budget, **common)
        self._pair_densities = {}
        self._given_up, self._reviewed, self._doubt = (), (), 0.0

    def source_batch(self, name: str) -> int:
        return max(self.batch, int(self.source_total * 2.0 * self.growth))

    def source_trust(self) -> Mapping[str, float]:
        """For each source that reported, the probability that it shares the reward functions; 0
        for those that were given up."""
        with self.lock:
            return {**dict.fromkeys(sorted(self._given_up), 0.0), **self._trust()}

    @property
    def _believed(self) -> dict[str, KernelStatistics]:
        """The sums of all sources that reported and were not given up."""
        return {
            name: source.sums
            for name, source in self._sources.items()
            if source.people and name not in self._given_up
        }

    def _posterior(self, smooth: Smooth) -> KernelPosterior:
        """From the reports of the target and of all sources that are believed."""
        return KernelPosterior.of(
            self.features, smooth, *_added(self._sums, *self._believed.values())
        )

    def _learn(self) -> None:
        """Look for likelier hyperparameters."""
        sums = _added(self._sums, *self._believed.values())
        self._likely = likely(self.features, self._likely.best, *sums)

    def _evidence(self, *parts: KernelStatistics) -> float:
        """E of the sum of these."""
        return KernelPosterior.of(self.features, self._likely.best, *_added(*parts)).evidence

    def _share(self, alone: float, *parts: KernelStatistics) -> float:
        """The probability that these share the target's functions; `alone` is E of the target."""
        together = self._evidence(self._sums, *parts)
        odds = PRIOR_LOG_ODDS + together - alone - self._evidence(*parts)
        return 1.0 / (1.0 + math.exp(-min(max(odds, -500.0), 500.0)))

    def _trust(self) -> dict[str, float]:
        """For each source that was not given up (see the module)."""
        alone = self._evidence(self._sums)
        return {name: self._share(alone, sums) for name, sums in self._believed.items()}

    def _review(self, version: int) -> bool:
        """Before a policy of the target: compare evidence when it is time. Whether a source was
        given up."""
        if set(self._reviewed) == set(self._believed) and version % _REVIEW_EVERY:
            return False
        lost = tuple(name for name, trust in self._trust().items() if trust < _LEAST_TRUST)
        self._given_up += lost
        believed = self._believed
        self._reviewed, self._doubt = tuple(believed), 0.0
        if believed:
            self._doubt = 1.0 - self._share(self._evidence(self._sums), *believed.values())
        return bool(lost)

    def _doubted(
        self,
        questions: Questions,
        smooth: Smooth,
        phi: FloatArray,
        mass: FloatArray,
        rng: np.random.Generator,
    ) -> Questions:
        """The same with as many functions from the target's own posterior as there is doubt."""
        if self._doubt <= _LEAST_DOUBT:
            return questions
        alone = KernelPosterior.of(self.features, smooth, *_added(self._sums))
        own = Questions.draw(alone, phi, mass, rng)
        count = math.ceil(self._doubt * FUNCTIONS)
        return Questions(
            values=np.concatenate([own.values[:count], questions.values[count:]]),
            directions=np.concatenate([own.directions[:count], questions.directions[count:]]),
            weights=questions.weights,
        )

    def _empty_source(self) -> KernelStatistics:
        return KernelStatistics.zeros(self.arms * len(self.features), self._pair_bins)

    def _publish_source(self, source: SourceStream) -> KernelSourcePolicy:
        version = len(source.policies)
        density = self._pair_density(source).shares
        if self.people == 0 and self.source_total:  # later the target's policies see to it
            published = sum(len(other.policies) for other in self._sources.values())
            if published == 0 or learning_due(published):
                self._learn()
        place = list(self._sources).index(source.name)
        rng = np.random.default_rng([self.public_seed, version, 3, place])
        posterior = self._posterior(self._likely.draw(rng))
        grid = grid_of(self.public_seed, version, self.features)
        share = density[pair_bins(grid, self.arms)].reshape(-1, self.arms)
        mass = share.sum(axis=1) / share.sum()
        questions = Questions.draw(posterior, grid.phi[:, posterior.used], mass, rng)

        def policy(cells: Cells) -> KernelSourcePolicy:
            return KernelSourcePolicy(
                **self.source_header(source),
                used=posterior.used,
                directions=questions.directions.astype(np.float32),
                cells=cells,
                density=density,
            )

        before = source.policies[-1].cells if version else None
        if before is not None and version % CELLS_EVERY:
            return policy(before)
        # Cells are to weigh the same to whom they matter: contexts by their weight, and arms by how
        # often the people of the source there were given them.
        weights = (questions.weights[:, None] * share / share.sum(axis=1, keepdims=True)).ravel()
        scales = np.array([*self._likely.best.length_scales, _ARM_LENGTH_SCALE])
        points, levels = pairs(grid, self.arms), (*self.domain.levels, self.arms)

        def cut(count: int) -> Cells:
            return Cells.split(points, weights, count, PARTITIONS, scales, levels, rng)

        def measured(cells: Cells) -> SourceMeasurements:
            return SourceMeasurements(policy(cells))

        if before is not None and version % COUNT_EVERY:
            return policy(cut(before.count))
        now = before.count if before is not None and version > COUNT_EVERY else None
        allowed = cell_counts(self.arms, source.budget.epsilon)
        return policy(best_cells(allowed, now, cut, measured, questions, posterior.used))

    @property
    def _pair_bins(self) -> int:
        """Z K, how many bins the density of a source has."""
        return len(DensityBins(self.domain.levels)) * self.arms

    def _pair_density(self, source: SourceStream) -> Density:
        """Moved towards where people were located since the last policy (features.py).

        Near the likeliest density a step of expectation maximisation goes p - b of the way. It is
        stretched, by no more than the root of that, because noise is stretched with it.
        """
        density = self._pair_densities.get(source.name, Density.uniform(self._pair_bins))
        if source.people:
            stretch = min(_MOST_STRETCH, source.policies[-1].mechanism.contrast ** -0.5)
            sums, version = source.sums, len(source.policies)
            density = density.with_sums(sums.located, sums.placed, version, stretch)
            self._pair_densities[source.name] = density
        return density

    def _source_statistics(
        self, policy: KernelSourcePolicy, reports: KernelReports
    ) -> KernelStatistics:
        policy.check(reports)
        return SourceMeasurements(policy).statistics(reports)


def learning_due(policies: int) -> bool:
    """Whether hyperparameters are learnt again after so many policies."""
    return policies in (5, 12) or (policies > 0 and policies % 25 == 0)


def cell_counts(arms: int, epsilon: float) -> list[int]:
    """The numbers of cells that a source with this epsilon may have, increasing.

    With fewer than two for each arm nothing is learnt of where people and arms are.
    """
    least = min([count for count in CELL_COUNTS if count >= 2 * arms], default=CELL_COUNTS[-1])
    most = max(least, most_cells(epsilon))
    return [count for count in CELL_COUNTS if least <= count <= most]


def _added(*parts: KernelStatistics) -> tuple[FloatArray, FloatArray]:
    """J and b of several sums together."""
    first, *rest = parts
    precision, weighted = first.precision, first.weighted
    for part in rest:
        precision, weighted = precision + part.precision, weighted + part.weighted
    return precision, weighted
