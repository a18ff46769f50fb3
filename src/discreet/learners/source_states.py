"""What a learner keeps of its sources, as JSON values and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from discreet.learners.schema import decode, encode
from discreet.learners.sources import SourcePolicy, SourceState, check_source_name
from discreet.privacy.noise import check_noise_name
from discreet.validation import positive_number, whole_number

P = TypeVar("P", bound=SourcePolicy)


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
    fields: Sequence[Mapping[str, Any]], policy_type: type[P]
) -> dict[str, SourceState[P]]:
    """The inverse of `states_to_fields`; `InvalidInput` for fields that are wrong."""
    return {
        check_source_name(one["name"]): SourceState(
            epsilon=positive_number(one["epsilon"], "epsilon of a source"),
            policies=[decode(text, policy_type) for text in one["policies"]],
            people=whole_number(one["people"], "people of a source"),
            published_at=whole_number(one["published_at"], "published_at of a source"),
            noise=tuple(check_noise_name(name) for name in one["noise"]),
        )
        for one in fields
    }
