"""A dishonest server: policies that no learner published, and the reports that devices make.

A policy reaches a device as JSON. Here every number, list and array in it is forged, one after the
other: halved, doubled, a hundred times as large or as small (a narrow domain, a norm that is
false), set to 0 (so that all choices tie), made the same everywhere; and all numbers of a part are
halved together (a scale with its sensitivity). What the reader accepts is a policy that a device
may meet. A server may also send the honest policy to act with and a forged one, of the same
identity and version, to report under. Under terms that were agreed before, either the device
refuses it whoever the person is, or the report costs no more than the terms say.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from operator import mul
from typing import Any

from discreet.audit.exact import AllRefused, NothingToAttack, Worst, worst_neighbours
from discreet.audit.games import Exact
from discreet.audit.makers import Maker
from discreet.audit.states import local_states
from discreet.learners.messages import Policy
from discreet.learners.schema import decode, encode
from discreet.learners.sources import SourcePolicy
from discreet.learners.terms import Terms

# Lists longer than this are forged as a whole, never entry by entry.
_FEW = 2
_FACTORS = (0.01, 0.5, 2.0, 100.0)
_QUIETER = 0.5
# So many of the people of an honest report meet every forged policy.
_PEOPLE = 9


def forged_exact(maker: Maker, source: bool) -> Exact:
    """The worst report under any forged policy, against the terms."""
    honest = next(iter(local_states(maker, source)))
    budget = maker.budget
    delta = 0.0 if source else budget.delta
    terms = Terms(maker.domain, maker.space, budget.epsilon, maker.bounds, delta)
    crowd = next(iter(honest.groups()))
    tried = tuple(crowd[:: max(1, len(crowd) // _PEOPLE)])
    base = replace(honest, terms=terms, forged=True, broken="", tried=tried, bases=1)
    found: list[Worst] = []
    for words, policy in forgeries(honest.policy):
        met = [replace(base, state=words, policy=policy)]
        if isinstance(honest.policy, Policy):
            state = f"{words}, after acting under the honest policy"
            met.append(replace(met[0], state=state, acted_under=honest.policy))
        for subject in met:
            try:
                found.append(worst_neighbours(subject))
            except (AllRefused, NothingToAttack):
                continue
            if found[-1].exact.broken:
                return found[-1].exact
    return max(found, key=lambda one: one.order).exact


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
        numbers = {key: one for key, one in value.items() if isinstance(one, float)}
        if len(numbers) > 1:
            quieter = {key: _QUIETER * one for key, one in numbers.items()}
            yield f"all numbers of {name} halved", path, {**value, **quieter}
        for key, one in value.items():
            yield from _changes(one, (*path, key))
    elif isinstance(value, float):
        for factor in _FACTORS:
            yield f"{name} times {factor:g}", path, factor * value
    elif isinstance(value, list) and value:
        leaves = list(_leaves(value))
        if all(isinstance(one, bool) for one in leaves):
            yield f"all of {name} true", path, _each(value, lambda one: True)
        elif all(isinstance(one, int | float) for one in leaves):
            for factor in _FACTORS:
                yield f"{name} times {factor:g}", path, _each(value, partial(mul, factor))
            yield f"{name} all 0", path, _each(value, lambda one: 0 * one)
            yield f"{name} all the same", path, _each(value, lambda one: leaves[0])
        elif len(value) <= _FEW:
            for place, one in enumerate(value):
                yield from _changes(one, (*path, place))


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        for one in value:
            yield from _leaves(one)
    else:
        yield value


def _each(value: Any, change: Any) -> Any:
    if isinstance(value, list):
        return [_each(one, change) for one in value]
    return change(value)
