"""ErrorCollector before any route, limits, and the headers of every answer."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi.exceptions import RequestValidationError
from pydantic import TypeAdapter

from discreet.service.server import access, middleware
from discreet.service.server.app import create_app
from discreet.service.server.bodies import ReportsBody
from discreet.service.server.middleware import Buckets, Limits, Rate
from discreet.validation import InvalidInput
from tests.service.server.web import SHOP, Web, listening, opened, serving, web

__all__ = ["web"]


class TestHosts:
    @pytest.mark.parametrize("host", ["127.0.0.1", "localhost:8000", "[::1]:80", "LOCALHOST"])
    def test_loopback_hosts_are_accepted(self, web: Web, host: str) -> None:
        assert web.ask("GET", "/health", headers={"host": host}).status_code == 200

    @pytest.mark.parametrize(
        "host", ["evil.example", "127.0.0.1.evil", "a@127.0.0.1", "", "127.0.0.1/x", "127.0.0.1:x"]
    )
    def test_other_hosts_are_refused(self, web: Web, host: str) -> None:
        answer = web.ask("GET", "/health", headers={"host": host})
        assert answer.status_code == 400
        assert "--allow-host" in answer.json()["error"]

    def test_allowed_hosts_are_accepted(self, tmp_path: Path) -> None:
        from starlette.testclient import TestClient

        app = create_app(opened(tmp_path), hosts=("study.example",))
        with TestClient(app, base_url="https://study.example") as client:
            assert client.get("/health").status_code == 200


class TestOrigins:
    BODY = {"state": "running"}  # noqa: RUF012 - never changed

    def code(self, web: Web, **headers: str) -> int:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        answer = web.ask(
            "POST", "/v1/studies/other/state", "operator", json=self.BODY, headers=named
        )
        return int(answer.status_code)

    @pytest.mark.parametrize(
        "headers",
        [
            {"origin": "https://evil.example"},
            {"origin": "null"},
            {"origin": "http://127.0.0.1:9000"},
            {"origin": "http://["},
            {"cookie": "a=b"},
            {"sec_fetch_site": "cross-site"},
            {"sec_fetch_site": "same-site", "origin": "http://127.0.0.1:8000"},
            {"cookie": "a=b", "sec_fetch_site": "cross-site"},
        ],
    )
    def test_cross_site_requests_are_refused(self, web: Web, headers: dict[str, str]) -> None:
        assert self.code(web, **headers) == 403

    @pytest.mark.parametrize(
        "headers",
        [
            {},
            {"origin": "http://127.0.0.1:8000"},
            {"origin": "http://127.0.0.1:8000", "cookie": "a=b"},
            {"cookie": "a=b", "sec_fetch_site": "same-origin"},
        ],
    )
    def test_same_origin_requests_are_accepted(self, web: Web, headers: dict[str, str]) -> None:
        assert self.code(web, **headers) == 200

    def test_answers_allow_no_cross_origin_reads(self, web: Web) -> None:
        answer = web.ask("GET", "/v1/studies", "device", headers={"origin": "https://evil.example"})
        assert not [name for name in answer.headers if name.startswith("access-control")]
        preflight = web.ask(
            "OPTIONS",
            "/v1/studies",
            "device",
            headers={"origin": "https://evil.example", "access-control-request-method": "POST"},
        )
        assert preflight.status_code == 405

    def test_pages_of_an_allowed_origin_are_devices(self, web: Web) -> None:
        """As a browser asks: first whether it may, without a key, and then with one."""
        path = "/v1/studies/local/reports"
        asked = {"access-control-request-method": "POST", "origin": SHOP}
        preflight = web.ask("OPTIONS", path, headers=asked)
        assert preflight.status_code == 204
        assert preflight.headers["access-control-allow-origin"] == SHOP
        allowed = preflight.headers["access-control-allow-headers"].lower()
        assert {"authorization", "content-type", "if-none-match"} == {*allowed.split(", ")}
        page = {"origin": SHOP, "sec-fetch-site": "cross-site"}
        answer = web.ask("POST", path, "device", headers=page, json={"reports": [web.reports(1)]})
        assert answer.status_code == 202
        policy = web.ask("GET", "/v1/studies/local/policy", "device", headers=page)
        for each in (answer, policy, web.ask("GET", path, headers=page)):
            assert each.headers["access-control-allow-origin"] == SHOP
            assert each.headers["access-control-expose-headers"] == "ETag, Retry-After"
            assert "origin" in each.headers["vary"].lower()
            # Cookies of the dashboard never go along.
            assert "access-control-allow-credentials" not in each.headers

    def test_an_allowed_origin_opens_nothing_but_the_api(self, web: Web) -> None:
        page = {"origin": SHOP, "sec-fetch-site": "cross-site"}
        for method, path in (("GET", "/"), ("GET", "/metrics"), ("POST", "/login")):
            answer = web.ask(method, path, headers=page)
            assert not [name for name in answer.headers if name.startswith("access-control")]
        assert web.ask("POST", "/login", headers=page).status_code == 403
        web.client.cookies.clear()  # of the pages
        for origin in (SHOP.upper(), f"{SHOP}:8443", f"{SHOP}.evil.example", "null", ""):
            answer = web.ask("GET", "/v1/studies", "device", headers={"origin": origin})
            assert not [name for name in answer.headers if name.startswith("access-control")]


class TestLines:
    @pytest.mark.parametrize(
        "path",
        [
            "/v1/studies/%2e%2e/keys",
            "/v1/studies/a%2Fterms",
            "/v1/studies/a%5cb",
            "/v1/studies/a%00",
            "/v1/studies/a%0d%0ab",
            "/v1/studies/a%E2%80%AEb",
            "/v1/studies/a%FF",
            "/v1//studies",
            "/v1/studies/" + "a" * 1000,
            "/v1/studies?" + "a" * 1001,
        ],
    )
    def test_ambiguous_paths_are_refused(self, web: Web, path: str) -> None:
        assert web.ask("GET", path, "device").status_code == 400

    @pytest.mark.parametrize("path", ["/nothing", "/v1", "/v1/studies/", "/docs", "/openapi.json"])
    def test_unknown_paths_are_not_found(self, web: Web, path: str) -> None:
        answer = web.ask("GET", path, "operator")
        assert answer.status_code == 404
        assert "there is nothing at this path" in answer.json()["error"]

    def test_other_methods_are_refused(self, web: Web) -> None:
        answer = web.ask("PATCH", "/v1/studies", "operator")
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET")

    @pytest.mark.parametrize(
        "headers",
        [
            [("content-encoding", "gzip")],
            [("authorization", "Bearer a"), ("authorization", "Bearer b")],
            [("x", "y" * 20_000)],
        ],
    )
    def test_headers(self, web: Web, headers: list[tuple[str, str]]) -> None:
        assert web.client.get("/v1/studies", headers=headers).status_code == 400


class TestAnswers:
    def test_answers_have_security_headers(self, web: Web) -> None:
        for answer in [
            web.ask("GET", "/health"),
            web.ask("GET", "/v1/studies"),
            web.ask("GET", "/v1/studies", "device"),
        ]:
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert "default-src 'none'" in answer.headers["content-security-policy"]
            assert answer.headers["x-frame-options"] == "DENY"
            assert answer.headers["cache-control"] == "no-store, no-transform"
            assert answer.headers["referrer-policy"] == "no-referrer"
            assert "server" not in answer.headers

    def test_unexpected_errors_do_not_leak_their_message(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        with serving(tmp_path) as own:

            def broken(*_: object) -> None:
                raise RuntimeError("Mrs Smith, 67, smoker")

            monkeypatch.setattr(own.service.decisions, "decide", broken)
            answer = own.ask("POST", "/v1/studies/joint/decisions", "client", json={})
        assert answer.status_code == 503
        assert answer.headers["retry-after"] == "1"
        assert "Smith" not in answer.text + caplog.text
        assert "RuntimeError at" in caplog.text

    def test_an_unreachable_database_gives_503(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from discreet.service.server.database import Database, Unavailable

        with serving(tmp_path) as own:
            assert own.ask("GET", "/ready").json() == {"status": "ok"}

            @contextmanager
            def gone(_: Database) -> Iterator[None]:
                raise Unavailable("the database answered OperationalError: gone")
                yield

            with monkeypatch.context() as patch:
                patch.setattr(Database, "reading", gone)
                answer = own.ask("GET", "/v1/studies", "device")
                assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
                ready = own.ask("GET", "/ready")
                assert ready.status_code == 503
                assert ready.json() == {"status": "the database cannot be reached"}
                assert own.ask("GET", "/health").status_code == 200
            assert own.ask("GET", "/v1/studies", "device").status_code == 200
            own.service._stopping.set()
            assert own.service._thread is not None
            own.service._thread.join()
            ready = own.ask("GET", "/ready")
            assert (ready.status_code, ready.json()["status"]) == (
                503,
                "the aggregator has stopped",
            )


class TestRates:
    def test_a_key_is_rate_limited(self, tmp_path: Path) -> None:
        with serving(tmp_path, Limits(requests=Rate(0.001, 3.0))) as own:
            codes = [own.ask("GET", "/v1/studies", "device").status_code for _ in range(4)]
            assert codes == [200, 200, 200, 429]
            answer = own.ask("GET", "/v1/studies", "device")
            assert 900 < int(answer.headers["retry-after"]) <= 1000
            assert own.ask("GET", "/v1/studies", "auditor").status_code == 200

    def test_guessing_keys_is_rate_limited_by_address(self, tmp_path: Path) -> None:
        with serving(tmp_path, Limits(failures=Rate(0.001, 3.0))) as own:
            assert own.ask("GET", "/v1/studies", "device").status_code == 200
            own.tokens["guess"] = "dk_" + "0" * 16 + "_" + "A" * 43
            codes = [own.ask("GET", "/v1/studies", "guess").status_code for _ in range(5)]
            assert codes == [401, 401, 401, 429, 429]
            # A key that was good before is good still; one that is new here waits.
            assert own.ask("GET", "/v1/studies", "device").status_code == 200
            assert own.ask("GET", "/v1/studies", "auditor").status_code == 429
            own.service.keys.revoke(own.tokens["device"].split("_")[1])
            assert own.ask("GET", "/v1/studies", "device").status_code == 401


class TestBodies:
    def test_large_bodies_are_refused(self, tmp_path: Path) -> None:
        with serving(tmp_path, Limits(body=1000)) as own:
            body = b'{"context": "' + b"a" * 990 + b'"}'
            sizes = [(body[: 1000 - 2] + b'"}', 400), (body, 413)]
            for content, code in sizes:
                for sent in (iter([content[:500], content[500:]]), content):
                    answer = own.send("/v1/studies/joint/decisions", "client", sent)
                    assert answer.status_code == code
            assert answer.headers["connection"] == "close"

    def test_device_bodies_have_a_smaller_limit(self, web: Web) -> None:
        most = Limits().device
        for length, code in ((most, 400), (most + 1, 413)):
            answer = web.send("/v1/studies/local/reports", "device", b'{"ids": []}'.ljust(length))
            assert answer.status_code == code
        assert Limits().body > most

    def test_values_are_counted_before_any_is_parsed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(access, "read_body", lambda *_: pytest.fail("it was parsed"))
        with serving(tmp_path, Limits(device_values=100, values=200)) as own:
            for who, study, most in (
                ("device", "local/reports", 100),
                ("client", "joint/decisions", 200),
            ):
                body = b'{"context":[' + b"1," * (most - 1) + b"1]}"
                answer = own.send(f"/v1/studies/{study}", who, body)
                assert answer.status_code == 413
                assert f"more than {most} JSON values" in answer.json()["error"]

    def test_large_bodies_are_read_beside_the_event_loop(
        self, web: Web, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        threads: dict[str, int] = {}

        def noting(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
            def noted(*given: Any) -> Any:
                threads[name] = threading.get_ident()
                return work(*given)

            return noted

        for name in ("check_json", "read_body"):
            monkeypatch.setattr(access, name, noting(name, getattr(access, name)))
        for spaces, beside in ((0, False), (50_000, True)):
            body = b'{"reports": ["x"]}'.ljust(18 + spaces)
            answer = web.send("/v1/studies/local/reports", "device", body)
            assert answer.status_code == 400
            assert (threads["read_body"] != threads["check_json"]) == beside

    def test_two_large_bodies_are_served_at_once_and_others_wait(
        self, web: Web, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        inside, go_on, most = threading.Semaphore(0), threading.Event(), 0
        current, read_body = set[int](), access.read_body

        def reading(model: Any, body: bytes) -> Any:
            nonlocal most
            current.add(threading.get_ident())
            most = max(most, len(current))
            inside.release()
            assert go_on.wait(60.0)
            try:
                return read_body(model, body)
            finally:
                current.discard(threading.get_ident())

        monkeypatch.setattr(access, "read_body", reading)
        body = b'{"reports": ["x"]}'.ljust(50_000)

        def send() -> int:
            return int(web.send("/v1/studies/local/reports", "device", body).status_code)

        with ThreadPoolExecutor(6) as threads:
            sending = [threads.submit(send) for _ in range(6)]
            try:
                assert inside.acquire(timeout=60.0)
                assert inside.acquire(timeout=60.0)
                assert not inside.acquire(timeout=0.3)
                assert web.ask("GET", "/v1/studies/local/policy", "device").status_code == 200
            finally:
                go_on.set()
            assert [each.result() for each in sending] == [400] * 6
        assert most == 2

    @pytest.mark.parametrize("name", ["ids", "reports"])
    def test_list_lengths_are_checked_before_items(self, name: str) -> None:
        body = json.dumps({name: ["x"] * 50_000}).encode()
        with pytest.raises(RequestValidationError) as refused:
            access.read_body(TypeAdapter(ReportsBody), body)
        assert len(refused.value.errors()) <= 2
        started = time.process_time()
        for _ in range(10):
            json.loads(body)
        usual = time.process_time() - started
        for _ in range(10):
            with pytest.raises(RequestValidationError):
                access.read_body(TypeAdapter(ReportsBody), body)
        assert time.process_time() - started < 10.0 * usual + 0.2

    @pytest.mark.parametrize(
        ("body", "reason"),
        [
            (b"{", "Invalid JSON"),
            (b"\xff", "Invalid JSON"),
            (b'{"reward": 0.5} x', "Invalid JSON"),
            (b"[" * 100_000, "recursion limit"),
            (b'{"reward": NaN}', "finite"),
            (b'{"reward": 1e999}', "finite"),
            (b'{"reward": "\\ud800"}', "Invalid JSON"),
            (b'{"reward": 0.5, "Smith": 1}', "Extra inputs"),
            (b'{"reward": "0.5"}', "valid number"),
        ],
    )
    def test_invalid_bodies_are_refused(self, web: Web, body: bytes, reason: str) -> None:
        answer = web.send(f"/v1/studies/joint/decisions/{'0' * 32}/reward", "client", body)
        assert answer.status_code == 400
        assert reason in answer.json()["error"]

    @pytest.mark.parametrize(
        ("context", "code"),
        [
            ("[" * 150 + "]" * 150, 400),
            ("[[NaN]]", 201),
            ("[[1e999]]", 201),
            (f"[[{'9' * 400}]]", 201),
            ('[["\\u0000"]]', 400),
        ],
    )
    def test_no_context_is_refused_for_its_values(self, web: Web, context: str, code: int) -> None:
        """A refusal would show on the wire; what is no JSON shows how a program is written."""
        answer = web.send(
            "/v1/studies/joint/decisions", "client", f'{{"context": {context}}}'.encode()
        )
        assert answer.status_code == code
        assert code != 201 or answer.json()["warning"]

    def test_a_label_has_no_nul(self, web: Web) -> None:
        wanted = {"role": "device", "label": "a\0b"}
        assert web.ask("POST", "/v1/keys", "operator", json=wanted).status_code == 400

    def test_other_content_types_are_refused(self, web: Web) -> None:
        for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
            answer = web.send("/v1/studies/joint/decisions", "client", b'{"context": null}', kind)
            assert answer.status_code == 400
            assert "Content-Type: application/json" in answer.json()["error"]


class TestSlowClients:
    def test_slow_bodies_are_cut_off(self, tmp_path: Path) -> None:
        app = create_app(opened(tmp_path), limits=Limits(body_seconds=0.3))
        with listening(app) as port:
            whole = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"
            assert self.answer(port, whole, 0).startswith(b"HTTP/1.1 200")
            started = time.monotonic()
            head = b"GET /health HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n"
            assert self.answer(port, head, 0.1).startswith(b"HTTP/1.1 408")
            assert time.monotonic() - started < 8.0

    @staticmethod
    def answer(port: int, sent: bytes, pause: float) -> bytes:
        """What comes back to who sends, and then a byte now and then."""
        with socket.create_connection(("127.0.0.1", port), timeout=10.0) as line:
            line.sendall(sent)
            said = b""
            for _ in range(100):
                line.settimeout(pause or 10.0)
                try:
                    part = line.recv(65536)
                    said += part
                    if not part or not pause:
                        return said
                except TimeoutError:
                    try:
                        line.sendall(b"x")
                    except OSError:
                        return said
                except OSError:
                    return said
            pytest.fail("it listened for ever")


def test_requests_are_padded_no_further_than_bodies_are_taken(tmp_path: Path) -> None:
    with serving(tmp_path, Limits(body=100)) as own:
        facts = own.ask("GET", "/v1/studies/joint", "client").json()
    assert facts["request_bytes"] == 100


def test_content_length_with_transfer_encoding_closes_the_connection(web: Web) -> None:
    """RFC 9112, section 6.3: a proxy in front may have read the other length."""
    body = b"0\r\n\r\nGET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"
    heads = [
        b"POST /v1/studies/local/reports HTTP/1.1\r\ncontent-type: application/json\r\n",
        b"GET /health HTTP/1.1\r\n",
    ]
    with listening(create_app(web.service)) as port:
        for head in heads:
            more = b"host: localhost\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n"
            with socket.create_connection(("127.0.0.1", port), timeout=10.0) as line:
                line.sendall(head + more + body)
                answer = b"".join(iter(lambda line=line: line.recv(65536), b""))
            assert answer.startswith(b"HTTP/1.1 400")
            assert answer.count(b"HTTP/1.1") == 1
            assert b"connection: close" in answer.lower()


def test_a_second_server_on_one_file_is_refused(tmp_path: Path) -> None:
    service = opened(tmp_path)
    try:
        with pytest.raises(InvalidInput, match="served by another process already"):
            opened(tmp_path)
    finally:
        service.stop()


class SetClock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_bucket_has_a_burst_and_a_rate() -> None:
    clock = SetClock()
    buckets = Buckets(Rate(2.0, 3.0), clock)
    assert [buckets.take("a") for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]
    assert buckets.wait("a") == 0.5
    assert buckets.wait("b") == buckets.take("b") == 0.0
    clock.now = 0.25
    assert buckets.take("a") == 0.25
    clock.now = 0.5
    assert [buckets.take("a"), buckets.take("a")] == [0.0, 0.5]
    clock.now = 1000.0
    assert [buckets.take("a") for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]


def test_the_least_recently_used_buckets_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(middleware, "_MOST_BUCKETS", 2)
    buckets = Buckets(Rate(0.001, 1.0), SetClock())
    assert [buckets.take(name) for name in "abc"] == [0.0] * 3
    assert len(buckets._left) == 2
    assert buckets.take("c") > 0
    assert buckets.take("a") == 0.0
