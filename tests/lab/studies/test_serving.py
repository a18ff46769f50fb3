"""The `[serve]` table: which line of a study is served, and what is refused with its line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from discreet.lab.studies import load_study
from discreet.lab.studies.serving import served_setting, serving_sentence
from discreet.lab.studies.settings import ServeTable
from discreet.learners.partition.learner import Partition
from discreet.validation import InvalidInput
from tests.cli.cases import STUDY, invoke, write_study

SERVED = STUDY.replace("partition", "kernel")
SERVE = """[serve]
epsilon = 2.0
people = 5000
default_arm = "b"
expires_days = 7
sources = { clinic = 4.0 }
"""


def test_the_table_chooses_one_line(tmp_path: Path) -> None:
    study = load_study(write_study(tmp_path, SERVED + SERVE))
    assert study.serve == ServeTable(
        epsilon=2.0, people=5000, default_arm="b", expires_days=7, sources={"clinic": 4.0}
    )
    setting = served_setting(study.settings, study.serve)
    assert setting.label == "kernel, epsilon 2"


def test_one_private_line_needs_no_table(tmp_path: Path) -> None:
    study = load_study(write_study(tmp_path, STUDY.replace("[1.0, 2.0]", "1.5")))
    assert study.serve is None
    assert served_setting(study.settings, ServeTable()).budget.epsilon == 1.5


def test_without_a_table_several_lines_are_listed(tmp_path: Path) -> None:
    study = load_study(write_study(tmp_path))
    with pytest.raises(InvalidInput) as refused:
        served_setting(study.settings, ServeTable())
    text = str(refused.value)
    assert "partition at epsilon = 1; partition at epsilon = 2" in text
    assert "[serve]" in text
    assert serving_sentence(study.settings, None, study.rounds) is None


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("epsilon = 2.0", "", "line 15: epsilon was missing, .* kernel at epsilon = 1"),
        (
            "epsilon = 2.0",
            "epsilon = 3.0",
            "line 16: epsilon was 3; .* at epsilon = 1",
        ),
        ("epsilon = 2.0", 'learner = "uniform"', 'line 16: learner was "uniform", which promises'),
        ("epsilon = 2.0", 'learner = "kernl"', "line 16: .* Did you mean 'kernel'"),
        ("people = 5000", "people = 0", "line 17: serve, people was 0; it must be 1 or more"),
        ('"b"', '"c"', 'line 18: default_arm was "c"; the arms are a, b'),
        (
            "expires_days = 7",
            "expires_days = 0",
            "19: serve, expires_days was 0; it must be above 0",
        ),
        ("expires_days = 7", "retention_days = -1", "line 19: serve, retention_days was -1"),
        ("expires_days = 7", "retention_days = 5000", "line 19: serve, retention_days was 5000"),
        ("expires_days = 7", "expire_days = 7", "line 19: serve, expire_days is not a key"),
        ("clinic = 4.0", "clinic = -1.0", "line 20: epsilon of a source was -1.0"),
        ("clinic = 4.0", "clinic = 40.0", "line 20: sources had epsilon = 40 for 'clinic'"),
        ("clinic = 4.0", '"a/b" = 4.0', "line 20: sources had the name 'a/b'"),
        ("clinic = 4.0", "target = 4.0", "line 20: a source was called 'target'"),
    ],
)
def test_what_is_refused_has_its_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    text = SERVED + SERVE.replace(old, new)
    with pytest.raises(InvalidInput) as refused:
        load_study(write_study(tmp_path, text))
    assert re.search(message, str(refused.value)), str(refused.value)


def test_an_epsilon_that_protects_nobody_is_not_served(tmp_path: Path) -> None:
    text = STUDY.replace("[1.0, 2.0]", "40.0\nprotects_nobody = true") + "[serve]\n"
    with pytest.raises(InvalidInput, match="epsilon was 40, and above 30 it protects no one"):
        load_study(write_study(tmp_path, text))


def test_a_study_without_privacy_is_not_served(tmp_path: Path) -> None:
    text = STUDY.replace("epsilon = [1.0, 2.0]", "non_private = true") + "[serve]\n"
    with pytest.raises(InvalidInput, match="all without privacy"):
        load_study(write_study(tmp_path, text))


def test_a_learner_whose_actions_send_bits_of_contexts_is_not_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Partition, "acts_silently", False)
    text = STUDY.replace("[1.0, 2.0]", "2.0")
    with pytest.raises(InvalidInput, match="send the server something whenever a person acts"):
        load_study(write_study(tmp_path, text + "[serve]\n"))


def test_everything_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    text = SERVED + SERVE.replace('"b"', '"c"').replace("4.0", "40.0").replace("2.0", "9.0")
    with pytest.raises(InvalidInput) as refused:
        load_study(write_study(tmp_path, text))
    assert len(refused.value.args) == 3


def test_check_says_what_would_be_served(tmp_path: Path) -> None:
    path = write_study(tmp_path, SERVED + SERVE)
    code, out, _ = invoke("check", path)
    assert code == 0
    said = " ".join(out.split())
    assert "Served would be kernel at epsilon = 2 under local privacy, to 5,000 people" in said
    assert f"discreet serve {path}" in said


def test_check_says_nothing_where_the_study_does_not(tmp_path: Path) -> None:
    _, out, _ = invoke("check", write_study(tmp_path))
    assert "Served would be" not in out
