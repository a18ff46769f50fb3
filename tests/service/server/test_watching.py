"""Logs and metrics: what an operator needs, and not a single value of a person."""

from __future__ import annotations

import io
import json
import logging
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from discreet.service.server.app import JsonLines, log_as_json
from tests.service.server.web import Web, serving

NAMES = ("discreet", "uvicorn", "asyncio", "alembic")


@pytest.fixture
def logs() -> Iterator[io.StringIO]:
    """What the server logs, down to the least important."""
    before = {name: (each := logging.getLogger(name), each.handlers[:], each.level, each.propagate)
              for name in NAMES}  # fmt: skip
    stream = io.StringIO()
    log_as_json(stream, logging.DEBUG)
    yield stream
    for each, handlers, level, propagate in before.values():
        each.handlers[:], each.propagate = handlers, propagate
        each.setLevel(level)


def counted(web: Web) -> dict[tuple[str, tuple[str, ...]], float]:
    """The metrics, by name and the values of their labels in the order of their names."""
    families = text_string_to_metric_families(web.ask("GET", "/metrics", "auditor").text)
    return {
        (sample.name, tuple(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def busy(web: Web) -> list[str]:
    """Requests of all kinds; what they hold that nobody may read elsewhere."""
    report = web.reports(3)
    web.ask("POST", "/v1/studies/local/reports", "device", json={"reports": [report]})
    web.ask("POST", "/v1/studies/local/reports", "device", json={"reports": [report, report[:-5]]})
    decide = "/v1/studies/joint/decisions"
    made = [
        web.ask("POST", decide, "client", json={"context": context}).json().get("id", "")
        for context in ([[0.123454321], [0.9]], [[7.654321]], ["mr-smith-67"], {"ssn": "078-05-11"})
    ]
    web.ask("POST", decide, "client", json={"context": [[0.1]], "person": "mr-smith-67"})
    for reward in (0.314159, 0.271828, "0.577215", 141.42135):
        web.ask("POST", f"{decide}/{made[0]}/reward", "client", json={"reward": reward})
    web.ask("GET", "/v1/studies/mr-smith-67/policy?ssn=078-05-11", "device")
    web.ask("GET", "/v1/studies/local?ssn=078-05-11", "device", headers={"cookie": "078-05-11"})
    web.ask("GET", "/mr-smith-67")
    web.ask("SMITH-67", "/v1/studies", "device")
    public_coins = [str(public_coin) for public_coin in json.loads(report)["public_coins"]]
    values = ["0.123454321", "7.654321", "smith-67", "078-05-11", "0.314159", "0.271828",
              "0.577215", "141.42135", made[0]]  # fmt: skip
    return values + public_coins + [token.split("_", 2)[2] for token in web.tokens.values()]


class TestLogs:
    def test_no_private_value(
        self, tmp_path: Path, logs: io.StringIO, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with serving(tmp_path) as web:
            secrets = busy(web)

            def broken(*_: object) -> None:
                raise KeyError("mr-smith-67")

            monkeypatch.setattr(web.service.decisions, "decide", broken)
            web.ask("POST", "/v1/studies/joint/decisions", "client", json={"context": [[0.1]]})
            metrics = web.ask("GET", "/metrics", "auditor").text
        text = logs.getvalue()
        lines = [json.loads(line) for line in text.splitlines()]
        assert len(lines) >= 15
        assert {"request"} <= {line["message"] for line in lines}
        assert any("KeyError at" in line["message"] for line in lines)
        for secret in secrets:
            assert secret not in text.lower()
            assert secret not in metrics.lower()

    def test_a_line_says_who_asked_for_what(self, tmp_path: Path, logs: io.StringIO) -> None:
        with serving(tmp_path) as web:
            web.ask("GET", "/v1/studies/local/policies/0", "device")
            web.ask("GET", "/v1/studies")
        found = [json.loads(line) for line in logs.getvalue().splitlines()]
        lines = [line for line in found if line["message"] == "request"]
        assert lines[0]["route"] == "/v1/studies/{study}/policies/{version}"
        assert (lines[0]["code"], lines[0]["method"], lines[0]["level"]) == (200, "GET", "info")
        assert lines[0]["key"] == web.tokens["device"].split("_")[1]
        assert (lines[1]["code"], lines[1]["key"], lines[1]["route"]) == (401, None, "none")
        assert all(line["seconds"] >= 0 for line in lines)

    def test_exceptions_are_named_without_what_they_say(self) -> None:
        try:
            raise ValueError("age = 67")
        except ValueError:
            record = logging.getLogger("x").makeRecord(
                "x", logging.ERROR, __file__, 1, "it broke", (), __import__("sys").exc_info()
            )
        line = json.loads(JsonLines().format(record))
        assert line["exception"] == "ValueError"
        assert "test_watching.py" in line["at"]
        assert "67" not in line["message"] + line["exception"]

    def test_tracebacks_are_named_without_what_they_say(self) -> None:
        """As a server that is stopped twice hands on."""
        try:
            try:
                raise ValueError("age = 67\nnext")
            except ValueError as error:
                raise RuntimeError("age is\n67") from error
        except RuntimeError:
            text = traceback.format_exc()
        record = logging.getLogger("x").makeRecord("x", logging.ERROR, __file__, 1, text, (), None)
        line = json.loads(JsonLines().format(record))
        assert line["message"] == "stopped by RuntimeError"


class TestMetrics:
    def test_counts(self, tmp_path: Path) -> None:
        with serving(tmp_path) as web:
            report = web.reports(3)
            for _ in range(2):
                web.ask("POST", "/v1/studies/local/reports", "device", json={"reports": [report]})
            web.ask("POST", "/v1/studies/local/reports", "device", json={"reports": ["x"]})
            web.decision()
            web.ask("SMITH", "/v1/studies", "device")
            found = counted(web)
        route = "/v1/studies/{study}/reports"
        assert found["discreet_requests_total", ("202", "POST", route)] == 2
        assert found["discreet_requests_total", ("400", "POST", route)] == 1
        assert found["discreet_requests_total", ("405", "other", "/v1/studies")] == 1
        assert found["discreet_request_seconds_count", (route,)] == 3
        assert found["discreet_reports_stored_total", ("target", "local")] == 3
        assert found["discreet_reports_repeated_total", ("target", "local")] == 3
        assert found["discreet_releases", ("clinic", "local")] == 0
        assert found["discreet_waiting", ("target", "local")] == 3
        assert found["discreet_decisions_without_reward", ("joint",)] == 1
        assert found["discreet_ready", ()] == 1

    def test_nothing_depends_on_what_people_did(self, tmp_path: Path) -> None:
        """The same requests with other contexts and rewards give the same metrics."""
        seen = []
        for number, (place, reward) in enumerate([(0.1, 0.0), (0.9, 1.0)]):
            folder = tmp_path / str(number)
            folder.mkdir()
            with serving(folder) as web:
                body = {"context": [[place], [0.5]]}
                answer = web.ask("POST", "/v1/studies/joint/decisions", "client", json=body)
                path = f"/v1/studies/joint/decisions/{answer.json()['id']}/reward"
                web.ask("POST", path, "client", json={"reward": reward})
                found = counted(web)
                seen.append({key: value for key, value in found.items() if "seconds" not in key[0]})
        assert [each for each in seen[0] if "created" not in each[0]]
        first, second = ({k: v for k, v in each.items() if "created" not in k[0]} for each in seen)
        assert first == second
