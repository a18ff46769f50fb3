"""How answers are protected: the rules that a release is made with, and the noise they need."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from discreet.outsourcing.release import noise_scale
from discreet.privacy import NoiseSource, Outsourced, Release, Rounds
from discreet.privacy.accounting import GaussianEvent
from discreet.privacy.noise import gaussian_multiplier
from discreet.validation import (
    InvalidInput,
    finite_number,
    positive_number,
    probability,
    whole_number,
)

# Numbers in a certificate lie between this and its inverse, so that nothing overflows.
MOST = 2.0**200


@dataclass(frozen=True)
class AnswerNoise:
    """Gaussian noise on every answer.

    Each person's outcome leaves at most `repeats` times, so the total costs (epsilon, delta).

    Attributes:
        epsilon: what all answers about one person may cost together.
        delta: the same.
        lower: outcomes below are moved here before anything else happens.
        upper: outcomes above are moved here.
        repeats: how many answers about one person there may be.
        scale: standard deviation of the noise on one answer.
        noise: name of the noise source.
    """

    epsilon: float
    delta: float
    lower: float
    upper: float
    repeats: int
    scale: float
    noise: str

    def __post_init__(self) -> None:
        positive_number(self.epsilon, "epsilon of the answers")
        probability(self.delta, "delta of the answers")
        low = finite_number(self.lower, "the lower bound of answers")
        high = finite_number(self.upper, "the upper bound of answers")
        if not (low < high and high - low <= MOST):
            raise InvalidInput(
                f"answers had the bounds [{low}, {high}]; the lower must be below the upper bound, "
                f"by at most {MOST:.0e}."
            )
        whole_number(self.repeats, "repeats", minimum=1)
        positive_number(self.scale, "the scale of the answers")

    @classmethod
    def calibrated(
        cls,
        epsilon: float,
        delta: float,
        bounds: tuple[float, float],
        repeats: int,
        noise: NoiseSource,
    ) -> AnswerNoise:
        """The least noise that keeps (epsilon, delta) over all `repeats`.

        Gaussian releases compose by their squared multipliers, so each of m answers needs sqrt(m)
        times the scale that one would need.
        """
        blank = cls(epsilon, delta, bounds[0], bounds[1], repeats, 1.0, noise.name)
        scale = noise_scale(Outsourced(epsilon, delta), blank.sensitivity, noise, 1, repeats)
        return replace(blank, scale=scale)

    @property
    def sensitivity(self) -> float:
        """How far an outcome can move."""
        return self.upper - self.lower

    @property
    def event(self) -> GaussianEvent:
        """What all answers about one person cost."""
        one = gaussian_multiplier(self.noise, self.sensitivity, self.scale, 1)
        return GaussianEvent(one / math.sqrt(self.repeats))

    @property
    def release(self) -> Release:
        """For guarantees."""
        return Release(
            mechanism=f"Gaussian noise on an answer, at most {self.repeats} for each person",
            event=self.event,
            sensitivity=self.sensitivity,
            sensitivity_source="the width of the public bounds of outcomes",
            scale=self.scale,
            people=Rounds(0, 1),
            data="outcome, where it was asked for",
            noise=self.noise,
        )


@dataclass(frozen=True)
class AnswerRules:
    """How questions will be answered.

    Attributes:
        repeats: how often one row may be asked for.
        epsilon, delta: what answers about one person may cost; None for answers as they are.
        bounds: of outcomes, public; needed where answers are protected.
    """

    repeats: int = 1
    epsilon: float | None = None
    delta: float | None = None
    bounds: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "repeats", whole_number(self.repeats, "repeats", minimum=1))
        fields = {"epsilon": self.epsilon, "delta": self.delta, "bounds": self.bounds}
        absent = [name for name, value in fields.items() if value is None]
        if absent and len(absent) < len(fields):
            raise InvalidInput(
                f"answers had no {' and no '.join(absent)}; protected answers need all three of "
                "epsilon, delta and bounds, unprotected ones none."
            )
        if self.bounds is not None:
            low, high = (finite_number(one, "a bound of answers") for one in self.bounds)
            object.__setattr__(self, "bounds", (low, high))
            object.__setattr__(self, "epsilon", positive_number(self.epsilon, "epsilon of answers"))
            object.__setattr__(self, "delta", probability(self.delta, "delta of answers"))

    def calibrated(self, noise: NoiseSource) -> AnswerNoise | None:
        """The noise on answers; None for answers as they are."""
        if self.epsilon is None or self.delta is None or self.bounds is None:
            return None
        return AnswerNoise.calibrated(self.epsilon, self.delta, self.bounds, self.repeats, noise)


def sensible_number(value: Any, name: str) -> float:
    """A number above 0 with which sums and squares do not overflow."""
    number = positive_number(value, name)
    if not 1.0 / MOST <= number <= MOST:
        raise InvalidInput(f"{name} was {value}; it must be between {1 / MOST:.0e} and {MOST:.0e}.")
    return number
