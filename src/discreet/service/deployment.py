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

from discreet.codec import Coded, Range, decode
from discreet.learners.base import Learner
from discreet.learners.saving import learner_content, learner_of
from discreet.learners.sources import SourceLearner
from discreet.learners.stream import TARGET_NAME
from discreet.learners.terms import Offer
from discreet.privacy import NoiseSource, SecureNoise
from discreet.service.seal import Seal, needed
from discreet.validation import InvalidInput

AnyLearner = Learner[Any, Any, Any]

_DAY = 86_400.0
_LONGEST_NAME = 100


@dataclass(frozen=True)
class Deployment(Coded):
    """What a study offers while it is served.

    Attributes:
        name: of the study, by which requests find it.
        title: one line.
        default_arm: what people get while the service cannot be reached; None where actions are
            points, or nobody said.
        expires_days: after so many days a decision without a reward is forgotten.
        retention_days: for so many days observations are kept after their release; 0 for none.
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


# A learner and its parts in the database.


def streams_of(learner: AnyLearner) -> tuple[str, ...]:
    """The target, then the sources."""
    return (TARGET_NAME, *(learner.sources if isinstance(learner, SourceLearner) else ()))


def without_policies(learner: AnyLearner) -> bytes:
    """The whole learner but its policies, as bytes; SECRET where the learner is."""
    content = learner_content(learner)
    for saved in _saved_streams(content).values():
        saved["policies"] = []
    return zlib.compress(json.dumps(content, allow_nan=False).encode(), 1)


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
        content = json.loads(zlib.decompress(kept))
        streams = _saved_streams(content)
        for stream, body in policies:
            fields = json.loads(unpacked(body))
            fields.pop("schema")
            streams[stream]["policies"].append(fields)
    except (zlib.error, ValueError, LookupError, TypeError) as error:
        raise InvalidInput(
            f"{name} is damaged in the database ({type(error).__name__}); restore a backup."
        ) from error
    return learner_of(content, noise, name)


def _saved_streams(content: dict[str, Any]) -> dict[str, dict[str, Any]]:
    state = content["state"]
    return {TARGET_NAME: state["target"], **state.get("sources", {})}


def packed(text: str) -> bytes:
    """Text as it is kept in the database."""
    return zlib.compress(text.encode(), 1)


def unpacked(body: bytes) -> str:
    """The inverse of `packed`."""
    return zlib.decompress(body).decode()


def read_policy(body: bytes) -> Offer:
    """A policy as it was packed."""
    return decode(unpacked(body), Offer)


def noise_for(learner_secret: bool) -> NoiseSource | None:
    """What draws the releases of a service; it serves people, so nothing else is taken."""
    return SecureNoise() if learner_secret else None


def closed(seal: Seal | None, content: bytes, secret: bool, study: str, place: str) -> bytes:
    """What a column holds: sealed where it is secret."""
    return needed(seal, study).close(content, f"{place} of {study}") if secret else content


def opened(seal: Seal | None, kept: bytes, secret: bool, study: str, place: str) -> bytes:
    """The inverse of `closed`."""
    return needed(seal, study).open(kept, f"{place} of {study}") if secret else kept
