"""What requests and answers hold; the store checks what only it can check.

Messages of the codec are described by their own annotations (openapi.py).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from discreet.outsourcing.mechanisms import Status as QuestionStatus
from discreet.privacy.accounting import TrustModel
from discreet.service.server.ingest import MOST_REPORTS
from discreet.service.server.keys import Role
from discreet.service.server.store import State

# In a schema: which message of the codec stands there, by its name in openapi.py.
MESSAGE = "x-message"
_MOST_QUESTIONS = 10_000

Name = Annotated[str, Field(min_length=1, max_length=100)]
Time = Annotated[float, Field(ge=0, description="Seconds since 1970 (UTC).")]
Count = Annotated[int, Field(ge=0)]
Version = Annotated[int, Field(ge=0, lt=10**9)]
Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$", description="SHA-256 in hexadecimal.")]
Identity = Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
DecisionId = Identity
KeyId = Annotated[str, Field(pattern="^[0-9a-f]{16}$")]
Delta = Annotated[float, Field(ge=0, le=1)]
Millionths = Annotated[int, Field(ge=0, description="Of epsilon, rounded up.")]
Label = Annotated[str, Field(max_length=100)]
Rate = Annotated[float, Field(gt=0, le=1e6, description="Requests a second.")]
Actor = Annotated[str, Field(description="The id of a key, or `server`.", max_length=16)]
Number = Annotated[int, Field(ge=1, lt=2**31)]
RowNumber = Annotated[int, Field(ge=0, lt=2**31)]
Format = Literal["csv", "parquet"]
Ciphertext = Annotated[
    str,
    Field(
        pattern="^[A-Za-z0-9+/]+={0,2}$",
        max_length=2**18,
        description="HPKE (RFC 9180): X25519, HKDF-SHA256, AES-128-GCM; in base64.",
        json_schema_extra={"contentEncoding": "base64"},
    ),
]


def _message(name: str) -> WithJsonSchema:
    return WithJsonSchema({MESSAGE: name})


ReportMessage = Annotated[dict[str, Any], _message("Report")]
PolicyMessage = Annotated[dict[str, Any], _message("Policy")]
GuaranteeMessage = Annotated[dict[str, Any], _message("Guarantee")]
RepeatedMechanism = Annotated[list[Any], _message("RepeatedMechanism")]


class Body(BaseModel):
    """An object with just these fields, of just these types."""

    model_config = ConfigDict(
        extra="forbid", strict=True, hide_input_in_errors=True, allow_inf_nan=False
    )


# Requests.


class ReportsBody(Body):
    """Reports as `encode` made them, as texts or objects."""

    reports: Annotated[
        list[str | ReportMessage], Field(min_length=1, max_length=MOST_REPORTS, fail_fast=True)
    ]
    ids: Annotated[list[int], Field(max_length=MOST_REPORTS, fail_fast=True)] | None = None


class GroupBody(Body):
    """A whole group of a shuffler: reports of one policy, encrypted, in random order."""

    id: Annotated[Identity, Field(description="Random; the same whenever the group is sent.")]
    policy: Annotated[Digest, Field(description="The digest of the policy of all its reports.")]
    ciphertexts: Annotated[
        list[Ciphertext], Field(min_length=1, max_length=MOST_REPORTS, fail_fast=True)
    ]


class CiphertextBody(Body):
    """One report, encrypted to the learner's key, with the digest of its policy as `info`."""

    policy: Digest
    ciphertext: Ciphertext


class DecisionBody(Body):
    """A person who comes, or a decision set."""

    context: Any = None
    person: Name | None = None


class RewardBody(Body):
    """What followed."""

    reward: float


class StateBody(Body):
    """The state that a study shall be in; the answer has the state that it is in."""

    state: State


class KeyBody(Body):
    """A key to be made."""

    role: Role
    study: Name | None = None
    # A database may refuse NUL.
    label: Annotated[Label, Field(pattern="^[^\\x00]*$")] = ""
    days: Annotated[float, Field(gt=0, le=36_500, description="Until it expires.")] | None = None
    rate: Rate | None = None


class TableBody(Body):
    """A release: the certificate as its file holds it, and the file of the rows in base64."""

    certificate: str
    rows: Annotated[str, Field(json_schema_extra={"contentEncoding": "base64"})]
    format: Format


class QuestionBody(Body):
    """One row that is asked for."""

    question: Number
    row: RowNumber


class QuestionsBody(Body):
    """Rows that are asked for."""

    questions: Annotated[
        list[QuestionBody], Field(min_length=1, max_length=_MOST_QUESTIONS, fail_fast=True)
    ]


class AnswerBody(QuestionBody):
    """The outcome of a row; null where it cannot be measured."""

    answer: float | None


class AnswersBody(Body):
    """What was measured."""

    answers: Annotated[
        list[AnswerBody], Field(min_length=1, max_length=_MOST_QUESTIONS, fail_fast=True)
    ]


# Answers.


class Refusal(Body):
    """Why a request was refused, in words."""

    error: str


class Health(Body):
    """`ok`, or what is missing."""

    status: str


