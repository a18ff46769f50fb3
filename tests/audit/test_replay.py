"""Exact replay: what is private is measured, and what leaks beside the noise is found."""

from __future__ import annotations

import logging
import math
import threading
import warnings
from collections.abc import Callable

import numpy as np
import pytest

from discreet.audit.replay import (
    Claim,
    Exact,
    Labelled,
    Promise,
    Transcript,
    Values,
    exact_of,
    fingerprint,
    public_values,
    worst_of,
)
from discreet.audit.tape import hand
from discreet.privacy import OnceEach, Release, SimulatedNoise
from discreet.privacy.accounting import GaussianEvent
from discreet.privacy.calibration import gaussian_noise_multiplier
from discreet.validation import InvalidInput

CLAIM = Claim(1.0, 1e-5)
SCALE = gaussian_noise_multiplier(1.0, 1e-5)


def release(scale: float, sensitivity: float) -> list[Release]:
    event = GaussianEvent(scale / sensitivity)
    return [Release("Gaussian", event, sensitivity, "given", scale, OnceEach("g"), "a number", "n")]


def noisy(value: float, scale: float = SCALE, seed: int = 1) -> np.ndarray:
    return hand(SimulatedNoise(seed)).add_gaussian(np.array([value]), scale)


def replayed(
    released: Callable[[float], object] = noisy,
    certified: Claim = CLAIM,
    releases: list[Release] | None = None,
) -> Exact:
    """Of a sum with Gaussian noise, or what else is released of a number."""

    def run(value: float, transcript: Transcript) -> Promise:
        try:
            shown = released(value)
        except ValueError as error:
            transcript.refusal("a report", error)
        else:
            transcript.add("the sum", repr(shown))
        return Promise(CLAIM, certified, releases)

    return exact_of(run, [("0", 0.0), ("1", 1.0), ("a half", 0.5)])


def test_what_other_threads_print_is_not_what_the_code_prints() -> None:
    def told(value: float, who: Callable[..., object]) -> np.ndarray:
        who(value)
        return noisy(value)

    def elsewhere(value: float) -> None:
        thread = threading.Thread(target=print, args=(value,))
        thread.start()
        thread.join()

    assert not replayed(lambda value: told(value, elsewhere)).broken
    assert "what is printed" in replayed(lambda value: told(value, print)).fault


def test_a_run_that_silences_warnings_and_log_hides_nothing_of_the_next() -> None:
    log = logging.getLogger("discreet")

    def warning(value: float) -> np.ndarray:
        if value:
            warnings.warn("a large value", stacklevel=1)
        warnings.simplefilter("ignore")
        return noisy(value)

    def logging_it(value: float) -> np.ndarray:
        if value:
            log.info("a large value")
        log.setLevel(logging.CRITICAL)
        return noisy(value)

    assert "a warning" in replayed(warning).fault
    assert "what is logged" in replayed(logging_it).fault


def test_an_honest_release_is_measured_exactly() -> None:
    found = replayed(releases=release(SCALE, 1.0))
    assert found.epsilon == pytest.approx(1.0, abs=1e-9)
    assert not found.broken
    assert found.attack == "0 or 1"


def test_a_tenth_less_noise_is_a_broken_promise() -> None:
    found = replayed(lambda value: noisy(value, 0.9 * SCALE))
    assert found.epsilon == pytest.approx(1.1228, abs=1e-4)
    assert found.broken


def test_the_claim_is_the_smaller_of_budget_and_certificate() -> None:
    found = replayed(certified=Claim(0.8, 1e-5))
    assert found.claim.epsilon == 0.8
    assert found.broken
    above = replayed(lambda value: noisy(value, 10.0 * SCALE), certified=Claim(1.2, 1e-5))
    assert above.epsilon < 0.2
    assert above.broken
    assert "more than" in above.fault


def refusing(value: float) -> object:
    if value > 0.7:
        raise ValueError("too large.")
    return noisy(value)


@pytest.mark.parametrize(
    ("released", "fault"),
    [
        (lambda value: [value, *noisy(value)], "the sum depends on the data"),
        (lambda value: "x" * int(2 * value), "the sum depends on the data"),
        (refusing, "whether a report is refused depends on the data"),
        (lambda value: [noisy(value, 2.0 * SCALE) for _ in range(2)], "the same noise"),
        (lambda value: noisy(value, seed=int(value * 100)), "a seed"),
    ],
)
def test_what_shows_beside_the_noise_is_found(
    released: Callable[[float], object], fault: str
) -> None:
    found = replayed(released)
    assert found.broken
    assert fault in found.fault


@pytest.mark.parametrize(
    ("releases", "fault"),
    [
        (release(SCALE, 0.5), "sensitivity of 0.5 on record"),
        (release(2.0 * SCALE, 1.0), "which no record has"),
    ],
)
def test_a_record_that_is_wrong_is_found(releases: list[Release], fault: str) -> None:
    assert fault in replayed(releases=releases).fault


def test_code_that_cannot_be_attacked_is_refused() -> None:
    with pytest.raises(InvalidInput, match="nothing to attack"):
        replayed(lambda value: b"")


def test_states_that_no_data_enter_are_passed_over() -> None:
    def state(shown: Callable[[float], object]) -> Values:
        def run(value: float, transcript: Transcript) -> Promise:
            transcript.add("the sum", repr(shown(value)))
            return Promise(CLAIM, CLAIM)

        return Values(code=run, neighbours=[[Labelled("0", 0.0), Labelled("1", 1.0)]])

    silent, honest = state(lambda value: b""), state(noisy)
    broken = state(lambda value: noisy(value, 0.9 * SCALE))
    assert worst_of([silent, honest]).epsilon == pytest.approx(1.0, abs=1e-9)
    for states in ([silent, broken], [honest, silent, broken]):
        assert worst_of(states).broken
    with pytest.raises(InvalidInput, match="nothing to attack"):
        worst_of([silent, silent])


def test_claims_are_checked() -> None:
    for epsilon, delta in ((-1.0, 0.0), (math.nan, 0.0), (1.0, 1.0), (1.0, -0.1)):
        with pytest.raises(InvalidInput, match="claim"):
            Claim(epsilon, delta)


class Shown:
    """Shows a sum under a public name, another under a private one, and what a method returns."""

    def __init__(self, value: float) -> None:
        self.total = np.array([value])
        self._secret = value

    @property
    def double(self) -> float:
        return 2.0 * float(self.total[0])

    def triple(self) -> float:
        return 3.0 * float(self.total[0])

    def scaled(self, by: float) -> float:
        return by

    @property
    def broken(self) -> float:
        raise ValueError("not yet")


def test_public_values_are_all_that_has_a_public_name() -> None:
    first, again, other = (dict(public_values(Shown(value))) for value in (1.0, 1.0, 2.0))
    assert first == again
    assert set(first) == {"repr", "total", "double", "triple", "broken"}
    assert [name for name in first if other[name] != first[name]] == ["double", "total", "triple"]
    assert fingerprint([1, {"a": 2.0}]) != fingerprint([1, {"a": 2.5}])
