"""How a study is served: which learner under which promise, and what its people agree to.

A `Deployment` is public and never changes once its study is registered. The learner itself is in
three places of the database: as it began (`studies`), as it was after its last release without its
policies (`snapshots`), and its policies (`policies`). Put together they are the learner that the
library would have saved.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from discreet.codec import Range, Serializable, decode
from discreet.learners.base import Learner
from discreet.learners.policy import TARGET_NAME, Policy
from discreet.learners.saving import learner_content, learner_of
from discreet.people.domain import ActionSpace, Box, Candidates, DecisionSets
from discreet.privacy import NoiseSource, SecureNoise
from discreet.service.hpke import NUMBER, longest_json
from discreet.service.server.encryption import Cipher, needed
from discreet.validation import InvalidInput

AnyLearner = Learner[Any, Any, Any]

_DAY = 86_400.0
_LONGEST_NAME = 100
# Bytes of what is sealed: of its length, and at least.
_FRAME, _LEAST = 8, 2048
# Characters of JSON: of the brackets of a list, and of what is sealed beside what a person brings:
# the names of its fields, the action, and who it is.
_BRACKETS, _BESIDE = 4, 1600
# Characters of a person's id, and of a warning.
LONGEST_ID, LONGEST_WARNING = 100, 240
# Bytes of what is beside columns and names in a request and its answer; of a person's id, whose
# characters take up to 12 (two escapes), and of a warning, whose take up to 6.
_REQUEST, _ANSWER = 32, 192
_PERSON, _WARNING = 16 + 12 * LONGEST_ID, 16 + 6 * LONGEST_WARNING
# Characters of JSON: of the contributions of one pseudonym, and of the list of them.
_CONTRIBUTOR, _CONTRIBUTORS = 2 * _BRACKETS + 37 + NUMBER, 32


@dataclass(frozen=True)
class Deployment(Serializable):
    """The public settings of a served study.

    Attributes:
        name: of the study, by which requests find it.
        title: one line.
        default_arm: what people get while the service cannot be reached; None where actions are
            points, or none was given.
        expires_days: days after which a decision without a reward is erased.
        retention_days: days for which observations are kept after their release.
        sources: the names of auxiliary sources, and what a report of each costs.
        text: the study file, for the record.
    """

    kind: ClassVar[str] = "deployment"

    name: Annotated[str, Range(1, _LONGEST_NAME)]
    title: str
    default_arm: str | None
    expires_days: Annotated[float, Range(0.0, 3650.0)]
    retention_days: Annotated[float, Range(0.0, 3650.0)]
    sources: tuple[tuple[str, float], ...]
    text: str

    @property
    def expires_seconds(self) -> float:
        return self.expires_days * _DAY

    @property
    def retention_seconds(self) -> float:
        return self.retention_days * _DAY


# Lengths on the wire. Others would tell contexts, arms and rewards apart, TLS or not; these follow
# from what a study declares.

# The body of a reward and its answer.
REWARD_BYTES = 64


def request_bytes(learner: AnyLearner) -> int:
    """Bytes of JSON that are enough for every request of a decision, by column or in order."""
    domain, space = learner.domain, learner.space
    columns = sum(
        len(json.dumps(name)) + max([NUMBER, *(len(json.dumps(label)) for label in labels)]) + 2
        for name, labels in zip(domain.names, domain.categories, strict=True)
    )
    points = space.most if isinstance(space, DecisionSets) else 1
    person = _PERSON if learner.budget.max_contributions > 1 else 0
    return _REQUEST + person + points * (columns + _BRACKETS)


def answer_bytes(learner: AnyLearner) -> int:
    """Bytes of JSON that are enough for every answer to one, whatever is chosen."""
    name = max((len(json.dumps(each)) for each in learner.arm_names), default=0)
    return _ANSWER + _WARNING + name + NUMBER * learner.domain.dimension


# A learner and its parts in the database.


def without_policies(learner: AnyLearner) -> bytes:
    """The whole learner but its policies, as bytes; SECRET where the learner is."""
    content = learner_content(learner)
    for saved in _saved_streams(content).values():
        saved["policies"] = []
    return packed(json.dumps(content, allow_nan=False))


def put_together(
    kept: bytes, policies: Iterable[tuple[str, bytes]], noise: NoiseSource | None, name: str
) -> AnyLearner:
    """The learner of a snapshot.

    Args:
        kept: what `without_policies` gave.
        policies: (stream, what `packed` gave), of each stream in order.
        noise: for its releases; None where reports are private when they arrive.
        name: what messages call it.

    Raises:
        InvalidInput: for what no learner was taken apart into.
    """
    try:
        content = json.loads(unpacked(kept))
        streams = _saved_streams(content)
        for stream, body in policies:
            fields = json.loads(unpacked(body))
            fields.pop("schema", None)
            streams[stream]["policies"].append(fields)
    except (zlib.error, ValueError, LookupError, TypeError) as error:
        raise InvalidInput(
            f"{name} is damaged in the database ({type(error).__name__}); restore a backup."
        ) from error
    return learner_of(content, noise, name)


def _saved_streams(content: dict[str, Any]) -> dict[str, dict[str, Any]]:
    state = content["state"]
    return {TARGET_NAME: state["target"], **state["sources"]}


def packed(text: str) -> bytes:
    """Text as it is kept in the database."""
    return zlib.compress(text.encode(), 1)


def unpacked(body: bytes) -> str:
    """The inverse of `packed`."""
    return zlib.decompress(body).decode()


def read_policy(body: bytes) -> Policy[Any]:
    """A policy as it was packed."""
    return decode(unpacked(body), Policy)


def noise_for(learner_secret: bool) -> NoiseSource | None:
    """What draws the releases of a service; it serves people, so nothing else is taken."""
    return SecureNoise() if learner_secret else None


def encrypted(
    cipher: Cipher | None, content: bytes, secret: bool, study: str, place: str, longest: int = 0
) -> bytes:
    """What a column holds: sealed where it is secret, at a size that many contents have.

    Args:
        cipher: the database's key.
        content: what is kept.
        secret: whether it is sealed.
        study, place: where it belongs.
        longest: bytes that no person's content of this place exceeds.
    """
    if not secret:
        return content
    # The length of an observation's numbers as text would tell something about it.
    framed = len(content).to_bytes(_FRAME) + content
    size = max(_LEAST, 1 << (max(len(framed), longest + _FRAME) - 1).bit_length())
    return needed(cipher, study).encrypt(framed.ljust(size, b"\0"), f"{place} of {study}")


def longest_kept(kept: bytes) -> int:
    """Bytes that `without_policies` does not exceed for any learner of as many contributions as
    this one: whatever its numbers are, and however many people the contributions were of."""
    content = json.loads(unpacked(kept))
    contributors = content["state"]["target"].pop("contributions", [])
    contributions: int = sum(count for _, count in contributors)
    return longest_json(content) + _CONTRIBUTORS + _CONTRIBUTOR * contributions


def longest_decision(domain: Box, space: ActionSpace) -> int:
    """Bytes of what people bring to a decision, at most, as it is sealed."""
    point = NUMBER * domain.dimension + _BRACKETS
    return _BESIDE + point * (space.most + 1 if isinstance(space, DecisionSets) else 2)


def brought(policy: Policy[Any], context: Any) -> tuple[Any, str | None]:
    """The numbers of a context as JSON values: however it was written, people who bring the same
    have the same. A refusal would show on the wire, so values that the domain does not allow are
    moved to the nearest that it does.

    Returns:
        The numbers, and why some were moved; None where the context is as it came.

    Raises:
        InvalidInput: for another shape, type or column than the policy takes.
    """
    if context is None:
        return None, None
    try:
        return _numbers(policy, context, nearest=False), None
    except InvalidInput as error:
        try:
            return _numbers(policy, context, nearest=True), str(error)[:LONGEST_WARNING]
        except InvalidInput:
            raise error from None


def _numbers(policy: Policy[Any], context: Any, nearest: bool) -> Any:
    domain = policy.domain
    if isinstance(policy.space, DecisionSets):
        read = (Candidates.nearest if nearest else Candidates.read)(
            [context], domain, policy.space.most
        )
        return read.points[0][read.present[0]].tolist()
    if nearest:
        return domain.from_unit(domain.nearest_unit([context]))[0].tolist()
    domain.people_to_unit([context])
    return np.asarray(domain.in_order([context]), dtype=np.float64)[0].tolist()


def pseudonym(cipher: Cipher | None, study: str, person: str) -> str:
    """A text of one length that stands for a person in the contributions of a study."""
    return "#" + needed(cipher, study).mark(f"person {study} {person}".encode()).hex()[:32]


def decrypted(cipher: Cipher | None, kept: bytes, secret: bool, study: str, place: str) -> bytes:
    """The inverse of `encrypted`."""
    if not secret:
        return kept
    framed = needed(cipher, study).decrypt(kept, f"{place} of {study}")
    return framed[_FRAME : _FRAME + int.from_bytes(framed[:_FRAME])]
