"""In which module each kind of message is defined.

Kinds register themselves when their class is defined (messages.Message); whoever reads a message
imports that module first. So a device that decodes the policy of one learner loads what that policy
needs, and nothing of the other learners.
"""

from __future__ import annotations

from importlib import import_module

from discreet.learners.messages import Message
from discreet.validation import InvalidInput

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
    "gp_ucb.model": ("kernel-model",),
    "gp_ucb.policy": ("gp-set-policy", "gp-public-policy"),
    "gp_ucb.reports": ("observations", "noisy-rows"),
    "gp_ucb.statistics": ("kernel-statistics",),
    "epochs.policy": ("epoch-policy",),
    "epochs.reports": ("context-observations", "private-rows", "epoch-statistics"),
    "baselines.uniform": ("uniform-policy", "uniform-point-policy", "empty-reports", "count"),
    "baselines.abse": ("abse-policy", "plain-reports"),
    "baselines.exact_gp_policy": ("exact-gp-policy", "observed-rows"),
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


def message_class(kind: object) -> type[Message] | None:
    """The class of messages of that kind, or None if there is none.

    Raises:
        InvalidInput: if it needs a package that is not installed here.
    """
    if not isinstance(kind, str):
        return None
    if kind not in Message.kinds and kind in MODULES:
        try:
            import_module(MODULES[kind])
        except ImportError as error:
            raise InvalidInput(
                f"the message has kind {kind!r}, which cannot be read here ({error}); run pip "
                "install discreet, with its dependencies."
            ) from error
    return Message.kinds.get(kind)
