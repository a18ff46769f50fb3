"""Table 2 of Ma et al. (2025): ratios to a reference, as a table and as a figure."""

from __future__ import annotations

import math
from itertools import product

from matplotlib.figure import Figure
from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from discreet.reporting.figures import Axis, lines
from discreet.reporting.palette import BLUE, GREEN, PURPLE, VERMILLION, Stroke
from discreet.reporting.reproduction import Row, counted, rows_of
from discreet.reporting.table import ABSENT
from discreet.reproduction.base import Results
from discreet.reproduction.cases import OURS, PUBLISHED
from discreet.reproduction.ma2025.table import LINEAR, NEURAL

_HUES = {OURS: BLUE, PUBLISHED: VERMILLION, LINEAR: GREEN, NEURAL: PURPLE}


def ratio_table(results: Results) -> Group:
    """A table for each data set and time: columns are methods; rows are budgets, with auxiliary
    data and without, the paper's numbers below."""
    shown: list[Text | Table] = []
    for panel, own in results.ends.groupby("panel", sort=False):
        rows = rows_of(own)
        methods = sorted({row["method"] for row in rows}, key=list(_HUES).index)
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
        table.add_column("epsilon, auxiliary", no_wrap=True)
        for method in methods:
            table.add_column(method, justify="right", no_wrap=True)
        cells = dict.fromkeys((row["epsilon"], row["epsilon_auxiliary"]) for row in rows)
        for cell, with_data in product(cells, (True, False)):
            by = {
                row["method"]: row
                for row in rows
                if (row["epsilon"], row["epsilon_auxiliary"], row["auxiliary_data"])
                == (*cell, with_data)
            }
            word = "with" if with_data else "without"
            ratios = [_ratio(by[key]) if key in by else Text(ABSENT) for key in methods]
            table.add_row(f"{cell[0]:g}, {cell[1]:g} {word}", *ratios)
            papers = [by[key]["paper"] if key in by else None for key in methods]
            if any(paper is not None for paper in papers):
                texts = ["" if paper is None else f"{paper:.3f}" for paper in papers]
                table.add_row("  paper", *texts, style="dim")
        shown += [Text(f"{chr(10) * bool(shown)}{panel}", style="bold"), table]
    return Group(*shown)


def _ratio(row: Row) -> Text:
    star = "*" if row["significant"] else ""
    return Text(f"{row['mean']:.3f}{star}", style="bold" if row["best"] else "")


def ratio_note(results: Results) -> str:
    """What the table's marks mean."""
    largest = results.ends["standard_error"].max()
    errors = "" if math.isnan(largest) else f"; the largest standard error is {largest:.3f}"
    return (
        f"Ratios of mean reward to that of ABSE, over {counted(results.ends)}{errors}. "
        "With, without: auxiliary data. Bold: the best of a cell; *: "
        "significantly better than all others there (Wilcoxon signed-rank test, two-sided, "
        "p < 0.05; it needs at least 6 trials)."
    )


def ratio_figure(results: Results, log_scale: bool = False) -> Figure:
    """A panel for each data set and time; full points with auxiliary data, hollow without."""
    ends = results.ends
    cells = list(dict.fromkeys(zip(ends["epsilon"], ends["epsilon_auxiliary"], strict=True)))
    kinds = list(dict.fromkeys(ends["label"]))
    beside = [0.5 * (n + 0.5) / len(kinds) - 0.25 for n in range(len(kinds))]
    frame = ends.assign(
        name=ends["label"],
        x=[
            cells.index((row["epsilon"], row["epsilon_auxiliary"]))
            + beside[kinds.index(row["label"])]
            for row in rows_of(ends)
        ],
    ).drop(columns="paper")
    strokes = {
        row["label"]: Stroke(
            _HUES[row["method"]], width=0.0, mark="o", hollow=not row["auxiliary_data"]
        )
        for row in rows_of(frame.drop_duplicates("label"))
    }
    low = float((frame["mean"] - frame["half_width"]).min())
    top = float((frame["mean"] + frame["half_width"]).max())
    margin = 0.06 * (max(top, 1.0) - min(low, 1.0)) or 0.1
    figure = lines(
        frame,
        strokes,
        x=Axis(
            "epsilon, auxiliary epsilon",
            limits=(-0.5, len(cells) - 0.5),
            ticks=range(len(cells)),
            names=[f"{own:g}, {other:g}" for own, other in cells],
        ),
        y=Axis("ratio to ABSE", limits=(min(low, 1.0) - margin, max(top, 1.0) + margin)),
        intervals="bars",
        columns=min(ends["panel"].nunique(), 2),
        note="full: with auxiliary data; hollow: without; bars: 95% intervals",
    )
    for axes in figure.axes:
        axes.axhline(1.0, color="#6B6B6B", linewidth=1.0, linestyle=(0, (1, 1.5)), zorder=0.5)
    return figure
