"""`discreet plan`: what is shown, written and refused."""

from __future__ import annotations

from pathlib import Path

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
        "plan", path, "--epsilons", "2", "--replicates", 2, "--jobs", 1,
        "--people", 150, "--lose-at-most", "50%", "--learners", "partition",
        "--report", page, "--json", lines, "--details",
    )  # fmt: skip
    assert code == 0, err
    words = " ".join(out.split())
    for text in (
        "Plan: Whom to call",
        "with 150 people",
        "Losing at most 50% takes",
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
    path = write_study(tmp_path, rounds=40)  # there is no people.csv
    code, _, err = invoke("plan", path, "--epsilons", 8, "--replicates", 2)
    assert code == 2
    assert "people.csv" in err
    arguments = ("--epsilons", 2, "--replicates", 2, "--synthetic", "--contrast", 1.0, "--jobs", 1)
    arguments += ("--learners", "partition")
    code, out, err = invoke("plan", path, *arguments)
    assert code == 0, err
    assert "Planning used no one's data" in out
    assert len(out.splitlines()) <= 30


def test_people_that_are_given_are_not_missed_beside_other_errors(tmp_path: Path) -> None:
    path = write_study(tmp_path)
    path.write_text(path.read_text().replace("rounds", "# rounds"))
    for people, missed in ((), True), (("--people", 50), False):
        code, _, err = invoke("plan", path, "--synthetic", "--lose-at-most", "50", *people)
        assert (code, "has no rounds" in err) == (2, missed)
        assert "--lose-at-most was '50'" in err


def test_shares_and_numbers() -> None:
    assert share_of("5%") == share_of("0.05") == 0.05
    assert share_of(None) is None
    assert numbers_in("0.5, 1", "--epsilons") == (0.5, 1.0)
    with pytest.raises(InvalidInput, match="101%"):
        share_of("101%")


def test_a_plan_in_python(tmp_path: Path) -> None:
    plan = discreet.plan(
        write_study(tmp_path, SMOOTH, 40), epsilons=[2], replicates=2, epsilon=2, people=40
    )
    assert isinstance(plan, discreet.Plan)
    assert plan.answer.startswith("At epsilon = 2 with 40 people, the loss is")
    assert plan.people_for(epsilon=2, keep=0.5).least == plan.horizons[0]
