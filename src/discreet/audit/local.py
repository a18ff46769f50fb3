"""Reports under local privacy, replayed: the adversary knows all that came before, and the ticket.

A report is made by a batch of three people, of whom the middle one is attacked. Public are the
report with its length, the tickets, and whether reporting failed; private are the person's context,
action and reward, valid or not. The policy is one that a learner published in some state, or that
a server forged; everybody gets the same.

**A dishonest server.** A policy reaches a device as JSON. In `forgeries` every number, list and
array in it is forged, one after the other: halved, doubled, a hundred times as large or as small (a
narrow domain, a norm that is false), set to 0 (so that all choices tie), made the same everywhere;
and all numbers of a part are halved together (a scale with its sensitivity). What the reader
accepts is a policy that a device may meet. A server may also send the honest policy to act with and
a forged one, of the same identity and version, to report under. Under terms that were agreed
before, either the device refuses it whoever the person is, or the report costs no more than the
terms say.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from operator import mul
from typing import Any

import numpy as np

from discreet.audit.exact import Claim, Facts, Promise, Subject
from discreet.audit.people import ContextPeople, Person, Population
from discreet.learners.messages import Policy
from discreet.learners.schema import decode, encode
from discreet.learners.sources import SourcePolicy
from discreet.learners.terms import Terms
from discreet.privacy import NoiseSource, SecureNoise, SimulatedNoise

_SEED = 7
_BATCH, _PLACE = 3, 1
# Lists longer than this are forged as a whole, never entry by entry.
_FEW = 2
_FACTORS = (0.01, 0.5, 2.0, 100.0)
_QUIETER = 0.5


@dataclass(frozen=True, kw_only=True)
class LocalReport(Subject):
    """See the module.

    Attributes:
        bases: see `Subject`.
        people: who take part.
        policy: under which they report, of the learner's own people or of a source.
        asked: the budget of one report.
        certified: what the learner's certificate says.
        terms: what the person's side agreed to; None for none.
        secure: whether noise comes from SecureNoise.
        ticket: the seed of the tickets.
        acted_under: another policy, under which the person acted; None for the same one.
        forged: whether a server that is not honest made the policy; then only the terms count.
        broken: a rule that the learner or the policy breaks; empty if none (rules.py).
    """

    bases: int = 4
    people: Population
    policy: Policy[Any] | SourcePolicy
    acted_under: Policy[Any] | None = None
    asked: Claim
    certified: Claim
    terms: Terms | None = None
    secure: bool = False
    ticket: int = 0
    broken: str = ""
    forged: bool = False

    def groups(self) -> Iterator[Sequence[Person]]:
        rng, people = np.random.default_rng(_SEED), self.people
        crowd = people.candidates(rng)
        if isinstance(people, ContextPeople):
            # Whatever arm they say they got: a refusal would be about their context.
            crowd = people.with_arms(rng) if self._source else [*crowd, *people.with_arms(rng)]
        yield [*crowd, *people.strays()]

    @property
    def _source(self) -> bool:
        return isinstance(self.policy, SourcePolicy)

    def near(self, person: Person, rng: np.random.Generator) -> Person:
        return self.people.near(person, rng)

    def run(self, person: Person, facts: Facts) -> Promise:
        noise: NoiseSource = SecureNoise() if self.secure else SimulatedNoise(_SEED)
        facts.rule(self.broken)
        rng = np.random.default_rng([_SEED, self.ticket])
        try:
            report = self._reported(person, rng, noise, facts)
            facts.add("a report", encode(report))
        except Exception as error:
            # Whatever it is, a device that fails does not report, which can be seen.
            facts.refusal("a report", error)
        if self.forged:
            return Promise(self.asked, self.asked)
        release = self.policy.release(noise.name)
        return Promise(self.asked, self.certified, None if release is None else [release])

    def copies(self, person: Person, count: int, noise: NoiseSource) -> Any:
        """So many independent reports of one person, with the same ticket."""
        people, policy = self.people, self.policy
        contexts = people.many(person, count)
        rewards = people.in_units(np.full(count, person.reward))
        if isinstance(policy, SourcePolicy):
            return policy.report(contexts, np.full(count, person.arm or 0), rewards, noise)
        rng = np.random.default_rng([_SEED, self.ticket])
        single, _ = policy.act(people.many(person, 1), rng)
        actions = people.acted(single, person, 0)[np.zeros(count, dtype=np.int64)]
        return policy.report(contexts, actions, rewards, noise)

    def _reported(
        self, person: Person, rng: np.random.Generator, noise: NoiseSource, facts: Facts
    ) -> Any:
        people, policy = self.people, self.policy
        crowd = people.crowd(_BATCH, rng)
        contexts = people.with_person(crowd, _PLACE, person)
        rewards = people.in_units(np.array([0.3, person.reward, 0.6]))
        if isinstance(policy, SourcePolicy):
            arms = np.array([0, person.arm or 0, policy.arms - 1])
            return policy.report(contexts, arms, rewards, noise, self.terms)
        # A device acts on what the policy takes; what it reports on may turn out to be otherwise.
        acting = self.acted_under or policy
        actions, _ = acting.act(people.with_person(crowd, _PLACE, people.inside(person)), rng)
        facts.add("the tickets", actions.tickets.tobytes())
        acted = people.acted(actions, person, _PLACE)
        return policy.report(contexts, acted, rewards, noise, self.terms)


def forgeries(policy: Policy[Any] | SourcePolicy) -> Iterator[tuple[str, Any]]:
    """Forged policies that a reader accepts, with what was forged."""
    kind = SourcePolicy if isinstance(policy, SourcePolicy) else Policy
    content = json.loads(encode(policy))
    for words, path, values in _changes(content, ()):
        other = copy.deepcopy(content)
        parent = other
        for key in path[:-1]:
            parent = parent[key]
        if path:
            parent[path[-1]] = values
        else:
            other = values
        if other == content:
            continue
        try:
            yield words, decode(json.dumps(other), kind)
        except ValueError:
            continue  # refused by the reader, before anybody's data is there


def _changes(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[str, tuple[Any, ...], Any]]:
    """(words, path, new value) of all forgeries of a part of the message."""
    name = ".".join(map(str, path))
    if isinstance(value, dict):
        numbers = {key: item for key, item in value.items() if isinstance(item, float)}
        if len(numbers) > 1:
            quieter = {key: _QUIETER * item for key, item in numbers.items()}
            yield f"all numbers of {name} halved", path, {**value, **quieter}
        for key, item in value.items():
            yield from _changes(item, (*path, key))
    elif isinstance(value, float):
        for factor in _FACTORS:
            yield f"{name} times {factor:g}", path, factor * value
    elif isinstance(value, list) and value:
        leaves = list(_leaves(value))
        if all(isinstance(item, bool) for item in leaves):
            yield f"all of {name} true", path, _each(value, lambda item: True)
        elif all(isinstance(item, int | float) for item in leaves):
            for factor in _FACTORS:
                yield f"{name} times {factor:g}", path, _each(value, partial(mul, factor))
            yield f"{name} all 0", path, _each(value, lambda item: 0 * item)
            yield f"{name} all the same", path, _each(value, lambda item: leaves[0])
        elif len(value) <= _FEW:
            for place, item in enumerate(value):
                yield from _changes(item, (*path, place))


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        for item in value:
            yield from _leaves(item)
    else:
        yield value


def _each(value: Any, change: Any) -> Any:
    if isinstance(value, list):
        return [_each(item, change) for item in value]
    return change(value)
