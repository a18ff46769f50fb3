"""Parallel work through joblib: processes of this machine, or Dask, Ray or Spark.

    with running_on("dask", 4):
        for result in in_parallel(tasks, 4): ...

`in_parallel` is `joblib.Parallel` with results in the order in which they finish, so any backend of
`joblib.parallel_config` shares its work. `running_on` starts an engine and its backend; each engine
is one function, `submit(function)`, which returns a future of `concurrent.futures`.

Where a process dies, the tasks without a result are run again. Engines do so by themselves.
"""

from __future__ import annotations

import os
import pickle
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from threading import current_thread, main_thread
from typing import Any, Literal, TypeVar, get_args
from weakref import WeakSet

from joblib import Parallel, delayed, parallel_config
from joblib.parallel import AutoBatchingMixin, ParallelBackendBase
from threadpoolctl import threadpool_limits

from discreet.validation import InvalidInput, one_of

Result = TypeVar("Result")
# A function, its arguments and its keywords, as `joblib.delayed` makes them.
Task = tuple[Callable[..., Result], Sequence[Any], Mapping[str, Any]]
Submit = Callable[[Callable[[], Any]], "Future[Any]"]
Engine = Literal["processes", "dask", "ray", "spark"]
RETRIES = 3
"""How many deaths of processes in a row, without a result in between, are made up for."""


def in_parallel(tasks: Iterable[Task[Result]], jobs: int = 1) -> Iterator[Result]:
    """Yield the results of tasks in the order in which they finish.

    Args:
        tasks: importable functions with their arguments, as `joblib.delayed` makes them.
        jobs: processes; within `running_on`, workers that are kept busy.

    Raises:
        ChildProcessError: where processes die again and again.
    """
    # Each task is one thread of arithmetic: BLAS threads would only fight over the cores.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    waiting, deaths = dict(enumerate(tasks)), 0
    while waiting:
        results = _finished(list(waiting.items()), jobs)
        try:
            for number, result in results:
                deaths = 0
                del waiting[number]
                yield result
        except BrokenExecutor as error:
            deaths += 1
            if deaths > RETRIES:
                raise ChildProcessError(
                    f"processes died {deaths} times in a row; the system ends processes that need "
                    "more memory than there is: use fewer jobs, or a smaller study."
                ) from error
            warnings.warn(
                f"A process died; what it had not finished is run again (try {1 + deaths} of "
                f"{1 + RETRIES}).",
                RuntimeWarning,
                stacklevel=2,
            )
        finally:
            with warnings.catch_warnings(action="ignore"):  # that tasks are left undone
                results.close()


def _finished(tasks: list[tuple[int, Task[Result]]], jobs: int) -> Generator[tuple[int, Result]]:
    """Yield results as they finish; lazy, so that a death during dispatch is raised here, too."""
    # Arrays travel with their task: files that processes map would outlive a stopped command.
    parallel = Parallel(jobs, return_as="generator_unordered", max_nbytes=None)
    yield from parallel(delayed(_numbered)(*each) for each in tasks)


def _numbered(number: int, task: Task[Result]) -> tuple[int, Result]:
    # NumPy reads the environment when it is loaded. Of several threads each would restore what
    # another one set.
    with threadpool_limits(1 if current_thread() is main_thread() else None, "blas"):
        return number, task[0](*task[1], **task[2])


@contextmanager
def running_on(engine: Engine, workers: int, address: str | None = None) -> Iterator[None]:
    """Let an engine share the work of `in_parallel` within the block.

    Args:
        engine: processes of this machine; Dask, Ray or Spark, whose packages must be installed.
        workers: number of workers, where the engine is started here.
        address: of a running cluster, as the engine writes it; None to start one here. An active
            Spark session is used as it is, and left running.

    Raises:
        InvalidInput: for an engine that is not installed, or an address of processes.
    """
    one_of(engine, "engine", get_args(Engine))
    if engine == "processes":
        if address is not None:
            raise InvalidInput(
                f"address was {address!r:.80}, but processes run on this machine; leave it out, or "
                "name the engine of that cluster."
            )
        yield
        return
    with ExitStack() as started:
        try:
            submit = started.enter_context(_STARTED[engine](workers, address))
        except ImportError as error:
            raise InvalidInput(
                f"the engine {engine} is not installed ({error}); pip install 'discreet[{engine}]'."
            ) from error
        started.enter_context(parallel_config(backend=_Futures(submit)))
        yield


class _Futures(AutoBatchingMixin, ParallelBackendBase):  # type: ignore[misc]
    """A joblib backend whose tasks are submitted as futures; short tasks travel together."""

    supports_retrieve_callback = True

    def __init__(self, submit: Submit) -> None:
        super().__init__(nesting_level=0)
        self._submit = submit
        self._futures: WeakSet[Future[Any]] = WeakSet()

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        return n_jobs or 1

    def submit(self, func: Callable[[], Any], callback: Callable[[Any], Any]) -> Future[Any]:
        future = self._submit(func)
        self._futures.add(future)
        future.add_done_callback(callback)
        return future

    def retrieve_result_callback(self, out: Future[Any]) -> Any:
        result, error = out.result()
        if error is not None:
            raise error
        return result

    def abort_everything(self, ensure_ready: bool = True) -> None:
        for future in list(self._futures):
            future.cancel()


def _called(function: Callable[[], Any]) -> tuple[Any, Exception | None]:
    """The result of a function, or its exception, which engines would wrap."""
    try:
        return function(), None
    except Exception as error:
        return None, error


@contextmanager
def _dask(workers: int, address: str | None) -> Iterator[Submit]:
    import dask
    from distributed import Client, LocalCluster

    with ExitStack() as started:
        # Memory that is given back after every array must be filled with pages again for the next.
        memory = {"distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": None}
        started.enter_context(dask.config.set(memory))
        cluster: Any = address
        if address is None:
            cluster = LocalCluster(
                n_workers=workers, threads_per_worker=1, dashboard_address=None, processes=True
            )
            started.enter_context(cluster)
        executor = started.enter_context(Client(cluster)).get_executor(pure=False)
        yield lambda function: executor.submit(_called, function)


@contextmanager
def _ray(workers: int, address: str | None) -> Iterator[Submit]:
    import ray

    options = {"num_cpus": workers} if address is None else {"address": address}
    ray.init(include_dashboard=False, log_to_driver=False, **options)
    try:
        remote = ray.remote(_called).options(num_cpus=1, max_retries=RETRIES)
        yield lambda function: remote.remote(function).future()
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
        master = f"local[{workers},{1 + RETRIES}]" if address is None else address
        options = _SPARK | _HERE if address is None else _SPARK
        builder = SparkSession.builder.appName("discreet").master(master)
        session = builder.config(map=options).getOrCreate()
        session.sparkContext.setLogLevel("OFF")
    context = session.sparkContext

    def job(packed: bytes) -> Any:
        return context.parallelize([packed], 1).map(lambda it: _called(pickle.loads(it))).first()

    # A job is waited for by a thread; as many as may be under way.
    with ThreadPoolExecutor(2 * workers) as threads:
        try:
            yield lambda function: threads.submit(job, bytes(cloudpickle.dumps(function)))
        finally:
            threads.shutdown(cancel_futures=True, wait=False)
            if running is None:  # else it is the caller's
                session.stop()


_STARTED: dict[str, Callable[[int, str | None], AbstractContextManager[Submit]]] = {
    "dask": _dask,
    "ray": _ray,
    "spark": _spark,
}
