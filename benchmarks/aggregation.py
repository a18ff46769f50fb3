"""`discreet aggregate` on every engine: time, overhead, and memory as reports grow.

    python benchmarks/aggregation.py [--reports 10_000_000] [--learners kernel partition]
                                     [--engines processes dask ray spark] [--workers 1 2]

Reports are those of 100,000 simulated people, given again and again under public coins of their
own, in files of a million. Each line is a run in a process of its own, engine and workers started
before the clock; the last line of a learner has fewer reports, as many as it says, by processes.

| column    | meaning                                                                     |
|-----------|-----------------------------------------------------------------------------|
| seconds   | from the files to the sums in the learner, by the clock                     |
| CPU       | processor seconds of all processes meanwhile                                |
| speed     | seconds of one worker over seconds of these                                 |
| overhead  | CPU above that of processes with as many workers                            |
| begin     | seconds until the engine had started                                        |
| memory    | the most that all processes together had at a time, in MB (PSS, where what  |
|           | processes share counts once; files that are mapped count)                   |

Asked for: speed of two workers 1.7 on two free cores, overhead below 20%, 10 million reports within
60 s and 1,000 MB, and as much memory with fewer. On a machine that does other work too, trust
CPU rather than seconds, and no speed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from discreet import Box, Local, LocalKernel, Partition, SimulatedNoise, load, save
from discreet.codec import encode
from discreet.learners.messages import Reports
from discreet.parallel import in_parallel, running_on
from discreet.service.aggregation.aggregate import aggregate
from discreet.service.aggregation.datasets import write_reports

LEARNERS = {"kernel": LocalKernel, "partition": Partition}
DOMAIN = Box.of({"age": (18, 90), "income": (0, 1), "distance": (0, 100)})
PEOPLE, FILE = 100_000, 1_000_000
SAMPLED = 0.1  # seconds between looks at memory


def write(folder: Path, name: str, count: int) -> None:
    """A learner, and reports to its first policy."""
    learner: Any = LEARNERS[name](
        DOMAIN, ["leaflet", "call", "visit"], Local(1.0), horizon=count, identity="benchmark"
    )
    policy, rng = learner.policy(), np.random.default_rng(1)
    save(learner, folder / "learner.json")
    contexts = DOMAIN.from_unit(rng.random((PEOPLE, DOMAIN.dimension)))
    actions, _ = policy.act(contexts, rng)
    rewards = (rng.random(PEOPLE) < 0.5).astype(float)
    reports = policy.report(contexts, actions, rewards, SimulatedNoise(1))
    for number, start in enumerate(range(0, count, FILE)):
        size = min(FILE, count - start)
        write_reports(folder / f"{number:05d}.parquet", batches(reports, size, rng))


def batches(reports: Reports, count: int, rng: np.random.Generator) -> Iterator[Reports]:
    """As many reports as asked for, each with a public coin of its own."""
    for start in range(0, count, PEOPLE):
        some = reports.of(np.arange(min(PEOPLE, count - start)))
        public_coins = rng.integers(0, 2**53, len(some), dtype=np.uint64)
        yield replace(some, public_coins=public_coins)  # type: ignore[call-arg]


def processor_seconds() -> float:
    """Of this process and all under it."""
    this = psutil.Process()
    times = [each.cpu_times() for each in (this, *this.children(recursive=True))]
    return sum(each.user + each.system for each in times)


def idle(number: int) -> int:
    """Something for a worker to begin with: it imports what it needs."""
    from discreet.service.aggregation.aggregate import BUCKETS

    time.sleep(0.5)
    return number + BUCKETS


def run(folder: Path, engine: Any, workers: int, count: int) -> dict[str, Any]:
    """One aggregation in this process and its workers."""
    learner: Any = load(folder / "learner.json")
    files = sorted(folder.glob("*.parquet"))[: -(-count // FILE)]
    before = time.perf_counter()
    with running_on(engine, workers):
        list(in_parallel([(idle, (number,), {}) for number in range(2 * workers)], workers))
        began, spent = time.perf_counter(), processor_seconds()
        result = aggregate(learner, files, workers=workers)
        seconds, cpu = time.perf_counter() - began, processor_seconds() - spent
    assert result.added == count, result
    sums = hashlib.sha256(encode(learner._sums).encode()).hexdigest()
    return {"seconds": seconds, "cpu": cpu, "begin": began - before, "sums": sums}


def measured(*arguments: Any) -> dict[str, Any]:
    """A run in a process of its own, and the most memory that it and its workers had."""
    command = [sys.executable, __file__, "--one", *map(str, arguments)]
    peak, over = 0, threading.Event()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:

        def watch() -> None:
            nonlocal peak
            while not over.wait(SAMPLED):
                peak = max(peak, memory(psutil.Process(process.pid)))

        watching = threading.Thread(target=watch)
        watching.start()
        printed, _ = process.communicate()
        over.set()
        watching.join()
    if process.returncode:
        raise SystemExit(process.returncode)
    found: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return {**found, "peak": peak / 1e6}


def memory(process: psutil.Process) -> int:
    """Bytes of a process and all under it."""
    total = 0
    with suppress(psutil.Error):
        for each in (process, *process.children(recursive=True)):
            with suppress(psutil.Error):  # it has ended
                total += each.memory_full_info().pss
    return total


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reports", type=int, default=10_000_000)
    parser.add_argument("--learners", nargs="+", choices=list(LEARNERS), default=list(LEARNERS))
    engines = ["processes", "dask", "ray", "spark"]
    parser.add_argument("--engines", nargs="+", choices=engines, default=engines)
    parser.add_argument("--workers", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        folder, engine, workers, count = given.one
        print(json.dumps(run(Path(folder), engine, int(workers), int(count))))
        return
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    for name in given.learners:
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder), name, given.reports)
            size = sum(path.stat().st_size for path in Path(folder).glob("*.parquet"))
            print(f"\n{name}: {given.reports:,} reports of {size / given.reports:.1f} bytes")
            print(
                f"{'engine':10}{'workers':>8}{'seconds':>9}{'CPU':>8}{'speed':>7}{'overhead':>10}"
                f"{'begin':>8}{'memory':>8}",
                flush=True,
            )
            show(folder, given)


def show(folder: str, given: argparse.Namespace) -> None:
    """The lines of one learner."""
    plain: dict[int, dict[str, Any]] = {}
    sums = set()
    for engine in given.engines:
        alone = None
        for workers in given.workers:
            found = measured(folder, engine, workers, given.reports)
            sums.add(found["sums"])
            alone = alone or found
            plain.setdefault(workers, found)
            speed = alone["seconds"] / found["seconds"]
            overhead = found["cpu"] / plain[workers]["cpu"] - 1.0
            print(
                line(engine, workers, found, f"{speed:.2f}", f"{100.0 * overhead:.0f}%"),
                flush=True,
            )
    fewer = max(FILE, given.reports // 4 // FILE * FILE)
    if fewer < given.reports:
        few = measured(folder, "processes", given.workers[0], fewer)
        print(line(f"{fewer:,}", given.workers[0], few, "", ""))
    same = "the same to the bit" if len(sums) == 1 else "DIFFERENT"
    print(f"sums on all engines: {same}", flush=True)


def line(engine: str, workers: int, found: dict[str, Any], speed: str, overhead: str) -> str:
    """One line of the table."""
    return (
        f"{engine:10}{workers:8}{found['seconds']:9.1f}{found['cpu']:8.1f}{speed:>7}{overhead:>10}"
        f"{found['begin']:8.1f}{found['peak']:8.0f}"
    )


if __name__ == "__main__":
    main()
