"""A study in numbers: one line for each setting, averaged over replicates.

Everything that is shown (table, figures, report) is read off a `Summary`, so that they agree.
Outcomes may be incomplete after an interruption; each line says over how many replicates it is.

The *share kept* compares a private learner with the same learner without privacy, both measured
from choosing at random:

    share = (value - uniform) / (non-private - uniform)      for rewards, signs flipped for regret
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from discreet.privacy import Guarantee
from discreet.problems.base import Metric
from discreet.simulation import Outcome, Setting
from discreet.validation import InvalidInput

UNIFORM = "uniform"
_ROUNDING = 1e-12  # differences of this share of a mean are rounding errors


@dataclass(frozen=True)
class Line:
    """One setting of a study.

    Attributes:
        setting: what ran.
        mean: the metric summed over people, averaged over replicates.
        standard_error: of that mean; None with one replicate.
        replicates: how many are there.
        seconds: time spent by the learner in a replicate, on average.
        guarantee: the weakest promise of any replicate; None for references.
        share_kept: see the module; None where it cannot be computed.
    """

    setting: Setting
    mean: float
    standard_error: float | None
    replicates: int
    seconds: float
    guarantee: Guarantee | None
    share_kept: float | None = None

    @property
    def label(self) -> str:
        """What tables and plots call the setting."""
        return self.setting.label

    @property
    def learner(self) -> str:
        """The registered name of the learner or reference."""
        return self.setting.learner

    @property
    def private(self) -> bool:
        """Whether anything is promised."""
        return self.setting.private

    @property
    def trust_model(self) -> str:
        """`local`, `joint`, `outsourced` or `none`."""
        return self.setting.budget.trust_model

    @property
    def epsilon(self) -> float | None:
        """The epsilon asked for; None without privacy."""
        return self.setting.budget.epsilon if self.private else None

    @property
    def delta(self) -> float | None:
        """The delta asked for; None without privacy."""
        return self.setting.budget.delta if self.private else None

    @property
    def family(self) -> str:
        """The label without its budget: what settings that differ only in budget share."""
        if self.epsilon is not None:
            return self.label.removesuffix(f", epsilon {self.epsilon:g}")
        return self.label.removesuffix(" (non-private)")


@dataclass(frozen=True)
class Summary:
    """All settings of a study in its order.

    Attributes:
        metric: `reward` (higher is better) or `regret` (lower is better).
        rounds: people in each replicate.
        lines: one for each setting that has at least one outcome.
    """

    metric: Metric
    rounds: int
    lines: tuple[Line, ...]

    @property
    def private(self) -> tuple[Line, ...]:
        """The lines that promise something."""
        return tuple(line for line in self.lines if line.private)

    @property
    def references(self) -> tuple[Line, ...]:
        """The lines without privacy."""
        return tuple(line for line in self.lines if not line.private)

    @property
    def simulated_noise(self) -> bool:
        """Whether some private line drew noise that protects nobody."""
        names = [name for line in self.private if line.guarantee for name in line.guarantee.noise]
        return any("simulation only" in name for name in names)


def summarise(outcomes: Sequence[Outcome], settings: Sequence[Setting] = ()) -> Summary:
    """Average outcomes over replicates.

    Args:
        outcomes: of one study, in any order and number.
        settings: the study's settings, which fix the order of the lines; without them the order
            is that in which they first appear in `outcomes`.

    Raises:
        InvalidInput: no outcome at all, or outcomes of different problems.
    """
    if not outcomes:
        raise InvalidInput("outcomes was empty; a summary needs at least one finished replicate.")
    kinds = {(outcome.record.metric, outcome.record.rounds) for outcome in outcomes}
    if len(kinds) > 1:
        raise InvalidInput(
            "outcomes had different metrics or numbers of rounds; summarise one study at a time."
        )
    groups: dict[str, list[Outcome]] = {setting.label: [] for setting in settings}
    for outcome in outcomes:
        groups.setdefault(outcome.setting.label, []).append(outcome)
    lines = [_line(group) for group in groups.values() if group]
    metric, rounds = kinds.pop()
    sign = 1.0 if metric == "reward" else -1.0
    shares = [_share_kept(line, lines, sign) for line in lines]
    return Summary(
        metric,
        rounds,
        tuple(replace(a, share_kept=b) for a, b in zip(lines, shares, strict=True)),
    )


def _line(outcomes: Sequence[Outcome]) -> Line:
    values = np.array([outcome.record.value for outcome in outcomes])
    count = len(values)
    error = float(values.std(ddof=1)) / math.sqrt(count) if count > 1 else None
    if error is not None and error < _ROUNDING * abs(values.mean()):
        error = 0.0  # the same people in another order, added up
    promises = [outcome.guarantee for outcome in outcomes if outcome.guarantee is not None]
    weakest = max(promises, key=lambda g: (g.epsilon, g.delta, g.releases), default=None)
    return Line(
        setting=outcomes[0].setting,
        mean=float(values.mean()),
        standard_error=error,
        replicates=count,
        seconds=float(np.mean([outcome.record.seconds for outcome in outcomes])),
        guarantee=weakest,
    )


def _share_kept(line: Line, lines: Sequence[Line], sign: float) -> float | None:
    """The module's share for one line; `sign` is -1 for regret."""
    start = next((other for other in lines if other.learner == UNIFORM), None)
    free = next((other for other in lines if _is_free_version(other, line)), None)
    if not line.private or start is None or free is None:
        return None
    gain = sign * (free.mean - start.mean)
    # A share of a gain that may be chance says nothing; one replicate cannot tell.
    if gain <= 2.0 * math.hypot(free.standard_error or 0.0, start.standard_error or 0.0):
        return None
    return sign * (line.mean - start.mean) / gain


def _is_free_version(other: Line, line: Line) -> bool:
    """Whether `other` is the same learner with the same options, without privacy."""
    same = other.learner == line.learner and other.setting.options == line.setting.options
    return same and not other.private
