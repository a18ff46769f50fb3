"""Budgets: what may be asked for, and what is refused before anything is spent."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from discreet.privacy import Budget, Joint, Local, NonPrivate, Outsourced
from discreet.privacy.budget import budget_from_fields
from discreet.validation import InvalidInput

NOT_POSITIVE = [0.0, -1.0, math.inf, -math.inf, math.nan, True, "1", None, [1.0]]
NO_DELTA = [1.0, -0.1, 1.5, math.inf, math.nan, False, True, "0.1", None]


@pytest.mark.parametrize(
    ("budget", "facts"),
    [
        (Local(2.0), ("local", 2.0, 0.0)),
        (Local(2.0, 0), ("local", 2.0, 0.0)),
        (Local(2.0, 1e-6), ("local", 2.0, 1e-6)),
        (Joint(1.0, 1e-6), ("joint", 1.0, 1e-6)),
        (Joint(1.0, 0.0), ("joint", 1.0, 0.0)),  # for learners whose releases are pure
        (Outsourced(1.0, 0.1), ("outsourced", 1.0, 0.1)),  # any replacement
        (Outsourced(1.0, 0.1, radius=3.0), ("outsourced", 1.0, 0.1)),
        (NonPrivate(), ("none", math.inf, 0.0)),
        (Local(2.0, max_contributions=3), ("local", 2.0, 0.0)),
        (Joint(1.0, 1e-5, max_contributions=5), ("joint", 1.0, 1e-5)),
    ],
)
def test_what_is_asked_for(budget: Budget, facts: tuple[str, float, float]) -> None:
    assert (budget.trust_model, budget.epsilon, budget.delta) == facts
    assert budget_from_fields(budget.to_fields()) == budget
    assert (f"max_contributions={budget.max_contributions}" in repr(budget)) == (
        budget.max_contributions > 1
    )
    with pytest.raises(dataclasses.FrozenInstanceError):
        budget.epsilon = 100.0  # type: ignore[misc]
    if budget.private:
        with pytest.raises(InvalidInput):
            dataclasses.replace(budget, epsilon=-1.0)


@pytest.mark.parametrize(
    "fields",
    [
        {"trust_model": "joint", "epsilon": 1.0},
        {"trust_model": "local", "epsilon": 1.0, "radius": 1.0},
        {"trust_model": "none", "epsilon": 1.0},
        {"trust_model": "joint"},
    ],
)
def test_fields_that_do_not_fit_are_refused(fields: dict[str, object]) -> None:
    with pytest.raises(InvalidInput, match=f"the trust model {fields['trust_model']} got"):
        budget_from_fields(fields)


@pytest.mark.parametrize("epsilon", [1e-12, 0.1, 1, np.float32(0.5), np.int64(3), 1024.0])
def test_numbers_become_plain_floats(epsilon: float) -> None:
    for budget in (Local(epsilon), Joint(epsilon, 0.1), Outsourced(epsilon, 0.1)):
        assert type(budget.epsilon) is float
        assert budget.epsilon == float(epsilon)


@pytest.mark.parametrize("epsilon", NOT_POSITIVE)
def test_epsilon_must_be_positive_and_finite(epsilon: object) -> None:
    for make in (Local, lambda e: Joint(e, 0.1), lambda e: Outsourced(e, 0.1)):
        with pytest.raises(InvalidInput, match=r"epsilon was .* finite number above 0"):
            make(epsilon)


@pytest.mark.parametrize("delta", NO_DELTA)
def test_delta_is_below_1_and_above_0_where_noise_is_gaussian(delta: object) -> None:
    for make in (Local, Joint, Outsourced):
        with pytest.raises(InvalidInput, match="delta was"):
            make(1.0, delta)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="delta was 0"):
        Outsourced(1.0, 0.0)


@pytest.mark.parametrize("radius", [value for value in NOT_POSITIVE if value is not None])
def test_radius_must_be_positive_and_finite(radius: object) -> None:
    with pytest.raises(InvalidInput, match="radius was"):
        Outsourced(1.0, 0.1, radius)  # type: ignore[arg-type]
