"""Unbiased local reports of a vector u with ||u||_2 <= 1, or of one bounded number.

| mechanism      | privacy          | report                                                     |
|----------------|------------------|------------------------------------------------------------|
| PrivUnit       | epsilon          | a vector of length 1/m that leans towards u                |
| l2_ball        | epsilon          | PrivUnit with threshold 0: the half of the sphere around u |
| GaussianVector | (epsilon, delta) | u with Gaussian noise of l2 sensitivity 2                  |

| array   | shape  | meaning                                                                  |
|---------|--------|--------------------------------------------------------------------------|
| vectors | (n, d) | u, one private vector a person                                           |
| v       | (n, d) | s u/||u||, where the sign s is + with probability (1 + ||u||)/2          |
| reports | (n, d) | what leaves the people; their expectation is `vectors`                   |

**Why PrivUnit is private in floating point too (SecureNoise).** Had a report been computed from v,
its rounding would show v. So reports are points x that were drawn on the sphere without looking
at v (64-bit words, normal quantiles, length made 1), and v only decides which of them is sent: for
each person points are drawn until one lies in the cap around v and one lies outside, and a coin
picks one of the two. Hence, with base(x) the law of the points as they are in floating point and
P_v the share of it that the computer finds in the cap of v,

    P(report = x | v) = base(x) * (p / P_v inside the cap, (1 - p) / (1 - P_v) outside),

and base(x) cancels in every ratio. How many points were drawn does not depend on the coin, and on
v only through P_v. One error remains: P_v is not exactly the mass P of a cap of a true sphere, as
normal quantiles are on a grid (2^-52 in probability) and rounded, lengths and distances too. By an
estimate (not a proof) this moves P by 1e-11 of itself, and by 2e-10 in a million dimensions, where
lengths are less exact. The probabilities are those of epsilon - 1e-9, which leaves room for both.
SimulatedNoise draws the same law directly, which is much faster and protects no one.

**Numbers.** `reward_noise` reports one bounded number y, |y| <= b, without bias.

| mechanism        | privacy          | report                                                  |
|------------------|------------------|---------------------------------------------------------|
| Laplace noise    | epsilon          | y + Laplace(2 b / epsilon)                              |
| `RandomizedSign` | epsilon          | +-b / tanh(epsilon / 2)                                 |
| Gaussian noise   | (epsilon, delta) | y with Gaussian noise of sensitivity 2 b                |

A sign has the variance b^2 / tanh^2(epsilon / 2) - (E y)^2, whatever the law of y; Laplace noise
adds 8 b^2 / epsilon^2 to the variance that y has. So the sign is the better pure report of rewards
of 0 and 1 at every epsilon, and of any reward as long as

    tanh^2(epsilon / 2) >= epsilon^2 / 8,   up to epsilon of about 2.3.

Beyond that, rewards with little noise of their own are better off with Laplace noise.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc, betaincc, betaincinv, gammaln, ndtri

from discreet.codec import Range, Serializable
from discreet.privacy.accounting import Event, GaussianEvent, PureEvent
from discreet.privacy.budget import Budget
from discreet.privacy.calibration import AdditiveNoise, gaussian_noise_multiplier, polar
from discreet.privacy.noise import NoiseSource, gaussian_multiplier, hiding_probability
from discreet.validation import BoolArray, FloatArray, InvalidInput

# Caps are found by drawing points until one falls in, 1/P of them: this bounds time and memory.
_LEAST_MASS = 2.0**-12
# Kept back from epsilon for what rounding does to the mass of a cap (see above).
_KEPT_BACK = 1e-9
_LEAST_EPSILON = 1e-6
# Reports of PrivUnit have a length that is public; this share of it is left to rounding.
_ROUNDING = 1e-6
# How many coordinates are drawn at once, which bounds the memory it takes.
_NUMBERS_AT_ONCE = 2**20


class VectorReport(Serializable, ABC):
    """A mechanism for vectors of length at most 1, and what it costs and adds.

    Attributes:
        dimension: d, at least 1.
        epsilon: what one report costs.
        sensitivity: 2, the largest distance of two vectors of length at most 1.
    """

    dimension: int
    epsilon: float
    sensitivity: ClassVar[float] = 2.0

    @property
    @abstractmethod
    def variance(self) -> float:
        """A bound on E||report - u||^2 / d: the variance of a coordinate, averaged over them."""

    @property
    @abstractmethod
    def largest_variance(self) -> float:
        """A bound on the variance of the report in any one direction, whatever u is."""

    @property
    @abstractmethod
    def scale(self) -> float:
        """The scale of a `Release`: of the noise, or the log of the largest ratio."""

    @property
    @abstractmethod
    def mechanism(self) -> str:
        """The mechanism in words, for a `Release`."""

    @abstractmethod
    def event(self, noise_name: str) -> Event:
        """The cost of one report with noise from the named source."""

    def privatise(self, vectors: ArrayLike, noise: NoiseSource) -> FloatArray:
        """One report for each person, with the person's vector as its expectation.

        Args:
            vectors: (n, d) private vectors. One that is longer than 1 is shortened to length 1,
                and one with NaN or infinity counts as 0.
            noise: where the randomness comes from.

        Returns:
            (n, d) reports.

        Raises:
            InvalidInput: if `vectors` has another shape or does not hold numbers.
        """
        directions, lengths = polar(vectors, self.dimension)
        return self._report(directions, lengths, noise)

    def check(self, reports: FloatArray) -> None:
        """Refuse reports (n, d) outside the mechanism's range: one could outweigh all others."""
        fits = self._made_by_someone(reports)
        if not fits.all():
            raise InvalidInput(
                f"reports had numbers at position {int(np.argmin(fits))} that this mechanism does "
                "not reach; send them as the policy made them."
            )

    @abstractmethod
    def _made_by_someone(self, reports: FloatArray) -> BoolArray:
        """(n,) whether the mechanism makes such reports."""

    @abstractmethod
    def _report(
        self, directions: FloatArray, lengths: FloatArray, noise: NoiseSource
    ) -> FloatArray:
        """Reports of the vectors lengths (n,) * directions (n, d)."""


