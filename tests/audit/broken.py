"""Ways to break honest learners, which an audit must notice."""

from __future__ import annotations

from typing import Any

from discreet.audit.joint import AnyLearner
from discreet.learners.epochs.learner import EpochLearner
from discreet.learners.epochs.releases import Drawn
from discreet.learners.gp_ucb.learner import GPUCB


def halved_noise(learner: AnyLearner) -> AnyLearner:
    """An epoch learner that draws half the noise, and whose certificate does not know it."""
    assert isinstance(learner, EpochLearner)

    class Halved(type(learner)):  # type: ignore[misc]
        def _multiplier(self, rows: Any) -> float:
            return 0.5 * float(super()._multiplier(rows))

        def guarantee(self) -> Any:
            honest = super()._multiplier(None)
            kept = self._released
            shown = tuple(Drawn(**{**vars(one), "multiplier": honest}) for one in kept[0])
            self._released = shown, kept[1]
            found = super().guarantee()
            self._released = kept
            return found

    learner.__class__ = Halved
    return learner


def reward_in_the_policy(learner: AnyLearner) -> AnyLearner:
    """A kernel learner whose policies' seed tells the sum of rewards, beside all the noise."""
    assert isinstance(learner, GPUCB)

    class Leaking(GPUCB):
        def policy_header(self) -> dict[str, Any]:
            header = super().policy_header()
            told = 0 if self.people == 0 else int(abs(self._sums.row.sum())) % 1000
            return {**header, "public_seed": header["public_seed"] + told}

    learner.__class__ = Leaking
    return learner


def second_draw(learner: AnyLearner) -> AnyLearner:
    """An epoch learner that draws every release twice, and shows the second draw."""
    assert isinstance(learner, EpochLearner)

    class Redrawing(type(learner)):  # type: ignore[misc]
        def _drawn(self, version: int, one: Any) -> Drawn:
            super()._drawn(version, one)
            return super()._drawn(version, one)

    learner.__class__ = Redrawing
    return learner
