"""The games of learners: honest ones withstand them, tampered ones do not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from discreet.action_space import ArmPoints, DecisionSets, PublicBox
from discreet.audit import local
from discreet.audit.games import Check, Exact, Game, Seed
from discreet.audit.joint import AnyLearner, JointRuns
from discreet.audit.learners import (
    JOINT_EPSILON,
    LOCAL_EPSILON,
    _maker,
    deployed_check,
    learner_checks,
)
from discreet.audit.local import LocalReports
from discreet.audit.people import Person, people_for, places
from discreet.audit.runner import Finding, audit
from discreet.domain import Box, RewardBounds, unit_cube
from discreet.learners.messages import Actions
from discreet.learners.registry import LEARNERS
from discreet.privacy import Joint, Local
from discreet.validation import InvalidInput

from .broken import halved_noise, reward_in_the_policy, second_draw

RUNS = 40


def finding(check: Check, trials: int) -> Finding:
    (found,) = [one for one in audit([check], trials) if isinstance(one, Finding)]
    return found


@cache
def prepared(name: str) -> JointRuns:
    """A game of honest learners, with the people to attack."""
    space = DecisionSets(3) if name == "gp_ucb" else 3
    game = JointRuns(_maker(name, "joint", space)).prepared(Seed(1))
    assert isinstance(game, JointRuns)
    return game


def joint_check(name: str, tamper: Callable[[AnyLearner], AnyLearner] | None = None) -> Check:
    """The same people are attacked, by what the tampered learner's own certificate says."""
    game = replace(prepared(name), tamper=tamper)
    ((_, game),) = game._tried([game], Seed(1))
    return Check(name, "learner", "joint", lambda: game)


@pytest.mark.parametrize("name", [pytest.param("capri", marks=pytest.mark.slow), "usca"])
def test_half_the_noise_is_noticed(name: str) -> None:
    honest, halved = (
        finding(joint_check(name), RUNS),
        finding(joint_check(name, halved_noise), RUNS),
    )
    assert honest.verdict == "holds"
    assert honest.epsilon > 1.0
    assert halved.claim is not None
    assert halved.claim.epsilon == pytest.approx(8.0)
    assert halved.verdict == "BROKEN"


def test_a_second_draw_is_noticed() -> None:
    found = finding(joint_check("usca", second_draw), 200)
    assert found.verdict == "BROKEN"


def test_what_a_policy_says_beside_the_noise_is_noticed() -> None:
    found = finding(joint_check("gp_ucb", reward_in_the_policy), RUNS)
    assert found.verdict == "BROKEN"
    assert found.true_positive_rate - found.false_positive_rate > 0.9


def test_runs_start_with_the_worst_neighbours_that_there_are() -> None:
    game = prepared("capri")
    assert game.pair is not None
    assert {one.reward for one in game.pair} == {0.0, 1.0}
    assert game.claim.epsilon == pytest.approx(8.0, abs=1e-6)
    assert (game.bound, game.threshold) == ("gaussian", 0.0)
    # One report in one release: mu^2 / 2 = epsilon's, and rows nearly as far apart as can be.
    scores = game.scores(True, 40, Seed(2))
    assert scores.mean() > 0.5
    assert np.array_equal(scores[:5], game.scores(True, 5, Seed(2)))


def test_people_who_enter_no_release_are_no_attack() -> None:
    maker = replace(_maker("usca", "joint", 3), horizon=10_000)
    with pytest.raises(InvalidInput, match="nothing to attack"):
        JointRuns(maker).prepared(Seed(1))


def test_reports_are_attacked_as_strongly_as_can_be() -> None:
    partition = LocalReports(_maker("partition", "local", 3)).prepared(Seed(1))
    assert isinstance(partition, Exact)
    assert partition.epsilon == pytest.approx(2.0)
    laplace = LocalReports(_maker("published_partition", "local", 3)).prepared(Seed(1))
    assert isinstance(laplace, Game)
    assert laplace.bound == "counts"
    assert "likelihood ratio" in laplace.attack
    trained = LocalReports(_maker("private_linear", "local", 3)).prepared(Seed(1))
    assert isinstance(trained, LocalReports)
    assert trained.classifier is not None
    assert "classifier" in trained.attack


