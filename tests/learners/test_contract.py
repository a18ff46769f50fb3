"""Every learner runs through the contract suite; a new learner is one row here."""

from __future__ import annotations

from functools import partial

import pytest

from discreet.learners.registry import LEARNERS, make_learner
from discreet.privacy import Local, NonPrivate

from .contract import ARMS, BOUNDS, DOMAIN, LearnerContract, Row

make = partial(
    make_learner, domain=DOMAIN, arms=ARMS, horizon=4000, reward_bounds=BOUNDS, public_seed=11
)

ROWS = {
    "partition": Row(partial(make, "partition", budget=Local(1.0))),
    "partition, epsilon 6": Row(partial(make, "partition", budget=Local(6.0))),
    "partition, non-private": Row(partial(make, "partition", budget=NonPrivate())),
    "published_partition": Row(
        partial(make, "published_partition", budget=Local(4.0), options={"batch_size": 50})
    ),
    "abse": Row(partial(make, "abse", budget=NonPrivate(), options={"batch_size": 50})),
    "uniform": Row(partial(make, "uniform", budget=NonPrivate()), exact=True),
}


def test_every_registered_learner_has_a_row() -> None:
    assert set(LEARNERS) == {name.split(",")[0] for name in ROWS}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
class TestContract(LearnerContract):
    pass
