"""Our locally private kernel bandit.

Every report is a noisy linear measurement of the arms' functions (measurement.py), so a Gaussian
posterior over all arms' coefficients (posterior.py) holds everything that was told, and what the
next people are asked follows from it. All of it reads reports that are private already, so none of
it costs privacy; a wrong density or prior costs regret, never privacy.
"""

from __future__ import annotations

from typing import ClassVar, Unpack

import numpy as np
from numpy.typing import ArrayLike

from discreet.action_space import ArmPoints
from discreet.domain import Box
from discreet.learners.base import Common
from discreet.learners.local_kernel.cells import Cells
from discreet.learners.local_kernel.features import (
    MOST_COLUMNS,
    CosineFeatures,
    Density,
    DensityBins,
    grid_of,
)
from discreet.learners.local_kernel.measurement import Measurements
from discreet.learners.local_kernel.policy import KernelPolicy, KernelReports, KernelStatistics
from discreet.learners.local_kernel.posterior import (
    CELL_COUNTS,
    Likely,
    Questions,
    best_cells,
    most_cells,
)
from discreet.learners.local_kernel.sources import (
    CELLS_EVERY,
    COUNT_EVERY,
    KernelSources,
    learning_due,
)
from discreet.privacy import Local, NonPrivate
from discreet.validation import FloatArray, InvalidInput, positive_number, whole_number


class LocalKernel(KernelSources):
    """Learns which arm is best where from one private value of each person.

    Auxiliary sources (`open_source`, see sources.py) enter the same posterior for as long as they
    do not contradict the target (sources.py).

    Args:
        budget: `Local(epsilon)`, or `NonPrivate()` for the same learner without noise.
        density: "learned" from the reports, or "uniform" if contexts are known to be uniform.
        batch: least number of reports between two policies.
        growth: later, that number is this share of all reports so far.
    """

    name: ClassVar[str] = "local_kernel"
    trust_models: ClassVar[tuple[str, ...]] = ("local", "none")
    saved = (
        "_likely",
        "_density",
        "_cell_count",
        "_cells",
        "_pair_densities",
        "_given_up",
        "_reviewed",
        "_doubt",
    )
    _density: Density
    _cell_count: int
    _cells: Cells

    def __init__(
        self,
        domain: Box,
        arms: int | ArmPoints,
        budget: Local | NonPrivate,
        *,
        density: str = "learned",
        batch: int = 50,
        growth: float = 0.01,
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
        self.features = CosineFeatures.of(domain.levels, self.arms)
        self._likely = Likely.first(domain.dimension)
        self._density = Density.uniform(len(DensityBins(domain.levels)))
        self._cell_count = 1
        self._cells = Cells.whole(1)

    @property
    def batch_size(self) -> int:
        return max(self.batch, int(self._published_at * self.growth))

    def _empty(self) -> KernelStatistics:
        bins = len(DensityBins(self.domain.levels))
        return KernelStatistics.zeros(self.arms * len(self.features), bins)

    def _statistics(self, policy: KernelPolicy, reports: KernelReports) -> KernelStatistics:
        policy.check(reports)
        return Measurements(policy).statistics(reports)

    def _check_sums(self, statistics: KernelStatistics) -> None:
        size = self.arms * len(self.features)
        statistics.check(size, len(self._density.shares), self.domain.dimension)

    def _publish(self) -> KernelPolicy:
        version = len(self._policies)
        if self.density == "learned":
            sums = self._sums
            self._density = self._density.with_sums(sums.located, sums.placed, version)
        lost = self._review(version)
        if learning_due(version) or lost or (version == 0 and self.source_total):
            self._learn()
        rng = np.random.default_rng([self.public_seed, version, 2])
        # While length scales are uncertain, other policies take others: with one that is too long
        # nobody would ask what could tell.
        smooth = self._likely.draw(rng)
        posterior = self._posterior(smooth)
        grid = grid_of(self.public_seed, version, self.features)
        mass = grid.weights(self._density.shares)
        phi = grid.phi[:, posterior.used]
        questions = Questions.draw(posterior, phi, mass, rng)
        questions = self._doubted(questions, smooth, phi, mass, rng)

        def policy(cells: Cells) -> KernelPolicy:
            return KernelPolicy(
                **self.policy_header(),
                used=posterior.used,
                values=questions.values.astype(np.float32),
                directions=questions.directions.astype(np.float32),
                cells=cells,
                density=self._density.shares,
                epsilon=self.budget.epsilon,
            )

        def cut(count: int) -> Cells:
            scales = np.array(self._likely.best.length_scales)
            return questions.cells(grid.points, count, scales, self.domain.levels, rng)

        def measured(cells: Cells) -> Measurements:
            return Measurements(policy(cells))

        if version % COUNT_EVERY == 0:
            now = self._cell_count if version > COUNT_EVERY else None
            allowed = [count for count in CELL_COUNTS if count <= most_cells(self.budget.epsilon)]
            best = best_cells(allowed, now, cut, measured, questions, posterior.used)
            self._cell_count = best.count
        if version % CELLS_EVERY == 0:
            self._cells = cut(self._cell_count)
        return policy(self._cells)

    def predict(self, contexts: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Posterior mean and standard deviation (n, K) of each arm's reward at contexts (n, d).

        In the units of rewards; for plots, and for whoever decides without exploring.
        """
        posterior = self._posterior(self._likely.best)
        phi = self.features(self.domain.to_unit(contexts), posterior.used)
        width = self.reward_bounds.upper - self.reward_bounds.lower
        mean = self.reward_bounds.lower + width * 0.5 * (1.0 + phi @ posterior.mean.T)
        return mean, 0.5 * width * posterior.deviations(phi)

    @property
    def length_scales(self) -> tuple[float, ...]:
        """How far functions vary along each column, as a share of its bounds, as learnt so far."""
        return self._likely.best.length_scales
