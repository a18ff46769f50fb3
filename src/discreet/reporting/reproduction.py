"""Reproductions of papers: tables for the terminal, and figures in the papers' form.

All take the frames of `discreet.reproduction.base.Results`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from discreet.reporting.figures import Axis, lines
from discreet.reporting.layout import thousands
from discreet.reporting.palette import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    Stroke,
    shade,
    tint,
)
from discreet.reporting.table import ABSENT
from discreet.reproduction.base import Results
from discreet.reproduction.cases import NON_PRIVATE, OURS, PUBLISHED, REGRET, UNIFORM

Row = dict[str, Any]
Cell = Callable[[Row], str]

# What goes with another key.
_HIDDEN = {"kernel"}
_HUES = {OURS: BLUE, PUBLISHED: VERMILLION, "ours, local": GREEN, "published, local": PURPLE}
_OTHERS = (GREEN, PURPLE, ORANGE, SKY)
_MARKS = {OURS: "o", "ours, local": "s", PUBLISHED: "^"}
_OTHER_MARKS = ("D", "v", "P")
FREE = Stroke(shade(GREY, 0.5), (0, (5, 2)), 1.4)
CHANCE = Stroke(GREY, (0, (1, 1.5)), 1.4)


def rows_of(frame: pd.DataFrame) -> list[Row]:
    """The rows of a frame, with None where there is nothing."""
    rows: list[Row] = frame.astype(object).where(frame.notna(), None).to_dict("records")  # type: ignore[assignment]
    return rows


def counted(frame: pd.DataFrame, what: str = "trial") -> str:
    """How many trials, or runs, there were, in words."""
    counts = sorted(set(frame["trials"]))
    number = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"{number} {what}{'' if counts == [1] else 's'}"


def table(
    columns: Mapping[str, Cell], rows: Sequence[Row], widths: Sequence[int], left: str = "method"
) -> Table:
    """A table whose columns are as wide as those of other tables below or above it."""
    drawn = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for name, width in zip(columns, widths, strict=True):
        side: Literal["left", "right"] = "left" if name == left else "right"
        drawn.add_column(name, justify=side, no_wrap=True, vertical="bottom", min_width=width)
    for row in rows:
        cells = [Text(cell(row)) for cell in columns.values()]
        drawn.add_row(*cells, style="" if row["epsilon"] is not None else "dim")
    return drawn


def widths_of(columns: Mapping[str, Cell], rows: Sequence[Row]) -> list[int]:
    """The length of the longest cell of each column."""
    return [max(len(cell(row)) for row in rows) for cell in columns.values()]


def held(row: Row) -> str:
    """The epsilon that is really kept, in words."""
    if row["true_epsilon"] is None:
        return ABSENT
    return f"{row['true_epsilon']:.3g}" if math.isfinite(row["true_epsilon"]) else "none"


def regret_table(results: Results) -> Group:
    """One row for each case and metric: what was promised beside what the noise guarantees.

    Settings that differ, and metrics, have a heading each; a varied delta is a column, and so is
    what was measured besides.
    """
    rows = rows_of(results.ends[results.ends["role"] != "beside"])
    columns = _columns(results.ends)
    varied = _varied([row["setting"] for row in rows])
    several = len({row["metric"] for row in rows}) > 1
    sections: dict[str, list[Row]] = {}
    for row in rows:
        parts = [_shown(name, row["setting"].get(name, ABSENT)) for name in varied]
        sections.setdefault(", ".join(parts + [row["metric"]] * several), []).append(row)
    widths = widths_of(columns, rows)
    shown: list[Text | Table] = []
    for heading, section in sections.items():
        if heading:
            shown.append(Text(f"\n{heading}", style="bold"))
        shown.append(table(columns, section, widths))
    return Group(*shown)


def _columns(ends: pd.DataFrame) -> dict[str, Cell]:
    """What is written under each heading; a column that would be empty is left out."""
    columns: dict[str, Cell] = {"method": lambda row: row["method"]}
    # Pure budgets beside others of one delta need no column: that they have none goes without it.
    if len(set(ends["delta"].dropna()) - {0.0}) > 1:
        columns["delta"] = lambda row: ABSENT if row["delta"] is None else f"{row['delta']:g}"
    columns[_head(ends)] = lambda row: _number(row["mean"])
    columns["±"] = lambda row: _error(row["standard_error"])
    if ends["paper"].notna().any():
        columns["paper"] = lambda row: ABSENT if row["paper"] is None else f"{row['paper']:,.0f}"
    beside = ends[ends["role"] == "beside"]
    for name, rows in beside.groupby("metric", sort=False):
        means = dict(zip(rows["case"], rows["mean"], strict=True))
        columns[str(name).replace(" ", "\n")] = _beside(means)
    columns["epsilon\npromised"] = lambda row: (
        ABSENT if row["epsilon"] is None else f"{row['epsilon']:g}"
    )
    columns["epsilon\nheld"] = held
    if ends["excess_noise"].notna().any():
        columns["noise /\nneeded"] = lambda row: (
            ABSENT if row["excess_noise"] is None else f"{row['excess_noise']:.2f}"
        )
    columns["s"] = lambda row: f"{row['seconds']:.2f}"
    return columns


def _beside(means: Mapping[int, float]) -> Cell:
    return lambda row: _number(means[row["case"]]) if row["case"] in means else ABSENT


def regret_note(results: Results) -> str:
    """What the columns mean."""
    ends = results.ends
    people = sorted(set(ends["people"]))
    of = f" of {people[0]:,} people" if len(people) == 1 and _head(ends) == REGRET else ""
    noise = (
        "; noise / needed: how many times the least noise that keeps the promise it is, below 1 "
        "where the promise is broken"
    )
    return (
        f"{_head(ends).capitalize()}{of}: mean of {counted(ends)}, ± its standard error. "
        "Epsilon held: what the noise that was drawn guarantees at the delta asked for"
        f"{noise if ends['excess_noise'].notna().any() else ''}. s: seconds of one trial."
    )


def _head(ends: pd.DataFrame) -> str:
    """What the main column is called: any way of counting regret is regret."""
    names = set(ends.loc[ends["role"] != "beside", "metric"])
    return REGRET if any(name.startswith(REGRET) for name in names) else ", ".join(sorted(names))


def _shown(name: str, value: Any) -> str:
    return f"{value:,} people" if name == "rounds" else str(value)


def _number(value: float, digits: int = 3) -> str:
    """So many digits of a small number, no more than one decimal of a large one."""
    if value == 0.0 or not abs(value) < 1.0:
        return f"{value:,.{1 if abs(value) < 1000.0 else 0}f}"
    return f"{value:.{min(max(digits - 1 - math.floor(math.log10(abs(value))), 0), 7)}f}"


def _error(value: float | None) -> str:
    if value is None or not math.isfinite(value):
        return ABSENT
    return _number(value, 2) if value < 100.0 else f"{value:,.0f}"


def _varied(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """The keys that differ and that a reader cannot infer from the others."""
    keys = dict.fromkeys(key for setting in settings for key in setting if key not in _HIDDEN)
    return [key for key in keys if len({setting.get(key) for setting in settings}) > 1]


def regret_figure(results: Results, log_scale: bool = False) -> Figure:
    """Cumulative regret over rounds: a panel for each kind, references in all of them.

    Lines are means over trials, bands their 95% intervals; all panels share the vertical axis
    where references are shared.
    """
    drawn = results.curves[results.curves["panel"] != ""]
    frame = drawn.assign(name=drawn["case"].map(str), x=drawn["at"])
    cases = frame.drop_duplicates("case")
    return lines(
        frame,
        _strokes(cases),
        x=Axis("round", whole=True, limits=(0.0, float(frame["at"].max()))),
        y=Axis("cumulative regret", log=log_scale),
        height=3.0,
        same="all" if cases["panel"].isna().any() else "none",
        note=f"mean of {counted(drawn)}; bands: 95% intervals",
    )


def _strokes(cases: pd.DataFrame) -> dict[str, Stroke]:
    """By name: methods have hues, darker for less privacy; references are grey."""
    strokes = {}
    private = cases[np.isfinite(cases["epsilon"])]
    others = [method for method in dict.fromkeys(private["method"]) if method not in _HUES]
    for (method, _), own in private.groupby(["method", "panel"], sort=False, dropna=False):
        hue = _HUES.get(method) or _OTHERS[others.index(method) % len(_OTHERS)]
        own = own.sort_values(["epsilon", "delta"])
        strengths = np.linspace(0.5, 1.0, len(own)) if len(own) > 1 else np.ones(1)
        for name, strength in zip(own["name"], strengths, strict=True):
            strokes[name] = Stroke(tint(hue, float(strength)))
    for name, method in zip(cases["name"], cases["method"], strict=True):
        strokes.setdefault(name, FREE if method == NON_PRIVATE else CHANCE)
    return strokes


def trade_off_figure(results: Results, log_scale: bool = False) -> Figure:
    """The main metric against epsilon, both logarithmic: means over trials, bars 95% intervals.

    References, which promise nothing, are horizontal lines; all panels of a row have the same axes.
    """
    ends = results.ends[(results.ends["role"] == "main") & (results.ends["panel"] != "")]
    frame = ends.assign(name=ends["method"], x=ends["epsilon"].astype(float))
    frame = frame.drop(columns="paper")
    private = frame[frame["x"].notna()]
    methods = list(dict.fromkeys(private["method"]))
    others = [method for method in methods if method not in _MARKS]
    # Where points coincide, those that were drawn first still show at the rim.
    sizes = np.linspace(8.0, 5.0, max(len(methods), 1))
    strokes = {method: FREE if method == NON_PRIVATE else CHANCE for method in frame["method"]}
    for method, size in zip(methods, sizes, strict=False):
        hue, mark = _HUES.get(method), _MARKS.get(method)
        place = others.index(method) if method in others else 0
        strokes[method] = Stroke(
            hue or (ORANGE, PURPLE, SKY)[place % 3],
            mark=mark or _OTHER_MARKS[place % len(_OTHER_MARKS)],
            size=float(size),
        )
    epsilons = sorted(set(private["x"]))
    return lines(
        frame,
        strokes,
        x=Axis(
            "epsilon (smaller is more private)",
            log=True,
            limits=(epsilons[0] / 1.35, epsilons[-1] * 1.12) if epsilons else None,
            ticks=epsilons,
            names=[f"{epsilon:g}" for epsilon in epsilons],
        ),
        y=Axis(str(ends["metric"].iloc[0]), log=True),
        intervals="bars",
        same="row",
        columns=None if frame["panel"].nunique() <= 3 else 2,
        note=f"mean of {counted(ends)}; bars: 95% intervals",
    )


def sweep_table(results: Results, axis: str) -> Table:
    """Mean and standard error of every curve by the varied quantity, with the paper's below."""
    frame = swept(results, axis)
    values = sorted(set(frame["x"].dropna()))
    keys: list[float | None] = [*([None] if frame["x"].isna().any() else []), *values]
    drawn = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    drawn.add_column("")
    for key in keys:
        drawn.add_column("any" if key is None else thousands(key), justify="right")
    panel: str | None = None
    for (name, label, _), own in frame.fillna({"panel": "in all panels"}).groupby(
        ["panel", "label", "method"], sort=False
    ):
        heading = str(name)
        if heading != panel:
            drawn.add_row(Text(heading, style="bold"))
            panel = heading
        cells = {row["x"]: row for row in rows_of(own)}
        shown = [cells.get(key) for key in keys]
        texts = ["" if row is None else _mean(row) for row in shown]
        drawn.add_row(f"  {label}", *texts, style="dim" if own["epsilon"].isna().all() else "")
        if own["paper"].notna().any():
            papers = ["" if row is None or row["paper"] is None else row["paper"] for row in shown]
            texts = [paper if paper == "" else f"{paper:,.0f}" for paper in papers]
            drawn.add_row("    paper", *texts, style="dim")
    return drawn


