"""The feedback dictionary of Open Bandit Pipeline (obp), read and written.

| key            | value                                                                        |
|----------------|------------------------------------------------------------------------------|
| n_rounds       | n, the number of decisions                                                   |
| n_actions      | K, the number of actions                                                     |
| context        | (n, d) numbers                                                               |
| action         | (n,) whole numbers 0 .. K - 1                                                |
| reward         | (n,)                                                                         |
| pscore         | (n,) the probability of the action taken, or None                            |
| position       | (n,) the place on a page at which it was shown, or None                      |
| action_context | (K, m) numbers about each action; one-hot where nobody gives others          |

Other keys, such as `expected_reward` of synthetic data, are left alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from discreet.lab.environments.log_columns import check_propensities
from discreet.validation import (
    FloatArray,
    IntArray,
    InvalidInput,
    Refusals,
    finite_matrix,
    finite_vector,
    instance_of,
    whole_number,
    whole_vector,
)

_NEEDED = ("n_rounds", "n_actions", "context", "action", "reward")


def read_feedback(
    feedback: Mapping[str, Any], columns: int, position: int | None
) -> tuple[dict[str, Any], int]:
    """The arrays of a feedback dictionary, and how many rounds it has.

    Args:
        feedback: see the module.
        columns: how many columns a context must have.
        position: keep only what was shown at this place.

    Returns:
        The fields `contexts`, `actions`, `rewards`, `propensities`, `position`, `action_context`
        of a `Log`, for the rounds kept.

    Raises:
        InvalidInput: for keys that are missing, arrays that do not fit together, and several
            positions where none is chosen.
    """
    instance_of(feedback, "feedback", Mapping, "the dictionary of Open Bandit Pipeline")
    missing = [key for key in _NEEDED if feedback.get(key) is None]
    if missing:
        raise InvalidInput(
            f"feedback lacked {', '.join(missing)}; it has {', '.join(map(str, feedback))}. Give "
            "the whole dictionary that Open Bandit Pipeline makes."
        )
    refusals = Refusals()
    fields: dict[str, Any] = {}
    rounds, arms = 0, 1
    with refusals.collected():
        rounds = whole_number(feedback["n_rounds"], "n_rounds", minimum=1)
    with refusals.collected():
        arms = whole_number(feedback["n_actions"], "n_actions", minimum=2)
    refusals.raise_if_any()
    with refusals.collected():
        fields["contexts"] = _contexts(feedback["context"], rounds, columns)
    with refusals.collected():
        fields["actions"] = whole_vector(feedback["action"], "action", 0, arms - 1, rounds)
    for key, name in (("reward", "rewards"), ("pscore", "propensities")):
        fields[name] = None
        if feedback.get(key) is not None:
            with refusals.collected():
                array = fields[name] = finite_vector(feedback[key], key, rounds)
                if key == "pscore":
                    check_propensities(array, "pscore was", array.tolist())
    fields["action_context"] = _action_context(feedback.get("action_context"), arms, refusals)
    places: IntArray | None = None
    if feedback.get("position") is not None:
        with refusals.collected():
            places = whole_vector(feedback["position"], "position", 0, length=rounds)
    with refusals.collected():
        kept = _at_position(places, position, rounds)
    refusals.raise_if_any()
    fields["position"] = places
    for name in ("contexts", "actions", "rewards", "propensities", "position"):
        fields[name] = None if fields[name] is None else fields[name][kept]
    return fields, rounds


def _contexts(values: Any, rounds: int, columns: int) -> FloatArray:
    contexts = finite_matrix(values, "context", columns)
    if len(contexts) != rounds:
        raise InvalidInput(
            f"context had {len(contexts)} rows and n_rounds was {rounds}; give one row for each "
            "round."
        )
    return contexts


def _action_context(values: Any, arms: int, refusals: Refusals) -> FloatArray | None:
    """(K, m) what is said about the actions; None where nothing is."""
    if values is None:
        return None
    with refusals.collected():
        array = finite_matrix(values, "action_context", np.shape(values)[-1])
        if len(array) == arms:
            return array
        raise InvalidInput(
            f"action_context had {len(array)} rows; give one for each of the {arms} actions."
        )
    return None


def _at_position(places: IntArray | None, position: int | None, rounds: int) -> IntArray:
    """The rounds at the position asked for."""
    if places is None:
        if position is not None:
            raise InvalidInput(
                f"position {position} was asked for, but feedback has no positions; leave it out."
            )
        return np.arange(rounds)
    there = np.unique(places).tolist()
    if position is None:
        if len(there) > 1:
            raise InvalidInput(
                f"feedback had actions at the positions {there}, each of which is a choice of its "
                f"own; choose one, for example position={there[0]}."
            )
        return np.arange(rounds)
    kept = np.flatnonzero(places == position)
    if not len(kept):
        raise InvalidInput(f"position was {position}; feedback has {there}. Name one of these.")
    return kept


def feedback_of(
    contexts: FloatArray,
    actions: IntArray,
    rewards: FloatArray,
    propensities: FloatArray | None,
    position: IntArray | None,
    action_context: FloatArray,
) -> dict[str, Any]:
    """The dictionary, with copies of all arrays."""
    return {
        "n_rounds": len(actions),
        "n_actions": len(action_context),
        "context": contexts.copy(),
        "action": actions.copy(),
        "position": None if position is None else position.copy(),
        "reward": rewards.copy(),
        "pscore": None if propensities is None else propensities.copy(),
        "action_context": action_context.copy(),
    }
