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
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Annotated, Any, ClassVar, Unpack

import numpy as np
from numpy.typing import ArrayLike

from discreet.codec import Range
from discreet.learners.base import Common
from discreet.learners.forgetting import half_life, longest, sharpness
from discreet.learners.local_kernel.cells import MOST_PARTS, Cells, Ranks, people_asked
from discreet.learners.local_kernel.features import (
    MOST_COLUMNS,
    CosineFeatures,
    Density,
    DensityBins,
    counted,
    grid_of,
)
from discreet.learners.local_kernel.measurement import Measurements, open_statistics
from discreet.learners.local_kernel.policy import (
    KernelOffer,
    KernelPolicy,
    KernelSourcePolicy,
    KernelStatistics,
    OpenKernelPolicy,
)
from discreet.learners.local_kernel.posterior import KernelPosterior, MixedPosterior
from discreet.learners.local_kernel.prior import Likely, Smooth, likely
from discreet.learners.local_kernel.questions import (
    CELL_COUNTS,
    PARTITIONS,
    Hearing,
    Questions,
    Stakes,
    many_more,
    most_cells,
    next_cells,
)
from discreet.learners.local_kernel.values import KernelBeliefs, Places
from discreet.learners.messages import Observations, Reports
from discreet.learners.signs import SignedReports
from discreet.learners.sources import Belief, Information, TrustingLearner, believe
from discreet.learners.stream import Stream
from discreet.people.domain import Arms, Box
from discreet.privacy import Local, NonPrivate
from discreet.privacy.frequency import SignedSubsetSelection, k_ary_response
from discreet.validation import FloatArray, InvalidInput, positive_number, whole_number

_LEAST_DOUBT = 0.01
_PRIOR_REPORTS, _LEAST_NOISE = 10.0, 1e-3
# People are asked where they are if it takes at most this share of those expected.
_MOST_ASKED = 0.03
# Evidence is compared anew for every so many policies of the target.
_REVIEW_EVERY = 4
# The least number of reports for each arm between two policies, and in all for those of a source.
_LEAST_OF_ARM, _LEAST_OF_SOURCE = 3, 50
# Arms are told apart about as readily as halves of an axis.
_ARM_LENGTH_SCALE = 0.5
# Under so many hyperparameters functions are believed, and are predicted.
_MIXED, _MIXED_TO_PREDICT = 4, 8
# Hyperparameters are learnt from so many people on: before, all of the prior is better.
_LEARNING_FROM = 50
# A density is moved at most this many times as far as reports say.
_MOST_STRETCH = 3.0


