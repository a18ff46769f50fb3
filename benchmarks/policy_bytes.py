"""Bytes of a policy of the kernel bandit, and of what one public coin needs of it.

    python benchmarks/policy_bytes.py

A slice is a policy with the one pair of functions and the one partition that a coin picks, without
the density that the learner alone reads; it acts and reports as the whole does under that coin.
Bytes of slices are means over coins.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from typing import Any

import numpy as np

from discreet import Box, Local, SimulatedNoise, encode, make_learner
from discreet.learners.kernel.policy import KernelPolicy
from discreet.learners.policy import Actions

ARMS, BATCH, COINS = 3, 1000, 200
LINE = "{:>7} {:>5} {:>8} {:>8} {:>8} {:>8} {:>8}"


def slice_of(policy: KernelPolicy, public_coin: int) -> KernelPolicy:
    """A policy with one pair of functions and one partition."""
    (function,), (partition,) = policy.picked(np.array([public_coin], dtype=np.uint64))
    assert policy.values is not None
    functions, partitions = slice(function, function + 1), slice(partition, partition + 1)
    trees = {name: getattr(policy.cells, name)[partitions] for name in ("axis", "cut", "child")}
    return replace(
        policy,
        values=policy.values[functions],
        directions=policy.directions[functions],
        cells=replace(policy.cells, **trees),
    )


def agree(policy: KernelPolicy, public_coin: int, context: Any) -> bool:
    """Whether whole and slice choose and report the same."""
    coins = np.array([public_coin], dtype=np.uint64)
    unit = policy.domain.to_unit(context)
    reported = []
    for each in (policy, slice_of(policy, public_coin)):
        arms, _ = each._choose(unit, coins)
        actions = Actions(arms=arms, public_coins=coins, policy=each.digest)
        reported.append(encode(each.report(context, actions, [0.5], SimulatedNoise(public_coin))))
    return reported[0] == reported[1]


def sizes(text: str) -> tuple[int, int]:
    """Bytes, and bytes that are left of them in transfer."""
    return len(text.encode()), len(gzip.compress(text.encode(), 6))


def main() -> None:
    """A line for each number of columns and reports."""
    print(LINE.format("columns", "arms", "reports", "policy", "gzip", "slice", "gzip"))
    for columns in (2, 5):
        rng = np.random.default_rng(0)
        domain = Box((0.0,) * columns, (1.0,) * columns)
        options: dict[str, Any] = {"horizon": 20 * BATCH, "identity": "study"}
        learner: Any = make_learner("kernel", domain, ARMS, Local(1.0), **options)
        for batch in range(21):
            policy = learner.policy()
            contexts = rng.random((BATCH, columns))
            if batch in (0, 2, 20):
                plain, packed = sizes(encode(policy))
                coins = [int(each) for each in rng.integers(2**53, size=COINS)]
                if not all(agree(policy, coin, contexts[:1]) for coin in coins):
                    raise SystemExit("a slice reported otherwise than its policy")
                texts = []
                for coin in coins:
                    fields = json.loads(encode(slice_of(policy, coin)))
                    del fields["density"]
                    texts.append(sizes(json.dumps(fields)))
                means = [f"{mean:,.0f}" for mean in np.mean(texts, axis=0)]
                row = (columns, ARMS, f"{batch * BATCH:,}", f"{plain:,}", f"{packed:,}", *means)
                print(LINE.format(*row))
            actions, _ = policy.act(contexts, rng)
            means = 0.5 + 0.4 * np.sin(6.0 * contexts[:, 0] + 2.0 * actions.arms)
            rewards = (rng.random(BATCH) < means).astype(float)
            learner.update(policy.report(contexts, actions, rewards, SimulatedNoise(batch)))


if __name__ == "__main__":
    main()
