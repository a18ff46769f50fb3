"""What runners of repetitions share."""

from __future__ import annotations

import math

import joblib
import pytest

from discreet.reproduction.repeats import carried_out, mean_and_error


def test_the_standard_error_of_a_mean() -> None:
    mean, error = mean_and_error([1.0, 2.0, 6.0])
    assert mean == 3.0
    # Variance (4 + 1 + 9) / 2 = 7, over three values.
    assert error == pytest.approx(math.sqrt(7.0 / 3.0))


def test_one_value_has_no_standard_error() -> None:
    mean, error = mean_and_error([4.0])
    assert mean == 4.0
    assert math.isnan(error)


def test_tasks_are_all_carried_out_and_one_by_one_in_order() -> None:
    tasks = [joblib.delayed(pow)(base, 2) for base in range(5)]
    assert list(carried_out(tasks, jobs=1)) == [0, 1, 4, 9, 16]
    with joblib.parallel_config(backend="threading"):
        assert sorted(carried_out(tasks, jobs=2)) == [0, 1, 4, 9, 16]