def _mean(row: Row) -> str:
    mean, error = row["mean"], row["standard_error"]
    spread = ABSENT if error is None else f"{error:,.0f}" if error >= 100.0 else f"{error:.3g}"
    return f"{mean:,.0f} ±{spread}" if mean >= 100 else f"{mean:.3g} ±{spread}"


def swept(results: Results, axis: str) -> pd.DataFrame:
    """The main metric of each case, `x` the value of the setting's key `axis`, NaN for none."""
    ends = results.ends[results.ends["role"] == "main"]
    values = [setting.get(axis) for setting in ends["setting"]]
    return ends.assign(
        x=[float(value) if isinstance(value, int | float) else math.nan for value in values]
    )


def sweep_figure(results: Results, axis: str, axis_label: str) -> Figure:
    """The main metric against the varied quantity, logarithmic, on one axis in all panels.

    A case without a value of the quantity, such as a reference, is a horizontal line.
    """
    frame = swept(results, axis)
    frame = frame[frame["panel"] != ""]
    keys = ["panel", "label", "method"]
    frame = frame.assign(name=frame.groupby(keys, sort=False, dropna=False).ngroup().map(str))
    crosses = "; crosses: logged by the published program" if frame["paper"].notna().any() else ""
    return lines(
        frame,
        _sweep_strokes(frame.drop_duplicates("name")),
        x=Axis(axis_label, most=4),
        y=Axis(str(frame["metric"].iloc[0]), log=True),
        note=f"mean of {counted(frame)}; bands: 95% intervals{crosses}",
    )


def _sweep_strokes(curves: pd.DataFrame) -> dict[str, Stroke]:
    """By name: methods have hues, darker for later labels; what is flat or second is dashed."""
    strokes = {}
    private = curves[curves["epsilon"].notna()]
    others = [method for method in dict.fromkeys(private["method"]) if method not in _HUES]
    for method, own in private.groupby("method", sort=False):
        hue = _HUES.get(str(method)) or _OTHERS[others.index(method) % 2]
        strengths = np.linspace(0.45, 1.0, len(own)) if len(own) > 1 else np.ones(1)
        for name, x, strength in zip(own["name"], own["x"], strengths, strict=True):
            dashes: tuple[int, tuple[float, ...]] = (0, (4, 2)) if math.isnan(x) else (0, ())
            mark = "" if math.isnan(x) else "o"
            strokes[name] = Stroke(tint(hue, float(strength)), dashes, mark=mark, size=3.0)
    for name, method in zip(curves["name"], curves["method"], strict=True):
        strokes.setdefault(name, CHANCE if method == UNIFORM else FREE)
    return strokes
