"""Broken designs: each is caught at the default trials, and is as broken as it says."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from discreet.audit import specimens
from discreet.audit.exact import Claim
from discreet.audit.runner import audit
from discreet.audit.specimens import classical_sigma, column_space, specimen_checks
from discreet.papers.dubey2021.calibration import PublishedLocal
from discreet.papers.kharkovskii2020.transformation import RandomProjection
from discreet.privacy import Local, NoiseSource, SimulatedNoise
from discreet.privacy.accounting import gaussian_epsilon
from discreet.privacy.calibration import gaussian_noise_multiplier
from discreet.records import Finding
from discreet.validation import FloatArray

from .broken import finding

NAMES = [
    *("own_bin", "column_space", "lemma_5, gram", "lemma_5, report", "classical_gaussian"),
    *("restart", "scale_of_data", "silent_bin", "reused_seed"),
]


def found(trials: int) -> dict[str, Finding]:
    given = audit(specimen_checks(), trials)
    return {each.name: each for each in given if isinstance(each, Finding)}


@pytest.fixture(scope="module")
def findings() -> dict[str, Finding]:
    return found(100_000)


@pytest.mark.parametrize("trials", [0, 1, 50])
def test_exact_replay_catches_them_at_any_number_of_trials(trials: int) -> None:
    verdicts = {name: each.verdict for name, each in found(trials).items()}
    assert verdicts == dict.fromkeys(NAMES, "caught")


@pytest.mark.parametrize("name", NAMES)
def test_it_is_caught(findings: dict[str, Finding], name: str) -> None:
    caught = findings[name]
    assert (caught.kind, caught.verdict) == ("specimen", "caught")
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
def test_exact_replay_measures_what_trials_stay_under(
    findings: dict[str, Finding], name: str, truth: float
) -> None:
    assert findings[name].exact == pytest.approx(truth, abs=1e-4)
    assert 0.85 * truth < findings[name].lower_bound < truth


def test_lemma_5_is_that_of_the_reproduction() -> None:
    published = PublishedLocal(1000, delta=specimens.DELTA)
    budget = Local(specimens.ALPHA, specimens.DELTA)
    assert published.sigma_gram(budget) == pytest.approx(specimens.SIGMA_GRAM)
    assert published.sigma_rewards(budget) == pytest.approx(specimens.SIGMA_REWARDS)
    # What the docstring says: 7.7 is the first part at alpha = 10, and alpha = 5 is kept.
    gram = published.sigma_gram(budget) / math.sqrt(2.0)
    assert gaussian_epsilon(gram, 0.5 * specimens.DELTA) == pytest.approx(7.70, abs=0.01)

    def held(epsilon: float) -> float:
        multiplier = published.noise_multiplier(Local(epsilon, specimens.DELTA), 4)
        return gaussian_epsilon(multiplier, specimens.DELTA)

    assert held(specimens.ALPHA) == pytest.approx(11.92, abs=0.01)
    assert held(5.0) < 5.0


def test_the_two_people_of_lemma_5_are_the_worst_that_there_are() -> None:
    one, two = (features for _, features in specimens.lemma_5.neighbours[0])
    assert np.linalg.norm(one) == pytest.approx(1.0)
    assert one @ two == pytest.approx(specimens.COSINE)
    upper = np.triu_indices(2)
    gram = np.linalg.norm(np.outer(one, one)[upper] - np.outer(two, two)[upper])
    rewards = np.linalg.norm(one - two)
    mu = math.hypot(gram / specimens.SIGMA_GRAM, rewards / specimens.SIGMA_REWARDS)
    assert gaussian_epsilon(1.0 / mu, specimens.DELTA) == pytest.approx(11.92, abs=0.01)


def test_column_space_is_the_published_transformation() -> None:
    (_, rows), (_, moved) = column_space.neighbours[0]
    assert np.linalg.norm(moved - rows) == pytest.approx(1.0)
    claim = specimens.COLUMN_SPACE_CLAIM
    published = RandomProjection(claim.epsilon, claim.delta, 4, "else")
    drawn = column_space.release(rows, 20_000, SimulatedNoise(1))
    # Columns of Z are N(0, A A' / r) with A the lifted table.
    lifted = published.prepared(rows)
    covariance = np.einsum("tnr,tmr->nm", drawn, drawn) / (20_000 * 4)
    expected = lifted @ lifted.T / 4
    assert np.abs(covariance - expected).max() < 0.05 * np.abs(expected).max()


def test_classical_noise_is_right_only_where_it_was_proved() -> None:
    assert gaussian_epsilon(classical_sigma(10.0, 0.1), 0.1) == pytest.approx(14.73, abs=0.01)
    for epsilon in (0.1, 0.5, 0.9):
        assert classical_sigma(epsilon, 1e-5) > gaussian_noise_multiplier(epsilon, 1e-5)


def test_other_specimens_do_what_they_say() -> None:
    own = specimens.own_bin.release(2, 1, SimulatedNoise(1))
    assert np.flatnonzero(own[0]).tolist() == [2, 6]
    one, two = specimens.reused_seed.release(0.25, 50, SimulatedNoise(4))
    assert one - two == pytest.approx(np.full(50, 0.25))
    sent = specimens.silent_bin.release(np.array([0, 0, 2]), 5, SimulatedNoise(1))
    assert np.isnan(sent).tolist() == [[False, True, False, True]] * 5
    near = specimens.scale_of_data.release(np.ones(10), 4000, SimulatedNoise(1))
    far = specimens.scale_of_data.release(np.append(np.ones(9), 100.0), 4000, SimulatedNoise(1))
    assert far.std() == pytest.approx(100.0 * near.std(), rel=0.1)


def test_repaired_specimens_are_not_caught() -> None:
    """The same code, with the noise that the claim needs."""
    claim = Claim(10.0, 0.1)
    needed = gaussian_noise_multiplier(claim.epsilon, claim.delta)

    def release(value: float, trials: int, noise: NoiseSource) -> FloatArray:
        return noise.add_gaussian(np.full((trials, 1), value), needed)

    repaired = replace(specimens.classical_gaussian, release=release)
    missed = finding(repaired.check, 2000)
    assert missed.verdict == "NOT CAUGHT"
    assert missed.exact == pytest.approx(claim.epsilon, abs=1e-8)
