"""A disk that is full, a database that is gone, a clock that is set back: a clear answer, and
nothing lost. PostgreSQL on a full disk is in test_small_disks.py."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest
from sqlalchemy import event

from discreet import LocalKernel
from discreet.privacy import Local
from discreet.service.client import Device, Patience, Unreachable
from discreet.service.server.app import create_app
from discreet.service.server.database import _NOTICE, Database, Unavailable
from discreet.service.server.deployment import Deployment
from discreet.service.server.schema import public_coins
from discreet.service.server.service import Service
from tests.service.server.conftest import Databases
from tests.service.server.scene import check_told_the_same, count
from tests.service.server.web import (
    ADDRESS,
    DOMAIN,
    ENVIRONMENT,
    TestClient,
    Web,
    listening,
    opened,
    serving,
)

pytestmark = pytest.mark.chance(0)
REPORTS = "/v1/studies/other/reports"
_MOST_PAGES = 2**32 - 2


@contextmanager
def full(database: Database) -> Iterator[None]:
    """The file of SQLite may not grow meanwhile."""
    pages = [1]  # it is never less than the file has

    def limit(raw: Any, *_: object) -> None:
        raw.execute(f"PRAGMA max_page_count = {pages[0]}")

    # Every connection has a limit of its own.
    event.listen(database.engine, "checkout", limit)
    try:
        yield
    finally:
        pages[0] = _MOST_PAGES


def released(web: Web, version: int) -> None:
    """Wait until the aggregator has published a version."""
    end = time.monotonic() + 60.0
    while web.service.store.policy("other").version < version:
        assert time.monotonic() < end, "nobody releases what is due"
        time.sleep(0.02)


def test_a_full_disk(tmp_path: Path) -> None:
    """Whatever was answered with 202 is there; whatever was not is taken once there is room."""
    with serving(tmp_path) as web:
        sent, answers = [web.reports(100, "other") for _ in range(8)], []
        with full(web.service.database):
            for each in sent:
                answers.append(web.ask("POST", REPORTS, "device", json={"reports": [each]}))
            assert answers[-1].status_code == 503
            assert "full" in answers[-1].json()["error"]
            assert "retry-after" in answers[-1].headers
            accepted = sum(answer.status_code == 202 for answer in answers)
            assert count(web.service.database, public_coins) == 100 * accepted
            assert web.ask("GET", "/v1/studies/other/policy", "device").status_code == 200
        for each in sent:
            assert web.ask("POST", REPORTS, "device", json={"reports": [each]}).status_code == 202
        assert count(web.service.database, public_coins) == 100 * len(sent)
        released(web, 1)
    check_told_the_same(web.service.store, "other")


def test_a_certificate_under_a_clock_that_is_set_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is of the newest version, whatever clocks said when that was drawn."""
    service = opened(tmp_path)
    tokens = {"auditor": service.keys.make("auditor")}
    web = Web(service, TestClient(create_app(service), base_url=ADDRESS), tokens)
    for days in (30.0, 60.0):
        now = time.time() - days * 86_400.0
        # A clock that was set back and confirmed at a restart.
        monkeypatch.setattr(service.store.clock, "now", lambda now=now: now)
        service.ingest.add("other", [web.reports(50, "other")], None)
        assert service.aggregator.step() == 1
    rows = web.ask("GET", "/v1/studies/other/ledger", "auditor").json()
    assert [row["version"] for row in rows] == [2, 1, 0]
    certificate = web.ask("GET", "/v1/studies/other/certificate", "auditor").json()
    assert certificate["guarantee"] == rows[0]["guarantee"]
    assert rows[0]["guarantee"] != rows[2]["guarantee"]
    service.stop()


