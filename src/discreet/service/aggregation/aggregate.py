"""Reports by the billion: read from Parquet, counted once, summed by an engine, merged.

    result = aggregate(learner, ["reports/*.parquet"], workers=16, engine="dask")

Nothing of it enters the learner unless all of it is right, or the damaged row groups are to be left
out (`skip_damaged`); they are named either way. Memory is bounded by a row group, and by a 256th of
all reports, for each worker: what lies between is on the disk.
"""

from __future__ import annotations

import glob
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import joblib
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from discreet.learners.base import Learner
from discreet.parallel import Engine, in_parallel, running_on
from discreet.service.aggregation.tasks import (
    BUCKETS,
    GROUPS,
    BucketSums,
    Folder,
    RowGroups,
    Scattered,
    gather,
    put_learner,
    scatter,
    total_of,
)
from discreet.validation import ErrorCollector, InvalidInput, whole_number

# Rows of one task that scatters.
_ROWS = 400_000
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Aggregated:
    """What became of the reports in some files.

    Attributes:
        files: how many were read.
        reports: how many rows they had.
        added: how many entered the learner.
        repeated: how many came more than once in these files.
        before: how many had been added by an earlier aggregation.
        damaged: what was left out, and why; empty unless that was asked for.
    """

    files: int
    reports: int
    added: int
    repeated: int
    before: int
    damaged: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """What a person wants to know of it."""
        text = f"{self.added:,} of {self.reports:,} reports in {self.files:,} files were added"
        others = [
            f"{count:,} {why}"
            for count, why in (
                (self.repeated, "came twice"),
                (self.before, "had been added before"),
            )
            if count
        ]
        left = f"; {len(self.damaged)} parts were damaged and left out" if self.damaged else ""
        return f"{text}{', ' if others else ''}{' and '.join(others)}{left}."


def aggregate(
    learner: Learner[Any, Any, Any],
    paths: Iterable[str | Path],
    *,
    workers: int = 1,
    engine: Engine = "processes",
    address: str | None = None,
    folder: str | Path | None = None,
    seen: str | Path | None = None,
    skip_damaged: bool = False,
    progress: Progress | None = None,
) -> Aggregated:
    """Add the reports in Parquet files to a learner.

    Args:
        learner: with local privacy, whose policies made the reports.
        paths: files, folders or patterns such as `reports/*.parquet`; URIs of files and folders
            that every worker can open (`s3://`, `gs://`, `hdfs://`).
        workers: of the engine.
        engine: which engine shares the work.
        address: of its cluster; None for one on this machine.
        folder: a folder that all workers see, for what lies between; a temporary one if left out.
        seen: the folder that remembers which reports were added, so that none is added by two
            calls; made where it is missing. None for files that are given once only.
        skip_damaged: whether to leave out what is damaged instead of refusing everything.
        progress: called with what is being done, how much of it is done, and of how much.

    Returns:
        What became of the reports.

    Raises:
        InvalidInput: for damaged files, reports of another study or under policies that this
            learner has not published; all of them are named, and the learner is as before.
    """
    _check_learner(learner)
    count = whole_number(workers, "workers", minimum=1)
    files = files_of(paths)
    with tempfile.TemporaryDirectory(dir=folder, prefix="discreet-") as temporary:
        remembered = None if seen is None else _remembered(Path(seen), learner.people)
        work = Folder(temporary, None if remembered is None else str(remembered))
        put_learner(work, learner)
        with running_on(engine, count, address):
            done, damaged = _scattered(work, files, count, progress)
            if not skip_damaged:
                _refuse(damaged)
            gathered = _gathered(work, len(done), count, progress)
            if any(each.damage for each in gathered):  # where it is, only summing each part tells
                done, damaged = _scattered(work, files, count, progress, thorough=True)
                if not skip_damaged:
                    _refuse(damaged)
                gathered = _gathered(work, len(done), count, progress)
        _refuse([each.damage for each in gathered if each.damage])
        result = Aggregated(
            files=len(files),
            reports=sum(each.rows for each in done),
            added=sum(each.added for each in gathered),
            repeated=sum(each.repeated for each in gathered),
            before=sum(each.before for each in gathered),
            damaged=tuple(damaged),
        )
        total = total_of(work)
        if total is not None:
            if seen is not None:
                _remember(work, Path(seen), learner.people + result.added)
            learner.merge(total)
    return result


def files_of(paths: Iterable[str | Path]) -> list[str]:
    """The files that paths, folders, patterns and URIs name, each once and in order.

    Raises:
        InvalidInput: for what names no file.
    """
    found: dict[str, None] = {}
    errors = ErrorCollector()
    for given in paths:
        try:
            names = _stored(str(given)) if "://" in str(given) else _here(given)
        except (pa.ArrowException, OSError, ImportError, ValueError) as error:
            errors.add(f"{given} cannot be opened ({error}); give a URI that pyarrow opens.")
            continue
        if not names:
            errors.add(
                f"{given} names no file; give Parquet files, folders or patterns, or URIs of files "
                "and folders."
            )
        found |= dict.fromkeys(names)
    errors.raise_if_any()
    if not found:
        raise InvalidInput("no files were given; give Parquet files, folders or patterns.")
    return sorted(found)


