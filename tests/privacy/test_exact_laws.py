"""What secure coins and integers really draw, counted exactly in whole numbers of random words.

Python's fractions stand for the law; bounds on e^x are partial sums of its series, so nothing here
is decided by rounding. Settings go to the ends: a million bins, epsilon from 1e-9 to 1e4.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from fractions import Fraction
from itertools import permutations, product

import numpy as np
import pytest

from discreet.audit.output_distributions import EnumeratedNoise
from discreet.privacy import NoiseSource, SimulatedNoise
from discreet.privacy.frequency import SignedSubsetSelection, UnaryEncoding, round_to_signs
from discreet.privacy.noise import hiding_probability
from discreet.privacy.selection import ExponentialMechanism
from discreet.privacy.vectors import PrivUnit, l2_ball
from discreet.validation import InvalidInput

EPSILONS = [1e-9, 1e-7, 1e-6, 1e-3, 0.1, 1.0, 5.0, 20.0, 44.0, 88.0, 700.0, 1e4]
BINS = [1, 2, 3, 10, 1000, 10**6]


def exponential_below(exponent: float | Fraction) -> Fraction:
    """A fraction of at most e^exponent: its series up to e^100, far above every ratio here."""
    x = min(Fraction(exponent), Fraction(100))
    terms, term = [Fraction(1)], Fraction(1)
    for k in range(1, 40 + 4 * math.ceil(x)):
        term = Fraction(math.floor(term * x / k * 2**256), 2**256)
        terms.append(term)
    return sum(terms, Fraction(0))


def holds(ratio: Fraction, epsilon: float | Fraction) -> bool:
    """Whether ratio and 1 / ratio are at most e^epsilon, for certain."""
    bound = exponential_below(epsilon)
    return ratio <= bound and 1 / ratio <= bound


class ExactNoise(EnumeratedNoise):
    """All that SecureNoise can draw, with exact probabilities (test_noise.py reads off the coins'
    thresholds)."""

    def begin(self) -> None:
        super().begin()
        self.probability: Fraction = Fraction(1)  # type: ignore[assignment]

    def coins(self, probability, shape):  # type: ignore[no-untyped-def]
        shown = np.empty(shape, dtype=np.bool_)
        chances = np.broadcast_to(np.asarray(probability, dtype=object), shown.shape)
        for place in np.ndindex(shown.shape):
            chance = Fraction(math.ceil(Fraction(chances[place]) * 2**64), 2**64)
            shown[place] = chance == 1 if chance in (0, 1) else self._branch(2) == 0
            self.probability *= chance if shown[place] else 1 - chance
        return shown


def law_of(run: Callable[[NoiseSource], Hashable]) -> dict[Hashable, Fraction]:
    noise = ExactNoise()
    law: dict[Hashable, Fraction] = {}
    while True:
        noise.begin()
        outcome = run(noise)
        law[outcome] = law.get(outcome, Fraction(0)) + noise.probability
        if not noise.advance():
            assert sum(law.values()) == 1
            return law


def worst_ratio(laws: list[dict[Hashable, Fraction]]) -> Fraction:
    """The largest ratio of two probabilities of one outcome; every law has every outcome."""
    outcomes = set().union(*laws)
    assert all(set(law) == outcomes and min(law.values()) > 0 for law in laws)
    return max(max(law[one] for law in laws) / min(law[one] for law in laws) for one in outcomes)


def test_the_bound_on_e_to_the_x_is_one_and_is_close() -> None:
    for x in (1e-9, 0.5, 1.0, 10.0, 99.5):
        assert float(exponential_below(x)) == pytest.approx(math.exp(x), rel=1e-14)
    assert (1 + Fraction(1, 300)) ** 300 < exponential_below(1) < (1 + Fraction(1, 300)) ** 301


class TestTheCoinThatHides:
    @pytest.mark.parametrize("epsilon", EPSILONS)
    @pytest.mark.parametrize("bins", BINS)
    def test_signed_subset_selection(self, bins: int, epsilon: float) -> None:
        """R = (1 - h) (2J - m) / (h m), for the sizes at the ends and the best one."""
        for size in {1, max(1, bins // 2), bins, SignedSubsetSelection.best(bins, epsilon).size}:
            hidden = SignedSubsetSelection(bins, size, epsilon).hidden_probability
            assert (hidden * 2**64).denominator == 1
            ratio = (1 - hidden) * (2 * bins - size) / (hidden * size)
            assert ratio > 1
            assert holds(ratio, epsilon)
            # One word less would break the promise: no more noise is drawn than it needs.
            fewer = hidden - Fraction(1, 2**64)
            if fewer > 0:
                less = (1 - fewer) * (2 * bins - size) / (fewer * size)
                assert less > exponential_below(epsilon) * (1 + Fraction(1, 10**39))

    @pytest.mark.parametrize("epsilon", EPSILONS)
    def test_unary_encoding(self, epsilon: float) -> None:
        hidden = UnaryEncoding(10**6, epsilon).hidden_probability
        assert (1 - hidden) / hidden > 1
        assert holds((1 - hidden) / hidden, epsilon)

    @pytest.mark.parametrize("epsilon", [one for one in EPSILONS if one >= 1e-6])
    @pytest.mark.parametrize("dimension", [1, 2, 3, 20, 500, 10**5])
    def test_privunit(self, dimension: int, epsilon: float) -> None:
        """With P as computed; the 1e-9 that is kept back for its error is not used up here."""
        for mechanism in (PrivUnit(dimension, epsilon), l2_ball(dimension, epsilon)):
            hidden, mass = mechanism.hiding_probability, Fraction(mechanism.cap_mass)
            ratio = (1 - hidden) * (1 - mass) / (hidden * mass)
            assert ratio > 1
            assert holds(ratio, Fraction(epsilon) - Fraction(999_999, 10**15))

    @pytest.mark.parametrize(("bins", "epsilon"), [(1, 1e-19), (10**6, 1e-15), (10, 5e-324)])
    def test_what_no_coin_can_tell_is_refused(self, bins: int, epsilon: float) -> None:
        with pytest.raises(InvalidInput, match="epsilon must be at least") as refusal:
            SignedSubsetSelection(bins, 1, epsilon)
        least = float(str(refusal.value).split("at least ")[1].split()[0])
        assert SignedSubsetSelection(bins, 1, least).contrast > 0.0
        with pytest.raises(InvalidInput, match="epsilon must be at least"):
            hiding_probability(Fraction(1, 2 * bins), least / 2)

    def test_unary_encoding_refuses_too(self) -> None:
        with pytest.raises(InvalidInput, match="epsilon must be at least"):
            UnaryEncoding(2, 1e-20)

    def test_estimates_are_of_the_coin_that_is_tossed(self) -> None:
        """At the ends the contrast is not quite the formula's, and estimates must know that."""
        mechanism = SignedSubsetSelection(10**6, 1, 1e-9)
        hidden = mechanism.hidden_probability
        exact = (1 - hidden) - hidden * Fraction(1, 2 * 10**6 - 1)
        assert mechanism.contrast == pytest.approx(float(exact), rel=1e-15, abs=0.0)
        assert mechanism.true_probability == float(1 - hidden)


