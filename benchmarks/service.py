"""The service under load, beside a bare FastAPI application that inserts the same rows.

    python benchmarks/service.py [--seconds 10] [--database sqlite|postgresql|both]
                                 [--reports] [--decide] [--turns 3] [--connections 4]
    python benchmarks/service.py --old 5000000 [--seconds 60] [--database sqlite|postgresql|both]

The server has the first core and the load the second; PostgreSQL has both. Requests hold 100
reports each, made before the clock starts: as 100 messages of one person (what a relay gathers from
devices), or as one message with 100 rows (what one party reports for many). `bare` takes the same
bodies, parses them, and inserts a row for each report (study, version, public coin, text) in one
transaction with SQLAlchemy, into a database of its own that is set up as the service sets up its
own. Turns of the two alternate, and the medians are shown.

| column    | meaning                                                                     |
|-----------|-----------------------------------------------------------------------------|
| a second  | reports accepted a second                                                   |
| CPU       | microseconds of the server's processor time for one report                  |
| of bare   | the share of the bare application's rate                                    |
| memory    | of the server after its turns, in MB; what a report of the last two thirds  |
|           | added to it, in bytes                                                       |
| flush     | milliseconds to append as many bytes to a file and have them on the disk    |

Decisions are asked for at a steady rate, whatever became of those before: how long one took counts
from the moment at which it was due.

`--old` asks for decisions at `--rate` (100 a second) of a server that releases and forgets: with an
empty database, with so many old decisions whose rows are kept, and while these are being deleted.

On a machine that does other work too, trust CPU and ratios rather than rates.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import psutil
from fastapi import FastAPI, Request
from service_chaos import KEY, LINE, free_port, postgresql
from sqlalchemy import (
    BigInteger,
    Column,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    create_engine,
    func,
    insert,
    make_url,
    select,
    text,
    update,
)
from starlette.concurrency import run_in_threadpool

from discreet import GPUCB, Box, DecisionSets, Joint, Local, LocalKernel, SecureNoise
from discreet.codec import decode, encode
from discreet.learners.policy import Policy
from discreet.service.server.app import create_app, listen, run
from discreet.service.server.database import Database, upgrade
from discreet.service.server.deployment import Deployment
from discreet.service.server.encryption import KEY_VARIABLE, Cipher
from discreet.service.server.keys import Keys
from discreet.service.server.middleware import Limits, Rate
from discreet.service.server.schema import RECORD_DAYS, decisions
from discreet.service.server.service import Service
from discreet.service.server.store import Store

BATCH = 100
DOMAIN = Box.of({"age": (18, 90), "smoker": ["no", "yes"]})
bare_metadata = MetaData()
bare_reports = Table(
    "bare_reports",
    bare_metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("study", String(100)),
    Column("version", Integer),
    Column("public_coin", BigInteger),
    Column("body", Text),
)
_CONTEXT = multiprocessing.get_context("spawn")


def serve(url: str, port: int, releases: bool = False) -> None:
    _pin(0)
    service = Service.open(url, {KEY_VARIABLE: KEY})
    if not releases:
        # What is measured is taking reports in; releases are measured with their learners.
        service.aggregator.step = lambda: 0  # type: ignore[method-assign]
    many = Rate(1e6, 1e6)
    run(create_app(service, limits=Limits(requests=many)), listen("127.0.0.1", port))


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
            one = len(made["public_coins"]) == 1
            for row, public_coin in enumerate(made["public_coins"]):
                kept = message if one else json.dumps(made["signs"][row])
                rows.append({"study": "s", "version": 0, "public_coin": public_coin, "body": kept})
        await run_in_threadpool(keep, rows)
        return {"stored": len(rows)}

    run(app, listen("127.0.0.1", port))


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
        while self.process.is_alive() and time.monotonic() < deadline:
            try:
                httpx2.get(f"{self.base}/ready")
                return
            except httpx2.TransportError:
                time.sleep(0.1)
        raise RuntimeError("the server did not start")

    def cpu(self) -> float:
        times = self.seen.cpu_times()
        return float(times.user + times.system)

    def memory(self) -> float:
        return float(self.seen.memory_info().rss)

    def stop(self) -> None:
        self.process.terminate()
        self.process.join(60)


def bodies(store: Store, count: int, singles: bool, rng: np.random.Generator) -> list[bytes]:
    """Requests, ready to be sent."""
    policy: Any = decode(store.policy("s").text, Policy)
    terms = store.study("s").terms
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


def load(base: str, token: str, given: list[bytes], connections: int) -> float:
    """Send all of it, over so many connections; how long it took."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    waiting = list(given)

    def send() -> None:
        with httpx2.Client(base_url=base, timeout=60.0, headers=headers) as client:
            while True:
                try:
                    body = waiting.pop()
                except IndexError:
                    return
                answer = client.post("/v1/studies/s/reports", content=body)
                assert answer.status_code == 202, answer.text
                assert answer.json()["stored"] == BATCH, answer.text

    began = time.monotonic()
    with ThreadPoolExecutor(connections) as threads:
        for each in [threads.submit(send) for _ in range(connections)]:
            each.result()
    return time.monotonic() - began


