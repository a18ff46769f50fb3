"""Exact replay through HTTP: what others see of a trusted study does not depend on one person.

A service is run on one person's data and on their neighbours' with the same coins and the same
noisy outcomes (replay.py). Everything that others can see must then be equal to the byte, and the
loss of the draws is that of the releases:

| observer                          | sees                                                         |
|-----------------------------------|--------------------------------------------------------------|
| another client, an auditor        | every answer to a request of their own, with its headers     |
| a network                         | the same, and of the person's own traffic, as the client of  |
|                                   | discreet sends it, codes and lengths: TLS hides no more      |
| an operator without the           | every column of the database; of what is sealed its length   |
| database's key                    |                                                              |

What stays out: how long requests take, and what an operator sees who has the key.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import httpx2
import numpy as np
from sqlalchemy import select

from discreet.audit.checks import Check
from discreet.audit.replay import (
    SECURE,
    Claim,
    Exact,
    Labelled,
    NotAudited,
    Promise,
    Subject,
    Transcript,
    worst_neighbours,
)
from discreet.learners.epochs.capri import Capri
from discreet.learners.gp_ucb.learner import GPUCB
from discreet.people.domain import Box, DecisionSets
from discreet.privacy import Joint, SecureNoise
from discreet.service.client.decisions import DecisionClient
from discreet.service.server.app import create_app
from discreet.service.server.database import SteadyClock
from discreet.service.server.deployment import AnyLearner, Deployment
from discreet.service.server.encryption import KEY_VARIABLE, Cipher
from discreet.service.server.schema import metadata
from discreet.service.server.service import Service

_STUDY, _ADDRESS = "s", "http://127.0.0.1:8000"
_PEOPLE, _PLACE, _LOOKS = 24, 7, 12
_NOW = 1.8e9
_MOST = 120  # points of one person
# Metrics that are of the machine, not of people.
_CLOCKS = ("seconds", "process_", "python_")
_PUBLIC = ("", "/s", "/s/terms", "/s/policy", "/s/policies/0", "/s/policies/1")
_OPERATED = ("/certificate", "/ledger", "/releases", "/export")


@dataclass(frozen=True, kw_only=True)
class ServedRun(Subject):
    """See the module. A person is a context, a reward, and a name where contributions are counted.

    Attributes:
        make: the learner that is served.
        people: to compare.
        crowd: contexts of all people.
        named: whether decisions name the person; then each of the others comes twice.
    """

    make: Callable[[], AnyLearner]
    people: Sequence[Labelled]
    crowd: Sequence[Any]
    named: bool = False

    def groups(self) -> Iterable[Sequence[Labelled]]:
        return [self.people]

    def run(self, person: Labelled, transcript: Transcript) -> Promise:
        with TemporaryDirectory() as folder, _same_luck():
            environment = {KEY_VARIABLE: Cipher.new_key()}
            service = Service.open(f"sqlite:///{Path(folder) / 'served.db'}", environment)
            try:
                learner = self.make()
                deployment = Deployment(_STUDY, "a study", None, 30.0, 0.0, (), "")
                service.store.register(deployment, learner)
                outbox = Path(folder) / "outbox.db"
                self._play(service, person.data, transcript, outbox)
                _look_inside(service, transcript)
                _, released = service.aggregator._learner(_STUDY)
                asked, held = learner.budget, released.guarantee()
                claim = Claim(held.epsilon, held.delta)
                return Promise(Claim(asked.epsilon, asked.delta), claim, released.releases)
            finally:
                service.stop()

    def _play(self, service: Service, one: Any, transcript: Transcript, outbox: Path) -> None:
        """All people ask for a decision and send its reward twice; others look meanwhile."""
        tokens = {role: service.keys.make(role) for role in ("client", "operator", "auditor")}
        transport = _InProcess(service)
        luck = np.random.default_rng(2).integers(0, 2, len(self.crowd))
        product = DecisionClient(
            _ADDRESS,
            _STUDY,
            key=tokens["client"],
            store=outbox,
            transport=_Wire(transport, transcript),
        )
        with httpx2.Client(base_url=_ADDRESS, transport=transport) as http, product:

            def ask(method: str, path: str, role: str, **content: Any) -> httpx2.Response:
                headers = {"authorization": f"Bearer {tokens[role]}"}
                return http.request(method, path, headers=headers, **content)

            for place, context in enumerate(self.crowd):
                if place == _PLACE:
                    context, reward, name = one
                    choice = product.decide(context, name if self.named else None)
                    for _ in range(2):
                        product.reward(choice.id, reward)
                else:
                    name = f"person {place % (len(self.crowd) // 2)}"
                    body = {"context": context, **({"person": name} if self.named else {})}
                    answers = [ask("POST", "/v1/studies/s/decisions", "client", json=body)]
                    path = f"/v1/studies/s/decisions/{answers[0].json()['id']}/reward"
                    reward = {"reward": float(luck[place])}
                    for _ in range(2):
                        answers.append(ask("POST", path, "client", json=reward))
                    for answer in answers:
                        _show(answer, transcript)
                if place % _LOOKS == _LOOKS - 1:
                    service.aggregator.step()
                    for role in tokens:
                        for path in _PUBLIC:
                            _show(ask("GET", f"/v1/studies{path}", role), transcript)
                    paths = [f"/v1/studies/s{path}" for path in _OPERATED]
                    for path in (*paths, "/metrics", "/v1/operations", "/health"):
                        _show(ask("GET", path, "operator"), transcript)


class _InProcess(httpx2.BaseTransport):
    """Carries requests to the application of a service, without a network."""

    def __init__(self, service: Service) -> None:
        self._transport = httpx2.ASGITransport(create_app(service))

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        return asyncio.run(self._answered(request))

    async def _answered(self, request: httpx2.Request) -> httpx2.Response:
        answer = await self._transport.handle_async_request(request)
        content = await answer.aread()
        return httpx2.Response(answer.status_code, headers=answer.headers, content=content)


class _Wire(httpx2.BaseTransport):
    """Carries one person's requests, and notes what a network sees of them under TLS."""

    def __init__(self, transport: httpx2.BaseTransport, transcript: Transcript) -> None:
        self._transport, self._transcript = transport, transcript

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        body = request.read()
        response = self._transport.handle_request(request)
        answer = response.read()
        head = [len(request.method), len(request.url.raw_path), _length(request.headers)]
        self._transcript.add("the length of the person's request", [*head, len(body)])
        self._transcript.add("a code that the person was answered with", response.status_code)
        seen = [_length(response.headers), len(answer)]
        self._transcript.add("the length of the answer to the person", seen)
        return response


