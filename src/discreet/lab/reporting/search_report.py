"""The report of a search over a released table, for readers who did not run it.

One HTML file (page.py): what was found, the answers one by one, a map of the rows, what was learnt,
and the curator's certificate. Its sentences and tables stand in `templates/search.html.j2`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from discreet.lab.reporting.numbers import (
    ABSENT,
    aligned_texts,
    expected_text,
    listed,
    share_text,
)
from discreet.lab.reporting.page import image, render, write_page
from discreet.lab.reporting.provenance import Provenance, provenance_of_release
from discreet.lab.reporting.row_figures import MOST_DOTS, MOST_TICKS, answers_figure, rows_figure
from discreet.lab.reporting.search_view import SearchView, bound_texts, length_text, value_text
from discreet.outsourcing.mechanisms import times_text
from discreet.outsourcing.modeler import RowSearch, Turn
from discreet.privacy.guarantee import rounded_up
from discreet.validation import finite_number, whole_number

# Of the table of best answers: so many rows, and places of a row; of columns that are not on the
# map, so many names.
_ROWS, _PLACES, _NAMED = 10, 6, 6


def write_search_report(
    search: RowSearch, turn: Turn, rounds: int, path: Path, optimum: float | None = None
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
    write_page(lambda: render_search_report(search, turn, rounds, optimum), path)


def render_search_report(
    search: RowSearch,
    turn: Turn,
    rounds: int,
    optimum: float | None = None,
    origin: Provenance | None = None,
) -> str:
    """The report as HTML; its origin is now, if left out. See `write_search_report`."""
    whole_number(rounds, "rounds", minimum=1)
    known = None if optimum is None else finite_number(optimum, "the optimum")
    view = SearchView(search, turn, rounds, known)
    certificate, shown = view.certificate, view.shown_columns
    others = [name for place, name in enumerate(certificate.names) if place not in shown]
    shares = certificate.mechanism.scale / view.widths
    sources = list(certificate.guarantee.noise)
    sources += certificate.with_answers.noise if certificate.with_answers else ()
    scales = search.modeler.prior.scales(len(view.columns)).tolist()
    placed = [at for at in sorted(view.by_relevance[:_PLACES]) if view.columns[at] is not None]
    return render(
        "search.html.j2",
        view=view,
        certificate=certificate,
        prior=search.modeler.prior,
        settings=search.settings,
        origin=origin
        or provenance_of_release(
            certificate.release, certificate.file, certificate.sha256, search.settings.seed
        ),
        answers=len(view.answers) and image(lambda width: answers_figure(view, width)),
        map=image(lambda width: rows_figure(view, width)),
        shown=[certificate.names[place] for place in shown],
        not_shown=f"{len(others)} others" if len(others) > _NAMED else others and listed(others),
        most_dots=MOST_DOTS,
        most_ticks=MOST_TICKS,
        best_answers=_best_answers(view, placed),
        best_columns=[certificate.names[at] for at in placed],
        best_expected=view.best_expected(),
        lengths=list(zip(certificate.names, view.columns, scales, view.widths, strict=True)),
        shares=dict.fromkeys(share_text(float(end)) for end in (shares.min(), shares.max())),
        sources=dict.fromkeys(sources),
        simulated=any("simulation only" in source for source in sources),
        bounds=bound_texts,
        expected=expected_text,
        length=length_text,
        share=share_text,
        times=times_text,
        up=rounded_up,
    )


def _best_answers(view: SearchView, placed: list[int]) -> list[list[str]]:
    """The best answered rows, best first, with their places in some of the columns."""
    beliefs, best = view.search.beliefs, view.best_places(_ROWS)
    # The same digits for all rows: those that a row has on the whole.
    deviations = np.sqrt(beliefs.variance.mean(axis=0)).tolist()
    table = []
    for place, answer in zip(best, aligned_texts(view.answers[best].tolist()), strict=True):
        row, expected = int(view.rows[place]), [ABSENT, ABSENT]
        if view.knows:
            mean, half = (float(part[row]) for part in view.predicted)
            expected = expected_text(mean, half).split(" ± ")
        places = [
            value_text(column, float(beliefs.mean[row, at]), deviations[at])
            for at in placed
            if (column := view.columns[at]) is not None
        ]
        table.append([f"{row}", answer, *expected, *places])
    return table