@dataclass(frozen=True, init=False)
class PrivUnit(VectorReport):
    """A point on the sphere, likelier in the cap around u, divided by its expected cosine.

    With v = s u/||u|| (s as in the module's table, any fixed direction for u = 0) the cap is
    {x : <x, v> >= threshold}, of uniform mass P = 1/2 I_(1 - threshold^2)((d - 1)/2, 1/2). The
    report is x/m with x uniform in the cap with probability p and uniform outside otherwise:

        p = e^epsilon P / (e^epsilon P + 1 - P),       so  p (1 - P) / ((1 - p) P) = e^epsilon
        A = Gamma(d/2) (1 - threshold^2)^((d - 1)/2) / (2 sqrt(pi) Gamma((d + 1)/2))
        m = E<x, v> = A (p/P - (1 - p)/(1 - P)).

    (Bhowmick, Duchi, Freudiger, Kapoor and Rogers 2018, PrivUnit, Algorithm 1.) In d = 1 it is
    randomised response on the sign, m = tanh(epsilon/2), for every threshold.

    The second moment of the cosine is (1 + (d - 1) threshold m)/d (integrate by parts), so the
    covariance of a report is

        (1 - threshold m) / (d m^2) * identity + (threshold/m - ||u||^2) * v v'.

    At the best threshold threshold = m, because d log m / d threshold has the sign of
    m - threshold: the covariance of a vector of length 1 is then the same in all directions, and
    that of a shorter one has on top the 1 - ||u||^2 of the sign s along v.

    Attributes:
        dimension: d.
        epsilon: at least 1e-6; the log of the largest ratio of two densities is below it by 1e-9.
        threshold: the least cosine in the cap, from 0 on. By default the one with the largest m
            whose cap has mass P >= 2^-12, for every noise source. That bound costs no variance up
            to epsilon = 8; at 12 at most 5%, at 16 24% in 20 dimensions and 48% in 500.
    """

    kind: ClassVar[str] = "privunit"

    dimension: Annotated[int, Range(1)]
    epsilon: Annotated[float, Range(_LEAST_EPSILON)]
    threshold: float

    def __init__(self, dimension: int, epsilon: float, threshold: float | None = None) -> None:
        object.__setattr__(self, "dimension", dimension)
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "threshold", 0.0 if threshold is None else threshold)
        self.__post_init__()
        chosen = self._allowed() if threshold is not None else _best_threshold(dimension, epsilon)
        object.__setattr__(self, "threshold", chosen)

    def _allowed(self) -> float:
        most = math.nextafter(1.0, 0.0)
        if self.dimension > 1:
            most = largest_threshold(self.dimension, _LEAST_MASS)
        if not 0.0 <= self.threshold <= most:
            raise InvalidInput(
                f"threshold was {self.threshold!r}; in dimension {self.dimension} it must be from "
                f"0 to {most!r}, beyond which a cap takes too long to find. Leave it out for the "
                "best one."
            )
        return 0.0 if self.dimension == 1 else self.threshold

    @cached_property
    def cap_mass(self) -> float:
        """P, the share of the sphere that the cap covers."""
        return cap_mass(self.dimension, self.threshold)

    @cached_property
    def hiding_probability(self) -> Fraction:
        """1 - p: the report is from outside the cap; exactly that of the coin."""
        return hiding_probability(Fraction(self.cap_mass), self.epsilon - _KEPT_BACK)

    @cached_property
    def mean_cosine(self) -> float:
        """m, by which points on the sphere are divided."""
        return mean_cosine(self.dimension, self.threshold, self.epsilon - _KEPT_BACK)

    @property
    def variance(self) -> float:
        """1 / (m^2 d); the report's own u is left out, which would take ||u||^2 / d off."""
        return 1.0 / (self.mean_cosine**2 * self.dimension)

    @property
    def largest_variance(self) -> float:
        """(1 + (d - 1) threshold m) / (d m^2), that along v for a short u.

        Much more than `variance` where the threshold is large: a short vector is rounded to a sign
        along its own direction, which alone has variance up to 1.
        """
        along = 1.0 + (self.dimension - 1) * self.threshold * self.mean_cosine
        return along * self.variance

    @property
    def scale(self) -> float:
        return self.epsilon

    @property
    def mechanism(self) -> str:
        return f"PrivUnit on a vector of {self.dimension} numbers, cap of mass {self.cap_mass:.3g}"

    def event(self, noise_name: str) -> Event:
        return PureEvent(self.epsilon)

    def _made_by_someone(self, reports: FloatArray) -> BoolArray:
        # Squares of numbers beyond these may be infinite, and are no length then.
        with np.errstate(over="ignore"):
            lengths = np.sqrt(np.einsum("nd,nd->n", reports, reports)) * self.mean_cosine
        fits: BoolArray = np.abs(lengths - 1.0) <= _ROUNDING
        return fits

    def _report(
        self, directions: FloatArray, lengths: FloatArray, noise: NoiseSource
    ) -> FloatArray:
        # Rounding a length to a sign is no matter of privacy: the cap hides either sign.
        positive = noise.coins((1.0 + lengths) / 2.0, len(lengths))
        towards = np.where(positive[:, None], directions, -directions)
        hidden = noise.coins(self.hiding_probability, len(lengths))
        points = np.empty_like(towards)
        # In d = 1 the sphere is two points: drawing until one fits is as fast as construction.
        chosen = noise.secure or self.dimension == 1
        numbers = self.dimension * (self._points_at_once if chosen else 1)
        most = max(1, _NUMBERS_AT_ONCE // numbers)
        for start in range(0, len(lengths), most):
            part = slice(start, start + most)
            draw = self._choose if chosen else self._construct
            points[part] = draw(towards[part], hidden[part], noise)
        return points / self.mean_cosine

    @property
    def _points_at_once(self) -> int:
        """Points per person and turn; the same for all, so turns reveal nothing."""
        return max(1, min(math.ceil(2.0 / self.cap_mass), _NUMBERS_AT_ONCE // self.dimension))

    def _choose(self, towards: FloatArray, hidden: BoolArray, noise: NoiseSource) -> FloatArray:
        """Points that were drawn without looking at `towards`, inside or (hidden) outside.

        Both are always looked for, so that time and the words used do not show which was sent.
        """
        people = len(towards)
        candidates = np.zeros((2, people, self.dimension))
        missing = np.ones((2, people), dtype=np.bool_)
        pending = np.arange(people)
        while len(pending):
            points = sphere_points((len(pending), self._points_at_once, self.dimension), noise)
            # <x, v> >= threshold, by the distance: cosines near 1 would lose half the digits.
            apart = points - towards[pending, None, :]
            outside = np.einsum("npd,npd->np", apart, apart) > 2.0 * (1.0 - self.threshold)
            for side, fits in enumerate((~outside, outside)):
                first = fits.argmax(axis=1)
                new = fits.any(axis=1) & missing[side, pending]
                candidates[side, pending[new]] = points[np.flatnonzero(new), first[new]]
                missing[side, pending[new]] = False
            pending = np.flatnonzero(missing.any(axis=0))
        sent: FloatArray = np.where(hidden[:, None], candidates[1], candidates[0])
        return sent

    def _construct(self, towards: FloatArray, hidden: BoolArray, noise: NoiseSource) -> FloatArray:
        """The same law from its parts, in floating point: the cosine, then what is orthogonal."""
        share, mass = uniform(len(towards), noise), self.cap_mass
        above = np.where(hidden, mass + share * (1.0 - mass), share * mass)
        cosine, sine = cosines_of_masses(above, self.dimension)
        other = noise.add_gaussian(np.zeros_like(towards), 1.0)
        other -= np.einsum("nd,nd->n", other, towards)[:, None] * towards
        other *= (sine / np.linalg.norm(other, axis=1))[:, None]
        return cosine[:, None] * towards + other


def l2_ball(dimension: int, epsilon: float) -> PrivUnit:
    """The l2-ball mechanism of Duchi, Jordan and Wainwright (2018): PrivUnit with threshold 0.

    Its variance is larger than with the default threshold, but 1/(m^2 d) at most in any direction.
    """
    return PrivUnit(dimension, epsilon, 0.0)


@dataclass(frozen=True)
class GaussianVector(VectorReport):
    """The vector with Gaussian noise on each coordinate, (epsilon, delta)-private.

    The standard deviation is 2 times the exact multiplier (Balle and Wang 2018), with some parts in
    10^9 on top, so that the epsilon read off `event` never exceeds the one given.

    Attributes:
        dimension: d.
        epsilon: above 0.
        delta: strictly between 0 and 1.
    """

    kind: ClassVar[str] = "gaussian-vector"

    dimension: Annotated[int, Range(1)]
    epsilon: Annotated[float, Range(above=0.0)]
    delta: Annotated[float, Range(above=0.0, below=1.0)]

    @cached_property
    def _noise(self) -> AdditiveNoise:
        multiplier = gaussian_noise_multiplier(self.epsilon, self.delta)
        return AdditiveNoise.gaussian_for(multiplier, self.sensitivity, self.dimension)

    @property
    def scale(self) -> float:
        """The standard deviation of the noise on each coordinate."""
        return self._noise.scale

    @property
    def variance(self) -> float:
        return self.scale**2

    @property
    def largest_variance(self) -> float:
        return self.variance

    @property
    def mechanism(self) -> str:
        return f"Gaussian noise on each of {self.dimension} numbers of a report"

    def event(self, noise_name: str) -> Event:
        # Lengths made 1 are 1 up to rounding.
        reach = self.sensitivity * (1.0 + 1e-12)
        return GaussianEvent(gaussian_multiplier(noise_name, reach, self.scale, self.dimension))

    def _made_by_someone(self, reports: FloatArray) -> BoolArray:
        most = self._noise.furthest(1.0)
        return np.asarray((np.abs(reports) <= most).all(axis=1))

    def _report(
        self, directions: FloatArray, lengths: FloatArray, noise: NoiseSource
    ) -> FloatArray:
        return noise.add_gaussian(lengths[:, None] * directions, self.scale)


# Caps of the unit sphere in d dimensions, and points on it.
#
# With x uniform on the sphere and v a unit vector, the cosine c = <x, v> has the density
# Gamma(d/2) / (sqrt(pi) Gamma((d - 1)/2)) (1 - c^2)^((d - 3)/2) on [-1, 1]. The cap of a threshold
# is {x : <x, v> >= threshold}, of mass 1/2 I_(1 - threshold^2)((d - 1)/2, 1/2) for thresholds from
# 0 on. In d = 1 the sphere is {-1, 1}, and every cap with a threshold from 0 on is one point.


def cap_mass(dimension: int, threshold: float) -> float:
    """The share of the sphere with cosines of at least `threshold`, from 0 to below 1."""
    if dimension == 1:
        return 0.5
    half, square = (dimension - 1) / 2.0, threshold**2
    if square < 0.5:  # 1 - square would lose the digits of a small threshold
        return 0.5 * float(betaincc(0.5, half, square))
    return 0.5 * float(betainc(half, 0.5, (1.0 - threshold) * (1.0 + threshold)))


def largest_threshold(dimension: int, mass: float) -> float:
    """The threshold in d >= 2 of the cap of that mass, at most 1/2."""
    return math.sqrt(1.0 - float(betaincinv((dimension - 1) / 2.0, 0.5, 2.0 * mass)))


def mean_cosine(dimension: int, threshold: float, epsilon: float) -> float:
    """E c where points of the cap are e^epsilon times as likely as others.

    It is A (e^epsilon - 1) / (e^epsilon P + 1 - P) with P the cap's mass and A the integral of c
    over the cap, Gamma(d/2) (1 - threshold^2)^((d - 1)/2) / (2 sqrt(pi) Gamma((d + 1)/2)). Here
    e^epsilon is divided out and A computed from its logarithm, so that nothing overflows.
    """
    rest = (1.0 - threshold) * (1.0 + threshold)
    log_ratio = float(gammaln(dimension / 2.0) - gammaln((dimension + 1) / 2.0))
    log_part = log_ratio + (dimension - 1) / 2.0 * math.log(rest)
    part = math.exp(log_part) / (2.0 * math.sqrt(math.pi))
    mass = cap_mass(dimension, threshold)
    return part * -math.expm1(-epsilon) / (mass + (1.0 - mass) * math.exp(-epsilon))


@lru_cache(maxsize=4096)
def _best_threshold(dimension: int, epsilon: float) -> float:
    return best_threshold(dimension, epsilon - _KEPT_BACK, _LEAST_MASS)


def best_threshold(dimension: int, epsilon: float, least_mass: float) -> float:
    """The threshold with the largest mean cosine among caps of at least that mass.

    d log m / d threshold = (m - threshold) density / A for m the mean cosine, so m grows while it
    is above the threshold and falls afterwards: the best is where the two are equal.
    """
    if dimension == 1:
        return 0.0
    low, high = 0.0, largest_threshold(dimension, least_mass)
    if mean_cosine(dimension, high, epsilon) >= high:
        return high
    for _ in range(60):
        middle = (low + high) / 2.0
        if mean_cosine(dimension, middle, epsilon) > middle:
            low = middle
        else:
            high = middle
    return low


def uniform(shape: int | tuple[int, ...], noise: NoiseSource) -> FloatArray:
    """Odd multiples of 2^-53 between 0 and 1, symmetric about 1/2 and never 0, 1/2 or 1."""
    return ((noise.keys(shape) >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


def sphere_points(shape: tuple[int, ...], noise: NoiseSource) -> FloatArray:
    """Independent uniform points, each along the last axis of an array of that shape."""
    normal = ndtri(uniform(shape, noise))
    drawn: FloatArray = normal / np.sqrt(np.einsum("...d,...d->...", normal, normal))[..., None]
    return drawn


def cosines_of_masses(masses: FloatArray, dimension: int) -> tuple[FloatArray, FloatArray]:
    """Thresholds (n,) in d >= 2 of caps with masses (n,) from 0 to 1, and sqrt(1 - threshold^2)."""
    half = (dimension - 1) / 2.0
    sine_squared = betaincinv(half, 0.5, 2.0 * np.minimum(masses, 1.0 - masses))
    sign = np.where(masses <= 0.5, 1.0, -1.0)
    return sign * np.sqrt(1.0 - sine_squared), np.sqrt(sine_squared)


def reward_noise(budget: Budget, sensitivity: float) -> AdditiveNoise:
    """The report of a number that keeps a local budget, with the least variance (see the module).

    Args:
        budget: `Local`.
        sensitivity: 2 b.
    """
    if budget.delta > 0.0:
        return AdditiveNoise.gaussian_for(budget.noise_multiplier, sensitivity, 1)
    epsilon = budget.contribution_epsilon
    if math.tanh(0.5 * epsilon) ** 2 >= epsilon**2 / 8.0:
        return RandomizedSign(epsilon, sensitivity)
    return AdditiveNoise.laplace_for(epsilon, sensitivity, 1)


@dataclass(frozen=True)
class RandomizedSign(AdditiveNoise):
    """y rounded to a sign at random, which randomised response then hides (Duchi, Jordan and
    Wainwright 2018): PrivUnit in one dimension.

    Attributes:
        scale: epsilon, the log of the largest ratio.
        sensitivity: 2 b.
    """

    kind: ClassVar[str] = "randomized-sign"

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self._mechanism  # refuses an epsilon that is too small, on arrival

    @cached_property
    def _mechanism(self) -> PrivUnit:
        return PrivUnit(1, self.scale)

    @property
    def law(self) -> str:
        return "randomised response on the sign, after random rounding,"

    @property
    def variance(self) -> float:
        """The variance of the report beyond that of a sign of the same mean."""
        return 0.25 * self.sensitivity**2 * (1.0 / self._mechanism.mean_cosine**2 - 1.0)

    def check_reports(self, reports: FloatArray) -> None:
        with np.errstate(over="ignore"):  # what overflows is refused
            self._mechanism.check(reports * (2.0 / self.sensitivity))

    def add(self, values: FloatArray, noise: NoiseSource) -> FloatArray:
        """Reports (n, 1) of values (n, 1), each a draw of its own."""
        shown = self._mechanism.privatise(values * (2.0 / self.sensitivity), noise)
        return shown * (0.5 * self.sensitivity)

    def event(self, noise_name: str, size: int) -> Event:
        return PureEvent(self.scale)
