"""Pages add problems of their own, which no other test should meet."""

from __future__ import annotations

import pytest

from discreet.problems import catalog


@pytest.fixture(autouse=True)
def catalogue_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "_ENTRIES", dict(catalog._ENTRIES))
