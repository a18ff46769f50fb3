"""Broken designs: each is caught at the default trials, and is as broken as it says."""

from __future__ import annotations

import math

import numpy as np
import pytest

from discreet.audit.exact import Facts, Promise
from discreet.audit.games import Check, Claim
from discreet.audit.runner import Finding, audit
from discreet.audit.specimens import (
    classical_gaussian,
    column_space,
    lemma_5,
    own_bin,
    reused_seed,
    scale_of_data,
    silent_bin,
)
from discreet.audit.specimens.registry import specimen_checks
from discreet.audit.values import exact_of
from discreet.privacy import Local, SimulatedNoise
from discreet.privacy.accounting import gaussian_epsilon
from discreet.privacy.calibration import gaussian_noise_multiplier
from discreet.reproduction.dubey2021.calibration import PublishedLocal
from discreet.reproduction.kharkovskii2020.transformation import RandomProjection

TRIALS = 100_000


@pytest.fixture(scope="module")
def findings() -> dict[str, Finding]:
    found = audit(specimen_checks(), TRIALS)
    return {one.name: one for one in found if isinstance(one, Finding)}


def test_every_known_broken_design_is_a_specimen() -> None:
    assert {check.name for check in specimen_checks()} == {
        "own_bin",
        "column_space",
        "lemma_5, gram",
        "lemma_5, report",
        "classical_gaussian",
        "restart",
        "scale_of_data",
        "silent_bin",
        "reused_seed",
    }


@pytest.mark.parametrize("name", [check.name for check in specimen_checks()])
def test_it_is_caught(findings: dict[str, Finding], name: str) -> None:
    found = findings[name]
    assert found.kind == "specimen"
    assert found.claim is not None
    assert found.fault or found.exact > found.claim.epsilon
    assert found.verdict == "caught"


@pytest.mark.parametrize("trials", [0, 1, 50])
def test_exact_replay_catches_them_at_any_number_of_trials(trials: int) -> None:
    found = [one for one in audit(specimen_checks(), trials) if isinstance(one, Finding)]
    assert {one.verdict for one in found} == {"caught"}
    assert len(found) == len(specimen_checks())


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
    assert 0.85 * truth < findings[name].epsilon < truth


def test_lemma_5_is_that_of_the_reproduction() -> None:
    published = PublishedLocal(1000, delta=lemma_5.DELTA)
    budget = Local(lemma_5.ALPHA, lemma_5.DELTA)
    assert published.sigma_gram(budget) == pytest.approx(lemma_5.SIGMA_GRAM)
    assert published.sigma_rewards(budget) == pytest.approx(lemma_5.SIGMA_REWARDS)
    # What the docstring says: 7.7 is the first part at alpha = 10, and alpha = 5 is kept.
    assert published.gram_epsilon(budget) == pytest.approx(7.70, abs=0.01)
    assert published.guarantee(budget, 4).epsilon == pytest.approx(11.92, abs=0.01)
    assert published.guarantee(Local(5.0, 0.1), 4).epsilon < 5.0


def test_the_two_people_of_lemma_5_are_the_worst_that_there_are() -> None:
    one, two = (lemma_5.features(first, lemma_5.COSINE) for first in (True, False))
    assert np.linalg.norm(one) == pytest.approx(1.0)
    assert one @ two == pytest.approx(lemma_5.COSINE)
    upper = np.triu_indices(2)
    gram = np.linalg.norm(np.outer(one, one)[upper] - np.outer(two, two)[upper])
    mu = math.hypot(gram / lemma_5.SIGMA_GRAM, np.linalg.norm(one - two) / lemma_5.SIGMA_REWARDS)
    assert gaussian_epsilon(1.0 / mu, lemma_5.DELTA) == pytest.approx(11.92, abs=0.01)


def test_column_space_is_the_published_transformation() -> None:
    rows, moved = column_space._tables()
    assert np.linalg.norm(moved - rows) == pytest.approx(1.0)
    published = RandomProjection(column_space.EPSILON, column_space.DELTA, 4, "else")
    drawn = column_space.release(rows, 20_000, SimulatedNoise(1))
    # Columns of Z are N(0, A A' / r) with A the lifted table.
    lifted = published.prepared(rows)
    covariance = np.einsum("tnr,tmr->nm", drawn, drawn) / (20_000 * 4)
    expected = lifted @ lifted.T / 4
    assert np.abs(covariance - expected).max() < 0.05 * np.abs(expected).max()


def test_classical_noise_is_right_only_where_it_was_proved() -> None:
    held = gaussian_epsilon(classical_gaussian.SIGMA, classical_gaussian.DELTA)
    assert held == pytest.approx(14.73, abs=0.01)
    for epsilon in (0.1, 0.5, 0.9):
        sigma = math.sqrt(2.0 * math.log(1.25 / 1e-5)) / epsilon
        assert sigma > gaussian_noise_multiplier(epsilon, 1e-5)


def test_own_bin_leaves_all_other_bins_at_zero() -> None:
    values = own_bin.privatise(np.array([2, 0]), np.array([1.0, 0.5]), SimulatedNoise(1))
    assert (values != 0.0).tolist() == [
        [False, False, True, False] * 2,
        [True, False, False, False] * 2,
    ]


def test_other_specimens_do_what_they_say() -> None:
    one, two = reused_seed.releases((np.ones(3), np.zeros(3)), 50, 4)
    assert one - two == pytest.approx(np.full(50, 3.0))
    sent = silent_bin.release(np.array([0, 0, 2]), 5, SimulatedNoise(1))
    assert np.isnan(sent).tolist() == [[False, True, False, True]] * 5
    near = scale_of_data.release(np.ones(10), 4000, SimulatedNoise(1))
    far = scale_of_data.release(np.append(np.ones(9), 100.0), 4000, SimulatedNoise(1))
    assert far.std() == pytest.approx(100.0 * near.std(), rel=0.1)


def test_repaired_specimens_are_not_caught() -> None:
    """The same code, with the noise that the claim needs."""
    claim = Claim(classical_gaussian.EPSILON, classical_gaussian.DELTA)
    needed = gaussian_noise_multiplier(claim.epsilon, claim.delta)

    def run(value: float, facts: Facts) -> Promise:
        noisy = SimulatedNoise(1).add_gaussian(np.array([value]), needed)
        facts.add("the release", noisy.tobytes())
        return Promise(claim, claim)

    check = Check("repaired", "specimen", "joint", lambda: exact_of(run, [("0", 0.0), ("1", 1.0)]))
    (found,) = [one for one in audit([check], 0) if isinstance(one, Finding)]
    assert found.verdict == "NOT CAUGHT"
    assert found.exact == pytest.approx(claim.epsilon, abs=1e-8)
