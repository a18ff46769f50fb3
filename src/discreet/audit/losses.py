"""The exact privacy loss of two runs with the same public past (ledger.py).

| mechanism        | loss between the values x and x'                                              |
|------------------|-------------------------------------------------------------------------------|
| Gaussian noise   | mu = |x - x'|_2 / scale; mu^2 adds (Dong, Roth and Su 2022, Corollary 2)      |
| Laplace noise    | |x - x'|_1 / scale; these and all below add as they are                       |
| subset selection | log of the largest ratio of its classes, if (bin, sign) differ                |
| PrivUnit         | log of the largest ratio of the two mixtures of caps                          |
| exponential      | log of the largest ratio of the probabilities of an option                    |

Ratios of subset selection and of PrivUnit come from the coins that their code tosses (laws.py), not
from the epsilon that they were made with. Together (epsilon, delta) is, for Gaussian noise alone,

    delta = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)

(Balle and Wang 2018, Theorem 8), solved here without the library's accounting. With other losses
besides, the larger of the two is a lower bound, and is used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr

from discreet.audit.laws import cap_ratios, subset_ratio
from discreet.audit.ledger import Draw
from discreet.privacy.vectors import PrivUnit
from discreet.validation import FloatArray

# A loss above this is no promise to anybody.
_LARGEST = 700.0
# Noise of two numbers is the same if it differs by the rounding of either at most.
_SAME = 1e-13
_NUMBERS = 64


@dataclass(frozen=True)
class Loss:
    """What tells two runs apart.

    Attributes:
        squared: mu^2 of all Gaussian noise.
        pure: the sum of all other losses.
        reason: what tells them apart with certainty; empty if nothing does.
    """

    squared: float = 0.0
    pure: float = 0.0
    reason: str = ""

    def epsilon(self, delta: float) -> float:
        """The least epsilon at `delta` of the two data sets."""
        if self.reason:
            return math.inf
        if self.squared == 0.0:
            return self.pure
        if delta == 0.0:
            return math.inf
        return max(self.pure, gaussian_epsilon(math.sqrt(self.squared), delta))

    @property
    def order(self) -> tuple[bool, float]:
        """What larger losses are larger in."""
        return bool(self.reason), self.pure + math.sqrt(self.squared)


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Epsilon at `delta` of N(0, 1) against N(mu, 1) (see the module)."""

    def excess(epsilon: float) -> float:
        first = log_ndtr(0.5 * mu - epsilon / mu)
        second = epsilon + log_ndtr(-0.5 * mu - epsilon / mu)
        return float(math.exp(first) * -math.expm1(min(second - first, 0.0))) - delta

    if excess(0.0) <= 0.0:
        return 0.0
    highest = 1.0
    while excess(highest) > 0.0:
        highest *= 2.0
        if highest > 1e6:
            return math.inf
    return float(brentq(excess, 0.0, highest, xtol=1e-12, rtol=1e-14))


def loss_between(mine: Sequence[Draw], theirs: Sequence[Draw]) -> Loss:
    """The loss of everything that two runs drew, the one with the other's outcomes."""
    squared = pure = 0.0
    if len(mine) != len(theirs):
        return Loss(reason=f"there are {len(mine)} draws on one, {len(theirs)} on the other")
    for number, (one, two) in enumerate(zip(mine, theirs, strict=True)):
        if (one.kind, one.mechanism) != (two.kind, two.mechanism):
            return Loss(
                reason=f"draw {number + 1} is {_named(one)} on one, {_named(two)} on the other"
            )
        if not _same_public(one, two):
            return Loss(reason=f"the ranges of draw {number + 1} differ")
        if np.array_equal(one.value, two.value):
            continue
        if one.kind == "gaussian":
            squared += distance(one, two) ** 2 / one.mechanism**2
        elif one.kind == "laplace":
            pure += distance(one, two) / one.mechanism
        else:
            pure += _finite(one, two)
    return Loss(squared, pure)


