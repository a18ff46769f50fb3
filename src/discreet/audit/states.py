"""The states in which learners are attacked: new, taught, saved and loaded, under secure noise.

Under local privacy a learner is taught by people whose best arm is plain, so that within a few
thousand reports bins are cut and resolved, arms are given up and kernels have several cells.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from discreet.action_space import arm_count
from discreet.audit.games import Claim
from discreet.audit.makers import Maker
from discreet.audit.reports import LocalReport
from discreet.audit.rules import broken_rule
from discreet.audit.runs import JointRun
from discreet.domain import unit_cube
from discreet.learners.base import Learner
from discreet.learners.saving import load, save
from discreet.learners.sources import SourceLearner
from discreet.learners.terms import Terms
from discreet.privacy import Budget, Joint, Local, SimulatedNoise
from discreet.privacy.noise import SecureNoise
from discreet.validation import FloatArray

SOURCE = "auxiliary"
# Budgets of the states besides the usual one.
_EPSILONS = (0.1, 16.0)
_TAUGHT, _BATCHES = 6000, 12
_LONG = 200
# Options with which sensitivities are worked out in another way.
_OTHER_OPTIONS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "gp_ucb": {
        "rewards weigh more": {"reward_weight": 2.4},
        "rewards weigh much more": {"reward_weight": 4.0},
    }
}
_SAMPLED = ("capri", "released_thompson", "usca")
_SAMPLE = ((0.1, 0.1), (0.2, 0.1), (0.1, 0.3))
_SEED = 9


def secure() -> bool:
    """Whether SecureNoise can be attacked here."""
    return find_spec("opendp") is not None


def _with_epsilon(maker: Maker, epsilon: float) -> Maker:
    budget: Budget = (
        Joint(epsilon, maker.budget.delta)
        if isinstance(maker.budget, Joint)
        else Local(epsilon, maker.budget.delta)
    )
    return replace(maker, budget=budget)


def joint_states(maker: Maker, predictions: int = 0) -> Iterator[JointRun]:
    """Runs of a learner under joint privacy; the first is searched for the worst people."""
    last = maker.people - 1
    plain = JointRun("a run", maker=maker, predictions=predictions)
    yield plain
    for place in (maker.people // 2, last):
        yield replace(plain, state=f"a run, person {place + 1}", place=place)
    for place in (maker.people // 4, last):
        state = f"half of every batch reports late, person {place + 1}"
        yield replace(plain, state=state, variant="late", place=place)
    place = maker.people // 4
    state = f"saved and loaded, person {place + 1}"
    yield replace(plain, state=state, variant="saved", place=place)
    if secure():
        yield replace(plain, state="under SecureNoise", variant="secure")
    for epsilon in _EPSILONS:
        yield replace(plain, state=f"epsilon {epsilon:g}", maker=_with_epsilon(maker, epsilon))
    longer = replace(maker, people=_LONG, horizon=None)
    for place in (0, _LONG // 3):
        state = f"a run of {_LONG} people, person {place + 1}"
        yield replace(plain, state=state, maker=longer, place=place)
    for name, options in _OTHER_OPTIONS.get(maker.learner, {}).items():
        other = replace(maker, options={**maker.options, **options})
        yield replace(plain, state=name, maker=other)
    if maker.learner in _SAMPLED:
        # Rows are bounded over the sample; whoever lies elsewhere may have a longer one.
        options = {**maker.options, "contexts": _SAMPLE}
        other = replace(maker, domain=unit_cube(2), options=options)
        yield replace(plain, state="contexts far from the public sample", maker=other)
    if predictions:
        for point in maker.crowd().points(np.random.default_rng(_SEED))[:4]:
            state = f"{predictions} predictions for {point}"
            yield replace(plain, state=state, asked_at=point)


def local_states(maker: Maker, source: bool) -> Iterator[LocalReport]:
    """Reports under policies of a learner in several states."""
    taught = _taught(maker, source, _TAUGHT)
    yield from _reports(taught, maker, source, "taught", tickets=2)
    yield from _reports(_loaded(taught), maker, source, "saved and loaded", tickets=1)
    yield from _reports(_taught(maker, source, 0), maker, source, "new", tickets=1)
    if secure():
        yield from _reports(taught, maker, source, "under SecureNoise", tickets=1, safe=True)
    for epsilon in _EPSILONS:
        other = _with_epsilon(maker, epsilon)
        count = 0 if epsilon < 1.0 else _TAUGHT
        yield from _reports(
            _taught(other, source, count), other, source, f"epsilon {epsilon:g}", tickets=2
        )


def _reports(
    learner: Learner[Any, Any, Any],
    maker: Maker,
    source: bool,
    state: str,
    tickets: int,
    safe: bool = False,
) -> Iterator[LocalReport]:
    budget = maker.budget
    name = SecureNoise.name if safe else SimulatedNoise.name
    if source:
        assert isinstance(learner, SourceLearner)
        policy: Any = learner.source_policy(SOURCE)
        held = learner.source_guarantees()[SOURCE]
    else:
        policy = learner.policy()
        held = learner.guarantee()
    broken = broken_rule(maker, learner, policy)
    release = policy.release(name)
    terms = Terms(
        maker.domain,
        maker.space,
        budget.epsilon,
        maker.bounds,
        0.0 if source else budget.delta,
    )
    for ticket in range(tickets):
        yield LocalReport(
            f"{state}, version {policy.version}, {release.mechanism}"
            + (f", ticket {ticket}" if tickets > 1 else ""),
            people=maker.crowd(),
            policy=policy,
            asked=Claim(budget.epsilon, 0.0 if source else budget.delta),
            certified=Claim(held.epsilon, held.delta),
            terms=terms if safe else None,
            secure=safe,
            ticket=ticket,
            broken=broken,
        )


def _loaded(learner: Learner[Any, Any, Any]) -> Learner[Any, Any, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "learner.json"
        save(learner, path)
        return load(path)


def _taught(maker: Maker, source: bool, people: int) -> Learner[Any, Any, Any]:
    """A learner that has heard from so many people, its own or those of its source."""
    learner = maker.make()
    if source:
        assert isinstance(learner, SourceLearner)
        learner.open_source(SOURCE, maker.budget.epsilon)
        _teach_source(learner, maker, people)
    else:
        _teach(learner, maker, people)
    return learner


def _teach(learner: Learner[Any, Any, Any], maker: Maker, count: int) -> None:
    people, rng, noise = maker.crowd(), np.random.default_rng(_SEED), SimulatedNoise(_SEED)
    came = 0
    while came < count:
        policy = learner.policy()
        step = min(max(learner.batch_size, count // _BATCHES), count - came)
        contexts = people.crowd(step, rng)
        actions, _ = policy.act(contexts, rng)
        if arm_count(maker.space) is None:
            rewards = people.rewards(people.table(step, rng), actions)
        else:
            rewards = people.in_units(_plain(maker, contexts, actions.arms))
        learner.update(policy.report(contexts, actions, rewards, noise))
        came += step
    learner.policy()


def _teach_source(learner: Any, maker: Maker, count: int) -> None:
    people, rng, noise = maker.crowd(), np.random.default_rng(_SEED), SimulatedNoise(_SEED)
    for start in range(0, count, max(1, count // _BATCHES)):
        step = min(count // _BATCHES, count - start)
        policy = learner.source_policy(SOURCE)
        contexts = people.crowd(step, rng)
        arms = rng.integers(policy.arms, size=step)
        rewards = people.in_units(_plain(maker, contexts, arms))
        learner.update_source(policy.report(contexts, arms, rewards, noise))
        if start == count // 2:
            _teach(learner, maker, count // 4)


def _plain(maker: Maker, contexts: FloatArray, arms: Any) -> FloatArray:
    """(n,) rewards in [0, 1]: the arm whose slice of the first column holds the context is best."""
    count = arm_count(maker.space) or 2
    unit = maker.domain.to_unit(contexts)[:, 0]
    best = np.minimum((unit * count).astype(np.int64), count - 1)
    found: FloatArray = np.where(best == np.asarray(arms), 0.95, 0.05)
    return found
