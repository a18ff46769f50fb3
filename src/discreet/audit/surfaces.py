"""What people meet beside learners: searches, the estimator, devices and clients, contribution
counters.

Each is run with one person's data, and everything that others can see is public: answers,
attributes, reprs, saved files that are not secret, and all that is sent over HTTP, to the byte and
to the second.

| surface        | private                          | public                                       |
|----------------|----------------------------------|----------------------------------------------|
| search         | one value                        | settings to try, `best`, its attributes;     |
|                |                                  | under local privacy its file                 |
| estimator      | one row of a log, or one person  | predictions for others, its attributes;      |
|                | whom `act` served                | under local privacy the learner's state      |
| device         | contexts, arms and rewards of a  | requests: when, where to, headers and bodies |
|                | person, and whether rewards come |                                              |
| decisions      | the same, but for the service    | when and where to                            |
| contributions  | the same, valid or not           | reports, and how many there are              |

Under local privacy the person's side alone limits the cost. So the loss of *all* draws of a device
or a counter is compared with the terms that the person agreed to, or with what they allow: with
more actions than agreed reports, with a device that is stopped while it draws a report and asked
again, with a second study after the first has used up what is allowed, and with policies of pure
and of Gaussian reports in turn.
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

from discreet.audit.checks import Check
from discreet.audit.replay import (
    Claim,
    Exact,
    Labelled,
    NotAudited,
    NothingToAttack,
    Promise,
    Subject,
    Transcript,
    fingerprint,
    promised,
    public_values,
    secure,
    without_addresses,
    worst_of,
)
from discreet.audit.runs import open_file, refused
from discreet.codec import encode
from discreet.learners.contributions import ContributionCounter
from discreet.learners.epochs.capri import Capri
from discreet.learners.kernel.learner import LocalKernel
from discreet.learners.partition.learner import Partition
from discreet.learners.policy import Terms
from discreet.people.domain import Box
from discreet.privacy import Guarantee, Joint, Local, SimulatedNoise
from discreet.privacy.accounting import Event
from discreet.validation import InvalidInput

EPSILON, DELTA = 2.0, 1e-5
_TRIALS, _PEOPLE, _PLACE = 8, 30, 5
_CONTRIBUTIONS = 2
# People and batches of a study whose policy is learnt.
_TAUGHT, _BATCHES = 500, 4
# An arm with this probability leads.
_LEADING = 0.9
_KERNEL: dict[str, Any] = {"kernel": "RBF([1.0, 1.0])", "error": 0.1}
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
        ("device, requests", "local", "all that a device draws and sends", _devices),
        ("decisions, requests", "joint", "all that a network sees of a client", _clients),
        ("contribution counter", "local", "reports of a person who comes often", _counters),
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
class SurfaceRun(Subject):
    """Code that shows something to others.

    Attributes:
        people: to compare.
        budget: of each of them.
    """

    people: Sequence[Labelled]
    budget: Any

    def groups(self) -> Iterable[Sequence[Labelled]]:
        return [self.people]

    def _promise(self, held: Guarantee, releases: Any = None) -> Promise:
        asked = Claim(self.budget.epsilon, self.budget.delta)
        return Promise(asked, Claim(held.epsilon, held.delta), releases)


def _show(transcript: Transcript, name: str, thing: Any, but: Sequence[str] = ()) -> None:
    for each, shown in public_values(thing, but):
        transcript.add(f"what {each} of the {name} shows", shown)


# Searches.


@dataclass(frozen=True, kw_only=True)
class SearchRun(SurfaceRun):
    """A search in which two trials are open at a time; a person's value is that of one trial.

    Attributes:
        direction: of the search.
        sums: whether noise is drawn on sums, whatever the number of trials.
        saved: whether it is saved and loaded with the person's trial open, and again after it.
    """

    direction: str
    sums: bool
    saved: bool = False

    def run(self, person: Labelled, transcript: Transcript) -> Promise:
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
        local = search.learner.budget.is_local
        if local == self.sums:
            raise NotAudited("the search draws its noise in another way than this check is about")
        waiting = [search.ask()]
        for number in range(_TRIALS):
            if number + 1 < _TRIALS:
                waiting.append(search.ask())
                transcript.add("a setting that is asked for", repr(waiting[-1]))
            if self.saved and number in (_PLACE, _PLACE + 1):
                search = self._reloaded(search, transcript)
            value = 0.1 * float(waiting[0].params["dose"]) - 0.5
            value = person.data if number == _PLACE else value
            tell = partial(search.tell, waiting.pop(0), value)
            with _refusals(transcript, "a value"):
                tell()
            if number == _PLACE and not refused(tell):
                transcript.rule("a trial accepts a second value")
            with _refusals(transcript, "best"):
                transcript.add("the best setting", repr(search.best()))
                transcript.add("a prediction", search.predict({"dose": 4.0, "form": "drop"}))
            _show(transcript, "search", search, ("learner", "guarantee"))
            if local:
                held = fingerprint(search.__getstate__())
                held = held.replace(search.learner.identity.encode(), b"")
                transcript.add("a copy of the search", held)
        if local:
            transcript.add("what is kept of people", json.dumps(search.learner.secret_fields()))
        elif not refused(lambda: pickle.dumps(search)):
            transcript.rule("a search that holds values may be copied")
        return self._promise(search.guarantee, None if local else search.learner.releases)

    def _reloaded(self, search: Any, transcript: Transcript) -> Any:
        with TemporaryDirectory() as folder:
            path = Path(folder) / "search.json"
            search.save(path)
            transcript.rule(open_file(search.learner, path))
            if search.learner.budget.is_local:
                transcript.add("the saved search", path.read_text())
            return type(search).load(path, SimulatedNoise(_SEED + 1 + len(transcript.seen)))


def _searches(budget: Joint | Local, sums: bool) -> Iterator[SearchRun]:
    values = [-1.0, 2.0, 0.5, 1.9999]
    if not sums:
        values += [-7.0, 99.0, _NAN, math.inf]
    people = [Labelled(f"value {value:g}", value) for value in values]
    plain = SearchRun(
        state="a search", people=people, budget=budget, direction="maximize", sums=sums
    )
    yield plain
    yield replace(plain, state="the least", direction="minimize")
    yield replace(plain, state="saved and loaded", saved=True)


@contextmanager
def _refusals(transcript: Transcript, name: str) -> Iterator[None]:
    try:
        yield
    except InvalidInput as error:
        transcript.refusal(name, error)


# The estimator.


@dataclass(frozen=True, kw_only=True)
class EstimatorRun(SurfaceRun):
    """A bandit that is fitted to a log, chooses for people, and learns from these.

    Attributes:
        served: whether the person is one whom it serves; else one of the log.
        learner: its name; None for the default.
        logged: whether a log comes first, in which most people were called.
    """

    served: bool
    learner: str | None
    logged: bool = True

    def run(self, person: Labelled, transcript: Transcript) -> Promise:
        with _same_luck(_Clock()):
            return self._fitted(person, transcript)

    def _fitted(self, person: Labelled, transcript: Transcript) -> Promise:
        from discreet.estimator import PrivateBandit

        secure()  # the source that it makes itself
        rng, joint = np.random.default_rng(_SEED), self.budget.is_central
        bandit = PrivateBandit(
            ["call", "visit"],
            self.budget.epsilon,
            delta=self.budget.delta or None,
            bounds=_LEVELS,
            rewards=(-1.0, 1.0),
            trust_model=self.budget.trust_model,
            learner=self.learner,
            options=None if self.learner else {"first": _PEOPLE // 2},
            least_propensity=0.25 if joint and self.logged else None,
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
        chances = np.where(np.array(arms) == "call", 0.75, 0.25) if joint else None
        if self.logged:
            bandit.fit(arms, rewards[:_PEOPLE], first, chances)
            self._look(bandit, others, transcript)
        served = []
        for half in np.split(np.arange(_PEOPLE), 2):
            actions, _ = bandit.act(second[half])
            others_too = actions[half != _PLACE] if self.served and _PLACE in half else actions
            transcript.add("other people's actions", [others_too.arms, actions.public_coins])
            transcript.add("the repr of actions", repr(actions))
            served.append(
                partial(bandit.partial_fit, actions, rewards[_PEOPLE:][half], second[half])
            )
            served[-1]()
            self._look(bandit, others, transcript)
        if not all(map(refused, served)):
            transcript.rule("people whom the bandit served are learnt from twice")
        learner = bandit.learner_
        if not joint:
            transcript.add("what is kept of people", json.dumps(learner.secret_fields()))
        return self._promise(bandit.guarantee_, learner.releases if joint else None)

    def _look(self, bandit: Any, others: Any, transcript: Transcript) -> None:
        for name in ("predict", "predict_expectations", "predict_proba"):
            transcript.add(f"what {name} says of others", getattr(bandit, name)(others))
        _show(transcript, "estimator", bandit, ("learner_", "get_metadata_routing"))
        _show(
            transcript,
            "learner",
            bandit.learner_,
            ("noise", "policy", "secret_fields", "guarantee", "repr"),
        )


def _fits(budget: Joint | Local) -> Iterator[EstimatorRun]:
    people = [
        Labelled(f"({x:g}, {y:g}), {arm}, reward {reward:g}", ([x, y], arm, reward))
        for x, y, arm, reward in (
            (0.0, 0.0, "call", 1.0),
            (1.0, 10.0, "visit", -1.0),
            (0.0, 0.0, "call", -1.0),
            (0.0, 0.0, "visit", 1.0),
            (0.5, 5.0, "visit", 0.123456789),
        )
    ]
    learner = "capri" if budget.is_central else "kernel"
    logged = EstimatorRun(
        state="a person of a log", people=people, budget=budget, served=False, learner=learner
    )
    yield logged
    yield replace(logged, state="a person whom it serves", served=True)
    if budget.is_central:
        usual = replace(logged, state="a person of a log, the default learner", learner=None)
        yield usual
        yield replace(usual, state="whom the default learner serves after a log", served=True)
        state = "whom the default learner serves without a log"
        yield replace(usual, state=state, served=True, logged=False)


# Devices and clients.


@dataclass(frozen=True)
class Life:
    """What happens to one person.

    Attributes:
        context: of every contribution.
        arm: chosen elsewhere, for a source.
        reward: of every contribution; None for one that never comes.
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
    """Give generators without a seed the same seeds in all runs."""
    made, turn = np.random.default_rng, iter(range(10**6))

    def alike(seed: Any = None) -> np.random.Generator:
        return made([_SEED, next(turn)] if seed is None else seed)

    with (
        patch.object(np.random, "default_rng", alike),
        patch.object(time, "time", clock),
        patch("discreet.service.client.transport.random", random.Random(_SEED)),  # of pauses
    ):
        yield


