"""A service with three studies and keys for every role, asked over HTTP.

`local` has the source `clinic`, `joint` chooses from decision sets, `other` is another local study.
"""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fastapi")

from starlette.testclient import TestClient

from discreet import GPUCB, Box, DecisionSets, Joint, Local, LocalKernel, SecureNoise, Terms
from discreet.codec import decode, encode
from discreet.learners.policy import Policy
from discreet.service.server.app import create_app, server_of
from discreet.service.server.deployment import Deployment
from discreet.service.server.keys import ROLES
from discreet.service.server.middleware import Limits
from discreet.service.server.service import Service

ENVIRONMENT = {"DISCREET_DATABASE_KEY": base64.urlsafe_b64encode(b"k" * 32).decode()}
DOMAIN = Box.of({"age": (18, 90), "smoker": ["no", "yes"]})
ADDRESS = "http://127.0.0.1:8000"
# Whose pages may use the API.
SHOP = "https://shop.example.org"


def opened(folder: Path) -> Service:
    """A service on a new database with the three studies."""
    service = Service.open(f"sqlite:///{folder}/discreet.db", ENVIRONMENT)
    for name, sources in [("local", {"clinic": 2.0}), ("other", {})]:
        learner = LocalKernel(DOMAIN, ["leaflet", "call"], budget=Local(1.0), horizon=20_000)
        for source, epsilon in sources.items():
            learner.open_source(source, epsilon)
        offer = Deployment(name, f"study {name}", "leaflet", 30.0, 0.0, (*sources.items(),), "")
        service.store.register(offer, learner)
    trusted = GPUCB(
        Box((0.0,), (1.0,)),
        DecisionSets(most=3),
        Joint(1.0, 1e-6),
        kernel="RBF(length_scale=[.3])",
        noise=SecureNoise(),
        horizon=20_000,
    )
    service.store.register(Deployment("joint", "study joint", None, 30.0, 0.0, (), ""), trusted)
    return service


@dataclass(repr=False)
class Web:
    """The service and those who ask it.

    Attributes:
        tokens: by role, of all studies; "ROLE of other" is one of the study `other` alone.
    """

    service: Service
    client: TestClient
    tokens: dict[str, str]

    def ask(self, method: str, path: str, who: str | None = None, **more: Any) -> Any:
        """The answer to a request with the key of somebody."""
        headers = more.pop("headers", {})
        if who is not None:
            headers = {"authorization": f"Bearer {self.tokens[who]}", **headers}
        return self.client.request(method, path, headers=headers, **more)

    def send(self, path: str, who: str, body: Any, kind: str = "application/json") -> Any:
        """The answer to a body that is sent as it is."""
        return self.ask("POST", path, who, content=body, headers={"content-type": kind})

    def reports(self, people: int = 2, study: str = "local", source: str | None = None) -> str:
        """Reports of so many people, as a device makes them."""
        policy: Any = decode(self.service.store.policy(study, source or "target").text, Policy)
        rng = np.random.default_rng()
        contexts = np.column_stack([rng.uniform(18, 90, people), rng.integers(0, 2, people)])
        terms = self.service.store.study(study).terms
        if source is None:
            arms, _ = policy.act(contexts, rng)
            made = policy.report(contexts, arms, rng.random(people), SecureNoise(), terms)
        else:
            arms = rng.integers(0, 2, people)
            terms = Terms(DOMAIN, ["leaflet", "call"], 2.0)
            made = policy.report(contexts, arms, rng.random(people), SecureNoise(), terms)
        return encode(made)

    def decision(self) -> str:
        """The id of a decision that waits for its reward."""
        answer = self.ask(
            "POST", "/v1/studies/joint/decisions", "client", json={"context": [[0.1], [0.9]]}
        )
        return str(answer.json()["id"])


@contextmanager
def serving(folder: Path, limits: Limits | None = None) -> Iterator[Web]:
    """A service that is asked, until the block ends."""
    service = opened(folder)
    tokens = {role: service.keys.make(role) for role in ROLES}
    tokens |= {f"{role} of other": service.keys.make(role, "other") for role in ROLES}
    with TestClient(
        create_app(service, limits=limits, origins=[SHOP]),
        base_url=ADDRESS,
        raise_server_exceptions=True,
    ) as client:
        yield Web(service, client, tokens)


@contextmanager
def listening(app: Any) -> Iterator[int]:
    """The port of a real server of an application, until the block ends."""
    server = server_of(app, port=0)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(30.0)
        assert not thread.is_alive()


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    """One service for the tests of a module."""
    with serving(tmp_path_factory.mktemp("web")) as made:
        yield made