def distance(one: Draw, two: Draw) -> float:
    """How far apart two values are, in the metric of additive noise."""
    away = (one.value - two.value).ravel()
    return float(np.linalg.norm(away, 2 if one.kind == "gaussian" else 1))


def _named(draw: Draw) -> str:
    return (
        f"{draw.kind} noise of scale {draw.mechanism!r}" if additive(draw) else str(draw.mechanism)
    )


def additive(draw: Draw) -> bool:
    """Whether noise was added to numbers."""
    return draw.kind in ("gaussian", "laplace")


def _same_public(one: Draw, two: Draw) -> bool:
    if one.public is None or two.public is None:
        return one.public is two.public
    return np.array_equal(one.public, two.public)


def _finite(one: Draw, two: Draw) -> float:
    rows = np.flatnonzero((one.value != two.value).reshape(len(one.value), -1).any(axis=1))
    if one.kind == "subset":
        return len(rows) * subset_ratio(one.mechanism)
    if one.kind == "vector":
        return sum(_of_vectors(one.mechanism, one.value[row], two.value[row]) for row in rows)
    logs = [draw.mechanism.log_probabilities(draw.value, draw.public) for draw in (one, two)]
    with np.errstate(invalid="ignore"):
        away = np.abs(logs[0] - logs[1])
    return float(np.where(np.isnan(away), 0.0, away).max(axis=1).sum())


def _of_vectors(mechanism: PrivUnit, one: FloatArray, two: FloatArray) -> float:
    """The largest log ratio, either way round, of PrivUnit reports of two vectors.

    A report of u has the density w f(c) + (1 - w) f(-c) at a cosine c with u, where w = (1 + |u|)/2
    and f is `inside` in the cap and `outside` elsewhere (laws.py). For two vectors that are not
    parallel there are points in either cap of the one that lie in no cap of the other, if caps are
    smaller than half the sphere; else in its less likely half.
    """
    inside, outside, halves = cap_ratios(mechanism)
    if min(inside, outside) <= 0.0:
        return math.inf

    def densities(vector: FloatArray) -> tuple[float, float]:
        weight = 0.5 * (1.0 + min(1.0, float(np.linalg.norm(vector))))
        return (
            weight * inside + (1.0 - weight) * outside,
            weight * outside + (1.0 - weight) * inside,
        )

    (high, low), (other_high, other_low) = densities(one), densities(two)
    norms = float(np.linalg.norm(one)) * float(np.linalg.norm(two))
    cosine = float(one @ two) / norms if norms > 0.0 else 0.0
    if cosine > 1.0 - 1e-14:  # the same direction: caps are the same
        return max(abs(math.log(high / other_high)), abs(math.log(low / other_low)))
    if halves:
        return max(math.log(high / other_low), math.log(other_high / low))
    return max(math.log(high / outside), math.log(other_high / outside))


def shared_noise(draws: Sequence[Draw]) -> str:
    """How noise that should be independent is not; empty if nothing shows.

    Losses add because each number has noise of its own. Noise that is 0, or that two numbers share,
    is found in the recorded run itself: the difference of two such numbers has no noise. (Of
    SecureNoise no two calls share anything, and sources.py tests that it draws.)
    """
    noises, tolerances = [], []
    for draw in draws:
        if draw.secure or not additive(draw):
            continue
        value, outcome = draw.value.ravel()[:_NUMBERS], np.ravel(draw.outcome)[:_NUMBERS]
        noises.append(np.abs(outcome - value) / draw.mechanism)
        tolerances.append(_SAME + 4e-16 * (np.abs(value) + np.abs(outcome)) / draw.mechanism)
    if not noises:
        return ""
    noise, tolerance = np.concatenate(noises), np.concatenate(tolerances)
    if (noise <= tolerance).any():
        return "a number was released without noise"
    order = np.argsort(noise)
    if (np.diff(noise[order]) <= np.maximum(tolerance[order][1:], tolerance[order][:-1])).any():
        return "two released numbers have the same noise"
    return ""
