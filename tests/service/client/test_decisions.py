"""A product that asks for decisions, and loses no reward."""

from __future__ import annotations

import asyncio
import json
import math
import sqlite3
import struct
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import numpy as np
import pandas as pd
import pytest

from discreet import GPUCB, Box, Capri, DecisionSets, InvalidInput, Joint, SecureNoise
from discreet.service.client import (
    AsyncDecisionClient,
    ChosenAction,
    DecisionClient,
    Refused,
    Unreachable,
)
from discreet.service.client.transport import body_of
from discreet.service.server.access import refusal
from discreet.service.server.bodies import DecisionFields
from discreet.service.server.deployment import (
    LONGEST_WARNING,
    Deployment,
    answer_bytes,
    request_bytes,
)
from tests.service.client.conftest import QUICK, Running
from tests.service.client.test_device import Killed, killed_at

POINTS = [[0.1], [0.5], [0.9]]
KEY = "dk_0123456789abcdef_secret"


def open_joint(running: Running, name: str = "joint") -> None:
    learner = GPUCB(
        Box(lower=(0,), upper=(1,)),
        DecisionSets(most=3),
        Joint(epsilon=1.0, delta=1e-6),
        kernel="RBF(length_scale=[.3])",
        noise=SecureNoise(),
        horizon=1000,
    )
    running.service.store.register(Deployment(name, "t", None, 30.0, 0.0, (), "text"), learner)


@pytest.mark.chance(0)
def test_decisions_and_rewards_against_the_real_service(running: Running, tmp_path: Path) -> None:
    pytest.importorskip("opendp")
    open_joint(running)
    key = running.key("client", "joint")
    with DecisionClient(running.url, "joint", key=key, store=tmp_path / "outbox.db") as decisions:
        choices = [decisions.decide(POINTS) for _ in range(5)]
        assert len({choice.id for choice in choices}) == 5
        for choice in choices:
            assert choice.offered
            assert choice.arm in (0, 1, 2)
            assert 0.0 < choice.propensity <= 1.0
            assert decisions.reward(choice.id, 1.0)
        assert decisions.waiting() == 0
        assert running.service.aggregator.waiting("joint") == 5
        # The same again changes nothing, and another one is refused for good.
        assert decisions.reward(choices[0].id, 1.0)
        assert not decisions.reward(choices[0].id, 0.0)
        assert "another reward" in decisions.refused()[choices[0].id or ""]
        assert decisions.send() == 0
        with pytest.raises(Refused, match="400"):
            decisions.decide([[0.5, 0.5]])
        moved = decisions.decide([[2.0]])
        assert moved.point == (1.0,)
        assert "declared bounds" in str(moved.warning)
        assert choices[0].warning is None
        with pytest.raises(InvalidInput, match="reward was"):
            decisions.reward(choices[1].id, float("nan"))
    assert running.service.aggregator.waiting("joint") == 5


@pytest.mark.chance(0)
def test_awaited_and_paused(running: Running, tmp_path: Path) -> None:
    pytest.importorskip("opendp")
    open_joint(running)

    async def day() -> tuple[ChosenAction, bool, int, int]:
        async with AsyncDecisionClient(
            running.url,
            "joint",
            key=running.key("client"),
            store=tmp_path / "outbox.db",
            default_arm=1,
            patience=QUICK,
        ) as decisions:
            choice = await decisions.decide(POINTS)
            running.service.store.set_state("joint", "paused")
            default = await decisions.decide(POINTS)
            known = await decisions.reward(choice.id, 0.5)
            waited = await decisions.waiting()
            running.service.store.set_state("joint", "running")
            return default, known, waited, await decisions.send()

    default, known, waited, sent = asyncio.run(day())
    assert default == ChosenAction(None, None, 1, None, None, 1.0, False)
    assert (known, waited, sent) == (False, 1, 1)
    assert running.service.aggregator.waiting("joint") == 1


