"""An attack on what people of an auxiliary source report to the partition learner.

The adversary knows everything but one person: their context, arm and reward are one of two, and a
report comes. By Neyman and Pearson nothing tells them better apart than the ratio of its
likelihoods. For signed subset selection that is

    log P(Y | v) - log P(Y | v') = epsilon ([v in Y] - [v' in Y]),    v = (cell, sign),

so one threshold, epsilon / 2, is fixed before anything is drawn. What the attack proves must stay
below the epsilon that was promised, come close to it, and exceed it where something leaks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from discreet.audit.lower_bound import Attack, attack
from discreet.domain import RewardBounds, unit_cube
from discreet.learners.partition.policy import PartitionSourcePolicy
from discreet.learners.partition.tree import Bins, Tree
from discreet.learners.signs import SignedReports
from discreet.privacy import NoiseSource, SimulatedNoise
from discreet.privacy.accounting import PureEvent
from discreet.privacy.frequency import SignedSubsetSelection, round_to_signs
from discreet.validation import FloatArray, IntArray

ARMS, TRIALS = 3, 100_000
# So many attacks are made that bounds which fail once in twenty times would fail here.
CONFIDENCE = 1.0 - 1e-6
EPSILONS = [
    1.0,
    4.0,
    *(pytest.param(epsilon, marks=pytest.mark.slow) for epsilon in (0.5, 2.0, 8.0)),
]


@dataclass(frozen=True)
class Person:
    """What is private about somebody of a source."""

    context: tuple[float, float]
    arm: int
    reward: float


# In the refined corner, in the coarse half, and in the leaf where one arm is left.
FINE, COARSE, RESOLVED = (0.05, 0.05), (0.9, 0.2), (0.9, 0.9)
PAIRS = {
    "another reward": (Person(FINE, 1, 1.0), Person(FINE, 1, 0.0)),
    "another arm": (Person(FINE, 0, 1.0), Person(FINE, 2, 1.0)),
    "a neighbouring bin": (Person(FINE, 1, 0.0), Person((0.2, 0.05), 1, 0.0)),
    "everything": (Person(FINE, 2, 1.0), Person(COARSE, 0, 0.0)),
    "a bin where nothing is asked": (Person(COARSE, 1, 1.0), Person(RESOLVED, 1, 1.0)),
    "an arm that is given up": (Person(COARSE, 1, 1.0), Person(COARSE, 2, 1.0)),
}


def refined_tree() -> Tree:
    """Halves, halves of these, and on towards the lower left corner: 7 leaves."""
    tree = Tree.root(2)
    for axis, corner in ((0, (0.1, 0.1)), (1, (0.1, 0.1)), (1, (0.9, 0.1)), (0, (0.1, 0.1)),
                         (1, (0.1, 0.1)), (0, (0.1, 0.1))):  # fmt: skip
        tree = tree.split(tree.locate(np.array([corner])), np.array([axis]))
    return tree


def policy(
    epsilon: float, kind: type[PartitionSourcePolicy] = PartitionSourcePolicy
) -> PartitionSourcePolicy:
    tree = refined_tree()
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


def value(made: PartitionSourcePolicy, person: Person) -> tuple[int, int]:
    """The (cell, sign) that the person holds."""
    leaf = int(made.tree.leaf_position[made.tree.locate(np.array([person.context]))][0])
    wanted = bool(made.wanted[leaf, person.arm])
    return int(made.place[leaf, person.arm]), (1 if not wanted or person.reward == 1.0 else -1)


def drawn(
    made: PartitionSourcePolicy, person: Person, seed: int, trials: int = TRIALS
) -> SignedReports:
    """So many reports of one person, of which the adversary sees one."""
    reports = made.report(
        np.tile(person.context, (trials, 1)),
        np.full(trials, person.arm),
        np.full(trials, person.reward),
        SimulatedNoise(seed),
    )
    assert isinstance(reports, SignedReports)
    return reports


def contains(reports: SignedReports, held: tuple[int, int]) -> FloatArray:
    """(n,) whether reports have that cell with that sign."""
    cell, sign = held
    found: FloatArray = ((reports.places == cell) & (reports.signs == sign)).any(axis=1)
    return found.astype(np.float64)


def log_ratio(made: PartitionSourcePolicy, one: Person, other: Person) -> Callable[..., FloatArray]:
    """The adversary's score: how much more likely reports (n,) are from `one`."""
    first, second = value(made, one), value(made, other)
    return lambda reports: made.epsilon * (contains(reports, first) - contains(reports, second))


def attacked(
    made: PartitionSourcePolicy,
    one: Person,
    other: Person,
    score: Callable[[SignedReports], FloatArray],
    threshold: float,
) -> Attack:
    first, second = score(drawn(made, one, 1)), score(drawn(made, other, 2))
    return attack(first, second, threshold, delta=0.0, confidence=CONFIDENCE)


def test_the_tree_is_refined_and_all_pairs_differ() -> None:
    made = policy(1.0)
    assert len(made.tree.leaves) == 7
    assert made.mechanism.bins == 5 * ARMS + 2 + 1
    assert all(value(made, one) != value(made, other) for one, other in PAIRS.values())


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_score_is_the_ratio_of_likelihoods(epsilon: float) -> None:
    made = policy(epsilon)
    for one, other in PAIRS.values():
        reports = drawn(made, one, 3, trials=40)
        scores = log_ratio(made, one, other)(reports)
        for row in range(40):
            chosen, signs = reports.places[row], reports.signs[row]
            exact = [
                made.mechanism.log_probability(chosen, signs, *value(made, person))
                for person in (one, other)
            ]
            assert scores[row] == pytest.approx(exact[0] - exact[1], abs=1e-9)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("pair", PAIRS)
def test_the_best_attack_proves_almost_the_promise_and_no_more(pair: str, epsilon: float) -> None:
    made = policy(epsilon)
    one, other = PAIRS[pair]
    found = attacked(made, one, other, log_ratio(made, one, other), 0.5 * epsilon)
    assert 0.8 * epsilon < found.epsilon < epsilon
    assert made.release("simulated").event == PureEvent(epsilon)


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


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_signs_in_the_clear_are_caught(epsilon: float) -> None:
    one, other = PAIRS["another reward"]
    made = policy(epsilon, SignsInTheClear)
    found = attacked(made, one, other, lambda reports: reports.signs[:, 0].astype(float), 0.0)
    assert found.epsilon > max(1.05 * epsilon, 8.0)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_arms_in_the_clear_are_caught(epsilon: float) -> None:
    one, other = PAIRS["another arm"]
    made = policy(epsilon, ArmsInTheClear)

    def is_arm(reports: SignedReports) -> FloatArray:
        found: FloatArray = (reports.places[:, 0] % ARMS == one.arm).astype(np.float64)
        return found

    found = attacked(made, one, other, is_arm, 0.5)
    assert found.epsilon > max(1.05 * epsilon, 8.0)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_too_little_noise_is_caught(epsilon: float) -> None:
    """A leak that no look at a single report shows."""
    made = policy(epsilon, TooLittleNoise)
    one, other = PAIRS["everything"]
    found = attacked(made, one, other, log_ratio(made, one, other), 0.5 * epsilon)
    assert 1.05 * epsilon < found.epsilon < 1.5 * epsilon
