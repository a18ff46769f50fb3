"""Noise sources: the laws they draw from, and the direction in which they may err."""

from __future__ import annotations

import math
import pickle
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats
from tests.chance import RARE, check_law, check_value

from discreet.privacy import NoiseSource, SecureNoise, SimulatedNoise, Unprotected
from discreet.privacy.noise import (
    NO_NOISE,
    _opendp,
    check_noise_name,
    gaussian_multiplier,
    laplace_epsilon,
)
from discreet.validation import InvalidInput

pytest.importorskip("opendp")

UNLUCKY = 1e-6  # with words from a seed, so that such a test fails always or never


class ScriptedNoise(SecureNoise):
    """Secure noise whose 64-bit words are given, to look at what is made of each word."""

    def __init__(self, *batches: list[int]) -> None:
        super().__init__()
        self._batches = [np.array(batch, dtype=np.uint64) for batch in batches]

    def keys(self, shape: int | tuple[int, ...]) -> np.ndarray:
        return self._batches.pop(0).reshape(shape)


@pytest.fixture(autouse=True)
def _opendp_is_looked_for_again() -> Iterator[None]:
    """Tests that hide or replace OpenDP leave nothing behind."""
    yield
    _opendp.cache_clear()


def shows(probability: float | Fraction, word: int) -> bool:
    """Whether a secure coin shows True when the random word is `word`."""
    return bool(ScriptedNoise([word]).coins(probability, 1)[0])


def achieved(probability: float | Fraction) -> Fraction:
    """The exact probability of a secure coin: the share of the 2^64 words that show True."""
    low, high = 0, 2**64  # words below the threshold show True
    while low < high:
        middle = (low + high) // 2
        if shows(probability, middle):
            low = middle + 1
        else:
            high = middle
    return Fraction(low, 2**64)


