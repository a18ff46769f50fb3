"""Ways to break honest learners, which an audit must notice, and what it says of one check."""

from __future__ import annotations

import copy
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from discreet.audit import CONFIDENCE
from discreet.audit.checks import Check
from discreet.audit.runner import audit
from discreet.audit.runs import Maker
from discreet.learners.base import Learner
from discreet.learners.epochs.capri import Capri
from discreet.learners.epochs.sums import EpochRelease
from discreet.learners.epochs.usca import Usca
from discreet.learners.gp_ucb.sets.learner import SetsGPUCB
from discreet.privacy import NoiseSource
from discreet.records import Finding
from discreet.validation import InvalidInput


def finding(check: Check, trials: int = 0, confidence: float = CONFIDENCE) -> Finding:
    """What the audit says of a check."""
    *_, found = audit([check], trials, confidence)
    assert isinstance(found, Finding)
    return found


class HalvedNoise(Usca):
    """Draws half the noise, and the certificate does not know it."""

    def _multiplier(self, rows: Any) -> float:
        return 0.5 * float(super()._multiplier(rows))

    def guarantee(self) -> Any:
        honest = super()._multiplier(None)  # type: ignore[arg-type]
        kept = self._released
        shown = tuple(replace(release, multiplier=honest) for release in kept.drawn)
        self._released = replace(kept, drawn=shown)
        held = super().guarantee()
        self._released = kept
        return held


class RewardInThePolicy(SetsGPUCB):
    """The seed of its policies tells the sum of rewards, beside all the noise."""

    _seen = 0

    def _release(self, stream: Any) -> Any:
        self._seen = int(abs(self._sums.row.sum())) % 1000
        return super()._release(stream)

    def policy_header(self) -> dict[str, Any]:
        header = super().policy_header()
        return {**header, "public_seed": header["public_seed"] + self._seen}


class SecondDraw(Usca):
    """Draws every release twice, and shows the second draw."""

    def _drawn(self, version: int, due: Any) -> EpochRelease:
        super()._drawn(version, due)
        return super()._drawn(version, due)


class PublicSums(Capri):
    """Shows the secret sums under a public name."""

    @property
    def progress(self) -> Any:
        return self._sums


class OwnRandomness(Usca):
    """Draws noise from the clock, as it were, where no noise source sees it."""

    def _drawn(self, version: int, due: Any) -> EpochRelease:
        drawn = super()._drawn(version, due)
        return replace(drawn, total=drawn.total + np.random.default_rng().normal())


class SeedOfSums(Usca):
    """Makes its noise from a seed that is read from the secret sums."""

    def _drawn(self, version: int, due: Any) -> EpochRelease:
        assert self.noise is not None
        self.noise = type(self.noise)(int(abs(due.total.sum())))  # type: ignore[call-arg]
        return super()._drawn(version, due)


class CopiedSource(Usca):
    """Draws from a copy of the source, which draws the same again."""

    def _drawn(self, version: int, due: Any) -> EpochRelease:
        self.noise = copy.deepcopy(self.noise)
        return super()._drawn(version, due)


class RowsInAFile(Usca):
    """Writes the secret sums to a file."""

    def _drawn(self, version: int, due: Any) -> EpochRelease:
        Path(os.devnull).write_text(str(due.total))
        return super()._drawn(version, due)


class Refusing(Usca):
    """Refuses whoever brings a reward above the average."""

    def _check_sum(self, version: int, due: Any) -> None:
        super()._check_sum(version, due)
        if due.total.sum() > 0:
            raise InvalidInput("too much.")


@dataclass(frozen=True)
class BrokenMaker(Maker):
    """Makes a learner of another class.

    Attributes:
        kind: the class.
    """

    kind: type[Learner[Any, Any, Any]] = Usca

    def make(self, noise: NoiseSource | None = None) -> Learner[Any, Any, Any]:
        learner = super().make(noise)
        learner.__class__ = self.kind
        return learner
