"""A sample of benchmarks/service_hostile.py: each request is refused, with a reason."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

BENCHMARKS = Path(__file__).parent.parent.parent.parent / "benchmarks"


@pytest.fixture(scope="module")
def bench() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        import service_hostile

        yield service_hostile
        sys.modules.pop("service_hostile", None)


@pytest.fixture(scope="module")
def target(bench: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with bench.serving(tmp_path_factory.mktemp("hostile")) as made:
        yield made


@pytest.mark.parametrize(("kind", "count"), [("malformed", 300), ("hostile", 40)])
def test_refused(bench: Any, target: Any, kind: str, count: int) -> None:
    outcome = bench.attack_all(target, getattr(bench, kind), count, seed=7)
    assert [(attack.name, code, text) for attack, code, text in outcome.wrong] == []
    assert not [code for _, code in outcome.codes if code >= 500]
    assert outcome.leaked == 0
    assert outcome.stored == 2
    assert len({name for name, _ in outcome.codes}) >= 5


def test_what_is_costly_to_read_is_refused(bench: Any, target: Any) -> None:
    outcome = bench.attack_all(target, bench.costly, 30, seed=7)
    assert outcome.wrong == []
    # On a busy machine some come too late.
    assert {code for _, code in outcome.codes} - {408} == {400, 413}


def test_a_request_that_is_taken_is_not_called_refused(bench: Any, target: Any) -> None:
    sent = bench.http("GET", "/v1/studies/local", target.tokens["device"])
    code, text = bench.send(target.port, bench.Attack("good", (sent,), bench.refused))
    assert code == 200
    assert not bench.refused(code, text)
    assert not bench.refused(400, "{}")
    assert not bench.refused(500, '{"error": "a reason that is long"}')
