"""Coordinates and lengths in the units of their columns."""

from __future__ import annotations

import math

import numpy as np
import pytest

from discreet.outsourcing.bounds import PublicColumn
from discreet.reporting.numbers import aligned_texts, number_text, share_text
from discreet.reporting.search_view import bound_texts, length_text, value_text, values_at

AGE = PublicColumn(name="age", lower=18.0, upper=90.0, scale=10.0)
INCOME = PublicColumn(name="income", lower=1e3, upper=1e6, scale=2.0, log=True)
REGION = PublicColumn(name="region", values=("north", "south", "west"), scale=2.0)


@pytest.mark.parametrize("column", [AGE, INCOME, REGION])
def test_values_are_those_of_the_column(column: PublicColumn) -> None:
    coordinates = np.linspace(-0.5, column.extent + 0.5, 31)
    expected = [column.value_at(one) for one in coordinates.tolist()]
    np.testing.assert_allclose(values_at(column, coordinates), expected, rtol=1e-12)


def test_values_have_the_digits_that_are_known() -> None:
    assert value_text(AGE, 3.14159, 0.03) == "49.42"
    assert value_text(AGE, 3.14159, 4.0) == "49"
    assert value_text(AGE, -1.0, 1.0) == "18"
    assert value_text(INCOME, 1.0, 0.1) == "7,390"
    assert value_text(REGION, 0.6, 0.5) == "south"


def test_lengths_are_distances_factors_or_labels() -> None:
    assert length_text(AGE, 0.25) == "2.5"
    assert length_text(INCOME, 0.5) == f"a factor {math.e:.3g}"
    assert length_text(INCOME, 1e6) == "a factor 1.01e+304"
    assert length_text(REGION, 1.0) == "2 labels"
    assert length_text(REGION, 0.5) == "1 label"


def test_bounds_are_written_in_full() -> None:
    assert bound_texts(AGE) == ("18", "90")
    assert bound_texts(INCOME) == ("1,000", "1,000,000")
    assert bound_texts(REGION) == ("north", "west")


@pytest.mark.parametrize(
    ("value", "text"),
    [(1234567.8, "1,234,570"), (0.000123456, "0.000123456"), (-0.0, "0"), (2.5e12, "2.5e+12")],
)
def test_numbers(value: float, text: str) -> None:
    assert number_text(value) == text


def test_numbers_of_a_column_have_equally_many_decimals() -> None:
    assert aligned_texts([208.71, 200.2, 187.0]) == ["208.71", "200.20", "187.00"]
    assert aligned_texts([-0.001, 0.5], 2) == ["-0.001", "0.500"]
    assert aligned_texts([]) == []
    assert aligned_texts([1e-9, 1.0]) == ["1e-09", "1"]


def test_shares() -> None:
    assert [share_text(one) for one in (0.00341, 0.0341, 0.341)] == ["0.34%", "3.4%", "34%"]
