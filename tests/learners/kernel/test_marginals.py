"""Tests of where people are along each column."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discreet.learners.kernel.cells import BINS, Ranks
from discreet.learners.kernel.design import Measurements
from discreet.learners.kernel.learner import LocalKernel
from discreet.learners.kernel.marginals import (
    MARGINALS,
    REWARD_EDGES,
    RewardTails,
    cell_probabilities,
    cells_asked,
    light_tail,
    people_asked,
    ranks_after,
    reported_parts,
)
from discreet.learners.kernel.policy import WHOLE, KernelPolicy
from discreet.learners.references.best_arm import BestArm
from discreet.learners.saving import load, save
from discreet.people.domain import RewardBounds, unit_cube
from discreet.privacy import Local, NonPrivate, Shuffled
from discreet.privacy.frequency import SignedSubsetSelection, k_ary_response
from discreet.privacy.noise import SimulatedNoise
from discreet.validation import FloatArray, InvalidInput

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


# How far rewards reach. Seeds are fixed.

LIGHT = light_tail(3, 4.0, 10_000)
WIDE = RewardBounds(0.0, 1000.0)


def tails_of(answers: dict[float, tuple[int, int]]) -> RewardTails:
    """After so many answers about edges, and so many yes, at epsilon 4."""
    tails = np.zeros((len(REWARD_EDGES), 2))
    for edge, counts in answers.items():
        tails[np.abs(REWARD_EDGES - edge).argmin()] = counts
    return RewardTails.of(tails, 4.0, LIGHT)


def test_tails_are_unbiased_and_know_their_deviation() -> None:
    contrast = math.tanh(2.0)
    found = tails_of({0.5: (100_000, round(100_000 * (0.5 + contrast * (0.2 - 0.5))))})
    place = np.abs(REWARD_EDGES - 0.5).argmin()
    assert found.above[place] == pytest.approx(0.2, abs=1e-4)
    assert found.below[place] == pytest.approx(0.8, abs=1e-4)
    chance = 0.5 + contrast * -0.3
    deviation = math.sqrt(chance * (1.0 - chance) / 100_000) / contrast
    assert found.deviation[place] == pytest.approx(deviation, rel=1e-3)


def test_heavy_tails_contain_others_and_light_ones_are_contained() -> None:
    # Far fewer answers at the lower edge than its neighbour knows of.
    found = tails_of({0.25: (400, 4), 0.5: (400, 200), 0.75: (400, 4), 0.875: (30, 2)})
    assert found.range == WHOLE  # .25 says nothing beside .5, and 0 to .75 is hardly shorter
    assert np.array_equal(next(found._sides())[0], REWARD_EDGES >= 0.75)
    found = tails_of({0.5: (400, 200), 0.75: (400, 4), 0.25: (400, 396)})
    assert found.range == (0.25, 0.75)
    assert (found.in_doubt > 0.25).all()
    assert (found.in_doubt < 0.75).all()


@pytest.mark.parametrize(
    ("rewards", "width"),
    [
        ([0.0, 1.0], 1.0),
        (np.linspace(0.0, 1.0, 101), 1.0),
        # Few who spend, all of whom a shorter range would count alike.
        ([0.0] * 99 + [0.5], 1.0),
        (np.linspace(0.01, 0.06, 50), 0.5),
        (np.linspace(0.9, 0.98, 50), 0.13),
        (np.linspace(0.45, 0.55, 50), 0.45),
    ],
)
def test_ranges_are_as_short_as_rewards_allow(rewards: Any, width: float) -> None:
    """Of 500 people, as the learner of 10,000 asks; a range holds nearly all rewards."""
    yes = 0.5 + 0.5 * math.tanh(2.0)
    for seed in range(5):
        rng, tails = np.random.default_rng(seed), np.zeros((len(REWARD_EDGES), 2))
        for _ in range(50):
            found = RewardTails.of(tails, 4.0, LIGHT)
            if len(found.in_doubt) == 0:
                break
            edges = rng.choice(found.in_doubt, 10)
            reached = rng.choice(rewards, 10) >= edges
            answers = np.where(rng.random(10) < yes, reached, ~reached)
            np.add.at(tails, np.searchsorted(REWARD_EDGES, edges), np.c_[np.ones(10), answers])
        found, own = RewardTails.of(tails, 4.0, LIGHT), np.array(rewards)
        low, high = found.range
        assert high - low <= width
        assert (high - low == 1.0) == (width == 1.0)
        assert max(np.mean(own < low), np.mean(own > high)) <= 0.06
        assert np.abs(own - np.clip(own, low, high)).mean() <= found.lost(low, high) < 0.12


def served(learner: BestArm, people: int, rewards: Any) -> list[KernelPolicy]:
    """The policies under which people came."""
    rng, met = np.random.default_rng(3), []
    while learner.people < people:
        policy: Any = learner.policy()
        met.append(policy)
        contexts = np.full((learner.batch_size, 1), 0.5)
        actions, _ = policy.act(contexts, rng)
        own = rng.choice(rewards, len(contexts))
        learner.update(policy.report(contexts, actions, own, SimulatedNoise(len(met))))
    learner.policy()
    return met


def test_rewards_are_clipped_once_their_reach_is_known(tmp_path: Path) -> None:
    rewards = np.linspace(20.0, 60.0, 41)
    learner = BestArm(unit_cube(1), 2, Local(4.0), horizon=10_000, reward_bounds=WIDE)
    policies = served(learner, 1500, rewards)
    asked = [policy for policy in policies if policy.thresholds]
    assert all(policy.clipping_range == WHOLE for policy in asked)
    assert 0 < learner._sums.tails[:, 0].sum() <= 0.05 * 10_000 + learner.batch_size
    low, high = learner.clipping_range
    assert low <= 0.02
    assert 0.06 <= high <= 0.25
    last = policies[-1]
    assert last.clipping_range == (low, high)
    assert last.clipped_to == (1000.0 * low, 1000.0 * high)
    # What was reported before is of other functions; their number and where people are is kept.
    assert learner._sums.stage == last.stage == 1
    assert learner._sums.reports == learner.people
    since = sum(learner.batch_size for policy in policies if policy.clipping_range != WHOLE)
    assert 0.0 < learner._sums.precision.trace() <= 1.2 * since
    mean, deviation = learner.predict([[0.5]])
    assert (np.abs(mean - 40.0) < 4.0 * deviation).all()
    worth = learner.value()
    assert worth.lower < 40.0 < worth.upper < 200.0
    entered = learner.guarantee().data
    assert any("whether the reward reaches a threshold" in each for each in entered)
    range_ = f"clipped to [{1000.0 * low:,.4g}, {1000.0 * high:,.4g}]"
    assert any(range_ in each for each in entered)
    # Reports under policies of before the range was known are dropped, and counted.
    before = learner._sums.precision.copy()
    late = policies[0]
    actions, _ = late.act([[0.5]], np.random.default_rng(0))
    learner.update(late.report([[0.5]], actions, [40.0], SimulatedNoise(9)))
    assert np.array_equal(learner._sums.precision, before)
    save(learner, tmp_path / "learner")
    loaded: Any = load(tmp_path / "learner")
    assert loaded.clipping_range == (low, high)
    assert loaded.policy().clipping_range == (low, high)


def test_no_one_is_asked_where_it_would_not_pay() -> None:
    def asks(budget: Any, arms: int = 3, **other: Any) -> bool:
        options = {"horizon": 10_000, "reward_bounds": WIDE, **other}
        return BestArm(unit_cube(1), arms, budget, **options)._asks_rewards

    shuffled = Shuffled(4.0, 1e-6, group=500)
    assert asks(Local(4.0))
    assert asks(shuffled, horizon=100_000)
    assert not asks(shuffled)  # one group is 5%
    assert not asks(Local(4.0), batch=100)
    assert not asks(Local(4.0), reward_bounds=RewardBounds())
    assert not asks(Local(4.0), half_life=1000.0)
    assert not asks(Local(4.0), arms=40)
    assert not asks(Local(1.0))
    assert not asks(NonPrivate())


def test_a_source_ends_the_questions() -> None:
    """Its reports would measure functions of other rewards."""
    learner = BestArm(unit_cube(1), 2, Local(4.0), horizon=10_000, reward_bounds=WIDE)
    served(learner, 40, [30.0])
    assert learner._asks_rewards
    learner.open_source("clinic", 4.0)
    policies = served(learner, 1000, [30.0])
    assert not learner._asks_rewards
    assert not policies[-1].thresholds
    assert learner.clipping_range == WHOLE


def test_missing_rewards_are_in_the_middle_of_the_range() -> None:
    """And a reward at a threshold reaches it."""
    learner = BestArm(unit_cube(1), 2, Local(4.0), horizon=10_000, reward_bounds=WIDE)
    policies = served(learner, 60, [30.0])
    policy = next(policy for policy in policies if policy.thresholds)
    coins = np.arange(40, dtype=np.uint64)
    own = np.array(policy.thresholds)[policy.picked(coins)[1]]
    people = np.zeros((40, 1)), np.zeros(40, dtype=np.int64)
    assert (policy._entering(*people, own, coins) == 1.0).all()
    assert (policy._entering(*people, np.nextafter(own, 0.0), coins) == 0.0).all()
    clipped = replace(policies[0], clipping_range=(0.25, 0.625))
    assert set(clipped._missing(*people)) == {0.4375}
    people = people[0][:5], people[1][:5]
    shares = clipped._entering(*people, np.array([0.0, 0.25, 0.4375, 0.625, 1.0]), coins[:5])
    assert shares.tolist() == [0.0, 0.0, 0.5, 1.0, 1.0]
    # However short a range is that a policy states, no reward overflows.
    with pytest.raises(InvalidInput, match="e-07 or more"):
        replace(clipped, clipping_range=(0.0, 2.0**-21))
    short = replace(clipped, clipping_range=(0.0, 2.0**-20))
    with np.errstate(all="raise"):
        shares = short._entering(*people, np.array([0.0, 0.2, 0.5, 0.7, 1.0]), coins[:5])
    assert shares.tolist() == [0.0, 1.0, 1.0, 1.0, 1.0]