def reports(urls: dict[str, str], seconds: float, turns: int, connections: int) -> None:
    database = Database(urls["service"], Cipher(b"k" * 32))
    upgrade(database)
    database.begin()
    store = Store(database)
    learner = LocalKernel(DOMAIN, ["a", "b", "c"], budget=Local(1.0), horizon=10**6)
    store.register(Deployment("s", "", None, 30.0, 0.0, (), ""), learner)
    token = Keys(database).make("device")
    rng = np.random.default_rng(0)
    for singles in (True, False):
        print(f"  {'100 messages of one' if singles else 'one message of 100'}", flush=True)
        servers = {name: Server(target, urls[name]) for name, target in _SERVERS.items()}
        count = max(10, int(20 * seconds))
        warm, *given = (bodies(store, each, singles, rng) for each in [10] + [count] * turns)
        seen: dict[str, list[tuple[float, float, float]]] = {name: [] for name in servers}
        for server in servers.values():
            load(server.base, token, warm, connections)
        for turn in given:
            for name, server in servers.items():
                before = server.cpu()
                took = load(server.base, token, turn, connections)
                people = BATCH * len(turn)
                cpu = 1e6 * (server.cpu() - before) / people
                seen[name].append((people / took, cpu, server.memory()))
        for name, server in servers.items():
            server.stop()
            rate, cpu, _ = np.median(seen[name], axis=0)
            first, last = seen[name][0][2], seen[name][-1][2]
            grown = (last - first) / (BATCH * count * max(turns - 1, 1))
            print(
                f"    {name:8s} {rate:8.0f} a second, CPU {cpu:6.1f} us a report, memory "
                f"{last / 2**20:.0f} MB ({grown:+.1f} bytes a report)",
                flush=True,
            )
        shares = [np.divide(ours, bare) for ours, bare in zip(*_both(seen), strict=True)]
        rate, cpu, _ = np.median(shares, axis=0)
        print(
            f"    of bare: {rate:.2f} by the clock, {1.0 / cpu:.2f} by processor time; load average"
            f" {os.getloadavg()[0]:.1f}, flush {1e3 * flush():.1f} ms",
            flush=True,
        )
    database.close()


def _both(seen: dict[str, Any]) -> tuple[Any, Any]:
    return seen["service"], seen["bare"]


def flush(size: int = 2**16, turns: int = 50) -> float:
    """The median time to append some bytes to a file and have them on the disk."""
    took = []
    with tempfile.NamedTemporaryFile(dir="/tmp") as file:
        for _ in range(turns):
            file.write(b"\0" * size)
            began = time.monotonic()
            file.flush()
            os.fsync(file.fileno())
            took.append(time.monotonic() - began)
    return float(np.median(took))


def serve_all(url: str, port: int) -> None:
    serve(url, port, releases=True)


def old(url: str, seconds: float, connections: int, rows: int, rate: float) -> None:
    """How long decisions take beside old rows, whose deletion is due or not."""
    empty = decide(url, seconds, connections, rate, serve_all, "empty")
    database = Database(url, Cipher(b"k" * 32))
    began, month = time.monotonic(), 86_400.0 * RECORD_DAYS
    make_old(database, rows, time.time() + month)
    print(f"  {rows:,} old decisions made in {time.monotonic() - began:.0f} s", flush=True)
    kept = decide(url, seconds, connections, rate, serve_all, "kept")
    with database.writing() as connection:
        empty_rows = decisions.c.payload.is_(None)
        due = update(decisions).where(empty_rows).values(expires=decisions.c.expires - 2.0 * month)
        connection.execute(due)
    settle(database)
    deleted = decide(url, seconds, connections, rate, serve_all, "deleted")
    with database.reading() as connection:
        left = connection.scalar(select(func.count()).select_from(decisions).where(empty_rows))
    database.close()
    print(
        f"  p99 beside that of the empty database: {kept / empty:.2f} times with old rows, "
        f"{deleted / empty:.2f} times while they were deleted, of which {left:,} were left",
        flush=True,
    )


