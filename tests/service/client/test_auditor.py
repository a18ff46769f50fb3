"""An auditor believes what follows from what was published, and nothing else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from discreet.service.client import AsyncAuditor, Audit, Auditor, Refused, Unreachable
from discreet.service.server.backup import back_up, restore
from discreet.service.server.database import Database
from discreet.service.server.encryption import KEY_VARIABLE, Cipher
from discreet.service.server.service import Service
from tests.service.client.conftest import QUICK, Running, answering, served
from tests.service.client.test_decisions import open_joint


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, str]]:
    """A service whose study released three times, which auditors only read; a token for them."""
    with served(tmp_path_factory.mktemp("released")) as running:
        running.open_local()
        for _ in range(2):
            running.people_report("study", 300)
        yield running, running.key("auditor", "study")


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


def test_an_honest_service_holds(released: tuple[Running, str]) -> None:
    running, key = released
    with Auditor(running.url, "study", key=key) as auditor:
        audit = auditor.check()
        assert audit.holds, audit
        assert audit.guarantee.epsilon == pytest.approx(1.0)
        assert audit.versions["target"] > 1
        assert audit.versions["clinic"] == 1
        assert "follows from" in str(audit)
        assert auditor.certificate()["study"] == "study"
        assert {row["digest"] for row in auditor.ledger()} == {
            row["digest"] for row in auditor.releases()
        }
    assert audited(running, key) == audit


def test_awaited(released: tuple[Running, str]) -> None:
    running, key = released

    async def check() -> Audit:
        async with AsyncAuditor(running.url, "study", key=key) as auditor:
            return await auditor.check()

    assert asyncio.run(check()).holds


def trusted(running: Running) -> str:
    """A study under joint privacy that released; a token for its auditor."""
    pytest.importorskip("opendp")
    open_joint(running, "study")
    for place in range(60):
        decision = running.service.decisions.decide("study", [[0.1], [0.9]])
        running.service.decisions.reward("study", decision.id, float(place % 2))
        running.service.aggregator.step()
    assert running.service.store.policy("study").version > 0
    return running.key("auditor", "study")


@pytest.fixture(scope="module")
def declaring(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, str]]:
    """A service with such a study, which auditors only read; a token for them."""
    with served(tmp_path_factory.mktemp("declaring")) as running:
        yield running, trusted(running)


@pytest.mark.chance(0)
def test_joint_privacy_follows_from_what_is_declared(declaring: tuple[Running, str]) -> None:
    audit = audited(*declaring)
    assert audit.holds, audit
    assert "mechanisms declared" in str(audit)


def declared(times: float, field: str) -> Any:
    """Change what the last row declares of its last mechanism."""

    def change(records: Any) -> Any:
        record = records[-1][1]
        place = record if field in record else record["event"]
        place[field] *= times
        return records

    return rows_changed(declared=change)


@pytest.mark.chance(0)
def test_what_is_declared_must_be_what_is_claimed(declaring: tuple[Running, str]) -> None:
    running, key = declaring
    for change, said in (
        (declared(0.5, "noise_multiplier"), "but what it declares gives epsilon"),
        (declared(2.0, "noise_multiplier"), "declares a noise multiplier"),
        (declared(2.0, "sensitivity"), "declares a noise multiplier"),
        (rows_changed(declared=lambda _: []), "but what it declares gives nothing drawn"),
        (rows_changed(guarantee=smaller), "the ledger claims"),
        (rows_changed(guarantee=surer), "the ledger claims"),
        (rows_changed(guarantee=surer, delta=lambda _: 0.0), "the ledger claims"),
        (rows_changed(delta=lambda _: 0.0), "the row says delta = 0.0"),
    ):
        audit = audited(running, key, change)
        assert not audit.holds
        assert said in str(audit)


@pytest.mark.chance(0)
def test_a_service_that_declares_no_mechanisms_is_found(declaring: tuple[Running, str]) -> None:
    assert "unverified" in str(audited(*declaring, rows_changed(declared=lambda _: None)))


@pytest.mark.chance(0)
def test_after_a_restore_what_was_paid_before_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = Cipher.new_key()
    monkeypatch.setattr(Cipher, "new_key", lambda: key)
    with served(tmp_path) as running:
        token = trusted(running)
        back_up(running.service.database, tmp_path / "again.db")
    url = f"sqlite:///{tmp_path / 'again.db'}"
    database = Database(url, Cipher.from_environment({KEY_VARIABLE: key}))
    restore(database)
    database.close()
    with answering(Service.open(url, {KEY_VARIABLE: key})) as again:
        audit = Auditor(again.url, "study", key=token).check()
    assert audit.holds, audit
    assert audit.guarantee.epsilon == pytest.approx(1.0)  # all of it to the former learner


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


def surer(guarantee: dict[str, Any]) -> dict[str, Any]:
    return {**guarantee, "delta": 0.0}


def trusting(path: str, content: bytes) -> bytes:
    """A source whose row says that its people trust the service, so that nothing follows."""
    if not path.endswith("/ledger"):
        return content
    rows = json.loads(content)
    for row in rows:
        if row["stream"] == "clinic":
            row["guarantee"] = {**row["guarantee"], "trust_model": "joint", "epsilon": 0.001}
    return json.dumps(rows).encode()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (trusting, "its guarantee is joint"),
        (rows_changed(reports=lambda n: n + 1), "SHA-256 of another ledger"),
        (rows_changed(guarantee=smaller), "the ledger claims epsilon = 0.5"),
        (rows_changed(held=lambda held: held // 2), "millionths"),
        (rows_changed(held=lambda held: 3 * held), "millionths"),
        (rows_changed(asked=lambda asked: 2 * asked), "something else asked for"),
        (rows_changed(digest=lambda digest: digest[::-1]), "two SHA-256"),
        (rows_changed(digest=lambda digest: digest[::-1]), "the policy has the SHA-256"),
    ],
)
def test_a_ledger_that_was_changed_is_found_out(
    change: Any, said: str, released: tuple[Running, str]
) -> None:
    audit = audited(*released, change)
    assert not audit.holds
    assert said in str(audit)


def test_a_version_that_was_never_published_is_found_out(released: tuple[Running, str]) -> None:
    with pytest.raises(Refused, match="has published no policy"):
        audited(*released, rows_changed(version=lambda version: version + 1))


def test_a_row_that_is_missing_is_found_out(released: tuple[Running, str]) -> None:
    running, key = released

    def without(path: str, content: bytes) -> bytes:
        if not path.endswith("/ledger"):
            return content
        rows = json.loads(content)
        return json.dumps([row for row in rows if row["version"] != 1]).encode()

    audit = audited(running, key, without)
    assert any("the ledger does not know it" in problem for problem in audit.problems)


def test_a_certificate_that_says_more_is_found_out(released: tuple[Running, str]) -> None:
    running, key = released

    def change(path: str, content: bytes) -> bytes:
        if not path.endswith("/certificate"):
            return content
        fields = json.loads(content)
        fields["guarantee"] = smaller(fields["guarantee"])
        return json.dumps(fields).encode()

    audit = audited(running, key, change)
    assert "another guarantee than the last row" in str(audit)
    assert "something else than in numbers" in str(audit)


def test_a_policy_that_was_changed_is_found_out(released: tuple[Running, str]) -> None:
    running, key = released

    def change(path: str, content: bytes) -> bytes:
        if not path.endswith("/policies/0") or "sources" in path:
            return content
        return json.dumps({**json.loads(content), "public_seed": 7}).encode()

    audit = audited(running, key, change)
    (problem,) = audit.problems
    assert "target, version 0: the policy has the SHA-256" in problem


def test_a_study_that_publishes_meanwhile_is_read_again(released: tuple[Running, str]) -> None:
    running, key = released
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


def test_a_device_may_not_audit(released: tuple[Running, str]) -> None:
    running, _ = released
    with (
        Auditor(running.url, "study", key=running.key("device")) as auditor,
        pytest.raises(Refused, match="403"),
    ):
        auditor.check()
