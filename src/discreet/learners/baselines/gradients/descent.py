"""Descent on private gradients: how a gradient is made private, step sizes and averages.

**A report** is one private gradient, with the arm that it belongs to.

| array     | shape     | meaning                                                                 |
|-----------|-----------|-------------------------------------------------------------------------|
| vectors   | (n, p)    | gradients g of the arms that were given, |g| <= 1                       |
| explorers | (n,)      | whether the arm is public: a function of the ticket                     |
| reports   | (n, K, p) | one row for each arm; their expectation is g in the row of the arm      |

*Claim.* Given the policy and the ticket, which are drawn without looking at the person, no two
people with contexts in the domain, any arm that could be theirs and rewards in their bounds make
any report more than e^epsilon times as likely from one as from the other.

*Why.* The arm of someone who explores is public. Their report is one draw of an epsilon-private
mechanism for vectors of length at most 1 (privacy/vectors.py) on the p numbers of g; the other rows
are 0 for everyone with that ticket. The greedy arm is a function of the context, and the arm of a
person of a source was chosen by others who knew the context, so these arms are private too. Such a
report is one draw of the same mechanism on all K p numbers of the matrix that holds g in the row of
the arm and 0 elsewhere. That matrix has length |g| <= 1 whichever row it is, so any other context,
arm and reward are just another vector of length at most 1, and one draw hides all of them at once.

Anyone who does not explore may therefore report on any of the K arms. Whether theirs is the one
that the policy gives is not checked: that arm depends on the context, and so would a refusal.

(Han et al. 2021 hide the arm too, by updates of all arms of which most are synthetic.) A number of
a report has about the same variance among K p numbers as among p, but the row of arm k carries
signal only from people who got arm k, and noise from all. That is what hiding the arm costs;
exploring people, whose arm is public, add noise to their own arm alone.

**A step** is taken with all gradients that came.

| symbol | meaning                                                                             |
|--------|-------------------------------------------------------------------------------------|
| G      | (K, p) the sum of the gradients that came since the last step                       |
| w      | their weight: how many reports of the target they are worth                         |
| t      | the weight of all gradients so far, those of this step included                     |
| v      | the mean square of one number of the target's reports                               |

    theta   <- theta - eta G,    eta = min(c / (t + t0), 4 / w),    c = step K,
                                 t0 = v (c / scale)^2,
    average <- average + a (theta - average),    a = min(1, (1 + q) w / (t + q w)).

c / t is the usual step for strongly convex losses; an arm gets about one in K people, hence K. The
delay t0 keeps what noise does to a parameter, about c sqrt(v t) / (t + t0), below `scale`: eta is
then the gain of a Kalman filter whose prior has that deviation. The curvature of a weighted loss is
at most |J| / 4, so much longer steps than 4 / w would overshoot. No parameter leaves
[-10^6, 10^6] (models.py). The average has weights that grow like t^q (Shamir and Zhang 2013); q = 0
is none.

Reports of a source have mean square v_m and count v / v_m each, in G as in w: the weights that make
the noise of an average least.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, ClassVar, Literal

import numpy as np

from discreet.codec import Range, Shape
from discreet.learners.baselines.gradients.models import LARGEST
from discreet.learners.calibration import Calibration
from discreet.privacy import NoiseSource
from discreet.privacy.vectors import PrivUnit, l2_ball
from discreet.validation import BoolArray, FloatArray, IntArray, InvalidInput

MECHANISMS: dict[str, Callable[[int, float], PrivUnit]] = {"l2_ball": l2_ball, "privunit": PrivUnit}

# Reports have a length that is public; this share of it is left to rounding.
_ROUNDING = 1e-6


# The default of `warm_up` is the first plus this share of t0: some explore even without noise.
_LEAST_WARM_UP = 50.0
_WARM_UP_SHARE = 0.3
# A step is at most this over w (see above).
_LONGEST = 4.0


@dataclass(frozen=True)
class GradientMechanism:
    """The mechanism of a report (see the module).

    Attributes:
        arms: K.
        size: p.
        epsilon: infinity for reports as they are.
        name: `l2_ball` or `privunit` (privacy/vectors.py).
    """

    arms: int
    size: int
    epsilon: float
    name: str

    def __post_init__(self) -> None:
        if self.name not in MECHANISMS:
            raise InvalidInput(
                f"mechanism was {self.name!r:.80}; it must be one of {', '.join(MECHANISMS)}."
            )
        if self.private:
            _ = self.of_matrix, self.of_row

    @property
    def private(self) -> bool:
        """Whether anything is hidden."""
        return math.isfinite(self.epsilon)

    @cached_property
    def of_row(self) -> PrivUnit:
        """The mechanism for one row, where the arm is public."""
        return MECHANISMS[self.name](self.size, self.epsilon)

    @cached_property
    def of_matrix(self) -> PrivUnit:
        """The mechanism for all rows, where the arm is private."""
        return MECHANISMS[self.name](self.arms * self.size, self.epsilon)

    @property
    def mean_square(self) -> float:
        """Of one number of a report with a private arm, averaged over all K p numbers.

        Without privacy that of a gradient where the reward has its largest variance, 1/4.
        """
        return self.of_matrix.variance if self.private else 0.25 / (self.arms * self.size)

    @property
    def lengths(self) -> tuple[float, float]:
        """The length of a report with a private arm, and of one with a public arm.

        Without privacy the largest length of either.
        """
        if not self.private:
            return 1.0, 1.0
        return 1.0 / self.of_matrix.mean_cosine, 1.0 / self.of_row.mean_cosine

    def privatise(
        self, vectors: FloatArray, arms: IntArray, explorers: BoolArray, noise: NoiseSource
    ) -> FloatArray:
        """(n, K, p) reports; see the module's table."""
        people = np.arange(len(vectors))
        matrices = np.zeros((len(vectors), self.arms, self.size))
        matrices[people, arms] = vectors
        if not self.private:
            return matrices
        others = np.flatnonzero(~explorers)
        if len(others):
            flat = matrices[others].reshape(len(others), -1)
            drawn = self.of_matrix.privatise(flat, noise)
            matrices[others] = drawn.reshape(len(others), self.arms, self.size)
        public = np.flatnonzero(explorers)
        if len(public):
            matrices[public, arms[public]] = self.of_row.privatise(vectors[public], noise)
        return matrices

    def check(self, reports: FloatArray, arms: IntArray, explorers: BoolArray) -> None:
        """Refuse reports that nobody with these public arms can have made."""
        people = len(reports)
        if reports.shape != (people, self.arms, self.size) or people == 0:
            raise InvalidInput(
                f"reports had gradients of shape {reports.shape}; they must have shape (people, "
                f"{self.arms}, {self.size}) with at least one person."
            )
        rows = np.sqrt(np.einsum("nkp,nkp->nk", reports, reports))
        others = np.where(explorers, arms, -1)[:, None] != np.arange(self.arms)
        if (others & explorers[:, None] & (rows > 0.0)).any():
            raise InvalidInput(
                "reports had gradients of an arm that the ticket did not give; those who explore "
                "report on that arm alone."
            )
        lengths = np.sqrt((rows**2).sum(axis=1))
        wanted = np.where(explorers, self.lengths[1], self.lengths[0])
        if self.private:
            fits = np.abs(lengths - wanted) <= _ROUNDING * wanted
        else:
            fits = (lengths <= 1.0 + _ROUNDING) & ((rows > 0.0).sum(axis=1) <= 1)
        if not fits.all():
            first = int(np.argmin(fits))
            raise InvalidInput(
                f"reports had a gradient of length {lengths[first]:g} at position {first}; this "
                f"mechanism makes {wanted[first]:g}"
                f"{'' if self.private else ' at most, for one arm'}. Send them as the policy made "
                "them."
            )


@dataclass(frozen=True)
class Descent(Calibration):
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

    name: ClassVar[str] = "descent"

    step: Annotated[float, Range(above=0.0)] = 8.0
    scale: Annotated[float, Range(above=0.0)] = 1.0
    warm_up: Annotated[float, Range(0.0)] | None = None
    averaging: Annotated[float, Range(0.0)] = 8.0
    mechanism: Literal["l2_ball", "privunit"] = "l2_ball"
    batch: Annotated[int, Range(1)] = 200
    growth: Annotated[float, Range(above=0.0)] = 0.02

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

    parameters: Annotated[FloatArray, Shape("K", "p"), Range(-LARGEST, LARGEST)]
    averages: Annotated[FloatArray, Shape("K", "p"), Range(-LARGEST, LARGEST)]
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
