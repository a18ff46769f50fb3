"""A learner's service and a shuffler of another operator, and devices that reach the shuffler."""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import numpy as np
import pytest

pytest.importorskip("fastapi")

from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import Float, event, select
from starlette.staticfiles import StaticFiles
from starlette.testclient import TestClient

from discreet import (
    InvalidInput,
    LocalKernel,
    Partition,
    Terms,
    encode,
)
from discreet.cli.service import deployment_of
from discreet.lab.studies import load_study
from discreet.learners.messages import Reports
from discreet.learners.partition.rules import Rules
from discreet.service import client
from discreet.service.aggregation import in_order
from discreet.service.client import Auditor, Device, Patience, Unreachable
from discreet.service.client.transport import Refused
from discreet.service.hpke import (
    DAMAGE,
    ciphertext_bytes,
    decrypted_report,
    encrypted_report,
    public_key,
)
from discreet.service.server import ingest
from discreet.service.server.backup import back_up, confirm_move, restore
from discreet.service.server.database import Database, Unavailable
from discreet.service.server.encryption import KEY_VARIABLE, Cipher
from discreet.service.server.errors import Forbidden, Gone
from discreet.service.server.ingest import Receipt
from discreet.service.server.keys import Keys
from discreet.service.server.schema import (
    admitted,
    batches,
    groups,
    held,
    passed,
    relayed,
    relays,
)
from discreet.service.server.service import Service
from discreet.service.shuffler import LearnerClient, Relay, shuffler_app
from tests.cli.cases import STUDY, invoke, write_study
from tests.service.client.conftest import addressed, node
from tests.service.client.test_device import Killed
from tests.service.server.chromium import browser, found
from tests.service.server.conftest import Databases
from tests.service.server.scene import at_once, count, deployment, on_sqlite
from tests.service.server.web import create_app
from tests.service.test_hpke import BUDGET, DOMAIN, SIZE, made

on_both = pytest.mark.parametrize("databases", ["sqlite", "postgresql"], indirect=True)
SHOP = "https://shop.example.org"
KEY = base64.urlsafe_b64encode(b"k" * 32).decode()
QUICK = Patience(attempts=4, first=1e-3, longest=0.05, timeout=30.0)


def partition() -> Partition:
    rules = Rules(batch=2 * SIZE)
    return Partition(DOMAIN, 2, BUDGET, horizon=60, identity="partition", rules=rules)


@dataclass
class World:
    """Both services, with their addresses."""

    service: Service
    relay: Relay
    learner_url: str
    shuffler_url: str
    learner_token: str

    @property
    def terms(self) -> Terms:
        return self.relay.known()[0]

    def policy(self) -> Any:
        return self.service.store.study("s", fresh=True).policies("target")[-1]

    def body(self, seed: int) -> dict[str, str]:
        """What a device sends for one person."""
        policy = self.policy()
        report = made(policy, self.terms, seed)
        sealed = encrypted_report(report, policy, self.terms)
        return {"policy": policy.digest, "ciphertext": base64.b64encode(sealed).decode()}

    def send(self, body: dict[str, str], token: str) -> httpx2.Response:
        return self.ask("POST", f"{self.shuffler_url}/v1/studies/s/reports", token, json=body)

    def group(self, ciphertexts: list[bytes], **changes: Any) -> httpx2.Response:
        """What the learner answers to a group."""
        token = changes.pop("token", self.learner_token)
        texts = [base64.b64encode(each).decode() for each in ciphertexts]
        body = {"id": "a" * 32, "policy": self.policy().digest, "ciphertexts": texts, **changes}
        return self.ask("POST", f"{self.learner_url}/v1/studies/s/groups", token, json=body)

    def ciphertexts(self, seeds: range = range(SIZE)) -> list[bytes]:
        policy = self.policy()
        reports = [made(policy, self.terms, seed) for seed in seeds]
        return [encrypted_report(each, policy, self.terms) for each in reports]

    @staticmethod
    def ask(method: str, url: str, token: str, **more: Any) -> httpx2.Response:
        headers = {"Authorization": f"Bearer {token}"}
        return httpx2.request(method, url, headers=headers, timeout=30.0, **more)


@contextmanager
def learning(folder: Path) -> Iterator[tuple[Service, str]]:
    """The learner's service with the study `s`, at an address."""
    service = Service.open(f"sqlite:///{folder / 'learner.db'}", {KEY_VARIABLE: KEY})
    service.store.register(deployment("s", default_arm="0"), partition())
    with addressed(create_app(service)) as url:
        yield service, url
    service.stop()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with learning(tmp_path) as (service, url):
        token = service.keys.make("shuffler", "s")
        client = LearnerClient(url, "s", key=token)
        relay = Relay.open(f"sqlite:///{tmp_path / 'shuffler.db'}", client)
        relay.refresh()
        with addressed(shuffler_app(relay, origins=[SHOP])) as shuffler:
            yield World(service, relay, url, shuffler, token)
        relay.stop()


def check_counted(service: Service, accepted: list[Reports]) -> None:
    """The learner's sums are those of exactly these reports, each once."""
    while service.aggregator.step():
        pass
    with service.database.reading() as connection:
        assert set(connection.scalars(select(batches.c.stored))) == {SIZE}
    assert service.aggregator.waiting("s") == 0
    _, learner = service.aggregator._learner("s")
    assert learner.people == len(accepted)
    fresh = partition()
    fresh.policy()
    found = [(each, each.public_coins.tolist()) for each in accepted]  # type: ignore[attr-defined]
    fresh.update([part for part, _ in in_order(found, SIZE)])
    assert fresh._sums.reports == learner._sums.reports
    for ours, theirs in zip(fresh._sums.trees, learner._sums.trees, strict=True):
        for name, array in vars(ours).items():
            np.testing.assert_allclose(array, getattr(theirs, name), rtol=1e-12)


