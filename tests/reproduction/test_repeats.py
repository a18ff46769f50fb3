"""What runners of repetitions share."""

from __future__ import annotations

import joblib

from discreet.reproduction.repeats import carried_out


def test_tasks_are_all_carried_out_and_one_by_one_in_order() -> None:
    tasks = [joblib.delayed(pow)(base, 2) for base in range(5)]
    assert list(carried_out(tasks, jobs=1)) == [0, 1, 4, 9, 16]
    with joblib.parallel_config(backend="threading"):
        assert sorted(carried_out(tasks, jobs=2)) == [0, 1, 4, 9, 16]
