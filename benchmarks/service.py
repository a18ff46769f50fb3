"""The service under load, beside a bare FastAPI application that inserts the same rows.

    python benchmarks/service.py [--seconds 10] [--database sqlite|postgresql|both]

The server has the first core and the load the second (`taskset`). Requests hold 100 reports each,
made before the clock starts: as 100 messages of one person (what a relay gathers from devices), or
as one message with 100 rows (what one party reports for many). `bare` takes the same bodies,
parses them, and inserts a row for each report (study, version, ticket, text) in one transaction
with SQLAlchemy; both databases are set up as the service sets them up. Runs of the two alternate.

| column    | meaning                                                           |
|-----------|-------------------------------------------------------------------|
| a second  | reports accepted a second                                         |
| CPU       | microseconds of the server's processor time for one report        |
| of bare   | the share of the bare application's rate                          |
| memory    | of the server after the run, in MB, and what it grew by meanwhile |

On a machine that does other work too, trust CPU and ratios rather than rates.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import psutil
from fastapi import FastAPI, Request
from service_chaos import KEY, LINE, free_port, postgresql
from sqlalchemy import BigInteger, Column, Integer, MetaData, String, Table, Text, insert
from starlette.concurrency import run_in_threadpool

from discreet import GPUCB, Box, DecisionSets, Joint, Local, LocalKernel, SecureNoise
from discreet.codec import decode, encode
from discreet.learners.terms import Offer
from discreet.service.app import create_app
from discreet.service.database import Database
from discreet.service.deployment import Deployment
from discreet.service.keys import Keys
from discreet.service.limits import Limits, Rate
from discreet.service.schema import metadata
from discreet.service.seal import KEY_VARIABLE, Seal
from discreet.service.server import server_of
from discreet.service.service import Service
from discreet.service.store import Store

BATCH = 100
DOMAIN = Box.of({"age": (18, 90), "smoker": ["no", "yes"]})
bare_metadata = MetaData()
bare_reports = Table(
    "bare_reports",
    bare_metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("study", String(100)),
    Column("version", Integer),
    Column("ticket", BigInteger),
    Column("body", Text),
)
_CONTEXT = multiprocessing.get_context("spawn")


def serve(url: str, port: int) -> None:
    _pin(0)
    service = Service.open(url, {KEY_VARIABLE: KEY})
    # What is measured is taking reports in; releases are measured with their learners.
    service.aggregator.step = lambda: 0  # type: ignore[method-assign]
    many = Rate(1e6, 1e6)
    server_of(create_app(service, limits=Limits(requests=many)), port=port).run()


def serve_bare(url: str, port: int) -> None:
    _pin(0)
    database = Database(url)
    bare_metadata.create_all(database.engine)
    app = FastAPI()

    @app.get("/ready")
    def ready() -> dict[str, str]:
        return {}

    def keep(rows: list[dict[str, Any]]) -> None:
        with database.writing() as connection:
            connection.execute(insert(bare_reports), rows)

    @app.post("/v1/studies/s/reports", status_code=202)
    async def reports(request: Request) -> dict[str, int]:
        rows = []
        for message in json.loads(await request.body())["reports"]:
            made = json.loads(message)
            one = len(made["tickets"]) == 1
            for row, ticket in enumerate(made["tickets"]):
                kept = message if one else json.dumps(made["signs"][row])
                rows.append({"study": "s", "version": 0, "ticket": ticket, "body": kept})
        await run_in_threadpool(keep, rows)
        return {"stored": len(rows)}

    server_of(app, port=port).run()


def _pin(core: int) -> None:
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[core % len(cores)]})


class Server:
    """A server in a process of its own."""

    def __init__(self, target: Any, url: str) -> None:
        port = free_port()
        self.base = f"http://127.0.0.1:{port}"
        self.process = _CONTEXT.Process(target=target, args=(url, port), daemon=True)
        self.process.start()
        self.seen = psutil.Process(self.process.pid)
        deadline = time.monotonic() + 180.0
        while time.monotonic() < deadline:
            try:
                httpx2.get(f"{self.base}/ready")
                return
            except httpx2.TransportError:
                time.sleep(0.1)
        raise TimeoutError("the server did not start")

    def cpu(self) -> float:
        times = self.seen.cpu_times()
        return float(times.user + times.system)

    def memory(self) -> float:
        return float(self.seen.memory_info().rss) / 2**20

    def stop(self) -> None:
        self.process.terminate()
        self.process.join(60)


def bodies(store: Store, count: int, singles: bool) -> list[bytes]:
    """Requests, ready to be sent."""
    policy: Any = decode(store.policy("s").text, Offer)
    terms, rng = store.study("s").terms, np.random.default_rng(0)
    people = count * BATCH
    brought = np.c_[rng.uniform(18, 90, people), rng.integers(0, 2, people)]
    actions, _ = policy.act(brought, rng)
    made = policy.report(brought, actions, rng.random(people), SecureNoise(), terms)
    step = 1 if singles else BATCH
    texts = [encode(made.of(np.arange(at, at + step))) for at in range(0, people, step)]
    each = BATCH // step
    return [
        json.dumps({"reports": texts[at : at + each]}).encode() for at in range(0, len(texts), each)
    ]


def load(base: str, token: str, given: list[bytes], seconds: float) -> tuple[int, float]:
    """Send one after the other for so long; the reports accepted, and how long it took."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    done, began = 0, time.monotonic()
    with httpx2.Client(base_url=base, timeout=60.0, headers=headers) as client:
        while given and time.monotonic() - began < seconds:
            answer = client.post("/v1/studies/s/reports", content=given.pop())
            assert answer.status_code == 202, answer.text
            done += answer.json()["stored"]
    return done, time.monotonic() - began


