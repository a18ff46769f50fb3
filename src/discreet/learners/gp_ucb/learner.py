"""GP-UCB on a finite feature map: what its two learners share (Dubey 2021).

| action space              | learner                      | secret record of a person        |
|---------------------------|------------------------------|----------------------------------|
| `DecisionSets`            | `sets.learner.SetsGPUCB`     | decision set and reward          |
| `PublicSet`, `PublicBox`  | `public.learner.PublicGPUCB` | reward; points follow from coins |

Each person adds one row of numbers. Under joint privacy sums of rows leave through a
`PrivateStream`, once each (Algorithm 2), and policies are functions of what the stream released. A
person's own action may depend on their own decision set too, so the guarantee covers what *others*
see (billboard lemma: Hsu, Huang, Roth, Roughgarden and Wu 2016). Under local privacy each report
carries noise, and sums are public (Algorithm 3).

Notes
-----
*Exact sums.* Features and rewards are rounded to multiples of 2^-18, so sums of their products are
exact in 64-bit integers: they add in any order, and the sensitivity covers the rounding.

*y^2 is free.* At the worst pair of neighbours y^2 = y'^2, so an entry g y^2 with g = c / b
(decision sets) or 2 |s| (public points) does not raise the sensitivity. It gives the variance of
rewards, without which the posterior assumes the largest one and hardly beats uniform choice.
"""

from __future__ import annotations

import json
import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Generic, TypeVar, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray
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
from discreet.learners.base import ENDLESS, Common, Learner, read_options
from discreet.learners.discounting import check_half_life, longest
from discreet.learners.gp_ucb.calibration import KernelCalibration
from discreet.learners.gp_ucb.policy import (
    MOST_PEOPLE,
    UNIT,
    GPPolicy,
    GramStatistics,
    KernelModel,
    NoisyRows,
    PointObservations,
    ReleasedSums,
    RemainingHorizon,
)
from discreet.learners.messages import Reports
from discreet.learners.registry import variant
from discreet.people.domain import ActionSpace, Box, DecisionSets, PublicBox, PublicSet
from discreet.privacy import Adjacency, Joint, Local, NonPrivate, OnceEach, Release
from discreet.privacy.calibration import AdditiveNoise
from discreet.privacy.prefix_sums import (
    DiscountedEpochs,
    LinearStream,
    PrivateStream,
    SeparateEpochs,
)
from discreet.privacy.prefix_sums.system import MOST_PEOPLE as MOST_COUNTED
from discreet.validation import FloatArray, IntArray, InvalidInput, a_kind, positive_number

# Sup error of the default feature map. Further features cost hardly any noise, because axes that
# carry little are shrunk away, and features left out show as a bias.
_ERROR = 1e-3
# Length scale of the default kernel, as a share of each column's width.
_SHARE = 0.3

P = TypeVar("P", bound=GPPolicy)
R = TypeVar("R", PointObservations, NoisyRows)


class KernelOptions(Common, total=False):
    """Options of both learners; see `GPUCB`."""

    kernel: Kernel | str | None
    features: FeatureMap | None
    error: float
    public_points: ArrayLike | None
    calibration: KernelCalibration | None
    half_life: float | None


def GPUCB(  # noqa: N802, a name of the field
    domain: Box,
    space: ActionSpace,
    budget: Joint | Local | NonPrivate,
    **options: Unpack[KernelOptions],
) -> GPUCBLearner[Any]:
    """A learner of where a reward function is high, for the given action space.

    Args:
        domain: the public box of points.
        space: `DecisionSets(most)`, `PublicSet(points)` or `PublicBox()`.
        budget: `Joint(epsilon, delta)`, `Local(epsilon, delta)` or `NonPrivate()`. On public
            points `Local(epsilon)` without delta is allowed too.
        kernel: a scikit-learn kernel in the units of the domain, or its text; by default
            `usual_kernel(domain)`. On public points other length scales are weighed by evidence,
            its own with the largest prior probability.
        features: a feature map with a certified norm, instead of one made from the kernel; without
            a kernel, its own is the usual one.
        error: sup error of the feature map made from a kernel.
        public_points: (N, d) a public sample of where people's points may lie, if that is less
            than the whole box. It decides which features are kept; a wrong one costs reward, never
            privacy.
        calibration: noise, releases and posterior; `PosteriorBonus()` by default.
        half_life: half-life of reports in people; None where rewards do not change.

    Returns:
        `SetsGPUCB` for decision sets, `PublicGPUCB` for public points.

    Raises:
        InvalidInput: for a feature map without a certified norm, or a budget without the delta
            that Gaussian noise needs.
    """
    kind: type[Any] = variant(GPUCBLearner, space, getattr(budget, "trust_model", ""))
    learner: GPUCBLearner[Any] = kind(domain, space, budget, **options)
    return learner


