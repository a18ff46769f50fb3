"""The kernel policy: the privacy of one report, by enumeration, and what it refuses."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from discreet.codec import decode, encode, to_json
from discreet.lab.environments.synthetic import exponential
from discreet.lab.experiments import run_learner
from discreet.learners.kernel.design import most_cells
from discreet.learners.kernel.features import LARGEST_COEFFICIENT, CosineFeatures
from discreet.learners.kernel.learner import LocalKernel
from discreet.learners.kernel.policy import KernelPolicy
from discreet.learners.messages import PUBLIC_COINS
from discreet.learners.policy import Policy
from discreet.people.domain import unit_cube
from discreet.privacy import Local, SimulatedNoise
from discreet.validation import FloatArray, InvalidInput

from .scene import SQUARE, random_policy

PUBLIC_COINS_TRIED = np.array([1, 5, 977, 2**40, PUBLIC_COINS - 1], dtype=np.uint64)
REWARDS = (0.0, 0.3, 1.0)
ROWS = CosineFeatures.of((None, None), 3).index.tolist()


def answers(
    policy: KernelPolicy, public_coin: int, contexts: FloatArray
) -> list[tuple[int, int, int]]:
    """(arm, cell, sign function) of each context, from the policy's own parts."""
    function, partition = (int(one[0]) for one in policy.picked(np.array([public_coin], np.uint64)))
    unit = policy.domain.people_to_unit(contexts)
    phi = policy.features(unit, policy.used)
    arms = (phi @ policy.values[function].T.astype(float)).argmax(axis=1)
    asked = np.einsum("nm,nm->n", phi, policy.directions[function, arms].astype(float)) >= 0.0
    placed = np.stack([policy.features.place(unit[:, a], a) for a in range(unit.shape[1])], axis=1)
    cells = policy.cells.locate_all(placed)[partition]
    return [
        (int(arm), int(cell), 1 if up else -1)
        for arm, cell, up in zip(arms, cells, asked, strict=True)
    ]


def test_public_coins_pick_functions_and_partitions_evenly_and_independently() -> None:
    policy = random_policy(SQUARE, 2, 1.0, 4, functions=4, partitions=3)
    public_coins = np.random.default_rng(0).integers(PUBLIC_COINS, size=60_000, dtype=np.uint64)
    function, partition = policy.picked(public_coins)
    counts = np.bincount(3 * function + partition, minlength=12)
    assert np.abs(counts / len(public_coins) - 1 / 12).max() < 0.006
    later = replace(policy, version=1).picked(public_coins)
    assert np.mean(later[0] == function) == pytest.approx(0.25, abs=0.01)


def test_arms_are_the_best_of_the_function_that_the_public_coin_picks() -> None:
    policy = random_policy(SQUARE, 3, 1.0, functions=4)
    contexts = np.random.default_rng(1).random((300, 2))
    actions, odds = policy.act(contexts, np.random.default_rng(2))
    for person in range(0, 300, 7):
        arm, _, _ = answers(policy, int(actions.public_coins[person]), contexts[person][None])[0]
        assert actions.arms[person] == arm
    shares = policy.probabilities(contexts)
    assert np.allclose(odds, shares[np.arange(300), actions.arms])
    assert np.allclose(shares * 4, np.round(shares * 4))


@pytest.mark.slow
def test_what_a_device_needs_is_small() -> None:
    """One pair of functions and one partition: a few KB for two columns and three arms."""
    problem = exponential()
    for epsilon in (1.0, 4.0):
        learner = LocalKernel(problem.domain, 3, Local(epsilon))
        rng = np.random.default_rng(0)
        run_learner(learner, problem.sample(1000, rng), rng, SimulatedNoise(0))
        for policy in (learner.published(0), learner.policy()):
            pair = policy.values[0].nbytes + policy.directions[0].nbytes
            assert policy.values.dtype == np.int32
            assert pair == 2 * 3 * len(policy.used) * 4
            nodes = policy.cells.axis.shape[1]
            assert nodes == 2 * policy.cells.count - 1 <= 2 * most_cells(epsilon) - 1
            # An axis and a child in a byte each, a cut in single precision.
            assert pair + nodes * (1 + 1 + 4) < 6144
    # However short the length scales, at most all the features.
    most = 2 * 3 * len(CosineFeatures.of((None, None), 3)) * 4
    assert most + 6 * (2 * most_cells(4.0) - 1) < 6144


