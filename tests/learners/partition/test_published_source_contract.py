"""What every learner that hears from sources owes, for the published one."""

from __future__ import annotations

from typing import Any

import pytest

from discreet.learners.registry import make_learner
from discreet.privacy import Local

from ..contract import ARMS, BOUNDS, DOMAIN
from ..source_contract import SourceContract
from ..source_scene import SourceRow


def fresh(seed: int) -> Any:
    return make_learner(
        "published_partition",
        DOMAIN,
        ARMS,
        Local(4.0),
        options={"batch_size": 50},
        reward_bounds=BOUNDS,
        public_seed=seed,
        horizon=4000,
    )


@pytest.mark.parametrize("row", [SourceRow(fresh)], ids=["published_partition"])
class TestSourceContract(SourceContract):
    pass
