"""Where the randomness that protects people comes from.

`SecureNoise` is for deployment: OpenDP's floating-point-safe Laplace and Gaussian samplers, and
the operating system's generator with integer comparisons for reports over finite alphabets.
`SimulatedNoise` is NumPy's generator: fast and reproducible, for simulation only, because who
knows the seed can take the noise off again and because floating-point tails are not exact.

| method   | law                    | under SecureNoise                                |
|----------|------------------------|--------------------------------------------------|
| coins    | True with probability p| at least p, by less than 2^-47 p + 2^-63         |
| below    | uniform on 0..bound-1  | exact (rejection)                                |
| keys     | uniform 64-bit words   | exact                                            |
| Laplace  | added with a scale     | OpenDP; its privacy is `laplace_epsilon`         |
| Gaussian | added with a scale     | OpenDP; its privacy is `gaussian_multiplier`     |

Additive noise is never handed out: values go in and noisy values come out (`add_laplace`,
`add_gaussian`), because noise added in floating point afterwards would show the value in the last
bits of the sum (Mironov 2012).
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from discreet.validation import FloatArray, IntArray, InvalidInput, positive_number, whole_number

Words = NDArray[np.uint64]
Shape = int | tuple[int, ...]

# OpenDP draws Gaussians on the grid 2^k. A grid of 2^-30 (finer for scales below 1) is six times
# faster than its default and costs little privacy, which `gaussian_multiplier` includes.
_GAUSSIAN_GRID = -30


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
    def coins(self, probability: FloatArray | float, shape: Shape) -> NDArray[np.bool_]:
        """Independent coins that show True with at least the given probability.

        Mechanisms ask for the coin that hides (a flip, a false bit), so rounding up is safe.
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
    found = check_noise_name(name)
    if found == NO_NOISE:
        raise InvalidInput(
            f"the noise source of reports was {NO_NOISE!r}, but under their policy reports are "
            "private when they leave a person; send them as policy.report() made them."
        )
    return found


def laplace_epsilon(name: str, sensitivity: float, scale: float, size: int) -> float:
    """Epsilon of Laplace noise from the named source; the closed form where it is not installed."""
    if name == SecureNoise.name:
        try:
            return SecureNoise().laplace_epsilon(sensitivity, scale, size)
        except InvalidInput:
            pass
    return sensitivity / scale


def gaussian_multiplier(name: str, sensitivity: float, scale: float, size: int) -> float:
    """scale / sensitivity of Gaussian noise as the named source achieves it; the closed form where
    it is not installed."""
    if name == SecureNoise.name:
        try:
            return SecureNoise().gaussian_multiplier(sensitivity, scale, size)
        except InvalidInput:
            pass
    return scale / sensitivity


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

    def coins(self, probability: FloatArray | float, shape: Shape) -> NDArray[np.bool_]:
        shown: NDArray[np.bool_] = self._rng.random(shape) < probability
        return shown

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

    def _refuse(self) -> NoReturn:
        raise InvalidInput(
            "noise was Unprotected(), but under this policy reports are private when they leave a "
            "person; pass SecureNoise()."
        )

    def keys(self, shape: Shape) -> Words:
        self._refuse()

    def below(self, bound: int, shape: Shape) -> IntArray:
        self._refuse()

    def coins(self, probability: FloatArray | float, shape: Shape) -> NDArray[np.bool_]:
        self._refuse()

    def add_laplace(self, values: FloatArray, scale: float) -> FloatArray:
        self._refuse()

    def add_gaussian(self, values: FloatArray, scale: float) -> FloatArray:
        self._refuse()

    def laplace_epsilon(self, sensitivity: float, scale: float, size: int) -> float:
        return math.inf

    def gaussian_multiplier(self, sensitivity: float, scale: float, size: int) -> float:
        return 0.0


class SecureNoise(NoiseSource):
    """Noise for real people: OpenDP samplers and the operating system's generator.

    Raises:
        InvalidInput: on construction, when the extra `secure` (OpenDP) is not installed.
    """

    name = "SecureNoise (OpenDP and the operating system's generator)"
    secure = True

    def __init__(self) -> None:
        try:
            import opendp.prelude as opendp
        except ImportError:
            raise InvalidInput(
                "SecureNoise needs OpenDP, which is not installed; run "
                'pip install "discreet[secure]" (in a clone: pip install ".[secure]"; 265 MB), or '
                "use SimulatedNoise(seed) in simulations."
            ) from None
        opendp.enable_features("contrib")
        self._opendp = opendp

    def __reduce__(self) -> tuple[type[SecureNoise], tuple[()]]:
        return (SecureNoise, ())

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

    def coins(self, probability: FloatArray | float, shape: Shape) -> NDArray[np.bool_]:
        # The factor covers the rounding errors made in computing p, the ceiling those made here.
        chance = np.broadcast_to(np.asarray(probability, dtype=np.float64), shape)
        if not ((chance >= 0.0) & (chance <= 1.0 + 2.0**-40)).all():
            raise InvalidInput("a probability was not between 0 and 1; nothing was drawn.")
        threshold = np.ceil(np.ldexp(chance * (1.0 + 2.0**-48), 64))
        certain = threshold >= 2.0**64
        words = self.keys(shape)
        below = words < np.where(certain, 0.0, threshold).astype(np.uint64)
        shown: NDArray[np.bool_] = below | certain
        return shown

    def add_laplace(self, values: FloatArray, scale: float) -> FloatArray:
        return self._draw(self._laplace(positive_number(scale, "scale"), values.size), values)

    def add_gaussian(self, values: FloatArray, scale: float) -> FloatArray:
        return self._draw(self._gaussian(positive_number(scale, "scale"), values.size), values)

    def laplace_epsilon(self, sensitivity: float, scale: float, size: int) -> float:
        return float(self._laplace(scale, size).map(float(sensitivity)))

    def gaussian_multiplier(self, sensitivity: float, scale: float, size: int) -> float:
        rho = float(self._gaussian(scale, size).map(float(sensitivity)))
        return 1.0 / math.sqrt(2.0 * rho)

    def _vector(self, size: int) -> Any:
        atom = self._opendp.atom_domain(T=float, nan=False)
        return self._opendp.vector_domain(atom, size=size)

    def _laplace(self, scale: float, size: int) -> Any:
        metric = self._opendp.l1_distance(T=float)
        return self._opendp.m.make_laplace(self._vector(size), metric, scale=scale)

    def _gaussian(self, scale: float, size: int) -> Any:
        metric = self._opendp.l2_distance(T=float)
        grid = min(math.floor(math.log2(scale)), 0) + _GAUSSIAN_GRID
        return self._opendp.m.make_gaussian(self._vector(size), metric, scale=scale, k=grid)

    def _draw(self, mechanism: Any, values: FloatArray) -> FloatArray:
        exact = np.asarray(values, dtype=np.float64)
        drawn = mechanism(exact.ravel().tolist())
        return np.asarray(drawn, dtype=np.float64).reshape(exact.shape)
