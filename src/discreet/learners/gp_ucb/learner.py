"""GP-UCB under joint, local or no privacy, on a finite feature map (Dubey 2021, Algorithms 1-3).

**Joint privacy.** Plain observations come in; sums leave through a `PrivateStream`, once each; the
policies are functions of what the stream released. A person's own action depends on their own
decision set too, which is why the guarantee is about what *others* see (billboard lemma: Hsu,
Huang, Roth, Roughgarden and Wu 2016).

**Local privacy.** Each person adds the noise to their own report; nothing else is needed.

**Public points.** Where everyone can be given the same points, each point is a function of earlier
releases and a public ticket, so nothing but the reward is anybody's data.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, ClassVar, Unpack

import numpy as np
from numpy.typing import ArrayLike
from sklearn.gaussian_process.kernels import RBF, Kernel

from discreet.action_space import ActionSpace, DecisionSets, PublicBox, PublicSet
from discreet.domain import Box
from discreet.kernels import (
    Additive,
    FeatureMap,
    decode_map,
    encode_map,
    feature_map,
    kernel_from_text,
    kernel_to_text,
    read_kernel,
)
from discreet.learners.base import Common, Learner
from discreet.learners.gp_ucb.calibration import RULES, Calibration, Posterior, rule_of
from discreet.learners.gp_ucb.local_noise import LocalNoise
from discreet.learners.gp_ucb.model import KernelModel
from discreet.learners.gp_ucb.modes import Mode, OwnSets, PublicPoints, Totals
from discreet.learners.gp_ucb.policy import GPPolicy
from discreet.learners.gp_ucb.reports import NoisyRows, Observations
from discreet.learners.gp_ucb.rows import row_sensitivity, row_size
from discreet.learners.gp_ucb.statistics import KernelStatistics
from discreet.learners.messages import Reports
from discreet.learners.schema import decode, encode
from discreet.privacy import Adjacency, Joint, Local, NonPrivate, OnceEach, Release
from discreet.privacy.calibration import gaussian_noise_multiplier, padded_multiplier
from discreet.privacy.prefix_sums import Decoder, Encoder, PrefixMechanism, PrivateStream
from discreet.validation import FloatArray, InvalidInput, positive_number, whole_number

# Sup error of a feature map that the learner makes itself. Further features cost hardly any noise,
# because axes that carry little are shrunk away, and what is left out shows as a bias.
_ERROR = 1e-3
# Length scale, as a share of each column's width, of a kernel that nobody chose.
_SHARE = 0.3


def usual_kernel(domain: Box) -> Kernel:
    """A squared exponential kernel with length scales of 0.3 of each column's width; for more than
    three columns a mean of one for each column, because more cannot be searched."""
    widths = [_SHARE * (b - a) for a, b in zip(domain.lower, domain.upper, strict=True)]
    if domain.dimension <= 3:
        return RBF(length_scale=widths)
    return Additive([RBF(length_scale=width) for width in widths])


class GPUCB(Learner[GPPolicy, Reports, KernelStatistics]):
    """Learns where a reward function is high, from people whose data stay private.

    Args:
        domain: the public box of points.
        space: `DecisionSets(most)`, `PublicSet(points)` or `PublicBox()`.
        budget: `Joint(epsilon, delta)`, `Local(epsilon, delta)` or `NonPrivate()`. On public
            points `Local(epsilon)` without delta is allowed too (Laplace noise).
        kernel: a scikit-learn kernel in the units of the domain, or its text; by default
            `usual_kernel(domain)`.
        features: a feature map with a certified norm, instead of a kernel.
        error: sup error of the feature map made from a kernel.
        public_points: (N, d) a public sample of where people's points may lie, if that is less
            than the whole box. It decides which features are kept; a wrong one costs reward, never
            privacy.
        calibration: noise, releases and beliefs; `Posterior()` by default.

    Raises:
        InvalidInput: for a feature map without a certified norm, or a budget without the delta
            that Gaussian noise needs.
    """

    name: ClassVar[str] = "gp_ucb"
    trust_models: ClassVar[tuple[str, ...]] = ("joint", "local", "none")
    spaces: ClassVar[tuple[type[Any], ...]] = (DecisionSets, PublicSet, PublicBox)
    reports_type = Reports
    statistics_type = KernelStatistics

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
        calibration: Calibration | None = None,
        **common: Unpack[Common],
    ) -> None:
        if not isinstance(domain, Box):
            raise InvalidInput(f"domain was {domain!r:.80}; pass Box(lower, upper).")
        if calibration is not None and not isinstance(calibration, Calibration):
            raise InvalidInput(f"calibration was {calibration!r:.80}; pass Posterior(...).")
        self.calibration = calibration or Posterior()
        points = None if public_points is None else domain.from_unit(domain.to_unit(public_points))
        self._points = points
        self.features = _features(domain, kernel, features, error, points)
        super().__init__(domain, space, budget, **common)
        self._released = self._sums
        self._counts: list[int] = []
        self._stream: PrivateStream | None = None
        self._design: tuple[Encoder, Decoder] | None = None
        if isinstance(budget, Joint):
            self._open_stream(budget)

    def _empty(self) -> KernelStatistics:
        """Called once, when everything that the mode needs is known."""
        local = self._local_noise() if isinstance(self.budget, Local) else None
        given = self.features, self.space, self.reward_bounds, self.calibration, local
        self._mode: Mode = (
            OwnSets(*given, points=self._points)
            if isinstance(self.space, DecisionSets)
            else PublicPoints(*given, noiseless=not isinstance(self.budget, Joint))
        )
        return self._mode.empty()

    def _local_noise(self) -> LocalNoise:
        budget = self.budget
        if not isinstance(self.space, DecisionSets):
            # A reward alone: on the scale [0, 1] two of them lie at most 1 apart.
            if budget.delta == 0.0:
                return LocalNoise(padded_multiplier(1.0 / budget.epsilon, 1), 1.0, laplace=True)
            multiplier = gaussian_noise_multiplier(budget.epsilon, budget.delta)
            return LocalNoise(padded_multiplier(multiplier, 1), 1.0)
        if budget.delta == 0.0:
            raise InvalidInput(
                f"delta was {budget.delta:g}; reports of {self.name} from decision sets carry "
                "Gaussian noise under local privacy, so give a delta above 0, such as 1e-6."
            )
        size = self.features.features
        sensitivity = row_sensitivity(size, self.calibration.weights)
        assert isinstance(budget, Local)
        multiplier = self.calibration.noise_multiplier(budget, size)
        return LocalNoise(sensitivity * padded_multiplier(multiplier, row_size(size)), sensitivity)

    def _open_stream(self, budget: Joint) -> None:
        assert self.noise is not None
        multiplier = self.calibration.noise_multiplier(budget, self.features.features)
        mechanism = self._mechanism(multiplier)
        self._stream = PrivateStream(
            mechanism, self._mode.size, self._mode.sensitivity, multiplier, self.noise
        )
        self._design = mechanism.encoder(), mechanism.decoder()

    def _mechanism(self, multiplier: float) -> PrefixMechanism:
        own = isinstance(self._mode, OwnSets)
        weight = self.calibration.weights.rewards if own else 1.0
        noise = multiplier * self._mode.sensitivity / weight
        return self.calibration.mechanism(noise, self.horizon, not own)

    @property
    def adjacency(self) -> Adjacency:
        return Adjacency(record=self._mode.record)

    @property
    def batch_size(self) -> int:
        if self._stream is None:
            return self.calibration.next_update(self._published_at) - self._published_at
        if self.horizon is not None and self._published_at >= self.horizon:
            return 2**53
        return self._stream.due - self._published_at

    @property
    def model(self) -> KernelModel:
        """What is believed at present, as a public object that predicts anywhere."""
        return self.policy().model

    def _statistics(self, policy: GPPolicy, reports: Reports) -> KernelStatistics:
        wanted = Observations if self._mode.exact else NoisyRows
        if not isinstance(reports, wanted):
            raise InvalidInput(
                f"reports had type {type(reports).__name__}; under {self.budget!r} they are "
                f"{wanted.__name__}."
            )
        return self._mode.sums(policy, reports)

    def _check_sums(self, statistics: KernelStatistics) -> None:
        self._mode.check(statistics)
        people = self.people + statistics.reports
        self._mode.check_people(people)
        if self._stream is not None and self.horizon is not None and people > self.horizon:
            raise InvalidInput(
                f"the horizon is used up: {self.people} people have taken part and "
                f"{statistics.reports} more came, but the horizon is {self.horizon}. Start a new "
                "learner for further people, or leave the horizon out."
            )

    def _publish(self) -> GPPolicy:
        header = self.policy_header()
        if self.people == 0:
            return self._mode.policy(header, None)
        if self._stream is None:
            return self._mode.policy(header, self._plain())
        if self._stream.estimate is None and self.people < self._stream.due:
            return self._mode.policy(header, None)
        return self._mode.policy(header, self._release(self._stream))

    def _plain(self) -> Totals:
        """Sums that need no further noise."""
        local = isinstance(self._mode, OwnSets) and self._mode.local is not None
        return Totals(
            values=self._mode.row(self._sums.row),
            design=self._sums.design,
            people=float(self.people),
            came=self.people,
            horizon=self.horizon,
            variance=float(self.people) if local else 0.0,
            scale=self._mode.local.scale if self._mode.local is not None else 0.0,
        )

    def _release(self, stream: PrivateStream) -> Totals:
        """Release what came since the last time; the only place where noise is drawn.

        People whose row was released are never in another, even if making a policy from it failed.
        """
        new = self.people - self._released.reports
        assert self._design is not None
        encoder, decoder = self._design
        if stream.people != self._released.reports:
            raise InvalidInput(
                "a release was interrupted, and its people must not be released again; load the "
                "learner as it was saved after the last policy that anyone has seen."
            )
        if new:
            row = self._mode.row(self._sums.row - self._released.row)
            design = self._sums.design - self._released.design
            stream.release(row, new)
            self._released = self._sums
            self._counts.append(new)
            # The design is public: the same weights, without noise.
            decoder.take(encoder.push(design, new), new)
        estimate, weighted = stream.estimate, decoder.estimate
        assert estimate is not None
        assert weighted is not None
        return Totals(
            values=estimate.values,
            design=weighted.values,
            people=float(estimate.weights @ np.array(self._counts, dtype=np.float64)),
            came=self.people,
            horizon=self.horizon,
            variance=estimate.variance,
            scale=stream.scale,
        )

    @property
    def releases(self) -> list[Release]:
        if self._stream is None:
            return super().releases if isinstance(self.budget, Local) else self._unprotected()
        made = self._stream.record(
            self._mode.data,
            OnceEach(f"one row of learner {self.identity}"),
            self._mode.sensitivity_source,
        )
        return [] if made is None else [made]

    def _unprotected(self) -> list[Release]:
        made = [policy.release("none") for policy in self._policies]
        return [release for release in made if release is not None]

    @classmethod
    def read_options(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        rest = dict(options)
        read: dict[str, Any] = {}
        for name in ("kernel", "error", "public_points"):
            if name in rest:
                read[name] = rest.pop(name)
        if "features" in rest:
            read["features"] = decode_map(rest.pop("features"))
        return {**read, "calibration": rule_of(rest)}

    def _options(self) -> dict[str, Any]:
        rule = self.calibration
        if type(rule) not in RULES.values():
            raise InvalidInput(
                f"a learner with the calibration {rule.name!r} cannot be saved; only those of "
                f"{', '.join(RULES)} can."
            )
        points = self._points
        return {
            "features": encode_map(self.features),
            **({} if points is None else {"public_points": points.tolist()}),
            **rule.to_options(),  # type: ignore[attr-defined]
        }

    def _state(self) -> dict[str, Any]:
        if self._stream is None:
            return {}
        assert self._design is not None
        encoder, decoder = self._design
        return {
            "stream": self._stream.to_fields(),
            "design": [encoder.to_fields(), decoder.to_fields()],
            "released": encode(self._released),
            "counts": self._counts,
        }

    def _restore(self, fields: dict[str, Any]) -> None:
        if self._stream is None:
            return
        assert self.noise is not None
        mechanism, asked = self._stream.mechanism, self._stream
        self._stream = PrivateStream.from_fields(mechanism, fields["stream"], self.noise)
        if (
            self._stream.size != asked.size
            or self._stream.sensitivity < asked.sensitivity * (1.0 - 1e-12)
            or self._stream.noise_multiplier < asked.noise_multiplier * (1.0 - 1e-9)
            or self._stream.scale > asked.scale * (1.0 + 1e-6)
        ):
            raise InvalidInput(
                "the saved stream has other noise than this learner's budget asks for; read it as "
                "save() wrote it, with the same version of discreet."
            )
        encoder, decoder = fields["design"]
        self._design = (
            Encoder.from_fields(mechanism, encoder),
            Decoder.from_fields(mechanism, decoder),
        )
        self._released = decode(fields["released"], KernelStatistics)
        self._counts = [whole_number(count, "counts", minimum=1) for count in fields["counts"]]
        people = self._stream.people
        if sum(self._counts) != people or self._released.reports != people:
            raise InvalidInput("the saved counts do not add up; read them as save() wrote them.")
        self._target.check_released(people)


def _features(
    domain: Box,
    kernel: Kernel | str | None,
    features: FeatureMap | None,
    error: float,
    points: FloatArray | None,
) -> FeatureMap:
    if features is not None:
        if kernel is not None:
            raise InvalidInput("kernel and features were both given; give one of them.")
        if not isinstance(features, FeatureMap) or features.domain != domain:
            raise InvalidInput(
                f"features was {features!r:.80}; pass a FeatureMap on the learner's domain."
            )
        return features
    chosen = usual_kernel(domain) if kernel is None else read_kernel(kernel)
    return _made(kernel_to_text(chosen), domain, positive_number(error, "error"), _frozen(points))


def _frozen(points: FloatArray | None) -> tuple[tuple[float, ...], ...] | None:
    return None if points is None else tuple(map(tuple, points.tolist()))


@lru_cache(maxsize=16)
def _made(
    kernel: str, domain: Box, error: float, points: tuple[tuple[float, ...], ...] | None
) -> FeatureMap:
    """Feature maps are public and take a second to make: replicates share them."""
    where = None if points is None else np.array(points)
    return feature_map(kernel_from_text(kernel), domain, error=error, points=where)
