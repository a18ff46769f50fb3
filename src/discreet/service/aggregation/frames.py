"""Reports that Spark has already, in a table or in storage that only Spark can open.

    paths = write_frame(spark.table("reports"), "/shared/monday", example)
    aggregate(learner, paths, workers=16, engine="spark", folder="/shared")

Spark's workers write the rows as files of reports, where they lie; what a table does not say of
them, an example does. From there all is as with any files: each row is checked, counted once, and
summed in an order that does not depend on the table.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from discreet.learners.messages import Reports
from discreet.service.aggregation.datasets import table_of
from discreet.validation import InvalidInput

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def write_frame(frame: DataFrame, folder: str, example: Reports) -> list[str]:
    """Write the rows of a Spark frame as files of reports, one for each partition that has any.

    Args:
        frame: with the columns that files of reports have, in any order; arrays as flat lists.
        folder: a path or URI that is there, and that all workers and the aggregation can open.
        example: reports of the same kind, source and noise, such as some that the policy made of
            nobody in particular; they are not written.

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
        path, said = f"{folder.rstrip('/')}/{secrets.token_hex(16)}.parquet", ""
        writer: pq.ParquetWriter | None = None
        try:
            for batch in batches:
                rows = pa.Table.from_batches([batch]).cast(schema)
                writer = writer or pq.ParquetWriter(path, schema, compression="zstd")
                writer.write_table(rows)
        except (pa.ArrowException, ValueError) as error:
            said = f"rows of the frame are no reports of {example.kind}: {error}"
        finally:
            if writer is not None:
                writer.close()
        if writer is not None or said:
            yield pa.RecordBatch.from_pydict({"path": [path], "said": [said]})

    done: list[Any] = columns.mapInArrow(written, "path string, said string").collect()
    refused = sorted({each.said for each in done} - {""})
    if refused:
        raise InvalidInput(*refused)
    return sorted(each.path for each in done)
