"""The report of a search: one file that loads nothing, says what was found and what is promised."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from html import escape, unescape
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure

from discreet.lab.reporting.figures import EvenTicks
from discreet.lab.reporting.layout import NARROW, WIDE
from discreet.lab.reporting.page import MAP
from discreet.lab.reporting.search_report import (
    SearchView,
    answers_figure,
    render_search_report,
    roomy,
    rows_figure,
    write_search_report,
)
from discreet.outsourcing.mechanisms import AnswerRules
from discreet.outsourcing.modeler import SearchSettings
from discreet.outsourcing.posterior import RowPrior, column_spread
from discreet.privacy import SecureNoise
from discreet.validation import InvalidInput

from .cases import words_of as plain
from .search_cases import EVIL, FOUR, ONE, PLAIN, Played, play
from .test_report import parsed

PROTECTED = AnswerRules(repeats=2, epsilon=3.0, delta=1e-5, bounds=(60.0, 150.0))


@pytest.fixture(scope="module")
def plain_search(tmp_path_factory: pytest.TempPathFactory) -> Played:
    return play(tmp_path_factory.mktemp("plain") / "search")


def report(played: Played) -> str:
    return render_search_report(played.search, played.turn, played.rounds)


def words(text: str) -> str:
    return plain(text.partition("<body>")[2])


def test_one_file_with_two_figures(tmp_path: Path, plain_search: Played) -> None:
    played, path = plain_search, tmp_path / "run.html"
    write_search_report(played.search, played.turn, played.rounds, path)
    text = path.read_text(encoding="utf-8")
    loads = parsed(text)
    assert all(source.startswith("data:image/svg+xml;base64,") for source in loads.sources)
    assert loads.tags.count("img") == len(loads.alts) == 2
    assert all(loads.alts)
    assert str(tmp_path) not in text
    # In the dark the map keeps its colours, on screens of both widths; the chart is turned.
    styled = [MAP in b64decode(source.partition(",")[2]).decode() for source in loads.sources]
    assert styled == [True, True, False, False]
    assert re.findall(r'<img class="(\w+)"', text) == ["map", "chart"]


@pytest.mark.usefixtures("unpainted")
def test_it_says_where_it_comes_from(plain_search: Played) -> None:
    text = report(plain_search)
    certificate = plain_search.search.table.certificate
    versions = f"discreet {version('discreet')}, numpy {version('numpy')}, opendp "
    assert re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", text)
    for fact in (certificate.release, certificate.sha256, versions, "signature", "role"):
        assert fact in words(text)
    assert "guess" not in words(text), "the digest of released rows is public"


@pytest.mark.usefixtures("unpainted")
def test_it_says_what_was_found_and_what_is_promised(plain_search: Played) -> None:
    played = plain_search
    text = report(played)
    said = words(text)
    best = played.turn.best
    assert best is not None
    assert f"After 12 questions, the highest answer is {best.answer:.6g}, of row {best.row}" in said
    assert "The search is over: all 12 questions have been asked and settled." in said
    certificate = played.search.table.certificate
    for sentence in certificate.sentences:
        assert sentence in said
    assert "Simulated noise." in said
    assert "radius 0.2 units of distance" in said
    assert "not protected: they are given as they are" in said
    assert "SimulatedNoise (NumPy, for simulation only)" in said
    assert certificate.release in said
    told = re.search(r"<pre[^>]*>(.*?)</pre>", text, re.DOTALL)
    assert told is not None
    assert json.loads(unescape(told[1])) == json.loads(certificate.to_json())


@pytest.mark.usefixtures("unpainted")
def test_the_table_shows_the_best_answers_where_they_lie(tmp_path: Path) -> None:
    played = play(tmp_path / "search", rounds=14)
    body = report(played).partition("The best answers")[2].partition("</table>")[0]
    rows = re.findall(r"<tr><td>(\d+)</td><td>([\d.]+)</td>", body)
    told = {one.row: one.answer for one in played.turn.asked}
    answers = sorted((answer for answer in told.values() if answer is not None), reverse=True)
    assert len(rows) == 10
    assert [float(answer) for _, answer in rows] == pytest.approx(answers[:10], rel=1e-4)
    assert [told[int(row)] for row, _ in rows] == answers[:10]
    beliefs, column = played.search.beliefs, played.search.table.certificate.bounds.columns[0]
    place = re.findall(r"<td>([-\d.,]+)</td>", body)[4]
    assert float(place) == pytest.approx(column.value_at(beliefs.mean[int(rows[0][0]), 0]), abs=0.5)


@pytest.mark.usefixtures("unpainted")
def test_before_the_first_answer(tmp_path: Path) -> None:
    text = report(play(tmp_path / "search", turns=1))
    said = words(text)
    assert "No outcome is known yet." in said
    assert "4 questions wait for an answer and 8 more may be asked." in said
    assert "Nothing has been learnt about outcomes of other rows yet." in said
    assert "The best answers" not in said
    assert parsed(text).tags.count("img") == 1


@pytest.mark.usefixtures("unpainted")
def test_before_anything_can_be_learnt_nothing_is_expected(tmp_path: Path) -> None:
    played = play(tmp_path / "search", turns=2)
    assert played.turn.answered == 4
    said = words(report(played))
    assert "Not learnt yet." in said
    assert "Where the rows are" in said
    assert "promises an improvement" not in said


@pytest.mark.usefixtures("unpainted")
def test_the_lowest_outcome(tmp_path: Path) -> None:
    played = play(tmp_path / "search", settings=SearchSettings(minimize=True))
    assert "Search for the lowest outcome" in words(report(played))


@pytest.mark.usefixtures("unpainted")
def test_protected_answers_are_shown_with_their_noise(tmp_path: Path) -> None:
    played = play(tmp_path / "search", answers=PROTECTED)
    said = words(report(played))
    assert "protected: cut to 60 to 150, with normal noise" in said
    assert "a row may be asked for 2 times" in said
    assert "with noise on it:" in said
    assert "of the noise that the curator added to each answer" in said
    assert "Answers carry noise of their own" in said


@pytest.mark.usefixtures("unpainted")
def test_rows_that_cannot_be_measured(tmp_path: Path) -> None:
    said = words(report(play(tmp_path / "search", turns=3, impossible=3)))
    assert "12 asked of at most 12; 5 answered; 3 cannot be measured; 4 are waiting" in said
    assert "Cross: the row cannot be measured." in said
    said = words(report(play(tmp_path / "none", turns=2, impossible=4)))
    assert "No outcome is known yet: the 4 rows that came back cannot be measured." in said


@pytest.mark.usefixtures("unpainted")
@pytest.mark.chance(0)
def test_secure_noise_raises_no_alarm(tmp_path: Path) -> None:
    text = report(play(tmp_path / "search", noise=SecureNoise()))
    assert "Simulated noise." not in words(text)


@pytest.mark.usefixtures("unpainted")
def test_a_prior_that_was_given(tmp_path: Path) -> None:
    settings = SearchSettings(prior=RowPrior((1.5, 0.25), 900.0, 1.0, 100.0))
    said = words(report(play(tmp_path / "search", settings=settings)))
    assert "What was assumed" in said
    assert "east 1.5 3 15%" in said
    assert "standard deviation 30 (variance 900)" in said
    assert "drawn at random, before" not in said


@pytest.mark.usefixtures("unpainted")
def test_four_columns_in_their_own_units(tmp_path: Path) -> None:
    played = play(tmp_path / "search", FOUR, count=120, rounds=20, batch=5)
    text = report(played)
    said = words(text)
    assert "not shown:" in said
    assert "income ($) 1,000 1,000,000 a factor 7.39 up to a factor 1.49" in said
    assert "<b>" not in text
    assert "smoker no yes 1 label" in said
    assert "<b>north</b> west" in unescape(re.sub(r"</?td>", " ", text)).replace("  ", " ")


@pytest.mark.usefixtures("unpainted")
def test_projected_rows_have_no_place(tmp_path: Path) -> None:
    said = words(report(play(tmp_path / "search", FOUR, projected=2)))
    assert "4 columns to 2 numbers" in said
    assert "Places are" not in said
    assert "z1" in said


@pytest.mark.usefixtures("unpainted")
def test_names_are_escaped(tmp_path: Path) -> None:
    bounds = PLAIN.replace("columns.north", f'columns."{EVIL}"')
    text = report(play(tmp_path / "search", bounds))
    assert "<script" not in text
    assert text.count(escape(EVIL)) >= 3


@pytest.mark.usefixtures("unpainted")
def test_one_column_before_the_first_answer(tmp_path: Path) -> None:
    said = words(report(play(tmp_path / "search", ONE, turns=1)))
    assert "Dots: where rows are believed to be." in said
    assert "Dots and bars" not in said


@pytest.mark.usefixtures("unpainted")
@pytest.mark.parametrize("count", [5, 8])
@pytest.mark.parametrize("bounds", [ONE, PLAIN])
def test_a_table_of_which_every_row_was_asked_for(tmp_path: Path, bounds: str, count: int) -> None:
    played = play(tmp_path / "search", bounds, count, rounds=40)
    assert "every row has been asked for" in words(report(played))


@pytest.mark.parametrize("bounds", [ONE, pytest.param(PLAIN, marks=pytest.mark.slow)])
def test_many_rows_make_no_large_file(tmp_path: Path, bounds: str) -> None:
    text = report(play(tmp_path / "search", bounds, 6_000))
    assert len(text) < 1_000_000
    assert ("Dots and bars" if bounds == ONE else "Every dot is a released row") in words(text)
    assert "2,000 of the rows are shown." in words(text)


def test_what_is_refused(tmp_path: Path) -> None:
    played = play(tmp_path / "search", turns=2)
    with pytest.raises(InvalidInput, match="does not exist"):
        write_search_report(played.search, played.turn, 12, tmp_path / "none" / "run.html")


# Figures.


def view_of(played: Played) -> SearchView:
    return SearchView(played.search, played.turn, played.rounds)


def sticks_out(figure: Figure) -> bool:
    """Whether anything is drawn outside of the paper."""
    box = figure.get_tightbbox()
    width, height = figure.get_size_inches()
    return bool(min(box.x0, box.y0) < -0.01 or box.x1 > width + 0.01 or box.y1 > height + 0.01)


@pytest.mark.parametrize(
    ("bounds", "scale", "rounds"),
    [
        (PLAIN, 1e-7, 12),
        pytest.param(PLAIN, 1.0, 12, marks=pytest.mark.slow),
        pytest.param(PLAIN, 1e6, 12, marks=pytest.mark.slow),
        (ONE, 1.0, 12),
        pytest.param(FOUR, 1.0, 20, marks=pytest.mark.slow),
    ],
)
def test_nothing_leaves_the_paper(tmp_path: Path, bounds: str, scale: float, rounds: int) -> None:
    view = view_of(play(tmp_path / "search", bounds, scale=scale, rounds=rounds))
    for width in (WIDE, NARROW):
        assert not sticks_out(answers_figure(view, width))
        assert not sticks_out(rows_figure(view, width))


@pytest.mark.parametrize("minimize", [False, True])
def test_the_best_so_far_only_gets_better(tmp_path: Path, minimize: bool) -> None:
    settings = SearchSettings(minimize=minimize)
    view = view_of(play(tmp_path / "search", settings=settings, impossible=2))
    answers = [one.answer for one in view.turn.asked if one.answer is not None]
    best = (np.minimum if minimize else np.maximum).accumulate(answers)
    (top,) = answers_figure(view, WIDE).axes
    line = next(line for line in top.lines if line.get_drawstyle() == "steps-post")
    np.testing.assert_array_equal(np.asarray(line.get_ydata())[:-1], best)
    assert list(np.asarray(line.get_xdata())[:-1]) == view.questions.tolist()


def test_rows_of_the_map_have_the_colour_of_what_is_expected(plain_search: Played) -> None:
    view = view_of(plain_search)
    axes = rows_figure(view, WIDE).axes[0]
    dots = next(one for one in axes.collections if isinstance(one, PathCollection))
    others = np.setdiff1d(np.arange(60), [one.row for one in view.turn.asked])
    np.testing.assert_allclose(np.asarray(dots.get_array()), view.predicted[0][others])
    east = [2.0 * view.search.beliefs.mean[row, 0] for row in others]
    np.testing.assert_allclose(np.asarray(dots.get_offsets())[:, 0], east)
    star = axes.collections[-1]
    assert view.turn.best is not None
    np.testing.assert_allclose(
        np.asarray(star.get_offsets())[0, 0], 2.0 * view.search.beliefs.mean[view.turn.best.row, 0]
    )


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({"answers": PROTECTED}, "east"),
        ({"bounds": FOUR, "projected": 2}, "z1 (units of distance)"),
    ],
)
def test_noise_of_answers_and_projected_rows(
    tmp_path: Path, options: dict[str, Any], shown: str
) -> None:
    view = view_of(play(tmp_path / "search", **options))
    for figure in (answers_figure(view, NARROW), rows_figure(view, NARROW)):
        assert not sticks_out(figure)
    assert rows_figure(view, WIDE).axes[0].get_xlabel() == shown


def test_over_one_column_dots_and_bars_are_what_is_expected(tmp_path: Path) -> None:
    view = view_of(play(tmp_path / "search", ONE))
    axes = rows_figure(view, WIDE).axes[0]
    np.testing.assert_allclose(
        np.asarray(axes.lines[0].get_ydata()), view.predicted[0][view.mapped]
    )
    assert axes.get_ylabel() == "outcome"
    new = view_of(play(tmp_path / "new", ONE, turns=1))
    assert not rows_figure(new, WIDE).axes[0].yaxis.get_visible()


def test_the_shown_columns_are_those_that_matter(tmp_path: Path) -> None:
    view = view_of(play(tmp_path / "search", FOUR, count=150, rounds=30, batch=10))
    scales = np.array(view.search.modeler.prior.length_scale)
    order = np.argsort(scales / column_spread(view.search.beliefs))
    assert set(view.shown_columns) == set(order[:2].tolist())
    assert view_of(play(tmp_path / "new", FOUR, turns=1)).shown_columns == (0, 1)


def test_repeated_rows_count_once_with_their_best_answer(tmp_path: Path) -> None:
    rules = AnswerRules(repeats=3, epsilon=3.0, delta=1e-5, bounds=(60.0, 150.0))
    view = view_of(play(tmp_path / "search", count=5, rounds=14, answers=rules))
    places = view.best_places(10)
    assert len(view.answers) == 14
    assert sorted(view.rows[places].tolist()) == [0, 1, 2, 3, 4]
    for place in places:
        assert view.answers[place] == view.answers[view.rows == view.rows[place]].max()
    assert view.answers[view.best_place] == view.answers.max()


def test_axes_of_logarithms_and_labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SearchView, "shown_columns", (1, 2))
    axes = rows_figure(view_of(play(tmp_path / "search", FOUR)), WIDE).axes[0]
    assert axes.get_xscale() == "log"
    low, high = axes.get_xlim()
    assert 900.0 < low < high < 1.2e6
    assert [label.get_text() for label in axes.get_yticklabels()] == ["no", "yes"]
    assert axes.get_ylim() == (-0.03, 1.03)


@pytest.mark.parametrize(
    ("ticks", "texts"),
    [
        ([42.0, 42.02], ["42.00", "42.02"]),
        ([0.0, 2000.0], ["0", "2,000"]),
        ([0.0, 1e-9], ["0", "1e-09"]),
        ([0.0, 2e9], ["0", "2e+09"]),
        ([], []),
    ],
)
def test_ticks_have_equally_many_decimals(ticks: list[float], texts: list[str]) -> None:
    assert EvenTicks().format_ticks(ticks) == texts


@pytest.mark.parametrize("values", [[0.0], [3.0, 3.0], [-1.0, 2.0]])
def test_there_is_room_around_all_values(values: list[float]) -> None:
    low, high = roomy(np.array(values), 0.1)
    assert low < min(values) <= max(values) < high


def test_marks_without_number_are_possible(tmp_path: Path) -> None:
    settings = SearchSettings(prior=RowPrior(1.0, 900.0, 1.0, 100.0))
    played = play(tmp_path / "search", count=1200, rounds=500, batch=250, settings=settings)
    for draw in (answers_figure, rows_figure):
        assert not sticks_out(draw(view_of(played), NARROW))
