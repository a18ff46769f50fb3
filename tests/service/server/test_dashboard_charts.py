"""Charts of the dashboard, as SVG."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.service.server.dashboard.charts import (
    NARROW,
    WIDE,
    Mark,
    line_chart,
    share_bar,
)

NUMBERS = st.floats(-1e6, 1e6, allow_subnormal=False)


def pictures(markup: str) -> list[ElementTree.Element]:
    """The SVGs of a chart, as XML."""
    return ElementTree.fromstring(f"<div>{markup}</div>").findall(".//svg")


@given(st.lists(st.tuples(st.floats(0.0, 1e7), NUMBERS, st.floats(0.0, 1e5)), min_size=1))
def test_everything_of_a_line_is_inside(values: list[tuple[float, float, float]]) -> None:
    marks = [Mark(at, mean, mean - half, mean + half) for at, mean, half in sorted(values)]
    wide, narrow = pictures(line_chart(marks, "Name", "Words", "people"))
    for picture, width in ((wide, WIDE), (narrow, NARROW)):
        assert picture.get("viewBox", "").split()[2] == str(width)
        for shape in (*picture.findall("polygon"), *picture.findall("polyline")):
            for pair in (shape.get("points") or "").split():
                x, y = map(float, pair.split(","))
                assert 0.0 <= x <= width
                assert 0.0 <= y <= 230.0


def test_a_band_is_where_the_numbers_are() -> None:
    marks = [Mark(0.0, 0.5, 0.0, 1.0), Mark(100.0, 0.25, 0.0, 0.5)]
    band, line = (
        [tuple(map(float, each.split(","))) for each in shape.get("points", "").split()]
        for shape in pictures(line_chart(marks, "Name", "Words", "people"))[0]
        if shape.get("class") in ("band", "line")
    )
    (first, first_top), (last, last_top), (_, last_low), (_, first_low) = band
    assert first < last
    assert first_top < last_top < last_low == first_low  # y goes down the page
    assert line[0] == pytest.approx((first, 0.5 * (first_top + first_low)), abs=0.1)
    assert line[1] == pytest.approx((last, 0.5 * (last_top + last_low)), abs=0.1)


def test_ticks_have_as_many_decimals_as_each_other_and_a_minus_sign() -> None:
    marks = [Mark(0.0, 0.0, -0.5, 1.0), Mark(2000.0, 0.5, 0.0, 1.0)]
    ticks = [text.text for text in pictures(line_chart(marks, "N", "W", "x"))[0].findall("text")]
    assert ticks[:4] == ["\N{MINUS SIGN}0.5", "0.0", "0.5", "1.0"]
    assert "2,000" in ticks


def test_a_chart_is_said_in_words_and_escaped() -> None:
    markup = line_chart([Mark(1.0, 0.0, 0.0, 0.0)], 'A "name" & <more>', "What is seen.", "x")
    for picture in pictures(markup):
        assert picture.get("role") == "img"
        assert picture.get("aria-label") == 'A "name" & <more>. What is seen.'


def test_shares_fill_the_bar() -> None:
    widths = [float(each) for each in re.findall(r' width="([\d.]+)"', share_bar([0.2, 0.3, 0.5]))]
    assert widths == [20.0, 30.0, 50.0]
