"""Test vectors, by which a client in another language shows that it does what a device must
(docs/format.md).

| file                | holds                                                                    |
|---------------------|--------------------------------------------------------------------------|
| kernel.json         | decisions and reports under policies of `kernel`                         |
| best_arm.json       | of `best_arm`                                                            |
| partition.json      | of `partition`                                                           |
| kernel_source.json  | reports of an auxiliary source of `kernel`                               |
| shuffled.json       | of all three with a shuffler, the texts to encrypt, and what groups cost |
| forged.json         | decisions and reports under forged policies that keep their promise      |
| refusals.json       | policies to be refused under terms, before data are looked at, and why   |
| schemas.json        | JSON Schemas of policies, reports, and what they hold                    |

A case states a policy, a context, a public coin (of a source: the arm that was given), a reward,
and the random words that its report consumes: a list, or the seed of a SplitMix64 generator
(Steele, Lea and Flood 2014).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from discreet.atomic_files import write_bytes
from discreet.audit.learners import altered
from discreet.codec import canonical, canonical_json, decode, encode
from discreet.learners.kernel.cells import Cells
from discreet.learners.kernel.learner import LocalKernel
from discreet.learners.kernel.policy import KernelPolicy
from discreet.learners.messages import PUBLIC_COINS, STEP, Reports, mix
from discreet.learners.partition.learner import Partition
from discreet.learners.partition.policy import place_count, selection
from discreet.learners.partition.tree import Bins, Tree
from discreet.learners.policy import TARGET_NAME, Policy, Terms
from discreet.learners.references.best_arm import BestArm
from discreet.people.columns import Column
from discreet.people.domain import Ball, Box, RewardBounds, unit_cube
from discreet.privacy import Local, SecureNoise, Shuffled, SimulatedNoise
from discreet.privacy.noise import Shape, Words
from discreet.privacy.shuffling import shuffled_epsilon
from discreet.schemas import Schemas
from discreet.validation import CoinArray, FloatArray, InvalidInput

FORMAT = 1
CASES = 1_000
_ARMS = ["leaflet", "call", "visit"]
_BOUNDS = RewardBounds(-1.0, 3.0)
_DOMAINS = (
    unit_cube(2),
    Ball(1.5, 3),
    Box.of(
        [
            Column("age", 18, 90),
            Column("smoker", values=("no", "yes", "unknown"), missing="unknown"),
            Column("weight", 40.5, 150, missing="unknown", indicators=(40.5,)),
            Column("visits", 0, 3, levels=4, missing="unknown", indicators=(0,)),
        ]
    ),
)
_EPSILONS = (0.3, 1.0, 4.0)
# Policies of each learner, and reports between two of them.
_VERSIONS, _PEOPLE = 3, 400
# People who meet each forged policy, and cases of lists of words of each learner.
_TRIED, _LISTED = 10, 30
_MOST_WORD = 2**64 - 1


class ListedNoise(SecureNoise):
    """`SecureNoise` of n people, each of whom draws from words of their own.

    Args:
        seeds: (n,) of SplitMix64.
        words: of the one person there is, in place of those of the seed.
    """

    def __init__(self, seeds: CoinArray, words: list[int] | None = None) -> None:
        self._seeds, self._drawn = seeds, 0
        self._words = np.array(words, dtype=np.uint64) if words else None

    def keys(self, shape: Shape) -> Words:
        each, rest = divmod(int(np.prod(shape)), len(self._seeds))
        if rest:  # once in 2^50 cases
            raise ArithmeticError("one of several people drew again; use another seed.")
        places = np.arange(self._drawn, self._drawn + each)
        self._drawn += each
        if self._words is not None:
            return self._words[places].reshape(shape)
        states = self._seeds[:, None] + (places.astype(np.uint64) + np.uint64(1)) * STEP
        return mix(states).reshape(shape)


@dataclass(frozen=True)
class _Agreed:
    """A policy, with the terms that people agreed to."""

    policy: Policy[Any]
    terms: Terms

    def fields(self) -> dict[str, Any]:
        text = canonical(self.policy)
        return {"policy": text, "sha256": self.policy.digest, "terms": self.terms.to_fields()}


def write_vectors(folder: Path, cases: int = CASES, seed: int = 0) -> dict[str, int]:
    """Write the files of the module's table; how many cases each has.

    Args:
        folder: made if need be.
        cases: of each of the first four files, about.
        seed: of what is drawn.
    """
    rng = np.random.default_rng(seed)
    learnt = {
        "kernel": _learnt(LocalKernel),
        "best_arm": _learnt(BestArm),
        "partition": _learnt(Partition),
        "kernel_source": _learnt(LocalKernel, "clinic"),
    }
    files: dict[str, dict[str, Any]] = {}
    for name, agreed in learnt.items():
        made = [
            case
            for place, each in enumerate(agreed)
            for case in _cases(each, place, -(-cases // len(agreed)), rng)
        ]
        listed = rng.integers(len(agreed), size=_LISTED).tolist()
        made += [_listed_case(agreed[place], place, rng) for place in listed]
        files[name] = _file(name, agreed, made)
    asking = next(each for each in learnt["kernel"] if _thresholds(each.policy))
    centred = next(each for each in learnt["kernel"] if _centred(each.policy))
    kept, refused = _forged([*(agreed[-1] for agreed in learnt.values()), asking, centred])
    met = [case for place, each in enumerate(kept) for case in _cases(each, place, _TRIED, rng)]
    files["forged"] = _file("forged", kept, met)
    files["shuffled"] = _shuffled(rng)
    files["refusals"] = {"format": FORMAT, "cases": refused}
    folder.mkdir(parents=True, exist_ok=True)
    for name, fields in {**files, "schemas": schemas()}.items():
        text = json.dumps(fields, allow_nan=False, separators=(",", ":"))
        write_bytes(folder / f"{name}.json", text.encode())
    return {name: len(fields["cases"]) for name, fields in files.items()}


def schemas() -> dict[str, Any]:
    """The JSON Schemas (2020-12) of policies under which reports are private, and of reports."""
    collected = Schemas("#/$defs/")
    policy = collected.of_message(Policy)
    report = collected.of_message(Reports)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$defs": {**collected.named_schemas, "Policy": policy, "Report": report},
    }


def _file(name: str, agreed: list[_Agreed], cases: list[dict[str, Any]]) -> dict[str, Any]:
    policies = [each.fields() for each in agreed]
    return {"format": FORMAT, "learner": name, "policies": policies, "cases": cases}


def _learnt(kind: Any, stream: str = TARGET_NAME) -> list[_Agreed]:
    """Policies of a few versions on each domain, at each epsilon."""
    found: list[_Agreed] = []
    for domain in _DOMAINS:
        for epsilon in _EPSILONS:
            people = np.random.default_rng([7, len(found)])
            options = {"reward_bounds": _BOUNDS, "public_seed": len(found), "identity": "vectors"}
            learner = kind(domain, _ARMS, Local(epsilon), horizon=10_000, **options)
            if stream != TARGET_NAME:
                learner.open_source(stream, epsilon)
            terms = Terms(domain, _ARMS, epsilon, _BOUNDS)
            for _ in range(_VERSIONS):
                policy = learner.policy(stream)
                found.append(_Agreed(policy, terms))
                # They fill little of the domain, so ranks are learnt.
                unit = 0.25 * people.random((_PEOPLE, domain.dimension))
                contexts = domain.nearest(domain.from_unit(unit))
                actions: Any = people.integers(len(_ARMS), size=_PEOPLE)
                if policy.chooses:
                    actions, _ = policy.act(contexts, people, nearest=True)
                rewards = np.asarray(actions) - 1.0 + people.normal(size=_PEOPLE) + 8 * unit[:, 0]
                noise = SimulatedNoise(int(people.integers(2**32)))
                learner.update(policy.report(contexts, actions, rewards, noise))
            found.append(_Agreed(_cut(policy, people), terms))
    return found


def _shuffled(rng: np.random.Generator) -> dict[str, Any]:
    """Cases with the text that a device encrypts, and the secret half of the learner's key; `costs`
    are epsilons of groups by that of a report, the group, the honest share and delta."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    from discreet.service.hpke import public_key, report_bytes

    agreed: list[_Agreed] = []
    secret = X25519PrivateKey.from_private_bytes(rng.bytes(32))
    kinds: tuple[Any, ...] = (LocalKernel, BestArm, Partition)
    for kind in kinds:
        for domain, group, honest in zip(_DOMAINS, (2, 300, 10_000), (1.0, 0.5, 0.9), strict=True):
            budget = Shuffled(0.7, 1e-6, group, honest)
            options = {"reward_bounds": _BOUNDS, "public_seed": len(agreed), "identity": "vectors"}
            policy = kind(domain, _ARMS, budget, horizon=50_000, **options).policy()
            terms = Terms(
                domain, _ARMS, 0.7, _BOUNDS, 1e-6, 1, group, honest, learner_key=public_key(secret)
            )
            agreed.append(_Agreed(policy, terms))
    cases = [
        {**case, "text": encode(decode(json.dumps(case["report"]), Reports)).ljust(size)}
        for place, each in enumerate(agreed)
        for size in [report_bytes(each.policy, each.terms)]
        for case in _cases(each, place, _TRIED, rng)
    ]
    costs = []
    for _ in range(_LISTED):
        report, delta = float(np.exp(rng.uniform(-3.0, 2.0))), float(10.0 ** rng.uniform(-9, -4))
        group, honest = int(np.exp(rng.uniform(1.0, 9.0))), float(rng.choice([1.0, 0.9, 0.5, 0.0]))
        cost = shuffled_epsilon(report, group, delta, honest)
        named = {"epsilon": report, "group_size": group, "honest": honest, "delta": delta}
        costs.append({**named, "cost": cost})
    file = _file("shuffled", agreed, cases)
    return {**file, "secret": secret.private_bytes_raw().hex(), "costs": costs}


