"""When the partition learner acts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from discreet.validation import InvalidInput, positive_number, whole_number

# Deeper than this the closed form of the prior has lost its digits (smoothness.py).
_DEEPEST = 16


@dataclass(frozen=True)
class Rules:
    """When the partition learner acts; the defaults were tuned in simulation.

    Attributes:
        batch: least number of reports between two policies.
        growth: later, that number is this share of all reports so far.
        caution: an arm is given up when it lies this many standard deviations, plus the margin,
            below the leading one.
        contention: arms within this many standard deviations, plus the margin, of the leading one
            are contenders; only bins with contenders are split.
        margin: the multiple of the variation within a bin that is added to either, because an arm
            that is behind on average may lead in a part of the bin.
        resolution: a bin is split only if as many people again would tell arms apart in one half
            with a standard deviation below this multiple of the variation within the bin.
        temperatures: posterior draws deviate from the mean by these factors, in equal parts.
        max_depth: no bin is split below this depth.
        max_bins: no bin is split while there are this many.
        first_learning: reports before length scales are first learnt.
        learning_growth: they are learnt again whenever the reports have grown by this factor.
    """

    batch: int = 200
    growth: float = 0.01
    caution: float = 3.0
    contention: float = 2.0
    margin: float = 2.0
    resolution: float = 1.0
    temperatures: tuple[float, ...] = (0.7,)
    max_depth: int = 10
    max_bins: int = 400
    first_learning: int = 500
    learning_growth: float = 1.15

    def __post_init__(self) -> None:
        if not isinstance(self.temperatures, Sequence) or not self.temperatures:
            raise InvalidInput(
                f"temperatures was {self.temperatures!r}; give a list of factors above 0."
            )
        for value in self.temperatures:
            positive_number(value, "each of temperatures")
        object.__setattr__(self, "temperatures", tuple(self.temperatures))
        for name in ("batch", "max_depth", "max_bins", "first_learning"):
            most = _DEEPEST if name == "max_depth" else None
            object.__setattr__(self, name, whole_number(getattr(self, name), name, 1, most))
        for name in ("growth", "caution", "contention", "margin", "resolution", "learning_growth"):
            object.__setattr__(self, name, positive_number(getattr(self, name), name))

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Rules:
        """Rules from the options of a study file."""
        known = [field.name for field in fields(cls)]
        unknown = sorted(set(options) - set(known))
        if unknown:
            raise InvalidInput(
                f"partition got the option {unknown[0]!r}; its options are {', '.join(known)}."
            )
        return cls(**options)
