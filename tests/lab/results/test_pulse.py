"""Something that takes long says so where no bar can be shown."""

from __future__ import annotations

import threading
import time

import pytest
from rich.progress import TextColumn

from discreet.lab.results.pulse import Pulse, PulsingProgress, pace_text
from discreet.lab.results.screen import Screen


def test_a_line_at_the_start_and_then_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    asked = threading.Event()

    def words() -> str:
        asked.set()
        return "half is done [b]"

    with Pulse(Screen(stderr=True), "Working", words, seconds=0.01):
        assert asked.wait(20.0)
        time.sleep(0.05)
    out, err = capsys.readouterr()
    first, *others = err.splitlines()
    assert out == ""
    assert first == "Working ..."
    assert set(others) == {"half is done [b]"}


def test_short_work_says_what_it_is_and_no_more(capsys: pytest.CaptureFixture[str]) -> None:
    before = threading.active_count()
    with Pulse(Screen(stderr=True), "Working"):
        pass
    assert capsys.readouterr().err == "Working ...\n"
    assert threading.active_count() == before


def test_nothing_is_said_to_a_quiet_screen_nor_beside_a_bar(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = threading.active_count()
    with Pulse(Screen(stderr=True, quiet=True), "Working"):
        assert threading.active_count() == before
    monkeypatch.setattr(Screen, "shows_bars", True)
    with Pulse(Screen(stderr=True), "Working"):
        assert threading.active_count() == before
    assert capsys.readouterr().err == ""


def test_an_error_ends_it() -> None:
    before = threading.active_count()
    with pytest.raises(ZeroDivisionError), Pulse(Screen(stderr=True), "Working"):
        raise ZeroDivisionError
    assert threading.active_count() == before


def test_the_words_of_a_bar_that_cannot_be_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with PulsingProgress(TextColumn("x"), screen=Screen(stderr=True), task="Reading") as bar:
        assert bar.words() == ""
        task = bar.add_task("Trying", total=4)
        bar.update(task, advance=1)
        assert bar.words().startswith("Trying: 1 of 4 done (25%), ")
        bar.update(task, completed=4)
        assert bar.words() == ""
    assert capsys.readouterr().err == "Reading ...\n"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((12, 60, 10.0), "12 of 60 done (20%), about 40 s left"),
        ((0, 60, 10.0), "0 of 60 done (0%), 10 s so far"),
        ((12, 60, 10.0, False), "12 of 60 done (20%), 10 s so far"),
        ((1200, None, 10.0), "1,200 done, 10 s so far"),
    ],
)
def test_the_pace(arguments: tuple[float, float, float], text: str) -> None:
    assert pace_text(*arguments) == text
