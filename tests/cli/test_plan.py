"""`discreet plan`: what is shown, written and refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import discreet
from discreet.cli.plan import numbers_in, share_of
from discreet.records import ORIGIN, PLANNED, holds_records
from discreet.validation import InvalidInput
from tests.lab.planning.cases import SMOOTH, write_people, write_study

from .cases import invoke, records


def test_a_plan_is_shown_and_written(tmp_path: Path) -> None:
    write_people(tmp_path / "people.csv", rows=150)
    path = write_study(tmp_path, rounds=150)
    page, lines = tmp_path / "plan.html", tmp_path / "plan.jsonl"
    code, out, err = invoke(
        "plan", path, "--epsilons", "8", "--replicates", 2, "--jobs", 1,
        "--people", 150, "--lose-at-most", "50%", "--learners", "partition",
        "--report", page, "--json", lines, "--details",
    )  # fmt: skip
    assert code == 0, err
    words = " ".join(out.split())
    for text in (
        "Plan: Whom to call",
        "with 150 people",
        "Asked: With 150 people, losing at most 50% takes",
        "it does not cover this plan",
        "one choice for everyone",
        "at random",
        "keeps 80%",
        "If you do not take part",
        "Draft of the certificate",
        "local differential privacy, replace-one",
    ):
        assert text in words
    assert "Simulating ..." in err
    assert "discreet" in page.read_text(encoding="utf-8")
    assert set(records(lines)[0]) == {*PLANNED, *ORIGIN} - {"made"}
    assert holds_records(lines)


def test_synthetic_people_need_no_table(tmp_path: Path) -> None:
    path = write_study(tmp_path, rounds=100)  # there is no people.csv
    code, _, err = invoke("plan", path, "--epsilons", 8, "--replicates", 2)
    assert code == 2
    assert "people.csv" in err
    arguments = ("--epsilons", 8, "--replicates", 2, "--synthetic", "--contrast", 1.0, "--jobs", 1)
    arguments += ("--learners", "partition")
    code, out, err = invoke("plan", path, *arguments)
    assert code == 0, err
    assert "Planning used no one's data" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--lose-at-most", "5"), "Did you mean 5%?"),
        (("--lose-at-most", "many"), "a share from 0 to 1 or a percentage"),
        (("--epsilons", "1;2"), "give numbers with commas"),
        (("--epsilons", "40"), "protects no one"),
        (("--contrast", "0.5"), "add --synthetic"),
        (("--people", 9, "--epsilon", 1, "--lose-at-most", "5%"), "at most two"),
        (("--report", "plan.txt"), "must end in .html"),
    ],
)
def test_refusals(tmp_path: Path, arguments: tuple[object, ...], message: str) -> None:
    code, out, err = invoke("plan", write_study(tmp_path, SMOOTH, 100), *arguments)
    assert code == 2
    assert message in err
    assert not out


def test_all_that_is_wrong_with_options_is_said_at_once(tmp_path: Path) -> None:
    path = write_study(tmp_path, SMOOTH, 100)
    _, _, err = invoke("plan", path, "--epsilons", "x", "--lose-at-most", "x")
    assert "2 things are wrong" in err


def test_shares_and_numbers() -> None:
    assert share_of("5%") == share_of("0.05") == 0.05
    assert share_of(None) is None
    assert numbers_in("0.5, 1", "--epsilons") == (0.5, 1.0)
    with pytest.raises(InvalidInput, match="101%"):
        share_of("101%")


def test_a_plan_in_python(tmp_path: Path) -> None:
    plan = discreet.plan(
        write_study(tmp_path, SMOOTH, 200), epsilons=[8], replicates=2, epsilon=8, people=200
    )
    assert isinstance(plan, discreet.Plan)
    assert plan.answer.startswith("At epsilon = 8 with 200 people, the loss is")
    assert plan.people_for(epsilon=8, keep=0.5).least == plan.horizons[0]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"epsilons": None}, "epsilons was None; it must be a list of numbers"),
        ({"learners": 3}, "learners was 3; it must be a list of names"),
        ({"learners": "nosuch"}, "the learner 'nosuch' is unknown"),
        ({"epsilons": "abc"}, "epsilons was 'abc'; it must be a list of numbers"),
        ({"epsilons": 40}, "an epsilon was 40"),
        ({"table": 3}, "table was an int; give the path of a table"),
        ({"data_dir": 3}, "data_dir was an int; give the path of a folder"),
        ({"study": {}}, "study was a dict; give a study file, or a Study"),
        ({"people": 10**20}, "1e[+]20, which is more people than are alive"),
    ],
)
def test_refusals_in_python(tmp_path: Path, given: dict[str, Any], message: str) -> None:
    usual = {"study": write_study(tmp_path, SMOOTH, 100)}
    with pytest.raises(InvalidInput, match=message):
        discreet.plan(**{**usual, **given})
