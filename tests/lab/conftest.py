"""Golden files, and pages whose words alone are read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from discreet.lab.reporting import audit, plan, report, search_report
from discreet.lab.reporting.page import Image


@pytest.fixture
def unpainted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are described but not drawn, which takes most of the time of a page."""

    def described(draw: object, wide: float = 0.0, style: str = "") -> Image:
        return Image("data:image/svg+xml;base64,", "data:image/svg+xml;base64,")

    for module in (audit, plan, report, search_report):
        monkeypatch.setattr(module, "image", described)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a transcript or the words of a page with its file; --update-golden writes it."""

    def check(name: str, text: str) -> None:
        path = Path(__file__).parent / "reporting" / "golden" / name
        text = "\n".join(line.rstrip() for line in text.strip().splitlines()) + "\n"
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8"), f"{name}: see pytest --update-golden"

    return check
