"""The look of every figure: colours, panels, the names of lines beside their ends, a legend above.

A figure starts as a `sheet` of plain panels; lines are named by `name_ends`, marks explained by
`legend_above`, and `finish` gives everything its room:

    figure, [[axes]] = sheet(width=WIDE)
    axes.plot(rounds, answers)
    name_ends(axes, [("answers", answers[-1], BLUE)])
    return finish(figure, height=2.6)

Matplotlib's constrained layout finds room for labels, titles and legends at any width. Heights are
those of the axes, in inches. Figures are made with Matplotlib's object-oriented interface and never
touch pyplot's global state. A page is 893 CSS pixels wide, so a small text of a `WIDE` figure has
12 of them; a `NARROW` one is drawn anew for small screens, not shrunk. The colours are those of
Okabe and Ito, which people with colour-blindness can tell apart.
"""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import numpy as np
from matplotlib import colormaps, rc_context
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.transforms import ScaledTranslation
from scipy.optimize import isotonic_regression

from discreet.atomic_files import write_bytes
from discreet.validation import FloatArray

BLUE, ORANGE, GREEN, PURPLE = "#0072B2", "#E69F00", "#009E73", "#CC79A7"
VERMILLION, SKY, YELLOW = "#D55E00", "#56B4E9", "#F0E442"
INK, GREY, FAINT = "#222222", "#6B6B6B", "#D9D9D9"
BODY, SMALL = 9.0, 8.0  # points

WIDE, NARROW, PAPER = 8.2, 3.8, 10.4  # inches: a page, a telephone, a reproduction
_DOTS = 200  # to the inch, in PNG files and of what is no line
_LINE = 1.25 / 72.0  # inches of a line of text for each point of its size
_CHARACTER = 0.54 / 72.0  # inches of an average character for each point of its size
_NAMES = 0.31  # of the width of a figure, for the names of lines
_LEADER = 11.0 / 72.0  # inches between the axes and the names of lines
MOST_ENTRIES = 12  # of a legend
_ARMS = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILLION, YELLOW)

Dashes = str | tuple[int, tuple[float, ...]]
SOLID: Dashes = "solid"


@dataclass(frozen=True)
class Stroke:
    """How the line of one setting is drawn.

    Attributes:
        color: of everything.
        dashes: of the line.
        width: of the line; 0 for points alone.
        mark: Matplotlib's name of the points' mark; empty for none.
        size: of the marks, in points.
        hollow: whether the marks are white inside.
    """

    color: str
    dashes: Dashes = SOLID
    width: float = 1.8
    mark: str = ""
    size: float = 5.0
    hollow: bool = False


CHANCE = Stroke(GREY, (0, (1, 1.5)), 1.4)  # choosing at random


def arm_colors(arms: int) -> tuple[str, ...]:
    """One colour for each arm; beyond seven arms they are spread over a colour map."""
    if arms <= len(_ARMS):
        return _ARMS[:arms]
    return tuple(to_hex(color) for color in colormaps["turbo"](np.linspace(0.05, 0.95, arms)))


def tint(color: str, strength: float) -> str:
    """`color` mixed with white; strength 1 is the colour itself."""
    red, green, blue = (1.0 - strength * (1.0 - part) for part in to_rgb(color))
    return to_hex((red, green, blue))


def shade(color: str, strength: float) -> str:
    """`color` mixed with black; strength 1 is the colour itself."""
    red, green, blue = (strength * part for part in to_rgb(color))
    return to_hex((red, green, blue))


def tints(hue: str, count: int, lightest: float = 0.5) -> list[str]:
    """The colours of one method over its budgets, darker from one to the next."""
    strengths = np.linspace(lightest, 1.0, count) if count > 1 else np.ones(1)
    return [tint(hue, float(strength)) for strength in strengths]


class Sheet(Figure):
    """A figure that shows itself in a notebook, whose backend it does not know."""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        """The figure, and how wide it is shown: finer than a screen of 96 dots to the inch."""
        return figure_bytes(self, "png"), {"width": round(96.0 * self.get_figwidth())}


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
        _plain(axes)
    return figure, grid


