"""Studies from mappings: the same checks as files have, and the file that would say the same."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.gaussian_process.kernels import RBF

from discreet.lab.results.journal import digest_of, meaning_of
from discreet.lab.studies import Study, load_study
from discreet.lab.studies.frames import toml_text, toml_values
from discreet.validation import InvalidInput
from tests.lab.studies.test_files import GOOD, written

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
    options = {"kernel": RBF(length_scale=0.3), "error": np.float64(0.03), "drift": None}
    mapping = SMALL | {
        "seed": np.int64(3),
        "replicates": None,
        "learners": (
            {"name": "released_thompson", "epsilon": (1, 2), "delta": 1e-6, "options": options},
        ),
    }
    study = Study.from_dict(mapping)
    assert [setting.budget.epsilon for setting in study.settings] == [1.0, 2.0]
    assert (study.seed, study.replicates) == (3, 4)
    assert study.settings[0].options == {"kernel": "RBF(length_scale=0.3)", "error": 0.03}
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


def test_several_mistakes_are_said_at_once() -> None:
    learners = [{"name": "partition", "epsilon": -1}, {"name": "oracle", "epsilon": 1}]
    with pytest.raises(InvalidInput) as refused:
        Study.from_dict(SMALL | {"learners": learners, "report": {"axes": ["x9"]}})
    assert [text.partition(": ")[0] for text in refused.value.args] == [
        "the study, learners, entry 1", "the study, learners, entry 2", "the study",
    ]  # fmt: skip


def test_other_things_are_no_study() -> None:
    with pytest.raises(InvalidInput, match="give a dictionary with the keys of a study file"):
        Study.from_dict([SMALL])  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="replicates was 0"):
        Study.from_dict(SMALL, replicates=0)


def test_a_study_can_have_another_size() -> None:
    study = Study.from_dict(SMALL)
    less = study.resized(rounds=50, replicates=1)
    assert (less.rounds, less.replicates) == (50, 1)
    assert study.resized() == study
    with pytest.raises(InvalidInput, match=r"rounds was -1(.|\n)*replicates was 1\.5"):
        study.resized(rounds=-1, replicates=1.5)  # type: ignore[arg-type]


def test_a_study_says_what_it_is() -> None:
    assert repr(Study.from_dict(SMALL)).splitlines() == [
        "Study 'small': 4 x 100 people, 2 columns, 3 arms (what can be chosen): arm 1, arm 2, "
        "arm 3",
        "partition, epsilon 1; partition, epsilon 4; uniform",
    ]


def test_texts_keys_and_numbers_are_written_as_toml_has_them() -> None:
    content = {
        "text": 'a "b" \\ \n\x7f é',
        "odd key.": {"inf": [float("inf"), 1e-6, -2], "truth": [True, False], "none": {}},
        "rows": [{"a": 1, "b": {"c": [1, 2]}}, {"a": 2}],
        "empty": [],
        "nested": {"tables": [{"x": 1}, {"x": 2}]},
    }
    assert tomllib.loads(toml_text(content)) == content


def test_arrays_and_series_become_lists() -> None:
    given = {1: pd.Series([1.5, 2.5]), "path": Path("a"), "no": None, "i": pd.Index(["a", "b"])}
    assert toml_values(given) == {"1": [1.5, 2.5], "path": "a", "i": ["a", "b"]}
