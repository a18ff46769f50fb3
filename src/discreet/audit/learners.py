"""Every registered learner, under every trust model that promises something, in all its states.

The list is made from the registry, so a learner is audited from the moment it is registered; one
that the audit's small settings do not suit is listed as not audited, with the reason.

Exact replay shows a wrong sensitivity, a second draw or a leak beside the noise at any epsilon.
Whole runs are tried besides (trials.py), at a larger epsilon than mechanisms: what a few hundred
runs can tell apart grows with it.

Learners are attacked new, taught, saved and loaded, past version 40, with a half-life, and under
secure noise. Under local privacy a learner is taught by people whose best arm is plain, so that
within a few thousand reports bins are cut and resolved, arms are given up and kernels have several
cells; and beside two sources, of which one is given up, each with an epsilon of its own. Reports
are replayed under every public coin of several dozen by which another mechanism is used than
before.

**A dishonest server.** A policy reaches a device as JSON, and may be forged (`forgeries`). A
server may also send the honest policy to act with and a forged one, of the same identity and
version, to report under. Under terms that were agreed before, either the device refuses it for
every person, or the report costs no more than the terms allow.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import product
from operator import mul
from pathlib import Path
from typing import Any

import numpy as np

from discreet.audit.checks import Check
from discreet.audit.replay import (
    SECURE,
    AllRefused,
    Claim,
    Exact,
    NotAudited,
    NothingToAttack,
    Transcript,
    capturing,
    evenly_spaced,
    worst_neighbours,
    worst_of,
    written_out,
)
from discreet.audit.runs import (
    SOURCE,
    AnyLearner,
    JointRun,
    LocalReport,
    Maker,
    Person,
    broken_rule,
)
from discreet.audit.tape import NoiseTape, loss_between, watching
from discreet.codec import decode, encode
from discreet.lab.environments.base import Problem
from discreet.lab.experiments.simulation import Setting
from discreet.learners.kernel.cells import Cells
from discreet.learners.kernel.policy import KernelPolicy
from discreet.learners.policy import TARGET_NAME, Policy
from discreet.learners.registry import LEARNERS, learner_class, variant
from discreet.learners.saving import load, save
from discreet.people.domain import (
    ActionSpace,
    ArmPoints,
    Box,
    DecisionSets,
    PublicBox,
    PublicSet,
    RewardBounds,
    arm_count,
    unit_cube,
)
from discreet.privacy import Budget, Joint, Local, SecureNoise, Shuffled, SimulatedNoise
from discreet.validation import FloatArray, InvalidInput

JOINT_EPSILON, LOCAL_EPSILON, DELTA = 8.0, 2.0, 1e-5
# People of a run, and the horizon of a local learner.
JOINT_PEOPLE, LOCAL_PEOPLE = 24, 20_000
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
    "capri": _KERNEL,
    "usca": _KERNEL,
    "kernel, joint": {"first": 6, "growth": 0.5},
    "best_arm, joint": {"first": 6, "growth": 0.5},
    "published_partition": {"batch_size": 20},
    "private_linear": {"batch": 40},
    "private_neural": {"batch": 40, "hidden": 3},
}
_PREDICTIONS = 3
# How many people are compared in every state besides the worst two: reports are cheap.
_WHOLE_RUNS, _OTHERS = 1, 24
_LEARNT = "a report under a policy learnt from others"
# The number of people who report under every forged policy.
_PEOPLE = 7
# Budgets of the states besides the usual one.
_EPSILONS = (0.1, 16.0)
_TAUGHT, _BATCHES = 6000, 6
_BRIEFLY, _FEW = 1500, 3
# Late policies are of at least this version, but for learners that change them more rarely.
_LATE, _LATE_BATCH = 45, 500
# The taught policy is replayed under these versions too: code may depend on the number alone.
_VERSIONS = (_LATE, 60, 1000)
# Public coins that are tried, and the most of these that are replayed for using other mechanisms.
_PUBLIC_COINS, _BRANCHES = 48, 6
# Recorded runs where a few outcomes of many tell.
_OUTCOMES = 16
# Sources with an epsilon of their own, as shares of the target's; the second contradicts it.
_SHARES = {SOURCE: 0.4, "contrary": 1.5}
# People after whom a report counts half, under joint and under local privacy.
_HALF_LIFE = {"joint": 16.0, "local": 1500.0}
# How often people come who come more than once.
_CONTRIBUTIONS = 3
_MANY_CONTRIBUTIONS = 60
# The most reports of a person that are replayed; all under one policy are alike.
_MOST_CONTRIBUTIONS = 10
_LONG = 200
# Options that change how sensitivities are computed.
_OTHER_OPTIONS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "gp_ucb": {
        "rewards weigh more": {"reward_weight": 2.4},
        "rewards weigh much more": {"reward_weight": 4.0},
    },
    "kernel": {"the noise of rewards is known": {"reward_noise": 0.3}},
    "best_arm": {"the noise of rewards is known": {"reward_noise": 0.3}},
}
_SAMPLED = ("capri", "usca")
_SAMPLE = ((0.1, 0.1), (0.2, 0.1), (0.1, 0.3))
_SEED = 9
_GROUP = 50


def learner_checks() -> list[Check]:
    """One check or more for every learner in the registry."""
    return [check for name in LEARNERS for check in checks_of(name)]


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
        yield Check(name, "learner", "none", about=about)
    spaces = _spaces(kind.spaces)
    for model in promising:
        if model not in ("joint", "local", "shuffled") or not spaces:
            names = ", ".join(each.__name__ for each in kind.spaces)
            missing = NotAudited(
                f"the audit has no design for the trust model {model} on {names}; write a test "
                "that replays it (discreet.audit.replay)."
            )
            yield Check(f"{name}, {model}", "learner", "none", partial(_raise, missing))
            continue
        for label, space in spaces:
            full = ", ".join(part for part in (name, model, label) if part)
            yield from _with_forged(full, _maker(name, model, space))
        if model == "local" and kind.takes_sources:
            yield from _with_forged(f"{name}, sources", _maker(name, model, spaces[0][1]), True)
    if name == "usca":
        maker = _maker(name, "joint", _ARMS, {"predictions": _PREDICTIONS}, delta=0.0)
        check = learner_check("usca, predictions", maker)
        yield replace(
            check,
            exact=partial(_worst_run, maker, _PREDICTIONS),
            about="several predictions from one run",
            bound="counts",
        )


def _with_forged(name: str, maker: Maker, source: bool = False) -> Iterator[Check]:
    yield learner_check(name, maker, source)
    if maker.budget.is_local:
        about = "a report under policies that are forged"
        exact = partial(forged_exact, maker, source)
        yield Check(f"{name}, forged", "learner", "local", exact, about=about)


def learner_check(name: str, maker: Maker, source: bool = False) -> Check:
    """The check of one learner as it is made, or of its auxiliary source."""
    if maker.budget.is_central:
        about = f"a run of {maker.people} people"
        return Check(name, "learner", "joint", partial(_worst_run, maker), about, "gaussian")
    if maker.budget.group > 1:
        about, first = "a report by itself, before it is shuffled", partial(_shuffled_states, maker)
        return Check(name, "learner", "shuffled", lambda: worst_of(first(), _OTHERS), about)
    about = "a report of an auxiliary source" if source else _LEARNT
    exact = partial(_worst_report, maker, source)
    return Check(name, "learner", "local", exact, about)


def _worst_run(maker: Maker, predictions: int = 0) -> Exact:
    return worst_of(joint_states(maker, predictions), _WHOLE_RUNS)


def _worst_report(maker: Maker, source: bool) -> Exact:
    return worst_of(local_states(_with_delta(maker), source), _OTHERS)


def deployed_check(setting: Setting, problem: Problem, rounds: int) -> Check:
    """The check of a learner as a study of `rounds` people would deploy it.

    Under local privacy the attack is on one report, made under a policy of the study's horizon.
    Under joint privacy whole runs are attacked, of fewer people than the study has; the horizon is
    that of these runs, so that releases are made.
    """
    joint = setting.budget.is_central
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
    if model == "shuffled":
        budget = Shuffled(1.0, delta, group=_GROUP)
    return Maker(
        name,
        _LEVELS if joint and not isinstance(space, DecisionSets) else _SQUARE,
        space,
        budget,
        JOINT_PEOPLE if joint else LOCAL_PEOPLE,
        {**_OPTIONS.get(name, _OPTIONS.get(f"{name}, {model}", {})), **(more or {})},
        _BOUNDS,
        horizon=None,
    )


def forged_exact(maker: Maker, source: bool) -> Exact:
    """The worst report under any forged policy, against the terms."""
    maker = _with_delta(maker)
    taught = _taught(maker, source, _TAUGHT, _FEW)
    honest = _report(taught, maker, source, "taught")
    crowd = next(iter(honest.groups()))
    tried = tuple(evenly_spaced(crowd, _PEOPLE))
    terms = maker.terms(source)
    base = replace(honest, terms=terms, certified=None, broken="", tried=tried, bases=1)
    findings: list[Exact] = []
    for words, policy in forgeries(honest.policy):
        met = [replace(base, state=words, policy=policy)]
        if honest.policy.chooses:
            state = f"{words}, after acting under the honest policy"
            met.append(replace(met[0], state=state, acted_under=honest.policy))
        for subject in met:
            try:
                findings.append(worst_neighbours(subject))
            except (AllRefused, NothingToAttack):
                continue
            if findings[-1].broken:
                return findings[-1]
    if not findings:
        raise NothingToAttack(
            f"no forged policy of {maker.learner} leads to a report; forge others (forgeries)."
        )
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
    yield other(f"a run, person {last + 1}", place=last)
    state = f"half of every batch reports late, person {quarter + 1}"
    yield other(state, variant="late", place=quarter)
    yield other("person 1 alone reports late", variant="lagging")
    for place in (0, last):
        yield other(f"person {place + 1} is alone", variant="alone", place=place)
    for place in (quarter, 2 * maker.people // 3):
        yield other(f"saved and loaded, person {place + 1}", variant="saved", place=place)
    for discounted in _discounting(maker):
        yield other("with a half-life", maker=discounted)
    if _class_of(maker).takes_sources:
        yield other("beside a source", variant="source")
    yield other("under SecureNoise", variant="secure")
    for epsilon in _EPSILONS:
        budget = maker.budget.at(epsilon)
        yield other(f"epsilon {epsilon:g}", maker=replace(maker, budget=budget))
    for often, place in product(_often(maker), (0, last)):
        yield other(
            f"{_CONTRIBUTIONS} contributions of person {place + 1}", maker=often, place=place
        )
    longer = replace(maker, people=_LONG, horizon=None)
    yield other(f"a run of {_LONG} people", maker=longer)
    for name, options in _OTHER_OPTIONS.get(maker.learner, {}).items():
        yield other(name, maker=replace(maker, options={**maker.options, **options}))
    if maker.learner in _SAMPLED:
        # Rows are bounded over the sample; people elsewhere may have longer ones.
        options = {**maker.options, "contexts": _SAMPLE}
        sampled = replace(maker, domain=unit_cube(2), options=options)
        yield other("contexts far from the public sample", maker=sampled)
        for corner in ((0.0, 0.0), (1.0, 1.0)) if predictions else ():
            people = tuple(Person((corner,), reward) for reward in (1.0, 0.0))
            state = f"{predictions} predictions for {corner}, far from the public sample"
            yield other(state, maker=sampled, asked_at=corner, tried=people)
    if predictions:
        # Contributions in one sum are a group, for which a delta earns nothing however many
        # there are.
        many = Joint(maker.budget.epsilon, DELTA, max_contributions=_MANY_CONTRIBUTIONS)
        state = f"{_MANY_CONTRIBUTIONS} contributions of a person, delta {DELTA:g}"
        yield other(state, maker=replace(longer, budget=many))
        for point in maker.crowd().points(np.random.default_rng(_SEED))[:4]:
            yield other(f"{predictions} predictions for {point}", asked_at=point)


def _shuffled_states(maker: Maker) -> Iterator[LocalReport]:
    """Reports under policies of a learner that sees whole groups."""
    for people in (0, 4 * maker.budget.group):
        learner = _taught(maker, False, people)
        yield from _branches(_report(learner, maker, False, f"after {people} reports"))
    yield _report(learner, maker, False, "under SecureNoise", safe=True)


def local_states(maker: Maker, source: bool) -> Iterator[LocalReport]:
    """Reports under policies of a learner in several states."""
    taught = _taught(maker, source, _TAUGHT)
    yield from _branches(_report(taught, maker, source, "taught", rules=True))
    yield _report(taught, maker, source, "under SecureNoise", safe=True)
    loaded = _loaded(taught)
    yield replace(_report(loaded, maker, source, "saved and loaded"), bases=1)
    late = _report(_aged(loaded, maker, source), maker, source, "long taught", rules=True)
    yield from _branches(replace(late, bases=1))
    taught_report = _report(taught, maker, source, "taught")
    for version in _VERSIONS:
        numbered = replace(taught_report.policy, version=version)
        words = f"taught, as version {version}"
        yield replace(taught_report, state=words, policy=numbered, bases=1)
    for words, policy in _of_rewards(taught_report.policy):
        yield replace(taught_report, state=f"taught, {words}", policy=policy, bases=1)
    yield _report(_taught(maker, source, 0), maker, source, "new")
    for epsilon in _EPSILONS:
        other = replace(maker, budget=maker.budget.at(epsilon))
        for people in (0,) if epsilon < 1.0 else (_BRIEFLY, 0):
            state = f"epsilon {epsilon:g}, {people} people"
            report = _report(_taught(other, source, people, _FEW), other, source, state)
            yield from _branches(replace(report, bases=2))
    if _class_of(maker).takes_sources:
        mixed, share = _mixed(maker), _SHARES[SOURCE] if source else 1.0
        own = replace(maker, budget=maker.budget.at(share * maker.budget.epsilon))
        yield replace(_report(mixed, own, source, "beside two sources", rules=True), bases=1)
    if source:
        for words, policy in without_flags(taught_report.policy):
            yield replace(taught_report, state=f"taught, {words}", policy=policy, bases=_OUTCOMES)
        return
    for often in _often(maker):
        words = f"{_CONTRIBUTIONS} contributions, delta {often.budget.delta:g}"
        learner = _taught(often, source, _BRIEFLY, _FEW)
        yield replace(_report(learner, often, source, words), bases=1)
    for discounted in _discounting(maker):
        learner = _taught(discounted, source, _BRIEFLY, _FEW)
        yield replace(_report(learner, discounted, source, "with a half-life"), bases=1)
    for words, options in _OTHER_OPTIONS.get(maker.learner, {}).items():
        other = replace(maker, options={**maker.options, **options})
        learner = _taught(other, source, _BRIEFLY, _FEW)
        yield replace(_report(learner, other, source, words), bases=1)


def _of_rewards(policy: Policy[Any]) -> Iterator[tuple[str, Policy[Any]]]:
    """The policy with other ranges of rewards, and with thresholds in their place."""
    if isinstance(policy, KernelPolicy):
        clipped = replace(policy, clipping_range=(0.25, 0.5))
        yield "rewards clipped", clipped
        yield "rewards clipped about predicted ones", replace(clipped, centres=policy.directions[0])
        thresholds = tuple(np.linspace(0.1, 0.9, policy.partitions).tolist())
        whole = Cells.whole(policy.partitions)
        yield "thresholds of rewards", replace(policy, thresholds=thresholds, cells=whole)


def _class_of(maker: Maker) -> type[AnyLearner]:
    """The class of its learners."""
    return variant(learner_class(maker.learner), maker.space, maker.budget.trust_model)


def _often(maker: Maker) -> tuple[Maker, ...]:
    """The same for people who come more than once; none where they do, or where none can."""
    budget = maker.budget
    if not isinstance(budget, Joint | Local) or budget != replace(budget, max_contributions=1):
        return ()
    if not _class_of(maker).acts_silently:
        return ()
    budgets = [replace(budget, max_contributions=_CONTRIBUTIONS)]
    if budget.is_local and budget.delta == 0.0:
        # Several pure reports may each cost more than a third of it where there is a delta.
        budgets.append(replace(budgets[0], delta=DELTA))
    return tuple(replace(maker, budget=each) for each in budgets)


def _discounting(maker: Maker) -> tuple[Maker, ...]:
    """The same with reports that count less and less; none for learners without that option."""
    if "half_life" not in _class_of(maker).option_names():
        return ()
    half_life = _HALF_LIFE["joint" if maker.budget.is_central else "local"]
    return (replace(maker, options={**maker.options, "half_life": half_life}),)


def _branches(report: LocalReport) -> list[LocalReport]:
    """The report under the first public coin, and under public coins that behave differently.

    A public coin behaves differently if another mechanism is used, or if the loss or the transcript
    of two people differs in a new way.
    """
    crowd = next(iter(report.groups()))
    people = crowd[0], crowd[min(3, len(crowd) - 1)]
    branches: dict[tuple[object, ...], LocalReport] = {}
    with watching(), capturing():
        for public_coin in range(_PUBLIC_COINS):
            state = f"{report.state}, public coin {public_coin}"
            there = replace(report, state=state, public_coin=public_coin)
            bases = min(report.bases, 2) if branches else report.bases
            branches.setdefault(_branch(there, *people), replace(there, bases=bases))
            if len(branches) == _BRANCHES:
                break
    return list(branches.values())


def _branch(report: LocalReport, person: Person, other: Person) -> tuple[object, ...]:
    """The mechanisms used, and how the reports of two people differ."""
    tape, transcript = NoiseTape(report.public_coin), Transcript()
    played, others = NoiseTape(report.public_coin), Transcript()
    with written_out(transcript), tape.recording():
        report.run(person, transcript)
    with written_out(others), played.playing(tape):
        report.run(other, others)
    used = [(draw.kind, repr(draw.mechanism), draw.value.shape) for draw in tape.draws]
    shown = transcript.difference(others) or played.astray
    loss = loss_between(tape.draws, played.draws)
    lost = 0 if loss.reason else round(loss.epsilon(report.asked.delta), 1)
    return *used, shown, loss.reason, transcript.refused, lost


def _report(
    learner: AnyLearner,
    maker: Maker,
    source: bool,
    state: str,
    safe: bool = False,
    rules: bool = False,
) -> LocalReport:
    """A report under the learner's policy, its own or that of its source; with all `rules` kept."""
    stream = SOURCE if source else TARGET_NAME
    policy: Any = learner.policy(stream)
    held = learner.streams[stream].guarantee() if source else learner.guarantee()
    release = policy.release(SecureNoise.name if safe and SECURE else SimulatedNoise.name)
    words = f"{state}, version {policy.version}, {release.mechanism}"
    return LocalReport(
        state=words,
        people=maker.crowd(),
        policy=policy,
        asked=maker.asked(source),
        certified=Claim(held.epsilon, held.delta)
        if held.report_epsilon is None
        else Claim(held.report_epsilon),
        terms=maker.terms(source) if safe else None,
        secure=safe,
        max_contributions=1 if source else min(maker.budget.max_contributions, _MOST_CONTRIBUTIONS),
        broken=broken_rule(maker, learner, policy) if rules else "",
    )


