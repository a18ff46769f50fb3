"""One stream of people: what is shown of it when it is printed."""

from __future__ import annotations

from typing import Any

import numpy as np

from discreet.learners.base import LOCAL_RECORD
from discreet.learners.messages import Totals
from discreet.learners.policy import TARGET_NAME, Policy
from discreet.learners.stream import Stream
from discreet.people.domain import RewardBounds, unit_cube
from discreet.privacy import Joint


def test_what_is_printed_holds_no_sums() -> None:
    sums = Totals(values=np.array([12345.0]), reports=1)
    stream: Stream[Policy[Any], Totals] = Stream(
        TARGET_NAME,
        "some learner",
        Joint(1.0, 1e-6),
        LOCAL_RECORD,
        domain=unit_cube(1),
        arms=2,
        reward_bounds=RewardBounds(),
        _sums=sums,
    )
    assert "12345" not in repr(stream)
    assert "12345" not in f"{stream}"
