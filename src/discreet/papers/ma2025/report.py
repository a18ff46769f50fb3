"""What only Ma et al. (2025) have: Figures 4, 5 (the setting) and 6 (running averages), Table 2.

Figure 6 has a column of panels for each method: regret per person over all people, the same at one
context, and how often each arm was offered at that context, from `cases.py`. Table 2 has ratios to
a reference, here as a table and as a figure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from rich.console import Group
from rich.table import Table
from rich.text import Text

from discreet.lab.environments.synthetic import Centres, ExponentialMeans, symmetric_means
from discreet.lab.reporting.figures import Axis, draw_lines, heat, number_axis, ruler
from discreet.lab.reporting.figures import lines as lines_of
from discreet.lab.reporting.layout import (
    BLUE,
    BODY,
    CHANCE,
    GREEN,
    GREY,
    INK,
    PURPLE,
    SKY,
    SMALL,
    VERMILLION,
    Stroke,
    arm_colors,
    entitle,
    finish,
    legend_above,
    mosaic,
    sheet,
    tints,
)
from discreet.lab.reporting.numbers import ABSENT, thousands
from discreet.lab.reporting.words import terminal_table
from discreet.papers.ma2025.data import LOCAL_REGRET, PROBE
from discreet.papers.ma2025.figures import LINEAR, NEURAL, RANK_SUM, TransferFigure, rank_sums
from discreet.papers.report import (
    FREE,
    Presentation,
    Row,
    add_row,
    hues,
    rows_of,
    trials_of,
)
from discreet.papers.reproduction import (
    NON_PRIVATE,
    OURS,
    PUBLISHED,
    REGRET,
    UNIFORM,
    PaperResults,
)
from discreet.validation import FloatArray

# Of lines of Figure 6: none of them is the colour of one of the first three arms.
_LINES = (VERMILLION, PURPLE, SKY, INK)
_GIVEN_UP: dict[str, Any] = {"color": "black", "linestyle": (0, (4, 2)), "linewidth": 1.1}
_CURVE, _SHARES, _PANEL = 1.75, 0.8, 2.4  # inches: heights of axes
_HUES = {OURS: BLUE, PUBLISHED: VERMILLION, LINEAR: GREEN, NEURAL: PURPLE, UNIFORM: GREY}
_POINTS = 201
_CENTRES: dict[str, Centres] = {
    "exponential mean rewards, centres k / K (the paper's text)": "paper",
    "exponential mean rewards, centres k / (K + 1) (its program)": "program",
}


def setting_figure(arms: int = 3, gammas: Sequence[float] = (0.2, 1.0, 2.0)) -> Figure:
    """Three rows: exponential mean rewards along the first column, symmetric ones on the square
    (supplement S.4.3), and the densities c ||x - 1/2||^gamma.

    Args:
        arms: K of the exponential rewards; the symmetric ones have two arms.
        gammas: one panel each.
    """
    densities = {f"density of contexts, gamma {gamma:g}": density(gamma) for gamma in gammas}
    at = (np.arange(_POINTS) + 0.5) / _POINTS
    second, first = np.meshgrid(at, at, indexing="ij")
    square = np.stack([first.ravel(), second.ravel()], axis=1)
    symmetric = symmetric_means(square).T.reshape(2, _POINTS, _POINTS)
    means = {
        f"symmetric mean rewards (supplement S.4.3), arm {k + 1}": symmetric[k] for k in range(2)
    }
    # As many cells in all rows.
    rows = [list(_CENTRES), list(means), list(densities)]
    cells = math.lcm(*map(len, rows))
    figure, panels = mosaic([np.repeat(row, cells // len(row)).tolist() for row in rows])
    for title, axes in panels.items():
        entitle(axes, title, 4.2)
        axes.set_xlabel("first column of the context", fontsize=BODY, color=INK)
    for title, centres in _CENTRES.items():
        _draw_exponential(panels[title], arms, centres)
    _draw_maps(figure, panels, means, "Greens", 1.0)
    most = max(float(values.max()) for values in densities.values())
    _draw_maps(figure, panels, densities, "Blues", most)
    return finish(figure, _PANEL)


def _draw_exponential(axes: Axes, arms: int, centres: Centres) -> None:
    x = np.linspace(0.0, 1.0, _POINTS)
    names = [f"arm {k + 1}" for k in range(arms)]
    means = pd.DataFrame(ExponentialMeans(arms, centres)(x[:, None]), columns=names)
    frame = means.assign(x=x).melt("x", var_name="name", value_name="mean")
    axes.set_xlim(0.0, 1.0)
    axes.set_ylim(0.0, 1.05)
    strokes = {name: Stroke(color) for name, color in zip(names, arm_colors(arms), strict=True)}
    draw_lines(axes, frame.assign(half_width=0.0), strokes)


def _draw_maps(
    figure: Figure,
    panels: Mapping[str, Axes],
    maps: Mapping[str, FloatArray],
    colors: str,
    most: float,
) -> None:
    """Values on the square (points, points) by title, on one scale from 0 to `most`."""
    row = [panels[title] for title in maps]
    at = (np.arange(_POINTS) + 0.5) / _POINTS
    for axes, values in zip(row, maps.values(), strict=True):
        shown = heat(axes, at, at, values.T, (0.0, most), colors)
    row[0].set_ylabel("second column", fontsize=BODY, color=INK)
    ruler(figure, shown, row)


def density(gamma: float, points: int = _POINTS) -> FloatArray:
    """(points, points) of contexts in the square: (2 + gamma) / 2 (2 ||x - 1/2||_inf)^gamma.

    It integrates to 1. What section 4.1 prints as the normalising constant is the integral of
    ||x - 1/2||_inf^gamma, by which one divides.
    """
    at = np.abs((np.arange(points) + 0.5) / points - 0.5)
    norm = np.maximum(at[:, None], at[None, :])
    return (2.0 + gamma) / 2.0 * (2.0 * norm) ** gamma


def average_figure(what: Any, results: PaperResults, log_scale: bool = False) -> Figure:
    """Regret per person so far, the same at a context, and shares of arms there."""
    curves = results.curves
    average = curves[curves["metric"] == REGRET]
    average = average.assign(mean=average["mean"] / average["at"])
    local = curves[curves["metric"] == LOCAL_REGRET]
    kinds = [
        frame.assign(name=frame["label"], x=frame["at"], half_width=0.0)
        for frame in (average, local)
    ]
    names = list(dict.fromkeys(average["panel"].dropna())) or [""]
    shown = max(
        (curves[curves["panel"] == name]["case"].nunique() for name in names if name), default=0
    )
    columns = min(len(names), 2)
    blocks = -(-len(names) // columns)
    heights = ([_CURVE, _CURVE] + [_SHARES] * shown) * blocks
    figure, grid = sheet(len(heights), columns, heights=heights)
    place = place_name(PROBE)
    once = results.trials.drop_duplicates(["case", "trial", "given_up"])
    given_up = once.dropna(subset="given_up").groupby("case")["given_up"]
    for number, name in enumerate(names):
        row, column = divmod(number, columns)
        axes = grid[row * (2 + shown) : (row + 1) * (2 + shown), column]
        mine = [frame[frame["panel"].isna() | (frame["panel"] == name)] for frame in kinds]
        strokes = _strokes(mine[0].drop_duplicates("case"))
        for panel, frame, everywhere, where in zip(
            axes, mine, kinds, ("over all people", f"at {place}"), strict=False
        ):
            panel.set_ylim(0.0, _ceiling(everywhere))
            panel.set_xlim(0.0, float(frame["at"].max()))
            draw_lines(panel, frame, strokes)
            method = f"{name}: " if panel is axes[0] and name else ""
            title = f"{method}regret per person so far, {where}"
            entitle(panel, title)
            number_axis(panel.xaxis, Axis(whole=True))
            number_axis(panel.yaxis, Axis(most=4))
        probed = curves[curves["panel"] == name]
        for panel, (key, case) in zip(axes[2:], probed.groupby("case"), strict=False):
            last = given_up.get_group(key) if key in given_up.groups else pd.Series(dtype=float)
            _draw_shares(panel, case, last, place)
            if case["trials"].max() == 1 and len(last):
                _mark_given_up(axes[1], case, last, strokes)
            number_axis(panel.xaxis, Axis(whole=True))
        axes[-1].set_xlabel("people served", fontsize=SMALL, color=INK)
    legend_above(figure, _arms(results.trials, place))
    return finish(figure, _CURVE, note=f"mean of {trials_of(results.ends)}")


def place_name(context: tuple[float, ...]) -> str:
    """A context as a text, with fractions where they are simple: (1/3, 1/3)."""
    simple = [Fraction(value).limit_denominator(12) for value in context]
    texts = [
        str(fraction) if abs(float(fraction) - value) < 1e-12 else f"{value:g}"
        for fraction, value in zip(simple, context, strict=True)
    ]
    return f"({', '.join(texts)})"


def _strokes(cases: pd.DataFrame) -> dict[str, Stroke]:
    """A colour for each line with a promise, grey for references."""
    colors, references = iter(_LINES), {UNIFORM: CHANCE, NON_PRIVATE: FREE}
    return {label: references.get(label) or Stroke(next(colors, GREY)) for label in cases["label"]}


def _ceiling(frame: pd.DataFrame) -> float:
    """The top of an axis; the average over the first few people is mostly chance."""
    settled = frame[frame["at"] >= 0.1 * frame["at"].max()]
    return 1.15 * float(settled["mean"].max()) or 1.0


def _mark_given_up(
    axes: Axes, curves: pd.DataFrame, given_up: pd.Series[float], strokes: dict[str, Stroke]
) -> None:
    """A triangle on the curve of a single trial where an arm was offered for the last time."""
    regret = curves[curves["metric"] == LOCAL_REGRET]
    axes.plot(
        given_up, np.interp(given_up, regret["at"], regret["mean"]), marker="v", markersize=6.0,
        color=strokes[str(curves["label"].iloc[0])].color, markeredgecolor="white",
        markeredgewidth=0.6, linestyle="none", clip_on=False, zorder=3.0,
    )  # fmt: skip


def _draw_shares(axes: Axes, curves: pd.DataFrame, given_up: pd.Series[float], place: str) -> None:
    """The mean over trials of the share of each arm, the first at the bottom, and a vertical line
    where an arm was offered for the last time, fainter for fewer trials."""
    shares = curves[curves["metric"].str.startswith("share_of_arm")]
    stacked = shares.pivot(index="at", columns="metric", values="mean")
    stacked = stacked[list(dict.fromkeys(shares["metric"]))]
    axes.stackplot(
        stacked.index, stacked.to_numpy().T, colors=arm_colors(stacked.shape[1]), linewidth=0.0
    )
    axes.set_xlim(0.0, float(stacked.index.max()))
    axes.set_ylim(0.0, 1.0)
    axes.set_yticks([0.0, 0.5, 1.0], ["0", "0.5", "1"])
    trials = shares["trials"].max()
    for at, count in zip(*np.unique(given_up, return_counts=True), strict=True):
        axes.axvline(at, alpha=max(count / trials, 0.15), **_GIVEN_UP)
    label = curves["label"].iloc[0]
    entitle(axes, f"{label}: arms at {place}", size=SMALL)


def _arms(trials: pd.DataFrame, place: str) -> Sequence[Patch | Line2D]:
    """Which colour is which arm, and what the vertical lines are."""
    means = trials.dropna(subset="mean_reward").drop_duplicates("metric")["mean_reward"]
    best = means.to_numpy().argmax()
    names = [f"arm {k + 1}" for k in range(len(means))]
    names[best] += f", the best at {place}"
    patches = [
        Patch(facecolor=color, label=name)
        for color, name in zip(arm_colors(len(names)), names, strict=True)
    ]
    text = "an arm is given up there: it is not offered again"
    return [*patches, Line2D([], [], marker="v", markersize=5.0, label=text, **_GIVEN_UP)]


def ratio_table(what: Any, results: PaperResults) -> Group:
    """A table for each data set and time: columns are methods; rows are budgets, with auxiliary
    data and without, the paper's numbers below."""
    shown: list[Text | Table] = []
    panels = [*results.ends.groupby("panel", sort=False), *rank_sums(results.ends)]
    for panel, own in panels:
        rows, form = rows_of(own), ".0f" if str(panel).startswith(RANK_SUM) else ".3f"
        methods = sorted({row["method"] for row in rows}, key=list(_HUES).index)
        table = terminal_table(["epsilon, auxiliary", *methods])
        cells = dict.fromkeys((row["epsilon"], row["epsilon_auxiliary"]) for row in rows)
        for cell, with_data in product(cells, (True, False)):
            by = {
                row["method"]: row
                for row in rows
                if (row["epsilon"], row["epsilon_auxiliary"], row["auxiliary_data"])
                == (*cell, with_data)
            }
            if by:
                label = "any" if None in cell else f"{cell[0]:g}, {cell[1]:g}"
                label += " with" if with_data else " without"
                texts = partial(_ratio, form=form)
                add_row(table, label, [by.get(method) for method in methods], texts, form)
        shown += [Text("\n" * bool(shown) + str(panel), style="bold"), table]
    return Group(*shown)


