"""Encoders and decoders as matrices: what they compute, what it costs, how noisy it is."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from discreet.privacy.accounting import GaussianEvent, composed_epsilon, gaussian_epsilon
from discreet.privacy.prefix_sums import (
    BinaryTree,
    BufferedToeplitz,
    DiscountedEpochs,
    GeometricEpochs,
    Independent,
    LinearStream,
    PrefixMechanism,
    SeparateEpochs,
)
from discreet.privacy.prefix_sums.strategies import Filter, fitted_filter, log_spans
from discreet.validation import FloatArray, InvalidInput

from .matrices import (
    EPOCHS,
    EVERY,
    FADING,
    PREFIX_SUMS,
    decoder_matrix,
    encoder_matrix,
    planned,
    scaled_variances,
)

every = pytest.mark.parametrize("mechanism", EVERY, ids=str)
prefix_sums = pytest.mark.parametrize("mechanism", PREFIX_SUMS, ids=str)
with_horizon = pytest.mark.parametrize("kind", [BinaryTree, BufferedToeplitz])


@every
def test_decoder_times_encoder_gives_the_weights(mechanism: PrefixMechanism) -> None:
    counts = planned(mechanism)
    c, parts = encoder_matrix(mechanism, counts)
    b, _, weights = decoder_matrix(mechanism, counts, parts)
    np.testing.assert_allclose(b @ c, weights, atol=1e-11)


@prefix_sums
def test_weights_of_a_prefix_sum_are_ones(mechanism: PrefixMechanism) -> None:
    counts = planned(mechanism)
    _, parts = encoder_matrix(mechanism, counts)
    weights = decoder_matrix(mechanism, counts, parts)[2]
    np.testing.assert_array_equal(weights, np.tri(len(counts)))


@every
def test_column_norm_is_the_largest_of_the_matrix(mechanism: PrefixMechanism) -> None:
    c, _ = encoder_matrix(mechanism, planned(mechanism))
    largest = np.linalg.norm(c, axis=0).max()
    assert largest <= mechanism.column_norm * (1 + 1e-12)
    if mechanism.rows is not None:  # otherwise later rows would add to these columns
        assert largest == pytest.approx(mechanism.column_norm, rel=1e-12)


@with_horizon
@pytest.mark.parametrize("rows", [1, 2, 3, 7, 8, 9, 31, 64, 100])
def test_column_norm_and_entries_for_many_horizons(kind: type[BinaryTree], rows: int) -> None:
    mechanism = kind(rows)
    c, _ = encoder_matrix(mechanism, [1] * rows)
    assert np.linalg.norm(c, axis=0).max() == pytest.approx(mechanism.column_norm, rel=1e-12)
    assert (c != 0.0).sum(axis=0).max() == mechanism.entries


@every
def test_variance_is_the_squared_norm_of_the_decoders_row(mechanism: PrefixMechanism) -> None:
    counts = planned(mechanism)
    _, parts = encoder_matrix(mechanism, counts)
    b, variances, _ = decoder_matrix(mechanism, counts, parts)
    np.testing.assert_allclose(variances, (b**2).sum(axis=1), rtol=1e-11)


@every
def test_worst_column_composes_to_what_the_formula_says(mechanism: PrefixMechanism) -> None:
    """Noise multiplier 2 for the stream: one Gaussian event for each release of the worst row."""
    c, _ = encoder_matrix(mechanism, planned(mechanism))
    worst = c[:, np.linalg.norm(c, axis=0).argmax()]
    scale = 2.0 * mechanism.column_norm
    events = [GaussianEvent(scale / abs(entry)) for entry in worst if entry]
    composed = composed_epsilon(events, 1e-5)
    assert composed <= gaussian_epsilon(2.0, 1e-5) * (1 + 1e-9)
    if mechanism.rows is not None:
        assert composed == pytest.approx(gaussian_epsilon(2.0, 1e-5), rel=1e-9)


@every
def test_replacing_one_row_moves_releases_by_its_column(mechanism: PrefixMechanism) -> None:
    """Also when later rows were chosen after seeing earlier outputs: the others stay the same."""
    rng = np.random.default_rng(5)
    counts = planned(mechanism, 20)
    c, parts = encoder_matrix(mechanism, counts)
    replaced = len(counts) // 3
    step = np.array([0.6, -0.8])
    (honest, public), (other, _) = mechanism.start(), mechanism.start()
    last = np.zeros(2)
    for number, people in enumerate(counts):
        row = np.round(4.0 * np.tanh(last)) + rng.integers(-3, 4, size=2)
        honest, released = mechanism.encode(honest, row, people)
        other, neighbour = mechanism.encode(other, row + step * (number == replaced), people)
        expected = np.outer(c[parts[number], replaced], step)
        np.testing.assert_allclose(neighbour - released, expected, atol=1e-11)
        public = mechanism.decode(public, released + rng.normal(size=released.shape), people)
        last = mechanism.estimate(public).values


@every
def test_rows_beyond_the_horizon_are_refused(mechanism: PrefixMechanism) -> None:
    counts = planned(mechanism)
    stream = LinearStream(mechanism)
    for people in counts:
        stream.release(np.ones(1), people)
    before = stream.to_fields()
    if len(counts) == mechanism.rows:
        with pytest.raises(InvalidInput, match="horizon is used up"):
            stream.release(np.ones(1), 1)
    with pytest.raises(InvalidInput, match="people"):
        stream.release(np.ones(1), 0)
    assert stream.to_fields() == before


@pytest.mark.parametrize(
    ("kind", "rows", "largest", "mean"),
    [
        (BinaryTree, 1024, 110, 55),
        (BinaryTree, 10_000, 182, 90.5),
        (BufferedToeplitz, 1024, 10.71, 9.67),
        (BufferedToeplitz, 10_000, 16.06, 14.80),
    ],
)
def test_variances_are_those_published(
    kind: type[BinaryTree], rows: int, largest: float, mean: float
) -> None:
    variances = scaled_variances(kind(rows), rows)
    assert (variances.max(), variances.mean()) == pytest.approx((largest, mean), rel=0.01)


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 8, 9, 100, 1025, 5000])
def test_four_buffers_are_near_the_square_root_between_grid_points(rows: int) -> None:
    """The square root B = C = A^(1/2) has c_k = binom(2k, k) / 4^k and its last row is the worst,
    with variance |C|^4."""
    buffered, k = BufferedToeplitz(rows), np.arange(1.0, rows)
    root = np.cumprod(np.concatenate([[1.0], (2.0 * k - 1.0) / (2.0 * k)]))
    worst = buffered.filter.decoder_energy(rows) * buffered.column_norm**2
    assert worst <= 1.01 * float(root @ root) ** 2


def test_a_million_rows_take_no_time() -> None:
    mechanism = BufferedToeplitz(10**6)
    used, k = mechanism.filter, np.arange(10**6)
    energy = used.decoder_energy(10**6)
    assert energy * mechanism.column_norm**2 == pytest.approx(30.8, rel=0.01)
    impulse = sum(r * p**k for p, r in zip(used.decoder_poles, used.decoder_weights, strict=True))
    assert energy == pytest.approx(float(np.sum(impulse**2)), rel=1e-9)


@pytest.mark.parametrize("buffers", range(2, 7))
def test_poles_and_zeros_of_the_table_interlace(buffers: int) -> None:
    for power in range(3, 25):
        assert (np.diff(log_spans()[buffers, power]) < 0).all()
        used = fitted_filter(2**power, buffers)
        assert (used.encoder_weights > 0).all()
        assert (used.decoder_weights > 0).all()


def test_table_holds_what_saved_streams_began_with() -> None:
    """A changed number would decode saved streams with another C than encoded them."""
    total = math.fsum(
        (power + place) * value
        for (_, power), spans in log_spans().items()
        for place, value in enumerate(spans)
    )
    assert round(total, 3) == 73865.13


def fit_log_spans(rows: int, buffers: int) -> FloatArray:
    """(2 buffers,) the spans that minimise the worst row's variance times |C|^2, as filters.txt was
    found. Takes up to a minute; last digits may differ between versions of SciPy."""

    def log_spans_of(log_steps: FloatArray) -> FloatArray:
        # The rates 1 / span are sums of positive steps, which keeps them in order.
        logs: FloatArray = -np.log(np.cumsum(np.exp(log_steps)))
        return logs

    def loss(log_steps: FloatArray) -> float:
        used = energy(Filter.from_log_spans(log_spans_of(log_steps)), rows)
        return float(np.log(used)) if np.isfinite(used) and used > 0.0 else 1e3

    guess = np.geomspace(0.3 / rows, 3.0, 2 * buffers)
    steps = np.log(np.diff(guess, prepend=0.0))
    for _ in range(2):
        for method in ("BFGS", "Nelder-Mead"):
            steps = minimize(loss, steps, method=method, options={"maxiter": 2000}).x
    return log_spans_of(steps)


def energy(used: Filter, rows: int) -> float:
    return used.encoder_energy(rows) * used.decoder_energy(rows)


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "buffers"), [(16, 2), (1024, 3), (16_384, 4)])
def test_fit_finds_nothing_better_than_the_table(rows: int, buffers: int) -> None:
    fitted = Filter.from_log_spans(fit_log_spans(rows, buffers))
    assert energy(fitted_filter(rows, buffers), rows) <= energy(fitted, rows) * (1 + 1e-5)


@pytest.mark.parametrize("mechanism", FADING, ids=str)
def test_weights_halve_with_the_half_life(mechanism: PrefixMechanism) -> None:
    assert isinstance(mechanism, DiscountedEpochs)
    counts = planned(mechanism)
    c, parts = encoder_matrix(mechanism, counts)
    np.testing.assert_array_equal(c, np.eye(len(counts)))
    _, variances, weights = decoder_matrix(mechanism, counts, parts)
    people = np.array(counts, dtype=np.float64)
    for last in (0, 5, len(counts) - 1):
        own, some = weights[last, : last + 1], people[: last + 1]
        later = some[::-1].cumsum()[::-1] - some
        np.testing.assert_allclose(own / own[-1], 0.5 ** (later / mechanism.half_life), rtol=1e-12)
        # As if so many people counted fully.
        assert own @ some == pytest.approx(own**2 @ some, rel=1e-12)
        assert variances[last] == pytest.approx(own @ own, rel=1e-12)


def test_discounted_epochs_double_until_a_quarter_of_a_half_life() -> None:
    ends = np.cumsum(planned(DiscountedEpochs(400.0, first=10), 8)).tolist()
    assert ends == [10, 20, 40, 80, 160, 260, 360, 460]
    assert DiscountedEpochs(4.0, first=10).due(50) == 60
    assert DiscountedEpochs(400.0, first=10, horizon=300).due(260) == 300


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=25), st.sampled_from(EPOCHS))
def test_late_epochs_keep_every_column_within_one(late: list[int], epochs: PrefixMechanism) -> None:
    assert isinstance(epochs, GeometricEpochs)
    people, counts = 0, []
    for extra in late:
        end = epochs.due(people) + extra * (1 + people // 20)
        end = end if epochs.horizon is None else min(end, epochs.horizon)
        if end == people:
            break
        counts.append(end - people)
        people = end
    c, parts = encoder_matrix(epochs, counts)
    assert np.linalg.norm(c, axis=0).max() <= 1 + 1e-12
    b, variances, weights = decoder_matrix(epochs, counts, parts)
    np.testing.assert_allclose(b @ c, weights, atol=1e-10)
    np.testing.assert_allclose((b**2).sum(axis=1), variances, rtol=1e-10)
    last = weights[-1]
    assert last @ counts == pytest.approx(last**2 @ counts)


def test_planned_epochs_use_their_whole_budget() -> None:
    mechanism = GeometricEpochs()
    c, _ = encoder_matrix(mechanism, planned(mechanism, 150))
    assert np.linalg.norm(c, axis=0)[:50] == pytest.approx(np.ones(50), abs=1e-7)


def test_epochs_refuse_a_row_before_it_is_due() -> None:
    stream = LinearStream(GeometricEpochs(1.5, first=4, horizon=20))
    with pytest.raises(InvalidInput, match="due at 4"):
        stream.release(np.ones(1), 3)
    stream.release(np.ones(1), 14)
    with pytest.raises(InvalidInput, match="due at 20"):
        stream.release(np.ones(1), 5)
    with pytest.raises(InvalidInput, match="horizon is used up"):
        stream.release(np.ones(1), 7)
    stream.release(np.ones(1), 6)  # early for growth 1.5, but the horizon ends there


def test_epochs_cost_the_same_at_any_horizon() -> None:
    for horizon in (100, 1024, 10_000, 10**6):
        mechanism = GeometricEpochs()
        rows = len(list(GeometricEpochs(horizon=horizon).plan()))
        counts = np.array(planned(mechanism, rows))
        stream = LinearStream(mechanism)
        for n in counts:
            estimate = stream.release(np.ones(1), int(n))
        effective = estimate.weights @ counts / counts.sum()
        assert estimate.variance < 2.9
        assert 0.87 < effective < 0.95
        assert estimate.variance / effective**2 < 3.7


@pytest.mark.parametrize(
    "make",
    [
        lambda: BinaryTree(0),
        lambda: BinaryTree(4, every=0),
        lambda: BufferedToeplitz(10, buffers=1),
        lambda: BufferedToeplitz(2**24 + 1),
        lambda: Independent(every=0),
        lambda: GeometricEpochs(1.0),
        lambda: GeometricEpochs(float("nan")),
        lambda: GeometricEpochs(first=0),
        lambda: GeometricEpochs(horizon=0),
    ],
)
def test_bad_settings_are_refused(make: object) -> None:
    assert callable(make)
    with pytest.raises(InvalidInput):
        make()


def test_separate_epochs_are_released_once_and_alone() -> None:
    """C is the identity, so one person is in one released vector, with all of the budget."""
    mechanism = SeparateEpochs(1.5, first=4, horizon=20)
    stream = LinearStream(mechanism)
    with pytest.raises(InvalidInput, match="people was '3'"):
        stream.release(np.zeros(3), "3")  # type: ignore[arg-type]
    rows = np.random.default_rng(0).normal(size=(6, 3))
    held, ends = mechanism.start()[0], []
    for row in rows:
        count = stream.due - stream.people
        held, due = mechanism.encode(held, row, count)
        assert np.array_equal(due, row[None])
        estimate = stream.release(row, count)
        assert np.array_equal(estimate.values, row)
        assert estimate.variance == 1.0
        assert estimate.weights.tolist() == [0.0] * (len(estimate.weights) - 1) + [1.0]
        ends.append(stream.people)
        if stream.people == 20:
            break
    assert ends == [4, 6, 9, 14, 20]
    assert mechanism.column_norm == mechanism.entries == 1
    restored = LinearStream(mechanism)
    restored.restore(stream.to_fields())
    assert np.array_equal(restored.estimate.values, stream.estimate.values)
    with pytest.raises(InvalidInput, match="horizon"):
        stream.release(rows[0], 1)
