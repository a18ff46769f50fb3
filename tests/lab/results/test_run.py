"""A run shows each line as soon as it is done, cheap ones first, and how long the rest takes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import discreet.cli.study
import discreet.lab.results.run
from discreet.lab.experiments import simulate_all
from discreet.lab.results.screen import Screen
from tests.cli.cases import invoke, write_study

START = "Measuring how long the learners take ..."
LABELS = ("partition, epsilon 1", "partition, epsilon 2", "uniform")


@pytest.fixture
def study(tmp_path: Path) -> Path:
    return write_study(tmp_path)


def test_lines_come_cheapest_first_and_before_the_run_is_over(
    study: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = dict(zip(LABELS, (30.0, 20.0, 1.0), strict=True))
    monkeypatch.setattr(discreet.lab.results.run, "expected_seconds", lambda *given: expected)
    shown: list[list[str]] = []

    def watched(*arguments, **keywords):  # type: ignore[no-untyped-def]
        for outcome in simulate_all(*arguments, **keywords):
            yield outcome
            shown.append([line.split("  ")[0] for line in capsys.readouterr().err.splitlines()])

    monkeypatch.setattr(discreet.lab.results.run, "simulate_all", watched)
    discreet.cli.study.run(study, jobs=1)
    # One at the start, and one each time the second replicate is done.
    assert shown == [[START], [LABELS[2]], [], [LABELS[1]], [], [LABELS[0]]]


def test_a_line_has_its_value_and_its_place(
    study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    discreet.cli.study.run(study, jobs=1)
    lines = capsys.readouterr().err.splitlines()[1:]
    assert sorted(line.split("  ")[0] for line in lines) == list(LABELS)
    for place, line in enumerate(lines, start=1):
        assert re.search(rf"  reward +[\d.,]+ \(0\.\d+ a person\)  line {place} of 3", line)


def test_a_task_is_named_where_no_bar_can_be_shown(capsys: pytest.CaptureFixture[str]) -> None:
    for quiet, expected in ((False, "Working ...\n"), (True, "")):
        with Screen(stderr=True, quiet=quiet).progress(task="Working") as bar:
            bar.update(bar.add_task("Working", total=2), advance=1)
        assert capsys.readouterr() == ("", expected)


def test_a_run_that_goes_on_shows_the_lines_that_were_done(
    study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*arguments, **keywords):  # type: ignore[no-untyped-def]
        stream = simulate_all(*arguments, **keywords)
        for _ in range(3):
            yield next(stream)
        raise KeyboardInterrupt

    monkeypatch.setattr(discreet.lab.results.run, "simulate_all", stopped)
    _, _, before = invoke("run", study, "--jobs", 1)
    monkeypatch.undo()
    _, _, after = invoke("run", study, "--jobs", 1, "--resume")
    assert "uniform" in before
    lines = [line.split("  ")[0] for line in after.splitlines()[2:]]
    assert lines == [LABELS[2], *LABELS[:2]]
