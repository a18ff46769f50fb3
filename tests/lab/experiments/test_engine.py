"""One engine: seeds by trial alone, any order and number of processes, tidy frames, means."""

from __future__ import annotations

import math

import joblib
import numpy as np
import pandas as pd
import pytest

from discreet.lab.experiments.engine import Row, Seed, frame_of, grid, run_trials
from discreet.lab.experiments.means import mean_traces, means
from discreet.validation import InvalidInput

SETTINGS = grid(scale=(1.0, 10.0), people=(3, 4))


def draws(seed: Seed, scale: float, people: int) -> list[Row]:
    """Two rows: what was drawn first, and the mean of as many as there are people."""
    rng = np.random.default_rng(seed.streams(2)[1])
    values = scale * rng.random(people)
    return [
        {"metric": "first", "value": values[0]},
        {"metric": "mean", "value": values.mean()},
    ]


def frame(jobs: int = 1, settings: list[Row] = SETTINGS, **options: object) -> pd.DataFrame:
    return frame_of(run_trials(draws, settings, 3, 7, jobs, **options), settings)  # type: ignore[arg-type]


def test_a_grid_is_every_combination_the_last_axis_fastest() -> None:
    assert SETTINGS == [
        {"scale": 1.0, "people": 3},
        {"scale": 1.0, "people": 4},
        {"scale": 10.0, "people": 3},
        {"scale": 10.0, "people": 4},
    ]


def test_frames_are_tidy_and_the_same_however_the_work_was_shared() -> None:
    alone = frame()
    assert list(alone.columns) == ["case", "trial", "scale", "people", "metric", "value"]
    assert len(alone) == 4 * 3 * 2
    pd.testing.assert_frame_equal(alone, frame(jobs=2))
    pd.testing.assert_frame_equal(alone, frame(order="setting by setting"))
    with joblib.parallel_config("threading"):
        pd.testing.assert_frame_equal(alone, frame(jobs=2))


def test_a_trial_draws_the_same_in_every_setting_and_whatever_else_runs() -> None:
    first = frame().query("metric == 'first'")
    assert first.groupby("trial")["value"].apply(lambda v: np.ptp(v.iloc[:2])).eq(0.0).all()
    assert first["value"].nunique() == 2 * 3
    last = frame(settings=SETTINGS[3:])["value"].to_numpy()
    assert np.array_equal(frame().query("case == 3")["value"].to_numpy(), last)


def test_streams_do_not_depend_on_how_many_are_asked_for() -> None:
    few, many = Seed(3, 5).streams(1), Seed(3, 5).streams(6)
    assert few[0].generate_state(4).tolist() == many[0].generate_state(4).tolist()
    assert Seed(3, 6).streams(1)[0].generate_state(1) != few[0].generate_state(1)


def test_what_was_run_before_is_left_out_and_orders_are_kept() -> None:
    by_setting = run_trials(draws, SETTINGS[:2], 2, 7, order="setting by setting", done=[(0, 1)])
    assert [(each.case, each.trial) for each in by_setting] == [(0, 0), (1, 0), (1, 1)]
    by_trial = run_trials(draws, SETTINGS[:2], 2, 7)
    assert [(each.case, each.trial) for each in by_trial] == [(0, 0), (1, 0), (0, 1), (1, 1)]


@pytest.mark.parametrize(
    ("trials", "seed", "jobs", "name"), [(0, 1, 1, "trials"), (1, -1, 1, "seed"), (1, 1, 0, "jobs")]
)
def test_numbers_that_cannot_work_are_refused_at_once(
    trials: int, seed: int, jobs: int, name: str
) -> None:
    with pytest.raises(InvalidInput, match=name):
        run_trials(draws, SETTINGS, trials, seed, jobs)


def test_means_have_errors_and_intervals_by_group() -> None:
    rows = pd.DataFrame(
        {
            "panel": ["b", "b", "b", None, None, "a"],
            "at": [1, 1, 1, 2, 2, math.nan],
            "value": [1.0, 2.0, 6.0, 5.0, 5.0, 4.0],
        }
    )
    found = means(rows, ["panel", "at"])
    assert found["panel"].tolist()[0] == "b"
    assert found["panel"].isna().tolist() == [False, True, False]
    assert found["mean"].tolist() == [3.0, 5.0, 4.0]
    assert found["trials"].tolist() == [3, 2, 1]
    error = np.std([1.0, 2.0, 6.0], ddof=1) / math.sqrt(3)
    assert found["standard_error"].tolist()[:2] == pytest.approx([error, 0.0])
    assert math.isnan(found["standard_error"].iloc[2])
    assert found["half_width"].tolist() == pytest.approx([4.302653 * error, 0.0, 0.0])


def test_traces_are_averaged_point_by_point() -> None:
    at = np.array([1, 5])
    rows = pd.DataFrame(
        {
            "case": [0, 0, 1, 1],
            "metric": ["regret", "regret", "regret", "error"],
            "along": [at, at, at, None],
            "trace": [np.array([1.0, 2.0]), np.array([3.0, 2.0]), np.array([0.0, 7.0]), None],
        }
    )
    curves = mean_traces(rows, ["case", "metric"])
    assert curves["at"].tolist() == [1, 5, 1, 5]
    assert curves["mean"].tolist() == [2.0, 2.0, 0.0, 7.0]
    assert curves["trials"].tolist() == [2, 2, 1, 1]
    assert curves["half_width"].tolist() == pytest.approx([12.7062047, 0.0, 0.0, 0.0])
    assert mean_traces(rows[3:], ["case"]).empty
