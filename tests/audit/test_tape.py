"""What is recorded is played back, strays are noticed, and losses are those of closed forms."""

from __future__ import annotations

import copy
import math
import os
import random
import secrets
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import stats

from discreet.audit.output_distributions import exact_epsilon, unary_ratio, vector_ratio
from discreet.audit.tape import (
    GaussianDraw,
    LaplaceDraw,
    Loss,
    NoiseTape,
    SelectionDraw,
    UnaryDraw,
    gaussian_epsilon,
    hand,
    loss_between,
    shared_noise,
)
from discreet.kernels import FiniteFeatures
from discreet.learners.epochs.features import ContextDistribution
from discreet.learners.kernel.features import sobol_points
from discreet.learners.partition.tree import Tree, spread_within
from discreet.people.domain import unit_cube
from discreet.privacy import NoiseSource, SimulatedNoise
from discreet.privacy.accounting import repeated_epsilon
from discreet.privacy.calibration import gaussian_noise_multiplier
from discreet.privacy.frequency import SignedSubsetSelection, UnaryEncoding
from discreet.privacy.noise import SecureNoise
from discreet.privacy.selection import ExponentialMechanism
from discreet.privacy.vectors import PrivUnit

SUBSET, SPHERE = SignedSubsetSelection(6, 2, 1.0), PrivUnit(3, 1.0)
BITS = UnaryEncoding(5, 1.0, 0.7)


def everything(value: float) -> list[object]:
    """One draw of each kind."""
    noise, vector = hand(SimulatedNoise(5)), np.array([[value, 0.3, 0.0]])
    own, sign = np.array([int(4 * value)]), np.array([1], dtype=np.int8)
    scores = np.array([[value, 0.0]])
    return [
        noise.add_gaussian(np.full(3, value), 2.0).tolist(),
        noise.add_laplace(np.full(2, value), 1.0).tolist(),
        [one.tolist() for one in SUBSET.privatise(own, sign, noise)],
        BITS.privatise(own, noise).tolist(),
        SPHERE.privatise(vector, noise).tolist(),
        ExponentialMechanism(1.0).select(scores, 1.0, noise).tolist(),
        noise.below(9, 4).tolist(),
        noise.keys(2).tolist(),
        os.urandom(4),
        secrets.token_hex(4),
    ]


def recorded(run: Callable[[], Any]) -> tuple[NoiseTape, Any]:
    tape = NoiseTape()
    with tape.recording():
        return tape, run()


def played(tape: NoiseTape, run: Callable[[], Any]) -> tuple[NoiseTape, Any]:
    other = NoiseTape()
    with other.playing(tape):
        shown = run()
    return other, shown


def test_the_neighbour_sees_the_same_outcomes() -> None:
    tape, shown = recorded(lambda: everything(0.1))
    other, again = played(tape, lambda: everything(0.9))
    assert again == shown
    assert other.astray == ""
    kinds = ["gaussian", "laplace", "subset", "unary", "vector", "selection"]
    assert [draw.kind for draw in tape.draws] == kinds
    assert [draw.value.ravel()[0] for draw in other.draws] == pytest.approx(
        [0.9, 0.9, 3, 3, 0.9, 0.9]
    )


def test_nothing_is_changed_outside() -> None:
    before = [SimulatedNoise.add_gaussian, SignedSubsetSelection.privatise, os.urandom]
    _, shown = recorded(lambda: everything(0.1))
    assert [SimulatedNoise.add_gaussian, SignedSubsetSelection.privatise, os.urandom] == before
    assert everything(0.1)[:2] == shown[:2]


def test_coins_have_the_same_uniform_numbers_on_both() -> None:
    tape, low = recorded(lambda: SimulatedNoise(1).coins(0.3, 1000))
    _, high = played(tape, lambda: SimulatedNoise(1).coins(0.4, 1000))
    assert not (low & ~high).any()
    assert 0.05 < (high & ~low).mean() < 0.15


def two_numbers() -> np.ndarray:
    return SimulatedNoise(1).add_gaussian(np.zeros(2), 1.0)


@pytest.mark.parametrize(
    ("other", "how"),
    [
        (lambda: SimulatedNoise(1).add_gaussian(np.zeros(3), 1.0), "gaussian ((3,),) in place of"),
        (lambda: SimulatedNoise(1).add_laplace(np.zeros(2), 1.0), "laplace"),
        (lambda: SimulatedNoise(2), "a seed ('2',)"),
        (lambda: None, "it drew less"),
        (lambda: [two_numbers(), SimulatedNoise(1)], "a seed besides"),
    ],
)
def test_a_run_that_asks_for_something_else_strays(other: Callable[[], Any], how: str) -> None:
    tape, _ = recorded(two_numbers)
    stray, _ = played(tape, other)
    assert how in stray.astray


