"""Results are the same whoever does the work, and killed workers change nothing."""

from __future__ import annotations

import os
import signal
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import joblib
import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from discreet.parallel import Engine, in_parallel, running_on
from discreet.validation import InvalidInput

if TYPE_CHECKING:  # processes import this module, and little with it
    from discreet.lab.experiments.engine import Seed

PACKAGES = {"processes": "joblib", "dask": "distributed", "ray": "ray", "spark": "pyspark"}


def _die(folder: Path, name: str, times: int) -> None:
    """Kill this process, unless it was killed so often."""
    marks = sorted(folder.glob(f"{name}-*"))
    if len(marks) < times:
        (folder / f"{name}-{len(marks)}").touch()
        os.kill(os.getpid(), signal.SIGKILL)


def _square(number: int, folder: Path, times: int) -> int:
    if number == 3:
        _die(folder, "square", times)
    return number**2


def test_a_killed_process_is_survived_with_a_warning(tmp_path: Path) -> None:
    tasks = [joblib.delayed(_square)(number, tmp_path, 1) for number in range(6)]
    with pytest.warns(RuntimeWarning, match=r"is run again \(try 2 of 4\)"):
        assert sorted(in_parallel(tasks, 2)) == [number**2 for number in range(6)]


def test_a_process_may_die_before_every_task_is_handed_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slowly(function: Callable[..., Any]) -> Callable[..., Any]:
        def handed_out(number: int, task: Any) -> Any:
            if number == 5:  # joblib makes two tasks at a time, and four before it looks
                until = time.monotonic() + 20
                while not (tmp_path / "square-0").exists() and time.monotonic() < until:
                    time.sleep(0.01)
                time.sleep(0.5)
            return joblib.delayed(function)(number, task)

        return handed_out

    monkeypatch.setattr("discreet.parallel.delayed", slowly)
    tasks = [joblib.delayed(_square)(3, tmp_path, 1)] * 12
    with pytest.warns(RuntimeWarning, match=r"is run again \(try 2 of 4\)"):
        assert list(in_parallel(tasks, 4)) == [9] * 12


def test_a_task_that_kills_every_process_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("discreet.parallel.RETRIES", 1)
    tasks = [joblib.delayed(_square)(3, tmp_path, 9)]
    with (
        pytest.warns(RuntimeWarning, match="A process died"),
        pytest.raises(ChildProcessError, match="died 2 times in a row"),
    ):
        list(in_parallel([*tasks, *tasks], 2))


def kind(array: Any) -> str:
    return type(array).__name__


def test_large_arrays_are_not_mapped_from_files() -> None:
    large = [joblib.delayed(kind)(np.zeros(2**18)) for _ in range(2)]
    assert list(in_parallel(large, 2)) == ["ndarray", "ndarray"]


def test_a_package_that_a_task_lacks_is_no_missing_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModuleNotFoundError, match="nowhere"), running_on("processes", 1):
        list(in_parallel([joblib.delayed(__import__)("nowhere")], 1))
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InvalidInput, match="engine dask is not installed"), running_on("dask", 1):
        pass


def _refuses(number: int) -> int:
    if number == 1:
        raise InvalidInput("number was 1")
    return number


def _threads() -> set[int]:
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def test_tasks_in_this_process_have_one_thread_of_arithmetic() -> None:
    with threadpool_limits(2, "blas"):
        assert list(in_parallel([joblib.delayed(_threads)()] * 2)) == [{1}] * 2
        assert _threads() == {2}


def test_tasks_in_threads_leave_the_number_of_threads_as_it_was() -> None:
    with threadpool_limits(2, "blas"), joblib.parallel_config(backend="threading"):
        waits = [joblib.delayed(time.sleep)(seconds) for seconds in (0.05, 0.1)]
        assert list(in_parallel(waits, 2)) == [None, None]
        assert _threads() == {2}


@pytest.mark.parametrize("jobs", [1, 2])
def test_exceptions_of_tasks_are_raised(jobs: int) -> None:
    with pytest.raises(InvalidInput, match="number was 1"):
        list(in_parallel((joblib.delayed(_refuses)(number) for number in range(3)), jobs))


def test_leaving_early_ends_the_work() -> None:
    results = in_parallel((joblib.delayed(pow)(number, 2) for number in range(50)), 2)
    assert next(results) >= 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        results.close()  # type: ignore[attr-defined]
    assert sorted(in_parallel([joblib.delayed(pow)(3, 2)] * 2, 2)) == [9, 9]


def _draws(seed: Seed, folder: str, deadly: int) -> list[dict[str, Any]]:
    """The worker of one trial is killed when it gets there for the first time."""
    if seed.trial == deadly:
        _die(Path(folder), "draws", 1)
    return [{"value": np.random.default_rng(seed.streams(1)[0]).normal()}]


@pytest.mark.slow
@pytest.mark.parametrize("engine", list(PACKAGES))
def test_a_killed_worker_changes_nothing(engine: Engine, tmp_path: Path) -> None:
    pytest.importorskip(PACKAGES[engine])
    from discreet.lab.experiments.engine import frame_of, run_trials

    settings = [{"folder": str(tmp_path), "deadly": 4}]
    with warnings.catch_warnings(action="ignore"), running_on(engine, 2):
        killed = frame_of(run_trials(_draws, settings, 12, 7, 2))
    assert (tmp_path / "draws-0").exists()
    assert killed.equals(frame_of(run_trials(_draws, settings, 12, 7)))
    with running_on(engine, 2), pytest.raises(InvalidInput, match="number was 1"):
        list(in_parallel((joblib.delayed(_refuses)(number) for number in range(3)), 2))
