"""The grids, the numbers that the program logged, what sources of a trial are, and drawings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from discreet.lab.environments.synthetic import SyntheticProblem
from discreet.papers.ma2025.data import (
    HIGH_FIRST,
    LOW_FIRST,
    Rewards,
    SourceSpec,
    SyntheticSources,
    logged_mean,
    problem,
)
from discreet.papers.ma2025.figures import (
    FIGURE_6,
    FIGURE_7,
    FIGURE_8,
    FIGURE_9A,
    FIGURE_9B,
    FIGURE_9C,
    TransferFigure,
)
from discreet.papers.ma2025.learners.published_partition import PublishedPartition
from discreet.papers.ma2025.report import density, setting_figure, sweep_figure
from discreet.papers.reproduction import Case
from discreet.privacy import Local, SimulatedNoise
from tests.lab.reporting.cases import overlapping
from tests.papers.invented import invented_results

LOGGED = (FIGURE_7, FIGURE_8, FIGURE_9A, FIGURE_9B, FIGURE_9C)


def papers(cases: list[Case]) -> list[float | None]:
    return [case.paper.get("regret") for case in cases if case.method == "program"]


def test_the_grids_are_those_of_the_paper() -> None:
    assert FIGURE_6.grid["rounds"] == (1000,)
    assert FIGURE_7.grid["rounds"] == (10_000, 20_000, 40_000, 60_000, 80_000, 120_000, 160_000)
    assert FIGURE_7.grid["epsilon"] == (1, 2, 4, 8, 1024)
    assert FIGURE_8.grid["auxiliary"] == (10_000, 20_000, 50_000, 100_000)
    assert FIGURE_9A.grid["kappa"] == (0, 0.2, 0.4, 0.6, 0.8, 1)
    assert len(FIGURE_9B.grid["gamma"]) == 11
    assert FIGURE_9C.grid["auxiliary_epsilon"] == (2, 8)
    for what in (FIGURE_6, *LOGGED):
        methods = {case.method for case in what.planned()}
        assert {"ours", "published"} <= methods
        assert what.trials == (1 if what is FIGURE_6 else 100)


@pytest.mark.parametrize("what", LOGGED, ids=lambda what: what.number)
def test_the_log_stands_beside_the_simulated_program_alone(
    what: TransferFigure,
) -> None:
    exponential, symmetric = what.planned(), what.planned(rewards="symmetric")
    assert None not in papers(exponential)
    assert not any(case.paper for case in exponential if case.method != "program")
    # Other sizes than the program's have no such number.
    assert set(papers(what.planned(rounds=[777]))) == {None}

    assert len(symmetric) == len(exponential)
    assert None not in papers(symmetric)
    assert papers(symmetric) != papers(exponential)
    assert {case.problem.arms for case in exponential} == {3}
    assert {case.problem.arms for case in symmetric} == {2}
    assert {case.setting["rewards"] for case in symmetric} == {"symmetric"}
    assert all(case.panel is None or "symmetric" in case.panel for case in symmetric)


def seven(rounds: int, sources: int) -> dict[str, Any]:
    kind = {"sources": sources, "epsilon_auxiliary": 8.0, "gamma": 0.0, "kappa": 1.0}
    return {"rounds": rounds, "n_auxiliary": 5000, **kind}


def nine(rounds: int, people: int, which: str) -> dict[str, Any]:
    kind = {"sources": 2, "epsilon_auxiliary": "2 and 8", "gamma": 0.0, "kappa": 1.0}
    return {"rounds": rounds, "n_auxiliary": people, "order": which, **kind}


@pytest.mark.parametrize(
    ("experiment", "rewards", "epsilon", "setting", "logged"),
    [
        ("sample_size_target", "exponential", 1.0, seven(10_000, 2), 668.0),
        ("sample_size_target", "exponential", 1.0, seven(80_000, 2), 4921.5),
        ("sample_size_target", "exponential", 1.0, seven(10_000, 1), 1194.0),
        ("sample_size_target", "exponential", 1.0, seven(80_000, 1), 7099.4),
        ("sample_size_target", "exponential", 1.0, seven(10_000, 3), None),
        ("order_of_auxiliary", "exponential", 1.0, nine(80_000, 100_000, HIGH_FIRST), 1545.4),
        ("order_of_auxiliary", "exponential", 1.0, nine(80_000, 100_000, LOW_FIRST), 2994.2),
        ("order_of_auxiliary", "symmetric", 2.0, nine(10_000, 10_000, HIGH_FIRST), 1084.9),
        ("gamma", "exponential", 2.0, {"rounds": 40_000, "n_auxiliary": 0}, 8189.1),
    ],
)
def test_some_logged_numbers(
    experiment: str, rewards: Rewards, epsilon: float, setting: Any, logged: float | None
) -> None:
    assert logged_mean(experiment, rewards, epsilon, setting) == logged


@pytest.mark.parametrize(("rewards", "arms"), [("exponential", 3), ("symmetric", 2)])
def test_sources_have_the_mean_rewards_of_the_target(rewards: Rewards, arms: int) -> None:
    for case in FIGURE_9C.planned(["ours", "published"], auxiliary=[3000], rewards=rewards):
        assert case.problem.arms == arms
        assert isinstance(case.sources, SyntheticSources)
        (first, _) = case.sources(np.random.default_rng(2))
        assert set(first.data.arms) == set(range(arms))
        assert isinstance(case.problem, SyntheticProblem)
        means = case.problem.mean_rewards(first.data.contexts)
        expected = means[np.arange(3000), first.data.arms]
        residual = first.data.rewards - expected
        # Bernoulli with these means: calibrated where they are high and where they are low.
        for part in (expected < 0.3, expected > 0.7):
            assert abs(residual[part].mean()) < 0.05
    contexts = np.random.default_rng(0).random((400, 2))
    assert problem(rewards).mean_rewards(contexts).shape == (400, arms)


def test_both_orders_have_the_same_data() -> None:
    a, b = SourceSpec("a", 50, 2.0), SourceSpec("b", 50, 8.0)
    first = SyntheticSources((a, b))(np.random.default_rng(1))
    second = SyntheticSources((b, a))(np.random.default_rng(1))
    assert [source.name for source in second] == ["b", "a"]
    assert (first[0].data.contexts == second[1].data.contexts).all()
    assert (first[1].data.rewards == second[0].data.rewards).all()
    assert not (first[0].data.contexts == first[1].data.contexts).all()
    assert [source.epsilon for source in first] == [2.0, 8.0]


def test_the_published_learner_knows_the_largest_source() -> None:
    wish = {"rounds": [1000], "auxiliary": [4000], "epsilon": [1.0]}
    cases = FIGURE_9C.planned(["published"], **wish)
    learner = cases[0].make(0, SimulatedNoise(0))
    assert isinstance(learner, PublishedPartition)
    assert learner.source_horizon == 4000
    assert cases[0].budget == Local(1.0)
    assert [case.setting["order"] for case in cases] == [HIGH_FIRST, LOW_FIRST]


def test_the_figure_of_the_setting_has_both_reward_functions() -> None:
    titles = [axes.get_title("left") for axes in setting_figure().axes]
    assert sum("exponential mean rewards" in title for title in titles) == 2
    assert sum("symmetric mean rewards" in title for title in titles) == 2
    assert sum("density" in title for title in titles) == 3
    for gamma in (0.0, 0.2, 2.0, 5.0):
        assert density(gamma, 1000).mean() == pytest.approx(1.0, abs=0.005)


def test_long_titles_take_two_lines() -> None:
    wish = {"rounds": [100], "auxiliary": [60], "epsilon": [1.0], "rewards": "symmetric"}
    figure = sweep_figure(FIGURE_7, invented_results(FIGURE_7.planned(**wish)))
    titles = [axes.get_title("left") for axes in figure.axes]
    assert titles[0] == "ours, no auxiliary data, symmetric rewards"
    assert titles[2] == "ours, 2 sources of 60, epsilon 8, symmetric\nrewards"
    assert overlapping(figure) == []


def test_labels_stay_apart() -> None:
    wish = {"rounds": [100], "auxiliary": [60], "kappa": [0.0, 1.0]}
    figure = sweep_figure(FIGURE_9A, invented_results(FIGURE_9A.planned(**wish)))
    assert [axes.get_title("left") for axes in figure.axes] == [
        "auxiliary epsilon 1, exponential rewards",
        "auxiliary epsilon 8, exponential rewards",
    ]
    assert all(len(axes.texts) == 10 for axes in figure.axes)
    assert overlapping(figure) == []
