"""Whoever does the work, results are the same, and what died is run again."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest

from discreet.lab.experiments.engine import Seed, frame_of, run_trials
from discreet.parallel import RETRIES, Engine, in_parallel, running_on, sharing
from discreet.validation import InvalidInput

PACKAGES = {"processes": "joblib", "dask": "distributed", "ray": "ray", "spark": "pyspark"}


def tasks(count: int, begun: list[int]) -> Iterator[Any]:
    for number in range(count):
        begun.append(number)
        yield joblib.delayed(pow)(number, 2)


class Dying:
    """An executor in one place, whose worker dies with each task that is in `deaths`, as often as
    it says there."""

    def __init__(self, deaths: dict[int, int]) -> None:
        self.deaths, self.ran = dict(deaths), list[int]()

    def submit(self, function: Callable[..., Any], *task: Any) -> Future[Any]:
        number = task[1][0]
        self.ran.append(number)
        future: Future[Any] = Future()
        if self.deaths.get(number, 0):
            self.deaths[number] -= 1
            future.set_exception(BrokenExecutor("killed"))
        else:
            future.set_result(function(*task))
        return future


def test_only_what_a_death_took_is_run_again_and_it_is_said() -> None:
    executor, said = Dying({2: 1, 5: RETRIES}), list[str]()
    with running_on("processes", 2, say=said.append), sharing(executor.submit):
        results = list(in_parallel(tasks(8, []), 2))
    assert sorted(results) == [number**2 for number in range(8)]
    assert sorted(executor.ran) == sorted([*range(8), 2, *[5] * RETRIES])
    assert said[0] == "A worker died: what it did is run again (try 2 of 4)."
    assert said[-1] == "A worker died: what it did is run again (try 4 of 4)."


def kind(array: Any) -> str:
    return type(array).__name__


def test_large_arrays_leave_no_files_behind() -> None:
    """Files that processes read arrays from end a command with a warning that they are left."""
    large = [joblib.delayed(kind)(np.zeros(2**18)) for _ in range(2)]
    assert list(in_parallel(large, 2)) == ["ndarray", "ndarray"]


def test_a_package_that_a_task_lacks_is_no_missing_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModuleNotFoundError, match="nowhere"), running_on("processes", 1):
        list(in_parallel([joblib.delayed(__import__)("nowhere")], 1))
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InvalidInput, match="engine dask is not installed"), running_on("dask", 1):
        pass


def test_what_kills_every_worker_ends_the_work() -> None:
    executor = Dying({3: RETRIES + 1})
    with sharing(executor.submit), pytest.raises(BrokenExecutor, match="killed"):
        list(in_parallel(tasks(8, []), 2))
    assert executor.ran.count(3) == RETRIES + 1


def _refuses(number: int) -> int:
    if number == 1:
        raise InvalidInput("number was 1")
    return number


def test_what_a_task_raises_is_no_death() -> None:
    said: list[str] = []
    with ThreadPoolExecutor(2) as threads, running_on("processes", 2, say=said.append):
        with sharing(threads.submit), pytest.raises(InvalidInput, match="number was 1") as raised:
            list(in_parallel((joblib.delayed(_refuses)(number) for number in range(3)), 2))
        assert "_refuses" in raised.value.__notes__[0]
    assert said == []


def test_tasks_are_asked_for_when_they_can_start() -> None:
    begun: list[int] = []
    with sharing(Dying({}).submit):
        results = in_parallel(tasks(1000, begun), 3)
        next(results)
        assert len(begun) == 6


def _draws(seed: Seed, folder: str, deadly: int) -> list[dict[str, Any]]:
    """The worker of one trial is killed when it gets there for the first time."""
    mark = Path(folder) / "killed"
    if seed.trial == deadly and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    rng = np.random.default_rng(seed.streams(1)[0])
    return [{"value": rng.normal()}]


@pytest.mark.slow
@pytest.mark.parametrize("engine", list(PACKAGES))
def test_a_killed_worker_changes_nothing(engine: Engine, tmp_path: Path) -> None:
    pytest.importorskip(PACKAGES[engine])
    settings = [{"folder": str(tmp_path), "deadly": 4}]
    said: list[str] = []
    with running_on(engine, 2, say=said.append):
        killed = frame_of(run_trials(_draws, settings, 12, 7, 2))
    assert (tmp_path / "killed").exists()
    assert len(said) >= 1
    assert killed.equals(frame_of(run_trials(_draws, settings, 12, 7)))
