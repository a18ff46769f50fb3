"""Wrong input from Python: what is wrong, what to do, all of it at once, and nothing changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import discreet
from discreet import (
    Box,
    InvalidInput,
    Joint,
    Local,
    Log,
    NonPrivate,
    PrivateBandit,
    Search,
    SimulatedNoise,
    Study,
    make_learner,
    run_study,
)
from discreet.lab.environments.logs import LoggedAction, LoggedReward, Propensity
from discreet.people.columns import Column
from discreet.search import Trial

PEOPLE = 60
DOMAIN = Box.of({"x": (0, 9), "s": ["n", "s"]})
LINE = Box.of({"x": (0, 9)})
LEVELS = Box.of({"x": ["n", "s"]})
CONTEXTS = [{"x": 1, "s": "n"}, {"x": 2, "s": "s"}]


def people(**columns: Any) -> pd.DataFrame:
    """A table, with columns that are replaced or added."""
    rows = range(PEOPLE)
    facts = {
        "x": [i % 10 for i in rows],
        "s": ["nsew"[i % 4] for i in rows],
        "y": ["ab"[i % 2] for i in rows],
        "paid a": [0.5 * (i % 3) for i in rows],
        "paid b": [0.5] * PEOPLE,
    }
    return pd.DataFrame(facts).assign(**columns)


def framed(frame: Any = None, **changes: Any) -> Study:
    """`Study.from_frame` of that table."""
    usual = {"bounds": {"x": (0, 9)}, "label": "y", "classes": ["a", "b"], "epsilon": 1}
    return Study.from_frame(people() if frame is None else frame, **{**usual, **changes})


def paying(**changes: Any) -> Study:
    """The same with a column of rewards for each arm."""
    usual = {"rewards": ["paid a", "paid b"], "reward_bounds": (0, 1)}
    return framed(label=None, classes=None, **{**usual, **changes})


def study(**changes: Any) -> dict[str, Any]:
    """The keys of a study file."""
    return {
        "name": "small",
        "rounds": 100,
        "problem": {"name": "exponential", "dimension": 2},
        "learners": [{"name": "partition", "epsilon": 1}],
        **changes,
    }


def planned(**wish: Any) -> object:
    """`discreet.plan` of the table."""
    return discreet.plan(framed(), **wish)


def fitted(
    decisions: Any = ("p", "q"), rewards: Any = (0, 1), contexts: Any = CONTEXTS, **parameters: Any
) -> PrivateBandit:
    """A bandit that has learnt from two people."""
    usual = {"bounds": {"x": (0, 9), "s": ["n", "s"]}, "noise": "simulated", "random_state": 1}
    if "bandit_rewards" in parameters:
        usual["rewards"] = parameters.pop("bandit_rewards")
    bandit = PrivateBandit(**{"arms": ["p", "q"], "epsilon": 1.0, **usual, **parameters})
    return bandit.fit(list(decisions), list(rewards), contexts)


def search(**changes: Any) -> Search:
    """A search with noise on sums that is done after 250 trials."""
    usual = {"columns": {"a": [0, 1]}, "budget": Joint(1.0, 1e-6), "trials": 250}
    return Search(**{**usual, "noise": SimulatedNoise(1), **changes})


def told(value: Any, times: int = 1) -> None:
    """A search that is told a value of each of its trials."""
    one = search()
    for _ in range(times):
        one.tell(one.ask(), value)


def told_twice() -> None:
    one = search()
    trial = one.ask()
    one.tell(trial, 0.5)
    one.tell(trial, 0.5)


def learner(name: str = "partition", arms: Any = ("p", "q"), **changes: Any) -> Any:
    return make_learner(name, DOMAIN, list(arms), changes.pop("budget", Local(1.0)), **changes)


def acting(contexts: Any) -> object:
    return learner().policy().act(contexts, np.random.default_rng(1))


def logged(frame: Any = None, **changes: Any) -> Log:
    """`Log.from_frame` of 40 decisions; a column as an argument replaces that of the table."""
    facts = {"x": [1] * 40, "a": ["p", "q"] * 20, "r": [0, 1] * 20, "w": [0.5] * 40}
    given = {key: changes.pop(key) for key in facts if key in changes}
    usual = {
        "columns": [Column("x", 0, 9)],
        "action": LoggedAction("a", ("p", "q")),
        "reward": LoggedReward("r", 0, 1),
        "propensity": Propensity("w"),
    }
    table = pd.DataFrame(facts).assign(**given) if frame is None else frame
    return Log.from_frame(table, **{**usual, **changes})


Case = tuple[Callable[[], object], list[str]]
FRAMES: list[Case] = [
    (lambda: framed([1]), ["frame was a list", "must be a pandas DataFrame"]),
    (lambda: framed(pd.DataFrame()), ["frame has no rows or no columns", "give a table"]),
    (
        lambda: framed(pd.DataFrame(np.eye(4))),
        ["2 things", "column 'x' is not in the table, which has: 0, 1", "Name one of these"],
    ),
    (
        lambda: framed(pd.DataFrame(np.eye(2), columns=[["a", "a"], ["b", "c"]])),
        ["columns of 2 levels", "give each column a single name"],
    ),
    (
        lambda: framed(pd.DataFrame(np.eye(4), columns=["x", "x", "y", "z"])),
        ["2 things", "'x' occurs 2 times", "Give each its own name", "'y' had a label", "Add the"],
    ),
    (lambda: framed(people(x=np.nan)), ["'x' is empty in all rows", "leave the column out"]),
    (
        lambda: framed(people(x=[None, *[1.0] * (PEOPLE - 1)])),
        ["1 of 60 rows", 'set missing = "drop"'],
    ),
    (lambda: framed(people(x=pd.Timestamp("2020"))), ["'x' holds datetime64", "convert it"]),
    (lambda: framed(people(x=[[1]] * PEOPLE)), ["first [1] in row 2", "clean the column"]),
    (lambda: framed(people(x=np.inf)), ["first inf in row 2", 'outside = "clip"']),
    (lambda: framed(people="who"), ["column 'who' is not in the table", "Name one of these"]),
    (lambda: framed(people(who=0.5), people="who"), ["'who' holds float64", "whole numbers"]),
    # Bounds.
    (lambda: framed(bounds=None), ["bounds was not given", "State public knowledge"]),
    (lambda: framed(bounds={}), ["bounds was {}"]),
    (lambda: framed(bounds={"x": (0, 9, 3, 1)}), ["were (0, 9, 3, 1)"]),
    (lambda: framed(bounds=["x"]), ["bounds was ['x']", 'bounds={"age": (18, 90)']),
    (lambda: framed(bounds={"x": (9, 0)}), ["'x' had bounds [9.0, 0.0]", "must be below"]),
    (lambda: framed(bounds={"x": (9, 9)}), ["'x' had bounds [9.0, 9.0]", "must be below"]),
    (
        lambda: framed(bounds={"x": (np.nan, np.inf)}),
        ["upper bound of column 'x' was inf", "a finite number"],
    ),
    (
        lambda: framed(bounds={"x": ("0", None)}),
        ["'x' was '0'", "a finite number"],
    ),
    (
        lambda: framed(bounds={"x": (pd.Timestamp("2020"), pd.NA)}),
        ["was Timestamp('2020", "a finite number"],
    ),
    (lambda: framed(bounds={"x": [0, 9]}), ["[0, 9], which may be", "write (0, 9) in round"]),
    (lambda: framed(bounds={"x": {0, 9}}), ["were {0, 9}", "give a tuple (lower, upper)"]),
    (lambda: framed(bounds={"x": {"uper": 9}}), ["got 'uper'", "Did you mean 'upper'?"]),
    (lambda: framed(bounds={"s": (0, 9)}), ["'s' held text", "Declare its labels"]),
    (lambda: framed(bounds={"s": ["n", "s"]}), ["first e in row 4", "Add the label"]),
    (lambda: framed(bounds={"z": (0, 9)}), ["column 'z' is not in the table", "Name one of"]),
    (
        lambda: framed(bounds={"x": (9, 0), "s": 5}, classes=None, epsilon=None),
        ["4 things", "[9.0, 0.0]", "'s' were 5", "classes was not given", "epsilon was not given"],
    ),
    # What people can be given.
    (lambda: framed(classes=None), ["label 'y'", "all labels that a form or a register knows"]),
    (
        lambda: framed(label="x", classes=None, bounds={"s": list("nsew")}),
        ["label 'x'", "Cut numbers into brackets", '"column": "x", "thresholds": [..]'],
    ),
    (lambda: framed(people(y=True), classes=None), ["label 'y'", "Give classes=[False, True]"]),
    (lambda: framed(label="z", classes=None), ["column 'z' is not in the table", "Name one of"]),
    (lambda: framed(classes=["a"]), ["were ['a']", "give at least two"]),
    (lambda: framed(classes="ab"), ['classes was "ab"', "a list in square brackets"]),
    (lambda: framed(bounds={"y": ["a", "b"]}), ["'y' is both a context column", "Take it out"]),
    (lambda: framed(rewards=["paid a"]), ["either label", "not both"]),
    (lambda: framed(label=None, classes=None), ["needs arms"]),
    (lambda: framed(label={"column": "x", "thresholds": [2]}), ["either classes"]),
    (lambda: paying(reward_bounds=None), ["reward_bounds was not given", "Give the lowest"]),
    (lambda: paying(reward_bounds=(1, 0)), ["[1.0, 0.0]", "must be below"]),
    (lambda: paying(reward_bounds=(0, 0.5)), ["first 1.0 in row 4", "Declare wider bounds"]),
    (lambda: paying(rewards=["q", "z"]), ["2 things", "'q' is not in", "'z' is not in"]),
    # Learners and sizes.
    *(
        (lambda epsilon=epsilon: framed(epsilon=epsilon), [shown, wanted])
        for epsilon, shown, wanted in (
            (0, "epsilon was 0", "above 0"),
            (np.array([1.0, -1.0]), "epsilon was -1.0", "above 0"),
            (True, "epsilon was true", "or a number"),
            ("1", 'epsilon was "1"', "or a number"),
            (pd.NA, "epsilon was <NA>", "or a number"),
            ([1, pd.NA], "entry 2 was <NA>", "must be a number"),
            ({"a": 1}, "epsilon was { a = 1 }", "or a number"),
            ([1, 1], "epsilon was [1.0, 1.0]", "name each once"),
            ([], "epsilon was []", "give the cost that one person may bear"),
        )
    ),
    (lambda: framed(delta=1.0, trust_model="joint"), ["delta was 1.0", "below 1"]),
    (lambda: framed(trust_model="us"), ['trust_model was "us"', '"local", "shuffled"']),
    (lambda: framed(learners=3), ["learners was 3", "give a list of names"]),
    (
        lambda: framed(learners=["partitoin", "capry"]),
        ["2 things", "Did you mean 'partition'?", "Did you mean 'capri'?"],
    ),
    (lambda: framed(rounds=61), ["rounds was 61", "60 people", "ask for no more rounds"]),
    (lambda: framed(rounds=pd.NA, replicates=0), ["rounds was <NA>", "replicates was 0", "2 th"]),
    (lambda: framed(report={"axes": ["z"]}), ["column 'z'", "the problem has x"]),
]
STUDIES: list[Case] = [
    (lambda: Study.from_dict([1]), ["the study was [1]", "give a dictionary"]),
    (lambda: Study.from_dict({}), ["3 things", "name is missing; set it", "problem", "learners"]),
    (lambda: Study.from_dict(study(lerners=[])), ["lerners", "Did you mean 'learners'?"]),
    (
        lambda: Study.from_dict(study(learners={"name": "partition"})),
        ["a list of tables", "[[learners]]"],
    ),
    (
        lambda: Study.from_dict(
            study(
                rounds=0,
                replicates=-1,
                problem={"name": "exponential", "dimension": 0},
                learners=[{"name": "x", "epsilon": -1}],
            )
        ),
        ["4 things", "rounds was 0", "replicates was -1", "dimension was 0", "'x' is unknown"],
    ),
    (lambda: Study.from_dict(study(), folder=3), ["folder was an int", "give the path"]),
    (lambda: Study.from_file(3), ["an int", "give the path of a study file"]),
    (lambda: Study.from_file("none.toml"), ["none.toml", "check the path"]),
    (lambda: run_study(people()), ["a DataFrame", "pass a study file"]),
    (
        lambda: run_study(study(), rounds=0, replicates=0, jobs=0),
        ["3 things", "rounds was 0", "replicates was 0", "jobs was 0", "of at least 1"],
    ),
    (lambda: run_study(study(), data_dir="no"), ["'no' is not a folder", "check the path"]),
    (lambda: run_study(study(), resume=True), ["resume was True", "leave resume out"]),
    (lambda: discreet.plan(people()), ["a DataFrame", "give a study file"]),
    (
        lambda: planned(people=0, epsilon=pd.NA, lose_at_most=1.5),
        ["4 things", "people was 0", "epsilon was <NA>", "lose_at_most was 1.5", "at most two"],
    ),
    (lambda: discreet.plan({}), ["study was a dict", "give a study file, or a Study"]),
    (lambda: discreet.plan(Study.from_dict(study()), people=10**20), ["1e+20, which is more"]),
    (lambda: planned(epsilons=[]), ["epsilons was empty", "give at least one"]),
    (lambda: planned(epsilons=40), ["an epsilon was 40"]),
    (lambda: planned(epsilons="abc"), ["epsilons was 'abc'", "a list of numbers"]),
    (lambda: planned(learners=3), ["learners was 3", "a list of names"]),
    (lambda: planned(table=3), ["table was an int", "the path of a table"]),
    (lambda: planned(data_dir=3), ["data_dir was an int", "the path of a folder"]),
    (
        lambda: planned(epsilons=[0, 40], learners=[3, "no"], synthetic=True),
        ["5 things", "was 0", "was 40", "an int; give a text", "'no' is unknown", "the path of"],
    ),
    (lambda: planned(learners=["uniform"]), ["learns nothing"]),
    (lambda: planned(learners=["oracle"]), ["learns nothing"]),
    (lambda: planned(trust_model="us"), ["'us'", "local, shuffled, joint"]),
    (lambda: planned(contrast=9), ["contrast was 9", "set synthetic as well"]),
]
BANDITS: list[Case] = [
    (lambda: fitted(arms=["p", "p"]), ["arms was ['p', 'p']", "at least two different"]),
    *(
        (lambda arms=arms: fitted(arms=arms), ["arms was", "at least two different ones"])
        for arms in (3, "ab", ["a"], [["a"], ["b"]])
    ),
    (lambda: fitted(epsilon=-1), ["epsilon was -1", "above 0"]),
    (lambda: fitted(epsilon=pd.NA), ["epsilon was <NA>", "a finite number above 0"]),
    (lambda: fitted(bounds=None), ["bounds was not given", "not the extremes of the data"]),
    (lambda: fitted(trust_model="us"), ["'us'", "one of local, joint, none"]),
    (lambda: fitted(noise="loud"), ["'loud'", "one of secure, simulated"]),
    (lambda: fitted(bandit_rewards=1), ["rewards was 1", "the least and the largest"]),
    (lambda: fitted(least_propensity=0.0), ["least_propensity was 0.0"]),
    (lambda: fitted(random_state=-1), ["random_state was -1", "at least 0"]),
    (lambda: fitted(random_state=1.5), ["random_state was 1.5"]),
    (lambda: fitted(horizon=0), ["horizon was 0", "at least 1"]),
    (
        lambda: fitted(bounds={"x": (9, 0), "s": ["n"]}),
        ["2 things", "[9.0, 0.0]", "['n']", "give at least two"],
    ),
    (lambda: fitted(trust_model="joint"), ["delta was not given", "such as 1e-6"]),
    (lambda: fitted(learner="parttion"), ["'parttion'", "Did you mean 'partition'?"]),
    (lambda: fitted(learner=3), ["an int", "give a text"]),
    (lambda: fitted(learner="gp_ucb"), ["'gp_ucb', which does not choose among arms"]),
    (lambda: fitted(options=3), ["were 3", "give a dictionary"]),
    (lambda: fitted(options={"grwth": 1, "z": 2}), ["2 things", "Did you mean 'growth'?", "'z'"]),
    (lambda: fitted(["p", "z"]), ["decisions was 'z' in row 1", "the arms are p, q"]),
    (lambda: fitted(["p"]), ["decisions was ['p']", "one arm for each of 2 people"]),
    (lambda: fitted(rewards=[0]), ["rewards had shape (1,)", "it must have shape (2,)"]),
    (lambda: fitted(rewards=[0, np.nan]), ["first in row 1", "NaN or infinity"]),
    (lambda: fitted(rewards=["0", "x"]), ["rewards", "give numbers only"]),
    (lambda: fitted(rewards=[0, 9]), ["rewards had 9.0", "Declare wider"]),
    (
        lambda: fitted(contexts=[CONTEXTS[0], {"x": 22, "s": "n"}]),
        ["22.0 in column 'x'", "Declare wider"],
    ),
    (
        lambda: fitted(contexts=[{"x": pd.NA, "s": "n"}, {"x": 1, "s": "w"}]),
        ["2 things", "no value in column 'x', row 0", "'w' in column 's', row 1", "one of n, s"],
    ),
    (lambda: fitted(contexts=[{"x": 1}] * 2), ["lacked the column 's'", "the domain has x, s"]),
    (lambda: fitted(contexts=[1, 2]), ["shape (2,)", "one row for each person"]),
    (lambda: fitted(contexts=[CONTEXTS[0], 3]), ["an int in row 1", "as a dictionary"]),
    (lambda: fitted().predict([{"x": 1}]), ["lacked the column 's'", "the domain has x, s"]),
    (lambda: fitted().act(pd.DataFrame({"x": [1], "t": [2]})), ["lacked the column 's'", "x, s"]),
    # Learners.
    (lambda: learner("partitoin"), ["'partitoin'", "Did you mean 'partition'?"]),
    (lambda: learner(arms=["p", "p"]), ["['p', 'p']", "give at least two different texts"]),
    (lambda: learner(budget=Joint(1.0, 1e-6)), ["budget was Joint", "takes budgets with"]),
    (lambda: learner(options={"depht": 3}), ["option 'depht'", "its options are batch"]),
    (lambda: acting([{"x": 1}]), ["lacked the column 's'", "the domain has x, s"]),
    (lambda: acting({"x": 1, "s": "w"}), ["'w' in column 's', row 0", "one of n, s"]),
    (lambda: acting({"x": 11, "s": "n"}), ["11.0 in column 'x'", "Declare wider bounds"]),
]
SEARCHES: list[Case] = [
    (
        lambda: search(columns={"a": (1, 0), "b": 3, "c": ["x"]}),
        ["3 things", "[1.0, 0.0]", "'b' were 3", "['x']", "give a tuple (lower, upper)"],
    ),
    (lambda: search(columns={"a": (pd.NA, 1)}), ["lower bound of column 'a' was <NA>", "finite"]),
    (lambda: search(columns={"a": {"uper": 1}}), ["'uper'", "Did you mean 'upper'?"]),
    (lambda: search(columns={}), ["the columns were []", "give at least one"]),
    (lambda: search(budget=1.0), ["budget was a float; give Joint(epsilon, delta)"]),
    (lambda: search(bounds=(1, 0)), ["[1.0, 0.0]", "must be below"]),
    (lambda: search(direction="up"), ["'up'; it must be one of maximize"]),
    (lambda: search(trials=0), ["trials was 0", "at least 1"]),
    (lambda: search(seed=-1), ["seed was -1", "from 0"]),
    (lambda: search(bounds=3), ["bounds was 3", "give the least and the largest value"]),
    (lambda: search(noise=3), ["noise was 3", "pass SecureNoise()"]),
    (lambda: search(kernel="RBF"), ["'RBF' could not be read", "Use RBF(length_scale)"]),
    (lambda: search().tell(0, 0.5), ["trial was 0", "tell what ask() returned"]),
    (lambda: search().tell(Trial(4, {}), 0.5), ["trial was 4, but 0 trials"]),
    (lambda: search().tell(-1, 0.5), ["trial was -1", "must be a whole number"]),
    (told_twice, ["trial 0 has its value already", "ask() for another"]),
    (lambda: told(np.nan), ["value was nan", "must be a finite number"]),
    (lambda: told(pd.NA), ["value was <NA>", "must be a finite number"]),
    (lambda: told("high"), ["value was 'high'", "must be a finite number"]),
    (lambda: told(7.0), ["value was 7", "Declare wider bounds"]),
    (lambda: told(0.5, times=251), ["declared for 250 trials", "start another search"]),
    (lambda: search().best(), ["nothing was released yet", "Tell more of them"]),
    (lambda: search().predict({"b": 1}), ["params lacked the column 'a'", "the domain has a"]),
    (lambda: Search.load("none.json"), ["none.json", "give a file that save() wrote"]),
]
LOGS: list[Case] = [
    (lambda: logged(3), ["frame was an int", "must be a pandas DataFrame"]),
    (lambda: logged(pd.DataFrame()), ["frame has no rows", "give a table"]),
    (lambda: logged(w=0), ["40 of 40 rows, first 0 in row 2", "set estimated = true"]),
    (lambda: logged(w=[0.5, None] * 20), ["20 of 40 rows, first (empty) in row 3", "estimated"]),
    (lambda: logged(w="half"), ["first half in row 2", "give the probability"]),
    (lambda: logged(propensity=Propensity("v")), ["column 'v' is not in", "Name one of these"]),
    (
        lambda: logged(w=2, r=7, a="z", x=100),
        ["4 things", "first 2 in", "first 7", "first z", "first 100", "Declare wider bounds"],
    ),
    (lambda: logged(action="a"), ["action was a str", "give LoggedAction(column, names)"]),
    (lambda: logged(columns=["x"]), ["a column was 'x'", "give Column(name, lower, upper)"]),
    (lambda: logged(columns=[Column("r", 0, 1)]), ["'r' is both a context column and the"]),
    (lambda: logged(propensity=Propensity("r")), ["columns of action, reward, propensity"]),
    *(
        (lambda given=given: Propensity(**given), ["give exactly one of"])
        for given in ({}, {"value": 0.5, "estimated": True}, {"column": "w", "value": 0.5})
    ),
    (lambda: Propensity(value=1.5), ["above 0 and at most 1"]),
    (lambda: LoggedAction("a", ("only",)), ["at least two"]),
    (lambda: LoggedReward("r", 1.0, 0.0), ["reward bounds"]),
    (lambda: Log([[0.5]], [0], [0], LEVELS, ("p", "q")), ["column 'x'"]),
    (lambda: Log([[0.5]], [0], [0], LINE, ("p", "p")), ["at least two, each once"]),
    (lambda: Log([[0.5]], [0], [0], LINE, ("p", "q"), ids=[0, 1]), ["ids had shape (2,)"]),
    (
        lambda: Log([[1.0]] * 3, [0, 1, 5], [0, 1, 9], LINE, ("p", "q"), propensities=[0, 2, 1]),
        ["3 things", "actions was 5", "rewards had 9.0", "propensities were", "Declare wider"],
    ),
    (
        lambda: Log([["a"]], [[1], [1, 2]], [0], LINE, ("p", "q")),
        ["actions had rows of different lengths", "give one array"],
    ),
    (
        lambda: Log([["a"]], [0, 1], [0], LINE, ("p", "q")),
        ["2 things", "contexts could not be read", "give numbers only", "actions had shape (2,)"],
    ),
]
CASES = [*FRAMES, *STUDIES, *BANDITS, *SEARCHES, *LOGS]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, which is empty."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("attempt", "says"),
    CASES,
    ids=[f"{number}: {says[0]}" for number, (_, says) in enumerate(CASES)],
)
def test_wrong_input_is_refused_with_advice(
    folder: Path, attempt: Callable[[], object], says: list[str]
) -> None:
    with pytest.raises(InvalidInput) as refused:
        attempt()
    for text in says:
        assert text in str(refused.value)
    assert not list(folder.iterdir())


def test_a_bandit_that_was_not_fitted_predicts_nothing() -> None:
    with pytest.raises(NotFittedError, match="Call 'fit'"):
        PrivateBandit(["p", "q"], 1.0, bounds=LINE).predict([[1.0]])


def test_what_is_refused_leaves_a_bandit_and_a_search_as_they_were() -> None:
    bandit = fitted()
    before = bandit.predict_proba(CONTEXTS)
    with pytest.raises(InvalidInput):
        bandit.partial_fit(["p", "z"], [0, 9], CONTEXTS)
    np.testing.assert_array_equal(bandit.predict_proba(CONTEXTS), before)
    one = search(budget=NonPrivate())
    trial = one.ask()
    with pytest.raises(InvalidInput):
        one.tell(trial, 7.0)
    assert (one.observed, one.open_trials) == (0, (trial,))
