"""Large matrices on another array library give what NumPy gives, up to rounding."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from discreet.kernels import matrices_on
from discreet.kernels.dense import HOST, place_for
from discreet.lab.environments.synthetic import exponential
from discreet.lab.experiments.serving import run_learner
from discreet.learners.epochs.sums import leverages, second_moment
from discreet.learners.local_kernel.features import CosineFeatures
from discreet.learners.local_kernel.posterior import KernelPosterior
from discreet.learners.local_kernel.prior import Smooth
from discreet.learners.registry import make_learner
from discreet.learners.sources import Information
from discreet.privacy import Local, SimulatedNoise
from discreet.validation import InvalidInput

NAMES = ["numpy", "array_api_strict", "torch"]


@pytest.fixture(params=NAMES)
def library(request: pytest.FixtureRequest) -> Any:
    pytest.importorskip("array_api_compat")
    return pytest.importorskip(request.param)


def information(arms: int, features: CosineFeatures) -> Information:
    rows = np.random.default_rng(1).standard_normal((300, arms * len(features)))
    return Information(rows.T @ rows, rows[0] * 20.0)


def test_a_posterior_is_the_same_there(library: Any) -> None:
    arms, smooth = 4, Smooth((0.4,), level=0.8, surface=0.8)
    features = CosineFeatures.of((None,), arms)
    prior, known = smooth.prior(features), information(arms, features)
    here = KernelPosterior.of(features, prior, known)
    with matrices_on(library, least=0):
        there = KernelPosterior.of(features, prior, known)
    assert type(there.root) is not np.ndarray or library is np
    assert isinstance(there.mean, np.ndarray)
    normals = np.random.default_rng(2).standard_normal((here.mean.size, 3))
    pairs = [
        (here.mean, there.mean),
        (here.evidence, there.evidence),
        (here.draws(normals), there.draws(normals)),
        (here.covariance_times(normals), there.covariance_times(normals)),
        (here.degrees_of_freedom, there.degrees_of_freedom),
    ]
    for wanted, given in pairs:
        np.testing.assert_allclose(given, wanted, rtol=1e-9, atol=1e-12)


def test_sums_over_pairs_are_the_same_there(library: Any) -> None:
    rng = np.random.default_rng(3)
    phi, turn, weights = rng.random((50, 6)), rng.random((6, 4)), rng.random(50)
    wanted = second_moment(phi, weights, turn), leverages(phi, phi.T @ phi)
    with matrices_on(library, least=0):
        given = second_moment(phi, weights, turn), leverages(phi, phi.T @ phi)
    for here, there in zip(wanted, given, strict=True):
        np.testing.assert_allclose(there, here, rtol=1e-9)


def test_a_learner_predicts_the_same_there(library: Any) -> None:
    problem = exponential(arms=3, dimension=1)
    people = problem.sample(60, np.random.default_rng(0))
    learner = make_learner("local_kernel", problem.domain, 3, Local(4.0))
    rng, noise = np.random.default_rng(1), SimulatedNoise(2)
    with matrices_on(library, least=0):
        run_learner(learner, people, rng, noise)
        there = learner.predict(people.contexts)
    assert len(learner._policies) > 3
    for given, wanted in zip(there, learner.predict(people.contexts), strict=True):
        np.testing.assert_allclose(given, wanted, rtol=1e-8)


def test_small_matrices_stay_and_the_block_ends(library: Any) -> None:
    with matrices_on(library, least=1000):
        assert place_for(999) is HOST
        assert place_for(1000) is not HOST
    assert place_for(1e18) is HOST


def test_what_is_no_array_library_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("array_api_compat")
    with pytest.raises(InvalidInput, match="namespace was 'math'"):
        matrices_on(__import__("math")).__enter__()
    with pytest.raises(InvalidInput, match="least was -1"):
        matrices_on(np, least=-1).__enter__()
    monkeypatch.setitem(sys.modules, "array_api_compat", None)
    with pytest.raises(InvalidInput, match="with the extra arrays"):
        matrices_on(np).__enter__()
