"""The report of a study: one HTML file (page.py) that anybody can open, and its figures.

    result.plot.progress().savefig("progress.pdf")

Figures stand for themselves: they know nothing of `pyplot`, nothing shows or changes them later,
and a notebook shows the one that a cell ends with.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from discreet.lab.experiments import BEST_FIXED, HIGHEST, ORACLE, REFERENCES, UNIFORM, Outcome
from discreet.lab.experiments.means import mean_and_band
from discreet.lab.reporting.figures import Axis, lines
from discreet.lab.reporting.layout import (
    BLUE,
    GREEN,
    GREY,
    PURPLE,
    SOLID,
    VERMILLION,
    WIDE,
    Dashes,
    Stroke,
    shade,
    tints,
)
from discreet.lab.reporting.maps import PolicyMaps, maps_of, merged_policies
from discreet.lab.reporting.numbers import listed
from discreet.lab.reporting.page import MAP, image, render, write_page
from discreet.lab.reporting.provenance import Provenance, provenance
from discreet.lab.reporting.summary import Line, Summary, summarise, with_best_fixed
from discreet.lab.reporting.words import (
    APPRAISAL_NOTE,
    appraisals,
    columns,
    promises,
    remarks,
    table_notes,
    table_rows,
    verdict,
)
from discreet.lab.studies import Study
from discreet.people.domain import DecisionSets, arm_count
from discreet.validation import InvalidInput, nearest, positive_number

# A running average over few people is mostly chance: it is drawn from this share of the people on
# and sets the scale from the other.
_DRAWN, _SETTLED = 0.01, 0.1
# A reference leaves the chart where it would take up more than this share of the height, which is
# needed for what is compared; regret is seen from 0 on.
_ROOM = {"reward": 0.4, "regret": 2.0 / 3.0}
_HALF = 4.0  # inches: two maps beside each other
_FAMILIES = (BLUE, VERMILLION, GREEN, PURPLE)
_REFERENCES: dict[str, Dashes] = {
    UNIFORM: (0, (1, 1.5)),
    BEST_FIXED: (0, (5, 2, 1, 2)),
    ORACLE: SOLID,
}
_OTHERS: tuple[Dashes, ...] = ((0, (3, 1, 1, 1, 1, 1)), (0, (8, 2)), (0, (2, 2)))


def write_report(
    study: Study, outcomes: Sequence[Outcome], path: Path, origin: Provenance | None = None
) -> None:
    """Write the report of a study's outcomes, which may be incomplete.

    The file appears whole or not at all.

    Raises:
        InvalidInput: no outcome, or a folder that does not exist.
    """
    write_page(lambda: render_report(study, outcomes, origin), path)


def render_report(
    study: Study, outcomes: Sequence[Outcome], origin: Provenance | None = None
) -> str:
    """The report as HTML; its origin is now, if left out."""
    finished = len(outcomes)
    outcomes = with_best_fixed(study, outcomes)
    summary = summarise(outcomes, study.settings)
    rows = study.problem.rows
    drawn = merged_policies(maps_of(study, outcomes, summary))
    pairs = all(len(each.maps) == 1 for each in drawn)
    glossary = {
        UNIFORM: "every choice equally likely for everyone, whatever came of it",
        HIGHEST: "always the choice with the largest value in one column, whatever came of it",
    }
    return render(
        "study.html.j2",
        study=study,
        origin=origin or provenance(study),
        summary=summary,
        verdict=verdict(summary, study.problem),
        rows_used=rows.sentence if rows is not None and rows.used < rows.read else "",
        finished=finished,
        overridden=_overridden(study),
        rows=table_rows(summary),
        columns=columns(summary),
        minor=("total", "half_width", "over_half_width", "seconds"),
        table_notes=table_notes(summary),
        appraisals=appraisals(summary),
        appraisal_note=APPRAISAL_NOTE,
        brief=promises((line.guarantee for line in summary.private if line.guarantee), brief=True),
        remarks=[*study.problem.warnings, *remarks(outcomes)],
        clipped=tuple(_clipped(outcomes)),
        outside=outside(summary),
        single_replicate=all(line.half_width is None for line in summary.lines),
        progress=image(lambda width: progress_figure(outcomes, summary, width)),
        tradeoff=summary.private and image(lambda width: epsilon_figure(summary, width)),
        maps=[(each, image(each.figure, _HALF if pairs else WIDE, MAP)) for each in drawn],
        pairs=pairs,
        points=arm_count(study.problem.space) is None,
        others_sets=isinstance(study.problem.space, DecisionSets),
        glossary=glossary | REFERENCES,
    )


def _clipped(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Says to which range rewards were clipped at the end of the first replicate."""
    for each in outcomes:
        if clipped := getattr(each.policy, "clipped_to", None):
            least, most = clipped
            yield (
                f"{each.setting.label}: its predictions are of clipped rewards; those below "
                f"{least:,.4g} count as {least:,.4g}, those above {most:,.4g} as {most:,.4g}."
            )


def _overridden(study: Study) -> str:
    """Says where the run was asked for something other than its file says."""
    file = tomllib.loads(study.text)
    asked = [
        f"{name} = {used:,} instead of {file[name]:,}"
        for name, used in (("rounds", study.rounds), ("replicates", study.replicates))
        if file.get(name, used) != used
    ]
    return f"This run had {listed(asked)}." if asked else ""


