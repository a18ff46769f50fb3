"""The two tasks that aggregation is made of, each for any worker of any engine.

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
| starts  | (257,)| where each bucket begins among the sorted rows                   |
| keys    | (n, 2)| version and public coin of reports that were added                   |
"""

from __future__ import annotations

import pickle
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache, reduce
from itertools import pairwise
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from discreet.atomic_files import write_bytes
from discreet.learners.base import Learner
from discreet.learners.messages import Statistics
from discreet.service.aggregation.datasets import (
    PUBLIC_COIN,
    VERSION,
    Header,
    check_columns,
    reports_of,
    values_of,
)
from discreet.service.aggregation.order import parts
from discreet.validation import IntArray, InvalidInput

BUCKETS, GROUPS = 256, 16
_EACH = BUCKETS // GROUPS


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


def put_learner(folder: Folder, learner: Learner[Any, Any, Any]) -> None:
    """Let the workers read reports as this learner does."""
    write_bytes(folder.learner_file(), pickle.dumps(learner), private=True)


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


def total_of(folder: Folder) -> Statistics | None:
    """The sums of all groups, in their order."""
    sums = [pickle.loads(folder.sums(group).read_bytes()) for group in range(GROUPS)]
    given = [each for each in sums if each is not None]
    return reduce(add, given) if given else None
