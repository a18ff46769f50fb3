"""Local reports of one bounded number y, |y| <= b, without bias.

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
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from discreet.privacy.accounting import Event, PureEvent
from discreet.privacy.budget import Budget
from discreet.privacy.calibration import AdditiveNoise
from discreet.privacy.noise import NoiseSource
from discreet.privacy.vectors import PrivUnit
from discreet.validation import FloatArray


def reward_noise(budget: Budget, sensitivity: float) -> AdditiveNoise:
    """The report of a number that keeps a local budget, with the least variance (see the module).

    Args:
        budget: `Local`.
        sensitivity: 2 b.
    """
    if budget.delta > 0.0:
        return AdditiveNoise.gaussian_for(budget.noise_multiplier, sensitivity, 1)
    epsilon = budget.visit_epsilon
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
        """What the report's variance has on top of that of a sign of the same mean."""
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
