"""A run shows each line as soon as it is done, cheap ones first, and how long the rest takes."""

from __future__ import annotations

import itertools
import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import discreet.cli.console
import discreet.cli.study
import discreet.lab.reporting.report
import discreet.lab.results.run
from discreet.codec import encode
from discreet.lab.experiments import Outcome, simulate_all
from discreet.lab.reporting import provenance
from discreet.lab.results.run import Journal, digest_of, meaning_of
from discreet.lab.results.run import open_journal as open_on
from discreet.lab.results.screen import Screen
from discreet.lab.studies import Study, load_study
from discreet.validation import InvalidInput
from tests.cli.cases import RUNS, STUDY, invoke, records, write_study

LABELS = ("partition, epsilon 1", "partition, epsilon 2", "uniform")


@pytest.fixture
def study(tmp_path: Path) -> Path:
    return write_study(tmp_path)


def test_references_come_first_with_their_values_before_the_run_is_over(
    study: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown: list[list[str]] = []

    def watched(*arguments, **keywords):  # type: ignore[no-untyped-def]
        for outcome in simulate_all(*arguments, **keywords):
            yield outcome
            shown.append(capsys.readouterr().err.splitlines())

    monkeypatch.setattr(discreet.lab.results.run, "simulate_all", watched)
    discreet.cli.study.run(study, jobs=1)
    # One each time the second replicate is done.
    names = [[line.split("  ")[0] for line in lines] for lines in shown]
    assert names == [[], [LABELS[2]], [], [LABELS[0]], [], [LABELS[1]]]
    for place, [line] in enumerate(shown[1::2], start=1):
        assert re.search(rf"  reward +[\d.,]+ \(0\.\d+ a person\)  line {place} of 3", line)


def test_a_task_is_named_where_no_bar_can_be_shown(capsys: pytest.CaptureFixture[str]) -> None:
    for quiet, expected in ((False, "Working ...\n"), (True, "")):
        with Screen(stderr=True, quiet=quiet).progress(task="Working") as bar:
            bar.update(bar.add_task("Working", total=2), advance=1)
        assert capsys.readouterr() == ("", expected)


# The journal.


# `discreet run` of a study that stands still after three replicates.
STANDING = """
import itertools, time
import discreet.lab.results.run as command
from discreet.cli import main

def three(*arguments, simulate_all=command.simulate_all, **keywords):
    yield from itertools.islice(simulate_all(*arguments, **keywords), 3)
    print("standing", flush=True)
    while True:
        time.sleep(1)

command.simulate_all = three
main()
"""


def open_journal(study: Study, resume: bool) -> AbstractContextManager[Journal]:
    """The journal of a study, as the command line opens it."""
    return open_on(study, resume, Screen(stderr=True))


def journals(folder: Path) -> list[Path]:
    return list(folder.glob(".*.partial.sqlite"))


def stop_after(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the next run be interrupted by Ctrl-C after so many replicates."""

    def stopped(*arguments, **keywords):  # type: ignore[no-untyped-def]
        yield from itertools.islice(simulate_all(*arguments, **keywords), count)
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(discreet.lab.results.run, "simulate_all", stopped)


def interrupted(study: Path, monkeypatch: pytest.MonkeyPatch, count: int = 3) -> Path:
    """The journal of a run that was interrupted after so many replicates."""
    stop_after(count, monkeypatch)
    assert invoke("run", study, "--jobs", 1)[0] == 130
    (journal,) = journals(study.parent)
    return journal


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize(
    "stop", [signal.SIGTERM, pytest.param(signal.SIGKILL, marks=pytest.mark.slow)]
)
def test_a_stopped_run_is_resumed_to_the_same_records(
    study: Path, tmp_path: Path, stop: signal.Signals
) -> None:
    command = [sys.executable, "-c", STANDING, "run", str(study), "--jobs", "1"]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert run.stdout is not None
    assert run.stdout.readline() == "standing\n"
    run.send_signal(stop)
    out, err = run.communicate()
    (journal,) = journals(tmp_path)
    if stop == signal.SIGTERM:
        assert run.returncode == 128 + signal.SIGTERM
        assert "partition" in out
        assert err.splitlines()[-3:] == [
            f"Terminated: this is what was finished (3 of {RUNS} runs).",
            f"{journal} keeps 3 replicates. To go on:",
            f"discreet run {study} --jobs 1 --resume",
        ]
    resumed, whole = tmp_path / "resumed.jsonl", tmp_path / "whole.jsonl"
    code, _, err = invoke("run", study, "--jobs", 1, "--json", resumed, "--resume")
    assert code == 0
    assert f"Going on after 3 of {RUNS} replicates." in err
    # Without an earlier run it begins anew.
    code, _, err = invoke("run", study, "--jobs", 1, "--json", whole, "--resume")
    assert code == 0
    assert "beginning anew" in err
    assert list(tmp_path.glob(".small*")) == []
    assert records(resumed) == records(whole)
    digest = digest_of(meaning_of(load_study(study)))
    known = [(each["digest"], each["seed"], each["replicate"]) for each in records(whole)]
    assert known == [(digest, 0, 0), (digest, 0, 1)] * 3


@contextmanager
def room(size: int) -> Iterator[None]:
    """No file may grow beyond that size."""
    resource = pytest.importorskip("resource")
    before, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, most))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, most))


def of(study: Path) -> tuple[Study, list[Outcome]]:
    loaded = load_study(study)
    arguments = (loaded.rounds, loaded.replicates, loaded.seed)
    return loaded, list(simulate_all(loaded.problem, loaded.settings, *arguments))


def test_outcomes_are_read_back_to_the_last_bit(study: Path) -> None:
    loaded, outcomes = of(study)
    assert any(outcome.appraisal is not None for outcome in outcomes)
    with open_journal(loaded, resume=False) as journal:
        for outcome in outcomes:
            journal.add(outcome)
    with open_journal(loaded, resume=True) as journal:
        for was, now in zip(outcomes, journal.outcomes, strict=True):
            assert (now.setting, now.record, now.guarantee, now.appraisal) == (
                was.setting, was.record, was.guarantee, was.appraisal,
            )  # fmt: skip
            assert np.array_equal(now.rounds, was.rounds)
            assert np.array_equal(now.trace, was.trace)
            assert (now.policy is None) == (was.policy is None)
            if was.policy is not None and now.policy is not None:
                assert encode(now.policy) == encode(was.policy)


def test_the_digest_is_of_what_decides_the_results(study: Path, tmp_path: Path) -> None:
    def digest(path: Path = study) -> str:
        return digest_of(meaning_of(load_study(path)))

    first = digest()
    study.write_text(STUDY.replace('name = "small"', 'name = "s"\ntitle = "Other words"'))
    assert digest() == first
    # Neither where it lies, nor defaults that are written out, nor how many replicates there are.
    other = tmp_path / "elsewhere"
    other.mkdir()
    text = STUDY.replace("upper = 9 }", 'upper = 9, missing = "error" }')
    assert digest(write_study(other, text.replace("replicates = 2", "replicates = 3"))) == first
    for old, new in (
        ("rounds = 300", "rounds = 299"),
        ("[1.0, 2.0]", "[1.0, 2.5]"),
        ("upper = 9", "upper = 10"),
        ("replicates = 2", "seed = 1"),
    ):
        study.write_text(STUDY.replace(old, new))
        assert digest() != first
    study.write_text(STUDY)
    table = tmp_path / "people.csv"
    table.write_text(table.read_text().replace("0,a", "0,b", 1))
    assert digest() != first


def test_an_interrupted_run_is_not_lost_by_starting_anew(
    study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = interrupted(study, monkeypatch)
    before = journal.read_bytes()
    code, _, err = invoke("run", study, "--jobs", 1)
    assert code == 2
    assert "stopped after 3 replicates. Add --resume" in err
    assert f"remove {journal} to begin anew" in err
    assert journal.read_bytes() == before
    # A short run meanwhile has a journal of its own.
    assert invoke("run", study, "--jobs", 1, "--rounds", 50)[0] == 0
    assert journals(study.parent) == [journal]
    assert journal.read_bytes() == before


def test_a_run_that_goes_on_shows_the_lines_that_were_done(
    study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted(study, monkeypatch)
    _, _, err = invoke("run", study, "--jobs", 1, "--resume")
    lines = [line.split("  ")[0] for line in err.splitlines()[1:]]
    assert lines == [LABELS[2], *LABELS[:2]]


@pytest.mark.parametrize("changed", ["settings", "table", "libraries"])
def test_another_run_is_not_resumed(
    study: Path, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    journal, table = interrupted(study, monkeypatch), study.parent / "people.csv"
    before = journal.read_bytes()
    if changed == "settings":
        study.write_text(STUDY.replace("rounds = 300", "rounds = 200").replace(", 2.0]", "]"))
    elif changed == "table":
        table.write_text(table.read_text().replace("0,a", "0,b", 1))
    else:
        monkeypatch.setattr(provenance, "version", lambda name: "9.9.9")
    code, _, err = invoke("run", study, "--jobs", 1, "--resume")
    assert code == 2
    assert f"{journal} had other settings, data or library versions" in err
    assert journal.read_bytes() == before


def test_a_damaged_journal_is_refused(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = interrupted(study, monkeypatch)
    whole = journal.read_bytes()

    def refused() -> bool:
        code, _, err = invoke("run", study, "--jobs", 1, "--resume")
        return code == 2 and f"{journal} is damaged" in err and "To begin anew, remove" in err

    for content in (b"people", whole[: len(whole) // 2]):
        journal.write_bytes(content)
        assert refused()
        assert journal.read_bytes() == content
    journal.write_bytes(whole)
    with closing(sqlite3.connect(journal)) as database, database:
        database.execute("UPDATE replicates SET outcome = substr(outcome, 1, 50)")
    assert refused()


def test_resuming_may_ask_for_more_or_fewer_replicates(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = interrupted(study, monkeypatch)
    path = tmp_path / "r.jsonl"
    resume = ("run", study, "--jobs", 1, "--resume", "--json", path)
    assert invoke(*resume, "--replicates", 1)[0] == 0
    assert {one["replicate"] for one in records(path)} == {0}
    assert journal.exists()  # it also holds replicates that this run did not want
    assert invoke(*resume, "--replicates", 3)[0] == 0
    assert [one["replicate"] for one in records(path)] == [0, 1, 2] * 3
    assert not journal.exists()


def test_two_runs_at_once(study: Path) -> None:
    pytest.importorskip("fcntl")
    loaded, outcomes = of(study)
    with open_journal(loaded, resume=False) as journal:
        journal.add(outcomes[0])
        (path,) = journals(study.parent)
        before = path.read_bytes()
        code, _, err = invoke("run", study, "--jobs", 1)
        assert code == 0
        assert "is being run already" in err
        code, _, err = invoke("run", study, "--jobs", 1, "--resume")
        assert code == 2
        assert "still going on" in err
        assert path.read_bytes() == before
        journal.finish()
    assert journals(study.parent) == []


def test_a_folder_that_cannot_be_written_to(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unwritable = [study.parent]
    original = os.open

    def opened(path: str | Path, *arguments: int) -> int:
        if Path(path).parent in unwritable:
            raise PermissionError(13, "Permission denied", str(path))
        return original(path, *arguments)

    monkeypatch.setattr(os, "open", opened)
    loaded, outcomes = of(study)
    with open_journal(loaded, resume=False) as journal:
        journal.add(outcomes[0])
        assert "Nothing could be kept" in journal.stopped("command")
    assert journals(study.parent) == []


def test_a_result_that_cannot_be_written_can_be_written_later(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(discreet.cli.console, "write_records", full)
    path = tmp_path / "r.jsonl"
    code, _, err = invoke("run", study, "--jobs", 1, "--json", path)
    assert code == 2
    assert "No space left" in err
    monkeypatch.undo()

    def never(*arguments: object, **keywords: object) -> Iterator[Outcome]:
        assert arguments[1] == []
        assert len(arguments[-1]) == RUNS  # type: ignore[arg-type]
        return iter(())

    monkeypatch.setattr(discreet.lab.results.run, "simulate_all", never)
    assert invoke("run", study, "--jobs", 1, "--json", path, "--resume")[0] == 0
    assert len(records(path)) == RUNS


def test_a_full_disk_ends_the_journal_and_not_the_run(
    study: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(study.parent)
    loaded, outcomes = of(study)
    with room(0), open_journal(loaded, resume=False) as journal:
        journal.add(outcomes[0])
    assert "This run cannot be resumed" in capsys.readouterr().err
    assert journals(study.parent) == []
    with open_journal(loaded, resume=False) as journal:
        for outcome in outcomes[:2]:
            journal.add(outcome)
        (path,) = journals(study.parent)
        with room(path.stat().st_size):
            for outcome in outcomes[2:]:
                journal.add(outcome)
        kept = journal.held
    assert 2 <= kept < len(outcomes)
    assert capsys.readouterr().err.count("No more replicates can be kept") == 1
    with open_journal(loaded, resume=True) as journal:
        # Written twice, a replicate counts once.
        journal.add(outcomes[0])
        assert len(journal.outcomes) == journal.held == kept
    with (
        pytest.raises(InvalidInput, match=f"{kept} replicates"),
        open_journal(replace(loaded, replicates=1), resume=False),
    ):
        pass


@pytest.mark.usefixtures("unpainted")
def test_what_is_said_of_a_run_on_a_log_is_resumed_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = STUDY.replace('"table"', '"log"').replace("rounds = 300", "rounds = 60")
    label = 'label = { column = "y", classes = ["a", "b"] }'
    logged = """
action = { column = "y", names = ["a", "b"] }
reward = { column = "paid", lower = 0, upper = 1 }
propensity = { value = 0.5 }
"""
    study = write_study(tmp_path, text.replace(label, logged))
    header, *rows = (tmp_path / "people.csv").read_text().split()
    lines = [f"{header},paid", *(f"{row},{i % 2}" for i, row in enumerate(rows))]
    (tmp_path / "people.csv").write_text("\n".join(lines) + "\n")
    report = tmp_path / "report.html"
    code, whole, _ = invoke("run", study, "--jobs", 1, "--report", report)
    assert code == 0
    assert "no epsilon covers" in " ".join(whole.split())
    said = [line for line in whole.splitlines() if "in the first replicate" in line]
    assert [line.partition(": in the first replicate")[0] for line in said] == [
        "partition, epsilon 1",
        "partition, epsilon 2",
        "uniform",
    ]
    page = report.read_text()
    assert all(line in page for line in said)
    assert "no epsilon covers" in " ".join(page.split())
    interrupted(study, monkeypatch)
    code, resumed, _ = invoke("run", study, "--jobs", 1, "--resume")
    assert code == 0
    assert [line for line in resumed.splitlines() if line in said] == said
