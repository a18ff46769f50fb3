"""What all commands share: where they print, how they refuse, options that several have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from discreet.records import check_path
from discreet.validation import InvalidInput

Result = TypeVar("Result")

out = Console()
err = Console(stderr=True)

DataOption = Annotated[
    Path | None,
    typer.Option("--data", help="Folder with data files that pip does not install (ADULT)."),
]
JobsOption = Annotated[int | None, typer.Option(min=1, help="Processes; all cores if left out.")]
PlotOption = Annotated[Path | None, typer.Option(help="File for the figure (.png).")]
MethodOption = Annotated[
    list[str] | None,
    typer.Option("--method", help="Only this method, such as ours; may be given several times."),
]
OnlyOption = Annotated[
    list[str] | None,
    typer.Option("--only", help="Only this data set; may be given several times."),
]
RecordsOption = Annotated[
    Path | None,
    typer.Option("--json", help="File for one record per line (.jsonl), or .parquet."),
]


@contextmanager
def refusing() -> Iterator[None]:
    """Turn refused input into a message and exit code 2."""
    try:
        yield
    except InvalidInput as error:
        err.print(f"[bold red]Refused:[/] {plain(str(error))}", highlight=False)
        raise typer.Exit(2) from error
    except OSError as error:
        err.print(f"[bold red]Refused:[/] {plain(str(error))}", highlight=False)
        raise typer.Exit(2) from error
    except (MemoryError, OverflowError) as error:
        err.print(
            "[bold red]Refused:[/] the study is too large for this machine; ask for fewer rounds, "
            "arms or columns.",
            highlight=False,
        )
        raise typer.Exit(2) from error


def plain(text: str) -> str:
    """Text that rich shall print as it is, not interpret."""
    return escape(text)


def check_ending(path: Path | None, *endings: str) -> None:
    """Refuse a file that could not be written, or whose name promises another format."""
    if path is None:
        return
    if path.suffix not in endings:
        raise InvalidInput(f"{path} must end in {' or '.join(endings)}; name it so.")
    check_path(path)


def cores() -> int:
    import joblib

    return int(joblib.cpu_count())


def progress() -> Progress:
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=err,
        transient=True,
    )


def collected(
    stream: Iterator[Result], total: int, name: Callable[[Result], str], task: str = "Reproducing"
) -> tuple[list[Result], bool]:
    """What a stream gave until it ended or Ctrl-C was pressed, and whether it is all there."""
    done: list[Result] = []
    with progress() as bar:
        shown = bar.add_task(task, total=total)
        try:
            for one in stream:
                done.append(one)
                bar.update(shown, advance=1, description=name(one))
        except KeyboardInterrupt:
            return done, False
    return done, True
