"""Reports of auxiliary sources to the kernel bandit: what runs on the side of their people.

The arm of such a person was chosen before, so it is as private as the context. A policy holds F
public sign functions and C public partitions of contexts and arms together. A public question,
drawn without looking at the person and sent along, picks one of each:

* the *sign function* g(x, k) = sign(phi(x)' delta_k), which says which way of the reward counts;
* the *cell function* C(x, k), one of G cells; arm k of K is the level at (k + 1/2) / K of one more
  column.

The reward becomes a sign s by randomised rounding, and (C(x, k), g(x, k) s), one of 2G values, is
reported by 2G-ary randomised response.

*Claim.* The question does not depend on the person. Given it, for any two people with contexts in
the domain, any arms and rewards in their bounds, the mechanism sees one of 2G values, so no report
is more than e^epsilon times as likely from one as from the other. What it does not cover: questions
drawn again until the answer pleases, a second report, and silence.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from discreet.codec import decode_array, encode_array
from discreet.learners.local_kernel.cells import Cells
from discreet.learners.local_kernel.density import DensityBins
from discreet.learners.local_kernel.features import CosineFeatures
from discreet.learners.local_kernel.grid import Grid, grid_of
from discreet.learners.local_kernel.policy import check_coefficients
from discreet.learners.sources import SourcePolicy, SourceReports
from discreet.privacy import NoiseSource, Release
from discreet.privacy.accounting import PureEvent
from discreet.privacy.frequency import SignedSubsetSelection, k_ary_response, round_to_signs
from discreet.validation import FloatArray, IntArray, InvalidInput, SignArray, read_array


@dataclass(frozen=True, eq=False)
class KernelSourceReports(SourceReports):
    """Reports of n people of a source.

    Attributes:
        questions: (n,) public numbers, function * C + partition.
        cells: (n,) reported cells of the policy that made them.
        signs: (n,) reported signs, -1 or +1.
    """

    kind: ClassVar[str] = "local-kernel-source-reports"

    questions: IntArray
    cells: IntArray
    signs: SignArray

    def __len__(self) -> int:
        return len(self.questions)

    def to_fields(self) -> dict[str, Any]:
        return {
            **self.origin_fields(),
            "questions": self.questions.tolist(),
            "cells": self.cells.tolist(),
            "signs": self.signs.tolist(),
        }

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Self:
        return cls(
            **cls.read_origin(fields),
            questions=read_array(fields["questions"], "questions", "whole", 1),
            cells=read_array(fields["cells"], "cells", "whole", 1),
            signs=read_array(fields["signs"], "signs", "whole", 1).clip(-2, 2).astype(np.int8),
        )


@dataclass(frozen=True, eq=False)
class KernelSourcePolicy(SourcePolicy):
    """Functions and partitions, of which a question picks one each (see the module).

    Attributes:
        used: (m,) the features that functions are made of.
        directions: (F, K, m) coefficients delta of the sign functions.
        cells: C partitions of contexts and arms into G cells.
        density: (Z K,) the density of (bin, arm) that reports will be read with.
    """

    kind: ClassVar[str] = "local-kernel-source-policy"

    used: IntArray
    directions: FloatArray
    cells: Cells
    density: FloatArray

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

    @property
    def questions(self) -> int:
        """How many questions there are: F C."""
        return len(self.directions) * len(self.cells.axis)

    def picked(self, questions: IntArray) -> tuple[IntArray, IntArray]:
        """(n,) the sign function and (n,) the partition that questions name."""
        function, partition = np.divmod(questions, len(self.cells.axis))
        return function, partition

    def answers(
        self, unit: FloatArray, arms: IntArray, questions: IntArray
    ) -> tuple[IntArray, SignArray]:
        """(n,) the cells of people, and (n,) which way of their rewards counts."""
        function, partition = self.picked(questions)
        phi = self.features(unit, self.used)
        own = self.directions[function, arms].astype(np.float64)
        asked = np.where((own[:, None, :] @ phi[:, :, None])[:, 0, 0] >= 0.0, 1, -1)
        placed = [self.features.place(unit[:, axis], axis) for axis in range(unit.shape[1])]
        both = np.stack([*placed, arm_places(arms, self.arms)], axis=1)
        return self.cells.locate(both, partition), asked.astype(np.int8)

    def _report(
        self, unit: FloatArray, arms: IntArray, rewards: FloatArray, noise: NoiseSource
    ) -> KernelSourceReports:
        # First of all, and from their number alone: what is public must not depend on people.
        questions = noise.below(self.questions, len(unit))
        cells, asked = self.answers(unit, arms, questions)
        reported, heard = self.mechanism.privatise(
            cells, round_to_signs(rewards, noise) * asked, noise
        )
        return KernelSourceReports(
            **self.origin(noise.name),
            questions=questions,
            cells=reported[:, 0],
            signs=heard[:, 0],
        )

    def release(self, noise: str) -> Release:
        mechanism = self.mechanism
        return Release(
            mechanism=f"randomised response on {2 * mechanism.bins} values",
            event=PureEvent(mechanism.epsilon),
            sensitivity=1.0,
            sensitivity_source=f"any two of the {2 * mechanism.bins} values (cell, sign) are "
            "neighbours",
            scale=mechanism.epsilon,
            people=self.group,
            data="the cell of the context with the arm, and the sign of the rounded reward",
            noise=noise,
        )

    def check(self, reports: KernelSourceReports) -> None:
        """Refuse reports that this policy cannot have made."""
        count, cells = len(reports), self.cells.count
        if count == 0 or not reports.cells.shape == reports.signs.shape == (count,):
            raise InvalidInput(
                f"reports of source {self.name!r} had {count} questions, cells of shape "
                f"{reports.cells.shape} and signs of shape {reports.signs.shape}; each person "
                "reports one cell and one sign for one question, and there must be at least one."
            )
        for what, values, most in (
            ("questions", reports.questions, self.questions),
            ("cells", reports.cells, cells),
        ):
            if not ((values >= 0) & (values < most)).all():
                raise InvalidInput(
                    f"reports of source {self.name!r} had {what} outside 0 .. {most - 1}, those of "
                    f"its policy {self.version}; send them as the policy made them."
                )
        if not (np.abs(reports.signs) == 1).all():
            raise InvalidInput("reports had signs other than -1 and +1; a sign says up or down.")

    def to_fields(self) -> dict[str, Any]:
        return {
            **self.header(),
            "used": self.used.tolist(),
            "directions": encode_array(self.directions),
            "cells": self.cells.to_fields(),
            "density": encode_array(self.density),
        }

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Self:
        header = cls.read_header(fields)
        domain, arms = header["domain"], header["arms"]
        features = CosineFeatures.of(domain.levels, arms)
        used = read_array(fields["used"], "used", "whole", 1)
        directions = decode_array(fields["directions"], "directions", 3)
        density = decode_array(fields["density"], "density", 1)
        bins = len(DensityBins(domain.levels)) * arms
        proper = (
            len(used) > 0
            and len(directions) > 0
            and bool((np.diff(used) > 0).all() and used[0] >= 0 and used[-1] < len(features))
            and directions.shape == (len(directions), arms, len(used))
            and density.shape == (bins,)
            and bool((density > 0.0).all())
        )
        if not proper:
            raise InvalidInput(
                f"the policy of a source had directions of shape {directions.shape}, {len(used)} "
                f"features and {len(density)} bins; they must be (functions, {arms}, features), "
                f"increasing numbers of features below {len(features)}, and {bins} densities "
                "above 0. Send it as it was made."
            )
        check_coefficients("directions", directions)
        return cls(
            **header,
            used=used,
            directions=directions.astype(np.float32),
            cells=Cells.from_fields(fields["cells"], domain.dimension + 1),
            density=density,
        )


def arm_places(arms: IntArray, count: int) -> FloatArray:
    """(n,) where arms lie on the column of arms."""
    places: FloatArray = (arms + 0.5) / count
    return places
