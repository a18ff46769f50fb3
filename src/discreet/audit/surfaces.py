"""What people meet beside learners: searches, the estimator, devices and clients, visit counters.

Each is run with one person's data open, and everything that it shows to anybody else is a fact:
answers, attributes, reprs, saved files that are not secret, and all that is sent over HTTP, to the
byte and to the second.

| surface        | private                          | public                                       |
|----------------|----------------------------------|----------------------------------------------|
| search         | one value                        | settings asked for, `best`, its attributes;  |
|                |                                  | under local privacy its file                 |
| estimator      | one row of a log, or one person  | predictions for others, its attributes;      |
|                | whom `act` served                | under local privacy the learner's state      |
| device         | contexts, arms and rewards of a  | requests: when, where to, headers and bodies |
|                | person, and whether rewards come |                                              |
| decisions      | the same, but for the service    | when and where to                            |
| visit counter  | the same, valid or not           | reports, and how many there are              |
"""

from __future__ import annotations

import json
import math
import pickle
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np

from discreet.audit.exact import (
    Claim,
    Exact,
    Facts,
    NotAudited,
    NothingToAttack,
    Promise,
    Subject,
    Value,
    fingerprint,
    public_facts,
    secure,
    without_addresses,
    worst_of,
)
from discreet.audit.games import Check
from discreet.audit.runs import open_file, refused
from discreet.learners.local_kernel.learner import LocalKernel
from discreet.learners.partition.learner import Partition
from discreet.learners.schema import encode
from discreet.learners.visits import VisitCounter
from discreet.people.domain import Box
from discreet.privacy import Guarantee, Joint, Local, SimulatedNoise
from discreet.validation import InvalidInput

EPSILON, DELTA = 2.0, 1e-5
_TRIALS, _PEOPLE, _PLACE = 12, 30, 5
_VISITS = 2
# People and batches of a study whose policy is learnt.
_TAUGHT, _BATCHES = 500, 4
_SEED = 4
_NOW, _HOUR = 1.8e9, 3600.0
_URL, _STUDY, _SOURCE, _KEY = "https://service.example.org", "study", "clinic", "dk_0_key"
# Names of searches and what they are about; whether noise is drawn on sums.
_FORMS = {
    "joint": [
        ("search, joint", "one value", True),
        ("search, joint, few trials", "one value, with noise of its own", False),
    ],
    "local": [("search, local", "one value", False)],
}
_BOX = Box((0.0, 0.0), (1.0, 10.0), levels=(None, 3))
# Of levels alone, of which a joint learner draws no public sample.
_LEVELS = Box((0.0, 0.0), (1.0, 10.0), levels=(5, 3))
_NAN = math.nan


def surface_checks() -> list[Check]:
    """One check for every surface and trust model."""
    made: list[tuple[str, Any, str, Callable[[], Iterable[Subject]]]] = []
    for budget in (Joint(EPSILON, DELTA), Local(EPSILON)):
        model = budget.trust_model
        made += [
            *(
                (name, model, about, partial(_searches, budget, sums=sums))
                for name, about, sums in _FORMS[model]
            ),
            (f"estimator, {model}", model, "a row, or a person served", partial(_fits, budget)),
        ]
    made += [
        ("device, requests", "local", "all that a device sends", _devices),
        ("decisions, requests", "joint", "all that a network sees of a client", _clients),
        ("visit counter", "local", "reports of a person who comes often", _counters),
    ]
    return [
        Check(name, "surface", model, partial(_worst, subjects), about=about)
        for name, model, about, subjects in made
    ]


def _worst(subjects: Callable[[], Iterable[Subject]]) -> Exact:
    try:
        return worst_of(subjects(), 10)
    except NothingToAttack as error:
        if subjects is not _clients:
            raise
        # No noise is drawn here: what others see is the same whatever happens.
        return Exact(Claim(0.0), 0.0, str(error))


@dataclass(frozen=True, kw_only=True)
class Surface(Subject):
    """Code that shows something to others.

    Attributes:
        people: to compare.
        budget: of each of them.
    """

    people: Sequence[Value]
    budget: Any

    def groups(self) -> Iterable[Sequence[Value]]:
        return [self.people]

    def _promise(self, held: Guarantee, releases: Any = None) -> Promise:
        asked = Claim(self.budget.epsilon, self.budget.delta)
        return Promise(asked, Claim(held.epsilon, held.delta), releases)


def _show(facts: Facts, name: str, thing: Any, but: Sequence[str] = ()) -> None:
    for each, shown in public_facts(thing, but):
        facts.add(f"what {each} of the {name} shows", shown)


