"""Keys: made once, kept as hashes, revoked at once; and the log of who did what."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from discreet.service.server.database import Database, SteadyClock
from discreet.service.server.errors import NotFound, Unauthorized
from discreet.service.server.keys import ROLES, ApiKey, Keys, opens
from discreet.service.server.ledger import noted
from discreet.service.server.schema import (
    RECORD_SECONDS,
    SET_ASIDE,
    batches,
    decisions,
    keys,
    metadata,
)
from discreet.validation import InvalidInput
from tests.service.server.web import serving


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    made = Database(f"sqlite:///{tmp_path}/keys.db")
    metadata.create_all(made.engine)
    yield made
    made.close()


@pytest.mark.parametrize("role", ROLES)
def test_a_token_opens_what_it_was_made_for(database: Database, role: str) -> None:
    token = Keys(database).make(role, "s", "mine")
    key = Keys(database).check(token)
    assert (key.role, key.study) == (role, "s")
    assert key.covers("s")
    assert not key.covers("t")
    assert ApiKey("0", "device", None).covers("t")


def test_only_a_hash_is_kept(database: Database, tmp_path: Path) -> None:
    token = Keys(database).make("device")
    secret = token.split("_", 2)[2]
    with database.reading() as connection:
        row = connection.execute(select(keys)).one()
    assert not any(secret in str(value) for value in row)
    files = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert secret.encode() not in files
    assert row.hash in files


def test_other_tokens_open_nothing(database: Database) -> None:
    made = Keys(database)
    token, other = made.make("device"), made.make("operator")
    _, identity, secret = token.split("_", 2)
    changed = "A" if secret[0] != "A" else "B"
    for wrong in (
        "",
        "x",
        token + "A",
        token[:-1],
        token.upper(),
        token + "\n",
        f"dk_{identity}_{changed}{secret[1:]}",
        f"dk_{other.split('_')[1]}_{secret}",
        f"dk_{'0' * 16}_{secret}",
        f"dk_{identity}_{'é' * 43}",
    ):
        with pytest.raises(Unauthorized) as refused:
            made.check(wrong)
        assert secret not in str(refused.value)
    assert made.check(token).id == identity


def test_revoked_at_once_and_once(database: Database) -> None:
    token = Keys(database).make("device", by="abc")
    identity = token.split("_")[1]
    assert Keys(database).revoke(identity, "abc")
    assert not Keys(database).revoke(identity, "abc")
    with pytest.raises(Unauthorized):
        Keys(database).check(token)
    with pytest.raises(NotFound):
        Keys(database).revoke("nothing")
    lines = noted(database)
    assert [line["key"] for line in lines] == ["abc", "abc"]
    assert [line["what"].split()[0] for line in lines] == ["made", "revoked"]


def test_a_key_expires(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Keys(database)
    token = made.make("device", days=2.0)
    assert made.check(token).rate is None
    assert opens(made.list()[0])
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 2.0 * 86_400.0 + 1.0)
    with pytest.raises(Unauthorized, match="has expired"):
        made.check(token)
    assert not opens(made.list()[0])


@pytest.mark.parametrize(("days", "least"), [(None, 2.0), (9.0, 2.0), (1.0, 1.0)])
def test_a_key_expires_no_later_than_the_key_that_made_it(
    database: Database, days: float | None, least: float
) -> None:
    made = Keys(database)
    maker = made.make("operator", days=2.0).split("_")[1]
    made.make("operator", by=maker, days=days)
    first, second = made.list()
    assert second["expires"] <= first["expires"]
    assert second["expires"] == pytest.approx(second["made"] + least * 86_400.0, abs=60.0)


def test_a_clock_that_is_set_back_revives_no_key(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = passed = 0.0
    began = time.time()
    monkeypatch.setattr(time, "time", lambda: began + now)
    database.clock = SteadyClock(steady=lambda: passed)
    made = Keys(database)
    token = made.make("device", days=2.0)
    now = passed = 2.0 * 86_400.0
    with pytest.raises(Unauthorized, match="has expired"):
        made.check(token)
    now = 0.0
    with pytest.raises(Unauthorized, match="has expired"):
        made.check(token)


def test_a_key_has_its_own_rate(tmp_path: Path) -> None:
    with serving(tmp_path) as web:
        web.tokens["slow"] = web.service.keys.make("device", rate=0.01)
        codes = [web.ask("GET", "/v1/studies", "slow").status_code for _ in range(6)]
        assert codes == [200] + [429] * 5
        refused = web.ask("GET", "/v1/studies", "slow")
        assert "more than 0.01 requests per second" in refused.json()["error"]
        assert web.ask("GET", "/v1/studies", "device").status_code == 200


@pytest.mark.parametrize("aside", [False, True])
def test_what_a_leaked_key_sent_can_be_discarded(tmp_path: Path, aside: bool) -> None:
    with serving(tmp_path) as web:
        path, aggregator = "/v1/studies/local/reports", web.service.aggregator
        leaked = web.tokens["leaked"] = web.service.keys.make("device", "local", "app 3", days=90)
        forged = {"reports": [web.reports(3)]}
        assert web.ask("POST", path, "leaked", json=forged).status_code == 202
        assert web.ask("POST", path, "device", json={"reports": [web.reports(2)]}).json() == {
            "stored": 2,
            "repeated": 0,
        }
        assert aggregator.waiting("local") == 5
        identity = leaked.split("_")[1]
        if aside:
            with web.service.database.writing() as connection:
                own = update(batches).where(batches.c.key == identity)
                connection.execute(own.values(released=SET_ASIDE))
        answer = web.ask("DELETE", f"/v1/keys/{identity}?discard=true", "operator")
        assert answer.json() == {"revoked": True, "discarded": 3}
        assert aggregator.waiting("local") == 2
        assert web.ask("POST", path, "leaked", json=forged).status_code == 401
        # They count as come, whoever sends them again.
        again = web.ask("POST", path, "device", json=forged)
        assert again.json() == {"stored": 3, "repeated": 0}
        assert aggregator.waiting("local") == 2
        assert (
            noted(web.service.database)[-1]["what"] == f"discarded 3 entries of the key {identity}"
        )
        assert web.service.store.set_aside("local") == 0


def test_decisions_of_a_leaked_key_can_be_discarded(tmp_path: Path) -> None:
    with serving(tmp_path) as web:
        identities = [web.decision() for _ in range(3)]
        path = "/v1/studies/joint/decisions"
        for each in identities[:2]:
            web.ask("POST", f"{path}/{each}/reward", "client", json={"reward": 0.5})
        assert web.service.aggregator.waiting("joint") == 2
        key = web.tokens["client"].split("_")[1]
        with web.service.database.writing() as connection:  # as if it expired in a year
            connection.execute(update(decisions).values(expires=time.time() + 365.0 * 86_400.0))
        assert web.service.keys.discard(key, "abc") == 3
        assert web.service.aggregator.waiting("joint") == 0
        late = web.ask("POST", f"{path}/{identities[2]}/reward", "client", json={"reward": 0.5})
        assert late.status_code == 410
        with web.service.database.reading() as connection:
            rows = connection.execute(select(decisions)).all()
        assert all((row.payload, row.mark, row.key) == (None, None, None) for row in rows)
        # As of everything that is erased, a record stays for its time.
        assert all(row.expires == pytest.approx(time.time() + RECORD_SECONDS) for row in rows)


def test_a_release_forgets_by_which_key_reports_came(tmp_path: Path) -> None:
    with serving(tmp_path) as web:
        web.ask("POST", "/v1/studies/local/reports", "device", json={"reports": [web.reports(200)]})
        kept = select(batches.c.key, batches.c.released)
        with web.service.database.reading() as connection:
            assert connection.execute(kept).one().key == web.tokens["device"].split("_")[1]
        deadline = time.monotonic() + 60.0
        while time.monotonic() < deadline and web.service.aggregator.waiting("local"):
            time.sleep(0.05)
        with web.service.database.reading() as connection:
            row = connection.execute(kept).one()
        assert (row.key, row.released) == (None, 1)


@pytest.mark.parametrize(
    "wrong",
    [
        {"role": "king"},
        {"study": "a\0"},
        {"study": "a" * 101},
        {"label": "\n"},
        {"days": 0.0},
        {"rate": -1.0},
    ],
)
def test_what_is_no_key(database: Database, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        Keys(database).make(**{"role": "device", **wrong})
    assert Keys(database).list() == []


def test_the_log_of_one_study(database: Database) -> None:
    for study in ("a", "b", None):
        Keys(database).make("device", study)
    assert [line["study"] for line in noted(database)] == ["a", "b", None]
    (line,) = noted(database, "b")
    assert noted(database, "b", after=line["id"]) == []
    assert line["key"] == "server"
