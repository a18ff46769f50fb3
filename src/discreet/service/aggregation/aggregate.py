"""Reports by the billion: read from Parquet, counted once, summed by an engine, merged.

    result = aggregate(learner, ["reports/*.parquet"], workers=16, engine="dask")

Nothing of it enters the learner unless all of it is right, or the damaged row groups are to be left
out (`skip_damaged`); they are named either way. Memory is bounded by a row group, and by a 256th of
all reports, for each worker: what lies between is on the disk. Two tasks are done by any worker of
any engine.

**Scatter** reads some row groups, checks them, and writes their rows sorted by bucket. A bucket is
one of 256 parts of all public coins, by a hash of version and public coin alone.

**Gather** reads one group of buckets from all that was scattered, drops what came twice or was
added before, and sums the rest in the order of versions and public coins, in parts of one size.

So what is summed with what, and in which order, depends on the public coins and on nothing else:
not on files, row groups, workers, engines, or which of them died and was asked again. That is why
sums of floating-point numbers are the same to the bit. Each task writes its result under a name of
its own, in one step; asked again, it writes the same.

| array   | shape | meaning                                                         |
|---------|-------|-----------------------------------------------------------------|
| buckets | (n,)  | the bucket of each row, 0 .. 255                                |
| starts  | (257,)| where each bucket begins among the sorted rows                  |
| keys    | (n, 2)| version and public coin of reports that were added              |
"""

from __future__ import annotations

import glob
import pickle
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache, reduce
from itertools import pairwise
from operator import add
from pathlib import Path
from typing import Any
from urllib.parse import quote

import joblib
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from discreet.atomic_files import write_bytes
from discreet.learners.base import Learner
from discreet.learners.messages import Statistics
from discreet.parallel import Engine, in_parallel, running_on
from discreet.service.aggregation import parts
from discreet.service.aggregation.datasets import (
    PUBLIC_COIN,
    VERSION,
    Header,
    check_columns,
    reports_of,
    values_of,
)
from discreet.validation import ErrorCollector, IntArray, InvalidInput, whole_number

BUCKETS, GROUPS = 256, 16
_EACH = BUCKETS // GROUPS
# Rows of one task that scatters.
_ROWS = 400_000
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class RowGroups:
    """Row groups of a file."""

    path: str
    groups: tuple[int, ...]


@dataclass(frozen=True)
class Scattered:
    """What became of some row groups.

    Attributes:
        rows: how many reports were written.
        damage: which row groups cannot be used, and why; empty where all can.
    """

    rows: int
    damage: tuple[str, ...] = ()


@dataclass(frozen=True)
class BucketSums:
    """What became of a group of buckets.

    Attributes:
        group: its number.
        added: how many reports are in the sum.
        repeated: how many came more than once in these files.
        before: how many were added by an earlier aggregation.
        damage: why reports are refused; "" where they are not.
    """

    group: int
    added: int = 0
    repeated: int = 0
    before: int = 0
    damage: str = ""


@dataclass(frozen=True)
class Folder:
    """Where tasks of one aggregation find what they need, and leave what they made.

    Attributes:
        path: a folder that all workers see.
        seen: the folder with the keys of reports that were added before; None where none was.
    """

    path: str
    seen: str | None = None

    def scattered(self, number: int) -> Path:
        return Path(self.path) / f"scattered-{number:06d}.arrow"

    def sums(self, group: int) -> Path:
        return Path(self.path) / f"sums-{group:02d}.pickle"

    def keys(self, bucket: int) -> Path:
        return Path(self.path) / "seen" / f"keys-{bucket:03d}.npy"

    def learner_file(self) -> Path:
        return Path(self.path) / "learner.pickle"


@cache
def _learner(path: str) -> Learner[Any, Any, Any]:
    return pickle.loads(Path(path).read_bytes())  # type: ignore[no-any-return]


def buckets_of(versions: IntArray, public_coins: IntArray) -> IntArray:
    """(n,) the bucket of each report (the finalizer of SplitMix64: Steele, Lea and Flood 2014)."""
    mixed = public_coins.astype(np.uint64) ^ (versions.astype(np.uint64) << np.uint64(40))
    with np.errstate(over="ignore"):
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return (mixed >> np.uint64(56)).astype(np.int64)


@contextmanager
def _given_back() -> Iterator[None]:
    """Tables' memory goes back to the system at once: of workers there are many."""
    before = pa.default_memory_pool()
    pa.set_memory_pool(pa.system_memory_pool())
    try:
        yield
    finally:
        pa.set_memory_pool(before)


