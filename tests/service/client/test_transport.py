"""Requests are tried as long as patience lasts; keys travel only where nobody reads them."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import numpy as np
import pytest

from discreet import InvalidInput
from discreet.service.client import (
    AsyncAuditor,
    Auditor,
    Patience,
    Refused,
    Unreachable,
    transport,
)
from discreet.service.client.transport import Client, body_of, retry_after, study_path


def tried(
    answers: list[int | httpx2.Response | Exception],
    patience: Patience,
    monkeypatch: pytest.MonkeyPatch,
) -> tuple[Any, list[float], int]:
    """What a request returns or raises, the pauses, and how many answers were used."""
    pauses: list[float] = []
    left = list(answers)

    def reply(request: httpx2.Request) -> httpx2.Response:
        each = left.pop(0)
        if isinstance(each, Exception):
            raise each
        return httpx2.Response(each, json={}) if isinstance(each, int) else each

    monkeypatch.setattr(transport.time, "sleep", pauses.append)
    options: dict[str, Any] = {"patience": patience, "transport": httpx2.MockTransport(reply)}
    end: Any
    with Client("https://x", key="k", **options) as client:
        try:
            end = client._ask("GET", study_path("s", "ledger"))
        except (Refused, Unreachable) as error:
            end = error
    return end, pauses, len(answers) - len(left)


GONE = httpx2.ConnectError("gone")


class TestPatience:
    def test_pauses_grow_and_are_drawn(self, monkeypatch: pytest.MonkeyPatch) -> None:
        patience = Patience(attempts=8, first=1.0, longest=10.0)
        runs = [tried([GONE] * 8, patience, monkeypatch) for _ in range(200)]
        assert all(isinstance(end, Unreachable) and used == 8 for end, _, used in runs)
        for attempt in range(7):
            pauses = [run[1][attempt] for run in runs]
            most = min(10.0, 2.0**attempt)
            assert all(0.0 <= pause <= most for pause in pauses)
            assert max(pauses) > 0.8 * most
            assert min(pauses) < 0.2 * most

    def test_retry_after_is_obeyed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        patience = Patience(attempts=3, first=0.5, longest=60.0)
        busy = httpx2.Response(503, headers={"Retry-After": "7"})
        end, (pause,), _ = tried([busy, 200], patience, monkeypatch)
        assert end.status_code == 200
        assert 7.0 <= pause <= 7.5

    def test_a_longer_retry_after_than_patience_ends_it(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        patience = Patience(attempts=3, longest=60.0)
        busy = httpx2.Response(429, headers={"Retry-After": "3600"})
        end, pauses, used = tried([busy], patience, monkeypatch)
        assert isinstance(end, Unreachable)
        assert (end.status, pauses, used) == (429, [], 1)

    @pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 409, 410, 413, 422, 301])
    def test_a_refused_request_is_sent_once(
        self, status: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        refusal = httpx2.Response(status, json={"error": "no"})
        end, pauses, used = tried([refusal], Patience(), monkeypatch)
        assert isinstance(end, Refused)
        assert (end.status, pauses, used) == (status, [], 1)

    @pytest.mark.parametrize("status", [302, 403, 404, 407])
    def test_a_refusal_of_another_program_is_none(
        self, status: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A proxy's: the report would be given up though the service never saw it."""
        page = httpx2.Response(status, text="<h1>no</h1>")
        end, _, used = tried([page, page], Patience(attempts=2), monkeypatch)
        assert isinstance(end, Unreachable)
        assert (end.status, used) == (status, 2)
        end, _, _ = tried([page, 202], Patience(), monkeypatch)
        assert end.status_code == 202

    @pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
    def test_a_deferred_request_is_sent_again(
        self, status: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        end, pauses, used = tried([status, status, 202], Patience(), monkeypatch)
        assert (end.status_code, len(pauses), used) == (202, 2, 3)

    def test_nonsense_in_retry_after(self) -> None:
        assert retry_after({"retry-after": " 10"}) == 10.0
        for text in ("", "soon", "-5", "1e9", "Mon, 23 Nov 2026 06:00:10 GMT"):
            assert retry_after({"retry-after": text}) == 0.0
        assert retry_after({"retry-after": "9" * 5000}) < 1e9

    def test_nonsense_is_refused(self) -> None:
        for wrong in (
            {"attempts": 0},
            {"first": 0.0},
            {"longest": -1.0},
            {"timeout": float("nan")},
        ):
            with pytest.raises(InvalidInput):
                Patience(**wrong)  # type: ignore[arg-type]


class TestClient:
    @pytest.mark.parametrize(
        "url",
        ["", "service.example.org", "ftp://x", "https://", "https://u:p@x", "https://x/?a=b", 7],
    )
    def test_an_address_that_is_none_is_refused(self, url: Any) -> None:
        with pytest.raises(InvalidInput, match="url was"):
            Auditor(url, "study", key="dk_1_2")

    @pytest.mark.parametrize("value", [np.nan, np.inf, object(), {1j}, {("a", "b"): 1}])
    def test_values_without_json_are_refused(self, value: Any) -> None:
        with pytest.raises(InvalidInput, match="a value was"):
            body_of({"context": value})

    def test_values_of_numpy_are_sent_as_numbers(self) -> None:
        context = {"age": np.int64(40), "points": np.array([[0.5]]), "smoker": np.str_("no")}
        assert body_of(context) == b'{"age":40,"points":[[0.5]],"smoker":"no"}'

    def test_keys_need_https_beyond_this_machine(self) -> None:
        with pytest.raises(InvalidInput, match="read the key"):
            Auditor("http://service.example.org", "study", key="dk_1_2")
        Auditor("http://service.example.org", "study", key="dk_1_2", allow_http=True).close()
        Auditor("http://127.0.0.1:8000", "study", key="dk_1_2").close()

    @pytest.mark.parametrize("key", ["", "a b", "a\nb", "dk_1_2\n", "schlüssel", None])
    def test_a_key_that_is_none_is_refused_and_not_shown(self, key: Any) -> None:
        with pytest.raises(InvalidInput, match="key was") as error:
            Auditor("https://x", "study", key=key)
        assert not key or key not in str(error.value)

    def test_names_are_quoted(self) -> None:
        assert study_path("a/b ?", "policy") == "/v1/studies/a%2Fb%20%3F/policy"
        assert transport._headers(None, "ab") == {"If-None-Match": '"ab"'}

    def test_a_service_behind_a_path(self) -> None:
        seen = []

        def reply(request: httpx2.Request) -> httpx2.Response:
            seen.append(str(request.url))
            return httpx2.Response(200, json=[])

        mock = httpx2.MockTransport(reply)
        with Auditor("https://x/discreet/", "s", key="k", transport=mock) as auditor:
            assert auditor.ledger() == []
        assert seen == ["https://x/discreet/v1/studies/s/ledger"]

    def test_redirects_are_not_followed(self) -> None:
        mock = httpx2.MockTransport(
            lambda _: httpx2.Response(307, headers={"Location": "https://elsewhere.example.org"})
        )
        with (
            Auditor("https://x", "s", key="k", transport=mock) as auditor,
            pytest.raises(Unreachable, match="307"),
        ):
            auditor.ledger()

    def test_blocking_and_awaited_calls_agree(self) -> None:
        fails = [httpx2.ConnectError("gone"), httpx2.ReadTimeout("late"), 503, 200]
        patience = Patience(first=1e-3)

        def replies() -> httpx2.MockTransport:
            left = list(fails)

            def reply(request: httpx2.Request) -> httpx2.Response:
                assert request.headers["authorization"] == "Bearer k"
                each = left.pop(0)
                if isinstance(each, Exception):
                    raise each
                return httpx2.Response(each, json=[{"n": 1}])  # type: ignore[arg-type]

            return httpx2.MockTransport(reply)

        async def awaited() -> list[dict[str, Any]]:
            async with AsyncAuditor(
                "https://x", "s", key="k", patience=patience, transport=replies()
            ) as auditor:
                return await auditor.ledger()

        with Auditor("https://x", "s", key="k", patience=patience, transport=replies()) as plain:
            assert plain.ledger() == asyncio.run(awaited()) == [{"n": 1}]
