"""The kernel policy: the privacy of one report, by enumeration, and what it refuses."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest

from discreet.codec import to_json
from discreet.domain import Box, RewardBounds, unit_cube
from discreet.experiments import run_learner
from discreet.learners.local_kernel.features import LARGEST_COEFFICIENT, CosineFeatures
from discreet.learners.local_kernel.learner import LocalKernel
from discreet.learners.local_kernel.policy import KernelPolicy
from discreet.learners.local_kernel.posterior import most_cells
from discreet.learners.messages import TICKETS, Actions, Policy, Reports
from discreet.learners.schema import decode, encode
from discreet.learners.signs import SignedReports
from discreet.learners.terms import Terms
from discreet.privacy import Local, NoiseSource, SecureNoise, SimulatedNoise
from discreet.problems.synthetic import exponential
from discreet.validation import FloatArray, InvalidInput

from .scene import FOUR, SQUARE, THREE, all_contexts, random_policy, reported

TICKETS_TRIED = np.array([1, 5, 977, 2**40, TICKETS - 1], dtype=np.uint64)
REWARDS = (0.0, 0.3, 1.0)
Law = FloatArray  # (2 G,) the probability of every report (cell, sign)


def answers(policy: KernelPolicy, ticket: int, contexts: FloatArray) -> list[tuple[int, int, int]]:
    """(arm, cell, sign function) of each context, from the policy's own parts."""
    function, partition = (int(one[0]) for one in policy.picked(np.array([ticket], np.uint64)))
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


def law_of_a_report(policy: KernelPolicy, cell: int, asked: int, reward: float) -> Law:
    """The exact probabilities of all reports (cell, sign) of a person with that reward."""
    law = np.zeros((policy.cells.count, 2))
    for j, (place, sign) in product(range(policy.cells.count), enumerate((-1, 1))):
        up, down = (
            math.exp(
                policy.mechanism.log_probability(
                    np.array([j]), np.array([sign], dtype=np.int8), cell, s * asked
                )
            )
            for s in (1, -1)
        )
        law[j, place] = reward * up + (1.0 - reward) * down
    return law.ravel()


@pytest.mark.parametrize("domain", [FOUR, THREE], ids=["2 x 2", "3"])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_no_report_is_more_than_e_epsilon_times_as_likely(
    count: int, epsilon: float, domain: Box
) -> None:
    """Over all contexts and rewards, for each ticket; nothing is wasted either."""
    policy = random_policy(domain, 3, epsilon, count)
    contexts = all_contexts(domain)
    cells_seen = set()
    for ticket in TICKETS_TRIED:
        laws = []
        for (_, cell, asked), y in product(answers(policy, ticket, contexts), REWARDS):
            cells_seen.add(cell)
            laws.append(law_of_a_report(policy, cell, asked, y))
        assert all(law.sum() == pytest.approx(1.0) for law in laws)
        worst = max(float(np.log(one / two).max()) for one, two in product(laws, laws))
        assert worst == pytest.approx(epsilon, rel=1e-9)
    assert len(cells_seen) == min(count, len(contexts))
    # The formulas of the specification.
    truth = math.exp(epsilon) / (math.exp(epsilon) + 2 * count - 1)
    assert laws[0].max() == pytest.approx(truth)
    assert laws[0].min() == pytest.approx(truth * math.exp(-epsilon))


