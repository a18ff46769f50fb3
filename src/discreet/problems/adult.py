"""UCI ADULT: from its original files, or from openml.org."""

from __future__ import annotations

import http.client
from pathlib import Path

import pandas as pd

from discreet.problems.table_files import read_csv
from discreet.validation import InvalidInput

# The columns used of adult.data and their positions, from adult.names.
_ADULT_FIELDS = {"age": 0, "education-num": 4, "hours-per-week": 12, "class": 14}


def read_adult(folder: Path) -> tuple[pd.DataFrame, str]:
    """UCI ADULT from the original files in `folder` or `folder`/adult, and which files they were.

    `adult.test` is added where it lies beside `adult.data`; both may be gzipped.

    Raises:
        InvalidInput: when adult.data is in neither folder or cannot be read.
    """
    files = adult_files(folder)
    frame = pd.concat([_read_adult_file(file) for file in files], ignore_index=True)
    return frame, ", ".join(str(file) for file in files)


def adult_files(folder: Path) -> list[Path]:
    """The files of UCI ADULT for `read_adult`; `InvalidInput` when adult.data is not there."""
    places = [folder / "adult", folder]
    for place in places:
        data, test = (_first_file(place, stem) for stem in ("adult.data", "adult.test"))
        if data is not None:
            return [data] if test is None else [data, test]
    raise InvalidInput(
        f"problem 'adult' found no adult.data or adult.data.gz in {places[0]} or {places[1]}; put "
        "the UCI file there, or leave out --data to download the table from openml.org."
    )


def _first_file(folder: Path, stem: str) -> Path | None:
    candidates = (folder / stem, folder / f"{stem}.gz")
    return next((file for file in candidates if file.is_file()), None)


def _read_adult_file(file: Path) -> pd.DataFrame:
    names, positions = list(_ADULT_FIELDS), list(_ADULT_FIELDS.values())
    # adult.test opens with the line "|1x3 Cross validator" and ends its labels in a dot.
    frame = read_csv(file, header=None, names=names, usecols=positions, comment="|")
    frame["class"] = [str(label).strip().removesuffix(".") for label in frame["class"]]
    return frame


def download_adult() -> tuple[pd.DataFrame, str]:
    """UCI ADULT from openml.org through scikit-learn; `InvalidInput` when it cannot be had."""
    from sklearn.datasets import fetch_openml

    try:
        frame: pd.DataFrame = fetch_openml("adult", version=2, as_frame=True).frame
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise InvalidInput(
            f"problem 'adult' could not be downloaded from openml.org ({error}); pass --data DIR "
            "with adult.data (from the UCI repository) in DIR or DIR/adult."
        ) from error
    return frame, "openml.org (adult, version 2)"