class Wire(httpx2.HTTPTransport):
    """Notes what a network sees under TLS: lengths by what is sent, and codes.

    Attributes:
        seen: for each code of an answer the lengths of paths, headers and bodies, both ways.
    """

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[tuple[str, int], set[tuple[int, ...]]] = {}

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        response = super().handle_request(request)
        what = request.url.path.split("/")[-1]
        self.seen.setdefault((what, response.status_code), set()).add(
            (
                len(request.url.raw_path),
                sum(map(len, sum(request.headers.raw, ()))),
                len(request.read()),
                sum(map(len, sum(response.headers.raw, ()))),
                len(response.read()),
            )
        )
        return response


PEOPLE = [
    {"hiv": "no", "age": 40},
    {"age": 40.123456789012345, "hiv": "not tested"},
    [1, 18],
    [2.0, 1.8000000000000003e1],
]
MOVED = [{"hiv": "perhaps", "age": 40}, {"hiv": None, "age": 17}, [1.0, 1e300], [None, None]]


@pytest.mark.chance(0)
def test_lengths_on_the_wire_do_not_tell_people_apart(running: Running, tmp_path: Path) -> None:
    """Contexts, allowed or not, who it is, arms, points and rewards; nor what is wrong with those
    refused."""
    pytest.importorskip("opendp")
    arms = Capri(
        Box.of({"hiv": ["no", "yes", "not tested"], "age": (18, 90)}),
        ["a leaflet", "a visit by a nurse, and a call a week later"],
        Joint(1.0, 1e-6, max_contributions=2),
        noise=SecureNoise(),
        horizon=1000,
    )
    running.service.store.register(Deployment("joint", "t", None, 30.0, 0.0, (), "text"), arms)
    open_joint(running, "points")
    for study, contexts, wrong in (
        ("joint", [*PEOPLE * 5, *MOVED], [{"hiv": "no", "aged": 40}, [1.0]]),
        (
            "points",
            [[[0.1]], POINTS, [{"x1": 1e-300}, {"x1": 1}], [[2.0]], [[None]]],
            [[[2.0, 2.0]], [["x"]]],
        ),
    ):
        wire = Wire()
        with DecisionClient(
            running.url,
            study,
            key=running.key("client", study),
            store=tmp_path / f"{study}.db",
            transport=wire,
        ) as decisions:
            for place, context in enumerate(contexts):
                person = "é" * (1 + 9 * (place % 10)) if study == "joint" else None
                choice = decisions.decide(context, person)
                decisions.reward(choice.id, (0.0, 1, 0.123456789012345, 1e-300)[place % 4])
            for context in wrong:
                with pytest.raises(Refused):
                    decisions.decide(context, "x" if study == "joint" else None)
            for reward in (1.5, -1.2345678901234567e-300):
                assert not decisions.reward(decisions.decide(contexts[0], person).id, reward)
        assert set(wire.seen) == {
            (study, 200),
            ("decisions", 201),
            ("decisions", 400),
            ("reward", 202),
            ("reward", 400),
        }
        assert {len(lengths) for lengths in wire.seen.values()} == {1}
        requests = {(what, sent[:3]) for (what, _), each in wire.seen.items() for sent in each}
        assert len(requests) == 3  # of the study, a decision and a reward, whatever the answer


@pytest.mark.parametrize("message", ["short", "x" * 2000, "é" * 600, '"' * 900, "\x00" * 999])
def test_refusals_have_one_length_whatever_they_quote(message: str) -> None:
    body = refusal(400, message).body
    assert len(body) == 1024
    assert json.loads(body)["error"].removesuffix("…") in message


