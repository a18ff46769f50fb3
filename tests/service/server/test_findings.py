"""What the dashboard says of learners and policies."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from discreet import Box, Local, Partition, SimulatedNoise
from discreet.learners.policy import ArmPolicy
from discreet.papers.ma2025.learners.gradients.learner import PrivateLinear
from discreet.people.columns import Column
from discreet.service.server.findings import finding, parts_of

DOMAIN = Box.of(
    (Column("age", 18, 90), Column("years", 6, 20, 15), Column("smoker", values=("no", "yes")))
)


@cache
def learnt() -> Partition:
    """A learner that has met 2,000 people, of whom smokers had better be called."""
    learner = Partition(DOMAIN, ["leaflet", "call"], budget=Local(8.0), horizon=2000)
    rng, noise = np.random.default_rng(3), SimulatedNoise(4)
    for _ in range(10):
        policy = learner.policy()
        contexts = DOMAIN.from_unit(rng.random((200, 3)).round(0))
        actions, _ = policy.act(contexts, rng)
        rewards = (actions.arms == contexts[:, 2]).astype(float)
        learner.update(policy.report(contexts, actions, rewards, noise))
    learner.policy()
    return learner


def test_parts_of_a_column_cover_it_once() -> None:
    policy = learnt().policy()
    assert isinstance(policy, ArmPolicy)
    ages = [part.label for part in parts_of(policy, 0)]
    assert ages[0] == "18 to 27"
    assert ages[-1] == "81 to 90"
    assert len(ages) == 8
    years = [part.label for part in parts_of(policy, 1)]
    assert years[:2] == ["6 to 7", "8 to 9"]
    assert years[-1] == "20"
    assert [part.label for part in parts_of(policy, 2)] == ["no", "yes"]


def test_shares_are_those_of_the_policy() -> None:
    """By brute force over a grid of the other columns."""
    policy = learnt().policy()
    grid = np.stack(np.meshgrid(np.linspace(0.0, 1.0, 60), np.linspace(0.0, 1.0, 15)), axis=-1)
    for place, part in enumerate(parts_of(policy, 2)):
        unit = np.column_stack([grid.reshape(-1, 2), np.full(900, float(place))])
        assert part.shares == pytest.approx(policy.chances(unit).mean(axis=0), abs=0.05)
        assert sum(part.shares) == pytest.approx(1.0)
        assert part.shares[place] > 0.6  # and it has learnt who should be called


def test_a_finding_is_what_the_learner_says() -> None:
    learner = learnt()
    found = finding(learner, learner.policy(), 2000)
    assert found.reward == learner.value()
    assert found.played == learner.value(learner.policy())
    best = ["leaflet", "call"].index(found.choice)
    assert found.gain == learner.value(against=best)
    assert found.gain is not None
    assert found.gain.mean == pytest.approx(
        min(learner.value(against=arm).mean for arm in range(2)), abs=1e-9
    )
    assert found.shares == pytest.approx(
        learner._values().weights @ learner.policy().probabilities(learner._values().contexts)
    )


def test_of_a_learner_without_a_posterior_only_shares_are_said() -> None:
    learner = PrivateLinear(DOMAIN, ["leaflet", "call"], budget=Local(2.0), horizon=100)
    found = finding(learner, learner.policy(), 0)
    assert found.reward is found.played is found.gain is None
    assert sum(found.shares) == pytest.approx(1.0)
