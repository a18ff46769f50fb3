"""The ledger: what is recorded is played back, whatever the source, and strays are noticed."""

from __future__ import annotations

import os
import secrets

import numpy as np
import pytest

from discreet.audit.ledger import Ledger
from discreet.privacy import SimulatedNoise
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
