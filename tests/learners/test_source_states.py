"""What a learner accepts of its sources: reports with noise, and epsilons that it can use."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discreet.codec import decode, encode
from discreet.learners.policy import LEAST_EPSILON, MOST_EPSILON, Policy, Terms
from discreet.learners.saving import load, save
from discreet.people.domain import RewardBounds
from discreet.privacy import SecureNoise, SimulatedNoise
from discreet.validation import InvalidInput

from .contract import ARMS, BOUNDS, DOMAIN, Row, state, visit
from .source_scene import SourceRow, serve, teach, told
from .test_source_contract import PARAMETERS


@pytest.fixture(params=PARAMETERS)
def row(request: pytest.FixtureRequest) -> SourceRow:
    return request.param


@pytest.fixture
def learner(row: SourceRow) -> Any:
    """One that heard from a source and its target; a copy of one that heard once."""
    return copy.deepcopy(heard(row))


@cache
def heard(row: SourceRow) -> Any:
    learner = row.fresh(bank=2.0, silent=3.0)
    teach(learner, "bank")
    serve(learner, 1)
    learner.policy("silent")
    return learner


@pytest.mark.parametrize("name", ["made up", None, ["x"], "none"], ids=str)
def test_reports_with_a_noise_that_cannot_be_true_change_nothing(
    learner: Any, name: object
) -> None:
    good = told(learner.policy("bank"), 5, 7)
    target = visit(Row(lambda: learner), learner.policy(), 4, 7)
    sums, before = learner.statistics(target), state(learner)
    calls = [lambda: learner.update([good, replace(good, noise=name)])]
    # A target whose reports are data takes them without noise.
    if name != "none" or learner.budget.is_local:
        calls += [
            lambda: learner.update([target, replace(target, noise=name)]),
            lambda: learner.merge(replace(sums, noise=(name,))),
        ]
    for call in calls:
        with pytest.raises(InvalidInput, match="noise"):
            call()
        assert state(learner) == before
    learner.update([good, target])


class TestEpsilons:
    def test_extreme_ones_are_refused(self, row: SourceRow) -> None:
        learner = row.fresh(bank=1.0)
        fields = json.loads(encode(learner.policy("bank")))
        for epsilon in (1e-320, 1e-200, 0.99 * LEAST_EPSILON, 1.01 * MOST_EPSILON, 1e308):
            with pytest.raises(InvalidInput, match=r"epsilon of a source was .* must be from"):
                learner.open_source("far", epsilon)
            with pytest.raises(InvalidInput, match=r"epsilon of a source was .* must be from"):
                decode(json.dumps({**fields, "epsilon": epsilon}), Policy)
        assert learner.sources == ("bank",)

    @pytest.mark.filterwarnings("error")
    @pytest.mark.parametrize("epsilon", [LEAST_EPSILON, MOST_EPSILON])
    def test_the_ends_can_be_computed_with(
        self, row: SourceRow, epsilon: float, tmp_path: Path
    ) -> None:
        learner = row.fresh(bank=epsilon)
        teach(learner, "bank")
        serve(learner, 1)
        chances = learner.policy().probabilities(np.array([DOMAIN.lower, DOMAIN.upper]))
        assert np.allclose(chances.sum(axis=1), 1.0)
        save(learner, tmp_path / "learner.json")
        assert state(load(tmp_path / "learner.json", learner.noise)) == state(learner)

    @pytest.mark.chance(0)
    @pytest.mark.parametrize("epsilon", [0.1, 0.3, 0.7, 3.3])
    def test_no_more_is_held_than_promised(self, row: SourceRow, epsilon: float) -> None:
        """To the last bit, with the sampler that people use and the terms that they agree to."""
        pytest.importorskip("opendp")
        learner = row.fresh(bank=epsilon)
        policy = decode(encode(learner.policy("bank")), Policy)
        terms = Terms(DOMAIN, ARMS, epsilon, BOUNDS)
        middle = np.mean([DOMAIN.lower, DOMAIN.upper], axis=0)[None, :]
        reports = policy.report(middle, [0], [BOUNDS.lower], SecureNoise(), terms)
        learner.update(reports)
        assert learner.streams["bank"].guarantee().epsilon <= epsilon

    def test_terms_are_about_the_noise_that_is_used(self, row: SourceRow) -> None:
        """A sampler that holds more than the formulas say is found out before it draws."""
        policy = row.fresh(bank=1.0).policy("bank")
        terms = Terms(DOMAIN, ARMS, 1.0, BOUNDS)
        asked = []

        def release(noise: str) -> Any:
            asked.append(noise)
            return type(policy).release(policy, noise)

        object.__setattr__(policy, "release", release)
        people = np.mean([DOMAIN.lower, DOMAIN.upper], axis=0)[None, :], [0], [BOUNDS.lower]
        policy.report(*people, SimulatedNoise(0), terms)
        assert asked == [SimulatedNoise.name]
        with pytest.raises(InvalidInput, match="reward_bounds"):
            replace(terms, reward_bounds=RewardBounds(-9.0, 9.0)).check(policy)
