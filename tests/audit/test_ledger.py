"""What is recorded is played back, strays are noticed, and losses are those of closed forms."""

from __future__ import annotations

import math
import os
import secrets
from dataclasses import replace

import numpy as np
import pytest

from discreet.audit.ledger import (
    Draw,
    GaussianDraw,
    LaplaceDraw,
    Ledger,
    Loss,
    SelectionDraw,
    SubsetDraw,
    VectorDraw,
    gaussian_epsilon,
    loss_between,
    shared_noise,
)
from discreet.privacy import SimulatedNoise
from discreet.privacy.calibration import gaussian_noise_multiplier
from discreet.privacy.frequency import SignedSubsetSelection
from discreet.privacy.noise import SecureNoise
from discreet.privacy.selection import ExponentialMechanism
from discreet.privacy.vectors import PrivUnit

SUBSET, SPHERE = SignedSubsetSelection(6, 2, 1.0), PrivUnit(3, 1.0)


def everything(value: float) -> list[object]:
    """One draw of each kind."""
    noise, vector = SimulatedNoise(5), np.array([[value, 0.3, 0.0]])
    own, sign = np.array([int(4 * value)]), np.array([1], dtype=np.int8)
    scores = np.array([[value, 0.0]])
    return [
        noise.add_gaussian(np.full(3, value), 2.0).tolist(),
        noise.add_laplace(np.full(2, value), 1.0).tolist(),
        [one.tolist() for one in SUBSET.privatise(own, sign, noise)],
        SPHERE.privatise(vector, noise).tolist(),
        ExponentialMechanism(1.0).select(scores, 1.0, noise).tolist(),
        noise.below(9, 4).tolist(),
        noise.keys(2).tolist(),
        os.urandom(4),
        secrets.token_hex(4),
    ]


def recorded(value: float) -> tuple[Ledger, list[object]]:
    ledger = Ledger()
    with ledger.recording():
        shown = everything(value)
    return ledger, shown


def test_the_neighbour_sees_the_same_outcomes() -> None:
    ledger, shown = recorded(0.1)
    other = Ledger()
    with other.playing(ledger):
        assert everything(0.9) == shown
    assert other.astray == ""
    assert [draw.kind for draw in ledger.draws] == [
        "gaussian",
        "laplace",
        "subset",
        "vector",
        "selection",
    ]
    assert [draw.value.ravel()[0] for draw in other.draws] == pytest.approx([0.9, 0.9, 3, 0.9, 0.9])


def test_nothing_is_changed_outside() -> None:
    before = [SimulatedNoise.add_gaussian, SubsetType.privatise, os.urandom]
    recorded(0.1)
    assert [SimulatedNoise.add_gaussian, SubsetType.privatise, os.urandom] == before
    assert everything(0.1)[:2] == recorded(0.1)[1][:2]


SubsetType = SignedSubsetSelection


def test_coins_have_the_same_uniform_numbers_on_both() -> None:
    ledger, other = Ledger(), Ledger()
    with ledger.recording():
        low = SimulatedNoise(1).coins(0.3, 1000)
    with other.playing(ledger):
        high = SimulatedNoise(1).coins(0.4, 1000)
    assert not (low & ~high).any()
    assert 0.05 < (high & ~low).mean() < 0.15


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (lambda: SimulatedNoise(1).add_gaussian(np.zeros(3), 1.0), "gaussian ((3,),) in place of"),
        (lambda: SimulatedNoise(1).add_laplace(np.zeros(2), 1.0), "laplace"),
        (lambda: SimulatedNoise(2), "a seed ('2',)"),
        (lambda: None, "it drew less"),
        (
            lambda: [SimulatedNoise(1).add_gaussian(np.zeros(2), 1.0), SimulatedNoise(1)],
            "a seed besides",
        ),
    ],
)
def test_a_run_that_asks_for_something_else_strays(other, said) -> None:  # type: ignore[no-untyped-def]
    ledger, stray = Ledger(), Ledger()
    with ledger.recording():
        SimulatedNoise(1).add_gaussian(np.zeros(2), 1.0)
    with stray.playing(ledger):
        other()
    assert said in stray.astray


@pytest.mark.chance(0)
def test_secure_noise_is_recorded_too() -> None:
    pytest.importorskip("opendp")
    ledger, other = Ledger(), Ledger()
    with ledger.recording():
        shown = SecureNoise().add_gaussian(np.zeros(2), 1.0)
    with other.playing(ledger):
        assert SecureNoise().add_gaussian(np.ones(2), 1.0).tolist() == shown.tolist()


# Losses.

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
