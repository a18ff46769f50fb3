"""The cases of both figures, on small grids, and how they are drawn."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.lab.environments.kernel_grid import KernelGridProblem
from discreet.lab.experiments import Seed
from discreet.learners.epochs.capri import BernsteinElimination, Capri
from discreet.papers.pavlovic2025.calibration import PublishedElimination
from discreet.papers.pavlovic2025.figures import (
    CAPRI_REGRET,
    CHANCE,
    FUNCTIONS,
    SQUARED_EXPONENTIAL,
    USCA_ERROR_RATE,
    WRONG,
    RewardFunctions,
    share_wrong,
)
from discreet.papers.report import trade_off_figure
from discreet.papers.reproduction import Case, serve
from discreet.privacy import Joint, Local, SimulatedNoise
from discreet.validation import InvalidInput
from tests.lab.reporting.cases import overlapping


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Grids of 4 x 5 in place of 30 x 60."""

    def problem(self: RewardFunctions) -> KernelGridProblem:
        return KernelGridProblem(contexts=4, arms=5, smoothness=self.smoothness)

    monkeypatch.setattr(RewardFunctions, "problem", problem)


def test_the_settings() -> None:
    assert CAPRI_REGRET.rounds == (10_000, 100_000)
    assert USCA_ERROR_RATE.rounds == (1_000, 10_000, 100_000)
    assert FUNCTIONS[0].setting(5)["function"] != FUNCTIONS[1].setting(5)["function"]

    def budgets(method: str) -> set[object]:
        return {case.budget for case in CAPRI_REGRET.planned() if case.method == method}

    joint = {Joint(epsilon, 1e-5) for epsilon in (0.5, 1.0, 4.0)}
    assert budgets("published") == budgets("ours") == budgets("elimination") == joint
    assert budgets("ours, local") == {Local(1.0), Local(4.0)}
    published = [case for case in CAPRI_REGRET.planned() if case.method.startswith("published")]
    rules = [case.arguments["calibration"] for case in published]
    assert {rule.deviations for rule in rules} == {None, 3.0}
    assert all(isinstance(rule, PublishedElimination) for rule in rules)
    assert len({case.panel for case in CAPRI_REGRET.planned()} - {""}) == 4
    errors = USCA_ERROR_RATE.planned()
    assert {case.budget.epsilon for case in errors if case.budget.private} == {0.1, 1.0, 10.0}
    assert {case.budget.delta for case in errors if case.budget.private} == {0.0}


def test_proved_widths_are_in_the_table_alone() -> None:
    assert "proved widths" in {case.method for case in CAPRI_REGRET.planned()}
    named = CAPRI_REGRET.planned(rounds=[100], method=["proved widths", "uniform"])
    assert {case.method for case in named} == {"proved widths", "uniform"}
    rules = [case.arguments["calibration"] for case in named if case.budget.private]
    assert {type(rule) for rule in rules} == {BernsteinElimination}
    assert all(case.panel == "" for case in named if case.budget.private)


def test_every_number_of_rounds_has_its_own_cases() -> None:
    cases = CAPRI_REGRET.planned(rounds=(200, 300), method=["uniform"])
    assert [case.rounds for case in cases] == [200, 200, 300, 300]
    last = [serve(Seed(1, 0), case)[0]["along"][-1] for case in cases]
    assert last == [200, 200, 300, 300]
    # A longer trial begins with the same function.
    few, _, many, _ = (case.problem.sample(9, np.random.default_rng(0)) for case in cases)
    assert (few.function == many.function).all()  # type: ignore[attr-defined]


def test_error_rates_fall_with_epsilon_and_stay_below_chance() -> None:
    ends = USCA_ERROR_RATE.plan(2, rounds=[300]).results().ends
    means = dict(zip(zip(ends["method"], ends["epsilon"], strict=True), ends["mean"], strict=True))
    chance, free = (
        ends.loc[ends["method"] == method, "mean"].item() for method in (CHANCE, "non-private")
    )
    assert means["ours", 10.0] < means["ours", 0.1] < chance
    assert means["ours", 1.0] < chance
    assert free < means["published", 0.1]


def test_the_share_of_wrong_contexts_is_a_share_of_every_learner() -> None:
    results = CAPRI_REGRET.plan(1, rounds=[300], method=["ours", "published", "uniform"]).results()
    wrong = [record for record in results.records if record["metric"] == WRONG]
    assert {record["method"] for record in wrong} == {"ours", "published"}
    assert all(0.0 <= record["mean"] <= 1.0 for record in wrong)
    published = [record for record in results.records if record["method"] == "published"]
    assert all(record["excess_noise"] > 5.0 for record in published)


def test_the_share_of_wrong_contexts_counts_arms_that_are_left() -> None:
    problem = SQUARED_EXPONENTIAL.problem()
    case = Case("elimination", problem, "capri", 12_000, Joint(50.0, 1e-5), measure=share_wrong)
    (wrong,) = [row for row in serve(Seed(1, 1), case) if row["metric"] == WRONG]
    assert (wrong["value"], wrong["final"]) == (0.0, True)
    people = problem.sample(400, np.random.default_rng(0))
    learner = Capri(
        problem.domain, problem.space, Joint(1.0, 1e-5), horizon=400,
        reward_bounds=problem.reward_bounds, noise=SimulatedNoise(0),
    )  # fmt: skip
    # Nothing is known yet, so the first arm counts as the best; it is wrong in most contexts.
    worst = people.function.max(axis=1) - people.function[:, 0] > 0.05
    assert share_wrong(learner, people) == {WRONG: pytest.approx(worst.mean())}


def test_panels_share_their_axes_by_row_and_labels_stay_apart() -> None:
    wish = {"rounds": (60, 600), "method": ["ours", "elimination", "uniform"]}
    results = CAPRI_REGRET.plan(1, **wish).results()
    figure = trade_off_figure(None, results)
    assert overlapping(figure) == []
    assert [axes.get_title("left") for axes in figure.axes] == list(
        dict.fromkeys(results.ends["panel"])
    )
    first, second, third, _ = figure.axes
    assert first.get_ylim() == second.get_ylim() != third.get_ylim()
    for axes in figure.axes:
        low, high = axes.get_ylim()
        for line in axes.lines:
            if line.get_transform() == axes.transData:
                assert ((low < line.get_ydata()) & (line.get_ydata() < high)).all()
        assert len(axes.texts) == 3


def test_every_number_of_rounds_is_checked() -> None:
    with pytest.raises(InvalidInput, match="rounds"):
        CAPRI_REGRET.planned(rounds=[100, 1])
