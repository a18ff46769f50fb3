"""Invented people: the declared columns, arms and bounds, and no data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from discreet.lab.environments.synthetic_people import SyntheticPeople, synthetic_people
from discreet.toml_files import Place
from discreet.validation import InvalidInput

PLACE = Place("study.toml")
COLUMNS = [
    {"name": "age", "lower": 20, "upper": 60},
    {"name": "visits", "lower": 0, "upper": 4, "levels": 5},
    {"name": "sex", "values": ["f", "m"]},
]
LABEL = {"column": "y", "classes": ["none", "call", "visit"]}
REWARDS = {"columns": ["a", "b"], "lower": -1, "upper": 3}


def of(contrast: float = 0.5, **options: Any) -> SyntheticPeople:
    table = {"name": "table", "path": "nowhere.csv", "columns": COLUMNS, **options}
    return synthetic_people({"problem": table}, PLACE, contrast)


def test_declarations_become_a_problem_and_no_file_is_read() -> None:
    problem = of(label=LABEL)
    assert problem.arm_names == ("none", "call", "visit")
    assert problem.domain.names == ("age", "visits", "sex")
    assert problem.domain.categories[2] == ("f", "m")
    assert problem.metric == "regret"
    assert problem.size is None
    assert not problem.files
    assert "invented people" in problem.source


def test_people_lie_on_the_declared_levels_and_rewards_within_bounds() -> None:
    problem = of(rewards=REWARDS)
    people = problem.sample(2000, np.random.default_rng(1))
    problem.domain.to_unit(people.contexts)  # refuses what is outside
    assert set(np.unique(people.contexts[:, 1])) == {0.0, 1.0, 2.0, 3.0, 4.0}
    assert set(np.unique(people.contexts[:, 2])) == {0.0, 1.0}
    assert set(np.unique(people.rewards)) == {-1.0, 3.0}
    assert people.means is not None
    assert people.rewards.mean(axis=0) == pytest.approx(people.means.mean(axis=0), abs=0.15)


@pytest.mark.parametrize("contrast", [0.1, 0.5, 1.0])
def test_contrast_is_how_much_arms_differ(contrast: float) -> None:
    problem = of(contrast, rewards=REWARDS)
    means = problem.sample(4000, np.random.default_rng(2)).means
    assert means is not None
    largest = np.ptp(means, axis=1).max()
    assert largest == pytest.approx(problem.difference, rel=0.01)
    assert problem.difference == pytest.approx(contrast * of(1.0, rewards=REWARDS).difference)
    assert f"differ by up to {problem.difference:.2g}" in problem.source


def test_thresholds_and_named_problems_have_arms_too() -> None:
    brackets = of(label={"column": "hours", "thresholds": [10, 20]})
    assert brackets.arm_names == ("under 10", "10 to 20", "20 or more")
    earnings = synthetic_people({"problem": {"name": "earnings"}}, PLACE)
    assert earnings.arm_names == ("under 13", "13 to 20", "20 or more")


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        ({"name": "dose"}, "need arms, and the problem 'dose' has none"),
        ({"name": "tabel"}, "problem was 'tabel'"),
        ({}, "without a name"),
        ({"name": "table", "columns": 3}, "columns"),
    ],
)
def test_problems_without_arms_are_refused(problem: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        synthetic_people({"problem": problem}, PLACE)


def test_synthetic_people_come_once() -> None:
    table = {"name": "table", "path": "nowhere.csv", "columns": COLUMNS, "label": LABEL}
    content = {
        "problem": table,
        "learners": [{"epsilon": 1.0}, {"epsilon": 1.0, "max_contributions": 3}],
    }
    with pytest.raises(
        InvalidInput, match="max_contributions was 3, but synthetic people come once"
    ):
        synthetic_people(content, PLACE)


def test_a_contrast_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidInput, match="contrast was 0"):
        of(0.0, label=LABEL)
