"""The files that options of a problem name, and where in a study messages about them belong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from discreet.problems.columns import Column
from discreet.problems.table_files import read_table
from discreet.problems.tables import encode_columns
from discreet.problems.toml_lines import Location
from discreet.problems.toml_words import Place, checked
from discreet.validation import Refusals


@dataclass(frozen=True)
class Files:
    """Where files may lie: `data_dir` from `--data`, `base` for relative paths in options.

    `place` is where the options stand, for messages.
    """

    data_dir: Path | None
    base: Path
    place: Place

    def read(self, option: str, path: str, text: Iterable[str]) -> tuple[Path, pd.DataFrame]:
        """The table that an option names, and where it lies; see `read_table`."""
        file = self.base / path
        with self.place.at(option):
            return file, read_table(file, text)

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
        _, frame = self.read("path", path, [each.name for each in columns if each.values])
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
