"""The plan's figures, page and notebook view."""

from __future__ import annotations

from pathlib import Path

import pytest

from discreet.lab.reporting.layout import NARROW, WIDE
from discreet.lab.reporting.plan_figures import people_figure
from discreet.lab.reporting.plan_view import Plan, render_plan
from discreet.validation import InvalidInput

from .cases import overlapping, words_of
from .test_plan_words import flat, plan
from .test_report import parsed


@pytest.fixture(scope="module")
def made() -> Plan:
    return plan(title="<b>Whom</b> to call", question=("loss", 2.0, 4000.0))


def test_the_page_needs_nothing_else_and_answers_in_order(made: Plan, tmp_path: Path) -> None:
    page = made.report(tmp_path / "plan.html").read_text(encoding="utf-8")
    loads = parsed(page)
    assert loads.sources
    assert all(source.startswith("data:image/svg+xml;base64,") for source in loads.sources)
    assert "<b>Whom" not in page
    words = words_of(page)
    places = [
        words.index(text)
        for text in (
            made.recommendation.sentences[0],
            made.recommendation.sentences[2],
            "Asked: At epsilon = 2 with 4,000 people",
            "Whose data this plan used.",
            "What each epsilon costs people",
            "How many people it takes",
            "What each epsilon means for one person",
            "Nanayakkara",
            "The certificate, as a draft",
            "What the numbers rest on",
        )
    ]
    assert places == sorted(places)
    line = made.line(4.0)
    assert line.guarantee is not None
    assert line.guarantee.sentence in words


def test_the_page_of_a_plan_without_a_gain() -> None:
    words = words_of(render_plan(flat()))
    assert "Cannot tell yet: whether choosing by person gains anything" in words
    assert "No gain is clear even without privacy" in words
    assert "it is not a recommendation" in words


@pytest.mark.parametrize("width", [pytest.param(WIDE, marks=pytest.mark.slow), NARROW])
def test_figures_have_room_for_their_texts(made: Plan, width: float) -> None:
    for figure in (
        made.plot.loss(width),
        made.plot.people(width),
        made.plot.growth(width),
        made.plot.odds(0, width),
        made.plot.odds(1, width),
    ):
        assert not overlapping(figure)


def test_icons_count_what_they_say(made: Plan) -> None:
    figure = made.plot.odds(0)
    counts = [
        [len(line.get_xdata()) for line in axes.lines]  # type: ignore[arg-type]
        for axes in figure.axes
    ]
    assert counts == [[100, 50, 0], [100, 50, 24], [100, 50, 39], [100, 50, 49]]


def test_a_notebook_shows_words_and_numbers(made: Plan) -> None:
    html = made._repr_html_()
    assert "&lt;b&gt;Whom" in html
    assert "<table" in html
    assert repr(made).startswith("<Plan of 'made': No: with 4,000 people")


def test_a_folder_that_is_not_there_is_refused(made: Plan, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="does not exist"):
        made.report(tmp_path / "nowhere" / "plan.html")


def test_a_prior_or_an_epsilon_that_is_not_there_is_refused(made: Plan) -> None:
    with pytest.raises(InvalidInput, match="prior was 5; it must be one of 0, 1"):
        made.plot.odds(prior=5)
    with pytest.raises(InvalidInput, match="epsilon was nan"):
        made.line(float("nan"))


def test_numbers_of_people_that_were_simulated_stand_along_the_axis(made: Plan) -> None:
    (axes,) = people_figure(made).axes
    ticks = axes.get_xticks().tolist()
    assert ticks[: len(made.horizons)] == list(made.horizons)
    assert all(tick > made.people for tick in ticks[len(made.horizons) :])
