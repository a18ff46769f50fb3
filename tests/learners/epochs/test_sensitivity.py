"""How far one person can move a sum of rows: all pairs of records, by brute force."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from discreet.learners.epochs.contribution import ClippedContribution
from discreet.learners.epochs.features import ContextDistribution
from discreet.learners.epochs.sums import RESOLUTION, EpochSum, contribution_sensitivity, whole
from discreet.privacy import Joint, Local, NonPrivate, SimulatedNoise
from discreet.privacy.accounting import gaussian_epsilon
from discreet.privacy.noise import NO_NOISE
from discreet.validation import InvalidInput

from ..spy import Spy, furthest
from .cases import (
    DOMAIN,
    GRID,
    LEVELS,
    MAKERS,
    SMOOTH,
    People,
    every_record,
    learner,
    mean_reward,
    observe,
    serve,
)

every_kind = pytest.mark.parametrize("kind", MAKERS)


def lengths(rows: np.ndarray) -> np.ndarray:
    return np.linalg.norm(rows, axis=1)


@every_kind
@pytest.mark.parametrize("budget", [Joint(1.0, 1e-5), NonPrivate()], ids=["joint", "none"])
def test_no_two_records_are_further_apart_than_was_paid_for(kind: str, budget: Any) -> None:
    made = learner(kind, budget)
    policies = serve(made, People(400, 1))
    assert len(policies) > 1
    for policy in policies:
        rows = policy.contributions_of(*every_record())
        assert lengths(rows).max() <= 1.0 + 1e-15
        assert furthest(whole(rows) / RESOLUTION) <= contribution_sensitivity(
            policy.contribution.size
        )
        # The unit ball is used to its edge, so the noise is not too large either.
        assert lengths(rows).max() >= 0.97


@every_kind
def test_arms_that_are_not_offered_move_sums_no_further(kind: str) -> None:
    """Whoever comes with a record that the epoch gave no chance is shortened like all others."""
    weights = np.r_[1.0, np.zeros(LEVELS - 1)]
    made = learner(kind, contexts=ContextDistribution.grid(DOMAIN, weights))
    for policy in serve(made, People(400, 1)):
        chances = made.features.contexts.weights[:, None] * policy.decision.table
        assert (chances[1:] == 0.0).all()
        rows = policy.contributions_of(*every_record())
        assert lengths(rows).max() <= 1.0 + 1e-15


@pytest.mark.parametrize(
    "wrong",
    [
        {"reward_noise": 1e-9},
        {"reward_noise": 1e9},
        {"kernel": "RBF([0.5, 0.5])", "contexts": [[0.25]]},
        {"kernel": "1e6 * RBF([9.0, 9.0])"},
        {"kernel": "1e-6 * RBF([0.1, 0.1]) + DotProduct(1.0)"},
        {"error": 0.5},
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["posterior", "bernstein"])
def test_what_is_believed_wrongly_changes_no_noise(kind: str, wrong: dict[str, Any]) -> None:
    spy = Spy(1)
    made = learner(kind, noise=spy, **wrong)
    policies = serve(made, People(400, 1))
    for policy in policies:
        assert lengths(policy.contributions_of(*every_record())).max() <= 1.0 + 1e-15
    assert made.releases
    for release in made.releases:
        assert release.sensitivity == pytest.approx(2.0, abs=1e-7)
        assert release.scale / release.sensitivity == pytest.approx(
            release.event.noise_multiplier, rel=1e-8
        )
        assert 1.0 - 1e-6 <= gaussian_epsilon(release.event.noise_multiplier, 1e-5) <= 1.0
    assert 1.0 - 1e-6 <= made.guarantee().epsilon <= 1.0


def test_contexts_outside_those_known_are_in_the_ball_too() -> None:
    made = learner("posterior", domain=SMOOTH, contexts=[[0.2], [0.3]], horizon=100, error=0.3)
    policy = serve(made, People(60, 1))[-1]
    unit = np.linspace(0.0, 1.0, 200)[:, None]
    for arm in range(4):
        for reward in (0.0, 1.0):
            rows = policy.contributions_of(unit, np.full(200, arm), np.full(200, reward))
            assert lengths(rows).max() <= 1.0 + 1e-15


class TestForgedRows:
    """Whatever a policy says, the numbers that were computed lie in the unit ball."""

    @pytest.mark.parametrize(
        "change",
        [
            {"clipping_norm": 1e-300},
            {"clipping_norm": 10**300},
            {"reward_noise": 1e300},
            {"projection": np.full((1, 2), 1e308)},
            {"root": np.full((1, 1), 1e308)},
            {"mean": np.full(1, 1e308)},
        ],
        ids=lambda change: str(next(iter(change))),
    )
    def test_of_any_row_map(self, change: dict[str, Any]) -> None:
        arrays = {"mean": np.zeros(1), "root": np.eye(1), "projection": np.ones((1, 2))}
        made = ClippedContribution(
            **{**arrays, "clipping_norm": 1.0, "reward_noise": 0.5, **change}
        )
        for phi in (1.0, 1e308, -1e-308, np.inf, np.nan):
            with np.errstate(all="ignore"):
                rows = made.contributions(np.full((3, 1), phi), np.array([-0.5, 0.0, 0.5]))
            assert np.isfinite(rows).all()
            assert lengths(rows).max() <= 1.0 + 1e-15

    def test_of_a_policy(self) -> None:
        """Without a warning either, which would say for whom numbers overflowed."""
        policy = learner("posterior", Local(1.0), domain=SMOOTH).policy()
        made = policy.contribution
        longest = made.projection * (1e308 / np.abs(made.projection).max())
        made = replace(made, projection=longest, clipping_norm=1e-300)
        forged = replace(policy, contribution=made)
        with np.errstate(all="raise"):
            rows = forged.contributions_of(*every_record())
        assert np.isfinite(rows).all()
        assert lengths(rows).max() <= 1.0 + 1e-15


class TestSums:
    @pytest.mark.parametrize("people", [10, 2**23, 2**23 + 1, 2**31])
    def test_sums_that_do_not_fit_into_a_float_are_paid_for(self, people: int) -> None:
        """Fault once found: above 2^53 a sum is rounded when noise is added, by up to 2^-53 of
        itself, which no sensitivity covered."""
        size = 9
        largest = people * 2**30
        sums = np.array([largest - 1, largest], dtype=np.int64)
        rounded = sums / RESOLUTION
        moved = abs(int(rounded[0] * 2**30) - int(sums[0])) + abs(
            int(rounded[1] * 2**30) - int(sums[1])
        )
        covered = contribution_sensitivity(size, people) - 2.0 - math.sqrt(size) / 2**30
        assert math.sqrt(size) * moved / 2**30 <= covered + 1e-18
        assert (covered < 1e-15) == (people <= 2**23)

    def test_the_noise_of_a_release_covers_it(self) -> None:
        spy = Spy(0)
        made = learner("posterior", noise=spy)
        size = made.policy().contribution.size
        many = 2**30
        one = EpochSum(many, np.full(size, many * 2**20, dtype=np.int64))
        made.merge(replace(made._sums, reports=many, epochs={0: one}, noise=(NO_NOISE,)))
        made.policy()
        (release,) = made.releases
        assert (
            release.sensitivity
            == contribution_sensitivity(size, many)
            > contribution_sensitivity(size)
        )
        assert release.scale >= release.sensitivity * release.event.noise_multiplier
        assert 1.0 - 1e-6 <= made.guarantee().epsilon <= 1.0

    def test_forged_sums_are_refused(self) -> None:
        made = learner("posterior")
        good = made.statistics(observe(made, People(10, 1), 0, 10)).epochs[0]
        least = np.iinfo(np.int64).min

        def merged(version: int, people: int, total: np.ndarray) -> None:
            sums = {version: EpochSum(people, total)}
            made.merge(replace(made._sums, reports=people, epochs=sums, noise=(NO_NOISE,)))

        for version, people, total in [
            (0, 1, good.total * 100),
            (0, 10, good.total * 2**40),
            (0, 10, np.full_like(good.total, least)),
            (0, 10, np.append(least, good.total[1:])),
            (0, 10, good.total[:-1]),
            (0, 10, good.total[None]),
            (1, 10, good.total),
            (0, 2**31 + 1, good.total),
        ]:
            with pytest.raises(InvalidInput):
                merged(version, people, total)
        with pytest.raises(InvalidInput, match="whole"):
            merged(0, 10, good.total.astype(float))
        assert made.people == 0

    def test_reports_that_add_up_to_no_number_are_refused(self) -> None:
        """Fault once found: one report of 1e308 from a person and another from a friend, and no
        policy could be made ever after."""
        made = learner("posterior", Local(1.0))
        reports = observe(made, People(10, 1), 0, 10)
        for bad, message in ((1.7e308, "does not reach"), (np.nan, "must be finite")):
            with pytest.raises(InvalidInput, match=message):
                made.update(replace(reports, rows=np.full_like(reports.rows, bad)))
        with pytest.raises(InvalidInput, match="shape"):
            made.update(replace(reports, rows=reports.rows[:, :-1]))
        assert made.people == 0


@pytest.mark.parametrize("kind", ["posterior", "bernstein"])
def test_learning_works_though_contexts_are_not_as_was_said(kind: str) -> None:
    wrong = ContextDistribution.grid(DOMAIN, [5.0, 4.0, 3.0, 2.0, 1.0])
    made = learner(kind, Joint(4.0, 1e-5), SimulatedNoise(1), 4000, contexts=wrong)
    last = serve(made, People(4000, 2))[-1]
    offered = last.probabilities(GRID)
    cells = [(context, arm) for context in range(LEVELS) for arm in range(4)]
    means = mean_reward(GRID[[c for c, _ in cells]], np.array([arm for _, arm in cells]))
    means = means.reshape(LEVELS, 4)
    regret = (means.max(axis=1) - (offered * means).sum(axis=1)).mean()
    uniform = (means.max(axis=1) - means.mean(axis=1)).mean()
    assert regret < 0.3 * uniform
