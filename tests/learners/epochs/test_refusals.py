"""What epoch learners refuse, and what they say."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from discreet.codec import fields_from_json, fields_to_json
from discreet.learners.epochs.capri import BernsteinElimination, Capri, PosteriorElimination
from discreet.learners.epochs.contexts import ContextDistribution
from discreet.learners.epochs.releases import EpochStatistics
from discreet.learners.messages import Observations
from discreet.learners.registry import make_learner
from discreet.learners.schema import decode, encode
from discreet.people.domain import ArmPoints
from discreet.privacy import Joint, Local, NonPrivate, SimulatedNoise, Unprotected
from discreet.validation import InvalidInput

from .cases import DOMAIN, DOSES, SMOOTH, People, learner, observe

JOINT = Joint(1.0, 1e-5)


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("thompson", {"horizon": 10}, "longer horizon"),
        ("posterior", {"horizon": 2}, "at least 3"),
        ("posterior", {"horizon": None}, "horizon was None"),
        ("thompson", {"budget": Joint(1.0, 0.0)}, "give a delta above 0"),
        ("posterior", {"budget": Joint(1.0, 0.0)}, "give a delta above 0"),
        ("thompson", {"budget": Local(1.0, 1e-5)}, "mechanism 'privunit'"),
        ("thompson", {"budget": Local(1.0), "mechanism": "gaussian"}, "mechanism 'gaussian'"),
        ("thompson", {"mechanism": "laplace"}, "one of privunit, l2_ball, gaussian"),
        ("thompson", {"deviations": 0.0}, "deviations"),
        ("plausible", {"deviations": -1.0}, "deviations"),
        ("plausible", {"domain": SMOOTH}, "finite set"),
        ("thompson", {"sampling": "chance"}, "sampling was 'chance'"),
        ("thompson", {"reward_noise": 0.0}, "reward_noise"),
        ("thompson", {"contexts": [[1.5]]}, "bounds"),
        ("thompson", {"contexts": [[0.1]]}, "takes 5 values"),
        ("thompson", {"noise": Unprotected()}, "SecureNoise"),
        ("thompson", {"arms": 1}, "arms"),
    ],
    ids=str,
)
def test_options(kind: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        learner(kind, **options)


def test_a_distribution_for_other_columns() -> None:
    from discreet.people.domain import Box

    other = ContextDistribution.grid(Box((0.0, 0.0), (1.0, 1.0), (), (2, 2)))
    with pytest.raises(InvalidInput, match="had 2 columns, the domain 1"):
        learner(contexts=other)


@pytest.mark.parametrize("points", [[0.0, 0.0], [1.0], [[0.0], [np.nan]]], ids=str)
def test_arm_points(points: Any) -> None:
    with pytest.raises(InvalidInput):
        ArmPoints.of(points)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("capri", {"calibration": "chance"}, "one of posterior, bernstein"),
        ("capri", {"failure": 0.1}, "option 'failure'"),
        ("capri", {"name": "x"}, "option 'name'"),
        ("capri", {"calibration": "bernstein", "failure": 1.0}, "failure"),
        ("capri", {"calibration": "bernstein", "norm": -1.0}, "norm"),
        ("capri", {"deviations": 0.0}, "deviations"),
        ("capri", {"design": "best"}, "design"),
        ("capri", {"contexts": {"points": [[0.0]], "exact": True}}, "had the fields"),
        ("capri", {"contexts": {"weights": [1.0, 2.0]}}, "weights"),
        ("released_thompson", {"factor": 1.0}, "option 'factor'"),
        ("usca", {"predictions": -1}, "predictions"),
    ],
    ids=str,
)
def test_options_of_a_study_file(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        make_learner(
            name, DOMAIN, DOSES, JOINT, horizon=100, noise=SimulatedNoise(0), options=options
        )


def test_rules_of_a_study_file() -> None:
    made = make_learner(
        "capri",
        DOMAIN,
        DOSES,
        NonPrivate(),
        horizon=100,
        options={"calibration": "bernstein", "failure": 0.2, "norm": 3.0, "design": "uniform"},
    )
    assert isinstance(made, Capri)
    assert made.calibration == BernsteinElimination(3.0, 0.2, "uniform")
    assert Capri(DOMAIN, DOSES, NonPrivate(), horizon=100).calibration == PosteriorElimination()
    with pytest.raises(InvalidInput, match="calibration"):
        Capri(DOMAIN, DOSES, NonPrivate(), horizon=100, calibration="bernstein")  # type: ignore[arg-type]


class TestPeople:
    @pytest.mark.parametrize(
        "change",
        [
            {"rewards": [1.5] * 10},
            {"rewards": [float("nan")] * 10},
            {"rewards": [0.5] * 9},
            {"arms": [4] * 10},
            {"arms": [-1] * 10},
            {"arms": [0.5] * 10},
            {"contexts": [[0.1]] * 10},
            {"contexts": [[1.25]] * 10},
            {"contexts": [[0.0, 0.0]] * 10},
            {"contexts": [0.0] * 10},
            {"contexts": [], "arms": [], "rewards": []},
        ],
        ids=lambda change: str(change)[:40],
    )
    def test_observations_that_no_policy_makes(self, change: dict[str, Any]) -> None:
        made = learner()
        good = observe(made, People(10, 1), 0, 10)
        with pytest.raises(InvalidInput):
            made.update(fields_from_json({**fields_to_json(good), **change}, Observations))
        assert made.people == 0


class TestStatistics:
    def sums(self) -> Any:
        made = learner()
        return made.statistics(observe(made, People(10, 1), 0, 10))

    @pytest.mark.parametrize(
        "change",
        [
            {"exact": True},
            {"epochs": [[0, {"people": 9, "total": [0]}]]},
            {"epochs": [[0, {"people": -10, "total": [0]}]]},
            {"epochs": [[0, {"people": 10, "total": [0]}], [1, {"people": 0, "total": [0]}]]},
            {"epochs": [[-1, {"people": 10, "total": [0]}]]},
            {"epochs": [[0, {"people": 5, "total": [0]}], [0, {"people": 5, "total": [0]}]]},
            {"epochs": []},
            {"epochs": [[0, {"people": 10, "total": [2**70]}]]},
            {"reports": 11},
            {"noise": ["mine"]},
        ],
        ids=str,
    )
    def test_damaged_ones_are_refused(self, change: dict[str, Any]) -> None:
        fields = {**json.loads(encode(self.sums())), **change}
        with pytest.raises(InvalidInput):
            decode(json.dumps(fields), EpochStatistics)

    def test_plain_and_private_ones_do_not_add(self) -> None:
        other = learner(budget=Local(1.0))
        private = other.statistics(observe(other, People(10, 1), 0, 10))
        with pytest.raises(InvalidInput, match="different learners"):
            self.sums() + private

    def test_sums_of_different_sizes_do_not_add(self) -> None:
        fields = fields_to_json(self.sums())
        fields["epochs"][0][1]["total"].append(0)
        with pytest.raises(InvalidInput, match="numbers"):
            self.sums() + fields_from_json(fields, EpochStatistics)
