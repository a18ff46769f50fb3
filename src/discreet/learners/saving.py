"""Saving a whole learner to a file, and loading it again.

A saved learner goes on exactly where it stopped, and still takes reports for its older policies.
The file opens with a notice that says whether it is secret: a learner that holds data of people
before noise (or that has no noise) must not be shared; what may be shared are its policies.
A file says what its content adds up to (SHA-256), so that one that was damaged is not taken for a
learner. Files are readable by their owner only, written in one step, so that an interrupted save
leaves the previous file whole, and on disk when `save` returns, so that a crash later loses
nothing.

Under joint privacy save after `policy()` and before anyone sees a new policy: a learner loaded from
an older file would release the same people again with other noise, and they would pay twice.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from discreet.atomic_files import write_bytes
from discreet.codec import SCHEMA, from_json, to_json
from discreet.learners.base import Learner
from discreet.learners.registry import class_in_file, registered_name, variant
from discreet.people.domain import ActionSpace, Box, RewardBounds, arm_count, check_arm_names
from discreet.privacy import NoiseSource
from discreet.privacy.budget import budget_from_fields
from discreet.validation import InvalidInput

_SECRET = "SECRET: holds data of people without protection. Do not share; share policies instead."
_SEAL = ', "sha256": "'
_PRIVATE_ALREADY = "Holds reports that were private when they left each person, and policies."


def save(learner: Learner[Any, Any, Any], path: str | Path) -> None:
    """Write the whole learner to `path`.

    Nothing else happens to the learner meanwhile, so that of two threads that save at once the
    file holds what the later one saw.
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise InvalidInput(f"the folder of {target} does not exist; make it first.")
    with learner.lock:
        text = sealed({**learner_content(learner), "kind": "learner", "schema": SCHEMA})
        write_bytes(target, text.encode(), private=True)


def learner_content(learner: Learner[Any, Any, Any]) -> dict[str, Any]:
    """The whole learner as JSON values, for a file that begins with its notice."""
    with learner.lock:
        return {
            "notice": _SECRET if learner.secret else _PRIVATE_ALREADY,
            "learner": registered_name(type(learner)),
            "identity": learner.identity,
            "domain": to_json(learner.domain),
            "space": to_json(learner.space, ActionSpace),
            **({"arm_names": list(learner.arm_names)} if learner.arm_names else {}),
            "budget": learner.budget.to_fields(),
            "horizon": learner.horizon,
            "reward_bounds": to_json(learner.reward_bounds),
            "public_seed": learner.public_seed,
            "state": learner.secret_fields(),
        }


def sealed(content: Mapping[str, Any]) -> str:
    """The text of a file with that content, and what it adds up to."""
    text = json.dumps(content, allow_nan=False)
    return f'{text[:-1]}{_SEAL}{_sha256(text)}"}}'


def load(path: str | Path, noise: NoiseSource | None = None) -> Learner[Any, Any, Any]:
    """The learner in `path`.

    Args:
        path: a file that `save` wrote.
        noise: under joint privacy the source of the noise of later releases. What was released
            already is kept and never drawn again.

    Raises:
        InvalidInput: a file that cannot be read, was changed since it was saved, or is not a
            learner of this schema.
    """
    return learner_of(read_sealed(path, "learner"), noise, f"the learner in {path}")


def read_sealed(path: str | Path, kind: str) -> dict[str, Any]:
    """What a file of that kind says, which `sealed` made.

    Raises:
        InvalidInput: for a file that cannot be read, of another kind or schema, or whose content
            was changed.
    """
    try:
        text = Path(path).read_text()
        content = json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidInput(
            f"the {kind} in {path} cannot be read ({error}); give a file that save() wrote."
        ) from error
    if not isinstance(content, dict) or content.get("kind") != kind:
        raise InvalidInput(f"{path} holds no {kind}; give a file that save() wrote.")
    if content.get("schema") != SCHEMA:
        raise InvalidInput(
            f"{path} has schema {content.get('schema')!r}; this version reads schema {SCHEMA}."
        )
    body, _, seal = text.rpartition(_SEAL)
    if seal != f'{_sha256(body + "}")}"}}':
        raise InvalidInput(
            f"the {kind} in {path} is damaged: its checksum is that of another content. Load a "
            "file as save() wrote it."
        )
    return content


def learner_of(
    content: Mapping[str, Any], noise: NoiseSource | None, name: str
) -> Learner[Any, Any, Any]:
    """The inverse of `learner_content`; `name` is what messages call it."""
    try:
        kind = class_in_file(content["learner"])
        state = content["state"]
        space, budget = _space_of(content), budget_from_fields(content["budget"])
        kind = variant(kind, space, budget.trust_model)
        learner = kind(
            from_json(content["domain"], Box, "domain"),
            space,
            budget,
            horizon=content["horizon"],
            reward_bounds=from_json(content["reward_bounds"], RewardBounds, "reward_bounds"),
            public_seed=content["public_seed"],
            noise=noise,
            identity=content["identity"],
            **kind.read_options(state["options"]),
        )
        learner.restore_fields(state)
    except InvalidInput:
        raise
    except (KeyError, TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
        raise InvalidInput(f"{name} is damaged ({error!r}).") from error
    return learner


def _space_of(content: Mapping[str, Any]) -> Any:
    """What can be chosen, with the names of arms if they have any."""
    space = from_json(content["space"], ActionSpace, "space")
    names = check_arm_names(content.get("arm_names", []), arm_count(space))
    return list(names) if names and isinstance(space, int) else space


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
