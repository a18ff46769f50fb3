"""A person whose contributions are in several rows of a stream, or several times in one."""

from __future__ import annotations

from itertools import combinations_with_replacement

import numpy as np
import pytest

from discreet.privacy import Adjacency, Joint, OnceEach, SimulatedNoise, derive_guarantee
from discreet.privacy.prefix_sums import PrefixMechanism, PrivateStream

from .matrices import EVERY, encoder_matrix, planned

DELTA = 1e-5


@pytest.mark.parametrize("mechanism", EVERY, ids=repr)
@pytest.mark.parametrize("visits", [2, 3])
def test_no_placement_of_contributions_moves_a_stream_further(
    mechanism: PrefixMechanism, visits: int
) -> None:
    """C applied to how many contributions fall into each row: the largest norm is that of one
    row."""
    encoder, _ = encoder_matrix(mechanism, planned(mechanism, 12))
    rows = encoder.shape[1]
    norms = {
        placed: np.linalg.norm(sum(encoder[:, row] for row in placed))
        for placed in combinations_with_replacement(range(rows), visits)
    }
    worst = max(norms, key=lambda placed: norms[placed])
    assert len(set(worst)) == 1
    assert norms[worst] <= visits * mechanism.column_norm * (1.0 + 1e-9)
    full, _ = encoder_matrix(mechanism, planned(mechanism))
    most = np.linalg.norm(full, axis=0).max()
    assert visits * most <= visits * mechanism.column_norm * (1.0 + 1e-9)


def test_a_stream_is_noisy_enough_for_contributions_that_look_at_its_releases() -> None:
    """Later contributions may depend on earlier releases: whatever they do, mu^2 of all outputs
    stays below that of the certificate, on every path."""
    visits, budget = 3, Joint(2.0, DELTA, max_contributions=3)
    for mechanism in EVERY[:4]:
        stream = PrivateStream(mechanism, 1, 2.0, budget.noise_multiplier, SimulatedNoise(3))
        encoder, _ = encoder_matrix(mechanism, planned(mechanism, 10))
        rng, worst = np.random.default_rng(5), 0.0
        for _ in range(300):
            moved = np.zeros(encoder.shape[1])
            for _ in range(visits):  # in any row, up or down, by at most the sensitivity
                moved[rng.integers(len(moved))] += 2.0 * rng.choice([-1.0, 1.0, rng.random()])
            worst = max(worst, float(np.linalg.norm(encoder @ moved)) / stream.scale)
        assert 0.5 / budget.noise_multiplier < worst <= visits / budget.noise_multiplier
    stream.release([0.0])
    record = stream.record("a row", OnceEach("g", visits))
    assert record is not None
    assert derive_guarantee([record], "joint", Adjacency("number"), DELTA).epsilon <= budget.epsilon
