"""Buckets of tokens fill at their rate, and are forgotten when there are too many."""

from __future__ import annotations

import pytest

from discreet.service.server import limits
from discreet.service.server.limits import Buckets, Rate


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_so_many_at_once_and_so_many_a_second() -> None:
    clock = Clock()
    buckets = Buckets(Rate(2.0, 3.0), clock)
    assert [buckets.take("a") for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]
    assert buckets.wait("a") == 0.5
    assert buckets.wait("b") == buckets.take("b") == 0.0
    clock.now = 0.25
    assert buckets.take("a") == 0.25
    clock.now = 0.5
    assert [buckets.take("a"), buckets.take("a")] == [0.0, 0.5]
    clock.now = 1000.0
    assert [buckets.take("a") for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]


def test_names_that_were_not_seen_for_long_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_MOST_NAMES", 2)
    buckets = Buckets(Rate(0.001, 1.0), Clock())
    assert [buckets.take(name) for name in "abc"] == [0.0] * 3
    assert len(buckets._left) == 2
    assert buckets.take("c") > 0
    assert buckets.take("a") == 0.0
