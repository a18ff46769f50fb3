"""A study in numbers: one line for each setting, over replicates, and what decisions compare.

Everything that is shown (verdict, table, figures, report) is read off a `Summary`, so that they
agree. Outcomes may be incomplete after an interruption; each line says over how many replicates it
is. All numbers come from one frame:

| frame  | rows       | columns | values                             |
|--------|------------|---------|------------------------------------|
| values | replicates | labels  | the metric summed over the people  |

All settings of a replicate meet the same people in the same order, so settings are compared within
replicates: a `Difference` is the mean over replicates of the difference for each person, in the
direction in which more is better. Its p-value is Holm's, adjusted for all comparisons of private
learners in the study.

The *share kept* compares a private learner with itself without privacy, both measured from
choosing at random; it says nothing about what else could have been done:

    share = (value - uniform) / (non-private - uniform)      for rewards, signs flipped for regret
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pandas as pd

from discreet.lab.environments.base import Metric
from discreet.lab.experiments import (
    BEST_FIXED,
    HIGHEST,
    UNIFORM,
    Appraisal,
    Outcome,
    Setting,
    simulate,
)
from discreet.lab.experiments.means import CONFIDENCE, half_width, holm, mean_and_error, p_value
from discreet.lab.studies import Study
from discreet.people.domain import arm_count
from discreet.privacy import Guarantee
from discreet.validation import InvalidInput

_ROUNDING = 1e-12  # differences of this share of what is compared are rounding errors
# What a private learner is compared with: the best single choice for everyone, choosing at random,
# and itself without privacy.
Rival = Literal["fixed", "rule", "uniform", "free"]


@dataclass(frozen=True)
class Difference:
    """How much better one setting did than another, for each person (see the module).

    Attributes:
        mean: positive where the first did better.
        half_width: of the 95% interval; None with one replicate.
        p_value: adjusted for the number of comparisons; None with one replicate.
    """

    mean: float
    half_width: float | None
    p_value: float | None

    @property
    def sign(self) -> int | None:
        """1 or -1 where it is more than chance, 0 where it may be chance, None if nothing tells."""
        if self.p_value is None:
            return None
        return int(np.sign(self.mean)) if self.p_value < 1.0 - CONFIDENCE else 0


@dataclass(frozen=True)
class Line:
    """One setting of a study.

    Attributes:
        setting: what ran.
        mean: the metric summed over people, averaged over replicates.
        half_width: of the 95% interval of that mean; None with one replicate.
        replicates: how many are there.
        seconds: time spent by the learner in a replicate, on average.
        guarantee: the weakest promise of any replicate; None for references.
        share_kept: see the module; None where it cannot be computed.
        over: the differences from its rivals, as far as they ran.
        appraisal: what the learner says of its recommendation after the first replicate.
    """

    setting: Setting
    mean: float
    half_width: float | None
    replicates: int
    seconds: float
    guarantee: Guarantee | None
    share_kept: float | None
    over: dict[Rival, Difference]
    appraisal: Appraisal | None = None

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
    def epsilon(self) -> float | None:
        """The epsilon asked for; None without privacy."""
        return self.setting.budget.epsilon if self.private else None

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
    def families(self) -> dict[str, list[Line]]:
        """The private lines of each family, smallest epsilon first."""
        families: dict[str, list[Line]] = {line.family: [] for line in self.private}
        for line in sorted(self.private, key=lambda line: line.epsilon or 0.0):
            families[line.family].append(line)
        return families

    @property
    def rival(self) -> Rival | None:
        """What the table compares each line with; None where nothing comparable ran."""
        ran = {rival for line in self.lines for rival in line.over}
        ruled = any("rule" in line.over for line in self.private)
        order: tuple[Rival, ...] = ("rule", "fixed", "uniform") if ruled else ("fixed", "uniform")
        return next((rival for rival in order if rival in ran), None)

    @property
    def comparisons(self) -> int:
        """How many differences of private learners there are, for which p-values are adjusted."""
        return sum(len(line.over) for line in self.private)

    @property
    def simulated_noise(self) -> bool:
        """Whether some private line drew noise that protects no one."""
        names = [name for line in self.private if line.guarantee for name in line.guarantee.noise]
        return any("simulation only" in name for name in names)


def with_best_fixed(study: Study, outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The outcomes, with `best_fixed` in every replicate where the problem has it.

    It has none where everyone brings points of their own. Where everyone can be given the same
    points it is what learners search for, and it is not added.
    """
    if arm_count(study.problem.space) is None:
        return list(outcomes)
    present = {o.record.replicate for o in outcomes if o.record.learner == BEST_FIXED}
    missing = sorted({o.record.replicate for o in outcomes} - present)
    asked = [setting for setting in study.settings if setting.learner == BEST_FIXED]
    taken = {setting.label for setting in study.settings}
    label = "best single choice" if BEST_FIXED in taken else BEST_FIXED
    reference = asked[0] if asked else Setting(BEST_FIXED, label)
    return [
        *outcomes,
        *(
            simulate(study.problem, reference, study.rounds, study.seed, replicate, study.name)
            for replicate in missing
        ),
    ]


