"""What stands above a map: its title, where the columns that are not shown stand, and a legend.

Laid out before the figure, whose height depends on it; nothing is cut off at any width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.artist import Artist
from matplotlib.figure import Figure

from discreet.reporting.palette import BODY, INK, SMALL, in_lines, line_inches, text_inches

_TOP, _BETWEEN, _HANDLE = 0.06, 0.09, 0.38  # inches; the last beside the name of a legend entry


@dataclass(frozen=True)
class Head:
    """Lines and a legend from the top of a figure down.

    Attributes:
        title, note: in lines that fit; either may be empty.
        handles: what the legend names, in the order in which it is read.
        columns: how many of them stand beside each other.
        left: inches left of everything.
    """

    title: str
    note: str
    handles: tuple[Artist, ...]
    columns: int
    left: float

    @property
    def height(self) -> float:
        """Inches that it needs, with some room below."""
        return self._legend_top + _lines(self.handles, self.columns) * 1.1 * line_inches() + _TOP

    @property
    def _note_top(self) -> float:
        if not self.title:
            return _TOP
        return _TOP + (1 + self.title.count("\n")) * line_inches(BODY) + _BETWEEN

    @property
    def _legend_top(self) -> float:
        if not self.note:
            return self._note_top
        return self._note_top + (1 + self.note.count("\n")) * line_inches() + _BETWEEN

    def draw(self, figure: Figure) -> None:
        """At the top of a figure."""
        width, height = figure.get_size_inches()
        start = self.left / width
        figure.text(
            start,
            1.0 - _TOP / height,
            self.title,
            fontsize=BODY,
            weight="bold",
            color=INK,
            va="top",
        )
        if self.note:
            at = 1.0 - self._note_top / height
            figure.text(start, at, self.note, fontsize=SMALL, color=INK, va="top")
        if not self.handles:
            return
        # Matplotlib fills legends column by column; people read them row by row.
        by_column = [one for at in range(self.columns) for one in self.handles[at :: self.columns]]
        figure.legend(
            handles=by_column,
            loc="upper left",
            bbox_to_anchor=(start, 1.0 - self._legend_top / height),
            ncols=self.columns,
            fontsize=SMALL,
            labelcolor=INK,
            frameon=False,
            borderpad=0.0,
            borderaxespad=0.0,
            handlelength=1.2,
            handleheight=0.9,
            handletextpad=0.5,
            columnspacing=1.3,
            labelspacing=0.25,
        )


def head(title: str, note: str, handles: Sequence[Artist], left: float, width: float) -> Head:
    """The head of a figure of this width in inches."""
    room = width - left - 0.05
    for handle in handles:
        handle.set_label(in_lines(str(handle.get_label()), room - _HANDLE))
    widths = [_HANDLE + max(map(text_inches, str(h.get_label()).split("\n"))) for h in handles]
    columns = max((n for n in range(1, len(widths) + 1) if _fits(widths, n, room)), default=1)
    return Head(
        # Bold letters are wider.
        in_lines(title, 0.9 * room, BODY),
        in_lines(note, room) if note else "",
        tuple(handles),
        columns,
        left,
    )


def _fits(widths: Sequence[float], columns: int, room: float) -> bool:
    """Whether entries of these widths fit row by row into this many columns."""
    return sum(max(widths[at::columns]) for at in range(columns)) <= room


def _lines(handles: Sequence[Artist], columns: int) -> int:
    """Lines of text of a legend."""
    high = [1 + str(handle.get_label()).count("\n") for handle in handles]
    return sum(max(high[at : at + columns]) for at in range(0, len(high), columns))
