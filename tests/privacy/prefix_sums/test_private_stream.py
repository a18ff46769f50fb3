"""Streams: each row released once, at the privacy asked for, and saved without a redraw."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats
from tests.chance import RARE, check_value

from discreet.privacy import Adjacency, NoiseSource, OnceEach, SimulatedNoise, Unprotected
from discreet.privacy.accounting import GaussianEvent, Rounds, gaussian_epsilon
from discreet.privacy.guarantee import derive_guarantee
from discreet.privacy.noise import SecureNoise
from discreet.privacy.prefix_sums import (
    BinaryTree,
    BufferedToeplitz,
    GeometricEpochs,
    PrefixMechanism,
    PrivateStream,
)
from discreet.validation import FloatArray, InvalidInput

from .matrices import EVERY, planned

every = pytest.mark.parametrize("mechanism", EVERY, ids=str)


def stream_of(
    mechanism: PrefixMechanism, noise: NoiseSource | int = 0, size: int = 3
) -> PrivateStream:
    source = SimulatedNoise(noise) if isinstance(noise, int) else noise
    return PrivateStream(mechanism, size, sensitivity=2.0, noise_multiplier=1.5, noise=source)


@every
def test_scale_is_that_of_the_formula(mechanism: PrefixMechanism) -> None:
    stream = stream_of(mechanism)
    assert stream.scale == pytest.approx(3.0 * mechanism.column_norm, rel=3e-9)
    assert 1.5 <= stream.achieved_multiplier <= 1.5 * (1 + 2e-9)


@every
def test_noise_of_estimates_has_the_variance_they_report(mechanism: PrefixMechanism) -> None:
    """Zero rows, 4,000 coordinates: five standard errors of a variance are 11%."""
    stream = stream_of(mechanism, noise=11, size=4000)
    for people in planned(mechanism, 23):
        estimate = stream.release(np.zeros(4000), people)
        measured = float(np.mean(estimate.values**2)) / stream.scale**2
        assert measured == pytest.approx(estimate.variance, rel=0.12)


@every
def test_estimates_follow_the_weighted_sum(mechanism: PrefixMechanism) -> None:
    rng = np.random.default_rng(8)
    stream = PrivateStream(mechanism, 2, 1e-9, 1.0, SimulatedNoise(1))
    rows: list[FloatArray] = []
    for people in planned(mechanism, 30):
        rows.append(rng.normal(size=2) * people)
        estimate = stream.release(rows[-1], people)
        np.testing.assert_allclose(estimate.values, estimate.weights @ np.array(rows), atol=1e-4)
    assert stream.estimate is estimate


@every
def test_saved_stream_goes_on_identically(mechanism: PrefixMechanism) -> None:
    noise, rng = SimulatedNoise(4), np.random.default_rng(4)
    stream = stream_of(mechanism, noise)
    counts = planned(mechanism, 18)
    half = len(counts) // 2
    for people in counts[:half]:
        stream.release(rng.normal(size=3), people)
    text = json.dumps(stream.to_fields(), allow_nan=False)
    drawn_before = noise._rng.bit_generator.state
    restored = stream_of(mechanism, noise)
    restored.restore(json.loads(text))
    assert noise._rng.bit_generator.state == drawn_before, "restoring may draw nothing"
    assert json.dumps(restored.to_fields()) == text
    assert restored.estimate is not None
    assert stream.estimate is not None
    np.testing.assert_array_equal(restored.estimate.values, stream.estimate.values)
    for people in counts[half:]:
        row, state = rng.normal(size=3), noise._rng.bit_generator.state
        expected = stream.release(row, people)
        noise._rng.bit_generator.state = state
        estimate = restored.release(row, people)
        np.testing.assert_array_equal(estimate.values, expected.values)
        np.testing.assert_array_equal(estimate.weights, expected.weights)
        assert estimate.variance == expected.variance


def test_public_part_holds_nothing_of_the_rows_before_noise() -> None:
    """Two streams with other rows but equal released vectors have equal public parts."""

    class Replay(SimulatedNoise):
        def add_gaussian(self, values: FloatArray, scale: float) -> FloatArray:
            return np.ones_like(values)

    streams = [stream_of(BufferedToeplitz(9), Replay(0)) for _ in range(2)]
    streams[0].release(np.zeros(3))
    streams[1].release(np.full(3, 7.0))
    first, second = (stream.to_fields() for stream in streams)
    assert first["public"] == second["public"]
    assert first["secret"] != second["secret"]


@every
def test_refused_input_changes_nothing(mechanism: PrefixMechanism) -> None:
    stream = stream_of(mechanism)
    stream.release(np.ones(3), planned(mechanism, 1)[0])
    before = json.dumps(stream.to_fields())
    refused: list[tuple[object, object]] = [
        (np.ones(2), 10**3),
        (np.ones((1, 3)), 10**3),
        ([1.0, math.nan, 0.0], 10**3),
        ([1.0, math.inf, 0.0], 10**3),
        (["a", "b", "c"], 10**3),
        (np.ones(3), 0),
        (np.ones(3), -1),
        (np.ones(3), 1.5),
        (np.ones(3), 2**60),
    ]
    for row, people in refused:
        with pytest.raises(InvalidInput):
            stream.release(row, people)  # type: ignore[arg-type]
    assert json.dumps(stream.to_fields()) == before


def test_every_row_draws_noise_once() -> None:
    class Counting(SimulatedNoise):
        drawn = 0

        def add_gaussian(self, values: FloatArray, scale: float) -> FloatArray:
            self.drawn += 1
            return super().add_gaussian(values, scale)

    noise = Counting(0)
    stream = stream_of(BinaryTree(9), noise)
    for row in range(1, 10):
        stream.release(np.ones(3))
        assert noise.drawn == row


def test_failing_noise_changes_nothing() -> None:
    class Broken(SimulatedNoise):
        broken = False

        def add_gaussian(self, values: FloatArray, scale: float) -> FloatArray:
            if self.broken:
                raise OSError("no entropy")
            return super().add_gaussian(values, scale)

    noise = Broken(0)
    for mechanism in (BinaryTree(9), BufferedToeplitz(9)):
        noise.broken = False
        stream = stream_of(mechanism, noise)
        stream.release(np.ones(3))
        before, noise.broken = stream.to_fields(), True
        with pytest.raises(OSError, match="no entropy"):
            stream.release(np.ones(3))
        assert stream.to_fields() == before


def test_record_is_what_a_guarantee_needs() -> None:
    stream = stream_of(BufferedToeplitz(100))
    assert stream.record("reward", Rounds(0, 100)) is None
    stream.release(np.ones(3))
    record = stream.record("reward", OnceEach("rewards"), source="rewards in [0, 1]")
    assert record is not None
    assert isinstance(record.event, GaussianEvent)
    assert record.scale / record.sensitivity == pytest.approx(record.event.noise_multiplier)
    assert "rewards in [0, 1]" in record.sensitivity_source
    guarantee = derive_guarantee([record], "joint", Adjacency("reward"), 1e-5)
    assert guarantee.epsilon <= gaussian_epsilon(1.5, 1e-5)
    assert guarantee.epsilon == pytest.approx(gaussian_epsilon(1.5, 1e-5), rel=1e-8)


@pytest.mark.chance(0)
@pytest.mark.parametrize(
    "mechanism", [BinaryTree(64), BufferedToeplitz(10**6), GeometricEpochs()], ids=str
)
@pytest.mark.parametrize("sensitivity", [1e-4, 1.0, 300.0])
@pytest.mark.parametrize("multiplier", [0.3, 2.0, 500.0])
def test_secure_noise_holds_what_was_asked(
    mechanism: PrefixMechanism, sensitivity: float, multiplier: float
) -> None:
    """By the sampler's own account of each release, with the sensitivities it is applied to."""
    pytest.importorskip("opendp")
    noise = SecureNoise()
    stream = PrivateStream(mechanism, 50, sensitivity, multiplier, noise)
    assert stream.achieved_multiplier >= multiplier
    stream.release(np.ones(50), people=1)
    record = stream.record("reward", Rounds(0, 64))
    assert record is not None
    promised = derive_guarantee([record], "joint", Adjacency("reward"), 1e-5)
    assert promised.epsilon <= gaussian_epsilon(multiplier, 1e-5)
    # The worst row may be spread evenly over its releases or be in one; both must be covered.
    moved = sensitivity * mechanism.column_norm
    for releases in (1, mechanism.entries):
        each = noise.gaussian_multiplier(moved / math.sqrt(releases), stream.scale, 50)
        assert math.sqrt(releases) / each <= 1.0 / multiplier * (1 + 1e-12)


