"""The problems on which CAPRI and USCA are compared, and what is measured of their learners.

The papers are theory and print no experiment. The setting is theirs: contexts from a known
distribution on a finite set (30 values), finitely many arms (60), a reward function of a kernel's
space. It is drawn from a Gaussian process and scaled to |f| <= 0.8, with noise in +-0.25. All
methods know the kernel, the reward bounds +-1.05 and the bound of the noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.learners.base import Learner
from discreet.learners.epochs.capri import Capri
from discreet.learners.epochs.learner import EpochLearner
from discreet.learners.epochs.usca import Usca
from discreet.problems.base import Crowd
from discreet.problems.kernel_grid import GridCrowd, KernelGridProblem, Smoothness
from discreet.validation import FloatArray

# Base of the trials' seeds; nothing was ever tuned on it.
SEED = 20250601

WRONG = "share wrong"
ERROR_RATE = "error rate"
# An arm that is so much worse than the best is a wrong one.
TOLERANCE = 0.05


@dataclass(frozen=True)
class Surface:
    """A kind of reward function.

    Attributes:
        name: in figures.
        smoothness: of the problem.
        kernel: the same as text, for learners.
        norm: a bound on the norm of functions of this kind (scaled to [0, 1], minus 1/2): of 100
            draws the largest had 1.9 and 4.6.
    """

    name: str
    smoothness: Smoothness
    kernel: str
    norm: float

    def problem(self) -> KernelGridProblem:
        """Where people come from."""
        return KernelGridProblem(smoothness=self.smoothness)

    def arguments(self, problem: KernelGridProblem) -> dict[str, Any]:
        """What every learner knows."""
        return {"kernel": self.kernel, "reward_noise": problem.noise}

    def setting(self, rounds: int) -> dict[str, Any]:
        """For records."""
        return {"function": self.name, "kernel": self.kernel, "rounds": rounds}


SQUARED_EXPONENTIAL = Surface(
    "squared exponential", "squared_exponential", "RBF(length_scale=0.3)", 2.0
)
MATERN = Surface("Matérn 5/2", "matern52", "Matern(length_scale=0.3, nu=2.5)", 5.0)
SURFACES = (SQUARED_EXPONENTIAL, MATERN)


def share_wrong(learner: Learner[Any, Any, Any], people: Crowd) -> dict[str, float]:
    """How many contexts the learner is wrong in at the end: its best arm is 0.05 or more worse.

    An elimination learner's best arm is one that it has not given up.
    """
    assert isinstance(learner, EpochLearner)
    assert isinstance(people, GridCrowd)
    mean: FloatArray = learner.features.table @ learner.policy().believed
    if isinstance(learner, Capri):
        mean = np.where(learner.active, mean, -np.inf)
    function = people.function
    given = function[np.arange(len(function)), mean.argmax(axis=1)]
    wrong = function.max(axis=1) - given > TOLERANCE
    return {WRONG: float(people.context_weights @ wrong)}


def prediction_error(learner: Learner[Any, Any, Any], people: Crowd) -> dict[str, float]:
    """The expected regret of the prediction for one new person, without sampling error.

    One prediction is drawn too, so that the learner's guarantee says what it costs.
    """
    assert isinstance(learner, Usca)
    assert isinstance(people, GridCrowd)
    error = people.regret_of(learner.secret_probabilities(people.grid[:, None]))
    learner.predict(people.grid[:1, None])
    return {ERROR_RATE: error}


def chance_error(learner: Learner[Any, Any, Any], people: Crowd) -> dict[str, float]:
    """The expected regret of an arm chosen at random."""
    assert isinstance(people, GridCrowd)
    shape = people.function.shape
    return {ERROR_RATE: people.regret_of(np.full(shape, 1.0 / shape[1]))}
