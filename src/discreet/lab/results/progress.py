"""Progress bars on terminals and in notebooks, lines of text elsewhere."""

from __future__ import annotations

from threading import Event, Thread
from types import TracebackType
from typing import Self

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from discreet.lab.reporting.numbers import about_time
from discreet.lab.results.screen import Screen

SECONDS = 10.0
"""Between lines."""


class ShownProgress(Progress):
    """A progress bar of one task; where no bar can be shown, a line every ten seconds.

    Args:
        columns: of the bar, left of the time; count and bar by default.
        screen: where it is shown.
        task: printed at once where no bar can be shown; "" for nothing.
        seconds: between lines.
    """

    def __init__(
        self,
        *columns: ProgressColumn,
        screen: Screen,
        task: str = "",
        seconds: float = SECONDS,
    ) -> None:
        text = TextColumn("{task.description}", markup=False)
        usual = (text, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        super().__init__(
            *(columns or (*usual, TimeRemainingColumn())),
            console=screen,
            transient=True,
            disable=not screen.shows_bars,
        )
        self._screen, self._task, self._seconds = screen, task, seconds
        self._over = Event()
        self._thread = Thread(target=self._print_lines, daemon=True)

    def __enter__(self) -> Self:
        super().__enter__()
        if not self._screen.shows_bars and not self._screen.quiet:
            if self._task:
                self._screen.say(f"{self._task} ...")
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join()
        super().__exit__(kind, error, trace)

    def words(self) -> str:
        """The progress as a line; "" without an unfinished task."""
        if not self.tasks or self.finished:
            return ""
        task = self.tasks[0]
        seconds = f"{task.elapsed or 0.0:,.0f} s so far"
        if not task.total:
            return f"{task.description}: {seconds}"
        text = f"{task.completed:,.0f} of {task.total:,.0f} done ({task.percentage:.0f}%)"
        if not task.completed:
            return f"{task.description}: {text}, {seconds}"
        left = (task.elapsed or 0.0) * task.remaining / task.completed if task.remaining else 0.0
        return f"{task.description}: {text}, {about_time(left)} left"

    def _print_lines(self) -> None:
        while not self._over.wait(self._seconds):
            text = self.words()
            if text:
                self._screen.say(text)