class StudyRow(Body):
    """A study that the key covers."""

    name: Name
    title: str
    trust_model: TrustModel
    state: State


class StudyFacts(StudyRow):
    """What a study offers, and its state."""

    learner: str
    epsilon: Annotated[float, Field(gt=0)]
    delta: Delta
    max_contributions: Annotated[
        int, Field(ge=1, description="How many contributions the budget covers.")
    ]
    version: Version
    default_arm: Annotated[
        str | int | None, Field(description="The arm while the service cannot be reached.")
    ]
    sources: Annotated[
        dict[str, float], Field(description="The epsilon of a report, by auxiliary source.")
    ]
    terms_sha256: Digest
    request_bytes: Annotated[
        int | None,
        Field(
            ge=1,
            description="Under joint privacy: the public length to a multiple of which clients pad "
            "the body of a decision's request with spaces.",
        ),
    ]


class TermsFields(Body):
    """The terms that people agree to, with their digest."""

    domain: Annotated[dict[str, Any], _message("Domain")]
    space: Annotated[Any, _message("ActionSpace")]
    arm_names: list[Name]
    most_epsilon: Annotated[float, Field(gt=0)]
    reward_bounds: Annotated[dict[str, Any], _message("RewardBounds")]
    delta: Delta
    max_contributions: Annotated[int, Field(ge=1)]
    group_size: Annotated[
        int | None, Field(ge=2, description="Of a shuffled group; only with a shuffler.")
    ] = None
    honest: Annotated[float | None, Field(gt=0, le=1)] = None
    learner_key: Annotated[
        str | None,
        Field(pattern="^[0-9a-f]{64}$", description="X25519, to which reports are encrypted."),
    ] = None
    sha256: Digest


class ReportsReceipt(Body):
    """How many reports were new, and how many were stored before."""

    stored: Count
    repeated: Count


class DecisionFields(Body):
    """The action for one person."""

    id: DecisionId
    version: Version
    arm: Annotated[int, Field(ge=-1, description="Its number; -1 where actions are points.")]
    name: Annotated[str | None, Field(description="Of the arm, if arms have names.")]
    point: Annotated[list[float] | None, Field(description="The point, where actions are points.")]
    propensity: Annotated[float, Field(ge=0, le=1)]
    warning: Annotated[
        str | None,
        Field(
            description="Why values of the context were moved to the nearest that the domain "
            "allows; null where it is as it came."
        ),
    ]


class New(Body):
    """Whether this is new; false where the same came before."""

    new: bool


class NewCount(Body):
    """How many entries are new; others came before."""

    new: Count


class LedgerEntry(Body):
    """What the release of one policy costs a person at most, and its guarantee."""

    study: Name
    stream: Annotated[Name, Field(description="`target`, or an auxiliary source.")]
    version: Version
    asked: Millionths
    held: Millionths
    delta: Delta
    reports: Count
    guarantee: GuaranteeMessage
    digest: Digest
    drawn: Time
    declared: Annotated[
        list[RepeatedMechanism] | None, Field(description="The mechanisms under joint privacy.")
    ]
    former: Annotated[
        str | None, Field(description="The learner of a row from before the server was restored.")
    ]


class PolicyRow(Body):
    """A published policy, without its content."""

    stream: Name
    version: Version
    digest: Digest
    people: Count
    published: Time


class StudyCertificate(Body):
    """What a study promises its people, and what the promise can be checked by."""

    study: Name
    sentence: str
    guarantee: GuaranteeMessage
    ledger: Annotated[Digest, Field(description="SHA-256 of the ledger as it is sent.")]
    server: Identity


class ExportedPolicy(PolicyRow):
    """A published policy."""

    policy: PolicyMessage


class FormerPolicy(ExportedPolicy):
    """A policy that a learner published before the server was restored."""

    identity: Annotated[str, Field(max_length=100)]


class ReportCounts(Body):
    """Reports of one stream."""

    stored: Count
    repeated: Count


class Counts(Body):
    """Numbers of reports by stream, decisions by state, and stored rows that cannot be read."""

    reports: dict[str, ReportCounts]
    decisions: dict[str, Count]
    set_aside: Count


class Export(Body):
    """Everything that a study released."""

    study: Name
    server: Identity
    policies: list[ExportedPolicy]
    former: list[FormerPolicy]
    ledger: list[LedgerEntry]
    counts: Counts


class KeyRow(Body):
    """A key, without its token."""

    id: KeyId
    role: Role
    study: str | None
    label: Label
    made: Time
    revoked: Time | None
    expires: Time | None
    rate: Rate | None


class Token(Body):
    """The token of a new key; it is shown this once."""

    token: Annotated[str, Field(pattern="^dk_[0-9a-f]{16}_[A-Za-z0-9_-]{43}$")]


class Revoked(Body):
    """Whether the key was revoked now, and how many entries that no release has were erased."""

    revoked: bool
    discarded: Count


class Operation(Body):
    """One line of the operators' log."""

    id: Annotated[int, Field(ge=1)]
    at: Time
    key: Actor
    what: str
    study: str | None


class QuestionFields(QuestionBody):
    """A question and its status."""

    status: QuestionStatus
