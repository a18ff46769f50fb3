"""Caps of the unit sphere in d dimensions, and points on it.

With x uniform on the sphere and v a unit vector, the cosine c = <x, v> has the density
Gamma(d/2) / (sqrt(pi) Gamma((d - 1)/2)) (1 - c^2)^((d - 3)/2) on [-1, 1]. The cap of a threshold is
{x : <x, v> >= threshold}, of mass 1/2 I_(1 - threshold^2)((d - 1)/2, 1/2) for thresholds from 0 on.
In d = 1 the sphere is {-1, 1}, and every cap with a threshold from 0 on is one point.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import betainc, betaincc, betaincinv, gammaln, ndtri

from discreet.privacy.noise import NoiseSource
from discreet.validation import FloatArray


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


def points(shape: tuple[int, ...], noise: NoiseSource) -> FloatArray:
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
