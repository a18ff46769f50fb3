"""Tests of where people are along each column."""

import math

import numpy as np
import pytest

from discreet.learners.kernel.cells import BINS, Ranks
from discreet.learners.kernel.design import Measurements
from discreet.learners.kernel.learner import LocalKernel
from discreet.learners.kernel.marginals import (
    MARGINALS,
    cell_probabilities,
    cells_asked,
    people_asked,
    ranks_after,
    reported_parts,
)
from discreet.learners.kernel.policy import KernelPolicy
from discreet.people.domain import unit_cube
from discreet.privacy import Local
from discreet.privacy.frequency import SignedSubsetSelection, k_ary_response
from discreet.privacy.noise import SimulatedNoise
from discreet.validation import FloatArray

NOTHING = np.zeros((2, len(MARGINALS)))


def after(places: FloatArray, ranks: Ranks) -> Ranks:
    """The ranks after people (n, d) show where they are."""
    seen = ranks(places)
    counts = np.stack([np.histogram(column, BINS, (0.0, 1.0))[0] for column in seen.T])
    return ranks_after(ranks, counts @ np.log(MARGINALS).T)


def asked_privately(
    places: FloatArray, mechanism: SignedSubsetSelection, rng: np.random.Generator, batch: int = 20
) -> tuple[int, Ranks]:
    """How many people (n, 1) were asked until the column was settled or rescaled, and its ranks."""
    ranks, log_likelihood = Ranks.plain(1, [0]), NOTHING[:1].copy()
    bins, (wrong, gain) = np.arange(BINS)[:, None] / BINS, cell_probabilities(mechanism)
    for start in range(0, len(places), batch):
        cells = cells_asked(ranks, log_likelihood, mechanism)
        shown = reported_parts(cells.locate_all(bins)[0], mechanism)
        own = cells.locate(places[start : start + batch], np.zeros(batch, dtype=int))
        chances = np.cumsum(wrong + gain * np.eye(mechanism.bins)[own], axis=1)
        reported = (rng.random((batch, 1)) > chances).sum(axis=1)
        log_likelihood[0] += np.log(shown)[:, reported].sum(axis=1)
        ranks = ranks_after(ranks, log_likelihood)
        if ranks.stage or not ranks.asked.size:
            return start + batch, ranks
    return len(places), ranks


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
def test_reports_of_parts_have_the_distribution_of_the_mechanism(epsilon: float) -> None:
    """By enumeration: of 2G values a report is the true one with e^epsilon times the probability
    of any other, and a part is reported with either sign."""
    parts, mechanism = np.sort(np.arange(BINS) * 7 % 4), k_ary_response(4, epsilon)
    other = 1.0 / (math.exp(epsilon) + 7.0)
    wanted = np.zeros((len(MARGINALS), 4))
    for bin_, part in enumerate(parts):
        for value in range(8):
            chance = other * (math.exp(epsilon) if value == 2 * part else 1.0)
            wanted[:, value // 2] += chance * MARGINALS[:, bin_]
    shown = reported_parts(parts, mechanism)
    np.testing.assert_allclose(shown, wanted, rtol=1e-12)
    np.testing.assert_allclose(shown.sum(axis=1), 1.0, rtol=1e-12)


@pytest.mark.parametrize("epsilon", [4.0, 40.0])
def test_reports_of_an_empty_part_say_little(epsilon: float) -> None:
    """Sums hold at most 16 nats for each report; honest ones must not be refused."""
    mechanism = k_ary_response(8, epsilon)
    for first in range(1, BINS - 7):
        parts = np.clip(np.arange(BINS) - first, 0, 7)
        assert np.log(reported_parts(parts, mechanism)).min() > -16.0


def test_marginals_are_distributions_and_differ() -> None:
    np.testing.assert_allclose(MARGINALS.sum(axis=1), 1.0)
    assert (MARGINALS > 0.0).all()
    assert len(np.unique(MARGINALS.round(12), axis=0)) == len(MARGINALS)
    assert np.ptp(MARGINALS[0]) == 0.0


def test_parts_are_cut_where_the_likely_marginals_differ() -> None:
    """A report of halves says nothing of a column whose people surely are in its first sixteenth;
    its parts lie there, or end with it."""
    ranks, mechanism = Ranks.plain(1, [0]), k_ary_response(2, 1.0)
    first = cells_asked(ranks, NOTHING[:1], mechanism).cut[0, 0]
    assert 0.2 <= first <= 0.8
    inside = MARGINALS[:, : BINS // 16].sum(axis=1) > 0.9
    sure = np.where(inside, 0.0, -1e3)[None]
    assert cells_asked(ranks, sure, mechanism).cut[0, 0] <= 1.0 / 16.0


def test_a_corner_fills_its_column_and_the_other_is_left_alone() -> None:
    unit = np.random.default_rng(3).random((4000, 2)) * [0.05, 1.0]
    ranks = after(unit, Ranks.plain(2, [0, 1]))
    assert (ranks.stage, ranks.asked.tolist()) == (1, [0]), "the other column is filled"
    ranks = after(unit, ranks)
    assert ranks.asked.tolist() == []
    seen = ranks(unit)
    assert seen[:, 0].max() > 0.5
    assert np.array_equal(seen[:, 1], unit[:, 1])
    assert (np.diff(seen[np.argsort(unit[:, 0]), 0]) > 0.0).all()


@pytest.mark.parametrize("shared", [0.5, 0.7])
def test_a_value_that_many_share_is_not_spread_over_the_ranks(shared: float) -> None:
    """Hours worked a week, say: nothing changes inside of 40, and every stage discards reports."""
    rng = np.random.default_rng(4)
    hours = np.where(rng.random(4000) < shared, 0.4, rng.random(4000))
    ranks = after(hours[:, None], Ranks.plain(1, [0]))
    assert (ranks.stage, ranks.asked.size) == (0, 0)


@pytest.mark.parametrize("width", [1e-3, 1e-9, 0.0])
def test_however_close_people_are_ranks_increase(width: float) -> None:
    """`Ranks` would refuse knots that coincide, in the middle of a study."""
    place = 0.7 + width * np.random.default_rng(5).random((3000, 1))
    ranks = Ranks.plain(1, [0])
    while ranks.asked.size:
        ranks = after(place, ranks)
    assert ranks.stage == 2
    assert (np.diff(ranks.knots, axis=1) > 0.0).all()


def test_few_reports_decide_nothing() -> None:
    ranks = after(np.full((1, 1), 0.01), Ranks.plain(1, [0]))
    assert (ranks.stage, ranks.asked.tolist()) == (0, [0])


@pytest.mark.parametrize(("epsilon", "parts"), [(1.0, 2), (2.0, 4), (4.0, 8)])
def test_private_reports_find_a_corner_and_leave_a_filled_column_alone(
    epsilon: float, parts: int
) -> None:
    """Of 200 columns of each kind at most two were taken for the other."""
    mechanism, rng = k_ary_response(parts, epsilon), np.random.default_rng(6)
    most = int(20 * people_asked(mechanism))
    for width, rescaled in ((0.05, True), (1.0, False)):
        found = [
            asked_privately(width * rng.random((most // 20 * 20, 1)), mechanism, rng)
            for _ in range(8)
        ]
        assert sum(ranks.stage == rescaled for _, ranks in found) >= 7
        assert np.median([people for people, _ in found]) <= max(3 * people_asked(mechanism), 40)


def test_sums_of_reports_hold_the_log_likelihood_of_marginals() -> None:
    """Report by report, and in one piece."""
    learner = LocalKernel(unit_cube(2), 2, Local(1.0), horizon=20_000, public_seed=1)
    policy, rng = learner.policy(), np.random.default_rng(7)
    assert isinstance(policy, KernelPolicy)
    assert policy.ranks.asked.tolist() == [0, 1]
    contexts = rng.random((60, 2))
    actions, _ = policy.act(contexts, rng)
    reports = policy.report(contexts, actions, np.ones(60), SimulatedNoise(8))
    sums = Measurements(policy).statistics(reports).marginals
    wanted = np.zeros_like(sums)
    _, partition = policy.picked(reports.public_coins)
    for place, cell in zip(partition, reports.places[:, 0], strict=True):
        cut = policy.cells.cut[place, 0]
        below = np.arange(BINS) / BINS >= cut
        column = policy.cells.axis[place, 0]
        shown = reported_parts(below.astype(int), policy.mechanism)
        wanted[column] += np.log(shown[:, cell])
    np.testing.assert_allclose(sums, wanted, atol=60 * 2.0**-13)
    assert np.array_equal(sums, np.round(sums * 2**12) / 2**12), "on the grid sums are exact"
