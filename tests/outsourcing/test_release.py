"""The release of rows: its sensitivity by brute force, its noise, and an attack on it."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from discreet.audit.trials import attack
from discreet.outsourcing.bounds import GRID, PublicBounds
from discreet.outsourcing.mechanisms import (
    AT_ONCE,
    Mechanism,
    RowProjection,
    draw_rows,
    mechanism_for,
    noise_scale,
    stretch,
)
from discreet.privacy import NoiseSource, Outsourced, SecureNoise, SimulatedNoise, Unprotected
from discreet.privacy.accounting import composed_epsilon, gaussian_epsilon
from discreet.validation import InvalidInput
from tests.chance import check_law
from tests.learners.spy import Spy
from tests.outsourcing.cases import KINDS, bounds, projection, table

BUDGET = Outsourced(2.0, 1e-5, 1.0)
UNLUCKY = 1e-6  # with words from a seed, so that such a test fails always or never


def projections(columns: int) -> list[RowProjection | None]:
    return [None, *(projection(columns, 2, kind, seed=4) for kind in KINDS)]


def mechanism(
    public: PublicBounds,
    rows: int,
    projection: RowProjection | None = None,
    noise: NoiseSource | None = None,
    budget: Outsourced = BUDGET,
    radius: float = 1.0,
) -> Mechanism:
    source = SimulatedNoise(0) if noise is None else noise
    return mechanism_for(budget, radius, public.extent, rows, projection, source)


def moved(values: np.ndarray, row: int, distance: float, rng: np.random.Generator) -> np.ndarray:
    """A neighbour: one row of (n, d) moved by `distance` in a random direction, within the box."""
    near = values.copy()
    while True:
        step = rng.standard_normal(values.shape[1])
        near[row] = values[row] + distance * step / np.linalg.norm(step)
        if ((near[row] >= 0.0) & (near[row] <= 10.0)).all():
            return near


def given(
    values: np.ndarray, public: PublicBounds, made: Mechanism, projection: RowProjection | None
) -> tuple[np.ndarray, np.ndarray]:
    """What the noise source is handed for a table of these values, in the order of the table; and
    the order of the release."""
    frame = table(len(values), values.shape[1])
    for place, column in enumerate(public.columns):
        frame[column.name] = values[:, place]
    spy = Spy(5)
    _, order = draw_rows(public.coordinates(frame), made, projection, spy)
    handed_in = np.vstack(spy.given)
    back = np.empty_like(handed_in)
    back[order] = handed_in
    return back, order


class TestSensitivity:
    @pytest.mark.parametrize(
        ("kind", "radius"),
        [(0, 1.0), (0, 5.0), (1, 1e-7), (1, 1.0), (2, 1.0)],
        ids=["all columns", "far", "orthonormal, near", "orthonormal", "gaussian"],
    )
    def test_neighbours_differ_in_one_row_by_at_most_the_sensitivity(
        self, kind: int, radius: float
    ) -> None:
        """What a noise source is handed, when one row moves: in exact arithmetic."""
        projection = projections(5)[kind]
        public = bounds(5)
        made = mechanism(public, 8, projection, radius=radius)
        most = Fraction(made.sensitivity(radius))
        rng = np.random.default_rng(9)
        farthest = Fraction(0)
        for _ in range(25):
            values = rng.random((8, 5)) * 10.0
            row = int(rng.integers(8))
            one, first = given(values, public, made, projection)
            # A step that is rounded down, so that the radius is not overstepped by rounding.
            near = moved(values, row, radius * (1.0 - 1e-12), rng)
            two, second = given(near, public, made, projection)
            np.testing.assert_array_equal(first, second)
            differs = (one != two).any(axis=1)
            assert np.flatnonzero(differs).tolist() in ([row], [])
            gap = [
                Fraction(a) - Fraction(b)
                for a, b in zip(one[row].tolist(), two[row].tolist(), strict=True)
            ]
            farthest = max(farthest, sum((part * part for part in gap), Fraction(0)))
        assert farthest <= most**2
        if kind == 0 and radius >= 1.0:
            assert farthest > (most * Fraction(999, 1000)) ** 2

    @pytest.mark.parametrize("kind", [1, 2])
    def test_the_worst_direction_reaches_the_sensitivity(self, kind: int) -> None:
        projection = projections(5)[kind]
        assert projection is not None
        public = bounds(5)
        made = mechanism(public, 3, projection)
        worst, _, _ = np.linalg.svd(projection.matrix)
        values = np.full((3, 5), 5.0)
        near = values.copy()
        near[1] += worst[:, 0]
        one, _ = given(values, public, made, projection)
        two, _ = given(near, public, made, projection)
        distance = float(np.linalg.norm(one - two))
        assert distance == pytest.approx(made.sensitivity(1.0), rel=1e-6)
        assert distance <= made.sensitivity(1.0)

    def test_rounding_is_paid_for(self) -> None:
        """Two rows hardly apart can come to lie a whole step of the grid apart."""
        public = bounds(2)
        made = mechanism(public, 1, radius=1e-12)
        step = GRID * 0.5
        one, _ = given(np.array([[step * 0.999] * 2]), public, made, None)
        two, _ = given(np.array([[step * 1.001] * 2]), public, made, None)
        apart = float(np.linalg.norm(one - two))
        assert apart == pytest.approx(math.sqrt(2.0) * GRID)
        assert 1e-12 < apart <= made.sensitivity(1e-12)

    def test_gain_and_rounding(self) -> None:
        extent = np.full(5, 10.0)
        assert stretch(extent, None) == (1.0, math.sqrt(5.0) * 2.0**-31)
        projection = projections(5)[1]
        assert projection is not None
        gain, rounding = stretch(extent, projection)
        assert gain == projection.gain
        assert rounding > gain * math.sqrt(5.0) * 2.0**-31
        made = Mechanism(1.0, gain, rounding, 2, SimulatedNoise.name)
        assert made.sensitivity(3.0) == 3.0 * gain + rounding


class TestScale:
    @pytest.mark.parametrize(("power", "scale"), [(1.1, 1.389), (2.0, 0.641), (3.0, 0.289)])
    @pytest.mark.parametrize("secure", [False, True])
    def test_known_scales(self, power: float, scale: float, secure: bool) -> None:
        if secure:
            pytest.importorskip("opendp")
        source: NoiseSource = SecureNoise() if secure else SimulatedNoise(0)
        budget = Outsourced(math.exp(power), 1e-5, 1.0)
        made = mechanism(bounds(2, width=4000.0), 10_000, noise=source, budget=budget)
        assert made.scale == pytest.approx(scale, abs=5e-4)
        assert composed_epsilon([made.event(1.0)], 1e-5) == pytest.approx(budget.epsilon, rel=1e-8)
        assert composed_epsilon([made.event(1.0)], 1e-5) <= budget.epsilon

    @pytest.mark.parametrize("epsilon", [0.01, 1.0, 20.0])
    @pytest.mark.parametrize("radius", [1e-9, 0.3, 14.0])
    def test_secure_noise_keeps_the_budget_as_opendp_counts(
        self, epsilon: float, radius: float
    ) -> None:
        """The map of the sampler that is used, for the largest block of rows."""
        pytest.importorskip("opendp")
        source = SecureNoise()
        budget = Outsourced(epsilon, 1e-5, radius)
        made = mechanism(bounds(3), 100_000, noise=source, budget=budget, radius=radius)
        rho = float(source._gaussian(made.scale, made.numbers).map(made.sensitivity(radius)))
        assert gaussian_epsilon(1.0 / math.sqrt(2.0 * rho), 1e-5) <= epsilon * (1.0 + 1e-9)
        # Smaller blocks cost less: rounding to OpenDP's grid moves fewer numbers.
        assert float(source._gaussian(made.scale, 3).map(made.sensitivity(radius))) <= rho
        simulated = mechanism(bounds(3), 100_000, budget=budget, radius=radius)
        assert simulated.scale <= made.scale < 1.01 * simulated.scale

    def test_several_releases_share_a_budget(self) -> None:
        one, four = (noise_scale(BUDGET, 3.0, SimulatedNoise(0), 1, times) for times in (1, 4))
        assert four == pytest.approx(2.0 * one)

    def test_what_cannot_be_kept(self) -> None:
        with pytest.raises(InvalidInput, match="no scale of noise"):
            noise_scale(BUDGET, 1.0, Unprotected(), 1)

    def test_the_mechanism_is_a_function_of_public_facts(self) -> None:
        """Its arguments are all it has, and none of them is the table."""
        public = bounds(3)
        assert mechanism(public, 50) == mechanism(public, 50)
        assert mechanism(public, 50) == replace(mechanism(public, 51), numbers=150)
        pytest.importorskip("opendp")
        with pytest.raises(InvalidInput, match="use one source"):
            draw_rows(np.zeros((2, 3)), mechanism(public, 2), None, SecureNoise())


@pytest.fixture(params=["simulated", "secure"])
def source(request: pytest.FixtureRequest) -> NoiseSource:
    if request.param == "secure":
        pytest.importorskip("opendp")
        return SecureNoise()
    return SimulatedNoise(20240607)


class TestDrawing:
    # Three laws; 30 numbers, most of them normal and all nearly so, within 6 deviations: 2e-9 each.
    @pytest.mark.chance(2e-7)
    def test_the_noise_is_gaussian_of_that_scale_and_independent(self, source: NoiseSource) -> None:
        rows = 6000 if source.secure else 30_000
        public = bounds(3)
        made = mechanism(public, rows, noise=source)
        coordinates = np.random.default_rng(0).random((rows, 3)) * 10.0
        points, order = draw_rows(coordinates, made, None, source)
        noise = points - coordinates[order]
        for column in noise.T:
            check_law(column / made.scale, stats.norm.cdf)
        error = made.scale / math.sqrt(rows)
        assert (np.abs(noise.mean(axis=0)) < 6.0 * error).all()
        np.testing.assert_allclose(noise.std(axis=0), made.scale, rtol=6.0 / math.sqrt(2.0 * rows))
        # Uncorrelated with the rows, between columns, and from one row to the next.
        every = np.corrcoef(np.hstack([noise, np.roll(noise, 1, axis=0), coordinates[order]]).T)
        np.fill_diagonal(every, 0.0)
        assert np.abs(every[:3]).max() < 6.0 / math.sqrt(rows)

    @pytest.mark.chance(0)
    def test_no_noise_is_drawn_twice(self, source: NoiseSource) -> None:
        """Over several blocks, and over several releases with one source."""
        public = bounds(2)
        made = replace(mechanism(public, 60, noise=source), numbers=40)
        coordinates = np.full((60, 2), 5.0)
        drawn = [draw_rows(coordinates, made, None, source)[0] for _ in range(2)]
        values = np.concatenate(drawn).ravel()
        assert len(np.unique(values)) == values.size

    def test_rows_are_drawn_in_blocks(self) -> None:
        public, spy, done = bounds(3), Spy(1), []
        made = replace(mechanism(public, 10), numbers=12)
        coordinates = np.random.default_rng(0).random((10, 3))
        points, order = draw_rows(coordinates, made, None, spy, done.append)
        assert [len(block) for block in spy.given] == [4, 4, 2]
        assert done == [4, 8, 10]
        np.testing.assert_array_equal(np.vstack(spy.given), coordinates[order])
        np.testing.assert_array_equal(np.vstack(spy.handed), points)

    @pytest.mark.parametrize("rows", [1, 5, 40_000])
    @pytest.mark.parametrize("columns", [1, 3])
    def test_a_row_is_never_split_between_blocks(self, rows: int, columns: int) -> None:
        made = mechanism(bounds(columns), rows)
        assert made.numbers % columns == 0
        assert made.numbers <= min(AT_ONCE, rows * columns)

    def test_wide_rows_are_drawn_one_by_one(self) -> None:
        made = mechanism_for(BUDGET, 1.0, np.ones(AT_ONCE + 5), 3, None, SimulatedNoise(0))
        assert made.numbers == AT_ONCE + 5

    def test_noise_is_added_to_the_projected_rows(self) -> None:
        matrix = projection(5, 2)
        public, spy = bounds(5), Spy(2)
        coordinates = np.random.default_rng(1).random((20, 5))
        points, order = draw_rows(coordinates, mechanism(public, 20, matrix), matrix, spy)
        np.testing.assert_allclose(spy.given[0], (coordinates @ matrix.matrix)[order])
        assert points.shape == (20, 2)

    @pytest.mark.parametrize("bad", [math.nan, math.inf])
    def test_rows_must_be_finite(self, bad: float) -> None:
        spy = Spy(0)
        with pytest.raises(InvalidInput, match="NaN"):
            draw_rows(np.array([[0.0], [bad]]), mechanism(bounds(1), 2), None, spy)
        assert spy.given == []


class TestOrder:
    def test_every_order_is_as_likely(self, source: NoiseSource) -> None:
        """All 24 orders of four rows, and no row stays where it was more than by chance."""
        times = 4800
        public = bounds(1)
        made = mechanism(public, 4)
        counts: dict[tuple[int, ...], int] = {}
        watching = SimulatedNoise(0)
        for _ in range(times):
            # The keys of this source; the noise itself is of no interest here.
            watching.keys = source.keys  # type: ignore[method-assign]
            order = draw_rows(np.zeros((4, 1)), made, None, watching)[1]
            counts[tuple(order.tolist())] = counts.get(tuple(order.tolist()), 0) + 1
        assert len(counts) == 24
        assert stats.chisquare(list(counts.values())).pvalue > UNLUCKY

    def test_the_order_does_not_depend_on_the_rows(self) -> None:
        public = bounds(1)
        made = mechanism(public, 50)
        rows = np.linspace(0.0, 10.0, 50)[:, None]
        one, two = (draw_rows(r, made, None, SimulatedNoise(4))[1] for r in (rows, rows[::-1]))
        np.testing.assert_array_equal(one, two)
        assert sorted(one.tolist()) == list(range(50))
        assert one.tolist() != list(range(50))


HERE = np.array([5.0, 5.0])


class TestAttack:
    """Somebody knows every row but one, and of that one that it is in one of two places at the
    distance of the radius. Nothing tells the two apart better than the likelihood ratio, which is
    where the released row lies on the line between the two."""

    def scores(
        self,
        made: Mechanism,
        projection: RowProjection | None,
        row: np.ndarray,
        trials: int,
        seed: int,
    ) -> np.ndarray:
        """Rows of one release have independent noise, so as many equal rows are as many trials."""
        points, _ = draw_rows(np.tile(row, (trials, 1)), made, projection, SimulatedNoise(seed))
        line, middle = self.line(projection), HERE
        if projection is not None:
            line, middle = line @ projection.matrix, middle @ projection.matrix
        return (points - middle) @ line / np.linalg.norm(line)

    def line(self, projection: RowProjection | None) -> np.ndarray:
        """The direction in which neighbours lie furthest apart."""
        if projection is None:
            return np.array([1.0, 0.0])
        return np.linalg.svd(projection.matrix)[0][:, 0]

    def proved(self, epsilon: float, trials: int, projected: bool, times: float = 1.0) -> float:
        """The epsilon that an attack proves; noise is divided by `times`."""
        projection = projections(2)[2] if projected else None
        budget = Outsourced(epsilon, 0.01, 1.0)
        made = mechanism(bounds(2), 3, projection, budget=budget)
        made = replace(made, scale=made.scale / times)
        first, second = (
            self.scores(made, projection, row, trials, seed)
            for seed, row in ((1, HERE + self.line(projection)), (2, HERE))
        )
        return attack(first, second, self.threshold(epsilon, made), 0.01, confidence=0.999).epsilon

    def threshold(self, epsilon: float, made: Mechanism) -> float:
        """Where one place is e^epsilon times as likely as the other, counted from the second."""
        apart = made.sensitivity(1.0)
        return apart * (0.5 + epsilon * (made.scale / apart) ** 2)

    @pytest.mark.parametrize(("epsilon", "projected"), [(0.5, False), (2.0, True)])
    def test_it_comes_close_and_never_beyond(self, epsilon: float, projected: bool) -> None:
        assert 0.75 * epsilon < self.proved(epsilon, 60_000, projected) <= epsilon

    def test_it_finds_noise_that_is_a_fifth_too_small(self) -> None:
        assert self.proved(2.0, 60_000, False, times=1.25) > 2.0

    @pytest.mark.slow
    def test_a_release_at_a_time(self) -> None:
        """The same with a fresh release of a whole table in each trial."""
        made = mechanism(bounds(2), 3, budget=Outsourced(1.0, 0.01, 1.0))
        here = np.array([HERE, [0.0, 1.0], [9.0, 2.0]])
        there = np.array([[6.0, 5.0], [0.0, 1.0], [9.0, 2.0]])
        found = []
        for rows, source in ((there, SimulatedNoise(1)), (here, SimulatedNoise(2))):
            drawn = [draw_rows(rows, made, None, source) for _ in range(60_000)]
            found.append(np.array([points[order == 0][0, 0] - HERE[0] for points, order in drawn]))
        proved = attack(found[0], found[1], self.threshold(1.0, made), 0.01, confidence=0.999)
        assert 0.7 < proved.epsilon <= 1.0