@pytest.mark.parametrize("sets", [False, True])
def test_the_longest_request_of_a_decision_is_within_its_public_length(sets: bool) -> None:
    names, labels = ["é" * 20, "x" * 30, "y"], ["\U0001f600" * 90, "no"]
    domain = Box.of({names[0]: labels, names[1]: (-1e300, 1e300), names[2]: ["a", "b"]})
    number = -1.2345678901234567e-300
    point = {names[0]: labels[0], names[1]: number, names[2]: number}
    learner: Any = SimpleNamespace(
        domain=domain,
        space=DecisionSets(most=40) if sets else 3,
        budget=Joint(1.0, 1e-6, max_contributions=2),
    )
    fields = {"context": [point] * 40 if sets else point, "person": "\U0001f600" * 100}
    room = request_bytes(learner) - len(body_of(fields))
    assert 0 <= room < 200 * (40 if sets else 1)


@pytest.mark.parametrize("points", [False, True])
def test_the_longest_answer_to_a_decision_is_within_its_public_length(points: bool) -> None:
    names, number = ("é" * 100, "no"), -1.2345678901234567e-300
    learner: Any = SimpleNamespace(
        domain=Box((0.0,) * 9, (1.0,) * 9), arm_names=() if points else names
    )
    longest = DecisionFields.model_construct(
        id="f" * 32,
        version=10**9,
        arm=-(2**53),
        name=None if points else names[0],
        point=[number] * 9 if points else None,
        propensity=abs(number),
        warning="\0" * LONGEST_WARNING,
    )
    assert len(json.dumps(longest.model_dump(), ensure_ascii=False).encode()) <= answer_bytes(
        learner
    )


class Server:
    """Takes rewards of any decision; answers can be made to fail."""

    def __init__(self) -> None:
        self.fails: list[Any] = []
        self.rewards: list[tuple[str, float]] = []
        self.contexts: list[Any] = []

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        status = self.fails.pop(0) if self.fails else 200
        if status is None:
            raise httpx2.ConnectError("the network is gone")
        if status != 200:
            return httpx2.Response(status, json={"error": "not so"})
        if request.url.path.endswith("/decisions"):
            self.contexts.append(json.loads(request.content)["context"])
            fields = {"id": "d" * 32, "version": 3, "arm": 1, "name": "b", "point": None}
            return httpx2.Response(201, json={**fields, "propensity": 0.25})
        if request.method == "GET":
            return httpx2.Response(200, json={"state": "running", "request_bytes": 128})
        identity = request.url.path.split("/")[-2]
        self.rewards.append((identity, json.loads(request.content)["reward"]))
        return httpx2.Response(202, json={"new": True})


def decisions_of(server: Server, folder: Path, **options: Any) -> DecisionClient:
    return DecisionClient(
        "https://service.example.org",
        "joint",
        key=KEY,
        store=folder / "outbox.db",
        patience=QUICK,
        transport=httpx2.MockTransport(server.answer),
        **options,
    )


@pytest.mark.parametrize(
    ("age", "sent"),
    [
        (None, None),
        (math.nan, None),
        (np.float32("nan"), None),
        (pd.NA, None),
        (pd.NaT, None),
        (math.inf, sys.float_info.max),
        (-math.inf, -sys.float_info.max),
        (np.int64(40), 40),
    ],
    ids=str,
)
def test_a_context_is_sent_whatever_its_values(age: Any, sent: Any, tmp_path: Path) -> None:
    """An exception would tell a network observer that a value is missing."""
    server = Server()
    decisions = decisions_of(server, tmp_path)
    for context, wanted in (({"age": age}, {"age": sent}), ([age, 1.0], [sent, 1.0])):
        assert decisions.decide(context).id is not None
        assert server.contexts.pop() == wanted


