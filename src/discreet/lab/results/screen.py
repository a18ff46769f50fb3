"""Where a run says what it does: a terminal, a notebook, a pipe, or nowhere.

Rich knows terminals and notebooks; a `Screen` adds that lines stay whole where nobody looks at them
live, and that nothing is dressed up: neither numbers nor `:names:` nor brackets.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from rich.console import Console
from rich.markup import escape


class Screen(Console):
    """A console that leaves lines whole where no terminal shows them, so that they can be searched.

    Tables keep their layout.

    Args:
        stderr: whether it writes to the stream for errors.
        quiet: whether it shows nothing at all.
    """

    def __init__(self, stderr: bool = False, quiet: bool = False) -> None:
        super().__init__(stderr=stderr, quiet=quiet, highlight=False, emoji=False)

    @property
    def shows_bars(self) -> bool:
        """Whether a bar that moves can be shown; elsewhere it would leave empty lines, and without
        ipywidgets a notebook shows none."""
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


def plain(text: str) -> str:
    """Text that rich prints as it is, without interpreting it."""
    return escape(text)
