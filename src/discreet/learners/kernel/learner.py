"""The kernel bandit: what all trust models share, and the learner under local privacy, or none.

    policy     functions, partitions and a density, from the posterior       `_publish`, design.py
    choice     the best arm under the arm function that a public coin picks       policy.py
    report     (cell, sign) by 2G-ary randomised response                    policy.py
    statistics J += a a', b += t a, and where people are                     design.py, density.py
    posterior  N((D^-1 + J)^-1 b, (D^-1 + J)^-1), averaged over priors D     posterior.py

Every report is a noisy linear measurement of the arms' functions, so the sums J and b hold all that
was reported, and the next queries follow from the posterior. Reports are private when they leave a
person, so everything here is post-processing; a wrong density or prior costs regret, never privacy.

Reports of a source measure the same coefficients. Their sums are kept apart from the target's and
added with the source's weight (posterior.py).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Unpack

import numpy as np
from numpy.typing import ArrayLike

from discreet.codec import Range
from discreet.gaussian import GaussianNaturalParameters
from discreet.learners.base import ArmLearner, Common, P, R, S
from discreet.learners.discounting import check_half_life, effective_sample_factor, longest, portion
from discreet.learners.kernel.cells import Cells, Ranks
from discreet.learners.kernel.density import Density, counted
from discreet.learners.kernel.design import (
    CELL_COUNTS,
    PARTITIONS,
    DecisionContrasts,
    KernelStatistics,
    Measurements,
    QueryDesign,
    ResponseModel,
    many_more,
    most_cells,
    next_cells,
    open_statistics,
)
from discreet.learners.kernel.features import (
    LEFT_OUT,
    MOST_COLUMNS,
    CosineFeatures,
    DensityBins,
    Grid,
    grid_of,
    on_levels,
    whole_coefficients,
)
from discreet.learners.kernel.marginals import (
    EDGES_TESTED,
    MOST_PARTS,
    RewardTails,
    cells_asked,
    light_tail,
    people_asked,
    people_for_tail,
    ranks_after,
)
from discreet.learners.kernel.policy import WHOLE, KernelPolicy, OpenKernelPolicy
from discreet.learners.kernel.posterior import (
    CoefficientPosterior,
    HyperparameterPosterior,
    Hyperparameters,
    MixturePart,
    PosteriorMixture,
    SourceWeights,
    coefficient_places,
    hyperparameter_posterior,
    source_weights,
)
from discreet.learners.messages import Observations, Reports
from discreet.learners.policy import TARGET_NAME
from discreet.learners.signs import SignedReports
from discreet.learners.stream import Stream
from discreet.learners.values import AS_REPORTED, MODEL_ERROR_FINE, ValuePosterior
from discreet.people.domain import ArmPoints, Arms, Box, RewardBounds
from discreet.privacy import Budget, Local, NonPrivate, Shuffled
from discreet.privacy.frequency import SignedSubsetSelection, k_ary_response
from discreet.validation import FloatArray, InvalidInput, positive_number, whole_number

if TYPE_CHECKING:
    from sklearn.gaussian_process.kernels import Kernel

    from discreet.learners.kernel.prior_knowledge import KernelPrior, NoiseBound

# Sources that share the target's functions but with less than this probability are certain.
_LEAST_DOUBT = 0.01
_PRIOR_REPORTS, _LEAST_NOISE = 10.0, 1e-3
# Ranks, and the range of rewards, are estimated if that takes at most this share of the people
# expected. Every second policy asks about rewards, and the range takes at least eight of them.
_MOST_ASKED, _ASK_EVERY, _ROUNDS = 0.05, 2, 8
# Partitions have several cells until this number of people are located: what is measured under a
# wrong density stays biased.
_LOCATED_FIRST = 1500
# Source weights are estimated anew once in this many policies of the target.
_REVIEW_EVERY = 4
# The least number of reports for each arm between two policies, and in all for those of a source.
_LEAST_OF_ARM, _LEAST_OF_SOURCE, _GROWTH_OF_SOURCE = 3, 50, 0.04
# Cells separate arms about as readily as halves of an axis.
_ARM_LENGTH_SCALE = 0.5
# The number of hyperparameters that are averaged for a policy, and for predictions.
_MIXED, _MIXED_TO_PREDICT = 4, 8
# More of a kernel that is left out is worth a warning.
_MOST_LEFT_OUT = 0.05
# Hyperparameters are learnt from this many people on: before, the whole prior is better.
_LEARNING_FROM = 50


class KernelCommon(Common, total=False):
    """Options of kernel bandits besides domain, arms and budget."""

    half_life: float | None
    kernel: Kernel | str | None
    reward_noise: float | None


class KernelLearner(ArmLearner[P, R, S], Generic[P, R, S]):
    """The kernel bandit without its reports: features, prior, posterior and predictions.

    Attributes:
        varies: whether functions vary with the context (best_arm: no).
        central: whether the learner draws the noise.
        clipping_range: the range to which rewards are clipped, as a part of [0, 1].
    """

    name: ClassVar[str] = "kernel"
    trust_models: ClassVar[tuple[str, ...]] = ("local", "shuffled", "joint", "none")
    varies: ClassVar[bool] = True
    takes_sources: ClassVar[bool] = True
    source_reports_type = SignedReports
    saved: ClassVar[tuple[str, ...]] = (
        "_hyperparameters",
        "_densities",
        "_source_weights",
        "_excluded",
    )
    central: ClassVar[bool]
    clipping_range: tuple[float, float] = WHOLE
    _hyperparameters: HyperparameterPosterior
    # How contexts are measured.
    _ranks: Ranks
    # Where the people of each stream are; of a source that reported with their arms, in Z K bins.
    _densities: dict[str, Density]
    # The source weights of the last policy.
    _source_weights: SourceWeights
    # Sources that contradicted the target; their reports are never used again.
    _excluded: tuple[str, ...] = ()

    def __init__(
        self,
        domain: Box,
        arms: Arms,
        budget: Budget,
        *,
        half_life: float | None = None,
        kernel: Kernel | str | None = None,
        reward_noise: float | None = None,
        **common: Unpack[Common],
    ) -> None:
        if self.varies and isinstance(domain, Box) and domain.dimension > MOST_COLUMNS:
            raise InvalidInput(
                f"domain had {domain.dimension} columns; kernel takes at most {MOST_COLUMNS}. "
                "Choose the columns that matter, or use partition (under joint privacy best_arm)."
            )
        if isinstance(budget, Budget) and self.central != budget.is_central:
            raise InvalidInput(
                f"budget was {budget!r}, whose trust model {type(self).__name__} does not take; "
                f"make_learner({self.name!r}, ..) chooses the class by the budget."
            )
        super().__init__(domain, arms, budget, **common)
        self.half_life = check_half_life(half_life)
        self.features = CosineFeatures.of(domain.levels, self.arms, self.varies)
        self.kernel: str | None = None
        self.reward_noise: float | None = None
        self._kernel_prior: KernelPrior | None = None
        self._noise_bound: NoiseBound | None = None
        if kernel is not None or reward_noise is not None:
            self._set_prior_knowledge(kernel, reward_noise)
        self._hyperparameters = self._before_reports()
        self._densities = {}
        self._source_weights = SourceWeights({}, (), 1.0)

    def _set_prior_knowledge(self, kernel: Kernel | str | None, reward_noise: float | None) -> None:
        """Set the prior of a kernel, and the bound on the noise of rewards."""
        # Imported here, because it loads kernels of all kinds.
        from discreet.learners.kernel.prior_knowledge import KernelPrior, NoiseBound

        if kernel is not None and not self.varies:
            raise InvalidInput(
                f"kernel was {kernel!s:.80}; {self.name} ignores contexts, so leave it out."
            )
        if kernel is not None:
            space, features = self.space, self.features
            self._kernel_prior = KernelPrior.of(kernel, self.domain, space, features)
            self.kernel = self._kernel_prior.text
        if reward_noise is not None:
            self.reward_noise = positive_number(reward_noise, "reward_noise")
            width = self.reward_bounds.upper - self.reward_bounds.lower
            self._noise_bound = NoiseBound.of(self.reward_noise, width)

    def _before_reports(self) -> HyperparameterPosterior:
        if self._kernel_prior is not None:
            return self._kernel_prior.prior
        columns = self.domain.dimension if self.varies else 0
        points = isinstance(self.space, ArmPoints)
        return HyperparameterPosterior(Hyperparameters.first(columns, points))

    @property
    def warnings(self) -> tuple[str, ...]:
        left_out = 0.0 if self._kernel_prior is None else self._kernel_prior.left_out
        if left_out <= _MOST_LEFT_OUT:
            return super().warnings
        return (
            *super().warnings,
            f"{self.name} compares contexts by {len(self.features)} features, which leave out "
            f"{left_out:.0%} of its kernel. Longer length scales, fewer columns or fewer arms "
            "leave out less.",
        )

    def policy_header(self, source: Stream[P, S] | None = None) -> dict[str, Any]:
        return {**super().policy_header(source), "varies": self.varies}

    def _shape(self, arms: int = 1) -> tuple[int, int, int, int]:
        """K M coefficients, Z bins, or Z K of people with their arms, d columns and the stage."""
        coefficients, bins = self.arms * len(self.features), arms * len(self.features.bins())
        return coefficients, bins, self.domain.dimension, self._stage

    @property
    def _stage(self) -> int:
        """Of reports of the latest ranks and clipping range."""
        return 0

    # Statistics.

    def _statistics(self, policy: Any, reports: Any) -> Any:
        if not isinstance(policy, KernelPolicy):
            return self._observed(policy, reports)
        policy.reporter.check(policy, reports)
        return Measurements(policy, self._clipping_gain(policy)).statistics(reports)

    def _clipping_gain(self, policy: KernelPolicy) -> float:
        """The gain of clipped rewards (prior_knowledge.py); 1 without centres."""
        if policy.centres is None or self._noise_bound is None:
            return 1.0
        return self._noise_bound.clipped(policy.radius)[0]

    @abstractmethod
    def _observed(self, policy: Any, reports: Observations) -> Any:
        """The sums of people who report what happened as it was."""

    def _check_reports(self, policy: Any, reports: Any) -> None:
        if isinstance(policy, KernelPolicy):
            policy.reporter.check(policy, reports)
        else:
            self._observed(policy, reports)

    # The posterior.

    @property
    @abstractmethod
    def _own(self) -> GaussianNaturalParameters:
        """J and b of the target's reports."""

    def _of_source(self, source: Stream[Any, Any]) -> GaussianNaturalParameters:
        """J and b of a source's reports, in the units of the target's."""
        found: GaussianNaturalParameters = source._sums.information
        return found

    @property
    def _known(self) -> GaussianNaturalParameters:
        """J and b of the target and all sources that are used."""
        sources = map(self._of_source, self._used_sources.values())
        return reduce(add, sources, self._own)

    def _model_average(
        self,
        count: int,
        rng: np.random.Generator,
        source_weight: float = 1.0,
        *,
        alone: bool = False,
    ) -> PosteriorMixture:
        """Posteriors under at most `count` likely hyperparameters.

        With probability 1 - source_weight the sources do not share the target's functions; then
        the target's reports alone count.
        """
        drawn, shares = self._hyperparameters.draw(count, rng)
        own = self._own
        known = own if alone else self._known
        parts = [self._posterior(each, known) for each in drawn]
        doubt = 1.0 - source_weight
        if doubt > _LEAST_DOUBT:
            parts += [self._posterior(each, own) for each in drawn]
            shares = np.concatenate([(1.0 - doubt) * shares, doubt * shares])
        return PosteriorMixture.of(parts, shares)

    def _posterior(
        self, hyperparameters: Hyperparameters, known: GaussianNaturalParameters | None = None
    ) -> MixturePart:
        """From J and b, by default of all that is used."""
        information = known or self._known
        if self._kernel_prior is not None:
            return self._kernel_prior.posterior(hyperparameters, information)
        prior = hyperparameters.prior(self.features, self.space, self._left_out)
        return CoefficientPosterior.of(self.features, prior, information)

    @property
    def _left_out(self) -> float:
        """The share of the prior variance below which a feature is left out."""
        noisy = self.budget.is_local and self.budget.contribution_epsilon <= 1.0
        return 1e-3 if noisy and not self.source_total else LEFT_OUT

    def _learn(self, sweeps: int = 1) -> None:
        """Update the likely hyperparameters by what all reports say."""
        known = self._known
        if self._kernel_prior is not None:
            self._hyperparameters = self._kernel_prior.learnt(known)
        else:
            self._hyperparameters = hyperparameter_posterior(
                self._hyperparameters,
                lambda candidate: self._posterior(candidate, known).evidence,
                np.random.default_rng([self.public_seed, len(self._policies), 4]),
                self.features.length_scales,
                sweeps,
            )
        self.log_learnt("length scales", self.length_scales)

    @property
    def _left(self) -> int:
        """The number of people still to come who profit from what is learnt now.

        Without a horizon as many are expected as have reported, and a thousand.
        """
        expected = 1000 + self.people if self.horizon is None else self.horizon - self.people
        return longest(self.half_life, max(expected, 1), share=1.0 / math.log(2.0))

    # Where people are.

    def _grid(self, version: int) -> Grid:
        """Where integrals are taken."""
        implied = self._ranks.implied(self.domain)
        return grid_of(self.public_seed, version, self.features, implied)

    def _density_of(self, stream: Stream[Any, Any]) -> FloatArray:
        """The density given all reports so far (density.py)."""
        sums = stream._sums
        arms = 1 if stream is self._target else self.arms
        bins = self.features.bins(self._ranks.implied(self.domain), arms)
        if isinstance(stream.budget, NonPrivate):
            return counted(sums.located, bins.volume)
        density = self._densities.get(stream.name) or Density.uniform(bins)
        # People who are asked about thresholds tell nothing of where they are.
        last = next((each for each in reversed(stream.policies) if not each.thresholds), None)
        if last is not None:
            density = density.after(last, sums.located, sums.placed)
        if stream.people:
            self._densities[stream.name] = density
        return density.shares

    # Sources.

    def _source_batch(self, source: Stream[Any, Any]) -> int:
        return max(_LEAST_OF_SOURCE, int(self.source_total * _GROWTH_OF_SOURCE))

    def _empty_source(self) -> Any:
        return KernelStatistics.zeros(*self._shape(self.arms))

    def _check_source_sums(self, source: Stream[Any, Any], statistics: Any) -> None:
        statistics.check(*self._shape(self.arms))

    def _publish_source(self, source: Stream[Any, Any]) -> Any:
        version = len(source.policies)
        density = self._density_of(source)
        # Later the target's policies learn hyperparameters.
        if self.people == 0 and many_more(source.published_at, source.people):
            self._learn()
        place = list(self._sources).index(source.name)
        rng = np.random.default_rng([self.public_seed, version, 3, place])
        posterior = self._model_average(_MIXED, rng)
        grid = self._grid(version).with_arms(self.arms)
        share = density[grid.bins].reshape(-1, self.arms)
        share = share / share.sum()
        phi, mass = grid.phi[:, posterior.used], share.sum(axis=1)
        contrasts = DecisionContrasts.of(posterior, phi, mass, rng)

        def design(cells: Cells) -> QueryDesign:
            mechanism = k_ary_response(cells.count, source.budget.epsilon)
            response = ResponseModel.of(cells, mechanism, grid.points, share.ravel())
            return contrasts.source_design(response, share, rng)

        # Cells have equal weight: contexts by their importance, and arms by how often people of the
        # source there were given them.
        weights = (contrasts.weights[:, None] * share / share.sum(axis=1, keepdims=True)).ravel()
        scales = np.array([*self.length_scales, _ARM_LENGTH_SCALE])
        levels = (*self.domain.levels, self.arms)
        cut = _cutting(grid.points, weights, scales, levels, rng, bool(self.domain.implied))
        # A constant needs one cell for each arm.
        arms = self.arms if self.varies else (self.arms + 1) // 2
        counts = source_cell_counts(arms, source.budget.epsilon)
        people = source.published_at, source.people
        cells = next_cells(source.policies, people, counts, cut, design)
        return KernelPolicy(
            **self.policy_header(source),
            values=None,
            frequencies=self.features.index[posterior.used],
            ranks=self._ranks.settled(),
            directions=design(cells).directions,
            cells=cells,
            density=density,
            # Under joint privacy the range may change after they reported, and sums do not.
            clipping_range=WHOLE if self.central else self.clipping_range,
        )

    @property
    def _used_sources(self) -> dict[str, Stream[Any, Any]]:
        """The sources that reported and were not excluded."""
        return {
            name: source
            for name, source in self._sources.items()
            if source.people and name not in self._excluded
        }

    def _review(self, due: bool) -> bool:
        """Estimate source weights if that is due, or sources came; whether one was excluded."""
        if set(self._source_weights.used) == set(self._used_sources) and not due:
            return False
        self._source_weights = found = self._estimated_source_weights()
        lost = tuple(name for name in found.weights if name not in found.used)
        self._excluded += lost
        return bool(lost)

    def _estimated_source_weights(self) -> SourceWeights:
        """Source weights under the likeliest hyperparameters."""
        sources = {name: self._of_source(source) for name, source in self._used_sources.items()}
        best = self._hyperparameters.best
        return source_weights(self._own, sources, lambda of: self._posterior(best, of).evidence)

    def source_weights(self) -> Mapping[str, float]:
        """For each source that reported, the probability that it shares the reward functions.

        0 for sources that are excluded.
        """
        with self.lock:
            excluded = dict.fromkeys(sorted(self._excluded), 0.0)
            return {**excluded, **self._estimated_source_weights().weights}

    # Predictions and policy values.

    @property
    def length_scales(self) -> tuple[float, ...]:
        """The likeliest length scale of each column, as a share of its bounds; of a given kernel,
        the factor of its length scales."""
        return self._hyperparameters.best.length_scales or (math.inf,) * self.domain.dimension

    @property
    def _clipping_bias(self) -> float:
        """What clipping takes from a mean reward, at most, on [0, 1]."""
        return 0.0

    @property
    @abstractmethod
    def _predictive(self) -> PosteriorMixture:
        """The posterior of predictions."""

    def predict(self, contexts: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Posterior mean and standard deviation (n, K) of each arm's reward at contexts (n, d).

        In the units of rewards; for plots, and for decisions without exploration.
        """
        posterior = self._predictive
        phi = self.features(self._ranks(self.domain.to_unit(contexts)), posterior.used)
        bounds, (low, high) = self.reward_bounds, self.clipping_range
        width = bounds.upper - bounds.lower
        mean = low + 0.5 * (high - low) * (1.0 + phi @ posterior.mean.T)
        return bounds.lower + width * mean, 0.5 * width * (high - low) * posterior.deviations(phi)

    @property
    @abstractmethod
    def _located(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Where people are: points (Q, d) as they are measured, their shares (Q,) and features."""

    def _values_under(
        self, contexts: Any, own: PosteriorMixture, best: PosteriorMixture, judges_others: bool
    ) -> ValuePosterior:
        """f_k(x) = low + (high - low) (1 + phi(x)' theta_k) / 2, and the best arms by another."""
        domain = self.domain
        if contexts is None:
            points, weights, phi = self._located
            unit = on_levels(self._ranks.inverse(points), domain.levels)
        else:
            unit = domain.people_to_unit(contexts)
            weights, phi = np.full(len(unit), 1.0 / len(unit)), self.features(self._ranks(unit))
        own_phi, (low, high) = phi[:, own.used], self.clipping_range
        half = 0.5 * (high - low)

        def variance(weights: FloatArray) -> float:
            along = (weights.T @ own_phi).reshape(-1, 1)
            return half**2 * float(along[:, 0] @ own.covariance_times(along)[:, 0])

        return ValuePosterior(
            contexts=domain.from_unit(unit),
            weights=weights,
            where=AS_REPORTED if contexts is None else f"the {len(unit)} contexts given",
            expected=low + half * (1.0 + own_phi @ own.mean.T),
            recommended=(phi[:, best.used] @ best.mean.T).argmax(axis=1),
            variance=variance,
            deviations=lambda places: half * own.deviations(own_phi[places]),
            judges_others=judges_others and self.varies,
            judges_rules=self.varies,
            model_error_average=self._clipping_bias,
            model_error_fine=MODEL_ERROR_FINE,
        )


class LocalKernel(KernelLearner[KernelPolicy | OpenKernelPolicy, Reports, KernelStatistics]):
    """The kernel bandit under local privacy, or none: one value of each person.

    Auxiliary sources (`open_source`) enter the same posterior for as long as they do not contradict
    the target.

    Args:
        budget: `Local(epsilon)`, `Shuffled(epsilon, delta)`, or `NonPrivate()` for the same learner
            without noise.
        batch: least number of reports between two policies of the target.
        growth: later, that number is this share of all reports so far; beyond 2,000 people more.
        half_life: of a report's weight, in people; None where rewards do not change.
        kernel: the prior covariance over contexts and arm points, a scikit-learn kernel or its
            text, in the units of the columns of contexts followed by those of arm points; by
            default it is learnt.
        reward_noise: a public bound on the distance of a reward from its mean, in the units of
            rewards, well below half the width of the reward bounds. A wrong one costs no privacy,
            but biases predictions, values and decisions.
    """

    central: ClassVar[bool] = False
    reports_type: type[Reports]
    statistics_type = KernelStatistics
    saved: ClassVar[tuple[str, ...]] = (
        *KernelLearner.saved,
        "_noise",
        "_ranks",
        "clipping_range",
        "_asks_rewards",
    )
    # The variance of a report of the target given the functions; less than 1 only of open ones.
    _noise: Annotated[float, Range(high=1.0, above=0.0)]
    # Whether people are still asked how far rewards reach.
    _asks_rewards: bool

    def __init__(
        self,
        domain: Box,
        arms: Arms,
        budget: Local | Shuffled | NonPrivate,
        *,
        batch: int = 10,
        growth: float = 0.02,
        **common: Unpack[KernelCommon],
    ) -> None:
        super().__init__(domain, arms, budget, **common)
        self.reports_type = Observations if isinstance(budget, NonPrivate) else SignedReports
        self.batch = whole_number(batch, "batch", minimum=1)
        self.growth = positive_number(growth, "growth")
        self._noise = self._usual_noise
        self._ranks = Ranks.plain(domain.dimension, self._to_ask_about())
        self._asks_rewards = self._can_ask_about_rewards()

    @property
    def batch_size(self) -> int:
        # Under a given kernel rewards of an arm inform its neighbours.
        arms = self.arms if self._kernel_prior is None else 0
        least = max(self.batch, _LEAST_OF_ARM * arms)
        return longest(self.half_life, max(least, portion(self._published_at, self.growth)))

    def _empty(self) -> KernelStatistics:
        return KernelStatistics.zeros(*self._shape())

    @property
    def _stage(self) -> int:
        """Of reports of the latest ranks and clipping range."""
        return self._ranks.stage + (self.clipping_range != WHOLE)

    # Policy.

    def _publish(self) -> KernelPolicy | OpenKernelPolicy:
        version, private = len(self._policies), not isinstance(self.budget, NonPrivate)
        # Where people are: ranks first, where they are being estimated, then the density, at each
        # policy, because reports count by the last one.
        if self._ranks.asked.size:
            self._rank()
        if self._asks_rewards:
            self._clip()
        density = self._density_of(self._target)
        if private and self._ranks.asked.size:
            density = np.ones_like(density)
        # The posterior, averaged over likely hyperparameters.
        lost = self._review(version % _REVIEW_EVERY == 0)
        due = self.people >= _LEARNING_FROM and many_more(self._published_at, self.people)
        if due or lost:
            self._learn()
        rng = np.random.default_rng([self.public_seed, version, 2])
        posterior = self._model_average(_MIXED, rng, self._source_weights.together)
        # The decisions that are uncertain, and the queries that are worth most for them.
        grid = self._grid(version)
        mass, phi = grid.weights(density), grid.phi[:, posterior.used]
        contrasts = DecisionContrasts.of(posterior, phi, mass, rng)
        if not private:
            values = contrasts.open_functions(self._noise, self._left, rng)
            return OpenKernelPolicy(
                **self.policy_header(),
                frequencies=self.features.index[posterior.used],
                ranks=self._ranks,
                values=values,
            )

        def design(cells: Cells) -> QueryDesign:
            mechanism = k_ary_response(cells.count, self.budget.contribution_epsilon)
            response = ResponseModel.of(cells, mechanism, grid.points, mass)
            return contrasts.design(response, self._left, rng)

        thresholds: tuple[float, ...] = ()
        if self._asks_rewards and version % _ASK_EVERY:
            thresholds = tuple(np.resize(self._tails.in_doubt, PARTITIONS).tolist())
            cells = Cells.whole(PARTITIONS)
        elif self._ranks.asked.size:
            cells = cells_asked(self._ranks, self._sums.marginals, self._part_mechanism)
        else:
            before = [
                policy
                for policy in self._policies
                if isinstance(policy, KernelPolicy)
                and not policy.ranks.asked.size
                and not policy.thresholds
            ]
            scales = np.array(self.length_scales)
            levels, weights = self.domain.levels, contrasts.weights
            cut = _cutting(grid.points, weights, scales, levels, rng, bool(self.domain.implied))
            most = most_cells(self.budget.contribution_epsilon) if self.varies else 1
            unknown = len(self.features.bins()) > 1 and self._sums.placed < _LOCATED_FIRST
            least = min(2 if unknown else 1, most)
            counts = [count for count in CELL_COUNTS if least <= count <= most]
            cells = next_cells(before, (self._published_at, self.people), counts, cut, design)
        queries, centres, clipping_range = design(cells), None, self.clipping_range
        if self._noise_bound is not None:
            radius = self._noise_bound.radius(contrasts.deviation)
            if radius is not None:
                centres = whole_coefficients(posterior.mean)
                clipping_range = 0.5 - radius, 0.5 + radius
        return KernelPolicy(
            **self.policy_header(),
            frequencies=self.features.index[posterior.used],
            ranks=self._ranks,
            values=queries.values,
            directions=np.zeros_like(queries.directions) if thresholds else queries.directions,
            cells=cells,
            density=density,
            epsilon=self.budget.contribution_epsilon,
            clipping_range=clipping_range,
            thresholds=thresholds,
            centres=centres,
        )

    # Statistics.

    def _observed(self, policy: Any, reports: Observations) -> KernelStatistics:
        return open_statistics(policy, reports)

    def _check_sums(self, statistics: KernelStatistics) -> None:
        statistics.check(*self._shape(), self._noise_bound.bound if self._noise_bound else 0.5)

    @property
    def _own(self) -> GaussianNaturalParameters:
        weight = effective_sample_factor(self.half_life, self.people) / self._noise
        return self._sums.information.scaled(weight)

    def _learn(self, sweeps: int = 1) -> None:
        """Update the likely hyperparameters and the variance of open reports."""
        super()._learn(sweeps)
        if isinstance(self.budget, NonPrivate) and self.people:
            self._noise = self._residual_variance()

    @property
    def _usual_noise(self) -> float:
        """The prior variance of open reports, of uniform noise where a bound is given."""
        if self._noise_bound is None or self.budget.private:
            return 1.0
        return (2.0 * self._noise_bound.bound) ** 2 / 3.0

    def _residual_variance(self) -> float:
        """The variance of open reports around the likeliest functions (MacKay 1992).

        Ten reports of the usual variance are its prior.
        """
        sums, posterior = self._sums, self._posterior(self._hyperparameters.best)
        at = coefficient_places(posterior.used, self.arms, len(self.features))
        mean = posterior.mean.ravel()
        apart = sums.squares + mean @ (
            sums.precision[np.ix_(at, at)] @ mean - 2.0 * sums.weighted[at]
        )
        free = sums.reports - posterior.degrees_of_freedom
        before = _PRIOR_REPORTS * self._usual_noise
        noise = (before + max(float(apart), 0.0)) / (_PRIOR_REPORTS + max(free, 0.0))
        return min(max(noise, _LEAST_NOISE), 1.0)

    # Where people are.

    def _rank(self) -> None:
        """Update ranks from the reports of parts of columns."""
        found = ranks_after(self._ranks, self._sums.marginals)
        # Reports of sources measure functions of the ranks that they were made with.
        ranks = self._ranks.settled() if self._sources else found
        before, self._ranks = self._ranks, ranks
        if ranks.stage > before.stage:
            sums = self._target._sums
            kept = {**sums.tally(self._empty()), "tails": sums.tails}
            self._target._sums = replace(self._empty(), **kept)
            self._densities.pop(TARGET_NAME, None)
            self._hyperparameters = self._before_reports()

    def _can_ask_about_rewards(self) -> bool:
        """Whether few enough people determine the range of rewards."""
        if isinstance(self.budget, NonPrivate) or self.half_life is not None:
            return False
        if self._noise_bound is not None:
            return False
        if self.reward_bounds == RewardBounds():
            return False
        epsilon, batch = self.budget.contribution_epsilon, max(self.batch_size, self.budget.group)
        people = EDGES_TESTED * people_for_tail(epsilon, self._light_tail)
        return max(people, _ROUNDS * batch) <= self._most_asked

    def _clip(self) -> None:
        """Clip rewards, once it is known how far they reach."""
        tails = self._tails
        if self._sources:
            self._asks_rewards = False
        elif len(tails.in_doubt) == 0 or self._sums.tails[:, 0].sum() >= self._most_asked:
            self._asks_rewards, self.clipping_range = False, tails.range
            if self.clipping_range != WHOLE:
                none = self._empty()
                self._target._sums = replace(
                    self._sums, precision=none.precision, weighted=none.weighted, stage=none.stage
                )
                self._hyperparameters = self._before_reports()

    @property
    def _tails(self) -> RewardTails:
        """What is known of how far rewards reach."""
        return RewardTails.of(self._sums.tails, self.budget.contribution_epsilon, self._light_tail)

    @property
    def _light_tail(self) -> float:
        people = 1000 if self.horizon is None else self.horizon
        return light_tail(self.arms, self.budget.contribution_epsilon, people)

    @property
    def _most_asked(self) -> float:
        """How many people are asked about their columns, or their rewards, at most."""
        return _MOST_ASKED * (1000 if self.horizon is None else self.horizon)

    @property
    def _clipping_bias(self) -> float:
        return 0.0 if self.clipping_range == WHOLE else self._tails.lost(*self.clipping_range)

    def _to_ask_about(self) -> list[int]:
        """The columns whose ranks are estimated; none if that takes too many people."""
        levels = self.domain.levels
        columns = [axis for axis, count in enumerate(levels) if count is None]
        if not self.varies or self._kernel_prior is not None:
            return []
        people = people_asked(self._part_mechanism) * len(columns)
        few = len(levels) <= DensityBins.MOST_COLUMNS and people <= self._most_asked
        return columns if few else []

    @property
    def _part_mechanism(self) -> SignedSubsetSelection:
        """The mechanism of reports of a part of a column."""
        epsilon = self.budget.contribution_epsilon
        parts = 2 ** (most_cells(epsilon).bit_length() - 1)
        return k_ary_response(min(max(parts, 2), MOST_PARTS), epsilon)

    # Predictions and policy values.

    @property
    def _predictive(self) -> PosteriorMixture:
        rng = np.random.default_rng(self.public_seed)
        return self._model_average(_MIXED_TO_PREDICT, rng)

    @property
    def _located(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """By the density as learnt from reports, at the points of integrals."""
        found, grid = self._densities.get(TARGET_NAME), self._grid(0)
        density = np.ones(len(self.features.bins())) if found is None else found.shares
        if isinstance(self.budget, NonPrivate):
            density = counted(self._sums.located, grid.volume)
        return grid.points, grid.weights(density), grid.phi

    def _value_posterior(self, contexts: Any) -> ValuePosterior:
        """By the target's reports alone.

        Where reports do not locate people (one cell, no ranks), the learnt function is f times
        their density relative to even: averages over these people are right, others are not.
        """
        found, rng = self._densities.get(TARGET_NAME), np.random.default_rng(self.public_seed)
        own = self._model_average(_MIXED_TO_PREDICT, rng, alone=True)
        located = found is not None and found.placed > 0 and len(self.features.bins()) > 1
        located |= not self.budget.private
        return self._values_under(contexts, own, self._predictive, located)


def _cutting(
    points: FloatArray,
    weights: FloatArray,
    length_scales: FloatArray,
    levels: tuple[int | None, ...],
    rng: np.random.Generator,
    ties: bool,
) -> Callable[[int], Cells]:
    """A function that cuts points with these weights into a number of cells."""
    return lambda count: Cells.split(
        points, weights, count, PARTITIONS, length_scales, levels, rng, ties
    )


def source_cell_counts(arms: int, epsilon: float) -> list[int]:
    """The numbers of cells that a source with this epsilon may have, increasing.

    With fewer than two for each arm nothing is learnt of where people and arms are.
    """
    least = min([count for count in CELL_COUNTS if count >= 2 * arms], default=CELL_COUNTS[-1])
    most = max(least, most_cells(epsilon))
    return [count for count in CELL_COUNTS if least <= count <= most]
