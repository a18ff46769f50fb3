"""Who does the work: processes of this machine, or Dask, Ray or Spark, one seam for all of them.

    with running_on("dask", 4):
        for result in in_parallel(tasks, 4): ...

An engine is known by one function, `submit(function, *arguments)`, which gives a future of
`concurrent.futures`; each engine brings its own. At most two tasks for each worker are under way,
so tasks and results take no more memory the more there are.

What a task raises is raised here, at once. Whatever else goes wrong with a future means that its
worker died: its tasks are run again, up to three times more, and nothing else is.
"""

from __future__ import annotations

import gc
import os
import pickle
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from functools import cache
from itertools import chain
from queue import Empty, SimpleQueue
from threading import BoundedSemaphore
from typing import Any, Literal, TypeVar, get_args

from joblib.externals.loky import get_reusable_executor

from discreet.showing import logger
from discreet.validation import InvalidInput, one_of

_LOG = logger(__name__)
Result = TypeVar("Result")
# A function, its arguments and its keywords, as `joblib.delayed` makes them.
Task = tuple[Callable[..., Result], Sequence[Any], Mapping[str, Any]]
Submit = Callable[..., "Future[Any]"]
# Who shares the work among workers.
Engine = Literal["processes", "dask", "ray", "spark"]
RETRIES = 3
"""How often a task is run again whose worker died."""
# Spark's tasks share jobs while a job takes less, in seconds.
_SHORT = 2.0
_IDLE = 300  # seconds after which processes without work end
# Workers die together: what else is lost with one of them is known within so many seconds.
_SETTLING = 0.5

_SUBMIT: ContextVar[Submit | None] = ContextVar("submit", default=None)
_SAY: ContextVar[Callable[[str], None]] = ContextVar("say", default=_LOG.warning)


def in_parallel(tasks: Iterable[Task[Result]], jobs: int = 1) -> Iterator[Result]:
    """The results of tasks in the order in which they finish.

    Args:
        tasks: importable functions with their arguments, as `joblib.delayed` makes them.
        jobs: processes; within `running_on` or `sharing`, workers that are kept busy.
    """
    # Each task is one thread of arithmetic: BLAS threads would only fight over the cores.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    submit = _SUBMIT.get()
    if submit is None and jobs == 1:
        return (function(*arguments, **keywords) for function, arguments, keywords in tasks)
    if submit is not None:
        return _shared(tasks, jobs, submit)
    return _by_processes(tasks, jobs)


