"""Noise sources: the randomness that protects people.

`SecureNoise` is for deployment: OpenDP's floating-point-safe Laplace and Gaussian samplers, and
the operating system's generator with integer comparisons for reports over finite alphabets.
`SimulatedNoise` is NumPy's generator: fast and reproducible, for simulation only, because anyone
who knows the seed can take the noise off again and because floating-point tails are not exact.

| method   | law                    | under SecureNoise                                |
|----------|------------------------|--------------------------------------------------|
| coins    | True with probability p| exactly ceil(2^64 p) / 2^64                      |
| below    | uniform on 0..bound-1  | exact (rejection)                                |
| keys     | uniform 64-bit words   | exact                                            |
| Laplace  | added with a scale     | OpenDP; its privacy is `laplace_epsilon`         |
| Gaussian | added with a scale     | OpenDP; its privacy is `gaussian_multiplier`     |

The first three need the operating system only. OpenDP is loaded when additive noise, or what it
costs, is first asked for; callers that add noise call `check_additive` before they touch
any data. Probabilities that privacy rests on are given as fractions.

Additive noise is never handed out: values go in and noisy values come out (`add_laplace`,
`add_gaussian`), because noise added in floating point afterwards would show the value in the last
bits of the sum (Mironov 2012).

**Coins** take the place of a scale where reports are over finite alphabets or the sphere. A
mechanism that says whether the truth is in the set that it reports tosses one coin: with
probability h it hides, and draws a set without the truth. Let the truth be in a share `s` of all
sets, which are equally likely otherwise. A set is then likelier with the truth in it by the factor

    R = (1 - h) (1 - s) / (h s),   and   1 <= R <= e^epsilon   is what makes the report private.

Signed subset selection, unary encoding and PrivUnit are all of this form. A secure source tosses
coins of probability T / 2^64 for whole T, so the least T that keeps R <= e^epsilon is found here in
exact arithmetic: what is promised holds for the coin that is tossed, not for a formula near it. An
h that is rounded up in floating point may overshoot 1 - s, where sets without the truth become the
likelier ones by more than e^epsilon.
"""

from __future__ import annotations

import math
import os
import re
from abc import ABC, abstractmethod
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from discreet.validation import FloatArray, IntArray, InvalidInput, positive_number, whole_number

Words = NDArray[np.uint64]
Shape = int | tuple[int, ...]
Probability = Fraction | float | FloatArray

# The first release without a bias in both samplers of additive noise (OpenDP issue 2638): before,
# a coin of probability e^-x was tossed with wrong probabilities for some x.
_LEAST_OPENDP = (0, 14, 2)
# OpenDP draws Gaussians on the grid 2^k. A grid of 2^-30 (finer for scales below 1) is six times
# faster than its default and costs little privacy, which `gaussian_multiplier` includes.
_GAUSSIAN_GRID = -30
# More than all roundings in OpenDP's own account of its noise, for a bound that needs no OpenDP.
_ROUNDINGS = 1.0 + 2.0**-48
# Coins are whole numbers of these words.
_WORDS = 2**64
# R is below 2^64 / s for every coin, so that no larger exponent matters as long as s > 2^-120.
_MOST_EXPONENT = 128.0
# Python's decimals round e^x correctly to these digits; ten of them are given up all the same.
_DIGITS, _GIVEN_UP = 50, Fraction(1, 10**40)


