"""The policy of the kernel bandit and its reports: what runs on a person's side.

A policy holds F public pairs of functions and C public partitions. A ticket, drawn before anyone
looks at the person, picks one of each:

* the *arm function* A(x) = argmax_k phi(x)' theta_k, by which the person's arm is chosen;
* the *sign function* g(x) = sign(phi(x)' delta_A(x)), which says which way of the reward counts;
* the *cell function* C(x), one of G cells.

The reward becomes a sign s by randomised rounding, and (C(x), g(x) s), one of 2G values, is
reported by 2G-ary randomised response: the truth with probability p = e^eps / (e^eps + 2G - 1), and
each other value with p e^-eps.

*Claim.* A, g, C and G depend on the ticket and on earlier reports only. So for a ticket drawn
without looking at the person, any two contexts in the domain and rewards in their bounds, with the
arms that follow, make no report more than e^epsilon times as likely from one as from the other.
What it does not cover is as in partition/policy.py: tickets drawn again until the arm pleases, a
second report, actions that others can watch, and silence.

*What a device does.* With its ticket it needs one pair of functions, 2 K m numbers, and one
partition of at most 3 (2G - 1) numbers; it evaluates m features and as many multiplications.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from discreet.codec import decode_array, encode_array
from discreet.learners.local_kernel.cells import Cells
from discreet.learners.local_kernel.density import DensityBins
from discreet.learners.local_kernel.features import (
    LARGEST_COEFFICIENT,
    CosineFeatures,
    round_coefficients,
)
from discreet.learners.local_kernel.grid import Grid, grid_of
from discreet.learners.messages import TICKETS, Actions, ArmPolicy, Reports
from discreet.learners.public_randomness import public_uniforms
from discreet.privacy import NoiseSource, Release
from discreet.privacy.accounting import PureEvent
from discreet.privacy.frequency import SignedSubsetSelection, k_ary_response, round_to_signs
from discreet.validation import (
    FloatArray,
    IntArray,
    InvalidInput,
    SignArray,
    TicketArray,
    positive_number,
    read_array,
    whole_vector,
)

# Where a ticket's uniform numbers are used (public_uniforms).
_FUNCTION, _PARTITION = np.array([0]), np.array([1])
# People are evaluated in portions of this many numbers, which bounds memory.
_NUMBERS_AT_ONCE = 2**22


@dataclass(frozen=True, eq=False)
class KernelReports(Reports):
    """Reports of n people.

    Attributes:
        tickets: (n,) public tickets. Two people may draw the same one.
        cells: (n,) reported cells of the policy that made them.
        signs: (n,) reported signs, -1 or +1.
    """

    kind: ClassVar[str] = "local-kernel-reports"

    tickets: TicketArray
    cells: IntArray
    signs: SignArray

    def __len__(self) -> int:
        return len(self.tickets)

    def to_fields(self) -> dict[str, Any]:
        return {
            **self.origin_fields(),
            "tickets": self.tickets.tolist(),
            "cells": self.cells.tolist(),
            "signs": self.signs.tolist(),
        }

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Self:
        tickets = whole_vector(fields["tickets"], "tickets", 0, TICKETS - 1)
        return cls(
            **cls.read_origin(fields),
            tickets=tickets.astype(np.uint64),
            cells=read_array(fields["cells"], "cells", "whole", 1),
            signs=read_array(fields["signs"], "signs", "whole", 1).clip(-2, 2).astype(np.int8),
        )


@dataclass(frozen=True, eq=False)
class KernelPolicy(ArmPolicy):
    """Functions and partitions, of which a ticket picks one each (see the module).

    Attributes:
        used: (m,) the features that functions are made of.
        values: (F, K, m) coefficients theta of the arm functions.
        directions: (F, K, m) coefficients delta of the sign functions.
        cells: C partitions into G cells.
        density: (Z,) the density of contexts that reports will be read with.
        epsilon: budget of one report; infinity for a non-private reference.
    """

    kind: ClassVar[str] = "local-kernel-policy"

    used: IntArray
    values: FloatArray
    directions: FloatArray
    cells: Cells
    density: FloatArray
    epsilon: float

    @cached_property
    def features(self) -> CosineFeatures:
        return CosineFeatures.of(self.domain.levels, self.arms)

    @cached_property
    def mechanism(self) -> SignedSubsetSelection:
        """2G-ary randomised response."""
        return k_ary_response(self.cells.count, self.epsilon)

    @property
    def grid(self) -> Grid:
        """Where integrals over the domain are taken."""
        return grid_of(self.public_seed, self.version, self.features)

    def picked(self, tickets: TicketArray) -> tuple[IntArray, IntArray]:
        """(n,) the pair of functions and (n,) the partition that tickets pick."""
        uniforms = [
            public_uniforms(self.public_seed, self.version, tickets, place)
            for place in (_FUNCTION, _PARTITION)
        ]
        function = (uniforms[0] * len(self.values)).astype(np.int64)
        partition = (uniforms[1] * len(self.cells.axis)).astype(np.int64)
        return function, partition

    def arms_of_all(self, phi: FloatArray) -> IntArray:
        """(n, F) the arm of every arm function at contexts with features (n, m)."""
        functions, arms, size = self.values.shape
        table = self.values.reshape(-1, size).T.astype(np.float64)
        found = np.empty((len(phi), functions), dtype=np.int64)
        most = max(1, _NUMBERS_AT_ONCE // (functions * arms))
        for start in range(0, len(phi), most):
            part = phi[start : start + most] @ table
            found[start : start + most] = part.reshape(-1, functions, arms).argmax(axis=2)
        return found

    def signs_of_all(self, phi: FloatArray, chosen: IntArray) -> SignArray:
        """(n, F) the sign of every sign function for the arms (n, F)."""
        functions, arms, size = self.directions.shape
        table = self.directions.reshape(-1, size).T.astype(np.float64)
        found = np.empty(chosen.shape, dtype=np.int8)
        most = max(1, _NUMBERS_AT_ONCE // (functions * arms))
        for start in range(0, len(phi), most):
            part = (phi[start : start + most] @ table).reshape(-1, functions, arms)
            own = np.take_along_axis(part, chosen[start : start + most, :, None], axis=2)[..., 0]
            found[start : start + most] = np.where(own >= 0.0, 1, -1)
        return found

    def _phi(self, unit: FloatArray) -> FloatArray:
        return self.features(unit, self.used)

    def _probabilities(self, unit: FloatArray) -> FloatArray:
        arms = self.arms_of_all(self._phi(unit))
        shares: FloatArray = (arms[..., None] == np.arange(self.arms)).mean(axis=1)
        return shares

    def _choose(self, unit: FloatArray, tickets: TicketArray) -> tuple[IntArray, FloatArray]:
        all_arms = self.arms_of_all(self._phi(unit))
        arms = all_arms[np.arange(len(unit)), self.picked(tickets)[0]]
        return arms, (all_arms == arms[:, None]).mean(axis=1)

    @property
    def reports_are_private(self) -> bool:
        return True

    def _report(
        self, unit: FloatArray, actions: Actions, rewards: FloatArray, noise: NoiseSource
    ) -> KernelReports:
        function, partition = self.picked(actions.tickets)
        phi = self._phi(unit)
        own = self.directions[function, actions.arms].astype(np.float64)
        asked = np.where((own[:, None, :] @ phi[:, :, None])[:, 0, 0] >= 0.0, 1, -1)
        placed = np.stack(
            [self.features.place(unit[:, axis], axis) for axis in range(unit.shape[1])], axis=1
        )
        cells = self.cells.locate(placed, partition)
        signs = round_to_signs(rewards, noise) * asked
        reported, heard = self.mechanism.privatise(cells, signs.astype(np.int8), noise)
        return KernelReports(
            **self.origin(noise.name),
            tickets=actions.tickets,
            cells=reported[:, 0],
            signs=heard[:, 0],
        )

    def release(self, noise: str) -> Release | None:
        mechanism = self.mechanism
        return Release(
            mechanism=f"randomised response on {2 * mechanism.bins} values",
            event=PureEvent(mechanism.epsilon),
            sensitivity=1.0,
            sensitivity_source=f"any two of the {2 * mechanism.bins} values (cell, sign) are "
            "neighbours",
            scale=mechanism.epsilon,
            people=self.group,
            data="the cell of the context and the sign of the rounded reward",
            noise=noise,
        )

    def check(self, reports: KernelReports) -> None:
        """Refuse reports that this policy cannot have made."""
        count = len(reports)
        if count == 0:
            raise InvalidInput("reports was empty; pass at least one report.")
        if reports.cells.shape != (count,) or reports.signs.shape != (count,):
            raise InvalidInput(
                f"reports had {count} tickets, cells of shape {reports.cells.shape} and signs of "
                f"shape {reports.signs.shape}; each person reports one cell and one sign."
            )
        if not ((reports.cells >= 0) & (reports.cells < self.cells.count)).all():
            raise InvalidInput(
                f"reports had cells outside 0 .. {self.cells.count - 1}, those of policy "
                f"{self.version}; send them as the policy made them."
            )
        if not (np.abs(reports.signs) == 1).all():
            raise InvalidInput("reports had signs other than -1 and +1; a sign says up or down.")

    def to_fields(self) -> dict[str, Any]:
        return {
            **self.header(),
            "used": self.used.tolist(),
            "values": encode_array(self.values),
            "directions": encode_array(self.directions),
            "cells": self.cells.to_fields(),
            "density": encode_array(self.density),
            "epsilon": None if math.isinf(self.epsilon) else self.epsilon,
        }

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Self:
        header = cls.read_header(fields)
        domain, arms = header["domain"], header["arms"]
        features = CosineFeatures.of(domain.levels, arms)
        used = read_array(fields["used"], "used", "whole", 1)
        values = decode_array(fields["values"], "values", 3)
        directions = decode_array(fields["directions"], "directions", 3)
        density = decode_array(fields["density"], "density", 1)
        shape = (len(values), arms, len(used))
        proper = (
            len(used) > 0
            and len(values) > 0
            and bool((np.diff(used) > 0).all() and used[0] >= 0 and used[-1] < len(features))
            and values.shape == directions.shape == shape
            and len(density) == len(DensityBins(domain.levels))
            and bool((density > 0.0).all())
        )
        if not proper:
            raise InvalidInput(
                f"the policy had values of shape {values.shape}, directions of shape "
                f"{directions.shape}, {len(used)} features and {len(density)} bins; they must be "
                f"(functions, {arms}, features) twice, increasing numbers of features below "
                f"{len(features)}, and one positive density for each bin."
            )
        check_coefficients("values", values)
        check_coefficients("directions", directions)
        epsilon = fields["epsilon"]
        return cls(
            **header,
            used=used,
            values=values.astype(np.float32),
            directions=directions.astype(np.float32),
            cells=Cells.from_fields(fields["cells"], domain.dimension),
            density=density,
            epsilon=math.inf if epsilon is None else positive_number(epsilon, "epsilon"),
        )


def check_coefficients(name: str, values: FloatArray) -> None:
    """Refuse coefficients with which sums would not be exact (features.py)."""
    if (np.abs(values) > LARGEST_COEFFICIENT).any() or (round_coefficients(values) != values).any():
        raise InvalidInput(
            f"{name} had numbers beyond {LARGEST_COEFFICIENT} or off their grid; on other numbers "
            "arms would depend on how sums are rounded. Send them as made."
        )
