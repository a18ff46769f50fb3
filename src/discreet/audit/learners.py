"""Every registered learner, under every trust model that promises something, in all its states.

The list is made from the registry, so a learner is audited from the moment it is registered; one
that the audit's small settings do not suit is listed as not audited, with the reason.

Exact replay shows a wrong sensitivity, a second draw or a leak beside the noise at any epsilon.
Trials of whole runs are dear, so these are at a larger epsilon than mechanisms: what a few hundred
runs can tell apart grows with it.

Learners are attacked new, taught, saved and loaded, and under secure noise. Under local privacy a
learner is taught by people whose best arm is plain, so that within a few thousand reports bins are
cut and resolved, arms are given up and kernels have several cells.

**A dishonest server.** A policy reaches a device as JSON, and may be forged (forgeries.py). A
server may also send the honest policy to act with and a forged one, of the same identity and
version, to report under. Under terms that were agreed before, either the device refuses it whoever
the person is, or the report costs no more than the terms say.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from discreet.action_space import (
    ActionSpace,
    ArmPoints,
    DecisionSets,
    PublicBox,
    PublicSet,
    arm_count,
)
from discreet.audit.exact import (
    SECURE,
    AllRefused,
    Claim,
    Exact,
    NotAudited,
    NothingToAttack,
    worst_neighbours,
    worst_of,
)
from discreet.audit.forgeries import forgeries
from discreet.audit.games import Check, report_game, run_game
from discreet.audit.people import Maker
from discreet.audit.runs import AnyLearner, JointRun, LocalReport, broken_rule
from discreet.domain import Box, RewardBounds, unit_cube
from discreet.experiments.simulation import Setting
from discreet.learners.messages import Policy
from discreet.learners.registry import LEARNERS, announced, learner_class
from discreet.learners.saving import load, save
from discreet.learners.sources import SourceLearner
from discreet.privacy import Budget, Joint, Local, SecureNoise, SimulatedNoise
from discreet.problems.base import Problem
from discreet.validation import FloatArray, InvalidInput

JOINT_EPSILON, LOCAL_EPSILON, DELTA = 8.0, 2.0, 1e-5
# People of a run, and those whom a local learner is told to expect.
JOINT_PEOPLE, LOCAL_PEOPLE = 24, 20_000
# So many trials of the usual kind are one whole run, or one report of a learner.
RUN_COST, REPORT_COST = 500, 5
_ARMS = 3
_SPACES: tuple[tuple[type[Any], str, ActionSpace], ...] = (
    (int, "", _ARMS),
    (ArmPoints, "", ArmPoints.of([0.0, 0.5, 1.0])),
    (DecisionSets, "sets", DecisionSets(3)),
    (PublicBox, "points", PublicBox()),
    (PublicSet, "points", PublicSet.of([[0.0, 0.0], [0.5, 0.5], [1.0, 1.0]])),
)
_LEVELS = Box((0.0, 0.0), (1.0, 1.0), levels=(3, 3))
_SQUARE = unit_cube(2)
_BOUNDS = RewardBounds(-2.0, 3.0)
# Small feature maps, and policies that change during a short run.
_KERNEL = {"kernel": "RBF([1.0, 1.0])", "error": 0.1}
_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "gp_ucb": {**_KERNEL, "growth": 1.5, "update_growth": 2.0},
    "released_thompson": _KERNEL,
    "capri": _KERNEL,
    "usca": _KERNEL,
    "published_partition": {"batch_size": 20},
    **{name: {"cells": [3, 2]} for name in ("noisy_context", "cell_response")},
    "private_linear": {"batch": 40},
    "private_neural": {"batch": 40, "hidden": 3},
}
_PREDICTIONS = 3
# Reports are cheap, so that many people can be compared in every state.
_OTHERS = 30
_LEARNT = "a report under a policy learnt from others"
# So many of the people of an honest report meet every forged policy.
_PEOPLE = 9
SOURCE = "auxiliary"
# Budgets of the states besides the usual one.
_EPSILONS = (0.1, 16.0)
_TAUGHT, _BATCHES = 6000, 12
# How often people come who come more than once.
_VISITS = 3
# So many reports of a person are replayed at most; each is like all others under its policy.
_MOST_VISITS = 10
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


def learner_checks() -> list[Check]:
    """One check or more for every learner in the registry, and every one that is announced."""
    return [check for name in {**LEARNERS, **announced()} for check in checks_of(name)]


def checks_of(name: str) -> Iterator[Check]:
    """One check or more for a learner, by its name or `module:Class`."""
    try:
        kind = learner_class(name)
    except InvalidInput as error:
        yield Check(name, "learner", "none", partial(_raise, error), about="cannot be imported")
        return
    promising = [model for model in kind.trust_models if model != "none"]
    if not promising:
        about = "promises nothing"
        yield Check(name, "learner", "none", about=about, promises_nothing=True)
    spaces = _spaces(kind.spaces)
    for model in promising:
        if model not in ("joint", "local") or not spaces:
            names = ", ".join(each.__name__ for each in kind.spaces)
            missing = NotAudited(
                f"the audit has no design for the trust model {model} on {names}; write a test "
                "that replays it (discreet.audit.exact)."
            )
            yield Check(f"{name}, {model}", "learner", "none", partial(_raise, missing))
            continue
        for label, space in spaces:
            full = ", ".join(part for part in (name, model, label) if part)
            yield from _with_forged(full, _maker(name, model, space))
        if model == "local" and issubclass(kind, SourceLearner):
            yield from _with_forged(f"{name}, sources", _maker(name, model, spaces[0][1]), True)
    if name == "usca":
        maker = _maker(name, "joint", _ARMS, {"predictions": _PREDICTIONS}, delta=0.0)
        check = learner_check("usca, predictions", maker)
        yield replace(
            check,
            exact=lambda: worst_of(joint_states(maker, _PREDICTIONS)),
            game=partial(run_game, bound="counts"),
            about="several predictions from one run",
        )


def _with_forged(name: str, maker: Maker, source: bool = False) -> Iterator[Check]:
    yield learner_check(name, maker, source)
    if maker.budget.protects_reports:
        about = "a report under policies that are forged"
        exact = partial(forged_exact, maker, source)
        yield Check(f"{name}, forged", "learner", "local", exact, about=about)


def learner_check(name: str, maker: Maker, source: bool = False) -> Check:
    """The check of one learner as it is made, or of its auxiliary source."""
    if maker.budget.protects_releases:
        about = f"a run of {maker.people} people"
        runs = partial(joint_states, maker)
        return Check(name, "learner", "joint", lambda: worst_of(runs()), run_game, RUN_COST, about)
    about = "a report of an auxiliary source" if source else _LEARNT
    exact = partial(_worst_report, maker, source)
    return Check(name, "learner", "local", exact, report_game, REPORT_COST, about)


def _worst_report(maker: Maker, source: bool) -> Exact:
    return worst_of(local_states(_with_delta(maker), source), _OTHERS)


def deployed_check(setting: Setting, problem: Problem, rounds: int) -> Check:
    """The check of a learner as a study of so many people would deploy it.

    Under local privacy the attack is on one report, made under a policy of the study's horizon.
    Under joint privacy whole runs are attacked, of fewer people than the study has; the horizon is
    that of these runs, so that releases are made.
    """
    joint = setting.budget.protects_releases
    maker = Maker(
        setting.learner,
        problem.domain,
        problem.space,
        setting.budget,
        min(rounds, JOINT_PEOPLE if joint else LOCAL_PEOPLE),
        setting.options,
        problem.reward_bounds,
        horizon=None if joint else rounds,
    )
    return learner_check(setting.label, maker)


def _spaces(kinds: tuple[type[Any], ...]) -> list[tuple[str, ActionSpace]]:
    """The action spaces to be tried, with a word for each where there are several."""
    offered: dict[str, ActionSpace] = {}
    for kind, word, space in _SPACES:
        if kind in kinds:
            offered.setdefault(word, space)
    return list(offered.items())


def _maker(
    name: str,
    model: str,
    space: ActionSpace,
    more: Mapping[str, Any] | None = None,
    delta: float = DELTA,
) -> Maker:
    joint = model == "joint"
    budget: Budget = Joint(JOINT_EPSILON, delta) if joint else Local(LOCAL_EPSILON)
    arms = isinstance(space, int | ArmPoints)
    return Maker(
        name,
        _LEVELS if joint and arms else _SQUARE,
        space,
        budget,
        JOINT_PEOPLE if joint else LOCAL_PEOPLE,
        {**_OPTIONS.get(name, {}), **(more or {})},
        _BOUNDS,
        horizon=None,
    )


def forged_exact(maker: Maker, source: bool) -> Exact:
    """The worst report under any forged policy, against the terms."""
    maker = _with_delta(maker)
    honest = next(iter(local_states(maker, source)))
    crowd = next(iter(honest.groups()))
    tried = tuple(crowd[:: max(1, len(crowd) // _PEOPLE)])
    base = replace(
        honest, terms=maker.terms(source), certified=None, broken="", tried=tried, bases=2
    )
    findings: list[Exact] = []
    for words, policy in forgeries(honest.policy):
        met = [replace(base, state=words, policy=policy)]
        if isinstance(honest.policy, Policy):
            state = f"{words}, after acting under the honest policy"
            met.append(replace(met[0], state=state, acted_under=honest.policy))
        for subject in met:
            try:
                findings.append(worst_neighbours(subject))
            except (AllRefused, NothingToAttack):
                continue
            if findings[-1].broken:
                return findings[-1]
    return max(findings, key=Exact.order)


def _with_delta(maker: Maker) -> Maker:
    """Reports without a delta if the learner has such, else with one."""
    try:
        maker.make()
    except InvalidInput:
        budget = Local(maker.budget.epsilon, maker.budget.delta or DELTA)
        maker = replace(maker, budget=budget)
        maker.make()
    return maker


def _raise(error: Exception) -> Exact:
    raise error


# The states of a learner.


def joint_states(maker: Maker, predictions: int = 0) -> Iterator[JointRun]:
    """Runs of a learner under joint privacy; the first is searched for the worst people."""
    plain = JointRun(state="a run", maker=maker, predictions=predictions)
    quarter, last = maker.people // 4, maker.people - 1

    def other(state: str, **changed: Any) -> JointRun:
        return replace(plain, state=state, **changed)

    yield plain
    for place in (maker.people // 2, last):
        yield other(f"a run, person {place + 1}", place=place)
    for place in (quarter, last):
        state = f"half of every batch reports late, person {place + 1}"
        yield other(state, variant="late", place=place)
    for place in (0, quarter, last):
        yield other(f"person {place + 1} is alone", variant="alone", place=place)
    yield other(f"saved and loaded, person {quarter + 1}", variant="saved", place=quarter)
    yield other("under SecureNoise", variant="secure")
    for epsilon in _EPSILONS:
        budget = maker.budget.at(epsilon)
        yield other(f"epsilon {epsilon:g}", maker=replace(maker, budget=budget))
    for often, place in product(_often(maker), (0, last)):
        yield other(f"{_VISITS} visits of person {place + 1}", maker=often, place=place)
    longer = replace(maker, people=_LONG, horizon=None)
    for place in (0, _LONG // 3):
        yield other(f"a run of {_LONG} people, person {place + 1}", maker=longer, place=place)
    for name, options in _OTHER_OPTIONS.get(maker.learner, {}).items():
        yield other(name, maker=replace(maker, options={**maker.options, **options}))
    if maker.learner in _SAMPLED:
        # Rows are bounded over the sample; whoever lies elsewhere may have a longer one.
        options = {**maker.options, "contexts": _SAMPLE}
        sampled = replace(maker, domain=unit_cube(2), options=options)
        yield other("contexts far from the public sample", maker=sampled)
    if predictions:
        for point in maker.crowd().points(np.random.default_rng(_SEED))[:4]:
            yield other(f"{predictions} predictions for {point}", asked_at=point)


def local_states(maker: Maker, source: bool) -> Iterator[LocalReport]:
    """Reports under policies of a learner in several states."""
    taught = _taught(maker, source, _TAUGHT)
    yield from _reports(taught, maker, source, "taught", tickets=2)
    yield from _reports(_loaded(taught), maker, source, "saved and loaded")
    yield from _reports(_taught(maker, source, 0), maker, source, "new")
    yield from _reports(taught, maker, source, "under SecureNoise", safe=True)
    for epsilon in _EPSILONS:
        other = replace(maker, budget=maker.budget.at(epsilon))
        learner = _taught(other, source, 0 if epsilon < 1.0 else _TAUGHT)
        yield from _reports(learner, other, source, f"epsilon {epsilon:g}", tickets=2)
    for often in () if source else _often(maker):
        yield from _reports(_taught(often, source, _TAUGHT), often, source, f"{_VISITS} visits")


def _often(maker: Maker) -> tuple[Maker, ...]:
    """The same for people who come more than once; none where they do, or where none can."""
    budget = maker.budget
    if not isinstance(budget, Joint | Local) or budget != replace(budget, visits=1):
        return ()
    if not learner_class(maker.learner).acts_silently:
        return ()
    return (replace(maker, budget=replace(budget, visits=_VISITS)),)


def _reports(
    learner: AnyLearner,
    maker: Maker,
    source: bool,
    state: str,
    tickets: int = 1,
    safe: bool = False,
) -> Iterator[LocalReport]:
    if source:
        assert isinstance(learner, SourceLearner)
        policy: Any = learner.source_policy(SOURCE)
        held = learner.source_guarantees()[SOURCE]
    else:
        policy = learner.policy()
        held = learner.guarantee()
    release = policy.release(SecureNoise.name if safe and SECURE else SimulatedNoise.name)
    words = f"{state}, version {policy.version}, {release.mechanism}"
    report = LocalReport(
        state=words,
        people=maker.crowd(),
        policy=policy,
        asked=maker.asked(source),
        certified=Claim(held.epsilon, held.delta),
        terms=maker.terms(source) if safe else None,
        secure=safe,
        visits=1 if source else min(maker.budget.visits, _MOST_VISITS),
        broken=broken_rule(maker, learner, policy),
    )
    yield replace(report, state=f"{words}, ticket 0") if tickets > 1 else report
    for ticket in range(1, tickets):
        yield replace(report, state=f"{words}, ticket {ticket}", ticket=ticket)


def _loaded(learner: AnyLearner) -> AnyLearner:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "learner.json"
        save(learner, path)
        return load(path)


def _taught(maker: Maker, source: bool, people: int) -> AnyLearner:
    """A learner that has heard from so many people, its own or those of its source."""
    learner = maker.make()
    if source:
        assert isinstance(learner, SourceLearner)
        learner.open_source(SOURCE, maker.budget.epsilon)
        _teach_source(learner, maker, people)
    else:
        _teach(learner, maker, people)
    return learner


def _teach(learner: AnyLearner, maker: Maker, count: int) -> None:
    people, rng, noise = maker.crowd(), np.random.default_rng(_SEED), SimulatedNoise(_SEED)
    came = 0
    while came < count:
        policy = learner.policy()
        step = min(max(learner.batch_size, count // _BATCHES), count - came)
        contexts = people.contexts(people.crowd(step, rng))
        actions, _ = policy.act(contexts, rng)
        if people.arms:
            rewards = people.in_units(_plain(maker, contexts, actions.arms))
        else:
            rewards = people.rewards(people.table(step, rng), actions)
        learner.update(policy.report(contexts, actions, rewards, noise))
        came += step
    learner.policy()


def _teach_source(learner: Any, maker: Maker, count: int) -> None:
    people, rng, noise = maker.crowd(), np.random.default_rng(_SEED), SimulatedNoise(_SEED)
    for start in range(0, count, max(1, count // _BATCHES)):
        step = min(count // _BATCHES, count - start)
        policy = learner.source_policy(SOURCE)
        contexts = people.contexts(people.crowd(step, rng))
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
    return np.where(best == np.asarray(arms), 0.95, 0.05)
