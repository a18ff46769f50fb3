"""What ABSE refuses; that it learns is tested beside the other elimination learner."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from discreet.learners.messages import Observations
from discreet.papers.ma2025.learners.abse import Abse
from discreet.people.domain import unit_cube
from discreet.privacy import NonPrivate, Unprotected
from discreet.validation import InvalidInput


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"arms": np.array([0, 3, 1])}, "arms below 3"),
        ({"contexts": np.full((3, 2), 0.5)}, "1 columns"),
        ({"contexts": np.zeros((0, 1)), "arms": [], "rewards": []}, "at least one person"),
        ({"arms": np.array([0, 2, 1])}, "arm 2 at position 1, which policy 1 no longer offers"),
    ],
)
def test_reports_that_no_policy_made_are_refused(changed, message: str) -> None:
    learner = Abse(unit_cube(1), 3, NonPrivate(), horizon=9000, confidence_multiplier=0.1)
    actions, _ = learner.policy().act(np.full((300, 1), 0.5), np.random.default_rng(0))
    rewards = np.where(actions.arms == 2, 0.0, 1.0)
    contexts = np.full((300, 1), 0.5)
    learner.update(learner.policy().report(contexts, actions, rewards, Unprotected()))
    policy = learner.policy()
    assert not policy.bins.active[:, 2].all()
    good = Observations(
        **policy.origin("none"),
        contexts=np.full((3, 1), 0.5),
        arms=np.array([0, 1, 0]),
        rewards=np.ones(3),
    )
    good = replace(good, noise=learner._sums.noise[0])
    learner.statistics(good)
    with pytest.raises(InvalidInput, match=message):
        learner.statistics(replace(good, **changed))
