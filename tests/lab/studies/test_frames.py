"""Studies around data frames: bounds are stated, no file is written, and files mean the same.

Studies from mappings: the same checks as files have, and the file that would say the same.
"""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.gaussian_process.kernels import RBF

from discreet.lab.environments.tables import TableProblem
from discreet.lab.experiments import simulate
from discreet.lab.results.run import digest_of, meaning_of
from discreet.lab.studies import Study, load_study
from discreet.lab.studies.frames import study_text, toml_values
from discreet.people.columns import Column
from discreet.validation import InvalidInput
from tests.lab.studies.test_files import GOOD, written

BOUNDS = {"age": (18, 90), "region": ["north", "south"]}
CLASSES = ["no", "yes"]


def people(count: int = 60) -> pd.DataFrame:
    """Some people, and a column that is nobody's business."""
    number = np.arange(count)
    return pd.DataFrame(
        {
            "age": 18 + number % 73,
            "region": np.array(["north", "south"])[number % 2],
            "said": np.array(CLASSES)[(number // 3) % 2],
            "paid a": (number % 5).astype(float),
            "paid b": 1.0,
            "who": number // 2,
        }
    )


def of(frame: pd.DataFrame | None = None, **changes: Any) -> Study:
    facts = {"bounds": BOUNDS, "label": "said", "classes": CLASSES, "epsilon": [1, 4]} | changes
    return Study.from_frame(people() if frame is None else frame, **facts)


def test_a_frame_is_a_table() -> None:
    study = of()
    assert [setting.label for setting in study.settings] == [
        "kernel, epsilon 1", "kernel, epsilon 4", "kernel (non-private)",
        "uniform",
    ]  # fmt: skip
    problem = study.problem
    assert isinstance(problem, TableProblem)
    assert (study.rounds, study.path, study.files) == (60, None, ())
    assert problem.domain.names == ("age", "region")
    assert problem.arm_names == ("no", "yes")
    assert problem.source == "A data frame."
    assert "the people of the table given without noise" in problem.exposure
    assert study.warnings == (
        "Columns that take no part, as no bounds are stated for them: paid a, paid b, who.",
    )


def test_no_file_is_written_and_a_file_gives_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    study = of(learners=["partition"], non_private=False)
    assert list(tmp_path.iterdir()) == []
    people().to_csv("data frame.csv", index=False)
    (tmp_path / "study.toml").write_text(study.text.replace('"data frame"', '"data frame.csv"'))
    file = Study.from_file("study.toml")
    assert file.settings == study.settings
    for setting in study.settings:
        values = [simulate(each.problem, setting, 40, 0, 0).record.value for each in (study, file)]
        assert values[0] == values[1]


def test_the_frame_may_change_afterwards() -> None:
    frame = people()
    study = of(frame)
    before = study.problem.sample(60, np.random.default_rng(0)).contexts.copy()
    frame["age"] = 20
    after = study.problem.sample(60, np.random.default_rng(0)).contexts
    assert np.array_equal(before, after)


def test_what_is_in_the_frame_decides_the_digest() -> None:
    first = meaning_of(of())
    assert meaning_of(of(people().copy())) == first
    changed = people()
    changed.loc[3, "age"] = 20
    assert meaning_of(of(changed))["data"] != first["data"]
    renamed = people().rename(columns={"who": "whom"})
    assert meaning_of(of(renamed))["data"] != first["data"]


@pytest.mark.parametrize(
    "bounds",
    [
        {"age": {"lower": 18, "upper": 90}, "region": ["north", "south"]},
        {"age": Column("age", 18, 90), "region": Column("region", values=["north", "south"])},
        {"age": tuple(np.array([18, 90])), "region": np.array(["north", "south"])},
    ],
)
def test_bounds_can_be_stated_in_several_ways(bounds: dict[str, Any]) -> None:
    assert of(bounds=bounds).problem.domain == of().problem.domain


def test_columns_of_other_kinds() -> None:
    frame = people()
    frame["region"] = frame["region"].astype("category")
    frame["who"] = pd.array(frame["who"], dtype="Int64")
    frame["member"] = frame["age"] > 40
    frame[7] = frame["age"] % 3
    brackets = Column("paid a", thresholds=(2.0, 4.0))
    bounds = {
        **BOUNDS,
        "who": {"lower": 0, "upper": 100, "levels": 101},
        "member": [False, True],
        "7": {"values": [0, 1, 2]},
        "paid a": brackets,
    }
    domain = of(frame, bounds=bounds).problem.domain
    assert domain.names == tuple(bounds)
    assert domain.categories[3:] == (("false", "true"), ("0", "1", "2"), brackets.values)


def test_rewards_may_stand_in_columns() -> None:
    facts = {"label": None, "classes": None, "rewards": ["paid a", "paid b"]}
    study = of(**facts, reward_bounds=(0, 5))
    assert (study.problem.arm_names, study.problem.reward_bounds.upper) == (
        ("paid a", "paid b"), 5.0,
    )  # fmt: skip
    table = {"columns": ["paid a", "paid b"], "lower": 0, "upper": 5}
    assert of(**facts | {"rewards": table}).problem.arm_names == study.problem.arm_names
    cut = of(label={"column": "paid a", "thresholds": [2]}, classes=None)
    assert cut.problem.arm_names == ("under 2", "2 or more")


def test_people_who_come_more_than_once() -> None:
    study = of(people="who", learners=[{"name": "partition", "epsilon": 1, "max_contributions": 2}])
    assert study.problem.visits is not None
    assert set(study.problem.visits) == {2}
    assert "who" not in study.warnings[-1]


def test_a_common_budget_is_for_learners_that_take_one_and_have_none() -> None:
    study = of(
        learners=[
            "partition",
            {"name": "kernel", "epsilon": 2},
            "best_fixed",
            "uniform",
            {"name": "capri", "trust_model": "joint", "non_private": True},
        ]
    )
    assert [setting.label for setting in study.settings] == [
        "partition, epsilon 1", "partition, epsilon 4", "partition (non-private)",
        "kernel, epsilon 2", "best_fixed", "uniform", "capri",
    ]  # fmt: skip
    joint = of(trust_model="joint", delta=1e-6, non_private=False).settings
    assert [setting.budget.trust_model for setting in joint] == ["joint", "joint", "none"]


def test_refusals_show_no_range_of_the_data() -> None:
    """Who has not stated bounds is not shown what they would be."""
    frame = people()
    frame.loc[5, "age"] = 87_654
    with pytest.raises(InvalidInput) as refused:
        of(frame, bounds=None)
    assert "87654" not in str(refused.value).replace(",", "")


def test_neither_the_index_nor_the_order_of_columns_matters() -> None:
    frame, mixed = people(), people().set_index(np.arange(60)[::-1] * 7)
    mixed = mixed[mixed.columns[::-1]]
    for other in (mixed, mixed.set_axis(["a"] * 60, axis=0)):
        samples = [of(each).problem.sample(60, np.random.default_rng(0)) for each in (frame, other)]
        assert np.array_equal(samples[0].contexts, samples[1].contexts)
        assert np.array_equal(samples[0].oracle(), samples[1].oracle())


def test_frames_stand_in_place_of_files() -> None:
    visits = pd.DataFrame({"visit": [1, 1, 2], "film": ["a", "b", "a"], "liked": [1, 0, 1]})
    films = pd.DataFrame({"film": ["a", "b"], "year": [1990, 2000]})
    mapping = {
        "name": "films",
        "problem": {
            "name": "decision_sets", "path": "visits", "candidates_path": "films",
            "visit": "visit", "candidate": "film", "most": 2,
            "columns": [{"name": "year", "lower": 1920, "upper": 2020}],
            "reward": {"name": "liked", "lower": 0, "upper": 1},
        },
        "learners": [{"name": "uniform"}],
    }  # fmt: skip
    study = Study.from_dict(mapping, tables={"visits": visits, "films": films})
    assert (study.problem.size, study.problem.source) == (2, "Data frames.")
    assert len(meaning_of(study)["data"]) == 2
    with pytest.raises(InvalidInput, match=r"must end in \.csv"):
        Study.from_dict(mapping, tables={"visits": visits})


SMALL: dict[str, Any] = {
    "name": "small",
    "rounds": 100,
    "problem": {"name": "exponential", "dimension": 2},
    "learners": [{"name": "partition", "epsilon": [1.0, 4.0]}, {"name": "uniform"}],
}


def test_a_mapping_is_the_study_of_its_file(tmp_path: Path) -> None:
    file = load_study(written(tmp_path, GOOD))
    study = Study.from_dict(tomllib.loads(GOOD))
    facts = {"problem": file.problem, "text": file.text, "path": file.path}
    assert replace(study, **facts) == file
    assert (study.path, study.files) == (None, ())
    assert tomllib.loads(study.text) == tomllib.loads(GOOD)
    assert digest_of(meaning_of(study)) == digest_of(meaning_of(file))
    again = load_study(written(tmp_path, study.text))
    assert again.settings == study.settings


def test_python_s_own_values_are_read(tmp_path: Path) -> None:
    options = {"kernel": RBF(length_scale=1.0), "error": np.float64(0.3), "reward_noise": None}
    mapping = SMALL | {
        "seed": np.int64(3),
        "replicates": None,
        "learners": ({"name": "capri", "epsilon": (1, 2), "delta": 1e-6, "options": options},),
    }
    study = Study.from_dict(mapping)
    assert [setting.budget.epsilon for setting in study.settings] == [1.0, 2.0]
    assert (study.seed, study.replicates) == (3, 4)
    assert study.settings[0].options == {"kernel": "RBF(length_scale=1.0)", "error": 0.3}
    assert load_study(written(tmp_path, study.text)).settings == study.settings


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rounds": 0}, "the study: rounds was 0; it must be 1 or more"),
        ({"sead": 1}, "the study: sead is not a key.*Did you mean 'seed'"),
        ({"problem": {"dimension": 2}}, "the study: .problem. is without a name"),
        ({"problem": {"name": "exponentail"}}, "the study: .*exponentail.*Did you mean"),
        ({"learners": [{"name": "uniform"}, {"name": "partition"}]},
         "the study, learners, entry 2: the learner 'partition' has no epsilon"),
        ({"learners": [{"name": "partition", "epsilon": 1, "option": {}}]},
         r'learners, entry 1 \("partition"\), option is not a key'),
        ({"report": {"axes": ["x9"]}}, "the study: axes in .report. names the column 'x9'"),
        ({"learners": [{"name": "partition", "epsilon": object()}]}, "epsilon was .*a list"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_without_lines(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as refused:
        Study.from_dict(SMALL | change)
    assert ", line " not in str(refused.value)


def test_a_study_can_have_another_size() -> None:
    study = Study.from_dict(SMALL)
    less = study.resized(rounds=50, replicates=1)
    assert (less.rounds, less.replicates) == (50, 1)
    assert study.resized() == study
    with pytest.raises(InvalidInput, match=r"rounds was -1(.|\n)*replicates was 1\.5"):
        study.resized(rounds=-1, replicates=1.5)  # type: ignore[arg-type]


def test_a_study_says_what_it_is() -> None:
    assert repr(Study.from_dict(SMALL)).splitlines() == [
        "Study 'small': 4 x 100 people, 2 columns, 3 arms: arm 1, arm 2, arm 3",
        "partition, epsilon 1; partition, epsilon 4; uniform",
    ]


def test_a_notebook_shows_lines_and_file_of_a_study() -> None:
    html = Study.from_dict({**SMALL, "title": "<b>"})._repr_html_()
    assert html.startswith("<p><strong>&lt;b&gt;</strong>")
    assert "<li>partition, epsilon 1: local</li>" in html
    assert "<details>" in html


def test_texts_keys_and_numbers_are_written_as_toml_has_them() -> None:
    content = {
        "text": 'a "b" \\ \n\x7f é',
        "odd key.": {"inf": [float("inf"), 1e-6, -2], "truth": [True, False], "none": {}},
        "rows": [{"a": 1, "b": {"c": [1, 2]}}, {"a": 2}],
        "empty": [],
        "nested": {"tables": [{"x": 1}, {"x": 2}]},
    }
    assert tomllib.loads(study_text(content)) == content


def test_arrays_and_series_become_lists() -> None:
    given = {1: pd.Series([1.5, 2.5]), "path": Path("a"), "no": None, "i": pd.Index(["a", "b"])}
    assert toml_values(given) == {"1": [1.5, 2.5], "path": "a", "i": ["a", "b"]}
