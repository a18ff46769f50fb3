"""Reports enter a learner from wherever they are stored: what URIs name, and what Spark has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from discreet import Partition
from discreet.papers.ma2025.learners.gradients.learner import PrivateLinear
from discreet.service.aggregation.aggregate import aggregate, files_of
from discreet.service.aggregation.datasets import write_frame
from discreet.validation import InvalidInput
from tests.service.aggregation.test_aggregate import PEOPLE, begun, made, split, sums, written


def test_a_uri_gives_what_its_path_gives(tmp_path: Path) -> None:
    one, other = begun(Partition), begun(Partition)
    folder = tmp_path / "a day"
    parts = split(made(one, PEOPLE, 1), 3, 1)
    written(folder, parts[:2])
    written(folder / "100% #1?", parts[2:])
    (folder / "notes.txt").write_text("no reports")
    aggregate(one, [folder])
    for uri in (folder.as_uri(), f"{folder.as_uri()}/"):
        assert len(files_of([uri])) == 3
    single = [(folder / f"part-{number}.parquet").as_uri() for number in (0, 1)]
    assert files_of(single) == single
    result = aggregate(other, [folder.as_uri()], workers=2)
    assert (result.files, result.added) == (3, PEOPLE)
    assert sums(one) == sums(other)


def test_what_a_uri_does_not_open_is_named(tmp_path: Path) -> None:
    learner = begun(Partition)
    nowhere = (tmp_path / "nowhere").as_uri()
    (tmp_path / "nothing").mkdir()
    (tmp_path / "text.parquet").write_text("no reports")
    with pytest.raises(InvalidInput) as refused:
        aggregate(learner, ["tape://one/two", nowhere, (tmp_path / "nothing").as_uri()])
    tape, missing, empty = refused.value.args
    assert tape.startswith("tape://one/two cannot be opened (")
    assert missing.startswith(f"{nowhere} names no file")
    assert "nothing names no file" in empty
    with pytest.raises(InvalidInput, match=r"^file://.*/text.parquet: "):
        aggregate(learner, [(tmp_path / "text.parquet").as_uri()])
    assert learner.people == 0


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    sql = pytest.importorskip("pyspark.sql")
    quiet = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    session = sql.SparkSession.builder.master("local[2]").config(map=quiet).getOrCreate()
    yield session
    session.stop()


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Partition, PrivateLinear])
def test_a_frame_of_spark_gives_what_files_give(
    kind: type[Any], spark: Any, tmp_path: Path
) -> None:
    one, other = begun(kind, 2), begun(kind, 2)
    reports = made(one, PEOPLE, 1)
    paths = written(tmp_path / "a", split(reports, 4, 1))
    aggregate(one, paths)
    # A table does not keep what the files said of all rows, nor the shapes of arrays.
    frame = spark.read.parquet(*paths).repartition(3)
    (tmp_path / "b").mkdir()
    files = write_frame(frame, (tmp_path / "b").as_uri(), made(other, 1, 2))
    assert len(files) == 3
    assert aggregate(other, files, workers=2, engine="spark").added == PEOPLE
    assert sums(one) == sums(other)
    assert frame.count() == PEOPLE, "the session of the caller is left running"


@pytest.mark.slow
def test_a_frame_that_has_no_reports_is_refused(spark: Any, tmp_path: Path) -> None:
    from pyspark.sql import functions

    learner = begun(Partition)
    frame = spark.read.parquet(*written(tmp_path / "a", [made(learner, PEOPLE, 1)]))
    example = made(learner, 1, 2)
    with pytest.raises(InvalidInput, match=r"the frame has the columns \['places', 'signs', 'tic"):
        write_frame(frame.drop("policy_version"), str(tmp_path), example)
    version, public_coin = functions.col("policy_version"), functions.col("public_coin")
    for column, value in (
        ("policy_version", version + 2**40),
        ("public_coin", functions.when(public_coin % 2 == 0, public_coin)),
        ("places", functions.array_repeat(public_coin, 2)),
        ("signs", functions.lit("+")),
    ):
        with pytest.raises(InvalidInput, match="rows of the frame are no reports of signed-report"):
            write_frame(frame.withColumn(column, value), str(tmp_path), example)
    assert write_frame(frame.limit(0), str(tmp_path), example) == []