def reports(url: str, seconds: float) -> None:
    database = Database(url, Seal(b"k" * 32))
    metadata.create_all(database.engine)
    database.begin()
    store = Store(database)
    learner = LocalKernel(DOMAIN, ["a", "b", "c"], budget=Local(1.0), horizon=10**6)
    store.register(Deployment("s", "", None, 30.0, 0.0, (), ""), learner)
    token = Keys(database).make("device")
    for singles in (True, False):
        given = bodies(store, int(60 * seconds), singles)
        third = len(given) // 3
        rates, cpus = {}, {}
        for name, target in (("bare", serve_bare), ("service", serve)):
            server = Server(target, url)
            mine = list(given)
            load(server.base, token, [mine.pop() for _ in range(10)], seconds)
            before, memory = server.cpu(), server.memory()
            done, took = load(server.base, token, mine[: 3 * third], seconds)
            rates[name], cpus[name] = done / took, (server.cpu() - before) / max(done, 1)
            print(
                f"  {name:8s} {'100 messages' if singles else 'one message '}"
                f" {rates[name]:8.0f} a second, CPU {1e6 * cpus[name]:6.0f} us a report, memory "
                f"{server.memory():.0f} MB (+{server.memory() - memory:.1f} MB for {done} reports)",
                flush=True,
            )
            server.stop()
        print(
            f"  of bare: {rates['service'] / rates['bare']:.2f} by the clock, "
            f"{cpus['bare'] / cpus['service']:.2f} by processor time",
            flush=True,
        )
    database.close()


def decide(url: str, seconds: float, rate: float = 200.0) -> None:
    """Decisions at a steady rate; how long each took."""
    database = Database(url, Seal(b"k" * 32))
    store = Store(database)
    learner = GPUCB(
        LINE,
        DecisionSets(most=3),
        Joint(epsilon=1.0, delta=1e-6),
        kernel="RBF(length_scale=[.3])",
        noise=SecureNoise(),
        horizon=10**6,
    )
    store.register(Deployment("joint", "", None, 30.0, 0.0, (), ""), learner)
    token = Keys(database).make("client")
    server = Server(serve, url)
    headers = {"Authorization": f"Bearer {token}"}
    took, rng = [], np.random.default_rng(0)
    with httpx2.Client(base_url=server.base, timeout=60.0, headers=headers) as client:
        path = "/v1/studies/joint/decisions"
        for _ in range(50):
            client.post(path, json={"context": rng.random((3, 1)).tolist()})
        before, began = server.cpu(), time.monotonic()
        count = int(seconds * rate)
        for turn in range(count):
            wait = began + turn / rate - time.monotonic()
            if wait > 0.0:
                time.sleep(wait)
            start = time.monotonic()
            answer = client.post(path, json={"context": rng.random((3, 1)).tolist()})
            took.append(time.monotonic() - start)
            assert answer.status_code == 201, answer.text
        whole, cpu = time.monotonic() - began, server.cpu() - before
    server.stop()
    database.close()
    middle, late = 1e3 * np.quantile(took, [0.5, 0.99])
    print(
        f"  decide: {count / whole:.0f} a second, p50 {middle:.1f} ms, p99 {late:.1f} ms, CPU "
        f"{1e3 * cpu / count:.2f} ms a decision",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--database", choices=["sqlite", "postgresql", "both"], default="both")
    given = parser.parse_args()
    _pin(1)
    kinds = ["sqlite", "postgresql"] if given.database == "both" else [given.database]
    for kind in kinds:
        print(kind, flush=True)
        with tempfile.TemporaryDirectory(prefix="discreet-service-", dir="/tmp") as folder:
            url, server = f"sqlite:///{Path(folder) / 'discreet.db'}", None
            if kind == "postgresql":
                server, url = postgresql(f"{folder}/pg")
            reports(url, given.seconds)
            decide(url, given.seconds)
            if server is not None:
                server.cleanup()


if __name__ == "__main__":
    main()
