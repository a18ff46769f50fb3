"""The grids, the numbers copied from the paper, and what sources of a trial are."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.learners.partition.published import PublishedPartition
from discreet.privacy import Local, SimulatedNoise
from discreet.problems.synthetic import SyntheticProblem
from discreet.reporting.ma2025 import density, setting_figure
from discreet.reproduction.cases import Case
from discreet.reproduction.ma2025.figures import (
    FIGURE_6,
    FIGURE_7,
    FIGURE_8,
    FIGURE_9A,
    FIGURE_9B,
    FIGURE_9C,
)
from discreet.reproduction.ma2025.real_data import ADULT, AT_END, AT_QUARTER, JOBS, TAXI
from discreet.reproduction.ma2025.settings import (
    HIGH_FIRST,
    LOW_FIRST,
    Rewards,
    SourceSpec,
    SyntheticSources,
    alike,
    logged_mean,
    problem,
)
from discreet.reproduction.ma2025.table import printed
from discreet.validation import InvalidInput

SERVED = (FIGURE_6, FIGURE_7, FIGURE_8, FIGURE_9A, FIGURE_9B, FIGURE_9C)


def papers(cases: list[Case]) -> list[float | None]:
    return [case.paper.get("regret") for case in cases if case.method == "published"]


def test_the_grids_are_those_of_the_paper() -> None:
    assert FIGURE_6.grid.rounds == (1000,)
    assert FIGURE_6.trials == 1
    assert FIGURE_7.sizes == (10_000, 20_000, 40_000, 60_000, 80_000, 120_000, 160_000)
    assert FIGURE_7.grid.epsilon == (1, 2, 4, 8, 1024)
    assert FIGURE_8.grid.auxiliary == (10_000, 20_000, 50_000, 100_000)
    assert FIGURE_9A.grid.kappa == (0, 0.2, 0.4, 0.6, 0.8, 1)
    assert len(FIGURE_9B.grid.gamma) == 11
    assert FIGURE_9C.grid.auxiliary_epsilon == (2, 8)
    for what in SERVED:
        methods = {case.method for case in what.planned()}
        assert {"ours", "published"} <= methods
        assert what.trials == (1 if what is FIGURE_6 else 100)


def test_what_the_program_logged_stands_beside_the_published_method_alone() -> None:
    for what in (FIGURE_7, FIGURE_8, FIGURE_9A, FIGURE_9B, FIGURE_9C):
        cases = what.planned()
        assert None not in papers(cases), what.name
        assert not any(case.paper for case in cases if case.method != "published")
        # Other sizes than the program's have no such number.
        assert set(papers(what.planned(rounds=[777]))) == {None}


def test_the_program_logged_the_symmetric_rewards_too() -> None:
    for what in (FIGURE_7, FIGURE_8, FIGURE_9A, FIGURE_9B, FIGURE_9C):
        exponential, symmetric = what.planned(), what.planned(rewards="symmetric")
        assert len(symmetric) == len(exponential)
        assert None not in papers(symmetric), what.name
        assert papers(symmetric) != papers(exponential)
        assert {case.problem.arms for case in exponential} == {3}
        assert {case.problem.arms for case in symmetric} == {2}
        assert {case.setting["rewards"] for case in symmetric} == {"symmetric"}
        assert all(case.panel is None or "symmetric" in case.panel for case in symmetric)
    low_quality_last = logged_mean(
        "order_of_auxiliary",
        epsilon=2.0,
        rounds=10_000,
        n_auxiliary=10_000,
        epsilon_auxiliary=HIGH_FIRST,
        rewards="symmetric",
    )
    assert low_quality_last == 1084.9


def test_sources_have_the_mean_rewards_of_the_target() -> None:
    contexts = np.random.default_rng(0).random((400, 2))
    kinds: tuple[tuple[Rewards, int], ...] = (("exponential", 3), ("symmetric", 2))
    for rewards, arms in kinds:
        for case in FIGURE_9C.planned(auxiliary=[3000], rewards=rewards):
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
        assert problem(rewards).mean_rewards(contexts).shape == (400, arms)


def test_some_logged_numbers() -> None:
    def seven(rounds: int, sources: int) -> float | None:
        return logged_mean(
            "sample_size_target",
            epsilon=1.0,
            rounds=rounds,
            n_auxiliary=5000,
            sources=sources,
            epsilon_auxiliary=8.0,
        )

    assert (seven(10_000, 2), seven(80_000, 2)) == (668.0, 4921.5)
    assert (seven(10_000, 1), seven(80_000, 1)) == (1194.0, 7099.4)
    assert seven(10_000, 3) is None
    best, worst = (
        logged_mean(
            "order_of_auxiliary",
            epsilon=1.0,
            rounds=80_000,
            n_auxiliary=100_000,
            epsilon_auxiliary=which,
        )
        for which in (HIGH_FIRST, LOW_FIRST)
    )
    assert (best, worst) == (1545.4, 2994.2)


def test_table_2_as_printed() -> None:
    assert printed(ADULT, 1.0, 1.0, "published", True, AT_QUARTER) == 1.459
    assert printed(ADULT, 2.0, 4.0, "published", True, AT_END) == 1.210
    assert printed(JOBS, 1.0, 4.0, "linear", False, AT_QUARTER) == 0.804
    assert printed(TAXI, 2.0, 1.0, "neural", False, AT_END) == 0.999
    assert printed(TAXI, 2.0, 1.0, "ours", False, AT_END) is None
    assert printed(TAXI, 3.0, 1.0, "neural", False, AT_END) is None


def test_both_orders_have_the_same_data() -> None:
    one, two = SourceSpec("a", 50, 2.0), SourceSpec("b", 50, 8.0)
    first = SyntheticSources((one, two))(np.random.default_rng(1))
    second = SyntheticSources((two, one))(np.random.default_rng(1))
    assert [source.name for source in second] == ["b", "a"]
    assert (first[0].data.contexts == second[1].data.contexts).all()
    assert (first[1].data.rewards == second[0].data.rewards).all()
    assert not (first[0].data.contexts == first[1].data.contexts).all()
    assert [source.epsilon for source in first] == [2.0, 8.0]


def test_the_published_learner_knows_the_largest_source() -> None:
    wish = {"rounds": [1000], "auxiliary": [4000], "epsilon": [1.0]}
    cases = FIGURE_9C.planned(["published"], constant=0.5, **wish)
    made = cases[0].make(0, SimulatedNoise(0))
    assert isinstance(made, PublishedPartition)
    assert made.source_horizon == 4000
    assert made.confidence_constant == 0.5
    assert cases[0].budget == Local(1.0)
    orders = [case.setting["order"] for case in cases]
    assert orders == [HIGH_FIRST, LOW_FIRST]


def test_the_figure_of_the_setting_has_both_reward_functions() -> None:
    titles = [axes.get_title("left") for axes in setting_figure().axes]
    assert sum("exponential mean rewards" in title for title in titles) == 2
    assert sum("symmetric mean rewards" in title for title in titles) == 2
    assert sum("density" in title for title in titles) == 3


def test_densities_integrate_to_1() -> None:
    for gamma in (0.0, 0.2, 2.0, 5.0):
        assert density(gamma, 1000).mean() == pytest.approx(1.0, abs=0.005)


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        ({"kappa": [0.5]}, "--kappa was given, but this figure does not vary it"),
        ({"rounds": [1]}, "rounds was 1"),
        ({"epsilon": [0.0]}, "epsilon was 0.0"),
        ({"auxiliary": [0]}, "auxiliary was 0"),
        ({"auxiliary_epsilon": [-1.0]}, "epsilon was -1.0"),
        ({"sources": [0]}, "sources was 0"),
    ],
)
def test_bad_wishes_are_refused(wish: dict[str, list[float]], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        FIGURE_7.planned(**wish)


def test_more_bad_wishes_are_refused() -> None:
    for what, wish, message in (
        (FIGURE_9A, {"kappa": [1.2]}, "kappa was 1.2"),
        (FIGURE_9B, {"gamma": [-0.1]}, "gamma was -0.1"),
    ):
        with pytest.raises(InvalidInput, match=message):
            what.planned(**wish)
    with pytest.raises(InvalidInput, match="method was 'theirs'"):
        FIGURE_7.planned(method=["theirs"])
    with pytest.raises(InvalidInput, match="constant"):
        FIGURE_7.planned(constant=-1.0)
    with pytest.raises(InvalidInput, match="people of a source"):
        alike(1, 0, 1.0)