@_given_back()
def scatter(folder: Folder, number: int, place: RowGroups, thorough: bool = False) -> Scattered:
    """Sort some row groups by bucket, without those that are damaged.

    Args:
        folder, number: where they are written.
        place: which row groups.
        thorough: whether to sum each row group, too, for the sake of what only that finds.
    """
    learner = _learner(str(folder.learner_file()))
    tables: list[pa.Table] = []
    damage = []
    with ExitStack() as opened:
        file: pq.ParquetFile | None = None
        for group in place.groups:
            try:
                file = file or opened.enter_context(pq.ParquetFile(place.path))
                table = file.read_row_group(group, use_threads=False)
                _check(table, Header.of(file.schema_arrow), learner, thorough)
                tables.append(table)
            except (InvalidInput, pa.ArrowException, OSError, KeyError, ValueError) as error:
                damage.append(f"row group {group} of {place.path}: {error}")
    target = folder.scattered(number)
    target.unlink(missing_ok=True)
    if not any(map(len, tables)):
        return Scattered(0, tuple(damage))
    table = pa.concat_tables(tables)
    versions, public_coins = values_of(table, VERSION), values_of(table, PUBLIC_COIN)
    buckets = buckets_of(versions, public_coins)
    # Stable, and by what is known of each row alone: equal keys are sorted out when gathering.
    order = np.argsort(buckets, kind="stable")
    starts = np.searchsorted(buckets[order], np.arange(BUCKETS + 1))
    kept = table.combine_chunks().take(pa.array(order)).to_batches()[0]
    draft = target.with_suffix(f".{secrets.token_hex(8)}.draft")
    with pa.OSFile(str(draft), "wb") as sink, pa.ipc.new_file(sink, kept.schema) as writer:
        for first, last in pairwise(starts.tolist()):
            writer.write_batch(kept.slice(first, last - first))
    draft.replace(target)
    return Scattered(len(kept), tuple(damage))


def _check(
    table: pa.Table, header: Header, learner: Learner[Any, Any, Any], thorough: bool
) -> None:
    """Refuse rows that no people of this learner can have reported, as far as shapes, bounds and
    versions say; what a policy says of them is seen when they are summed."""
    check_columns(table)
    if header.source != learner.identity:
        raise InvalidInput(
            f"its reports are for {header.source!r:.80}, this learner is {learner.identity!r}; "
            "give files of this study."
        )
    versions = values_of(table, VERSION)
    known = len(learner._policies)
    unknown = np.unique(versions[(versions < 0) | (versions >= known)])
    if len(unknown):
        raise InvalidInput(
            f"it names the policy versions {unknown[:5].tolist()}, and the learner has published "
            f"0 to {known - 1}; give it the learner that published them."
        )
    for version in np.unique(versions):
        rows = table.filter(pa.array(versions == version))
        reports = reports_of(rows, header, int(version))
        for part in parts(len(rows)) if thorough else ():
            learner.statistics(reports.of(np.arange(len(rows))[part]))


@_given_back()
def gather(folder: Folder, count: int, group: int) -> BucketSums:
    """Sum one group of buckets of `count` scattered files."""
    learner = _learner(str(folder.learner_file()))
    sums: Statistics | None = None
    added = repeated = before = 0
    try:
        for bucket in range(group * _EACH, (group + 1) * _EACH):
            known = _known(folder, bucket)
            keys = np.zeros((0, 2), dtype=np.int64)  # of this bucket, under other headers
            for table, header in _bucket(folder, count, bucket):
                versions, public_coins = values_of(table, VERSION), values_of(table, PUBLIC_COIN)
                order = _sorted(table, versions, public_coins)
                versions, public_coins = versions[order], public_coins[order]
                first = np.ones(len(order), dtype=bool)
                first[1:] = (np.diff(versions) != 0) | (np.diff(public_coins) != 0)
                first &= ~_among(versions, public_coins, keys)
                old = first & _among(versions, public_coins, known)
                fresh = first & ~old
                repeated += int((~first).sum())
                before += int(old.sum())
                added += int(fresh.sum())
                keys = _joined(keys, np.stack([versions[fresh], public_coins[fresh]], axis=1))
                kept = table.take(pa.array(order[fresh]))
                for part in _parts(kept, versions[fresh], header, learner):
                    sums = part if sums is None else sums + part
            _keep(folder.keys(bucket), _joined(known, keys))
    except InvalidInput as error:
        return BucketSums(group, damage=str(error))
    write_bytes(folder.sums(group), pickle.dumps(sums), private=True)
    return BucketSums(group, added, repeated, before)