def usual_kernel(domain: Box) -> Kernel:
    """The default kernel: squared exponential, with length scales of 0.3 of each column's width.

    For more than three columns it is a mean of one for each column, because a product of more
    cannot be searched.
    """
    widths = [_SHARE * (b - a) for a, b in zip(domain.lower, domain.upper, strict=True)]
    if domain.dimension <= 3:
        return RBF(length_scale=widths)
    return Additive([RBF(length_scale=width) for width in widths])


class GPUCBLearner(Learner[P, Reports, GramStatistics], Generic[P]):
    """GP-UCB without its rows, posterior and choice of points; see `GPUCB` for the arguments.

    A subclass defines `_make_features`, `_statistics`, `_row` and `_publish`, and calls `_open`
    once the attributes below are set.

    Attributes:
        record: what one person's record is.
        data: which part of it enters a release.
        sensitivity_source: how the sensitivity was computed.
        learns_length_scales: whether other length scales than the kernel's are weighed by evidence.
        sensitivity: l2 distance that a row moves when its person is replaced.
        reward_weight: weight of y in a row.
        non_negative: places in a row whose exact sums are never negative.
        local: the noise on each report; None where people trust the learner.
        noisy_rows: whether a report is a whole row with noise on it.
        places: number of public points with rewards of their own; None for decision sets, or where
            points are searched by groups of columns.
        sizes: the sizes of the arrays of a policy.
    """

    name: ClassVar[str] = "gp_ucb"
    trust_models: ClassVar[tuple[str, ...]] = ("joint", "local", "none")
    spaces: ClassVar[tuple[type[Any], ...]] = (DecisionSets, PublicSet, PublicBox)
    reports_type = Reports
    statistics_type = GramStatistics
    saved: ClassVar[tuple[str, ...]] = ("_counts",)
    _counts: tuple[Annotated[int, Range(1)], ...]  # the people of each release

    record: ClassVar[str]
    data: ClassVar[str]
    sensitivity_source: ClassVar[str]
    learns_length_scales: ClassVar[bool]
    sensitivity: float
    reward_weight: float
    non_negative: IntArray
    local: AdditiveNoise | None = None
    noisy_rows: bool = False
    places: float | None = None
    sizes: tuple[int, ...] = ()

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
        half_life: float | None = None,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(domain, space, budget, **common)
        self.calibration: KernelCalibration = KernelCalibration.checked(calibration)
        self.half_life = check_half_life(half_life)
        self._points = None
        if public_points is not None:
            self._points = PublicSet.of(domain.from_unit(domain.to_unit(public_points)))
        fits = isinstance(features, FeatureMap) and features.domain == domain
        either = self.learns_length_scales or kernel is None
        if features is not None and not (fits and either):
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
            features = self._make_features(self.kernel, positive_number(error, "error"))
        elif self.kernel is not None:
            _check_fits(self.kernel, domain)
        bound = features.norm_bound
        if bound is None or not 0.0 < bound < math.inf:
            raise InvalidInput(
                f"features was {a_kind(features)} with norm_bound {bound}; noise is sized by the "
                "largest norm of the features, so give a map that certifies one "
                "(discreet.kernels.feature_map makes such maps)."
            )
        self.features: FeatureMap = features
        # A part in 10^12 covers the rounding of the features' arithmetic.
        self.norm = bound * (1.0 + 1e-12)
        self._counts = ()

    def _open(self, row: int, design: int = 0) -> None:
        """Open the stream of releases.

        Args:
            row: how many numbers a row has.
            design: how many numbers the public part of the statistics has.
        """
        self._row_length, self._design_length = row, design
        # Without a stream policies follow from the sums of everybody.
        self._stream: LinearStream | None = None
        self._design: LinearStream | None = None
        if self.half_life is not None:
            self._stream = LinearStream(DiscountedEpochs(self.half_life))
            self._design = LinearStream(DiscountedEpochs(self.half_life))
        if self.budget.is_central:
            assert self.noise is not None
            multiplier = self.calibration.noise_multiplier(self.budget, self.features.features)
            reward_noise = multiplier * self.sensitivity / self.reward_weight
            mechanism = self.calibration.mechanism(reward_noise, self.horizon, self.places)
            if self.half_life is not None:
                mechanism = DiscountedEpochs(self.half_life, mechanism.due(0), self.horizon)
            moved = self.sensitivity
            self._stream = PrivateStream(mechanism, row, moved, multiplier, self.noise)
            self._design = LinearStream(mechanism)

    @abstractmethod
    def _make_features(self, kernel: str, error: float) -> FeatureMap:
        """A feature map of the kernel with a sup error."""

    @abstractmethod
    def _row(self, counted: NDArray[Any]) -> FloatArray:
        """(row,) a sum of rows in the units in which `sensitivity` is measured."""

    # Statistics.

    def _empty(self) -> GramStatistics:
        row: Any = np.zeros(self._row_length, np.float64 if self.local else np.int64)
        return GramStatistics(reports=0, row=row, design=np.zeros(self._design_length))

    def _taken(self, reports: Reports, kind: type[R]) -> R:
        """Reports of the class that the budget asks for."""
        if not isinstance(reports, kind):
            raise InvalidInput(
                f"reports had type {type(reports).__name__}; under {self.budget!r} they are "
                f"{kind.__name__}."
            )
        if self.local is not None and isinstance(reports, NoisyRows):
            self.local.check_reports(reports.rows)
        return reports

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
        if largest > most or (not self.noisy_rows and (row[self.non_negative] < 0).any()):
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

    # Releases.

    @property
    def batch_size(self) -> int:
        if not isinstance(self._stream, PrivateStream):
            end = self.calibration.next_update(self._published_at, self.places is not None)
            return longest(self.half_life, end - self._published_at)
        if self.horizon is not None and self._published_at >= self.horizon:
            return ENDLESS
        return self._stream.due - self._published_at

    @property
    def _separate(self) -> bool:
        """Whether each release holds one epoch alone."""
        return self._stream is not None and isinstance(self._stream.mechanism, SeparateEpochs)

    def _public_sums(self) -> ReleasedSums | None:
        """The public sums of rows, released first if that is due; None before any."""
        if self._stream is None:
            return self._unreleased() if self.people else None
        if self._stream.estimate is not None or self.people >= self._stream.due:
            return self._release(self._stream)
        return None

    def _unreleased(self) -> ReleasedSums:
        """Sums that need no further noise."""
        return ReleasedSums(
            values=self._row(self._sums.row),
            design=self._sums.design,
            people=float(self.people),
            came=self.people,
            **self._report_noise(float(self.people)),
        )

    def _release(self, stream: LinearStream) -> ReleasedSums:
        """Release the rows since the last release (Algorithm 2); noise is drawn only here.

        Sums that are public, or of reports that are private, are discounted in a stream without
        noise. A row that was released is never in another release, even if making a policy from it
        failed.
        """
        new = self.people - self._released
        assert self._design is not None
        if not stream.people == self._design.people == self._released:
            raise InvalidInput(
                "a release was interrupted, and its people must not be released again; load the "
                "learner as it was saved after the last policy that anyone has seen."
            )
        self._note_release(stream)
        if new:
            sums, design = self._sums, self._sums.design
            stream.release(self._row(sums.row), new)
            # Released rows leave the sums: nothing can release them again.
            self._target._sums = replace(sums, row=0 * sums.row, design=0.0 * design)
            self._counts = (*self._counts, new)
            # The design is public: the same weights, without noise.
            self._design.release(design, new)
            self._note_release(stream)
        return self._latest(stream, self.people)

    @property
    def _released(self) -> int:
        """How many people's rows were released; the rows of the others are in the sums."""
        return sum(self._counts)

    def _note_release(self, stream: LinearStream) -> None:
        """Take what the last release says into account, once."""

    def _latest(self, stream: LinearStream, came: int) -> ReleasedSums:
        """What the stream says now, of `came` people."""
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
        """The noise that reports of `people` people add to a sum."""
        variance = people if self.noisy_rows else 0.0
        return {"variance": variance, "scale": self.local.scale if self.local else 0.0}

    def _remaining(self) -> RemainingHorizon:
        """The people who are still to come, as far as they are known."""
        stream, came = self._stream, self.people
        if isinstance(stream, PrivateStream):
            end, noise = stream.mechanism.due(came), stream.scale**2
        else:
            next_update = self.calibration.next_update(came, self.places is not None)
            end, noise = came + longest(self.half_life, next_update - came), 0.0
        remaining = max(came, 1) if self.horizon is None else max(self.horizon - came, 0)
        remaining = longest(self.half_life, min(remaining, MOST_COUNTED), 1.0 / math.log(2.0))
        if self.horizon is not None:
            end = min(end, self.horizon)
        return RemainingHorizon(max(end - came, 1), remaining, noise, self._separate)

    # What is public.

    def _policy_fields(self, mean: FloatArray, root: FloatArray) -> dict[str, Any]:
        """Keyword arguments of every policy, with the posterior mean (m + 1,) and root."""
        model = KernelModel(self.features, self.norm, mean, root, self.reward_bounds)
        return {
            **self.policy_header(),
            "offered": self.space,
            "model": model,
            "local": self.local,
        }

    @property
    def model(self) -> KernelModel:
        """The current posterior, as a public object that predicts anywhere."""
        return self.policy().model

    @property
    def adjacency(self) -> Adjacency:
        return Adjacency(record=self.record)

    def _central_releases(self) -> list[Release]:
        assert isinstance(self._stream, PrivateStream)
        release = self._stream.record(
            self.data,
            OnceEach(f"one row of learner {self.identity}", self.budget.max_contributions),
            self.sensitivity_source,
        )
        return [] if release is None else [release]

    # Options and state.

    @classmethod
    def read_options(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        read = read_options(cls, options, KernelCalibration)
        if "features" in read:
            read["features"] = _saved_features(json.dumps(read["features"]))
        return read

    def _options(self) -> dict[str, Any]:
        points, kernel = self._points, self.kernel
        return {
            "features": to_json(self.features, FeatureMap),
            **({} if kernel is None or not self.learns_length_scales else {"kernel": kernel}),
            **({} if points is None else {"public_points": points.array.tolist()}),
            **({} if self.half_life is None else {"half_life": self.half_life}),
            **self.calibration.to_options(),
        }

    def _state(self) -> dict[str, Any]:
        if self._stream is None or self._design is None:
            return super()._state()
        streams = {"stream": self._stream.to_fields(), "design": self._design.to_fields()}
        return {**super()._state(), **streams}

    def _restore(self, saved: dict[str, Any]) -> None:
        super()._restore(saved)
        if self._stream is not None and self._design is not None:
            self._stream.restore(saved["stream"])
            self._design.restore(saved["design"])
            people = self._stream.people
            if not self._released == people == self._design.people:
                raise InvalidInput(
                    f"the saved releases had {self._counts} people, and the streams {people} and "
                    f"{self._design.people}; they must agree. Read them as save() wrote them."
                )
            self._target.check_released(people)


def _check_fits(kernel: str, domain: Box) -> None:
    """`InvalidInput` for a kernel of another number of columns than the domain."""
    try:
        kernel_from_text(kernel)(np.array([domain.lower, domain.upper]))
    except ValueError as error:
        raise InvalidInput(
            f"kernel was {kernel}, which does not fit a domain of {domain.dimension} columns "
            f"({error}); give one that does."
        ) from error


@lru_cache(maxsize=16)
def _saved_features(text: str) -> FeatureMap:
    """A feature map from its JSON text; one object, so that what derives from it is shared too."""
    features: FeatureMap = from_json(json.loads(text), FeatureMap, "features")
    return features


@lru_cache(maxsize=16)
def kernel_features(kernel: str, domain: Box, error: float, points: PublicSet | None) -> FeatureMap:
    """A feature map of the kernel; public, and shared by replicates because it takes a second."""
    where = None if points is None else points.array
    return feature_map(kernel_from_text(kernel), domain, error=error, points=where)
