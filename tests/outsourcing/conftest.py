from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def key(tmp_path: Path) -> Path:
    """Where a key shall be; nothing is there yet."""
    return tmp_path / "key"
