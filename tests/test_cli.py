"""The command line as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import discreet.cli.running
import discreet.cli.study
from discreet.cli import app

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


def invoke(*arguments: object) -> tuple[int, str, str]:
    result = runner.invoke(app, [str(argument) for argument in arguments])
    return result.exit_code, result.stdout, result.stderr


def test_run_prints_a_table_and_a_promise_and_writes_files(study: Path, tmp_path: Path) -> None:
    records, report = tmp_path / "r.jsonl", tmp_path / "r.html"
    code, out, _ = invoke("run", study, "--jobs", 1, "--json", records, "--report", report)
    assert code == 0
    assert "A [small] study" in out
    words = " ".join(out.split())
    for expected in ("uniform", "epsilon = 2", "best", "non-private", "protects nobody"):
        assert expected in words
    # The verdict stands before the table.
    assert words.index("giving everyone the best single choice") < words.index("seconds")
    lines = [json.loads(line) for line in records.read_text().splitlines()]
    assert len(lines) == 8
    assert {line["learner"] for line in lines} == {"partition", "uniform", "best_fixed"}
    # In the study's order, whatever order they finished in.
    assert [line["replicate"] for line in lines] == [0, 1] * 4
    assert "A [small] study" in report.read_text()


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
    study, records = tmp_path / "s.toml", tmp_path / "r.jsonl"
    study.write_text(text, encoding="utf-8")
    code, out, err = invoke("run", study, "--jobs", 1, "--json", records)
    assert code == 0
    assert "10 of 30 rows; 20 lack gene" in out
    assert "Nobody in the table has the won '2'" in " ".join(err.split())
    assert json.loads(records.read_text())["rows"] == "10 of 30 rows; 20 lack gene"
    records.unlink()
    study.write_text(text.replace(', missing = "drop"', "").replace("upper = 99", "upper = 30"))
    code, _, err = invoke("run", study, "--json", records)
    assert code == 2
    assert "2 things are wrong" in err
    assert not records.exists()


def test_rounds_and_replicates_replace_those_of_the_file(study: Path, tmp_path: Path) -> None:
    records = tmp_path / "r.jsonl"
    code, _, _ = invoke(
        "run", study, "--jobs", 1, "--rounds", 200, "--replicates", 1, "--json", records
    )
    assert code == 0
    lines = [json.loads(line) for line in records.read_text().splitlines()]
    assert {(line["rounds"], line["replicate"]) for line in lines} == {(200, 0)}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "partition"', 'name = "partitoin"', "partitoin"),
        ("epsilon = [2.0]", "epsilon = [-2.0]", "-2.0"),
        ("rounds = 600", "rounds = [1, 2", "TOML"),
    ],
)
def test_bad_studies_end_with_code_2_and_write_nothing(
    study: Path, tmp_path: Path, old: str, new: str, message: str
) -> None:
    study.write_text(STUDY.replace(old, new))
    records = tmp_path / "r.jsonl"
    code, out, err = invoke("run", study, "--json", records)
    assert code == 2
    assert message in err.replace("\n", "")
    assert out == ""
    assert not records.exists()


def test_missing_files_end_with_code_2(study: Path, tmp_path: Path) -> None:
    assert invoke("run", tmp_path / "none.toml")[0] == 2
    code, _, err = invoke("run", study, "--report", tmp_path / "no" / "r.html")
    assert code == 2
    assert "folder" in err
    assert invoke("run", study, "--rounds", 0)[0] == 2


def test_interruption_keeps_what_is_finished(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = discreet.cli.running.simulate_all

    def interrupted(*arguments, **keywords):  # type: ignore[no-untyped-def]
        stream = original(*arguments, **keywords)
        for _ in range(3):
            yield next(stream)
        raise KeyboardInterrupt

    monkeypatch.setattr(discreet.cli.running, "simulate_all", interrupted)
    records = tmp_path / "r.jsonl"
    code, out, err = invoke("run", study, "--jobs", 1, "--json", records)
    assert code == 130
    assert "Interrupted" in err
    assert "uniform" in out  # what needs no learning comes first
    assert len(records.read_text().splitlines()) == 3


def test_early_interruption_leaves_earlier_results(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def at_once(*arguments, **keywords):  # type: ignore[no-untyped-def]
        raise KeyboardInterrupt
        yield

    records = tmp_path / "r.jsonl"
    assert invoke("run", study, "--jobs", 1, "--rounds", 20, "--json", records)[0] == 0
    monkeypatch.setattr(discreet.cli.running, "simulate_all", at_once)
    earlier = records.read_text()
    code, _, err = invoke("run", study, "--jobs", 1, "--json", records)
    assert code == 130
    assert "nothing was written" in " ".join(err.split())
    assert [path.name for path in tmp_path.glob("r.*")] == ["r.jsonl"]
    assert records.read_text() == earlier


def test_names_are_never_markup(study: Path, tmp_path: Path) -> None:
    study.write_text(STUDY.replace('name = "partition"', 'name = "partition"\nlabel = "a [/b]"'))
    code, out, _ = invoke("run", study, "--jobs", 1, "--rounds", 300, "--replicates", 1)
    assert code == 0
    assert "a [/b]" in out


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


def test_files_with_other_endings_are_refused(study: Path, tmp_path: Path) -> None:
    for option, name in (("--json", "r.csv"), ("--report", "r.pdf")):
        code, _, err = invoke("run", study, option, tmp_path / name)
        assert code == 2
        assert "must end in" in err


@pytest.mark.parametrize(
    ("problem", "expected"),
    [
        ('name = "exponential"', "3 arms (what can be chosen): arm 1"),
        ('name = "bumps"', "every person brings up to 25 points of their own."),
        ('name = "camelback"', "everyone can be given any point of a box with 2 columns."),
        ('name = "camelback"\ngrid = 5', "everyone can be given the same 25 points."),
    ],
)
def test_run_says_what_people_can_be_given(study: Path, problem: str, expected: str) -> None:
    learners = '[[learners]]\nname = "uniform"\n'
    study.write_text(f'name = "s"\nrounds = 40\nreplicates = 1\n[problem]\n{problem}\n{learners}')
    code, out, err = invoke("run", study, "--jobs", 1)
    assert code == 0, err
    words = " ".join(out.split())
    assert expected in words
    assert "arms: ." not in words
