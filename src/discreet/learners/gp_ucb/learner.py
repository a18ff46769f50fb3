"""GP-UCB under joint, local or no privacy, on a finite feature map (Dubey 2021).

    Algorithm 1, joint privacy                        here
      x_t = argmax over D_t of mean + width           the policy's choice (decision_sets.py)
      (phi phi', y phi) of each person                rows (decision_sets.py), summed by `sums`
      Algorithm 2: prefix sums with noise             `_release`, by a `PrivateStream`
      V_t, u_t -> theta, width                        `KernelCalibration.posterior`
    Algorithm 3, local privacy
      noise on each person's row                      the policy's report; sums are public

**Joint privacy.** Plain observations come in; sums leave through a `PrivateStream`, once each; the
policies are functions of what the stream released. A person's own action depends on their own
decision set too, which is why the guarantee is about what *others* see (billboard lemma: Hsu,
Huang, Roth, Roughgarden and Wu 2016).

**Local privacy.** Each person adds the noise to their own report; nothing else is needed.

**Public points.** Where everyone can be given the same points, each point is a function of earlier
releases and a public ticket, so nothing but the reward is anybody's data (public_points.py).

Notes
-----
*Rows.* With decision sets a row is (upper triangle of phi phi', c y phi, g y^2); on public points
(y s(x), g y^2). Features and rewards are rounded to multiples of 2^-18, so sums of products are
exact in 64-bit integers: they add in any order, and the sensitivity covers the rounding.

*y^2 is free.* At the worst pair of neighbours y^2 = y'^2, so an entry g y^2 with g = c / b
(decision sets) or 2 |s| (public points) does not raise the sensitivity. It gives the variance of
rewards, without which the posterior assumes the largest one and hardly beats uniform choice.

*Geometric epochs* with decision sets: only the latest estimate matters, and a weighted sum of which
every later release is a part needs the same noise whatever the horizon, several times less than
prefix sums (`benchmarks/prefix_sums.py`). Gram matrices of points of a known domain have few
directions; the others hold noise alone and are shrunk (posterior.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Annotated, Any, ClassVar, Unpack

import numpy as np
from numpy.typing import ArrayLike
from sklearn.gaussian_process.kernels import RBF, Kernel

from discreet.codec import Range, from_json, to_json
from discreet.kernels import (
    Additive,
    FeatureMap,
    feature_map,
    kernel_from_text,
    kernel_to_text,
    read_kernel,
)
from discreet.kernels.grid import stretched
from discreet.learners.base import Common, Learner
from discreet.learners.calibration import read_options
from discreet.learners.forgetting import half_life, longest
from discreet.learners.gp_ucb.calibration import KernelCalibration
from discreet.learners.gp_ucb.decision_sets import OwnSets
from discreet.learners.gp_ucb.policy import (
    MOST_PEOPLE,
    UNIT,
    Ahead,
    GPPolicy,
    GramStatistics,
    KernelModel,
    Mode,
    NoisyRows,
    PointObservations,
    ReleasedSums,
)
from discreet.learners.gp_ucb.posterior import Evidence
from discreet.learners.gp_ucb.public_points import PublicPoints
from discreet.learners.gp_ucb.values import model_beliefs
from discreet.learners.messages import Reports
from discreet.learners.values import Beliefs
from discreet.people.domain import ActionSpace, Box, DecisionSets, PublicBox, PublicSet
from discreet.privacy import Adjacency, Joint, Local, NonPrivate, OnceEach, Release
from discreet.privacy.prefix_sums import (
    FadingEpochs,
    LinearStream,
    PrivateStream,
    SeparateEpochs,
)
from discreet.privacy.prefix_sums.system import MOST_PEOPLE as MOST_COUNTED
from discreet.validation import InvalidInput, positive_number

# Sup error of a feature map that the learner makes itself. Further features cost hardly any noise,
# because axes that carry little are shrunk away, and what is left out shows as a bias.
_ERROR = 1e-3
# Length scales that are thought possible on public points, as shares of the kernel's; the error of
# their maps, which only need to resolve them; and so many features at most.
_SHORTER = (0.25, 0.5)
_COARSE_ERROR = 1e-2
_MOST_FEATURES = 250
# Length scale, as a share of each column's width, of a kernel that nobody chose.
_SHARE = 0.3


def usual_kernel(domain: Box) -> Kernel:
    """A squared exponential kernel with length scales of 0.3 of each column's width; for more than
    three columns a mean of one for each column, because more cannot be searched."""
    widths = [_SHARE * (b - a) for a, b in zip(domain.lower, domain.upper, strict=True)]
    if domain.dimension <= 3:
        return RBF(length_scale=widths)
    return Additive([RBF(length_scale=width) for width in widths])


class GPUCB(Learner[GPPolicy, Reports, GramStatistics]):
    """Learns where a reward function is high, from people whose data stay private.

    Args:
        domain: the public box of points.
        space: `DecisionSets(most)`, `PublicSet(points)` or `PublicBox()`.
        budget: `Joint(epsilon, delta)`, `Local(epsilon, delta)` or `NonPrivate()`. On public
            points `Local(epsilon)` without delta is allowed too.
        kernel: a scikit-learn kernel in the units of the domain, or its text; by default
            `usual_kernel(domain)`. On public points functions of other length scales are thought
            possible too; its own are the likeliest.
        features: a feature map with a certified norm, instead of one made from the kernel; without
            a kernel, its own is the usual one.
        error: sup error of the feature map made from a kernel.
        public_points: (N, d) a public sample of where people's points may lie, if that is less
            than the whole box. It decides which features are kept; a wrong one costs reward, never
            privacy.
        calibration: noise, releases and posterior; `PosteriorBonus()` by default.
        drift: after how many people a report counts half; None where rewards do not change.

    Raises:
        InvalidInput: for a feature map without a certified norm, or a budget without the delta
            that Gaussian noise needs.
    """

    name: ClassVar[str] = "gp_ucb"
    trust_models: ClassVar[tuple[str, ...]] = ("joint", "local", "none")
    spaces: ClassVar[tuple[type[Any], ...]] = (DecisionSets, PublicSet, PublicBox)
    reports_type = Reports
    statistics_type = GramStatistics
    saved = ("_counts", "_evidence")
    # The people of each release, and what releases say of public points.
    _counts: tuple[Annotated[int, Range(1)], ...]
    _evidence: Evidence

    def __init__(
        self,
        domain: Box,
        space: ActionSpace,
        budget: Joint | Local | NonPrivate,
        *,
        kernel: Kernel | str | None = None,
        features: FeatureMap | None = None,
        error: float = _ERROR,
        public_points: ArrayLike | None = None,
        calibration: KernelCalibration | None = None,
        drift: float | None = None,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(domain, space, budget, **common)
        self.calibration: KernelCalibration = KernelCalibration.checked(calibration)
        self.drift = half_life(drift)
        self._points = None
        if public_points is not None:
            self._points = PublicSet.of(domain.from_unit(domain.to_unit(public_points)))
        own_sets = isinstance(self.space, DecisionSets)
        fits = isinstance(features, FeatureMap) and features.domain == domain
        if features is not None and (not fits or (own_sets and kernel is not None)):
            raise InvalidInput(
                f"features was {features!r:.80}, with the kernel {kernel!r:.80}; pass a FeatureMap "
                "on the learner's domain, and with decision sets no kernel beside it."
            )
        if kernel is None and features is None:
            kernel = usual_kernel(domain)
        # Around which length scales are likely; None for those of the map.
        self.kernel = None if kernel is None else kernel_to_text(read_kernel(kernel))
        if features is None:
            assert self.kernel is not None
            error = positive_number(error, "error")
            make = _map_of if own_sets else finest_map
            features = make(self.kernel, domain, error, self._points)
        elif self.kernel is not None:
            _check_fits(self.kernel, domain)
        self.features: FeatureMap = features
        self._counts = ()
        self._evidence = Evidence.none(self.mode.coefficients)
        # Without a stream policies follow from the sums of everybody.
        self._stream: LinearStream | None = None
        self._design: LinearStream | None = None
        if self.drift is not None:
            self._stream = LinearStream(FadingEpochs(self.drift))
            self._design = LinearStream(FadingEpochs(self.drift))
        if budget.protects_releases:
            assert self.noise is not None
            mode = self.mode
            multiplier = self.calibration.noise_multiplier(budget, features.features)
            reward_noise = multiplier * mode.sensitivity / mode.reward_weight
            mechanism = self.calibration.mechanism(reward_noise, self.horizon, mode.places)
            if self.drift is not None:
                mechanism = FadingEpochs(self.drift, mechanism.due(0), self.horizon)
            size, moved = mode.size, mode.sensitivity
            self._stream = PrivateStream(mechanism, size, moved, multiplier, self.noise)
            self._design = LinearStream(mechanism)

    @cached_property
    def mode(self) -> Mode:
        """What people bring, and what follows from it (policy.py)."""
        if isinstance(self.space, DecisionSets):
            return OwnSets(self.features, self.space, self.calibration, self.budget, self._points)
        assert isinstance(self.space, PublicSet | PublicBox)
        return PublicPoints(self.features, self.space, self.calibration, self.budget, self.kernel)

    def _empty(self) -> GramStatistics:
        row: Any = np.zeros(self.mode.size, np.float64 if self.mode.local else np.int64)
        return GramStatistics(reports=0, row=row, design=np.zeros(self.mode.design_size))

    @property
    def adjacency(self) -> Adjacency:
        return Adjacency(record=self.mode.record)

    @property
    def batch_size(self) -> int:
        if not isinstance(self._stream, PrivateStream):
            end = self.calibration.next_update(self._published_at, self._alone)
            return longest(self.drift, end - self._published_at)
        if self.horizon is not None and self._published_at >= self.horizon:
            return 2**53
        return self._stream.due - self._published_at

    @property
    def model(self) -> KernelModel:
        """What is believed at present, as a public object that predicts anywhere."""
        return self.policy().model

    def _beliefs(self, contexts: Any) -> Beliefs:
        return model_beliefs(self._latest_policy, contexts)

    def _statistics(self, policy: GPPolicy, reports: Reports) -> GramStatistics:
        wanted = NoisyRows if self.mode.local else PointObservations
        if not isinstance(reports, wanted):
            raise InvalidInput(
                f"reports had type {type(reports).__name__}; under {self.budget!r} they are "
                f"{wanted.__name__}."
            )
        if self.mode.local and isinstance(reports, NoisyRows):
            self.mode.local.check_reports(reports.rows)
        row, design = self.mode.sums(policy, reports)
        return GramStatistics(reports=len(reports), row=row, design=design)

    def _check_sums(self, statistics: GramStatistics) -> None:
        row, exact = statistics.row, statistics.exact
        given, wanted = (
            (len(sums.row), len(sums.design), sums.exact) for sums in (statistics, self._sums)
        )
        if given != wanted:
            raise InvalidInput(
                f"statistics had the sizes {given[:2]} (exact: {exact}); this learner adds "
                f"{wanted[:2]} (exact: {wanted[2]})."
            )
        people, most = self.people + statistics.reports, statistics.reports * (1.0 + 1e-4) / UNIT
        # Not np.abs, which leaves the least 64-bit integer negative.
        largest = max(int(row.max()), -int(row.min())) if exact else 0
        if largest > most or ((exact or self.mode.public) and (row[self.mode.squares] < 0).any()):
            raise InvalidInput(
                f"statistics of {statistics.reports} reports had an entry of {largest}, or a "
                f"negative sum of squares; no reports add up to more than {most:.0f}. Send them as "
                "statistics() made them."
            )
        if exact and people > MOST_PEOPLE:
            raise InvalidInput(
                f"{people} people would not add up exactly; the largest number is {MOST_PEOPLE}."
            )
        private = isinstance(self._stream, PrivateStream)
        if private and self.horizon is not None and people > self.horizon:
            raise InvalidInput(
                f"the horizon is used up: {self.people} people have taken part and "
                f"{statistics.reports} more came, but the horizon is {self.horizon}. Start a new "
                "learner for further people, or leave the horizon out."
            )

    def _publish(self) -> GPPolicy:
        totals: ReleasedSums | None = None
        if self._stream is None:
            totals = self._plain() if self.people else None
        elif self._stream.estimate is not None or self.people >= self._stream.due:
            totals = self._release(self._stream)
        return self.mode.policy(self.policy_header(), self._said(totals), self._ahead())

    def _said(self, totals: ReleasedSums | None) -> ReleasedSums | Evidence | None:
        """What a policy follows from."""
        if totals is None or not self.mode.public:
            return totals
        if self._separate:
            return self._evidence
        return self.mode.evidence(Evidence.none(self.mode.coefficients), totals)

    @property
    def _alone(self) -> bool:
        """Whether points are public and searched together, not group by group."""
        return self.mode.places is not None

    @property
    def _separate(self) -> bool:
        """Whether each release holds one epoch alone."""
        return self._stream is not None and isinstance(self._stream.mechanism, SeparateEpochs)

    def _ahead(self) -> Ahead:
        """What is known of the people who are still to come."""
        stream, came = self._stream, self.people
        if isinstance(stream, PrivateStream):
            end, noise = stream.mechanism.due(came), stream.scale**2
        else:
            next_update = self.calibration.next_update(came, self._alone)
            end, noise = came + longest(self.drift, next_update - came), 0.0
        remaining = max(came, 1) if self.horizon is None else max(self.horizon - came, 0)
        remaining = longest(self.drift, min(remaining, MOST_COUNTED), 1.0 / math.log(2.0))
        if self.horizon is not None:
            end = min(end, self.horizon)
        return Ahead(max(end - came, 1), remaining, noise, self._separate)

    def _plain(self) -> ReleasedSums:
        """Sums that need no further noise."""
        return ReleasedSums(
            values=self.mode.row(self._sums.row),
            design=self._sums.design,
            people=float(self.people),
            came=self.people,
            **self._report_noise(float(self.people)),
        )

    def _release(self, stream: LinearStream) -> ReleasedSums:
        """Release what came since the last time; the only place where noise is drawn. Sums that
        are public, or of reports that are private, fade in a stream without noise.

        People whose row was released are never in another, even if making a policy from it failed.
        """
        new = self.people - self._released
        assert self._design is not None
        if not stream.people == self._design.people == self._released:
            raise InvalidInput(
                "a release was interrupted, and its people must not be released again; load the "
                "learner as it was saved after the last policy that anyone has seen."
            )
        self._hear(stream)
        if new:
            sums, design = self._sums, self._sums.design
            stream.release(self.mode.row(sums.row), new)
            # Nobody keeps the sums of those who were released: nothing can release them again.
            self._target.sums = replace(sums, row=0 * sums.row, design=0.0 * design)
            self._counts = (*self._counts, new)
            # The design is public: the same weights, without noise.
            self._design.release(design, new)
            self._hear(stream)
        return self._latest(stream, self.people)

    @property
    def _released(self) -> int:
        """How many people's rows were released; those of the others are in the sums."""
        return sum(self._counts)

    def _hear(self, stream: LinearStream) -> None:
        """Note what the last release says, once; later, if that failed when it was made."""
        if self._separate and self._evidence.came < self._released:
            last = self._latest(stream, self._counts[-1])
            self._evidence = self.mode.evidence(self._evidence, last)

    def _latest(self, stream: LinearStream, came: int) -> ReleasedSums:
        """What the stream says now, of so many people."""
        assert self._design is not None
        estimate, weighted = stream.estimate, self._design.estimate
        assert estimate is not None
        assert weighted is not None
        people = float(estimate.weights @ np.array(self._counts, dtype=np.float64))
        # The squares of the weights of reports, and of the noise in them, add up to `people`.
        noise = self._report_noise(people)
        if isinstance(stream, PrivateStream):
            noise = {"variance": estimate.variance, "scale": stream.scale}
        return ReleasedSums(
            values=estimate.values,
            design=weighted.values,
            people=people,
            came=came,
            **noise,
        )

    def _report_noise(self, people: float) -> dict[str, float]:
        """Of sums of so many people's reports: the noise that these have."""
        variance = people if self.mode.noisy_sums else 0.0
        return {"variance": variance, "scale": self.mode.local.scale if self.mode.local else 0.0}

    @property
    def releases(self) -> list[Release]:
        if not isinstance(self._stream, PrivateStream):
            return super().releases
        release = self._stream.record(
            self.mode.data,
            OnceEach(f"one row of learner {self.identity}", self.budget.visits),
            self.mode.sensitivity_source,
        )
        return [] if release is None else [release]

    @classmethod
    def read_options(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        read = read_options(cls, options, KernelCalibration)
        if "features" in read:
            read["features"] = from_json(read["features"], FeatureMap, "features")
        return read

    def _options(self) -> dict[str, Any]:
        points, kernel = self._points, self.kernel
        return {
            "features": to_json(self.features, FeatureMap),
            **({} if kernel is None or not self.mode.public else {"kernel": kernel}),
            **({} if points is None else {"public_points": points.array.tolist()}),
            **({} if self.drift is None else {"drift": self.drift}),
            **self.calibration.to_options(),
        }

    def _state(self) -> dict[str, Any]:
        if self._stream is None or self._design is None:
            return super()._state()
        streams = {"stream": self._stream.to_fields(), "design": self._design.to_fields()}
        return {**super()._state(), **streams}

    def _facts_of(self, policy: GPPolicy) -> dict[str, Any]:
        return {**super()._facts_of(policy), "local": self.mode.local, "sizes": self.mode.sizes}

    def _restore(self, saved: dict[str, Any]) -> None:
        super()._restore(saved)
        if self._stream is None:
            return
        assert self._design is not None
        self._stream.restore(saved["stream"])
        self._design.restore(saved["design"])
        people, counts = self._stream.people, self._counts
        heard = {people, people - counts[-1]} if self._separate and counts else {0}
        if (
            not self._released == people == self._design.people
            or not len(counts) == self._stream.rows == self._design.rows
            or self._evidence.came not in heard
            or len(self._evidence.projected) != self.mode.coefficients
        ):
            raise InvalidInput(
                f"the saved releases had {counts} people, and the stream and what is known had "
                f"{(people, self._design.people, self._evidence.came)}; they must agree. Read "
                "them as save() wrote them."
            )
        self._evidence.check(self.mode.widest)
        self._target.check_released(people)


def _check_fits(kernel: str, domain: Box) -> None:
    """`InvalidInput` for a kernel that is not for as many columns as the domain has."""
    try:
        kernel_from_text(kernel)(np.array([domain.lower, domain.upper]))
    except ValueError as error:
        raise InvalidInput(
            f"kernel was {kernel}, which does not fit a domain of {domain.dimension} columns "
            f"({error}); give one that does."
        ) from error


# Maps that take too many features are found out in the making: that too is done once.
@lru_cache(maxsize=16)
def finest_map(kernel: str, domain: Box, error: float, points: PublicSet | None) -> FeatureMap:
    """A map for public points that tells length scales down to a quarter of the kernel's; if that
    takes too many features, a half, or none shorter. Each of several groups keeps its own."""
    usual = _map_of(kernel, domain, error, points)
    for share in _SHORTER:
        if len(usual.groups) > 1:
            break
        if (shorter := stretched(kernel_from_text(kernel), share)) is None:
            break
        try:
            text = kernel_to_text(shorter)
            features = _map_of(text, domain, max(error, _COARSE_ERROR), points)
        except InvalidInput:  # It takes too many features.
            continue
        if features.features <= _MOST_FEATURES:
            return features
    return usual


@lru_cache(maxsize=16)
def _map_of(kernel: str, domain: Box, error: float, points: PublicSet | None) -> FeatureMap:
    """Feature maps are public and take a second to make: replicates share them."""
    where = None if points is None else points.array
    return feature_map(kernel_from_text(kernel), domain, error=error, points=where)