@pytest.mark.chance(0)
def test_secure_noise_is_recorded_too() -> None:
    pytest.importorskip("opendp")
    tape, shown = recorded(lambda: SecureNoise().add_gaussian(np.zeros(2), 1.0))
    _, again = played(tape, lambda: SecureNoise().add_gaussian(np.ones(2), 1.0))
    assert again.tolist() == shown.tolist()


# Whatever is not drawn from the source that was handed in.


@pytest.mark.parametrize(
    ("draw", "fault"),
    [
        (lambda noise: SimulatedNoise(7).add_gaussian(np.zeros(2), 1.0), "made itself"),
        (lambda noise: copy.deepcopy(noise).coins(0.5, 3), "made itself"),
        (lambda noise: type(noise)(7).below(4, 3), "made itself"),
        (
            lambda noise: SUBSET.privatise(np.array([1]), np.array([1]), SecureNoise()),
            "made itself",
        ),
        (lambda noise: np.random.default_rng(7).normal(), "makes a generator"),
        (lambda noise: np.random.default_rng().normal(), "makes a generator"),
        (lambda noise: np.random.Generator(np.random.PCG64(7)).normal(), "PCG64"),
        (lambda noise: np.random.RandomState(7).normal(), "RandomState"),
        (lambda noise: np.random.normal(), "Python or NumPy shares"),  # noqa: NPY002
        (lambda noise: stats.norm.rvs(size=2), "Python or NumPy shares"),
        (lambda noise: random.gauss(0.0, 1.0), "Python or NumPy shares"),
        (lambda noise: random.Random(7).random(), "Random"),
        (lambda noise: os.urandom(4), "operating system"),
        (lambda noise: secrets.randbits(9), "operating system"),
    ],
)
def test_draws_from_anything_but_the_source_given_are_noticed(
    draw: Callable[[NoiseSource], object], fault: str
) -> None:
    tape, _ = recorded(lambda: draw(hand(SimulatedNoise(5))))
    assert fault in tape.foreign


def test_draws_of_a_mechanism_from_a_source_of_its_own_are_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original = SignedSubsetSelection.privatise

    def privatise(self: Any, bins: Any, signs: Any, noise: NoiseSource) -> Any:
        return original(self, bins, signs, SimulatedNoise(3))

    monkeypatch.setattr(SignedSubsetSelection, "privatise", privatise)
    given = np.array([1]), np.array([1], dtype=np.int8)
    tape, _ = recorded(lambda: SUBSET.privatise(*given, hand(SimulatedNoise(5))))
    assert "makes SimulatedNoise" in tape.foreign


@pytest.mark.parametrize(
    "points",
    [
        lambda: ContextDistribution.usual(unit_cube(2)),
        lambda: spread_within(Tree.root(2), 8, (None, None)),
        lambda: sobol_points.__wrapped__(9),
    ],
)
def test_low_discrepancy_points_are_public_and_the_same_for_everyone(
    points: Callable[[], object],
) -> None:
    tape, _ = recorded(points)
    same, _ = played(tape, points)
    assert [each.foreign for each in (tape, same)] == ["", ""]
    assert same.astray == ""


def test_public_randomness_is_no_noise_and_depends_on_no_person() -> None:
    table = FiniteFeatures(unit_cube(1), np.linspace(0.0, 1.0, 2000)[:, None], np.ones((2000, 1)))

    def features(seed: int) -> None:
        table.error_points(seed)

    tape, _ = recorded(lambda: features(3))
    same, _ = played(tape, lambda: features(3))
    kept, _ = played(tape, lambda: None)
    other, _ = played(tape, lambda: features(4))
    assert [each.foreign for each in (tape, same, kept, other)] == [""] * 4
    assert [each.astray for each in (same, kept)] == ["", ""]
    assert "public randomness of discreet.kernels.nystrom" in other.astray


# Losses.


def gaussian(scale: float, *values: float, outcome: object = 0.0) -> GaussianDraw:
    return GaussianDraw(scale, np.array(values), outcome)


def laplace(scale: float, *values: float) -> LaplaceDraw:
    return LaplaceDraw(scale, np.array(values), 0.0)


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.1, 1e-6), (1.0, 1e-5), (8.0, 1e-5), (16.0, 1e-9)]
)
def test_gaussian_epsilon_is_the_inverse_of_the_calibration(epsilon: float, delta: float) -> None:
    mu = 1.0 / gaussian_noise_multiplier(epsilon, delta)
    assert gaussian_epsilon(mu, delta) == pytest.approx(epsilon, abs=1e-7)


