"""The terminal, notebook or pipe that a run writes to, and its progress bars."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


class Screen(Console):
    """A console that leaves lines whole where no terminal shows them, so that they can be searched.

    Tables keep their layout; numbers, `:names:` and brackets stay as they are.

    Args:
        stderr: whether it writes to the stream for errors.
        quiet: whether it shows nothing at all.
    """

    def __init__(self, stderr: bool = False, quiet: bool = False) -> None:
        super().__init__(stderr=stderr, quiet=quiet, highlight=False, emoji=False)

    @property
    def shows_bars(self) -> bool:
        """Whether a bar that moves can be shown; a notebook needs ipywidgets for that."""
        if self.quiet:
            return False
        return self.is_terminal or (self.is_jupyter and find_spec("ipywidgets") is not None)

    def print(self, *objects: Any, **options: Any) -> None:
        if not self.file.isatty() and all(isinstance(text, str) for text in objects):
            options.setdefault("soft_wrap", True)
        super().print(*objects, **options)

    def say(self, text: str) -> None:
        """Print text as it is, whatever brackets it holds."""
        self.print(plain(text))

    def progress(self, *columns: ProgressColumn, task: str = "") -> Progress:
        """A progress bar; where none can be shown, the name of the task in a line.

        Args:
            columns: of the bar; description, bar, count and times by default.
            task: its name; "" for no line.
        """
        if task and not self.shows_bars:
            self.say(f"{task} ...")
        text = TextColumn("{task.description}", markup=False)
        times = (TimeElapsedColumn(), TimeRemainingColumn())
        usual = (text, BarColumn(), MofNCompleteColumn(), *times)
        disable = not self.shows_bars
        return Progress(*(columns or usual), console=self, transient=True, disable=disable)


def plain(text: str) -> str:
    """Text that rich prints as it is, without interpreting it."""
    return escape(text)
