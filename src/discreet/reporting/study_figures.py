"""The two figures of a study: how the metric grew over people, and what each epsilon costs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from discreet.experiments import BEST_FIXED, ORACLE, UNIFORM, Outcome
from discreet.experiments.means import mean_and_band
from discreet.reporting.figures import Axis, lines
from discreet.reporting.layout import WIDE
from discreet.reporting.palette import FAMILIES, GREY, Dashes, Stroke, budget_strokes, shade
from discreet.reporting.summary import Line, Summary

# A running average over few people is mostly chance: it is drawn from this share of the people on
# and sets the scale from the other.
_DRAWN, _SETTLED = 0.01, 0.1
# A reference leaves the chart where it would take up more than this share of the height, which is
# needed for what is compared; regret is seen from 0 on.
_ROOM = {"reward": 0.4, "regret": 2.0 / 3.0}
_REFERENCES: dict[str, Dashes] = {
    UNIFORM: (0, (1, 1.5)),
    BEST_FIXED: (0, (5, 2, 1, 2)),
    ORACLE: (0, ()),
}
_OTHERS: tuple[Dashes, ...] = ((0, (3, 1, 1, 1, 1, 1)), (0, (8, 2)), (0, (2, 2)))


def progress_figure(
    outcomes: Sequence[Outcome], summary: Summary, width: float = WIDE, height: float = 3.1
) -> Figure:
    """The metric against people served: mean and 95% band over replicates.

    Rewards are shown as the running average per person, regret as the sum so far.
    """
    reward = summary.metric == "reward"
    title = "reward per person so far (running average)"
    frame = pd.concat([_curve(line, outcomes, summary) for line in summary.lines])
    last = frame["x"].max()
    seen = frame[~frame["name"].isin([line.label for line in outside(summary)])]
    settled = seen[seen["x"] >= (_SETTLED * last if reward else 0.0)]
    return lines(
        frame.assign(panel=title if reward else "regret summed over people so far"),
        strokes(summary),
        x=Axis("people served", limits=(0.0, float(summary.rounds)), whole=True),
        y=Axis(limits=_limits(settled, summary), most=6),
        width=width,
        height=height,
    )


def epsilon_figure(summary: Summary, width: float = WIDE, height: float = 2.5) -> Figure:
    """The metric against epsilon for each private learner, references as horizontal lines."""
    reward = summary.metric == "reward"
    styles = strokes(summary)
    references = pd.DataFrame([_point(line, summary) for line in summary.references])
    frames = [references.assign(x=np.nan)]
    families = list(dict.fromkeys(line.family for line in summary.private))
    for place, family in enumerate(families):
        own = [line for line in summary.private if line.family == family]
        own.sort(key=lambda line: line.epsilon or 0.0)
        styles[family] = Stroke(styles[own[-1].label].color, mark="o")
        # A little apart, so that bars at the same epsilon can be told apart.
        aside = 1.03 ** (place - 0.5 * (len(families) - 1))
        points = pd.DataFrame([_point(line, summary) for line in own])
        at = [aside * (line.epsilon or 0.0) for line in own]
        frames.append(points.assign(name=family, label=f"{family}, private", x=at))
    frame = pd.concat(frames, ignore_index=True)
    seen = frame[~frame["name"].isin([line.label for line in outside(summary)])]
    budgets = sorted({line.epsilon or 0.0 for line in summary.private})
    return lines(
        frame.assign(panel="reward per person" if reward else "regret summed over all people"),
        styles,
        x=Axis(
            "epsilon (smaller is more private)",
            log=bool(budgets),
            limits=(budgets[0] / 1.35, budgets[-1] * 1.35) if budgets else None,
            ticks=budgets,
            names=[f"{epsilon:g}" for epsilon in budgets],
        ),
        y=Axis(limits=_limits(seen, summary), most=6),
        intervals="bars",
        width=width,
        height=height,
    )


def strokes(summary: Summary) -> dict[str, Stroke]:
    """The stroke of each label.

    Learners share a hue over their budgets, darker for a larger epsilon and dashed without
    privacy; references that exist only without privacy are grey.
    """
    styles: dict[str, Stroke] = {}
    for place, family in enumerate(dict.fromkeys(line.family for line in summary.private)):
        hue = FAMILIES[place % len(FAMILIES)]
        own = [line for line in summary.lines if line.family == family]
        private = sorted((line for line in own if line.private), key=lambda x: x.epsilon or 0.0)
        styles |= budget_strokes([line.label for line in private], hue)
        free = Stroke(shade(hue, 0.6), (0, (5, 2)))
        styles |= {line.label: free for line in own if not line.private}
    rest = [line for line in summary.lines if line.label not in styles]
    for place, line in enumerate(rest):
        dashes = _REFERENCES.get(line.learner, _OTHERS[place % len(_OTHERS)])
        styles[line.label] = Stroke(GREY, dashes, 1.4)
    return styles


def outside(summary: Summary) -> list[Line]:
    """References that leave the chart, so that the others can be told apart.

    The oracle of a small table, which is fitted to chance, may be far above what can be learnt; so
    may be the regret of choices that learn nothing.
    """
    kinds = (ORACLE,) if summary.metric == "reward" else (UNIFORM, BEST_FIXED)
    others = [line for line in summary.lines if line.learner not in kinds]
    rest = [(line.mean, line.half_width or 0.0) for line in others]
    if not rest:
        return []
    low = min(mean - half for mean, half in rest) if summary.metric == "reward" else 0.0
    high = max(mean + half for mean, half in rest)
    room = _ROOM[summary.metric]
    limit = high + room / (1.0 - room) * (high - low)
    return [line for line in summary.lines if line.learner in kinds and line.mean > limit]


def _curve(line: Line, outcomes: Sequence[Outcome], summary: Summary) -> pd.DataFrame:
    """People, mean and half the width of the band for one setting."""
    own = [outcome for outcome in outcomes if outcome.setting.label == line.label]
    at = own[0].rounds
    traces = np.stack([outcome.trace for outcome in own])
    if summary.metric == "reward":
        drawn = at >= _DRAWN * at[-1]
        at, traces = at[drawn], traces[:, drawn] / at[drawn]
    mean, half = mean_and_band(traces)
    return pd.DataFrame(
        {
            "name": line.label,
            "label": _end_name(line, summary),
            "x": at,
            "mean": mean,
            "half_width": half,
        }
    )


def _point(line: Line, summary: Summary) -> dict[str, object]:
    """The final metric of one setting, as the trade-off shows it."""
    scale = summary.rounds if summary.metric == "reward" else 1
    return {
        "name": line.label,
        "label": _end_name(line, summary),
        "mean": line.mean / scale,
        "half_width": (line.half_width or 0.0) / scale,
    }


def _limits(seen: pd.DataFrame, summary: Summary) -> tuple[float, float]:
    """Limits of the vertical axis for means and half widths of their intervals.

    Regret starts a little below 0, so that 0 can be seen. A wide interval (two replicates) is cut
    off rather than that the means, which are compared, are pressed into one line.
    """
    mean, half = seen["mean"], seen["half_width"]
    low, high = float(mean.min()), float(mean.max())
    reach = 0.35 * max(high - low, 1e-3 * max(abs(high), abs(low)))
    below = max(float((mean - half).min()), low - reach)
    above = min(float((mean + half).max()), high + reach)
    if summary.metric == "regret":
        top = max(1.04 * above, 1e-9)
        return -0.03 * top, top
    pad = max(0.06 * (above - below), 1e-3 * max(abs(above), abs(below)), 1e-9)
    return below - pad, above + pad


def _end_name(line: Line, summary: Summary) -> str:
    """The label; where the line is outside the chart, with its value."""
    if line not in outside(summary):
        return line.label
    reward = summary.metric == "reward"
    value = f"{line.mean / summary.rounds:.3g}" if reward else f"{line.mean:,.0f}"
    return f"{line.label}: {value}, above"
