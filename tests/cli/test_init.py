"""`discreet init`: the file it writes, and what it leaves alone."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from discreet.lab.studies import load_study
from tests.cli.cases import invoke, write_study


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a table of 300 people: x from 0 to 9, y a or b."""
    monkeypatch.chdir(tmp_path)
    write_study(tmp_path)
    return tmp_path


def test_a_draft_is_written_beside_and_cannot_run_yet(folder: Path) -> None:
    code, out, _ = invoke("init", "people.csv", "--label", "y")
    assert code == 0
    assert "300 rows. Study: people.toml" in out
    assert 'Replace "?" in 1 line; the comments say how. Then: discreet check' in out
    code, _, err = invoke("run", "people.toml")
    assert code == 2
    assert 'columns, entry 1 ("x"), lower, upper and levels are still "?"' in err


def test_of_many_columns_those_that_are_not_contexts_come_first(folder: Path) -> None:
    names = [*(f"c{i}" for i in range(30)), "y"]
    rows = [",".join([str(i % 7)] * 30 + ["ab"[i % 2]]) for i in range(60)]
    (folder / "wide.csv").write_text("\n".join([",".join(names), *rows]) + "\n")
    code, out, _ = invoke("init", "wide.csv", "--label", "y")
    assert code == 0
    lines = out.splitlines()
    assert lines[2].split()[:2] == ["y", "learnt:"]
    assert lines[18].strip() == "... 15 more: wide.toml"
    assert len(lines) <= 30


def test_what_was_stated_by_hand_runs(folder: Path) -> None:
    assert invoke("init", "people.csv", "--label", "y", "--out", "sub.toml")[0] == 0
    path = folder / "sub.toml"
    text = path.read_text().replace('lower = "?", upper = "?"', "lower = 0, upper = 9")
    path.write_text(text.replace('levels = "?"', "levels = 10"))
    assert load_study(path).rounds == 300


def test_a_study_file_is_replaced_only_by_force(folder: Path) -> None:
    assert invoke("init", "people.csv")[0] == 0
    path = folder / "people.toml"
    before = path.read_text()
    code, _, err = invoke("init", "people.csv", "--label", "y")
    assert (code, path.read_text()) == (2, before)
    assert "exists and is not empty" in err
    assert "add --force to replace it" in err
    assert invoke("init", "people.csv", "--label", "y", "--force")[0] == 0
    assert path.read_text() != before


@pytest.mark.parametrize("arguments", [(), ("--force",)])
@pytest.mark.parametrize("name", ["people.csv", "study.txt", "linked.toml", "."])
def test_other_files_are_left_alone(folder: Path, name: str, arguments: tuple[str, ...]) -> None:
    (folder / "linked.toml").symlink_to(folder / "people.csv")
    before = (folder / "people.csv").read_bytes()
    code, _, _ = invoke("init", "people.csv", "--out", name, *arguments)
    assert (code, (folder / "people.csv").read_bytes()) == (2, before)
    assert not (folder / "study.txt").exists()


def test_a_table_with_gaps_runs_once_bounds_are_stated(folder: Path) -> None:
    """Rows without an outcome go, and are the first thing that is said; gaps elsewhere stay."""
    rows = (
        f"{i % 9 if i % 3 else ''},{'ab'[i // 3 % 2] if i % 4 else ''},"
        f"{('ja', 'Ja', 'nein')[i % 3]},"
        f"{i % 2},{('yes', 'no')[i % 2] if i % 5 else ''}"
        for i in range(200)
    )
    (folder / "gaps.csv").write_text("x,y,smokes,won_code,won\n" + "\n".join(rows) + "\n")
    code, out, _ = invoke("init", "gaps.csv", "--label", "won")
    assert code == 0
    assert out.startswith("Warning: at least 40 of 200 rows are left out")
    assert "Left out: won_code, as its name has that of 'won' in it." in out
    path = folder / "gaps.toml"
    text = path.read_text().replace('lower = "?", upper = "?"', "lower = 0, upper = 8")
    path.write_text(text.replace('levels = "?"', "levels = 9"))
    study = load_study(path)
    assert study.rounds == 160
    assert study.warnings[0].startswith("40 of 200 rows (20%) are left out: 40 lack won.")
    assert study.problem.domain.names == ("x", "x unknown", "y", "smokes")
    code, out, _ = invoke("check", "gaps.toml")
    assert code == 0
    assert "160 of 200 rows; 40 lack won" in out


def test_a_log_is_drafted_as_one(folder: Path) -> None:
    rows = (f"{i % 9},{'abc'[i % 3]},{i % 2},0.3" for i in range(200))
    (folder / "log.csv").write_text("x,action,reward,propensity\n" + "\n".join(rows) + "\n")
    code, out, _ = invoke("init", "log.csv")
    assert code == 0
    assert "A log of decisions: action action, reward reward, propensity propensity." in out
    assert tomllib.loads((folder / "log.toml").read_text())["problem"]["name"] == "log"
