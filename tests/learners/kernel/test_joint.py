"""The kernel bandit under joint privacy: what one person can move, and what releases say."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discreet.codec import decode, encode
from discreet.gaussian import GaussianNaturalParameters
from discreet.lab.environments.synthetic import ExponentialMeans, SyntheticProblem
from discreet.lab.experiments import Setting, simulate
from discreet.learners.epochs.sums import DATA, RESOLUTION, EpochRelease, EpochSum
from discreet.learners.kernel.features import on_levels
from discreet.learners.kernel.joint import (
    _EDGES,
    _REWARD_WEIGHT,
    JointKernel,
    JointKernelPolicy,
    _in_units,
    _smoothed,
)
from discreet.learners.messages import Reports
from discreet.learners.registry import make_learner
from discreet.learners.saving import load, save
from discreet.people.domain import Box, RewardBounds, unit_cube
from discreet.privacy import Joint, SimulatedNoise
from discreet.privacy.accounting import gaussian_epsilon
from discreet.validation import FloatArray, InvalidInput

from ..contract import state
from ..spy import Spy, furthest

ARMS = 3
OPTIONS: dict[str, Any] = {"first": 200, "half_life": None}
MIXED = Box((0.0, -1.0), (2.0, 1.0), levels=(4, None))
DOMAINS = {
    "square": unit_cube(2),
    "mixed": MIXED,
    "three columns": unit_cube(3),
    "twenty columns": unit_cube(20),
    "an indicator": Box.of({"x": {"lower": 0, "upper": 1, "indicators": [0]}, "y": (0, 1)}),
}


def kernel(
    domain: Box = DOMAINS["square"],
    budget: Any = None,
    name: str = "kernel",
    arms: int = ARMS,
    **options: Any,
) -> JointKernel:
    common: dict[str, Any] = {"noise": SimulatedNoise(3), "public_seed": 5, "horizon": 4000}
    common |= options
    learner = make_learner(
        name,
        domain,
        arms,
        budget or Joint(4.0, 1e-5),
        identity="joint",
        options={name: common.pop(name, usual) for name, usual in OPTIONS.items()},
        **common,
    )
    assert isinstance(learner, JointKernel)
    return learner


def people_of(domain: Box, unit: FloatArray) -> FloatArray:
    """(n, d) the contexts nearest to places in [0, 1]^d."""
    return domain.from_unit(domain.nearest_unit(domain.from_unit(unit)))


def serve(
    learner: JointKernel, epochs: int = 4, seed: int = 0, reward: float = 1.0
) -> list[JointKernelPolicy]:
    """Policies of some epochs, whose people are mostly in a corner and earn 0 or `reward`."""
    rng = np.random.default_rng(seed)
    for _ in range(epochs):
        policy = learner.policy()
        unit = rng.random((learner.batch_size, learner.domain.dimension)) ** 3
        contexts = people_of(learner.domain, unit)
        actions, _ = policy.act(contexts, rng)
        rewards = reward * (rng.random(len(contexts)) < 0.2 + 0.3 * actions.arms)
        learner.update(policy.report(contexts, actions, rewards, SimulatedNoise(seed)))
    learner.policy()
    return list(learner._policies)


def records(domain: Box) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Contexts at random and on a grid with corners, or in many columns at some corners, every arm,
    and rewards 0, .4 and 1."""
    drawn = np.random.default_rng(2).random((200, domain.dimension))
    corners: Any = [*np.round(drawn), 0.0 * drawn[0], 0.0 * drawn[0] + 1.0]
    if domain.dimension <= 4:
        corners = product(*(np.linspace(0.0, 1.0, count or 5) for count in domain.levels))
    contexts = [*on_levels(drawn, domain.levels), *corners]
    every = list(product(contexts, range(ARMS), (0.0, 0.4, 1.0)))
    where, arms, rewards = (np.array(part) for part in zip(*every, strict=True))
    return where.astype(float), arms, rewards.astype(float)


CASES = {name: ("kernel", domain) for name, domain in DOMAINS.items()} | {
    "best arm": ("best_arm", MIXED),
    "rewards of 0 or .3": ("kernel", DOMAINS["square"], 0.3),
    "best arm, 0 or .3": ("best_arm", MIXED, 0.3),
    "known": ("kernel", DOMAINS["square"], 1.0, ("RBF(0.5)", 0.1)),
    "best arm, known": ("best_arm", MIXED, 1.0, (None, 0.1)),
}