def _by_processes(tasks: Iterable[Task[Result]], jobs: int) -> Iterator[Result]:
    """Those of joblib, which are kept for the next tasks unless these are left unfinished."""

    def submit(function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        # After one of them died these are others.
        future: Future[Any] = _processes(jobs).submit(function, *arguments)
        return future

    finished = False
    try:
        yield from _shared(tasks, jobs, submit)
        finished = True
    finally:
        if not finished:
            _processes(jobs).shutdown(kill_workers=True)


def _processes(jobs: int) -> Any:
    return get_reusable_executor(jobs, timeout=_IDLE)


def _shared(tasks: Iterable[Task[Result]], jobs: int, submit: Submit) -> Iterator[Result]:
    under_way: dict[Future[Any], tuple[int, Task[Result]]] = {}
    again: deque[tuple[int, Task[Result]]] = deque()
    waiting = iter(tasks)
    try:
        while True:
            while len(under_way) < 2 * jobs:
                # The next ones are asked for when they can start: they may take memory.
                for tries, task in chain(_popped(again), ((0, each) for each in waiting)):
                    under_way[_submitted(submit, task)] = tries, task
                    break
                else:
                    break
            if not under_way:
                return
            done, _ = wait(under_way, return_when=FIRST_COMPLETED)
            if any(_death(future) for future in done):
                done, _ = wait(under_way, timeout=_SETTLING)
                again += _lost({future: under_way.pop(future) for future in done if _death(future)})
            for future in done & under_way.keys():
                del under_way[future]
                result, error = future.result()
                if error is not None:
                    raise error
                yield result
    finally:
        for future in under_way:
            future.cancel()


def _popped(again: deque[tuple[int, Task[Result]]]) -> Iterator[tuple[int, Task[Result]]]:
    while again:
        yield again.popleft()


def _submitted(submit: Submit, task: Task[Any]) -> Future[Any]:
    try:
        return submit(_carried_out, *task)
    except Exception as error:  # its workers died since
        future: Future[Any] = Future()
        future.set_exception(error)
        return future


def _carried_out(
    function: Callable[..., Result], arguments: Sequence[Any], keywords: Mapping[str, Any]
) -> tuple[Result | None, Exception | None]:
    """What a task gives, or raises: as a value, so that it is no death of a worker."""
    try:
        return function(*arguments, **keywords), None
    except Exception as error:
        error.add_note(f"Raised by a worker:\n{traceback.format_exc()}")
        return None, error


def _death(future: Future[Any]) -> BaseException | None:
    """Why the worker of a finished task gave nothing; None where it gave something."""
    try:
        return future.exception()
    except Exception as cancelled:
        return cancelled


def _lost(
    lost: Mapping[Future[Any], tuple[int, Task[Result]]],
) -> list[tuple[int, Task[Result]]]:
    """What is run again; the death itself is raised where one was lost too often."""
    for future, (tries, _) in lost.items():
        if tries == RETRIES:
            death = _death(future)
            assert death is not None
            raise death
    most = 1 + max(tries for tries, _ in lost.values())
    what = "what it did is" if len(lost) == 1 else f"{len(lost)} parts that were under way are"
    _SAY.get()(f"A worker died: {what} run again (try {1 + most} of {1 + RETRIES}).")
    return [(tries + 1, task) for tries, task in lost.values()]


@contextmanager
def sharing(submit: Submit) -> Iterator[None]:
    """Let `in_parallel` hand its work to any executor within the block.

    Args:
        submit: as of `concurrent.futures.Executor`.
    """
    token = _SUBMIT.set(submit)
    try:
        yield
    finally:
        _SUBMIT.reset(token)


@contextmanager
def running_on(
    engine: Engine,
    workers: int,
    address: str | None = None,
    say: Callable[[str], None] | None = None,
) -> Iterator[None]:
    """Let an engine share the work of `in_parallel` within the block.

    Args:
        engine: processes of this machine; Dask, Ray or Spark, whose packages must be installed.
        workers: how many there are, where the engine is started here.
        address: of a cluster that runs already, as the engine writes it; None to start one here.
            A Spark session that the caller has is used as it is, and left running.
        say: called when a worker died, with what is run again; the log if left out.

    Raises:
        InvalidInput: for an engine that is not installed, or an address of processes.
    """
    one_of(engine, "engine", get_args(Engine))
    if engine == "processes" and address is not None:
        raise InvalidInput(
            f"address was {address!r:.80}, but processes run on this machine; leave it out, or "
            "name the engine of that cluster."
        )
    token = _SAY.set(say or _SAY.get())
    try:
        with ExitStack() as started:
            if engine != "processes":
                try:
                    submit = started.enter_context(_STARTED[engine](workers, address))
                except ImportError as error:
                    raise InvalidInput(
                        f"the engine {engine} is not installed ({error}); "
                        f"pip install 'discreet[{engine}]'."
                    ) from error
                started.enter_context(sharing(submit))
            yield
    finally:
        _SAY.reset(token)


_DASK = {
    # Deaths are counted here, as with every engine.
    "distributed.scheduler.allowed-failures": 0,
    # Memory that is given back after every array must be filled with pages again for the next.
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": None,
}


@contextmanager
def _dask(workers: int, address: str | None) -> Iterator[Submit]:
    import dask
    from distributed import Client, LocalCluster

    with dask.config.set(_DASK):
        if address is not None:
            with Client(address) as client:
                yield client.get_executor(pure=False).submit
            return
        with (
            LocalCluster(
                n_workers=workers, threads_per_worker=1, dashboard_address=None, processes=True
            ) as cluster,
            Client(cluster) as client,
        ):
            yield client.get_executor(pure=False).submit


@contextmanager
def _ray(workers: int, address: str | None) -> Iterator[Submit]:
    import ray

    options = {"num_cpus": workers} if address is None else {"address": address}
    ray.init(include_dashboard=False, log_to_driver=False, **options)
    try:
        remote = ray.remote(_carried_out).options(num_cpus=1, max_retries=0)
        yield lambda _, *task: remote.remote(*task).future()
    finally:
        ray.shutdown()


_SPARK = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
# A Java machine of our own only hands on what Python works out: it needs no optimizing compiler.
_HERE = {"spark.driver.extraJavaOptions": "-Xms64m -XX:+UseSerialGC -XX:TieredStopAtLevel=1"}


@contextmanager
def _spark(workers: int, address: str | None) -> Iterator[Submit]:
    from pyspark import cloudpickle
    from pyspark.sql import SparkSession

    session = running = SparkSession.getActiveSession()
    if session is None:
        master = f"local[{workers}]" if address is None else address
        options = _SPARK | _HERE if address is None else _SPARK
        builder = SparkSession.builder.appName("discreet").master(master)
        session = builder.config(map=options).getOrCreate()
        session.sparkContext.setLogLevel("OFF")
    context = session.sparkContext
    waiting: SimpleQueue[tuple[Future[Any], bytes]] = SimpleQueue()
    turns, short = BoundedSemaphore(2), False

    def job() -> None:
        """One job, of one task: of several that wait where tasks are short, as a job costs more
        than they do, and gives nothing until all of it is done."""
        nonlocal short
        # Two jobs, so that no worker is idle while the last task of one finishes.
        with turns if short else nullcontext():
            taken = _taken(waiting, workers if short else 1)
            wave = [each for each in taken if each[0].set_running_or_notify_cancel()]
            if not wave:
                return
            started = time.monotonic()
            try:
                packed = context.parallelize([task for _, task in wave], len(wave))
                results = packed.map(_unpacked).collect()
            except Exception as error:
                for future, _ in wave:
                    future.set_exception(error)
            else:
                for (future, _), result in zip(wave, results, strict=True):
                    future.set_result(result)
            short = time.monotonic() - started < _SHORT

    # A job is waited for by a thread; as many as may be under way.
    with ThreadPoolExecutor(2 * workers) as threads:

        def submit(_: Callable[..., Any], *task: Any) -> Future[Any]:
            future: Future[Any] = Future()
            waiting.put((future, bytes(cloudpickle.dumps(task))))
            threads.submit(job)
            return future

        try:
            yield submit
        finally:
            threads.shutdown(cancel_futures=True, wait=False)
            if running is None:  # else it is the caller's
                session.stop()


def _taken(queue: SimpleQueue[Any], most: int) -> list[Any]:
    """What waits in a queue, so much at most."""
    taken: list[Any] = []
    with suppress(Empty):
        while len(taken) < most:
            taken.append(queue.get_nowait())
    return taken


def _unpacked(packed: bytes) -> Any:
    task = pickle.loads(packed)
    try:
        return _carried_out(*task)
    finally:
        _settle()


@cache
def _settle() -> None:
    """Spark looks for garbage after every task: never again in what was imported for the first."""
    gc.collect()
    gc.freeze()


_STARTED: dict[str, Callable[[int, str | None], AbstractContextManager[Submit]]] = {
    "dask": _dask,
    "ray": _ray,
    "spark": _spark,
}
