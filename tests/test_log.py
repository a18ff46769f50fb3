"""Reprs of facts, and a log that is silent until somebody listens."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.codec import described, short_id
from tests.test_imports import python


def test_facts_are_shown_briefly() -> None:
    assert described("Map", features=3, bound=0.1 + 0.2, kernel=None, ok=True) == (
        "Map(features=3, bound=0.3, ok=True)"
    )
    assert described("Map", at=np.float64(2.0)) == "Map(at=2)"
    names = [f"x{number}" for number in range(40)]
    assert described("Box", names=names[:6]).count("'x") == 6
    many = described("Box", names=names)
    assert many == "Box(names=['x0', 'x1', 'x2', 'x3', 'x4', 'x5', .. 40 in all])"
    assert len(described("Box", text="a" * 1000)) < 140


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("0123456789abcdef", "01234567.."),
        ("clinic", "clinic"),
        ("clinic of the year", "clinic of the year"),
    ],
)
def test_long_identities_are_cut(given: str, shown: str) -> None:
    assert short_id(given) == shown


LEARN = """
import numpy as np
from discreet import Box, Local, Partition, SimulatedNoise
{first}
learner = Partition(Box((0.0,), (1.0,)), 2, Local(1.0))
policy = learner.policy()
people = [[0.5]] * 400
actions, _ = policy.act(people, np.random.default_rng(1))
learner.update(policy.report(people, actions, [1.0] * 400, SimulatedNoise(1)))
try:
    learner.update(3)
except ValueError:
    pass
learner.policy()
"""
LISTENING = "import logging, sys; logging.basicConfig(stream=sys.stdout, level=10)"


def test_the_log_is_silent_until_somebody_listens() -> None:
    silent, listening = LEARN.format(first=""), LEARN.format(first=LISTENING)
    code = f"import sys; sys.stderr = sys.stdout\n{silent}\nprint('now')\n{listening}"
    before, said = python(code).split("now\n")
    assert before == ""
    assert "WARNING:discreet.learners.stream:refused 0 reports to the target" in said
    assert "INFO:discreet.learners.stream:published partition-policy 1" in said
    assert "DEBUG:discreet.learners.stream:reports under partition-policy 1" in said