def _cut(policy: Any, rng: np.random.Generator) -> Any:
    """The policy with more cells, or bins, than few people's reports lead to; rewards clipped."""
    arms, size = policy.arms, int(rng.integers(5, 30))
    if isinstance(policy, KernelPolicy):
        points, levels = rng.random((500, policy.cell_columns)), policy.domain.levels
        scales, even = np.ones(policy.cell_columns), np.ones(500)
        levels = levels if policy.chooses else (*levels, arms)
        cells = Cells.split(points, even, size, 3, scales, levels, rng)
        cut = replace(policy, cells=cells, clipping_range=(0.25, 0.625))
        if not policy.chooses or size % 2:
            return cut
        centres = rng.integers(-(2**20), 2**20, (arms, policy.directions.shape[2]), dtype=np.int32)
        return replace(cut, centres=centres)
    tree = Tree.root(policy.domain.dimension)
    for _ in range(size):
        tree = tree.split(rng.choice(tree.leaves, 1), rng.integers(tree.dimension, size=1))
    active = rng.random((tree.leaf_count, arms)) < 0.7
    active[~active.any(axis=1), 0] = True
    offers = active * rng.random(active.shape)
    return replace(
        policy,
        bins=Bins(tree, active),
        offers=offers / offers.sum(axis=1, keepdims=True),
        size=selection(place_count(active), policy.epsilon).size,
    )


