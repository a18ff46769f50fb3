"""Tables: CSV or Parquet files, read and encoded as contexts with publicly declared bounds.

`read_table` is the one reader of tables that users bring. It decides by the file:

| decision       | rule                                                                          |
|----------------|-------------------------------------------------------------------------------|
| separator      | of comma, semicolon, tab and vertical bar the one most frequent in the header |
| decimal commas | read where the separator is a semicolon; refused where points are used too    |
| encoding       | UTF-8 (with or without a mark), UTF-16 with a mark, otherwise Windows-1252    |
| column names   | as written, without blanks around them; a name that occurs twice stays twice  |

Windows-1252 holds Latin-1. A file in another alphabet is not recognised; its labels then differ
from those declared, and are refused. Reading looks at no values beyond that.

`encode_columns` applies a `Column` (columns.py) to every row; all columns that do not fit are named
at once.

| array    | shape  | meaning                                                   |
|----------|--------|-----------------------------------------------------------|
| values   | (n, d) | numbers or label codes; NaN where a rule leaves a row out |
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import math
import re
import warnings
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from discreet.people.columns import (
    UNKNOWN,
    Column,
    MissingRule,
    label_places,
    label_text,
    with_indicators,
)
from discreet.validation import (
    BoolArray,
    ErrorCollector,
    FloatArray,
    IntArray,
    InvalidInput,
    nearest,
)

MISSING_MARKS = frozenset({"", "?", "NA", "N/A", "NaN", "nan", "NULL", "null", "None", "<NA>"})
"""Text that stands for a missing value, unless a column declares it as one of its `values`."""

DATES, TEXT = "dates", "text"
WITH_COMMAS = ("numbers with a separator of thousands", "numbers with a decimal comma")
# Texts that are no numbers: what they look like, by which pattern, and what to do about it.
_NOT_NUMBERS = tuple(
    (kind, re.compile(pattern), advice)
    for kind, pattern, advice in (
        (
            WITH_COMMAS[0],
            r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?",
            "Write numbers without a separator of thousands: 1234, not 1,234.",
        ),
        (
            WITH_COMMAS[1],
            r"[+-]?\d*,\d+|[+-]?\d{1,3}(\.\d{3})+(,\d+)?",
            "Write numbers with a decimal point and no separator of thousands, or separate the "
            "columns by semicolons; then decimal commas are read.",
        ),
        (
            "percentages",
            r"[+-]?[\d.,]+ ?%",
            "Write percentages as plain numbers: 5 or 0.05, not 5%.",
        ),
        (
            DATES,
            r"\d{4}-\d{1,2}-\d{1,2}.*|\d{1,2}[./]\d{1,2}[./]\d{2,4}.*",
            "Convert dates to numbers, for example to the days since a fixed one.",
        ),
        (
            TEXT,
            r"(?s).*",
            "Declare its labels, as values = [...] or for an outcome as classes = [...], or clean "
            "the column first.",
        ),
    )
)
# A larger share of values than this is hardly beyond bounds by nature.
_MANY_CLIPPED = 0.2
# A larger share of rows than this that are left out is worth a warning.
_MANY_DROPPED = 0.1
# More names than these are not listed one by one.
_MANY = 30

Counts = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class RowCounts:
    """The number of rows of a table that are used, and why others are not.

    Attributes:
        read: the rows of the table.
        used: those that take part.
        lacking: columns without a value in some rows, and in how many.
        outside: columns with a number beyond their bounds, or a label that is not declared, because
            of which rows are left out, and how many. A row counts for every such column.
        people: whose visits these are, where people come more than once.
        clipped: columns with values that were moved to the nearest bound, and how many.
    """

    read: int
    used: int
    lacking: Counts = ()
    outside: Counts = ()
    people: int | None = None
    clipped: Counts = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """Many rows that are left out, and columns whose bounds may be in other units than their
        values; a sentence each."""
        gone = self.read - self.used
        dropped = (
            f"{gone:,} of {self.read:,} rows ({100.0 * gone / max(self.read, 1):.0f}%) are left "
            f"out: {', '.join(self._reasons)}. Who is left may differ from who is not; "
            'missing = "unknown" keeps people who lack a context column.'
        )
        units = tuple(
            f"{count:,} of {self.read:,} values of column {name!r} lie beyond its declared bounds "
            "and count as the nearest: are both in the same units?"
            for name, count in self.clipped
            if count > _MANY_CLIPPED * self.read
        )
        return (dropped, *units) if gone > _MANY_DROPPED * self.read else units

    def check_any(self) -> None:
        """`InvalidInput` where no row is left."""
        if self.used == 0:
            raise InvalidInput(
                f"no row is left: {self.sentence}. Check the declared bounds, labels and rules."
            )

    @property
    def sentence(self) -> str:
        """The counts in words."""
        whose = "" if self.people is None else f", visits of {self.people:,} people"
        return self._rows + whose

    @property
    def _rows(self) -> str:
        if self.used == self.read:
            return f"All {self.read:,} rows"
        text = f"{self.used:,} of {self.read:,} rows; {', '.join(self._reasons)}"
        counted = sum(count for _, count in self.lacking + self.outside)
        several = " (some rows count for several columns)"
        return text + several if counted > self.read - self.used else text

    @property
    def _reasons(self) -> list[str]:
        """Why rows are left out, a few words for each column."""
        reasons = [f"{n:,} lack{'s' if n == 1 else ''} {name}" for name, n in self.lacking]
        return reasons + [f"{n:,} outside the declared {name}" for name, n in self.outside]


def encode_columns(
    frame: pd.DataFrame,
    columns: Sequence[Column],
    may_drop: bool = True,
    starts: Mapping[str, str] | None = None,
) -> tuple[FloatArray, RowCounts]:
    """Every row of the table as numbers (n, d), NaN where a rule leaves it out, and how many stay.

    The columns of numbers are those of `with_indicators`.

    Args:
        frame: the table.
        columns: what is declared about it.
        may_drop: whether messages may advise to leave rows out.
        starts: how messages about a column begin, by its name, such as with where it is declared.

    Raises:
        InvalidInput: naming every column that is not there or whose values its rules refuse.
    """
    values = np.empty((len(frame), len(with_indicators(columns))), dtype=np.float64)
    place = 0
    lacking: dict[str, int] = {}
    outside: dict[str, int] = {}
    clipped: dict[str, int] = {}
    refusals = ErrorCollector()
    for column in columns:
        with refusals.collected((starts or {}).get(column.name, "")):
            series = column_of(frame, column.name)
            read = _labels if column.values and column.thresholds is None else _numbers
            codes, absent, *gone = read(series, column, may_drop)
            behind = column.indicated(codes)
            values[:, place + 1 : place + 1 + behind.shape[1]] = behind
            if column.missing == UNKNOWN:
                codes[absent] = column.if_unknown
                absent = np.zeros_like(absent)
            values[:, place] = codes
            for counts, rows in zip((lacking, outside, clipped), (absent, *gone), strict=True):
                counts |= {column.name: int(rows.sum())} if rows.any() else {}
        place += 1 + len(column.indicator_names)
    refusals.raise_if_any()
    counted = [tuple(counts.items()) for counts in (lacking, outside, clipped)]
    used = int(kept_rows(values).sum())
    return values, RowCounts(len(frame), used, counted[0], counted[1], clipped=counted[2])


def kept_rows(values: FloatArray) -> BoolArray:
    """(n,) the rows of an encoded table that no rule leaves out."""
    return np.logical_not(np.isnan(values).any(axis=1))


def column_of(frame: pd.DataFrame, name: str) -> pd.Series[Any]:
    """The column called `name`; `InvalidInput` listing those which exist when it is not there."""
    count = int((frame.columns == name).sum())
    if count == 1:
        return frame[name]
    names = [str(column) for column in frame.columns]
    existing = _listed(names)
    if count:
        raise InvalidInput(
            f"column {name!r} occurs {count} times in the table, which has: {existing}. Give each "
            "its own name in the table's header."
        )
    garbled = "" if existing.isascii() else " (If names look garbled, save the table as UTF-8.)"
    raise InvalidInput(
        f"column {name!r} is not in the table, which has: {existing}. Name one of these."
        f"{nearest(name, names)}{garbled}"
    )


def person_numbers(series: pd.Series[Any]) -> IntArray:
    """Person numbers (n,) from a column of ids.

    Raises:
        InvalidInput: for ids that are missing, or neither texts nor whole numbers.
    """
    absent = missing_rows(series)
    if absent.any():
        raise InvalidInput(
            f"column {series.name!r} says who a person is and is empty in "
            f"{int(absent.sum())} of {len(absent)} rows, first in {sheet_row(np.argmax(absent))}; "
            "without an id visits cannot be counted. Give each row one."
        )
    texts = np.array([label_text(value) for value in series.tolist()])
    kinds = series.dtype.kind
    if kinds in "Mmcb" or (kinds == "f" and not (series == np.floor(series)).all()):
        raise InvalidInput(
            f"column {series.name!r} holds {series.dtype} values; ids of people are texts or whole "
            "numbers."
        )
    _, numbers = np.unique(texts, return_inverse=True)
    return numbers.astype(np.int64)


def numbers_of(series: pd.Series[Any], missing: MissingRule, may_drop: bool = True) -> FloatArray:
    """A numeric column (n,) with NaN for rows left out.

    Args:
        series: the column.
        missing: whether a row without a value is refused or left out.
        may_drop: whether messages may advise to leave rows out.

    Raises:
        InvalidInput: for text, dates, and missing values that are not to be left out.
    """
    if series.dtype.kind in "Mmc":
        raise InvalidInput(
            f"column {series.name!r} holds {series.dtype} values; convert it to plain numbers, "
            "dates for example to the days since a fixed one."
        )
    absent = missing_rows(series)
    numbers = pd.to_numeric(series.mask(absent), errors="coerce")
    array: FloatArray = numbers.to_numpy(dtype=np.float64, na_value=math.nan)
    unreadable = np.isnan(array) & ~absent
    if unreadable.any():
        first = str(series.iloc[int(np.argmax(unreadable))]).strip()
        raise InvalidInput(
            f"column {series.name!r} held text in {_where(unreadable, series)}; it must hold "
            f"numbers. {looks_like(first)[1]}"
        )
    _refuse_missing(absent, missing, series, may_drop)
    return array


def looks_like(text: str) -> tuple[str, str]:
    """The kind of a text that is no number, and advice to convert it."""
    return next((kind, advice) for kind, pattern, advice in _NOT_NUMBERS if pattern.fullmatch(text))


Read = tuple[FloatArray, BoolArray, BoolArray, BoolArray]
"""(n,) values with NaN for rows left out; which are missing, left out as outside, or clipped."""


def _numbers(series: pd.Series[Any], column: Column, may_drop: bool) -> Read:
    """Numbers within bounds, or the brackets between thresholds."""
    rule: MissingRule = "drop" if column.missing == UNKNOWN else column.missing
    values = numbers_of(series, rule, may_drop)
    absent = np.isnan(values)
    if column.thresholds is not None:
        codes = np.where(absent, math.nan, np.digitize(values, column.thresholds))
        return codes, absent, np.zeros_like(absent), np.zeros_like(absent)
    outside = (values < column.lower) | (values > column.upper)
    if column.outside == "error" and outside.any():
        drop = ', or outside = "drop" to leave those people out' if may_drop else ""
        raise InvalidInput(
            f"column {column.name!r} was outside its declared bounds [{column.lower:g}, "
            f"{column.upper:g}] in {_where(outside, series)}. Declare wider bounds, or set "
            f'outside = "clip" to move such values to the nearest bound{drop}.'
        )
    clipped = np.zeros_like(outside)
    if column.outside == "clip":
        clipped, outside = outside, clipped
        values = np.clip(values, column.lower, column.upper)
    values = np.where(outside, math.nan, values)
    if column.levels is not None:
        steps = (values - column.lower) / (column.upper - column.lower) * (column.levels - 1)
        between = np.abs(steps - np.round(steps)) > 1e-6
        if between.any():
            raise InvalidInput(
                f"column {column.name!r} lay between two of its {column.levels} declared levels "
                f"from {column.lower:g} to {column.upper:g} in {_where(between, series)}. Correct "
                "levels, or leave levels out for a continuous column."
            )
    return values, absent, outside, clipped


def _labels(series: pd.Series[Any], column: Column, may_drop: bool) -> Read:
    texts = [label_text(value) for value in series.tolist()]
    codes = np.array(list(map(label_places(column.values), texts)))
    # A declared label such as "None" is a label, even where it also marks a missing value.
    absent = missing_rows(series) & np.isnan(codes)
    unknown = np.isnan(codes) & ~absent
    if column.outside == "error" and unknown.any():
        declared = _listed(column.values)
        drop = ', or set outside = "drop" to leave those people out' if may_drop else ""
        garbled = (
            "" if all(map(str.isascii, texts)) else " If it looks garbled, save the table as UTF-8."
        )
        raise InvalidInput(
            f"column {column.name!r} had a label that is not declared in "
            f"{_where(unknown, series)}; declared are: {declared}. Add the label{drop}.{garbled}"
        )
    rule: MissingRule = "drop" if column.missing == UNKNOWN else column.missing
    _refuse_missing(absent, rule, series, may_drop)
    return codes, absent, unknown, np.zeros_like(absent)


def _refuse_missing(
    absent: BoolArray, rule: MissingRule, series: pd.Series[Any], may_drop: bool
) -> None:
    if rule == "drop" or not absent.any():
        return
    if absent.all():
        raise InvalidInput(f"column {series.name!r} is empty in all rows; leave the column out.")
    advice = (
        'set missing = "drop" to leave those people out, or "unknown" to keep them (columns only)'
        if may_drop
        else "set missing to what an empty value counts as, chosen without looking at the data"
    )
    raise InvalidInput(
        f"column {series.name!r} had no value in {int(absent.sum())} of {len(absent)} rows, first "
        f"in {sheet_row(np.argmax(absent))}; {advice}, or fill the gaps by a "
        "rule that is public."
    )


def missing_rows(series: pd.Series[Any]) -> BoolArray:
    """(n,) where a column has no value, or a mark that stands for none."""
    absent: BoolArray = series.isna().to_numpy(dtype=np.bool_)
    if series.dtype.kind in "biuf":
        return absent
    marks = [isinstance(value, str) and value.strip() in MISSING_MARKS for value in series]
    return absent | np.array(marks, dtype=np.bool_)


def _where(bad: BoolArray, series: pd.Series[Any]) -> str:
    first = int(np.argmax(bad))
    return (
        f"{int(bad.sum())} of {len(bad)} rows, first {series.iloc[first]!s:.80} in "
        f"{sheet_row(first)}"
    )


def sheet_row(place: Any) -> str:
    """A row of a table, from its place among the people, as a spreadsheet counts rows."""
    return f"row {int(place) + 2} (the header is row 1)"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_MANY]) + (", ..." if len(names) > _MANY else "")


CSV_ENDINGS = (".csv", ".csv.gz")
PARQUET_ENDINGS = (".parquet", ".pq")

_UNREADABLE = (OSError, ValueError, EOFError, NotImplementedError, zlib.error)
_SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "vertical bar"}
_DECIMAL_COMMA = re.compile(r"^\s*([+-]?\d+),(\d+(?:[eE][+-]?\d+)?)\s*$")
# Since 3.1 pandas reads numbers to the last digit without being asked, and warns who asks.
_OLD_PANDAS = tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1)
_EXACTLY: dict[str, Any] = {"float_precision": "round_trip"} if _OLD_PANDAS else {}


def read_table(path: str | Path, text_columns: Iterable[str] = ()) -> pd.DataFrame:
    """The table in a `.csv`, `.csv.gz`, `.parquet` or `.pq` file; see the module.

    Numbers are read to the last digit. Only empty fields of CSV are missing; other marks, such as
    `NA`, stay text, because a column may declare them as labels.

    Args:
        path: the file; its ending says how it is read.
        text_columns: columns of a CSV file that hold labels or ids and are not to be read as
            numbers (so that the label `01` stays apart from `1`).

    Raises:
        InvalidInput: when the file is not there, cannot be read or has no rows.
    """
    file = Path(path)
    name = file.name.lower()
    if not name.endswith(CSV_ENDINGS + PARQUET_ENDINGS):
        raise InvalidInput(
            f"the table was {str(file)!r}; its name must end in .csv, .csv.gz or .parquet. "
            "Convert or rename the file."
        )
    if not file.is_file():
        raise InvalidInput(f"the table {str(file)!r} is not a file that exists; check the path.")
    if name.endswith(PARQUET_ENDINGS):
        frame = _read_parquet(file)
    else:
        frame = _Csv.open(file).frame(frozenset(text_columns))
    if frame.empty:
        raise InvalidInput(f"the table {str(file)!r} has no rows; give a table with people in it.")
    return frame


def read_csv(file: Path, **settings: Any) -> pd.DataFrame:
    """A CSV file of a known format, such as one that a paper's authors published.

    A first column is never taken for row names, which would shift every other column; a line with
    more fields than the header is refused.

    Raises:
        InvalidInput: with the reason why it could not be read.
    """
    try:
        return _parsed(file, settings)
    except (*_UNREADABLE, pd.errors.ParserWarning) as error:
        raise _unreadable(file, "CSV", error) from error


def _parsed(source: Any, settings: dict[str, Any]) -> pd.DataFrame:
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        frame: pd.DataFrame = pd.read_csv(
            source,
            index_col=False,
            skipinitialspace=True,
            keep_default_na=False,
            na_values=[""],
            low_memory=False,
            **_EXACTLY,
            **settings,
        )
    return frame


@dataclass(frozen=True)
class _Csv:
    """A CSV file in memory, and how it is written."""

    file: Path
    content: bytes
    encoding: str
    separator: str
    header: tuple[str, ...]

    @classmethod
    def open(cls, file: Path) -> _Csv:
        try:
            content = _content(file)
            if file.name.lower().endswith(".gz"):
                content = gzip.decompress(content)
        except _UNREADABLE as error:
            raise _unreadable(file, "CSV", error) from error
        encoding = _encoding(file, content)
        with io.TextIOWrapper(io.BytesIO(content), encoding) as lines:
            first = next((line for line in lines if line.strip()), "")
        if not first:
            raise InvalidInput(f"the table {str(file)!r} is empty; give a table with a header.")
        separator = _separator(first)
        _, header = next(_records(file, content, encoding, separator))
        names = tuple(name.strip() for name in header)
        return cls(file, content, encoding, separator, names)

    def frame(self, text_columns: frozenset[str]) -> pd.DataFrame:
        """The rows under the names of the header as they stand there."""
        labels = [place for place, name in enumerate(self.header) if name in text_columns]
        frame = self._parsed(labels)
        if self.separator == ";":
            self._read_decimal_commas(frame, labels)
        # Given to pandas, names that occur twice would be numbered, which hides that they do.
        frame.columns = pd.Index(self.header)
        return frame

    def _parsed(self, labels: list[int]) -> pd.DataFrame:
        settings = {
            "encoding": self.encoding,
            "sep": self.separator,
            "header": 0,
            "names": range(len(self.header)),
            "dtype": dict.fromkeys(labels, str),
        }
        try:
            return _parsed(io.BytesIO(self.content), settings)
        except (*_UNREADABLE, pd.errors.ParserWarning) as error:
            raise self._longer_line() or _unreadable(self.file, "CSV", error) from error

    def _longer_line(self) -> InvalidInput | None:
        """The error for a line with more fields than the header."""
        wanted = len(self.header)
        for line, fields in _records(self.file, self.content, self.encoding, self.separator):
            if any(field.strip() for field in fields[wanted:]):
                name = _SEPARATORS[self.separator]
                return InvalidInput(
                    f"the table {str(self.file)!r} has {len(fields)} fields in line {line} and "
                    f"{wanted} in its header; put quotation marks around text that holds a "
                    f"{name}, and name every column."
                )
        return None

    def _read_decimal_commas(self, frame: pd.DataFrame, labels: list[int]) -> None:
        """Put a point for the comma of numbers; `InvalidInput` where others have a point."""
        places = range(len(self.header))
        numbers = [place for place in places if frame[place].dtype.kind == "f"]
        commas = [place for place in places if place not in labels and _has_commas(frame[place])]
        if not commas:
            return
        written = self._parsed(numbers)
        for place in numbers:
            pointed = written[place].dropna()
            pointed = pointed[pointed.str.contains(".", regex=False)]
            if not pointed.empty:
                raise InvalidInput(
                    f"the table {str(self.file)!r} has decimal commas in column "
                    f"{self.header[commas[0]]!r} and the number {pointed.iloc[0]} in column "
                    f"{self.header[place]!r}, whose point may separate thousands; write all "
                    "numbers in one way."
                )
        for place in commas:
            frame[place] = frame[place].str.replace(_DECIMAL_COMMA, r"\1.\2", regex=True)


def _records(
    file: Path, content: bytes, encoding: str, separator: str
) -> Iterator[tuple[int, list[str]]]:
    """The lines that are not empty as lists of fields, each with the number it ends at."""
    with io.TextIOWrapper(io.BytesIO(content), encoding, newline="") as lines:
        reader = csv.reader(lines, delimiter=separator, skipinitialspace=True)
        try:
            yield from ((reader.line_num, fields) for fields in reader if fields)
        except csv.Error as error:
            raise _unreadable(file, "CSV", error) from error


def _has_commas(series: pd.Series[Any]) -> bool:
    """Whether a column holds text with commas, all of them in numbers."""
    if series.dtype.kind in "biuf":
        return False
    texts = series.dropna().astype(str)
    texts = texts[texts.str.contains(",", regex=False)]
    return not texts.empty and bool(texts.str.fullmatch(_DECIMAL_COMMA).all())


def _encoding(file: Path, content: bytes) -> str:
    """The encoding of a text file; `InvalidInput` for one that holds no text."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if b"\0" in content:
        raise InvalidInput(
            f"the table {str(file)!r} holds no text, whatever its name says; open it in the "
            "program that made it and export it as CSV."
        )
    for encoding in ("utf-8-sig", "cp1252"):
        try:
            content.decode(encoding)
        except UnicodeDecodeError:
            continue
        return encoding
    return "latin-1"


def _separator(header: str) -> str:
    """The separator that a header has most of outside quotation marks."""
    bare = re.sub(r'"[^"]*"', "", header)
    return max(_SEPARATORS, key=bare.count)


def _read_parquet(file: Path) -> pd.DataFrame:
    try:
        return pd.read_parquet(file, engine="pyarrow")
    except ImportError as error:
        raise InvalidInput(
            f"the table {str(file)!r} is a Parquet file and pyarrow is not installed; run "
            'pip install "discreet[parquet]", or convert the file to CSV.'
        ) from error
    except _UNREADABLE as error:
        raise _unreadable(file, "Parquet", error) from error


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise InvalidInput(
            f"the table {str(file)!r} cannot be read ({error.strerror}); check that you may read "
            "it."
        ) from error


def _unreadable(file: Path, kind: str, error: BaseException) -> InvalidInput:
    reason = str(error).strip() or type(error).__name__
    return InvalidInput(
        f"the table {str(file)!r} could not be read as {kind} ({reason}); repair the file or "
        "write it again."
    )
