"""Calls that the partition learner and its relatives refuse, and the messages."""

from __future__ import annotations

from functools import partial
from typing import Any

from discreet.codec import from_json
from discreet.learners.partition.learner import Partition
from discreet.learners.partition.tree import Tree
from discreet.learners.registry import make_learner
from discreet.people.domain import unit_cube
from discreet.privacy import Joint, Local, NonPrivate
from tests.refusals import CheckRefusals, Refused

LINE = unit_cube(1)
RULES: list[tuple[dict[str, Any], str]] = [
    ({"cautoin": 2.0}, "cautoin"),
    ({"caution": -1.0}, "caution"),
    ({"caution": "high"}, "caution"),
    ({"batch": 0.5}, "batch"),
    ({"max_depth": 40}, "max_depth"),
    ({"caution": 10**400}, "caution"),
    ({"temperature": 0.0}, "temperature"),
    ({"temperature": [0.7]}, "temperature"),
]
LEARNERS: list[tuple[str, int, Any, dict[str, Any], str]] = [
    ("partition", 2, Joint(1.0, 1e-6), {"horizon": 100}, "trust model"),
    ("published_partition", 2, NonPrivate(), {"horizon": 100}, "trust model"),
    ("abse", 2, Local(1.0), {"horizon": 100}, "trust model"),
    ("uniform", 2, Local(1.0), {"horizon": 100}, "trust model"),
    ("published_partition", 2, Local(1.0), {}, "horizon"),
    ("abse", 2, NonPrivate(), {}, "horizon"),
    ("partition", 1, Local(1.0), {}, "arms"),
    ("linucb", 2, Local(1.0), {}, "unknown"),
]
SETTINGS: list[tuple[Any, Any, dict[str, Any], str]] = [
    (LINE, 1.0, {}, "budget"),
    ([[0, 1]], Local(1.0), {}, "domain"),
    (LINE, Local(1.0), {"reward_bounds": (0, 5)}, "reward_bounds"),
    (LINE, Local(1.0), {"rules": {"batch": 5}}, "rules"),
]
TREES: list[dict[str, Any]] = [
    {"dimension": 1, "nodes": [1], "axes": [0]},
    {"dimension": 1, "nodes": [0], "axes": [1]},
    {"dimension": 1, "nodes": [0, 0], "axes": [0, 0]},
]


def with_rules(options: dict[str, Any]) -> object:
    return make_learner("partition", LINE, 2, Local(1.0), options=options)


def test_refusals(refusals: CheckRefusals) -> None:
    refusals(
        "partition",
        [
            *(
                Refused(f"rules {str(options)[:40]}", partial(with_rules, options), mentions)
                for options, mentions in RULES
            ),
            *(
                Refused(
                    f"{name}, {arms} arms, {budget}",
                    partial(make_learner, name, LINE, arms, budget, **common),
                    mentions,
                )
                for name, arms, budget, common, mentions in LEARNERS
            ),
            *(
                Refused(mentions, partial(Partition, domain, 2, budget, **options), mentions)
                for domain, budget, options, mentions in SETTINGS
            ),
            *(
                Refused(str(fields), partial(from_json, fields, Tree), "must be a leaf")
                for fields in TREES
            ),
        ],
    )
