"""Regret of CAPRI by epsilon, and error rate of USCA by epsilon (Pavlovic et al. 2025).

Every method of a trial meets the same people. `ours` is `released_thompson`, or `usca` with one
prediction, as they come.
"""

from __future__ import annotations

from discreet.learners.epochs.capri import BernsteinElimination, Capri, Elimination
from discreet.learners.epochs.released_thompson import ReleasedThompson
from discreet.learners.epochs.usca import Usca, UscaCalibration
from discreet.privacy import Budget, Joint, Local, NonPrivate
from discreet.reproduction.cases import (
    NON_PRIVATE,
    OURS,
    PUBLISHED,
    UNIFORM,
    Case,
    RegretFigure,
    Request,
)
from discreet.reproduction.pavlovic2025.calibration import PublishedElimination, PublishedUsca
from discreet.reproduction.pavlovic2025.settings import (
    ERROR_RATE,
    SEED,
    SQUARED_EXPONENTIAL,
    SURFACES,
    Surface,
    chance_error,
    prediction_error,
    share_wrong,
)

OURS_LOCAL, NARROW = "ours, local", "published, z = 3"
ELIMINATION, RIGOROUS = "elimination", "elimination, rigorous"
UNIFORM_DESIGN, CHANCE = "uniform design", "random choice"

REGRET_EPSILONS = (0.5, 1.0, 4.0)
LOCAL_EPSILONS = (1.0, 4.0)
ERROR_EPSILONS = (0.1, 1.0, 10.0)


def capri_regret(request: Request) -> list[Case]:
    """Cumulative regret on both kinds of functions."""
    return [case for surface in SURFACES for case in _regret_cases(surface, request)]


def _regret_cases(surface: Surface, request: Request) -> list[Case]:
    assert request.delta is not None
    problem, rounds = surface.problem(), request.rounds
    joint = [Joint(epsilon, request.delta) for epsilon in REGRET_EPSILONS]
    local = [Local(epsilon) for epsilon in LOCAL_EPSILONS]

    def case(method: str, learner: str, budget: Budget, rule: Elimination | None = None) -> Case:
        plain = learner == UNIFORM
        return Case(
            method,
            problem,
            learner,
            rounds,
            budget,
            ({} if plain else surface.arguments(problem))
            | ({} if rule is None else {"calibration": rule}),
            surface.setting(rounds),
            "" if method == RIGOROUS else f"{surface.name}, {rounds:,} people",
            method,
            measure=None if plain else share_wrong,
        )

    capri, ours = Capri.name, ReleasedThompson.name
    narrow, rigorous = PublishedElimination(deviations=3.0), BernsteinElimination(surface.norm)
    cases = [case(PUBLISHED, capri, budget, PublishedElimination()) for budget in joint]
    cases += [case(NARROW, capri, budget, narrow) for budget in joint]
    cases += [case(RIGOROUS, capri, budget, rigorous) for budget in joint if request.slow]
    cases += [case(ELIMINATION, capri, budget) for budget in joint]
    cases += [case(OURS, ours, budget) for budget in joint]
    cases += [case(OURS_LOCAL, ours, budget) for budget in local]
    return [
        *cases,
        case(UNIFORM, UNIFORM, NonPrivate()),
        case(NON_PRIVATE, ours, NonPrivate()),
    ]


def usca_error_rate(request: Request) -> list[Case]:
    """The expected regret of one prediction, after learning from `rounds` people."""
    surface, rounds = SQUARED_EXPONENTIAL, request.rounds
    problem = surface.problem()
    budgets = [Joint(epsilon, 0.0) for epsilon in ERROR_EPSILONS]

    def case(method: str, budget: Budget, design: str, **published: UscaCalibration) -> Case:
        chance = method == CHANCE
        arguments = {**surface.arguments(problem), "predictions": 1, "design": design, **published}
        return Case(
            method,
            problem,
            UNIFORM if chance else Usca.name,
            rounds,
            budget,
            {} if chance else arguments,
            surface.setting(rounds),
            f"{rounds:,} people",
            method,
            metric=ERROR_RATE,
            measure=chance_error if chance else prediction_error,
        )

    calibration = PublishedUsca()
    cases = [case(PUBLISHED, budget, "uniform", calibration=calibration) for budget in budgets]
    cases += [case(UNIFORM_DESIGN, budget, "uniform") for budget in budgets]
    cases += [case(OURS, budget, "optimal") for budget in budgets]
    return [*cases, case(CHANCE, NonPrivate(), ""), case(NON_PRIVATE, NonPrivate(), "optimal")]


CAPRI_REGRET = RegretFigure(
    name="capri-regret",
    title="Pavlovic et al. (2025), CAPRI: cumulative regret by epsilon",
    trials=10,
    rounds=(10_000, 100_000),
    delta=1e-5,
    seed=SEED,
    cases=capri_regret,
    note=(
        "The paper prints no experiment. Published: its random sets, noise and widths. 4 Delta_r "
        "is hundreds of times the range of rewards or more, so nothing is given up and the regret "
        "is that of uniform choice. With z = 3 the noise is the same, and arms are given up three "
        "posterior deviations behind the best. The published local variant adds that noise for "
        "every person instead of once for all; it is left out. Share wrong: of contexts, those "
        "in which the best arm by the last estimate is more than 0.05 worse than the best."
    ),
    slow="elimination with rigorous widths, 5 to 20 seconds for each trial",
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
        "new person, exactly, given what was learnt. All budgets are pure. The published scale is "
        "about twice what the range of scores needs; the epsilon that it holds is the promise "
        "times that range over the scale. Uniform design: our ridge and ranges, with arms offered "
        "as published."
    ),
    form="trade-off",
)

PAVLOVIC_2025 = (CAPRI_REGRET, USCA_ERROR_RATE)