class LocalKernel(
    TrustingLearner[KernelPolicy | OpenKernelPolicy, Reports, KernelStatistics, KernelSourcePolicy]
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
    reports_type: type[Reports]
    statistics_type = KernelStatistics
    source_policy_type = KernelSourcePolicy
    source_reports_type = SignedReports
    saved: ClassVar[tuple[str, ...]] = (
        *TrustingLearner.saved,
        "_likely",
        "_noise",
        "_ranks",
        "_densities",
        "_reviewed",
    )
    _likely: Likely
    # The variance of a report of the target given the functions; less than 1 only of open ones.
    _noise: Annotated[float, Range(high=1.0, above=0.0)]
    # How contexts are measured.
    _ranks: Ranks
    # Where the people of each stream are; of a source that reported with their arms, in Z K bins.
    _densities: dict[str, Density]
    # What was believed of sources when evidence was last compared.
    _reviewed: Belief

    def __init__(
        self,
        domain: Box,
        arms: Arms,
        budget: Local | NonPrivate,
        *,
        density: str = "learned",
        batch: int = 10,
        growth: float = 0.02,
        drift: float | None = None,
        **common: Unpack[Common],
    ) -> None:
        if isinstance(domain, Box) and domain.dimension > MOST_COLUMNS:
            raise InvalidInput(
                f"domain had {domain.dimension} columns; local_kernel takes at most "
                f"{MOST_COLUMNS}. Choose the columns that matter, or use partition."
            )
        super().__init__(domain, arms, budget, **common)
        self.reports_type = Observations if isinstance(budget, NonPrivate) else SignedReports
        if density not in ("learned", "uniform"):
            raise InvalidInput(f"density was {density!r}; it must be 'learned' or 'uniform'.")
        self.density = density
        self.batch = whole_number(batch, "batch", minimum=1)
        self.growth = positive_number(growth, "growth")
        self.drift = half_life(drift)
        self.features = CosineFeatures.of(domain.levels, self.arms)
        self._likely = Likely(Smooth.first(domain.dimension))
        self._noise = 1.0
        self._ranks = Ranks.plain(domain.dimension, self._to_ask_about())
        self._densities = {}
        self._reviewed = Belief({}, (), 0.0)

    @property
    def batch_size(self) -> int:
        least = max(self.batch, _LEAST_OF_ARM * self.arms)
        return longest(self.drift, max(least, int(self._published_at * self.growth)))

    def source_batch(self, name: str) -> int:
        return max(self.batch, _LEAST_OF_SOURCE, int(self.source_total * 2.0 * self.growth))

    # Sums.

    @property
    def _size(self) -> tuple[int, int]:
        """K M, how many coefficients there are, and Z, how many bins."""
        return self.arms * len(self.features), len(DensityBins(self.domain.levels))

    def _empty(self) -> KernelStatistics:
        return KernelStatistics.zeros(*self._size, self.domain.dimension, self._ranks.stage)

    def _empty_source(self) -> KernelStatistics:
        coefficients, bins = self._size
        dimension, stage = self.domain.dimension, self._ranks.stage
        return KernelStatistics.zeros(coefficients, bins * self.arms, dimension, stage)

    def _statistics(
        self, policy: KernelPolicy | OpenKernelPolicy, reports: Reports
    ) -> KernelStatistics:
        if isinstance(policy, OpenKernelPolicy):
            assert isinstance(reports, Observations)
            return open_statistics(policy, reports)
        return _measured(policy, reports)

    def _source_statistics(self, policy: KernelOffer, reports: Reports) -> KernelStatistics:
        return _measured(policy, reports)

    def _check_sums(self, statistics: KernelStatistics) -> None:
        statistics.check(*self._size, self.domain.dimension, self._ranks.stage)

    # What is known.

    def _posterior(self, smooth: Smooth, *, alone: bool = False) -> KernelPosterior:
        """From the reports of the target, and of all sources that are believed unless `alone`."""
        information = self._own if alone else self._joint
        return KernelPosterior.of(self.features, smooth.prior(self.features), information)

    def _mixed(
        self, count: int, rng: np.random.Generator, doubt: float = 0.0, *, alone: bool = False
    ) -> MixedPosterior:
        """Posteriors under at most so many likely hyperparameters; with the probability `doubt`
        that the sources do not share the target's functions, from the target's reports alone."""
        smooths, shares = self._likely.draw(count, rng)
        parts = [self._posterior(smooth, alone=alone) for smooth in smooths]
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
        weight = sharpness(self.drift, self.people) / self._noise
        return self._sums.information.scaled(weight)

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
        self.log_learnt("length scales", self.length_scales)
        if isinstance(self.budget, NonPrivate) and self.people:
            self._noise = self._likely_noise()

    def _likely_noise(self) -> float:
        """The mean square of open reports around the likeliest functions, with as many degrees of
        freedom less as these take (MacKay 1992), and ten reports of variance 1 besides."""
        sums, posterior = self._sums, self._posterior(self._likely.best)
        at = posterior.prior.places(self.arms, len(self.features))
        mean = posterior.mean.ravel()
        apart = sums.squares + mean @ (
            sums.precision[np.ix_(at, at)] @ mean - 2.0 * sums.weighted[at]
        )
        free = sums.reports - posterior.degrees_of_freedom
        noise = (_PRIOR_REPORTS + max(float(apart), 0.0)) / (_PRIOR_REPORTS + max(free, 0.0))
        return min(max(noise, _LEAST_NOISE), 1.0)

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
        if isinstance(stream.budget, NonPrivate):
            return counted(sums.located)
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
        phi = self.features(self._ranks(self.domain.to_unit(contexts)), posterior.used)
        width = self.reward_bounds.upper - self.reward_bounds.lower
        mean = self.reward_bounds.lower + width * 0.5 * (1.0 + phi @ posterior.mean.T)
        return mean, 0.5 * width * posterior.deviations(phi)

    def _beliefs(self, contexts: Any) -> KernelBeliefs:
        rng, known = np.random.default_rng, self._densities.get(self._target.name)
        density = np.ones(self._size[1]) if known is None else known.shares
        if isinstance(self.budget, NonPrivate):
            density = counted(self._sums.located)
        sure = (
            bool(self.density == "uniform" or (known and known.placed)) or not self.budget.private
        )
        places = Places(self.domain, self.features, self._ranks, density, sure, self.public_seed)
        own, joint = (
            self._mixed(_MIXED_TO_PREDICT, rng(self.public_seed), alone=a) for a in (True, False)
        )
        return KernelBeliefs(places, contexts, own, joint)

    @property
    def length_scales(self) -> tuple[float, ...]:
        """How far functions vary along each column, as a share of its bounds, as learnt so far."""
        return self._likely.best.length_scales

    # What is published.

    @property
    def _along(self) -> SignedSubsetSelection:
        """How people report a part of a column."""
        return k_ary_response(MOST_PARTS, self.budget.visit_epsilon)

    def _to_ask_about(self) -> list[int]:
        """The columns of which people are asked where they are: none where they say so anyway, or
        where it would take too many of them."""
        levels = self.domain.levels
        columns = [axis for axis, count in enumerate(levels) if count is None]
        if isinstance(self.budget, NonPrivate) or self.density == "uniform":
            return []
        if most_cells(self.budget.visit_epsilon) < MOST_PARTS:
            return []  # there the first signs are worth more
        people = people_asked(self._along) * len(columns)
        expected = 1000 if self.horizon is None else self.horizon
        few = len(levels) <= DensityBins.MOST_COLUMNS and people <= _MOST_ASKED * expected
        return columns if few else []

    def _rank(self) -> None:
        """Judge what people said of where they are."""
        ranks = self._ranks.judged(self._sums.along, self._along)
        if self._sources:
            ranks = ranks.settled()  # their reports measure the same functions
        before, self._ranks = self._ranks, ranks
        if ranks.stage > before.stage:
            sums = self._target.sums
            self._target.sums = replace(self._empty(), **sums.tally(self._empty()))
            self._likely = Likely(Smooth.first(self.domain.dimension))

    def _publish(self) -> KernelPolicy | OpenKernelPolicy:
        version = len(self._policies)
        if self._ranks.asked.size:
            self._rank()
        density = np.ones(self._size[1])
        if self.density == "learned" and not self._ranks.asked.size:
            density = self._density_of(self._target)
        lost = self._review(version)
        due = self.people >= _LEARNING_FROM and many_more(self._published_at, self.people)
        if due or lost:
            self._learn()
        rng = np.random.default_rng([self.public_seed, version, 2])
        posterior = self._mixed(_MIXED, rng, self._reviewed.doubt)
        grid = grid_of(self.public_seed, version, self.features)
        mass, phi = grid.weights(density), grid.phi[:, posterior.used]
        stakes = Stakes.of(posterior, phi, mass, rng)
        if isinstance(self.budget, NonPrivate):
            values = stakes.open_functions(self._noise, self._left, rng)
            return OpenKernelPolicy(
                **self.policy_header(),
                used=posterior.used,
                ranks=self._ranks,
                values=values.astype(np.float32),
            )

        before = [
            policy
            for policy in self._policies
            if isinstance(policy, KernelOffer) and not policy.ranks.asked.size
        ]

        def ask(cells: Cells) -> Questions:
            mechanism = k_ary_response(cells.count, self.budget.visit_epsilon)
            hearing = Hearing.of(cells, mechanism, grid.points, mass)
            return stakes.questions(hearing, self._left, rng)

        scales = np.array(self._likely.best.length_scales)
        cut = _cutting(grid.points, stakes.weights, scales, self.domain.levels, rng)
        counts = [count for count in CELL_COUNTS if count <= most_cells(self.budget.visit_epsilon)]
        if self._ranks.asked.size:
            cells = Cells.along(self._ranks.asked, self._along.bins)
        else:
            cells = next_cells(before, (self._published_at, self.people), counts, cut, ask)
        questions = ask(cells)
        return KernelPolicy(
            **self.policy_header(),
            used=posterior.used,
            ranks=self._ranks,
            values=questions.values.astype(np.float32),
            directions=questions.directions.astype(np.float32),
            cells=cells,
            density=density,
            epsilon=self.budget.visit_epsilon,
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
        # Later the target's policies see to it.
        if self.people == 0 and many_more(source.published_at, source.people):
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
        people = source.published_at, source.people
        cells = next_cells(source.policies, people, counts, cut, ask)
        return KernelSourcePolicy(
            **self.source_header(source),
            used=posterior.used,
            ranks=self._ranks.settled(),
            directions=ask(cells).directions.astype(np.float32),
            cells=cells,
            density=density,
        )


def _measured(policy: KernelOffer, reports: Reports) -> KernelStatistics:
    """The sums of reports about questions; `InvalidInput` if the policy cannot have made them."""
    assert isinstance(reports, SignedReports)
    policy.check(reports)
    return Measurements(policy).statistics(reports)


def _cutting(
    points: FloatArray,
    weights: FloatArray,
    length_scales: FloatArray,
    levels: tuple[int | None, ...],
    rng: np.random.Generator,
) -> Callable[[int], Cells]:
    """Cuts points with these weights into so many cells."""
    return lambda count: Cells.split(points, weights, count, PARTITIONS, length_scales, levels, rng)


def source_cell_counts(arms: int, epsilon: float) -> list[int]:
    """The numbers of cells that a source with this epsilon may have, increasing.

    With fewer than two for each arm nothing is learnt of where people and arms are.
    """
    least = min([count for count in CELL_COUNTS if count >= 2 * arms], default=CELL_COUNTS[-1])
    most = max(least, most_cells(epsilon))
    return [count for count in CELL_COUNTS if least <= count <= most]
