"""The tables of a service's database. What is secret in them is sealed (encryption.py).

| table        | a row is                                                                   |
|--------------|----------------------------------------------------------------------------|
| server       | this database: its identity and what its key is known by; one row          |
| studies      | a study that is served: what it offers, under which promise, how it stands |
| snapshots    | a learner after its last release, without its policies                     |
| policies     | a policy that was published, of the target or of a source, and its summary |
|              | (findings.py); public                                                      |
| batches      | reports that arrived together; the body goes when a release has them       |
| public_coins | a report that was accepted, so that it is never counted twice              |
| decisions    | a decision under joint privacy; the payload goes when a release has it     |
| ledger       | what a release may cost a person, and what it does                         |
| pruned       | how many rows were deleted, which counts still hold (forgetting.py)        |
| former       | policies and ledger rows of a server that this one was restored from       |
| leases       | which aggregator works on a study, and until when                          |
| keys         | a key to this service: its hash, never itself                              |
| operations   | an operation with an operator's key; only ever added to                    |
| tables       | a curator's released table; public                                         |
| questions    | a row that a modeler asks about, and the curator's answer                  |

The tables of a shuffler, in a database of its own (shuffler.py):

| table    | a row is                                                                       |
|----------|--------------------------------------------------------------------------------|
| relays   | a study: what its learner says of it, and the digest of its current policy     |
| relayed  | a policy of the learner, and the length of ciphertexts under it; public        |
| admitted | a key that has sent its report                                                 |
| held     | a ciphertext that waits for its group, its hash, and the key that sent it      |
| passed   | the hash of a ciphertext whose group is fixed, and of which no key is known    |
| groups   | a whole group in its random order, until the learner has it                    |

They hold no time and no address, and no column is in the order of arrival.

Times are seconds since 1970 (UTC). Epsilons are whole millionths, rounded up.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# SQLite counts rows only in a column that is INTEGER.
_NUMBER = BigInteger().with_variant(Integer, "sqlite")


def _study(primary_key: bool = False) -> Column[str]:
    owner = ForeignKey("studies.name")
    return Column("study", String(100), owner, nullable=False, primary_key=primary_key)


def _index(name: str, columns: list[str], only: str) -> Index:
    """An index of the rows alone that a query asks for in these words, numbers and texts too."""
    return Index(name, *columns, sqlite_where=text(only), postgresql_where=text(only))


def _stream() -> Column[str]:
    return Column("stream", String(100), primary_key=True)


server = Table(
    "server",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("identity", String(32), nullable=False),
    Column("key_mark", LargeBinary, nullable=False),
    Column("made", Float, nullable=False),
    Column("restored_from", String(32)),
    # It differs in a copy of this database (Database.place).
    Column("place", String(100), nullable=False),
    # The time up to which this database was served (database.py); None before the first minute.
    Column("clock", Float),
)

studies = Table(
    "studies",
    metadata,
    Column("name", String(100), primary_key=True),
    Column("title", Text, nullable=False),
    Column("trust_model", String(20), nullable=False),
    Column("state", String(20), nullable=False),
    # How it is served (Deployment), public, and the learner as it began, sealed if it is secret.
    Column("deployment", Text, nullable=False),
    Column("learner", LargeBinary, nullable=False),
    Column("made", Float, nullable=False),
    # Of each stream the first version that takes reports, as JSON, where it is not 0.
    Column("closed", Text, nullable=False, server_default="{}"),
)

snapshots = Table(
    "snapshots",
    metadata,
    _study(primary_key=True),
    Column("number", Integer, nullable=False),
    Column("learner", LargeBinary, nullable=False),
)

policies = Table(
    "policies",
    metadata,
    _study(primary_key=True),
    _stream(),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("digest", String(64), nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("people", BigInteger, nullable=False),
    Column("published", Float, nullable=False),
    # Of the target; None where the learner could describe nothing.
    Column("finding", Text),
)

batches = Table(
    "batches",
    metadata,
    Column("id", _NUMBER, primary_key=True),
    _study(),
    Column("stream", String(100), nullable=False),
    Column("digest", String(64), nullable=False),
    Column("stored", Integer, nullable=False),
    Column("repeated", Integer, nullable=False),
    Column("body", LargeBinary),
    Column("received", Float, nullable=False),
    Column("released", Integer),
    # By which it came, until a release has it.
    Column("key", String(16)),
    UniqueConstraint("study", "stream", "digest"),
    _index("ix_batches_waiting", ["study", "stream", "id"], "released IS NULL"),
    _index("ix_batches_empty", ["received"], "released >= 0"),
    _index("ix_batches_aside", ["study"], "released = -1"),
)

public_coins = Table(
    "public_coins",
    metadata,
    _study(primary_key=True),
    _stream(),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("public_coin", BigInteger, primary_key=True, autoincrement=False),
    sqlite_with_rowid=False,
)

decisions = Table(
    "decisions",
    metadata,
    Column("id", String(32), primary_key=True),
    _study(),
    Column("version", Integer, nullable=False),
    Column("state", String(20), nullable=False),
    Column("payload", LargeBinary),
    # Keyed hash of the reward. It is erased with the payload: with the key, a few rewards could be
    # tried out.
    Column("mark", LargeBinary),
    Column("decided", Float, nullable=False),
    # When what it holds is erased, unless it waits for a release, or else when it is deleted.
    Column("expires", Float, nullable=False),
    Column("released", Integer),
    Column("key", String(16)),
    _index(
        "ix_decisions_waiting",
        ["study", "state", "id"],
        "payload IS NOT NULL AND released IS NULL",
    ),
    _index("ix_decisions_held", ["expires"], "payload IS NOT NULL"),
    _index("ix_decisions_empty", ["expires"], "payload IS NULL"),
    _index("ix_decisions_aside", ["study"], "state = 'unreadable'"),
)

relays = Table(
    "relays",
    metadata,
    Column("study", String(100), primary_key=True),
    Column("terms", Text, nullable=False),
    Column("facts", Text, nullable=False),
    Column("policy", String(64), nullable=False),
)


def _relay() -> Column[str]:
    return Column("study", String(100), ForeignKey("relays.study"), primary_key=True)


relayed = Table(
    "relayed",
    metadata,
    _relay(),
    Column("digest", String(64), primary_key=True),
    Column("version", Integer, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("bytes", Integer, nullable=False),
)

admitted = Table(
    "admitted",
    metadata,
    _relay(),
    Column("key", String(16), primary_key=True),
    sqlite_with_rowid=False,
)

held = Table(
    "held",
    metadata,
    _relay(),
    Column("digest", String(64), primary_key=True),
    Column("mark", LargeBinary, primary_key=True),
    Column("key", String(16), nullable=False),
    Column("ciphertext", LargeBinary, nullable=False),
    UniqueConstraint("study", "key"),
    sqlite_with_rowid=False,
)

passed = Table(
    "passed",
    metadata,
    _relay(),
    Column("mark", LargeBinary, primary_key=True),
    sqlite_with_rowid=False,
)

groups = Table(
    "groups",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("study", String(100), ForeignKey("relays.study"), nullable=False),
    Column("digest", String(64), nullable=False),
    Column("body", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)

# In place of the release of a batch that cannot be read, and enters none. A decision that could not
# be read has the state `unreadable`, and its release.
SET_ASIDE = -1
# The release of a batch that enters none: all of it had come before, or it was discarded.
IN_NONE = 0
# The columns of an erased observation.
ERASED = {"payload": None, "mark": None, "key": None}
# For so long the row of a decision or a batch stays after what it held is erased.
RECORD_DAYS = 30.0
RECORD_SECONDS = RECORD_DAYS * 86_400.0

pruned = Table(
    "pruned",
    metadata,
    _study(primary_key=True),
    _stream(),
    Column("version", Integer, primary_key=True, autoincrement=False),
    # Of decisions; `reported` of public coins, `stored` and `repeated` of batches.
    Column("state", String(20), primary_key=True),
    Column("number", BigInteger, nullable=False),
)

ledger = Table(
    "ledger",
    metadata,
    _study(primary_key=True),
    _stream(),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("asked", BigInteger, nullable=False),
    Column("held", BigInteger, nullable=False),
    Column("delta", Float, nullable=False),
    Column("reports", BigInteger, nullable=False),
    Column("guarantee", Text, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("drawn", Float, nullable=False),
    # The mechanisms that a guarantee was derived from, where people trust the service.
    Column("declared", Text),
)

former = Table(
    "former",
    metadata,
    _study(primary_key=True),
    # Of the learner that published it; what a person may pay under it, if its server went on.
    Column("identity", String(100), primary_key=True),
    _stream(),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("budget", BigInteger, nullable=False),
    Column("budget_delta", Float, nullable=False),
    Column("asked", BigInteger, nullable=False),
    Column("held", BigInteger, nullable=False),
    Column("delta", Float, nullable=False),
    Column("reports", BigInteger, nullable=False),
    Column("guarantee", Text, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("drawn", Float, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("people", BigInteger, nullable=False),
    Column("published", Float, nullable=False),
    Column("declared", Text),
)

leases = Table(
    "leases",
    metadata,
    _study(primary_key=True),
    Column("holder", String(64), nullable=False),
    Column("expires", Float, nullable=False),
)

keys = Table(
    "keys",
    metadata,
    Column("id", String(16), primary_key=True),
    Column("role", String(20), nullable=False),
    # None: of every study.
    Column("study", String(100)),
    Column("label", Text, nullable=False),
    Column("hash", LargeBinary, nullable=False),
    Column("made", Float, nullable=False),
    Column("revoked", Float),
    Column("expires", Float),
    # Requests a second; None for that of the server.
    Column("rate", Float),
    # Sessions of the dashboard that were opened before have ended.
    Column("signed_out", Float),
)

operations = Table(
    "operations",
    metadata,
    Column("id", _NUMBER, primary_key=True),
    Column("at", Float, nullable=False),
    Column("key", String(16), nullable=False),
    Column("what", Text, nullable=False),
    Column("study", String(100)),
)

tables = Table(
    "tables",
    metadata,
    Column("name", String(100), primary_key=True),
    Column("certificate", Text, nullable=False),
    Column("rows", LargeBinary, nullable=False),
    Column("format", String(20), nullable=False),
    Column("published", Float, nullable=False),
    Column("closed", Boolean, nullable=False),
)

questions = Table(
    "questions",
    metadata,
    Column("table", String(100), ForeignKey("tables.name"), primary_key=True),
    Column("question", Integer, primary_key=True, autoincrement=False),
    Column("row", Integer, nullable=False),
    Column("asked", Float, nullable=False),
    Column("answer", Float),
    Column("answered", Float),
)
