"""Figures of a search: what they draw, and that nothing leaves the paper."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure

from discreet.lab.reporting.figures import EvenTicks
from discreet.lab.reporting.layout import NARROW, WIDE
from discreet.lab.reporting.search_report import (
    MOST_DOTS,
    RowAxis,
    SearchView,
    answers_figure,
    roomy,
    rows_figure,
)
from discreet.outsourcing.mechanisms import AnswerRules
from discreet.outsourcing.modeler import SearchSettings
from discreet.outsourcing.posterior import RowPrior, column_spread

from .search_cases import FOUR, ONE, PLAIN, Played, play


def view_of(played: Played, optimum: float | None = None) -> SearchView:
    return SearchView(played.search, played.turn, played.rounds, optimum)


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
    view = view_of(play(tmp_path / "search", bounds, scale=scale, rounds=rounds), 145.0 * scale)
    for width in (WIDE, NARROW):
        assert not sticks_out(answers_figure(view, width))
        assert not sticks_out(rows_figure(view, width))


@pytest.mark.parametrize("minimize", [False, True])
def test_the_best_so_far_only_gets_better(tmp_path: Path, minimize: bool) -> None:
    settings = SearchSettings(minimize=minimize)
    view = view_of(play(tmp_path / "search", settings=settings, impossible=2), 0.0)
    answers = [one.answer for one in view.turn.asked if one.answer is not None]
    best = (np.minimum if minimize else np.maximum).accumulate(answers)
    top, bottom = answers_figure(view, WIDE).axes
    line = next(line for line in top.lines if line.get_drawstyle() == "steps-post")
    np.testing.assert_array_equal(np.asarray(line.get_ydata())[:-1], best)
    assert list(np.asarray(line.get_xdata())[:-1]) == view.questions.tolist()
    lost = next(line for line in bottom.lines if line.get_drawstyle() == "steps-post")
    np.testing.assert_allclose(np.asarray(lost.get_ydata())[:-1], best if minimize else -best)


def test_rows_of_the_map_have_the_colour_of_what_is_expected(tmp_path: Path) -> None:
    view = view_of(play(tmp_path / "search"))
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


PROTECTED = AnswerRules(repeats=2, epsilon=3.0, delta=1e-5, bounds=(60.0, 150.0))


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


def test_before_the_first_answer_cells_have_more_rows_or_fewer(tmp_path: Path) -> None:
    view = view_of(play(tmp_path / "search", count=MOST_DOTS + 1, turns=1))
    (cells, *_) = rows_figure(view, WIDE).axes[0].collections
    assert np.nansum(np.expm1(cells.get_array())) == pytest.approx(MOST_DOTS + 1)


def test_many_rows_are_gathered_in_cells(tmp_path: Path) -> None:
    view = view_of(play(tmp_path / "search", count=MOST_DOTS + 1))
    cells = np.ma.filled(rows_figure(view, WIDE).axes[0].collections[0].get_array(), np.nan)
    mean = view.predicted[0]
    assert np.nanmin(cells) >= mean.min() - 1e-9
    assert np.nanmax(cells) <= mean.max() + 1e-9


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


def test_axes_of_logarithms_and_labels(tmp_path: Path) -> None:
    view = view_of(play(tmp_path / "search", FOUR))
    income, smoker = RowAxis.of(view, 1), RowAxis.of(view, 2)
    assert income.log
    assert 900.0 < income.limits[0] < income.limits[1] < 1.2e6
    edges = income.edges(10)
    assert edges[0] < income.values.min() < income.values.max() < edges[-1]
    np.testing.assert_allclose(edges[1:] / edges[:-1], edges[1] / edges[0])
    assert smoker.labels == ("no", "yes")
    assert smoker.limits == (-0.03, 1.03)


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
