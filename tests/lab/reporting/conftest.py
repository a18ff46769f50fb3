"""Pages whose words alone are read."""

from __future__ import annotations

import pytest

from discreet.lab.reporting import audit, map_choices, report, search_report
from discreet.lab.reporting.page import Image


@pytest.fixture
def unpainted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are described but not drawn, which takes most of the time of a page."""

    def described(draw: object, wide: float = 0.0) -> Image:
        return Image("data:image/svg+xml;base64,", "data:image/svg+xml;base64,")

    for module in (audit, map_choices, report, search_report):
        monkeypatch.setattr(module, "image", described)
    monkeypatch.setattr(map_choices, "small_image", described)