# Searches.


@dataclass(frozen=True, kw_only=True)
class SearchRun(Surface):
    """A search in which two trials are open at a time; a person's value is that of one trial.

    Attributes:
        direction: of the search.
        sums: whether noise is drawn on sums, whatever the number of trials.
        saved: whether it is saved and loaded with the person's trial open, and again after it.
    """

    direction: str
    sums: bool
    saved: bool = False

    def run(self, person: Value, facts: Facts) -> Promise:
        from discreet import search as module

        # A search of few trials would draw noise on each value.
        with patch.object(module, "_EPOCHS", 0.0 if self.sums else module._EPOCHS):
            search = module.Search(
                {"dose": (0.0, 10.0), "form": ["pill", "drop"]},
                self.budget,
                bounds=(-1.0, 2.0),
                direction=self.direction,
                trials=_TRIALS,
                kernel="RBF([1.0, 1.0])",
                noise=SimulatedNoise(_SEED),
            )
        local = search.learner.budget.protects_reports
        if local == self.sums:
            raise NotAudited("the search draws its noise in another way than this check is about")
        waiting = [search.ask()]
        for number in range(_TRIALS):
            if number + 1 < _TRIALS:
                waiting.append(search.ask())
                facts.add("a setting that is asked for", repr(waiting[-1]))
            if self.saved and number in (_PLACE, _PLACE + 1):
                search = self._reloaded(search, facts)
            value = 0.1 * float(waiting[0].params["dose"]) - 0.5
            value = person.data if number == _PLACE else value
            tell = partial(search.tell, waiting.pop(0), value)
            with _refusals(facts, "a value"):
                tell()
            if number == _PLACE and not refused(tell):
                facts.rule("a trial is told a second value")
            with _refusals(facts, "best"):
                facts.add("the best setting", repr(search.best()))
                facts.add("a prediction", search.predict({"dose": 4.0, "form": "drop"}))
            _show(facts, "search", search, ("learner", "guarantee"))
        if local:
            facts.add("what is kept of people", json.dumps(search.learner.secret_fields()))
            held = fingerprint(search.__getstate__())
            facts.add("a copy of the search", held.replace(search.learner.identity.encode(), b""))
        elif not refused(lambda: pickle.dumps(search)):
            facts.rule("a search that holds values may be copied")
        return self._promise(search.guarantee, None if local else search.learner.releases)

    def _reloaded(self, search: Any, facts: Facts) -> Any:
        with TemporaryDirectory() as folder:
            path = Path(folder) / "search.json"
            search.save(path)
            facts.rule(open_file(search.learner, path))
            if search.learner.budget.protects_reports:
                facts.add("the saved search", path.read_text())
            return type(search).load(path, SimulatedNoise(_SEED + 1 + len(facts.seen)))


def _searches(budget: Joint | Local, sums: bool) -> Iterator[SearchRun]:
    values = [-1.0, 2.0, 0.5, 1.9999]
    if not sums:
        values += [-7.0, 99.0, _NAN, math.inf]
    people = [Value(f"value {value:g}", value) for value in values]
    plain = SearchRun(
        state="a search", people=people, budget=budget, direction="maximize", sums=sums
    )
    yield plain
    yield replace(plain, state="the least", direction="minimize")
    yield replace(plain, state="saved and loaded", saved=True)


@contextmanager
def _refusals(facts: Facts, name: str) -> Iterator[None]:
    try:
        yield
    except InvalidInput as error:
        facts.refusal(name, error)


# The estimator.


