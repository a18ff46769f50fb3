"""Every kind of value that travels: written and read alike, and damaged in any place.

One example of each class stands for it. What is damaged is refused with `InvalidInput`, or read as
a value that is written and read alike itself.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.codec import from_json, to_json
from discreet.kernels import FeatureMap, feature_map, finite_features, read_kernel
from discreet.outsourcing.mechanisms import AnswerRules, RowProjection
from discreet.outsourcing.modeler import SearchSettings
from discreet.people.domain import (
    ActionSpace,
    ArmPoints,
    Ball,
    Box,
    DecisionSets,
    PublicBox,
    PublicSet,
    RewardBounds,
)
from discreet.privacy import Adjacency, Guarantee, SimulatedNoise
from discreet.privacy.calibration import AdditiveNoise
from discreet.privacy.frequency import LaplaceOnCells, SignedSubsetSelection, UnaryEncoding
from discreet.privacy.selection import ExponentialMechanism
from discreet.privacy.vectors import GaussianVector, PrivUnit, VectorReport, l2_ball
from discreet.validation import InvalidInput

BOX = Box((0.0, -1.0), (1.0, 3.0), ("x", "s"), (None, 5))
EXAMPLES: dict[str, tuple[Any, Any]] = {
    "arms": (3, ActionSpace),
    "arm points": (ArmPoints.of([1.0, 2.5], ["low", "high"]), ActionSpace),
    "decision sets": (DecisionSets(4), ActionSpace),
    "public set": (PublicSet(((30.0, 0.0), (40.0, 0.5))), ActionSpace),
    "public box": (PublicBox(), ActionSpace),
    "box": (BOX, Box),
    "unknown": (Box.of({"a": {"lower": 0, "upper": 1, "missing": "unknown"}}), Box),
    "ball": (Ball(2.0, names=("x", "y")), Ball),
    "rewards": (RewardBounds(-1.0, 2.0), RewardBounds),
    "privunit": (PrivUnit(20, 3.7), VectorReport),
    "one dimension": (PrivUnit(1, 1.0), VectorReport),
    "l2 ball": (l2_ball(20, 0.1), VectorReport),
    "gaussian vector": (GaussianVector(7, 1.0, 1e-6), VectorReport),
    "additive noise": (AdditiveNoise.laplace_for(1.0, 2.0, 3), AdditiveNoise),
    "subset": (SignedSubsetSelection(5, 2, 1.5), SignedSubsetSelection),
    "unary": (UnaryEncoding(4, 1.0), UnaryEncoding),
    "laplace on cells": (LaplaceOnCells(4, 1.0), LaplaceOnCells),
    "selection": (ExponentialMechanism(1.0), ExponentialMechanism),
    "guarantee": (
        Guarantee("local", 1.0, 1e-6, Adjacency("row", radius=0.5), ("r",), ("n",), 2, 3),
        Guarantee,
    ),
    "answers": (
        AnswerRules(2, 1.0, 1e-6, (0.0, 1.0)).calibrated(SimulatedNoise(0)),
        type(AnswerRules(2, 1.0, 1e-6, (0.0, 1.0)).calibrated(SimulatedNoise(0))),
    ),
    "projection": (RowProjection.draw(3, 2, np.random.default_rng(0)), RowProjection),
    "settings": (SearchSettings("gp_ucb", prior=None, seed=3), SearchSettings),
    "fourier": (feature_map(read_kernel("RBF(0.5)"), BOX, error=0.1), FeatureMap),
    "finite": (finite_features(read_kernel("Matern(1.0, nu=2.5)"), BOX, [[0.0, 0.0]]), FeatureMap),
}
WRONG = [None, True, -1, 0, 1.5, 1e308, "", "x", [], [[]], [1], {}, {"kind": "x"}, 2**70]


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every list and object in JSON values, with each of its places."""
    if isinstance(value, dict | list):
        for place in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, place
            yield from places(value[place])


@pytest.mark.parametrize("name", EXAMPLES)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_values_travel_and_damage_is_refused(name: str, data: st.DataObject) -> None:
    value, annotation = EXAMPLES[name]
    written = json.loads(json.dumps(to_json(value, annotation), allow_nan=False))
    again = from_json(written, annotation, "the value")
    assert type(again) is type(value)
    assert to_json(again, annotation) == written
    whole = [copy.deepcopy(written)]
    owner, place = data.draw(st.sampled_from(list(places(whole))), label="place")
    if isinstance(owner, dict) and data.draw(st.booleans(), label="remove"):
        del owner[place]
    else:
        owner[place] = data.draw(st.sampled_from(WRONG), label="value")
    try:
        damaged = from_json(whole[0], annotation, "the value")
    except InvalidInput:
        return
    read = to_json(damaged, annotation)
    assert to_json(from_json(json.loads(json.dumps(read)), annotation, "it"), annotation) == read
