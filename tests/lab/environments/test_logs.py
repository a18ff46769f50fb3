"""Logs: checks, and the same to the last bit from tables."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.lab.environments.log_worlds import COLUMNS, NAMES, frame_of, world

from discreet.lab.environments.logs import Log, LoggedAction, LoggedReward, Propensity
from discreet.people.columns import Column
from discreet.people.domain import RewardBounds
from discreet.people.tables import read_table

ARRAYS = ("contexts", "actions", "rewards", "propensities", "ids")
ACTION = LoggedAction("action", NAMES)
REWARD = LoggedReward("reward", -2, 3)


def assert_same(log: Log, other: Log) -> None:
    for name in ARRAYS:
        one, two = getattr(log, name), getattr(other, name)
        assert (one is None) == (two is None), name
        if one is not None:
            np.testing.assert_array_equal(one, two, name)
    assert (log.domain, log.arm_names) == (other.domain, other.arm_names)
    assert log.reward_bounds == other.reward_bounds


@pytest.fixture
def log(rng: np.random.Generator) -> Log:
    """Numbers with all their digits, and people who come more than once."""
    known = world(60, 1.0, rng)
    return replace(
        known,
        rewards=rng.uniform(-2, 3, 60),
        reward_bounds=RewardBounds(-2, 3),
        ids=np.arange(60) // 3,
    )


class TestChecks:
    def test_arrays_are_copies_that_nobody_changes(self, log: Log) -> None:
        contexts = log.contexts.copy()
        other = replace(log, contexts=contexts)
        contexts[0, 0] = 0.123
        assert other.contexts[0, 0] == log.contexts[0, 0]
        with pytest.raises(ValueError, match="read-only"):
            other.rewards[0] = 0.0
        assert (len(log), log.arms) == (60, 3)

    def test_people_are_numbered_as_they_come(self, log: Log) -> None:
        ids = np.repeat([40, 7, 40], 20)
        assert replace(log, ids=ids).ids.tolist() == [0] * 20 + [1] * 20 + [0] * 20  # type: ignore[union-attr]


class TestFrames:
    @pytest.mark.parametrize("ending", ["csv", "parquet"])
    def test_a_file_gives_the_same_log(self, log: Log, tmp_path: Path, ending: str) -> None:
        if ending == "parquet":
            pytest.importorskip("pyarrow")
        file = tmp_path / f"log.{ending}"
        frame = frame_of(log)
        frame.to_csv(file, index=False) if ending == "csv" else frame.to_parquet(file)
        back = Log.from_frame(
            read_table(file, ["region", "action"]),
            COLUMNS,
            ACTION,
            REWARD,
            Propensity("propensity"),
            person="person",
        )
        assert_same(log, back)
        assert back.rows is not None
        assert back.rows.sentence == "All 60 rows, visits of 20 people"

    def test_one_value_and_none_for_propensities(self, log: Log) -> None:
        frame = frame_of(log)
        even = Log.from_frame(frame, COLUMNS, ACTION, REWARD, Propensity(value=0.25))
        assert even.propensities is not None
        assert set(even.propensities) == {0.25}
        unknown = Log.from_frame(frame, COLUMNS, ACTION, REWARD, Propensity(estimated=True))
        assert unknown.propensities is None

    def test_rules_leave_rows_out(self, log: Log) -> None:
        frame = frame_of(log)
        frame["u"] = frame["u"].astype(object)
        frame.loc[0, "u"] = None
        other = replace(ACTION, names=NAMES[:2], outside="drop")
        columns = [Column("u", 0, 1, missing="drop"), COLUMNS[1]]
        kept = Log.from_frame(frame, columns, other, REWARD, Propensity("propensity"))
        assert kept.rows is not None
        third = int((log.actions == 2).sum())
        assert f"{third} outside the declared action" in kept.rows.sentence
        assert len(kept) == int((log.actions[1:] < 2).sum())


def test_names_of_actions_are_texts() -> None:
    assert LoggedAction("a", (1, True)).names == ("1", "true")  # type: ignore[arg-type]


def test_columns_with_thresholds_and_a_ball(rng: np.random.Generator) -> None:
    frame = pd.DataFrame(
        {
            "hours": [5, 15, 25] * 10,
            "action": ["none", "call us", "a=b|c:d"] * 10,
            "reward": rng.uniform(-2, 3, 30),
        }
    )
    hours = Column("hours", thresholds=(10, 20))
    log = Log.from_frame(frame, [hours], ACTION, REWARD, Propensity(value=1 / 3))
    assert log.contexts[:3, 0].tolist() == [0.0, 1.0, 2.0]
    assert log.domain.categories[0][:2] == ("under 10", "10 to 20")
    ends = [Column("hours", -30, 30)]
    ball = Log.from_frame(frame, ends, ACTION, REWARD, Propensity(value=1 / 3), radius=30.0)
    assert type(ball.domain).__name__ == "Ball"
