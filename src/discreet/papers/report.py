"""Tables for the terminal, and figures in the papers' form, shared by reproductions.

All take the reproduction and its `PaperResults`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from discreet.lab.reporting.figures import Axis, lines
from discreet.lab.reporting.layout import (
    BLUE,
    CHANCE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    Stroke,
    shade,
    tints,
)
from discreet.lab.reporting.numbers import ABSENT, decimals
from discreet.lab.reporting.words import terminal_table
from discreet.papers.reproduction import NON_PRIVATE, OURS, PUBLISHED, REGRET, PaperResults

Row = dict[str, Any]
Cell = Callable[[Row], str]

# Settings that follow from another one.
_HIDDEN = {"kernel"}
_MOST_ROWS = 12  # of all tables on a terminal, where no details are asked for
_HUES = {OURS: BLUE, PUBLISHED: VERMILLION, "ours, local": GREEN, "published, local": PURPLE}
_OTHERS = (GREEN, PURPLE, ORANGE, SKY)
_MARKS = {OURS: "o", "ours, local": "s", PUBLISHED: "^"}
_OTHER_MARKS = ("D", "v", "P")
FREE = Stroke(shade(GREY, 0.5), (0, (5, 2)), 1.4)


@dataclass(frozen=True)
class Presentation:
    """How results are shown; all take the reproduction and its results.

    Attributes:
        table: for the terminal.
        note: the meaning of its columns.
        figure: takes also whether the vertical axis is logarithmic; None for no figure.
    """

    table: Callable[[Any, PaperResults], RenderableType]
    note: Callable[[Any, PaperResults], str]
    figure: Callable[[Any, PaperResults, bool], Figure] | None = None


def rows_of(frame: pd.DataFrame) -> list[Row]:
    """The rows of a frame, with None for missing values."""
    rows: list[Row] = frame.astype(object).where(frame.notna(), None).to_dict("records")  # type: ignore[assignment]
    return rows


def trials_of(frame: pd.DataFrame, what: str = "trial") -> str:
    """How many trials, or runs, there were, in words."""
    counts = sorted(set(frame["trials"]))
    number = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"{number} {what}{'' if counts == [1] else 's'}"


def sections(
    columns: Mapping[str, Cell], headed: Sequence[tuple[str, Row]], **options: Any
) -> Group:
    """A table under each heading, all of one width; of a heading only the first line stands out.

    Args:
        columns: what is written under the name of each.
        headed: rows with their headings.
        options: of `terminal_table`.
    """
    groups: dict[str, list[Row]] = {}
    for heading, row in headed:
        groups.setdefault(heading, []).append(row)
    rows = [row for _, row in headed]
    widths = [max(len(cell(row)) for row in rows) for cell in columns.values()]
    shown: list[Text | Table] = []
    for heading, section in groups.items():
        title, _, about = heading.partition("\n")
        if title:
            shown.append(Text("\n" * bool(shown) + title, style="bold"))
        if about:
            shown.append(Text(about, style="dim"))
        table = terminal_table(list(columns), left=("method",), widths=widths, **options)
        for row in section:
            cells = [Text(cell(row)) for cell in columns.values()]
            table.add_row(*cells, style="" if row["epsilon"] is not None else "dim")
        shown.append(table)
    return Group(*shown)


def shortened(shown: RenderableType) -> tuple[RenderableType, int]:
    """The first tables, up to some rows together and one at least, and how many are left out."""
    parts = shown.renderables if isinstance(shown, Group) else []
    tables = {at: part.row_count for at, part in enumerate(parts, 1) if isinstance(part, Table)}
    fit = max(1, sum(count <= _MOST_ROWS for count in accumulate(tables.values())))
    return (Group(*parts[: list(tables)[fit - 1]]), len(tables) - fit) if tables else (shown, 0)


def add_row(
    table: Table, label: str, rows: Sequence[Row | None], cell: Callable[[Row], str | Text],
    paper: str, style: str = "",
) -> None:  # fmt: skip
    """A row with a cell for each of `rows`, below it the paper's numbers in the format `paper`."""
    table.add_row(label, *("" if row is None else cell(row) for row in rows), style=style)
    papers = [None if row is None else row["paper"] for row in rows]
    if any(number is not None for number in papers):
        indent = " " * (len(label) - len(label.lstrip()) + 2)
        texts = ["" if row is None else printed(row, paper) for row in rows]
        table.add_row(f"{indent}paper", *texts, style="dim")