@dataclass(frozen=True, kw_only=True)
class Fit(Surface):
    """A bandit that is fitted to a log, chooses for people, and learns from these.

    Attributes:
        served: whether the person is one whom it serves; else one of the log.
    """

    served: bool

    def run(self, person: Value, facts: Facts) -> Promise:
        with _same_luck(_Clock()):
            return self._fitted(person, facts)

    def _fitted(self, person: Value, facts: Facts) -> Promise:
        from discreet.estimator import PrivateBandit

        secure()  # the source that it makes itself
        rng, joint = np.random.default_rng(_SEED), self.budget.protects_releases
        bandit = PrivateBandit(
            ["call", "visit"],
            self.budget.epsilon,
            delta=self.budget.delta or None,
            bounds=_LEVELS,
            rewards=(-1.0, 1.0),
            trust_model=self.budget.trust_model,
            learner="capri" if joint else "local_kernel",
            least_propensity=0.5 if joint else None,
            horizon=2 * _PEOPLE,
            random_state=_SEED,
        )
        unit = np.c_[rng.integers(0, 5, 3 * _PEOPLE) / 4.0, rng.integers(0, 3, 3 * _PEOPLE) / 2.0]
        contexts = _LEVELS.from_unit(unit)
        arms = rng.choice(["call", "visit"], _PEOPLE).tolist()
        rewards = rng.uniform(-1.0, 1.0, 2 * _PEOPLE)
        at = _PLACE + _PEOPLE * self.served
        contexts[at], arm, rewards[at] = person.data
        if not self.served:
            arms[_PLACE] = arm
        first, second, others = np.split(contexts, 3)
        chances = np.full(_PEOPLE, 0.5) if joint else None
        bandit.fit(arms, rewards[:_PEOPLE], first, chances)
        self._look(bandit, others, facts)
        served = []
        for half in np.split(np.arange(_PEOPLE), 2):
            actions, _ = bandit.act(second[half])
            others_too = actions[half != _PLACE] if self.served and _PLACE in half else actions
            facts.add("other people's actions", [others_too.arms, actions.tickets])
            facts.add("the repr of actions", repr(actions))
            served.append(
                partial(bandit.partial_fit, actions, rewards[_PEOPLE:][half], second[half])
            )
            served[-1]()
            self._look(bandit, others, facts)
        if not all(map(refused, served)):
            facts.rule("people whom the bandit served are learnt from twice")
        learner = bandit.learner_
        if not joint:
            facts.add("what is kept of people", json.dumps(learner.secret_fields()))
        return self._promise(bandit.guarantee_, learner.releases if joint else None)

    def _look(self, bandit: Any, others: Any, facts: Facts) -> None:
        for name in ("predict", "predict_expectations", "predict_proba"):
            facts.add(f"what {name} says of others", getattr(bandit, name)(others))
        _show(facts, "estimator", bandit, ("learner_", "get_metadata_routing"))
        _show(
            facts,
            "learner",
            bandit.learner_,
            ("noise", "policy", "secret_fields", "guarantee", "repr"),
        )


def _fits(budget: Joint | Local) -> Iterator[Fit]:
    people = [
        Value(f"({x:g}, {y:g}), {arm}, reward {reward:g}", ([x, y], arm, reward))
        for x, y, arm, reward in (
            (0.0, 0.0, "call", 1.0),
            (1.0, 10.0, "visit", -1.0),
            (0.0, 0.0, "call", -1.0),
            (0.0, 0.0, "visit", 1.0),
            (0.5, 5.0, "visit", 0.123456789),
        )
    ]
    for served in (False, True):
        state = "a person whom it serves" if served else "a person of a log"
        yield Fit(state=state, people=people, budget=budget, served=served)


# Devices and clients.


@dataclass(frozen=True)
class Life:
    """What happens to a person of whom a device knows.

    Attributes:
        context: of every visit.
        arm: that somebody else chose, for a source.
        reward: of every visit; None for one that never comes.
    """

    context: Any
    arm: Any
    reward: float | None


class _Clock:
    """The time of a run; the audit sets it."""

    now = _NOW

    def __call__(self) -> float:
        return self.now


@contextmanager
def _same_luck(clock: _Clock) -> Iterator[None]:
    """What is drawn without a seed is drawn alike in all runs: tickets are of no person."""
    made, turn = np.random.default_rng, iter(range(10**6))

    def seeded(seed: Any = None) -> np.random.Generator:
        return made([_SEED, next(turn)] if seed is None else seed)

    with (
        patch.object(np.random, "default_rng", seeded),
        patch.object(time, "time", clock),
        patch("discreet.service.client.transport.random", random.Random(_SEED)),  # of pauses
    ):
        yield


