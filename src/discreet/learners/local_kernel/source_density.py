"""What a learner keeps of one source: its sums, and where its people and their arms are.

The joint density of contexts and arms is a histogram over Z K bins, learnt as that of the target's
contexts is (density.py), from the cells of contexts and arms that people report.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from discreet.codec import decode_array, encode_array
from discreet.learners.local_kernel.density import moved
from discreet.learners.local_kernel.source_policy import KernelSourcePolicy
from discreet.learners.local_kernel.statistics import KernelStatistics
from discreet.validation import FloatArray, InvalidInput, whole_number

_MOST_STRETCH = 3.0


@dataclass(frozen=True, eq=False)
class Heard:
    """What one source said.

    Attributes:
        sums: of its reports; `located` is over the Z K bins of contexts and arms.
        density: (Z K,) where its people and their arms are, relative to uniform.
        located_before: (Z K,) and
        placed_before: those of the sums when the density was last moved.
    """

    sums: KernelStatistics
    density: FloatArray
    located_before: FloatArray
    placed_before: int

    @classmethod
    def first(cls, sums: KernelStatistics) -> Heard:
        """What the first reports said, with people and arms anywhere."""
        bins = len(sums.located)
        return cls(sums, np.ones(bins), np.zeros(bins), 0)

    def with_more(self, sums: KernelStatistics) -> Heard:
        """With what more reports add up to."""
        return replace(self, sums=self.sums + sums)

    def moved(self, policy: KernelSourcePolicy) -> Heard:
        """With the density moved towards where people were located since (density.py), after this
        policy.

        Near the likeliest density a step of expectation maximisation goes p - b of the way. It is
        stretched, by no more than the root of that, because noise is stretched with it.
        """
        located, placed = self.sums.located, self.sums.placed
        if placed == self.placed_before:
            return self
        new = located - self.located_before
        found = new * (len(new) / max(float(new.sum()), 1e-300))
        stretch = min(_MOST_STRETCH, policy.mechanism.contrast**-0.5)
        further = np.maximum(self.density + stretch * (found - self.density), 0.0)
        density = moved(self.density, further, policy.version + 1)
        return Heard(self.sums, density, located, placed)

    def to_fields(self) -> dict[str, Any]:
        """This as JSON values."""
        return {
            "sums": self.sums.to_fields(),
            "density": encode_array(self.density),
            "located_before": encode_array(self.located_before),
            "placed_before": self.placed_before,
        }

    @classmethod
    def from_fields(
        cls,
        fields: dict[str, Any],
        *,
        name: str,
        people: int,
        coefficients: int,
        bins: int,
        dimension: int,
    ) -> Heard:
        """The inverse of `to_fields`, for this source and the learner's numbers.

        Raises:
            InvalidInput: for what reports of these people cannot add up to.
        """
        sums = KernelStatistics.from_fields(fields["sums"])
        sums.check(coefficients, bins, dimension)
        if sums.reports != people or not _is_covariance(sums.precision):
            raise InvalidInput(
                f"the sums of source {name!r} were of {sums.reports} reports, with a precision "
                f"that {people} people do not add up to. The file is damaged."
            )
        density = decode_array(fields["density"], f"density of {name!r}", 1)
        before = decode_array(fields["located_before"], f"located_before of {name!r}", 1)
        placed = whole_number(fields["placed_before"], "placed_before", 0, sums.placed)
        if (
            not density.shape == before.shape == (bins,)
            or not (density > 0.0).all()
            or not ((before >= 0.0) & (before <= sums.located)).all()
        ):
            raise InvalidInput(
                f"the density of source {name!r} had shape {density.shape} and located_before "
                f"{before.shape}; both have {bins} numbers, densities above 0 and the others "
                "from 0 to where people are located now. The file is damaged."
            )
        return cls(sums, density, before, placed)


def _is_covariance(matrix: FloatArray) -> bool:
    """Whether it is symmetric and, but for rounding, not negative in any direction."""
    if not np.array_equal(matrix, matrix.T):
        return False
    slack = 1e-9 * (1.0 + float(np.trace(matrix)))
    try:
        np.linalg.cholesky(matrix + slack * np.eye(len(matrix)))
    except np.linalg.LinAlgError:
        return False
    return True
