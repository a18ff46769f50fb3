"""Budgets: what may be asked for, and what is refused before anything is spent."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from discreet.privacy import Budget, Joint, Local, NonPrivate, Outsourced
from discreet.validation import InvalidInput

NOT_POSITIVE = [0.0, -1.0, math.inf, -math.inf, math.nan, True, "1", None, [1.0]]
NOT_BETWEEN_0_AND_1 = [0.0, 1.0, -0.1, 1.5, math.inf, math.nan, False, "0.1", None]


def test_local_is_pure() -> None:
    budget = Local(2.0)
    assert (budget.trust_model, budget.epsilon, budget.delta) == ("local", 2.0, 0.0)


def test_local_takes_a_delta_for_gaussian_reports() -> None:
    assert Local(2.0, 1e-6).delta == 1e-6
    assert type(Local(2.0, np.float32(0.5)).delta) is float
    assert Local(2.0, 0) == Local(2.0)
    assert Local(2.0, 0.0) == Local(2.0)


@pytest.mark.parametrize("delta", [1.0, -0.1, 1.5, math.inf, math.nan, False, True, "0.1", None])
def test_a_local_delta_is_0_or_strictly_between_0_and_1(delta: object) -> None:
    with pytest.raises(InvalidInput, match=r"delta was .* strictly between 0 and 1"):
        Local(1.0, delta)  # type: ignore[arg-type]


def test_joint_has_both_parameters() -> None:
    budget = Joint(1.0, 1e-6)
    assert (budget.trust_model, budget.epsilon, budget.delta) == ("joint", 1.0, 1e-6)


def test_outsourced_covers_any_replacement_unless_a_radius_is_given() -> None:
    assert Outsourced(1.0, 0.1).radius is None
    assert Outsourced(1.0, 0.1, radius=3.0).radius == 3.0
    assert Outsourced(1.0, 0.1).trust_model == "outsourced"


def test_non_private_promises_nothing() -> None:
    budget = NonPrivate()
    assert (budget.trust_model, budget.epsilon, budget.delta) == ("none", math.inf, 0.0)


@pytest.mark.parametrize("epsilon", [1e-12, 0.1, 1, np.float32(0.5), np.int64(3), 1024.0])
def test_numbers_become_plain_floats(epsilon: float) -> None:
    for budget in (Local(epsilon), Joint(epsilon, 0.1), Outsourced(epsilon, 0.1)):
        assert type(budget.epsilon) is float
        assert budget.epsilon == float(epsilon)


@pytest.mark.parametrize("epsilon", NOT_POSITIVE)
def test_epsilon_must_be_positive_and_finite(epsilon: object) -> None:
    for make in (Local, lambda e: Joint(e, 0.1), lambda e: Outsourced(e, 0.1)):
        with pytest.raises(InvalidInput, match=r"epsilon was .* must be a finite number above 0"):
            make(epsilon)


@pytest.mark.parametrize("delta", NOT_BETWEEN_0_AND_1)
def test_delta_lies_strictly_between_0_and_1(delta: object) -> None:
    for make in (Joint, Outsourced):
        if make is Joint and delta == 0.0:
            assert Joint(1.0, 0.0).delta == 0.0  # for learners whose releases are pure
            continue
        with pytest.raises(InvalidInput, match=r"delta was .* strictly between 0 and 1"):
            make(1.0, delta)


@pytest.mark.parametrize("radius", [value for value in NOT_POSITIVE if value is not None])
def test_radius_must_be_positive_and_finite(radius: object) -> None:
    with pytest.raises(InvalidInput, match="radius was"):
        Outsourced(1.0, 0.1, radius)  # type: ignore[arg-type]


BUDGETS: list[Budget] = [Local(1.0), Local(1.0, 1e-6), Joint(1.0, 0.1), Outsourced(1.0, 0.1)]


@pytest.mark.parametrize("budget", BUDGETS)
def test_budgets_are_facts(budget: Budget) -> None:
    """Equal by value, usable as keys, and never changed."""
    assert dataclasses.replace(budget) == budget
    assert hash(dataclasses.replace(budget)) == hash(budget)
    with pytest.raises(dataclasses.FrozenInstanceError):
        budget.epsilon = 100.0  # type: ignore[misc]
    with pytest.raises(InvalidInput):
        dataclasses.replace(budget, epsilon=-1.0)
