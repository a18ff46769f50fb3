"""Synthetic problems: the laws of contexts and the mean rewards have the paper's values.

Auxiliary data: behaviour policies, other laws of contexts, tables, and what is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.refusals import CheckRefusals, Refused

from discreet.lab.environments.base import People
from discreet.lab.environments.synthetic import (
    AuxiliaryData,
    BetaContexts,
    CornerContexts,
    ExponentialMeans,
    SyntheticPeople,
    auxiliary_from_table,
    behaviour,
    draw_auxiliary,
    exponential,
    logged,
    symmetric,
    symmetric_means,
    synthetic_people,
)
from discreet.lab.environments.tables import ClassificationProblem
from discreet.people.domain import Box
from discreet.toml_files import Place
from discreet.validation import InvalidInput

MANY = 200_000


def uniform_regret(people: People) -> float:
    """Regret a person when arms are drawn uniformly: the average over arms, exactly."""
    assert people.means is not None
    return float((people.means.max(axis=1) - people.means.mean(axis=1)).mean())


@pytest.mark.parametrize("problem", [exponential(), exponential(5, 3, "paper"), symmetric()])
def test_sample_has_the_promised_shapes(problem, rng) -> None:
    people = problem.sample(50, rng)
    assert len(people) == 50
    assert people.contexts.shape == (50, problem.domain.dimension)
    assert people.rewards.shape == people.means.shape == (50, problem.arms)
    assert set(np.unique(people.rewards)) <= {0.0, 1.0}
    assert people.rewards.dtype == np.float64
    assert problem.metric == "regret"
    assert problem.size is None
    problem.domain.to_unit(people.contexts)


def test_rewards_follow_the_means(rng) -> None:
    people = exponential().sample(MANY, rng)
    error = people.rewards.mean(axis=0) - people.means.mean(axis=0)
    assert np.abs(error).max() < 5 * 0.5 / np.sqrt(MANY)


def test_uniform_choice_costs_what_the_paper_prints(rng) -> None:
    assert uniform_regret(exponential().sample(MANY, rng)) == pytest.approx(0.414, abs=0.003)
    assert uniform_regret(symmetric().sample(MANY, rng)) == pytest.approx(1 / 6, abs=0.003)


def test_people_value_is_regret_of_the_chosen_arms(rng) -> None:
    people = symmetric().sample(10, rng)
    best = people.means.argmax(axis=1)
    np.testing.assert_array_equal(people.value_of(best), np.zeros(10))
    worst = people.value_of(1 - best[4:7], start=4)
    np.testing.assert_allclose(worst, np.ptp(people.means[4:7], axis=1))


@pytest.mark.parametrize(
    ("centres", "peaks"), [("paper", (1 / 3, 2 / 3, 1.0)), ("program", (0.25, 0.5, 0.75))]
)
def test_exponential_arms_peak_at_their_centres(centres, peaks) -> None:
    means = ExponentialMeans(3, centres)(np.array([[x, 0.9] for x in peaks]))
    np.testing.assert_allclose(np.diag(means), 1.0)
    e = np.exp(-2 * 9 * (peaks[0] - peaks[1]) ** 2)
    assert means[0, 1] == pytest.approx(2 * e / (1 + e))


def test_symmetric_arms_win_opposite_quarters() -> None:
    middles = np.array([[0.25, 0.25], [0.75, 0.75], [0.25, 0.75], [0.75, 0.25]])
    np.testing.assert_allclose(symmetric_means(middles)[:, 1], [1, 1, 0, 0])
    corners = np.array([[0.0, 0.0], [0.5, 0.3], [1.0, 0.2]])
    np.testing.assert_allclose(symmetric_means(corners), 0.5)


def test_beta_contexts_have_their_mean_and_variance(rng) -> None:
    contexts = BetaContexts(((2.0, 5.0), (1.0, 1.0)))(MANY, rng)
    np.testing.assert_allclose(contexts.mean(axis=0), [2 / 7, 0.5], atol=0.005)
    np.testing.assert_allclose(contexts.var(axis=0), [10 / (49 * 8), 1 / 12], atol=0.002)


@pytest.mark.parametrize("dimension", [1, 2, 3])
@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0])
def test_corner_contexts_have_their_density(dimension, gamma, rng) -> None:
    """On a grid, cell counts match the integral of ||x - 1/2||_inf^gamma over the cell."""
    cells, fine = 4, 40  # `fine` midpoints along each axis, for the integral
    contexts = CornerContexts(dimension, gamma)(MANY, rng)
    assert contexts.min() >= 0.0
    assert contexts.max() <= 1.0
    found, _ = np.histogramdd(contexts, bins=cells, range=[(0.0, 1.0)] * dimension)
    axes = np.meshgrid(*[(np.arange(fine) + 0.5) / fine] * dimension)
    points = np.stack([axis.ravel() for axis in axes], axis=1)
    density = np.abs(points - 0.5).max(axis=1) ** gamma
    expected, _ = np.histogramdd(
        points, bins=cells, range=[(0.0, 1.0)] * dimension, weights=density / density.sum()
    )
    spread = np.sqrt(expected * (1 - expected) / MANY)
    assert (np.abs(found / MANY - expected) < 5 * spread + 1e-3).all()


def seeded(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def table() -> ClassificationProblem:
    contexts = np.arange(30.0)[:, None]
    return ClassificationProblem(
        contexts, np.arange(30) % 3, Box((0.0,), (29.0,)), ("a", "b", "c"), "a test"
    )


@pytest.mark.parametrize("arms", [2, 3, 7])
@pytest.mark.parametrize("kappa", [0.0, 0.3, 1.0])
def test_behaviour_policies_explore_as_much_as_they_say(arms: int, kappa: float) -> None:
    """kappa / K + (2 - 2 kappa) / (K (K - 1)) (0, ..., K - 1); K times the least of it is kappa."""
    mu = behaviour(arms, kappa)
    by_hand = [kappa / arms + (2 - 2 * kappa) / (arms * (arms - 1)) * k for k in range(arms)]
    np.testing.assert_allclose(mu, by_hand, atol=1e-12)
    assert mu.sum() == pytest.approx(1.0, abs=1e-12)
    assert arms * mu.min() == pytest.approx(kappa, abs=1e-12)
    people = People(np.zeros((20_000, 1)), np.zeros((20_000, arms)))
    chosen = logged(people, kappa, seeded()).arms
    np.testing.assert_allclose(np.bincount(chosen, minlength=arms) / 20_000, mu, atol=0.015)


def test_synthetic_sources_share_mean_rewards_and_not_contexts() -> None:
    problem = exponential()
    data = draw_auxiliary(problem, 40_000, seeded(1), contexts=CornerContexts(2, 5.0), kappa=0.4)
    assert data.contexts.shape == (40_000, 2)
    distance = np.abs(data.contexts - 0.5).max(axis=1)
    # Density proportional to the norm to the fifth: the share inside half the cube is 2^-7.
    assert (distance < 0.25).mean() == pytest.approx(2.0**-7, abs=0.002)
    means = ExponentialMeans(3)(data.contexts)[np.arange(len(data)), data.arms]
    assert (data.rewards - means).mean() == pytest.approx(0.0, abs=0.01)
    assert set(np.unique(data.rewards)) == {0.0, 1.0}
    assert (data.arms == 0).mean() == pytest.approx(0.4 / 3, abs=0.01)
    same = draw_auxiliary(problem, 40_000, seeded(1))
    assert (np.abs(same.contexts - 0.5).max(axis=1) < 0.25).mean() == pytest.approx(0.25, abs=0.01)


def test_a_table_becomes_a_source_without_repeating_anybody() -> None:
    problem = table()
    data = auxiliary_from_table(problem, seeded(2))
    assert sorted(data.contexts[:, 0]) == list(range(30))
    right = (data.contexts[:, 0].astype(int) % 3) == data.arms
    assert (data.rewards == right).all()


def test_data_are_copied_and_cannot_be_changed() -> None:
    contexts = np.zeros((2, 1))
    data = AuxiliaryData(contexts, np.array([0, 1]), np.array([0.0, 1.0]))
    contexts[0] = 9.0
    assert data.contexts[0, 0] == 0.0
    with pytest.raises(ValueError, match="read-only"):
        data.arms[0] = 1


def source(contexts: object, arms: object, rewards: object) -> AuxiliaryData:
    return AuxiliaryData(contexts, arms, rewards)  # type: ignore[arg-type]


REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: ExponentialMeans(3, "middle"), "centres was 'middle'"),  # type: ignore[arg-type]
    (lambda: exponential(arms=1), "arms was 1"),
    (lambda: exponential(dimension=0), "dimension was 0"),
    (lambda: CornerContexts(2, -1.0), "gamma was -1.0"),
    (lambda: CornerContexts(2, float("nan")), "gamma was nan"),
    (lambda: BetaContexts(((0.0, 1.0),)), "Beta shape was 0.0"),
    (lambda: symmetric().sample(0, seeded()), "rounds was 0"),
    (lambda: source([0.1, 0.2], [0, 1], [0.0, 1.0]), "shape (n, d)"),
    (lambda: source(np.empty((0, 2)), [], []), "empty"),
    (lambda: source([[0.1], [np.nan]], [0, 1], [0.0, 1.0]), "contexts"),
    (lambda: source([[0.1], [0.2]], [0, -1], [0.0, 1.0]), "arms had -1"),
    (lambda: source([[0.1], [0.2]], [0.5, 1.0], [0.0, 1.0]), "arms"),
    (lambda: source([[0.1], [0.2]], [0, 1], [0.0]), "rewards"),
    (lambda: source([[0.1], [0.2]], [0, 1], [0.0, np.inf]), "rewards"),
    (lambda: behaviour(1, 1.0), "arms"),
    (lambda: behaviour(3, 1.5), "kappa was 1.5"),
    (lambda: behaviour(3, -0.1), "kappa was -0.1"),
]


def test_arguments_that_are_refused(refusals: CheckRefusals) -> None:
    refusals(
        "synthetic", [Refused(f"{n}: {part}", call, part) for n, (call, part) in enumerate(REFUSED)]
    )


# People from declarations alone.


PLACE = Place("study.toml")
COLUMNS = [
    {"name": "age", "lower": 20, "upper": 60},
    {"name": "visits", "lower": 0, "upper": 4, "levels": 5},
    {"name": "sex", "values": ["f", "m"]},
]
LABEL = {"column": "y", "classes": ["none", "call", "visit"]}
REWARDS = {"columns": ["a", "b"], "lower": -1, "upper": 3}


def of(contrast: float = 0.5, **options: Any) -> SyntheticPeople:
    table = {"name": "table", "path": "nowhere.csv", "columns": COLUMNS, **options}
    return synthetic_people({"problem": table}, PLACE, contrast)


def test_declarations_become_a_problem_and_no_file_is_read() -> None:
    problem = of(label=LABEL)
    assert problem.arm_names == ("none", "call", "visit")
    assert problem.domain.names == ("age", "visits", "sex")
    assert problem.domain.categories[2] == ("f", "m")
    assert problem.metric == "regret"
    assert problem.size is None
    assert not problem.files
    assert "invented people" in problem.source


def test_people_lie_on_the_declared_levels_and_rewards_within_bounds() -> None:
    problem = of(rewards=REWARDS)
    people = problem.sample(2000, np.random.default_rng(1))
    problem.domain.to_unit(people.contexts)  # refuses what is outside
    assert set(np.unique(people.contexts[:, 1])) == {0.0, 1.0, 2.0, 3.0, 4.0}
    assert set(np.unique(people.contexts[:, 2])) == {0.0, 1.0}
    assert set(np.unique(people.rewards)) == {-1.0, 3.0}
    assert people.means is not None
    assert people.rewards.mean(axis=0) == pytest.approx(people.means.mean(axis=0), abs=0.15)


@pytest.mark.parametrize("contrast", [0.1, 0.5, 1.0])
def test_contrast_is_how_much_arms_differ(contrast: float) -> None:
    problem = of(contrast, rewards=REWARDS)
    means = problem.sample(4000, np.random.default_rng(2)).means
    assert means is not None
    largest = np.ptp(means, axis=1).max()
    assert largest == pytest.approx(problem.difference, rel=0.01)
    assert problem.difference == pytest.approx(contrast * of(1.0, rewards=REWARDS).difference)
    assert f"differ by up to {problem.difference:.2g}" in problem.source


def test_thresholds_and_named_problems_have_arms_too() -> None:
    brackets = of(label={"column": "hours", "thresholds": [10, 20]})
    assert brackets.arm_names == ("under 10", "10 to 20", "20 or more")
    earnings = synthetic_people({"problem": {"name": "earnings"}}, PLACE)
    assert earnings.arm_names == ("under 13", "13 to 20", "20 or more")


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        ({"name": "dose"}, "need arms, and the problem 'dose' has none"),
        ({"name": "tabel"}, "problem was 'tabel'"),
        ({}, "without a name"),
        ({"name": "table", "columns": 3}, "columns"),
    ],
)
def test_problems_without_arms_are_refused(problem: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        synthetic_people({"problem": problem}, PLACE)


def test_synthetic_people_come_once() -> None:
    table = {"name": "table", "path": "nowhere.csv", "columns": COLUMNS, "label": LABEL}
    content = {
        "problem": table,
        "learners": [{"epsilon": 1.0}, {"epsilon": 1.0, "max_contributions": 3}],
    }
    with pytest.raises(
        InvalidInput, match="max_contributions was 3, but synthetic people come once"
    ):
        synthetic_people(content, PLACE)


def test_a_contrast_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidInput, match="contrast was 0"):
        of(0.0, label=LABEL)
