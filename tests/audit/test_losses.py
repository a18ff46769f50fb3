"""Exact losses against the closed forms, and mechanisms whose code lies about its epsilon."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from discreet.audit.losses import (
    Draw,
    GaussianDraw,
    LaplaceDraw,
    Loss,
    SelectionDraw,
    SubsetDraw,
    VectorDraw,
    cap_ratios,
    gaussian_epsilon,
    loss_between,
    shared_noise,
    subset_ratio,
)
from discreet.privacy.calibration import gaussian_noise_multiplier
from discreet.privacy.frequency import SignedSubsetSelection
from discreet.privacy.selection import ExponentialMechanism
from discreet.privacy.vectors import PrivUnit
from discreet.validation import InvalidInput

KINDS: dict[str, type[Draw]] = {
    draw.kind: draw for draw in (GaussianDraw, LaplaceDraw, SubsetDraw, VectorDraw, SelectionDraw)
}


def draw(
    kind: str, mechanism: object, value: object, outcome: object = 0.0, **more: object
) -> Draw:
    return KINDS[kind](mechanism, np.asarray(value, dtype=float), outcome, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.1, 1e-6), (1.0, 1e-5), (8.0, 1e-5), (16.0, 1e-9)]
)
def test_gaussian_epsilon_is_the_inverse_of_the_calibration(epsilon: float, delta: float) -> None:
    mu = 1.0 / gaussian_noise_multiplier(epsilon, delta)
    assert gaussian_epsilon(mu, delta) == pytest.approx(epsilon, abs=1e-7)


def test_losses_add_over_draws() -> None:
    one = [
        draw("gaussian", 2.0, [0.0, 0.0]),
        draw("gaussian", 1.0, [0.0]),
        draw("laplace", 4.0, [1, 2]),
    ]
    two = [
        draw("gaussian", 2.0, [3.0, 4.0]),
        draw("gaussian", 1.0, [1.0]),
        draw("laplace", 4.0, [0, 0]),
    ]
    found = loss_between(one, two)
    assert found.squared == pytest.approx(6.25 + 1.0)
    assert found.pure == pytest.approx(0.75)
    assert loss_between(one, one) == Loss()


def test_another_scale_tells_for_sure() -> None:
    found = loss_between([draw("laplace", 1.0, [0.0])], [draw("laplace", 2.0, [0.0])])
    assert "scale 1.0" in found.reason
    assert found.epsilon(0.0) == math.inf


def test_gaussian_noise_promises_nothing_at_delta_0() -> None:
    assert Loss(squared=1.0).epsilon(0.0) == math.inf


@pytest.mark.parametrize(("bins", "size"), [(1, 1), (2, 1), (4, 2), (7, 7), (200, 30)])
@pytest.mark.parametrize("epsilon", [0.1, 2.0, 16.0])
def test_subset_selection_has_its_epsilon(bins: int, size: int, epsilon: float) -> None:
    made = SignedSubsetSelection(bins, size, epsilon)
    assert subset_ratio(made) == pytest.approx(epsilon, abs=1e-12)
    one, two = (draw("subset", made, [[0, sign]]) for sign in (1, -1))
    assert loss_between([one], [two]).pure == pytest.approx(epsilon)


@pytest.mark.parametrize(("dimension", "threshold"), [(1, None), (2, None), (6, 0.0), (40, None)])
def test_privunit_has_its_epsilon(dimension: int, threshold: float | None) -> None:
    made = PrivUnit(dimension, 2.0, threshold)
    inside, outside, halves = cap_ratios(made)
    assert math.log(inside / outside) == pytest.approx(2.0, abs=1e-8)
    assert halves == (dimension == 1 or threshold == 0.0)


def test_privunit_of_short_vectors_loses_less() -> None:
    made = PrivUnit(3, 2.0, 0.0)
    whole, short = ([draw("vector", made, [[size, 0, 0]])] for size in (1.0, 0.2))
    opposite = [draw("vector", made, [[-0.2, 0, 0]])]
    assert loss_between(whole, [draw("vector", made, [[0, 1, 0]])]).pure == pytest.approx(2.0)
    assert 0.0 < loss_between(short, opposite).pure < 0.5
    # Densities over the half spheres along +-u are mixtures with weights 0.6 and 0.4.
    inside, outside, _ = cap_ratios(made)
    high, low = 0.6 * inside + 0.4 * outside, 0.4 * inside + 0.6 * outside
    assert loss_between(short, opposite).pure == pytest.approx(math.log(high / low))


def test_code_that_tosses_other_coins_has_another_epsilon() -> None:
    class Louder(SignedSubsetSelection):
        def privatise(self, bins, signs, noise):  # type: ignore[no-untyped-def]
            return replace(SignedSubsetSelection(self.bins, self.size, 1.1)).privatise(
                bins, signs, noise
            )

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


def test_selections_lose_the_largest_ratio_of_an_option() -> None:
    made = ExponentialMechanism(1.0)
    one, two = (
        draw("selection", made, scores, public=np.ones(1))
        for scores in ([[-20.0, 0.0]], [[-21.0, 0.0]])
    )
    assert loss_between([one], [two]).pure == pytest.approx(1.0, abs=1e-8)
    wider = draw("selection", made, [[-20.0, 0.0]], public=2.0 * np.ones(1))
    assert "ranges" in loss_between([one], [wider]).reason


@pytest.mark.parametrize(
    ("outcomes", "said"),
    [
        (([0.3], [1.4]), ""),
        (([0.3], [1.3]), "the same noise"),
        (([0.3], [0.4]), "the same noise"),
        (([0.0], [1.3]), "without noise"),
    ],
)
def test_noise_must_be_there_and_be_new(outcomes: tuple[list[float], ...], said: str) -> None:
    draws = [
        draw("gaussian", 1.0 + 1.0 * place, [float(place)], np.array(outcome))
        for place, outcome in enumerate(outcomes)
    ]
    if said == "the same noise":
        draws[1] = replace(draws[1], outcome=1.0 + 2.0 * np.array(outcomes[0]))
    assert said in shared_noise(draws)
    assert bool(said) == bool(shared_noise(draws))