@dataclass(frozen=True, kw_only=True)
class DeviceRun(Surface):
    """A device whose person comes once more than is covered; the service is not always there.

    Attributes:
        source: of which source the person is; None for the study's own people.
        hold: whether reports are held as long as rewards are waited for.
        learner: of the study.
    """

    learner: Partition | LocalKernel
    source: str | None = None
    hold: bool = False

    def run(self, person: Value, facts: Facts) -> Promise:
        import httpx2

        from discreet.service.client import Device, Unreachable
        from discreet.service.client.transport import AT_ONCE

        secure()  # a device takes no other noise
        learner = self.learner
        if isinstance(learner, LocalKernel):
            policy: Any = learner.source_policy(_SOURCE)
            terms = learner.source_terms(_SOURCE)
        else:
            policy, terms = learner.policy(), learner.terms()
        clock, posts = _Clock(), [0]

        def answer(request: httpx2.Request) -> httpx2.Response:
            headers = {k: v for k, v in request.headers.items() if k != "user-agent"}
            sent = (clock.now, request.method, str(request.url), sorted(headers.items()))
            facts.add("a request", repr(sent))
            facts.add("the body of a request", request.content)
            place = request.url.path.rpartition("/")[2]
            if place == "terms":
                return httpx2.Response(200, json=terms.to_fields())
            if place == "policy":
                tag = {"ETag": f'"{policy.digest}"'}
                return httpx2.Response(200, content=encode(policy), headers=tag)
            if place != "reports":
                return httpx2.Response(200, json={"default_arm": 0, "state": "running"})
            posts[0] += 1
            if posts[0] % 3 == 1:
                return httpx2.Response(503, json={"error": "not now"})
            return httpx2.Response(202, json={"stored": 1, "repeated": 0})

        life: Life = person.data
        with TemporaryDirectory() as folder, _same_luck(clock):
            device = Device(
                _URL,
                _STUDY,
                key=_KEY,
                store=Path(folder) / "device.db",
                agreed=terms.digest,
                reward_seconds=_HOUR,
                missing=0.5,
                hold_seconds=_HOUR if self.hold else 0.0,
                source=self.source,
                patience=AT_ONCE,
                transport=httpx2.MockTransport(answer),
            )
            with device:
                for _ in range(self.budget.visits + 1):
                    self._visited(device, life, clock, facts, Unreachable)
                facts.add("the repr of the device", without_addresses(repr(device)))
                facts.rule("" if posts[0] else "the device sends no report")
                reports = [(row.version, row.epsilon, row.state) for row in device.ledger()]
                facts.add("what the ledger says", repr((reports, device.spending())))
        if isinstance(learner, LocalKernel):
            return self._promise(learner.source_guarantees()[_SOURCE])
        return self._promise(learner.guarantee())

    def _visited(self, device: Any, life: Life, clock: _Clock, facts: Facts, gone: Any) -> None:
        """Act, wait, report if there is a reward, and send at the same times whatever happens."""
        if self.source is None:
            choice = device.act(life.context)
            facts.add("the repr of a choice", repr(replace(choice, id="")))
            identity = choice.id
        else:
            identity = device.observe(life.context, life.arm)
        facts.add("whether a report will be made", identity is None)
        clock.now += 0.25 * _HOUR
        if life.reward is not None:
            device.report(identity, life.reward)
        for _ in range(3):
            clock.now += 0.5 * _HOUR
            with suppress(gone):
                device.send()


def _lives(source: bool) -> list[Value]:
    lives = [
        Life([0.0, 0.0], 0, 1.0),
        Life([1.0, 10.0], 2, 0.0),
        Life([0.0, 0.0], 1, 0.0),
        Life([0.123456789012345, 5.0], 0, 0.987654321098765),
        Life([-7.0, 99.0], 0, 7.0),
        Life([_NAN, 0.0], 0, _NAN),
    ]
    words = "({0[0]:g}, {0[1]:g}), arm {1}, reward {2}" if source else "({0[0]:g}, {0[1]:g}), {2}"
    return [Value(words.format(each.context, each.arm, each.reward), each) for each in lives]


def _devices() -> Iterator[DeviceRun]:
    try:
        import httpx2  # noqa: F401
    except ImportError as error:
        raise NotAudited(_MISSING) from error
    often, once = Local(EPSILON, DELTA, visits=_VISITS), Local(EPSILON)
    held = [*_lives(False), Value("no reward", Life([0.5, 5.0], 0, None))]
    new = DeviceRun(
        state="a device", people=_lives(False), budget=often, learner=_served(often, taught=0)
    )
    yield new
    yield replace(new, state="a device that holds reports", people=held, hold=True)
    # Where an arm is best without doubt, people are sure to get it.
    yield replace(new, state="under a learnt policy", learner=_served(often, taught=_TAUGHT))
    elsewhere = LocalKernel(_BOX, 3, once, horizon=2000, identity="served")
    elsewhere.open_source(_SOURCE, once.epsilon)
    yield DeviceRun(
        state="of a source",
        people=_lives(True),
        budget=once,
        learner=elsewhere,
        source=_SOURCE,
    )


