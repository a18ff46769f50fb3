"""The audit's game through HTTP: what others see of a trusted study does not depend on one person.

Two runs differ in what one person brings and in the reward that follows. All randomness of the
first is played back in the second, so releases have the same noisy outcome; everything that
anybody else can see must then be the same to the byte: network observers and other clients every
answer with its headers, an operator without the database's key every column and the length of what
is sealed. What noise hides is the matter of `discreet audit`, which attacks the learners.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sqlalchemy import select

pytest.importorskip("fastapi")

from starlette.testclient import TestClient

from discreet.audit.ledger import Ledger
from discreet.service.app import create_app
from discreet.service.schema import metadata
from discreet.service.service import Service
from tests.service.scene import capri, contexts, deployment, gp_ucb
from tests.service.web import ADDRESS, ENVIRONMENT

PEOPLE, THE_ONE = 40, 7
# What is of the machine, not of people.
_CLOCKS = ("seconds", "process_", "python_")
Person = tuple[Any, float, str | None]
SETS: list[Person] = [
    ([[0.25]], 0.0, None),
    ([[0.123456789012345], [0.987654321098765], [0.5]], 1.0, None),
    ([[1e-300], [1.0]], 0.3333333333333333, None),
]
VISITS: list[Person] = [
    ([1.0], 0.0, "x"),
    ([1.0 / 3.0], 0.123456789012345, "x" * 100),
    ([0.0], 1.0, "person 1"),
]


class Observers:
    """Everything that can be seen of one run.

    Attributes:
        public: what is sent to anybody but the person.
        own: the codes of the person's own answers.
        columns: of the database, sealed ones by their length.
    """

    def __init__(self) -> None:
        self.public: list[Any] = []
        self.own: list[int] = []
        self.columns: list[Any] = []


def played(folder: Path, make: Callable[[], Any], one: Person, named: bool) -> Observers:
    """One run, with its observers."""
    service = Service.open(f"sqlite:///{folder}/discreet.db", ENVIRONMENT)
    seen, learner = Observers(), make()
    service.store.register(deployment(), learner)
    tokens = {role: service.keys.make(role) for role in ("client", "operator", "auditor")}
    client = TestClient(create_app(service), base_url=ADDRESS)

    def ask(method: str, path: str, role: str, **content: Any) -> Any:
        headers = {"authorization": f"Bearer {tokens[role]}"}
        return client.request(method, path, headers=headers, **content)

    def show(answer: Any) -> None:
        text, headers = answer.text, dict(answer.headers)
        if answer.request.url.path == "/metrics":
            lines = [each for each in text.splitlines() if not any(c in each for c in _CLOCKS)]
            text = "\n".join(lines)
            del headers["content-length"]
        seen.public.append((answer.status_code, headers, text))

    def look() -> None:
        for role in ("client", "auditor", "operator"):
            for path in ("", "/s", "/s/terms", "/s/policy", "/s/policies/0", "/s/policies/1"):
                show(ask("GET", f"/v1/studies{path}", role))
        for path in ("certificate", "ledger", "releases", "export"):
            show(ask("GET", f"/v1/studies/s/{path}", "operator"))
        for path in ("/metrics", "/v1/operations", "/health"):
            show(ask("GET", path, "operator"))

    brought = contexts(learner, PEOPLE, 1)
    luck = np.random.default_rng(2).integers(0, 2, PEOPLE)
    for place in range(PEOPLE):
        person = f"person {place % 20}" if named else None
        given = one if place == THE_ONE else (brought[place], float(luck[place]), person)
        body = {"context": given[0], **({"person": given[2]} if named else {})}
        answer = ask("POST", "/v1/studies/s/decisions", "client", json=body)
        path = f"/v1/studies/s/decisions/{answer.json()['id']}/reward"
        told = [ask("POST", path, "client", json={"reward": given[1]}) for _ in range(2)]
        if place == THE_ONE:
            seen.own += [each.status_code for each in (answer, *told)]
        else:
            for each in (answer, *told):
                show(each)
        if place % 10 == 9:
            service.aggregator.step()
            look()
    with service.database.reading() as connection:
        for table in metadata.sorted_tables:
            for row in connection.execute(select(table).order_by(*table.primary_key)):
                seen.columns += [(table.name, *map(_unsealed, row))]
    service.database.close()
    return seen


@pytest.fixture(autouse=True)
def same_luck(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Whoever comes at one place draws the same in all runs; actions are drawn without noise."""
    turn, real = [0], np.random.default_rng

    def seeded() -> np.random.Generator:
        turn[0] += 1
        return real(turn[0])

    drawing = SimpleNamespace(random=SimpleNamespace(default_rng=seeded))
    monkeypatch.setattr("discreet.service.decisions.np", drawing)
    return turn


def _unsealed(value: Any) -> Any:
    return len(value) if isinstance(value, bytes) else value


@pytest.fixture(autouse=True)
def standing_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times of the runs are the same."""
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now)


def runs(
    folder: Path, make: Callable[[], Any], people: list[Person], named: bool, turn: list[int]
) -> Any:
    """The observers of each run, and its ledger of noise."""
    first, found = Ledger(1), []
    # What libraries draw when they are first used is of no run.
    warm = folder / "warm"
    warm.mkdir()
    with Ledger(1).recording():
        played(warm, make, people[0], named)
    for number, person in enumerate(people):
        ledger = first if number == 0 else Ledger(1)
        within = folder / str(number)
        within.mkdir()
        turn[0] = 0
        with ledger.recording() if number == 0 else ledger.playing(first):
            found.append((played(within, make, person, named), ledger))
    return found


@pytest.mark.chance(0)
@pytest.mark.parametrize("named", [False, True])
def test_others_see_nothing_of_one_person(
    tmp_path: Path, named: bool, same_luck: list[int]
) -> None:
    make = (lambda: capri(visits=2)) if named else gp_ucb
    (mine, drawn), *others = runs(tmp_path, make, VISITS if named else SETS, named, same_luck)
    assert mine.own == [201, 202, 202]
    policies = {text for code, _, text in mine.public if code == 200 and '"version"' in text}
    assert len(policies) > 2, "nothing was released"
    assert drawn.draws, "no noise was drawn"
    for theirs, played_back in others:
        assert played_back.astray == ""
        assert theirs.own == mine.own
        assert len(theirs.public) == len(mine.public)
        for each, other in zip(mine.public, theirs.public, strict=True):
            assert each == other
        assert theirs.columns == mine.columns
        moved = [
            not np.array_equal(each.value, other.value)
            for each, other in zip(drawn.draws, played_back.draws, strict=True)
        ]
        assert any(moved), "the noise hid nothing, as nothing differed"


@pytest.mark.slow
@pytest.mark.chance(0)
def test_the_game_sees_a_service_that_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, same_luck: list[int]
) -> None:
    """One that sealed without a common size would be found out by an operator."""
    for module in ("decisions", "store"):
        monkeypatch.setattr(
            f"discreet.service.{module}.closed",
            lambda seal, content, secret, study, place: seal.close(content, f"{place} of {study}"),
        )
    for module in ("decisions", "store", "aggregator"):
        monkeypatch.setattr(
            f"discreet.service.{module}.opened",
            lambda seal, kept, secret, study, place: seal.open(kept, f"{place} of {study}"),
        )
    (mine, _), (theirs, _) = runs(tmp_path, gp_ucb, SETS[:2], False, same_luck)
    assert theirs.public == mine.public
    assert theirs.columns != mine.columns
