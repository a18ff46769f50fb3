"""Pages add problems of their own, which no other test should meet."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from discreet.lab.environments import catalog


@pytest.fixture(autouse=True)
def catalogue_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    catalog.entries()  # imports the modules of all named problems
    monkeypatch.setattr(catalog, "_ENTRIES", dict(catalog._ENTRIES))


@pytest.fixture(autouse=True)
def quiet_log() -> Iterator[None]:
    """Pages that show how to listen to the log leave nobody listening."""
    root, own = logging.getLogger(), logging.getLogger("discreet")
    handlers, levels = root.handlers[:], (root.level, own.level)
    yield
    root.handlers[:] = handlers
    root.setLevel(levels[0])
    own.setLevel(levels[1])
