"""Messages: what crosses between people and a learner, as one line of JSON (codec).

A message is `{"kind": ..., "schema": 1, ...fields}`. Which module defines a kind is said here, so
that a device that decodes the policy of one learner loads what that policy needs, and nothing of
the other learners.
"""

from __future__ import annotations

from abc import ABC

from discreet.codec import SCHEMA, Coded, announce, check_fields, decode, encode

__all__ = ["MODULES", "SCHEMA", "Message", "decode", "encode"]


class Message(Coded, ABC):
    """A frozen dataclass with a `kind`; its fields say what they may hold."""

    def __post_init__(self) -> None:
        if not hasattr(type(self), "from_fields"):  # a message that is written by hand
            check_fields(self)


_KINDS = {
    "partition.policy": ("partition-policy", "partition-reports"),
    "partition.statistics": ("partition-statistics",),
    "partition.source_reports": ("partition-source-policy", "partition-source-reports"),
    "partition.elimination": ("cell-sums",),
    "partition.published_policy": ("published-partition-policy", "laplace-reports"),
    "partition.published_sources": (
        "published-partition-source-policy",
        "laplace-source-reports",
    ),
    "local_kernel.policy": ("local-kernel-policy", "local-kernel-reports"),
    "local_kernel.statistics": ("local-kernel-statistics",),
    "local_kernel.source_policy": (
        "local-kernel-source-policy",
        "local-kernel-source-reports",
    ),
    "gp_ucb.posterior": ("kernel-model",),
    "gp_ucb.decision_sets": ("gp-set-policy",),
    "gp_ucb.public_points": ("gp-public-policy",),
    "gp_ucb.mode": ("point-observations", "noisy-rows", "gram-statistics"),
    "epochs.policy": ("epoch-policy", "context-observations", "private-rows"),
    "epochs.releases": ("epoch-statistics",),
    "baselines.uniform": ("uniform-policy", "uniform-point-policy", "empty-reports", "count"),
    "baselines.abse": ("abse-policy", "plain-reports"),
    "baselines.exact_gp_ucb": ("exact-gp-policy", "observed-rows"),
    "baselines.gradients.linear": ("private-linear-policy", "private-linear-source-policy"),
    "baselines.gradients.neural": ("private-neural-policy", "private-neural-source-policy"),
    "baselines.gradients.reports": (
        "gradient-reports",
        "gradient-source-reports",
        "gradient-sums",
    ),
}
MODULES = {
    kind: f"discreet.learners.{module}" for module, kinds in _KINDS.items() for kind in kinds
}
announce(MODULES)
