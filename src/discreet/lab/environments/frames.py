"""Where the tables of a study come from: files, or data frames in memory.

A table is named by a path; where a frame was given under that name, no file is read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from discreet.lab.environments.base import Problem
from discreet.people.columns import Column
from discreet.people.tables import encode_columns, read_table
from discreet.toml_files import Location, Place, checked
from discreet.validation import InvalidInput, Refusals, a_kind


@dataclass(frozen=True)
class Files:
    """Where tables come from.

    Attributes:
        data_dir: a folder with downloaded data, from `--data`.
        base: the folder to which relative paths in options refer.
        place: where the options stand, for messages.
        tables: data frames by the path that names them; they stand in place of files.
    """

    data_dir: Path | None
    base: Path
    place: Place
    tables: Mapping[str, pd.DataFrame]

    def read(self, option: str, path: str, text_columns: Iterable[str]) -> pd.DataFrame:
        """The table of that path, which an option names, as `read_table` reads it."""
        if path in self.tables:
            return checked_frame(self.tables[path], f"the {path}")
        with self.place.at(option):
            return read_table(self.base / path, text_columns)

    def origin(self, *paths: str) -> str:
        """One sentence that says where tables come from."""
        if all(path in self.tables for path in paths):
            return "A data frame." if len(paths) == 1 else "Data frames."
        names = (path if path in self.tables else str(self.base / path) for path in paths)
        return f"The table {' with '.join(names)}."

    def mark(self, problem: Problem, *paths: str) -> Problem:
        """A problem that knows which tables it was made of."""
        problem.files = tuple(self.base / path for path in paths if path not in self.tables)
        given = (self.tables[path] for path in paths if path in self.tables)
        problem.tables = tuple(map(frame_digest, given))
        return problem

    def starts(
        self, columns: Sequence[Column], person: str | None, **others: Sequence[str]
    ) -> dict[str, str]:
        """How messages about a column begin, by its name: with where it is declared.

        Args:
            columns: what the option `columns` declares.
            person: what `[people]` names, if it does.
            others: for other options the columns that they name.
        """
        if not self.place.lines:
            return {}
        places: dict[str, Location] = {
            column.name: ("columns", number) for number, column in enumerate(columns)
        }
        for option, names in others.items():
            places |= {name: (option,) for name in names if name not in places}
        starts = {name: self.place.message("", location) for name, location in places.items()}
        if person is not None:
            whole = Place(self.place.name, self.place.lines)
            starts.setdefault(person, whole.message("", ("people", "id")))
        return starts

    def check_columns(self, options: Mapping[str, Any]) -> None:
        """Hold those columns against the table that are declared well, where others are not: what
        is wrong with both is then said at once.

        Raises:
            InvalidInput: for a table that cannot be read, and columns that its rows do not fit.
        """
        path, entries = options.get("path"), options.get("columns")
        columns: list[Column] = []
        for entry in entries if isinstance(entries, list) else ():
            with Refusals().collected():  # which is said already
                columns.append(checked(Column, entry, self.place))
        if not isinstance(path, str):
            return
        frame = self.read("path", path, [each.name for each in columns if each.values])
        if "candidates_path" in options:  # a second table may have what this one lacks
            columns = [each for each in columns if each.name in frame.columns]
        encode_columns(frame, columns, starts=self._starts_of(entries))

    def _starts_of(self, entries: Any) -> dict[str, str]:
        """`starts` for columns as they stand in the file, well declared or not."""
        return {
            entry["name"]: self.place.message("", ("columns", number))
            for number, entry in enumerate(entries if isinstance(entries, list) else ())
            if self.place.lines
            and isinstance(entry, Mapping)
            and isinstance(entry.get("name"), str)
        }


def checked_frame(given: Any, name: str) -> pd.DataFrame:
    """A data frame as a table: rows of people, columns with texts as names.

    Raises:
        InvalidInput: anything but a pandas frame with rows and plain columns.
    """
    if not isinstance(given, pd.DataFrame):
        module = type(given).__module__
        named = f"a {module}.{type(given).__qualname__}"
        kind = a_kind(given) if module == "builtins" else named
        advice = "convert it with .to_pandas()" if hasattr(given, "to_pandas") else "pass one"
        raise InvalidInput(f"{name} was {kind}; it must be a pandas DataFrame: {advice}.")
    if isinstance(given.columns, pd.MultiIndex):
        raise InvalidInput(
            f"{name} has columns of {given.columns.nlevels} levels; give each column a single name."
        )
    if given.empty:
        raise InvalidInput(f"{name} has no rows or no columns; give a table with people in it.")
    # A name that is a number is the text that a file would have.
    return given.set_axis([str(column) for column in given.columns], axis=1)


def frame_digest(frame: pd.DataFrame) -> str:
    """SHA-256 of a frame's columns and values, as a file has one of its bytes."""
    digest = hashlib.sha256("\0".join(map(str, frame.columns)).encode())
    for place in range(frame.shape[1]):
        values = pd.util.hash_pandas_object(frame.iloc[:, place], index=False)
        digest.update(values.to_numpy().tobytes())
    return digest.hexdigest()
