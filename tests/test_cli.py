"""The command line as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import discreet.cli
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
    lines = [json.loads(line) for line in records.read_text().splitlines()]
    assert len(lines) == 8
    assert {line["learner"] for line in lines} == {"partition", "uniform", "best_fixed"}
    # In the study's order, whatever order they finished in.
    assert [line["replicate"] for line in lines] == [0, 1] * 4
    assert "A [small] study" in report.read_text()


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
    original = discreet.cli.simulate_all

    def interrupted(*arguments, **keywords):  # type: ignore[no-untyped-def]
        stream = original(*arguments, **keywords)
        for _ in range(3):
            yield next(stream)
        raise KeyboardInterrupt

    monkeypatch.setattr(discreet.cli, "simulate_all", interrupted)
    records = tmp_path / "r.jsonl"
    code, out, err = invoke("run", study, "--jobs", 1, "--json", records)
    assert code == 130
    assert "Interrupted" in err
    assert "partition" in out
    assert len(records.read_text().splitlines()) == 3


def test_early_interruption_leaves_earlier_results(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def at_once(*arguments, **keywords):  # type: ignore[no-untyped-def]
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr(discreet.cli, "simulate_all", at_once)
    records = tmp_path / "r.jsonl"
    records.write_text("earlier")
    code, _, err = invoke("run", study, "--jobs", 1, "--json", records)
    assert code == 130
    assert "nothing was written" in " ".join(err.split())
    assert [path.name for path in tmp_path.glob("r.*")] == ["r.jsonl"]
    assert records.read_text() == "earlier"


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
