"""A device against a real service, against one that fails, and stopped at every write."""

from __future__ import annotations

import asyncio
import json
import math
import os
import signal
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pandas as pd
import pytest

from discreet import (
    Box,
    ContributionCounter,
    InvalidInput,
    Local,
    LocalKernel,
    Partition,
    SecureNoise,
    Terms,
    decode,
)
from discreet.codec import encode
from discreet.learners.messages import Reports
from discreet.learners.policy import ArmPolicy
from discreet.service.client import (
    AsyncDevice,
    ChosenAction,
    Device,
    Refused,
    Unreachable,
    read_ledger,
)
from discreet.service.client import device as devices
from tests.service.client.conftest import ARMS, DOMAIN, QUICK, Running

PERSON = {"age": 40.0, "smoker": "no"}
KEY = "dk_0123456789abcdef_secret"


class Server:
    """The routes that a device uses, in this process; every answer can be made to fail.

    Attributes:
        fails: statuses to answer with, one for each request to come; None for a lost connection,
            and "lost answer" for a request that is served but whose answer is lost.
        seen: every request that came.
        stored: how often each body of reports was stored.
    """

    def __init__(self, epsilon: float = 1.0, visits: int = 1, name: str = "study") -> None:
        delta = 0.0 if visits == 1 else 1e-6
        self.learner = LocalKernel(
            DOMAIN,
            ARMS,
            budget=Local(epsilon, delta, max_contributions=visits),
            horizon=2000,
            identity=name,
        )
        self.name, self.state = name, "running"
        self.default_arm: Any = "call"
        self.fails: list[Any] = []
        self.headers: dict[str, str] = {}
        self.seen: list[httpx2.Request] = []
        self.stored: Counter[bytes] = Counter()

    @property
    def transport(self) -> httpx2.MockTransport:
        return httpx2.MockTransport(self.answer)

    @property
    def terms(self) -> Terms:
        return self.learner.terms()

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        self.seen.append(request)
        fails = self.fails.pop(0) if self.fails else 200
        if fails is None:
            raise httpx2.ConnectError("the network is gone")
        if fails == "lost answer":
            self._served(request)
            raise httpx2.ReadTimeout("too late")
        if fails != 200:
            return httpx2.Response(fails, json={"error": "not now"}, headers=self.headers)
        return self._served(request)

    def _served(self, request: httpx2.Request) -> httpx2.Response:
        assert request.headers["authorization"] == f"Bearer {KEY}"
        place = request.url.path.removeprefix(f"/v1/studies/{self.name}")
        if place == "/terms":
            return httpx2.Response(200, json=self.terms.to_fields())
        if place == "":
            facts = json.dumps({"default_arm": self.default_arm, "state": self.state})
            return httpx2.Response(200, content=facts)
        if place == "/policy":
            policy = self.learner.policy()
            tag = f'"{policy.digest}"'
            if request.headers.get("if-none-match") == tag:
                return httpx2.Response(304)
            return httpx2.Response(200, content=encode(policy), headers={"ETag": tag})
        assert place == "/reports"
        body = request.content
        self.stored[body] += 1
        return httpx2.Response(202, json={"stored": 1, "repeated": 0})

    def posts(self) -> list[bytes]:
        return [each.content for each in self.seen if each.method == "POST"]


def device_of(server: Server, folder: Path, **options: Any) -> Device:
    options = {"agreed": server.terms.digest, "patience": QUICK, **options}
    return Device(
        "https://service.example.org",
        server.name,
        key=KEY,
        store=folder / "device.db",
        transport=server.transport,
        **options,
    )


