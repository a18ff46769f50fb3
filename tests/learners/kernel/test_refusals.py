"""Calls that the kernel bandit refuses, and the messages."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from discreet.learners.kernel.cells import Ranks
from discreet.learners.kernel.learner import LocalKernel
from discreet.learners.registry import make_learner
from discreet.people.domain import Box, unit_cube
from discreet.privacy import Joint, Local
from tests.refusals import CheckRefusals, Refused

LINE, AGES = unit_cube(1), Box((18.0, 0.0), (90.0, 1.0))
SETTINGS: list[tuple[Any, Any, Any, dict[str, Any], str]] = [
    (unit_cube(33), 2, Local(1.0), {}, "at most 32"),
    (LINE, 1, Local(1.0), {}, "arms"),
    (LINE, 2.0, Local(1.0), {}, "arms"),
    ([[0, 1]], 2, Local(1.0), {}, "domain"),
    (LINE, 2, Joint(1.0, 1e-6), {}, "trust model"),
    (LINE, 2, 1.0, {}, "budget"),
    (LINE, 2, Local(1.0, 1e-6), {}, "without delta"),
    (LINE, 2, Local(1.0), {"batch": 0}, "batch"),
    (LINE, 2, Local(1.0), {"batch": 2.5}, "batch"),
    (LINE, 2, Local(1.0), {"growth": 0.0}, "growth"),
    (LINE, 2, Local(1.0), {"growth": math.nan}, "growth"),
    (LINE, 2, Local(1.0), {"kernel": "RBF([1.0, 1.0])"}, "kernel"),
    (LINE, 2, Local(1.0), {"kernel": "smooth"}, "kernel"),
    (LINE, 2, Local(1.0), {"reward_noise": 0.0}, "reward_noise"),
]
STUDY_OPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"grwth": 0.1}, "grwth"),
    ({"batch": "many"}, "batch"),
    ({"growth": True}, "growth"),
    ({"reward_noise": "little"}, "reward_noise"),
]
CONTEXTS: list[Any] = [[[10.0, 0.0]], [[30.0]], [30.0, 0.0], []]
KNOTS = [[[0.0, 0.5, 0.5, 1.0]], [[0.0, 0.6, 0.5, 1.0]], [[0.1, 1.0]], [[0.0, 0.9]], [[0.0]]]


def in_study(options: dict[str, Any]) -> object:
    return make_learner("kernel", LINE, 2, Local(1.0), options=options)


def ranks(knots: list[list[float]]) -> Ranks:
    return Ranks(np.array(knots), 0, np.zeros(0, dtype=np.int64))


def test_refusals(refusals: CheckRefusals) -> None:
    learner = LocalKernel(AGES, 2, Local(1.0))
    in_study({"growth": 0.1})
    refusals(
        "kernel",
        [
            *(
                Refused(
                    f"{number}: {mentions}",
                    partial(LocalKernel, domain, arms, budget, **options),
                    mentions,
                )
                for number, (domain, arms, budget, options, mentions) in enumerate(SETTINGS)
            ),
            *(
                Refused(f"a study with {options}", partial(in_study, options), mentions)
                for options, mentions in STUDY_OPTIONS
            ),
            *(
                Refused(
                    f"predictions at {contexts}", partial(learner.predict, contexts), "contexts"
                )
                for contexts in CONTEXTS
            ),
            *(Refused(f"knots {knots}", partial(ranks, knots), "knots") for knots in KNOTS),
        ],
    )