def _loaded(learner: AnyLearner) -> AnyLearner:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "learner.json"
        save(learner, path)
        return load(path)


def _taught(maker: Maker, source: bool, people: int, batches: int = _BATCHES) -> AnyLearner:
    """A learner after reports of that many people, its own or those of its source."""
    learner = maker.make()
    if source:
        learner.open_source(SOURCE, maker.budget.epsilon)
        _teach_source(learner, maker, people, SOURCE, batches)
    else:
        _teach(learner, maker, people, batches)
    return learner


def _mixed(maker: Maker) -> AnyLearner:
    """A learner with two sources, whose people have other epsilons than its own; the rewards of one
    source are the opposite of the target's."""
    learner = maker.make()
    for name, share in _SHARES.items():
        learner.open_source(name, share * maker.budget.epsilon)
    for name in _SHARES:
        _teach_source(learner, maker, _TAUGHT // 2, name, 2)
    return learner


def _aged(learner: Any, maker: Maker, source: bool) -> AnyLearner:
    """The learner after policies up to version 45, as far as a few hundred people make one."""
    for _ in range(_LATE):
        stream = SOURCE if source else TARGET_NAME
        batch, policy = learner.batch_of(stream), learner.policy(stream)
        if policy.version >= _LATE or batch > _LATE_BATCH:
            break
        if source:
            _teach_source(learner, maker, batch, SOURCE, 1)
        else:
            _teach(learner, maker, batch, 1)
    made: AnyLearner = learner
    return made


def _teach(learner: AnyLearner, maker: Maker, count: int, batches: int = _BATCHES) -> None:
    people, rng, noise = maker.crowd(), np.random.default_rng(_SEED), SimulatedNoise(_SEED)
    came = 0
    while came < count:
        policy = learner.policy()
        step = min(max(learner.batch_of(), count // batches), count - came)
        if step % maker.budget.group:  # the last people fill no group
            break
        contexts = people.contexts(people.crowd(step, rng))
        actions, _ = policy.act(contexts, rng)
        if people.arms:
            rewards = people.in_units(_plain(maker, contexts, actions.arms))
        else:
            rewards = people.rewards(people.table(step, rng), actions)
        learner.update(policy.report(contexts, actions, rewards, noise))
        came += step
    learner.policy()


def _teach_source(
    learner: Any, maker: Maker, count: int, name: str, batches: int = _BATCHES
) -> None:
    people, rng, noise = maker.crowd(), np.random.default_rng(_SEED), SimulatedNoise(_SEED)
    for start in range(0, count, max(1, count // batches)):
        step = min(count // batches, count - start)
        policy = learner.policy(name)
        contexts = people.contexts(people.crowd(step, rng))
        arms = rng.integers(policy.arms, size=step)
        shares = _plain(maker, contexts, arms)
        rewards = people.in_units(shares if name == SOURCE else 1.0 - shares)
        learner.update(policy.report(contexts, arms, rewards, noise))
        if start == count // 2 and batches > 1:
            _teach(learner, maker, count // 4, batches)


def _plain(maker: Maker, contexts: FloatArray, arms: Any) -> FloatArray:
    """(n,) rewards in [0, 1]: the arm whose slice of the first column holds the context is best."""
    count = arm_count(maker.space) or 2
    unit = maker.domain.to_unit(contexts)[:, 0]
    best = np.minimum((unit * count).astype(np.int64), count - 1)
    return np.where(best == np.asarray(arms), 0.95, 0.05)


# Lists longer than this are forged as a whole, never entry by entry.
_SHORT = 2
_FACTORS = (0.01, 0.5, 2.0, 100.0)
_QUIETER = 0.5


def forgeries(policy: Policy[Any]) -> Iterator[tuple[str, Any]]:
    """Forged policies that a reader accepts, with what was forged."""
    content = json.loads(encode(policy))
    for words, forged in altered(content, ""):
        if forged == content:
            continue
        try:
            yield words, decode(json.dumps(forged), Policy)
        except ValueError:
            continue  # refused by the reader, before anybody's data is there


def without_flags(policy: Policy[Any]) -> Iterator[tuple[str, Any]]:
    """Policies that differ by one flag that is off, such as an arm that was given up somewhere."""
    for words, forged in _off(json.loads(encode(policy)), ""):
        try:
            yield words, decode(json.dumps(forged), Policy)
        except ValueError:
            continue  # no state of a learner


def _off(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """(words, other value) of a message with the first flag of each table off."""
    if isinstance(value, dict):
        for key, item in value.items():
            for words, other in _off(item, f"{name}.{key}".removeprefix(".")):
                yield words, {**value, key: other}
    elif isinstance(value, list) and value and isinstance(value[0], bool | list):
        for words, other in _off(value[0], name):
            yield words, [other, *value[1:]]
        if value[0] is True:
            yield f"one of {name} false", [False, *value[1:]]


def altered(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """(words, other value) of all forgeries of a part of a message with that name."""
    if isinstance(value, dict):
        numbers = {key: item for key, item in value.items() if isinstance(item, float)}
        if len(numbers) > 1:
            quieter = {key: _QUIETER * item for key, item in numbers.items()}
            yield f"all numbers of {name or 'the policy'} halved", {**value, **quieter}
        for key, item in value.items():
            for words, other in altered(item, f"{name}.{key}".removeprefix(".")):
                yield words, {**value, key: other}
    elif isinstance(value, float):
        for factor in _FACTORS:
            yield f"{name} times {factor:g}", factor * value
    elif isinstance(value, int) and not isinstance(value, bool):
        yield f"{name} plus 1", value + 1
    elif isinstance(value, list) and value:
        leaves = list(_leaves(value))
        if all(isinstance(item, bool) for item in leaves):
            yield f"all of {name} true", _each(value, lambda item: True)
        elif all(isinstance(item, int | float) for item in leaves):
            for factor in _FACTORS:
                yield f"{name} times {factor:g}", _each(value, partial(mul, factor))
            yield f"{name} all 0", _each(value, lambda item: 0 * item)
            yield f"{name} all the same", _each(value, lambda item: leaves[0])
        elif len(value) <= _SHORT:
            for place, item in enumerate(value):
                for words, other in altered(item, f"{name}.{place}"):
                    yield words, [*value[:place], other, *value[place + 1 :]]


def _leaves(value: Any) -> Iterator[Any]:
    for item in value:
        yield from _leaves(item) if isinstance(item, list) else (item,)


def _each(value: Any, change: Callable[[Any], Any]) -> Any:
    return [_each(item, change) for item in value] if isinstance(value, list) else change(value)
