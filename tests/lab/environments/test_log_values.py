"""Doubly robust values: right if either model is; intervals cover as often as they say.

What is estimated from a log, and what is said where it tells little.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import t
from tests.lab.environments.log_worlds import DOMAIN, chosen_with, means, world

from discreet.lab.environments.log_values import (
    ESTIMATORS,
    FEWEST_BEHIND,
    Estimates,
    behind_interval,
    estimate,
    interval,
    likely_actions,
    normalised_terms,
    reward_models,
    split,
)
from discreet.lab.environments.logs import Log
from discreet.people.domain import Box
from discreet.validation import InvalidInput


def estimates_of(log: Log, expected: np.ndarray, propensities: np.ndarray) -> Estimates:
    people = np.arange(len(log))
    likely = np.full(expected.shape, 1.0 / 3.0)
    return Estimates(log.actions, log.rewards, propensities, people, expected, likely)


@pytest.fixture
def log(rng: np.random.Generator) -> Log:
    return world(30_000, 2.0, rng)


class TestDoublyRobust:
    """Five standard errors; with fixed seeds."""

    @pytest.mark.parametrize("wrong", ["rewards", "propensities", "both"])
    @pytest.mark.parametrize("arm", [0, 1, 2])
    def test_either_model_is_enough(self, log: Log, wrong: str, arm: int) -> None:
        """And both wrong are found out, so that the test can fail."""
        assert log.propensities is not None
        truth = means(log.contexts)
        expected = truth if wrong == "propensities" else truth[:, [1, 2, 0]]
        propensities = log.propensities if wrong == "rewards" else np.full(len(log), 1.0 / 3.0)
        value = estimates_of(log, expected, propensities).value(arm, resamples=100)
        away = abs(value.mean - truth[:, arm].mean()) / value.standard_error
        if wrong == "both":
            assert arm < 2 or away > 10.0
        else:
            assert away < 5.0
            assert value.standard_error < 0.02

    def test_right_models_make_narrower_intervals(self, log: Log) -> None:
        assert log.propensities is not None
        errors = [
            estimates_of(log, expected, log.propensities).value(2, resamples=100).standard_error
            for expected in (means(log.contexts), np.zeros((len(log), 3)))
        ]
        assert errors[0] < 0.9 * errors[1]

    def test_the_sum_for_each_person(self) -> None:
        estimates = Estimates(
            actions=np.array([0, 1]),
            rewards=np.array([1.0, 0.0]),
            propensities=np.array([0.5, 0.25]),
            people=np.array([0, 1]),
            expected=np.array([[0.6, 0.2], [0.3, 0.4]]),
            likely=np.array([[0.5, 0.5], [0.95, 0.05]]),
        )
        np.testing.assert_allclose(estimates.outcomes, [[1.4, 0.2], [0.3, -1.2]])
        assert estimates.value([0, 1]).mean == pytest.approx(0.1)
        mixed = estimates.value([[0.5, 0.5], [1.0, 0.0]])
        assert mixed.mean == pytest.approx(0.55)
        assert mixed.effective == pytest.approx(1.0)
        assert (mixed.lower, mixed.upper) == (None, None)
        assert mixed.hardly == 0.0
        second = estimates.value(1)
        assert (second.effective, second.hardly) == (pytest.approx(1.0), 0.5)
        difference = estimates.value([0, 1], instead_of=1)
        assert difference.mean == pytest.approx(0.6)
        assert "hardly ever" in second.sentence
        assert "hardly ever" not in mixed.sentence

    def test_choices_that_do_not_fit(self, log: Log) -> None:
        estimates = estimates_of(log, means(log.contexts), np.full(len(log), 0.5))
        for choice, text in (
            (3, "choice was 3"),
            ([0, 1], "choice had shape"),
            (np.full((len(log), 3), 0.5), "must add up to 1"),
            (np.tile([1.5, -0.5, 0.0], (len(log), 1)), "smallest entry was -0.5"),
            (np.full((len(log), 2), 0.5), "must have shape"),
        ):
            with pytest.raises(InvalidInput, match=text):
                estimates.value(choice)


class TestEstimators:
    """Formulas of Dudik, Langford and Li (2011) and of Swaminathan and Joachims (2015), by loops,
    and an independent implementation where it is installed."""

    @pytest.fixture
    def weights(self, rng: np.random.Generator) -> np.ndarray:
        return rng.dirichlet([0.4, 0.4, 0.4], 500)

    def test_each_is_its_formula(self, rng: np.random.Generator, weights: np.ndarray) -> None:
        log = world(500, 2.0, rng)
        assert log.propensities is not None
        estimates = estimates_of(log, rng.random((500, 3)), log.propensities)
        weighted, total, robust = 0.0, 0.0, 0.0
        for row in range(500):
            arm, reward = int(log.actions[row]), float(log.rewards[row])
            ratio = weights[row, arm] / log.propensities[row]
            weighted, total = weighted + ratio * reward, total + ratio
            expected = estimates.expected[row]
            robust += sum(weights[row, k] * expected[k] for k in range(3))
            robust += ratio * (reward - expected[arm])
        wanted = {"ipw": weighted / 500, "snipw": weighted / total, "dr": robust / 500}
        for estimator in ESTIMATORS:
            value = estimates.value(weights, resamples=100, estimator=estimator)
            assert value.mean == pytest.approx(wanted[estimator], abs=1e-12)
            assert f"by {estimator} (95% interval" in value.sentence
            less = estimates.value(
                weights, resamples=100, estimator=estimator, instead_of=weights[:, ::-1]
            )
            other = estimates.value(weights[:, ::-1], resamples=100, estimator=estimator)
            assert less.mean == pytest.approx(value.mean - other.mean, abs=1e-12)
        with pytest.raises(InvalidInput, match="estimator was 'drr'"):
            estimates.value(weights, estimator="drr")  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="all weights are 0"):
            estimates.value((log.actions + 1) % 3, estimator="snipw")

    def test_each_is_that_of_open_bandit_pipeline(
        self, rng: np.random.Generator, weights: np.ndarray
    ) -> None:
        ope = pytest.importorskip("obp.ope")
        log = world(500, 2.0, rng)
        assert log.propensities is not None
        estimates = estimates_of(log, rng.random((500, 3)), log.propensities)
        given = {
            "reward": log.rewards,
            "action": log.actions,
            "pscore": log.propensities,
            "action_dist": weights[:, :, None],
            "position": np.zeros(500, dtype=int),
            "estimated_rewards_by_reg_model": estimates.expected[:, :, None],
        }
        for estimator, reference in (
            ("ipw", ope.InverseProbabilityWeighting()),
            ("snipw", ope.SelfNormalizedInverseProbabilityWeighting()),
            ("dr", ope.DoublyRobust()),
        ):
            value = estimates.value(weights, resamples=100, estimator=estimator)
            assert value.mean == pytest.approx(reference.estimate_policy_value(**given), abs=1e-9)

    def test_the_spread_of_snipw_is_that_of_the_ratio(self, rng: np.random.Generator) -> None:
        """Shifting all rewards shifts every term, and leaves the spread as it is."""
        used, rewards = rng.exponential(size=400), rng.random(400)
        terms = normalised_terms(used, rewards)
        np.testing.assert_allclose(normalised_terms(used, rewards + 7.0), terms + 7.0)


class TestRareRewards:
    """80 arms drawn evenly, and a click in few of the rows."""

    @staticmethod
    def estimates(clicks: int, rows: int = 8000) -> Estimates:
        rewards = np.zeros(rows)
        rewards[:clicks] = 1.0
        actions = np.arange(rows) % 80
        even = np.full((rows, 80), 1.0 / 80)
        return Estimates(actions, rewards, even[:, 0], np.arange(rows), 0.004 + 0 * even, even)

    def test_fewer_than_thirty_positive_rewards_have_no_interval(self) -> None:
        even = np.full((8000, 80), 1.0 / 80)
        for estimator in ESTIMATORS:
            few = self.estimates(29).value(even, resamples=100, estimator=estimator)
            assert (few.lower, few.upper) == (None, None)
            assert "no interval: 29.0 effective rewards" in few.sentence
            assert few.mean == pytest.approx(29 / 8000, abs=1e-12)
            enough = self.estimates(30).value(even, resamples=100, estimator=estimator)
            assert enough.lower is not None
            assert enough.upper is not None
            assert 0.0 < enough.lower < enough.mean < enough.upper

    def test_clicks_that_the_policy_does_not_weigh_do_not_count(self) -> None:
        """60 of 100 rows of the arm; of all 4,000 clicks, 60."""
        assert self.estimates(4000).value(3, resamples=100).behind == pytest.approx(50.0)
        assert self.estimates(1600).value(3, resamples=100).lower is None

    def test_a_heavy_arm_without_a_click_does_not_hide(self) -> None:
        """Half of the value rests on an arm with 100 rows and no click: the clicks of the other 79
        arms, all of one weight, tell nothing of it."""
        shares = np.full((8000, 80), 0.5 / 80)
        shares[:, 79] += 0.5
        estimates = self.estimates(79)
        assert estimates.value(np.full((8000, 80), 1.0 / 80)).lower is not None
        value = estimates.value(shares, estimator="ipw")
        assert value.behind < 5.0
        assert value.lower is None

    def test_clicks_of_one_person_are_one_and_zeros_count_as_clicks_do(self) -> None:
        estimates, even = self.estimates(40), np.full((8000, 80), 1.0 / 80)
        value = replace(estimates, people=np.arange(8000) // 2).value(even)
        assert value.behind == pytest.approx(20.0)
        assert value.lower is None
        few = self.estimates(29)
        assert replace(few, rewards=1.0 - few.rewards).value(even).lower is None

    def test_intervals_cover_the_truth(self) -> None:
        """50 logs of 0.5% clicks, arms of different rates, a policy that leans; the benchmark has
        more. Three standard errors; fixed seeds."""
        rates = np.linspace(0.001, 0.009, 80)
        shares = np.linspace(0.5, 1.5, 80) / 80
        truth, covered = float(rates @ shares), []
        for seed in range(50):
            rng = np.random.default_rng(seed)
            actions = rng.integers(80, size=10_000)
            clicks = (rng.random(10_000) < rates[actions]).astype(np.float64)
            used = shares[actions] * 80
            if behind_interval(used, clicks, np.arange(10_000)) >= FEWEST_BEHIND:
                _, _, lower, upper = interval(used * clicks, np.arange(10_000), resamples=100)
                covered.append(lower <= truth <= upper)
        assert len(covered) > 45
        assert np.mean(covered) >= 0.85


class TestIntervals:
    def test_of_many_people_it_is_student_s(self, rng: np.random.Generator) -> None:
        values = rng.normal(3.0, 2.0, 4000) + 1e6
        mean, error, lower, upper = interval(values, np.arange(4000), resamples=4000)
        assert mean == pytest.approx(values.mean(), rel=1e-12)
        assert error == pytest.approx(values.std(ddof=1) / 4000**0.5, rel=1e-3)
        half = t.isf(0.025, 3999) * error
        assert (upper - mean, mean - lower) == (
            pytest.approx(half, rel=0.1),
            pytest.approx(half, rel=0.1),
        )

    def test_rows_of_one_person_count_together(self, rng: np.random.Generator) -> None:
        """Copies of rows say nothing new."""
        values = rng.normal(size=300)
        alone = interval(values, np.arange(300), seed=1)
        copies = interval(np.repeat(values, 4), np.repeat(np.arange(300), 4), seed=1)
        np.testing.assert_allclose(copies, alone, rtol=1e-9)
        wrong = interval(np.repeat(values, 4), np.arange(1200), seed=1)
        assert wrong[1] < 0.6 * alone[1]

    def test_skewed_values_have_skewed_intervals(self, rng: np.random.Generator) -> None:
        mean, _, lower, upper = interval(rng.lognormal(0.0, 1.5, 300), np.arange(300))
        assert upper - mean > 1.3 * (mean - lower)

    def test_few_people_and_values_that_do_not_differ(self) -> None:
        mean, error, lower, upper = interval([0.0, 1.0], [4, 9])
        assert (mean, error) == (0.5, 0.5)
        assert lower < 0.0 < 1.0 < upper
        assert interval(np.ones(30), np.arange(30)) == (1.0, 0.0, 1.0, 1.0)
        with pytest.raises(InvalidInput, match="needs at least two"):
            interval([1.0, 2.0], [3, 3])
        with pytest.raises(InvalidInput, match="confidence"):
            interval([1.0, 2.0], [3, 4], confidence=95)


@pytest.mark.slow
def test_intervals_cover_the_truth() -> None:
    """50 logs with uneven propensities, four values each; the benchmark has many more."""
    side = np.stack(np.meshgrid((np.arange(300) + 0.5) / 300, [0, 1, 2]), axis=-1).reshape(-1, 2)
    truth = means(side).mean(axis=0)
    covered = []
    for seed in range(50):
        log = world(600, 2.0, np.random.default_rng(seed))
        assert log.propensities is not None
        models = reward_models(log.contexts, log.actions, log.rewards, np.arange(600), DOMAIN, 3)
        estimates = estimates_of(log, models.expected, log.propensities)
        logged = chosen_with(log.contexts, 2.0)
        for choice, value in ((0, truth[0]), (1, truth[1]), (2, truth[2])):
            given = estimates.value(choice, resamples=200)
            if given.lower is not None and given.upper is not None:
                covered.append(given.lower <= value <= given.upper)
        population = (means(side) * chosen_with(side, 2.0)).sum(axis=1).mean()
        given = estimates.value(logged, resamples=200)
        assert given.lower is not None
        assert given.upper is not None
        covered.append(given.lower <= population <= given.upper)
    assert len(covered) >= 190
    assert 0.9 <= np.mean(covered) <= 0.985


@pytest.fixture(scope="module")
def uneven() -> Log:
    return world(900, 4.0, np.random.default_rng(5))


def test_an_even_log_needs_no_model_of_its_choices_and_no_warning(
    rng: np.random.Generator,
) -> None:
    log = world(900, 0.0, rng)
    estimated = estimate(log)
    assert estimated.warnings == ()
    assert (estimated.estimates.likely == 1.0 / 3.0).all()
    assert log.propensities is not None
    np.testing.assert_array_equal(estimated.estimates.propensities, log.propensities)
    for arm, truth in enumerate(means(log.contexts).mean(axis=0)):
        value = estimated.estimates.value(arm, resamples=100)
        assert abs(value.mean - truth) < 4.0 * value.standard_error


def test_where_propensities_are_estimated_that_is_said(uneven: Log) -> None:
    estimated = estimate(replace(uneven, propensities=None))
    assert "estimated by multinomial logistic regression, cross-fitted" in estimated.warnings[0]
    propensities = estimated.estimates.propensities
    assert uneven.propensities is not None
    assert propensities.min() >= 0.01
    assert np.corrcoef(propensities, uneven.propensities)[0, 1] > 0.9


def test_small_estimated_propensities_are_raised(rng: np.random.Generator) -> None:
    """Whoever is on the right was given the third arm, but for a few by mistake."""
    log = world(600, 0.0, rng)
    right = log.contexts[:, 0] > 0.5
    actions = np.where(right, 2, np.arange(600) % 2)
    actions[np.flatnonzero(right)[:4]] = 0
    estimated = estimate(replace(log, actions=actions, propensities=None))
    assert estimated.estimates.propensities.min() == 0.01
    assert "were so small that they were raised" in estimated.warnings[1]
    assert "% of people are unlike the people who were given 'none' (less than once in 15" in str(
        estimated.warnings
    )


def test_propensities_of_something_else_are_noticed(uneven: Log) -> None:
    """Too large, or the same for everybody where they were not."""
    assert uneven.propensities is not None
    fitting = str(estimate(uneven).warnings)
    assert "do not fit how often it was taken" not in fitting
    for wrong in (np.sqrt(uneven.propensities), np.full(900, 0.9)):
        said = str(estimate(replace(uneven, propensities=wrong)).warnings)
        assert "do not fit how often it was taken: their inverses add up to" in said


def test_little_support_is_said(uneven: Log) -> None:
    few = replace(
        uneven,
        propensities=np.where(uneven.actions == 2, 0.02, uneven.propensities),
        actions=np.where((uneven.actions == 2) & (np.arange(900) % 4 > 0), 1, uneven.actions),
    )
    said = str(estimate(few).warnings)
    assert "for everyone is known only as well as from" in said


def test_arms_hardly_ever_taken_are_refused(uneven: Log) -> None:
    actions = np.where(np.arange(900) < 7, 1, 0)
    with pytest.raises(InvalidInput, match=r"was taken 7 times, .* was taken 0 times in the log"):
        estimate(replace(uneven, actions=actions))


def test_all_rows_of_a_person_are_in_one_part(rng: np.random.Generator) -> None:
    people = rng.integers(0, 40, size=300)
    parts = split(people, 4, rng)
    assert all(len(set(parts[people == person])) == 1 for person in set(people))
    present = np.unique(people)
    sizes = np.bincount([parts[people == person][0] for person in present])
    assert sizes.max() - sizes.min() <= 1


def test_what_is_expected_comes_from_the_other_half(rng: np.random.Generator) -> None:
    log = world(400, 0.0, rng)
    people = np.arange(400)
    before = reward_models(log.contexts, log.actions, log.rewards, people, DOMAIN, 3, False)
    own = before.halves == 0
    changed = np.where(own, 1.0 - log.rewards, log.rewards)
    after = reward_models(log.contexts, log.actions, changed, people, DOMAIN, 3, False)
    np.testing.assert_array_equal(before.halves, after.halves)
    np.testing.assert_array_equal(before.expected[own], after.expected[own])
    assert np.abs(before.expected[~own] - after.expected[~own]).max() > 0.1


def test_models_find_steps_planes_and_constants(rng: np.random.Generator) -> None:
    contexts = rng.random((1600, 2))
    actions = np.tile([0, 1, 2], 534)[:1600]
    mean = np.stack([np.floor(2.0 * contexts[:, 0]), contexts @ [0.5, 0.5], np.full(1600, 0.5)])
    rewards = mean[actions, np.arange(1600)] + 0.1 * rng.normal(size=1600)
    people, domain = np.arange(1600), Box((0, 0), (1, 1))
    models = reward_models(contexts, actions, rewards, people, domain, 3, False)
    error = np.abs(models.expected - mean.T).mean(axis=0)
    assert (error < [0.06, 0.06, 0.04]).all()


def test_simulated_rewards_have_the_mean_expected_and_the_noise_of_the_log(
    rng: np.random.Generator,
) -> None:
    contexts = rng.random((1200, 1))
    actions = rng.integers(2, size=1200)
    # Of arm 0 rewards are 0, 1 or 2; of arm 1 they are noisier on the right.
    right = contexts[:, 0]
    of_first = rng.binomial(2, 0.2 + 0.6 * right)
    of_second = np.clip(1.0 + rng.normal(size=1200) * (0.1 + 0.4 * right), 0.0, 2.0) * right
    rewards = np.where(actions == 0, of_first, of_second).astype(np.float64)
    domain = Box((0.0,), (1.0,))
    models = reward_models(contexts, actions, rewards, np.arange(1200), domain, 2)
    rows = np.flatnonzero(models.halves == 1)
    drawn = np.stack([models.draw(rows, rng) for _ in range(400)])
    assert set(np.unique(drawn[..., 0])) == {0.0, 1.0, 2.0}
    assert 0.0 <= drawn.min() <= drawn.max() <= 2.0
    np.testing.assert_allclose(drawn.mean(axis=0), models.expected[rows], atol=0.2)
    assert abs((drawn.mean(axis=0) - models.expected[rows]).mean()) < 0.005
    spread = drawn[..., 1].std(axis=0)
    left, far = right[rows] < 0.3, right[rows] > 0.8
    assert spread[far].mean() > 2.0 * spread[left].mean()
    assert spread[far].mean() == pytest.approx(0.42, abs=0.1)


def test_rewards_of_0_and_1_are_bernoulli(rng: np.random.Generator) -> None:
    log = world(600, 0.0, rng)
    people = np.arange(600)
    models = reward_models(log.contexts, log.actions, log.rewards, people, DOMAIN, 3)
    rows = np.flatnonzero(models.halves == 0)
    drawn = np.stack([models.draw(rows, rng) for _ in range(500)])
    assert set(np.unique(drawn)) == {0.0, 1.0}
    error = np.abs(drawn.mean(axis=0) - models.expected[rows])
    assert error.max() < 5.0 * 0.5 / 500**0.5


def test_propensities_are_estimated_from_others(rng: np.random.Generator) -> None:
    log = world(1500, 2.0, rng)
    likely = likely_actions(log.contexts, log.actions, np.arange(1500), DOMAIN, 3)
    truth = chosen_with(log.contexts, 2.0)
    np.testing.assert_allclose(likely.sum(axis=1), 1.0)
    assert np.abs(likely - truth).mean() < 0.03
    assert np.abs(likely - truth).mean() < 0.4 * np.abs(truth - truth.mean(axis=0)).mean()


def test_an_arm_of_one_person_all_in_one_half(rng: np.random.Generator) -> None:
    log = world(90, 0.0, rng)
    people = np.where(log.actions == 2, 1000, np.arange(90))
    models = reward_models(log.contexts, log.actions, log.rewards, people, DOMAIN, 3, False)
    assert np.isfinite(models.expected).all()
    likely = likely_actions(log.contexts, log.actions, people, DOMAIN, 3)
    assert np.isfinite(likely).all()
    assert means(log.contexts).shape == likely.shape