@pytest.mark.parametrize("noise", [SimulatedNoise(3), SecureNoise()], ids=["simulated", "secure"])
@pytest.mark.parametrize(("count", "epsilon"), [(1, 0.5), (2, 1.0), (3, 4.0), (4, 1.0)])
def test_reports_are_drawn_from_that_law(count: int, epsilon: float, noise: NoiseSource) -> None:
    """Many reports that one person could have sent, with one ticket."""
    policy = random_policy(FOUR, 3, epsilon, count)
    terms = Terms(FOUR, 3, epsilon)
    times, ticket = 20_000, TICKETS_TRIED[1]
    contexts = all_contexts(FOUR)
    for context, (arm, cell, asked), reward in zip(
        contexts, answers(policy, ticket, contexts), (0.0, 0.3, 0.8, 1.0), strict=True
    ):
        actions = Actions(np.full(times, arm), np.full(times, ticket), policy)
        people = np.tile(context, (times, 1))
        reports = policy.report(people, actions, np.full(times, reward), noise, terms)
        assert isinstance(reports, SignedReports)
        seen = np.bincount(
            2 * reports.places[:, 0] + (reports.signs[:, 0] > 0), minlength=2 * count
        )
        expected = times * law_of_a_report(policy, cell, asked, reward)
        chi_square = ((seen - expected) ** 2 / expected).sum()
        freedom = 2 * count - 1
        assert chi_square < freedom + 4.5 * math.sqrt(2.0 * freedom) + 4.0


def test_tickets_pick_functions_and_partitions_evenly_and_independently() -> None:
    policy = random_policy(SQUARE, 2, 1.0, 4, functions=4, partitions=3)
    tickets = np.random.default_rng(0).integers(TICKETS, size=60_000, dtype=np.uint64)
    function, partition = policy.picked(tickets)
    counts = np.bincount(3 * function + partition, minlength=12)
    assert np.abs(counts / len(tickets) - 1 / 12).max() < 0.006
    later = replace(policy, version=1).picked(tickets)
    assert np.mean(later[0] == function) == pytest.approx(0.25, abs=0.01)


def test_arms_are_the_best_of_the_function_that_the_ticket_picks() -> None:
    policy = random_policy(SQUARE, 3, 1.0, functions=4)
    contexts = np.random.default_rng(1).random((300, 2))
    actions, odds = policy.act(contexts, np.random.default_rng(2))
    for person in range(0, 300, 7):
        arm, _, _ = answers(policy, int(actions.tickets[person]), contexts[person][None])[0]
        assert actions.arms[person] == arm
    shares = policy.probabilities(contexts)
    assert np.allclose(odds, shares[np.arange(300), actions.arms])
    assert np.allclose(shares * 4, np.round(shares * 4))


def test_what_a_device_needs_is_small() -> None:
    """One pair of functions and one partition: below 3 KB for two columns and three arms."""
    problem = exponential()
    for epsilon in (1.0, 4.0):
        learner = LocalKernel(problem.domain, 3, Local(epsilon))
        rng = np.random.default_rng(0)
        run_learner(learner, problem.sample(3000, rng), rng, SimulatedNoise(0))
        for policy in (learner.published(0), learner.policy()):
            pair = policy.values[0].nbytes + policy.directions[0].nbytes
            assert policy.values.dtype == np.float32
            assert pair == 2 * 3 * len(policy.used) * 4
            nodes = policy.cells.axis.shape[1]
            assert nodes == 2 * policy.cells.count - 1 <= 2 * most_cells(epsilon) - 1
            # An axis and a child in a byte each, a cut in single precision.
            assert pair + nodes * (1 + 1 + 4) < 3072
    # However long the length scales, at most all the features.
    most = 2 * 3 * len(CosineFeatures.of((None, None), 3)) * 4
    assert most + 6 * (2 * most_cells(4.0) - 1) < 3200


