"""The command line as a user meets it."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import discreet.cli.study
import discreet.lab.results.run
from discreet.cli import app
from discreet.records import write_records

runner = CliRunner()

STUDY = """
name = "small"
title = "A [small] study"
rounds = 600
replicates = 2
[problem]
name = "exponential"
[[learners]]
name = "partition"
epsilon = [2.0]
non_private = true
[[learners]]
name = "uniform"
[[learners]]
name = "best_fixed"
"""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "study.toml"
    path.write_text(STUDY)
    return path


EARLIER = {"mean": 1.0, "standard_error": None, "trials": 1, "paper": None}


def invoke(*arguments: object) -> tuple[int, str, str]:
    result = runner.invoke(app, [str(argument) for argument in arguments])
    return result.exit_code, result.stdout, result.stderr


def test_run_prints_a_table_and_a_promise_and_writes_files(study: Path, tmp_path: Path) -> None:
    records, report = tmp_path / "r.jsonl", tmp_path / "r.html"
    study.write_text(STUDY.replace('"exponential"', '"exponential"\ndimension = 1'))
    code, out, _ = invoke("run", study, "--jobs", 1, "--json", records, "--report", report)
    assert code == 0
    assert "A [small] study" in out
    words = " ".join(out.split())
    for expected in ("uniform", "epsilon = 2", "best", "non-private", "protects no one"):
        assert expected in words
    # The verdict stands before the table.
    assert words.index("the best single choice") < words.index("seconds")
    lines = [json.loads(line) for line in records.read_text().splitlines()]
    assert len(lines) == 8
    assert {line["learner"] for line in lines} == {"partition", "uniform", "best_fixed"}
    # In the study's order, whatever order they finished in.
    assert [line["replicate"] for line in lines] == [0, 1] * 4
    assert "A [small] study" in report.read_text()
    assert "no epsilon covers" not in words + report.read_text()  # people are invented


def test_rows_left_out_are_counted_and_mistakes_are_all_said(tmp_path: Path) -> None:
    rows = "".join(f"{20 + i},{'' if i % 3 else 1},{i % 2}\n" for i in range(30))
    (tmp_path / "people.csv").write_text("age,gene,won\n" + rows, encoding="utf-8")
    text = """name = "small"
replicates = 1
[problem]
name = "table"
path = "people.csv"
columns = [
  { name = "age", lower = 0, upper = 99 },
  { name = "gene", lower = 0, upper = 1, missing = "drop" },
]
label = { column = "won", classes = [0, 1, 2] }
[[learners]]
name = "uniform"
"""
    study, records, report = tmp_path / "s.toml", tmp_path / "r.jsonl", tmp_path / "r.html"
    study.write_text(text, encoding="utf-8")
    code, out, err = invoke("run", study, "--jobs", 1, "--json", records, "--report", report)
    assert code == 0
    exposed = "computed from the people of people.csv without noise, and no epsilon covers that"
    assert exposed in " ".join(out.split())
    assert exposed in report.read_text(encoding="utf-8")
    assert "10 of 30 rows; 20 lack gene" in out
    assert "No row of the table has the won '2'" in " ".join(err.split())
    assert json.loads(records.read_text())["rows"] == "10 of 30 rows; 20 lack gene"
    records.unlink()
    study.write_text(text.replace(', missing = "drop"', "").replace("upper = 99", "upper = 30"))
    code, _, err = invoke("run", study, "--json", records)
    assert code == 2
    assert "2 things are wrong" in err
    assert not records.exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("study.toml", "--rounds", 0), "--rounds"),
        (("study.toml", "--json", "r.csv"), "must end in"),
        (("study.toml", "--report", "no/r.html"), "the folder of"),
        (("none.toml",), "none.toml"),
    ],
)
def test_mistakes_end_with_code_2_and_write_nothing(
    study: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[object, ...], message: str
) -> None:
    monkeypatch.chdir(study.parent)
    code, out, err = invoke("run", *options)
    assert (code, out) == (2, "")
    assert message in err.replace("\n", "")
    assert [path.name for path in study.parent.iterdir()] == ["study.toml"]


@pytest.mark.parametrize("finished", [0, 3])
def test_an_interrupted_run_keeps_what_is_finished(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, finished: int
) -> None:
    original = discreet.lab.results.run.simulate_all

    def interrupted(*arguments, **keywords):  # type: ignore[no-untyped-def]
        yield from itertools.islice(original(*arguments, **keywords), finished)
        raise KeyboardInterrupt

    monkeypatch.setattr(discreet.lab.results.run, "simulate_all", interrupted)
    records = tmp_path / "r.jsonl"
    write_records([{"method": "mine", "metric": "", **EARLIER}], records)
    before = records.read_text()
    code, out, err = invoke("run", study, "--jobs", 1, "--json", records)
    assert code == 130
    assert "Interrupted" in err
    if finished:
        assert "uniform" in out  # what needs no learning comes first
        assert len(records.read_text().splitlines()) == finished
    else:
        assert "nothing was written" in " ".join(err.split())
        assert records.read_text() == before


def test_data_list_and_show() -> None:
    code, out, _ = invoke("data", "list")
    assert code == 0
    assert all(name in out for name in ("earnings", "adult", "exponential", "symmetric", "table"))
    code, out, _ = invoke("data", "show", "earnings")
    assert code == 0
    assert all(word in out for word in ("age", "education", "gender", "thresholds"))
    code, _, err = invoke("data", "show", "nothing")
    assert code == 2
    assert "nothing" in err


def test_version() -> None:
    code, out, _ = invoke("version")
    assert code == 0
    assert out.strip().count(".") == 2
    assert invoke("--version")[:2] == (0, out)


@pytest.mark.parametrize(
    ("problem", "expected"),
    [
        ('name = "exponential"', "3 arms: arm 1"),
        ('name = "bumps"', "Every person brings up to 25 points of their own."),
        ('name = "camelback"', "Everyone can be given any point of a box with 2 columns."),
        ('name = "camelback"\ngrid = 5', "Everyone can be given the same 25 points."),
    ],
)
def test_run_says_what_people_can_be_given(study: Path, problem: str, expected: str) -> None:
    learners = '[[learners]]\nname = "uniform"\nlabel = "a [/b]"\n'
    study.write_text(f'name = "s"\n[problem]\n{problem}\n{learners}')
    code, out, err = invoke("run", study, "--jobs", 1, "--rounds", 40, "--replicates", 1)
    assert code == 0, err
    words = " ".join(out.split())
    assert "40 people, one replicate;" in words
    assert "a [/b]" in words
    assert expected in words
    assert "arms: ." not in words