class NoiseSource(ABC):
    """Draws the noise of privacy mechanisms. `name` is what records and guarantees show."""

    name: str
    secure: bool

    @abstractmethod
    def keys(self, shape: Shape) -> Words:
        """Independent uniform 64-bit words."""

    @abstractmethod
    def below(self, bound: int, shape: Shape) -> IntArray:
        """Independent uniform integers from 0 to bound - 1."""

    @abstractmethod
    def coins(self, probability: Probability, shape: Shape) -> NDArray[np.bool_]:
        """Independent coins that show True with the given probability, or one for each coin.

        A fraction with denominator 2^64 is met exactly by a secure source, and so is every float of
        2^-11 or more.
        """

    def check_additive(self) -> None:  # noqa: B027 (most sources can always draw)
        """Check that `add_laplace` and `add_gaussian` can draw; what will use them asks first.

        Raises:
            InvalidInput: saying what to install.
        """

    @abstractmethod
    def add_laplace(self, values: FloatArray, scale: float) -> FloatArray:
        """The values with independent Laplace noise of the given scale on each."""

    @abstractmethod
    def add_gaussian(self, values: FloatArray, scale: float) -> FloatArray:
        """The values with independent Gaussian noise of that standard deviation on each."""

    @abstractmethod
    def laplace_epsilon(self, sensitivity: float, scale: float, size: int) -> float:
        """Epsilon of `add_laplace` on a vector of `size` numbers with that l1 sensitivity."""

    @abstractmethod
    def gaussian_multiplier(self, sensitivity: float, scale: float, size: int) -> float:
        """scale / sensitivity as this sampler really achieves it (l2 sensitivity)."""


NO_NOISE = "none"


def check_noise_name(name: object) -> str:
    """The name of a noise source that exists, or `none`; a report may not invent one."""
    known = (SecureNoise.name, SimulatedNoise.name, NO_NOISE)
    if not isinstance(name, str) or name not in known:
        raise InvalidInput(f"the noise source was {name!r:.80}; it must be one of {known}.")
    return name


def check_protection(name: object) -> str:
    """The name of a noise source that reports may have under a policy that makes them private."""
    source = check_noise_name(name)
    if source == NO_NOISE:
        raise InvalidInput(
            f"the noise source of reports was {NO_NOISE!r}, but under their policy reports are "
            "private when they leave a person; send them as policy.report() made them."
        )
    return source


def laplace_epsilon(name: str, sensitivity: float, scale: float, size: int) -> float:
    """Epsilon of Laplace noise from the named source, or a bound on it without OpenDP."""
    if name != SecureNoise.name:
        return sensitivity / scale
    try:
        return SecureNoise().laplace_epsilon(sensitivity, scale, size)
    except InvalidInput:
        return sensitivity / scale * _ROUNDINGS


def gaussian_multiplier(name: str, sensitivity: float, scale: float, size: int) -> float:
    """scale / sensitivity as the named source achieves it, or a bound on it without OpenDP."""
    if name != SecureNoise.name:
        return scale / sensitivity
    try:
        return SecureNoise().gaussian_multiplier(sensitivity, scale, size)
    except InvalidInput:
        # Rounding to the grid moves each of two neighbours by half a step in every number.
        reach = sensitivity + math.sqrt(size) * 2.0 ** _gaussian_grid(scale)
        return scale / (reach * _ROUNDINGS)


def _gaussian_grid(scale: float) -> int:
    """The exponent of the grid that Gaussian noise of that scale is drawn on."""
    return min(math.floor(math.log2(scale)), 0) + _GAUSSIAN_GRID


@cache
def _opendp() -> Any:
    """OpenDP, loaded when it is first needed; its `prelude` would load scikit-learn, too.

    Raises:
        InvalidInput: if it is not installed, or is a release whose noise is biased.
    """
    install = (
        'run pip install "discreet[secure]" (in a clone: pip install ".[secure]"; 265 MB), or use '
        "SimulatedNoise(seed) in simulations."
    )
    from importlib.metadata import version

    try:
        import opendp.domains
        import opendp.measurements
        import opendp.metrics
        import opendp.mod
    except ImportError:
        raise InvalidInput(
            "additive noise (Laplace, Gaussian) of SecureNoise needs OpenDP, which is not "
            f"installed; {install}"
        ) from None
    release = version("opendp")
    least = ".".join(map(str, _LEAST_OPENDP))
    if tuple(map(int, re.findall(r"\d+", release)[:3])) < _LEAST_OPENDP:
        raise InvalidInput(
            f"OpenDP {release} is installed, which draws biased noise; SecureNoise needs {least} "
            f"or later: {install}"
        )
    opendp.mod.enable_features("contrib")
    return opendp