class TestRefusals:
    """Input that the policy cannot use changes nothing and says what to do."""

    def one(self, count: int = 3) -> tuple[KernelPolicy, Actions, SignedReports]:
        policy = random_policy(SQUARE, 3, 1.0, count)
        actions, _ = policy.act([[0.2, 0.7]], np.random.default_rng(0))
        return policy, actions, reported(policy, [[0.2, 0.7]], actions, [1.0], SimulatedNoise(0))

    @pytest.mark.parametrize("ticket", [TICKETS, 2**64 - 1])
    def test_tickets_out_of_range(self, ticket: int) -> None:
        policy, actions, _ = self.one()
        forged = replace(actions, tickets=np.array([ticket], dtype=np.uint64))
        with pytest.raises(InvalidInput, match="tickets"):
            policy.report([[0.2, 0.7]], forged, [0.5], NOISE)

    @pytest.mark.parametrize(
        "contexts", [[[1.1, 0.0]], [[np.nan, 0.0]], [[0.1]], [0.1, 0.2], np.empty((0, 2))]
    )
    def test_contexts_outside_the_domain(self, contexts: Any) -> None:
        """Where people act; contract.py tests what is reported."""
        policy, _, _ = self.one()
        with pytest.raises(InvalidInput, match="contexts"):
            policy.act(contexts, np.random.default_rng(0))
        with pytest.raises(InvalidInput, match="contexts"):
            policy.probabilities(contexts)

    @pytest.mark.parametrize("rewards", [[0.5, 0.5], [[0.5]]])
    def test_rewards_of_another_shape(self, rewards: Any) -> None:
        policy, actions, _ = self.one()
        with pytest.raises(InvalidInput, match="rewards"):
            policy.report([[0.2, 0.7]], actions, rewards, NOISE)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"places": [[3]]}, "cells outside 0 .. 2"),
            ({"places": [[-1]]}, "cells outside"),
            ({"places": [0]}, "shape"),
            ({"places": [[0], [0]]}, "shape"),
            ({"signs": [[0]]}, "signs"),
            ({"signs": [[2]]}, "signs"),
            ({"signs": [[-128]]}, "signs"),
            ({"signs": [[1], [1]]}, "shape"),
            ({"tickets": [], "places": np.zeros((0, 1)), "signs": np.zeros((0, 1))}, "at least"),
            ({"tickets": None}, "no tickets"),
        ],
    )
    def test_reports_that_the_policy_cannot_have_made(
        self, change: dict[str, Any], message: str
    ) -> None:
        policy, _, report = self.one()
        policy.check(report)
        arrays = {
            name: values if values is None else np.array(values, dtype=np.int64)
            for name, values in change.items()
        }
        with pytest.raises(InvalidInput, match=message):
            policy.check(replace(report, **arrays))

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("tickets", [-1]),
            ("tickets", [TICKETS]),
            ("tickets", [0.5]),
            ("tickets", "many"),
            ("places", [0]),
            ("places", [[0.5]]),
            ("places", [["a"]]),
            ("signs", [1]),
            ("signs", [[0.5]]),
            ("signs", [[True]]),
            ("noise", "loud"),
            ("policy_version", -1),
        ],
    )
    def test_damaged_reports(self, name: str, value: Any) -> None:
        policy, _, report = self.one()
        fields = json.loads(encode(report))
        policy.check(decode_reports(json.dumps(fields)))
        with pytest.raises(InvalidInput):
            decode_reports(json.dumps({**fields, name: value}))

    def test_signs_that_do_not_fit_a_byte_do_not_wrap_around(self) -> None:
        """257 is 1 modulo 256."""
        policy, _, report = self.one()
        fields = json.loads(encode(report))
        for sign in (257, -255, 2**40 + 1):
            with pytest.raises(InvalidInput, match="signs"):
                policy.check(decode_reports(json.dumps({**fields, "signs": [[sign]]})))


NOISE = SimulatedNoise(0)


def decode_reports(text: str) -> SignedReports:
    found = decode(text, Reports)  # type: ignore[type-abstract]
    assert isinstance(found, SignedReports)
    return found