def _served(budget: Local, taught: int) -> Partition:
    """A learner that has heard from so many people, of whom half had the first arm's reward."""
    learner = Partition(_BOX, 3, budget, horizon=2000, identity="served")
    rng, noise = np.random.default_rng(_SEED), SimulatedNoise(_SEED)
    for _ in range(_BATCHES if taught else 0):
        policy: Any = learner.policy()
        contexts = _BOX.from_unit(
            _BOX.nearest_unit(rng.uniform((0.0, 0.0), (1.0, 10.0), (taught, 2)))
        )
        actions, _ = policy.act(contexts, rng)
        rewards = ((actions.arms == 0) == (contexts[:, 0] < 0.5)).astype(float)
        learner.update(policy.report(contexts, actions, rewards, noise))
    return learner


_MISSING = 'httpx2 is not installed; run pip install "discreet[service]".'


@dataclass(frozen=True, kw_only=True)
class ClientRun(Surface):
    """A product that asks a trusted service for decisions, which is not always there."""

    def run(self, person: Value, facts: Facts) -> Promise:
        import httpx2

        from discreet.service.client import DecisionClient, Unreachable
        from discreet.service.client.transport import AT_ONCE

        clock, asked = _Clock(), [0]

        def answer(request: httpx2.Request) -> httpx2.Response:
            headers = sorted((k, v) for k, v in request.headers.items() if k != "user-agent")
            facts.add("a request", repr((clock.now, request.method, str(request.url), headers)))
            facts.add("the length of a request", len(request.content))
            asked[0] += 1
            if request.method == "GET":
                return httpx2.Response(200, json={"request_bytes": 4096, "state": "running"})
            if request.url.path.endswith("/reward"):
                late = asked[0] % 4 == 2
                return httpx2.Response(503 if late else 202, json={} if late else {"new": True})
            fields = {"id": f"d{asked[0]}", "version": 1, "arm": 1, "name": None, "point": None}
            return httpx2.Response(200, json={**fields, "propensity": 0.5})

        life: Life = person.data
        with TemporaryDirectory() as folder, _same_luck(clock):
            client = DecisionClient(
                _URL,
                _STUDY,
                key=_KEY,
                store=Path(folder) / "outbox.db",
                default_arm=0,
                patience=AT_ONCE,
                transport=httpx2.MockTransport(answer),
            )
            with client:
                for _ in range(_VISITS):
                    choice = client.decide(life.context, person="somebody")
                    facts.add("the repr of a choice", repr(choice))
                    facts.rule("" if choice.offered else "the client asks for no decision")
                    client.reward(choice.id, life.reward or 0.0)
                    clock.now += _HOUR
                    with suppress(Unreachable):
                        client.send()
                facts.add("the repr of the client", without_addresses(repr(client)))
                facts.add("what waits", [client.waiting(), repr(client.refused())])
        nothing = Claim(0.0)
        return Promise(nothing, nothing)


def _clients() -> Iterator[ClientRun]:
    try:
        import httpx2  # noqa: F401
    except ImportError as error:
        raise NotAudited(_MISSING) from error
    yield ClientRun(state="a client", people=_lives(False)[:4], budget=Joint(EPSILON, DELTA))


# Visit counters.


@dataclass(frozen=True, kw_only=True)
class CounterRun(Surface):
    """A counter whose person comes twice more than is covered, once after it was kept."""

    def run(self, person: Value, facts: Facts) -> Promise:
        learner = Partition(_BOX, 3, self.budget, horizon=2000, identity="counted")
        policy, life = learner.policy(), person.data
        rng, noise = np.random.default_rng(_SEED), SimulatedNoise(_SEED)
        counter, inside = VisitCounter(learner.terms()), np.array([[0.5, 5.0]])
        for visit in range(self.budget.visits + 2):
            given = [life.context]
            with suppress(InvalidInput):  # a device acts on what the policy takes
                inside = _BOX.from_unit(_BOX.nearest_unit(given))
            actions, _ = policy.act(inside, rng)
            facts.add("the repr of actions", repr(actions))
            with _refusals(facts, "a report"):
                report = counter.report(policy, given, actions, [life.reward], noise)
                facts.add("whether there is a report", report is None)
                if report is not None:
                    facts.add("a report", report)
            _show(facts, "counter", counter, ("terms",))
            if visit == 0:
                counter = VisitCounter(counter.terms, counter.made, counter.gaussian)
        return self._promise(learner.guarantee(), [policy.release(noise.name)])


def _counters() -> Iterator[CounterRun]:
    for delta in (0.0, DELTA):
        budget = Local(EPSILON, delta, visits=3)
        yield CounterRun(state=f"delta {delta:g}", people=_lives(False), budget=budget)
