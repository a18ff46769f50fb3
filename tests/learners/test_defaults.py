"""The usual learner: every declaration gets one that fits, with a reason."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from discreet.learners.kernel.features import MOST_COLUMNS
from discreet.learners.registry import Declared, learner_class, usual_learner, usual_trust_model
from discreet.people.domain import ArmPoints, DecisionSets, PublicBox, PublicSet

SPACES = [2, 60, ArmPoints.of([0.0, 0.5, 1.0]), DecisionSets(5), PublicBox(), PublicSet.of([[0.1]])]


@pytest.mark.parametrize(
    ("space", "model", "columns", "people", "kernel"),
    list(itertools.product(SPACES, ["local", "joint", "none"], [1, 20], [500, 10**6], [0, 1])),
)
def test_the_usual_learner_fits_what_was_declared(space, model, columns, people, kernel) -> None:
    choice = usual_learner(Declared(model, space, columns, people, bool(kernel)))
    kind = learner_class(choice.learner)
    assert model in kind.trust_models
    assert type(space) in kind.spaces
    assert choice.reason


@pytest.mark.parametrize("space", SPACES)
def test_the_usual_trust_model_is_private(space) -> None:
    model = usual_trust_model(space)
    assert (
        model in learner_class(usual_learner(Declared(model, space, 2, 100)).learner).trust_models
    )
    assert model == ("local" if isinstance(space, int | ArmPoints) else "joint")


def test_many_columns() -> None:
    """Without privacy the kernel bandit takes as many as it can."""
    for model, most in (("local", 6), ("none", MOST_COLUMNS)):
        names = [usual_learner(Declared(model, 3, most + more, 1000)).learner for more in (0, 1)]
        assert names == ["kernel", "partition"]


@pytest.mark.parametrize("model", ["local", "shuffled", "joint", "none"])
def test_arm_points_get_the_learner_of_arms_unless_a_kernel_is_given(model: str) -> None:
    for count in (3, 20, 60):
        points = ArmPoints.of(np.linspace(0.0, 1.0, count))
        found = usual_learner(Declared(model, points, 2, 1000))
        assert found == usual_learner(Declared(model, count, 2, 1000))
        assert found.learner == "kernel"
    given = usual_learner(Declared(model, points, 2, 1000, kernel=True))
    assert given.learner == "kernel"


def test_joint_learners_of_arms() -> None:
    names = [
        usual_learner(Declared("joint", arms, columns, 1000, kernel)).learner
        for arms, columns, kernel in (
            *((60, 6, False), (2, 32, False), (61, 2, True)),
            *((61, 2, False), (2, 33, False)),
        )
    ]
    assert names == [*["kernel"] * 3, *["best_arm"] * 2]


@pytest.mark.parametrize(
    ("columns", "indicators", "learner"),
    [(9, 3, "kernel"), (9, 2, "partition"), (33, 30, "partition")],
)
def test_columns_besides_indicators(columns: int, indicators: int, learner: str) -> None:
    declared = Declared("local", 3, columns, 1000, indicators=indicators)
    assert usual_learner(declared).learner == learner