def _length(headers: httpx2.Headers) -> int:
    return sum(len(name) + len(value) for name, value in headers.raw)


def _show(answer: httpx2.Response, transcript: Transcript) -> None:
    """Note an answer as a network sees it without TLS."""
    text, headers = answer.text, dict(answer.headers)
    if answer.request.url.path == "/metrics":
        lines = [line for line in text.splitlines() if not any(c in line for c in _CLOCKS)]
        text = "\n".join(lines)
        del headers["content-length"]
    where = f"the answer to {answer.request.method} {answer.request.url.path}"
    transcript.add(where, repr((answer.status_code, sorted(headers.items()), text)))


def _look_inside(service: Service, transcript: Transcript) -> None:
    """Note the database as an operator without its key sees it."""
    with service.database.reading() as connection:
        for table in metadata.sorted_tables:
            for row in connection.execute(select(table).order_by(*table.primary_key)):
                seen = [len(each) if isinstance(each, bytes) else each for each in row]
                transcript.add(f"a row of the table {table.name}", repr(seen))


@contextmanager
def _same_luck() -> Iterator[None]:
    """The person in one place draws the same in all runs, at the same time: actions are drawn
    without noise, and clocks depend on no person."""
    turn, real = [0], np.random.default_rng

    def seeded() -> np.random.Generator:
        turn[0] += 1
        return real(turn[0])

    drawing = SimpleNamespace(random=SimpleNamespace(default_rng=seeded))
    with (
        patch("discreet.service.server.decisions.np", drawing),
        patch.object(time, "time", lambda: _NOW),
        patch.object(SteadyClock, "now", lambda _: _NOW),
    ):
        yield


def _gp_ucb() -> AnyLearner:
    return GPUCB(
        Box((0.0,), (1.0,)),
        DecisionSets(most=_MOST),
        Joint(1.0, 1e-6),
        kernel="RBF(length_scale=[.3])",
        noise=SecureNoise(),
        horizon=1000,
        identity="served",
    )


def _capri() -> AnyLearner:
    box = Box.of({"hiv": ["no", "yes", "not tested", "unknown"]})
    arms = ["a leaflet", "a call", "a visit by a nurse, and a call a week later"]
    budget = Joint(1.0, 1e-6, max_contributions=2)
    return Capri(box, arms, budget, noise=SecureNoise(), horizon=200, identity="served")


def _sets() -> ServedRun:
    rng = np.random.default_rng(1)
    return ServedRun(
        make=_gp_ucb,
        crowd=[rng.random((1 + place % 3, 1)).tolist() for place in range(_PEOPLE)],
        people=[
            Labelled("one candidate", ([[0.25]], 0.0, None)),
            Labelled(
                "as many candidates as there may be", (rng.random((_MOST, 1)).tolist(), 1.0, None)
            ),
            Labelled("two at the ends", ([[1e-300], [1.0]], 0.3333333333333333, None)),
            Labelled("outside the domain", ([[2.0]], 0.0, None)),
        ],
    )


def _visits() -> ServedRun:
    rng = np.random.default_rng(1)
    return ServedRun(
        make=_capri,
        named=True,
        crowd=[[float(level)] for level in rng.integers(0, 4, _PEOPLE)],
        people=[
            Labelled("a short name", ({"hiv": "no"}, 0.0, "x")),
            Labelled("a long one", ({"hiv": "not tested"}, 0.123456789012345, "é" * 100)),
            Labelled("that of another person", ([1], 1.0, "person 1")),
            Labelled("that of a second other person", ({"hiv": "yes"}, 1.0, "person 2")),
            Labelled("an undeclared label", ({"hiv": "perhaps"}, 0.0, "x")),
            Labelled("no value", ({"hiv": None}, 0.0, "x")),
        ],
    )


def _exact(run: Callable[[], ServedRun]) -> Exact:
    if not SECURE:
        raise NotAudited('OpenDP is not installed; run pip install "discreet[secure]".')
    return worst_neighbours(run())


def service_checks() -> list[Check]:
    """What others see of a service, in two studies under joint privacy."""
    about = "all answers to others, and the database without its key, through HTTP"
    return [
        Check(name, "learner", "joint", partial(_exact, run), about=about)
        for name, run in (("service, gp_ucb", _sets), ("service, capri by name", _visits))
    ]