class SimulatedNoise(NoiseSource):
    """NumPy noise from a seed: for simulation and tests, never for people's data."""

    name = "SimulatedNoise (NumPy, for simulation only)"
    secure = False

    def __init__(self, seed: int | np.random.SeedSequence | None = None) -> None:
        self._rng = np.random.default_rng(seed)

    def keys(self, shape: Shape) -> Words:
        return self._rng.integers(0, 2**64, size=shape, dtype=np.uint64)

    def below(self, bound: int, shape: Shape) -> IntArray:
        return self._rng.integers(whole_number(bound, "bound", minimum=1), size=shape)

    def coins(self, probability: Probability, shape: Shape) -> NDArray[np.bool_]:
        chance = float(probability) if isinstance(probability, Fraction) else probability
        return self._rng.random(shape) < chance

    def add_laplace(self, values: FloatArray, scale: float) -> FloatArray:
        return values + self._rng.laplace(0.0, positive_number(scale, "scale"), values.shape)

    def add_gaussian(self, values: FloatArray, scale: float) -> FloatArray:
        return values + self._rng.normal(0.0, positive_number(scale, "scale"), values.shape)

    def laplace_epsilon(self, sensitivity: float, scale: float, size: int) -> float:
        return sensitivity / scale

    def gaussian_multiplier(self, sensitivity: float, scale: float, size: int) -> float:
        return scale / sensitivity


class Unprotected(NoiseSource):
    """No noise at all: the person trusts the learner with the plain observation.

    For joint privacy, where the learner draws the noise before it publishes anything. A policy
    whose reports are to be private refuses it.
    """

    name = NO_NOISE
    secure = False

    def __repr__(self) -> str:
        return "Unprotected()"

    def _refuse(self, *asked: Any, **named: Any) -> NoReturn:
        raise InvalidInput(
            "noise was Unprotected(), but under this policy reports are private when they leave a "
            "person; pass SecureNoise()."
        )

    keys = below = coins = check_additive = add_laplace = add_gaussian = _refuse

    def laplace_epsilon(self, sensitivity: float, scale: float, size: int) -> float:
        return math.inf

    def gaussian_multiplier(self, sensitivity: float, scale: float, size: int) -> float:
        return 0.0


def refuse_copy(what: str, keeper: str) -> NoReturn:
    """`InvalidInput` for a copy of what draws noise for one statistic, which it would draw again.

    Args:
        what: was to be copied.
        keeper: the call that keeps it in a file instead.
    """
    raise InvalidInput(
        f"{what} under joint privacy was to be copied or pickled; each copy would make the same "
        f"releases with noise of its own, and people would pay twice. Keep it with {keeper}, in a "
        "file that says that it is secret."
    )


