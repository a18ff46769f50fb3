"""The noise that a person adds to their own report, as a policy promises it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from discreet.privacy import NoiseSource
from discreet.privacy.accounting import Event, GaussianEvent, PureEvent
from discreet.privacy.noise import gaussian_multiplier, laplace_epsilon
from discreet.validation import FloatArray, InvalidInput, positive_number


@dataclass(frozen=True)
class LocalNoise:
    """The noise that a person adds to their own report.

    Attributes:
        scale: its standard deviation (Gaussian) or scale (Laplace) on each number.
        sensitivity: how far a report moves when the person's data is replaced.
        laplace: whether it is Laplace noise.
    """

    scale: float
    sensitivity: float
    laplace: bool = False

    @property
    def variance(self) -> float:
        """Variance of the noise on each number."""
        return self.scale**2 * (2.0 if self.laplace else 1.0)

    def check(self, needed: float) -> None:
        """Refuse noise that promises more than a report of sensitivity `needed` allows."""
        if self.sensitivity < needed * (1.0 - 1e-12):
            raise InvalidInput(
                f"a policy claims sensitivity {self.sensitivity} for its reports, which is "
                f"{needed}; do not report under it."
            )

    def add(self, values: FloatArray, noise: NoiseSource) -> FloatArray:
        """The values with noise on each."""
        return (
            noise.add_laplace(values, self.scale)
            if self.laplace
            else noise.add_gaussian(values, self.scale)
        )

    def event(self, noise: str, size: int) -> Event:
        """What one report of `size` numbers costs under the named noise source."""
        if self.laplace:
            return PureEvent(laplace_epsilon(noise, self.sensitivity, self.scale, size))
        return GaussianEvent(gaussian_multiplier(noise, self.sensitivity, self.scale, size))

    def to_fields(self) -> dict[str, Any]:
        """JSON values."""
        return {"scale": self.scale, "sensitivity": self.sensitivity, "laplace": self.laplace}

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> LocalNoise:
        """The inverse of `to_fields`."""
        if not isinstance(fields["laplace"], bool):
            raise InvalidInput(f"laplace was {fields['laplace']!r}; it must be true or false.")
        return cls(
            positive_number(fields["scale"], "scale"),
            positive_number(fields["sensitivity"], "sensitivity"),
            fields["laplace"],
        )
