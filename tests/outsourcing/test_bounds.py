"""Public bounds: rows as points, and how far computing them may carry a row."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.outsourcing.bounds import GRID, ROUNDING, PublicBounds, PublicColumn, read_bounds
from discreet.validation import InvalidInput

FILE = """
id = "patient"
outcome = "cost"
radius = 2

[columns.age]
lower = 18
upper = 90
scale = 10

[columns.income]
lower = 1000
upper = 1000000
log = true
outside = "clip"

[columns.smoker]
values = ["no", "yes", "sometimes"]
scale = 0.5
"""


def write(path: Path, text: str) -> Path:
    file = path / "bounds.toml"
    file.write_text(text, encoding="utf-8")
    return file


def number(lower: float, upper: float, scale: float, log: bool = False) -> PublicColumn:
    return PublicColumn(name="x", lower=lower, upper=upper, outside="clip", scale=scale, log=log)


class TestCoordinates:
    def test_a_file_as_it_is_meant(self, tmp_path: Path) -> None:
        bounds = read_bounds(write(tmp_path, FILE))
        assert (bounds.id, bounds.outcome, bounds.radius) == ("patient", "cost", 2.0)
        assert [column.name for column in bounds.columns] == ["age", "income", "smoker"]
        # Seven and a fifth decades; one whole width, in powers of e; two labels' steps of two.
        np.testing.assert_allclose(bounds.extent, [7.2, 1.0, 4.0])
        frame = pd.DataFrame(
            {
                "smoker": ["yes", "no", "sometimes"],
                "age": [18, 90, 54.0],
                "income": [1000, 1000 * math.sqrt(1000.0), 5e6],
                "patient": ["a", "b", "c"],
                "cost": [1.0, 2.0, 3.0],
            }
        )
        expected = [[0.0, 0.0, 2.0], [7.2, 0.5, 0.0], [3.6, 1.0, 4.0]]
        np.testing.assert_allclose(bounds.coordinates(frame), expected, atol=GRID)
        assert bounds.diameter == pytest.approx(math.sqrt(7.2**2 + 1.0 + 16.0))

    def test_everything_is_on_the_grid_and_within_reach(self) -> None:
        rng = np.random.default_rng(0)
        for column in (number(-3.7, 1e5, 77.7), number(0.3, 44.0, 0.013, True)):
            values = rng.uniform(column.column.lower, column.column.upper, 10_000)
            found = column.coordinates(values)
            assert (found * 2.0**32 == np.round(found * 2.0**32)).all()
            assert found.min() >= 0.0
            assert found.max() <= column.extent + GRID
        ends = number(0.0, 1.0, 3.0).coordinates(np.array([0.0, 1.0]))
        assert ends[0] == 0.0
        assert abs(ends[1] - 1.0 / 3.0) <= GRID / 2.0

    def test_any_two_rows_are_within_the_diameter(self) -> None:
        columns = tuple(
            PublicColumn(name=f"c{i}", lower=0.0, upper=1.0, scale=3.0 + i / 7.0)
            for i in range(1, 40)
        )
        bounds = PublicBounds(columns, "id")
        frame = pd.DataFrame({f"c{i}": [0.0, 1.0] for i in range(1, 40)})
        low, high = bounds.coordinates(frame)
        square = sum(
            (Fraction(a) - Fraction(b)) ** 2
            for a, b in zip(low.tolist(), high.tolist(), strict=True)
        )
        assert square <= Fraction(bounds.diameter) ** 2

    def test_values_come_back(self) -> None:
        for column in (number(-5.0, 20.0, 3.0), number(2.0, 9e4, 0.5, True)):
            values = np.linspace(column.column.lower, column.column.upper, 50)
            found = [column.value_at(float(at)) for at in column.coordinates(values)]
            np.testing.assert_allclose(found, values, rtol=1e-8)
            assert column.value_at(-1.0) == pytest.approx(column.column.lower)
            assert column.value_at(1e9) == pytest.approx(column.column.upper)

    def test_fields_round_trip(self, tmp_path: Path) -> None:
        bounds = read_bounds(write(tmp_path, FILE))
        again = PublicBounds.from_fields(bounds.to_fields(), "patient", "cost")
        assert again.columns == bounds.columns
        # What stays at home is not among the public fields.
        assert "patient" not in str(bounds.to_fields())
        assert "cost" not in str(bounds.to_fields())


def exact_linear(value: float, column: PublicColumn) -> Fraction:
    clipped = min(max(value, column.column.lower), column.column.upper)
    return (Fraction(clipped) - Fraction(column.column.lower)) / Fraction(column.scale)


def exact_log(value: float, column: PublicColumn) -> Fraction:
    clipped = min(max(value, column.column.lower), column.column.upper)
    with localcontext() as context:
        context.prec = 60
        length = (Decimal(clipped) / Decimal(column.column.lower)).ln() / Decimal(column.scale)
    return Fraction(length)


HARD = [
    number(0.0, 1.0, 1.0 / 3.0),
    number(-1e15, 1e15, 5e11),
    number(0.1, 0.7, 0.6 / 4000.0),
    number(1e-300, 3e-300, 1e-303),
    number(-1e300, 1e300, 1e297),
    number(123456.789, 123456.79, 1.1e-5),
    number(1.0, 1e6, 1.0, True),
    number(1e-150, 1e150, 0.34, True),
    # As far apart and as short as a logarithm is allowed to be.
    number(1.0, 1.0101, 2.46e-6, True),
    number(7.3e200, 7.374e200, 2.47e-6, True),
    number(5e-324, 1e-300, 0.02, True),
]


class TestRounding:
    """Coordinates of two rows lie as far apart as the rows do, up to `ROUNDING` each."""

    @pytest.mark.parametrize("column", HARD, ids=lambda one: f"{one.column.lower:g}")
    def test_two_rows_against_exact_arithmetic(self, column: PublicColumn) -> None:
        rng = np.random.default_rng(1)
        low, high = column.column.lower, column.column.upper
        share = rng.random(400)
        values = low * (1.0 - share) + high * share
        if column.log:
            values = low * np.exp(share * math.log(high / low))
        values = np.concatenate([values, np.nextafter(values, high), [low, high, 2 * high - low]])
        values = np.clip(values, low, high)
        exact = exact_log if column.log else exact_linear
        truth = [exact(value, column) for value in values.tolist()]
        found = [Fraction(value) for value in column.coordinates(values).tolist()]
        errors = [got - want for got, want in zip(found, truth, strict=True)]
        # The distance of two rows is off by the difference of their errors.
        spread = max(errors) - min(errors)
        assert spread <= Fraction(ROUNDING)
        # Nor is the bound an empty one: rounding to the grid takes half of it.
        assert spread > Fraction(ROUNDING) * Fraction(45, 100)

    @settings(deadline=None, max_examples=60)
    @given(
        values=st.tuples(*[st.floats(-50.0, 150.0)] * 4),
        scale=st.floats(0.03, 1e5),
    )
    def test_rows_of_two_columns(self, values: tuple[float, ...], scale: float) -> None:
        columns = tuple(
            PublicColumn(name=name, lower=1.0, upper=100.0, outside="clip", scale=scale, log=log)
            for name, log in (("a", False), ("b", True))
            if not (log and scale > 1e4)
        )
        bounds = PublicBounds(columns, "id")
        frame = pd.DataFrame({"a": values[:2], "b": values[2:]})
        one, two = bounds.coordinates(frame)
        moved = sum(
            (Fraction(a) - Fraction(b)) ** 2
            for a, b in zip(one.tolist(), two.tolist(), strict=True)
        )
        exact = [exact_linear, exact_log]
        apart = sum(
            (exact[k](values[2 * k], column) - exact[k](values[2 * k + 1], column)) ** 2
            for k, column in enumerate(columns)
        )
        slack = math.sqrt(len(columns)) * ROUNDING
        assert math.sqrt(moved) <= math.sqrt(apart) * (1.0 + 1e-15) + slack


class TestTables:
    def bounds(self, tmp_path: Path) -> PublicBounds:
        return read_bounds(write(tmp_path, FILE))

    def frame(self, **change: object) -> pd.DataFrame:
        columns = {"age": [20, 30], "income": [2000, 3000], "smoker": ["no", "yes"]}
        return pd.DataFrame({**columns, **change})

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"age": [20, math.nan]}, "no value in 1 of 2"),
            ({"age": [20, None]}, "no value in 1 of 2"),
            ({"age": [17, 30]}, "outside its declared bounds"),
            ({"age": [20, math.inf]}, "outside its declared bounds"),
            ({"age": ["20", "old"]}, "held text"),
            ({"smoker": ["no", "never"]}, "not declared"),
            ({"smoker": ["no", None]}, "no value"),
        ],
    )
    def test_what_does_not_fit(
        self, tmp_path: Path, change: dict[str, object], message: str
    ) -> None:
        with pytest.raises(InvalidInput, match=message):
            self.bounds(tmp_path).coordinates(self.frame(**change))

    def test_all_columns_that_do_not_fit_are_named_and_no_rule_is_advised_that_is_none(
        self, tmp_path: Path
    ) -> None:
        frame = self.frame(age=[math.nan, 17], smoker=["no", "never"]).drop(columns="income")
        with pytest.raises(InvalidInput) as refusal:
            self.bounds(tmp_path).coordinates(frame)
        said = str(refusal.value)
        for words in ("'age' had no value", "'income' is not in the table", "'smoker' had a label"):
            assert words in said
        assert '"drop"' not in said
        # What is advised instead works.
        assert "set missing to what an empty value counts as" in said
        text = FILE.replace("scale = 10", "scale = 10\nmissing = 38")
        filled = read_bounds(write(tmp_path, text))
        found = filled.coordinates(self.frame(age=[math.nan, 28]))
        np.testing.assert_allclose(found[:, 0], [2.0, 1.0], atol=GRID)

    def test_what_an_empty_value_counts_as_is_public(self, tmp_path: Path) -> None:
        text = FILE.replace("scale = 0.5", 'scale = 0.5\nmissing = "sometimes"')
        text = text.replace("log = true", "log = true\nmissing = 1000")
        bounds = read_bounds(write(tmp_path, text))
        found = bounds.coordinates(self.frame(smoker=[None, "no"], income=["?", math.inf]))
        assert found[:, 1].tolist() == [0.0, 1.0]
        assert found[:, 2].tolist() == [4.0, 0.0]
        shown = [column.get("missing") for column in bounds.to_fields()["columns"]]
        assert shown == [None, 1000.0, "sometimes"]
        assert (
            PublicBounds.from_fields(bounds.to_fields(), "patient", "cost").columns
            == bounds.columns
        )
        # Which column is empty in a row still moves it by no more than two rows can be apart.
        assert (found <= bounds.extent).all()


COLUMN = "[columns.x]\nlower = 0\nupper = 1\n"
ID = 'id = "who"\n'


class TestFiles:
    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (COLUMN, "id is missing"),
            (ID, "\\[columns\\] is missing"),
            (ID + "[columns]", "columns"),
            (ID + "columns = 3", "columns"),
            (ID + 'key = "x"\n' + COLUMN, "key is not a key"),
            (
                ID + COLUMN + "mean = 3",
                r"line 5: mean is not a key in \[columns.x\]; keys here are: lower",
            ),
            ('id = ""\n' + COLUMN, 'id was ""'),
            ("id = 5\n" + COLUMN, "id was 5"),
            (ID + 'outcome = ""\n' + COLUMN, 'outcome was ""'),
            (ID + 'radius = "1"\n' + COLUMN, 'radius was "1"'),
            (ID + "radius = nan\n" + COLUMN, "radius was nan"),
            (ID + "radius = 0\n" + COLUMN, "radius was 0"),
            (ID + "radius = -1\n" + COLUMN, "radius was -1"),
            (ID + "radius = true\n" + COLUMN, "radius was true"),
            (ID + "[columns.x]\nupper = 1", "has upper = 1 alone; declare both"),
            (ID + "[columns.x]\nlower = 1", "declare both bounds"),
            (ID + "[columns.x]", "declare both bounds"),
            (ID + "[columns.x]\nlower = 1\nupper = 1", "must be below"),
            (ID + "[columns.x]\nlower = 2\nupper = 1", "must be below"),
            (ID + "[columns.x]\nlower = nan\nupper = 1", "lower was nan"),
            (ID + "[columns.x]\nlower = 0\nupper = inf", "upper was inf"),
            (ID + f"[columns.x]\nlower = 0\nupper = 1{'0' * 400}", "upper was 10000"),
            (ID + '[columns.x]\nlower = "0"\nupper = 1', 'lower was "0"'),
            (ID + "[columns.x]\nlower = true\nupper = 1", "lower was true"),
            (ID + COLUMN + "scale = 0", "scale of 'x' was 0"),
            (ID + COLUMN + "scale = -2", "scale of 'x' was -2"),
            (ID + COLUMN + "scale = nan", "scale was nan"),
            (ID + COLUMN + "scale = 1e-9", "units of distance wide"),
            (ID + COLUMN + "scale = 1e9", "units of distance wide"),
            (ID + COLUMN + "log = true", "lower bound above 0"),
            (ID + COLUMN + "log = 1", "log was 1"),
            (ID + "[columns.x]\nlower = -1\nupper = 1\nlog = true", "lower bound above 0"),
            (ID + "[columns.x]\nlower = 1\nupper = 1.001\nlog = true", "need wider bounds"),
            (ID + "[columns.x]\nlower = 1e-300\nupper = 1e300\nlog = true", "was inf"),
            (
                ID + "[columns.x]\nlower = 1e-300\nupper = 1e300\nscale = 1\nlog = true",
                "narrower",
            ),
            (ID + COLUMN + 'outside = "drop"', 'outside was "drop"'),
            (ID + '[columns.x]\nvalues = ["a"]', "at least two"),
            (ID + '[columns.x]\nvalues = ["a", "a"]', "each once"),
            (ID + "[columns.x]\nvalues = [1, 1]", "each once"),
            (ID + "[columns.x]\nvalues = [[1], 2]", "values"),
            (ID + "columns.x = 3", "columns.x was 3; it must be a table"),
            (ID + COLUMN + "missing = 2", r"missing of column 'x' was 2; .* \[0, 1\]"),
            (ID + COLUMN + 'missing = "drop"', "missing of column 'x' was \"drop\"; .* a number"),
            (ID + COLUMN + "missing = true", "missing of column 'x' was true; .* a number"),
            (ID + COLUMN + "missing = nan", "missing of column 'x' was nan"),
            (ID + "[columns.x]\nvalues = [0, 1]\nmissing = 2", "one of the labels: 0, 1"),
            (ID + '[columns.x]\nvalues = ["a", "b"]\nlower = 0', "either values or bounds"),
            (ID + '[columns.x]\nvalues = ["a", "b"]\nlog = true', "either values or bounds"),
            (ID + '[columns.x]\nvalues = ["a", "b"]\noutside = "clip"', "no nearest bound"),
            (ID + "[columns.who]\nlower = 0\nupper = 1", "column of its own"),
            (ID + 'outcome = "who"\n' + COLUMN, "column of its own"),
            (ID + 'outcome = "x"\n' + COLUMN, "also a released column"),
            (ID + "[columns.row]\nlower = 0\nupper = 1", "called 'row'"),
            (ID + '[columns.""]\nlower = 0\nupper = 1', "must be a text"),
            ("id = [", "is not TOML"),
        ],
    )
    def test_mistakes(self, tmp_path: Path, text: str, message: str) -> None:
        with pytest.raises(InvalidInput, match=message):
            read_bounds(write(tmp_path, text))

    def test_everything_that_is_wrong_is_said_at_once_in_the_words_of_toml(
        self, tmp_path: Path
    ) -> None:
        text = ID + 'radius = true\n[columns.a]\nupper = 1\n[columns.b]\nlower = "x"\nmean = 1\n'
        with pytest.raises(InvalidInput) as refusal:
            read_bounds(write(tmp_path, text + '[columns.c]\nvalues = ["a"]'))
        said = str(refusal.value)
        for words in (
            "5 things are wrong",
            "line 2: radius was true",
            "'a' has upper = 1 alone",
            'line 6: lower was "x"',
            "line 7: mean is not a key",
            "at least two",
        ):
            assert words in said
        assert not any(word in said for word in ("None", "True", "Input should be"))

    @pytest.mark.parametrize(
        ("values", "held", "expected"),
        [
            ("[0, 1]", [1, 0, 1], [1.0, 0.0, 1.0]),
            ("[false, true]", ["True", "FALSE", "true"], [1.0, 0.0, 1.0]),
            ("[1.5, 2]", [2.0, 1.5, 2.0], [1.0, 0.0, 1.0]),
        ],
    )
    def test_numbers_and_truth_values_are_labels(
        self, tmp_path: Path, values: str, held: list[object], expected: list[float]
    ) -> None:
        bounds = read_bounds(write(tmp_path, ID + f"[columns.x]\nvalues = {values}\nscale = 1"))
        assert bounds.coordinates(pd.DataFrame({"x": held}))[:, 0].tolist() == expected
        assert PublicBounds.from_fields(bounds.to_fields(), "who").columns == bounds.columns
        assert bounds.text_columns == ("who", "x")

    def test_files_that_cannot_be_read(self, tmp_path: Path) -> None:
        (tmp_path / "latin.toml").write_bytes(b'id = "\xe9"')
        for path in (tmp_path / "none.toml", tmp_path, tmp_path / "latin.toml"):
            with pytest.raises(InvalidInput, match="cannot be read"):
                read_bounds(path)

    @pytest.mark.parametrize(
        ("rule", "message"),
        [
            ({"outside": "drop"}, "leaves rows out"),
            ({"missing": "drop"}, "must be a number"),
            ({}, "each once"),
        ],
    )
    def test_rows_are_never_left_out_and_columns_differ(
        self, rule: dict[str, Any], message: str
    ) -> None:
        """How many rows there are is public, so it may not depend on their values."""
        with pytest.raises(InvalidInput, match=message):
            PublicBounds((PublicColumn(name="x", lower=0.0, upper=1.0, **rule),) * 2, "id")
