"""The landscapes of the zoo: extremes where the books have them, humps that can be told apart."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from discreet.lab.environments.catalog import load_problem
from discreet.lab.environments.functions import FunctionProblem
from discreet.lab.environments.landscapes import LANDSCAPES, HumpProblem, Humps
from discreet.validation import InvalidInput

# The published places of the maxima.
TOPS = {
    "branin": [(-np.pi, 12.275), (np.pi, 2.275), (9.42477796, 2.475)],
    "ackley": [(0.0, 0.0)],
    "levy": [(1.0, 1.0)],
    "rosenbrock": [(1.0, 1.0)],
    "cliff": [(0.7, 0.5)],
}
HARTMANN = {
    3: [(0.114614, 0.555649, 0.852547)],
    6: [(0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573)],
}
BOTTOMS = {"branin": (-5.0, 0.0), "levy": (-10.0, -10.0), "rosenbrock": (-2.0, -1.0)}


def landscape(name: str, **options: object) -> FunctionProblem:
    problem = load_problem(name, options)
    assert isinstance(problem, FunctionProblem)
    return problem


@pytest.mark.parametrize("name", LANDSCAPES)
def test_values_fill_the_unit_interval(name, rng) -> None:
    problem = landscape(name)
    values = problem.function(
        problem.domain.from_unit(rng.random((50_000, 2 + (name == "hartmann"))))
    )
    assert values.min() >= 0.0
    assert problem.best - 0.05 < values.max() <= problem.best <= 1.0


@pytest.mark.parametrize("name", TOPS)
def test_published_maxima(name) -> None:
    problem = landscape(name)
    np.testing.assert_allclose(problem.function(np.array(TOPS[name])), problem.best, atol=1e-7)
    if name in BOTTOMS:
        assert problem.function(np.array([BOTTOMS[name]]))[0] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("dimension", HARTMANN)
def test_published_maxima_of_hartmann(dimension) -> None:
    problem = landscape("hartmann", dimension=dimension)
    values = problem.function(np.array(HARTMANN[dimension]))
    np.testing.assert_allclose(values, 1.0, atol=1e-7)


def test_the_floor_under_the_cliff() -> None:
    values = landscape("cliff").function(np.array([[0.7001, 0.5], [0.0, 0.5]]))
    np.testing.assert_allclose(values, [0.05, 0.4])


@pytest.mark.parametrize("draw", range(5))
def test_the_best_hump_stands_out(draw) -> None:
    problem = landscape("four_humps", draw=draw)
    humps = problem.function
    assert isinstance(humps, Humps)
    top = humps(humps.centres)
    # By a lattice that knows nothing of humps.
    steps = np.linspace(0.0, 10.0, 401)
    lattice = np.stack(np.meshgrid(steps, steps - 5.0), axis=-1).reshape(-1, 2)
    assert problem.best == pytest.approx(humps(lattice).max(), abs=2e-3)
    assert problem.best >= humps(lattice).max()
    assert top[0] - top[1:].max() > 0.15


def test_humps_are_new_in_each_replicate_unless_they_are_fixed(rng) -> None:
    fresh, fixed = HumpProblem(), HumpProblem(draw=3)
    first, second = (fresh.sample(5, np.random.default_rng(seed)) for seed in (1, 2))
    assert not np.allclose(first.function.centres, second.function.centres)
    again = fresh.sample(5, np.random.default_rng(1))
    np.testing.assert_array_equal(first.function.centres, again.function.centres)
    assert fixed.sample(5, rng).function is fixed.function
    assert fresh.truth(np.zeros((1, 2))) is None
    assert fixed.truth(np.zeros((1, 2))) is not None


@pytest.mark.parametrize("name", LANDSCAPES)
def test_landscapes_travel_to_other_processes(name) -> None:
    problem = landscape(name)
    again = pickle.loads(pickle.dumps(problem))
    point = problem.domain.from_unit(np.full((1, problem.domain.dimension), 0.3))
    np.testing.assert_array_equal(again.function(point), problem.function(point))


def test_uneven_noise_grows_with_the_value() -> None:
    problem = landscape("four_humps", draw=0, noise="uneven")
    people = problem.sample(20_000, np.random.default_rng(0))
    humps = problem.function

    class At:
        def __init__(self, point: np.ndarray) -> None:
            self.points = np.tile(point, (20_000, 1))
            self.arms = np.zeros(20_000, dtype=np.int64)

    for point in (humps.centres[1], np.array([0.0, -5.0])):
        expected = 0.02 + 0.28 * humps(point[None])[0]
        spread = people.received(At(point), 0).std()
        assert spread == pytest.approx(expected, rel=0.25)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("hartmann", {"dimension": 4}, "dimension was 4"),
        ("hartmann", {"grid": 5}, "a grid is for 1 or 2 columns"),
        ("four_humps", {"draw": -1}, "draw was -1"),
        ("branin", {"noise": "even"}, 'noise was "even"; .*uneven'),
    ],
)
def test_refusals(name, options, message) -> None:
    with pytest.raises(InvalidInput, match=message):
        load_problem(name, options)
