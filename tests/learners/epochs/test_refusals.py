"""Calls that epoch learners refuse, and the messages."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from discreet.codec import decode, encode, fields_from_json, fields_to_json, from_json
from discreet.learners.epochs.capri import BernsteinElimination, Capri, PosteriorElimination
from discreet.learners.epochs.features import ContextDistribution, arm_features
from discreet.learners.epochs.policy import ActionTable
from discreet.learners.epochs.sums import EpochStatistics
from discreet.learners.messages import Observations
from discreet.learners.registry import make_learner
from discreet.people.domain import ArmPoints, Box
from discreet.privacy import Joint, Local, NonPrivate, SimulatedNoise, Unprotected
from discreet.validation import InvalidInput
from tests.refusals import CheckRefusals, Refused

from .cases import DOMAIN, DOSES, SMOOTH, People, learner, observe

OTHER = ContextDistribution.grid(Box((0.0, 0.0), (1.0, 1.0), (), (2, 2)))
# Kind, options, mentioned.
OPTIONS: list[tuple[str, dict[str, Any], str]] = [
    ("posterior", {"horizon": 2}, "at least 3"),
    ("posterior", {"horizon": None}, "horizon was None"),
    ("posterior", {"budget": Joint(1.0, 0.0)}, "give a delta above 0"),
    ("posterior", {"budget": Local(1.0, 1e-5)}, "mechanism 'privunit'"),
    ("posterior", {"budget": Local(1.0), "mechanism": "gaussian"}, "mechanism 'gaussian'"),
    ("posterior", {"mechanism": "laplace"}, "one of privunit, l2_ball, gaussian"),
    ("posterior", {"reward_noise": 0.0}, "reward_noise"),
    ("posterior", {"contexts": [[1.5]]}, "bounds"),
    ("posterior", {"contexts": [[0.1]]}, "takes 5 values"),
    ("posterior", {"contexts": OTHER}, "had 2 columns, the domain 1"),
    ("posterior", {"noise": Unprotected()}, "SecureNoise"),
    ("posterior", {"arms": 1}, "arms"),
    ("usca", {"horizon": None}, "horizon"),
    ("usca", {"predictions": 0}, "predictions was 0"),
    ("usca", {"predictions": 1.5}, "predictions was 1.5"),
    ("usca", {"predictions": 10**7}, "epsilon was"),
    ("usca", {"budget": Joint(1.0, 0.0), "predictions": None}, "delta"),
    ("usca", {"design": "best"}, "design"),
]
# Name, options of a study file, mentioned.
STUDY_OPTIONS: list[tuple[str, dict[str, Any], str]] = [
    ("capri", {"failure": 0.1}, "option 'failure'"),
    ("capri", {"name": "x"}, "option 'name'"),
    ("capri", {"calibration": "bernstein", "failure": 1.0}, "failure"),
    ("capri", {"calibration": "bernstein", "norm": -1.0}, "norm"),
    ("capri", {"deviations": 0.0}, "deviations"),
    ("capri", {"design": "best"}, "design"),
    ("capri", {"contexts": {"points": [[0.0]], "exact": True}}, "had the fields"),
    ("capri", {"contexts": {"weights": [1.0, 2.0]}}, "weights"),
    ("usca", {"predictions": -1}, "predictions"),
]
# Changed fields of ten observations.
OBSERVATIONS: list[dict[str, Any]] = [
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
]
# Changed fields of the statistics of ten people.
STATISTICS: list[dict[str, Any]] = [
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
]
# Changed arguments of features.
FEATURES: list[tuple[dict[str, Any], str]] = [
    ({"kernel": "RBF([0.5, 0.5, 0.5])"}, "columns context, arm1"),
    ({"kernel": 3}, "scikit-learn kernel"),
    ({"kernel": "sin(x)"}, "is not allowed"),
    ({"likeness": 1.0}, "likeness was 1.0"),
    ({"likeness": -0.1}, "likeness was -0.1"),
    ({"likeness": "much"}, "likeness was 'much'"),
    ({"error": 0.0}, "error"),
]
# Points, weights.
DISTRIBUTIONS: dict[str, tuple[Any, Any]] = {
    "sum": ([[0.0], [1.0]], [0.5, 0.6]),
    "negative": ([[0.0], [1.0]], [1.5, -0.5]),
    "outside": ([[0.0], [1.5]], [0.5, 0.5]),
    "nan": ([[0.0], [np.nan]], [0.5, 0.5]),
    "count": ([[0.0], [1.0]], [1.0]),
    "same": ([[0.0], [1e-10]], [0.5, 0.5]),
    "none": (np.empty((0, 1)), []),
    "vector": ([0.0, 1.0], [0.5, 0.5]),
}
LEVELLED = Box((0.0, 20.0), (1.0, 60.0), (), (2, 3))
MIXED = Box((0.0, 20.0), (1.0, 60.0), (), (2, None))
CONTEXTS: list[tuple[Callable[..., object], tuple[Any, ...], str]] = [
    (ContextDistribution.grid, (MIXED,), "levels"),
    (ContextDistribution.grid, (LEVELLED, [1.0, 2.0]), "weights had"),
    (ContextDistribution.grid, (LEVELLED, [0.0] * 6), "not all 0"),
    (ContextDistribution.grid, (LEVELLED, [-1.0] + [1.0] * 5), "at least 0"),
    (ContextDistribution.sample, (MIXED, [[0.5, 30.0]]), "takes 2 values"),
    (ContextDistribution.sample, (MIXED, [[0.0, 70.0]]), "bounds"),
    (from_json, ({"points": [[0.0]]}, ContextDistribution), "weights"),
    (
        from_json,
        ({"points": [[0.0]], "weights": [1.0], "exact": 1}, ContextDistribution),
        "true or false",
    ),
]
# Probabilities of four arms in five contexts.
PROBABILITIES = {
    "sum": np.full((5, 4), 0.3),
    "arms": np.full((5, 3), 1 / 3),
    "contexts": np.full((4, 4), 0.25),
    "negative": np.tile([1.5, -0.5, 0.0, 0.0], (5, 1)),
}


def features_of(domain: Box, changes: dict[str, Any]) -> object:
    usual: dict[str, Any] = {"kernel": "RBF([0.5, 0.7])", "error": 0.01, "likeness": 0.5}
    contexts = ContextDistribution.usual(domain)
    return arm_features(domain, DOSES, contexts, **{**usual, **changes})


def distribution(points: Any, weights: Any) -> object:
    return ContextDistribution(np.array(points), np.array(weights), True)


def in_study(name: str, options: dict[str, Any], budget: Any = None) -> Any:
    budget = budget or Joint(1.0, 1e-5)
    noise = SimulatedNoise(0) if isinstance(budget, Joint) else None
    return make_learner(name, DOMAIN, DOSES, budget, horizon=100, noise=noise, options=options)


def test_refusals(refusals: CheckRefusals) -> None:
    points: list[Any] = [[0.0, 0.0], [1.0], [[0.0], [np.nan]]]
    refusals(
        "epochs",
        [
            *(
                Refused(f"{kind}: {mentions}", partial(learner, kind, **options), mentions)
                for kind, options, mentions in OPTIONS
            ),
            *(
                Refused(
                    f"{name} in a study: {mentions}", partial(in_study, name, options), mentions
                )
                for name, options, mentions in STUDY_OPTIONS
            ),
            *(Refused(f"points {each}", partial(ArmPoints.of, each), "points") for each in points),
            *(
                Refused(f"{name}: {mentions}", partial(features_of, domain, changes), mentions)
                for name, domain in {"levels": DOMAIN, "continuum": SMOOTH}.items()
                for changes, mentions in FEATURES
            ),
            *(
                Refused(f"distribution, {name}", partial(distribution, *given), "")
                for name, given in DISTRIBUTIONS.items()
            ),
            *(
                Refused(f"contexts: {mentions}", partial(make, *given), mentions)
                for make, given, mentions in CONTEXTS
            ),
            *(
                Refused(
                    f"probabilities, {name}",
                    partial(ActionTable, learner().features, each),
                    "probabilities",
                )
                for name, each in PROBABILITIES.items()
            ),
        ],
    )


def test_calibrations_of_a_study_file() -> None:
    """Messages list the calibrations whose modules are imported, so they are in no table."""
    with pytest.raises(InvalidInput, match="one of posterior, bernstein"):
        in_study("capri", {"calibration": "chance"})
    with pytest.raises(InvalidInput, match="pass one such as PosteriorElimination"):
        learner("posterior", calibration="bernstein")
    options = {"calibration": "bernstein", "failure": 0.2, "norm": 3.0, "design": "uniform"}
    made = in_study("capri", options, NonPrivate())
    assert made.calibration == BernsteinElimination(3.0, 0.2, "uniform")
    assert Capri(DOMAIN, DOSES, NonPrivate(), horizon=100).calibration == PosteriorElimination()


@pytest.mark.parametrize("change", OBSERVATIONS, ids=lambda change: str(change)[:40])
def test_impossible_observations_are_refused(change: dict[str, Any]) -> None:
    made = learner()
    good = observe(made, People(10, 1), 0, 10)
    with pytest.raises(InvalidInput):
        made.update(fields_from_json({**fields_to_json(good), **change}, Observations))
    assert made.people == 0


def ten(**options: Any) -> EpochStatistics:
    made = learner(**options)
    return made.statistics(observe(made, People(10, 1), 0, 10))


@pytest.mark.parametrize("change", STATISTICS, ids=str)
def test_damaged_statistics_are_refused(change: dict[str, Any]) -> None:
    fields = {**json.loads(encode(ten())), **change}
    with pytest.raises(InvalidInput):
        decode(json.dumps(fields), EpochStatistics)


def test_statistics_of_other_learners_do_not_add() -> None:
    longer = fields_to_json(ten())
    longer["epochs"][0][1]["total"].append(0)
    for other in (ten(budget=Local(1.0)), fields_from_json(longer, EpochStatistics)):
        with pytest.raises(InvalidInput, match="different learners"):
            ten() + other