@pytest.mark.slow
def test_a_database_that_is_gone_for_a_while(postgresql: Any, tmp_path: Path) -> None:
    url = Databases("postgresql", tmp_path, postgresql).new()
    service = Service.open(url, ENVIRONMENT)
    learner = LocalKernel(DOMAIN, ["leaflet", "call"], budget=Local(1.0), horizon=20_000)
    service.store.register(Deployment("other", "", "leaflet", 30.0, 0.0, (), ""), learner)
    tokens = {"device": service.keys.make("device")}
    with TestClient(create_app(service), base_url=ADDRESS) as client:
        web = Web(service, client, tokens)
        before, during = web.reports(5, "other"), web.reports(50, "other")
        assert web.ask("POST", REPORTS, "device", json={"reports": [before]}).status_code == 202
        postgresql._stop()
        try:
            for _ in range(3):
                answer = web.ask("POST", REPORTS, "device", json={"reports": [during]})
                assert answer.status_code == 503
                assert "retry-after" in answer.headers
                time.sleep(0.5)  # the aggregator of the application goes on trying
            assert web.ask("GET", "/ready").json()["status"] == "the database cannot be reached"
            assert web.ask("GET", "/health").status_code == 200
        finally:
            postgresql.ensure_postgres_running()
        assert web.ask("POST", REPORTS, "device", json={"reports": [during]}).status_code == 202
        assert count(service.database, public_coins) == 55
        released(web, 1)
        assert web.ask("GET", "/ready").status_code == 200
    check_told_the_same(service.store, "other")


def gone_for_a_minute(server: Any, url: str) -> None:
    """Stop PostgreSQL for a minute, in which a service asked at `url` says that it is gone."""
    server._stop()
    try:
        back = time.monotonic() + 60.0
        while time.monotonic() < back:
            started = time.monotonic()
            ready = httpx2.get(f"{url}/ready")
            assert ready.status_code == 503
            assert ready.json()["status"] == "the database cannot be reached"
            assert httpx2.get(f"{url}/health").status_code == 200
            assert time.monotonic() - started < 5.0
            time.sleep(1.0)
    finally:
        server.ensure_postgres_running()


@pytest.mark.slow
def test_devices_report_through_a_minute_without_a_database(
    postgresql: Any, tmp_path: Path
) -> None:
    """Each of them begins before, during or after, and goes on until its report is accepted."""
    devices = 60
    database = Databases("postgresql", tmp_path, postgresql).new()
    service = Service.open(database, ENVIRONMENT)
    learner = LocalKernel(DOMAIN, ["leaflet", "call"], budget=Local(1.0), horizon=20_000)
    service.store.register(Deployment("other", "", "leaflet", 30.0, 0.0, (), ""), learner)
    key, agreed = service.keys.make("device"), learner.terms().digest
    rows: list[Any] = []
    complaints: set[str] = set()

    def take_part(url: str, place: int) -> None:
        time.sleep(1.2 * place)
        store = tmp_path / f"{place}.db"
        patience = Patience(attempts=2, first=0.2)
        with Device(url, "other", key=key, store=store, agreed=agreed, patience=patience) as device:
            choice = None
            while choice is None or choice.id is None:  # there is no policy yet: the default arm
                with suppress(Unreachable):
                    choice = device.act({"age": 40, "smoker": "no"})
                time.sleep(0.2)
            assert device.report(choice.id, 1.0)
            while device.ledger()[0].state != "accepted":
                try:
                    device.send()
                except Unreachable as error:
                    complaints.add(str(error))
                    time.sleep(1.0)
            rows.extend(device.ledger())

    with listening(create_app(service)) as port:
        url = f"http://127.0.0.1:{port}"
        people = [threading.Thread(target=take_part, args=(url, each)) for each in range(devices)]
        for each in people:
            each.start()
        time.sleep(5.0)
        gone_for_a_minute(postgresql, url)
        for each in people:
            each.join(60.0)
            assert not each.is_alive()
        assert [row.state for row in rows] == ["accepted"] * devices
        assert complaints
        assert all("the database cannot be reached" in each for each in complaints)
        assert count(service.database, public_coins) == devices
        end = time.monotonic() + 60.0
        while (
            service.aggregator.waiting("other") >= service.store.study("other").learner.batch_size
        ):
            assert time.monotonic() < end, "nobody releases what is due"
            time.sleep(0.05)
        assert httpx2.get(f"{url}/ready").status_code == 200
    check_told_the_same(service.store, "other")


def test_a_database_that_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What listens and never answers, as a machine does that is gone, keeps nobody waiting long."""
    monkeypatch.setitem(_NOTICE, "connect_timeout", 2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        database = Database(f"postgresql+psycopg://discreet:secret@127.0.0.1:{port}/discreet")
        started = time.monotonic()
        with (
            pytest.raises(Unavailable, match=r"^the database cannot be reached$"),
            database.reading(),
        ):
            pass
        assert time.monotonic() - started < 10.0