class TestCoins:
    @settings(deadline=None, max_examples=40)
    @given(p=st.floats(0.0, 1.0))
    @example(p=math.nextafter(1.0, 0.0))
    @example(p=math.nextafter(0.5, 1.0))
    @example(p=5e-324)
    @example(p=2.0**-65)
    @example(p=1 / 3)
    def test_secure_coins_are_never_below_p(self, p: float) -> None:
        assert achieved(p) == Fraction(math.ceil(Fraction(p) * 2**64), 2**64)

    @pytest.mark.parametrize("words", [0, 1, 2, 2**53 + 1, 2**63 + 1, 2**64 - 1, 2**64])
    def test_fractions_of_64_bits_are_exact(self, words: int) -> None:
        """A float near 1 has 53 bits, which is not enough for a coin that privacy rests on."""
        assert achieved(Fraction(words, 2**64)) == Fraction(words, 2**64)

    def test_other_fractions_are_rounded_up(self) -> None:
        assert achieved(Fraction(1, 3)) == Fraction(-(-(2**64) // 3), 2**64)
        assert achieved(Fraction(1, 10**30)) == Fraction(1, 2**64)

    def test_a_fraction_is_a_probability_for_every_source(self, noise: NoiseSource) -> None:
        shown = noise.coins(Fraction(1, 4), (200, 200))
        assert shown.mean() == pytest.approx(0.25, abs=6.5 * math.sqrt(0.1875 / 40_000))

    def test_0_is_never_and_1_is_always(self, noise: NoiseSource) -> None:
        assert not noise.coins(0.0, 10_000).any()
        assert noise.coins(1.0, 10_000).all()
        assert achieved(0.0) == 0
        assert achieved(1.0) == achieved(1.0 + 2.0**-52) == 1

    def test_one_probability_for_each_coin(self, noise: NoiseSource) -> None:
        p = np.array([0.0, 0.2, 0.7, 1.0])
        shown = noise.coins(p, (40_000, 4))
        assert shown.shape == (40_000, 4)
        assert shown.dtype == np.bool_
        np.testing.assert_allclose(shown.mean(axis=0), p, atol=0.015)

    def test_shapes_follow_the_request(self, noise: NoiseSource) -> None:
        assert noise.coins(0.5, 3).shape == (3,)
        assert noise.coins(0.5, (2, 0)).shape == (2, 0)


class TestBelow:
    @pytest.mark.parametrize("bound", [1, 2, 3, 7, 10, 64, 2**61 + 1, 2**62 - 1, 2**62])
    def test_uniform(self, noise: NoiseSource, bound: int) -> None:
        drawn = noise.below(bound, (5000, 10))
        assert drawn.dtype == np.int64
        assert drawn.shape == (5000, 10)
        assert drawn.min() >= 0
        assert drawn.max() < bound
        if 1 < bound < 100:
            counts = np.bincount(drawn.ravel(), minlength=bound)
            assert stats.chisquare(counts).pvalue > UNLUCKY

    def test_words_past_the_last_whole_cycle_are_drawn_again(self) -> None:
        """2^64 = 1 modulo 3, so the last word would make 0 too likely by one word."""
        source = ScriptedNoise([2**64 - 1, 5, 2**64 - 2], [2**64 - 1], [4])
        np.testing.assert_array_equal(source.below(3, 3), [1, 2, (2**64 - 2) % 3])

    @pytest.mark.parametrize("bound", [1, 2, 3, 5, 6, 7, 1000, 2**31 - 1, 2**62 - 1, 2**62])
    def test_kept_words_are_a_whole_number_of_cycles(self, bound: int) -> None:
        cycles = 2**64 // bound * bound
        kept = ScriptedNoise([cycles - 1]).below(bound, 1)
        assert kept[0] == bound - 1
        if cycles < 2**64:
            assert ScriptedNoise([cycles], [0]).below(bound, 1)[0] == 0

    @pytest.mark.parametrize("bound", [0, -1, 1.5, True, "3"])
    def test_bad_bounds_are_refused(self, noise: NoiseSource, bound: object) -> None:
        with pytest.raises(InvalidInput, match="bound was"):
            noise.below(bound, 2)  # type: ignore[arg-type]


class TestKeys:
    @pytest.mark.chance(RARE)  # 64 times the tail beyond 6.5 deviations
    def test_every_bit_is_fair(self, noise: NoiseSource) -> None:
        words = noise.keys((200, 100)).ravel()
        assert words.dtype == np.uint64
        bits = (words[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
        deviation = (bits.mean(axis=0) - 0.5) * 2.0 * math.sqrt(len(words))
        assert np.abs(deviation).max() < 6.5

    def test_they_can_be_written_to(self, noise: NoiseSource) -> None:
        words = noise.keys((3, 2))
        words[0, 0] = np.uint64(0)
        assert words[0, 0] == 0


class TestContinuous:
    @pytest.mark.chance(RARE)
    @pytest.mark.parametrize(
        ("draw", "law", "size", "scale"),
        [
            *(("add_laplace", stats.laplace, 4, scale) for scale in (0.1, 4.0)),
            *(("add_gaussian", stats.norm, 8, scale) for scale in (0.1, 4.0, 1000.0)),
        ],
    )
    def test_law(
        self, noise: NoiseSource, draw: str, law: stats.rv_continuous, size: int, scale: float
    ) -> None:
        drawn = getattr(noise, draw)(np.zeros((1000, size)), scale)
        assert drawn.shape == (1000, size)
        check_law(drawn, law(scale=scale).cdf)

    @pytest.mark.slow
    @pytest.mark.chance(4 * RARE)
    def test_laws_in_large_samples(self, noise: NoiseSource) -> None:
        laplace, gaussian = (
            noise.add_laplace(np.zeros(100_000), 2.0),
            noise.add_gaussian(np.zeros(400_000), 2.0),
        )
        check_law(laplace, stats.laplace(scale=2.0).cdf)
        check_law(gaussian, stats.norm(scale=2.0).cdf)
        check_value(np.abs(laplace).sum() / 2.0, stats.gamma(len(laplace)))
        check_value((gaussian**2).sum() / 4.0, stats.chi2(len(gaussian)))

    @pytest.mark.chance(0)
    @pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf])
    def test_bad_scales_are_refused(self, noise: NoiseSource, scale: float) -> None:
        for add in (noise.add_laplace, noise.add_gaussian):
            with pytest.raises(InvalidInput, match="scale was"):
                add(np.zeros(2), scale)


class TestWhatItCosts:
    @pytest.mark.parametrize(("sensitivity", "scale"), [(1.0, 4.0), (4.0, 4.0), (4.0, 0.4)])
    def test_laplace_epsilon(self, noise: NoiseSource, sensitivity: float, scale: float) -> None:
        """epsilon = sensitivity / scale; the secure sampler may be dearer, never cheaper."""
        epsilon = noise.laplace_epsilon(sensitivity, scale, 10)
        assert epsilon == pytest.approx(sensitivity / scale, rel=1e-7)
        assert epsilon >= sensitivity / scale * (1.0 - 1e-15)

    @pytest.mark.parametrize(("sensitivity", "scale"), [(1.0, 4.0), (2.0, 0.5), (1.0, 1000.0)])
    def test_gaussian_multiplier(
        self, noise: NoiseSource, sensitivity: float, scale: float
    ) -> None:
        """scale / sensitivity; the secure sampler's grid may lower it, never raise it."""
        multiplier = noise.gaussian_multiplier(sensitivity, scale, 10)
        assert multiplier == pytest.approx(scale / sensitivity, rel=1e-7)
        assert multiplier <= scale / sensitivity * (1.0 + 1e-15)

    def test_the_grid_is_paid_for(self) -> None:
        """Longer vectors are rounded more often, so the multiplier of the same noise is lower."""
        secure = SecureNoise()
        few, many = (secure.gaussian_multiplier(1e-3, 1.0, size) for size in (10, 10_000))
        assert many < few < 1000.0


class TestSources:
    @pytest.mark.chance(1e-12)  # OpenDP's grid has 3e9 places that are likely
    def test_no_randomness_is_used_twice(self) -> None:
        """Neither within a call, nor in the next, nor of another source."""
        sizes = (1, 1, 6000, 3000)
        for draw in ("add_gaussian", "add_laplace"):
            drawn = [getattr(SecureNoise(), draw)(np.zeros(size), 1.0) for size in sizes]
            size = np.abs(np.concatenate(drawn))
            # 0.017 equal pairs are expected, and 7 come with a probability of 1e-16.
            assert len(np.unique(size)) >= len(size) - 6
        words = np.concatenate([SecureNoise().keys(count).ravel() for count in (1, 1, 40_000, 9)])
        assert len(np.unique(words)) == len(words)

    @pytest.mark.chance(0)
    def test_every_word_of_the_operating_system_is_drawn_for_one_draw(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        rng, taken = np.random.default_rng(3), list[bytes]()

        def urandom(count: int) -> bytes:
            taken.append(rng.bytes(count))
            return taken[-1]

        monkeypatch.setattr("os.urandom", urandom)
        noise = SecureNoise()
        drawn = [noise.keys(count).tobytes() for count in (1, 5000, 5000, 2)]
        assert drawn == taken
        taken.clear()
        for shape in (3, (4, 5), 1):
            noise.coins(0.3, shape)
        assert [len(each) for each in taken] == [24, 160, 8]

    def test_simulated_noise_is_reproducible(self) -> None:
        def draws(seed: int) -> list[np.ndarray]:
            noise = SimulatedNoise(seed)
            return [
                noise.keys(5),
                noise.below(10, 20),
                noise.coins(0.5, 50),
                noise.add_laplace(np.zeros(5), 1.0),
                noise.add_gaussian(np.zeros(5), 1.0),
            ]

        for one, two in zip(draws(7), draws(7), strict=True):
            np.testing.assert_array_equal(one, two)
        assert any((one != two).any() for one, two in zip(draws(7), draws(8), strict=True))

    @pytest.mark.chance(0)
    def test_secure_noise_is_not_reproducible(self) -> None:
        assert (SecureNoise().keys(4) != SecureNoise().keys(4)).any()
        assert (
            SecureNoise().add_gaussian(np.zeros(4), 1.0)
            != SecureNoise().add_gaussian(np.zeros(4), 1.0)
        ).any()

    def test_simulated_noise_is_pickled_with_its_state(self) -> None:
        noise = SimulatedNoise(5)
        noise.keys(3)
        copy = pickle.loads(pickle.dumps(noise))
        np.testing.assert_array_equal(copy.keys(4), noise.keys(4))

    @pytest.mark.chance(0)
    def test_secure_noise_can_be_pickled(self) -> None:
        copy = pickle.loads(pickle.dumps(SecureNoise()))
        assert isinstance(copy, SecureNoise)
        assert copy.add_gaussian(np.zeros(3), 1.0).shape == (3,)

    @pytest.mark.chance(0)
    def test_without_opendp_the_error_says_what_to_install(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for module in ("opendp", "opendp.prelude"):
            monkeypatch.setitem(sys.modules, module, None)
        _opendp.cache_clear()
        noise = SecureNoise()
        for use in (
            noise.check_additive,
            lambda: noise.add_laplace(np.zeros(2), 1.0),
            lambda: noise.add_gaussian(np.zeros(2), 1.0),
            lambda: noise.laplace_epsilon(1.0, 1.0, 1),
            lambda: noise.gaussian_multiplier(1.0, 1.0, 1),
        ):
            with pytest.raises(InvalidInput, match=r'pip install "discreet\[secure\]"'):
                use()
        # What the operating system draws needs no OpenDP.
        assert noise.coins(0.5, 3).shape == noise.below(3, 3).shape == noise.keys(3).shape

    @pytest.mark.parametrize(
        ("release", "taken"),
        [
            *((release, False) for release in ("0.9.2", "0.14.1", "0.14")),
            *((release, True) for release in ("0.14.2", "0.15.0a1", "1.0")),
        ],
    )
    def test_releases_of_opendp_with_biased_noise_are_refused(
        self, release: str, taken: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        _opendp.cache_clear()
        monkeypatch.setattr("importlib.metadata.version", lambda name: release)
        message = rf"OpenDP {release} .*0\.14\.2 or later"
        with nullcontext() if taken else pytest.raises(InvalidInput, match=message):
            SecureNoise().check_additive()


class TestUnprotected:
    """For joint privacy: the person trusts the learner, so the report is what happened."""

    def test_it_draws_nothing(self) -> None:
        noise = Unprotected()
        for draw in (
            lambda: noise.keys(3),
            lambda: noise.below(3, 3),
            lambda: noise.coins(0.5, 3),
            lambda: noise.add_laplace(np.zeros(3), 1.0),
            lambda: noise.add_gaussian(np.zeros(3), 1.0),
            noise.check_additive,
        ):
            with pytest.raises(InvalidInput, match="SecureNoise"):
                draw()

    def test_it_promises_nothing(self) -> None:
        noise = Unprotected()
        assert noise.laplace_epsilon(1.0, 1.0, 1) == math.inf
        assert noise.gaussian_multiplier(1.0, 1.0, 1) == 0.0
        assert not noise.secure
        assert noise.name == NO_NOISE


class TestByName:
    """What a report cost, from the name of the source that protected it."""

    @pytest.mark.parametrize("size", [1, 300])
    @pytest.mark.parametrize(("sensitivity", "scale"), [(1.0, 4.0), (2.0, 0.5), (1e-3, 10.0)])
    def test_as_the_sources_say(self, sensitivity: float, scale: float, size: int) -> None:
        for noise in (SimulatedNoise(0), SecureNoise()):
            given = sensitivity, scale, size
            assert gaussian_multiplier(noise.name, *given) == noise.gaussian_multiplier(*given)
            assert laplace_epsilon(noise.name, *given) == noise.laplace_epsilon(*given)
        # The promise of a policy, before anybody drew: the closed form.
        assert gaussian_multiplier(NO_NOISE, sensitivity, scale, size) == scale / sensitivity
        assert laplace_epsilon(NO_NOISE, sensitivity, scale, size) == sensitivity / scale

    @pytest.mark.parametrize("size", [1, 300, 10**6])
    @pytest.mark.parametrize("scale", [1e-9, 1e-3, 0.3, 1.0, 8.0, 1e6])
    def test_where_opendp_is_missing_a_bound_serves(
        self, scale: float, size: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Never a better figure than OpenDP's own, and next to no worse one."""
        for sensitivity in (2.0 * scale, scale / 3.0):
            asked = SecureNoise.name, sensitivity, scale, size
            with monkeypatch.context() as without:
                for module in ("opendp", "opendp.prelude"):
                    without.setitem(sys.modules, module, None)
                _opendp.cache_clear()
                multiplier, epsilon = gaussian_multiplier(*asked), laplace_epsilon(*asked)
            assert multiplier <= gaussian_multiplier(*asked) <= multiplier * (1.0 + 1e-12)
            assert epsilon / (1.0 + 1e-12) <= laplace_epsilon(*asked) <= epsilon

    def test_a_report_cannot_invent_a_source(self) -> None:
        for name in (SecureNoise.name, SimulatedNoise.name, NO_NOISE):
            assert check_noise_name(name) == name
        for bad in ("", "SecureNoise", None, 3, ["none"]):
            with pytest.raises(InvalidInput, match="noise source"):
                check_noise_name(bad)


class TestFaultsOnceFound:
    """Each was a fault of an earlier version, found by an adversarial reading."""

    @pytest.mark.filterwarnings("ignore::RuntimeWarning")
    @pytest.mark.parametrize("p", [math.nan, -0.5, 1.5])
    def test_probabilities_outside_0_and_1_are_refused(self, p: float) -> None:
        with pytest.raises(InvalidInput):
            SecureNoise().coins(p, 4)

    def test_the_grid_follows_the_scale(self) -> None:
        multiplier = SecureNoise().gaussian_multiplier(1e-9, 1e-9, 10)
        assert multiplier == pytest.approx(1.0, rel=1e-6)
