"""The two schemas of results."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pandas as pd
import pytest

from discreet.records import (
    REPRODUCED,
    RunRecord,
    as_json_line,
    check_path,
    write_records,
)
from discreet.validation import InvalidInput

RUN = RunRecord("s", "uniform", "none", None, None, 0, 10, "regret", 3.5, 0.1, "uniform", 1)
ROW = {
    "epsilon": 1.0,
    "method": "ours",
    "metric": "regret",
    "mean": 44.0,
    "standard_error": 7.0,
    "trials": 20,
    "paper": None,
    "agrees": None,
}


def test_rows_are_records_as_they_are() -> None:
    assert json.loads(as_json_line(ROW)) == ROW
    assert set(REPRODUCED) < set(ROW)


def test_infinities_become_null() -> None:
    record = {**ROW, "mean": float("inf"), "standard_error": float("nan")}
    fields = json.loads(as_json_line(record))
    assert fields["mean"] is None
    assert fields["standard_error"] is None


@pytest.mark.parametrize("name", ["r.jsonl", "r.json", "r.parquet"])
def test_files(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    write_records([RUN, RUN], path)
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
        frame = pd.read_parquet(path)
    else:
        frame = pd.read_json(path, lines=True)
    assert frame["value"].tolist() == [3.5, 3.5]
    assert list(frame.columns) == list(asdict(RUN))


def test_bad_paths_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="does not exist"):
        check_path(tmp_path / "no" / "r.jsonl")
    with pytest.raises(InvalidInput, match="is a folder"):
        check_path(tmp_path)
