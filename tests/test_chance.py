"""What keeps a run of the tests from failing by accident: chance.py and conftest.py."""

from __future__ import annotations

import os
import secrets
from itertools import product

import numpy as np
import pytest
from scipy import stats

from discreet.privacy import SecureNoise, SimulatedNoise
from tests import conftest
from tests.chance import MOST, check_counts, check_law, check_value


def drawn() -> list[object]:
    """From every source of randomness that takes no seed."""
    legacy = np.random.normal()  # noqa: NPY002
    words = os.urandom(4), secrets.token_bytes(4), np.random.default_rng().random()
    return [*words, legacy, SimulatedNoise().keys(1).tolist(), SecureNoise().keys(2).tolist()]


def test_a_test_without_a_mark_draws_the_same_in_every_run(request: pytest.FixtureRequest) -> None:
    pytest.importorskip("opendp")
    first = drawn()
    assert drawn() != first
    with pytest.MonkeyPatch.context() as patch:
        conftest._fix(patch, request.node.nodeid)
        assert drawn() == first
        conftest._fix(patch, "another test")
        assert drawn() != first


@pytest.mark.parametrize("method", ["add_laplace", "add_gaussian"])
def test_it_cannot_draw_what_takes_no_seed(method: str) -> None:
    pytest.importorskip("opendp")
    with pytest.raises(pytest.fail.Exception, match=r"mark\.chance"):
        getattr(SecureNoise(), method)(np.zeros(2), 1.0)


@pytest.mark.chance(0)
def test_with_a_mark_randomness_is_real() -> None:
    assert "built-in" in repr(os.urandom)
    pytest.importorskip("opendp")
    assert SecureNoise().add_gaussian(np.zeros(2), 1.0).shape == (2,)


def test_a_run_that_may_fail_too_often_does_not_start() -> None:
    conftest.check_spent({"one": 0.45 * MOST, "two": 0.45 * MOST})
    with pytest.raises(pytest.UsageError, match="smaller chances"):
        conftest.check_spent({"one": 0.55 * MOST, "two": 0.55 * MOST})


@pytest.mark.parametrize("chance", [0.2, 0.01])
def test_counts_fail_as_rarely_as_they_say(chance: float) -> None:
    """All outcomes of 7 draws of 3 values, each with its probability."""
    law, wrong = stats.multinomial(7, [0.5, 0.3, 0.2]), 0.0
    for counts in product(range(8), repeat=3):
        if sum(counts) == 7:
            try:
                check_counts(counts, [0.5, 0.3, 0.2], chance)
            except AssertionError:
                wrong += law.pmf(counts)
    assert 0.0 < wrong <= chance


def test_laws_and_values_fail_as_rarely_as_they_say() -> None:
    rng, failures = np.random.default_rng(0), np.zeros(2)
    for sample in rng.normal(size=(400, 30)):
        for place, check in enumerate(
            (
                lambda s: check_law(s, stats.norm.cdf, 0.1),
                lambda s: check_value((s**2).sum(), stats.chi2(30), 0.1),
            )
        ):
            try:
                check(sample)
            except AssertionError:
                failures[place] += 1
    # 40 are allowed; Massart's bound leaves some of them, exact tails do not.
    assert 14 <= failures[0] <= 52
    assert 24 <= failures[1] <= 56


def test_wrong_laws_are_noticed() -> None:
    sample = np.random.default_rng(0).laplace(0.0, 0.7, 4000)
    with pytest.raises(AssertionError, match="distance"):
        check_law(sample, stats.laplace.cdf)
    with pytest.raises(AssertionError, match="tail"):
        check_value(np.abs(sample).sum(), stats.gamma(4000))
    with pytest.raises(AssertionError, match="came 300 times of 1000"):
        check_counts([300, 700], [0.5, 0.5])
