"""An auditor believes what follows from what was published, and nothing else."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from discreet.client import AsyncAuditor, Audit, Auditor, Refused, Unreachable
from discreet.service.app import create_app
from tests.client.conftest import QUICK, Running
from tests.client.test_decisions import open_joint


def released(running: Running) -> str:
    """A study that released three times; a token for its auditor."""
    running.open_local()
    for _ in range(2):
        running.people_report("study", 300)
    return running.key("auditor", "study")


def audited(running: Running, key: str, change: Any = None) -> Audit:
    """What an auditor finds where answers are changed on the way."""
    with httpx2.Client(base_url=running.url) as behind:

        def passed(request: httpx2.Request) -> httpx2.Response:
            answer = behind.request(
                request.method,
                request.url.path,
                headers={"Authorization": request.headers["authorization"]},
            )
            content = answer.content
            if change is not None and answer.status_code == 200:
                content = change(request.url.path, content)
            return httpx2.Response(answer.status_code, content=content)

        with Auditor(
            running.url, "study", key=key, patience=QUICK, transport=httpx2.MockTransport(passed)
        ) as auditor:
            return auditor.check()


def test_an_honest_service_holds(running: Running) -> None:
    key = released(running)
    with Auditor(running.url, "study", key=key) as auditor:
        audit = auditor.check()
        assert audit.holds, audit
        assert audit.recomputed
        assert audit.guarantee.epsilon == pytest.approx(1.0)
        assert audit.versions["target"] > 1
        assert audit.versions["clinic"] == 1
        assert "follows from" in str(audit)
        assert auditor.certificate()["study"] == "study"
        assert {row["digest"] for row in auditor.ledger()} == {
            row["digest"] for row in auditor.releases()
        }
    assert audited(running, key) == audit


def test_awaited(running: Running) -> None:
    key = released(running)

    async def check() -> Audit:
        async with AsyncAuditor(
            "http://localhost",
            "study",
            key=key,
            transport=httpx2.ASGITransport(create_app(running.service)),
        ) as auditor:
            return await auditor.check()

    assert asyncio.run(check()).holds


@pytest.mark.chance(0)
def test_joint_privacy_is_not_worked_out_anew(running: Running) -> None:
    pytest.importorskip("opendp")
    open_joint(running, "study")
    audit = audited(running, running.key("auditor"))
    assert audit.holds, audit
    assert not audit.recomputed
    assert "agree with it" in str(audit)


def rows_changed(**values: Any) -> Any:
    """Change the last row of the ledger."""

    def change(path: str, content: bytes) -> bytes:
        if not path.endswith("/ledger"):
            return content
        rows = json.loads(content)
        last = max((row for row in rows if row["stream"] == "target"), key=lambda r: r["version"])
        for name, value in values.items():
            last[name] = value(last[name])
        return json.dumps(rows).encode()

    return change


def smaller(guarantee: dict[str, Any]) -> dict[str, Any]:
    return {**guarantee, "epsilon": 0.5 * guarantee["epsilon"]}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (rows_changed(reports=lambda n: n + 1), "SHA-256 of another ledger"),
        (rows_changed(guarantee=smaller), "the ledger claims epsilon = 0.5"),
        (rows_changed(held=lambda held: held // 2), "millionths"),
        (rows_changed(held=lambda held: 3 * held), "millionths"),
        (rows_changed(asked=lambda asked: 2 * asked), "something else asked for"),
        (rows_changed(digest=lambda digest: digest[::-1]), "two SHA-256"),
        (rows_changed(digest=lambda digest: digest[::-1]), "the policy has the SHA-256"),
    ],
)
def test_a_ledger_that_was_changed_is_found_out(change: Any, said: str, running: Running) -> None:
    audit = audited(running, released(running), change)
    assert not audit.holds
    assert said in str(audit)


def test_a_version_that_was_never_published_is_found_out(running: Running) -> None:
    with pytest.raises(Refused, match="has published no policy"):
        audited(running, released(running), rows_changed(version=lambda version: version + 1))


def test_a_row_that_is_missing_is_found_out(running: Running) -> None:
    key = released(running)

    def without(path: str, content: bytes) -> bytes:
        if not path.endswith("/ledger"):
            return content
        rows = json.loads(content)
        return json.dumps([row for row in rows if row["version"] != 1]).encode()

    audit = audited(running, key, without)
    assert any("the ledger does not know it" in problem for problem in audit.problems)


def test_a_certificate_that_says_more_is_found_out(running: Running) -> None:
    key = released(running)

    def change(path: str, content: bytes) -> bytes:
        if not path.endswith("/certificate"):
            return content
        fields = json.loads(content)
        fields["guarantee"] = smaller(fields["guarantee"])
        return json.dumps(fields).encode()

    audit = audited(running, key, change)
    assert "another guarantee than the last row" in str(audit)
    assert "something else than in numbers" in str(audit)


def test_a_policy_that_was_changed_is_found_out(running: Running) -> None:
    key = released(running)

    def change(path: str, content: bytes) -> bytes:
        if not path.endswith("/policies/0") or "sources" in path:
            return content
        return json.dumps({**json.loads(content), "public_seed": 7}).encode()

    audit = audited(running, key, change)
    (problem,) = audit.problems
    assert "target, version 0: the policy has the SHA-256" in problem


def test_a_study_that_publishes_meanwhile_is_read_again(running: Running) -> None:
    key = released(running)
    left = 2

    def change(path: str, content: bytes) -> bytes:
        nonlocal left
        if path.endswith("/certificate") and left:
            left -= 1
            return json.dumps({**json.loads(content), "ledger": f"{left}"}).encode()
        return content

    assert audited(running, key, change).holds
    left = 10**9
    with pytest.raises(Unreachable, match="published meanwhile"):
        audited(running, key, change)


def test_a_device_may_not_audit(running: Running, tmp_path: Path) -> None:
    running.open_local()
    with (
        Auditor(running.url, "study", key=running.key("device")) as auditor,
        pytest.raises(Refused, match="403"),
    ):
        auditor.check()
