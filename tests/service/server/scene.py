"""Studies that tests serve, and their people."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from sqlalchemy import func, select

from discreet import GPUCB, Box, Capri, DecisionSets, Joint, Local, LocalKernel, Partition
from discreet.codec import decode, encode
from discreet.learners.glm.learner import PrivateGLM
from discreet.learners.messages import Reports
from discreet.learners.policy import Policy
from discreet.privacy import Guarantee, NoiseSource, SecureNoise, SimulatedNoise
from discreet.service.server.aggregator import Aggregator
from discreet.service.server.database import Database
from discreet.service.server.decisions import DecisionStore
from discreet.service.server.deployment import Deployment, read_policy
from discreet.service.server.ingest import Ingest, Receipt
from discreet.service.server.ledger import millionths
from discreet.service.server.schema import (
    batches,
    decisions,
    ledger,
    policies,
    public_coins,
    snapshots,
)
from discreet.service.server.store import Store

# What is stored is decided before any SQL: the other database is slow.
on_sqlite = pytest.mark.parametrize(
    "databases",
    ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)],
    indirect=True,
)

DOMAIN = Box.of({"age": (18, 90), "smoker": ["no", "yes"]})
LINE = Box(lower=(0.0,), upper=(1.0,))
ARMS = ["leaflet", "call", "visit"]


def deployment(name: str = "s", **changes: Any) -> Deployment:
    facts: dict[str, Any] = {
        "title": "a study",
        "default_arm": None,
        "expires_days": 30.0,
        "retention_days": 0.0,
        "sources": (),
        "text": "",
    }
    return Deployment(name=name, **{**facts, **changes})


def kernel() -> Any:
    return LocalKernel(DOMAIN, ARMS, budget=Local(1.0), horizon=2000, identity="kernel")


def partition() -> Any:
    return Partition(DOMAIN, ARMS, Local(1.0), horizon=2000, identity="partition")


def private_glm() -> Any:
    return PrivateGLM(LINE, DecisionSets(most=3), Local(2.0), horizon=2000, identity="glm")


def gp_ucb(noise: NoiseSource | None = None, horizon: int | None = 1000) -> Any:
    return GPUCB(
        LINE,
        DecisionSets(most=3),
        Joint(epsilon=1.0, delta=1e-6),
        kernel="RBF(length_scale=[.3])",
        noise=noise or SecureNoise(),
        horizon=horizon,
        identity="gp",
    )


def capri(noise: NoiseSource | None = None, max_contributions: int = 1) -> Any:
    return Capri(
        Box(lower=(0.0,), upper=(1.0,), levels=(4,)),
        3,
        Joint(1.0, 1e-6, max_contributions=max_contributions),
        noise=noise or SecureNoise(),
        horizon=200,
        identity="capri",
    )


def contexts(learner: Any, people: int, seed: int) -> Any:
    """What so many people bring."""
    rng = np.random.default_rng(seed)
    if isinstance(learner.space, DecisionSets):
        return [rng.random((3, 1)).tolist() for _ in range(people)]
    if isinstance(learner, Capri):
        return (rng.integers(0, 4, (people, 1)) / 3).tolist()
    return np.c_[rng.uniform(18, 90, people), rng.integers(0, 2, people)]


@dataclass(frozen=True)
class Came:
    """Reports of some people, each with the number by which it is known."""

    reports: Reports
    numbers: list[int]

    def of(self, rows: Sequence[int]) -> Came:
        return Came(self.reports.of(np.array(rows)), [self.numbers[row] for row in rows])

    def send(self, ingest: Ingest, name: str = "s", stream: str = "target") -> Receipt:
        own = getattr(self.reports, "public_coins", None) is not None
        return ingest.add(name, [encode(self.reports)], None if own else self.numbers, stream)


def reported(store: Store, learner: Any, people: int, seed: int, name: str = "s") -> Came:
    """Reports of people who fetched the current policy."""
    policy: Any = decode(store.policy(name).text, Policy)
    brought = contexts(learner, people, seed)
    rng = np.random.default_rng([seed, 1])
    actions, _ = policy.act(brought, rng)
    rewards = (rng.random(people) < 0.5).astype(float)
    reports = policy.report(brought, actions, rewards, SecureNoise(), learner.terms())
    own = getattr(reports, "public_coins", None)
    numbers = rng.integers(2**63, size=people) if own is None else own
    return Came(reports, [int(each) for each in numbers])


def rewarded(
    store: Store, learner: Any, people: int, seed: int, name: str = "s", persons: int = 0
) -> list[str]:
    """Decisions with their rewards; their ids."""
    decisions, made = DecisionStore(store), []
    rng = np.random.default_rng([seed, 2])
    for place, context in enumerate(contexts(learner, people, seed)):
        person = f"person {place % persons}" if persons else None
        decision = decisions.decide(name, context, person)
        assert decisions.reward(name, decision.id, float(rng.random() < 0.5))
        made.append(decision.id)
    return made


def simulated(monkeypatch: Any, seed: int = 7) -> Callable[[], NoiseSource]:
    """Let the service draw noise that a test can draw too."""
    for module in ("store", "aggregator"):
        monkeypatch.setattr(
            f"discreet.service.server.{module}.noise_for",
            lambda secret: SimulatedNoise(seed) if secret else None,
        )
    return lambda: SimulatedNoise(seed)


def in_database(database: Database) -> dict[str, Any]:
    """Everything a release changes, to be compared."""
    with database.reading() as connection:
        return {
            table.name: connection.execute(select(table).order_by(*table.primary_key)).all()
            for table in (policies, ledger, snapshots, batches, decisions, public_coins)
        }


def count(database: Database, table: Any, *where: Any) -> int:
    with database.reading() as connection:
        return int(connection.scalar(select(func.count()).select_from(table).where(*where)) or 0)


def at_once(tasks: Any) -> None:
    """Run each in a thread, begun together; what any of them raises is raised."""
    barrier = threading.Barrier(len(tasks))
    raised: list[BaseException] = []

    def run(task: Callable[[], object]) -> None:
        barrier.wait(30)
        try:
            task()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=run, args=(task,)) for task in tasks]
    for each in threads:
        each.start()
    for each in threads:
        each.join(120)
    if raised:
        raise raised[0]


def check_told_the_same(store: Store, name: str) -> None:
    """Ledger, policies, certificate and the learner put together from the database agree."""
    with store.database.reading() as connection:
        rows = connection.execute(
            ledger.select().where(ledger.c.study == name).order_by(ledger.c.version)
        ).all()
        shown = connection.execute(
            policies.select().where(policies.c.study == name).order_by(policies.c.version)
        ).all()
    assert [(row.version, row.digest) for row in rows] == [
        (row.version, row.digest) for row in shown
    ]
    assert [row.version for row in rows] == list(range(len(rows)))
    assert [read_policy(row.body).digest for row in shown] == [row.digest for row in shown]
    _, learner = Aggregator(store)._learner(name)
    held = learner.guarantee()
    assert rows[-1].guarantee == encode(held)
    assert decode(rows[-1].guarantee, Guarantee).sentence == held.sentence
    assert rows[-1].held == millionths(held.epsilon)
    assert rows[-1].held <= rows[-1].asked == millionths(learner.budget.epsilon)
    assert rows[-1].delta == held.delta
    assert rows[-1].reports == learner.people == learner.published_from
    assert [each.digest for each in learner._policies] == [row.digest for row in shown]
