"""A learner that draws noise for people exists once."""

import copy
import pickle
from typing import Any

import pytest

from discreet import GPUCB, Box, Joint, PublicBox, SecureNoise, SimulatedNoise
from discreet.validation import InvalidInput


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_learner_that_draws_noise_for_people_is_not_copied(copied: Any) -> None:
    """Two copies that wait for a release would both make it, each with noise of its own."""
    budget, space = Joint(1.0, 1e-6), Box((0.0,), (1.0,))
    learner = GPUCB(space, PublicBox(), budget, horizon=100, noise=SecureNoise())
    with pytest.raises(InvalidInput, match=r"people would pay twice\. Keep it with discreet\.save"):
        copied(learner)
    copied(GPUCB(space, PublicBox(), budget, horizon=100, noise=SimulatedNoise(1)))