def summarise(outcomes: Sequence[Outcome], settings: Sequence[Setting] = ()) -> Summary:
    """Average outcomes over replicates, and compare settings within them.

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
    metric, rounds = kinds.pop()
    values = pd.DataFrame(
        {
            label: pd.Series({o.record.replicate: o.record.value for o in group})
            for label, group in groups.items()
            if group
        }
    )
    # For each person, and so that more is better.
    gains = values * (1.0 if metric == "reward" else -1.0) / rounds
    lines = [_line(group, values, gains, groups) for group in groups.values() if group]
    return Summary(metric, rounds, _adjusted(lines))


def _line(
    outcomes: Sequence[Outcome],
    values: pd.DataFrame,
    gains: pd.DataFrame,
    groups: dict[str, list[Outcome]],
) -> Line:
    setting = outcomes[0].setting
    mine = values[setting.label].dropna()
    mean, error = mean_and_error(mine)
    promises = [outcome.guarantee for outcome in outcomes if outcome.guarantee is not None]
    rivals = _rivals(setting, [group[0].setting for group in groups.values() if group], gains)
    return Line(
        setting=setting,
        mean=mean,
        half_width=half_width(error, len(mine)) if len(mine) > 1 else None,
        replicates=len(mine),
        seconds=float(np.mean([outcome.record.seconds for outcome in outcomes])),
        guarantee=max(promises, key=lambda g: (g.epsilon, g.delta, g.releases), default=None),
        share_kept=_share_kept(gains, setting.label, rivals) if setting.private else None,
        over={
            rival: difference
            for rival, label in rivals.items()
            if (difference := _difference(gains, setting.label, label)) is not None
        },
        appraisal=next((o.appraisal for o in outcomes if o.appraisal is not None), None),
    )


def _rivals(setting: Setting, others: Sequence[Setting], gains: pd.DataFrame) -> dict[Rival, str]:
    """The labels of what a setting is compared with; of several rules the best one counts."""
    rivals: dict[Rival, str] = {}
    rules = [other.label for other in others if other.learner == HIGHEST]
    if rules:
        rivals["rule"] = str(gains[rules].mean().idxmax())
    for other in others:
        same = other.learner == setting.learner and other.options == setting.options
        if other.label == setting.label:
            continue
        if other.learner == BEST_FIXED:
            rivals["fixed"] = other.label
        elif other.learner == UNIFORM:
            rivals["uniform"] = other.label
        elif setting.private and same and not other.private:
            rivals["free"] = other.label
    return rivals


def _difference(gains: pd.DataFrame, label: str, rival: str) -> Difference | None:
    """Over the replicates that ran both; None where none did. Its p-value stands for itself."""
    pairs = (gains[label] - gains[rival]).dropna()
    if pairs.empty:
        return None
    mean, error = mean_and_error(pairs)
    # Sums of the same rewards in another order differ by their rounding.
    scale = float(np.nanmax(np.abs(gains[[label, rival]].to_numpy())))
    mean, error = (0.0 if abs(part) < _ROUNDING * scale else part for part in (mean, error))
    if len(pairs) == 1:
        return Difference(mean, None, None)
    count = len(pairs)
    return Difference(mean, half_width(error, count), p_value(mean, error, count))


def _adjusted(lines: Sequence[Line]) -> tuple[Line, ...]:
    """Lines whose p-values allow for all comparisons of private learners."""
    compared = [(a, b) for a, line in enumerate(lines) if line.private for b in line.over]
    alone = [lines[place].over[rival].p_value for place, rival in compared]
    adjusted = iter(holm([math.nan if p is None else p for p in alone]))
    over: list[dict[Rival, Difference]] = [dict(line.over) for line in lines]
    for place, rival in compared:
        p = next(adjusted)
        over[place][rival] = replace(over[place][rival], p_value=None if math.isnan(p) else p)
    return tuple(replace(line, over=own) for line, own in zip(lines, over, strict=True))


def _share_kept(gains: pd.DataFrame, label: str, rivals: dict[Rival, str]) -> float | None:
    """The module's share for one private setting."""
    if not {"uniform", "free"} <= set(rivals):
        return None
    gain = _difference(gains, rivals["free"], rivals["uniform"])
    kept = _difference(gains, label, rivals["uniform"])
    # A share of a gain that may be chance says nothing; one replicate cannot tell.
    if gain is None or kept is None or gain.mean <= (gain.half_width or 0.0):
        return None
    return kept.mean / gain.mean
