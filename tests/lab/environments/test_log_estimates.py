"""What is estimated from a log, and what is said where it tells little."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.lab.environments.log_worlds import means, world

from discreet.lab.environments.log_estimates import estimate
from discreet.lab.environments.logs import Log
from discreet.validation import InvalidInput


@pytest.fixture(scope="module")
def uneven() -> Log:
    return world(900, 4.0, np.random.default_rng(5))


def test_an_even_log_needs_no_model_of_its_choices_and_no_warning(
    rng: np.random.Generator,
) -> None:
    log = world(900, 0.0, rng)
    estimated = estimate(log, ("ridge",))
    assert estimated.warnings == ()
    assert (estimated.estimates.likely == 1.0 / 3.0).all()
    assert log.propensities is not None
    np.testing.assert_array_equal(estimated.estimates.propensities, log.propensities)
    for arm, truth in enumerate(means(log.contexts).mean(axis=0)):
        value = estimated.estimates.value(arm, resamples=100)
        assert abs(value.mean - truth) < 4.0 * value.standard_error


def test_where_propensities_are_estimated_that_is_said(uneven: Log) -> None:
    estimated = estimate(replace(uneven, propensities=None), ("ridge",))
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
    estimated = estimate(replace(log, actions=actions, propensities=None), ())
    assert estimated.estimates.propensities.min() == 0.01
    assert "were so small that they were raised" in estimated.warnings[1]
    assert "% of people are unlike those who were given 'none' (less than once in 15" in str(
        estimated.warnings
    )


def test_propensities_of_something_else_are_noticed(uneven: Log) -> None:
    """Too large, or the same for everybody where they were not."""
    assert uneven.propensities is not None
    fitting = str(estimate(uneven, ()).warnings)
    assert "do not fit how often it was taken" not in fitting
    for wrong in (np.sqrt(uneven.propensities), np.full(900, 0.9)):
        said = str(estimate(replace(uneven, propensities=wrong), ()).warnings)
        assert "do not fit how often it was taken: their inverses add up to" in said


def test_little_support_is_said(uneven: Log) -> None:
    few = replace(
        uneven,
        propensities=np.where(uneven.actions == 2, 0.02, uneven.propensities),
        actions=np.where((uneven.actions == 2) & (np.arange(900) % 4 > 0), 1, uneven.actions),
    )
    said = str(estimate(few, ()).warnings)
    assert "would give everyone is known only as well as from" in said


def test_arms_hardly_ever_taken_are_refused(uneven: Log) -> None:
    actions = np.where(np.arange(900) < 7, 1, 0)
    with pytest.raises(InvalidInput, match=r"was taken 7 times, .* was taken 0 times in the log"):
        estimate(replace(uneven, actions=actions))
