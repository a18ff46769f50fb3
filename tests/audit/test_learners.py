"""Learners in their states: honest ones withstand exact replay and trials, broken ones do not."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from discreet.audit import learners, replay, runs
from discreet.audit.checks import Check
from discreet.audit.learners import (
    JOINT_EPSILON,
    LOCAL_EPSILON,
    _maker,
    checks_of,
    deployed_check,
    joint_states,
    learner_check,
    learner_checks,
    local_states,
)
from discreet.audit.replay import worst_neighbours
from discreet.audit.runs import JointRun, Participants, Person
from discreet.lab.experiments.simulation import Setting
from discreet.learners import registry
from discreet.learners.epochs.sums import RESOLUTION, EpochRelease
from discreet.learners.partition.learner import Partition
from discreet.learners.partition.policy import PartitionPolicy
from discreet.learners.policy import Actions
from discreet.learners.registry import LEARNERS
from discreet.people.domain import (
    ActionSpace,
    ArmPoints,
    Box,
    DecisionSets,
    PublicBox,
    RewardBounds,
    unit_cube,
)
from discreet.privacy import Joint, Local, Shuffled, SimulatedNoise
from discreet.records import Finding
from discreet.validation import InvalidInput

from .broken import (
    BrokenMaker,
    CopiedSource,
    HalvedNoise,
    OwnRandomness,
    PublicSums,
    Refusing,
    RewardInThePolicy,
    RowsInAFile,
    SecondDraw,
    SeedOfSums,
    finding,
)

_ENDS = (Person(((0.0, 1.0),), 1.0), Person(((0.0, 1.0),), 0.0))


def broken(name: str, kind: type[Any], space: ActionSpace = 3) -> Finding:
    maker = BrokenMaker(**vars(_maker(name, "joint", space)), kind=kind)
    check = learner_check(name, maker)
    if space != 3:  # of people with decision sets a search finds the worst in seconds
        run = JointRun(state="a run", maker=maker)
        some = tuple(next(iter(run.groups()))[:4])
        check = replace(check, exact=lambda: worst_neighbours(replace(run, tried=some)))
    return finding(check)


@pytest.mark.chance(0)  # what is measured does not depend on what OpenDP draws
@pytest.mark.parametrize(
    ("name", "kind", "space", "said"),
    [
        ("usca", HalvedNoise, 3, ""),
        pytest.param("usca", SecondDraw, 3, "", marks=pytest.mark.slow),
        ("usca", Refusing, 3, "refused depends on the data"),
        ("usca", SeedOfSums, 3, "a source that the code made itself"),
        ("usca", CopiedSource, 3, "a source that the code made itself"),
        ("usca", RowsInAFile, 3, "RowsInAFile._drawn writes beside its report"),
        ("usca", OwnRandomness, 3, "OwnRandomness._drawn"),
        ("capri", PublicSums, 3, "progress of the learner shows"),
        ("gp_ucb", RewardInThePolicy, DecisionSets(3), "policy_header of the learner"),
    ],
)
def test_broken_learners_are_broken(
    name: str, kind: type[Any], space: ActionSpace, said: str
) -> None:
    found = broken(name, kind, space)
    assert found.verdict == "BROKEN"
    assert said in found.fault
    if not said:
        assert found.epsilon == pytest.approx(JOINT_EPSILON)
        assert found.exact > 1.2 * JOINT_EPSILON


@pytest.fixture
def briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaks that do not depend on what was learnt show in learners of few people."""
    monkeypatch.setattr(learners, "_TAUGHT", 600)


@pytest.mark.usefixtures("briefly")
def test_reports_with_noise_that_anybody_can_draw_again_are_broken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    report = PartitionPolicy._report

    def by_public_coin(self, unit, actions, rewards, noise):  # type: ignore[no-untyped-def]
        return report(self, unit, actions, rewards, SimulatedNoise(int(actions.public_coins[0])))

    monkeypatch.setattr(PartitionPolicy, "_report", by_public_coin)
    found = finding(learner_check("partition", _maker("partition", "local", 3)))
    assert found.verdict == "BROKEN"
    assert "a source that the code made itself" in found.fault


