"""Searches of tables for the terminal: what was found, and what the release promised."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from discreet.intervals import mean_and_error
from discreet.reporting.table import ABSENT
from discreet.reproduction.kharkovskii2020.methods import NON_PRIVATE_EI, Published
from discreet.reproduction.kharkovskii2020.searches import ABOVE, Line
from discreet.reproduction.kharkovskii2020.transformation import AS_STATED

PAPERS = "paper's branch"


def method_label(line: Line) -> str:
    """What tables and figures call a method: published ones with the branch that was taken."""
    if isinstance(line.method, Published):
        stated = line.method.branch == AS_STATED
        return f"{'published' if stated else PAPERS} ({line.facts['branch']})"
    return "non-private, EI" if line.method.name == NON_PRIVATE_EI else line.method.name


def search_table(lines: Sequence[Line]) -> Group:
    """One row for each line under a heading for its table or figure."""
    columns = _columns(lines)
    sections: dict[str, list[tuple[Line, list[str]]]] = {}
    for line in lines:
        cells = [cell(line) for cell in columns.values()]
        sections.setdefault(line.entry.group, []).append((line, cells))
    rows = [cells for section in sections.values() for _, cells in section]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    shown: list[Text | Table] = []
    told: set[str] = set()
    for place, (heading, section) in enumerate(sections.items()):
        data = section[0][0].data
        questions = f"{section[0][0].entry.search.rounds} questions"
        shown.append(Text(f"{chr(10) * (place > 0)}{heading}, {questions}", style="bold"))
        if data.name not in told:
            shown.append(Text(data.source, style="dim"))
        told.add(data.name)
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
        table.collapse_padding = True
        for name, width in zip(columns, widths, strict=True):
            side: Literal["left", "right"] = "left" if name == "method" else "right"
            table.add_column(name, justify=side, no_wrap=True, vertical="bottom", min_width=width)
        for line, cells in section:
            table.add_row(*map(Text, cells), style="" if line.guarantee is not None else "dim")
        shown.append(table)
    return Group(*shown)


def search_note(lines: Sequence[Line]) -> str:
    """What the columns mean."""
    counts = sorted({len(line.runs) for line in lines})
    runs = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    words = [
        f"Regret: simple regret in units of sigma_y, mean of {runs} run{'s' * (counts != [1])}, ± "
        "its standard error.",
        "Above non-private: how much more it is than that of GP-UCB on the rows, run by run."
        if _of_figure(lines)
        else "Own unit: the same in the unit of the outcome. s: seconds of one search.",
        "Epsilon held: what the noise guarantees at the delta asked for; none: no epsilon at all. "
        "(if), (else): the branch of Algorithm 1 that was taken. EI: expected improvement.",
    ]
    return " ".join(words)


def _columns(lines: Sequence[Line]) -> dict[str, Callable[[Line], str]]:
    """What is written under each heading; columns that would be empty are left out."""
    made: dict[str, Callable[[Line], str]] = {"method": method_label}
    # A terminal has 80 columns: figures do without r, which is the same in all of them.
    figure = _of_figure(lines)
    if not figure:
        made["r"] = lambda line: str(line.facts["r"] or ABSENT)
    made["epsilon\npromised"] = _promised
    made["epsilon\nheld"] = _held
    made["regret"] = lambda line: _number(mean_and_error(line.final)[0])
    made["±"] = lambda line: _number(mean_and_error(line.final)[1])
    if _scaled(lines) and not figure:
        made["own\nunit"] = lambda line: _number(
            line.data.deviation * mean_and_error(line.final)[0]
        )
    if figure:
        made["above non-\nprivate"] = lambda line: _above(line, 0)
        made["± "] = lambda line: _above(line, 1)
    if any(line.entry.paper is not None for line in lines):
        made["paper"] = lambda line: _number(line.entry.paper)
    if not figure:
        made["s"] = lambda line: f"{line.seconds:.2f}"
    return made


def _of_figure(lines: Sequence[Line]) -> bool:
    return any(line.entry.metric == ABOVE for line in lines)


def _scaled(lines: Sequence[Line]) -> bool:
    return any(line.data.deviation != 1.0 for line in lines)


def _number(value: float | None) -> str:
    """Three decimals, as in the paper."""
    return ABSENT if value is None or not np.isfinite(value) else f"{value:.3f}"


def _above(line: Line, place: int) -> str:
    return _number(mean_and_error(line.above)[place]) if len(line.above) else ABSENT


def _promised(line: Line) -> str:
    return ABSENT if line.method.epsilon is None else f"{line.method.epsilon:.3g}"


def _held(line: Line) -> str:
    if line.true_epsilon is None:
        return ABSENT
    return f"{line.true_epsilon:.3g}" if math.isfinite(line.true_epsilon) else "none"
