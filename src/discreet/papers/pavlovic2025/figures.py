"""Regret of CAPRI by epsilon, and error rate of USCA by epsilon (Pavlovic et al. 2025).

The papers are theory and print no experiment. The setting is theirs: contexts from a known
distribution on a finite set (30 values), finitely many arms (60), a reward function of a kernel's
space. It is drawn from a Gaussian process and scaled to |f| <= 0.8, with noise in +-0.25. All
methods know the kernel, the reward bounds +-1.05 and the bound of the noise, and every method of a
trial meets the same people. `ours` is `kernel`, or `usca` with one prediction, as they come.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.lab.environments.base import Population
from discreet.lab.environments.kernel_grid import GridPopulation, KernelGridProblem, Smoothness
from discreet.learners.base import Learner
from discreet.learners.epochs.capri import BernsteinElimination, Capri
from discreet.learners.epochs.usca import Usca
from discreet.learners.kernel.learner import KernelLearner, LocalKernel
from discreet.papers.pavlovic2025.calibration import PublishedElimination, PublishedUsca
from discreet.papers.reproduction import (
    NON_PRIVATE,
    OURS,
    PUBLISHED,
    UNIFORM,
    Case,
    CaseRequest,
    RegretFigure,
)
from discreet.privacy import Budget, Joint, Local, NonPrivate
from discreet.validation import FloatArray

# Base of the trials' seeds; nothing was ever tuned on it.
SEED = 20250601

WRONG = "share wrong"
ERROR_RATE = "error rate"
# An arm that is so much worse than the best is a wrong one.
TOLERANCE = 0.05


@dataclass(frozen=True)
class RewardFunctions:
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


SQUARED_EXPONENTIAL = RewardFunctions(
    "squared exponential", "squared_exponential", "RBF(length_scale=0.3)", 2.0
)
MATERN = RewardFunctions("Matérn 5/2", "matern52", "Matern(length_scale=0.3, nu=2.5)", 5.0)
FUNCTIONS = (SQUARED_EXPONENTIAL, MATERN)


def share_wrong(learner: Learner[Any, Any, Any], people: Population) -> dict[str, float]:
    """How many contexts the learner is wrong in at the end: its best arm is 0.05 or more worse.

    An elimination learner's best arm is one that it has not given up.
    """
    assert isinstance(people, GridPopulation)
    if isinstance(learner, Capri):
        mean: FloatArray = learner.features.table @ learner.policy().believed
        mean = np.where(learner.active, mean, -np.inf)
    else:
        assert isinstance(learner, KernelLearner)
        mean = learner.predict(people.grid[:, None])[0]
    function = people.function
    given = function[np.arange(len(function)), mean.argmax(axis=1)]
    wrong = function.max(axis=1) - given > TOLERANCE
    return {WRONG: float(people.context_weights @ wrong)}


def prediction_error(learner: Learner[Any, Any, Any], people: Population) -> dict[str, float]:
    """The expected regret of the prediction for one new person, without sampling error.

    One prediction is drawn too, so that the learner's guarantee says what it costs.
    """
    assert isinstance(learner, Usca)
    assert isinstance(people, GridPopulation)
    error = people.regret_of(learner.secret_probabilities(people.grid[:, None]))
    learner.predict(people.grid[:1, None])
    return {ERROR_RATE: error}


def chance_error(learner: Learner[Any, Any, Any], people: Population) -> dict[str, float]:
    """The expected regret of an arm chosen at random."""
    assert isinstance(people, GridPopulation)
    shape = people.function.shape
    return {ERROR_RATE: people.regret_of(np.full(shape, 1.0 / shape[1]))}


OURS_LOCAL, NARROW = "ours, local", "published, z = 3"
ELIMINATION, PROVED = "elimination", "proved widths"
UNIFORM_DESIGN, CHANCE = "uniform design", "random choice"

# A method, its learner, its budgets and what it is given beyond what all learners know.
Methods = list[tuple[str, str, Sequence[Budget], dict[str, Any]]]


def capri_regret(request: CaseRequest) -> Iterator[Case]:
    """Cumulative regret on both kinds of functions."""
    joint = [Joint(epsilon, request.delta) for epsilon in (0.5, 1.0, 4.0)]
    local = [Local(epsilon) for epsilon in (1.0, 4.0)]
    capri, ours, rounds = Capri.name, LocalKernel.name, request.rounds
    for surface in FUNCTIONS:
        problem = surface.problem()
        methods: Methods = [
            (PUBLISHED, capri, joint, {"calibration": PublishedElimination()}),
            (NARROW, capri, joint, {"calibration": PublishedElimination(deviations=3.0)}),
            (PROVED, capri, joint, {"calibration": BernsteinElimination(surface.norm)}),
            (ELIMINATION, capri, joint, {}),
            (OURS, ours, joint, {}),
            # More people take hours.
            (OURS_LOCAL, ours, local if rounds <= 10_000 else (), {}),
            (UNIFORM, UNIFORM, [NonPrivate()], {}),
            (NON_PRIVATE, ours, [NonPrivate()], {}),
        ]
        for method, learner, budgets, published in methods:
            learns = learner != UNIFORM
            for budget in budgets:
                yield Case(
                    method,
                    problem,
                    learner,
                    rounds,
                    budget,
                    surface.arguments(problem) | published if learns else {},
                    surface.setting(rounds),
                    "" if method == PROVED else f"{surface.name}, {rounds:,} people",
                    method,
                    measure=share_wrong if learns else None,
                )


def usca_error_rate(request: CaseRequest) -> Iterator[Case]:
    """The expected regret of one prediction, after learning from `rounds` people."""
    surface, rounds = SQUARED_EXPONENTIAL, request.rounds
    problem = surface.problem()
    pure = [Joint(epsilon, 0.0) for epsilon in (0.1, 1.0, 10.0)]
    usca = Usca.name
    methods: Methods = [
        (PUBLISHED, usca, pure, {"design": "uniform", "calibration": PublishedUsca()}),
        (UNIFORM_DESIGN, usca, pure, {"design": "uniform"}),
        (OURS, usca, pure, {"design": "optimal"}),
        (CHANCE, UNIFORM, [NonPrivate()], {}),
        (NON_PRIVATE, usca, [NonPrivate()], {"design": "optimal"}),
    ]
    for method, learner, budgets, options in methods:
        learns = learner != UNIFORM
        for budget in budgets:
            yield Case(
                method,
                problem,
                learner,
                rounds,
                budget,
                {**surface.arguments(problem), "predictions": 1, **options} if learns else {},
                surface.setting(rounds),
                f"{rounds:,} people",
                method,
                metric=ERROR_RATE,
                measure=prediction_error if learns else chance_error,
            )


CAPRI_REGRET = RegretFigure(
    name="capri-regret",
    title="Pavlovic et al. (2025), CAPRI: cumulative regret by epsilon",
    trials=10,
    rounds=(10_000, 100_000),
    delta=1e-5,
    seed=SEED,
    cases=capri_regret,
    note=(
        "The paper prints no experiment. Published: its random sets, noise and widths, which "
        "eliminate no arm. z = 3: the same noise; arms are eliminated three posterior deviations "
        "behind the best. Share wrong: of contexts whose recommended arm loses more than 0.05."
    ),
    form="trade-off",
)

USCA_ERROR_RATE = RegretFigure(
    name="usca-error-rate",
    title="Pavlovic et al. (2025), USCA: error rate of one prediction by epsilon",
    trials=10,
    rounds=(1_000, 10_000, 100_000),
    delta=None,
    seed=SEED,
    cases=usca_error_rate,
    note=(
        "The paper prints no experiment. Error rate: the expected regret of one prediction for a "
        "new person. All budgets are pure. The published scale is about twice what the range of "
        "scores needs. Uniform design: our ridge and ranges, with arms offered as published."
    ),
    form="trade-off",
)

PAVLOVIC_2025 = (CAPRI_REGRET, USCA_ERROR_RATE)
