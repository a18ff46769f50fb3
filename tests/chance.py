"""Tests that draw real randomness, and how likely they are to fail although nothing is wrong.

Every test is deterministic unless it carries `@pytest.mark.chance(p)`. conftest.py gives all others
a stream of words that is fixed by the test's name wherever Python would ask the operating system
(`SecureNoise` without additive noise, an unseeded generator, identities), and refuses them OpenDP's
samplers, which take no seed. `p` is a bound on the probability that the test fails by accident, for
one run of it; 0 says that its assertions hold whatever is drawn (identities of 128 bits and
equal Gaussian numbers count as never). A run that may spend more than `MOST` does not start.

The functions here have exact tails or proven bounds, so that p can be kept:

| function      | for                                     | bound                                |
|---------------|-----------------------------------------|--------------------------------------|
| check_law     | numbers with a continuous law           | Dvoretzky-Kiefer-Wolfowitz (Massart) |
| check_counts  | how often each of some values was drawn | binomial tails, over all values      |
| check_value   | one number whose law is known           | its tails                            |

A sum has a known law: of Gaussian numbers and their squares a normal and a chi-square, of lengths
of Laplace numbers a gamma.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

# Of one run, all tests together.
MOST = 1e-5
# What one test with real randomness may spend, unless it says otherwise.
RARE = 1e-8


def check_law(
    sample: ArrayLike, cdf: Callable[[NDArray[np.float64]], ArrayLike], chance: float = RARE
) -> None:
    """Independent numbers follow the continuous law with this distribution function.

    P(sup |F_n - F| > t) <= 2 exp(-2 n t^2) for every n (Massart 1990).
    """
    values = np.sort(np.ravel(sample))
    expected, count = np.asarray(cdf(values)), len(values)
    steps = np.arange(count + 1) / count
    distance = max((steps[1:] - expected).max(), (expected - steps[:-1]).max())
    most = math.sqrt(math.log(2.0 / chance) / (2.0 * count))
    assert distance <= most, f"the largest distance was {distance:.4g}, above {most:.4g}"


def check_counts(counts: ArrayLike, probabilities: ArrayLike, chance: float = RARE) -> None:
    """Counts of independent draws, one for each value, fit these probabilities.

    Each count alone is binomial, so no tail is below chance / (2 values) but with that probability.
    """
    seen = np.asarray(counts)
    shares = np.asarray(probabilities, dtype=np.float64)
    law = stats.binom(seen.sum(), shares / shares.sum())
    least = chance / (2.0 * seen.size)
    tails = np.minimum(law.cdf(seen), law.sf(seen - 1))
    assert (tails >= least).all(), (
        f"value {np.argmin(tails)} came {seen.ravel()[np.argmin(tails)]} times of {seen.sum()}, "
        f"expected were {(shares / shares.sum() * seen.sum()).ravel()[np.argmin(tails)]:.1f}"
    )


def check_value(value: float, law: stats.distributions.rv_frozen, chance: float = RARE) -> None:
    """One number, such as a sum of many, does not lie in the tails of its law."""
    tail = min(law.cdf(value), law.sf(value))
    assert tail >= chance / 2.0, (
        f"{value:.6g} has the tail {tail:.2g}; the law's middle is {law.median():.6g}"
    )
