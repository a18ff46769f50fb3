"""Reports as Parquet: one row a report, so that engines which people already run can hold them.

| column         | type                  | meaning                                              |
|----------------|-----------------------|------------------------------------------------------|
| policy_version | int32                 | the version of the policy that made it               |
| public_coin    | int64                 | its public coin; where reports carry none, a random  |
|                |                       | number of its own, the same however often it is sent |
| others         | numbers, or lists of  | the fields of the message, under their names         |
|                | one length            |                                                      |

What all rows share stands in the file's metadata under `discreet`: the kind of the reports, whose
they are (`source`) and their noise. docs/wire.md has an example.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.codec import SCHEMA, class_of
from discreet.learners.messages import Reports
from discreet.validation import InvalidInput

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError as error:  # pragma: no cover
    raise InvalidInput(
        "Parquet files need the package pyarrow; pip install 'discreet[parquet]'."
    ) from error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_KEY = b"discreet"
_SHAPE = b"shape"
VERSION, PUBLIC_COIN = "policy_version", "public_coin"
_ROW_GROUP = 100_000


@dataclass(frozen=True)
class Header:
    """What all reports of a file share.

    Attributes:
        kind: of the reports.
        source: whose they are (`Reports.source`).
        noise: the name of their noise source.
        public_coins: whether the message carries the public coins, or they only number the rows.
    """

    kind: str
    source: str
    noise: str
    public_coins: bool

    def metadata(self) -> dict[bytes, bytes]:
        return {_KEY: json.dumps({**vars(self), "schema": SCHEMA}).encode()}

    @classmethod
    def of(cls, schema: pa.Schema) -> Header:
        """The header of a file; `InvalidInput` where it has none."""
        try:
            stored = json.loads((schema.metadata or {})[_KEY])
            if stored.pop("schema") != SCHEMA:
                raise ValueError("another schema")
            header = cls(**stored)
            if not all(
                isinstance(each, str) for each in (header.kind, header.source, header.noise)
            ):
                raise ValueError("names that are no text")
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInput(
                "its metadata is not that of reports of this version of discreet; write it with "
                "write_reports()."
            ) from error
        return header


def write_reports(
    path: str | Path, batches: Iterable[Reports | tuple[Reports, Sequence[int]]]
) -> int:
    """Write reports to one file.

    Args:
        path: of the file.
        batches: reports of one learner and one noise source; where they carry no public coins, each
            batch with a number for each report.

    Returns:
        How many reports were written.

    Raises:
        InvalidInput: for reports without public coins and ids, or of several learners.
    """
    writer: pq.ParquetWriter | None = None
    header: Header | None = None
    count = 0
    try:
        for batch in batches:
            reports, ids = batch if isinstance(batch, tuple) else (batch, None)
            table, found = table_of(reports, ids)
            if writer is None:
                header = found
                writer = pq.ParquetWriter(path, table.schema, compression="zstd")
            if found != header:
                raise InvalidInput(
                    f"reports had {found}, after others with {header}; write them to another file."
                )
            writer.write_table(table, row_group_size=_ROW_GROUP)
            count += len(reports)
    finally:
        if writer is not None:
            writer.close()
    if not count:
        raise InvalidInput("there were no reports to write; give at least one batch.")
    return count


def write_frame(frame: DataFrame, folder: str, example: Reports) -> list[str]:
    """Write the rows of a Spark frame as files of reports, one for each partition with rows.

    The workers of Spark write them where they lie. The aggregation checks, deduplicates and sums
    them like any files, in an order that does not depend on the table:

        paths = write_frame(spark.table("reports"), "/shared/monday", example)
        aggregate(learner, paths, workers=16, engine="spark", folder="/shared")

    Args:
        frame: with the columns that files of reports have, in any order; arrays as flat lists.
        folder: a path or URI that is there, and that all workers and the aggregation can open.
        example: reports of the same kind, source and noise, such as the policy makes of arbitrary
            people; they are not written.

    Returns:
        The files, for `aggregate`. Those of a worker that died are not among them.

    Raises:
        InvalidInput: for columns that are no such reports; no files are named, then.
    """
    table, _ = table_of(example, range(len(example)))
    schema = table.schema
    if set(frame.columns) != set(schema.names):
        raise InvalidInput(
            f"the frame has the columns {sorted(frame.columns)}; reports of {example.kind} have "
            f"{sorted(schema.names)}."
        )
    columns = frame.select(*schema.names)

    def written(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        path, error_text = f"{folder.rstrip('/')}/{secrets.token_hex(16)}.parquet", ""
        writer: pq.ParquetWriter | None = None
        try:
            for batch in batches:
                rows = pa.Table.from_batches([batch]).cast(schema)
                writer = writer or pq.ParquetWriter(path, schema, compression="zstd")
                writer.write_table(rows)
        except (pa.ArrowException, ValueError) as error:
            error_text = f"rows of the frame are no reports of {example.kind}: {error}"
        finally:
            if writer is not None:
                writer.close()
        if writer is not None or error_text:
            yield pa.RecordBatch.from_pydict({"path": [path], "error": [error_text]})

    done: list[Any] = columns.mapInArrow(written, "path string, error string").collect()
    refused = sorted({each.error for each in done} - {""})
    if refused:
        raise InvalidInput(*refused)
    return sorted(each.path for each in done)


def table_of(reports: Reports, ids: Sequence[int] | None = None) -> tuple[pa.Table, Header]:
    """Reports as a table, and what they share."""
    own = getattr(reports, "public_coins", None)
    carried = own is not None and len(own) == len(reports)
    numbers = own if carried else ids
    if numbers is None or len(numbers) != len(reports):
        raise InvalidInput(
            f"reports of {reports.kind} carry no public coins; give an id for each, a random whole "
            "number, by which it is known if it comes again."
        )
    header = Header(reports.kind, reports.source, reports.noise, carried)
    columns = {
        VERSION: pa.array(np.full(len(reports), reports.policy_version, dtype=np.int32)),
        PUBLIC_COIN: pa.array(np.asarray(numbers).astype(np.int64)),
    }
    shapes: dict[str, dict[bytes, bytes]] = {}
    for name, values in array_fields(reports).items():
        size = int(np.prod(values.shape[1:]))
        if values.ndim > 1:
            shapes[name] = {_SHAPE: json.dumps(values.shape[1:]).encode()}
        flat = pa.array(np.ascontiguousarray(values).reshape(-1))
        columns[name] = pa.FixedSizeListArray.from_arrays(flat, size) if values.ndim > 1 else flat
    schema = pa.schema(
        [
            pa.field(name, column.type, nullable=False, metadata=shapes.get(name))
            for name, column in columns.items()
        ],
        metadata=header.metadata(),
    )
    return pa.Table.from_arrays(list(columns.values()), schema=schema), header


def array_fields(reports: Reports) -> dict[str, Any]:
    """The arrays of a message with a row for each person, public coins apart.

    Raises:
        InvalidInput: for messages with other fields.
    """
    arrays = {}
    for each in fields(reports):
        value = getattr(reports, each.name)
        if each.name in (*_SHARED, "public_coins"):
            continue
        if not isinstance(value, np.ndarray) or len(value) != len(reports):
            raise InvalidInput(
                f"reports of {reports.kind} have {each.name}, which is no row for each person; "
                "they say nothing of people, and need no aggregation."
            )
        arrays[each.name] = value
    return arrays


_SHARED = tuple(each.name for each in fields(Reports))


def check_columns(table: pa.Table) -> None:
    """Refuse a table whose versions and public coins are not what `table_of` writes."""
    for name, wanted in ((VERSION, pa.int32()), (PUBLIC_COIN, pa.int64())):
        if name not in table.column_names:
            raise InvalidInput(f"it has no column {name}; write it with write_reports().")
        if table.schema.field(name).type != wanted:
            raise InvalidInput(
                f"column {name} was {table.schema.field(name).type}; it must be {wanted}."
            )


def reports_of(table: pa.Table, header: Header, version: int) -> Reports:
    """The message with these rows, all of that version.

    Raises:
        InvalidInput: for rows that no message has.
    """
    kind: Any = class_of(header.kind, Reports, "the file")
    rows = {
        name: values_of(table, name)
        for name in table.column_names
        if name not in (VERSION, PUBLIC_COIN)
    }
    wanted = {each.name for each in fields(kind)} - {*_SHARED, "public_coins"}
    if set(rows) != wanted:
        raise InvalidInput(
            f"it has the columns {sorted(rows)}; reports of {header.kind} have {sorted(wanted)}."
        )
    has_public_coins = any(each.name == "public_coins" for each in fields(kind))
    public_coins = values_of(table, PUBLIC_COIN).astype(np.uint64) if header.public_coins else None
    own = {"public_coins": public_coins} if has_public_coins else {}
    shared = {"policy_version": version, "source": header.source, "noise": header.noise}
    reports: Reports = kind(**shared, **own, **rows)
    return reports


def values_of(table: pa.Table, name: str) -> Any:
    """(n, ..) the values of a column."""
    column = table.column(name).combine_chunks()
    field = table.schema.field(name)
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else column.type.wrap_array()
    if column.null_count:
        raise InvalidInput(
            f"column {name} has {column.null_count} missing values; it must have none."
        )
    if pa.types.is_fixed_size_list(column.type):
        flat = column.flatten().to_numpy(zero_copy_only=False)
        try:
            return flat.reshape(len(column), *json.loads((field.metadata or {})[_SHAPE]))
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInput(
                f"column {name} has lists of {column.type.list_size} without the shape of the "
                "array that they are; write it with write_reports()."
            ) from error
    return column.to_numpy(zero_copy_only=False)
