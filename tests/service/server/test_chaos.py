"""benchmarks/service_chaos.py in short: SIGKILL at random points, and nothing is lost."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent.parent.parent / "benchmarks"


@pytest.mark.slow
@pytest.mark.chance(0)
def test_twenty_kills(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import service_chaos

    result = service_chaos.run(url, 20, seed=1)
    assert result.wrong == []
    assert sum(result.kills.values()) == 20
    assert result.accepted > 0
    assert result.rewarded > 0
    assert result.releases > 5
    assert result.shown > 0
    sys.modules.pop("service_chaos", None)
