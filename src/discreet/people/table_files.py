"""Tables in files: CSV as programs write it in different countries, or Parquet.

`read_table` is the one reader of tables that users bring. What it decides, it decides by the file:

| what           | how                                                                           |
|----------------|-------------------------------------------------------------------------------|
| separator      | of comma, semicolon, tab and vertical bar the one most frequent in the header |
| decimal commas | read where the separator is a semicolon; refused where points are used too    |
| encoding       | UTF-8 (with or without a mark), UTF-16 with a mark, otherwise Windows-1252    |
| column names   | as written, without blanks around them; a name that occurs twice stays twice  |

Windows-1252 holds Latin-1. A file in another alphabet is not recognised; its labels then differ
from those that are declared, and are refused. Nothing here looks at which values occur beyond that.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import warnings
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from discreet.validation import InvalidInput

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
        """What is wrong where a line has more fields than the header."""
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
