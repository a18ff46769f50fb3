"""The law of code, by going through everything that it can draw."""

from __future__ import annotations

import math

import numpy as np
import pytest

from discreet.audit.enumeration import EnumeratedNoise, NotFinite, exact_epsilon, law_of
from discreet.privacy import NoiseSource
from discreet.privacy.frequency import SignedSubsetSelection, UnaryEncoding


def answer(truth: bool, epsilon: float, noise: NoiseSource) -> bool:
    """Randomised response."""
    lie = noise.coins(1.0 / (1.0 + math.exp(epsilon)), 1)[0]
    return bool(truth != lie)


def test_randomised_response_is_epsilon_exactly() -> None:
    yes, no = (law_of(lambda noise, t=truth: answer(t, 1.3, noise)) for truth in (True, False))
    assert yes[True] == pytest.approx(math.exp(1.3) / (1.0 + math.exp(1.3)))
    assert exact_epsilon(yes, no) == pytest.approx(1.3)


def test_laws_add_up_to_one_whatever_is_drawn() -> None:
    def draws(noise: NoiseSource) -> tuple[object, ...]:
        shown = noise.coins(np.array([0.3, 1.0, 0.0]), 3)
        if shown[0]:  # what is drawn later may depend on what was drawn before
            return "below", tuple(noise.below(3, 2)), tuple(noise.below(1, 1))
        return "keys", tuple(np.argsort(noise.keys((1, 3))[0]))

    law = law_of(draws)
    assert math.fsum(law.values()) == pytest.approx(1.0)
    assert len(law) == 9 + 6
    assert law["keys", (0, 1, 2)] == pytest.approx(0.7 / 6.0)
    assert law["below", (2, 1), (0,)] == pytest.approx(0.3 / 9.0)


@pytest.mark.parametrize(("bins", "size"), [(2, 1), (2, 2), (3, 2), (4, 2)])
def test_reports_have_the_law_that_their_formula_says(bins: int, size: int) -> None:
    mechanism = SignedSubsetSelection(bins, size, 0.8)

    def report(noise: NoiseSource) -> tuple[tuple[int, ...], tuple[int, ...]]:
        chosen, signs = mechanism.privatise(np.array([1]), np.array([-1], dtype=np.int8), noise)
        return tuple(chosen[0]), tuple(signs[0])

    law = law_of(report)
    assert len(law) == math.comb(bins, size) * 2**size
    for (chosen, signs), found in law.items():
        formula = mechanism.log_probability(np.array(chosen), np.array(signs), 1, -1)
        assert math.log(found) == pytest.approx(formula, abs=1e-9)


def test_delta_buys_epsilon() -> None:
    one, two = {"a": 0.5, "b": 0.5}, {"a": 0.4, "b": 0.6}
    assert exact_epsilon(one, two) == pytest.approx(math.log(1.25))
    # 0.5 - e^epsilon 0.4 = 0.05; the other way round, 0.6 - e^epsilon 0.5 = 0.05, is less.
    assert exact_epsilon(one, two, 0.05) == pytest.approx(math.log(0.45 / 0.4), abs=1e-9)
    assert exact_epsilon(two, one, 0.05) == pytest.approx(math.log(0.45 / 0.4), abs=1e-9)
    assert exact_epsilon(one, two, 0.2) == 0.0


def test_an_outcome_that_one_side_never_has_costs_everything() -> None:
    one, two = {"a": 0.9, "b": 0.1}, {"a": 1.0}
    assert exact_epsilon(one, two) == math.inf
    assert exact_epsilon(one, two, 0.05) == math.inf
    assert exact_epsilon(one, two, 0.1 + 1e-12) == 0.0


def test_too_little_noise_shows() -> None:
    honest, wrong = UnaryEncoding(2, 1.0), UnaryEncoding(2, 1.5)

    def epsilon(mechanism: UnaryEncoding) -> float:
        laws = [
            law_of(
                lambda noise, s=sign: mechanism.privatise(
                    np.array([0]), np.array([s], dtype=np.int8), noise
                ).tobytes()
            )
            for sign in (1, -1)
        ]
        return exact_epsilon(laws[0], laws[1])

    assert epsilon(honest) == pytest.approx(1.0)
    assert epsilon(wrong) == pytest.approx(1.5)


def test_what_has_too_many_outcomes_is_left_to_trials() -> None:
    with pytest.raises(NotFinite, match="Gaussian"):
        law_of(lambda noise: float(noise.add_gaussian(np.zeros(1), 1.0)[0]))
    with pytest.raises(NotFinite, match="Laplace"):
        law_of(lambda noise: float(noise.add_laplace(np.zeros(1), 1.0)[0]))
    with pytest.raises(NotFinite, match="9 keys"):
        law_of(lambda noise: noise.keys(9).tobytes())
    with pytest.raises(NotFinite, match="more than 10"):
        law_of(lambda noise: noise.below(5, 2).tobytes(), most=10)
    noise = EnumeratedNoise()
    assert noise.laplace_epsilon(1.0, 2.0, 1) == 0.5
    assert noise.gaussian_multiplier(1.0, 2.0, 1) == 2.0
