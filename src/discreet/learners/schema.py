"""Messages: what crosses between people and a learner, as one line of JSON (codec).

A message is `{"kind": ..., "schema": 1, ...fields}`; the schema of one that names none is 1. Which
module defines a kind is said here, or in the metadata of an installed package (registry.py), so
that a device that decodes the policy of one learner loads what that policy needs, and nothing of
the other learners.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sized
from typing import Any, ClassVar

from discreet.codec import SCHEMA, Coded, announce, decode, described, encode

__all__ = ["SCHEMA", "Message", "decode", "encode"]


class Message(Coded, ABC):
    """A frozen dataclass with a `kind`; its fields say what they may hold.

    Its repr names facts that are public, and no field that people's data went into.

    Attributes:
        facts: the attributes that the repr shows, beside how many people it is about.
    """

    facts: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # A dataclass writes a repr of all its fields, unless the class has one of its own.
        if "__repr__" not in vars(cls):
            cls.__repr__ = cls.__repr__  # type: ignore[method-assign]

    def __repr__(self) -> str:
        shown: dict[str, Any] = {"n": len(self)} if isinstance(self, Sized) else {}
        for name in self.facts:
            value = getattr(self, name, None)
            shown[name] = short_id(value) if isinstance(value, str) else value
        return described(type(self).__name__, **shown)


_KINDS = {
    "signs": ("signed-reports",),
    "messages": ("actions", "plain-observations"),
    "statistics": ("totals",),
    "partition.policy": (
        "partition-policy",
        "partition-statistics",
    ),
    "local_kernel.policy": (
        "local-kernel-policy",
        "local-kernel-source-policy",
        "local-kernel-statistics",
        "open-kernel-policy",
    ),
    "gp_ucb.decision_sets": ("gp-set-policy",),
    "gp_ucb.public_points": ("gp-public-policy",),
    "gp_ucb.policy": ("kernel-model", "point-observations", "noisy-rows", "gram-statistics"),
    "glm.policy": ("score-policy", "score-reports", "score-statistics"),
    "epochs.policy": ("epoch-policy", "private-rows"),
    "epochs.learner": ("epoch-statistics",),
    "references.uniform": ("uniform-policy", "uniform-point-policy", "empty-reports", "count"),
    "references.highest": ("highest-policy",),
}
announce(
    {kind: f"discreet.learners.{module}" for module, kinds in _KINDS.items() for kind in kinds}
)


def short_id(identity: str) -> str:
    """The beginning of a long random identity; a name in words stays as it is."""
    return f"{identity[:8]}.." if len(identity) > 12 and " " not in identity else identity
