"""What a learner keeps of its sources, as JSON values and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from discreet.learners.restoring import check_counts, check_policies
from discreet.learners.schema import decode, encode
from discreet.learners.sources import (
    SourcePolicy,
    SourceState,
    check_source_epsilon,
    check_source_name,
)
from discreet.privacy.noise import check_protection
from discreet.validation import InvalidInput, whole_number

P = TypeVar("P", bound=SourcePolicy)

# What a source's policies have in common with their learner's.
_SHARED = ("learner_id", "domain", "reward_bounds", "arms", "public_seed")


def states_to_fields(states: Mapping[str, SourceState[P]]) -> list[dict[str, Any]]:
    """The sources in the order in which they were opened."""
    return [
        {
            "name": name,
            "epsilon": state.epsilon,
            "policies": [encode(policy) for policy in state.policies],
            "people": state.people,
            "published_at": state.published_at,
            "noise": list(state.noise),
        }
        for name, state in states.items()
    ]


def states_from_fields(
    fields: Sequence[Mapping[str, Any]],
    policy_type: type[P],
    header: Mapping[str, Any],
) -> dict[str, SourceState[P]]:
    """The inverse of `states_to_fields`.

    What a learner cannot have saved is refused (restoring.py).

    Args:
        fields: what `states_to_fields` made.
        policy_type: the class of the learner's source policies.
        header: the learner's `policy_header()`, with which policies must agree.

    Raises:
        InvalidInput: for fields that are wrong or do not fit each other.
    """
    found: dict[str, SourceState[P]] = {}
    for one in fields:
        name = check_source_name(one["name"])
        if name in found:
            raise InvalidInput(
                f"the source {name!r} was there twice; every source has its own name. "
                "The file is damaged."
            )
        state = SourceState(
            epsilon=check_source_epsilon(one["epsilon"]),
            policies=[decode(text, policy_type) for text in one["policies"]],
            people=whole_number(one["people"], "people of a source"),
            published_at=whole_number(one["published_at"], "published_at of a source"),
            noise=tuple(check_protection(noise) for noise in one["noise"]),
        )
        shared = {fact: header[fact] for fact in _SHARED}
        owner = f"source {name!r}"
        check_policies(owner, state.policies, {"name": name, "epsilon": state.epsilon, **shared})
        check_counts(owner, len(state.policies), state.people, state.published_at, state.noise)
        found[name] = state
    return found
