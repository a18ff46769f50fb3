"""Several `discreet serve` on one PostgreSQL database, as separate processes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest

from discreet import SecureNoise, Terms
from discreet.codec import decode, encode
from discreet.learners.policy import Policy
from discreet.service.server.aggregator import Aggregator
from discreet.service.server.database import Database
from discreet.service.server.keys import Keys
from discreet.service.server.store import Store
from tests.cli.cases import STUDY, write_study
from tests.service.server.conftest import Databases
from tests.service.server.scene import check_told_the_same

SERVED = STUDY.replace("[1.0, 2.0]", "1.0")
_PATIENCE = 300.0
_BATCHES, _PEOPLE = 40, 25


@contextmanager
def serve(folder: Path, name: str, *words: object) -> Iterator[subprocess.Popen[str]]:
    """`discreet serve` in a process of its own, which ends as SIGTERM ends it."""
    command = [sys.executable, "-c", "from discreet.cli import main; main()", "serve"]
    with (folder / name).open("w") as said:
        process = subprocess.Popen(
            [*command, *map(str, words)],
            stdout=said,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
    try:
        yield process
        assert process.poll() is None, (folder / name).read_text()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, (folder / name).read_text()
    finally:
        process.kill()
        process.wait()


def address_in(said: Path) -> str:
    """Where a server says that it listens."""
    end = time.monotonic() + _PATIENCE
    while not (found := re.search(r"http://[\d.:]+", said.read_text())):
        assert time.monotonic() < end, said.read_text()
        time.sleep(0.1)
    return found.group()


def patient(client: httpx2.Client, method: str, path: str, **content: Any) -> httpx2.Response:
    """An answer that is none of waiting."""
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            answer = client.request(method, path, **content)
        except httpx2.TransportError:
            answer = None
        if answer is not None and answer.status_code not in (429, 503):
            return answer
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.mark.slow
@pytest.mark.chance(0)
def test_two_servers_and_two_aggregators_share_a_database(postgresql: Any, tmp_path: Path) -> None:
    """Reports go to both servers, each batch to both at once; every report counts once, every
    version is released once, and both servers say the same."""
    url = Databases("postgresql", tmp_path, postgresql).new()
    study, on = write_study(tmp_path, SERVED), ("--database", url)
    with ExitStack() as running:
        for name in ("web0", "web1"):
            # Both register the study: one of them does, the other finds it.
            words = (study, *on, "--no-aggregator", "--port", 0, "--proxy", "127.0.0.1")
            running.enter_context(serve(tmp_path, name, *words))
        clients = [
            running.enter_context(httpx2.Client(base_url=address_in(tmp_path / name), timeout=60.0))
            for name in ("web0", "web1")
        ]
        for client in clients:
            assert patient(client, "GET", "/ready").status_code == 200
        releasing = [
            running.enter_context(serve(tmp_path, name, *on, "--only-aggregator"))
            for name in ("aggregator0", "aggregator1")
        ]
        database = Database(url)
        running.callback(database.close)
        keys = Keys(database)
        for client in clients:
            client.headers["Authorization"] = f"Bearer {keys.make('device', 'small')}"
        store = Store(database)
        terms = store.study("small").terms
        with ThreadPoolExecutor(4) as pool:
            for batch in range(_BATCHES):
                made = reported(clients[batch % 2], terms, batch)
                # Two requests, of which neither is known again as the other.
                bodies = [{"reports": [made]}, {"reports": [made, made]}]
                path = "/v1/studies/small/reports"
                sent = [
                    pool.submit(patient, client, "POST", path, json=body)
                    for client, body in zip(clients, bodies, strict=True)
                ]
                answers = [each.result() for each in sent]
                assert [each.status_code for each in answers] == [202, 202]
                assert sum(each.json()["stored"] for each in answers) == _PEOPLE
                assert sum(each.json()["repeated"] for each in answers) == 2 * _PEOPLE
                if batch == _BATCHES // 2:
                    releasing[0].send_signal(signal.SIGSTOP)  # with the lease, or without
                if batch == _BATCHES - 5:
                    releasing[0].send_signal(signal.SIGCONT)
        _, learner = Aggregator(store)._learner("small")
        end = time.monotonic() + _PATIENCE
        while learner.people + Aggregator(store).waiting("small") < _BATCHES * _PEOPLE or (
            Aggregator(store)._due("small", learner)
        ):
            assert time.monotonic() < end, "nobody releases what is due"
            time.sleep(0.2)
            _, learner = Aggregator(store)._learner("small")
        assert learner.people + Aggregator(store).waiting("small") == _BATCHES * _PEOPLE
        assert learner.people > 0
        check_told_the_same(store, "small")
        latest = [patient(client, "GET", "/v1/studies/small/policy") for client in clients]
        assert latest[0].content == latest[1].content
        assert latest[0].headers["ETag"] == latest[1].headers["ETag"]
        assert latest[0].headers["Discreet-Policy-Version"] == str(len(learner._policies) - 1)
    for name in ("aggregator0", "aggregator1"):
        assert "error" not in (tmp_path / name).read_text().lower()


def reported(client: httpx2.Client, terms: Terms, seed: int) -> str:
    """What some people report under the policy of this moment."""
    policy: Any = decode(patient(client, "GET", "/v1/studies/small/policy").text, Policy)
    rng = np.random.default_rng(seed)
    contexts = rng.uniform(0.0, 9.0, (_PEOPLE, 1))
    actions, _ = policy.act(contexts, rng)
    rewards = rng.integers(0, 2, _PEOPLE) * 1.0
    return encode(policy.report(contexts, actions, rewards, SecureNoise(), terms))


@pytest.mark.slow
def test_a_proxy_is_believed_only_where_it_is_named(postgresql: Any, tmp_path: Path) -> None:
    """Whoever guesses keys is stopped by their own address, which a proxy that is named tells."""
    url = Databases("postgresql", tmp_path, postgresql).new()
    said: dict[str, list[int]] = {}
    for name, proxy in (("named", ("--proxy", "127.0.0.1")), ("nobody", ())):
        words = ("--database", url, "--no-aggregator", "--port", 0, *proxy)
        with (
            serve(tmp_path, name, *words),
            httpx2.Client(base_url=address_in(tmp_path / name), timeout=60.0) as client,
        ):
            patient(client, "GET", "/health")
            said[name] = [
                client.get(
                    "/v1/studies",
                    headers={"Authorization": "Bearer no", "X-Forwarded-For": f"192.0.2.{address}"},
                ).status_code
                for address in (*[1] * 40, 2)
            ]
    for codes in said.values():
        assert set(codes[:30]) == {401}
        assert codes[39] == 429
    assert said["named"][40] == 401
    assert said["nobody"][40] == 429