class TestAgainstTheRealService:
    def test_terms_an_action_and_one_report(self, running: Running, tmp_path: Path) -> None:
        running.open_local()
        key = running.key("device", "study")
        with Device(running.url, "study", key=key, store=tmp_path / "device.db") as device:
            with pytest.raises(InvalidInput, match="has agreed to no terms"):
                device.act(PERSON)
            terms = device.terms()
            assert terms == device.agree(terms.digest)
            choice = device.act(PERSON)
            assert choice.offered
            assert choice.name in ARMS
            assert choice.name == ARMS[choice.arm or 0]
            assert 0.0 < choice.propensity <= 1.0
            assert device.report(choice.id, 1.0)
            (row,) = device.ledger()
            assert (row.state, row.study, row.service) == ("accepted", "study", running.url)
            assert (row.epsilon, row.delta) == (pytest.approx(1.0), 0.0)
            assert running.service.aggregator.waiting("study") == 1
            # The same again is the same report, and the service has it once.
            assert device.report(choice.id, 0.0)
            assert device.send() == []
            assert len(device.ledger()) == 1
        assert running.service.aggregator.waiting("study") == 1

    def test_a_new_policy_is_fetched_and_an_old_one_not_again(
        self, running: Running, tmp_path: Path
    ) -> None:
        running.open_local()
        key = running.key("device")
        with Device(running.url, "study", key=key, store=tmp_path / "device.db") as device:
            device.agree(device.terms().digest)
            assert device.refresh()
            assert not device.refresh()
            assert device.act(PERSON).version == 0
            running.people_report("study", 100)
            assert device.refresh()
            assert device.act(PERSON).version == 1

    def test_awaited(self, running: Running, tmp_path: Path) -> None:
        running.open_local()

        async def takes_part() -> bool:
            async with AsyncDevice(
                running.url,
                "study",
                key=running.key("device"),
                store=tmp_path / "device.db",
            ) as device:
                await device.agree((await device.terms()).digest)
                choice = await device.act(PERSON)
                return await device.report(choice.id, 1.0)

        assert asyncio.run(takes_part())
        assert running.service.aggregator.waiting("study") == 1

    def test_a_paused_study_gets_it_later_and_a_finished_one_never(
        self, running: Running, tmp_path: Path
    ) -> None:
        running.open_local()
        running.open_local("other")
        running.service.store.set_state("study", "paused")
        key = running.key("device")
        options: dict[str, Any] = {"store": tmp_path / "device.db", "patience": QUICK, "key": key}
        with (
            Device(running.url, "study", **options) as device,
            Device(running.url, "other", **options) as other,
        ):
            device.agree(device.terms().digest)
            device.allow(2.0)
            other.agree(other.terms().digest)
            assert device.report(device.act(PERSON).id, 1.0)
            with pytest.raises(Unreachable, match="paused"):
                device.send()
            assert device.ledger()[0].state == "waiting"
            running.service.store.set_state("study", "running")
            assert len(device.send()) == 1
            running.service.store.set_state("other", "finished")
            assert other.report(other.act(PERSON).id, 1.0)
            refused = other.ledger()[1]
            assert (refused.state, refused.study) == ("refused", "other")
            assert "finished" in (refused.reason or "")
            assert other.send() == []

    def test_a_key_of_another_study_opens_nothing(self, running: Running, tmp_path: Path) -> None:
        running.open_local()
        key = running.key("device", "another")
        with (
            Device(running.url, "study", key=key, store=tmp_path / "device.db") as device,
            pytest.raises(Refused) as refused,
        ):
            device.terms()
        assert refused.value.status == 403


class TestTerms:
    def test_other_terms_than_the_person_said_are_not_agreed_to(self, tmp_path: Path) -> None:
        server = Server()
        device = device_of(server, tmp_path, agreed="0" * 64)
        with pytest.raises(InvalidInput, match="nothing was agreed to"):
            device.act(PERSON)
        assert device.spending().most_epsilon is None

    def test_a_policy_on_other_terms_is_refused_and_the_old_one_kept(self, tmp_path: Path) -> None:
        server = Server()
        device = device_of(server, tmp_path)
        assert device.refresh()
        server.learner = LocalKernel(
            DOMAIN, ARMS, budget=Local(2.0), horizon=2000, identity="another"
        )
        with pytest.raises(InvalidInput, match="promises epsilon = 2"):
            device.refresh()
        choice = device.act(PERSON)
        assert choice.version == 0
        assert device.report(choice.id, 1.0)
        (body,) = server.posts()
        assert decode(json.loads(body)["reports"][0], Reports).source == "study"

    def test_the_first_policy_on_other_terms_is_refused_before_the_context_is_looked_at(
        self, tmp_path: Path
    ) -> None:
        server = Server()
        device = device_of(server, tmp_path)
        device.agree(server.terms.digest)
        server.learner = LocalKernel(
            Box.of({"age": (0, 1), "smoker": ["no", "yes"]}), ARMS, budget=Local(1.0), horizon=2000
        )
        with pytest.raises(InvalidInput, match="agreed to"):
            device.act(Unreadable())

    def test_new_terms_need_the_persons_word(self, tmp_path: Path) -> None:
        server = Server()
        device_of(server, tmp_path).refresh()
        other = Server(epsilon=0.5)
        device = device_of(other, tmp_path)
        with pytest.raises(InvalidInput, match="agreed was"):
            device.act(PERSON)
        device.agree(other.terms.digest)
        assert device.report(device.act(PERSON).id, 1.0)
        assert device.spending().epsilon == pytest.approx(0.5)

    def test_a_policy_that_was_changed_on_the_way_is_refused(self, tmp_path: Path) -> None:
        server = Server()
        policy = server.learner.policy()

        def changed(request: httpx2.Request) -> httpx2.Response:
            if request.url.path.endswith("/policy"):
                return httpx2.Response(200, content=encode(policy), headers={"ETag": '"00"'})
            return server.answer(request)

        device = device_of(server, tmp_path)
        device.agree(server.terms.digest)
        device._http = httpx2.Client(
            base_url=device.url, transport=httpx2.MockTransport(changed), headers=device_headers()
        )
        with pytest.raises(InvalidInput, match="changed on the way"):
            device.act(PERSON)