@pytest.mark.usefixtures("briefly")
@pytest.mark.parametrize(("count", "place"), [(1, 0), (3, 0), (3, 2)])
def test_reports_that_leak_in_one_place_are_broken(
    count: int, place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A device reports alone; in a batch the first and the last are people like others."""
    report = PartitionPolicy._report

    def leaking(self, unit, actions, rewards, noise):  # type: ignore[no-untyped-def]
        if len(rewards) == count and rewards[place] > 0.9:
            raise InvalidInput("too good to be true.")
        return report(self, unit, actions, rewards, noise)

    monkeypatch.setattr(PartitionPolicy, "_report", leaking)
    found = finding(learner_check("partition", _maker("partition", "local", 3)))
    assert "refused depends on the data" in found.fault


@pytest.mark.usefixtures("briefly")
def test_reports_that_leak_under_late_versions_are_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    report = PartitionPolicy._report

    def leaking(self, unit, actions, rewards, noise):  # type: ignore[no-untyped-def]
        made = report(self, unit, actions, rewards, noise)
        plain = np.full(made.signs.shape, 1 if rewards[0] > 0.5 else -1, dtype=np.int8)
        return replace(made, signs=plain) if self.version >= 50 else made

    monkeypatch.setattr(PartitionPolicy, "_report", leaking)
    found = finding(learner_check("partition", _maker("partition", "local", 3)))
    assert found.fault == "a report depends on the data"


def test_releases_of_one_person_without_noise_are_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    noisy = EpochRelease.noisy

    def plain(version, added, multiplier, noise):  # type: ignore[no-untyped-def]
        made = noisy(version, added, multiplier, noise)
        total = made.total if added.people > 1 else added.total / RESOLUTION
        return replace(made, total=total)

    monkeypatch.setattr(EpochRelease, "noisy", plain)
    lagging = JointRun(maker=_maker("capri", "joint", 3), variant="lagging", tried=_ENDS)
    assert worst_neighbours(lagging).fault == "a policy depends on the data"


@pytest.mark.slow
def test_trials_of_whole_runs_notice_half_the_noise() -> None:
    maker = _maker("usca", "joint", 3)
    broken = BrokenMaker(**vars(maker), kind=HalvedNoise)
    worst = worst_neighbours(JointRun(state="a run", maker=maker, tried=_ENDS))
    halved = JointRun(state="halved", maker=broken)
    check = learner_check("usca", maker)
    # Which runs are told apart depends on how linear algebra rounds, so there are many.
    honest = finding(replace(check, exact=lambda: worst), 80)
    assert honest.verdict == "holds"
    assert honest.trials == 80
    assert 0.0 < honest.lower_bound < 8.0
    wrong = replace(check, exact=lambda: replace(worst, subject=halved))
    assert finding(wrong, 80).lower_bound > honest.lower_bound
    assert finding(wrong, 160).verdict == "BROKEN"


def test_runs_have_the_worst_neighbours_that_a_search_finds() -> None:
    worst = worst_neighbours(JointRun(state="a run", maker=_maker("capri", "joint", 3)))
    assert {person.reward for person in worst.pair} == {0.0, 1.0}
    # One report in one release, of the largest length that there is.
    assert worst.epsilon == pytest.approx(8.0, abs=1e-6)


def test_people_who_enter_no_release_are_no_attack() -> None:
    maker = replace(_maker("usca", "joint", 3), horizon=10_000)
    with pytest.raises(InvalidInput, match="nothing to attack"):
        worst_neighbours(JointRun(state="a run", maker=maker))


@pytest.mark.slow
def test_local_learners_are_attacked_where_bins_are_cut_and_resolved() -> None:
    states = list(local_states(_maker("partition", "local", 3), False))
    taught = [each.policy for each in states if each.state.startswith("taught")]
    assert taught[0].mechanism.size > 1
    assert taught[0].wanted.sum() > 3
    late = [each.policy for each in states if each.state.startswith("epsilon 16")]
    assert not late[0].wanted.all()
    kernel = [each.policy for each in local_states(_maker("kernel", "local", 3), False)]
    assert max(policy.cells.count for policy in kernel) > 4
    assert {policy.ranks.asked.size > 0 for policy in kernel} == {True, False}


def test_runs_are_attacked_in_every_variant() -> None:
    runs = list(joint_states(_maker("usca", "joint", 3), 3))
    assert {run.variant for run in runs} >= {"plain", "late", "lagging", "saved"}
    assert {run.maker.budget.epsilon for run in runs} == {0.1, 8.0, 16.0}
    assert max(run.maker.people for run in runs) >= 200
    assert sum(run.asked_at is not None for run in runs) >= 4


def test_every_registered_learner_is_audited_or_listed() -> None:
    checks = learner_checks()
    assert {check.name.split(",")[0] for check in checks} == set(LEARNERS)
    for name, kind in LEARNERS.items():
        mine = [check for check in checks if check.name.split(",")[0] == name]
        promising = set(kind.trust_models) - {"none"}
        assert {check.trust_model for check in mine} >= (promising or {"none"})


_PROMISES = [check for check in learner_checks() if check.trust_model != "none"]
_TIGHT = ("partition", "kernel", "published_partition", "capri", "usca")
_QUICK = ("published_partition, sources, forged",)  # `discreet audit all` replays every one


@pytest.mark.chance(0)  # what is measured does not depend on what OpenDP draws
@pytest.mark.parametrize(
    "check",
    [
        pytest.param(check, id=check.name, marks=[] if check.name in _QUICK else [pytest.mark.slow])
        for check in _PROMISES
    ],
)
def test_every_promise_withstands_exact_replay(check: Check) -> None:
    found = finding(check)
    assert found.verdict == "holds", found.fault
    promised = JOINT_EPSILON if check.trust_model == "joint" else LOCAL_EPSILON
    if "shuffled" in check.name:  # what one report may say before it is shuffled
        promised = Shuffled(1.0, learners.DELTA, group=50).contribution_epsilon
    assert found.epsilon == pytest.approx(promised, rel=1e-6)
    if check.name.split(",")[0] in _TIGHT and check.name != "usca, predictions":
        assert found.exact == pytest.approx(found.epsilon, abs=1e-6)


def test_a_learner_that_promises_nothing_says_so() -> None:
    (check,) = [check for check in learner_checks() if check.name == "uniform"]
    found = finding(check, 10)
    assert found.verdict == "no promise"
    assert not found.failed


def test_without_opendp_states_under_secure_noise_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replay, "SECURE", False)
    monkeypatch.setattr(learners, "SECURE", False)
    monkeypatch.setattr(runs, "SECURE", False)
    states = learners.local_states
    monkeypatch.setattr(learners, "local_states", lambda *given: islice(states(*given), 8))
    (check,) = [check for check in learner_checks() if check.name == "partition, local"]
    found = finding(check)
    assert (found.verdict, found.failed) == ("not audited", True)
    assert found.exact == pytest.approx(LOCAL_EPSILON)
    assert "not audited under SecureNoise" in found.fault
    assert 'pip install "discreet[secure]"' in found.fault


class Elsewhere(Partition):
    """Chooses from spaces of which the audit has no example."""

    spaces = (complex,)


def test_a_learner_that_suits_no_design_is_not_audited() -> None:
    checks = list(checks_of(f"{__name__}:Elsewhere"))
    assert [finding(check).verdict for check in checks] == ["not audited"] * len(checks)
    assert checks
    assert "no design for the trust model local on complex" in finding(checks[0]).fault


def test_announced_learners_are_audited(monkeypatch: pytest.MonkeyPatch) -> None:
    homes = {"mine": f"{__name__}:Elsewhere", "gone": "no_such_module:Gone"}
    monkeypatch.setattr(registry, "announced", lambda: homes)
    found = {check.name.split(",")[0]: check for check in learner_checks()}
    assert finding(found["mine"]).failed
    assert finding(found["gone"]).verdict == "FAILED"
    assert "cannot be imported" in finding(found["gone"]).fault


@pytest.mark.chance(0)
@pytest.mark.parametrize(
    ("learner", "budget", "space"),
    [
        pytest.param("partition", Local(1.0), 3, marks=pytest.mark.slow),
        ("gp_ucb", Local(1.0), PublicBox()),
        pytest.param("capri", Joint(4.0, 1e-5), ArmPoints.of([0.0, 1.0]), marks=pytest.mark.slow),
    ],
)
def test_what_a_study_deploys_is_audited_at_its_own_budget(
    learner: str, budget: Joint | Local, space: ActionSpace
) -> None:
    domain = Box((0.0, 18.0), (1.0, 90.0), levels=(2, 4))
    problem: Any = SimpleNamespace(
        domain=domain, space=space, reward_bounds=RewardBounds(-1.0, 1.0)
    )
    check = deployed_check(Setting(learner, "ours", budget), problem, 5000)
    found = finding(check)
    assert found.name == "ours"
    assert found.verdict == "holds"
    assert found.epsilon == pytest.approx(budget.epsilon, rel=1e-6)
    assert found.delta == budget.delta


@pytest.fixture
def people() -> Participants:
    domain = Box((0.0, 18.0), (1.0, 90.0), levels=(2, None))
    return Participants(domain, 3, RewardBounds(-1.0, 1.0))


def test_people_stay_in_the_domain_and_on_its_levels(people: Participants) -> None:
    rng, domain = np.random.default_rng(1), people.domain
    domain.people_to_unit(people.contexts(people.crowd(50, rng)))
    for person in people.candidates(rng):
        for someone in (person, people.near(person, rng)):
            domain.people_to_unit(people.contexts([someone.where] * 2))
    assert people.contexts([((0.0, 1.0),)]).tolist() == [[0.0, 90.0]]


def test_decision_sets_are_as_wide_as_is_allowed() -> None:
    people = Participants(unit_cube(2), DecisionSets(5), RewardBounds())
    sizes = {len(person.where) for person in people.candidates(np.random.default_rng(1))}
    assert sizes >= {1, 2, 5}


def test_rewards_are_a_function_of_person_and_choice() -> None:
    people = Participants(unit_cube(2), PublicBox(), RewardBounds(-1.0, 3.0))
    table = people.table(3, np.random.default_rng(1))
    points = np.array([[0.1, 0.2], [0.3, 0.4], [0.1, 0.2]])
    actions = Actions(np.full(3, -1), np.zeros(3, dtype=np.uint64), "none", points)
    rewards = people.rewards(table, actions)
    assert ((rewards >= -1.0) & (rewards <= 3.0)).all()
    moved = replace(actions, points=points[[1, 1, 2]])
    assert (people.rewards(table, moved) == rewards).tolist() == [False, True, True]
