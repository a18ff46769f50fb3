"""Functions on a public box: exact extremes, noise that is fixed in advance, clear refusals."""

from __future__ import annotations

import math
import pickle
from dataclasses import dataclass

import numpy as np
import pytest

from discreet.lab.environments.functions import (
    FunctionProblem,
    Michalewicz,
    camelback,
    camelback_values,
    grid_of,
    michalewicz,
    styblinski_tang,
    styblinski_tang_values,
)
from discreet.people.domain import Box, DecisionSets, PublicBox, PublicSet, unit_cube
from discreet.validation import FloatArray, IntArray, InvalidInput

NAMED = [camelback, styblinski_tang, michalewicz]


@dataclass
class Chosen:
    points: FloatArray | None
    arms: IntArray


def chosen(points: object) -> Chosen:
    array = np.asarray(points, dtype=np.float64)
    return Chosen(array, np.full(len(array), -1))


def ramp(points: FloatArray) -> FloatArray:
    return points[:, 0]


def uniform_regret(problem: FunctionProblem, rng: np.random.Generator, n: int = 200_000) -> float:
    """Regret of 10,000 people who choose uniformly in the box."""
    points = problem.domain.from_unit(rng.random((n, problem.domain.dimension)))
    return 10_000 * float((problem.best - problem.function(points)).mean())


@pytest.mark.parametrize("make", NAMED)
def test_named_functions_fill_the_unit_interval(make, rng) -> None:
    problem = make()
    points = problem.domain.from_unit(rng.random((20_000, problem.domain.dimension)))
    values = problem.function(points)
    assert values.shape == (20_000,)
    assert values.min() >= 0.0
    assert values.max() <= 1.0 == problem.best
    assert (problem.space, problem.metric, problem.size) == (PublicBox(), "regret", None)
    assert problem.arm_names == ()
    assert "Dubey (2021)" in problem.source


def test_camelback_extremes() -> None:
    top = [[0.0898420131, -0.7126564030], [-0.0898420131, 0.7126564030]]
    np.testing.assert_allclose(camelback_values(np.array(top)), 1.0, atol=1e-12)
    bottom = np.array([[2.0, 1.0], [-2.0, -1.0]])
    np.testing.assert_allclose(camelback_values(bottom), 0.0, atol=1e-12)
    middle = (86 / 15) / (86 / 15 + 1.0316284535)
    assert camelback_values(np.zeros((1, 2)))[0] == pytest.approx(middle)


@pytest.mark.parametrize("dimension", [1, 3, 20])
def test_styblinski_tang_extremes(dimension) -> None:
    top, bottom = np.full((1, dimension), -2.903534027771177), np.full((1, dimension), 5.0)
    assert styblinski_tang_values(top)[0] == pytest.approx(1.0, abs=1e-12)
    assert styblinski_tang_values(bottom)[0] == pytest.approx(0.0, abs=1e-12)


def test_michalewicz_extremes() -> None:
    # The published maxima for d = 2, 5, 10 and m = 10.
    assert Michalewicz(2).highest == pytest.approx(1.8013034, abs=1e-7)
    assert Michalewicz(5).highest == pytest.approx(4.687658, abs=1e-6)
    assert Michalewicz(10).highest == pytest.approx(9.66015, abs=1e-5)
    assert Michalewicz(2)(np.array([[2.20290552, 1.57079633]]))[0] == pytest.approx(1.0, abs=1e-9)
    assert Michalewicz(2)(np.zeros((1, 2)))[0] == 0.0
    # One column by hand: sin(x) sin(x^2 / pi)^20.
    value = math.sin(1.0) * math.sin(1.0 / math.pi) ** 20
    assert Michalewicz(1)(np.ones((1, 1)))[0] * Michalewicz(1).highest == pytest.approx(value)


def test_uniform_choice_costs_what_the_module_says(rng) -> None:
    assert uniform_regret(camelback(), rng) == pytest.approx(3192, abs=25)
    assert uniform_regret(styblinski_tang(), rng, 50_000) == pytest.approx(2132, abs=8)
    assert uniform_regret(michalewicz(), rng, 50_000) == pytest.approx(8859, abs=15)


def test_uniform_choice_on_a_grid_costs_what_camelback_says() -> None:
    problem = camelback(grid=41)
    assert isinstance(problem.space, PublicSet)
    values = problem.function(problem.space.array)
    assert 10_000 * (problem.best - values.mean()) == pytest.approx(3293, abs=0.5)
    assert problem.best == values.max() < 1.0


def test_the_best_action_has_no_regret(rng) -> None:
    people = camelback().sample(4, rng)
    assert people.contexts.shape == (4, 0)
    assert len(people) == 4
    actions = chosen([[0.0898420131, -0.7126564030], [2.0, 1.0]])
    np.testing.assert_allclose(people.value(actions, 2), [0.0, 1.0], atol=1e-12)
    np.testing.assert_array_equal(people.best_fixed(), np.zeros(4))
    np.testing.assert_array_equal(people.oracle(), np.zeros(4))