def make_old(database: Database, rows: int, expires: float) -> None:
    """Decisions that were released, whose empty rows stay until then."""
    columns = "id, study, version, state, decided, expires, released"
    values = "'joint', 0, 'rewarded', :decided, :expires, 1"
    sqlite = (
        f"INSERT INTO decisions ({columns}) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT "
        f"i + 1 FROM n WHERE i < :rows) SELECT lower(hex(randomblob(16))), {values} FROM n"
    )
    postgresql = (
        f"INSERT INTO decisions ({columns}) SELECT md5(random()::text || i), {values} "
        "FROM generate_series(1, :rows) AS n(i)"
    )
    with database.writing() as connection:
        connection.execute(
            text(sqlite if database.sqlite else postgresql),
            {"rows": rows, "decided": expires - 86_400.0 * RECORD_DAYS, "expires": expires},
        )
    settle(database)


def settle(database: Database) -> None:
    """What databases do by and by after many writes."""
    raw = database.engine.execution_options(
        **({"discreet_single": True} if database.sqlite else {"isolation_level": "AUTOCOMMIT"})
    )
    with raw.connect() as connection:
        connection.exec_driver_sql(
            "PRAGMA wal_checkpoint(TRUNCATE)" if database.sqlite else "VACUUM ANALYZE decisions"
        )
        if not database.sqlite:
            connection.exec_driver_sql("CHECKPOINT")


def decide(
    url: str,
    seconds: float,
    connections: int,
    rate: float = 200.0,
    target: Any = serve,
    what: str = "decide",
) -> float:
    """Decisions at a steady rate; how long each took, of which the 99% quantile is returned."""
    database = Database(url, Cipher(b"k" * 32))
    upgrade(database)
    database.begin()
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
    server = Server(target, url)
    headers = {"Authorization": f"Bearer {token}"}
    count = int(seconds * rate)
    sets = np.random.default_rng(0).random((count, 3, 1)).tolist()
    path = "/v1/studies/joint/decisions"

    def ask(mine: range, began: float) -> list[float]:
        took = []
        with httpx2.Client(base_url=server.base, timeout=60.0, headers=headers) as client:
            client.get("/health")
            for turn in mine:
                due = began + turn / rate
                time.sleep(max(due - time.monotonic(), 0.0))
                answer = client.post(path, json={"context": sets[turn]})
                assert answer.status_code == 201, answer.text
                took.append(time.monotonic() - due)
        return took

    ask(range(min(50, count)), time.monotonic())
    before, began = server.cpu(), time.monotonic() + 0.5
    with ThreadPoolExecutor(connections) as threads:
        asked = [
            threads.submit(ask, range(first, count, connections), began)
            for first in range(connections)
        ]
        took = [each for one in asked for each in one.result()]
    whole, cpu = time.monotonic() - began, server.cpu() - before
    server.stop()
    database.close()
    middle, late = 1e3 * np.quantile(took, [0.5, 0.99])
    print(
        f"  {what}: {count / whole:.0f} a second, p50 {middle:.1f} ms, p99 {late:.1f} ms, CPU "
        f"{1e3 * cpu / count:.2f} ms a decision; load average {os.getloadavg()[0]:.1f}, flush "
        f"{1e3 * flush():.1f} ms",
        flush=True,
    )
    return float(late)


_SERVERS = {"bare": serve_bare, "service": serve}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=10.0, help="of a turn, about")
    parser.add_argument("--database", choices=["sqlite", "postgresql", "both"], default="both")
    parser.add_argument("--reports", action="store_true", help="reports alone")
    parser.add_argument("--decide", action="store_true", help="decisions alone")
    parser.add_argument("--old", type=int, default=0, help="decisions beside so many old ones")
    parser.add_argument("--rate", type=float, default=100.0, help="of decisions with --old")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--connections", type=int, default=4)
    given = parser.parse_args()
    kinds = ["sqlite", "postgresql"] if given.database == "both" else [given.database]
    cores = os.sched_getaffinity(0)
    for kind in kinds:
        print(kind, flush=True)
        os.sched_setaffinity(0, cores)
        with tempfile.TemporaryDirectory(prefix="discreet-service-", dir="/tmp") as folder:
            urls = {name: f"sqlite:///{Path(folder) / name}.db" for name in _SERVERS}
            server = None
            if kind == "postgresql":
                server, first = postgresql(f"{folder}/pg")
                # Not by its psql(), whose shell splits paths at spaces.
                engine = create_engine(first, isolation_level="AUTOCOMMIT")
                with engine.connect() as connection:
                    connection.execute(text("CREATE DATABASE bare"))
                engine.dispose()
                bare = make_url(first).set(database="bare")
                urls = {"service": first, "bare": bare.render_as_string(hide_password=False)}
            _pin(1)
            if given.old:
                old(urls["service"], given.seconds, given.connections, given.old, given.rate)
            elif given.reports or not given.decide:
                reports(urls, given.seconds, given.turns, given.connections)
            if given.decide or not (given.reports or given.old):
                decide(urls["service"], given.seconds, given.connections)
            if server is not None:
                server.cleanup()


if __name__ == "__main__":
    main()
