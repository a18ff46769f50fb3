"""What a learner keeps of its sources, as JSON values and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

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

    Guarantees are derived from the policies, so a file whose policies are not those that its people
    reported under would promise them something else. What a learner cannot have saved is refused.

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
        _check_policies(name, state, header)
        _check_counts(name, state)
        found[name] = state
    return found


def _check_policies(name: str, state: SourceState[P], header: Mapping[str, Any]) -> None:
    """Policies are numbered from 0, and all else is that of the source and of the learner."""
    shared = ("domain", "reward_bounds", "arms", "public_seed")
    learner = {fact: header[fact] for fact in shared}
    for version, policy in enumerate(state.policies):
        wanted = {"version": version, "name": name, "epsilon": state.epsilon, **learner}
        for fact, value in wanted.items():
            given = getattr(policy, fact)
            if given != value:
                raise InvalidInput(
                    f"policy {version} of source {name!r} had {fact} {given!r:.80}; it must be "
                    f"{value!r:.80}, as its source and learner have it. The file is damaged."
                )


def _check_counts(name: str, state: SourceState[P]) -> None:
    """People reported under policies and with noise, at least one between two policies."""
    policies, people, last = len(state.policies), state.people, state.published_at
    before = max(policies - 1, 0)
    if not before <= last <= people or (before == 0 and last > 0):
        raise InvalidInput(
            f"source {name!r} had {people} people, {last} of them when the last of its {policies} "
            "policies was published; the first comes before anybody reports, each other one after "
            "more people, and nobody reports after those who did. The file is damaged."
        )
    if people > 0 and policies == 0:
        raise InvalidInput(
            f"source {name!r} had {people} people and no policy; people report under a policy. The "
            "file is damaged."
        )
    if (people > 0) != bool(state.noise):
        raise InvalidInput(
            f"source {name!r} had {people} people and the noise sources {state.noise}; there must "
            "be one or more if anybody reported, and none otherwise. The file is damaged."
        )