def test_gaussian_noise_is_fixed_in_advance_and_cut(rng) -> None:
    problem = FunctionProblem(ramp, unit_cube(1), 1.0, noise=0.2)
    people = problem.sample(50_000, rng)
    half = chosen(np.full((50_000, 1), 0.5))
    rewards = people.received(half, 0)
    assert rewards.mean() == pytest.approx(0.5, abs=0.005)
    assert rewards.std() == pytest.approx(0.2, abs=0.005)
    assert (rewards.min(), rewards.max()) == (0.0, 1.0)
    # The same person has the same noise at another point, and in another batch.
    other = people.received(chosen(np.full((50_000, 1), 0.4)), 0)
    inside = (rewards > 0.0) & (rewards < 1.0) & (other > 0.0) & (other < 1.0)
    np.testing.assert_allclose((rewards - other)[inside], 0.1)
    np.testing.assert_array_equal(people.received(chosen([[0.5]] * 7), 100), rewards[100:107])


def test_bernoulli_rewards(rng) -> None:
    people = FunctionProblem(ramp, unit_cube(1), 1.0, "bernoulli").sample(50_000, rng)
    rewards = people.received(chosen(np.full((50_000, 1), 0.3)), 0)
    assert set(np.unique(rewards)) == {0.0, 1.0}
    assert rewards.mean() == pytest.approx(0.3, abs=0.01)
    more = people.received(chosen(np.full((50_000, 1), 0.6)), 0)
    assert (more >= rewards).all()
    assert people.received(chosen([[1.0], [0.0]]), 0).tolist() == [1.0, 0.0]


def test_no_noise(rng) -> None:
    people = FunctionProblem(ramp, unit_cube(1), 1.0, noise=0).sample(2, rng)
    np.testing.assert_array_equal(people.received(chosen([[0.2], [0.9]]), 0), [0.2, 0.9])


def test_a_grid_covers_the_box_corner_to_corner() -> None:
    box = Box((-2.0, -1.0), (2.0, 1.0))
    points = grid_of(box, 3).array
    assert points.shape == (9, 2)
    assert {tuple(row) for row in points} == {(a, b) for a in (-2, 0, 2) for b in (-1, 0, 1)}
    box.to_unit(points)
    for make in NAMED:
        problem = make(grid=5) if make is camelback else make(grid=5, dimension=2)
        assert len(problem.space.points) == 25
        problem.domain.to_unit(problem.space.array)


def test_regret_on_a_public_set_is_against_its_best_point(rng) -> None:
    space = PublicSet(((0.1,), (0.6,)))
    problem = FunctionProblem(ramp, unit_cube(1), space=space)
    assert problem.best == 0.6
    assert problem.space is space
    np.testing.assert_allclose(problem.sample(2, rng).value(chosen([[0.1], [0.6]]), 0), [0.5, 0.0])


def test_problems_travel_to_other_processes(rng) -> None:
    for make in NAMED:
        problem = pickle.loads(pickle.dumps(make()))
        assert len(problem.sample(3, rng)) == 3


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"function": 3}, "function was 3; give a Python function"),
        ({"best": None}, "best was None; it must be the largest value"),
        ({"best": 1.5}, "best was 1.5; it must be the largest value"),
        ({"best": float("nan")}, "best was nan"),
        ({"noise": -0.1}, "noise was -0.1; it must be a standard deviation"),
        ({"noise": "gauss"}, "noise was 'gauss'"),
        ({"noise": True}, "noise was True"),
        ({"noise": math.inf}, "noise was inf"),
        ({"space": 3}, "space was 3; everyone is offered the same points"),
        ({"space": DecisionSets(3)}, "space was DecisionSets"),
        ({"space": PublicSet(((1.5,),))}, "1.5 in column 'x1'"),
        ({"space": PublicSet(((0.5, 0.5),))}, "shape"),
        ({"space": PublicSet(((0.5,),)), "function": lambda x: x}, r"shape \(1, 1\) for 1 points"),
        ({"space": PublicSet(((0.5,),)), "function": lambda x: 9 * x[:, 0]}, "gave 4.5"),
        ({"space": PublicSet(((0.5,),)), "function": lambda x: np.nan * x[:, 0]}, "gave nan"),
    ],
)
def test_arguments_that_are_refused(settings, message) -> None:
    usual = {"function": ramp, "domain": unit_cube(1), "best": 1.0}
    with pytest.raises(InvalidInput, match=message):
        FunctionProblem(**{**usual, **settings})


def test_functions_that_break_their_promise_are_refused(rng) -> None:
    low = FunctionProblem(ramp, unit_cube(1), 0.5).sample(1, rng)
    with pytest.raises(InvalidInput, match=r"gave 0\.9, more than best = 0\.5"):
        low.value(chosen([[0.9]]), 0)
    with pytest.raises(InvalidInput, match="arms without points"):
        low.received(Chosen(None, np.zeros(1, dtype=np.int64)), 0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: styblinski_tang(grid=3), r"grid was 3 for 20 columns, which makes 3\^20 points"),
        (lambda: camelback(grid=1), "grid was 1"),
        (lambda: styblinski_tang(dimension=0), "dimension was 0"),
        (lambda: michalewicz(dimension=2.5), "dimension was 2.5"),
    ],
)
def test_named_functions_that_are_refused(make, message) -> None:
    with pytest.raises(InvalidInput, match=message):
        make()