class TestFallback:
    @pytest.mark.parametrize("status", [None, 409, 410, 429, 500, 503])
    def test_the_default_arm_with_its_propensity(self, status: int | None, tmp_path: Path) -> None:
        server = Server()
        server.fails = [status]
        decisions = decisions_of(server, tmp_path, default_arm="a")
        choice = decisions.decide({"age": 40})
        assert choice == ChosenAction(None, None, None, "a", None, 1.0, False)
        assert not decisions.reward(choice.id, 1.0)
        assert decisions.waiting() == 0
        assert not server.rewards

    @pytest.mark.parametrize("status", [400, 401, 403, 404])
    def test_what_is_wrong_with_the_request_is_said(self, status: int, tmp_path: Path) -> None:
        server = Server()
        server.fails = [status]
        with pytest.raises(Refused, match="not so"):
            decisions_of(server, tmp_path, default_arm="a").decide({"age": 40})

    @pytest.mark.parametrize("status", [None, 503])
    def test_without_a_default_it_is_unreachable(self, status: int | None, tmp_path: Path) -> None:
        server = Server()
        server.fails = [status]
        with pytest.raises(Unreachable):
            decisions_of(server, tmp_path).decide({"age": 40})

    def test_an_answer_that_is_no_decision(self, tmp_path: Path) -> None:
        transport = httpx2.MockTransport(lambda _: httpx2.Response(200, json={"hello": 1}))
        decisions = DecisionClient(
            "https://x", "s", key=KEY, store=tmp_path / "o.db", transport=transport, default_arm=0
        )
        assert not decisions.decide().offered


class TestOutbox:
    def test_rewards_wait_for_the_service(self, tmp_path: Path) -> None:
        server = Server()
        server.fails = [None] * 20
        for number in range(3):
            assert not decisions_of(server, tmp_path).reward(f"{number}", float(number))
        with pytest.raises(InvalidInput, match="another reward"):
            decisions_of(server, tmp_path).reward("1", 7.0)
        with pytest.raises(Unreachable):
            decisions_of(server, tmp_path).send()
        server.fails = [503]
        assert decisions_of(server, tmp_path).send() == 3
        assert server.rewards == [("0", 0.0), ("1", 1.0), ("2", 2.0)]
        assert decisions_of(server, tmp_path).waiting() == 0

    @pytest.mark.parametrize("status", [400, 404, 409, 410])
    def test_what_was_refused_is_not_sent_again(self, status: int, tmp_path: Path) -> None:
        server = Server()
        server.fails = [None]
        decisions = decisions_of(server, tmp_path)
        decisions.reward("1", 1.0)
        server.fails = [status]
        assert decisions.send() == decisions.send() == decisions.waiting() == 0
        assert "not so" in decisions.refused()["1"]
        assert not server.rewards

    def test_a_crash_loses_none(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Once `reward` was shown to have ended, or its row is there, the service gets it."""
        server, place, kept = Server(), 0, 0
        while True:
            (tmp_path / "outbox.db").unlink(missing_ok=True)
            server.rewards = []
            with killed_at(monkeypatch, place):
                try:
                    done = decisions_of(server, tmp_path).reward("1", 0.25)
                except Killed:
                    done = False
            with killed_at(monkeypatch, -1):
                decisions = decisions_of(server, tmp_path)
                kept += decisions.waiting()
                decisions.send()
                if not server.rewards:
                    # It was not kept, and the product knows: its call did not return.
                    assert not done
                    decisions.reward("1", 0.25)
                assert set(server.rewards) == {("1", 0.25)}
                assert decisions.waiting() == 0
            if done:
                break
            place += 1
        assert kept > 5

    def test_the_file_is_private_and_forgets(self, tmp_path: Path) -> None:
        server = Server()
        server.fails = [None]
        decisions = decisions_of(server, tmp_path)
        decisions.reward("1", 0.123456789)
        file = tmp_path / "outbox.db"
        assert file.stat().st_mode & 0o077 == 0
        stored = struct.pack(">d", 0.123456789)
        assert stored in file.read_bytes()
        decisions.send()
        assert stored not in file.read_bytes()
        with sqlite3.connect(file) as state:
            assert state.execute("SELECT count(*) FROM rewards").fetchone() == (0,)
