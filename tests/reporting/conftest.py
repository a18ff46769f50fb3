"""Pages whose words alone are read."""

from __future__ import annotations

import pytest

from discreet.reporting import page


@pytest.fixture
def unpainted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are made and described but not painted, which takes half of the time of a page."""
    monkeypatch.setattr(page, "_data_uri", lambda figure: "data:image/svg+xml;base64,")