@cache
def served(
    name: str = "kernel",
    domain: Box = DOMAINS["square"],
    reward: float = 1.0,
    known: tuple[str | None, float] | None = None,
) -> list[JointKernelPolicy]:
    learner = kernel(domain, name=name)
    if known is not None:
        text, noise = known
        options = {"kernel": text, "reward_noise": noise, "first": 200}
        budget, common = learner.budget, {"noise": SimulatedNoise(3), "public_seed": 5}
        made = make_learner(name, domain, ARMS, budget, options=options, horizon=4000, **common)
        assert isinstance(made, JointKernel)
        learner = made
    return serve(learner, reward=reward)


@pytest.fixture(params=CASES)
def policies(request: pytest.FixtureRequest) -> list[JointKernelPolicy]:
    return served(*CASES[request.param])


def test_no_two_records_are_further_apart_than_was_paid_for(
    policies: list[JointKernelPolicy],
) -> None:
    """Brute force over pairs of records, of contributions as they are added."""
    check_widths(policies)


def check_widths(policies: list[JointKernelPolicy]) -> None:
    for policy in policies:
        rows = policy.contributions(*records(policy.domain)) / RESOLUTION
        covered = policy.width + math.sqrt(policy.size) / RESOLUTION
        apart = furthest(rows)
        # Those beyond the contribution bound add 0, which is as near.
        assert max(apart, np.linalg.norm(rows, axis=1).max()) <= covered
        assert np.linalg.norm(rows[:, : policy.directions], axis=1).max(initial=0.0) <= 1.0 + 1e-7
        # The noise is not too large either: releases differ by machine, and the furthest pair of
        # these records is .81 to .95 of the bound apart.
        assert apart >= 0.75 * covered


@pytest.mark.parametrize("name", ["kernel", "best_arm"])
@pytest.mark.parametrize("domain", [DOMAINS[each] for each in DOMAINS if "twenty" not in each])
def test_beside_a_source_no_two_records_are_further_apart_either(name: str, domain: Box) -> None:
    """The first epoch then measures arm functions, too."""
    learner = kernel(domain, name=name)
    learner.open_source("bank", 8.0)
    rng = np.random.default_rng(1)
    for _ in range(3):
        policy = learner.policy("bank")
        contexts = people_of(domain, rng.random((100, domain.dimension)))
        arms = rng.integers(ARMS, size=100)
        rewards = (rng.random(100) < 0.2 + 0.3 * arms).astype(float)
        learner.update(policy.report(contexts, arms, rewards, SimulatedNoise(0)))
    first, *later = serve(learner)
    assert first.directions
    assert (len(first.bins), first.cells.count) == (domain.dimension * first.varies, 1)
    assert first.width <= math.sqrt(4.5 + 2.0 * len(first.bins)) + 1e-9
    check_widths([first, *later])


def test_the_width_is_that_of_the_blocks(
    policies: list[JointKernelPolicy], request: pytest.FixtureRequest
) -> None:
    first, *later = policies
    # The first histogram says that rewards of 0 and 1 are not to be clipped, and is the last.
    weight = _REWARD_WEIGHT if ".3" in request.node.callspec.id else 0.0
    assert {policy.reward_weight for policy in later} == {weight}
    if not first.varies:
        # Brute force over arms and the ends of rewards; what is beyond the bound adds 0.
        for policy in policies:
            rows = policy.contributions(*records(policy.domain)) / RESOLUTION
            ball = furthest(np.vstack([rows, np.zeros(policy.size)])[:, : policy.directions])
            square = ball**2 + 2.0 * policy.reward_weight**2
            assert policy.width == pytest.approx(math.sqrt(square), abs=1e-8)
        assert min(policy.width for policy in policies) < 2.05
        return
    if first.directions:  # a known kernel needs no histogram of columns
        assert len(first.bins) == 0
        assert any(policy.radius for policy in later)
        later = policies
    else:
        assert first.width == pytest.approx(math.sqrt(2.0 * first.domain.dimension + 0.5))
    for policy in later:
        cells = policy.cells.count > 1
        assert policy.width == math.sqrt((4.5 if cells else 4.0) + 2.0 * weight**2)
        counted = policy.cells.count if cells else 0
        bins = len(_EDGES) - 1 if weight else 0
        assert policy.size == policy.directions + counted + bins
    assert any(policy.cells.count > 1 for policy in later)