def test_losses_add_over_draws() -> None:
    first = [gaussian(2.0, 0.0, 0.0), gaussian(1.0, 0.0), laplace(4.0, 1.0, 2.0)]
    second = [gaussian(2.0, 3.0, 4.0), gaussian(1.0, 1.0), laplace(4.0, 0.0, 0.0)]
    found = loss_between(first, second)
    assert found.squared == pytest.approx(6.25 + 1.0)
    assert found.pure == pytest.approx(0.75)
    assert loss_between(first, first) == Loss()
    assert Loss(squared=1.0).epsilon(0.0) == math.inf


@pytest.mark.parametrize("shown", [0.5, 0.92])
def test_unary_encoding_loses_its_epsilon_for_everybody_who_moved(shown: float) -> None:
    mechanism = UnaryEncoding(40, 1.5, shown)
    values = [np.array([3, 4, 5]), np.array([3, 0, 39])]
    draws = [UnaryDraw(mechanism, value.astype(float), None) for value in values]
    assert draws[0].loss(draws[1]).pure == pytest.approx(3.0, rel=1e-9)


def test_unary_encoding_is_known_by_its_coins() -> None:
    """Not by the epsilon that it says it has."""

    class Wrong(UnaryEncoding):
        hidden_probability = Fraction(1, 10)

    assert unary_ratio(Wrong(4, 1.0)) == pytest.approx(math.log(9.0))


def test_another_scale_tells_for_sure() -> None:
    found = loss_between([laplace(1.0, 0.0)], [laplace(2.0, 0.0)])
    assert "scale 1.0" in found.reason
    assert found.epsilon(0.0) == math.inf


def test_selections_lose_the_largest_ratio_of_an_option() -> None:
    def chosen(score: float, score_range: float = 1.0) -> list[SelectionDraw]:
        scores = np.array([[score, 0.0]])
        return [SelectionDraw(ExponentialMechanism(1.0), scores, 0.0, np.array([score_range]))]

    assert loss_between(chosen(-20.0), chosen(-21.0)).pure == pytest.approx(1.0, abs=1e-8)
    assert "ranges" in loss_between(chosen(-20.0), chosen(-20.0, 2.0)).reason


def test_equal_values_lose_nothing_but_nan_is_refused() -> None:
    def chosen(score: float) -> list[SelectionDraw]:
        scores = np.array([[score, 0.0]])
        return [SelectionDraw(ExponentialMechanism(1.0), scores, 0.0, np.ones(1))]

    assert loss_between(chosen(-math.inf), chosen(-math.inf)) == Loss()
    assert "finite" in loss_between(chosen(-math.inf), chosen(0.0)).reason
    assert "finite" in loss_between([laplace(1.0, math.nan)], [laplace(1.0, math.nan)]).reason


def test_short_vectors_keep_their_directions() -> None:
    """Parallel vectors lose less than others, however short they are."""
    mechanism, direction = PrivUnit(3, 2.0), np.array([0.6, 0.8, 0.0])
    parallel = vector_ratio(mechanism, 1e-120 * direction, 1e-110 * direction)
    assert parallel == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(
    ("noises", "fault"),
    [((0.3, 0.2), ""), ((0.3, 0.3), "the same noise"), ((0.0, 0.3), "without noise")],
)
def test_noise_must_be_there_and_be_new(noises: tuple[float, float], fault: str) -> None:
    """Of scales 1 and 2, on the values 0 and 1."""
    draws = [
        gaussian(scale, value, outcome=value + scale * noise)
        for scale, value, noise in zip((1.0, 2.0), (0.0, 1.0), noises, strict=True)
    ]
    assert fault in shared_noise(draws)
    assert bool(fault) == bool(shared_noise(draws))


def test_several_pure_losses_at_a_delta_are_those_of_responses() -> None:
    """Against the accounting of the library, and, where they differ, the enumerated laws."""
    for losses in ((0.4, 0.4), (0.1,) * 9, (2.0,) * 3):
        for delta in (1e-6, 1e-2):
            ours = Loss(losses=losses).epsilon(delta)
            assert ours == pytest.approx(repeated_epsilon(losses[0], len(losses), delta), rel=1e-7)
    said = list(product((True, False), repeat=2))

    def law(truth: bool) -> dict[tuple[bool, ...], float]:
        shares = [1.0 / (1.0 + math.exp(-loss)) for loss in (0.3, 1.1)]
        return {
            each: math.prod(
                share if told == truth else 1.0 - share
                for told, share in zip(each, shares, strict=True)
            )
            for each in said
        }

    exact = exact_epsilon(law(True), law(False), 0.01)
    assert Loss(losses=(0.3, 1.1)).epsilon(0.01) == pytest.approx(exact, rel=1e-9)
    assert Loss(losses=(0.3,)).epsilon(0.01) == 0.3