class TestTheWholeLaw:
    """Of the code, by running it on everything that can be drawn."""

    @pytest.mark.parametrize("epsilon", [1e-9, 0.5, 700.0])
    @pytest.mark.parametrize(("bins", "size"), [(1, 1), (2, 1), (2, 2), (3, 1), (3, 2)])
    def test_signed_subset_selection(self, bins: int, size: int, epsilon: float) -> None:
        mechanism = SignedSubsetSelection(bins, size, epsilon)

        def report(own: int, sign: int, noise: NoiseSource) -> Hashable:
            made = mechanism.privatise(np.array([own]), np.array([sign], dtype=np.int8), noise)
            return tuple(part.tobytes() for part in made)

        values = [(0, 1), (0, -1), *([(bins - 1, 1)] if bins > 1 else [])]
        laws = [law_of(lambda noise, v=value: report(*v, noise)) for value in values]
        assert holds(worst_ratio(laws), epsilon)
        hidden = mechanism.hidden_probability
        sets = math.comb(bins, size) * 2**size
        truth = Fraction(size, 2 * bins)
        told, untold = (1 - hidden) / (truth * sets), hidden / ((1 - truth) * sets)
        assert set(laws[0].values()) == {told, untold}

    @pytest.mark.parametrize("epsilon", [1e-9, 0.5, 700.0])
    def test_unary_encoding(self, epsilon: float) -> None:
        for mechanism in (UnaryEncoding(4, epsilon), UnaryEncoding(4, epsilon, 0.92)):

            def report(value: int, noise: NoiseSource) -> Hashable:
                return mechanism.privatise(np.array([value]), noise).tobytes()  # noqa: B023

            laws = [law_of(lambda noise, v=value: report(v, noise)) for value in range(4)]
            assert holds(worst_ratio(laws), epsilon)

    @pytest.mark.parametrize(
        ("epsilon", "shown"),
        [(0.00018288612670484713, "0x1.05779a8f0b70dp-20"), (0.001, "0x1.fffffffffffffp-20")],
    )
    def test_unary_encoding_that_hardly_shows(self, epsilon: float, shown: str) -> None:
        """Such floats are no multiples of 2^-64, and the coin that is tossed is what counts."""
        mechanism = UnaryEncoding(2, epsilon, float.fromhex(shown))

        def report(value: int, noise: NoiseSource) -> Hashable:
            return mechanism.privatise(np.array([value]), noise).tobytes()

        laws = [law_of(lambda noise, v=value: report(v, noise)) for value in range(2)]
        assert holds(worst_ratio(laws), epsilon)

    def test_a_sign_is_rounded_first_and_then_private(self) -> None:
        """Whatever the reward makes of the coin, a report is a mixture of those of two signs."""
        mechanism = SignedSubsetSelection(2, 1, 1e-9)

        def report(reward: float, noise: NoiseSource) -> Hashable:
            sign = round_to_signs(np.array([reward]), noise)
            return tuple(part.tobytes() for part in mechanism.privatise(np.array([1]), sign, noise))

        laws = [
            law_of(lambda noise, r=reward: report(r, noise))
            for reward in (0.0, 5e-324, 0.1, 1 / 3, 1.0 - 2.0**-53, 1.0)
        ]
        assert holds(worst_ratio(laws), 1e-9)

    def test_subsets_with_a_tie_are_drawn_again(self) -> None:
        """Two keys that tie for the last place would let the order of bins decide."""

        class Tied(SimulatedNoise):
            draws = 0

            def keys(self, shape):  # type: ignore[no-untyped-def]
                self.draws += 1
                words = super().keys(shape)
                if self.draws == 1:
                    words[0] = [5, 9, 9, 20]
                return words

        noise = Tied(3)
        chosen, _ = SignedSubsetSelection(4, 2, 50.0).privatise(
            np.array([0, 3]), np.array([1, 1]), noise
        )
        assert noise.draws == 2
        assert 0 in chosen[0]
        assert 3 in chosen[1]

    def test_every_order_of_keys_gives_one_subset_equally_often(self) -> None:
        """Three of five bins, the own one in or out: 6 and 4 subsets, from 120 orders."""

        class Ordered(SimulatedNoise):
            def keys(self, shape):  # type: ignore[no-untyped-def]
                return np.array(list(permutations(range(1, 6))), dtype=np.uint64).reshape(shape)

        mechanism = SignedSubsetSelection(5, 3, 1.0)
        for included, subsets in ((True, 6), (False, 4)):
            found = mechanism._subset(np.full(120, 2), np.full(120, included), Ordered(0))
            kinds, counts = np.unique(found, axis=0, return_counts=True)
            assert len(kinds) == subsets
            assert set(counts) == {120 // subsets}


class TestTheExponentialMechanism:
    """Weights are whole numbers below 2^106, and the integer drawn is uniform: ratios are exact."""

    @pytest.mark.parametrize(
        ("options", "epsilon"),
        [*product([2, 3, 1000], [1e-6, 1e-3, 1.0, 20.0, 700.0, 1e4]), (2**16, 1.0), (2**16, 700.0)],
    )
    def test_no_ratio_exceeds_epsilon(self, options: int, epsilon: float) -> None:
        """Neighbours whose scores differ by all of the range, in the way that is the worst."""
        mechanism = ExponentialMechanism(epsilon)
        bound = exponential_below(epsilon)
        rng = np.random.default_rng(options)
        spread = np.round(rng.uniform(0.0, 60.0, options)) * 2.0**-3 / max(epsilon, 1.0)
        for scores in (np.zeros(options), spread):
            for gains in (np.arange(options) == 0, np.arange(options) % 2 == 0):
                weights = np.concatenate(
                    [
                        np.concatenate(mechanism._weights(given[None, :], np.ones(1)))
                        for given in (scores, scores + gains)
                    ]
                )
                first, second = (whole(*part.sum(axis=1)) for part in (weights[:2], weights[2:]))
                for words in np.unique(weights, axis=1).T:
                    p, q = whole(*words[:2]), whole(*words[2:])
                    ratio = Fraction(p * second, q * first)
                    assert max(ratio, 1 / ratio) <= bound


def whole(high: np.int64, low: np.int64) -> int:
    """A weight of the exponential mechanism, or a sum of some."""
    return int(high) * 2**44 + int(low)
