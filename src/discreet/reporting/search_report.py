"""The report of a search over a released table, for readers who did not run it.

One HTML file (page.py): what was found, the answers one by one, a map of the rows, what was learnt,
and the curator's certificate.
"""

from __future__ import annotations

from pathlib import Path

from discreet.outsourcing.search import Search, Turn
from discreet.records import check_path
from discreet.reporting import search_facts, search_words
from discreet.reporting.answers_figure import answers_figure
from discreet.reporting.page import Image, image, render, unbroken, write_page
from discreet.reporting.plots import NARROW, WIDE
from discreet.reporting.row_curve import curve_figure
from discreet.reporting.row_maps import plane_figure
from discreet.reporting.search_view import SearchView
from discreet.validation import finite_number, whole_number


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
    return render(
        "search.html.j2",
        title=search_words.title(view),
        size=search_words.size(view),
        answer=search_words.answer(view),
        state=search_words.state(view),
        simulated=search_facts.simulated(view),
        answers=_answers(view),
        answers_caption=search_words.answers_caption(view),
        map=_map(view),
        map_caption=search_words.map_caption(view),
        best=search_facts.best_answers(view),
        best_note=search_words.table_note(view),
        knows=view.knows,
        given=view.given,
        lengths=search_facts.length_scales(view),
        learnt=search_facts.learnt(view),
        sentences=[unbroken(sentence) for sentence in view.certificate.sentences],
        promised=[(name, unbroken(text)) for name, text in search_facts.promised(view)],
        columns=search_facts.columns(view),
        certificate=view.certificate.to_json(),
        settings=search_facts.settings(view),
    )


def _answers(view: SearchView) -> Image | None:
    if not len(view.answers):
        return None
    alt = search_words.answers_alt(view)
    return image(answers_figure(view, WIDE), answers_figure(view, NARROW), alt)


def _map(view: SearchView) -> Image:
    alt = search_words.map_alt(view)
    figure = curve_figure if len(view.columns) == 1 else plane_figure
    return image(figure(view, WIDE), figure(view, NARROW), alt)
