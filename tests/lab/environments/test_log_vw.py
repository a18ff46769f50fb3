"""Vowpal Wabbit's text: the same to the last bit and back, and malformed lines by number."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.lab.environments.log_worlds import DOMAIN, NAMES, world

from discreet.lab.environments.logs import Log
from discreet.people.columns import Column
from discreet.people.domain import Box, RewardBounds
from discreet.validation import InvalidInput

USER = (Column("user", values=("Tom", "Anna")), Column("age", 0, 100))
NEWS = """
shared |User user=Tom age:30
0:0.0:0.25 |Action article=politics
|Action article=sports

shared 'seen|User:2 age:20 user=Anna new
 |Action article=politics
7:-1:0.75 'tag|Action article=sports
"""


def read(text: str, tmp_path: Path, columns=USER, **options) -> Log:
    file = tmp_path / "news.vw"
    file.write_text(text, encoding="utf-8")
    return Log.from_vw(file, columns, **options)


@pytest.mark.parametrize("names", [None, NAMES])
def test_there_and_back(tmp_path: Path, rng: np.random.Generator, names) -> None:
    known = world(50, 1.0, rng)
    rewards = np.where(np.arange(50) < 5, 0.0, rng.uniform(-2, 3, 50))
    log = replace(known, rewards=rewards, reward_bounds=RewardBounds(-2, 3))
    log.to_vw(tmp_path / "log.vw")
    back = Log.from_vw(tmp_path / "log.vw", DOMAIN.columns, names, RewardBounds(-2, 3))
    for name in ("contexts", "actions", "rewards", "propensities"):
        np.testing.assert_array_equal(getattr(back, name), getattr(log, name), name)
    assert (back.domain, back.arm_names) == (DOMAIN, NAMES)
    back.to_vw(tmp_path / "again.vw")
    assert (tmp_path / "again.vw").read_bytes() == (tmp_path / "log.vw").read_bytes()


def test_what_is_written(tmp_path: Path) -> None:
    domain = Box.of([Column("years of age", 0, 100), Column("plan", values=("a:b", "c"))])
    log = Log(
        [[47, 1]],
        [1],
        [0.1],
        domain,
        ("none", "call us"),
        propensities=[0.25],  # type: ignore[arg-type]
    )
    log.to_vw(tmp_path / "log.vw")
    assert (tmp_path / "log.vw").read_text() == (
        "shared |s years%20of%20age:47.0 plan=c\n|a action=none\n0:-0.1:0.25 |a action=call%20us\n"
    )
    with pytest.raises(InvalidInput, match="every label of Vowpal Wabbit has one"):
        replace(log, propensities=None).to_vw(tmp_path / "other.vw")
    assert not (tmp_path / "other.vw").exists()


def test_what_others_write(tmp_path: Path) -> None:
    log = read(NEWS, tmp_path)
    assert log.arm_names == ("politics", "sports")
    np.testing.assert_array_equal(log.contexts, [[0, 30], [1, 40]])
    assert (log.actions.tolist(), log.rewards.tolist()) == ([0, 1], [0.0, 1.0])
    assert log.propensities is not None
    assert log.propensities.tolist() == [0.25, 0.75]
    other = read(NEWS.replace("-1:", "0.25:"), tmp_path, costs="one minus")
    assert other.rewards.tolist() == [1.0, 0.75]


def test_actions_by_name_in_any_order_and_by_place(tmp_path: Path) -> None:
    lines = NEWS.split("\n\n")
    shared, first, second = lines[1].rstrip().split("\n")
    turned = "\n\n".join([lines[0], "\n".join([shared, second, first])])
    assert read(turned, tmp_path).actions.tolist() == [0, 1]
    named = read(turned, tmp_path, arm_names=("sports", "politics"))
    assert named.actions.tolist() == [1, 0]
    bare = NEWS.replace("Action article=politics", "").replace("Action article=sports", "")
    placed = read(bare, tmp_path)
    assert (placed.arm_names, placed.actions.tolist()) == (("0", "1"), [0, 1])


def test_values_of_features(tmp_path: Path) -> None:
    """A number that is not there is 0, a name alone is 1, a label may stand behind a colon, and
    a namespace tells features of one name apart."""
    text = (
        "shared |s user:Anna\n0:0:1 |a x\n|a y\n\n"
        "shared |s user=Tom age |t age:7\n0:0:1 |a x\n|a y\n"
    )
    with pytest.raises(InvalidInput, match=r"line 5: column 'age' has several .* s?t?\^age"):
        read(text, tmp_path)
    log = read(text, tmp_path, (USER[0], Column("s^age", 0, 1)))
    np.testing.assert_array_equal(log.contexts, [[1, 0], [0, 1]])
    missing = text.replace("user:Anna", "age:1")
    with pytest.raises(InvalidInput, match="'user' had no value in 1 of 2 rows"):
        read(missing, tmp_path, (USER[0], Column("s^age", 0, 1)))
    with pytest.raises(InvalidInput, match="label that is not declared in 1 of 2 rows, first Eve"):
        read(text.replace("Anna", "Eve"), tmp_path, (USER[0], Column("s^age", 0, 1)))


BROKEN = """shared |s user=Tom age:30
no bar here
0:1:0.5 |a x
|a y

shared |s user=Tom age:30
0:1 |a x
|a y

shared |s user=Tom age:old
0:-1:0.5 |a x
|a y

shared |s user=Tom age:30
0:-1:1.5 |a x
|a y

shared |s user=Tom age:30
|a x
|a y

shared |s user=Tom age:30
0:-1:0.5 |a x
|a z

shared |s user=Tom age:30
0:-1:0.5 |a x
shared |s user=Tom age:30
|a y

shared |s user=Tom age:30
0:-1:0.5 |a x

shared |s:many user=Tom age:30
1 2 |a x
|a :3
"""


def test_malformed_lines_are_all_named(tmp_path: Path) -> None:
    good = "shared |s user=Tom age:30\n0:-1:0.5 |a x\n|a y\n\n"
    with pytest.raises(InvalidInput) as error:
        read(good + BROKEN, tmp_path)
    for part in (
        "11 things are wrong",
        "line 6: it was 'no bar here'",
        "line 11: the label was '0:1'",
        "line 14: column 'age' had the value 'old'; it must be a number",
        "line 19: the probability of the label was 1.5",
        "line 22: 0 of the 2 actions had a label",
        "line 28: the action 'a z' is none of x, y",
        "line 32: a decision goes on here with a shared line",
        "line 35: the decision was among 1 actions",
        "line 38: the namespace 's' had the value 'many'",
        "line 39: before the bar stood '1 2'",
        "line 40: ':3' is no feature",
    ):
        assert part in str(error.value), part


def test_of_many_malformed_lines_twenty_are_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as error:
        read("nonsense\n\n" * 33, tmp_path)
    assert len(error.value.args) == 21
    assert error.value.args[-1] == "13 more lines are malformed."


def test_files_that_hold_no_decisions(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="has no decisions"):
        read("\n\n", tmp_path)
    with pytest.raises(InvalidInput, match=r"nowhere.vw could not be read \(.*check the path"):
        Log.from_vw(tmp_path / "nowhere.vw", USER)
    with pytest.raises(InvalidInput, match="costs was 'halved'"):
        read(NEWS, tmp_path, costs="halved")
    with pytest.raises(InvalidInput, match="at least two, each once"):
        read("shared |s age:1\n0:0:1 |a x\n", tmp_path, (USER[1],))
