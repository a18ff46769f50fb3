"""The exponential mechanism, held against enumeration of neighbouring scores.

`probabilities` is what is drawn, to the last bit of a float, so privacy is counted on it.
"""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from discreet.privacy import NoiseSource, SimulatedNoise, Unprotected
from discreet.privacy.selection import ExponentialMechanism
from discreet.validation import InvalidInput

UNLUCKY = 1e-6  # with words from a seed, so that such a test fails always or never


def by_definition(scores: list[float], score_range: float, epsilon: float) -> NDArray[np.float64]:
    """exp(epsilon q / R) / sum, in the plainest way."""
    weights = np.array([math.exp(epsilon * q / score_range) for q in scores])
    return weights / weights.sum()


class Scripted(SimulatedNoise):
    """Integers below a bound as they were laid down."""

    def __init__(self, *integers: int) -> None:
        super().__init__(0)
        self.integers = list(integers)

    def below(self, bound, shape):  # type: ignore[no-untyped-def]
        return np.array([min(self.integers.pop(0), bound - 1) for _ in range(int(np.prod(shape)))])


class TestPrivacy:
    @pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 5.0, 40.0])
    @pytest.mark.parametrize("options", [2, 3])
    def test_worst_ratio_over_all_neighbours(self, options: int, epsilon: float) -> None:
        """All scores on a grid, all pairs whose difference has a range of at most R = 1."""
        grid = np.array(list(product(np.linspace(-1.5, 1.5, 7), repeat=options)))
        logs = ExponentialMechanism(epsilon).log_probabilities(grid, 1.0)
        worst = 0.0
        for q, log in zip(grid, logs, strict=True):
            neighbour = np.ptp(grid - q, axis=1) <= 1.0
            worst = max(worst, float(np.abs(logs[neighbour] - log).max()))
        assert worst <= epsilon

    @pytest.mark.parametrize("epsilon", [1e-6, 1e-3, 0.1, 1.0, 5.0, 20.0])
    def test_an_adversary_reaches_epsilon(self, epsilon: float) -> None:
        """An unlikely option that gains R against all others."""
        far = 12.0 / epsilon
        q, other = [-far - 1.0, 0.0, 0.0], [-far, 0.0, 0.0]
        logs = ExponentialMechanism(epsilon).log_probabilities([q, other], 1.0)
        ratio = logs[1, 0] - logs[0, 0]
        assert 0.99 * epsilon <= ratio <= epsilon

    def test_random_neighbours_near_and_beyond_the_cut(self) -> None:
        """Scores so far apart that the worst of them count as 2^-48 of the best."""
        rng = np.random.default_rng(0)
        for options, epsilon in product((2, 5, 300), (0.5, 3.0, 30.0)):
            scores = rng.uniform(-60, 0, (300, options)) / epsilon
            change = rng.integers(0, 2, scores.shape) + rng.normal(0, 30, (300, 1)) / epsilon
            change = scores + change - scores  # as floats have it
            score_range = float(np.ptp(change, axis=1).max())
            mechanism = ExponentialMechanism(epsilon)
            one = mechanism.log_probabilities(scores, score_range)
            two = mechanism.log_probabilities(scores + change, score_range)
            assert np.abs(one - two).max() <= epsilon

    def test_ranges_of_one_sign_allow_twice_the_contrast(self) -> None:
        """|g| <= 1 gives R = 2 (McSherry and Talwar); 0 <= g <= 1 allows R = 1."""
        scores = [[0.0, 1.0]]
        wide = ExponentialMechanism(1.0).log_probabilities(scores, 2.0)
        narrow = ExponentialMechanism(1.0).log_probabilities(scores, 1.0)
        assert wide[0, 1] - wide[0, 0] == pytest.approx(0.5, abs=1e-9)
        assert narrow[0, 1] - narrow[0, 0] == pytest.approx(1.0, abs=1e-9)


