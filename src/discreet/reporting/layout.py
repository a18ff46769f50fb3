"""How every figure is laid out: panels, the names of lines beside their ends, and a legend above.

A figure starts as a `sheet` of plain panels; lines are named by `name_ends`, marks explained by
`legend_above`, and `finish` gives everything its room:

    figure, [[axes]] = sheet(width=WIDE)
    axes.plot(rounds, answers)
    name_ends(axes, [("answers", answers[-1], BLUE)])
    return finish(figure, height=2.6)

Matplotlib's constrained layout finds room for labels, titles and legends at any width. Heights are
those of the axes, in inches, and the figure grows until they fit. Figures are made with
Matplotlib's object-oriented interface and never touch pyplot's global state. A figure of width w
is 96 w CSS pixels wide on a page; a `NARROW` one is drawn anew for small screens, not shrunk.
"""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.legend import Legend
from matplotlib.text import Annotation, Text
from matplotlib.textpath import TextToPath
from sklearn.isotonic import isotonic_regression

from discreet.durable import write_bytes
from discreet.reporting.palette import BODY, FAINT, GREY, INK, SMALL
from discreet.validation import FloatArray

WIDE, NARROW, PAPER = 9.3, 3.8, 10.4  # inches: a page, a telephone, a reproduction
_DOTS = 200  # to the inch, in PNG files
_LINE = 1.25 / 72.0  # inches of a line of text for each point of its size
_CHARACTER = 0.54 / 72.0  # inches of an average character for each point of its size
_ROUNDS, _CLOSE = 4, 0.01  # of a layout, until heights are as close as this in inches
_END = "end label"
_NAMES = 0.31  # of the width of a figure, for the names of lines
_LEADER = 11.0  # points between the axes and the names of lines


def sheet(
    rows: int = 1,
    columns: int = 1,
    *,
    width: float = PAPER,
    heights: Sequence[float] | None = None,
) -> tuple[Figure, Any]:
    """A figure and its plain axes (rows, columns), which `finish` lays out.

    Args:
        rows, columns: of panels.
        width: of the figure.
        heights: of the rows in relation to each other; the same if left out.
    """
    figure = _figure(width, rows)
    grid = figure.subplots(rows, columns, squeeze=False, height_ratios=heights)
    for axes in grid.flat:
        plain(axes)
    return figure, grid


def mosaic(rows: Sequence[Sequence[str]], width: float = PAPER) -> tuple[Figure, dict[str, Axes]]:
    """As `sheet`, for panels of several widths: names in rows of equally many cells, the name of a
    panel in all the cells that it spans."""
    figure = _figure(width, len(rows))
    panels = figure.subplot_mosaic([list(row) for row in rows])
    for axes in panels.values():
        plain(axes)
    return figure, panels


def _figure(width: float, rows: int) -> Figure:
    figure = Figure(figsize=(width, 3.0 * rows), layout=ConstrainedLayoutEngine(h_pad=0.07))
    FigureCanvasAgg(figure)
    return figure


def plain(axes: Axes) -> None:
    """No box, quiet ticks, numbers as people write them, and a faint grid for heights."""
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color("#888888")
    axes.tick_params(labelsize=SMALL, colors="#444444", length=3, width=0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)


def name_ends(axes: Axes, ends: Sequence[tuple[str, float, str]]) -> None:
    """Write names (text, height, colour) right of the axes; `finish` moves them apart."""
    spec, figure = axes.get_subplotspec(), axes.get_figure()
    assert spec is not None
    assert isinstance(figure, Figure)
    room = _NAMES * figure.get_figwidth() / spec.get_gridspec().ncols
    for text, height, color in ends:
        label = axes.annotate(
            wrapped(text.replace("epsilon ", "epsilon\u00a0"), room),
            (1.0, height),
            xycoords=("axes fraction", "data"),
            xytext=(_LEADER, 0.0),
            textcoords="offset points",
            va="center",
            fontsize=SMALL,
            color=INK,
            linespacing=1.05,
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-", "color": color, "linewidth": 1.0, "shrinkA": 1.0, "shrinkB": 0.0,
                "relpos": (0.0, 0.5),
            },
        )  # fmt: skip
        label.set_gid(_END)


