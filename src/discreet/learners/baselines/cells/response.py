"""`cell_response`: the device decides, and reports its cell, the arm and the reward together.

*Claim.* A person has one of V = 2 J K values (cell, arm, sign), the sign by randomised rounding of
the reward. Of it the device sends V bits by unary encoding (privacy/frequency.py), so any two
people, whatever their contexts, arms and rewards, make any report within a factor e^epsilon. No
ticket is sent: with it the arm, and so something about the cell, would be public.

Bits are added up, n reports in all; with the bits (+ and -) of a cell and an arm,

    count = (plus + minus - 2 n q) / (p - q),     sum of signs = (plus - minus) / (p - q),

both with noise of variance 2 n q (1 - q) / (p - q)^2 from people who are elsewhere.

| array | shape  | meaning                                                    |
|-------|--------|------------------------------------------------------------|
| bits  | (n, V) | bit 2 (cell K + arm) + 1 for a positive sign, 2 (..) for a |
|       |        | negative one                                               |
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, ClassVar

import numpy as np

from discreet.codec import Shape
from discreet.learners.baselines.cells.learner import CellLearner, CellPolicy
from discreet.learners.messages import LocalArmPolicy, Reports, Totals
from discreet.privacy import NoiseSource, Release
from discreet.privacy.accounting import PureEvent
from discreet.privacy.frequency import UnaryEncoding, round_to_signs
from discreet.validation import BoolArray, FloatArray, IntArray, InvalidInput, TicketArray


@dataclass(frozen=True, eq=False)
class BitReports(Reports):
    """The bits of n people (see the module)."""

    kind: ClassVar[str] = "bit-reports"

    bits: Annotated[BoolArray, Shape("n", "V")]

    def __len__(self) -> int:
        return len(self.bits)


@dataclass(frozen=True, eq=False)
class CellResponsePolicy(CellPolicy, LocalArmPolicy):
    """Arms at random by the shares of the cell."""

    kind: ClassVar[str] = "cell-response-policy"

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.mechanism  # refuses an epsilon that is too small, on arrival

    @cached_property
    def mechanism(self) -> UnaryEncoding:
        """How (cell, arm, sign) is hidden."""
        return UnaryEncoding(2 * self.grid.cells * self.arms, self.epsilon)

    def _probabilities(self, unit: FloatArray) -> FloatArray:
        return np.asarray(self.shares[self.grid.cell(self.grid.places(unit))])

    def reported(
        self,
        unit: FloatArray,
        arms: IntArray,
        rewards: FloatArray,
        tickets: TicketArray,
        noise: NoiseSource,
    ) -> BitReports:
        signs = round_to_signs(rewards, noise)
        values = 2 * (self.grid.cell(self.grid.places(unit)) * self.arms + arms) + (signs > 0)
        bits = self.mechanism.privatise(values, noise)
        return BitReports(**self.origin(noise.name), bits=bits)

    def release(self, noise: str) -> Release | None:
        return Release(
            mechanism="unary encoding of (cell, arm, sign)",
            event=PureEvent(self.mechanism.epsilon),
            sensitivity=1.0,
            sensitivity_source=f"any two of the {self.mechanism.values} values (cell, arm, sign) "
            "are neighbours",
            scale=self.mechanism.epsilon,
            people=self.group,
            data="the cell of the context, the arm and the sign of the reward",
            noise=noise,
        )


class CellResponse(CellLearner[CellResponsePolicy, BitReports]):
    """Decide on the device, send (cell, arm, sign) by optimised unary encoding (see the module).

    Args:
        cells: see `CellLearner`.
    """

    name: ClassVar[str] = "cell_response"
    reports_type = BitReports

    @property
    def _size(self) -> int:
        return 2 * self.grid.cells * self.arms

    def _publish(self) -> CellResponsePolicy:
        return CellResponsePolicy(**self.policy_header(), shares=self._shares())

    def _statistics(self, policy: CellResponsePolicy, reports: BitReports) -> Totals:
        if reports.bits.shape[1] != self._size or len(reports) == 0:
            raise InvalidInput(
                f"reports had bits of shape {reports.bits.shape}; each must have {self._size}, and "
                "there must be at least one."
            )
        return Totals(values=reports.bits.sum(axis=0).astype(np.float64), reports=len(reports))

    def _check_sums(self, statistics: Totals) -> None:
        values, people = statistics.values, statistics.reports
        if values.shape != (self._size,) or values.min() < 0.0 or values.max() > people:
            raise InvalidInput(
                f"statistics of {people} reports had {values.shape} numbers from "
                f"{values.min(initial=0.0):g} to {values.max(initial=0.0):g}; they must be "
                f"{self._size} counts of bits, from 0 to the number of reports."
            )

    def _estimates(self, values: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        mechanism = UnaryEncoding(self._size, self.budget.visit_epsilon)
        each = mechanism.counts(values, self.people).reshape(self.grid.cells, self.arms, 2)
        variance = np.asarray(2.0 * self.people * mechanism.variance())
        return each[..., 1] - each[..., 0], each.sum(axis=2), variance
