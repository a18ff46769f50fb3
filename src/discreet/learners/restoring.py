"""What a saved learner, or source of one, must fit together as: checked before it is used.

Guarantees are derived from the policies that a file holds, so a file whose policies are not those
that its people reported under would promise them something else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from discreet.validation import InvalidInput

_DAMAGED = "The file is damaged; load one as save() wrote it."


def check_policies(owner: str, policies: Sequence[Any], wanted: Mapping[str, Any]) -> None:
    """Policies are numbered from 0, and have the attributes `wanted` of their learner.

    Args:
        owner: whose they are, in messages.
        policies: in the order in which they were published.
        wanted: what each must have, by the name of the attribute.

    Raises:
        InvalidInput: for the first that does not fit.
    """
    for version, policy in enumerate(policies):
        check_policy(owner, policy, {"version": version, **wanted})


def check_policy(owner: str, policy: Any, wanted: Mapping[str, Any]) -> None:
    """One of them; see `check_policies`."""
    for fact, value in wanted.items():
        given = getattr(policy, fact)
        if given != value:
            raise InvalidInput(
                f"policy {policy.version} of {owner} had {fact} {given!r:.80}; it must be "
                f"{value!r:.80}, as its learner has it. {_DAMAGED}"
            )


def check_released(owner: str, released: int, published_at: int) -> None:
    """Whoever had reported when the last policy was published was released for it, or before.

    Args:
        owner: whose they are, in messages.
        released: how many people were released.
        published_at: how many had reported when the last policy was published.

    Raises:
        InvalidInput: where somebody would be released a second time, and promised nothing of it.
    """
    if released < published_at:
        raise InvalidInput(
            f"{owner} released {released} people, but published its last policy from "
            f"{published_at}. {_DAMAGED}"
        )


def check_counts(
    owner: str, policies: int, people: int, published_at: int, noise: Sequence[str]
) -> None:
    """People reported under policies and with noise, at least one between two policies.

    Args:
        owner: whose counts they are, in messages.
        policies: how many were published.
        people: how many reported.
        published_at: how many had reported when the last policy was published.
        noise: the names of the noise sources of their reports.

    Raises:
        InvalidInput: for numbers that cannot be together.
    """
    before = max(policies - 1, 0)
    if not before <= published_at <= people or (before == 0 and published_at > 0):
        raise InvalidInput(
            f"{owner} had {people} people, {published_at} of them when the last of its {policies} "
            "policies was published; the first comes before anybody reports, each other one after "
            f"more people, and nobody reports after those who did. {_DAMAGED}"
        )
    if people > 0 and policies == 0:
        raise InvalidInput(
            f"{owner} had {people} people and no policy; people report under a policy. {_DAMAGED}"
        )
    if (people > 0) != bool(noise):
        raise InvalidInput(
            f"{owner} had {people} people and the noise sources {tuple(noise)}; there must be one "
            f"or more if anybody reported, and none otherwise. {_DAMAGED}"
        )
