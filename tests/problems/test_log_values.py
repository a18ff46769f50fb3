"""Doubly robust values: right if either model is; intervals cover as often as they say."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t
from tests.problems.log_worlds import DOMAIN, chosen_with, means, world

from discreet.problems.log_models import KINDS, reward_models
from discreet.problems.log_values import Estimates, interval
from discreet.problems.logs import Log
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

    @pytest.mark.parametrize("wrong", ["rewards", "propensities"])
    @pytest.mark.parametrize("arm", [0, 1, 2])
    def test_either_model_is_enough(self, log: Log, wrong: str, arm: int) -> None:
        assert log.propensities is not None
        truth = means(log.contexts)
        expected = truth[:, [1, 2, 0]] if wrong == "rewards" else truth
        propensities = log.propensities
        if wrong == "propensities":
            propensities = np.full(len(log), 1.0 / 3.0)
        value = estimates_of(log, expected, propensities).value(arm, resamples=100)
        assert abs(value.mean - truth[:, arm].mean()) < 5.0 * value.standard_error
        assert value.standard_error < 0.02

    def test_both_wrong_is_wrong(self, log: Log) -> None:
        """So that the test above can fail."""
        expected = means(log.contexts)[:, [1, 2, 0]]
        value = estimates_of(log, expected, np.full(len(log), 1.0 / 3.0)).value(2, resamples=100)
        assert abs(value.mean - means(log.contexts)[:, 2].mean()) > 10.0 * value.standard_error

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
        log = world(300, 2.0, np.random.default_rng(seed))
        assert log.propensities is not None
        models = reward_models(
            log.contexts, log.actions, log.rewards, np.arange(300), DOMAIN, 3, KINDS[: seed % 2]
        )
        estimates = estimates_of(log, models.expected, log.propensities)
        logged = chosen_with(log.contexts, 2.0)
        for choice, value in ((0, truth[0]), (1, truth[1]), (2, truth[2])):
            said = estimates.value(choice, resamples=200)
            covered.append(said.lower <= value <= said.upper)
        population = (means(side) * chosen_with(side, 2.0)).sum(axis=1).mean()
        said = estimates.value(logged, resamples=200)
        covered.append(said.lower <= population <= said.upper)
    assert len(covered) == 200
    assert 0.9 <= np.mean(covered) <= 0.985