class TestAgainstALyingLearner:
    """Policies that a learner could send to make a person tell more than they agreed to."""

    @pytest.mark.parametrize(
        ("name", "value", "message"),
        [
            ("epsilon", 0, "epsilon"),
            ("epsilon", -1.0, "epsilon"),
            ("epsilon", math.nan, "NaN"),
            ("epsilon", math.inf, "Infinity"),
            ("epsilon", "1", "epsilon"),
            ("epsilon", True, "epsilon"),
            ("values", 0.5, "type float64"),
            ("values", LARGEST_COEFFICIENT + 1, "must be whole, from"),
            ("values", 10**300, "values"),
            ("values", math.nan, "NaN"),
            ("values", "a", "values"),
            ("directions", -LARGEST_COEFFICIENT - 1, "must be whole, from"),
            ("directions", math.inf, "Infinity"),
            ("density", -1.0, "density had"),
            ("density", 0.0, "density had"),
            ("density", math.nan, "NaN"),
            ("frequencies", -1, "frequencies had -1"),
            ("frequencies", 10**9, "in their order"),
            ("frequencies", 1, "in their order"),
            ("frequencies", 0.5, "frequencies"),
        ],
    )
    def test_a_bad_number_in_a_policy_is_refused(self, name: str, value: Any, message: str) -> None:
        """Put in the place of the first number of an array."""
        fields = json.loads(encode(random_policy(SQUARE, 3, 1.0, 3, used=range(10))))
        assert isinstance(decode_policy(fields), KernelPolicy)
        place, key = fields, name
        while isinstance(place[key], list):
            place, key = place[key], 0  # type: ignore[assignment]
        place[key] = value
        with pytest.raises(InvalidInput, match=message):
            decode_policy(fields)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"frequencies": []}, "frequencies|values"),
            ({"frequencies": ROWS[:9]}, "values had shape"),
            ({"frequencies": [*ROWS[:9], [500, 500]]}, "in their order"),
            ({"frequencies": [*ROWS[:9], ROWS[8]]}, "in their order"),
            ({"frequencies": [[*row, 0] for row in ROWS[:10]]}, "shape"),
            ({"values": []}, "values"),
            ({"values": [[[0] * 10] * 2] * 4}, "shape"),
            ({"values": [[[0] * 10] * 3] * 3}, "shape"),
            ({"directions": [[[0] * 9] * 3] * 4}, "shape"),
            ({"directions": [[0] * 10] * 3}, "shape"),
            ({"density": [[1.0]] * 576}, "shape"),
            ({"arms": 2}, "arms = 2"),
            ({"arms": 10**9}, "arms = 1000000000"),
            ({"arms": 1}, "arms"),
            ({"version": -1}, "version"),
            ({"public_seed": PUBLIC_COINS}, "public_seed"),
            ({"cells": {"count": 3}}, "lacks the field 'axis'"),
            ({"cells": []}, "object of its fields"),
        ],
    )
    def test_policies_of_the_wrong_shape_are_refused(
        self, change: dict[str, Any], message: str
    ) -> None:
        fields = json.loads(encode(random_policy(SQUARE, 3, 1.0, 3, used=range(10))))
        with pytest.raises(InvalidInput, match=message):
            decode_policy({**fields, **change})

    def test_policies_that_lack_a_field_are_refused(self) -> None:
        fields = json.loads(encode(random_policy(SQUARE, 3, 1.0, 3, used=range(10))))
        for name in fields.keys() - {"schema"}:
            rest = {key: value for key, value in fields.items() if key != name}
            with pytest.raises(InvalidInput):
                decode_policy(rest)

    def test_domains_of_many_columns_are_refused_at_once(self) -> None:
        """Going through the features of 30 columns would take a device for ever."""
        fields = json.loads(encode(random_policy(SQUARE, 3, 1.0, 3, used=range(10))))
        fields["domain"] = to_json(unit_cube(30))
        with pytest.raises(InvalidInput, match="dimension = 30"):
            decode_policy(fields)


def decode_policy(fields: dict[str, Any]) -> KernelPolicy:
    found = decode(json.dumps(fields), Policy)  # type: ignore[type-abstract]
    assert isinstance(found, KernelPolicy)
    return found