def mosaic(rows: Sequence[Sequence[str]], width: float = PAPER) -> tuple[Figure, dict[str, Axes]]:
    """As `sheet`, for panels of several widths: names in rows of equally many cells, the name of a
    panel in all the cells that it spans."""
    figure = _figure(width, len(rows))
    panels = figure.subplot_mosaic([list(row) for row in rows])
    for axes in panels.values():
        _plain(axes)
    return figure, panels


def _figure(width: float, rows: int) -> Figure:
    figure = Sheet(figsize=(width, 3.0 * rows), layout=ConstrainedLayoutEngine(h_pad=0.07))
    FigureCanvasAgg(figure)
    return figure


def _plain(axes: Axes) -> None:
    """No box, quiet ticks, numbers as people write them, and a faint grid for heights."""
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color("#888888")
    axes.tick_params(labelsize=SMALL, colors="#444444", length=3, width=0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.locator_params(nbins=5)  # at any size


def entitle(axes: Axes, title: str, room: float = math.inf, size: float = BODY) -> None:
    """A title at the left, in lines of at most `room` inches."""
    text = wrapped(title, room, size) if room < math.inf else title
    axes.set_title(text, loc="left", fontsize=size, color=INK)


class EndName(Text):
    """The name of a line, right of its axes.

    Args:
        axes: of the line.
        text: the name.
        value: where the line ends.
        color: of the line.
    """

    def __init__(self, axes: Axes, text: str, value: float, color: str) -> None:
        look: dict[str, Any] = {"fontsize": SMALL, "color": INK, "linespacing": 1.05}
        super().__init__(1.0, 0.5, text, va="center", clip_on=False, **look)
        self.value, self.line_color = value, color
        self.inches = _LINE * SMALL * (1 + text.count("\n"))
        beside = ScaledTranslation(_LEADER, 0.0, axes.figure.dpi_scale_trans)
        axes.add_artist(self)
        self.set_transform(axes.transAxes + beside)


def name_ends(axes: Axes, ends: Sequence[tuple[str, float, str]]) -> None:
    """Write names (text, height, colour) right of the axes; `finish` moves them apart."""
    spec, figure = axes.get_subplotspec(), axes.get_figure(root=True)
    assert spec is not None
    assert figure is not None
    room = _NAMES * figure.get_figwidth() / spec.get_gridspec().ncols
    for text, height, color in ends:
        EndName(axes, wrapped(text.replace("epsilon ", "epsilon\u00a0"), room), height, color)


def legend_above(figure: Figure, handles: Sequence[Artist], title: str = "") -> None:
    """A title and, below it, what marks and colours mean, over all panels.

    Of a long list the first are named, and the others counted.
    """
    room = float(figure.get_figwidth())
    title = wrapped(title, 0.9 * room, BODY)
    if not handles:
        figure.suptitle(title, x=0.01, ha="left", fontsize=BODY, weight="bold", color=INK)
        return
    if len(handles) > MOST_ENTRIES:
        more = f"and {len(handles) - MOST_ENTRIES:,} more"
        counted = Line2D([], [], linestyle="none", label=more)
        handles = [*handles[:MOST_ENTRIES], counted]
    for handle in handles:
        handle.set_label(wrapped(str(handle.get_label()), room - 0.5))
    longest = max(len(line) for each in handles for line in str(each.get_label()).split("\n"))
    columns = min(len(handles), max(1, int(room / (_CHARACTER * SMALL * longest + 0.45))))
    figure.legend(
        # Matplotlib fills legends column by column; people read them row by row.
        handles=[handle for at in range(columns) for handle in handles[at::columns]],
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
        room = 0.95 * figure.get_figwidth()
        figure.supxlabel(wrapped(note, room), x=0.995, ha="right", fontsize=SMALL, color=GREY)
    panels = [axes for axes in figure.axes if axes.get_subplotspec() is not None]
    spec: Any = panels[0].get_subplotspec()
    ratios, layout = spec.get_gridspec().get_height_ratios(), figure.get_layout_engine()
    assert layout is not None
    for text in figure.findobj(Text):
        text.set_parse_math(False)
    with rc_context({"text.parse_math": False}):  # of numbers along axes, which come and go
        layout.execute(figure)
        width, have = _inches(panels[0])
        # What is around the axes keeps its size.
        needed = [
            sum(name.inches for name in _names(axes)) * have / _inches(axes)[1] for axes in panels
        ]
        more = max(min(height, aspect * width), *needed) - have
        figure.set_figheight(figure.get_figheight() + more * sum(ratios) / ratios[0])
        layout.execute(figure)
    figure.set_layout_engine(None)
    for axes in panels:
        _move_apart(axes)
        _thin_out(axes)
    return figure


def _inches(axes: Axes) -> FloatArray:
    """Width and height of the axes."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    return figure.get_size_inches() * axes.get_position().size


def _names(axes: Axes) -> list[EndName]:
    return [text for text in axes.texts if isinstance(text, EndName)]


def _move_apart(axes: Axes) -> None:
    """Names beside their lines but not on each other, and strokes that lead to them."""
    labels = _names(axes)
    if not labels:
        return
    width, height = _inches(axes)
    ends = axes.transData.transform([(axes.get_xlim()[0], label.value) for label in labels])
    shares = np.clip(axes.transAxes.inverted().transform(ends)[:, 1], 0.0, 1.0)
    order = np.argsort(shares, kind="stable")
    sizes = np.array([labels[place].inches for place in order])
    centres = np.empty(len(labels))
    centres[order] = spread(shares[order] * height, sizes, height) / height
    reach = 1.0 + 0.8 * _LEADER / width
    leaders = [[(1.0, at), (reach, to)] for at, to in zip(shares, centres, strict=True)]
    colors = [label.line_color for label in labels]
    look: dict[str, Any] = {"colors": colors, "linewidths": 1.0, "clip_on": False}
    axes.add_artist(LineCollection(leaders, transform=axes.transAxes, **look))
    for label, centre in zip(labels, centres.tolist(), strict=True):
        label.set_y(centre)


def spread(at: FloatArray, sizes: FloatArray, room: float = 1.0) -> FloatArray:
    """(n,) places closest to increasing `at` (n,) at which labels do not overlap.

    The sum of squared moves is least under z_{i+1} - z_i >= gap_i: isotonic regression of
    z_i - gap_1 - .. - gap_{i-1}.

    Args:
        at: (n,) wanted centres.
        sizes: (n,) the labels' heights in the same unit.
        room: where the last label must end, if they all fit there.
    """
    shift = np.concatenate([[0.0], np.cumsum(0.5 * (sizes[1:] + sizes[:-1]))])
    low = 0.5 * float(sizes[0])
    high = max(room - 0.5 * float(sizes[-1]) - float(shift[-1]), low)
    places: FloatArray = np.clip(isotonic_regression(at - shift).x, low, high) + shift
    return places


def _thin_out(axes: Axes) -> None:
    """Leave out numbers along the horizontal axis for which there is no room."""
    end = -math.inf
    for tick in axes.xaxis.get_major_ticks():
        box = tick.label1.get_window_extent()
        if tick.label1.get_text() and box.x0 < end:
            tick.label1.set_visible(False)
            tick.label2.set_visible(False)
        elif tick.label1.get_text():
            end = box.x1 + 3.0


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


def shortened(text: str, inches: float) -> str:
    """A text of about at most this width, which ends in an ellipsis where it was longer."""
    characters = max(2, int(inches / (_CHARACTER * SMALL)))
    return text if len(text) <= characters else text[: characters - 1] + "…"


def save_figure(figure: Figure, path: Path) -> None:
    """The figure as a PNG file, which appears whole or not at all."""
    write_bytes(path, figure_bytes(figure, "png"))


def figure_bytes(figure: Figure, format: Literal["png", "svg"]) -> bytes:
    """A figure, white behind, that says what made it; the same bytes for the same figure.

    Texts are paths in SVG, which then looks the same wherever it is opened.
    """
    buffer = io.BytesIO()
    author = f"discreet {version('discreet')}"
    metadata = {"Software": author} if format == "png" else {"Creator": author, "Date": None}
    look: Any = {"svg.fonttype": "path", "svg.hashsalt": "discreet"}
    with rc_context({**look, "text.parse_math": False}):
        figure.savefig(buffer, format=format, dpi=_DOTS, facecolor="white", metadata=metadata)
    return buffer.getvalue()
