"""What all commands share: where they print, how they refuse, options that several have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from discreet.cli.stopping import STOPPED, Stop, stop_of
from discreet.validation import InvalidInput

Result = TypeVar("Result")


class _Console(Console):
    """A console that leaves lines whole where no terminal shows them, so that they can be searched.

    Tables keep their layout; neither numbers nor `:names:` are dressed up.
    """

    def __init__(self, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, highlight=False, emoji=False)

    def print(self, *objects: Any, **options: Any) -> None:
        if not self.file.isatty() and all(isinstance(text, str) for text in objects):
            options.setdefault("soft_wrap", True)
        super().print(*objects, **options)


out = _Console()
err = _Console(stderr=True)

DataOption = Annotated[
    Path | None,
    typer.Option("--data", help="Folder with data files that pip does not install (ADULT)."),
]
JobsOption = Annotated[int | None, typer.Option(min=1, help="Processes; all cores if left out.")]
PlotOption = Annotated[Path | None, typer.Option(help="File for the figure (.png).")]
RecordsOption = Annotated[
    Path | None,
    typer.Option("--json", help="File for one record per line (.jsonl), or .parquet."),
]


@contextmanager
def refusing() -> Iterator[None]:
    """Turn refused input into a message and exit code 2, and a stop into one and its code."""
    try:
        yield
    except (InvalidInput, OSError) as error:
        err.print(f"[bold red]Refused:[/] {plain(str(error))}")
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


def plain(text: str) -> str:
    """Text that rich prints as it is, without interpreting it."""
    return escape(text)


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
        disable=not err.is_terminal,  # it would leave an empty line there
    )


def collected(
    stream: Iterator[Result], total: int, name: Callable[[Result], str], task: str = "Reproducing"
) -> tuple[list[Result], Stop | None]:
    """What a stream gave until it ended or was stopped, and how it was stopped."""
    done: list[Result] = []
    with progress() as bar:
        shown = bar.add_task(task, total=total)
        try:
            for result in stream:
                done.append(result)
                bar.update(shown, advance=1, description=name(result))
        except STOPPED as error:
            return done, stop_of(error)
    return done, None


def exit_if_empty(done: int, stop: Stop | None) -> None:
    """End a stopped command that has nothing to show."""
    if stop is not None and not done:
        err.print(f"{stop.word} before anything was finished; nothing was written.")
        raise typer.Exit(stop.code)


def exit_if_stopped(done: int, total: int, stop: Stop | None) -> None:
    """End a stopped command that has shown what was finished."""
    if stop is not None:
        err.print(f"{stop.word}: this is what was finished ({done} of {total} runs).")
        raise typer.Exit(stop.code)
