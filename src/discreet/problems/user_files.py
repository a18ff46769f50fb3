"""The files that options of a problem name, and where in a study messages about them belong."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from discreet.problems.columns import Column
from discreet.problems.table_files import read_table
from discreet.problems.toml_lines import Location
from discreet.problems.toml_words import Place


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
