"""What a person's own side may do: the client's `Device`, its file, and a `VisitCounter`.

Under local privacy nobody but the person's side limits what they pay. So a device is run on one
person's data, with a service that stores whatever comes, and the loss of *all* that it draws is
held against what the person agreed to or allowed:

| variant     | what happens                                                   | promised         |
|-------------|----------------------------------------------------------------|------------------|
| reports     | more actions, each with its reward, than reports were agreed   | epsilon of terms |
| interrupted | the device is stopped while it draws a report, and told again  | epsilon of terms |
| studies     | a second study asks after the first used up what is allowed    | what is allowed  |
| counter     | more visits than were agreed to, under a `VisitCounter`        | epsilon of terms |
| kinds       | policies of pure and of Gaussian reports in turn, at a delta   | epsilon of terms |

Public are what is sent and how often, which actions may be reported, and the seed of a ticket's
generator, because tickets are sent along; private are context and reward, valid or not.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal
from unittest.mock import patch

import numpy as np

from discreet.audit.exact import Claim, Exact, Facts, NotAudited, Promise, Subject, worst_neighbours
from discreet.audit.games import Check
from discreet.audit.learners import _taught
from discreet.audit.people import Maker, Person
from discreet.learners.schema import encode
from discreet.learners.visits import VisitCounter
from discreet.people.domain import unit_cube
from discreet.privacy import Local, SimulatedNoise
from discreet.privacy.accounting import Event, composed_epsilon
from discreet.validation import InvalidInput

Variant = Literal["reports", "interrupted", "studies", "counter", "kinds"]
_VARIANTS: tuple[Variant, ...] = ("reports", "interrupted", "studies", "counter", "kinds")
_EPSILON, _DELTA, _VISITS, _BEYOND = 2.0, 1e-5, 2, 2
_URL, _SEED = "http://127.0.0.1:1", 7
# Files take a while, so that not everybody is compared.
_PEOPLE = 6
_TAUGHT, _CLEAR = 6000, 0.9
_KERNEL = {"kernel": "RBF([1.0, 1.0])", "error": 0.1}


def device_checks() -> list[Check]:
    """One check for every variant."""
    return [
        Check(
            f"device, {variant}",
            "learner",
            "local",
            lambda variant=variant: _exact(variant),  # type: ignore[misc]
            about=f"what a person's own side does: {variant}",
        )
        for variant in _VARIANTS
    ]


def _exact(variant: Variant) -> Exact:
    try:
        import discreet.service.client.device  # noqa: F401 (httpx2 may be missing)
    except ImportError as error:
        raise NotAudited(f'{error}; run pip install "discreet[client]".') from error
    return worst_neighbours(DeviceRun(state=variant, variant=variant))


def _maker(learner: str, budget: Local, **options: Any) -> Maker:
    return Maker(learner, unit_cube(2), 3, budget, 1000, options)


@cache
def _policies(variant: Variant) -> tuple[tuple[Any, Any], ...]:
    """The terms and the policies that a variant needs."""
    once, several = Local(_EPSILON), Local(_EPSILON, visits=_VISITS)
    makers = {
        "interrupted": [_maker("partition", once)],
        "studies": [_maker("partition", several), _maker("local_kernel", once)],
        "kinds": [
            _maker("capri", Local(_EPSILON, _DELTA, _VISITS), mechanism=mechanism, **_KERNEL)
            for mechanism in ("gaussian", "privunit")
        ],
    }.get(variant, [_maker("partition", several)])
    offered = [(maker.terms(), _taught(maker, False, 0).policy()) for maker in makers]
    if variant == "reports":
        policy: Any = _taught(makers[0], False, _TAUGHT).policy()
        # Certain where one arm leads clearly: whether a device reports must not depend on that.
        best = np.eye(policy.arms)[policy.offers.argmax(axis=1)]
        clear = policy.offers.max(axis=1, keepdims=True) > _CLEAR
        offered[0] = offered[0][0], replace(policy, offers=np.where(clear, best, policy.offers))
    return tuple(offered)


@dataclass(frozen=True, kw_only=True)
class DeviceRun(Subject):
    """See the module."""

    variant: Variant = "reports"

    def groups(self) -> Iterator[Sequence[Person]]:
        people = _maker("partition", Local(_EPSILON)).crowd()
        crowd = people.candidates(np.random.default_rng(_SEED))
        yield [*crowd[:: max(1, len(crowd) // _PEOPLE)], *people.strays()]

    def run(self, person: Person, facts: Facts) -> Promise:
        terms = _policies(self.variant)[0][0]
        asked = Claim(terms.most_epsilon, terms.delta)
        if self.variant not in ("counter", "kinds"):
            self._device(person, facts)
            return Promise(asked, asked)
        events = self._count(person, facts)
        return Promise(asked, Claim(composed_epsilon(events, terms.delta), terms.delta))

    def _brought(self, person: Person) -> tuple[Any, float]:
        """A context and a reward in their units."""
        people = _maker("partition", Local(_EPSILON)).crowd()
        context = people.contexts([person.where])[0].tolist()
        return context, float(people.in_units(np.array([person.reward]))[0])

    def _count(self, person: Person, facts: Facts) -> list[Event]:
        """What the reports cost that a counter lets through."""
        offered, noise = _policies(self.variant), SimulatedNoise(_SEED)
        context, reward = self._brought(person)
        inside = self._brought(_maker("partition", Local(_EPSILON)).crowd().inside(person))[0]
        counter, events = VisitCounter(offered[0][0]), []
        for visit in range(_VISITS + _BEYOND):
            policy = offered[visit % len(offered)][1]
            actions, _ = policy.act([inside], np.random.default_rng([_SEED, visit]))
            shown = "refused"
            with suppress(InvalidInput):
                report = counter.report(policy, [context], actions, [reward], noise)
                shown = "none" if report is None else encode(report)
                events += [] if report is None else [policy.release(noise.name).event]
            facts.add("a report of a visit", shown)
            facts.add("how many visits are left", counter.left)
        return events

    def _device(self, person: Person, facts: Facts) -> None:
        from discreet.service.client.person import (
            PersonFile,
            agreement_of,
            keep_agreement,
            keep_policy,
        )

        context, reward = self._brought(person)
        offered = _policies(self.variant)
        with tempfile.TemporaryDirectory() as folder, _tickets(facts):
            store = Path(folder) / "person.db"
            for number, (terms, policy) in enumerate(offered):
                study = f"study{number}"
                with PersonFile(store).changing() as state:
                    keep_agreement(state, _URL, study, terms, None, 0.0)
                    agreement = agreement_of(state, _URL, study, None)
                    keep_policy(state, _URL, study, agreement, policy.digest, encode(policy))
                device = _device_of(study, store, facts)
                for visit in range(_VISITS + _BEYOND):
                    try:
                        choice = device.act(context)
                        facts.add("whether an action may be reported", choice.id is not None)
                        if self.variant == "interrupted" and not visit:
                            _interrupted(device, choice.id, reward)
                        facts.add("whether there is a report", device.report(choice.id, reward))
                        device.send()
                    except Exception as error:
                        # Whatever it is, a device that fails does not report, which can be seen.
                        facts.refusal("an action of a device", error)


def _device_of(study: str, store: Path, facts: Facts) -> Any:
    """A device whose service stores whatever is sent."""
    import httpx2

    from discreet.service.client.device import Device

    def answer(request: httpx2.Request) -> httpx2.Response:
        facts.add("what is sent", request.content.decode())
        return httpx2.Response(202, json={"stored": 1, "repeated": 0})

    transport = httpx2.MockTransport(answer)
    return Device(_URL, study, key="dct_" + "k" * 43, store=store, transport=transport)


@contextmanager
def _tickets(facts: Facts) -> Iterator[None]:
    """Tickets from a generator of the audit's own; one with a seed is noted with it."""
    from discreet.service.client import pending

    counted = iter(range(1000))

    class Seeded:
        """NumPy, but for what a device makes generators by."""

        def __getattr__(self, name: str) -> Any:
            return getattr(np, name)

        @property
        def random(self) -> Any:
            return self

        def default_rng(self, seed: Any = None) -> np.random.Generator:
            facts.add("the seed of a ticket", repr(seed))
            return np.random.default_rng([_SEED, next(counted)])

    with patch.object(pending, "np", Seeded()):
        yield


def _interrupted(device: Any, identity: str | None, reward: float) -> None:
    """Stop a device after its report was drawn, before it is kept."""
    from discreet.service.client import pending

    drawn = pending._drawn

    def stopped(*given: Any) -> Any:
        drawn(*given)
        raise KeyboardInterrupt

    with patch.object(pending, "_drawn", stopped), suppress(KeyboardInterrupt):
        device.report(identity, reward)