@pytest.mark.parametrize("name", ["kernel", "best_arm"])
def test_forged_numbers_move_a_sum_no_further(name: str) -> None:
    policy = served(name)[-1]
    rng = np.random.default_rng(1)
    assert policy.projection is not None
    # Squares of 1e-170 are lost, so the length that a row is divided by is not its length.
    for factor, radius in product((0.0, 1e-300, 1e-170, 1e9, 1e300), (None, 2.0**-20, 0.5)):
        forged = replace(
            policy,
            projection=factor * rng.standard_normal(policy.projection.shape),
            believed=1e3 * rng.standard_normal(policy.believed.shape),
            clipping_norm=1e-300,
            clipping_range=(0.4, 0.4 + 2.0**-20),
            radius=radius,
        )
        with np.errstate(all="ignore"):
            rows = forged.contributions(*records(forged.domain)) / RESOLUTION
            assert furthest(rows) <= forged.width + math.sqrt(forged.size) / RESOLUTION


def test_a_policy_that_ignores_contexts_counts_none() -> None:
    policy = served("best_arm")[-1]
    with pytest.raises(InvalidInput, match="ignores contexts but counts them"):
        replace(policy, bins=np.array([4, 4]))


@pytest.mark.parametrize("half_life", [None, 300.0])
def test_noise_is_for_the_width_and_drawn_once(half_life: float | None) -> None:
    spy = Spy(1)
    learner = kernel(noise=spy, half_life=half_life)
    policies = serve(learner)
    assert len(spy.given) == len(learner.releases) == len(policies) - 1
    for policy, release, given in zip(policies, learner.releases, spy.given, strict=False):
        assert given.size == policy.size
        assert release.sensitivity == pytest.approx(policy.width, abs=1e-7)
        held = release.scale / release.sensitivity
        assert held == pytest.approx(release.event.noise_multiplier, rel=1e-8)
        assert 4.0 - 1e-5 <= gaussian_epsilon(held, 1e-5) <= 4.0
    assert learner.guarantee().epsilon <= 4.0


