"""Exact replay: what is private is measured, and what leaks beside the noise is found."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from discreet.audit.exact import Claim, Facts, Promise, exact_of, promised
from discreet.privacy import NoiseSource, OnceEach, Release, SimulatedNoise
from discreet.privacy.accounting import GaussianEvent, PureEvent
from discreet.privacy.calibration import gaussian_noise_multiplier
from discreet.validation import InvalidInput

CLAIM = Claim(1.0, 1e-5)
SCALE = gaussian_noise_multiplier(1.0, 1e-5)
VALUES = [("0", 0.0), ("1", 1.0), ("a half", 0.5)]


def release(scale: float, sensitivity: float) -> Release:
    event = GaussianEvent(scale / sensitivity)
    return Release("Gaussian", event, sensitivity, "given", scale, OnceEach("g"), "a number", "n")


def code(
    scale: float = SCALE,
    certified: Claim = CLAIM,
    releases: list[Release] | None = None,
    shown: Callable[[float, np.ndarray], object] = lambda value, noisy: noisy.tolist(),
) -> Callable[[float, Facts], Promise]:
    """A sum with Gaussian noise, and what is shown of it."""

    def run(value: float, facts: Facts) -> Promise:
        noisy = SimulatedNoise(1).add_gaussian(np.array([value]), scale)
        facts.add("the sum", repr(shown(value, noisy)))
        return Promise(CLAIM, certified, releases)

    return run


def test_an_honest_release_is_measured_exactly() -> None:
    found = exact_of(code(releases=[release(SCALE, 1.0)]), VALUES)
    assert found.epsilon == pytest.approx(1.0, abs=1e-9)
    assert not found.broken
    assert found.attack == "0 or 1"


def test_a_tenth_less_noise_is_a_broken_promise() -> None:
    found = exact_of(code(0.9 * SCALE), VALUES)
    assert found.epsilon == pytest.approx(1.1228, abs=1e-4)
    assert found.broken


def test_the_claim_is_the_smaller_of_budget_and_certificate() -> None:
    found = exact_of(code(certified=Claim(0.8, 1e-5)), VALUES)
    assert found.claim.epsilon == 0.8
    assert found.broken
    above = exact_of(code(10.0 * SCALE, certified=Claim(1.2, 1e-5)), VALUES)
    assert above.epsilon < 0.2
    assert above.broken
    assert "more than" in above.fault


@pytest.mark.parametrize(
    ("shown", "said"),
    [
        (lambda value, noisy: [value, *noisy], "the sum depends on the data"),
        (lambda value, noisy: "x" * int(2 * value), "the sum depends on the data"),
    ],
)
def test_what_shows_beside_the_noise_is_found(shown: Callable[..., object], said: str) -> None:
    found = exact_of(code(shown=shown), VALUES)
    assert (found.epsilon, found.fault) == (math.inf, said)


def test_refusing_one_and_not_the_other_is_found() -> None:
    def run(value: float, facts: Facts) -> Promise:
        noisy = SimulatedNoise(1).add_gaussian(np.array([value]), SCALE)
        try:
            if value > 0.7:
                raise InvalidInput("too large.")
            facts.add("the sum", repr(noisy))
        except InvalidInput as error:
            facts.refusal("a report", error)
        return Promise(CLAIM, CLAIM)

    found = exact_of(run, VALUES)
    assert "whether a report is refused" in found.fault


def test_a_sensitivity_on_record_that_is_too_small_is_found() -> None:
    found = exact_of(code(releases=[release(SCALE, 0.5)]), VALUES)
    assert "sensitivity of 0.5 on record" in found.fault
    other = exact_of(code(releases=[release(2.0 * SCALE, 1.0)]), VALUES)
    assert "which no record has" in other.fault


def test_noise_that_two_releases_share_is_found() -> None:
    def run(value: float, facts: Facts) -> Promise:
        for _ in range(2):
            noisy = SimulatedNoise(1).add_gaussian(np.array([value]), 2.0 * SCALE)
            facts.add("a sum", repr(noisy))
        return Promise(CLAIM, CLAIM)

    assert "the same noise" in exact_of(run, VALUES).fault


def test_a_seed_from_the_data_is_found() -> None:
    def run(value: float, facts: Facts) -> Promise:
        noisy = SimulatedNoise(int(value * 100)).add_gaussian(np.array([value]), SCALE)
        facts.add("the sum", repr(noisy))
        return Promise(CLAIM, CLAIM)

    assert "a seed" in exact_of(run, VALUES).fault


def test_code_that_draws_noise_elsewhere_is_refused() -> None:
    class Own(NoiseSource):
        name, secure = "own", False

        def _draw(self, values, scale):  # type: ignore[no-untyped-def]
            return values + np.random.default_rng().normal(0.0, scale, np.shape(values))

        add_gaussian = add_laplace = _draw

        def keys(self, shape):  # type: ignore[no-untyped-def]
            raise NotImplementedError

        below = coins = laplace_epsilon = gaussian_multiplier = keys

    def run(value: float, facts: Facts) -> Promise:
        facts.add("the sum", repr(Own().add_gaussian(np.array([value]), SCALE)))
        return Promise(CLAIM, CLAIM)

    with pytest.raises(InvalidInput, match=r"cannot be replayed.*noise source"):
        exact_of(run, VALUES)


def test_nothing_to_attack_is_refused() -> None:
    def run(value: float, facts: Facts) -> Promise:
        facts.add("nothing", b"")
        return promised(CLAIM, [PureEvent(0.0)])

    with pytest.raises(InvalidInput, match="nothing to attack"):
        exact_of(run, VALUES)
