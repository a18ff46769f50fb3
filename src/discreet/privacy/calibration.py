"""Calibration of additive noise, and clipping to the unit ball; coins stand in noise.py.

Noise on a release is its sensitivity times a multiplier, and each of the two is bounded here:

* the **multiplier** is the least one that keeps (epsilon, delta) (Balle and Wang 2018, Theorem 8),
  with the slack that floating point and the grid of the secure sampler take;
* the **sensitivity** of what has no bound of its own is bounded by a cut to the unit ball: two
  rows of length at most 1 lie at most 2 apart, and so do two sums that differ in one such row;
* the **scale** is their product, or, where the sampler's own account says what a scale achieves,
  the least scale that achieves the multiplier (`least_scale`).

| name        | shape  | meaning                                                              |
|-------------|--------|----------------------------------------------------------------------|
| rows        | (n, d) | what people add to a sum, or report                                  |
| multiplier  | scalar | scale / sensitivity; a release is (1 / multiplier)-GDP               |
| scale       | scalar | standard deviation of Gaussian noise, or scale of Laplace noise      |
| sensitivity | scalar | l2 (Gaussian) or l1 (Laplace) distance of the values of two records  |
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Self

import numpy as np
from numpy.typing import ArrayLike

from discreet.codec import Range, Serializable
from discreet.privacy.accounting import Event, GaussianEvent, PureEvent, composed_epsilon
from discreet.privacy.noise import NoiseSource, gaussian_multiplier, laplace_epsilon
from discreet.validation import FloatArray, InvalidInput, positive_number, probability

# So much more noise, as a part of it, keeps the epsilon that is derived from a record at or under
# the epsilon that was asked for: epsilon is solved from a multiplier to about a part in 10^10.
SLACK = 1e-9
GAUSSIAN = "Gaussian noise"
# Where the two solvers of dp-accounting are compared.
_NEARBY = (0.0, 1e-12, 1e-10, 1e-9, 3e-9, 1e-8)
# Steps of `least_scale`; each is a fixed point's, and two or three are enough.
_STEPS = 200
# Of the interval in which the share of one mechanism lies.
_HALVINGS = 50


def gaussian_noise_multiplier(epsilon: float, delta: float) -> float:
    """The least scale / sensitivity whose Gaussian release is (epsilon, delta)-private.

    `gaussian_epsilon` of it is not above `epsilon`, nor of a larger one by more than rounding.
    """
    return _solved(positive_number(epsilon, "epsilon"), probability(delta, "delta"))


@lru_cache(maxsize=256)
def _solved(epsilon: float, delta: float) -> float:
    from dp_accounting import get_epsilon_gaussian, get_sigma_gaussian

    # Both are solved for numerically, and below epsilon 1e-4 they differ in the ninth digit; far
    # from there by so much that steps of one size would take for ever.
    step = 1e-9
    try:
        multiplier = float(get_sigma_gaussian(epsilon, delta))
        while any(get_epsilon_gaussian(multiplier * (1.0 + m), delta) > epsilon for m in _NEARBY):
            multiplier *= 1.0 + step
            step *= 2.0
    except (ValueError, ArithmeticError) as error:
        raise _unsolved(epsilon, delta) from error
    if not 0.0 < multiplier < math.inf:
        raise _unsolved(epsilon, delta)
    return multiplier


def _unsolved(epsilon: float, delta: float) -> InvalidInput:
    return InvalidInput(
        f"epsilon was {epsilon!r} with delta = {delta!r}, for which the scale of Gaussian noise is "
        "out of reach of floating point; give an epsilon from 0.0001 to 1000."
    )


@lru_cache(maxsize=256)
def pure_share(epsilon: float, delta: float, times: int) -> float:
    """The largest epsilon of one of several pure mechanisms that together keep (epsilon, delta)."""

    def held(share: float) -> float:
        return composed_epsilon([PureEvent(share)] * times, delta)

    low, high = epsilon / times, epsilon
    while held(low) > epsilon:  # the sum of the shares is rounded
        low = math.nextafter(low, 0.0)
    for _ in range(_HALVINGS if delta > 0.0 and times > 1 else 0):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if held(middle) <= epsilon else (low, middle)
    return low


def padded_multiplier(multiplier: float, size: int) -> float:
    """A multiplier for vectors of `size` numbers that is still `multiplier` when OpenDP draws them.

    OpenDP's grid of 2^-30 lengthens a sensitivity of about 1 by at most 2^-30 sqrt(size), and
    norms are computed with rounding errors of about 1e-12.
    """
    return multiplier * (1.0 + SLACK * (1.0 + math.sqrt(size)))


def least_scale(multiplier: float, start: float, achieved: Callable[[float], float]) -> float:
    """The scale from `start` on whose noise has at least that multiplier, and hardly more.

    Args:
        multiplier: what is wanted.
        start: a scale that is not too large: sensitivity times `multiplier`.
        achieved: the multiplier that the noise source achieves at a scale. A grid grows with the
            scale up to 1 and not beyond, so the steps lead upwards to a fixed point.

    Raises:
        InvalidInput: if no scale does, as with a source that adds no noise.
    """
    scale = start
    for _ in range(_STEPS):
        held = achieved(scale)
        if held >= multiplier:
            return scale
        if held <= 0.0:
            break
        scale *= multiplier / held * (1.0 + 2.0**-50)
    raise InvalidInput(
        f"no scale of noise gives the noise multiplier {multiplier:g}; ask for a larger epsilon, "
        "or for fewer or shorter releases."
    )


def in_unit_ball(rows: FloatArray) -> FloatArray:
    """(n, d) rows with length at most 1, whatever made them.

    Those that have it stay as they are. Longer ones are shortened and what is not finite becomes
    0, so that a sensitivity of 2 does not rest on the arithmetic of a map or policy that was sent.
    """
    finite = np.where(np.isfinite(rows).all(axis=1, keepdims=True), rows, 0.0)
    with np.errstate(over="ignore"):
        norms = np.sqrt((finite**2).sum(axis=1, keepdims=True))
    shortened: FloatArray = finite / np.maximum(norms, 1.0)
    return shortened


def polar(vectors: ArrayLike, dimension: int) -> tuple[FloatArray, FloatArray]:
    """Directions (n, d) and lengths (n,) of vectors (n, d), with lengths cut to 1.

    A vector with NaN or infinity counts as 0; the direction of 0 is the first axis.

    Raises:
        InvalidInput: for another shape, or what are not numbers.
    """
    try:
        given = np.asarray(vectors)
    except ValueError as error:
        raise InvalidInput("vectors had rows of different lengths; pass one matrix.") from error
    if given.ndim != 2 or given.shape[1] != dimension or given.dtype.kind not in "iuf":
        raise InvalidInput(
            f"vectors had shape {given.shape} and type {given.dtype}; they must be numbers of "
            f"shape (people, {dimension}), one row for each person."
        )
    # Only shapes and types are refused: an exception because of the numbers in a row would be a
    # message about that person, sent without any noise.
    rows = given.astype(np.float64)
    rows[~np.isfinite(rows).all(axis=1)] = 0.0
    largest = np.abs(rows).max(axis=1)
    zero = largest == 0.0
    rows[zero, 0] = 1.0
    rows /= np.where(zero, 1.0, largest)[:, None]  # before squaring, which might over- or underflow
    norms = np.sqrt(np.einsum("nd,nd->n", rows, rows))
    return rows / norms[:, None], np.minimum(1.0, np.minimum(largest, 2.0) * norms)


@dataclass(frozen=True)
class AdditiveNoise(Serializable):
    """Noise on every number of a report, as a policy promises it.

    Attributes:
        scale: its standard deviation (Gaussian) or scale (Laplace) on each number.
        sensitivity: how far a report moves when the person's data is replaced (l2 or l1).
        laplace: whether it is Laplace noise.
    """

    scale: Annotated[float, Range(above=0.0)]
    sensitivity: Annotated[float, Range(above=0.0)]
    laplace: bool = False

    @classmethod
    def gaussian_for(cls, multiplier: float, sensitivity: float, size: int) -> Self:
        """Gaussian noise of that multiplier on reports of `size` numbers."""
        return cls(sensitivity * padded_multiplier(multiplier, size), sensitivity)

    @classmethod
    def laplace_for(cls, epsilon: float, sensitivity: float, size: int) -> Self:
        """Laplace noise that keeps epsilon on reports of `size` numbers."""
        multiplier = padded_multiplier(1.0 / epsilon, size)
        return cls(sensitivity * multiplier, sensitivity, laplace=True)

    @property
    def law(self) -> str:
        """The noise in words."""
        return "Laplace noise" if self.laplace else GAUSSIAN

    @property
    def variance(self) -> float:
        """Variance of the noise on each number."""
        return self.scale**2 * (2.0 if self.laplace else 1.0)

    def check(self, needed: float) -> None:
        """Refuse noise that promises more than a report of sensitivity `needed` allows."""
        if self.sensitivity < needed * (1.0 - 1e-12):
            raise InvalidInput(
                f"a policy claims sensitivity {self.sensitivity} for its reports, which is "
                f"{needed}; do not report under it."
            )

    def furthest(self, value: float) -> float:
        """A bound on a noisy number whose value is at most `value`.

        Gaussian noise passes 12 standard deviations, and Laplace noise 60 scales, with a
        probability below 10^-25; one such number could undo everything that others reported.
        """
        return value + self.scale * (60.0 if self.laplace else 12.0)

    def check_reports(self, reports: FloatArray) -> None:
        """Refuse reports beyond what this noise reaches; no number without it is larger than the
        sensitivity."""
        most = self.furthest(self.sensitivity)
        if not (np.abs(reports) <= most).all():
            raise InvalidInput(
                f"reports had numbers beyond {most:g}, which their noise does not reach; send them "
                "as the policy made them."
            )

    def add(self, values: FloatArray, noise: NoiseSource) -> FloatArray:
        """The values with noise on each."""
        draw = noise.add_laplace if self.laplace else noise.add_gaussian
        return draw(values, self.scale)

    def event(self, noise_name: str, size: int) -> Event:
        """The cost of one report of `size` numbers under the named noise source."""
        law = noise_name, self.sensitivity, self.scale, size
        if self.laplace:
            return PureEvent(laplace_epsilon(*law))
        return GaussianEvent(gaussian_multiplier(*law))