class TestLogs:
    """People whose arms others chose."""

    @pytest.mark.parametrize("name", ["kernel", "best_arm"])
    def test_no_behaviour_policy_biases_what_is_read(self, name: str) -> None:
        """b = J theta for the mean release, whatever the chances are, by arithmetic."""
        learner, rng = kernel(name=name), np.random.default_rng(1)
        serve(learner, 3)
        learner.expect_log(1000, 0.1)
        policy = learner.policy()
        assert policy.least_propensity == 0.1
        assert learner.batch_of() == 1000
        chances = 0.1 + 0.7 * rng.dirichlet(np.ones(ARMS), len(learner._points))
        theta = 0.1 * rng.standard_normal((ARMS, len(learner.features)))
        theta[:, 1:] *= np.exp(-np.arange(theta.shape[1] - 1))
        signed = learner._phi @ theta.T
        assert np.abs(signed).max() < 1.0
        total, unit = np.zeros(policy.directions), learner._ranks.inverse(learner._points)
        for arm, column in enumerate(chances.T):
            arms = np.full(len(column), arm)
            rewards = 0.5 * (1.0 + signed[:, arm])
            reports = policy.logged(learner.domain.from_unit(unit), arms, rewards, column)
            rows = policy.contributions(unit, arms, rewards, reports.weights) / RESOLUTION
            total += (learner.weights * column) @ rows[:, : policy.directions]
        rest = np.zeros(policy.size - policy.directions)
        drawn = EpochRelease(
            policy.version, 1000, np.concatenate([1000.0 * total, rest]), 5.0, 1.0, "simulated"
        )
        known = learner._likelihood_of(policy, drawn)
        exact = known.precision @ theta.ravel()
        np.testing.assert_allclose(known.weighted, exact, atol=1e-5 * np.abs(exact).max())

    @pytest.mark.parametrize("name", ["kernel", "best_arm"])
    def test_no_two_of_them_are_further_apart(self, name: str) -> None:
        """Whatever their weights: brute force over records, each with three of them."""
        learner = kernel(MIXED, name=name)
        learner.expect_log(500, 0.25)
        first = learner.policy()
        assert isinstance(first, JointKernelPolicy)
        assert first.entering.endswith("and the propensity")
        learner.expect_log(0, 0.25)
        serve(learner, 2, reward=0.3)
        learner.expect_log(500, 0.25)
        for policy in (first, learner.policy()):
            assert policy.reward_weight == _REWARD_WEIGHT
            thrice = [np.concatenate([each] * 3) for each in records(MIXED)]
            weights = np.repeat([0.0, 0.3, 1.0], len(thrice[1]) // 3)
            rows = policy.contributions(*thrice, weights) / RESOLUTION
            covered = policy.width + math.sqrt(policy.size) / RESOLUTION
            assert 0.75 * covered <= furthest(rows) <= covered

    def test_rewards_are_clipped_to_where_those_of_all_arms_are(self) -> None:
        """Fault once found: the common arm's rewards were, and the others' means were cut."""
        learner, rng = kernel(), np.random.default_rng(0)
        learner.expect_log(20_000, 0.05)
        while (policy := learner.policy()).least_propensity:
            size = learner.batch_of()
            arms = rng.choice(ARMS, size, p=(0.9, 0.05, 0.05))
            rewards = np.where(arms == 0, 0.1 * rng.random(size), rng.random(size) < 0.4)
            chances = np.where(arms == 0, 0.9, 0.05)
            learner.update(policy.logged(rng.random((size, 2)), arms, rewards, chances))
        assert learner.clipping_range == (0.0, 1.0)
        assert learner._rewards[0].sum() == pytest.approx(1.0, abs=0.1), "shares of people"
        means = learner.predict(np.full((1, 2), 0.5))[0][0]
        np.testing.assert_allclose(means, [0.05, 0.4, 0.4], atol=0.1)

    def test_their_policies_take_any_arm_and_choose_none(self) -> None:
        learner, where, noise = kernel(), np.full((2, 2), 0.5), SimulatedNoise(0)
        before = learner.policy()
        actions, _ = before.act(where, np.random.default_rng(0))
        served = before.report(where, actions, [0.0, 1.0], noise)
        learner.update(served)
        learner.expect_log(300, 1.0 / ARMS)
        policy = learner.policy()
        assert (policy.version, learner.batch_of(), len(learner.releases)) == (1, 300, 1)
        assert policy.probabilities(where) == pytest.approx(1.0 / ARMS)
        with pytest.raises(InvalidInput, match="is for people of a log"):
            policy.act(where, np.random.default_rng(0))
        reports = policy.logged(where, [0, 2], [0.0, 1.0], [1.0 / ARMS, 0.5])
        np.testing.assert_allclose(reports.weights, [1.0, 2.0 / ARMS])
        again = decode(encode(reports), Reports)
        assert encode(again) == encode(reports)
        learner.update([again, served])  # late ones, too
        for chances in ([0.2, 0.5], [0.5, 1.1], [np.nan, 0.5], [0.5]):
            with pytest.raises(InvalidInput, match="propensities"):
                policy.logged(where, [0, 2], [0.0, 1.0], chances)
        plain = policy.report(where, [0, 2], [0.0, 1.0], noise)
        for bad in (plain, replace(reports, policy_version=before.version)):
            with pytest.raises(InvalidInput, match=r"send what policy.report\(\) made"):
                learner.update(bad)
        learner.expect_log(0, 0.2)  # it ends early
        after = learner.policy()
        assert after.version == 2
        learner.expect_log(0, 0.2)  # and has ended
        assert learner.policy() is after
        with pytest.raises(InvalidInput, match="pass the Actions that act"):
            after.logged(where, [0, 2], [0.0, 1.0], [0.5, 0.5])
        learner.update(policy.logged(where, [0, 2], [0.0, 1.0], [0.5, 0.5]))
        learner.expect_log(10, 0.2)
        assert learner.policy().version == 3

    def test_the_first_part_of_a_log_shows_where_people_are(self) -> None:
        for people, first in ((100, 25), (1000, 100), (40_000, 2000)):
            learner = kernel(first=None)
            assert learner._first_length == 100
            learner.expect_log(people, 0.2)
            assert learner.policy().projection is None
            assert learner.batch_of() == first
        learner = kernel(first=200)
        learner.expect_log(50, 0.2)
        learner.policy()
        assert learner.batch_of() == 50

    def test_a_file_goes_on_within_a_log(self, tmp_path: Path) -> None:
        learner = kernel(horizon=1000)
        serve(learner, 1)
        learner.expect_log(300, 0.2)
        for seed in range(2):
            save(learner, tmp_path / "learner.json")
            again: Any = load(tmp_path / "learner.json", copy.deepcopy(learner.noise))
            policy = learner.policy()
            assert encode(again.policy()) == encode(policy)
            assert again.batch_of() == learner.batch_of()
            where = np.random.default_rng(seed).random((150, 2))
            for each in (learner, again):
                each.update(policy.logged(where, [1] * 150, [0.5] * 150, [0.5] * 150))
            assert policy.least_propensity == 0.2
        for each in (learner, again):
            assert each.policy().least_propensity == 0.0
        assert state(again) == state(learner)

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ((-1, 0.1), "people was -1"),
            ((1.5, 0.1), "people was 1.5"),
            ((10, 0.0), "least_propensity was 0.0"),
            ((10, 0.34), r"had each of the 3 arms with at least .* at most 0\.333333\. Leave out"),
            ((2**60, 0.1), "people was"),
        ],
    )
    def test_impossible_logs_are_refused(self, given: Any, message: str) -> None:
        learner = kernel()
        with pytest.raises(InvalidInput, match=message):
            learner.expect_log(*given)
        assert learner._log == (0, 0.0, 0)


