"""A sample of benchmarks/service_hostile.py: each request is refused, with a reason."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

from fastapi.exceptions import RequestValidationError
from pydantic import TypeAdapter

from discreet.service.server.access import read_body
from discreet.service.server.bodies import ReportsBody
from discreet.service.server.ingest import read_reports
from discreet.service.server.routes import _texts as texts
from discreet.validation import InvalidInput

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


@pytest.mark.parametrize(("kind", "count"), [("malformed", 150), ("hostile", 20)])
def test_refused(bench: Any, target: Any, kind: str, count: int) -> None:
    outcome = bench.attack_all(target, getattr(bench, kind), count, seed=7)
    assert [(attack.name, code, text) for attack, code, text in outcome.wrong] == []
    assert not [code for _, code in outcome.codes if code >= 500]
    assert outcome.leaked == 0
    assert outcome.stored == 2
    assert len({name for name, _ in outcome.codes}) >= 5


@pytest.mark.parametrize("number", range(9))
def test_each_costly_body_is_refused(bench: Any, target: Any, number: int) -> None:
    bodies = bench.costly_bodies()
    assert len(bodies) == 9
    body, token = bodies[number], target.tokens["device"]
    sent = bench.http("POST", "/v1/studies/local/reports", token, body)
    code, text = bench.send(target.port, bench.Attack("costly", (sent,), bench.refused))
    # On a busy machine a body may arrive too late.
    assert code in (408, 413 if number < 2 else 400)
    assert bench.refused(code, text)


@pytest.mark.parametrize("number", range(2, 9))
def test_a_costly_body_takes_a_few_times_as_long_as_its_json(bench: Any, number: int) -> None:
    body = bench.costly_bodies()[number]
    model, took = TypeAdapter(ReportsBody), {"json": math.inf, "refusal": math.inf}
    for name in 5 * ("json", "refusal"):
        started = time.process_time()
        if name == "json":
            json.loads(body)
        else:
            with pytest.raises((InvalidInput, RequestValidationError)):
                read_reports(texts(model.validate_python(read_body(model, body))))
        took[name] = min(took[name], time.process_time() - started)
    assert took["refusal"] < 30.0 * took["json"] + 0.03


def test_the_benchmarks_check_accepts_no_accepted_request(bench: Any, target: Any) -> None:
    sent = bench.http("GET", "/v1/studies/local", target.tokens["device"])
    code, text = bench.send(target.port, bench.Attack("good", (sent,), bench.refused))
    assert code == 200
    assert not bench.refused(code, text)
    assert not bench.refused(400, "{}")
    assert not bench.refused(500, '{"error": "a reason that is long"}')