def legend_above(figure: Figure, handles: Sequence[Artist], title: str = "") -> None:
    """A title and, below it, what marks and colours mean, over all panels.

    As many entries stand beside each other as the width of the figure holds.
    """
    room = float(figure.get_figwidth())
    title = wrapped(title, 0.9 * room, BODY)
    if not handles:
        figure.suptitle(title, x=0.01, ha="left", fontsize=BODY, weight="bold", color=INK)
        return
    for handle in handles:
        handle.set_label(wrapped(str(handle.get_label()), room - 0.5))
    for columns in range(len(handles), 0, -1):
        # Matplotlib fills legends column by column; people read them row by row.
        ordered = [handle for at in range(columns) for handle in handles[at::columns]]
        legend = _legend(figure, ordered, columns, title)
        extent = legend.get_window_extent(figure.canvas.get_renderer())  # type: ignore[attr-defined]
        if columns == 1 or extent.width <= (room - 0.1) * figure.dpi:
            return
        legend.remove()


def _legend(figure: Figure, handles: Sequence[Artist], columns: int, title: str) -> Legend:
    return figure.legend(
        handles=handles,
        loc="outside upper left",
        title=title or None,
        title_fontproperties={"size": BODY, "weight": "bold"},
        alignment="left",
        ncols=columns,
        fontsize=SMALL,
        labelcolor=INK,
        frameon=False,
        borderpad=0.2,
        handlelength=1.2,
        handleheight=0.9,
        handletextpad=0.5,
        columnspacing=1.3,
        labelspacing=0.45,
    )


def finish(figure: Figure, height: float, *, aspect: float = math.inf, note: str = "") -> Figure:
    """Lay a figure out: its panels get their height, the names of lines move apart.

    Every text is taken as it is: a dollar sign in a name starts no formula.

    Args:
        figure: from `sheet`, with everything drawn.
        height: of the axes of the first row; more where the names of its lines need it.
        aspect: the most that the height may be as a multiple of the width of these axes.
        note: a line at the lower right.
    """
    if note:
        figure.supxlabel(
            wrapped(note, 0.95 * figure.get_figwidth()), x=0.995, ha="right", fontsize=SMALL,
            color=GREY,
        )  # fmt: skip
    panels = [axes for axes in figure.axes if axes.get_subplotspec() is not None]
    spec: Any = panels[0].get_subplotspec()
    ratios = spec.get_gridspec().get_height_ratios()
    layout = figure.get_layout_engine()
    assert layout is not None
    for axes in panels:
        _part(axes, height)
    for text in figure.findobj(Text):
        text.set_parse_math(False)
    for _ in range(_ROUNDS):
        with rc_context({"text.parse_math": False}):  # of numbers along axes, which come and go
            layout.execute(figure)
        sizes = [figure.get_size_inches() * axes.get_position().size for axes in panels]
        width, have = sizes[0]
        needed = [_stacked(axes) * have / size[1] for axes, size in zip(panels, sizes, strict=True)]
        wanted = max(min(height, aspect * width), *needed)
        if abs(wanted - have) < _CLOSE:
            break
        for axes, size in zip(panels, sizes, strict=True):
            _part(axes, size[1] * wanted / have)
        figure.set_figheight(figure.get_figheight() + (wanted - have) * sum(ratios) / ratios[0])
    figure.set_layout_engine(None)
    for axes in panels:
        _thin_out(axes)
    return figure


def _thin_out(axes: Axes) -> None:
    """Leave out numbers along the horizontal axis for which there is no room."""
    end = -math.inf
    for tick in axes.xaxis.get_major_ticks():
        if not tick.label1.get_text():
            continue
        box = tick.label1.get_window_extent()
        if box.x0 < end:
            tick.label1.set_visible(False)
            tick.label2.set_visible(False)
        else:
            end = box.x1 + 3.0