def test_contributions_beyond_the_bound_add_nothing() -> None:
    """Not even to a cell or a column's bin."""
    sums = []
    for contexts in ([[0.1, 0.2], [0.9, 0.9]], [[0.1, 0.2], [0.4, 0.1]]):
        learner = kernel(budget=Joint(4.0, 1e-5, max_contributions=1))
        policy = learner.policy()
        actions, _ = policy.act(np.array(contexts), np.random.default_rng(0))
        report = policy.report(np.array(contexts), actions, [1.0, 1.0], SimulatedNoise(0))
        learner.update(report, ["ann", "ann"])
        sums.append(learner._sums.epochs[0])
    assert sums[0].people == 2
    assert np.array_equal(sums[0].total, sums[1].total)
    assert sums[0].total.sum() == 2.5 * RESOLUTION


def test_ranks_follow_where_people_are() -> None:
    policies = serve(kernel(unit_cube(3), Joint(8.0, 1e-5), first=400), epochs=2)
    ranks = policies[-1].ranks(np.full((1, 3), 0.125))
    assert (ranks > 0.3).all()  # half of all people are below an eighth
    assert np.array_equal(policies[0].ranks(np.full((1, 3), 0.125)), np.full((1, 3), 0.125))


def test_noise_alone_seldom_makes_a_column_crowded() -> None:
    """Uniform contexts, with the noise of epsilon 1 on 192 people in 32 bins.

    A draw is crowded with probability about .016, and 8 of 40 are with less than 1e-6.
    """
    rng = np.random.default_rng(0)
    variance = 6.0 + 8.45**2
    crowded = 0
    for _ in range(40):
        found = _smoothed(rng.poisson(6.0, 32) + 8.45 * rng.standard_normal(32), variance)
        shares = np.maximum(found, 0.3)
        crowded += np.sort(shares)[::-1][:16].sum() > 0.7 * shares.sum()
    assert crowded < 8
    # Counts with little noise are kept, and the total always is.
    corner = np.where(np.arange(32) < 4, 400.0, 0.0)
    assert np.allclose(_smoothed(corner, 10.0), corner, atol=2.0)
    assert _smoothed(corner, 1e9).tolist() == [50.0] * 32