def test_secure_sampler_rounds_as_the_scale_assumes() -> None:
    """1 / multiplier = (sensitivity + r) / scale, r independent of it and in sqrt(size)."""
    pytest.importorskip("opendp")
    noise = SecureNoise()
    for scale in (0.02, 1.0, 700.0):
        unit = scale / noise.gaussian_multiplier(1e-6, scale, 1) - 1e-6
        assert 0.0 < unit <= 2.0**-30
        for size in (1, 30, 1000):
            for sensitivity in (1e-5, 0.1, 5.0):
                moved = scale / noise.gaussian_multiplier(sensitivity, scale, size)
                r = unit * math.sqrt(size)
                assert moved - sensitivity == pytest.approx(r, abs=1e-15 * sensitivity, rel=1e-2)


@pytest.mark.chance(RARE)
def test_secure_stream_runs_and_is_saved() -> None:
    pytest.importorskip("opendp")
    noise, mechanism = SecureNoise(), BinaryTree(8)
    stream = stream_of(mechanism, noise, size=500)
    for _ in range(4):
        estimate = stream.release(np.zeros(500))
    check_value(
        float((estimate.values**2).sum()) / stream.scale**2 / estimate.variance, stats.chi2(500)
    )
    restored = stream_of(mechanism, noise, size=500)
    restored.restore(stream.to_fields())
    assert restored.scale == stream.scale
    assert restored.estimate is not None
    np.testing.assert_array_equal(restored.estimate.values, estimate.values)
    assert restored.release(np.zeros(500)).weights.shape == (5,)


