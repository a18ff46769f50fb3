"""Logs whose truth is known, for tests of everything that reads logs."""

from __future__ import annotations

import numpy as np
import pandas as pd

from discreet.lab.environments.logs import Log
from discreet.people.columns import Column
from discreet.people.domain import Box, RewardBounds

COLUMNS = (Column("u", 0, 1), Column("region", values=("north east", "south", "50%")))
DOMAIN = Box.of(COLUMNS)
NAMES = ("none", "call us", "a=b|c:d")


def means(contexts: np.ndarray) -> np.ndarray:
    """(n, 3) mean rewards."""
    u, region = contexts.T
    return np.stack([0.4 + 0 * u, 0.2 + 0.6 * u, np.where(region == 1, 0.8, 0.2)], axis=1)


def chosen_with(contexts: np.ndarray, strength: float) -> np.ndarray:
    """(n, 3) how likely the log chose each arm; strength 0 is even."""
    u, region = contexts.T
    logits = strength * np.stack([0.5 - u, u, (region == 1) - 0.3], axis=1)
    weights = np.exp(logits)
    return weights / weights.sum(axis=1, keepdims=True)


def world(rows: int, strength: float, rng: np.random.Generator) -> Log:
    """A log with rewards of 0 and 1 and known propensities."""
    contexts = np.stack([rng.random(rows), rng.integers(3, size=rows)], axis=1)
    likely = chosen_with(contexts, strength)
    actions = (rng.random(rows)[:, None] > likely.cumsum(axis=1)[:, :-1]).sum(axis=1)
    own = np.arange(rows), actions
    rewards = (rng.random(rows) < means(contexts)[own]).astype(np.float64)
    return Log(contexts, actions, rewards, DOMAIN, NAMES, RewardBounds(), likely[own])


def frame_of(log: Log) -> pd.DataFrame:
    """The log as a table, with categories and arms as their labels."""
    facts = {
        "action": np.array(log.arm_names, dtype=object)[log.actions],
        "reward": log.rewards,
        "propensity": log.propensities,
        "person": log.ids,
    }
    columns = {
        name: np.array(labels, dtype=object)[values.astype(np.int64)] if labels else values
        for name, values, labels in zip(
            log.domain.names, log.contexts.T, log.domain.categories, strict=True
        )
    }
    return pd.DataFrame(columns | {name: each for name, each in facts.items() if each is not None})
