"""Stochastic gradient descent on gradients that are mostly noise: step sizes and averages.

| symbol | meaning                                                                             |
|--------|-------------------------------------------------------------------------------------|
| G      | (K, p) the sum of the gradients that came since the last step                       |
| w      | their weight: how many reports of the target they are worth                         |
| t      | the weight of all gradients so far, those of this step included                     |
| v      | the mean square of one number of the target's reports (privacy.py)                  |

One step:

    theta   <- theta - eta G,    eta = min(c / (t + t0), 4 / w),    c = step K,
                                 t0 = v (c / scale)^2,
    average <- average + a (theta - average),    a = min(1, (1 + q) w / (t + q w)).

c / t is the usual step for strongly convex losses; an arm gets about one in K people, hence K. The
delay t0 keeps what noise does to a parameter, about c sqrt(v t) / (t + t0), below `scale`: eta is
then the gain of a Kalman filter whose prior has that deviation. The curvature of a weighted loss is
at most |J| / 4, so much longer steps than 4 / w would overshoot. No parameter leaves
[-10^6, 10^6] (model.py). The average has weights that grow like t^q (Shamir and Zhang 2013); q = 0
is none.

Reports of a source have mean square v_m and count v / v_m each, in G as in w: the weights that make
the noise of an average least.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from discreet.codec import Range, Shape
from discreet.learners.baselines.gradients.model import LARGEST
from discreet.learners.baselines.gradients.privacy import MECHANISMS
from discreet.validation import (
    FloatArray,
    InvalidInput,
    finite_number,
    positive_number,
    whole_number,
)

# The default of `warm_up` is the first plus this share of t0: some explore even without noise.
_LEAST_WARM_UP = 50.0
_WARM_UP_SHARE = 0.3
# A step is at most this over w (see above).
_LONGEST = 4.0


@dataclass(frozen=True)
class Descent:
    """The settings; the defaults were tuned in simulation.

    Attributes:
        step: c / K. Larger follows the gradients faster and the noise too.
        scale: how far parameters are expected to lie from where they start.
        warm_up: this many people of the target explore at first; afterwards the share of
            people who do is warm_up / t (Auer, Cesa-Bianchi and Fischer 2002). By default
            50 + 0.3 t0.
        averaging: q.
        mechanism: `l2_ball` (Duchi, Jordan and Wainwright 2018, as published), or `privunit`,
            which has less noise, at epsilon 4 less than a third of the variance.
        batch: least number of reports between two policies.
        growth: later, that number is this share of all reports so far.
    """

    step: float = 8.0
    scale: float = 1.0
    warm_up: float | None = None
    averaging: float = 8.0
    mechanism: str = "l2_ball"
    batch: int = 200
    growth: float = 0.02

    def __post_init__(self) -> None:
        for name in ("step", "scale", "growth"):
            object.__setattr__(self, name, positive_number(getattr(self, name), name))
        for name in ("warm_up", "averaging"):
            value = getattr(self, name)
            if value is None and name == "warm_up":
                continue
            number = finite_number(value, name, "a finite number, 0 or more")
            if number < 0.0:
                raise InvalidInput(f"{name} was {value!r}; it must be 0 or more.")
            object.__setattr__(self, name, number)
        object.__setattr__(self, "batch", whole_number(self.batch, "batch", minimum=1))
        if self.mechanism not in MECHANISMS:
            raise InvalidInput(
                f"mechanism was {self.mechanism!r:.80}; it must be one of {', '.join(MECHANISMS)}."
            )

    def delay(self, arms: int, mean_square: float) -> float:
        """t0, with `mean_square` for v."""
        return mean_square * (self.step * arms / self.scale) ** 2

    def exploring(self, time: float, delay: float) -> float:
        """The share of people who explore at t = `time`."""
        warm_up = self.warm_up
        if warm_up is None:
            warm_up = _LEAST_WARM_UP + _WARM_UP_SHARE * delay
        if time <= warm_up or time == 0.0:
            return 1.0
        return warm_up / time

    def batch_after(self, people: int) -> int:
        """How many reports the next policy waits for, when this many came before the last one."""
        return max(self.batch, int(self.growth * people))


@dataclass(frozen=True, eq=False)
class Iterate:
    """Where the descent is.

    Attributes:
        parameters: (K, p) theta.
        averages: (K, p).
        time: t.
    """

    parameters: Annotated[FloatArray, Shape("K", "p")]
    averages: Annotated[FloatArray, Shape("K", "p")]
    time: Annotated[float, Range(0.0)] = 0.0

    def stepped(
        self, descent: Descent, gradient: FloatArray, weight: float, delay: float
    ) -> Iterate:
        """After one step; see the module. A weight of 0 means that nothing came."""
        if weight <= 0.0:
            return self
        arms = len(self.parameters)
        time = self.time + weight
        rate = min(descent.step * arms / (time + delay), _LONGEST / weight)
        parameters = np.clip(self.parameters - rate * gradient, -LARGEST, LARGEST)
        q = descent.averaging
        share = min(1.0, (1.0 + q) * weight / (time + q * weight)) if q > 0.0 else 1.0
        averages = self.averages + share * (parameters - self.averages)
        averages = np.clip(averages, -LARGEST, LARGEST)  # rounding could go a little beyond
        return replace(self, parameters=parameters, averages=averages, time=time)