def printed(row: Row, form: str) -> str:
    """The paper's number, and whether it agrees with ours."""
    if row["paper"] is None:
        return ""
    verdict = {True: " =", False: " ≠", None: "  "}[row["agrees"]]
    return f"{row['paper']:{form}}{verdict}"


def held(row: Row) -> str:
    """The true epsilon, in words."""
    if row["true_epsilon"] is None:
        return ABSENT
    return f"{row['true_epsilon']:.3g}" if math.isfinite(row["true_epsilon"]) else "none"


def promised(row: Row) -> str:
    """The epsilon that was asked for or claimed."""
    return _or_absent(row["epsilon"], ".3g")


def _or_absent(value: float | None, form: str) -> str:
    return ABSENT if value is None else format(value, form)


def regret_table(what: Any, results: PaperResults) -> Group:
    """One row for each case and metric: what was promised beside what the noise guarantees.

    Settings that differ, and metrics, have a heading each; a varied delta is a column, and so is
    what was measured besides.
    """
    rows = rows_of(results.ends[results.ends["role"] != "beside"])
    settings = [row["setting"] for row in rows]
    # Keys that differ and that a reader cannot infer from the others.
    keys = dict.fromkeys(key for setting in settings for key in setting if key not in _HIDDEN)
    varied = [key for key in keys if len({setting.get(key) for setting in settings}) > 1]
    several = len({row["metric"] for row in rows}) > 1

    def heading(row: Row) -> str:
        values = {name: row["setting"].get(name, ABSENT) for name in varied}
        parts = [f"{v:,} people" if name == "rounds" else str(v) for name, v in values.items()]
        return ", ".join(parts + [row["metric"]] * several)

    return sections(_columns(results.ends), [(heading(row), row) for row in rows])


def _columns(ends: pd.DataFrame) -> dict[str, Cell]:
    """The cells of each column; empty columns are left out."""
    columns: dict[str, Cell] = {"method": lambda row: row["method"]}
    # Pure budgets beside others of one delta need no column: that they have none goes without it.
    if len(set(ends["delta"].dropna()) - {0.0}) > 1:
        columns["delta"] = lambda row: _or_absent(row["delta"], "g")
    columns[_head(ends)] = lambda row: _number(row["mean"])
    columns["±"] = lambda row: _error(row["standard_error"])
    if ends["paper"].notna().any():
        columns["paper"] = lambda row: printed(row, ",.0f")
    for name, rows in ends[ends["role"] == "beside"].groupby("metric", sort=False):
        means = dict(zip(rows["case"], rows["mean"], strict=True))
        columns[str(name).replace(" ", "\n")] = _beside(means)
    columns["epsilon\npromised"] = lambda row: _or_absent(row["epsilon"], "g")
    columns["epsilon\nheld"] = held
    if ends["excess_noise"].notna().any():
        columns["noise /\nneeded"] = lambda row: _or_absent(row["excess_noise"], ".2f")
    columns["s"] = lambda row: f"{row['seconds']:.2f}"
    return columns


def _beside(means: Mapping[int, float]) -> Cell:
    return lambda row: _number(means[row["case"]]) if row["case"] in means else ABSENT


def regret_note(what: Any, results: PaperResults) -> str:
    """What the columns mean."""
    ends = results.ends
    people = sorted(set(ends["people"]))
    of = f" of {people[0]:,} people" if len(people) == 1 and _head(ends) == REGRET else ""
    noise = " Noise / needed: below 1, the promise is broken."
    return (
        f"{_head(ends).capitalize()}{of}, mean of {trials_of(ends)}; ±: standard error; s: seconds "
        "of a trial. Epsilon held: by the noise drawn, at the delta asked for."
        f"{noise if ends['excess_noise'].notna().any() else ''}"
    )