def test_every_registered_learner_is_audited_or_listed() -> None:
    checks = learner_checks()
    assert {check.name.split(",")[0] for check in checks} == set(LEARNERS)
    for name, kind in LEARNERS.items():
        mine = [check for check in checks if check.name.split(",")[0] == name]
        promising = set(kind.trust_models) - {"none"}
        assert {check.trust_model for check in mine} >= (promising or {"none"})


_PROMISES = [check for check in learner_checks() if check.trust_model != "none"]


@pytest.mark.parametrize(
    "check",
    [
        pytest.param(
            check,
            id=check.name,
            marks=[pytest.mark.slow]
            if (check.cost > 100 and "usca" not in check.name)
            or check.name == "local_kernel, sources"
            else [],
        )
        for check in _PROMISES
    ],
)
def test_every_promise_withstands_a_short_audit(
    check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Fewer reports to choose the people by; how strong attacks are is tested above.
    monkeypatch.setattr(local, "_PAIRS", 8)
    monkeypatch.setattr(local, "_PILOT", 500)
    monkeypatch.setattr(local, "_RUNS", 1000)
    found = finding(check, 2000)
    assert found.verdict == "holds"
    assert found.claim is not None
    assert found.claim.epsilon == pytest.approx(
        JOINT_EPSILON if check.trust_model == "joint" else LOCAL_EPSILON, rel=1e-6
    )


def test_a_learner_that_promises_nothing_says_so() -> None:
    (check,) = [check for check in learner_checks() if check.name == "uniform"]
    found = finding(check, 10)
    assert found.verdict == "not audited"
    assert "promises nothing" in found.attack


@pytest.mark.parametrize(
    ("learner", "budget", "space"),
    [
        ("partition", Local(1.0), 3),
        ("gp_ucb", Local(1.0), PublicBox()),
        pytest.param(
            *("capri", Joint(4.0, 1e-5), ArmPoints.of([0.0, 1.0])), marks=pytest.mark.slow
        ),
    ],
)
def test_what_a_study_deploys_is_audited_at_its_own_budget(
    learner: str, budget: Joint | Local, space: object
) -> None:
    domain = Box((0.0, 18.0), (1.0, 90.0), levels=(2, 4))
    check = deployed_check(
        "ours",
        learner,
        domain,
        space,
        budget,
        {},
        RewardBounds(-1.0, 1.0),
        5000,  # type: ignore[arg-type]
    )
    found = finding(check, 2000)
    assert found.name == "ours"
    assert found.verdict == "holds"
    assert found.claim is not None
    assert found.claim.epsilon == pytest.approx(budget.epsilon, rel=1e-6)
    assert found.claim.delta == budget.delta


def test_people_stay_in_the_domain_and_on_its_levels() -> None:
    domain = Box((0.0, 18.0), (1.0, 90.0), levels=(2, None))
    people = people_for(domain, 3, RewardBounds(-1.0, 1.0))
    contexts = people.crowd(50, np.random.default_rng(1))
    domain.people_to_unit(contexts)
    for pair in people.pairs():
        for person in pair:
            domain.people_to_unit(people.many(person, 2))
    replaced = people.with_person(contexts, 7, Person(((0.0, 1.0),), 1.0))
    assert replaced[7].tolist() == [0.0, 90.0]
    assert (np.delete(replaced, 7, axis=0) == np.delete(contexts, 7, axis=0)).all()


def test_rewards_are_a_function_of_person_and_choice() -> None:
    people = people_for(unit_cube(2), PublicBox(), RewardBounds(-1.0, 3.0))
    table = people.table(3, np.random.default_rng(1))
    tickets = np.zeros(3, dtype=np.uint64)
    points = np.array([[0.1, 0.2], [0.3, 0.4], [0.1, 0.2]])
    actions = Actions(np.full(3, -1), tickets, "none", points)
    rewards = people.rewards(table, actions)
    assert ((rewards >= -1.0) & (rewards <= 3.0)).all()
    moved = Actions(np.full(3, -1), tickets, "none", points[[1, 1, 2]])
    assert (people.rewards(table, moved) == rewards).tolist() == [False, True, True]


def test_places_are_start_middle_and_end() -> None:
    assert places(24) == [0, 12, 23]
    assert places(1) == [0]
    with pytest.raises(InvalidInput, match="people"):
        places(0)
