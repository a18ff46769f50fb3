"""Shared by all commands: screens, errors, common options, and output files.

An option may point to a user's data by mistake. So a command refuses to overwrite a file that it
reads, through any link, and any file that discreet did not write. Empty files may be overwritten.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.cli import STOPPED, stop_of
from discreet.lab.results.screen import Screen, plain
from discreet.records import Record, check_path, holds_records, write_records
from discreet.validation import ErrorCollector, InvalidInput

if TYPE_CHECKING:
    from matplotlib.figure import Figure

out = Screen()
err = Screen(stderr=True)

DataOption = Annotated[
    Path | None,
    typer.Option("--data", help="Folder with data files that pip does not install (ADULT)."),
]
JobsOption = Annotated[int | None, typer.Option(min=1, help="Processes; all cores if left out.")]


class EngineName(StrEnum):
    """What shares the work."""

    processes = "processes"
    dask = "dask"
    ray = "ray"
    spark = "spark"


EngineOption = Annotated[EngineName, typer.Option(help="What shares the work.")]
AddressOption = Annotated[
    str | None, typer.Option(help="Address of a running cluster, in the engine's form.")
]
PlotOption = Annotated[Path | None, typer.Option(help="File for the figure (.png).")]
RecordsOption = Annotated[
    Path | None,
    typer.Option("--json", help="File for one record per line (.jsonl), or .parquet."),
]


@contextmanager
def reporting_errors() -> Iterator[None]:
    """Turn refused input into a message and exit code 2, and a stop into its exit code."""
    try:
        yield
    except (InvalidInput, OSError) as error:
        text = str(error)
        if isinstance(error, OSError) and error.filename is not None:
            text = (
                f"{str(error.filename)!r:.200} cannot be read or written ({error.strerror}); check "
                "the path, and that you may."
            )
        err.print(f"[bold red]Refused:[/] {plain(text)}")
        raise typer.Exit(2) from error
    except (MemoryError, OverflowError) as error:
        err.print(
            "[bold red]Refused:[/] the study is too large for this machine; ask for fewer rounds, "
            "arms or columns."
        )
        raise typer.Exit(2) from error
    except STOPPED as error:
        err.print(f"{stop_of(error).word}.")
        raise typer.Exit(stop_of(error).code) from error


def cores() -> int:
    import joblib

    return int(joblib.cpu_count())


@contextmanager
def shared(engine: EngineName, workers: int, address: str | None) -> Iterator[None]:
    """Let an engine share the work of the block; its warnings are printed."""
    from discreet.parallel import running_on

    with warnings.catch_warnings(), running_on(engine.value, workers, address):
        warnings.showwarning = lambda message, *_: err.say(f"Warning: {message}")
        yield


# Files.

_HEAD = 4096  # bytes that hold the generator of a page or a figure


@dataclass(frozen=True)
class Kind:
    """A kind of output file.

    Attributes:
        name: of the content.
        endings: of the file's name; () for any.
        wrote: whether discreet wrote an existing file.
        otherwise: advice where another file lies there.
    """

    name: str
    endings: tuple[str, ...]
    wrote: Callable[[Path], bool]
    otherwise: str = "name another file, or move that one away"


def _is_page(path: Path) -> bool:
    return b'<meta name="generator" content="discreet ' in _head(path)


def _is_figure(path: Path) -> bool:
    head = _head(path)
    return head.startswith(b"\x89PNG") and b"Software\0discreet " in head


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_HEAD)


TABLE_ENDINGS = (".csv", ".csv.gz", ".parquet", ".pq")
RECORDS = Kind("records of discreet", (".jsonl", ".json", ".parquet"), holds_records)
PAGE = Kind("a report of discreet", (".html",), _is_page)
FIGURE = Kind("a figure of discreet", (".png",), _is_figure)


def table_of(columns: tuple[str, ...]) -> Kind:
    """Tables with just these columns."""

    def wrote(path: Path) -> bool:
        from discreet.outsourcing.exchange import has_columns

        return has_columns(path, columns)

    return Kind(f"a file with the columns {', '.join(columns)}", TABLE_ENDINGS, wrote)


def check_outputs(outputs: Sequence[tuple[Path | None, Kind]], inputs: Iterable[Path] = ()) -> None:
    """Reject outputs that cannot be written or would replace other files.

    Args:
        outputs: each file (None: not requested) and its kind.
        inputs: the files that the command reads.

    Raises:
        InvalidInput: another ending, a folder that is missing or cannot be written to, an input,
            one file for two outputs, or a file that discreet did not write.
    """
    wanted = [(path, kind) for path, kind in outputs if path is not None]
    read, errors = list(inputs), ErrorCollector()
    for place, (path, kind) in enumerate(wanted):
        with errors.collected():
            _check_output(path, kind, read, [other for other, _ in wanted[:place]])
    errors.raise_if_any()


def _check_output(path: Path, kind: Kind, read: Sequence[Path], others: Sequence[Path]) -> None:
    """Refuse one of several outputs."""
    if kind.endings and not "".join(path.suffixes).endswith(kind.endings):
        raise InvalidInput(f"{path} must end in {' or '.join(kind.endings)}; name it so.")
    check_path(path)
    for source in read:
        if _same(path, source):
            raise InvalidInput(
                f"{path} is the file {source}, which this command reads; name another file for "
                "the result."
            )
    for other in others:
        if _same(path, other):
            raise InvalidInput(f"{path} and {other} are one file; give each its own name.")
    if not _may_replace(path, kind):
        raise InvalidInput(
            f"{path} exists and is not {kind.name}, so it is left as it is; {kind.otherwise}."
        )


def _same(path: Path, other: Path) -> bool:
    if path.exists() and other.exists():
        return os.path.samefile(path, other)
    return os.path.realpath(path) == os.path.realpath(other)


def _may_replace(path: Path, kind: Kind) -> bool:
    if not path.exists():
        return True
    if not path.is_file():
        return False
    try:
        return path.stat().st_size == 0 or kind.wrote(path)
    except OSError:
        return False


def write_results(
    json: Path | None,
    records: Iterable[Record],
    plot: Path | None = None,
    figure: Callable[[], Figure] | None = None,
) -> None:
    """Write the requested records and figure, and print their paths."""
    check_outputs([(json, RECORDS), (plot, FIGURE)])
    if json is not None:
        write_records(records, json)
        out.say(f"Records: {json}")
    if plot is not None and figure is not None:
        from discreet.lab.reporting.layout import save_figure

        save_figure(figure(), plot)
        out.say(f"Figure:  {plot}")