@pytest.mark.parametrize(
    "change",
    [
        lambda total: np.append(total, 0),
        lambda total: total.astype(float),
        lambda total: np.where(np.arange(len(total)) == 0, 2**40, total),
        lambda total: np.where(np.arange(len(total)) == len(total) - 1, -1, total),
        lambda total: total + int(RESOLUTION),
    ],
    ids=["longer", "not whole", "too large", "below zero", "more than people"],
)
def test_sums_that_no_people_add_up_to_are_refused(change: Any) -> None:
    policy = served()[-1]
    rows = policy.contributions(*records(policy.domain))[:5]
    policy.check_sum(EpochSum(5, rows.sum(axis=0)))
    with pytest.raises(InvalidInput, match="contributions of"):
        policy.check_sum(EpochSum(5, change(rows.sum(axis=0))))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget": Joint(1.0, 0.0)}, "give a delta above 0"),
        ({"domain": unit_cube(40)}, "takes at most 32"),
        ({"first": 0}, "first was 0"),
    ],
)
def test_what_it_cannot_do_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        kernel(**options)


def test_predictions_and_values_are_of_the_rewards() -> None:
    learner = kernel(budget=Joint(8.0, 1e-5))
    serve(learner, 5)
    mean, deviation = learner.predict([[0.05, 0.05]])
    assert mean.argmax() == 2
    assert (np.abs(mean - [[0.2, 0.5, 0.8]]) < 5.0 * deviation + 0.05).all()
    worth = learner.value(2)
    assert worth.lower < 0.8 < worth.upper + 0.05


def test_units_of_a_range_leave_the_likelihood_as_it_is() -> None:
    """Of functions theta = u e + w theta', whose constant is the first feature of each arm."""
    rng = np.random.default_rng(0)
    root, weighted = rng.standard_normal((6, 6)), rng.standard_normal(6)
    given = GaussianNaturalParameters(root @ root.T, weighted)
    found = _in_units(given, 2, (0.25, 0.5))

    def log_likelihood(known: GaussianNaturalParameters, theta: FloatArray) -> float:
        return float(known.weighted @ theta - 0.5 * theta @ known.precision @ theta)

    inside = rng.standard_normal((2, 6))
    whole = -0.25 * np.tile([1.0, 0.0, 0.0], 2) + 0.25 * inside
    differences = [
        log_likelihood(known, at[0]) - log_likelihood(known, at[1])
        for known, at in ((given, inside), (found, whole))
    ]
    assert differences[0] == pytest.approx(differences[1])
    back = _in_units(found, 2, (-1.0, 3.0))
    assert np.allclose(back.precision, given.precision)
    assert np.allclose(back.weighted, weighted)


def clipped(rewards: FloatArray, epochs: int = 3, **options: Any) -> JointKernel:
    """A learner whose people have these rewards in turn, whatever their arms."""
    learner = kernel(budget=Joint(8.0, 1e-5), first=2000, horizon=None, **options)
    rng = np.random.default_rng(0)
    for _ in range(epochs):
        policy = learner.policy()
        contexts = rng.random((learner.batch_size, 2))
        actions, _ = policy.act(contexts, rng)
        given = np.resize(rewards, len(contexts))
        learner.update(policy.report(contexts, actions, given, SimulatedNoise(0)))
    learner.policy()
    return learner


@pytest.mark.parametrize(
    ("rewards", "expected"),
    [
        # Rewards of 0 and 1 are never clipped, however rare one of them is.
        ([0.0, 1.0], (0.0, 1.0)),
        ([0.0] * 24 + [1.0], (0.0, 1.0)),
        # All below a sixteenth; all near the middle; few who spend, and nothing is said of others.
        (np.linspace(0.01, 0.06, 50), (0.0, 1 / 16)),
        (np.linspace(0.52, 0.6, 50), (3 / 8, 3 / 4)),
        ([0.0] * 9 + [0.2], (0.0, 1 / 4)),
    ],
)
def test_rewards_are_clipped_to_where_they_are(rewards: Any, expected: tuple[float, float]) -> None:
    """Of the quickest learner; test_tails_grow_before_a_range_does has the kernel."""
    check_clipping(clipped(np.asarray(rewards), name="best_arm"), rewards, expected)


