"""What reports add up to: J, b, and where their people are likely to be.

Each report, made under some policy, is one measurement t = a' theta + noise of unit variance
(measurement.py), so sums over any reports, of any policies and in any order, say all:

| array     | shape      | sum of                                             |
|-----------|------------|----------------------------------------------------|
| precision | (K M, K M) | J: a a'                                            |
| weighted  | (K M,)     | b: t a                                             |
| located   | (Z,)       | probabilities that the person is in bin z          |
| placed    |            | 1, for reports under policies with several cells   |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from discreet.codec import decode_array, encode_array
from discreet.learners.messages import Statistics
from discreet.validation import FloatArray, InvalidInput, whole_number


@dataclass(frozen=True, eq=False, kw_only=True)
class KernelStatistics(Statistics):
    """See the module's table."""

    kind: ClassVar[str] = "local-kernel-statistics"

    precision: FloatArray
    weighted: FloatArray
    located: FloatArray
    placed: int

    def __add__(self, other: KernelStatistics) -> KernelStatistics:
        if self.precision.shape != other.precision.shape or len(self.located) != len(other.located):
            raise InvalidInput(
                f"statistics of {len(self.weighted)} and {len(other.weighted)} coefficients, and "
                f"of {len(self.located)} and {len(other.located)} bins, cannot be added; they come "
                "from different learners."
            )
        return KernelStatistics(
            precision=self.precision + other.precision,
            weighted=self.weighted + other.weighted,
            located=self.located + other.located,
            placed=self.placed + other.placed,
            **self.tally(other),
        )

    def to_fields(self) -> dict[str, Any]:
        return {
            "precision": encode_array(self.precision),
            "weighted": encode_array(self.weighted),
            "located": encode_array(self.located),
            "placed": self.placed,
            **self.tally_fields(),
        }

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Self:
        precision = decode_array(fields["precision"], "precision", 2)
        weighted = decode_array(fields["weighted"], "weighted", 1)
        if precision.shape != (len(weighted), len(weighted)):
            raise InvalidInput(
                f"precision had shape {precision.shape} and weighted {weighted.shape}; they must "
                "be (N, N) and (N,)."
            )
        return cls(
            precision=precision,
            weighted=weighted,
            located=decode_array(fields["located"], "located", 1),
            placed=whole_number(fields["placed"], "placed"),
            **cls.read_tally(fields),
        )

    def check(self, coefficients: int, bins: int, dimension: int) -> None:
        """Refuse sums that no reports to a learner of d columns add up to.

        Raises:
            InvalidInput: for other shapes, or numbers beyond what these many reports can give.
        """
        if len(self.weighted) != coefficients or len(self.located) != bins:
            raise InvalidInput(
                f"statistics had {len(self.weighted)} coefficients and {len(self.located)} bins; "
                f"this learner has {coefficients} and {bins}."
            )
        # |a_i| is at most the largest value of a feature.
        most = 2.0**dimension * (1.0 + 1e-3) * self.reports
        diagonal = np.diagonal(self.precision)
        proper = (
            bool((diagonal >= 0.0).all() and (diagonal <= most).all())
            and bool((np.abs(self.weighted) <= most).all())
            and bool((self.located >= 0.0).all())
            and self.placed <= self.reports
        )
        if not proper:
            raise InvalidInput(
                "statistics had sums that no reports add up to; send them as statistics() made "
                "them."
            )
