"""What a probe says of policies at one context, against counting person by person."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from discreet.domain import RewardBounds, unit_cube
from discreet.learners.partition.published import PublishedPolicy
from discreet.learners.partition.tree import Bins
from discreet.privacy import Local, NonPrivate
from discreet.problems.synthetic import exponential, symmetric
from discreet.reproduction.cases import Case
from discreet.reproduction.probes import Probe
from discreet.reproduction.runner import run_all, run_trial
from discreet.validation import InvalidInput

PROBLEM = exponential()
CONTEXT = (1 / 3, 1 / 3)


def policy(version: int, *active: bool) -> PublishedPolicy:
    """Uniform choice among some arms, wherever the context is."""
    bins = Bins.whole(2, 3)
    return PublishedPolicy(
        version=version,
        learner_id="probed",
        domain=unit_cube(2),
        reward_bounds=RewardBounds(),
        public_seed=0,
        arms=3,
        bins=Bins(bins.tree, np.array([active])),
        epsilon=1.0,
    )


def test_shares_and_regret_are_means_over_people() -> None:
    probe = Probe(CONTEXT, PROBLEM)
    served = [(policy(0, True, True, True), 3), (policy(1, True, False, True), 5),
              (policy(2, True, False, False), 9)]  # fmt: skip
    for one, until in served:
        probe(one, until)
    at = np.arange(1, 10)
    trace = probe.trace(at)
    each = np.array([[1 / 3] * 3] * 3 + [[0.5, 0.0, 0.5]] * 2 + [[1.0, 0.0, 0.0]] * 4)
    by_hand = np.cumsum(each, axis=0) / at[:, None]
    np.testing.assert_allclose(trace.shares, by_hand)
    decay = np.exp(-18.0 * (1 / 3 - np.array([0.25, 0.5, 0.75])) ** 2)
    means = 2.0 * decay / (1.0 + decay)
    np.testing.assert_allclose(trace.regret, by_hand @ (means.max() - means))
    assert trace.best == 0
    assert trace.given_up == {1: 3, 2: 5}
    assert trace.finals["local_regret"] == pytest.approx(trace.regret[-1])
    assert trace.finals["share_of_arm_1"] == pytest.approx(6 / 9)
    # Between the ends of batches too.
    np.testing.assert_allclose(probe.trace(np.array([2, 4, 9])).shares, by_hand[[1, 3, 8]])


def test_an_arm_that_is_never_offered_is_given_up_at_once() -> None:
    probe = Probe(CONTEXT, PROBLEM)
    probe(policy(0, False, True, True), 4)
    assert probe.trace(np.array([4])).given_up == {0: 0}


def test_an_arm_that_comes_back_is_not_given_up() -> None:
    probe = Probe(CONTEXT, PROBLEM)
    for version, first in enumerate((True, False, True)):
        probe(policy(version, first, True, True), 2 * (version + 1))
    assert probe.trace(np.array([6])).given_up == {}


def case(learner: str) -> Case:
    budget = NonPrivate() if learner == "uniform" else Local(8.0)
    return Case(learner, PROBLEM, learner, budget, rounds=600, probe=CONTEXT)


@pytest.mark.parametrize("learner", ["partition", "published_partition", "uniform"])
def test_a_probe_changes_nothing_and_ends_in_the_records(learner: str) -> None:
    watched = run_trial(0, case(learner), 600, 5, 0)
    plain = run_trial(0, replace(case(learner), probe=None), 600, 5, 0)
    assert (watched.trace == plain.trace).all()
    assert plain.local is None
    assert plain.finals == {}
    found = watched.local
    assert found is not None
    np.testing.assert_allclose(found.shares.sum(axis=1), 1.0)
    assert (found.rounds == watched.rounds).all()
    assert set(watched.finals) == {"local_regret", *(f"share_of_arm_{k}" for k in (1, 2, 3))}
    if learner == "uniform":
        np.testing.assert_allclose(found.shares, 1 / 3)


def test_what_cannot_be_probed_is_refused_before_anything_runs() -> None:
    with pytest.raises(InvalidInput, match="mean rewards are not known"):
        Probe(CONTEXT, object())
    for context in ((1.5, 0.5), (0.5,)):
        with pytest.raises(InvalidInput, match="contexts"):
            run_all([replace(case("uniform"), probe=context)], 1, None, 0)
    with pytest.raises(InvalidInput, match="chooses no arm"):
        Probe(CONTEXT, PROBLEM)(object(), 1)  # type: ignore[arg-type]


def test_mean_rewards_are_known_in_the_units_of_the_domain() -> None:
    np.testing.assert_allclose(symmetric().mean_rewards([[0.25, 0.25]]), [[0.0, 1.0]])
    with pytest.raises(InvalidInput, match="contexts"):
        PROBLEM.mean_rewards([[0.5, 1.5]])