class TestBudget:
    def test_a_second_report_is_not_made_and_the_person_still_gets_an_action(
        self, tmp_path: Path
    ) -> None:
        server = Server()
        device = device_of(server, tmp_path)
        first, second = device.act(PERSON), device.act(PERSON)
        assert first.id is not None
        assert (second.id, second.offered) == (None, True)
        assert device.report(first.id, 1.0)
        assert not device.report(second.id, 1.0)
        third = device.act(PERSON)
        assert third.id is None
        assert len(server.posts()) == len(device.ledger()) == 1

    def test_reports_stop_at_the_agreed_visits(self, tmp_path: Path) -> None:
        server = Server(visits=3)
        device = device_of(server, tmp_path)
        made = [device.report(device.act(PERSON).id, 1.0) for _ in range(5)]
        assert made == [True, True, True, False, False]
        spent = device.spending()
        assert spent.epsilon <= server.terms.most_epsilon * (1.0 + 1e-9)
        assert spent.epsilon > 0.5 * server.terms.most_epsilon
        assert spent.delta == server.terms.delta

    def test_all_studies_share_what_the_person_allows(self, tmp_path: Path) -> None:
        first, second = Server(name="first"), Server(name="second", epsilon=0.5)
        one, two = device_of(first, tmp_path), device_of(second, tmp_path)
        assert one.report(one.act(PERSON).id, 1.0)
        assert two.act(PERSON).id is None
        spent = two.spending()
        assert (spent.epsilon, spent.most_epsilon) == (pytest.approx(1.0), 1.0)
        two.allow(1.4)
        assert two.act(PERSON).id is None
        two.allow(1.5)
        assert two.report(two.act(PERSON).id, 1.0)
        assert [row.study for row in read_ledger(tmp_path / "device.db")] == ["first", "second"]
        assert two.spending().epsilon == pytest.approx(1.5)

    def test_an_action_that_waits_is_counted(self, tmp_path: Path) -> None:
        """So that whether somebody reports is decided before anything happens to them."""
        first, second = Server(name="first"), Server(name="second")
        one, two = device_of(first, tmp_path), device_of(second, tmp_path)
        assert one.act(PERSON).id is not None
        assert two.act(PERSON).id is None

    @pytest.mark.parametrize("visits", [1, 3])
    def test_a_larger_allowance_does_not_exceed_the_terms(
        self, visits: int, tmp_path: Path
    ) -> None:
        server = Server(visits=visits)
        device = device_of(server, tmp_path)
        device.agree(server.terms.digest)
        device.allow(100.0, 0.5)
        choices = [device.act(PERSON) for _ in range(visits + 2)]
        assert [choice.id is not None for choice in choices] == [True] * visits + [False] * 2
        assert device.report(choices[0].id, 1.0)
        assert device.act(PERSON).id is None
        for choice in choices[1:visits]:
            assert device.report(choice.id, 1.0)
        assert device.act(PERSON).id is None
        assert len(device.ledger()) == visits

    def test_refused_calls_spend_nothing(self, tmp_path: Path) -> None:
        device = device_of(Server(), tmp_path)
        for wrong in ({"size": 40.0}, [1.0], "nonsense"):
            with pytest.raises(InvalidInput):
                device.act(wrong)
        choice = device.act(PERSON)
        assert choice.id is not None
        for given in ("much", None, [1.0]):
            with pytest.raises(InvalidInput, match="reward was"):
                device.report(choice.id, given)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="no choice"):
            device.report("0" * 32, 1.0)
        assert device.report(choice.id, 1.0)

    @pytest.mark.parametrize(
        ("context", "nearest"),
        [
            ({"age": 400.0, "smoker": "no"}, [90.0, 0.0]),
            ({"age": 40.0}, [40.0, 0.0]),
            ({"age": math.nan, "smoker": "perhaps"}, [54.0, 0.0]),
            ([-1e300, 7.0], [18.0, 1.0]),
            ({"age": pd.NA, "smoker": pd.NaT}, [54.0, 0.0]),
            ({"age": Decimal(40), "smoker": "yes"}, [40.0, 1.0]),
            ([np.longdouble(40), 10**5000], [40.0, 1.0]),
        ],
        ids=range(7),
    )
    def test_a_context_outside_the_domain_is_the_nearest_within(
        self, context: Any, nearest: list[float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A refusal would be silence, which tells something about the context."""
        read, real = [], ArmPolicy._nearest
        monkeypatch.setattr(
            ArmPolicy, "_nearest", lambda *given: read.append(real(*given)) or read[-1]
        )
        server = Server()
        device = device_of(server, tmp_path)
        choice = device.act(context)
        assert device.report(choice.id, 1.0)
        assert len(server.posts()) == 1
        for unit in read:
            assert np.array_equal(server.learner.domain.from_unit(unit), [nearest])


class TestOffline:
    def test_the_default_arm_where_there_is_no_policy(self, tmp_path: Path) -> None:
        server = Server()
        server.fails = [None] * 20
        device = device_of(server, tmp_path, default_arm="leaflet")
        choice = device.act(PERSON)
        assert choice == ChosenAction(None, None, None, "leaflet", None, 1.0, False)
        assert not device.report(choice.id, 1.0)
        assert device.ledger() == []
        assert device.spending().epsilon == 0.0
        assert not server.posts()

    def test_the_default_arm_of_the_study_by_number_and_name(self, tmp_path: Path) -> None:
        server = Server()
        device = device_of(server, tmp_path)
        device.agree(server.terms.digest)
        server.fails = [503] * 5
        choice = device.act(PERSON)
        assert (choice.arm, choice.name, choice.offered) == (1, "call", False)
        assert device_of(server, tmp_path, default_arm=2).default_arm == 2

    @pytest.mark.parametrize(
        "arm", [2**70, -1, 3, 10**400, True, 1.0, "\ud800", "no arm", "x" * 10**5, ["call"], {}]
    )
    def test_a_default_arm_that_the_terms_do_not_have_is_none(
        self, arm: Any, tmp_path: Path
    ) -> None:
        server = Server()
        server.default_arm = arm
        device = device_of(server, tmp_path)
        assert device.agree(server.terms.digest) == server.terms
        server.fails = [503] * 5
        with pytest.raises(Unreachable, match="no default arm"):
            device.act(PERSON)

    @pytest.mark.parametrize("arm", ["leaflets", 3, -1])
    def test_an_app_names_an_arm_that_the_terms_do_not_have(self, arm: Any, tmp_path: Path) -> None:
        server = Server()
        device = device_of(server, tmp_path, default_arm=arm)
        with pytest.raises(InvalidInput, match=r"default_arm was .*; the arms of the study are"):
            device.agree(server.terms.digest)
        assert device.spending().most_epsilon is None
        other = device_of(server, tmp_path, default_arm=np.int64(1))
        assert other.agree(server.terms.digest) == server.terms
        assert device.act(PERSON).offered  # under terms that were agreed to, its policy is used

    def test_nothing_where_no_default_is_known(self, tmp_path: Path) -> None:
        server = Server()
        server.fails = [None] * 5
        with pytest.raises(Unreachable, match="no default arm"):
            device_of(server, tmp_path).act(PERSON)

    def test_an_answer_without_a_policy_where_none_is_here(self, tmp_path: Path) -> None:
        server = Server()
        device = device_of(server, tmp_path)
        device.agree(server.terms.digest)
        server.fails = [304]
        with pytest.raises(InvalidInput, match="sent no policy"):
            device.act(PERSON)

    def test_it_acts_and_reports_without_the_service(self, tmp_path: Path) -> None:
        server = Server()
        device_of(server, tmp_path).refresh()
        server.fails = [None] * 50
        device = device_of(server, tmp_path)
        came = len(server.seen)
        choice = device.act(PERSON)
        assert len(server.seen) == came
        assert device.report(choice.id, 1.0)
        assert device.ledger()[0].state == "waiting"
        with pytest.raises(Unreachable):
            device.send()
        server.fails = []
        assert len(device_of(server, tmp_path).send()) == 1
        assert len(set(server.posts())) == 1


class TestSending:
    @pytest.mark.parametrize("fails", [[503], [None, 500, 502], ["lost answer"], [429], [408]])
    def test_the_same_bytes_until_they_are_accepted(self, fails: list[Any], tmp_path: Path) -> None:
        server = Server()
        device = device_of(server, tmp_path)
        choice = device.act(PERSON)
        server.fails = [None]
        device.report(choice.id, 1.0)
        server.fails = list(fails)
        assert len(device.send()) == 1
        assert len(set(server.posts())) == 1
        assert len(server.posts()) == len(fails) + 2

    @pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 413, 422])
    def test_what_was_refused_is_never_sent_again(self, status: int, tmp_path: Path) -> None:
        server = Server()
        device = device_of(server, tmp_path)
        choice = device.act(PERSON)
        server.fails = [status]
        assert device.report(choice.id, 1.0)
        assert device.send() == []
        assert len(server.posts()) == 1
        (row,) = device.ledger()
        assert row.state == "refused"
        assert f"({status})" in (row.reason or "")
        # It counts, because it left; and only when asked for by name it is sent once more.
        assert device.act(PERSON).id is None
        assert device.send(again=True) == device.ledger()
        assert len(set(server.posts())) == 1

    @pytest.mark.parametrize(
        "answer",
        [
            httpx2.Response(200, text="<html>Sign in to the hotel's network</html>"),
            httpx2.Response(202, text="welcome"),
            httpx2.Response(202, json={"stored": 0, "repeated": 0}),
            httpx2.Response(202, json=[]),
            httpx2.Response(202, content=b'{"stored": 1e400, "repeated": 0}'),
        ],
    )
    def test_an_answer_that_is_no_receipt_accepts_nothing(
        self, answer: httpx2.Response, tmp_path: Path
    ) -> None:
        server = Server()
        device = device_of(server, tmp_path)
        choice = device.act(PERSON)
        device._http = httpx2.Client(
            base_url=device.url, transport=httpx2.MockTransport(lambda _: answer)
        )
        assert device.report(choice.id, 1.0)
        with pytest.raises(Unreachable, match="in place of the service"):
            device.send()
        assert device.ledger()[0].state == "waiting"

    def test_a_refusal_whose_reason_is_no_text_is_kept(self, tmp_path: Path) -> None:
        device = device_of(Server(), tmp_path)
        choice = device.act(PERSON)
        answer = httpx2.Response(403, content=b'{"error": "half \\ud800"}')
        device._http = httpx2.Client(
            base_url=device.url, transport=httpx2.MockTransport(lambda _: answer)
        )
        assert device.report(choice.id, 1.0)
        (row,) = device.ledger()
        assert (row.state, str(row.reason)[-6:]) == ("refused", "half ?")

    def test_held_reports_wait_for_their_due_time(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        now = 1e9
        monkeypatch.setattr("time.time", lambda: now)
        server = Server()
        device = device_of(server, tmp_path, hold_seconds=3600.0)
        assert device.report(device.act(PERSON).id, 1.0)
        assert device.send() == []
        assert not server.posts()
        now += 3600.0
        assert len(device.send()) == 1

    @pytest.mark.parametrize(("reward", "counts"), [(10**400, math.inf), (-(10**400), -math.inf)])
    def test_a_reward_beyond_floats_counts_as_the_nearest(
        self, reward: int, counts: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        drawn: list[float] = []
        real = devices._drawn
        monkeypatch.setattr(
            devices, "_drawn", lambda *each: (drawn.append(each[-1]), real(*each))[1]
        )
        device = device_of(Server(), tmp_path)
        assert device.report(device.act(PERSON).id, reward)
        assert drawn == [counts]

    @pytest.mark.parametrize("late", [0.0, 5.0])
    def test_a_late_reward_counts_as_missing_and_waits_for_send(
        self, late: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        now, drawn = 1e9, []
        monkeypatch.setattr("time.time", lambda: now)
        real = devices._drawn

        def watched(*given: Any) -> Any:
            drawn.append(given[-1])
            return real(*given)

        monkeypatch.setattr(devices, "_drawn", watched)
        server = Server()
        device = device_of(server, tmp_path, reward_seconds=100.0, hold_seconds=100.0, missing=0.25)
        choice = device.act(PERSON)
        now += 100.0 + late
        assert device.report(choice.id, 1.0)
        assert (server.posts(), drawn) == ([], [])
        assert (len(device.send()), drawn) == (1, [0.25])

    @pytest.mark.parametrize("hold", [100.0, 100.3])
    def test_work_before_a_held_report_leaves_does_not_tell_whether_its_reward_came(
        self, hold: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Draws and transactions take time, which is seen between two requests. A hold that is no
        whole number is a little less once it was added to a time."""
        now, work = 1e9, list[str]()
        monkeypatch.setattr("time.time", lambda: now)

        def watch(owner: Any, name: str) -> None:
            real = getattr(owner, name)

            def watched(*given: Any, **more: Any) -> Any:
                work.append(name)
                return real(*given, **more)

            monkeypatch.setattr(owner, name, watched)

        watch(devices, "_drawn")
        watch(devices.PersonFile, "changing")
        watch(devices.PersonFile, "reading")
        watch(devices.Client, "_ask")
        works = list[list[str]]()
        for rewards in ([], [1.0], [0.0, 1.0]):
            now = 1e9
            folder = tmp_path / str(len(works))
            folder.mkdir()
            device = device_of(Server(), folder, reward_seconds=hold, hold_seconds=hold)
            choice = device.act(PERSON)
            now += 1.0
            for reward in rewards:
                assert device.report(choice.id, reward)
            work.clear()
            for past in range(2):
                now = 1e9 + hold + past
                device.send()
            works.append(work.copy())
        assert works[1:] == works[:1] * 2
        assert works[0].count("_drawn") == works[0].count("_ask") == 1

    @pytest.mark.parametrize("hold", [0.0, 100.0])
    @pytest.mark.parametrize("told", [True, False])
    def test_a_report_that_another_process_draws_is_not_lost(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hold: float, told: bool
    ) -> None:
        """Otherwise a missing report would tell whether the reward came."""
        now = 1e9
        monkeypatch.setattr("time.time", lambda: now)
        monkeypatch.setattr("discreet.service.client.person._WAIT", 0.0)
        server = Server()
        options = {"reward_seconds": 100.0, "hold_seconds": hold}
        device, other = (device_of(server, tmp_path, **options) for _ in range(2))
        real = devices._drawn

        def slow(*given: Any) -> Any:
            assert other.send() == []
            return real(*given)

        monkeypatch.setattr(devices, "_drawn", slow)
        choice = device.act(PERSON)
        if told:
            assert device.report(choice.id, 1.0)
        now += 100.0
        device.send()
        assert [row.state for row in device.ledger()] == ["accepted"]

    def test_held_reports_leave_in_the_order_of_actions(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Not of rewards."""
        now = 1e9
        monkeypatch.setattr("time.time", lambda: now)
        server = Server(visits=2)
        device = device_of(server, tmp_path, reward_seconds=100.0, hold_seconds=100.0)
        choices = []
        for _ in range(2):
            choices.append(device.act(PERSON))
            now += 1.0
        for choice in reversed(choices):
            device.report(choice.id, 1.0)
        now += 100.0
        assert len(device.send()) == 2
        rows = sorted(device.ledger(), key=lambda row: row.made)
        assert server.posts() == [row.body for row in rows]

    def test_a_reward_under_hold_makes_no_request(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Not even for a report that is due and did not reach the service."""
        now = 1e9
        monkeypatch.setattr("time.time", lambda: now)
        server = Server(visits=2)
        device = device_of(server, tmp_path, reward_seconds=100.0, hold_seconds=100.0)
        first = device.act(PERSON)
        now += 50.0
        second = device.act(PERSON)
        device.report(first.id, 1.0)
        now += 50.0
        server.fails = [None] * 20
        with pytest.raises(Unreachable):
            device.send()
        server.fails, before = [], len(server.seen)
        assert [row.state for row in device.ledger()] == ["waiting"]
        assert device.report(second.id, 0.0)
        assert len(server.seen) == before
        assert len(device.send()) == 1

    @pytest.mark.parametrize("told", [True, False])
    @pytest.mark.parametrize("place", [99.5, -50.0, -99.5])
    def test_a_held_report_leaves_no_earlier_because_its_reward_is_known(
        self, place: float, told: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Neither while `send` runs nor by a clock that was set back."""
        made = now = 1e9
        monkeypatch.setattr("time.time", lambda: now)
        real = devices.Pending.draw_due

        def slow(*given: Any) -> None:
            nonlocal now
            real(*given)
            now += 1.0

        monkeypatch.setattr(devices.Pending, "draw_due", slow)
        server = Server()
        device = device_of(server, tmp_path, reward_seconds=100.0, hold_seconds=100.0)
        choice = device.act(PERSON)
        if told:
            device.report(choice.id, 1.0)
        now = made + place
        assert device.send() == []
        assert server.posts() == []
        now = made + 100.0
        assert len(device.send()) == 1

    @pytest.mark.parametrize("told", [True, False])
    @pytest.mark.parametrize("window", [1.0, 1e6])
    def test_a_shuffled_report_leaves_when_it_was_due_under_any_app(
        self, window: float, told: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Under a later version with other `reward_seconds`, whether its reward is known or not."""
        from discreet import Shuffled
        from discreet.service.hpke import public_key
        from discreet.service.server.encryption import Cipher

        made = now = 1e9
        monkeypatch.setattr("time.time", lambda: now)
        server = Server()
        budget = Shuffled(1.0, 1e-6, 50)
        server.learner = Partition(DOMAIN, ARMS, budget, horizon=100, identity="study")  # type: ignore[assignment]
        key = public_key(Cipher(b"k" * 32).receiving_key("s"))
        terms = replace(server.learner.terms(), learner_key=key)
        monkeypatch.setattr(server.learner, "terms", lambda: terms)
        choice = device_of(server, tmp_path, reward_seconds=100.0).act(PERSON)
        later = device_of(server, tmp_path, reward_seconds=window)
        for place in (0.5, 50.0, 99.5, -99.5):
            now = made + place
            if told and place == 50.0:
                assert later.report(choice.id, 1.0)
            assert later.send() == []
            assert server.posts() == []
        now = made + 100.0
        (row,) = later.send()
        assert (row.made, row.sent, len(server.posts())) == (made, now, 1)

    def test_a_report_of_no_reward_where_none_came(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        now = 1e9
        monkeypatch.setattr("time.time", lambda: now)
        server = Server()
        device = device_of(server, tmp_path, reward_seconds=100.0)
        choice = device.act(PERSON)
        assert device.send() == []
        now += 100.0
        assert len(device.send()) == 1
        assert device.report(choice.id, 1.0)
        assert len(device.ledger()) == len(server.posts()) == 1

    @pytest.mark.parametrize("step", [-1e9, -50.0, 50.0])
    def test_a_changed_clock_loses_no_report(
        self, step: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        now = 1e9
        monkeypatch.setattr("time.time", lambda: now)
        server = Server()
        device = device_of(server, tmp_path, reward_seconds=100.0, hold_seconds=10.0)
        choice = device.act(PERSON)
        now += step
        assert len(device.send()) == (1 if abs(step) > 100.0 else 0)
        assert device.report(choice.id, 1.0)
        assert device.act(PERSON).id is None
        now += 1000.0
        device.send()
        assert len(device.ledger()) == 1
        assert len(set(server.posts())) == 1

    def test_reports_without_public_coins_have_an_id_that_stays(self, tmp_path: Path) -> None:
        """By which the service knows them again."""
        server = Server()
        server.learner = Partition(DOMAIN, ARMS, budget=Local(1.0), identity="study")  # type: ignore[assignment]
        device = device_of(server, tmp_path)
        choice = device.act(PERSON)
        server.fails = ["lost answer"]
        device.report(choice.id, 1.0)
        device.send()
        assert len(set(server.posts())) == 1
        body = json.loads(server.posts()[0])
        report = decode(body["reports"][0], Reports)
        public_coins = getattr(report, "public_coins", ())
        assert len(public_coins) == 1 or len(body["ids"]) == 1


class Killed(BaseException):
    """The process is stopped here; nothing of it runs on but what unwinds."""


@contextmanager
def killed_at(monkeypatch: pytest.MonkeyPatch, place: int) -> Iterator[Callable[[], int]]:
    """Every statement that SQLite is given is a place to die, before it and after it; -1 is none.
    No machine loses power here, so that files need not be synchronised."""
    count = 0

    def passes() -> None:
        nonlocal count
        count += 1
        if count - 1 == place:
            raise Killed

    class Connection(sqlite3.Connection):
        def execute(self, *given: Any) -> sqlite3.Cursor:  # type: ignore[override]
            passes()
            if "synchronous" in given[0]:
                given = ("PRAGMA synchronous = OFF",)
            cursor = super().execute(*given)
            passes()
            return cursor

    connect = sqlite3.connect

    def instead(*given: Any, **named: Any) -> sqlite3.Connection:
        return connect(*given, factory=Connection, **named)

    with monkeypatch.context() as patch:
        patch.setattr("discreet.atomic_files.sqlite3.connect", instead)
        yield lambda: count


@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.slow), 5])
def test_stopped_at_every_statement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int
) -> None:
    """One report at most, drawn once at most, in the ledger before it is sent; and it is lost only
    to whoever is stopped between the mark and the report."""
    draws = 0
    keys = SecureNoise.keys

    def counted(self: SecureNoise, shape: Any) -> Any:
        nonlocal draws
        draws += 1
        return keys(self, shape)

    monkeypatch.setattr(SecureNoise, "keys", counted)
    server = Server()
    device_of(server, tmp_path).refresh()
    file = tmp_path / "device.db"
    fresh = file.read_bytes()
    draws = 0
    device = device_of(server, tmp_path)
    device.report(device.act(PERSON).id, 1.0)
    usual = draws
    assert usual > 0

    outcomes: Counter[str] = Counter()
    place = 0
    while True:
        file.write_bytes(fresh)
        for left in tmp_path.glob("device.db-*"):
            left.unlink()
        server = Server()
        draws, identity = 0, None
        with killed_at(monkeypatch, place) as statements:
            device = device_of(server, tmp_path)
            try:
                identity = device.act(PERSON).id
                device.report(identity, 1.0)
                device.send()
                done = True
            except Killed:
                done = False
            except InvalidInput:
                raise AssertionError(f"statement {place}") from None
        with killed_at(monkeypatch, -1):
            again = device_of(server, tmp_path)
            if identity is not None:
                again.report(identity, 0.0)
            else:
                again.act(PERSON)
            again.send()
            rows = again.ledger()
        assert draws in (0, usual), place
        assert len(rows) <= 1
        assert len(set(server.posts())) <= 1
        for body in server.posts():
            assert body == rows[0].body
        if identity is not None:
            assert again.act(PERSON).id is None
            outcomes[rows[0].state] += 1
            assert (rows[0].state == "accepted") == bool(server.posts())
        else:
            outcomes["none shown"] += 1
            assert not rows
        if done:
            break
        place += every
    assert statements() > 60
    assert outcomes["accepted"] > outcomes["lost"] > 0
    assert set(outcomes) == {"accepted", "lost", "none shown"}


def test_a_report_that_was_begun_elsewhere_is_not_drawn_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("discreet.service.client.person._WAIT", 0.0)
    server = Server()
    device = device_of(server, tmp_path)
    choice = device.act(PERSON)
    with device._file.changing() as state:
        state.execute("UPDATE pending SET drawing = 'another'")
    with device._file.drawing() as alone:
        assert alone
        assert device.report(choice.id, 1.0), "another is at work"
        assert not device.ledger()
    assert not device.report(choice.id, 1.0)
    assert not device.report(choice.id, 1.0)
    (row,) = device.ledger()
    assert (row.state, row.body) == ("lost", None)
    assert device.spending().epsilon == pytest.approx(1.0)
    assert not server.posts()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork")
def test_a_killed_process_says_at_once_that_its_report_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = device_of(Server(), tmp_path)
    choice = device.act(PERSON)
    child = os.fork()
    if child == 0:
        monkeypatch.setattr(devices, "_drawn", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        try:
            device.report(choice.id, 1.0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert not device.report(choice.id, 1.0)
    assert [row.state for row in device.ledger()] == ["lost"]


def test_a_report_that_another_process_gave_up_meanwhile_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where locks do not hold, as on some network disks. It was drawn but not sent; the
    ledger says that it was lost, and so it stays."""
    server = Server()
    device = device_of(server, tmp_path)
    choice = device.act(PERSON)

    class Slow(ContributionCounter):
        def report(self, *given: Any) -> Reports | None:
            monkeypatch.setattr(devices.PersonFile, "drawing", lambda _: nullcontext(True))
            assert not device_of(server, tmp_path).report(choice.id, 1.0)
            return super().report(*given)

    monkeypatch.setattr("discreet.service.client.device.ContributionCounter", Slow)
    assert not device.report(choice.id, 1.0)
    assert [row.state for row in device.ledger()] == ["lost"]
    assert not server.posts()


def test_an_action_keeps_the_policy_that_another_process_removes_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server()
    device, other = device_of(server, tmp_path), device_of(server, tmp_path)
    device.refresh()
    before = devices.Pending.act

    def slow(*given: Any) -> ChosenAction:
        policy, contexts = server.learner.policy(), [[40.0, 0.0]] * 400
        actions, _ = policy.act(contexts, np.random.default_rng(0))
        rewards = np.ones(len(contexts))
        reports = policy.report(contexts, actions, rewards, SecureNoise(), server.terms)
        server.learner.update(reports)
        assert other.refresh()
        return before(*given)

    monkeypatch.setattr(devices.Pending, "act", slow)
    choice = device.act(PERSON)
    assert choice.version == 0
    assert device.report(choice.id, 1.0)
    assert device.ledger()[0].version == 0


def test_many_threads_make_one_report(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    server = Server()
    choice = device_of(server, tmp_path).act(PERSON)
    with ThreadPoolExecutor(4) as pool:
        made = list(
            pool.map(lambda _: device_of(server, tmp_path).report(choice.id, 1.0), range(8))
        )
    assert all(made)
    assert len(device_of(server, tmp_path).ledger()) == 1
    assert len(set(server.posts())) == 1


def test_the_file_is_the_persons_own_and_forgets_what_was_reported(tmp_path: Path) -> None:
    server = Server()
    device = device_of(server, tmp_path)
    choice = device.act({"age": 43.21098765, "smoker": "yes"})
    file = tmp_path / "device.db"
    assert file.stat().st_mode & 0o077 == 0
    assert b"43.21098765" in file.read_bytes()
    device.report(choice.id, 1.0)
    assert b"43.21098765" not in file.read_bytes()
    assert "call" not in repr(ChosenAction.default("call"))
    assert KEY not in repr(device)


def test_the_report_is_what_the_policy_makes_of_it(tmp_path: Path) -> None:
    """Nothing else is in what leaves, and the learner takes it."""
    server = Server()
    device = device_of(server, tmp_path)
    device.report(device.act(PERSON).id, math.inf)
    body = json.loads(server.posts()[0])
    assert set(body) <= {"reports", "ids"}
    report = decode(body["reports"][0], Reports)
    assert len(report) == 1
    assert report.noise == SecureNoise.name
    server.learner.update(report)
    assert server.learner.people == 1


def test_a_context_of_numpy_values(tmp_path: Path) -> None:
    device = device_of(Server(), tmp_path)
    choice = device.act({"age": np.float64(40.0), "smoker": np.str_("no")})
    assert device.report(choice.id, np.float64(1.0))


def test_a_file_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"missing.*name a file in a folder that is there"):
        device_of(Server(), tmp_path / "missing").act({"age": 40, "smoker": "no"})


def test_a_policy_that_is_not_here_any_more_is_fetched_again(tmp_path: Path) -> None:
    """As after two processes agreed to two kinds of terms at once."""
    server = Server()
    device = device_of(server, tmp_path)
    device.refresh()
    with device._file.changing() as state:
        state.execute("DELETE FROM policies")
    assert device.act({"age": 40, "smoker": "no"}).offered


class Unreadable:
    """A context that must not be looked at."""

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(f"{name} of a context was looked at")


def device_headers() -> dict[str, str]:
    return {"Authorization": f"Bearer {KEY}"}
