"""Signs of life where no bar can be shown, in a log or a pipe.

What takes minutes says a line when it starts, and then one every ten seconds at most: how much is
done, and how long the rest will take.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Thread
from time import monotonic
from types import TracebackType
from typing import Self

from rich.progress import Progress

from discreet.lab.reporting.numbers import about_time
from discreet.lab.results.screen import Screen

SECONDS = 10.0  # between lines


class Pulse:
    """A context in which a screen without bars says now and then how far something is.

    Args:
        screen: where; on one that shows bars, or that is quiet, nothing is said.
        task: what is done, said at once; "" to say nothing then.
        words: how far it is; nothing is said while it gives "". How long it has taken if left out.
        seconds: between lines.
    """

    def __init__(
        self,
        screen: Screen,
        task: str = "",
        words: Callable[[], str] | None = None,
        seconds: float = SECONDS,
    ) -> None:
        self._screen, self._task, self._seconds = screen, task, seconds
        self._words = words or self._so_far
        self._began = monotonic()
        self._over = Event()
        self._thread = Thread(target=self._beat, daemon=True)

    def __enter__(self) -> Self:
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

    def _so_far(self) -> str:
        return f"{self._task}: {monotonic() - self._began:,.0f} s so far"

    def _beat(self) -> None:
        while not self._over.wait(self._seconds):
            text = self._words()
            if text:
                self._screen.say(text)


class PulsingProgress(Progress):
    """A bar of one task, or where none can be shown, lines (see `Pulse`).

    Args:
        columns: of the bar.
        screen: where it stands.
        task: what is said at once where no bar can be shown; "" for nothing.
        even: whether steps take about as long, so that the time left can be told from those done.
    """

    def __init__(
        self, *columns: object, screen: Screen, task: str = "", even: bool = False
    ) -> None:
        super().__init__(
            *columns,  # type: ignore[arg-type]
            console=screen,
            transient=True,
            disable=not screen.shows_bars,
        )
        self._even = even
        self._pulse = Pulse(screen, task, self.words)

    def words(self) -> str:
        """How far it is; "" before there is a task, and when all is done."""
        if not self.tasks or self.finished:
            return ""
        task = self.tasks[0]
        text = pace_text(task.completed, task.total, task.elapsed or 0.0, self._even)
        return f"{task.description}: {text}"

    def __enter__(self) -> Self:
        super().__enter__()
        self._pulse.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._pulse.__exit__(kind, error, trace)
        super().__exit__(kind, error, trace)


def pace_text(done: float, total: float | None, seconds: float, even: bool = True) -> str:
    """12 of 60 done (20%), about 40 s left: at the pace of what was done in so many seconds.

    Where steps are not `even`, nothing is said of the rest: 12 of 60 done (20%), 10 s so far.
    """
    if not total:
        return f"{done:,.0f} done, {seconds:,.0f} s so far"
    text = f"{done:,.0f} of {total:,.0f} done ({100.0 * done / total:.0f}%)"
    if not done or not even:
        return f"{text}, {seconds:,.0f} s so far"
    return f"{text}, {about_time(seconds * (total - done) / done)} left"
