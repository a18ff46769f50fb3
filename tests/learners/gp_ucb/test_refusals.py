"""Calls that the two GP-UCB learners refuse, and the messages."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from discreet.kernels import FourierFeatures, feature_map
from discreet.learners.gp_ucb.learner import GPUCB
from discreet.learners.gp_ucb.policy import RowWeights
from discreet.learners.registry import make_learner
from discreet.people.domain import PublicBox, PublicSet, unit_cube
from discreet.privacy import Joint, Local, NonPrivate, SimulatedNoise, Unprotected
from discreet.validation import InvalidInput
from tests.refusals import CheckRefusals, Refused

from .cases import DOMAIN, SETS, SPACES, learner


class Uncertified(FourierFeatures):
    """Features without a certified norm."""

    def __init__(self) -> None:
        super().__init__(DOMAIN, [[1.0, 0.0]], [1.0])
        self.norm_bound: float | None = None


FITS = feature_map(RBF(), DOMAIN, error=0.1)
OPTIONS: list[tuple[Any, dict[str, Any], str]] = [
    (SETS, {"kernel": RBF() + WhiteKernel()}, "WhiteKernel"),
    (SETS, {"features": feature_map(RBF(), unit_cube(3), error=0.1)}, "learner's domain"),
    (SETS, {"features": FITS, "kernel": RBF()}, "no kernel beside it"),
    (PublicBox(), {"features": FITS, "kernel": "RBF([1.0, 2.0, 3.0])"}, "a domain of 2 columns"),
    (SETS, {"error": 0.0}, "error"),
    (SETS, {"public_points": [[0.5, 1.5]]}, "1.5"),
    (PublicSet.of([[0.5, 1.5]]), {}, "1.5 in column"),
    (3, {}, "DecisionSets, PublicSet, PublicBox"),
]
STUDY_OPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"choose": "best"}, "choose"),
    ({"mechanism_name": "independent"}, "mechanism_name"),
    ({"growth": 1.0}, "growth"),
    ({"every": 0}, "every"),
    ({"update_growth": 1.0}, "update_growth"),
    ({"reward_weight": 0.0}, "reward_weight"),
    ({"confidence_multiplier": -1.0}, "confidence_multiplier"),
    ({"prior_variance": 0.0}, "prior_variance"),
    ({"epsilon": 3.0}, "epsilon"),
]
WEIGHTS: list[dict[str, Any]] = [
    {"rewards": 0.0},
    {"rewards": math.nan},
    {"off_diagonal": 1.5},
    {"off_diagonal": math.nan},
    {"centre": -0.1},
    {"centre": 1.1},
]
POINTS: list[Any] = [[[0.5, 1.5]], [[np.nan, 0.5]], [[0.5]], [0.5, 0.5]]


def in_study(options: dict[str, Any]) -> object:
    return make_learner("gp_ucb", DOMAIN, SETS, NonPrivate(), options=options)


def uncertified(space: Any, budget: Any) -> object:
    return GPUCB(DOMAIN, space, budget, features=Uncertified(), noise=SimulatedNoise(0))


def test_unknown_calibrations_are_refused() -> None:
    """Messages list the calibrations whose modules are imported, so they are in no table."""
    with pytest.raises(InvalidInput, match="one of posterior"):
        in_study({"calibration": "guess"})
    with pytest.raises(InvalidInput, match="pass one such as PosteriorBonus"):
        GPUCB(DOMAIN, SETS, NonPrivate(), calibration="posterior")  # type: ignore[typeddict-item]


def test_refusals(refusals: CheckRefusals) -> None:
    joint, model = Joint(1.0, 1e-5), learner().model
    noises: list[Any] = [Unprotected(), "noise", 3, None]
    refusals(
        "gp_ucb",
        [
            *(
                Refused(
                    f"{type(space).__name__} {list(options)}: {mentions}",
                    partial(GPUCB, DOMAIN, space, NonPrivate(), **options),
                    mentions,
                )
                for space, options, mentions in OPTIONS
            ),
            *(
                Refused(f"{name}, {budget}", partial(uncertified, space, budget), "norm_bound")
                for name, space in SPACES.items()
                for budget in (joint, NonPrivate())
            ),
            *(
                Refused(f"a study with {options}", partial(in_study, options), mentions)
                for options, mentions in STUDY_OPTIONS
            ),
            *(
                Refused(
                    f"noise {noise!r}",
                    partial(GPUCB, DOMAIN, SETS, joint, kernel="RBF(1.0)", noise=noise),
                    "noise",
                )
                for noise in noises
            ),
            Refused("rows without a delta", partial(learner, budget=Local(1.0)), "delta was 0"),
            *(
                Refused(f"row weights {each}", partial(RowWeights, **each), next(iter(each)))
                for each in WEIGHTS
            ),
            *(Refused(f"points {each}", partial(model.predict, each), "") for each in POINTS),
        ],
    )
