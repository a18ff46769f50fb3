"""Known-broken designs: each is caught, and is as broken as its docstring says."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from discreet.audit import known_broken
from discreet.audit.known_broken import classical_sigma, column_space, known_broken_checks
from discreet.audit.replay import Claim
from discreet.audit.runner import audit
from discreet.papers.dubey2021.calibration import PublishedLocal
from discreet.papers.kharkovskii2020.published import RandomProjection
from discreet.privacy import Local, NoiseSource, SimulatedNoise
from discreet.privacy.accounting import gaussian_epsilon
from discreet.privacy.calibration import gaussian_noise_multiplier
from discreet.records import Finding
from discreet.validation import FloatArray

from .broken import finding

NAMES = [
    *("own_bin", "column_space", "lemma_5, gram", "lemma_5, report", "classical_gaussian"),
    *("restart", "scale_of_data", "silent_bin", "reused_seed"),
    *(f"shuffler, {flaw}" for flaw in ("order", "one policy", "group", "twice", "epsilon")),
]


@pytest.fixture(scope="module")
def findings() -> dict[str, Finding]:
    given = audit(known_broken_checks(), 0)
    return {each.name: each for each in given if isinstance(each, Finding)}


def test_all_are_caught(findings: dict[str, Finding]) -> None:
    assert list(findings) == NAMES
    for caught in findings.values():
        assert (caught.kind, caught.verdict) == ("known-broken", "caught")
        assert caught.fault or caught.exact > caught.epsilon


@pytest.mark.parametrize(
    ("name", "truth"),
    [
        ("lemma_5, gram", 7.6922),
        ("lemma_5, report", 11.9204),
        ("classical_gaussian", 14.7293),
        ("restart", 1.4652),
    ],
)
def test_exact_replay_measures_the_epsilon_that_is_kept(
    findings: dict[str, Finding], name: str, truth: float
) -> None:
    assert findings[name].exact == pytest.approx(truth, abs=1e-4)


def test_lemma_5_is_that_of_the_reproduction() -> None:
    published = PublishedLocal(1000, delta=known_broken.DELTA)
    budget = Local(known_broken.ALPHA, known_broken.DELTA)
    assert published.sigma_gram(budget) == pytest.approx(known_broken.SIGMA_GRAM)
    assert published.sigma_rewards(budget) == pytest.approx(known_broken.SIGMA_REWARDS)
    # What the docstring says: 7.7 is the first part at alpha = 10, and alpha = 5 is kept.
    gram = published.sigma_gram(budget) / math.sqrt(2.0)
    assert gaussian_epsilon(gram, 0.5 * known_broken.DELTA) == pytest.approx(7.70, abs=0.01)

    def held(epsilon: float) -> float:
        multiplier = published.noise_multiplier(Local(epsilon, known_broken.DELTA), 4)
        return gaussian_epsilon(multiplier, known_broken.DELTA)

    assert held(known_broken.ALPHA) == pytest.approx(11.92, abs=0.01)
    assert held(5.0) < 5.0


def test_the_two_people_of_lemma_5_are_the_worst_that_there_are() -> None:
    one, two = (features for _, features in known_broken.lemma_5.neighbours[0])
    assert np.linalg.norm(one) == pytest.approx(1.0)
    assert one @ two == pytest.approx(known_broken.COSINE)
    upper = np.triu_indices(2)
    gram = np.linalg.norm(np.outer(one, one)[upper] - np.outer(two, two)[upper])
    rewards = np.linalg.norm(one - two)
    mu = math.hypot(gram / known_broken.SIGMA_GRAM, rewards / known_broken.SIGMA_REWARDS)
    assert gaussian_epsilon(1.0 / mu, known_broken.DELTA) == pytest.approx(11.92, abs=0.01)


def test_column_space_is_the_published_transformation() -> None:
    (_, rows), (_, moved) = column_space.neighbours[0]
    assert np.linalg.norm(moved - rows) == pytest.approx(1.0)
    claim = known_broken.COLUMN_SPACE_CLAIM
    published = RandomProjection(claim.epsilon, claim.delta, 4, "else")
    projection = SimulatedNoise(1).add_gaussian(np.zeros((2, 4)), 1.0)
    expected = published.prepared(rows) @ projection / 2.0
    assert column_space.release(rows, SimulatedNoise(1)) == pytest.approx(expected)


def test_classical_noise_is_right_only_where_it_was_proved() -> None:
    assert gaussian_epsilon(classical_sigma(10.0, 0.1), 0.1) == pytest.approx(14.73, abs=0.01)
    for epsilon in (0.1, 0.5, 0.9):
        assert classical_sigma(epsilon, 1e-5) > gaussian_noise_multiplier(epsilon, 1e-5)


def test_other_designs_do_what_they_say() -> None:
    own = known_broken.own_bin.release(2, SimulatedNoise(1))
    assert np.flatnonzero(own).tolist() == [2, 6]
    one, two = known_broken.reused_seed.release(0.25, SimulatedNoise(4))
    assert one - two == pytest.approx([0.25])
    sent = known_broken.silent_bin.release(np.array([0, 0, 2]), SimulatedNoise(1))
    assert np.isnan(sent).tolist() == [False, True, False, True]
    near = known_broken.scale_of_data.release(np.ones(10), SimulatedNoise(1))
    far = known_broken.scale_of_data.release(np.append(np.ones(9), 100.0), SimulatedNoise(1))
    assert far - 109.0 == pytest.approx(100.0 * (near - 10.0))


def test_repaired_designs_are_not_caught() -> None:
    """The same code, with the noise that the claim needs."""
    claim = Claim(10.0, 0.1)
    needed = gaussian_noise_multiplier(claim.epsilon, claim.delta)

    def release(value: float, noise: NoiseSource) -> FloatArray:
        return noise.add_gaussian(np.array([value]), needed)

    repaired = replace(known_broken.classical_gaussian, release=release)
    missed = finding(repaired.check)
    assert missed.verdict == "NOT CAUGHT"
    assert missed.exact == pytest.approx(claim.epsilon, abs=1e-8)