def _keep(path: Path, keys: IntArray) -> None:
    """Write (n, 2) keys in one step."""
    path.parent.mkdir(exist_ok=True)
    draft = path.with_suffix(f".{secrets.token_hex(8)}.draft.npy")
    np.save(draft, keys)
    draft.replace(path)


def _joined(some: IntArray, others: IntArray) -> IntArray:
    """(n, 2) keys of both, in order."""
    keys = np.concatenate([some, others])
    return keys[np.lexsort((keys[:, 1], keys[:, 0]))]


def _bucket(folder: Folder, count: int, bucket: int) -> list[tuple[pa.Table, Header]]:
    """The rows of a bucket, by the headers of their files: what differs there cannot be joined."""
    by_header: dict[Header, list[pa.RecordBatch]] = {}
    for number in range(count):
        path = folder.scattered(number)
        if not path.exists():
            continue  # it had no rows, or they are damaged and were left out
        # A file is mapped for this bucket alone: pages of others would count as memory.
        with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as reader:
            rows = reader.get_batch(bucket)
            header = Header.of(reader.schema)
        if len(rows):
            by_header.setdefault(header, []).append(rows.replace_schema_metadata(None))
    return [
        (pa.Table.from_batches(by_header[header]), header)
        for header in sorted(by_header, key=lambda each: (each.kind, each.noise))
    ]


def _sorted(table: pa.Table, versions: IntArray, public_coins: IntArray) -> IntArray:
    """The order of versions and public coins; of rows with the same, of the bytes of what they
    say."""
    order: IntArray = np.lexsort((public_coins, versions))
    same = (np.diff(versions[order]) == 0) & (np.diff(public_coins[order]) == 0)
    if same.any():
        tied = np.concatenate([same, [False]]) | np.concatenate([[False], same])
        rows = order[tied]
        columns = [
            np.ascontiguousarray(values_of(table, name)[rows]).view(np.uint8).reshape(len(rows), -1)
            for name in table.column_names
            if name not in (VERSION, PUBLIC_COIN)
        ]
        joined = np.concatenate(columns, axis=1)
        # Texts of one length: NumPy drops zeros at the end, which leaves their order as it is.
        texts = joined.view(f"S{joined.shape[1]}").reshape(-1)
        order[tied] = rows[np.lexsort((texts, public_coins[rows], versions[rows]))]
    return order


def _known(folder: Folder, bucket: int) -> IntArray:
    """(n, 2) what was added before."""
    path = None if folder.seen is None else Path(folder.seen) / folder.keys(bucket).name
    if path is None or not path.exists():
        return np.zeros((0, 2), dtype=np.int64)
    known: IntArray = np.load(path)
    return known


def _among(versions: IntArray, public_coins: IntArray, known: IntArray) -> Any:
    """(n,) which of these are known; both are in order."""
    found = np.zeros(len(versions), dtype=bool)
    for version in np.unique(versions):
        mine = versions == version
        theirs = known[known[:, 0] == version, 1]
        if len(theirs):
            at = np.minimum(np.searchsorted(theirs, public_coins[mine]), len(theirs) - 1)
            found[mine] = theirs[at] == public_coins[mine]
    return found


def _parts(
    table: pa.Table, versions: IntArray, header: Header, learner: Learner[Any, Any, Any]
) -> Any:
    """The sums of rows in order, in parts of one size."""
    for version in np.unique(versions):
        rows = table.filter(pa.array(versions == version))
        for part in parts(len(rows)):
            yield learner.statistics(reports_of(rows[part], header, int(version)))


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
    if learner.budget.trust_model != "local":
        raise InvalidInput(
            f"{learner.budget!r} is not local privacy; files of plain observations, or of shuffled "
            "groups, are not aggregated. Give a learner with local privacy."
        )
    count = whole_number(workers, "workers", minimum=1)
    files = files_of(paths)
    with tempfile.TemporaryDirectory(dir=folder, prefix="discreet-") as temporary:
        remembered = None if seen is None else _remembered(Path(seen), learner.people)
        work = Folder(temporary, None if remembered is None else str(remembered))
        # Workers read reports as this learner does.
        write_bytes(work.learner_file(), pickle.dumps(learner), private=True)
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
        sums = [pickle.loads(work.sums(group).read_bytes()) for group in range(GROUPS)]
        given = [each for each in sums if each is not None]
        if given:
            total = reduce(add, given)
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
