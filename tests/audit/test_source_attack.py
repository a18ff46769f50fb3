"""Attacks on what people of an auxiliary source report to the partition learner, deep in its tree.

The adversary knows everything but one person: their context, arm and reward are one of two, and a
report comes. What is measured must be the epsilon that was promised, and exceed it where something
leaks.
"""

from __future__ import annotations

import numpy as np
import pytest

from discreet.audit.exact import Claim, Exact, worst_neighbours
from discreet.audit.games import Seed, report_game
from discreet.audit.lower_bound import attack, best_threshold
from discreet.audit.people import Person, Population
from discreet.audit.runs import LocalReport
from discreet.learners.partition.policy import PartitionSourcePolicy
from discreet.learners.partition.tree import Bins, Tree
from discreet.learners.signs import SignedReports
from discreet.people.domain import RewardBounds, unit_cube
from discreet.privacy import NoiseSource
from discreet.privacy.accounting import PureEvent
from discreet.privacy.frequency import SignedSubsetSelection, round_to_signs
from discreet.validation import FloatArray, IntArray

ARMS, TRIALS = 3, 20_000
EPSILONS = (0.5, 1.0, 8.0)
# In the refined corner, in the coarse half, and in the leaf where one arm is left.
FINE, COARSE, RESOLVED = (0.05, 0.05), (0.9, 0.2), (0.9, 0.9)


def person(context: tuple[float, float], arm: int, reward: float) -> Person:
    return Person((context,), reward, arm)


PAIRS = {
    "another reward": (person(FINE, 1, 1.0), person(FINE, 1, 0.0)),
    "another arm": (person(FINE, 0, 1.0), person(FINE, 2, 1.0)),
    "a neighbouring bin": (person(FINE, 1, 0.0), person((0.2, 0.05), 1, 0.0)),
    "everything": (person(FINE, 2, 1.0), person(COARSE, 0, 0.0)),
    "a bin where nothing is asked": (person(COARSE, 1, 1.0), person(RESOLVED, 1, 1.0)),
    "an arm that is given up": (person(COARSE, 1, 1.0), person(COARSE, 2, 1.0)),
}


def policy(
    epsilon: float, kind: type[PartitionSourcePolicy] = PartitionSourcePolicy
) -> PartitionSourcePolicy:
    """Halves, halves of these, and on towards the lower left corner: 7 leaves."""
    tree = Tree.root(2)
    for axis, x in ((0, 0.1), (1, 0.1), (1, 0.9), (0, 0.1), (1, 0.1), (0, 0.1)):
        tree = tree.split(tree.locate(np.array([[x, 0.1]])), np.array([axis]))
    active = np.ones((len(tree.leaves), ARMS), dtype=bool)
    for context, left in ((RESOLVED, [True, False, False]), (COARSE, [True, True, False])):
        active[tree.leaf_position[tree.locate(np.array([context]))]] = left
    return kind(
        name="clinic",
        version=4,
        learner_id="clinic",
        domain=unit_cube(2),
        reward_bounds=RewardBounds(),
        arms=ARMS,
        epsilon=epsilon,
        public_seed=1,
        bins=Bins(tree, active),
    )


def replayed(made: PartitionSourcePolicy, *tried: Person) -> Exact:
    """The worst of these people, or of all that the audit knows."""
    claim = Claim(made.epsilon)
    people = Population(unit_cube(2), ARMS, RewardBounds())
    return worst_neighbours(
        LocalReport(people=people, policy=made, asked=claim, certified=claim, tried=tried)
    )


def proved(exact: Exact) -> float:
    """The epsilon that a trained classifier of reports proves."""
    game = report_game(exact, Seed(1))
    # Trials of the first person and of the second, on which a threshold is chosen, and others.
    sides = [[game.scores(first, TRIALS, Seed(n)) for first in (True, False)] for n in (2, 3)]
    threshold = best_threshold(*sides[0], 0.0)
    return attack(*sides[1], threshold, 0.0, confidence=1.0 - 1e-6).epsilon


def test_the_tree_is_refined() -> None:
    made = policy(1.0)
    assert len(made.tree.leaves) == 7
    assert made.mechanism.bins == 5 * ARMS + 2 + 1


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("pair", PAIRS)
def test_people_who_differ_are_told_apart_as_promised_and_no_better(
    pair: str, epsilon: float
) -> None:
    made = policy(epsilon)
    exact = replayed(made, *PAIRS[pair])
    assert not exact.broken, exact.fault
    assert exact.epsilon == pytest.approx(epsilon)
    assert made.release("simulated").event == PureEvent(epsilon)


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_trials_prove_almost_the_promise_and_no_more(epsilon: float) -> None:
    assert 0.7 * epsilon < proved(replayed(policy(epsilon))) < epsilon


class SignsInTheClear(PartitionSourcePolicy):
    """Rounds the reward and hides the cell, but sends the sign as it is."""

    def _report(
        self, unit: FloatArray, arms: IntArray, rewards: FloatArray, noise: NoiseSource
    ) -> SignedReports:
        signs = round_to_signs(rewards, noise)
        hidden = super()._report(unit, arms, rewards, noise)
        shown = np.repeat(signs[:, None], hidden.places.shape[1], axis=1)
        return SignedReports(
            **self.origin(noise.name), tickets=None, places=hidden.places, signs=shown
        )


class ArmsInTheClear(PartitionSourcePolicy):
    """Treats the arm as public, as it is for the target's people: hides (bin, sign) alone."""

    def _report(
        self, unit: FloatArray, arms: IntArray, rewards: FloatArray, noise: NoiseSource
    ) -> SignedReports:
        leaves = self.tree.leaf_position[self.tree.locate(unit)]
        bins = SignedSubsetSelection.best(len(self.tree.leaves), self.epsilon)
        chosen, signs = bins.privatise(leaves, round_to_signs(rewards, noise), noise)
        cells = self.arms * chosen + arms[:, None]
        return SignedReports(**self.origin(noise.name), tickets=None, places=cells, signs=signs)


class TooLittleNoise(PartitionSourcePolicy):
    """Draws for one and a half times the epsilon that it promises."""

    @property
    def mechanism(self) -> SignedSubsetSelection:
        return SignedSubsetSelection.best(super().mechanism.bins, 1.5 * self.epsilon)


@pytest.mark.parametrize("kind", [SignsInTheClear, ArmsInTheClear, TooLittleNoise])
def test_leaks_are_caught_exactly_and_by_trials(kind: type[PartitionSourcePolicy]) -> None:
    exact = replayed(policy(1.0, kind), *PAIRS["everything"])
    assert exact.broken
    assert proved(exact) > 1.05
