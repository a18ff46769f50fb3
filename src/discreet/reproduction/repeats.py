"""What every runner of repetitions needs: work shared among processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import joblib

Result = TypeVar("Result")
# As `joblib.delayed` makes them.
Task = tuple[Callable[..., Result], Sequence[Any], Mapping[str, Any]]


def carried_out(tasks: Iterable[Task[Result]], jobs: int) -> Iterator[Result]:
    """The results of tasks by `jobs` processes, in the order in which they finish."""
    # Each task is one thread of arithmetic: BLAS threads would only fight over the cores.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    if jobs == 1:
        return (function(*arguments, **keywords) for function, arguments, keywords in tasks)
    found: Iterator[Result] = joblib.Parallel(
        n_jobs=jobs, return_as="generator_unordered", pre_dispatch="2*n_jobs"
    )(tasks)
    return found