# Cases.


def _cases(
    agreed: _Agreed, place: int, people: int, rng: np.random.Generator
) -> list[dict[str, Any]]:
    """Cases of n people, half of whom state their contexts by name."""
    made = []
    for named, count in ((False, people - people // 2), (True, people // 2)):
        if count:
            made += _made(agreed, place, count, named, rng)
    return made


def _listed_case(agreed: _Agreed, place: int, rng: np.random.Generator) -> dict[str, Any]:
    """A case of a list of words, many of them the least or the largest: these are drawn again where
    whole numbers are, and where keys tie."""
    words = rng.integers(0, _MOST_WORD, size=2_000, dtype=np.uint64, endpoint=True)
    extreme = rng.random(len(words)) < 0.4
    words[extreme] = rng.choice(np.array([0, _MOST_WORD], dtype=np.uint64), int(extreme.sum()))
    (case,) = _made(agreed, place, 1, False, rng, words.tolist())
    return case


def _made(
    agreed: _Agreed,
    place: int,
    people: int,
    named: bool,
    rng: np.random.Generator,
    words: list[int] | None = None,
) -> list[dict[str, Any]]:
    policy: Any = agreed.policy
    contexts = _contexts(policy, people, named, rng)
    public_coins = rng.integers(PUBLIC_COINS, size=people, dtype=np.uint64)
    seeds = rng.integers(PUBLIC_COINS, size=people, dtype=np.uint64)
    rewards = _some(_BOUNDS.lower, _BOUNDS.upper, _reward_edges(policy), people, rng)
    given: list[Any] = []
    if policy.chooses:
        actions, propensities = policy._act(policy._nearest(_read(contexts)), public_coins)
        arms = actions.arms.tolist()
    else:
        choices: list[Any] = [*_ARMS, "surgery", 0, 1, 2, -1, 7]
        given = [choices[number] for number in rng.integers(len(choices), size=people)]
        actions, arms = np.array(given, dtype=object), given
    noise = ListedNoise(seeds, words)
    reports = policy.report(_read(contexts), actions, rewards, noise, agreed.terms)
    own = [json.loads(encode(reports.of(np.array([row])))) for row in range(people)]
    made = []
    for row in range(people):
        chosen = (
            {
                "public_coin": int(public_coins[row]),
                "arm": arms[row],
                "propensity": float(propensities[row]),
            }
            if policy.chooses
            else {"action": given[row]}
        )
        made.append(
            {
                "policy": place,
                "context": contexts[row],
                **chosen,
                "reward": None if np.isnan(rewards[row]) else float(rewards[row]),
                "words": int(seeds[row]) if words is None else list(map(str, words)),
                "report": own[row],
            }
        )
    return made


def _read(contexts: list[Any]) -> list[Any]:
    """Contexts as JSON has them, with NaN for null in rows of numbers."""
    if isinstance(contexts[0], dict):
        return contexts
    return [[np.nan if each is None else each for each in row] for row in contexts]


def _contexts(policy: Any, people: int, named: bool, rng: np.random.Generator) -> list[Any]:
    """Contexts as JSON values: at random, at places where decisions change, outside, missing."""
    domain, edges = policy.domain, _edges(policy)
    columns = []
    for axis, (low, high) in enumerate(zip(domain.lower, domain.upper, strict=True)):
        count = domain.levels[axis]
        special = edges[axis]
        if count is not None:  # levels, and halfway between two
            special = np.arange(2 * count - 1) / (2.0 * (count - 1))
        numbers = _some(low, high, (low + special * (high - low)).tolist(), people, rng)
        columns.append([None if np.isnan(number) else float(number) for number in numbers])
    if not named:
        return [list(row) for row in zip(*columns, strict=True)]
    rows = []
    for values in zip(*columns, strict=True):
        row: dict[str, Any] = {}
        for name, value, labels in zip(domain.names, values, domain.categories, strict=True):
            spelt = [*labels, *(f" {label.upper()}" for label in labels), None, "?", 1, True]
            shown = spelt[rng.integers(len(spelt))] if labels else value
            odd = rng.random()
            if odd > 0.05:  # else it is left out
                row[name] = "40" if odd > 0.97 else shown
        rows.append(row)
    return rows


def _some(
    low: float, high: float, special: list[float], people: int, rng: np.random.Generator
) -> FloatArray:
    """Numbers between bounds, some of them at the ends, beyond, missing, or special."""
    numbers = rng.uniform(low, high, people)
    chosen = rng.random(people) < 0.4
    numbers[chosen] = rng.choice(
        [low, high, low - 1.0, high + 1.0, -1e300, np.nan, *special], int(chosen.sum())
    )
    return numbers


def _thresholds(policy: Any) -> Any:
    """The thresholds of rewards that it asks about."""
    return getattr(policy, "thresholds", ())


def _centred(policy: Any) -> bool:
    """Whether rewards are clipped about predicted ones."""
    return getattr(policy, "centres", None) is not None


def _reward_edges(policy: Any) -> list[float]:
    """The thresholds of rewards, or the ends of their range, in units of rewards."""
    if not isinstance(policy, KernelPolicy):
        return []
    ends = _thresholds(policy) or policy.clipping_range
    edges: list[float] = (_BOUNDS.lower + np.array(ends) * (_BOUNDS.upper - _BOUNDS.lower)).tolist()
    return edges


def _edges(policy: Any) -> list[FloatArray]:
    """For each column the places in [0, 1] at which a person passes from one cell to another."""
    if not isinstance(policy, KernelPolicy):
        tree = policy.tree
        return [tree.threshold[tree.axis == axis] for axis in range(tree.dimension)]
    knots = policy.ranks.knots
    inside = [(policy.cells.axis == axis) for axis in range(len(knots))]
    cuts = [np.unique(policy.cells.cut[place])[:, None] for place in inside]
    even = np.linspace(0.0, 1.0, knots.shape[1])
    return [
        np.concatenate([knots[axis], np.interp(cut[:, 0], even, knots[axis])])
        for axis, cut in enumerate(cuts)
    ]


# Forgeries.


def _forged(honest: list[_Agreed]) -> tuple[list[_Agreed], list[dict[str, Any]]]:
    """Forged policies that keep the promise of the terms, and those to be refused, as cases."""
    kept, refused = [], []
    for agreed in honest:
        small, terms = _small(agreed.policy), agreed.terms
        for words, text in _messages(json.loads(canonical(small))):
            try:
                policy: Policy[Any] = decode(text, Policy)
                terms.check(policy)
                if policy.stream != small.stream:
                    raise InvalidInput("it is of another stream")
            except InvalidInput as error:
                refused.append(
                    {
                        "name": f"{small.kind}, {small.stream}: {words}",
                        "policy": text,
                        "stream": small.stream,
                        "terms": terms.to_fields(),
                        "reason": str(error),
                    }
                )
            else:
                kept.append(_Agreed(policy, terms))
    return kept, refused


def _small(policy: Any) -> Any:
    """A policy with few functions, so that a hundred forgeries of it are a short file."""
    if not isinstance(policy, KernelPolicy):
        return policy
    cells = policy.cells
    few = Cells(cells.count, cells.axis[:3], cells.cut[:3], cells.child[:3])
    values = None if policy.values is None else policy.values[:4, :, :9]
    return replace(
        policy,
        frequencies=policy.frequencies[:9],
        values=values,
        directions=policy.directions[:4, :, :9],
        cells=few,
        thresholds=policy.thresholds[:3],
        centres=None if policy.centres is None else policy.centres[:, :9],
    )


def _messages(content: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """(what was changed, text) of forged messages."""
    for words, other in altered(content, ""):
        # A device can evaluate features that its learner does not have.
        if other != content and not words.startswith("frequencies times"):
            # Whole numbers without a point: other languages do not tell 2.0 from 2.
            yield words, canonical_json(other)
    for name in content:
        yield f"without {name}", json.dumps({key: content[key] for key in content if key != name})
        odd: list[Any] = [None, -1, 0.5, "1", True, [], {}, 2**60]
        for value in odd:
            yield f"{name} is {value!r}", json.dumps({**content, name: value})
    changes: list[tuple[str, dict[str, Any]]] = [
        ("another schema", {"schema": 2}),
        ("a field too many", {"context": [0.5, 0.5]}),
        ("an arm too many", {"arms": 4}),
        ("other names of arms", {"arm_names": ["leaflet", "visit", "call"]}),
        ("no names of arms", {"arm_names": []}),
        ("wider rewards", {"reward_bounds": {"lower": -1.0, "upper": 3.5}}),
        ("rewards upside down", {"reward_bounds": {"lower": 3.0, "upper": -1.0}}),
        ("two contributions", {"max_contributions": 2}),
        ("a group", {"group_size": 100}),
        ("a dishonest group", {"honest": 0.5}),
        ("a little more epsilon", {"epsilon": float(np.nextafter(content["epsilon"], 9.0))}),
        ("an epsilon that no coin reaches", {"epsilon": 1e-30}),
        ("a stream of its own", {"stream": "elsewhere"}),
        ("another kind", {"kind": "uniform-policy"}),
        ("an unknown kind", {"kind": "quantum-policy"}),
        ("a list as an array", {"thresholds": {"shape": [0], "float64": ""}}),
    ]
    for words, change in changes:
        yield words, json.dumps({**content, **change})
    text = json.dumps(content)
    yield "not JSON", text[:-1]
    yield "no object", f"[{text}]"
    yield "an infinite epsilon", _with(content, "epsilon", "1e999")
    yield "an epsilon that is no number", _with(content, "epsilon", "NaN")
    domain = {**content["domain"], "upper": [2.0 * each for each in content["domain"]["upper"]]}
    yield "a wider domain", json.dumps({**content, "domain": domain})
    if "cells" in content:
        yield from _with_cells(content)
    if "bins" in content:
        nodes = [0] + [2 * level + 2 for level in range(60)]
        tree = {**content["bins"]["tree"], "nodes": nodes, "axes": [0] * len(nodes)}
        active = [[True] * 3] * (len(nodes) + 1)
        offers = [[1.0, 0.0, 0.0]] * (len(nodes) + 1)
        deep = {"bins": {**content["bins"], "tree": tree, "active": active}, "offers": offers}
        yield "a deep tree", json.dumps({**content, **deep})


def _with(content: dict[str, Any], name: str, text: str) -> str:
    """The message with a text in place of a value."""
    return json.dumps({**content, name: "=here="}).replace('"=here="', text)


def _with_cells(content: dict[str, Any]) -> Iterator[tuple[str, str]]:
    cells = content["cells"]
    first = cells["child"][0]
    for words, name, row in (
        ("a node that is its own child", "child", [0, *first[1:]]),
        ("a child beyond the nodes", "child", [len(first), *first[1:]]),
        ("a column that there is not", "axis", [99, *cells["axis"][0][1:]]),
        ("a cut that is no number", "cut", ["0.5", *cells["cut"][0][1:]]),
    ):
        changed = {**cells, name: [row, *cells[name][1:]]}
        yield words, json.dumps({**content, "cells": changed})
    knots = content["ranks"]["knots"]
    falling = {**content["ranks"], "knots": [knots[0][::-1], *knots[1:]]}
    yield "ranks that fall", json.dumps({**content, "ranks": falling})
