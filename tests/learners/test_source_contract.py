"""Every learner that hears from sources runs through this suite; a new one is one row here."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from discreet.learners.registry import LEARNERS, make_learner
from discreet.privacy import Budget, Local, NonPrivate

from .contract import ARMS, BOUNDS, DOMAIN
from .source_contract import SourceContract
from .source_scene import SourceRow


def maker(name: str, budget: Budget, **options: Any) -> Callable[[int], Any]:
    """Makes a learner with that public seed."""

    def fresh(seed: int) -> Any:
        make = partial(make_learner, name, DOMAIN, ARMS, budget, reward_bounds=BOUNDS)
        return make(options=options, public_seed=seed, horizon=4000, identity=f"sources {seed}")

    return fresh


ROWS = {
    "local_kernel": SourceRow(maker("local_kernel", Local(1.0))),
    "local_kernel, non-private": SourceRow(maker("local_kernel", NonPrivate())),
    "published_partition": SourceRow(maker("published_partition", Local(4.0), batch_size=50)),
    "private_linear": SourceRow(maker("private_linear", Local(1.0), batch=100)),
    "private_linear, non-private": SourceRow(maker("private_linear", NonPrivate(), batch=100)),
    "private_linear, privunit": SourceRow(
        maker("private_linear", Local(4.0), batch=100, mechanism="privunit")
    ),
    "private_neural": SourceRow(maker("private_neural", Local(1.0), batch=100, hidden=4)),
}


# Takes seconds, and is held to the same in the contract of all learners; its other half, what is
# open, is that of the other rows without privacy.
SLOW = ("local_kernel, non-private",)
PARAMETERS = [
    pytest.param(row, id=name, marks=[pytest.mark.slow] if name in SLOW else [])
    for name, row in ROWS.items()
]


@pytest.mark.parametrize("row", PARAMETERS)
class TestSourceContract(SourceContract):
    pass


def test_every_learner_that_hears_from_sources_has_a_row() -> None:
    hearing = {name for name, kind in LEARNERS.items() if kind.takes_sources}
    assert {label.split(",")[0] for label in ROWS} == hearing