def _ratio(row: Row, form: str) -> Text:
    star = "*" if row["significant"] else ""
    return Text(f"{row['mean']:{form}}{star}", style="bold" if row["best"] else "")


def ratio_note(what: Any, results: PaperResults) -> str:
    """What the table's marks mean."""
    largest = results.ends["standard_error"].max()
    errors = "" if math.isnan(largest) else f"; the largest standard error is {largest:.3f}"
    return (
        f"Ratios of mean reward to that of ABSE, over {trials_of(results.ends)}{errors}. "
        "With, without: auxiliary data. Bold: the best of a cell; *: "
        "significantly better than all others there (Wilcoxon signed-rank test, two-sided, "
        "p < 0.05; it needs at least 6 trials). Rank sums: over all data sets and budgets, of the "
        "paper's six methods; ours in the place of published."
    )


def ratio_figure(what: Any, results: PaperResults, log_scale: bool = False) -> Figure:
    """A panel for each data set and time; full points with auxiliary data, hollow without."""
    ends = results.ends[results.ends["method"] != UNIFORM]
    cells = list(dict.fromkeys(zip(ends["epsilon"], ends["epsilon_auxiliary"], strict=True)))
    kinds = list(dict.fromkeys(ends["label"]))
    cell = [
        cells.index(pair) for pair in zip(ends["epsilon"], ends["epsilon_auxiliary"], strict=True)
    ]
    beside = (ends["label"].map(kinds.index) + 0.5) / (2.0 * len(kinds)) - 0.25
    frame = ends.assign(name=ends["label"], x=cell + beside).drop(columns="paper")
    strokes = {
        row["label"]: Stroke(
            _HUES[row["method"]], width=0.0, mark="o", hollow=not row["auxiliary_data"]
        )
        for row in rows_of(frame.drop_duplicates("label"))
    }
    low = float((frame["mean"] - frame["half_width"]).min())
    top = float((frame["mean"] + frame["half_width"]).max())
    margin = 0.06 * (max(top, 1.0) - min(low, 1.0)) or 0.1
    figure = lines_of(
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
        axes.axhline(1.0, color=GREY, linewidth=1.0, linestyle=(0, (1, 1.5)), zorder=0.5)
    return figure


def sweep_table(what: TransferFigure, results: PaperResults) -> Group:
    """Mean and standard error of every curve by the varied quantity, with the paper's below."""
    shown: list[Text | Table] = []
    frame = _swept(what, results).fillna({"panel": "in all panels"})
    for panel, curves in frame.groupby("panel", sort=False):
        values = sorted(set(curves["x"].dropna()))
        keys: list[float | None] = [*([None] if curves["x"].isna().any() else []), *values]
        table = terminal_table(["", *("any" if key is None else thousands(key) for key in keys)])
        for (label, _), own in curves.groupby(["label", "method"], sort=False):
            cells = {row["x"]: row for row in rows_of(own)}
            style = "dim" if own["epsilon"].isna().all() else ""
            add_row(table, f"{label}", [cells.get(key) for key in keys], _mean, ",.0f", style)
        if table.row_count < len(keys):  # a row for each value instead
            names, *columns = (list(column.cells) for column in table.columns)
            heads = [column.header for column in table.columns[1:]]
            table = terminal_table([what.axis, *(str(name).strip() for name in names)])
            for head, texts in zip(heads, columns, strict=True):
                table.add_row(head, *texts)
        for column in table.columns[1:]:
            column.no_wrap = False  # there may be many values
        shown += [Text("\n" * bool(shown) + str(panel), style="bold"), table]
    return Group(*shown)


def _mean(row: Row) -> str:
    mean, error = row["mean"], row["standard_error"]
    spread = ABSENT if error is None else f"{error:,.0f}" if error >= 100.0 else f"{error:.3g}"
    return f"{mean:,.0f} ±{spread}" if mean >= 100 else f"{mean:.3g} ±{spread}"


def sweep_note(what: TransferFigure, results: PaperResults) -> str:
    """What the cells and columns mean."""
    return (
        f"Regret summed over the people of the target: mean of {trials_of(results.ends)}, ± its "
        f"standard error; columns: {what.axis_label}."
    )


def _swept(what: TransferFigure, results: PaperResults) -> pd.DataFrame:
    """The main metric of each case, `x` the value of what is varied, NaN for none."""
    ends = results.ends[results.ends["role"] == "main"]
    values = [setting.get(what.axis) for setting in ends["setting"]]
    return ends.assign(
        x=[float(value) if isinstance(value, int | float) else math.nan for value in values]
    )


def sweep_figure(what: TransferFigure, results: PaperResults, log_scale: bool = True) -> Figure:
    """The main metric against the varied quantity, logarithmic, on one axis in all panels.

    A case without a value of the quantity, such as a reference, is a horizontal line. Methods have
    hues, darker for later labels; what is flat or second is dashed.
    """
    frame = _swept(what, results)
    frame = frame[frame["panel"] != ""]
    keys = ["panel", "label", "method"]
    frame = frame.assign(name=frame.groupby(keys, sort=False, dropna=False).ngroup().map(str))
    curves = frame.drop_duplicates("name")
    strokes = {
        name: CHANCE if method == UNIFORM else FREE
        for name, method in zip(curves["name"], curves["method"], strict=True)
    }
    hue = hues(curves)
    for method, own in curves[curves["epsilon"].notna()].groupby("method", sort=False):
        colors = tints(hue[str(method)], len(own), 0.45)
        for name, x, color in zip(own["name"], own["x"], colors, strict=True):
            points, flat = Stroke(color, mark="o", size=3.0), Stroke(color, (0, (4, 2)))
            strokes[name] = flat if math.isnan(x) else points
    crosses = "; crosses: logged by the published program" if frame["paper"].notna().any() else ""
    return lines_of(
        frame,
        strokes,
        x=Axis(what.axis_label, most=4),
        y=Axis(str(frame["metric"].iloc[0]), log=True),
        note=f"mean of {trials_of(frame)}; bands: 95% intervals{crosses}",
    )


FORMS = {
    "sweep": Presentation(sweep_table, sweep_note, sweep_figure),
    "average": Presentation(sweep_table, sweep_note, average_figure),
    "ratios": Presentation(ratio_table, ratio_note, ratio_figure),
}
