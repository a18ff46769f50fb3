"""Lines of a benchmark, each in a process of its own (one thread of arithmetic), so that peak
memory is its own."""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def measured(
    file: str,
    about: str | None,
    lines: Sequence[tuple[Any, ...]],
    measure: Callable[..., dict[str, Any]],
    quick: Sequence[int],
    header: str,
) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Print the header, then give each line with what was measured, and its `megabytes`.

    Args:
        file, about: the script and its docstring, for its command line.
        lines: arguments of `measure`.
        measure: runs one line.
        quick: numbers of the lines of a quick run.
        header: of the table.
    """
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--quick", action="store_true", help=f"{len(quick)} lines only")
    parser.add_argument("--line", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.line is not None:
        result = measure(*lines[given.line])
        result["megabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps(result))
        return
    print(header, flush=True)
    environment = {**os.environ, **ONE_THREAD}
    for number in quick if given.quick else range(len(lines)):
        command = [sys.executable, file, "--line", str(number)]
        text = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        yield lines[number], json.loads(text.stdout)
