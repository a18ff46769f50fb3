"""What a probe says of policies at one context, against counting person by person."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from discreet.lab.environments.synthetic import exponential, symmetric
from discreet.lab.experiments.engine import Row, Seed
from discreet.learners.partition.tree import Bins
from discreet.papers.ma2025.data import Probe
from discreet.papers.ma2025.learners.published_partition import EliminationPolicy
from discreet.papers.reproduction import Case, serve
from discreet.people.domain import RewardBounds, unit_cube
from discreet.privacy import Local, NonPrivate
from discreet.validation import InvalidInput

PROBLEM = exponential()
CONTEXT = (1 / 3, 1 / 3)


def policy(version: int, *active: bool) -> EliminationPolicy:
    """Uniform choice among some arms, wherever the context is."""
    bins = Bins.whole(2, 3)
    return EliminationPolicy(
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
    rows = probe.rows(at)
    each = np.array([[1 / 3] * 3] * 3 + [[0.5, 0.0, 0.5]] * 2 + [[1.0, 0.0, 0.0]] * 4)
    by_hand = np.cumsum(each, axis=0) / at[:, None]
    np.testing.assert_allclose(shares_of(rows), by_hand)
    decay = np.exp(-18.0 * (1 / 3 - np.array([0.25, 0.5, 0.75])) ** 2)
    means = 2.0 * decay / (1.0 + decay)
    np.testing.assert_allclose(trace_of(rows, "local_regret"), by_hand @ (means.max() - means))
    np.testing.assert_allclose([row["mean_reward"] for row in rows[1:]], means)
    assert given_up(rows) == {1: 3, 2: 5}
    # Between the ends of batches too.
    np.testing.assert_allclose(shares_of(probe.rows(np.array([2, 4, 9]))), by_hand[[1, 3, 8]])


def trace_of(rows: list[Row], metric: str) -> np.ndarray:
    (trace,) = [row["trace"] for row in rows if row["metric"] == metric]
    return np.asarray(trace)


def shares_of(rows: list[Row]) -> np.ndarray:
    return np.stack([trace_of(rows, f"share_of_arm_{k}") for k in (1, 2, 3)], axis=1)


def given_up(rows: list[Row]) -> dict[int, int]:
    """For each arm, from 0 on, that is never offered again how many were served by then."""
    shares = [row for row in rows if row["metric"].startswith("share_of_arm")]
    return {k: row["given_up"] for k, row in enumerate(shares) if row["given_up"] is not None}


def test_an_arm_that_is_never_offered_is_given_up_at_once() -> None:
    probe = Probe(CONTEXT, PROBLEM)
    probe(policy(0, False, True, True), 4)
    assert given_up(probe.rows(np.array([4]))) == {0: 0}


def test_an_arm_that_comes_back_is_not_given_up() -> None:
    probe = Probe(CONTEXT, PROBLEM)
    for version, first in enumerate((True, False, True)):
        probe(policy(version, first, True, True), 2 * (version + 1))
    assert given_up(probe.rows(np.array([6]))) == {}


def case(learner: str) -> Case:
    budget = NonPrivate() if learner == "uniform" else Local(8.0)
    return Case(learner, PROBLEM, learner, 600, budget, probe=partial(Probe, CONTEXT, PROBLEM))


@pytest.mark.parametrize("learner", ["partition", "published_partition", "uniform"])
def test_a_probe_changes_nothing_and_ends_in_the_records(learner: str) -> None:
    watched = serve(Seed(5, 0), case(learner))
    plain = serve(Seed(5, 0), replace(case(learner), probe=None))
    assert (trace_of(watched, "regret") == trace_of(plain, "regret")).all()
    assert [row["metric"] for row in plain] == ["regret"]
    np.testing.assert_allclose(shares_of(watched).sum(axis=1), 1.0)
    finals = {row["metric"]: row["value"] for row in watched if row["final"]}
    assert set(finals) == {"local_regret", *(f"share_of_arm_{k}" for k in (1, 2, 3))}
    for metric, value in finals.items():
        assert value == trace_of(watched, metric)[-1]
    if learner == "uniform":
        np.testing.assert_allclose(shares_of(watched), 1 / 3)


def test_mean_rewards_are_known_in_the_units_of_the_domain() -> None:
    np.testing.assert_allclose(symmetric().mean_rewards([[0.25, 0.25]]), [[0.0, 1.0]])
    with pytest.raises(InvalidInput, match="contexts"):
        PROBLEM.mean_rewards([[0.5, 1.5]])
