"""Long work shows its progress where no bar can be shown."""

from __future__ import annotations

import threading
import time

import pytest

from discreet.lab.results.progress import ShownProgress
from discreet.lab.results.screen import Screen


def test_a_line_at_the_start_and_then_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    with ShownProgress(screen=Screen(stderr=True), task="Working", seconds=0.01) as bar:
        bar.add_task("half [b]", total=None)
        time.sleep(0.2)
    out, err = capsys.readouterr()
    first, *others = err.splitlines()
    assert out == ""
    assert first == "Working ..."
    assert set(others) == {"half [b]: 0 s so far"}


def test_nothing_is_said_to_a_quiet_screen_nor_beside_a_bar(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = threading.active_count()
    with ShownProgress(screen=Screen(stderr=True, quiet=True), task="Working"):
        assert threading.active_count() == before
    monkeypatch.setattr(Screen, "shows_bars", True)
    with ShownProgress(screen=Screen(stderr=True), task="Working"):
        pass
    assert "Working" not in capsys.readouterr().err


def test_an_error_ends_it() -> None:
    before = threading.active_count()
    with pytest.raises(ZeroDivisionError), ShownProgress(screen=Screen(stderr=True)):
        raise ZeroDivisionError
    assert threading.active_count() == before


def test_the_words_of_a_bar_that_cannot_be_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with ShownProgress(screen=Screen(stderr=True), task="Reading") as bar:
        assert bar.words() == ""
        task = bar.add_task("Trying", total=4)
        assert bar.words() == "Trying: 0 of 4 done (0%), 0 s so far"
        bar.update(task, advance=1)
        assert bar.words().startswith("Trying: 1 of 4 done (25%), ")
        assert bar.words().endswith(" left")
        bar.update(task, completed=4)
        assert bar.words() == ""
    assert capsys.readouterr().err == "Reading ...\n"