class SecureNoise(NoiseSource):
    """Noise for real people: OpenDP samplers and the operating system's generator.

    Coins, keys and integers need nothing but NumPy. What adds noise, or says what that costs,
    raises `InvalidInput` where OpenDP (the extra `secure`) is missing; so does `check_additive`.
    """

    name = "SecureNoise (OpenDP and the operating system's generator)"
    secure = True

    def check_additive(self) -> None:
        _opendp()

    def keys(self, shape: Shape) -> Words:
        count = int(np.prod(shape))
        return np.frombuffer(os.urandom(8 * count), dtype=np.uint64).reshape(shape).copy()

    def below(self, bound: int, shape: Shape) -> IntArray:
        size = whole_number(bound, "bound", minimum=1, maximum=2**62)
        words = self.keys(int(np.prod(shape)))
        limit = np.uint64(2**64 - 1 - (2**64 % size))  # the last word of the last whole cycle
        rejected = words > limit
        while rejected.any():
            words[rejected] = self.keys(int(rejected.sum()))
            rejected = words > limit
        return (words % np.uint64(size)).astype(np.int64).reshape(shape)

    def coins(self, probability: Probability, shape: Shape) -> NDArray[np.bool_]:
        words = self.keys(shape)
        if isinstance(probability, Fraction):
            threshold = math.ceil(probability * 2**64)
            if not 0 <= threshold <= 2**64:
                raise InvalidInput(f"a probability was {probability}; it must be from 0 to 1.")
            last = np.uint64(max(threshold - 1, 0))
            return words <= last if threshold else np.zeros(words.shape, dtype=np.bool_)
        # A float times 2^64 is exact, and so is its ceiling; sums may exceed 1 by a rounding.
        chance = np.broadcast_to(np.asarray(probability, dtype=np.float64), words.shape)
        if not ((chance >= 0.0) & (chance <= 1.0 + 2.0**-40)).all():
            raise InvalidInput("a probability was not between 0 and 1; nothing was drawn.")
        certain = chance >= 1.0
        thresholds = np.ceil(np.ldexp(np.where(certain, 0.0, chance), 64)).astype(np.uint64)
        return (words < thresholds) | certain

    def add_laplace(self, values: FloatArray, scale: float) -> FloatArray:
        return self._draw(self._laplace(positive_number(scale, "scale"), values.size), values)

    def add_gaussian(self, values: FloatArray, scale: float) -> FloatArray:
        return self._draw(self._gaussian(positive_number(scale, "scale"), values.size), values)

    def laplace_epsilon(self, sensitivity: float, scale: float, size: int) -> float:
        return float(self._laplace(scale, size).map(float(sensitivity)))

    def gaussian_multiplier(self, sensitivity: float, scale: float, size: int) -> float:
        rho = float(self._gaussian(scale, size).map(float(sensitivity)))
        return 1.0 / math.sqrt(2.0 * rho)

    def _laplace(self, scale: float, size: int) -> Any:
        opendp = _opendp()
        metric = opendp.metrics.l1_distance(T=float)
        return opendp.measurements.make_laplace(_vectors(opendp, size), metric, scale=scale)

    def _gaussian(self, scale: float, size: int) -> Any:
        opendp = _opendp()
        metric, grid = opendp.metrics.l2_distance(T=float), _gaussian_grid(scale)
        vectors = _vectors(opendp, size)
        return opendp.measurements.make_gaussian(vectors, metric, scale=scale, k=grid)

    def _draw(self, mechanism: Any, values: FloatArray) -> FloatArray:
        exact = np.asarray(values, dtype=np.float64)
        drawn = mechanism(exact.ravel().tolist())
        return np.asarray(drawn, dtype=np.float64).reshape(exact.shape)


def _vectors(opendp: Any, size: int) -> Any:
    """OpenDP's domain of vectors of `size` numbers."""
    return opendp.domains.vector_domain(opendp.domains.atom_domain(T=float, nan=False), size=size)


def hiding_probability(share: Fraction, epsilon: float) -> Fraction:
    """h, the least multiple of 2^-64 for which R is at most e^epsilon; 0 for an infinite epsilon.

    Args:
        share: s, above 2^-120 and below 1.
        epsilon: above 0.

    Raises:
        InvalidInput: if epsilon is so small that no such coin makes R larger than 1, so that
            reports would say nothing.
    """
    return Fraction(0) if math.isinf(epsilon) else _least_coin(share, epsilon)


@lru_cache(maxsize=4096)
def _least_coin(share: Fraction, epsilon: float) -> Fraction:
    rest = 1 - share
    hidden = Fraction(math.ceil(_WORDS * rest / (rest + share * _exponential(epsilon))), _WORDS)
    if hidden >= rest:
        largest = Fraction(math.ceil(rest * _WORDS) - 1, _WORDS)
        excess = (1 - largest) * rest / (largest * share) - 1 if largest else Fraction(1)
        raise InvalidInput(
            f"epsilon was {epsilon!r}, for which reports would say nothing: coins are tossed with "
            f"64 bits, so epsilon must be at least {1.01 * float(excess):.2g} here."
        )
    return hidden


def _exponential(exponent: float) -> Fraction:
    """A little less than e^exponent, for exponents from 0 up to 128; e^128 beyond."""
    with localcontext() as context:
        context.prec = _DIGITS
        return Fraction(Decimal(min(exponent, _MOST_EXPONENT)).exp()) * (1 - _GIVEN_UP)
