"""A run shows each line as soon as it is done, cheap ones first, and how long the rest takes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import discreet.cli.study
import discreet.lab.results.running
from discreet.lab.experiments import Outcome, simulate_all
from discreet.lab.results.running import StudyProgress
from discreet.lab.results.screen import Screen
from discreet.lab.studies import Study, load_study
from tests.cli.cases import invoke, write_study

START = "Measuring how long the learners take ..."
LABELS = ("partition, epsilon 1", "partition, epsilon 2", "uniform")


@pytest.fixture
def study(tmp_path: Path) -> Path:
    return write_study(tmp_path)


def outcomes_of(study: Study, seconds: float) -> Iterator[Outcome]:
    """All replicates, each of which took so long."""
    arguments = (study.rounds, study.replicates, study.seed)
    for outcome in simulate_all(study.problem, study.settings, *arguments):
        yield replace(outcome, record=replace(outcome.record, seconds=seconds))


def test_lines_come_cheapest_first_and_before_the_run_is_over(
    study: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = dict(zip(LABELS, (30.0, 20.0, 1.0), strict=True))
    monkeypatch.setattr(discreet.lab.results.running, "expected_seconds", lambda *given: expected)
    shown: list[list[str]] = []

    def watched(*arguments, **keywords):  # type: ignore[no-untyped-def]
        for outcome in simulate_all(*arguments, **keywords):
            yield outcome
            shown.append([line.split("  ")[0] for line in capsys.readouterr().err.splitlines()])

    monkeypatch.setattr(discreet.lab.results.running, "simulate_all", watched)
    discreet.cli.study.run(study, jobs=1)
    # One at the start, and one each time the second replicate is done.
    assert shown == [[START], [LABELS[2]], [], [LABELS[1]], [], [LABELS[0]]]


@pytest.mark.parametrize(
    ("unit", "left"), [(1.0, "about 20 s"), (60.0, "about 20 min"), (3600.0, "about 20.0 h")]
)
def test_the_time_left_follows_the_pace_and_the_work_left(
    study: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    unit: float,
    left: str,
) -> None:
    now = [100.0]
    monkeypatch.setattr(discreet.lab.results.running, "monotonic", lambda: now[0])
    loaded = load_study(study)
    expected = dict(zip(LABELS, (1.0, 5.0, 15.0), strict=True))
    with StudyProgress(loaded, 2, expected, Screen(stderr=True)) as progress:
        now[0] += unit
        for outcome in list(outcomes_of(loaded, 1.0))[:2]:
            progress.add(outcome)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"{LABELS[0]}  reward ")
    assert line.endswith(f" a person)  line 1 of 3, {left} left")


def test_the_share_of_the_work_never_falls(study: Path) -> None:
    loaded = load_study(study)
    # Two replicates of 30, 10 and 10 seconds in two processes: 50 seconds in all.
    expected = dict(zip(LABELS, (30.0, 10.0, 10.0), strict=True))
    progress = StudyProgress(loaded, 2, expected, Screen(stderr=True))
    assert progress.words() == "0 of 6 replicates done (about 0% of the work), about 50 s left"
    shares = []
    for outcome in outcomes_of(loaded, 400.0):
        progress.add(outcome)
        match = re.search(r"about (\d+)% of the work", progress.words())
        assert match is not None
        shares.append(int(match[1]))
    assert shares == [30, 60, 70, 80, 90, 100]


def test_unknown_paces_count_every_replicate_alike(study: Path) -> None:
    loaded = load_study(study)
    progress = StudyProgress(loaded, 1, dict.fromkeys(LABELS, float("inf")), Screen(stderr=True))
    assert (progress.left(), progress.words()) == ("", "0 of 6 replicates done")
    progress.add(next(outcomes_of(loaded, 3.0)))
    assert progress.words().startswith("1 of 6 replicates done, ")


def test_a_run_that_goes_on_shows_the_lines_that_were_done(
    study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*arguments, **keywords):  # type: ignore[no-untyped-def]
        stream = simulate_all(*arguments, **keywords)
        for _ in range(3):
            yield next(stream)
        raise KeyboardInterrupt

    monkeypatch.setattr(discreet.lab.results.running, "simulate_all", stopped)
    _, _, before = invoke("run", study, "--jobs", 1)
    monkeypatch.undo()
    _, _, after = invoke("run", study, "--jobs", 1, "--resume")
    assert "uniform" in before
    lines = [line.split("  ")[0] for line in after.splitlines()[2:]]
    assert lines == [LABELS[2], *LABELS[:2]]