def test_damaged_or_foreign_saves_are_refused() -> None:
    mechanism = BinaryTree(8)
    stream = stream_of(mechanism)
    for _ in range(3):
        stream.release(np.ones(3))
    good = json.dumps(stream.to_fields())
    changes: list[Callable[[Any], object]] = [
        lambda f: f.pop("began"),
        lambda f: f["began"].update(scale=stream.scale / 2),
        lambda f: f["began"].update(scale=stream.scale * 2),
        lambda f: f["began"].update(size=4),
        lambda f: f["began"].update(noise="another"),
        lambda f: f["began"].update(mechanism=repr(BinaryTree(9))),
        lambda f: f["secret"]["vectors"][0].__setitem__(0, "nan"),
    ]
    for change in changes:
        fields = json.loads(good)
        change(fields)
        with pytest.raises(InvalidInput):
            stream_of(mechanism).restore(fields)


def test_sources_without_noise_and_bad_numbers_are_refused() -> None:
    with pytest.raises(InvalidInput, match="Unprotected"):
        stream_of(BinaryTree(3), Unprotected())
    for size, sensitivity, multiplier in ((0, 1, 1), (1, 0, 1), (1, 1, 0), (1, math.inf, 1)):
        with pytest.raises(InvalidInput):
            PrivateStream(BinaryTree(3), size, sensitivity, multiplier, SimulatedNoise(0))


@pytest.mark.parametrize("mechanism", EVERY, ids=str)
def test_what_is_printed_of_a_stream_holds_no_sums(mechanism: PrefixMechanism) -> None:
    """A stray print or a log of an error must not show data before noise."""
    held = mechanism.start()[0]
    for people in planned(mechanism)[:3]:
        held, _ = mechanism.encode(held, np.array([12345.0, 67890.0]), people)
    assert "12345" not in repr(held)
    assert "67890" not in str(held)
