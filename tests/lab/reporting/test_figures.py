"""Figures give every text its room, at any width, and show the numbers of their frames."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.patches import Patch
from matplotlib.text import Text

from discreet.lab.reporting.figures import Axis, heat, limits_of, lines, ruler
from discreet.lab.reporting.layout import (
    BLUE,
    NARROW,
    VERMILLION,
    WIDE,
    Stroke,
    finish,
    legend_above,
    name_ends,
    save_figure,
    sheet,
    shortened,
    spread,
    wrapped,
)

from .cases import overlapping

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
STROKES = {f"ours, epsilon {e:g}": Stroke(BLUE, mark="o") for e in EPSILONS}
STROKES["a_reference_of_a_long_name at cost ($) of ($)"] = Stroke(VERMILLION)


def frame(panels: tuple[str, ...]) -> pd.DataFrame:
    """Five lines in each panel that end close to each other, and one without an x in all."""
    rows = [
        {"panel": panel, "name": name, "x": x, "mean": x / (9.0 + place), "half_width": 1.0}
        for panel in panels
        for place, name in enumerate(list(STROKES)[:-1])
        for x in (10.0, 2_000.0, 20_000.0)
    ]
    flat = {"panel": None, "name": list(STROKES)[-1], "x": np.nan, "mean": 900.0}
    return pd.DataFrame([*rows, flat])


@pytest.mark.parametrize(
    ("width", "intervals", "log"), [(WIDE, "bands", True), (NARROW, "bars", False)]
)
def test_nothing_overlaps_at_any_width(width: float, intervals: str, log: bool) -> None:
    panels = ("one", "a panel whose name is long enough to wrap")
    axis = Axis("cost ($) in ($)", log=log)
    columns = 1 if width == NARROW else None
    made = lines(
        frame(panels), STROKES, x=Axis("people", log=log), y=axis, width=width, columns=columns,
        height=0.8, intervals=intervals, note="means of ten trials", # type: ignore[arg-type]
    )  # fmt: skip
    assert overlapping(made) == []
    assert len(made.axes) == len(panels)
    for axes in made.axes:
        assert len(axes.texts) == len(STROKES)
        assert axes.get_ylim() == made.axes[0].get_ylim()
        assert axes.get_window_extent().width > 0.3 * made.bbox.width / (columns or len(panels))


def test_panels_are_as_high_as_asked_for_or_as_their_labels_need() -> None:
    for height in (3.0, 0.1):
        made = lines(frame(("one", "two")), STROKES, height=height)
        for axes in made.axes:
            rows = sum(1 + text.get_text().count("\n") for text in axes.texts)
            expected = max(height, rows * 1.25 * 8.0 / 72.0)
            assert axes.get_window_extent().height / made.dpi == pytest.approx(expected, abs=0.03)


def test_limits_hold_what_is_drawn() -> None:
    low, high = limits_of(frame(("one",)), log=False)
    assert low < 0.0
    assert high == pytest.approx(1.05 * (20_000.0 / 9.0 + 1.0))
    low, high = limits_of(frame(("one",)), log=True)
    assert 0.0 < low <= 0.5 * 10.0 / 9.0
    published = frame(("one",)).assign(paper=1e5)
    assert limits_of(published, log=False)[1] > 1e5
    assert limits_of(pd.DataFrame({"mean": [0.0], "half_width": [0.0]}), log=True) == (0.1, 1.0)


def test_published_numbers_are_crosses() -> None:
    made = lines(frame(("one",)).assign(paper=[7.0] + [np.nan] * 15), STROKES)
    crosses = [line for line in made.axes[0].lines if line.get_marker() == "x"]
    assert np.asarray(crosses[0].get_ydata())[0] == 7.0


def test_ticks_with_names_and_no_line_between_points() -> None:
    made = lines(
        frame(("one",)), {name: Stroke(BLUE, width=0.0, mark="o", hollow=True) for name in STROKES},
        x=Axis(ticks=(10.0, 20_000.0), names=("few", "many")),
    )  # fmt: skip
    assert [text.get_text() for text in made.axes[0].get_xticklabels()] == ["few", "many"]


def test_few_points_have_their_numbers_below_them() -> None:
    points = pd.DataFrame({"x": [30.0, 700.0, 3000.0], "mean": [1.0, 2.0, 3.0]})
    points = points.assign(name="one", half_width=0.0)
    for log in (False, True):
        made = lines(points, {"one": Stroke(BLUE)}, x=Axis("people", log=log))
        assert made.axes[0].get_xticks().tolist() == [30.0, 700.0, 3000.0]
    many = pd.concat([points.assign(x=points["x"] + 10.0 * shift) for shift in range(5)])
    made = lines(many, {"one": Stroke(BLUE)}, x=Axis("people"))
    assert 30.0 not in made.axes[0].get_xticks()


def test_a_map_has_its_ruler_and_a_legend_that_is_read_row_by_row() -> None:
    figure, [[axes]] = sheet(width=NARROW)
    at = np.arange(5.0)
    ruler(figure, heat(axes, at, at, at[:, None] * at, (0.0, 16.0)), [axes], "expected reward")
    handles = [Patch(facecolor=BLUE, label=f"an arm of number {k}") for k in range(7)]
    legend_above(figure, handles, "a title that is longer than a telephone is wide, surely")
    finish(figure, 2.6, aspect=0.5)
    assert overlapping(figure) == []
    box = axes.get_window_extent()
    assert box.height == pytest.approx(0.5 * box.width, rel=0.05)
    entries = [text.get_window_extent() for text in figure.legends[0].get_texts()]
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    first, second = names.index("an arm of number 0"), names.index("an arm of number 1")
    assert entries[first].y0 == pytest.approx(entries[second].y0)
    assert entries[first].x1 < entries[second].x0
    assert figure.legends[0].get_window_extent().y0 >= box.y1


def test_names_in_a_legend_start_no_formula() -> None:
    """A legend is measured before all else; half a formula would end the run."""
    figure, [[axes]] = sheet(width=NARROW)
    names = ["$\\frac{a$", "from $10 to $20"]
    legend_above(figure, [Patch(facecolor=BLUE, label=name) for name in names], "$\\sqrt$")
    finish(figure, 1.0)
    assert {text.get_text() for text in figure.legends[0].get_texts()} == set(names)
    assert axes.get_window_extent().height > 0


def test_a_title_without_a_legend_stands_above() -> None:
    figure, _ = sheet(width=NARROW)
    legend_above(figure, [], "a title that is longer than a telephone is wide, surely")
    finish(figure, 1.0)
    assert overlapping(figure) == []


@given(
    st.lists(st.floats(0.0, 1.0), min_size=1, max_size=8).map(sorted),
    st.lists(st.floats(0.01, 0.12), min_size=8, max_size=8),
)
def test_spread_keeps_order_gaps_and_bounds(at: list[float], heights: list[float]) -> None:
    sizes = np.array(heights[: len(at)])
    places = spread(np.array(at), sizes)
    gaps = 0.5 * (sizes[1:] + sizes[:-1])
    assert (np.diff(places) >= gaps - 1e-9).all()
    assert places[0] >= -1e-9
    assert places[-1] <= 1.0 + 1e-9


def test_spread_leaves_distant_labels_alone() -> None:
    at = np.array([0.1, 0.5, 0.9])
    np.testing.assert_allclose(spread(at, np.full(3, 0.1)), at)


def test_names_beyond_the_axes_stay_beside_them() -> None:
    figure, [[axes]] = sheet(width=NARROW)
    axes.set_ylim(0.0, 1.0)
    name_ends(axes, [("above", 1e6, BLUE), ("below", -1e6, BLUE)])
    finish(figure, 1.0)
    box = axes.get_window_extent()
    for text in axes.texts:
        extent = Text.get_window_extent(text)
        assert box.y0 - 1.0 <= extent.y0 < extent.y1 <= box.y1 + 1.0


def test_texts_are_broken_where_they_may_be() -> None:
    text = "a_learner_with_a_name_that_goes_on at epsilon\u00a01"
    broken = wrapped(text, 1.0)
    assert broken.split("_\n")[0].startswith("a_learner")
    assert broken.replace("\n", "").replace(" ", "") == text.replace(" ", "").replace("\u00a0", "")
    assert "epsilon 1" in broken
    assert all(len(line) < 20 for line in broken.split("\n"))
    assert wrapped("short", 1.0) == "short"
    assert shortened("short", 1.0) == "short"
    assert shortened("a text that does not fit", 0.5).endswith("…")


def test_a_saved_figure_says_what_made_it(tmp_path: Path) -> None:
    save_figure(lines(frame(("one",)), STROKES), tmp_path / "figure.png")
    assert b"discreet" in (tmp_path / "figure.png").read_bytes()