def _here(given: str | Path) -> list[str]:
    """Files of this machine."""
    path = Path(given)
    names = path.rglob("*.parquet") if path.is_dir() else glob.glob(str(given), recursive=True)
    return [str(Path(name).resolve()) for name in names]


def _stored(uri: str) -> list[str]:
    """URIs of the files under a URI, or of the one that it names."""
    system, base = fs.FileSystem.from_uri(uri)
    address, mark, options = uri.partition("?")
    kind = system.get_file_info(base).type
    if kind != fs.FileType.Directory:
        return [uri] if kind == fs.FileType.File else []
    base = base.rstrip("/")
    inside = system.get_file_info(fs.FileSelector(base, recursive=True))
    return [
        f"{address.rstrip('/')}{quote(each.path[len(base) :])}{mark}{options}"
        for each in inside
        if each.type == fs.FileType.File and each.path.endswith(".parquet")
    ]


def _check_learner(learner: Learner[Any, Any, Any]) -> None:
    if not learner.budget.is_local:
        raise InvalidInput(
            f"{learner.budget!r} does not protect reports when they leave a person; files of plain "
            "observations are not aggregated. Give a learner with local privacy."
        )


def _scattered(
    work: Folder,
    files: Sequence[str],
    workers: int,
    progress: Progress | None,
    thorough: bool = False,
) -> tuple[list[Scattered], list[str]]:
    places, damaged = _places(files)
    tasks = [joblib.delayed(scatter)(work, at, place, thorough) for at, place in enumerate(places)]
    done: list[Scattered] = _all(tasks, workers, "searching" if thorough else "reading", progress)
    return done, sorted([*damaged, *(text for each in done for text in each.damage)])


def _places(files: Sequence[str]) -> tuple[list[RowGroups], list[str]]:
    """Row groups for each task, and files that cannot be opened."""
    places: list[RowGroups] = []
    damaged = []
    for path in files:
        try:
            with pq.ParquetFile(path) as file:
                sizes = [file.metadata.row_group(at).num_rows for at in range(file.num_row_groups)]
        except (pa.ArrowException, OSError) as error:
            damaged.append(f"{path}: {error}")
            continue
        groups: list[int] = []
        rows = 0
        for at, size in enumerate(sizes):
            if groups and rows + size > _ROWS:
                places.append(RowGroups(path, tuple(groups)))
                groups, rows = [], 0
            groups.append(at)
            rows += size
        if groups:
            places.append(RowGroups(path, tuple(groups)))
    return places, damaged


def _gathered(
    work: Folder, count: int, workers: int, progress: Progress | None
) -> list[BucketSums]:
    tasks = [joblib.delayed(gather)(work, count, group) for group in range(GROUPS)]
    return _all(tasks, workers, "summing", progress)


def _all(tasks: Sequence[Any], workers: int, what: str, progress: Progress | None) -> list[Any]:
    """The results of all tasks, in the order in which they finish. A task that is done twice, as a
    worker died, writes the same."""
    results = []
    for result in in_parallel(tasks, workers):
        results.append(result)
        if progress is not None:
            progress(what, len(results), len(tasks))
    return results


def _refuse(damaged: Sequence[str]) -> None:
    if damaged:
        raise InvalidInput(*damaged)


# Which reports were added by earlier calls: a folder for each number of people, so that a learner
# that was not saved after them does not miss any.


def _remembered(seen: Path, people: int) -> Path | None:
    """The folder of reports that a learner with this number of people has added.

    Raises:
        InvalidInput: where it has people, and nothing is remembered of them.
    """
    path = seen / f"{people}"
    if seen.is_dir():
        for other in seen.iterdir():  # of states that the learner did not keep, or has left behind
            if other.name != path.name:
                shutil.rmtree(other)
    complete = len(list(path.glob("keys-*.npy"))) == BUCKETS
    if people and not complete:
        raise InvalidInput(
            f"{seen} remembers nothing, or not all, of a learner with {people} reports, so reports "
            "that it has already could be added again; give the folder that its earlier "
            "aggregations had, of this version."
        )
    return path if path.is_dir() else None


def _remember(work: Folder, seen: Path, people: int) -> None:
    """Keep the keys of all that were added. Those of the state before stay until the next call, as
    the learner may not be saved after this one."""
    seen.mkdir(parents=True, exist_ok=True)
    target = seen / f"{people}"
    draft = Path(tempfile.mkdtemp(dir=seen, prefix=".draft-"))
    shutil.copytree(Path(work.path) / "seen", draft, dirs_exist_ok=True)
    if target.exists():
        shutil.rmtree(target)
    draft.rename(target)
