"""Attacks on what people of an auxiliary source report to the kernel bandit.

The adversary knows everything but one person: their context, arm and reward are one of two, and a
report comes. What is measured must be the epsilon that was promised, and exceed it where something
leaks.
"""

from __future__ import annotations

from dataclasses import fields, replace
from functools import cached_property
from typing import Any

import pytest

from discreet.audit.replay import Claim, Exact, worst_neighbours
from discreet.audit.runs import LocalReport, Participants, Person
from discreet.learners.kernel.policy import KernelPolicy
from discreet.learners.signs import SignedReporter, SignedReports
from discreet.people.domain import RewardBounds, unit_cube
from discreet.privacy.accounting import PureEvent
from discreet.privacy.frequency import SignedSubsetSelection, k_ary_response

from ..learners.kernel.scene import source_policy

ARMS = 3
EPSILONS = (0.5, 1.0, 8.0)
# In cells far apart.
HERE, THERE = (0.05, 0.05), (0.9, 0.2)


def person(context: tuple[float, float], arm: int, reward: float) -> Person:
    return Person((context,), reward, arm)


PAIRS = {
    "another reward": (person(HERE, 1, 1.0), person(HERE, 1, 0.0)),
    "another arm": (person(HERE, 0, 1.0), person(HERE, 2, 1.0)),
    "another cell": (person(HERE, 1, 0.0), person(THERE, 1, 0.0)),
    "everything": (person(HERE, 2, 1.0), person(THERE, 0, 0.0)),
}


def policy(epsilon: float, kind: type[KernelPolicy] = KernelPolicy) -> KernelPolicy:
    """Twelve cells of contexts and arms, four sign functions and three partitions."""
    made = source_policy(epsilon=epsilon, count=12, version=4)
    return kind(**{field.name: getattr(made, field.name) for field in fields(made)})


def replayed(made: KernelPolicy, *tried: Person) -> Exact:
    """The worst of these people, or of all that the audit knows."""
    claim = Claim(made.epsilon)
    people = Participants(unit_cube(2), ARMS, RewardBounds())
    return worst_neighbours(
        LocalReport(people=people, policy=made, asked=claim, certified=claim, tried=tried)
    )


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


class SignsShown(SignedReporter):
    """Hides the cell, but sends the sign as it is."""

    def hidden(self, policy: Any, places: Any, signs: Any, *more: Any) -> SignedReports:
        return replace(super().hidden(policy, places, signs, *more), signs=signs[:, None])


class PlacesShown(SignedReporter):
    """Sends the cell as it is, which tells the arm, and hides the sign alone."""

    def hidden(self, policy: Any, places: Any, signs: Any, *more: Any) -> SignedReports:
        return replace(super().hidden(policy, places, signs, *more), places=places[:, None])


class SignsInTheClear(KernelPolicy):
    @cached_property
    def reporter(self) -> SignedReporter:
        return SignsShown(**vars(super().reporter))


class ArmsInTheClear(KernelPolicy):
    @cached_property
    def reporter(self) -> SignedReporter:
        return PlacesShown(**vars(super().reporter))


class TooLittleNoise(KernelPolicy):
    """Draws for one and a half times the epsilon that it promises."""

    @property
    def mechanism(self) -> SignedSubsetSelection:
        return k_ary_response(self.cells.count, 1.5 * self.epsilon)


@pytest.mark.parametrize("kind", [SignsInTheClear, ArmsInTheClear, TooLittleNoise])
def test_leaks_are_caught(kind: type[KernelPolicy]) -> None:
    exact = replayed(policy(1.0, kind), *PAIRS["everything"])
    assert exact.broken
