"""The few kinds of figure in which everything is shown, drawn from tidy frames.

`lines` is the kind that most results need: means with bands or bars in panels that share their
axes, each named beside its right end. It takes one row for each point:

| column     | meaning                                                                       |
|------------|-------------------------------------------------------------------------------|
| panel      | title of the panel; None or NaN for every panel; may be left out              |
| name       | of the line, and the key of its `Stroke`                                      |
| x          | where along the panel; NaN for a line that is the same everywhere             |
| mean       | its height                                                                    |
| half_width | of the 95% interval around it; NaN or 0 where there is none                   |
| label      | what stands at the line's end; `name` if left out                             |
| paper      | a published number for the same point, drawn as a cross; may be left out      |

    figure = lines(
        frame, {"ours": Stroke(BLUE), "uniform": CHANCE},
        x=Axis("round"), y=Axis("cumulative regret"), note="mean of 10 trials",
    )

What has another form is drawn on the panels of a `layout.sheet` with `draw_lines`, `heat` and
`ruler`, or with Matplotlib's own methods, and given its room by `layout.finish`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis as MatplotlibAxis
from matplotlib.axis import XAxis
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import (
    Formatter,
    FuncFormatter,
    LogLocator,
    MaxNLocator,
    NullFormatter,
    NullLocator,
)

from discreet.lab.reporting.layout import (
    BODY,
    INK,
    PAPER,
    SMALL,
    Stroke,
    entitle,
    finish,
    name_ends,
    sheet,
)
from discreet.lab.reporting.numbers import number_text, thousands
from discreet.validation import FloatArray

_LEAST = 1e-4  # of its top: a logarithmic axis reaches no further down
_WIDE, _VERY_WIDE = 20.0, 1e3  # a logarithmic axis has 1, 2, 5, 10, ... or 1, 10, 100, ...
_FEW_PLACES = 6  # of points, each of which has its number below it
EVEN_IN_LIGHTNESS = "cividis"  # the colours of maps, the same to colour-blind readers


@dataclass(frozen=True)
class Axis:
    """One axis of a panel.

    Attributes:
        label: what stands beside it.
        log: whether it is logarithmic.
        limits: its ends; None to take them from what is drawn.
        ticks: where numbers stand; None to choose: the places of the points if they are few,
            otherwise about `most`.
        names: what stands there instead of numbers.
        whole: whether only whole numbers may stand there.
        most: how many numbers there is room for.
    """

    label: str = ""
    log: bool = False
    limits: tuple[float, float] | None = None
    ticks: Sequence[float] | None = None
    names: Sequence[str] | None = None
    whole: bool = False
    most: int = 5


def lines(
    frame: pd.DataFrame,
    strokes: Mapping[str, Stroke],
    *,
    x: Axis = Axis(),
    y: Axis = Axis(),
    intervals: Literal["bands", "bars"] = "bands",
    width: float = PAPER,
    height: float = 2.4,
    columns: int | None = None,
    same: Literal["all", "row", "none"] = "all",
    note: str = "",
) -> Figure:
    """Means with bands or bars over a varied quantity, in panels beside and below each other.

    Args:
        frame: see the module's table; panels and lines stand in the order of its rows.
        strokes: by name, how each line is drawn.
        x, y: the axes. Without limits, `y` starts at 0, or is as deep as the values if logarithmic.
        intervals: how half widths are drawn.
        width: of the figure.
        height: of the axes of a panel.
        columns: panels beside each other; as many as divide them evenly, up to 3, if left out.
        same: which panels have the same vertical limits, so that they can be compared.
        note: a line at the lower right of the figure.
    """
    everywhere = frame["panel"].isna() if "panel" in frame else pd.Series(True, index=frame.index)
    names = list(dict.fromkeys(frame.loc[~everywhere, "panel"])) if "panel" in frame else []
    panels = [(str(name), frame[everywhere | (frame["panel"] == name)]) for name in names] or [
        ("", frame)
    ]
    count = len(panels)
    columns = columns or (count if count <= 3 else 3 if count % 3 == 0 else 2)
    rows = math.ceil(len(panels) / columns)
    figure, grid = sheet(rows, columns, width=width)
    measured = np.unique(frame["x"].dropna().to_numpy(np.float64)).tolist()
    if x.ticks is None and len(measured) <= _FEW_PLACES:
        x = replace(x, ticks=measured)
    for place, axes in enumerate(grid.flat):
        if place >= len(panels):
            axes.remove()
            continue
        title, own = panels[place]
        row = place // columns
        beside = panels[row * columns : (row + 1) * columns]
        seen = {"none": [own], "row": [part for _, part in beside], "all": [frame]}[same]
        limits = y.limits or limits_of(pd.concat(seen), y.log)
        axes.margins(x=0.03)
        number_axis(axes.xaxis, x, 3 if width / columns < 4.5 else x.most)
        number_axis(axes.yaxis, replace(y, limits=limits))
        draw_lines(axes, own, strokes, intervals)
        entitle(axes, title, 0.85 * width / columns)
        shared = same == "all" or (same == "row" and not y.limits)
        if place % columns == 0:
            axes.set_ylabel(y.label, fontsize=BODY, color=INK)
        elif shared:
            axes.tick_params(axis="y", labelleft=False)
        if place + columns >= len(panels):
            axes.set_xlabel(x.label, fontsize=BODY, color=INK)
    return finish(figure, height, note=note)


def limits_of(frame: pd.DataFrame, log: bool) -> tuple[float, float]:
    """The ends of a vertical axis that shows the means of a frame of lines and their intervals.

    A linear axis starts a little below 0, so that a line at 0 is seen; a logarithmic one reaches
    as far down as the intervals, but no further than the half of a mean.
    """
    mean = frame["mean"].to_numpy(np.float64)
    half = frame["half_width"].fillna(0.0).to_numpy(np.float64)
    if "paper" in frame:
        published = frame["paper"].dropna().to_numpy(np.float64)
        mean, half = np.append(mean, published), np.append(half, np.zeros(len(published)))
    if not log:
        top = max(float((mean + half).max(initial=0.0)), 1e-9)
        return -0.03 * top, 1.05 * top
    above = mean > 0.0
    if not above.any():
        return 0.1, 1.0
    top = float((mean + half)[above].max())
    low = float((mean - np.minimum(half, 0.5 * mean))[above].min())
    return max(0.75 * low, _LEAST * top), 1.3 * top


def draw_lines(
    axes: Axes,
    frame: pd.DataFrame,
    strokes: Mapping[str, Stroke],
    intervals: Literal["bands", "bars"] = "bands",
) -> None:
    """The lines of one panel, whose axes have their limits, and the names of their ends."""
    low, _ = axes.get_ylim()
    log = axes.get_yscale() == "log"
    ends, leads = [], []
    for name, rows in frame.groupby("name", sort=False):
        stroke = strokes[str(name)]
        rows = rows.sort_values("x", na_position="first", kind="stable")
        at, mean = rows["x"].to_numpy(np.float64), rows["mean"].to_numpy(np.float64)
        half = rows["half_width"].fillna(0.0).to_numpy(np.float64)
        if np.isnan(at).all():
            axes.axhline(
                mean[0], color=stroke.color, linestyle=stroke.dashes, linewidth=stroke.width
            )
        elif intervals == "bars":
            # A bar that would reach 0 has no place on a logarithmic axis.
            below = np.minimum(half, 0.9 * mean) if log else half
            axes.errorbar(
                at, mean, yerr=(below, half), capsize=2.5, elinewidth=1.0, **_style(stroke)
            )
        else:
            below = np.maximum(mean - half, low) if log else mean - half
            axes.plot(at, mean, **_style(stroke))
            axes.fill_between(at, below, mean + half, color=stroke.color, alpha=0.14, linewidth=0)
        if not np.isnan(at).any():
            leads.append((at[-1], mean[-1], stroke.color))
        if "paper" in rows:
            axes.plot(at, rows["paper"], "x", color=stroke.color, markersize=4.0)
        label = rows["label"].iloc[0] if "label" in rows else name
        ends.append((str(label), float(mean[-1]), stroke.color))
    left, right = axes.get_xlim()
    for at, mean, color in leads:
        axes.plot([at, right], [mean, mean], color=color, linewidth=0.8, alpha=0.6)
    axes.set_xlim(left, right)
    name_ends(axes, ends)


def _style(stroke: Stroke) -> dict[str, Any]:
    return {
        "color": stroke.color,
        "linestyle": stroke.dashes if stroke.width else "none",
        "linewidth": stroke.width,
        "marker": stroke.mark or None,
        "markersize": stroke.size,
        "markerfacecolor": "white" if stroke.hollow else stroke.color,
    }


def number_axis(axis: MatplotlibAxis, what: Axis, most: int | None = None) -> None:
    """Scale, limits and numbers, or names, of one axis, which has room for `most` of them."""
    side = "x" if isinstance(axis, XAxis) else "y"
    if what.log:
        axis.axes.set(**{f"{side}scale": "log"})
    if what.limits:
        axis.axes.set(**{f"{side}lim": what.limits})
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())
    if what.ticks is not None:
        axis.set_ticks(list(what.ticks), what.names or [thousands(tick) for tick in what.ticks])
        return
    low, high = axis.get_view_interval()
    if what.log and high > _WIDE * low:
        subs = (1.0, 2.0, 5.0) if high < _VERY_WIDE * low else (1.0,)
        axis.set_major_locator(LogLocator(subs=subs))
        axis.set_major_formatter(FuncFormatter(thousands))
    else:
        steps = [1, 2, 2.5, 5, 10]
        axis.set_major_locator(MaxNLocator(most or what.most, integer=what.whole, steps=steps))
        axis.set_major_formatter(EvenTicks())


class EvenTicks(Formatter):
    """Ticks that all have as many decimals as the finest of them needs: 42.00, 42.02."""

    def __call__(self, value: float, pos: int | None = None) -> str:
        """One tick on its own."""
        return number_text(value, 9)

    def format_ticks(self, values: Sequence[float]) -> list[str]:
        """All ticks of an axis."""
        size = max((abs(value) for value in values), default=0.0)
        for digits in range(7) if size < 1e9 else ():
            if all(abs(round(value, digits) - value) <= 1e-9 * size for value in values):
                return [self.fix_minus(f"{value:,.{digits}f}") for value in values]
        return [f"{value:.4g}" for value in values]


def heat(
    axes: Axes,
    x: FloatArray,
    y: FloatArray,
    values: FloatArray,
    scale: tuple[float, float],
    colors: str = EVEN_IN_LIGHTNESS,
    smooth: bool = False,
) -> Any:
    """Values (len(x), len(y)) as colours; returns what `ruler` needs.

    Args:
        axes: of the map.
        x, y: ascending middles of its cells, or their borders, of which there is one more.
        values: one for each cell.
        scale: the values at the ends of the colours.
        colors: a colour map of Matplotlib.
        smooth: whether colours run from middle to middle instead of filling cells.
    """
    axes.spines[:].set_visible(False)
    axes.grid(False)
    axes.tick_params(labelsize=SMALL - 0.5, length=2.5, width=0.6)
    axes.tick_params(axis="y", length=2.5)
    return axes.pcolormesh(
        x,
        y,
        values.T,
        cmap=colors,
        norm=Normalize(*scale),
        shading="gouraud" if smooth else "auto",
        rasterized=True,
    )


def ruler(
    figure: Figure, colors: Any, axes: Sequence[Axes], label: str = "", extend: str = "neither"
) -> None:
    """The numbers that the colours of a `heat` stand for, right of the axes.

    Args:
        figure: with the map.
        colors: what `heat` returned.
        axes: beside which it stands.
        label: what the numbers are.
        extend: `min`, `max` or `both` where there are values beyond its ends.
    """
    bar = figure.colorbar(
        colors, ax=list(axes), aspect=24, pad=0.02, fraction=0.06, extend=extend,
        ticks=MaxNLocator(5), format=EvenTicks(),
    )  # fmt: skip
    cast(Any, bar.outline).set_visible(False)
    bar.ax.tick_params(labelsize=SMALL - 0.5, colors="#444444", length=2.0, width=0.6)
    bar.set_label(label, fontsize=SMALL, color=INK, labelpad=3)