class TestProbabilities:
    @pytest.mark.parametrize("epsilon", [0.01, 1.0, 8.0])
    def test_against_the_definition(self, epsilon: float) -> None:
        scores = [0.3, -1.0, 2.0, 2.0, 0.0]
        drawn = ExponentialMechanism(epsilon).probabilities([scores], 1.5)[0]
        np.testing.assert_allclose(drawn, by_definition(scores, 1.5, epsilon), rtol=1e-8)
        assert drawn[2] == drawn[3]

    def test_the_weights_are_the_integers_that_are_drawn(self) -> None:
        """Every option starts at the sum of the weights before it, to the last of 106 bits."""
        mechanism = ExponentialMechanism(3.0)
        scores, ranges = np.array([[0.1, -np.inf, 0.7, -5.0, 0.2]]), np.array([1.0])
        high, low = mechanism._weights(scores, ranges)
        weights = [int(h) * 2**44 + int(b) for h, b in zip(high[0], low[0], strict=True)]
        shares = mechanism.probabilities(scores, 1.0)[0]
        np.testing.assert_allclose(shares, [w / sum(weights) for w in weights], rtol=1e-15)
        assert 2**106 * (1 - 1e-9) < sum(weights) <= 2**106
        start = 0
        for option, weight in enumerate(weights):
            for integer in (start, start + weight - 1) if weight else ():
                script = Scripted(integer >> 44, integer & (2**44 - 1))
                assert mechanism.select(scores, 1.0, script).tolist() == [option]
            start += weight

    def test_an_integer_beyond_the_last_is_drawn_again(self) -> None:
        script = Scripted(2**62, 2**44, 0, 0)
        assert ExponentialMechanism(1.0).select([[0.0, 0.0, 0.0]], 1.0, script).tolist() == [0]
        assert script.integers == []

    @pytest.mark.parametrize("epsilon", [1e-6, 1.0, 700.0, 1e6])
    @pytest.mark.parametrize("score_range", [1e-300, 1.0, 1e300])
    @pytest.mark.filterwarnings("error")
    def test_nothing_overflows(self, epsilon: float, score_range: float) -> None:
        scores = np.array([[1e308, -1e308, 1e308, 0.0], [-1.0, -2.0, -np.inf, -1e-300]])
        mechanism = ExponentialMechanism(epsilon)
        shares = mechanism.probabilities(scores, score_range)
        assert np.isfinite(shares).all()
        np.testing.assert_allclose(shares.sum(axis=1), 1.0)
        assert (shares[np.isfinite(scores)] > 0.0).all()
        assert mechanism.select(scores, score_range, SimulatedNoise(0)).shape == (2,)

    def test_a_large_epsilon_chooses_the_best_and_ties_are_shared(self) -> None:
        shares = ExponentialMechanism(1e6).probabilities([[0.0, 1.0, 1.0, 0.5]], 1.0)[0]
        np.testing.assert_allclose(shares, [0.0, 0.5, 0.5, 0.0], atol=1e-13)

    def test_ranges_for_each_row(self) -> None:
        mechanism = ExponentialMechanism(2.0)
        both = mechanism.probabilities([[0.0, 1.0], [0.0, 1.0]], [1.0, 4.0])
        np.testing.assert_array_equal(both[0], mechanism.probabilities([[0, 1]], 1)[0])
        np.testing.assert_array_equal(both[1], mechanism.probabilities([[0, 1]], 4)[0])


class TestSelect:
    @pytest.mark.parametrize("epsilon", [0.5, 3.0])
    def test_frequencies(self, epsilon: float, noise: NoiseSource) -> None:
        people = 20_000
        scores = [0.0, 0.5, -0.5, 1.0]
        chosen = ExponentialMechanism(epsilon).select(np.tile(scores, (people, 1)), 1.0, noise)
        counts = np.bincount(chosen, minlength=4)
        expected = people * by_definition(scores, 1.0, epsilon)
        assert stats.chisquare(counts, expected).pvalue > UNLUCKY

    def test_many_options_in_portions(self, noise: NoiseSource) -> None:
        people, options = 3000, 1000
        scores = np.tile(np.linspace(0, 1, options), (people, 1))
        chosen = ExponentialMechanism(2.0).select(scores, 1.0, noise)
        expected = by_definition(list(scores[0]), 1.0, 2.0).reshape(10, -1).sum(axis=1)
        counts = np.bincount(chosen // 100, minlength=10)
        assert stats.chisquare(counts, people * expected).pvalue > UNLUCKY

    def test_options_that_are_not_offered_are_never_drawn(self, noise: NoiseSource) -> None:
        scores = np.tile([-np.inf, 0.0, -np.inf, 0.0, -np.inf], (5000, 1))
        mechanism = ExponentialMechanism(1e-3)
        chosen = mechanism.select(scores, 1.0, noise)
        assert set(chosen.tolist()) == {1, 3}
        assert mechanism.log_probabilities(scores[:1], 1.0)[0, 0] == -np.inf

    def test_nobody(self, noise: NoiseSource) -> None:
        assert ExponentialMechanism(1.0).select(np.empty((0, 3)), 1.0, noise).shape == (0,)


class TestRefusals:
    @pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf, 1e-7, "1", None])
    def test_epsilon(self, epsilon: object) -> None:
        with pytest.raises(InvalidInput, match="epsilon was"):
            ExponentialMechanism(epsilon)  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("scores", "score_range", "message"),
        [
            ([0.0, 1.0], 1.0, "scores had shape"),
            ([[]], 1.0, "scores had shape"),
            (np.zeros((1, 2**16 + 1)), 1.0, "scores had shape"),
            ([["a", "b"]], 1.0, "scores had type"),
            ([[0.0], [0.0, 1.0]], 1.0, "different lengths"),
            ([[0.0, math.nan]], 1.0, "NaN or"),
            ([[0.0, math.inf]], 1.0, "NaN or"),
            ([[0.0, 1.0], [-math.inf, -math.inf]], 1.0, "without any option"),
            ([[0.0, 1.0]], 0.0, "score_range had"),
            ([[0.0, 1.0]], -1.0, "score_range had"),
            ([[0.0, 1.0]], math.inf, "score_range had"),
            ([[0.0, 1.0]], math.nan, "score_range had"),
            ([[0.0, 1.0]], [1.0, 1.0], "score_range had shape"),
            ([[0.0, 1.0]], [[1.0]], "score_range had shape"),
            ([[0.0, 1.0]], "1", "score_range had type"),
        ],
    )
    def test_scores_and_ranges(self, scores: object, score_range: object, message: str) -> None:
        mechanism = ExponentialMechanism(1.0)
        with pytest.raises(InvalidInput, match=message):
            mechanism.probabilities(scores, score_range)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match=message):
            mechanism.select(scores, score_range, SimulatedNoise(0))  # type: ignore[arg-type]

    def test_no_noise(self) -> None:
        with pytest.raises(InvalidInput, match="Unprotected"):
            ExponentialMechanism(1.0).select([[0.0, 1.0]], 1.0, Unprotected())