def progress_figure(
    outcomes: Sequence[Outcome], summary: Summary, width: float = WIDE, height: float = 3.1
) -> Figure:
    """The metric against people served: mean and 95% band over replicates.

    Rewards are shown as the running average per person, regret as the sum so far.
    """
    reward = summary.metric == "reward"
    title = "reward per person so far (running average)"
    frame = pd.concat([_curve(line, outcomes, summary) for line in summary.lines])
    settled = _SETTLED * frame["x"].max() if reward else 0.0
    return lines(
        frame.assign(panel=title if reward else "regret summed over people so far"),
        strokes(summary),
        x=Axis("people served", limits=(0.0, float(summary.rounds)), whole=True),
        y=Axis(limits=_limits(frame[frame["x"] >= settled], summary), most=6),
        width=width,
        height=height,
    )


def epsilon_figure(summary: Summary, width: float = WIDE, height: float = 2.5) -> Figure:
    """The metric against epsilon for each private learner, references as horizontal lines."""
    reward = summary.metric == "reward"
    styles = strokes(summary)
    points = [_point(line, summary, x=np.nan) for line in summary.references]
    families = summary.families
    for place, (family, own) in enumerate(families.items()):
        styles[family] = Stroke(styles[own[-1].label].color, mark="o")
        # A little apart, so that bars at the same epsilon do not overlap.
        aside = 1.03 ** (place - 0.5 * (len(families) - 1))
        label = f"{family}, private"
        points += [
            _point(line, summary, name=family, label=label, x=aside * (line.epsilon or 0.0))
            for line in own
        ]
    frame = pd.DataFrame(points)
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
        y=Axis(limits=_limits(frame, summary), most=6),
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
    for place, (family, private) in enumerate(summary.families.items()):
        hue = _FAMILIES[place % len(_FAMILIES)]
        for line, color in zip(private, tints(hue, len(private)), strict=True):
            styles[line.label] = Stroke(color)
        for line in summary.references:
            if line.family == family:
                styles[line.label] = Stroke(shade(hue, 0.6), (0, (5, 2)))
    rest = [line for line in summary.lines if line.label not in styles]
    for place, line in enumerate(rest):
        dashes = _REFERENCES.get(line.learner, _OTHERS[place % len(_OTHERS)])
        styles[line.label] = Stroke(GREY, dashes, 1.4)
    return styles


def outside(summary: Summary) -> list[Line]:
    """References that leave the chart, so that the others stay distinct.

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
    return pd.DataFrame(_point(line, summary) | {"x": at, "mean": mean, "half_width": half})


def _point(line: Line, summary: Summary, **values: object) -> dict[str, object]:
    """The final metric of one setting, as the trade-off shows it.

    A line that leaves the chart has its value beside its name.
    """
    scale = summary.rounds if summary.metric == "reward" else 1
    gone, label = line in outside(summary), line.label
    if gone:
        label += f": {line.mean / scale:{'.3g' if summary.metric == 'reward' else ',.0f'}}, above"
    point = {"mean": line.mean / scale, "half_width": (line.half_width or 0.0) / scale}
    return {"name": line.label, "label": label, "outside": gone} | point | values


def _limits(frame: pd.DataFrame, summary: Summary) -> tuple[float, float]:
    """Limits of the vertical axis for means and half widths of their intervals.

    Regret starts a little below 0, so that 0 can be seen. A wide interval (two replicates) is cut
    off rather than that the means, which are compared, are pressed into one line.
    """
    seen = frame[~frame["outside"]]
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


# Figures of a result.


@dataclass(frozen=True)
class StudyPlots:
    """The figures of a result, as Matplotlib's own; widths are in inches.

    Attributes:
        study: what was run.
        outcomes: of it, the best single choice for everyone among them.
        numbers: the lines of the result.
    """

    study: Study
    outcomes: tuple[Outcome, ...]
    numbers: Summary

    def progress(self, width: float = WIDE) -> Figure:
        """The metric as people are served: mean and 95% band over replicates."""
        return progress_figure(self.outcomes, self.numbers, positive_number(width, "width"))

    def epsilon(self, width: float = WIDE) -> Figure:
        """The metric against epsilon for each private learner, references as horizontal lines.

        Raises:
            InvalidInput: a study without a private learner.
        """
        if not self.numbers.private:
            raise InvalidInput(
                "there is nothing to draw over epsilon, as no learner of this study is private; "
                "give one an epsilon."
            )
        return epsilon_figure(self.numbers, positive_number(width, "width"))

    def map(self, label: str | None = None, width: float = WIDE) -> Figure:
        """What a learner's last policy of replicate 0 does with whom.

        Args:
            label: of a line of the result, such as "partition, epsilon 1"; the private one with
                the largest epsilon if left out.
            width: of the figure.

        Raises:
            InvalidInput: a label without a map; choices at random have none.
        """
        drawn = {each.label: each for each in self._maps}
        if not drawn:
            raise InvalidInput(
                "no policy of this study can be drawn: references and choices at random have no "
                "map, and a run that was stopped may not have come to replicate 0 of a learner."
            )
        if label is None:
            private = [line for line in self.numbers.private if line.label in drawn]
            best = max(private, key=lambda line: line.epsilon or 0.0, default=None)
            label = next(iter(drawn)) if best is None else best.label
        if label not in drawn:
            raise InvalidInput(
                f"label was {label!r:.80}; maps exist of {', '.join(map(repr, drawn))}."
                f"{nearest(str(label), drawn)}"
            )
        return drawn[label].figure(positive_number(width, "width"))

    def maps(self, width: float = WIDE) -> dict[str, Figure]:
        """The maps of all learners that have one, by label, as in the report."""
        return {each.label: each.figure(positive_number(width, "width")) for each in self._maps}

    @property
    def _maps(self) -> list[PolicyMaps]:
        return maps_of(self.study, self.outcomes, self.numbers)