def test_a_release_sums_whole_groups(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of as many reports as are summed at once would cut groups that do not divide them."""
    monkeypatch.setattr("discreet.service.aggregation._PART", SIZE + 2)
    policy = world.policy()
    came = [made(policy, world.terms, seed) for seed in range(3 * SIZE)]
    for start in range(0, len(came), SIZE):
        sent = [encrypted_report(each, policy, world.terms) for each in came[start : start + SIZE]]
        world.service.ingest.add_group("s", f"{start:032x}", policy.digest, sent)
    check_counted(world.service, came)
    assert world.service.store.row("s").state == "running"


class TestDevices:
    def test_reports_reach_the_learner_in_whole_groups(
        self, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        accepted, ahead = [], 0.0
        clock = SimpleNamespace(time=lambda: time.time() + ahead)
        monkeypatch.setattr("discreet.service.client.device.time", clock)
        private = world.service.store.study("s").private_key
        for number in range(2 * SIZE + 2):
            key = world.relay.keys.make("device", "s")
            store = tmp_path / f"device{number}.db"
            options: dict[str, Any] = {"store": store, "patience": QUICK, "reward_seconds": 60.0}
            with Device(world.shuffler_url, "s", key=key, **options) as device:
                device.agree(device.terms().digest)
                choice = device.act([0.1 * (number % 10), 0.5])
                assert device.report(choice.id, 1.0)
                # It leaves at a fixed time after the action, not when the reward is known.
                assert device.send() == device.ledger() == []
                ahead += 61.0
                (row,) = device.send()
                assert (row.state, row.delta) == ("accepted", 1e-6)
                assert 0.9 < row.epsilon <= 1.0
                assert row.report_epsilon == pytest.approx(BUDGET.contribution_epsilon)
                assert device.spending().epsilon == pytest.approx(row.epsilon)
                assert device.act([0.5, 0.5]).id is None
                body = json.loads(row.body or b"")
                sealed = base64.b64decode(body["ciphertext"])
                report = decrypted_report(sealed, world.policy(), private)
                assert report is not None
                accepted.append(report)
        assert world.relay.waiting()[1] == 2
        assert world.relay.waiting()[0] == {world.policy().digest: 2}
        assert world.relay.forward() == 2
        check_counted(world.service, accepted[: 2 * SIZE])
        assert world.relay.waiting()[1] == world.relay.forward() == 0

    def test_devices_in_javascript_reach_the_learner(self, world: World) -> None:
        """Each side reads what the other encrypted."""
        private, policy = world.service.store.study("s").private_key, world.policy()
        keys = [world.relay.keys.make("device", "s") for _ in range(2 * SIZE + 1)]
        report = made(policy, world.terms, 1)
        sealed = base64.b64encode(encrypted_report(report, policy, world.terms)).decode()
        given = {
            "agreed": world.terms.digest,
            "keys": keys,
            "sealed": {
                "body": json.dumps({"policy": policy.digest, "ciphertext": sealed}),
                "secret": private.private_bytes_raw().hex(),
                "open": public_key(private),
            },
        }
        seen = json.loads(node("shuffled.mjs", world.shuffler_url, "s", given=json.dumps(given)))
        assert seen["opened"].rstrip() == encode(report)
        accepted, cost = [], policy.event(policy.epsilon).amplified(world.terms.delta)
        for each in seen["ledgers"]:
            (row,) = each["rows"]
            assert (each["early"], each["again"], row["state"]) == (0, None, "accepted")
            assert row["epsilon"] == each["spent"]["epsilon"] == pytest.approx(cost, rel=1e-9)
            assert row["delta"] == each["spent"]["delta"] == world.terms.delta
            assert row["reportEpsilon"] == policy.epsilon
            sent = base64.b64decode(json.loads(row["body"])["ciphertext"])
            assert len(sent) == ciphertext_bytes(policy, world.terms)
            opened = decrypted_report(sent, policy, private)
            assert opened is not None
            policy.reporter.check(policy, opened)
            accepted.append(opened)
        assert world.relay.waiting() == ({policy.digest: 1}, 2)
        assert world.relay.forward() == 2
        check_counted(world.service, accepted[: 2 * SIZE])

    def test_pages_of_an_allowed_origin_are_devices(self, world: World) -> None:
        url, token = f"{world.shuffler_url}/v1/studies/s/terms", world.relay.keys.make("device")
        for origin, allowed in ((SHOP, SHOP), ("https://evil.example", None)):
            answer = httpx2.get(url, headers={"Origin": origin, "Authorization": f"Bearer {token}"})
            assert answer.headers.get("access-control-allow-origin") == allowed

    @pytest.mark.slow
    @pytest.mark.skipif(found() is None, reason="there is no Chromium")
    def test_a_page_of_another_origin_takes_part(self, world: World, tmp_path: Path) -> None:
        modules = StaticFiles(directory=Path(client.__file__).with_name("javascript"))
        key = world.relay.keys.make("device", "s")
        with (
            addressed(modules) as page,
            addressed(shuffler_app(world.relay, origins=[page])) as shuffler,
            browser(tmp_path / "browser") as tab,
        ):
            tab.visit(f"{page}/package.json")
            options = {"key": key, "agreed": world.terms.digest, "rewardSeconds": 60}
            row = tab.ask(f"""(async () => {{
                const {{ Device, IndexedDBStorage }} = await import("/index.js");
                const shuffling = await import("/seal.js");
                const storage = new IndexedDBStorage("person");
                const options = {{ storage, shuffling, ...{json.dumps(options)} }};
                const device = new Device("{shuffler}", "s", options);
                const {{ id }} = await device.act([0.1, 0.5]);
                await device.report(id, 1);
                const real = Date.now;
                Date.now = () => real() + 61_000;
                return (await device.send())[0];
            }})()""")
        sealed = base64.b64decode(json.loads(row["body"])["ciphertext"])
        private = world.service.store.study("s").private_key
        assert row["state"] == "accepted"
        assert decrypted_report(sealed, world.policy(), private) is not None
        assert world.relay.waiting()[0] == {world.policy().digest: 1}

    def test_the_agreed_sha256_covers_the_learners_key(self, world: World, tmp_path: Path) -> None:
        own = Cipher(b"x" * 32).receiving_key("s")
        forged = replace(world.terms, learner_key=public_key(own))
        assert forged.digest != world.terms.digest
        assert Terms.from_fields(forged.to_fields()) == forged
        nothing = replace(world.terms, learner_key="")
        key = world.relay.keys.make("device", "s")
        for offered, message in ((forged, "asks for"), (nothing, "name no key|no learner_key")):
            agreed = world.terms.digest if offered is forged else offered.digest

            def answer(request: httpx2.Request, offered: Terms = offered) -> httpx2.Response:
                return httpx2.Response(200, json=offered.to_fields())

            device = Device(
                world.shuffler_url,
                "s",
                key=key,
                store=tmp_path / "device.db",
                agreed=agreed,
                transport=httpx2.MockTransport(answer),
            )
            with pytest.raises(InvalidInput, match=message):
                device.act([0.5, 0.5])

    def test_devices_do_not_reach_the_learner(self, world: World) -> None:
        token = world.service.keys.make("device", "s")
        for place in ("terms", "policy"):
            url = f"{world.learner_url}/v1/studies/s/{place}"
            assert world.ask("GET", url, token).status_code == 403
        report = encode(made(world.policy(), world.terms, 1))
        url = f"{world.learner_url}/v1/studies/s/reports"
        answer = world.ask("POST", url, token, json={"reports": [report]})
        assert answer.status_code == 400
        assert "send the report to the address of the shuffler" in answer.json()["error"]


class TestIntake:
    def test_each_key_sends_one_report(self, world: World) -> None:
        tokens = [world.relay.keys.make("device", "s") for _ in range(SIZE + 1)]
        body = world.body(1)
        assert world.send(body, tokens[0]).json() == {"stored": 1, "repeated": 0}
        for _ in range(2):
            assert world.send(body, tokens[0]).json() == {"stored": 0, "repeated": 1}
        assert world.send(world.body(2), tokens[0]).status_code == 403
        assert world.send(body, tokens[1]).status_code == 403
        for number in range(1, SIZE):
            assert world.send(world.body(number + 2), tokens[number]).status_code == 202
        # What waits is erased with its key, and known again.
        key = tokens[1].split("_")[1]
        world.send(world.body(8), tokens[SIZE])
        assert count(world.relay.database, held) == 1
        assert world.relay.keys.discard(tokens[SIZE].split("_")[1]) == 1
        assert world.relay.keys.discard(key) == 0
        assert count(world.relay.database, held) == 0

    def test_a_fixed_group_ties_no_key_to_a_ciphertext(self, world: World, tmp_path: Path) -> None:
        tokens = [world.relay.keys.make("device", "s") for _ in range(SIZE + 1)]
        bodies = [world.body(seed) for seed in range(SIZE + 1)]
        for body, token in zip(bodies[:SIZE], tokens, strict=False):
            # What waits may be tied to its key: another report of the key is refused.
            assert count(world.relay.database, groups) == 0
            assert world.send(body, token).json() == {"stored": 1, "repeated": 0}
        assert admitted.columns.keys() == ["study", "key"]
        assert passed.columns.keys() == ["study", "mark"]
        assert count(world.relay.database, held) == 0
        # A copy of the files, with the log of SQLite as it is.
        files = b"".join(path.read_bytes() for path in tmp_path.glob("shuffler.db*"))
        sealed = [base64.b64decode(body["ciphertext"]) for body in bodies]
        assert not any(each in files for each in sealed)
        for body, each in zip(bodies, sealed, strict=True):
            mark = hashlib.sha256(body["policy"].encode() + each).digest()
            assert files.count(mark) == (each != sealed[SIZE])
            assert not any(token.split("_")[1].encode() + mark in files for token in tokens)
        # Whoever tries ciphertexts with a key is told the same of each, whatever the learner has.
        for _ in range(2):
            for body in (*bodies, {"policy": "0" * 64, "ciphertext": "AAAA"}):
                answer = world.send(body, tokens[0])
                assert (answer.status_code, answer.json()) == (202, {"stored": 0, "repeated": 1})
            assert world.relay.waiting()[0] == {}
            world.relay.forward()
        # No ciphertext is in two groups.
        assert world.send(bodies[0], tokens[SIZE]).status_code == 403
        assert world.send(bodies[SIZE], tokens[SIZE]).json() == {"stored": 1, "repeated": 0}

    def test_what_is_no_report_of_a_policy_is_refused(self, world: World) -> None:
        token, body = world.relay.keys.make("device", "s"), world.body(1)
        sealed = base64.b64decode(body["ciphertext"])
        wrong = [
            {**body, "ciphertext": base64.b64encode(sealed[:-1]).decode()},
            {**body, "ciphertext": base64.b64encode(sealed + b"x").decode()},
            {**body, "ciphertext": "no base64!"},
            {**body, "policy": "0" * 64},
            {"reports": [encode(made(world.policy(), world.terms, 1))]},
        ]
        for each in wrong:
            assert world.send(each, token).status_code == 400
        assert world.send(body, world.relay.keys.make("operator", "s")).status_code == 403
        other = f"{world.shuffler_url}/v1/studies/other/terms"
        assert world.ask("GET", other, world.relay.keys.make("device")).status_code == 404
        assert count(world.relay.database, held) == 0
        assert world.send(body, token).status_code == 202

    def test_the_order_is_drawn_from_the_system(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        drawn = []

        class Known(random.SystemRandom):
            def shuffle(self, x: Any) -> None:
                drawn.append(sorted(x))
                x.sort(reverse=True)

        monkeypatch.setattr("discreet.service.shuffler.secrets.SystemRandom", Known)
        for seed in range(SIZE):
            world.send(world.body(seed), world.relay.keys.make("device", "s"))
        with world.relay.database.reading() as connection:
            row = connection.execute(select(groups)).one()
        import zlib

        texts = json.loads(zlib.decompress(row.body))
        assert [base64.b64decode(each) for each in texts] == drawn[0][::-1]

    def test_a_finished_study_forgets_the_rest(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        world.send(world.body(1), world.relay.keys.make("device", "s"))
        body = world.body(2)
        world.service.store.set_state("s", "finished")
        world.relay.refresh()
        assert world.relay.waiting()[0] == {}
        assert world.send(body, world.relay.keys.make("device", "s")).status_code == 410
        # For good, whatever the learner says later.
        running = {**world.relay._learner.facts(), "state": "running"}
        monkeypatch.setattr(world.relay._learner, "facts", lambda: running)
        world.relay.refresh()
        assert world.send(body, world.relay.keys.make("device", "s")).status_code == 410

    def test_a_shuffler_relays_no_other_terms(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before = world.terms
        other = replace(before, group_size=2)
        monkeypatch.setattr(world.relay._learner, "terms", lambda: other)
        with pytest.raises(InvalidInput, match="but devices agreed to"):
            world.relay.refresh()
        assert world.terms == before

    def test_a_copied_database_is_not_restored(self, world: World, tmp_path: Path) -> None:
        """What it holds may have been passed on since, in a group with another id."""
        back_up(world.relay.database, tmp_path / "copy.db")
        url = f"sqlite:///{tmp_path / 'copy.db'}"
        with pytest.raises(InvalidInput, match="the database is a copy"):
            Relay.open(url, LearnerClient(world.learner_url, "s", key=world.learner_token))
        copy = Database(url)
        with pytest.raises(InvalidInput, match="could be in two groups"):
            restore(copy)
        copy.close()
        with pytest.raises(InvalidInput, match="could be in two groups"):
            confirm_move(world.relay.database)

    def test_neither_operator_takes_the_database_of_the_other(
        self, world: World, tmp_path: Path
    ) -> None:
        client = LearnerClient(world.learner_url, "s", key=world.learner_token)
        for each in (world.relay.database, world.service.database):
            each.close()
        with pytest.raises(InvalidInput, match="is that of a service with studies"):
            Relay.open(f"sqlite:///{tmp_path / 'learner.db'}", client)
        with pytest.raises(InvalidInput, match="is that of a shuffler"):
            Service.open(f"sqlite:///{tmp_path / 'shuffler.db'}", {})


class TestServing:
    STUDY = STUDY.replace(
        "epsilon = [1.0, 2.0]",
        'epsilon = 1.0\ntrust_model = "shuffled"\ndelta = 1e-6\ngroup = 50\nhonest = 0.9',
    )

    def test_a_shuffled_line_is_served(self, tmp_path: Path) -> None:
        file = write_study(tmp_path, self.STUDY)
        made, learner = deployment_of(load_study(file))
        assert (learner.budget.group, learner.budget.honest) == (50, 0.9)
        service = Service.open(f"sqlite:///{tmp_path / 'none.db'}", {})
        with pytest.raises(InvalidInput, match="takes encrypted reports, and there is no key"):
            service.store.register(made, learner)
        large = replace(partition().budget, group=10_001)
        for budget, sources, message in (
            (large, (), "group was 10001; a service takes groups of 2 to 10,000"),
            (BUDGET, ("clinic",), "sources had 'clinic', but devices of a shuffled study"),
        ):
            learner = LocalKernel(DOMAIN, 2, budget, horizon=60)
            for name in sources:
                learner.open_source(name, 1.0)
            with pytest.raises(InvalidInput, match=message):
                service.store.register(deployment("t"), learner)
        service.stop()
        assert "under shuffled privacy" in invoke("check", file)[1]

    @pytest.mark.parametrize(
        ("before", "after", "message"),
        [
            ("group = 50", "group = 1", "group was 1; a service takes groups of 2 to 10,000"),
            ("group = 50", "group = 10_001", "group was 10001"),
            ("[problem]", "[serve]\nsources = { clinic = 1.0 }\n[problem]", "reach the shuffler"),
        ],
    )
    def test_what_cannot_be_served(
        self, before: str, after: str, message: str, tmp_path: Path
    ) -> None:
        file = write_study(tmp_path, self.STUDY.replace(before, after))
        with pytest.raises(InvalidInput, match=message):
            deployment_of(load_study(file))


class TestForgedGroups:
    def test_only_whole_groups_of_the_shuffler(self, world: World) -> None:
        sealed = world.ciphertexts(range(SIZE + 1))
        for some in (sealed[: SIZE - 1], sealed):
            answer = world.group(some)
            assert answer.status_code == 400
            assert f"send whole groups of {SIZE}" in answer.json()["error"]
        assert world.group(sealed[:SIZE], policy="0" * 64).status_code == 400
        for role in ("device", "operator", "client", "auditor"):
            token = world.service.keys.make(role, "s")
            assert world.group(sealed[:SIZE], token=token).status_code == 403
        other = world.service.keys.make("shuffler", "other")
        assert world.group(sealed[:SIZE], token=other).status_code == 403
        assert count(world.service.database, batches) == 0

    def test_a_group_that_is_sent_again_changes_nothing(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sealed, opened = world.ciphertexts(), []

        def watched(*given: Any) -> Any:
            opened.append(given)
            return decrypted_report(*given)

        monkeypatch.setattr(ingest, "decrypted_report", watched)
        for _ in range(2):
            assert world.group(sealed).json() == {"stored": SIZE, "repeated": 0}
            assert len(opened) == SIZE
        assert world.group(world.ciphertexts(range(7, 7 + SIZE))).json()["stored"] == SIZE
        assert world.service.aggregator.waiting("s") == SIZE
        # Its row is deleted before its version closes; then its number is still known.
        with world.service.database.writing() as connection:
            connection.execute(batches.delete())
        assert world.group(sealed).json() == {"stored": 0, "repeated": SIZE}
        assert world.service.aggregator.waiting("s") == 0
        assert len(opened) == SIZE

    def test_a_ciphertext_counts_once(
        self, world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """In whatever groups, in whatever order, and twice in one."""
        kept, service = [], world.service
        policy, private = world.policy(), service.store.study("s").private_key
        keep = service.ingest._keep

        def watched(*given: Any) -> Any:
            kept.append(given[3][0])
            return keep(*given)

        monkeypatch.setattr(service.ingest, "_keep", watched)
        first, second = world.ciphertexts(), world.ciphertexts(range(SIZE, 2 * SIZE))
        assert world.group(first).json() == {"stored": SIZE, "repeated": 0}
        assert world.group(first[::-1], id="b" * 32).json() == {"stored": 0, "repeated": SIZE}
        for number, some in enumerate(
            (
                [first[0], *second[: SIZE - 1]],
                [second[-1]] * SIZE,
            )
        ):
            # The answer is that of a group of new ones.
            answer = world.group(some, id=f"{number:032x}")
            assert (answer.status_code, answer.json()) == (202, {"stored": SIZE, "repeated": 0})
            replaced = (1, SIZE - 1)[number]
            assert f"replaced {replaced} of {SIZE} reports" in caplog.messages[-1]
        rows = [encode(part.of(np.array([row]))) for part in kept for row in range(SIZE)]
        for each in (*first, *second):
            assert rows.count(encode(decrypted_report(each, policy, private))) == 1  # type: ignore[arg-type]
        assert service.aggregator.waiting("s") == 3 * SIZE

    @on_both
    def test_a_ciphertext_counts_once_in_groups_at_once(
        self, databases: Databases, caplog: pytest.LogCaptureFixture
    ) -> None:
        service = Service.open(databases.new(), {KEY_VARIABLE: KEY})
        service.store.register(deployment("s"), partition())
        policy = service.store.study("s").policies("target")[-1]
        terms = service.store.study("s").terms
        first, *rest = (
            encrypted_report(made(policy, terms, seed), policy, terms)
            for seed in range(2 * SIZE - 1)
        )
        meeting = threading.Barrier(2)
        keep, answers = service.ingest._keep, []

        def watched(*given: Any) -> Any:
            meeting.wait(30)  # both have looked up what is known
            return keep(*given)

        def send(number: int) -> None:
            some = [first, *rest[number::2]]
            try:
                answers.append(service.ingest.add_group("s", f"{number:032x}", policy.digest, some))
            except Unavailable:
                service.ingest._keep = keep  # type: ignore[method-assign]
                answers.append(service.ingest.add_group("s", f"{number:032x}", policy.digest, some))
                assert f"replaced 1 of {SIZE} reports" in caplog.messages[-1]
                answers.append(Unavailable)

        service.ingest._keep = watched  # type: ignore[method-assign]
        at_once([lambda number=number: send(number) for number in range(2)])
        receipt = Receipt(SIZE, 0)
        assert [each for each in answers if isinstance(each, Receipt)] == [receipt, receipt]
        assert len(answers) == 3
        assert service.aggregator.waiting("s") == 2 * SIZE
        service.stop()

    def test_no_report_stops_its_group(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        """However reading it fails: as the aggregator sets such a row aside."""
        served = type(world.service.store.study("s"))
        check, failing = served.check_reports, list(DAMAGE)

        def wrong(self: Any, stream: str, reports: Reports) -> None:
            if len(failing) > left:
                raise failing.pop()
            check(self, stream, reports)

        monkeypatch.setattr(served, "check_reports", wrong)
        for left in reversed(range(len(DAMAGE))):
            sealed = world.ciphertexts(range(left * SIZE, left * SIZE + SIZE))
            answer = world.group(sealed, id=f"{left:032x}")
            assert answer.json() == {"stored": SIZE, "repeated": 0}
            assert len(failing) == left

    def test_a_hostile_ciphertext_is_replaced(
        self, world: World, caplog: pytest.LogCaptureFixture
    ) -> None:
        policy, terms = world.policy(), world.terms
        good = made(policy, terms, 1)
        size = ciphertext_bytes(policy, terms)
        bad_place: Any = replace(good, places=good.places + 10**6)  # type: ignore[attr-defined]
        two = made(policy, terms, 2, people=2)
        other = replace(good, source="another learner")
        wide = replace(good, places=np.tile(good.places, 3), signs=np.tile(good.signs, 3))  # type: ignore[attr-defined]
        hostile = [
            os.urandom(size),
            b"short",
            *(encrypted_report(each, policy, terms) for each in (bad_place, other)),
            encrypted_report(replace(good, policy_version=1), policy, terms),
            encrypted_report(good, replace(policy, public_seed=7), terms),
        ]
        from discreet.service import hpke

        key = hpke.X25519PublicKey.from_public_bytes(bytes.fromhex(terms.learner_key))
        for text in (b"[" * 5000, b"\xff", encode(two).encode(), encode(wide).encode()):
            hostile.append(hpke._SUITE.encrypt(text, key, hpke._info(policy.digest)))
        for number, each in enumerate(hostile):
            sealed = [*world.ciphertexts(range(SIZE - 1)), each]
            answer = world.group(sealed, id=f"{number:032x}")
            # The shuffler does not learn which were opened.
            assert (answer.status_code, answer.json()) == (202, {"stored": SIZE, "repeated": 0})
            assert f"replaced 1 of {SIZE} reports" in caplog.messages[-1]
        assert world.service.aggregator.waiting("s") == SIZE * len(hostile)
        while world.service.aggregator.step():
            pass
        _, learner = world.service.aggregator._learner("s")
        assert learner.people % SIZE == 0
        assert learner.people > 0
        assert learner.guarantee().trust_model == "shuffled"
        assert world.service.store.set_aside("s") == 0

    def test_the_certificate_holds(self, world: World) -> None:
        for number in range(6):
            seeds = range(number * SIZE, number * SIZE + SIZE)
            world.group(world.ciphertexts(seeds), id=f"{number:032x}")
            world.service.aggregator.step()
        token = world.service.keys.make("auditor", "s")
        found = Auditor(world.learner_url, "s", key=token).check()
        assert found.holds, found.problems
        assert found.guarantee.trust_model == "shuffled"
        assert found.versions["target"] > 1

    def test_a_restored_learner_refuses_former_policies(self, world: World, tmp_path: Path) -> None:
        sealed, digest = world.ciphertexts(), world.policy().digest
        world.group(sealed)
        back_up(world.service.database, tmp_path / "copy.db")
        copy = Database(f"sqlite:///{tmp_path / 'copy.db'}", Cipher(b"k" * 32))
        assert restore(copy).kept == SIZE
        copy.close()
        again = Service.open(f"sqlite:///{tmp_path / 'copy.db'}", {KEY_VARIABLE: KEY})
        with pytest.raises(Gone, match="before this server was restored"):
            again.ingest.add_group("s", "b" * 32, digest, sealed)
        assert again.store.study("s").terms == world.service.store.study("s").terms
        again.stop()


def test_what_the_two_databases_hold(
    world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The shuffler's: no report, time, address or order; the learner's: no device and no order."""
    caplog.set_level(logging.INFO)
    bodies, keys = [], []
    for seed in range(2 * SIZE + 1):
        keys.append(world.relay.keys.make("device", "s"))
        bodies.append(world.body(seed))
    made_at = time.time()
    caplog.clear()
    for body, key in zip(bodies, keys, strict=True):
        assert world.send(body, key).status_code == 202
    own = [each for each in caplog.records if each.name.startswith("discreet")]
    assert own == []  # no request of a device is logged, so no time of it is
    for table in (relays, relayed, held, groups):
        assert not any(isinstance(column.type, Float) for column in table.columns)
    world.relay.forward()
    with world.relay.database.reading() as connection:
        found = {
            table.name: [tuple(row) for row in connection.execute(select(table))]
            for table in held.metadata.sorted_tables
            if table.name != "keys"
        }
    assert {name for name, rows in found.items() if rows} == {
        *("server", "operations", "relays", "relayed", "admitted", "held", "passed")
    }
    for name in ("relays", "relayed", "admitted", "held", "passed"):
        for row in found[name]:
            assert not any(isinstance(value, float) and value > made_at - 1e6 for value in row)
    # In the order of their keys, which are random.
    assert [row[1] for row in found["admitted"]] == sorted(key.split("_")[1] for key in keys)
    ids = {key.split("_")[1].encode() for key in keys}
    policy, private = world.policy(), world.service.store.study("s").private_key
    world.service.aggregator.step()
    sealed = [base64.b64decode(body["ciphertext"]) for body in bodies]
    reports = [encode(decrypted_report(each, policy, private)) for each in sealed]  # type: ignore[arg-type]
    with world.service.database.reading() as connection:
        rows = connection.execute(select(batches.c.body)).scalars().all()
    import zlib

    for row in filter(None, rows):
        kept = json.loads(zlib.decompress(row))
        (coins,) = kept["ids"]
        assert coins == sorted(coins)  # the order of coins, not of the group
    world.relay.database.close()
    world.service.database.engine.dispose()
    shuffler, learner = contents(tmp_path / "shuffler.db"), contents(tmp_path / "learner.db")
    assert b"127.0.0.1" not in shuffler
    assert not any(report.encode() in shuffler for report in reports)
    assert sum(each in shuffler for each in sealed) == 1  # that of the rest
    assert not any(each in learner for each in (*ids, *sealed))


def contents(path: Path) -> bytes:
    """The bytes of a file of SQLite, after its log was written into it."""
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return path.read_bytes()


# Stopped at any point.


class Memory:
    """A learner that keeps groups by id, as the service does.

    Attributes:
        lost: whether the answer to the next group is lost.
    """

    study = "s"

    def __init__(self) -> None:
        self.groups: dict[str, list[str]] = {}
        self.lost = False
        self._learner = partition()
        self._policy = self._learner.policy()

    def facts(self) -> dict[str, str]:
        return {"state": "running"}

    def terms(self) -> Terms:
        key = Cipher(b"k" * 32).receiving_key("s")
        return replace(self._learner.terms(), learner_key=public_key(key))

    def policy(self, known: str | None) -> Any:
        return None if known == self._policy.digest else self._policy

    def close(self) -> None:
        """Nothing is open."""

    def send(self, group: str, digest: str, ciphertexts: list[str]) -> None:
        self.groups.setdefault(group, ciphertexts)
        if self.lost:
            self.lost = False
            raise Unreachable("too late")


def test_a_group_that_is_refused_blocks_no_other(tmp_path: Path) -> None:
    learner, first = Memory(), list[str]()
    relay = Relay.open(f"sqlite:///{tmp_path / 'relay.db'}", learner)  # type: ignore[arg-type]
    relay.refresh()
    policy = learner.policy(None)
    size, keep = ciphertext_bytes(policy, learner.terms()), learner.send
    for number in range(2 * SIZE):
        relay.take(f"key{number}", policy.digest, bytes([number]) * size)

    def send(group: str, digest: str, ciphertexts: list[str]) -> None:
        if group in first or not first:
            first.append(group)
            raise Refused("of an unknown policy", 400)
        keep(group, digest, ciphertexts)

    learner.send = send  # type: ignore[method-assign]
    with pytest.raises(Refused):
        relay.forward()
    assert len(learner.groups) == 1
    assert relay.waiting()[1] == 1
    relay.stop()


@pytest.mark.parametrize("databases", ["postgresql"], indirect=True)
class TestTwoProcesses:
    """Each with connections of its own to PostgreSQL, which takes two writers at a time."""

    @pytest.fixture
    def relays(self, databases: Databases) -> Iterator[list[Relay]]:
        url, learner = databases.new(), Memory()
        made = [Relay.open(url, learner) for _ in range(2)]  # type: ignore[arg-type]
        made[0].refresh()
        yield made
        for relay in made:
            relay.stop()

    @staticmethod
    def ciphertexts(relay: Relay, number: int) -> tuple[str, list[bytes]]:
        policy = Memory().policy(None)
        size = ciphertext_bytes(policy, relay.known()[0])
        return policy.digest, [bytes([each]) * size for each in range(number)]

    def test_of_two_senders_with_one_key_one_is_taken(self, relays: list[Relay]) -> None:
        digest, sealed = self.ciphertexts(relays[0], 2)
        for key in range(20):
            answers: list[Any] = []

            def send(number: int, key: int = key, answers: list[Any] = answers) -> None:
                own = bytes([key]) + sealed[number][1:]
                try:
                    answers.append(relays[number].take(f"{key:016x}", digest, own))
                except Forbidden:
                    answers.append(Forbidden)

            at_once([lambda number=number: send(number) for number in range(2)])
            fixed, rest = divmod(key + 1, SIZE)
            # Where it completed its group the other is acknowledged without being compared.
            assert sorted(map(str, answers)) == sorted(
                map(str, (True, Forbidden if rest else False))
            )
            assert relays[0].waiting()[1] == fixed
            assert sum(relays[1].waiting()[0].values()) == rest
            assert count(relays[0].database, admitted) == key + 1

    def test_of_two_that_fix_a_group_one_does(
        self, relays: list[Relay], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        digest, sealed = self.ciphertexts(relays[0], SIZE + 1)
        for number in range(SIZE - 1):
            relays[0].take(f"{number:016x}", digest, sealed[number])
        meeting, fix = threading.Barrier(2), Relay._fix_group

        def met(*given: Any) -> bool:
            # Were both here, each would count the reports that the other did not keep yet.
            with suppress(threading.BrokenBarrierError):
                meeting.wait(1.0)
            return fix(*given)

        monkeypatch.setattr(Relay, "_fix_group", met)

        def send(number: int) -> None:
            relays[number % 2].take(f"{number:016x}", digest, sealed[number])

        at_once([lambda number=number: send(number) for number in (SIZE - 1, SIZE)])
        assert meeting.broken
        assert relays[0].waiting()[1] == 1
        assert relays[1].waiting()[0] == {digest: 1}
        relays[0].forward()
        (group,) = relays[0]._learner.groups.values()  # type: ignore[attr-defined]
        with relays[0].database.reading() as connection:
            (rest,) = connection.scalars(select(held.c.ciphertext))
        assert sorted([*map(base64.b64decode, group), rest]) == sealed


@on_sqlite
def test_many_threads_and_processes_fix_whole_groups(databases: Databases) -> None:
    url, learner = databases.new(), Memory()
    relays = [Relay.open(url, learner)]  # type: ignore[arg-type]
    relays[0].refresh()
    if databases.kind == "postgresql":
        relays.append(Relay.open(url, learner))  # type: ignore[arg-type]
    policy = learner.policy(None)
    size, people = ciphertext_bytes(policy, learner.terms()), 4 * SIZE + 2
    sealed = [bytes([number]) * size for number in range(people)]

    def send(number: int) -> None:
        for relay in (*relays, *relays):
            relay.take(f"{number:016x}", policy.digest, sealed[number])

    at_once([lambda number=number: send(number) for number in range(people)])
    assert relays[0].waiting()[1] == 4
    assert relays[-1].waiting()[0] == {policy.digest: 2}
    assert relays[0].forward() == 4
    passed = [each for group in learner.groups.values() for each in group]
    assert [len(group) for group in learner.groups.values()] == [SIZE] * 4
    assert len(set(passed)) == 4 * SIZE
    for relay in relays:
        relay.stop()


def test_an_error_is_logged_once_a_minute(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, rounds = 1e6, 0
    relay = Relay.open(f"sqlite:///{tmp_path / 'relay.db'}", Memory())  # type: ignore[arg-type]
    monkeypatch.setattr("time.monotonic", lambda: now)

    def refused() -> None:
        raise Unreachable("first")

    def failing() -> None:
        nonlocal now, rounds
        rounds += 1
        now += 1.0
        if rounds == 150:
            relay._stopping.set()
        if rounds <= 130:
            raise ValueError("of a person")

    monkeypatch.setattr(relay, "refresh", lambda: refused() if rounds < 130 else None)
    monkeypatch.setattr(relay, "forward", failing)
    monkeypatch.setattr(relay._stopping, "wait", lambda _: None)
    relay.run()
    texts = "the learner's service: first", "the shuffler waits after ValueError"
    counts = [times for times in (1, 60, 60) for _ in texts]
    assert caplog.messages == [
        f"{text} (times: {times})" for text, times in zip(texts * 3, counts, strict=True)
    ]
    assert relay._errors._value.get() == 260
    relay.stop()


def test_a_key_that_the_learner_refuses_is_named_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    relay = Relay.open(f"sqlite:///{tmp_path / 'relay.db'}", Memory())  # type: ignore[arg-type]

    def refused() -> None:
        relay._stopping.set()
        raise Refused("the service refused GET /v1/studies/s", 403)

    monkeypatch.setattr(relay, "refresh", refused)
    monkeypatch.setattr(relay, "forward", lambda: None)
    relay.run()
    assert "DISCREET_SHUFFLER_KEY holds no key of a shuffler of 's' there" in caplog.text
    assert relay.missing() == "the learner has not answered yet; the log says why"
    relay.stop()


def test_metrics_follow_groups_and_no_single_report(tmp_path: Path) -> None:
    learner, size = Memory(), 30
    learner._learner = Partition(DOMAIN, 2, replace(BUDGET, group=size), horizon=600)
    learner._policy = learner._learner.policy()
    relay = Relay.open(f"sqlite:///{tmp_path / 'relay.db'}", learner)  # type: ignore[arg-type]
    app = shuffler_app(relay)
    token = relay.keys.make("operator", "s")
    with TestClient(app, base_url="http://127.0.0.1") as client:

        def values() -> dict[str, float]:
            answer = client.get("/metrics", headers={"Authorization": f"Bearer {token}"})
            assert answer.status_code == 200, answer.text
            found = text_string_to_metric_families(answer.text)
            samples = [sample for family in found for sample in family.samples]
            assert not any(sample.labels for sample in samples)
            return {each.name: each.value for each in samples if "created" not in each.name}

        relay._stopping.set()
        assert relay._thread is not None
        relay._thread.join()
        assert values().keys() == {
            "discreet_held",
            "discreet_groups_waiting",
            "discreet_oldest_group_seconds",
            "discreet_groups_fixed_total",
            "discreet_groups_acknowledged_total",
            "discreet_shuffler_errors_total",
        }
        relay.refresh()
        policy = learner._policy
        length, seen = ciphertext_bytes(policy, learner.terms()), []
        for number in range(size):
            relay.take(f"key{number}", policy.digest, bytes([number]) * length)
            seen.append(values()["discreet_held"])
        assert seen == [float((number + 1) // 3 * 3) for number in range(size - 1)] + [0.0]
        learner.lost = True
        with pytest.raises(Unreachable):
            relay.forward()
        found = values()
        assert found["discreet_groups_waiting"] == found["discreet_groups_fixed_total"] == 1.0
        assert found["discreet_groups_acknowledged_total"] == 0.0
        assert 0.0 < found["discreet_oldest_group_seconds"] < 30.0
        assert values()["discreet_oldest_group_seconds"] > found["discreet_oldest_group_seconds"]
        assert (relay.forward(), relay.forward()) == (1, 0)
        found = values()
        assert found["discreet_groups_acknowledged_total"] == 1.0
        assert found["discreet_groups_waiting"] == found["discreet_oldest_group_seconds"] == 0.0
        # Of the operator alone, and nothing for a key of another study.
        for role, study in (("device", "s"), ("auditor", "s"), ("operator", "other")):
            key = relay.keys.make(role, study)
            answer = client.get("/metrics", headers={"Authorization": f"Bearer {key}"})
            assert answer.status_code == 403
    relay.stop()


def test_stopped_at_every_statement(world: World, tmp_path: Path) -> None:
    """No group is short, no report is in two, and none that was acknowledged is lost."""
    world.relay.database.engine.dispose()
    contents(tmp_path / "shuffler.db")
    fresh = (tmp_path / "shuffler.db").read_bytes()
    digest = world.policy().digest
    size = ciphertext_bytes(world.policy(), world.terms)
    sealed = [bytes([number]) * size for number in range(SIZE + 1)]
    place, done = 0, False
    while not done:
        path = tmp_path / f"killed{place}.db"
        path.write_bytes(fresh)
        learner, acknowledged = Memory(), set[int]()
        learner.lost = place % 3 == 0
        database = Database(f"sqlite:///{path}")
        relay = Relay(database, learner)  # type: ignore[arg-type]
        passed = 0

        def pass_by(*_: Any, place: int = place) -> None:
            nonlocal passed
            passed += 1
            if passed - 1 == place:
                raise Killed

        # After a statement the file is as it is before the next one, or before the commit.
        for when in ("before_cursor_execute", "commit"):
            event.listen(database.engine, when, pass_by)
        try:
            for number in range(SIZE + 1):
                relay.take(f"{number:016x}", digest, sealed[number])
                acknowledged.add(number)
            relay.forward()
            done = True
        except (Killed, Unreachable):
            pass
        # What the end of a process leaves.
        after = tmp_path / f"after{place}.db"
        for end in ("", "-wal"):
            if (left_by := Path(f"{path}{end}")).exists():
                Path(f"{after}{end}").write_bytes(left_by.read_bytes())
        learner.lost = False
        again = Relay(Database(f"sqlite:///{after}"), learner)  # type: ignore[arg-type]
        left = again.waiting()[1] * SIZE + sum(again.waiting()[0].values())
        sent = sum(map(len, learner.groups.values()))
        assert left + sent >= len(acknowledged)
        for number in range(SIZE + 1):
            again.take(f"{number:016x}", digest, sealed[number])
        while again.forward():
            pass
        assert [len(group) for group in learner.groups.values()] == [SIZE]
        (group,) = learner.groups.values()
        assert len(set(group)) == SIZE
        assert sum(again.waiting()[0].values()) == 1
        assert again.take(f"{SIZE:016x}", digest, sealed[SIZE]) is False
        with pytest.raises(Forbidden, match="with this key"):
            again.take(f"{SIZE:016x}", digest, sealed[0])
        with pytest.raises(Forbidden, match="with another key"):
            again.take("another", digest, sealed[0])
        again.database.close()
        place += 1
    assert place > 50


@pytest.mark.chance(0)
def test_kill_9_loses_no_report_and_counts_none_twice(world: World, tmp_path: Path) -> None:
    """`discreet shuffle` is killed while devices send, and its database opened again; the learner's
    sums are those of the reports that were accepted. Another process of it ends at SIGTERM."""
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    urls, end = [f"http://127.0.0.1:{port}"], time.monotonic() + 240
    place, log = f"sqlite:///{tmp_path / 'killed.db'}", tmp_path / "output"
    words = ["shuffle", "--learner", world.learner_url, "--study", "s", "--port", str(port)]
    words += ["--database", place, "--seconds", "0.05"]
    own = {"PYTHONPATH": os.pathsep.join(sys.path), "DISCREET_SHUFFLER_KEY": world.learner_token}

    def begun() -> subprocess.Popen[bytes]:
        with log.open("wb") as output:
            return subprocess.Popen(
                [sys.executable, "-c", "from discreet.cli import main; main()", *words],
                stdout=output,
                stderr=output,
                env={**os.environ, **own},
            )

    def until_alive() -> None:
        while not (tmp_path / "killed.db").exists() or not alive(urls[0]):
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.05)

    process, people = begun(), 6 * SIZE
    policy, terms, private = world.policy(), world.terms, world.service.store.study("s").private_key
    sealed = [encrypted_report(made(policy, terms, seed), policy, terms) for seed in range(people)]
    ready = threading.Event()

    def until_sent(number: int, token: str) -> None:
        text = base64.b64encode(sealed[number]).decode()
        body = {"policy": policy.digest, "ciphertext": text}
        while True:
            assert time.monotonic() < end, log.read_text()
            try:
                url = f"{urls[-1]}/v1/studies/s/reports"
                answer = world.ask("POST", url, token, json=body)
                if answer.status_code == 202:
                    ready.set()
                    return
                assert answer.status_code in (401, 503), answer.text
            except httpx2.TransportError:
                pass
            time.sleep(0.02)

    def send_all() -> None:
        for number in range(people):
            until_sent(number, tokens[number])

    try:
        until_alive()
        database = Database(place)
        tokens = [Keys(database).make("device", "s") for _ in range(people)]
        database.close()
        sending = threading.Thread(target=send_all)
        sending.start()
        ready.wait(120)
        time.sleep(random.Random(1).uniform(0.02, 0.15))
    finally:
        process.kill()
        process.wait()
    assert sending.is_alive()
    client = LearnerClient(world.learner_url, "s", key=world.learner_token)
    relay = Relay.open(place, client)
    with addressed(shuffler_app(relay)) as url:
        urls.append(url)
        sending.join(240)
        assert not sending.is_alive()
    relay.forward()
    assert relay.waiting() == ({}, 0)
    relay.stop()
    process = begun()
    try:
        until_alive()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()
    reports = [decrypted_report(each, policy, private) for each in sealed]  # type: ignore[arg-type]
    check_counted(world.service, [each for each in reports if each is not None])


def alive(url: str) -> bool:
    try:
        return httpx2.get(f"{url}/ready", timeout=5.0).status_code == 200
    except httpx2.TransportError:
        return False
