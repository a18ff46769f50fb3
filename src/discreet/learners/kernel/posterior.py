"""The prior of the arms' functions, their posterior, and how far sources share them.

2 f_k - 1 = phi(x)' theta_k with theta_k = common + own_k, both with independent coordinates, so the
prior covariance of theta is own C + common 1 1' over arms, for each feature. C is I, or where arms
are points a correlation, .99 times a product of Matern-3/2 kernels of their coordinates plus .01 I.

| array    | shape  | meaning                                                        | symbol |
|----------|--------|----------------------------------------------------------------|--------|
| used     | (m,)   | the features that are used, of M                               |        |
| own      | (m,)   | variance of an arm's own part                                  |        |
| common   | (m,)   | variance of the part that all arms share                       |        |
| mean     | (K, m) | posterior mean of theta                                        |        |

*Hyperparameters* say what these variances are:

* a length scale for each column (features.py), the longest of which says that it does not matter.
  Of d columns about two are expected to matter, so functions of one column or of two are likely,
  and interactions of many columns hardly are;
* the share of the variance that arms have in common, of their levels and of how they vary;
* where arms are points, the length scale of C, of coordinates that fill [0, 1]; 0 says that C is I;
* a scale of all variances.

*Posterior.* A report is one noisy linear measurement t = a' theta + e with E[e^2] = 1, so the
natural parameters are J = sum a a' and b = sum t a (gaussian.py). With D the prior covariance and
R R' = D^-1 + J, the posterior has precision D^-1 + J, mean (D^-1 + J)^-1 b and log evidence
|R^-1 b|^2 / 2 - log det R - (log det D) / 2.

*Model average.* Length scales stay uncertain for long, and under one that is too long the learner
is certain of what is wrong. Queries and policies therefore follow from the average of posteriors
under several hyperparameters drawn from theirs, by sequential Monte Carlo. The mean covariance
would not do: where each of many columns may matter, it says that none matters much.

*Source weights.* A source shares the target's reward functions with probability w. The reports of
both are explained either by one set of functions or each by its own, and with the log evidence E

    log w / (1 - w) = PRIOR_LOG_ODDS + E(target and source) - E(target) - E(source).

Without reports of the target the prior decides; a source that contradicts is detected within a few
hundred people. A source with w below 0.1 is excluded for good, and the reports of all others are
added to the target's. With the probability that these together do not share the target's functions
the learner acts on the target's reports alone.

Notes
-----
*Arm points* save most where there are many arms (docs/learners/kernel.md). A squared exponential in
place of Matern-3/2, a share of I of .05 and a prior probability of I of .1 did about as well.

*Columns.* The prior probability that a column matters is min(0.9, 2 / d). Features are ranked by
the mean prior variance: at one short length scale 250 features of six columns were mostly products
of three and more.

*Roughness.* For functions smoother than Matern-3/2, such as bumps, posterior deviations are too
wide. Under Matern-5/2 such functions are learnt faster and others slower.

*Short length scales* are rare a priori (fourth power of their size), and none is drawn before there
are reports: with a flatter prior smooth functions lost half as much again at epsilon 1. With more
than ten arms a length scale of 0.1 and eighteen cosines a column are allowed as well.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, lru_cache, reduce
from operator import add
from typing import Annotated, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg.blas import dtrsm, dtrsv
from scipy.linalg.lapack import dpotrf

from discreet.codec import OPTIONAL_FIELD, Range
from discreet.gaussian import GaussianNaturalParameters
from discreet.learners.kernel.features import (
    FLAT,
    LEFT_OUT,
    LENGTH_SCALES,
    CosineFeatures,
    column_matters,
    commonness,
)
from discreet.people.domain import ArmPoints
from discreet.validation import FloatArray, IntArray

SCALES = (1.0, 2.0)
SHARES = (0.0, 0.8)
FIRST_LENGTH_SCALE = 0.8
# Length scales of arm points with their prior probabilities, the first, and the share of I in C.
ARM_LENGTH_SCALES = {0.0: 0.3, 0.1: 0.1, 0.2: 0.2, 0.4: 0.2, 0.8: 0.2}
_FIRST_ARM_LENGTH_SCALE, _OWN = 0.4, 0.01
# Particles of hyperparameters, and draws from the prior of which the first are resampled.
_PARTICLES, _FIRST = 16, 64
# Log prior of the scale: - 1/4 log2(scale)^2.
_SCALE_PENALTY = 0.25
# Short length scales have this power of their share among features as prior probability: where
# reports say little, evidence is flat over length scales, and the shortest would hold out long.
_RARER = 4


@lru_cache(maxsize=64)
def arm_correlation(arms: int | ArmPoints, length_scale: float | None = None) -> FloatArray:
    """(K, K) C (see the module); the identity without a length scale, or where it is 0."""
    correlation = np.eye(arms if isinstance(arms, int) else len(arms))
    if isinstance(arms, ArmPoints) and length_scale:
        points, extent = arms.array, np.ptp(arms.array, axis=0)
        scaled = points / np.where(extent > 0.0, extent, 1.0) * (math.sqrt(3.0) / length_scale)
        distance = np.abs(scaled[:, None] - scaled)
        alike = ((1.0 + distance) * np.exp(-distance)).prod(axis=2)
        correlation = (1.0 - _OWN) * alike + _OWN * correlation
    correlation.setflags(write=False)
    return correlation


@dataclass(frozen=True, eq=False)
class FeaturePrior:
    """Variances of the features that are used (see the module's table), and C (K, K)."""

    used: IntArray
    own: FloatArray
    common: FloatArray
    correlation: FloatArray

    @property
    def precision(self) -> FloatArray:
        """(K, K, m) D^-1 between the arms of each feature."""
        inverse = np.linalg.inv(self.correlation)
        along = inverse.sum(axis=1)
        shared = self.common / (self.own * (self.own + along.sum() * self.common))
        precision: FloatArray = (
            inverse[..., None] / self.own - np.outer(along, along)[..., None] * shared
        )
        return precision

    @property
    def log_det(self) -> float:
        """log det D."""
        arms, (_, log_det) = len(self.correlation), np.linalg.slogdet(self.correlation)
        whole = self.own + np.linalg.inv(self.correlation).sum() * self.common
        return float(((arms - 1) * np.log(self.own) + np.log(whole) + log_det).sum())


def coefficient_places(features: IntArray, arms: int, count: int) -> IntArray:
    """(K m,) where coefficients of features (m,) are among those of all `count`, arm by arm."""
    return (np.arange(arms)[:, None] * count + features).ravel()


@dataclass(frozen=True)
class Hyperparameters:
    """Hyperparameters of the prior (see the module).

    Attributes:
        length_scales: of each column.
        output_scale: of all prior variances.
        level: the share of the variance of levels that arms have in common.
        surface: the share of how functions vary that arms have in common.
        arm_length_scale: of arm points, 0 where these tell nothing; None where arms have none.
    """

    length_scales: tuple[Annotated[float, Range(above=0.0)], ...]
    output_scale: Annotated[float, Range(above=0.0)] = 1.0
    level: Annotated[float, Range(0.0, 1.0)] = 0.0
    surface: Annotated[float, Range(0.0, 1.0)] = 0.0
    arm_length_scale: Annotated[float, Range(0.0)] | None = field(
        default=None, metadata=OPTIONAL_FIELD
    )

    @classmethod
    def first(cls, dimension: int, points: bool = False) -> Hyperparameters:
        arm_scale = _FIRST_ARM_LENGTH_SCALE if points else None
        return cls((FIRST_LENGTH_SCALE,) * dimension, arm_length_scale=arm_scale)

    def drawn(
        self, rng: np.random.Generator, length_scales: Sequence[float] = LENGTH_SCALES[:-1]
    ) -> Hyperparameters:
        """A draw from the prior for the same columns and arms, with scale 1 and one of these
        length scales where a column matters."""
        dimension = len(self.length_scales)
        matters = rng.random(dimension) < column_matters(dimension)
        varying = rng.choice(length_scales, dimension)
        level, surface = rng.choice(SHARES, 2).tolist()
        arm_scale = self.arm_length_scale
        if arm_scale is not None:
            scales, chances = zip(*ARM_LENGTH_SCALES.items(), strict=True)
            arm_scale = float(rng.choice(scales, p=chances))
        lengths = tuple(np.where(matters, varying, FLAT).tolist())
        return Hyperparameters(lengths, 1.0, level, surface, arm_scale)

    def proposal(self, rng: np.random.Generator, length_scales: Sequence[float]) -> Hyperparameters:
        """A symmetric Metropolis proposal, which changes one hyperparameter or two length scales:
        where rewards depend on two columns together, neither seems to matter alone."""
        columns, points = len(self.length_scales), self.arm_length_scale is not None
        kind = int(rng.integers(3 + columns + columns // 2 + points)) - points
        if kind < 3:  # -1, the last choice, is reached with arm points alone
            name, values = _CHOICES[kind]
            new: Any = {name: values[rng.integers(len(values))]}
            return replace(self, **new)
        changed = list(self.length_scales)
        for column in rng.choice(columns, 1 if kind < 3 + columns else 2, replace=False):
            changed[column] = length_scales[int(rng.integers(len(length_scales)))]
        return replace(self, length_scales=tuple(changed))

    @property
    def log_prior(self) -> float:
        matters = column_matters(len(self.length_scales))
        each = matters / (len(LENGTH_SCALES) - 1)
        columns = sum(
            math.log(1.0 - matters if value >= FLAT else each * commonness(value) ** _RARER)
            for value in self.length_scales
        )
        scale = self.arm_length_scale
        arms = 0.0 if scale is None else math.log(ARM_LENGTH_SCALES.get(scale, 1.0))
        return columns - _SCALE_PENALTY * math.log2(self.output_scale) ** 2 + arms

    def prior(
        self, features: CosineFeatures, arms: int | ArmPoints, left_out: float = LEFT_OUT
    ) -> FeaturePrior:
        """The variances of features; those with less than this share of the whole are left out."""
        whole = features.variances(self.length_scales, self.output_scale)
        used = np.flatnonzero(whole >= left_out * whole.sum())
        share = np.full(len(whole), self.surface)
        share[0] = self.level
        own, common = ((1.0 - share) * whole)[used], (share * whole)[used]
        return FeaturePrior(used, own, common, arm_correlation(arms, self.arm_length_scale))


# Hyperparameters that a proposal changes beside length scales of columns, and their values.
_CHOICES: tuple[tuple[str, tuple[float, ...]], ...] = (
    ("level", SHARES),
    ("surface", SHARES),
    ("output_scale", SCALES),
    ("arm_length_scale", tuple(ARM_LENGTH_SCALES)),
)


@dataclass(frozen=True)
class HyperparameterPosterior:
    """Particles: hyperparameters drawn from their posterior.

    Attributes:
        best: the particle with the highest posterior density; a default before there are reports.
        candidates: distinct particles, the most frequent first; empty before there are reports.
        weights: their relative frequencies.
        evidence: their log evidence when they were drawn.
    """

    best: Hyperparameters
    candidates: tuple[Hyperparameters, ...] = ()
    weights: tuple[Annotated[float, Range(above=0.0)], ...] = ()
    evidence: tuple[float, ...] = ()

    def draw(
        self, count: int, rng: np.random.Generator
    ) -> tuple[list[Hyperparameters], FloatArray]:
        """At most `count` candidates, resampled by their weights, and their new weights.

        Before there are reports, draws from the prior.
        """
        if not self.candidates:
            return [self.best.drawn(rng) for _ in range(count)], np.full(count, 1.0 / count)
        places, times = np.unique(resampled(self.weights, count, rng), return_counts=True)
        return [self.candidates[place] for place in places], times / count


def resampled(weights: ArrayLike, count: int, rng: np.random.Generator) -> IntArray:
    """(count,) indices of weights, one after another, by systematic resampling; increasing."""
    ends = np.cumsum(weights)
    at = np.searchsorted(ends, (np.arange(count) + rng.random()) * (ends[-1] / count))
    places: IntArray = np.minimum(at, len(ends) - 1)
    return places


def hyperparameter_posterior(
    before: HyperparameterPosterior,
    log_evidence: Callable[[Hyperparameters], float],
    rng: np.random.Generator,
    length_scales: Sequence[float] = LENGTH_SCALES,
    sweeps: int = 1,
) -> HyperparameterPosterior:
    """Particles of the posterior given all reports, from those given earlier reports.

    A sequential Monte Carlo sampler (Del Moral, Doucet and Jasra 2006): particles are weighted by
    the increase of their evidence, resampled, and moved by Metropolis steps.

    Args:
        before: the earlier particles; the first ones are drawn from the prior.
        log_evidence: up to a constant.
        rng: seeded publicly.
        length_scales: those that a column may have.
        sweeps: expected number of proposals for each hyperparameter of a particle.
    """
    evidence = cache(log_evidence)

    @cache
    def log_posterior(candidate: Hyperparameters) -> float:
        return evidence(candidate) + candidate.log_prior

    particles, columns = before.candidates, len(before.best.length_scales)
    if particles:
        log_weights = np.log(before.weights) - before.evidence
    else:
        particles = tuple(before.best.drawn(rng) for _ in range(_FIRST))
        log_weights = np.zeros(_FIRST)
    log_weights = log_weights + [evidence(each) for each in particles]
    counts: Counter[Hyperparameters] = Counter()
    for place in resampled(np.exp(log_weights - log_weights.max()), _PARTICLES, rng):
        particle = particles[place]
        for _ in range(sweeps * (3 + 2 * columns)):
            other, log_uniform = particle.proposal(rng, length_scales), math.log(1.0 - rng.random())
            if other != particle and log_uniform < log_posterior(other) - log_posterior(particle):
                particle = other
        counts[particle] += 1
    candidates, times = zip(*counts.most_common(), strict=True)
    return HyperparameterPosterior(
        max(candidates, key=log_posterior),
        candidates,
        tuple(count / _PARTICLES for count in times),
        tuple(evidence(each) for each in candidates),
    )


class MixturePart(Protocol):
    """What a mixture asks of each posterior; see `CoefficientPosterior`."""

    @property
    def used(self) -> IntArray: ...
    @property
    def mean(self) -> FloatArray: ...
    @property
    def half(self) -> FloatArray: ...
    @property
    def evidence(self) -> float: ...
    @property
    def degrees_of_freedom(self) -> float: ...
    def draws(self, normals: FloatArray) -> FloatArray: ...
    def covariance_times(self, vectors: FloatArray) -> FloatArray: ...
    def deviations(self, phi: FloatArray) -> FloatArray: ...


@dataclass(frozen=True, eq=False)
class CoefficientPosterior:
    """The posterior under one prior (see the module's table).

    Attributes:
        prior: of the coefficients.
        root: (K m, K m) the lower triangular R.
        whitened: (K m,) R^-1 b.
    """

    prior: FeaturePrior
    root: FloatArray
    whitened: FloatArray

    @classmethod
    def of(
        cls, features: CosineFeatures, prior: FeaturePrior, information: GaussianNaturalParameters
    ) -> CoefficientPosterior:
        """From J (K M, K M) and b (K M,), ordered by arm and then by feature."""
        size, m = len(information.weighted), len(prior.used)
        arms = size // len(features)
        at = coefficient_places(prior.used, arms, len(features))
        inner = information.precision.take(at[:, None] * size + at)
        of_features = np.einsum("kili->kli", inner.reshape(arms, m, arms, m))  # a view
        of_features += prior.precision
        root, failed = dpotrf(inner.T, lower=True, clean=False, overwrite_a=True)
        if failed:
            raise np.linalg.LinAlgError(
                f"the precision J was not positive semidefinite (leading minor {failed} of "
                "D^-1 + J); it must be a sum over reports. Use statistics() of a learner."
            )
        return cls(prior, root, _solved(root, information.weighted[at]))

    @cached_property
    def mean(self) -> FloatArray:
        """(K, m) of theta."""
        return _solved(self.root, self.whitened, transposed=True).reshape(-1, len(self.used))

    @property
    def evidence(self) -> float:
        """Log evidence, up to what the prior does not change."""
        log_det = 0.5 * self.prior.log_det + np.log(np.diagonal(self.root)).sum()
        return 0.5 * float(self.whitened @ self.whitened) - float(log_det)

    @property
    def arms(self) -> int:
        return len(self.whitened) // len(self.used)

    @property
    def used(self) -> IntArray:
        """(m,) the features that are used."""
        return self.prior.used

    @property
    def degrees_of_freedom(self) -> float:
        """Effective number of coefficients that reports determine: K m - trace (R R')^-1 D^-1."""
        inverse = _solved(self.root, np.eye(self.mean.size)).reshape(-1, *self.mean.shape)
        products = np.einsum("nki,nli->kli", inverse, inverse)
        return self.mean.size - float((products * self.prior.precision).sum())

    @property
    def half(self) -> FloatArray:
        """(K m, K m) a root of the posterior covariance."""
        return self.draws(np.eye(self.mean.size))

    def draws(self, normals: FloatArray) -> FloatArray:
        """Deviations from the mean (K m, F) with the posterior covariance, from normals."""
        return _solved(self.root, normals, transposed=True)

    def covariance_times(self, vectors: FloatArray) -> FloatArray:
        """S V for the posterior covariance S and V (K m, F)."""
        return self.draws(_solved(self.root, vectors))

    def deviations(self, phi: FloatArray) -> FloatArray:
        """(n, K) posterior standard deviations of 2 f - 1 at contexts with features (n, m)."""
        size = len(self.used)
        columns = []
        for arm in range(self.arms):
            rows = np.zeros((self.mean.size, len(phi)))
            rows[arm * size : (arm + 1) * size] = phi.T
            columns.append(np.sqrt((_solved(self.root, rows) ** 2).sum(axis=0)))
        return np.stack(columns, axis=1)


@dataclass(frozen=True, eq=False)
class PosteriorMixture:
    """The mean and the covariance of a mixture of posteriors.

    With weights w_h, means m_h and covariances S_h the mean is m = sum w_h m_h and the covariance
    sum w_h (S_h + (m_h - m)(m_h - m)').

    | array   | shape    | meaning                                             |
    |---------|----------|-----------------------------------------------------|
    | weights | (H,)     | w_h, adding up to 1                                 |
    | used    | (m,)     | the features that any of the parts uses             |
    | mean    | (K, m)   | m                                                   |
    | apart   | (H, K m) | m_h - m                                             |
    """

    parts: tuple[MixturePart, ...]
    weights: FloatArray
    used: IntArray
    mean: FloatArray
    apart: FloatArray

    @classmethod
    def of(cls, parts: Sequence[MixturePart], weights: FloatArray) -> PosteriorMixture:
        used = np.unique(np.concatenate([part.used for part in parts]))
        arms = len(parts[0].mean)
        means = np.zeros((len(parts), arms * len(used)))
        for part, mean in zip(parts, means, strict=True):
            mean.reshape(arms, -1)[:, np.searchsorted(used, part.used)] = part.mean
        mean = weights @ means
        return cls(tuple(parts), weights, used, mean.reshape(arms, -1), means - mean)

    @property
    def arms(self) -> int:
        return len(self.mean)

    def _places(self, part: MixturePart) -> IntArray:
        """Where the coefficients of a part are among all K m."""
        at = np.searchsorted(self.used, part.used)
        return coefficient_places(at, self.arms, len(self.used))

    def draws(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Deviations from the mean (K m, F); each part gives its share of the draws, in random
        order."""
        drawn = np.zeros((self.mean.size, count))
        share = (rng.permutation(count) + rng.random()) / count
        origin = np.searchsorted(np.cumsum(self.weights)[:-1], share, side="right")
        for number, part in enumerate(self.parts):
            mine = np.flatnonzero(origin == number)
            normals = rng.standard_normal((part.mean.size, len(mine)))
            drawn[:, mine] = self.apart[number][:, None]
            drawn[np.ix_(self._places(part), mine)] += part.draws(normals)
        return drawn

    def covariance_times(self, vectors: FloatArray) -> FloatArray:
        """S V for the covariance S and V (K m, F)."""
        product: FloatArray = self.apart.T @ (self.weights[:, None] * (self.apart @ vectors))
        for part, weight in zip(self.parts, self.weights, strict=True):
            places = self._places(part)
            product[places] += weight * part.covariance_times(vectors[places])
        return product

    def deviations(self, phi: FloatArray) -> FloatArray:
        """(n, K) standard deviations of 2 f - 1 at contexts with features (n, m)."""
        variance = np.zeros((len(phi), self.arms))
        for part, weight, apart in zip(self.parts, self.weights, self.apart, strict=True):
            own = part.deviations(phi[:, np.searchsorted(self.used, part.used)])
            shift = phi @ apart.reshape(self.arms, -1).T
            variance += weight * (own**2 + shift**2)
        return np.sqrt(variance)


def _solved(root: FloatArray, right: FloatArray, transposed: bool = False) -> FloatArray:
    """R^-1 B, or R'^-1 B, for R (n, n) lower triangular and B (n, F) or (n,)."""
    # BLAS itself, which reads the rows of B as the columns of B': LAPACK takes twice as long. Roots
    # are those of `CoefficientPosterior.of`, so none is singular.
    if right.ndim == 1:
        return np.asarray(dtrsv(root, right, lower=True, trans=transposed))
    return np.asarray(dtrsm(1.0, root, right.T, side=True, lower=True, trans_a=not transposed).T)


PRIOR_LOG_ODDS = 3.0
# A source with a smaller weight is excluded. One that does share the reward functions falls so low
# by chance with probability e^-5 at most.
_LEAST_SOURCE_WEIGHT = 0.1


@dataclass(frozen=True)
class SourceWeights:
    """Probabilities that sources share the target's reward functions.

    Attributes:
        weights: of each source by itself.
        used: the sources whose reports are used.
        together: of all sources that are used together; 1 where there are none.
    """

    weights: Mapping[str, float]
    used: tuple[str, ...]
    together: float


def source_weights(
    target: GaussianNaturalParameters,
    sources: Mapping[str, GaussianNaturalParameters],
    log_evidence: Callable[[GaussianNaturalParameters], float],
) -> SourceWeights:
    """Source weights by a comparison of evidence (see the module).

    Args:
        target: what the target's reports say.
        sources: the same of each source.
        log_evidence: under one prior, up to a constant.
    """
    alone = log_evidence(target) if sources else 0.0

    def shared(source: GaussianNaturalParameters) -> float:
        odds = PRIOR_LOG_ODDS + log_evidence(target + source) - alone - log_evidence(source)
        return 1.0 / (1.0 + math.exp(-min(max(odds, -500.0), 500.0)))

    weights = {name: shared(source) for name, source in sources.items()}
    used = tuple(name for name, weight in weights.items() if weight >= _LEAST_SOURCE_WEIGHT)
    # Together: a weak source of which little is known does little harm.
    together = shared(reduce(add, [sources[name] for name in used])) if used else 1.0
    return SourceWeights(weights, used, together)