def _ends(axes: Axes) -> list[Annotation]:
    return [t for t in axes.texts if isinstance(t, Annotation) and t.get_gid() == _END]


def _tall(label: Annotation) -> float:
    """Inches."""
    return _LINE * SMALL * (1 + label.get_text().count("\n"))


def _stacked(axes: Axes) -> float:
    """Inches that the names of lines need on top of each other."""
    return sum(map(_tall, _ends(axes)))


def _part(axes: Axes, height: float) -> None:
    """Move the names of the lines of axes that are `height` inches high apart."""
    low, high = axes.get_ylim()
    labels = _ends(axes)
    for label in labels:
        label.xy = (1.0, min(max(label.xy[1], low), high))
    if not labels:
        return
    shares = axes.transAxes.inverted().transform(
        axes.transData.transform([(axes.get_xlim()[0], label.xy[1]) for label in labels])
    )[:, 1]
    order = np.argsort(shares, kind="stable")
    sizes = np.array([_tall(labels[place]) for place in order])
    for place, centre in zip(order, spread(shares[order] * height, sizes, height), strict=True):
        offset = 72.0 * (float(centre) - shares[place] * height)
        labels[place].set_position((_LEADER, offset))


def spread(at: FloatArray, sizes: FloatArray, room: float = 1.0) -> FloatArray:
    """Places close to the increasing positions `at` in [0, room] at which labels do not overlap.

    Positions y_1 <= .. <= y_n become z with z_{i+1} - z_i >= gap_i and the least sum of squares
    (z_i - y_i)^2: with t_i = z_i - gap_1 - .. - gap_{i-1} this is isotonic regression.

    Args:
        at: (n,) wanted centres, increasing.
        sizes: (n,) the labels' heights in the same unit.
        room: where the last label must end, if they all fit there.

    Returns:
        (n,) centres.
    """
    shift = np.concatenate([[0.0], np.cumsum(0.5 * (sizes[1:] + sizes[:-1]))])
    low = 0.5 * float(sizes[0])
    high = max(room - 0.5 * float(sizes[-1]) - float(shift[-1]), low)
    places: FloatArray = isotonic_regression(at - shift, y_min=low, y_max=high) + shift
    return places


def wrapped(text: str, inches: float, size: float = SMALL) -> str:
    """A text in lines of about this width, broken at spaces and after underscores.

    A no-break space is a space where lines are not broken.
    """
    characters = max(8, int(inches / (_CHARACTER * size)))
    broken = [
        part if len(part) <= characters else part.replace("_", "_ ").strip()
        for part in text.split(" ")
    ]
    paragraphs = textwrap.wrap(
        " ".join(broken), characters, break_on_hyphens=False, replace_whitespace=False
    )
    return "\n".join(paragraphs).replace("_ ", "_").replace("\u00a0", " ")


def shortened(text: str, inches: float, size: float = SMALL) -> str:
    """A text of about at most this width, which ends in an ellipsis where it was longer."""
    characters = max(2, int(inches / (_CHARACTER * size)))
    return text if len(text) <= characters else text[: characters - 1] + "…"


def text_inches(text: str, size: float = SMALL) -> float:
    """How wide a line of text is."""
    width, _, _ = TextToPath().get_text_width_height_descent(
        text, FontProperties(size=size), ismath=False
    )
    return float(width) / 72.0


def thousands(value: float, position: int | None = None) -> str:
    """A tick of an axis: 20,000 or 0.35."""
    return f"{value:,.0f}" if abs(value) >= 1000.0 else f"{value:g}"


def save_figure(figure: Figure, path: Path) -> None:
    """The figure as a PNG, white behind, that says what made it; it appears whole or not at all."""
    buffer = io.BytesIO()
    made_by = {"Software": f"discreet {version('discreet')}"}
    figure.savefig(buffer, dpi=_DOTS, facecolor="white", metadata=made_by)
    write_bytes(path, buffer.getvalue())
