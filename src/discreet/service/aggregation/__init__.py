"""Aggregation of many reports, and the order in which reports are summed, here and by the service.

Sums of floating-point numbers depend on the order and on the parts that are summed. So both follow
from versions and public coins alone, not on who received reports, when and in which batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from discreet.learners.messages import Reports

# Reports of one call of `Learner.statistics`.
_PART = 5_000
# Reports, and the public coins by which they are known.
_Known = tuple[Reports, Sequence[Any]]


def parts(count: int, group: int = 1) -> Iterator[slice]:
    """Slices of `count` ordered reports of one version, each of whole shuffled groups."""
    size = max(_PART // group, 1) * group
    return (slice(start, start + size) for start in range(0, count, size))


def in_order(batches: Sequence[_Known], group: int = 1) -> list[tuple[Reports, list[Any]]]:
    """Reports sorted by version and public coin, in parts of whole groups."""
    by_version: dict[int, list[_Known]] = {}
    for reports, public_coins in batches:
        by_version.setdefault(reports.policy_version, []).append((reports, public_coins))
    ordered = []
    for _, some in sorted(by_version.items()):
        joined = type(some[0][0]).joined([reports for reports, _ in some])
        public_coins = [public_coin for _, numbers in some for public_coin in numbers]
        order = np.array(sorted(range(len(public_coins)), key=public_coins.__getitem__))
        for part in parts(len(order), group):
            rows = order[part]
            ordered.append((joined.of(rows), [public_coins[row] for row in rows]))
    return ordered