def _head(ends: pd.DataFrame) -> str:
    """The name of the main column: any way of counting regret is regret."""
    names = set(ends.loc[ends["role"] != "beside", "metric"])
    return REGRET if any(name.startswith(REGRET) for name in names) else ", ".join(sorted(names))


def _number(value: float, digits: int = 3) -> str:
    """A small number with that many digits, a large one with at most one decimal."""
    if value == 0.0 or not abs(value) < 1.0:
        return f"{value:,.{1 if abs(value) < 1000.0 else 0}f}"
    return f"{value:.{decimals(value, digits, 7)}f}"


def _error(value: float | None) -> str:
    if value is None or not math.isfinite(value):
        return ABSENT
    return _number(value, 2) if value < 100.0 else f"{value:,.0f}"


def hues(cases: pd.DataFrame) -> dict[str, str]:
    """The hue of each method that promises something: its own, or one that no other has."""
    methods = list(dict.fromkeys(cases.loc[cases["epsilon"].notna(), "method"]))
    known = {method: _HUES[method] for method in methods if method in _HUES}
    free = [hue for hue in _OTHERS if hue not in known.values()]
    others = [method for method in methods if method not in _HUES]
    return known | {method: free[place % len(free)] for place, method in enumerate(others)}


def regret_figure(what: Any, results: PaperResults, log_scale: bool = False) -> Figure:
    """Cumulative regret over rounds: a panel for each kind, references in all of them.

    Lines are means over trials, bands their 95% intervals; all panels share the vertical axis
    where references are shared. Methods have hues, darker for less privacy; references are grey.
    """
    drawn = results.curves[results.curves["panel"] != ""]
    frame = drawn.assign(name=drawn["case"].map(str), x=drawn["at"])
    cases = frame.drop_duplicates("case")
    strokes = {
        name: FREE if method == NON_PRIVATE else CHANCE
        for name, method in zip(cases["name"], cases["method"], strict=True)
    }
    private, hue = cases[np.isfinite(cases["epsilon"])], hues(cases)
    for (method, _), own in private.groupby(["method", "panel"], sort=False, dropna=False):
        names = own.sort_values(["epsilon", "delta"])["name"]
        for name, color in zip(names, tints(hue[method], len(own)), strict=True):
            strokes[name] = Stroke(color)
    return lines(
        frame,
        strokes,
        x=Axis("round", whole=True, limits=(0.0, float(frame["at"].max()))),
        y=Axis("cumulative regret", log=log_scale),
        height=3.0,
        same="all" if cases["panel"].isna().any() else "none",
        note=f"mean of {trials_of(drawn)}; bands: 95% intervals",
    )


def trade_off_figure(what: Any, results: PaperResults, log_scale: bool = False) -> Figure:
    """The main metric against epsilon, both logarithmic: means over trials, bars 95% intervals.

    References, which promise nothing, are horizontal lines; all panels of a row have the same axes.
    """
    ends = results.ends[(results.ends["role"] == "main") & (results.ends["panel"] != "")]
    frame = ends.assign(name=ends["method"], x=ends["epsilon"].astype(float))
    frame = frame.drop(columns="paper")
    hue = hues(frame)
    marks = iter(_OTHER_MARKS * len(hue))
    strokes = {method: FREE if method == NON_PRIVATE else CHANCE for method in frame["method"]}
    # Where points coincide, those that were drawn first still show at the rim.
    for (method, color), size in zip(hue.items(), np.linspace(8.0, 5.0, len(hue)), strict=True):
        mark = _MARKS.get(method) or next(marks)
        strokes[method] = Stroke(color, mark=mark, size=float(size))
    epsilons = sorted(set(frame["x"].dropna()))
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
        note=f"mean of {trials_of(ends)}; bars: 95% intervals",
    )


FORMS = {
    "regret": Presentation(regret_table, regret_note, regret_figure),
    "trade-off": Presentation(regret_table, regret_note, trade_off_figure),
}