class TestAgainstALyingLearner:
    """Policies that a learner could send to make a person tell more than they agreed to."""

    def test_secure_noise_needs_terms(self) -> None:
        policy = random_policy(SQUARE, 3, 1.0, 3)
        actions, _ = policy.act([[0.1, 0.1]], np.random.default_rng(0))
        ask = partial(policy.report, [[0.1, 0.1]], actions, [1.0], SecureNoise())
        with pytest.raises(InvalidInput, match="terms"):
            ask()
        report = ask(Terms(SQUARE, 3, 1.0))
        assert isinstance(report, SignedReports)
        policy.check(report)
        assert report.noise == SecureNoise.name

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"epsilon": 2.0}, "epsilon = 2.0"),
            ({"epsilon": np.inf}, "epsilon = inf"),
            ({"domain": Box((0.0, 0.0), (0.5, 1.0))}, "domain"),
            ({"reward_bounds": RewardBounds(0.0, 0.5)}, "reward_bounds"),
        ],
    )
    def test_other_terms_are_refused_before_data_is_seen(
        self, change: dict[str, Any], message: str
    ) -> None:
        terms = Terms(unit_cube(2), arms=3, most_epsilon=1.0)
        policy = random_policy(SQUARE, 3, 1.0, 3)
        terms.check(policy)
        with pytest.raises(InvalidInput, match=message):
            terms.check(replace(policy, **change))

    @pytest.mark.parametrize(
        ("name", "value", "message"),
        [
            ("epsilon", 0, "epsilon"),
            ("epsilon", -1.0, "epsilon"),
            ("epsilon", math.nan, "NaN"),
            ("epsilon", math.inf, "Infinity"),
            ("epsilon", "1", "epsilon"),
            ("epsilon", True, "epsilon"),
            ("values", 2.0**-21, "off their grid"),
            ("values", 2.0 * LARGEST_COEFFICIENT, "beyond"),
            ("values", 1e300, "does not hold"),
            ("values", math.nan, "NaN"),
            ("values", "a", "values"),
            ("directions", 2.0**-21, "off their grid"),
            ("directions", -LARGEST_COEFFICIENT - 1.0, "beyond"),
            ("directions", math.inf, "Infinity"),
            ("density", -1.0, "density had"),
            ("density", 0.0, "density had"),
            ("density", math.nan, "NaN"),
            ("used", -1, "used had -1"),
            ("used", 10**9, "increasing"),
            ("used", 1, "increasing"),
            ("used", 0.5, "used"),
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
            ({"used": []}, "used|directions"),
            ({"used": list(range(9))}, "directions had shape"),
            ({"used": [*range(9), 5000]}, "increasing"),
            ({"used": [*range(9), 8]}, "increasing"),
            ({"values": []}, "values"),
            ({"values": [[[0.0] * 10] * 2] * 4}, "shape"),
            ({"values": [[[0.0] * 10] * 3] * 3}, "shape"),
            ({"directions": [[[0.0] * 9] * 3] * 4}, "shape"),
            ({"directions": [[0.0] * 10] * 3}, "dimensions"),
            ({"density": [1.0] * 3}, "density_bins = 576"),
            ({"density": [[1.0]] * 576}, "dimensions"),
            ({"arms": 2}, "arms = 2"),
            ({"arms": 10**9}, "arms = 1000000000"),
            ({"arms": 1}, "arms"),
            ({"version": -1}, "version"),
            ({"public_seed": TICKETS}, "public_seed"),
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
        for name in fields:
            rest = {key: value for key, value in fields.items() if key != name}
            with pytest.raises(InvalidInput):
                decode_policy(rest)

    def test_domains_of_many_columns_are_refused_at_once(self) -> None:
        """Going through the features of 30 columns would take a device for ever."""
        fields = json.loads(encode(random_policy(SQUARE, 3, 1.0, 3, used=range(10))))
        fields["domain"] = to_json(unit_cube(30))
        with pytest.raises(InvalidInput, match="density_bins"):
            decode_policy(fields)

    def test_large_policies_travel_as_they_are(self) -> None:
        policy = random_policy(SQUARE, 3, np.inf, 12, functions=32, partitions=8)
        text = encode(policy)
        copy = decode_policy(json.loads(text))
        assert encode(copy) == text
        assert copy.epsilon == np.inf
        assert np.array_equal(copy.values, policy.values)
        assert copy.values.dtype == np.float32


def decode_policy(fields: dict[str, Any]) -> KernelPolicy:
    found = decode(json.dumps(fields), Policy)  # type: ignore[type-abstract]
    assert isinstance(found, KernelPolicy)
    return found


def test_the_record_of_a_report() -> None:
    release = random_policy(SQUARE, 3, 1.5, 3).release(SecureNoise.name)
    assert release is not None
    assert release.event.epsilon == 1.5  # type: ignore[union-attr]
    assert "6 values" in release.mechanism
    assert release.noise == SecureNoise.name
