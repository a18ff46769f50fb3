"""The report of a search over a released table, for readers who did not run it.

One HTML file (page.py): what was found, the answers one by one, a map of the rows, what was learnt,
and the curator's certificate. Its sentences stand in `templates/search.html.j2`; here are the
pictures, the tables and how numbers are written.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from discreet.outsourcing.answers import times_text
from discreet.outsourcing.bounds import PublicColumn
from discreet.outsourcing.search import Search, Turn
from discreet.privacy.guarantee import rounded_up
from discreet.records import check_path
from discreet.reporting.column_units import (
    aligned_texts,
    bound_texts,
    length_text,
    number_text,
    share_text,
    value_text,
)
from discreet.reporting.layout import NARROW, WIDE
from discreet.reporting.page import Image, image, render, write_page
from discreet.reporting.row_figures import (
    MOST_DOTS,
    MOST_TICKS,
    answers_figure,
    rows_figure,
    shown_columns,
)
from discreet.reporting.search_view import SearchView
from discreet.reporting.table import ABSENT
from discreet.reporting.words import listed
from discreet.validation import finite_number, whole_number

# Of tables: this many rows, places of a row, and columns of the release; of columns that are not on
# the map, this many names.
_ROWS, _PLACES, _COLUMNS, _NAMED = 10, 6, 30, 6


@dataclass(frozen=True)
class TextTable:
    """A table.

    Attributes:
        head: what its columns are called.
        rows: texts.
        left_out: how many rows are not shown.
    """

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left_out: int = 0


def write_search_report(
    search: Search, turn: Turn, rounds: int, path: Path, optimum: float | None = None
) -> None:
    """Write the report of a search as it stands after a turn.

    The file appears whole or not at all.

    Args:
        search: what was asked and is believed.
        turn: its last turn.
        rounds: how many questions there may be in all.
        path: the file.
        optimum: the best outcome of any row, where it is known, for the simple regret.

    Raises:
        InvalidInput: an optimum that is not finite, or a folder that does not exist.
    """
    check_path(path)
    write_page(render_search_report(search, turn, rounds, optimum), path)


def render_search_report(
    search: Search, turn: Turn, rounds: int, optimum: float | None = None
) -> str:
    """The report as HTML; see `write_search_report`."""
    whole_number(rounds, "rounds", minimum=1)
    known = None if optimum is None else finite_number(optimum, "the optimum")
    view = SearchView(search, turn, rounds, known)
    certificate, shown = view.certificate, shown_columns(view)
    others = [name for place, name in enumerate(certificate.names) if place not in shown]
    named = f"{len(others)} others" if len(others) > _NAMED else others and listed(others)
    shares = certificate.mechanism.scale / view.widths
    sources = list(certificate.guarantee.noise)
    sources += certificate.with_answers.noise if certificate.with_answers else ()
    return render(
        "search.html.j2",
        view=view,
        certificate=certificate,
        prior=search.modeler.prior,
        settings=search.settings,
        answers=_answers(view),
        map=_map(view),
        shown=listed([certificate.names[place] for place in shown]),
        not_shown=named,
        most_dots=MOST_DOTS,
        most_ticks=MOST_TICKS,
        best_answers=_best_answers(view),
        best_expected=view.best_expected(),
        lengths=_length_scales(view),
        columns=_columns(view),
        shares=dict.fromkeys(share_text(float(end)) for end in (shares.min(), shares.max())),
        sources=dict.fromkeys(sources),
        simulated=any("simulation only" in source for source in sources),
        counted=counted,
        expected=expected_text,
        number=number_text,
        times=times_text,
        up=rounded_up,
    )


def _answers(view: SearchView) -> Image | None:
    """Answers by question; in words, where the best so far begins and ends."""
    if not len(view.answers):
        return None
    first, last = (number_text(float(view.so_far[place])) for place in (0, -1))
    alt = f"Chart of {counted(len(view.answers), 'answer')} by question. The best so far "
    alt += f"goes from {first} to {last}." if first != last else f"stays at {first}."
    if view.optimum is not None:
        lost = number_text(view.final_regret, 4)
        alt += f" Below it, the simple regret, which ends at {lost}."
    return image(answers_figure(view, WIDE), answers_figure(view, NARROW), alt)


def _map(view: SearchView) -> Image:
    """The rows; in words, over what and between which expectations."""
    names = [view.certificate.names[place] for place in shown_columns(view)]
    what = "Map" if len(names) > 1 else "Expected outcome"
    alt = f"{what} of {counted(view.certificate.rows, 'row')} over {listed(names)}"
    alt += f", with marks on {counted(len(view.turn.asked), 'row')} that were asked for."
    if view.knows:
        low, high = (number_text(value, 4) for value in view.expected_range)
        alt += f" Expected outcomes are between {low} and {high}."
    return image(rows_figure(view, WIDE), rows_figure(view, NARROW), alt)


def _best_answers(view: SearchView) -> TextTable:
    """The best answered rows, best first."""
    columns = [(place, view.columns[place]) for place in sorted(view.by_relevance[:_PLACES])]
    columns = [(place, column) for place, column in columns if column is not None]
    beliefs, best, rows = view.search.beliefs, view.best_places(_ROWS), []
    # The same digits for all rows: those that a row has on the whole.
    deviations = np.sqrt(beliefs.variance.mean(axis=0)).tolist()
    for place, answer in zip(best, aligned_texts(view.answers[best].tolist()), strict=True):
        row = int(view.rows[place])
        expected = [ABSENT, ABSENT]
        if view.knows:
            mean, half = (float(part[row]) for part in view.predicted)
            expected = expected_text(mean, half).split(" ± ")
        places = [
            value_text(column, float(beliefs.mean[row, at]), deviations[at])
            for at, column in columns
            if column is not None
        ]
        rows.append((f"{row}", answer, *expected, *places))
    names = [view.certificate.names[place] for place, _ in columns]
    left_out = len(set(view.rows)) - len(rows)
    return TextTable(("row", "answer", "expected", "±", *names), tuple(rows), left_out)


def _length_scales(view: SearchView) -> TextTable:
    """How far outcomes reach in each column: in units of distance, its own, and of its width."""
    scales = view.search.modeler.prior.scales(len(view.columns)).tolist()
    own = view.certificate.projection is None
    head = ("column", "length scale, units of distance", "in its own unit", "of its width")
    rows = []
    for name, column, scale, width in zip(
        view.certificate.names, view.columns, scales, view.widths.tolist(), strict=True
    ):
        length = () if column is None else (length_text(column, scale),)
        rows.append((name, number_text(scale, 3), *length, share_text(scale / width)))
    return _cut(head if own else (*head[:2], head[3]), rows)


def _columns(view: SearchView) -> TextTable:
    """The public columns: bounds, the unit of distance, the radius and the noise in it."""
    certificate, rows = view.certificate, []
    released, scale = certificate.projection is None, certificate.mechanism.scale
    for column in certificate.bounds.columns:
        cells = [column.name, *bound_texts(column), length_text(column, 1.0)]
        cells.append(_reach(column, certificate.radius))
        if released:
            cells += [length_text(column, scale), share_text(scale / column.extent)]
        rows.append(tuple(cells))
    head = ("column", "from", "to", "one unit", "neighbours differ by")
    return _cut((*head, "noise", "of the width") if released else head, rows)


def _reach(column: PublicColumn, radius: float) -> str:
    """How far a neighbour may be off in one column alone."""
    return "any value" if radius >= column.extent else f"up to {length_text(column, radius)}"


def _cut(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> TextTable:
    return TextTable(head, tuple(rows[:_COLUMNS]), max(len(rows) - _COLUMNS, 0))


def expected_text(mean: float, deviation: float) -> str:
    """203.5 ± 7.5: no more digits than the deviation has."""
    if not deviation > 0.0:
        return f"{number_text(mean, 4)} ± 0"
    digits = min(max(1 - math.floor(math.log10(deviation)), 0), 12)
    return f"{mean:,.{digits}f} ± {number_text(deviation, 2)}"


def counted(count: int, noun: str) -> str:
    """1 row, 2,930 rows."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
