"""What CAPRI and USCA share: epochs, releases and information.

An epoch is the people who act under one version of a policy. Its law of arms is a public function
of earlier releases, so the expectation of their contributions is known up to the reward function.

    reports of an epoch                        `_statistics`
    -> sum of their contributions              `EpochSum`
    -> the sum becomes public                  `_release`, `public_sums`
    -> information about theta, posterior      `information`, `believe` (contribution.py)
    -> which arms, what people add, how long   `_next` (capri.py, usca.py)
    -> policy                                  `_publish`

| trust model | reports            | the sum of an epoch becomes public                           |
|-------------|--------------------|--------------------------------------------------------------|
| joint       | plain observations | once, with Gaussian noise that takes the whole budget        |
| local       | private rows       | as it is: each person has privatised their own row           |
| none        | plain observations | as it is, which protects no one                              |

**Joint privacy.** People who report late, under an older version, make a release of their own.
Everyone enters one release at most, so each release has the whole budget (parallel composition),
and people of the last epoch enter none. Actions of others are functions of releases, of public
coins and of their own contexts, so the whole is jointly private (billboard lemma).

| array | shape | meaning                                                                          |
|-------|-------|----------------------------------------------------------------------------------|
| total | (d,)  | a sum of rows: whole multiples of 2^-30 where they are plain, or private numbers |

Notes
-----
*One release per person.* CAPRI as published divides the budget by log T; epochs are
disjoint, so each release has all of it. A prefix sum pays only where the policy changes after every
person.

*Expected covariance.* With a public law of contexts the policy's law of arms gives n Lambda
exactly: d numbers are secret instead of d^2, and no noise enters an inverse. The published random
sets S and R are noisy estimates of Lambda that take T^3 time. A wrong law biases estimates and
costs reward, never privacy.

*Clipping.* Noise is in proportion to c, where rewards are clipped. Clipping at half a posterior
deviation beyond the reward noise, with its true gain P(|Z| <= c) (Bussgang 1952), is more
informative under privacy than a wider bound.

*Local reports* are PrivUnit: exactly epsilon, with less variance than Gaussian noise.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, NamedTuple, Unpack

import numpy as np
from numpy.typing import ArrayLike
from sklearn.gaussian_process.kernels import Kernel

from discreet.codec import Range, to_json
from discreet.gaussian import GaussianNaturalParameters, Posterior
from discreet.kernels import kernel_to_text, read_kernel
from discreet.learners.base import ArmLearner, Calibration, Common, read_options
from discreet.learners.epochs.contribution import (
    CENTRE,
    ClippedContribution,
    Expected,
    believe,
)
from discreet.learners.epochs.features import (
    ArmFeatures,
    ContextDistribution,
    arm_features,
    feature_box,
    usual_kernel,
)
from discreet.learners.epochs.policy import Decision, EpochPolicy, PrivateRows
from discreet.learners.epochs.sums import (
    BALL_WIDTH,
    RESOLUTION,
    EpochRelease,
    EpochStatistics,
    EpochSum,
    Released,
    contribution_sensitivity,
    whole,
)
from discreet.learners.messages import Observations, Reports
from discreet.learners.values import MODEL_ERROR_FINE, ValuePosterior, linear_values
from discreet.people.domain import ArmPoints, Arms, Box
from discreet.privacy import Budget, Local, OnceEach, Release
from discreet.privacy.noise import NO_NOISE
from discreet.privacy.vectors import GaussianVector, PrivUnit, VectorReport, l2_ball
from discreet.validation import FloatArray, IntArray, InvalidInput, positive_number

# Sup error of the features of a kernel that the learner makes itself.
_ERROR = 1e-3
# Deviation of averages from the features' error (learners/values.py).
_MODEL_ERROR_AVERAGE = 0.01
# Prior correlation of the rewards of two arms without an order.
_LIKENESS = 0.5


class PublicSum(NamedTuple):
    """A sum that is public: released with noise, or of private reports.

    Attributes:
        version: the version of the policy.
        people: number of people in the sum.
        total: (d,) the sum of their rows.
        variance: variance of the noise on each number.
    """

    version: int
    people: int
    total: IntArray | FloatArray
    variance: float


MECHANISMS: dict[str, Callable[[int, Local], VectorReport]] = {
    "privunit": lambda size, budget: PrivUnit(size, budget.contribution_epsilon),
    "l2_ball": lambda size, budget: l2_ball(size, budget.contribution_epsilon),
    "gaussian": lambda size, budget: GaussianVector(size, *budget.gaussian_report),
}
"""The mechanisms of local reports, from the numbers in a row and the budget."""


class EpochCommon(Common, total=False):
    """Options of every epoch learner besides domain, arms and budget."""

    kernel: Kernel | str | None
    contexts: ContextDistribution | ArrayLike | Mapping[str, Any] | None
    error: float
    likeness: float
    reward_noise: float | None
    mechanism: str


class EpochLearner(ArmLearner[EpochPolicy, Reports, EpochStatistics]):
    """A contextual bandit that changes its policy between epochs.

    Args:
        domain: the public box of contexts. Contexts of a domain with levels in every column form a
            finite set.
        arms: the number of arms K, or `ArmPoints`.
        budget: `Joint(epsilon, delta)`, `Local(epsilon)` or `NonPrivate()`.
        kernel: a scikit-learn kernel, or its text, in the units of the columns of contexts followed
            by those of arm points; arms without points share a kernel of contexts. By default a
            squared exponential with length scales of 0.3 of each column's width.
        contexts: a `ContextDistribution`, a public sample (n, d) of contexts, a mapping of `points`
            and `weights` for a finite set, or of `weights` for the grid of a domain with levels; in
            the units of the domain. By default uniform on the domain. A wrong one costs reward,
            never privacy.
        error: sup error of the features made from the kernel.
        likeness: correlation between arms without points, from 0 to below 1.
        reward_noise: a bound on how far a reward lies from its mean, in the units of rewards, if
            one is known that is smaller than the reward bounds. A wrong one costs reward only.
        mechanism: the mechanism of local reports: `privunit`, `l2_ball`, or `gaussian`, which needs
            a delta.

    Attributes:
        calibrations: the family of calibrations that it takes, if any.
    """

    trust_models: ClassVar[tuple[str, ...]] = ("joint", "local", "none")
    calibrations: ClassVar[type[Calibration] | None] = None
    pure_reports = False
    reports_type = Reports
    statistics_type = EpochStatistics
    calibration: Calibration

    saved: ClassVar[tuple[str, ...]] = ("_released", "_length")
    _released: Released
    _length: Annotated[int, Range(0)]  # number of people in the current epoch

    def __init__(
        self,
        domain: Box,
        arms: Arms,
        budget: Budget,
        *,
        kernel: Kernel | str | None = None,
        contexts: ContextDistribution | ArrayLike | Mapping[str, Any] | None = None,
        error: float = _ERROR,
        likeness: float = _LIKENESS,
        reward_noise: float | None = None,
        mechanism: str = next(iter(MECHANISMS)),
        **common: Unpack[Common],
    ) -> None:
        if mechanism not in MECHANISMS:
            raise InvalidInput(
                f"mechanism was {mechanism!r:.80}; it must be one of {', '.join(MECHANISMS)}."
            )
        gaussian, delta = mechanism == "gaussian", budget.delta
        # Several pure reports cost less together at a delta.
        if budget.is_local and (
            (gaussian and delta == 0.0)
            or (not gaussian and delta > 0.0 and budget.max_contributions == 1)
        ):
            raise InvalidInput(
                f"delta was {delta:g} and mechanism {mechanism!r}; under local privacy "
                "gaussian reports need a delta above 0, and the others are pure and take none."
            )
        super().__init__(domain, arms, budget, **common)
        self.mechanism = mechanism
        self.contexts = ContextDistribution.read(domain, contexts)
        space = arms if isinstance(arms, ArmPoints) else self.arms
        box = feature_box(domain, space)
        self.kernel = usual_kernel(box) if kernel is None else read_kernel(kernel)
        self.error = positive_number(error, "error")
        self.likeness = likeness
        self.features: ArmFeatures
        self.features = arm_features(
            domain, space, self.contexts, kernel=self.kernel, error=error, likeness=likeness
        )
        width = self.reward_bounds.upper - self.reward_bounds.lower
        self.reward_noise = reward_noise
        given = width if reward_noise is None else positive_number(reward_noise, "reward_noise")
        self.noise_bound = min(given / width, 1.0)
        self._released = Released((), self._empty())
        self._expectations: dict[int, Expected] = {}
        self._informed: dict[int, tuple[int, int, GaussianNaturalParameters]] = {}
        self._length = 0

    def _check_gaussian(self) -> None:
        """`InvalidInput` for joint privacy without a delta, which no Gaussian release keeps."""
        if self.budget.is_central and self.budget.delta == 0.0:
            raise InvalidInput(
                f"delta was {self.budget.delta:g}; {self.name} makes Gaussian releases under joint "
                "privacy, so give a delta above 0, such as 1e-6."
            )

    @abstractmethod
    def _next(self, version: int, belief: Posterior) -> tuple[Decision, ClippedContribution, int]:
        """The law of arms of policy `version`, what people contribute, and the epoch's length."""

    @property
    def warnings(self) -> tuple[str, ...]:
        features = self.features
        if features.residual <= self.error:
            return ()
        return (
            f"{self.name} compares contexts and arms by {features.features} features, the most it "
            f"can compute with, and they leave out up to {features.residual:.2g} of its kernel "
            f"(error = {self.error:g} was asked for). Longer length scales, an additive kernel or "
            "fewer columns leave out less.",
        )

    @property
    def batch_size(self) -> int:
        return self._length

    @property
    def remaining(self) -> float:
        """Number of people still to come; infinity without a horizon."""
        return np.inf if self.horizon is None else float(self.horizon - self.people)

    # What people add, and the noise on it.

    def _empty(self) -> EpochStatistics:
        return EpochStatistics(reports=0, epochs={})

    def report_mechanism(self, size: int) -> VectorReport | None:
        """The mechanism on a row of `size` numbers; None without local privacy."""
        if not isinstance(self.budget, Local):
            return None
        return MECHANISMS[self.mechanism](size, self.budget)

    def noise_variance(self, size: int, people: int) -> float:
        """Variance of the noise on each number of a sum of rows."""
        mechanism = self.report_mechanism(size)
        if mechanism is not None:
            return people * mechanism.variance
        return (self.budget.noise_multiplier * contribution_sensitivity(size)) ** 2

    def _multiplier(self, policy: EpochPolicy) -> float:
        """Noise on a release of people of a policy, as a multiple of its sensitivity."""
        return self.budget.noise_multiplier

    def _asked(self, version: int) -> tuple[float, int, float]:
        """Noise multiplier of a release, and size and width of what people contribute to it."""
        policy = self.published(version)
        return self._multiplier(policy), policy.contribution.size, BALL_WIDTH

    def _statistics(self, policy: EpochPolicy, reports: Reports) -> EpochStatistics:
        wanted = PrivateRows if self.budget.is_local else Observations
        if not isinstance(reports, wanted) or len(reports) == 0:
            raise InvalidInput(
                f"reports had {len(reports)} entries of type {type(reports).__name__}; under "
                f"{self.budget!r} they are {wanted.__name__}, at least one."
            )
        if isinstance(reports, Observations):
            columns, most = reports.contexts.shape[1], reports.arms.max()
            if columns != self.domain.dimension or most >= self.arms:
                raise InvalidInput(
                    f"reports had {columns} columns and arms up to {most}; this learner has "
                    f"{self.domain.dimension} columns and {self.arms} arms. Send reports as "
                    "report() made them."
                )
            self.features.contexts.check(reports.contexts)
            contributions: Any = whole(
                policy.contributions_of(reports.contexts, reports.arms, reports.rewards)
            )
            if reports.over_limit is not None:
                contributions[reports.over_limit] = 0
        else:
            contributions = reports.rows
            if contributions.shape[1] != policy.contribution.size:
                raise InvalidInput(
                    f"reports had rows of shape {contributions.shape}; under policy "
                    f"{policy.version} each has {policy.contribution.size} numbers."
                )
            assert policy.local is not None
            policy.local.check(contributions)
        added = EpochSum(len(reports), contributions.sum(axis=0))
        return EpochStatistics(reports=len(reports), epochs={policy.version: added})

    def _check_sums(self, statistics: EpochStatistics) -> None:
        statistics.check(self.people, self._check_sum)

    def _check_sum(self, version: int, added: EpochSum) -> None:
        size, private = self.published(version).contribution.size, self.budget.is_local
        if added.total.shape != (size,) or (added.total.dtype.kind == "f") != private:
            raise InvalidInput(
                f"statistics of version {version} had {len(added.total)} numbers of type "
                f"{added.total.dtype}; its rows have {size}, and under {self.budget!r} sums are "
                f"{'private numbers' if private else 'whole'}. Send them as statistics() made them."
            )
        # Not np.abs, which leaves the least 64-bit integer negative.
        largest = max(int(added.total.max()), -int(added.total.min()))
        if not private and largest > added.people * (RESOLUTION + 1.0):
            raise InvalidInput(
                f"statistics of {added.people} people had an entry of {largest}; no reports add up "
                "to that. Send them as statistics() made them."
            )

    # From sums to releases, information and a policy.

    def _publish(self) -> EpochPolicy:
        if not self.budget.is_local:
            self._release()
        belief = believe(self.information())
        decision, contribution, length = self._next(len(self._policies), belief)
        mechanism, believed = self.report_mechanism(contribution.size), belief.mean
        policy = EpochPolicy(
            **self.policy_header(),
            decision=decision,
            contribution=contribution,
            local=mechanism,
            believed=believed,
        )
        self._length = length
        return policy

    def _release(self) -> None:
        """Release the sums since the last release; noise is drawn only here."""
        # Releases and the mark of who was released change in one assignment.
        self._released = self._released.extended(self._sums, self._drawn)

    def _drawn(self, version: int, added: EpochSum) -> EpochRelease:
        if not self.budget.is_central:
            exact = added.total / RESOLUTION
            return EpochRelease(version, added.people, exact, 0.0, 0.0, NO_NOISE)
        assert self.noise is not None
        multiplier, _, _ = self._asked(version)
        return EpochRelease.noisy(version, added, multiplier, self.noise)

    def public_sums(self) -> list[PublicSum]:
        """Every public sum: releases, or the sums of private reports."""
        if not self.budget.is_local:
            return [
                PublicSum(r.version, r.people, r.total, r.scale**2) for r in self._released.drawn
            ]
        return [
            PublicSum(v, s.people, s.total, self.noise_variance(len(s.total), s.people))
            for v, s in self._sums.epochs.items()
        ]

    def information(self) -> GaussianNaturalParameters:
        """The information of all public sums about theta; public."""
        information = GaussianNaturalParameters.zeros(self.features.features)
        for place, known in enumerate(self.public_sums()):
            if self._informed.get(place, ())[:2] != (known.version, known.people):
                added = self.expected(known.version).information(
                    known.total, known.people, known.variance
                )
                self._informed[place] = known.version, known.people, added
            information = information + self._informed[place][2]
        return information

    def last_estimate(self) -> tuple[EpochPolicy, int, FloatArray, FloatArray] | None:
        """Policy, people, (N K,) estimates of f - 1/2 and chances of the last epoch alone."""
        if not self._policies:
            return None
        policy = self._policies[-1]
        last = next((s for s in self.public_sums() if s.version == policy.version), None)
        if last is None:
            return None
        estimate = (
            self.pairs
            @ policy.contribution.projection
            @ (policy.contribution.clipping_norm * last.total)
        )
        return policy, last.people, estimate, self.chances(policy.decision.table)

    def expected(self, version: int) -> Expected:
        """The expected contribution of one person under a policy; public."""
        if version not in self._expectations:
            policy = self.published(version)
            chances = self.chances(policy.decision.table)
            some = chances > 0.0
            self._expectations[version] = policy.contribution.expected(
                self.pairs[some], chances[some]
            )
        return self._expectations[version]

    @property
    def pairs(self) -> FloatArray:
        """(N K, m) features of all public contexts with all arms."""
        return self.features.table.reshape(-1, self.features.features)

    def chances(self, probabilities: FloatArray) -> FloatArray:
        """(N K,) probabilities rho of context and arm, from those of arms (N, K)."""
        return (self.features.contexts.weights[:, None] * probabilities).ravel()

    def _value_posterior(self, contexts: Any) -> ValuePosterior:
        """f = 1/2 + phi(c, x)' theta; by default averaged over the declared contexts."""
        known = self.features.contexts
        unit, weights, phi = known.points, known.weights, self.features.table
        where = (
            "the contexts that were declared" if known.exact else "the declared sample of contexts"
        )
        if contexts is not None:
            unit = self.domain.people_to_unit(contexts)
            known.check(unit)
            weights, phi = np.full(len(unit), 1.0 / len(unit)), self.features.all(unit)
            where = f"the {len(unit)} contexts given"
        return linear_values(
            phi,
            believe(self.information()),
            CENTRE,
            contexts=self.domain.from_unit(unit),
            weights=weights,
            where=where,
            model_error_average=_MODEL_ERROR_AVERAGE,
            model_error_fine=MODEL_ERROR_FINE,
        )

    def _central_releases(self) -> list[Release]:
        people = OnceEach(f"one row of learner {self.identity}", self.budget.max_contributions)
        return [drawn.record(people) for drawn in self._released.drawn]

    # Options and state.

    @classmethod
    def read_options(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        if cls.calibrations is None:
            return super().read_options(options)
        return read_options(cls, options, cls.calibrations)

    def _options(self) -> dict[str, Any]:
        return {
            **super()._options(),
            "kernel": kernel_to_text(self.kernel),
            "contexts": to_json(self.contexts),
            **({} if self.calibrations is None else self.calibration.to_options()),
        }

    def _restore(self, saved: dict[str, Any]) -> None:
        super()._restore(saved)
        if not self.budget.is_local:
            self._target.check_released(self._released.before.reports)
        self._released.check(self._sums, self._asked, self._check_sum)
        if self._policies:
            # A kernel's features may differ between machines in signs and last digits; what was
            # learnt is in those that the policies carry.
            self.features = self._policies[-1].features
            self._target.policies = [policy.sharing(self.features) for policy in self._policies]
