"""Mean and variance of additive noise as OpenDP draws it, and the coin of probability e^-x.

Secure noise has no seed, so every test here fails with probability at most FAILURE under the right
law, by Chernoff's bound on a sum of n independent f(X), with the moment generating function
integrated numerically over |X| <= c, where n P(|X| > c) is part of the probability.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from discreet.privacy import SecureNoise
from discreet.privacy.noise import _opendp
from discreet.validation import FloatArray

pytest.importorskip("opendp")

FAILURE = 1e-10  # of a test: its four bounds get a quarter each
pytestmark = pytest.mark.chance(FAILURE)
DRAWS = 4000
SCALES = [1e-6, 3.7, 1e6]
# On the grid of the noise and off it, small and large.
VALUES = np.array([0.0, 0.1, 1 / 3, -12345.678])


@cache
def chernoff(name: str, power: int) -> tuple[float, float]:
    """Bounds that the mean of DRAWS powers of standard noise keeps."""
    law = {"laplace": stats.laplace(), "gaussian": stats.norm()}[name]
    reach = float(law.isf(FAILURE / DRAWS / 16.0))
    edges = np.linspace(-reach, reach, 8_001)
    middle = 0.5 * (edges[1:] + edges[:-1])
    values, chance = middle**power, np.diff(law.cdf(edges))
    expected = 0.0 if power == 1 else float(law.var())

    def exceeds(deviation: float, sign: float) -> bool:
        """Whether a mean that far off has at most the allowed probability, for the best t."""
        tilted = [
            math.log(chance @ np.exp(t * (sign * (values - expected) - deviation)))
            for t in np.geomspace(3e-3, 0.5, 30)
        ]
        return DRAWS * min(tilted) <= math.log(FAILURE / 8.0)

    def bound(sign: float) -> float:
        low, high = 0.0, 4.0
        for _ in range(25):
            middle = 0.5 * (low + high)
            low, high = (low, middle) if exceeds(middle, sign) else (middle, high)
        return high

    return expected - bound(-1.0), expected + bound(1.0)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", ["laplace", "gaussian"])
def test_mean_and_variance(name: str, scale: float) -> None:
    noise = SecureNoise()
    add: Callable[[FloatArray, float], FloatArray] = {
        "laplace": noise.add_laplace,
        "gaussian": noise.add_gaussian,
    }[name]
    values = np.tile(VALUES, DRAWS // len(VALUES))
    drawn = (add(values, scale) - values) / scale
    for power in (1, 2):
        least, most = chernoff(name, power)
        assert least <= float(np.mean(drawn**power)) <= most


def test_the_bounds_are_close_enough_to_tell() -> None:
    """A sampler that is off by a fifth of its scale, or by half of its variance, is caught."""
    for name, variance in (("laplace", 2.0), ("gaussian", 1.0)):
        least, most = chernoff(name, 1)
        assert -0.2 < least < -0.1 < 0.1 < most < 0.2
        least, most = chernoff(name, 2)
        assert 0.6 * variance < least < variance < most < 1.5 * variance


def test_the_discrete_gaussian_of_opendp() -> None:
    """The law on the integers with scale 2, where releases before 0.14.2 were wrong by 2% to 6%.

    Each of 9 counts is binomial, so 9 tails of FAILURE / 18 on each side make FAILURE of them.
    """
    opendp, draws = _opendp(), 40_000
    domain = opendp.domains.vector_domain(opendp.domains.atom_domain(T=int), size=draws)
    draw = opendp.measurements.make_gaussian(domain, opendp.metrics.l2_distance(T=float), scale=2.0)
    numbers: NDArray[np.int64] = np.array(draw([0] * draws))
    weights = np.exp(-(np.arange(-80, 81) ** 2) / 8.0)
    for value in range(-4, 5):
        chance = weights[80 + value] / weights.sum()
        count = int((numbers == value).sum())
        assert stats.binom.cdf(count, draws, chance) > FAILURE / 18.0
        assert stats.binom.sf(count - 1, draws, chance) > FAILURE / 18.0