@dataclass(frozen=True, kw_only=True)
class DeviceRun(SurfaceRun):
    """A device whose person acts once more than is covered; the service is not always there.

    Attributes:
        studies: terms and policy of each study that the person takes part in, one after the other.
        source: the auxiliary source that the person is of; None for the study's own people.
        hold: whether reports are held as long as rewards are waited for.
        interrupted: whether the device is stopped after its first report was drawn, before it is
            kept, and asked for the report again.
    """

    studies: Sequence[tuple[Terms, Any]]
    source: str | None = None
    hold: bool = False
    interrupted: bool = False

    def run(self, person: Labelled, transcript: Transcript) -> Promise:
        import httpx2

        from discreet.service.client import Device
        from discreet.service.client.transport import AT_ONCE

        secure()  # a device takes no other noise
        clock, posts = _Clock(), [0]
        studies = {f"study{number}": each for number, each in enumerate(self.studies)}

        def answer(request: httpx2.Request) -> httpx2.Response:
            headers = {k: v for k, v in request.headers.items() if k != "user-agent"}
            sent = (clock.now, request.method, str(request.url), sorted(headers.items()))
            transcript.add("a request", repr(sent))
            transcript.add("the body of a request", request.content)
            *_, place = path = request.url.path.rpartition("/studies/")[2].split("/")
            terms, policy = studies[path[0]]
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

        with TemporaryDirectory() as folder, _same_luck(clock):
            for study, (terms, _) in studies.items():
                device = Device(
                    _URL,
                    study,
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
                    for contribution in range(terms.max_contributions + 1):
                        stopped = self.interrupted and contribution == 0
                        self._visited(device, person.data, clock, transcript, stopped)
                    transcript.add("the repr of the device", without_addresses(repr(device)))
                    reports = [(row.version, row.epsilon, row.state) for row in device.ledger()]
                    transcript.add("what the ledger says", repr((reports, device.spending())))
        transcript.rule("" if posts[0] else "the device sends no report")
        first, _ = self.studies[0]
        allowed = Claim(first.most_epsilon, first.delta)
        return Promise(allowed, allowed)

    def _visited(
        self, device: Any, life: Life, clock: _Clock, transcript: Transcript, stopped: bool
    ) -> None:
        """Act, wait, report if there is a reward, and send at the same times whatever happens."""
        from discreet.service.client import Unreachable

        try:
            if self.source is None:
                choice = device.act(life.context)
                transcript.add("the repr of a choice", repr(replace(choice, id="")))
                identity = choice.id
            else:
                identity = device.observe(life.context, life.arm)
            transcript.add("whether a report will be made", identity is None)
            clock.now += 0.25 * _HOUR
            if life.reward is not None:
                if stopped:
                    with _stopped_while_drawing():
                        device.report(identity, life.reward)
                made = device.report(identity, life.reward)
                if not self.hold:  # under hold a reward that never comes must not show
                    transcript.add("whether there is a report", made)
        except Exception as error:
            # A device that fails, for whatever reason, does not report, which can be seen.
            transcript.refusal("an action of a device", error)
        for _ in range(3):
            clock.now += 0.5 * _HOUR
            with suppress(Unreachable):
                device.send()


@contextmanager
def _stopped_while_drawing() -> Iterator[None]:
    """A device is stopped after its report was drawn, before it is kept."""
    from discreet.service.client import device

    drawn = device._drawn

    def stopped(*given: Any) -> Any:
        drawn(*given)
        raise KeyboardInterrupt

    with patch.object(device, "_drawn", stopped), suppress(KeyboardInterrupt):
        yield


def _lives(source: bool) -> list[Labelled]:
    lives = [
        Life([0.0, 0.0], 0, 1.0),
        Life([1.0, 10.0], 2, 0.0),
        Life([0.0, 0.0], 1, 0.0),
        Life([0.123456789012345, 5.0], 0, 0.987654321098765),
        Life([-7.0, 99.0], 0, 7.0),
        Life([_NAN, 0.0], 0, _NAN),
    ]
    words = "({0[0]:g}, {0[1]:g}), arm {1}, reward {2}" if source else "({0[0]:g}, {0[1]:g}), {2}"
    return [Labelled(words.format(each.context, each.arm, each.reward), each) for each in lives]


def _devices() -> Iterator[DeviceRun]:
    try:
        import httpx2  # noqa: F401
    except ImportError as error:
        raise NotAudited(_MISSING) from error
    often, once = Local(EPSILON, DELTA, max_contributions=_CONTRIBUTIONS), Local(EPSILON)
    learner, served = _served(often, taught=0), _served(often, taught=_TAUGHT)
    new, learnt = (learner.terms(), learner.policy()), served.policy()
    # Certain where one arm leads: whether a device reports must not depend on that.
    certain = np.eye(learnt.arms)[learnt.offers.argmax(axis=1)]
    leads = learnt.offers.max(axis=1, keepdims=True) > _LEADING
    sure = replace(learnt, offers=np.where(leads, certain, learnt.offers))
    plain = DeviceRun(state="a device", people=_lives(False), budget=often, studies=[new])
    yield plain
    held = [*_lives(False), Labelled("no reward", Life([0.5, 5.0], 0, None))]
    yield replace(plain, state="a device that holds reports", people=held, hold=True)
    yield replace(plain, state="under a learnt policy", studies=[(served.terms(), sure)])
    yield replace(plain, state="stopped while it draws a report", interrupted=True)
    other = _served(once, taught=0)
    second = other.terms(), other.policy()
    yield replace(plain, state="in a second study", studies=[new, second])
    elsewhere = LocalKernel(_BOX, 3, once, horizon=2000, identity="served")
    elsewhere.open_source(_SOURCE, once.epsilon)
    source = elsewhere.streams[_SOURCE].terms(), elsewhere.policy(_SOURCE)
    yield DeviceRun(
        state="of a source", people=_lives(True), budget=once, studies=[source], source=_SOURCE
    )


def _served(budget: Local, taught: int) -> Partition:
    """A learner after batches of that many people, half of whom had the first arm's reward."""
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
class ClientRun(SurfaceRun):
    """A product that asks a trusted service for decisions, which is not always there."""

    def run(self, person: Labelled, transcript: Transcript) -> Promise:
        import httpx2

        from discreet.service.client import DecisionClient, Unreachable
        from discreet.service.client.transport import AT_ONCE

        clock, asked = _Clock(), [0]

        def answer(request: httpx2.Request) -> httpx2.Response:
            headers = sorted((k, v) for k, v in request.headers.items() if k != "user-agent")
            transcript.add(
                "a request", repr((clock.now, request.method, str(request.url), headers))
            )
            transcript.add("the length of a request", len(request.content))
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
                for _ in range(_CONTRIBUTIONS):
                    choice = client.decide(life.context, person="a person")
                    transcript.add("the repr of a choice", repr(choice))
                    transcript.rule("" if choice.offered else "the client asks for no decision")
                    client.reward(choice.id, life.reward or 0.0)
                    clock.now += _HOUR
                    with suppress(Unreachable):
                        client.send()
                transcript.add("the repr of the client", without_addresses(repr(client)))
                transcript.add("what waits", [client.waiting(), repr(client.refused())])
        nothing = Claim(0.0)
        return Promise(nothing, nothing)


def _clients() -> Iterator[ClientRun]:
    try:
        import httpx2  # noqa: F401
    except ImportError as error:
        raise NotAudited(_MISSING) from error
    yield ClientRun(state="a client", people=_lives(False)[:4], budget=Joint(EPSILON, DELTA))


# Contribution counters.


@dataclass(frozen=True, kw_only=True)
class CounterRun(SurfaceRun):
    """A counter whose person comes twice more than is covered, once after it was kept.

    Attributes:
        terms: that the person agreed to.
        policies: under which they report, in turn.
    """

    terms: Terms
    policies: Sequence[Any]

    def run(self, person: Labelled, transcript: Transcript) -> Promise:
        life, events = person.data, list[Event]()
        rng, noise = np.random.default_rng(_SEED), SimulatedNoise(_SEED)
        counter, inside = ContributionCounter(self.terms), np.array([[0.5, 5.0]])
        for contribution in range(self.budget.max_contributions + 2):
            policy = self.policies[contribution % len(self.policies)]
            given = [life.context]
            with suppress(InvalidInput):  # a device acts on what the policy takes
                inside = _BOX.from_unit(_BOX.nearest_unit(given))
            actions, _ = policy.act(inside, rng)
            transcript.add("the repr of actions", repr(actions))
            shown: Any = "refused"  # for every person, where it is of another kind
            with suppress(InvalidInput):
                report = counter.report(policy, given, actions, [life.reward], noise)
                shown = "none" if report is None else report
                events += [] if report is None else [policy.release(noise.name).event]
            transcript.add("whether there is a report", isinstance(shown, str) and shown)
            transcript.add("a report", shown)
            _show(transcript, "counter", counter, ("terms",))
            if contribution == 0:
                counter = ContributionCounter(counter.terms, counter.made, counter.gaussian)
        return promised(Claim(self.terms.most_epsilon, self.terms.delta), events)


def _counters() -> Iterator[CounterRun]:
    for delta in (0.0, DELTA):
        budget = Local(EPSILON, delta, max_contributions=3)
        learner = Partition(_BOX, 3, budget, horizon=2000, identity="counted")
        yield CounterRun(
            state=f"delta {delta:g}",
            people=_lives(False),
            budget=budget,
            terms=learner.terms(),
            policies=[learner.policy()],
        )
    budget = Local(EPSILON, DELTA, max_contributions=_CONTRIBUTIONS)
    kinds = [
        Capri(_BOX, 3, budget, horizon=1000, mechanism=mechanism, **_KERNEL, identity="counted")
        for mechanism in ("gaussian", "privunit")
    ]
    yield CounterRun(
        state="Gaussian and pure reports in turn",
        people=_lives(False),
        budget=budget,
        terms=kinds[0].terms(),
        policies=[learner.policy() for learner in kinds],
    )
