"""What epoch learners share: reports, sums, releases, and what they say.

An epoch is the people who act under one version of a policy. Its law of arms is a public function
of earlier releases, so the mean of what people add is known but for the reward function.

**Joint privacy.** Plain observations come in. When an epoch ends, the sum of its rows is released
once with Gaussian noise; people who report later under that version make a release of their own.
Everybody enters one release at most, so each release has the whole budget (disjoint data), and
whoever acts in the last epoch enters none. Actions of others are functions of releases, of public
tickets and of their own contexts (billboard lemma), so the whole is jointly private.

**Local privacy.** Each person hides their own row; sums of reports are public.

| array | shape  | meaning                              |
|-------|--------|--------------------------------------|
| total | (d,)   | a sum of rows with noise on it       |
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike
from sklearn.gaussian_process.kernels import Kernel

from discreet.action_space import ArmPoints
from discreet.domain import Box
from discreet.kernels import kernel_to_text, read_kernel
from discreet.learners.base import ArmLearner, Common
from discreet.learners.epochs.belief import Belief, Information, believe
from discreet.learners.epochs.contexts import ContextDistribution
from discreet.learners.epochs.features import ArmFeatures, arm_features, joint_box, usual_kernel
from discreet.learners.epochs.policy import EpochPolicy
from discreet.learners.epochs.releases import Drawn
from discreet.learners.epochs.reports import (
    ContextObservations,
    EpochStatistics,
    EpochSum,
    PrivateRows,
)
from discreet.learners.epochs.rows import (
    BOUND,
    MOST_PEOPLE,
    RESOLUTION,
    Expected,
    RowMap,
    best_rows,
    row_sensitivity,
    whole,
)
from discreet.learners.messages import Reports
from discreet.learners.schema import decode, encode
from discreet.privacy import Budget, Joint, Local, Release
from discreet.privacy.calibration import gaussian_noise_multiplier
from discreet.privacy.vectors import GaussianVector, PrivUnit, VectorReport, l2_ball
from discreet.validation import (
    FloatArray,
    InvalidInput,
    positive_number,
    whole_number,
)

# Sup error of the features of a kernel that the learner makes itself.
_ERROR = 1e-3
# How alike the rewards of two arms without an order are taken to be.
_LIKENESS = 0.5
MECHANISMS = ("privunit", "l2_ball", "gaussian")


class EpochOptions(TypedDict, total=False):
    """What every epoch learner takes besides what every learner takes."""

    kernel: Kernel | str | None
    contexts: ContextDistribution | ArrayLike | Mapping[str, Any] | None
    error: float
    likeness: float
    reward_noise: float | None
    mechanism: str


class EpochCommon(EpochOptions, Common, total=False):
    """Both together."""


class EpochLearner(ArmLearner[EpochPolicy, Reports, EpochStatistics]):
    """Learns which arm is best in which context, one epoch after the other.

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
        mechanism: how people hide rows under local privacy: `privunit`, `l2_ball`, or `gaussian`,
            which needs a delta.

    Raises:
        InvalidInput: for options that are not allowed.
    """

    trust_models: ClassVar[tuple[str, ...]] = ("joint", "local", "none")
    reports_type = Reports
    statistics_type = EpochStatistics
    pure_reports = False

    def __init__(
        self,
        domain: Box,
        arms: int | ArmPoints,
        budget: Budget,
        *,
        kernel: Kernel | str | None = None,
        contexts: ContextDistribution | ArrayLike | Mapping[str, Any] | None = None,
        error: float = _ERROR,
        likeness: float = _LIKENESS,
        reward_noise: float | None = None,
        mechanism: str = MECHANISMS[0],
        **common: Unpack[Common],
    ) -> None:
        if mechanism not in MECHANISMS:
            raise InvalidInput(
                f"mechanism was {mechanism!r:.80}; it must be one of {', '.join(MECHANISMS)}."
            )
        if isinstance(budget, Local) and (budget.delta > 0.0) != (mechanism == "gaussian"):
            raise InvalidInput(
                f"delta was {budget.delta:g} and mechanism {mechanism!r}; under local privacy "
                "gaussian reports need a delta above 0, and the others are pure and take none."
            )
        self.mechanism = mechanism
        super().__init__(domain, arms, budget, **common)
        if isinstance(budget, Joint) and self._gaussian and budget.delta == 0.0:
            raise InvalidInput(
                f"delta was {budget.delta:g}; {self.name} makes Gaussian releases under joint "
                "privacy, so give a delta above 0, such as 1e-6."
            )
        known = ContextDistribution.read(domain, contexts)
        points = arms.array if isinstance(arms, ArmPoints) else None
        box = domain if points is None else joint_box(domain, points)
        self.kernel = usual_kernel(box) if kernel is None else read_kernel(kernel)
        self.error = positive_number(error, "error")
        self.likeness = likeness
        self.features: ArmFeatures = arm_features(
            domain,
            self.arms,
            points,
            known,
            kernel=self.kernel,
            error=self.error,
            likeness=likeness,
        )
        bounds = self.reward_bounds
        width = bounds.upper - bounds.lower
        self.reward_noise = reward_noise
        given = width if reward_noise is None else positive_number(reward_noise, "reward_noise")
        self._noise_bound = min(given / width, 1.0)
        # Releases, and the sums they were drawn from: one value, so that one step changes both.
        self._released: tuple[tuple[Drawn, ...], EpochStatistics] = (), self._empty()
        self._expectations: dict[int, Expected] = {}
        self._told: dict[int, tuple[int, Information]] = {}
        self._length = self._first_length()

    @abstractmethod
    def _first_length(self) -> int:
        """How many people the first epoch has; `InvalidInput` if the horizon is too short."""

    @abstractmethod
    def _next(self, header: dict[str, Any], belief: Belief) -> tuple[EpochPolicy, int]:
        """The next policy, and how many people it is for."""

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
    def _gaussian(self) -> bool:
        """Whether releases under joint privacy are Gaussian."""
        return True

    @property
    def batch_size(self) -> int:
        return self._length

    @property
    def left(self) -> float:
        """How many people are still expected; infinity without a horizon."""
        return np.inf if self.horizon is None else float(self.horizon - self.people)

    def _empty(self) -> EpochStatistics:
        return EpochStatistics.none(exact=not isinstance(self.budget, Local))

    def hidden(self, size: int) -> VectorReport | None:
        """How a row of `size` numbers is hidden by its person."""
        budget = self.budget
        if not isinstance(budget, Local):
            return None
        if self.mechanism == "gaussian":
            return GaussianVector(size, budget.epsilon, budget.delta)
        made = PrivUnit if self.mechanism == "privunit" else l2_ball
        return made(size, budget.epsilon)

    def noise_variance(self, size: int, people: int) -> float:
        """Variance of the noise on each number of a sum of rows."""
        if isinstance(self.budget, Joint):
            multiplier = gaussian_noise_multiplier(self.budget.epsilon, self.budget.delta)
            return (multiplier * row_sensitivity(size)) ** 2
        hidden = self.hidden(size)
        return 0.0 if hidden is None else people * hidden.variance

    def _multiplier(self, rows: RowMap) -> float:
        """Noise on a release, as a multiple of its sensitivity, under joint privacy."""
        assert isinstance(self.budget, Joint)
        return gaussian_noise_multiplier(self.budget.epsilon, self.budget.delta)

    def _statistics(self, policy: EpochPolicy, reports: Reports) -> EpochStatistics:
        exact = not isinstance(self.budget, Local)
        wanted = ContextObservations if exact else PrivateRows
        if not isinstance(reports, wanted) or len(reports) == 0:
            raise InvalidInput(
                f"reports had {len(reports)} entries of type {type(reports).__name__}; under "
                f"{self.budget!r} they are {wanted.__name__}, at least one."
            )
        if isinstance(reports, ContextObservations):
            reports.check(self.domain.dimension, self.arms)
            self.features.contexts.check(reports.contexts)
            rows: Any = whole(policy.rows_of(reports.contexts, reports.arms, reports.rewards))
        else:
            assert isinstance(reports, PrivateRows)
            rows = reports.rows
            if rows.shape[1:] != (policy.rows.size,):
                raise InvalidInput(
                    f"reports had rows of shape {rows.shape}; under policy {policy.version} each "
                    f"has {policy.rows.size} numbers."
                )
        added = EpochSum(len(reports), rows.sum(axis=0))
        return EpochStatistics(reports=len(reports), epochs={policy.version: added}, exact=exact)

    def _check_sums(self, statistics: EpochStatistics) -> None:
        exact = not isinstance(self.budget, Local)
        if statistics.exact != exact:
            raise InvalidInput(
                f"statistics were sums of {'plain' if statistics.exact else 'private'} rows; this "
                f"learner has the budget {self.budget!r}."
            )
        for version, one in statistics.epochs.items():
            self._check_sum(version, one)
        if self.people + statistics.reports > MOST_PEOPLE:
            raise InvalidInput(
                f"{self.people + statistics.reports} people would not add up exactly; the largest "
                f"number is {MOST_PEOPLE}."
            )

    def _check_sum(self, version: int, one: EpochSum) -> None:
        size = self.published(version).rows.size
        if one.total.shape != (size,):
            raise InvalidInput(
                f"statistics of version {version} had shape {one.total.shape}; its rows have "
                f"{size} numbers."
            )
        if not np.isfinite(one.total).all():
            raise InvalidInput(
                f"statistics of version {version} had NaN or infinity; leave out the reports that "
                "do not add up to numbers."
            )
        # Not np.abs, which leaves the least 64-bit integer negative.
        largest = max(int(one.total.max()), -int(one.total.min()))
        if not isinstance(self.budget, Local) and largest > one.people * (RESOLUTION + 1.0):
            raise InvalidInput(
                f"statistics of {one.people} people had an entry of {largest}; no reports add up "
                "to that. Send them as statistics() made them."
            )

    def _publish(self) -> EpochPolicy:
        if not isinstance(self.budget, Local):
            self._release()
        policy, length = self._next(self.policy_header(), believe(self.information(), BOUND))
        self._length = length
        return policy

    def _release(self) -> None:
        """Release what came since the last time, each version apart; noise is drawn only here.

        What was drawn is kept in the same step in which its people are marked as released. If the
        noise source fails, nobody has seen anything, and the people can be released again.
        """
        drawn, before = self._released
        new = [self._drawn(version, one) for version, one in self._sums.since(before).items()]
        self._released = (*drawn, *new), self._sums

    def _drawn(self, version: int, one: EpochSum) -> Drawn:
        if not isinstance(self.budget, Joint):
            return Drawn.plain(version, one)
        assert self.noise is not None
        return Drawn.noisy(version, one, self._multiplier(self.published(version).rows), self.noise)

    def information(self) -> Information:
        """What all releases so far say about the reward function; public."""
        found = Information.none(self.features.features)
        if isinstance(self.budget, Local):
            for version, one in self._sums.epochs.items():
                kept = self._told.get(version)
                if kept is None or kept[0] != one.people:
                    noise = self.noise_variance(len(one.total), one.people)
                    told = self.expected(version).information(one.total, one.people, noise)
                    kept = self._told[version] = one.people, told
                found = found + kept[1]
            return found
        for place, drawn in enumerate(self._released[0]):
            if place not in self._told:
                expected = self.expected(drawn.version)
                told = expected.information(drawn.total, drawn.people, drawn.scale**2)
                self._told[place] = drawn.people, told
            found = found + self._told[place][1]
        return found

    def last_estimate(self) -> tuple[RowMap, int, FloatArray, FloatArray] | None:
        """Of the last epoch alone: rows, people, (N K,) estimates of f - 1/2, (N K,) chances."""
        if not self._policies:
            return None
        policy = self._policies[-1]
        if isinstance(self.budget, Local):
            mine = self._sums.epochs.get(policy.version)
            found = [] if mine is None else [(mine.people, mine.total)]
        else:
            drawn = [one for one in self._released[0] if one.version == policy.version]
            found = [(one.people, one.total) for one in drawn]
        if not found:
            return None
        people, total = found[0]
        estimate = self.pairs @ policy.rows.turn @ (policy.rows.bound * total)
        return policy.rows, people, estimate, self.chances(policy.decision.table)

    def expected(self, version: int) -> Expected:
        """What one person adds on average under a policy; public."""
        if version not in self._expectations:
            policy = self.published(version)
            self._expectations[version] = policy.rows.expected(
                self.pairs, self.chances(policy.decision.table)
            )
        return self._expectations[version]

    @property
    def pairs(self) -> FloatArray:
        """(N K, m) features of all public contexts with all arms."""
        return self.features.table.reshape(-1, self.features.features)

    def chances(self, offers: FloatArray) -> FloatArray:
        """(N K,) probabilities rho of context and arm, from those of arms (N, K)."""
        joint: FloatArray = (self.features.contexts.weights[:, None] * offers).ravel()
        return joint

    def matters(self, belief: Belief, offers: FloatArray) -> FloatArray:
        """(m, m) how offered arms differ from each other, where the posterior is I."""
        table = self.features.table
        mean = np.einsum("nk,nkm->nm", offers, table)
        away = (table - mean[:, None]).reshape(-1, table.shape[2]) @ belief.root
        matters: FloatArray = (away * self.chances(offers)[:, None]).T @ away
        return matters

    def best_rows(
        self, belief: Belief, chances: FloatArray, matters: FloatArray, people: int
    ) -> tuple[RowMap, float]:
        """`best_rows` of rows.py under this learner's budget, for an epoch of this many people."""
        return best_rows(
            belief,
            self.pairs,
            chances,
            matters,
            people,
            self._noise_bound,
            lambda size: self.noise_variance(size, people),
        )

    @property
    def releases(self) -> list[Release]:
        if not isinstance(self.budget, Joint):
            if isinstance(self.budget, Local):
                return super().releases
            return [one for one in (p.release("none") for p in self._policies) if one is not None]
        group = f"one row of learner {self.identity}"
        return [one.record(group) for one in self._released[0]]

    @classmethod
    def read_options(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        known = [*EpochOptions.__annotations__, *cls._own_options()]
        unknown = sorted(set(options) - set(known))
        if unknown:
            more = cls._rule_options()
            raise InvalidInput(
                f"{cls.name} got the option {unknown[0]!r}; its options are "
                f"{', '.join([*known, *more])}."
            )
        return dict(options)

    @classmethod
    def _rule_options(cls) -> tuple[str, ...]:
        """Options that `read_options` of a subclass takes out before."""
        return ()

    @classmethod
    def _own_options(cls) -> tuple[str, ...]:
        """Options beyond `EpochOptions`."""
        return ()

    def _options(self) -> dict[str, Any]:
        return {
            "kernel": kernel_to_text(self.kernel),
            "contexts": self.features.contexts.to_fields(),
            "error": self.error,
            "likeness": self.likeness,
            "mechanism": self.mechanism,
            **({} if self.reward_noise is None else {"reward_noise": self.reward_noise}),
            **{name: getattr(self, name) for name in self._own_options()},
        }

    def _state(self) -> dict[str, Any]:
        drawn, before = self._released
        return {
            "drawn": [one.to_fields() for one in drawn],
            "before": encode(before),
            "length": self._length,
        }

    def _restore(self, fields: dict[str, Any]) -> None:
        drawn = tuple(Drawn.from_fields(one) for one in fields["drawn"])
        before = decode(fields["before"], EpochStatistics)
        self._length = whole_number(fields["length"], "length", minimum=1)
        people: dict[int, int] = {}
        for one in drawn:
            people[one.version] = people.get(one.version, 0) + one.people
            rows = self.published(one.version).rows
            if isinstance(self.budget, Joint):
                one.check(self._multiplier(rows))
            if one.total.shape != (rows.size,):
                raise InvalidInput(
                    f"a saved release had {len(one.total)} numbers; rows of version {one.version} "
                    f"have {rows.size}. Read the learner as save() wrote it."
                )
        released = {version: one.people for version, one in before.epochs.items()}
        exact = not isinstance(self.budget, Local)
        if exact:
            self._target.check_released(before.reports)
        if people != released or self._sums.exact != exact or not before.within(self._sums):
            raise InvalidInput(
                "the saved releases are of other people than those marked as released; read the "
                "learner as save() wrote it."
            )
        for sums in (self._sums.epochs, self._sums.since(before)):
            for version, added in sums.items():
                self._check_sum(version, added)
        self._released = drawn, before
        if self._policies:
            # A kernel's features may differ between machines in signs and last digits; what was
            # learnt is in those that the policies carry.
            self.features = self._policies[-1].features
            self._target.policies = [policy.sharing(self.features) for policy in self._policies]
