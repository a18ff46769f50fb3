"""Local reports of a vector u with ||u||_2 <= 1, as estimates of u without bias.

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
v only through P_v. What is left is that P_v is not quite the mass P of a cap of a true sphere:
normal quantiles are on a grid (2^-52 in probability) and rounded, lengths and distances too. By an
estimate (not a proof) this moves the rim of a cap by an angle of at most 1e-14 and P by 1e-11 of
itself. The probabilities are those of epsilon - 1e-9, which leaves room for 25 times as much.
SimulatedNoise draws the same law directly, which is much faster and protects nobody.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import fields as dataclass_fields
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from discreet.privacy import sphere
from discreet.privacy.accounting import Event, GaussianEvent, PureEvent
from discreet.privacy.calibration import (
    AdditiveNoise,
    gaussian_noise_multiplier,
    hiding_probability,
    polar,
)
from discreet.privacy.noise import NoiseSource, gaussian_multiplier
from discreet.validation import (
    BoolArray,
    FloatArray,
    InvalidInput,
    finite_number,
    positive_number,
    probability,
    whole_number,
)

# Caps are found by drawing points until one falls in, 1/P of them: this bounds time and memory.
_LEAST_MASS = 2.0**-12
# Kept back from epsilon for what rounding does to the mass of a cap (see above).
_KEPT_BACK = 1e-9
_LEAST_EPSILON = 1e-6
# How many coordinates are drawn at once, which bounds the memory it takes.
_NUMBERS_AT_ONCE = 2**20


class VectorReport(ABC):
    """A mechanism for vectors of length at most 1, and what it costs and adds.

    Attributes:
        name: how saved fields call it.
        dimension: d, at least 1.
        epsilon: what one report costs.
        sensitivity: 2, the largest distance of two vectors of length at most 1.
    """

    name: ClassVar[str]
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
        """What a `Release` calls scale: of the noise, or the log of the largest ratio."""

    @property
    @abstractmethod
    def mechanism(self) -> str:
        """The mechanism in words, for a `Release`."""

    @abstractmethod
    def event(self, noise_name: str) -> Event:
        """What one report costs with noise from the source of that name."""

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

    @abstractmethod
    def _report(
        self, directions: FloatArray, lengths: FloatArray, noise: NoiseSource
    ) -> FloatArray:
        """Reports of the vectors lengths (n,) * directions (n, d)."""

    def to_fields(self) -> dict[str, Any]:
        """JSON values that name the mechanism and its settings."""
        settings = [field.name for field in dataclass_fields(self)]  # type: ignore[arg-type]
        return {"name": self.name, **{name: getattr(self, name) for name in settings}}


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

    name: ClassVar[str] = "privunit"
    dimension: int
    epsilon: float
    threshold: float

    def __init__(self, dimension: int, epsilon: float, threshold: float | None = None) -> None:
        size = whole_number(dimension, "dimension", minimum=1)
        budget = positive_number(epsilon, "epsilon")
        if budget < _LEAST_EPSILON:
            raise InvalidInput(f"epsilon was {epsilon!r}; it must be at least {_LEAST_EPSILON:g}.")
        object.__setattr__(self, "dimension", size)
        object.__setattr__(self, "epsilon", budget)
        chosen = _best_threshold(size, budget) if threshold is None else _allowed(threshold, size)
        object.__setattr__(self, "threshold", chosen)

    @cached_property
    def cap_mass(self) -> float:
        """P, the share of the sphere that the cap covers."""
        return sphere.cap_mass(self.dimension, self.threshold)

    @cached_property
    def hiding_probability(self) -> Fraction:
        """1 - p: the report is from outside the cap; exactly that of the coin."""
        return hiding_probability(Fraction(self.cap_mass), self.epsilon - _KEPT_BACK)

    @cached_property
    def mean_cosine(self) -> float:
        """m, by which points on the sphere are divided."""
        return sphere.mean_cosine(self.dimension, self.threshold, self.epsilon - _KEPT_BACK)

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
        """Epsilon."""
        return self.epsilon

    @property
    def mechanism(self) -> str:
        """In words, with the cap's mass."""
        return f"PrivUnit on a vector of {self.dimension} numbers, cap of mass {self.cap_mass:.3g}"

    def event(self, noise_name: str) -> Event:
        """Pure, the same for every source."""
        return PureEvent(self.epsilon)

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
        """So many points per person and turn; the same for all, so that turns say nothing."""
        return max(1, min(math.ceil(2.0 / self.cap_mass), _NUMBERS_AT_ONCE // self.dimension))

    def _choose(self, towards: FloatArray, hidden: BoolArray, noise: NoiseSource) -> FloatArray:
        """Points that were drawn without looking at `towards`, inside or (hidden) outside.

        Both are always looked for, so that time and the words used do not show which was sent.
        """
        people = len(towards)
        found = np.zeros((2, people, self.dimension))
        missing = np.ones((2, people), dtype=np.bool_)
        pending = np.arange(people)
        while len(pending):
            points = sphere.points((len(pending), self._points_at_once, self.dimension), noise)
            # <x, v> >= threshold, by the distance: cosines near 1 would lose half the digits.
            apart = points - towards[pending, None, :]
            outside = np.einsum("npd,npd->np", apart, apart) > 2.0 * (1.0 - self.threshold)
            for side, fits in enumerate((~outside, outside)):
                first = fits.argmax(axis=1)
                new = fits.any(axis=1) & missing[side, pending]
                found[side, pending[new]] = points[np.flatnonzero(new), first[new]]
                missing[side, pending[new]] = False
            pending = np.flatnonzero(missing.any(axis=0))
        sent: FloatArray = np.where(hidden[:, None], found[1], found[0])
        return sent

    def _construct(self, towards: FloatArray, hidden: BoolArray, noise: NoiseSource) -> FloatArray:
        """The same law from its parts, in floating point: the cosine, then what is orthogonal."""
        share, mass = sphere.uniform(len(towards), noise), self.cap_mass
        above = np.where(hidden, mass + share * (1.0 - mass), share * mass)
        cosine, sine = sphere.cosines_of_masses(above, self.dimension)
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

    name: ClassVar[str] = "gaussian vector"
    dimension: int
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        size = whole_number(self.dimension, "dimension", minimum=1)
        object.__setattr__(self, "dimension", size)
        object.__setattr__(self, "epsilon", positive_number(self.epsilon, "epsilon"))
        object.__setattr__(self, "delta", probability(self.delta, "delta"))

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
        """scale^2, exactly."""
        return self.scale**2

    @property
    def largest_variance(self) -> float:
        """The same in all directions."""
        return self.variance

    @property
    def mechanism(self) -> str:
        """In words."""
        return f"Gaussian noise on each of {self.dimension} numbers of a report"

    def event(self, noise_name: str) -> Event:
        """Gaussian, as the named source achieves it on vectors of this dimension."""
        # Lengths made 1 are 1 up to rounding.
        reach = self.sensitivity * (1.0 + 1e-12)
        return GaussianEvent(gaussian_multiplier(noise_name, reach, self.scale, self.dimension))

    def _report(
        self, directions: FloatArray, lengths: FloatArray, noise: NoiseSource
    ) -> FloatArray:
        return noise.add_gaussian(lengths[:, None] * directions, self.scale)


VECTOR_REPORTS: dict[str, type[PrivUnit] | type[GaussianVector]] = {
    PrivUnit.name: PrivUnit,
    GaussianVector.name: GaussianVector,
}


def vector_report_from_fields(fields: Mapping[str, Any]) -> VectorReport:
    """The inverse of `to_fields`.

    Raises:
        InvalidInput: for a name that is not known, or settings that the mechanism does not allow.
    """
    if not isinstance(fields, Mapping):
        raise InvalidInput(f"a mechanism was {fields!r:.80}; it must be as to_fields() made it.")
    settings = dict(fields)
    name = settings.pop("name", None)
    if not isinstance(name, str) or name not in VECTOR_REPORTS:
        raise InvalidInput(
            f"the mechanism's name was {name!r:.80}; it must be one of {list(VECTOR_REPORTS)}."
        )
    try:
        return VECTOR_REPORTS[name](**settings)
    except TypeError as error:
        raise InvalidInput(f"the settings of {name} do not fit: {error}.") from error


@lru_cache(maxsize=4096)
def _best_threshold(dimension: int, epsilon: float) -> float:
    return sphere.best_threshold(dimension, epsilon - _KEPT_BACK, _LEAST_MASS)


def _allowed(threshold: float, dimension: int) -> float:
    number = finite_number(threshold, "threshold", "a number of at least 0 and below 1")
    most = math.nextafter(1.0, 0.0)
    if dimension > 1:
        most = sphere.largest_threshold(dimension, _LEAST_MASS)
    if not 0.0 <= number <= most:
        raise InvalidInput(
            f"threshold was {threshold!r}; in dimension {dimension} it must be from 0 to {most!r}, "
            "beyond which a cap takes too long to find. Leave it out for the best one."
        )
    return 0.0 if dimension == 1 else number