def check_clipping(learner: JointKernel, rewards: Any, expected: tuple[float, float]) -> None:
    """The noise has a fixed seed, and the share of a bin a deviation below .005."""
    assert learner.clipping_range == expected
    assert learner._policies[-1].clipping_range == expected
    mean, deviation = learner.predict([[0.5, 0.5]])
    assert (np.abs(mean - np.mean(rewards)) < 4.0 * deviation + 0.05).all()
    worth = learner.value()
    assert worth.lower - 0.02 < np.mean(rewards) < worth.upper + 0.02


def test_tails_grow_before_a_range_does() -> None:
    rewards = np.linspace(0.01, 0.06, 50)
    learner = clipped(rewards)
    check_clipping(learner, rewards, (0.0, 1 / 16))
    policy = learner._policies[-1]
    rewards = np.where(np.arange(200) % 5 == 0, 0.9, 0.05)
    made = policy.contributions(np.full((200, 2), 0.5), np.zeros(200, dtype=np.int64), rewards)
    # Clipped rewards count as the end of the range, in the first block alone.
    assert np.array_equal(
        *(
            policy.contributions(
                np.full((1, 2), 0.5), np.zeros(1, dtype=np.int64), np.array([each])
            )[:, : policy.directions]
            for each in (1 / 16, 0.9)
        )
    )
    assert made[:, -len(_EDGES) + 1 :].sum() == 200 * policy.reward_weight * RESOLUTION > 0
    for _ in range(3):
        contexts = np.random.default_rng(1).random((learner.batch_size, 2))
        policy = learner.policy()
        actions, _ = policy.act(contexts, np.random.default_rng(2))
        given = np.resize([0.05, 0.05, 0.9], len(contexts))
        learner.update(policy.report(contexts, actions, given, SimulatedNoise(0)))
    learner.policy()
    assert learner.clipping_range[1] > 0.8
    entered = learner.guarantee().data
    assert entered[0] == DATA
    assert entered[1] == f"{DATA}, clipped to [0, 0.0625]"


def test_a_policy_states_its_range_in_units_of_rewards() -> None:
    bounds = RewardBounds(-10.0, 190.0)
    policy = replace(served()[-1], clipping_range=(0.25, 0.75), reward_bounds=bounds)
    assert policy.clipped_to == (40.0, 140.0)
    assert policy.entering == f"{DATA}, clipped to [40, 140]"
    assert replace(policy, clipping_range=(0.0, 1.0)).clipped_to is None


@pytest.mark.parametrize("given", [(0.5, 0.5), (-0.1, 1.0), (0.0, 1.5)])
def test_a_policy_with_another_range_is_refused(given: tuple[float, float]) -> None:
    with pytest.raises(InvalidInput, match="a range within"):
        replace(served()[-1], clipping_range=given)


class Corner:
    """Contexts, all in the corner [0, side]^2, and the means of `ExponentialMeans` there."""

    side = 0.05

    def __call__(self, people: int, rng: np.random.Generator) -> FloatArray:
        return self.side * rng.random((people, 2))

    def means(self, unit: FloatArray) -> FloatArray:
        return ExponentialMeans(ARMS)(unit / self.side)


@pytest.mark.slow
def test_people_in_a_corner_of_the_box_are_found() -> None:
    """Where a learner that takes contexts as uniform does little better than chance."""
    problem = SyntheticProblem(Corner().means, Corner(), 2, ARMS, "a corner")
    lost = simulate(problem, Setting("kernel", "kernel", Joint(1.0, 1e-6)), 20_000, 5, 0)
    assert lost.record.value < 1500.0  # of 8,278 by uniform choice


@pytest.mark.parametrize(
    ("name", "arms", "horizon", "second"),
    [
        ("kernel", 12, 4_000, 400),
        ("kernel", 12, None, 600),
        ("kernel", 10, None, 20),
        ("best_arm", 12, None, 20),
    ],
)
def test_epochs_of_many_arms_are_longer(
    name: str, arms: int, horizon: int | None, second: int
) -> None:
    """The noise of a release does not depend on its number of people."""
    learner = kernel(name=name, arms=arms, horizon=horizon, first=20)
    serve(learner, epochs=1)
    assert learner.batch_size == second
