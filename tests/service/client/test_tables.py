"""Curator and modeler over a service: nothing is asked twice, nothing is answered twice."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx2
import pandas as pd
import pytest

from discreet.outsourcing.certificate import Certificate
from discreet.outsourcing.mechanisms import QUESTION_BYTES, AnswerRules, Unmeasured
from discreet.privacy import SecureNoise
from discreet.service.client import (
    AsyncCuratorClient,
    AsyncModelerClient,
    CuratorClient,
    ModelerClient,
    Refused,
    Unreachable,
)
from tests.outsourcing.cases import bounds, release, table
from tests.service.client.conftest import QUICK, Running
from tests.service.client.test_device import Killed, killed_at

pytest.importorskip("opendp")
pytestmark = pytest.mark.chance(0)


def drawn(folder: Path, **options: Any) -> Certificate:
    """A release of the small table with noise for people."""
    return release(folder, noise=SecureNoise(), seed=None, **options)


def curator_of(running: Running, folder: Path, **options: Any) -> CuratorClient:
    key = running.key("curator", "homes")
    return CuratorClient(running.url, "homes", key=key, folder=folder / "key", **options)


def modeler_of(running: Running, folder: Path, **options: Any) -> ModelerClient:
    key = running.key("modeler", "homes")
    return ModelerClient(
        running.url, "homes", key=key, folder=folder / "search", patience=QUICK, **options
    )


def test_a_whole_search(running: Running, tmp_path: Path) -> None:
    certificate = drawn(tmp_path / "key")
    with curator_of(running, tmp_path) as curator, modeler_of(running, tmp_path) as modeler:
        with pytest.raises(Refused, match="no table was published"):
            modeler.step(rounds=6)
        assert curator.publish(certificate.release)
        assert not curator.publish(certificate.release)
        assert modeler.release().certificate.release == certificate.release
        asked, turns = 0, 0
        while not (turn := modeler.step(rounds=6, batch=2)).done:
            turns += 1
            assert [each.row for each in curator.questions()] == [
                each.row for each in turn.asked if each.status == "waiting"
            ]
            asked += curator.answer()
        assert (asked, turns, turn.answered) == (6, 3, 6)
        assert curator.questions() == []
        assert curator.answer() == 0
        assert turn.best is not None
        assert turn.best.answer == max(each.answer for each in turn.asked)
        outcomes = table()["expense"].tolist()
        assert all(each.answer in outcomes for each in turn.asked)


def test_people_to_be_measured_and_people_who_cannot_be(running: Running, tmp_path: Path) -> None:
    frame = table().drop(columns="expense")
    certificate = drawn(tmp_path / "key", frame=frame, public=bounds(outcome=None))
    with curator_of(running, tmp_path) as curator, modeler_of(running, tmp_path) as modeler:
        curator.publish(certificate.release)
        modeler.step(rounds=3, batch=3)
        with pytest.raises(Unmeasured) as unmeasured:
            curator.answer()
        ids = list(unmeasured.value.ids)
        assert len(ids) == 3
        columns = curator.curator.outcome_columns()
        outcomes = pd.DataFrame({columns[0]: ids, columns[1]: [1.5, 2.5, None]})
        assert curator.answer(outcomes) == 3
        turn = modeler.step(rounds=3, batch=3)
        assert turn.done
        assert sorted(each.status for each in turn.asked) == ["answered", "answered", "impossible"]


def test_awaited(running: Running, tmp_path: Path) -> None:
    certificate = drawn(tmp_path / "key", answers=AnswerRules(1, 1.0, 1e-6, (0.0, 10.0)))

    async def search() -> int:
        async with (
            AsyncCuratorClient(
                running.url,
                "homes",
                key=running.key("curator"),
                folder=tmp_path / "key",
            ) as curator,
            AsyncModelerClient(
                running.url,
                "homes",
                key=running.key("modeler"),
                folder=tmp_path / "search",
            ) as modeler,
        ):
            await curator.publish(certificate.release)
            while not (turn := await modeler.step(rounds=4, batch=4)).done:
                await curator.answer()
            return turn.answered

    assert asyncio.run(search()) == 4


def test_another_release_under_the_name_is_refused(running: Running, tmp_path: Path) -> None:
    first = drawn(tmp_path / "key")
    with curator_of(running, tmp_path) as curator:
        curator.publish(first.release)
        second = drawn(tmp_path / "key", again=True)
        with pytest.raises(Refused, match="published once") as refused:
            curator.publish(second.release)
        assert refused.value.status == 409


def test_a_simulated_release_is_refused(running: Running, tmp_path: Path) -> None:
    certificate = release(tmp_path / "key")
    with (
        curator_of(running, tmp_path) as curator,
        pytest.raises(Refused, match="does not protect people"),
    ):
        curator.publish(certificate.release)


def test_rows_that_were_changed_on_the_way_are_refused(running: Running, tmp_path: Path) -> None:
    certificate = drawn(tmp_path / "key")
    with curator_of(running, tmp_path) as curator:
        curator.publish(certificate.release)

    def changed(request: httpx2.Request) -> httpx2.Response:
        text = certificate.to_json()
        return httpx2.Response(200, json={"certificate": text, "rows": "cm93cw==", "format": "csv"})

    with (
        modeler_of(running, tmp_path, transport=httpx2.MockTransport(changed)) as modeler,
        pytest.raises(Exception, match="certificate was made for"),
    ):
        modeler.release()


@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.slow), 4])
def test_a_modeler_stopped_at_every_statement_asks_nothing_twice(
    running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int
) -> None:
    certificate = drawn(tmp_path / "key")
    with curator_of(running, tmp_path) as curator:
        curator.publish(certificate.release)
        place = 0
        while True:
            with killed_at(monkeypatch, place), modeler_of(running, tmp_path) as modeler:
                try:
                    modeler.step(rounds=12, batch=2)
                    done = True
                except Killed:
                    done = False
            waiting = curator.questions()
            assert len(waiting) in (0, 2)
            with modeler_of(running, tmp_path) as modeler:
                modeler.step(rounds=12, batch=2)
            assert len(curator.questions()) == 2
            if waiting:
                assert curator.questions() == waiting
            if done:
                break
            place += every
        assert place > 3


def test_answers_that_are_lost_on_the_way_come_again(running: Running, tmp_path: Path) -> None:
    """They are drawn once: whoever is answered twice gets the same."""
    certificate = drawn(tmp_path / "key", answers=AnswerRules(1, 1.0, 1e-6, (0.0, 10.0)))
    with curator_of(running, tmp_path) as curator, modeler_of(running, tmp_path) as modeler:
        curator.publish(certificate.release)
        modeler.step(rounds=2, batch=2)
        asked = curator.questions()
        before = curator.curator.answer(certificate.release, asked)

        def lost(request: httpx2.Request) -> httpx2.Response:
            if request.method == "POST":
                raise httpx2.ConnectError("the network is gone")
            return httpx2.get(
                str(request.url), headers={"Authorization": request.headers["authorization"]}
            )

        with (
            curator_of(
                running, tmp_path, transport=httpx2.MockTransport(lost), patience=QUICK
            ) as cut_off,
            pytest.raises(Unreachable),
        ):
            cut_off.answer()
        assert curator.questions() == asked
        assert curator.answer() == 2
        turn = modeler.step(rounds=2)
        assert [each.answer for each in turn.asked] == [each.answer for each in before]


def test_lengths_on_the_wire_follow_from_the_number_of_rows(
    running: Running, tmp_path: Path
) -> None:
    """Rows, answers, and whether somebody can be measured, do not show."""
    frame = table()
    frame["expense"] = frame["expense"].where(frame.index % 3 > 0)
    certificate = drawn(tmp_path / "key", frame=frame)
    rows = {"questions", "answers"}
    bodies: list[bytes] = []

    class Wire(httpx2.HTTPTransport):
        def handle_request(self, request: httpx2.Request) -> httpx2.Response:
            response = super().handle_request(request)
            if request.url.path.split("/")[-1] in rows:
                bodies.append(request.read() if request.method == "POST" else response.read())
            return response

    with (
        curator_of(running, tmp_path, transport=Wire()) as curator,
        modeler_of(running, tmp_path, transport=Wire()) as modeler,
    ):
        curator.publish(certificate.release)
        for batch in (1, 4):
            modeler.step(rounds=5, batch=batch)
            curator.answer(frame[["citizen", "expense"]])
        modeler.step(rounds=5)
    seen = set()
    for body in bodies:
        content = json.loads(body)
        count = len(content if isinstance(content, list) else next(iter(content.values())))
        assert len(body) == QUESTION_BYTES * max(count, 1)
        seen.add(count)
    assert {0, 1, 4, 5} <= seen
    question = {"question": 2**31 - 1, "row": 2**31 - 1}
    longest = {"answers": [{**question, "answer": -1.2345678901234567e-300}]}
    assert max(
        len(json.dumps(longest)), len(json.dumps([{**question, "status": "impossible"}]))
    ) < (QUESTION_BYTES)
