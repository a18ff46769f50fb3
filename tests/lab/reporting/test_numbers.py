"""How numbers are written, also in the units of their columns."""

from __future__ import annotations

import math

import numpy as np
import pytest

from discreet.lab.reporting.numbers import (
    aligned_texts,
    counted,
    expected_text,
    listed,
    number_text,
    share_text,
    upward,
)
from discreet.lab.reporting.search_report import bound_texts, length_text, value_text, values_at
from discreet.outsourcing.bounds import PublicColumn

AGE = PublicColumn(name="age", lower=18.0, upper=90.0, scale=10.0)
INCOME = PublicColumn(name="income", lower=1e3, upper=1e6, scale=2.0, log=True)
REGION = PublicColumn(name="region", values=("north", "south", "west"), scale=2.0)


@pytest.mark.parametrize("column", [AGE, INCOME, REGION])
def test_values_are_those_of_the_column(column: PublicColumn) -> None:
    coordinates = np.linspace(-0.5, column.extent + 0.5, 31)
    expected = [column.value_at(one) for one in coordinates.tolist()]
    np.testing.assert_allclose(values_at(column, coordinates), expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (value_text(AGE, 3.14159, 0.03), "49.42"),
        (value_text(AGE, 3.14159, 4.0), "49"),
        (value_text(AGE, -1.0, 1.0), "18"),
        (value_text(INCOME, 1.0, 0.1), "7,390"),
        (value_text(REGION, 0.6, 0.5), "south"),
        (length_text(AGE, 0.25), "2.5"),
        (length_text(INCOME, 0.5), f"a factor {math.e:.3g}"),
        (length_text(INCOME, 1e6), "a factor 1.01e+304"),
        (length_text(REGION, 1.0), "2 labels"),
        (length_text(REGION, 0.5), "1 label"),
        (bound_texts(AGE), ("18", "90")),
        (bound_texts(INCOME), ("1,000", "1,000,000")),
        (bound_texts(REGION), ("north", "west")),
        (number_text(1234567.8), "1,234,570"),
        (number_text(0.000123456), "0.000123456"),
        (number_text(-0.0), "0"),
        (number_text(2.5e12), "2.5e+12"),
        (number_text(math.nan), "nan"),
        # Numbers of a column have equally many decimals.
        (aligned_texts([208.71, 200.2, 187.0]), ["208.71", "200.20", "187.00"]),
        (aligned_texts([-0.001, 0.5], 2), ["-0.001", "0.500"]),
        (aligned_texts([]), []),
        (aligned_texts([1e-9, 1.0]), ["1e-09", "1"]),
        (expected_text(203.52, 7.48), "203.5 ± 7.5"),
        (expected_text(203.52, 0.0), "203.5 ± 0"),
        ([share_text(share) for share in (0.00341, 0.0341, 0.341)], ["0.34%", "3.4%", "34%"]),
        (
            [upward(value) for value in (0.5, 1.0 / 3.0, 2.0 / 3.0)],
            ["0.5", repr(1 / 3), "0.666667"],
        ),
        ([counted(1, "row"), counted(2930, "row")], ["1 row", "2,930 rows"]),
        (listed(["1", "2", "4"]), "1, 2 and 4"),
    ],
)
def test_texts(text: object, expected: object) -> None:
    assert text == expected
