"""The law of code, from everything that it can draw, and of what noise sources draw."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy import stats

from discreet.audit import mechanisms
from discreet.audit.output_distributions import (
    EnumeratedNoise,
    NotFinite,
    cap_ratios,
    exact_epsilon,
    fault_of,
    law_of,
    subset_ratio,
)
from discreet.audit.tape import VectorDraw, loss_between
from discreet.privacy import NoiseSource, SecureNoise, SimulatedNoise, vectors
from discreet.privacy.frequency import SignedSubsetSelection, UnaryEncoding
from discreet.privacy.vectors import PrivUnit
from discreet.validation import InvalidInput
from tests.chance import RARE


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


@pytest.mark.parametrize("epsilon", [1.0, 1.5])
def test_code_has_the_epsilon_that_it_draws_for(epsilon: float) -> None:
    def report(noise: NoiseSource, value: int) -> bytes:
        return UnaryEncoding(4, epsilon).privatise(np.array([value]), noise).tobytes()

    laws = [law_of(partial(report, value=value)) for value in (0, 3)]
    assert exact_epsilon(*laws) == pytest.approx(epsilon)


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (lambda noise: float(noise.add_gaussian(np.zeros(1), 1.0)[0]), "Gaussian"),
        (lambda noise: float(noise.add_laplace(np.zeros(1), 1.0)[0]), "Laplace"),
        (lambda noise: noise.keys(9).tobytes(), "9 keys"),
        (lambda noise: noise.below(5, 2).tobytes(), "more than 10"),
    ],
)
def test_what_has_too_many_outcomes_is_left_to_trials(run: Any, words: str) -> None:
    with pytest.raises(NotFinite, match=words):
        law_of(run, most=10)
    noise = EnumeratedNoise()
    assert noise.laplace_epsilon(1.0, 2.0, 1) == 0.5
    assert noise.gaussian_multiplier(1.0, 2.0, 1) == 2.0


# Classes of reports.


@pytest.mark.parametrize(("dimension", "threshold"), [(1, None), (2, None), (6, 0.0), (40, None)])
def test_privunit_has_its_epsilon(dimension: int, threshold: float | None) -> None:
    made = PrivUnit(dimension, 2.0, threshold)
    inside, outside, halves = cap_ratios(made)
    assert math.log(inside / outside) == pytest.approx(2.0, abs=1e-8)
    assert halves == (dimension == 1 or threshold == 0.0)


def test_privunit_of_short_vectors_loses_less() -> None:
    made = PrivUnit(3, 2.0, 0.0)

    def loss(*vectors: tuple[float, ...]) -> float:
        one, two = (VectorDraw(made, np.array([vector]), None) for vector in vectors)
        return loss_between([one], [two]).pure

    assert loss((1.0, 0.0, 0.0), (0.0, 1.0, 0.0)) == pytest.approx(2.0)
    short = loss((0.2, 0.0, 0.0), (-0.2, 0.0, 0.0))
    assert 0.0 < short < 0.5
    # Densities over the half spheres along +-u are mixtures with weights 0.6 and 0.4.
    inside, outside, _ = cap_ratios(made)
    high, low = 0.6 * inside + 0.4 * outside, 0.4 * inside + 0.6 * outside
    assert short == pytest.approx(math.log(high / low))


def test_code_that_tosses_other_coins_has_another_epsilon() -> None:
    class Louder(SignedSubsetSelection):
        def privatise(self, bins, signs, noise):  # type: ignore[no-untyped-def]
            louder = SignedSubsetSelection(self.bins, self.size, 1.1)
            return louder.privatise(bins, signs, noise)

    class Shorter(PrivUnit):
        @property
        def hiding_probability(self) -> float:  # type: ignore[override]
            return 0.9 * PrivUnit.hiding_probability.func(self)  # type: ignore[attr-defined]

    assert subset_ratio(Louder(5, 2, 1.0)) == pytest.approx(1.1)
    inside, outside, _ = cap_ratios(Shorter(4, 1.0))
    assert math.log(inside / outside) > 1.05


def test_points_that_are_not_uniform_are_no_cap() -> None:
    class Pole(PrivUnit):
        def _construct(self, towards, hidden, noise):  # type: ignore[no-untyped-def]
            return np.where(hidden[:, None], -towards, towards)

    with pytest.raises(InvalidInput, match="not uniform"):
        cap_ratios(Pole(4, 1.0))


# Sources.


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_a_source_that_draws_a_tenth_less_is_noticed(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = getattr(SimulatedNoise, f"add_{kind}")

    def quieter(self: Any, values: np.ndarray, scale: float) -> np.ndarray:
        return original(self, values, 0.9 * scale)

    monkeypatch.setattr(SimulatedNoise, f"add_{kind}", quieter)
    assert f"{kind} noise" in fault_of(SimulatedNoise(1))


KEYS, ADD, COINS = SecureNoise.keys, SecureNoise.add_gaussian, SecureNoise.coins


def block(self: Any, shape: Any, kept: list[np.ndarray] = []) -> np.ndarray:  # noqa: B006
    """Words of one block, again and again."""
    kept or kept.append(KEYS(self, 4096))
    return np.resize(kept[0], shape)


def refilled(self: Any, shape: Any) -> np.ndarray:
    """Words of blocks, the last of which is used up in part and kept for the next call."""
    count = int(np.prod(shape))
    return np.resize(KEYS(self, min(count, 4096)), shape)


def reused_coins(self: Any, probability: Any, shape: Any) -> np.ndarray:
    """The last coin of a call is the first one again."""
    shown = COINS(self, probability, shape)
    if shown.size > 1:
        shown.flat[-1] = shown.flat[0]
    return shown


def tiled(period: int) -> Any:
    def add(self: Any, values: np.ndarray, scale: float) -> np.ndarray:
        noise = ADD(self, np.zeros(min(values.size, period)), scale)
        return values + np.resize(noise, values.shape)

    return add


def in_pairs(self: Any, values: np.ndarray, scale: float) -> np.ndarray:
    """Numbers next to each other have opposite noise."""
    noise = ADD(self, np.zeros((values.size + 1) // 2), scale)
    return values + np.stack([noise, -noise], axis=1).ravel()[: values.size].reshape(values.shape)


def by_row(self: Any, values: np.ndarray, scale: float) -> np.ndarray:
    return values + ADD(self, np.zeros((len(values), *[1] * (values.ndim - 1))), scale)


def quiet_alone(self: Any, values: np.ndarray, scale: float) -> np.ndarray:
    return ADD(self, values, scale / 2 if values.size == 1 else scale)


def afterwards(self: Any, values: np.ndarray, scale: float) -> np.ndarray:
    """Noise that is added in floating point."""
    return values + ADD(self, np.zeros(values.shape), scale)


def of_laplace(self: Any, values: np.ndarray, scale: float) -> np.ndarray:
    """Gaussian noise from the Laplace noise of the same call, which another call shows."""
    laplace = self.add_laplace(np.zeros(values.shape), 1.0)
    return values + scale * stats.norm.ppf(stats.laplace.cdf(laplace))


@pytest.mark.chance(RARE)
def test_secure_randomness_has_no_fault() -> None:
    pytest.importorskip("opendp")
    assert fault_of(SecureNoise()) == ""


@pytest.mark.chance(RARE)
@pytest.mark.parametrize(
    ("name", "instead", "fault"),
    [
        pytest.param("keys", block, "operating system", marks=pytest.mark.slow),
        ("keys", refilled, "operating system"),
        pytest.param(
            "keys",
            lambda self, shape: KEYS(self, shape) | np.uint64(1),
            "operating system",
            marks=pytest.mark.slow,
        ),
        ("coins", reused_coins, "operating system"),
        ("add_gaussian", tiled(4096), "OpenDP"),
        pytest.param("add_gaussian", tiled(100_000), "OpenDP", marks=pytest.mark.slow),
        pytest.param("add_gaussian", in_pairs, "OpenDP", marks=pytest.mark.slow),
        ("add_gaussian", by_row, "OpenDP"),
        ("add_gaussian", quiet_alone, "OpenDP"),
        ("add_gaussian", of_laplace, "OpenDP"),
        ("add_gaussian", afterwards, "OpenDP"),
    ],
)
def test_secure_randomness_that_is_used_twice_is_noticed(
    name: str, instead: Any, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("opendp")
    monkeypatch.setattr(SecureNoise, name, instead)
    assert fault in fault_of(SecureNoise())


@pytest.mark.parametrize(
    ("instead", "fault"),
    [(tiled(70_000), "comes again"), (in_pairs, "draw before"), (by_row, "draw before")],
)
def test_simulated_noise_that_repeats_itself_is_noticed(
    instead: Any, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{__name__}.ADD", SimulatedNoise.add_gaussian)
    monkeypatch.setattr(SimulatedNoise, "add_gaussian", instead)
    assert fault in fault_of(SimulatedNoise(1))


def test_a_mechanism_that_behaves_otherwise_under_secure_noise_is_noticed() -> None:
    class Shown(PrivUnit):
        def _report(self, directions, lengths, noise):  # type: ignore[no-untyped-def]
            return directions if noise.secure else super()._report(directions, lengths, noise)

    class Louder(SignedSubsetSelection):
        def privatise(self, bins, signs, noise):  # type: ignore[no-untyped-def]
            epsilon = 1.1 if noise.secure else 1.0
            return SignedSubsetSelection(5, 2, epsilon).privatise(bins, signs, noise)

    class ShownAlone(PrivUnit):
        def _report(self, directions, lengths, noise):  # type: ignore[no-untyped-def]
            report = super()._report(directions, lengths, noise)
            return directions if len(lengths) == 1 else report

    assert cap_ratios(Shown(4, 1.0))[0] > 0.0
    with pytest.raises(InvalidInput, match="alone is not hidden"):
        cap_ratios(ShownAlone(4, 1.0))
    with pytest.raises(InvalidInput, match="tossed 0 coins"):
        cap_ratios(Shown(4, 1.0), secure=True)
    assert subset_ratio(Louder(5, 2, 1.0)) == pytest.approx(1.0)
    assert subset_ratio(Louder(5, 2, 1.0), secure=True) == pytest.approx(1.1)


@pytest.mark.parametrize("shared", ["coins", "below", "keys", "add_gaussian"])
def test_reports_of_people_who_share_noise_are_noticed(
    shared: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every second person draws what the one before drew."""
    original = getattr(SimulatedNoise, shared)

    def paired(self: Any, given: Any, *more: Any) -> Any:
        drawn = original(self, given, *more)
        drawn[1::2] = drawn[: len(drawn) - len(drawn) % 2 : 2]
        return drawn

    monkeypatch.setattr(SimulatedNoise, shared, paired)
    assert "share their noise" in mechanisms._independent().fault


def test_points_that_are_kept_for_the_next_report_are_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    uniform, kept = vectors.uniform, dict[Any, Any]()
    monkeypatch.setattr(
        vectors, "uniform", lambda shape, noise: kept.setdefault(shape, uniform(shape, noise))
    )
    assert "some are equal" in mechanisms._independent().fault


def test_a_sampler_that_repeats_itself_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def walk(self: Any, values: np.ndarray, scale: float) -> np.ndarray:
        steps = np.random.default_rng(1).normal(0.0, scale, values.shape)
        return values + (steps + np.roll(steps, 1)) / np.sqrt(2.0)

    monkeypatch.setattr(SimulatedNoise, "add_gaussian", walk)
    assert "depends on the draw before" in fault_of(SimulatedNoise(1))
    monkeypatch.undo()
    monkeypatch.setattr(
        SimulatedNoise, "coins", lambda self, p, shape: np.arange(shape) < p * shape * 0.8
    )
    assert "coins" in fault_of(SimulatedNoise(1))
