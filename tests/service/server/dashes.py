"""A service with a dashboard, and people in it whose values no page may show."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from fastapi.testclient import TestClient

from discreet import (
    GPUCB,
    Box,
    Capri,
    DecisionSets,
    Joint,
    Local,
    Partition,
    SecureNoise,
)
from discreet.codec import decode, encode
from discreet.learners.policy import ArmPolicy, Policy
from discreet.service.server.app import create_app
from discreet.service.server.deployment import Deployment
from discreet.service.server.encryption import KEY_VARIABLE, Cipher
from discreet.service.server.service import Service

ADDRESS = "http://127.0.0.1:8000"
# Contexts and rewards that would be known again wherever they were shown.
MARKED_CONTEXT, MARKED_REWARD = 47.310897425, 0.76194327


def local_study(service: Service, name: str = "local", people: int = 300) -> None:
    """A study under local privacy with a release or two."""
    domain = Box.of({"age": (18, 90), "smoker": ["no", "yes"]})
    arms = ["leaflet", "call", "visit"]
    learner = Partition(domain, arms, budget=Local(4.0), horizon=people)
    service.store.register(
        Deployment(name, "Who <quits> smoking?", "leaflet", 30.0, 0.0, (), "x"), learner
    )
    rng = np.random.default_rng(0)
    for _ in range(3):
        policy = decode(service.store.policy(name).text, Policy)
        assert isinstance(policy, ArmPolicy)
        contexts = np.column_stack([rng.uniform(18, 90, 100), rng.integers(0, 2, 100)])
        actions, _ = policy.act(contexts, rng)
        rewards = (actions.arms == 2 * (contexts[:, 0] > 50)).astype(float)
        reports = policy.report(contexts, actions, rewards, SecureNoise(), learner.terms())
        service.ingest.add(name, [encode(reports)], None)
        service.aggregator.step()


def joint_study(service: Service, name: str = "joint", people: int = 55) -> list[str]:
    """A study under joint privacy, whose people all bring the marks; their decisions' ids."""
    domain = Box.of({"age": (18, 90)})
    learner = Capri(
        domain,
        ["leaflet", "call"],
        budget=Joint(epsilon=2.0, delta=1e-6),
        horizon=60,
        noise=SecureNoise(),
    )
    service.store.register(Deployment(name, "Trusting people", None, 30.0, 0.0, (), "x"), learner)
    made = []
    for _ in range(people):
        decision = service.decisions.decide(name, [MARKED_CONTEXT])
        service.decisions.reward(name, decision.id, MARKED_REWARD)
        made.append(decision.id)
        service.aggregator.step()
    return made


def points_study(service: Service, name: str, offered: Any) -> None:
    """A study of points, under joint privacy, with a release."""
    domain = Box.of({"dose": (0.0, 10.0), "hour": (0.0, 24.0)})
    learner = GPUCB(
        domain,
        offered,
        Joint(epsilon=4.0, delta=1e-6),
        noise=SecureNoise(),
        horizon=200,
        error=0.1,
    )
    service.store.register(Deployment(name, "Which dose?", None, 30.0, 0.0, (), "x"), learner)
    people = [[2.0, 8.0], [5.0, 12.0]] if isinstance(offered, DecisionSets) else None
    for _ in range(max(learner.batch_size, 1)):
        decision = service.decisions.decide(name, people)
        service.decisions.reward(name, decision.id, 0.5)
    assert service.aggregator.step() >= 1


@contextmanager
def opened(folder: Path) -> Iterator[Service]:
    """A service on a new database, which nothing but tests drives."""
    environment = {KEY_VARIABLE: Cipher.new_key()}
    service = Service.open(f"sqlite:///{folder / 'test.db'}", environment)
    try:
        yield service
    finally:
        service.stop()


_APPLICATIONS: dict[int, tuple[Service, Any]] = {}


def application(service: Service) -> Any:
    """Of a service, made once: that is most of the time of a test on a page."""
    if id(service) not in _APPLICATIONS:
        _APPLICATIONS[id(service)] = service, create_app(service)
    return _APPLICATIONS[id(service)][1]


def visitor(
    service: Service, role: str = "operator", study: str | None = None, app: Any = None
) -> TestClient:
    """A browser whose owner signed in, on an application that has looked at everything.

    Args:
        app: that of another process, or one that keeps more than a page in mind; without it all
            browsers of a service use the same one.
    """
    app = app or application(service)
    app.state.watch.step()
    # As browsers do.
    headers = {"Origin": ADDRESS}
    client = TestClient(app, base_url=ADDRESS, headers=headers, follow_redirects=False)
    if role:
        answer = sign_in(client, service.keys.make(role, study))
        assert answer.status_code == 303, answer.text
    return client


def sign_in(client: TestClient, key: str) -> Any:
    """The answer to the form with a key in it."""
    csrf = csrf_of(client.get("/login").text)
    return client.post("/login", data={"csrf": csrf, "key": key})


def csrf_of(page: str) -> str:
    """The token of the forms of a page."""
    return re.findall(r'name="csrf" value="([^"]+)"', page)[0]
