"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

# SQLite counts rows only in a column that is INTEGER.
_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make them."""
    op.create_table(
        "server",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("identity", sa.String(32), nullable=False),
        sa.Column("key_mark", sa.LargeBinary(), nullable=False),
        sa.Column("made", sa.Float(), nullable=False),
        sa.Column("restored_from", sa.String(32)),
        sa.PrimaryKeyConstraint("id", name="pk_server"),
    )
    op.create_table(
        "studies",
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("trust_model", sa.String(20), nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("deployment", sa.Text(), nullable=False),
        sa.Column("learner", sa.LargeBinary(), nullable=False),
        sa.Column("made", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_studies"),
    )
    op.create_table(
        "snapshots",
        sa.Column("study", sa.String(100), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("learner", sa.LargeBinary(), nullable=False),
        _owned("snapshots"),
        sa.PrimaryKeyConstraint("study", name="pk_snapshots"),
    )
    op.create_table(
        "policies",
        sa.Column("study", sa.String(100), nullable=False),
        sa.Column("stream", sa.String(100), nullable=False),
        sa.Column("version", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("people", sa.BigInteger(), nullable=False),
        sa.Column("published", sa.Float(), nullable=False),
        _owned("policies"),
        sa.PrimaryKeyConstraint("study", "stream", "version", name="pk_policies"),
    )
    op.create_table(
        "batches",
        sa.Column("id", _NUMBER, nullable=False),
        sa.Column("study", sa.String(100), nullable=False),
        sa.Column("stream", sa.String(100), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("stored", sa.Integer(), nullable=False),
        sa.Column("repeated", sa.Integer(), nullable=False),
        sa.Column("body", sa.LargeBinary()),
        sa.Column("received", sa.Float(), nullable=False),
        sa.Column("released", sa.Integer()),
        _owned("batches"),
        sa.PrimaryKeyConstraint("id", name="pk_batches"),
        sa.UniqueConstraint("study", "stream", "digest", name="uq_batches_study_stream_digest"),
    )
    op.create_index("ix_batches_waiting", "batches", ["study", "stream", "released", "id"])
    op.create_table(
        "tickets",
        sa.Column("study", sa.String(100), nullable=False),
        sa.Column("stream", sa.String(100), nullable=False),
        sa.Column("version", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("ticket", sa.BigInteger(), autoincrement=False, nullable=False),
        _owned("tickets"),
        sa.PrimaryKeyConstraint("study", "stream", "version", "ticket", name="pk_tickets"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "decisions",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("study", sa.String(100), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("payload", sa.LargeBinary()),
        sa.Column("mark", sa.LargeBinary()),
        sa.Column("decided", sa.Float(), nullable=False),
        sa.Column("expires", sa.Float(), nullable=False),
        sa.Column("released", sa.Integer()),
        _owned("decisions"),
        sa.PrimaryKeyConstraint("id", name="pk_decisions"),
    )
    op.create_index("ix_decisions_waiting", "decisions", ["study", "state", "released", "id"])
    op.create_index("ix_decisions_expires", "decisions", ["state", "expires"])
    op.create_table(
        "ledger",
        sa.Column("study", sa.String(100), nullable=False),
        sa.Column("stream", sa.String(100), nullable=False),
        sa.Column("version", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("asked", sa.BigInteger(), nullable=False),
        sa.Column("held", sa.BigInteger(), nullable=False),
        sa.Column("delta", sa.Float(), nullable=False),
        sa.Column("reports", sa.BigInteger(), nullable=False),
        sa.Column("guarantee", sa.Text(), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("drawn", sa.Float(), nullable=False),
        _owned("ledger"),
        sa.PrimaryKeyConstraint("study", "stream", "version", name="pk_ledger"),
    )
    op.create_table(
        "leases",
        sa.Column("study", sa.String(100), nullable=False),
        sa.Column("holder", sa.String(64), nullable=False),
        sa.Column("expires", sa.Float(), nullable=False),
        _owned("leases"),
        sa.PrimaryKeyConstraint("study", name="pk_leases"),
    )
    op.create_table(
        "keys",
        sa.Column("id", sa.String(16), nullable=False),
        sa.Column("role", sa.String(20), nullable=False),
        sa.Column("study", sa.String(100)),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column("made", sa.Float(), nullable=False),
        sa.Column("revoked", sa.Float()),
        sa.PrimaryKeyConstraint("id", name="pk_keys"),
    )
    op.create_table(
        "operations",
        sa.Column("id", _NUMBER, nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("key", sa.String(16), nullable=False),
        sa.Column("what", sa.Text(), nullable=False),
        sa.Column("study", sa.String(100)),
        sa.PrimaryKeyConstraint("id", name="pk_operations"),
    )
    op.create_table(
        "tables",
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("certificate", sa.Text(), nullable=False),
        sa.Column("rows", sa.LargeBinary(), nullable=False),
        sa.Column("format", sa.String(20), nullable=False),
        sa.Column("published", sa.Float(), nullable=False),
        sa.Column("closed", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_tables"),
    )
    op.create_table(
        "questions",
        sa.Column("table", sa.String(100), nullable=False),
        sa.Column("question", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("row", sa.Integer(), nullable=False),
        sa.Column("asked", sa.Float(), nullable=False),
        sa.Column("answer", sa.Float()),
        sa.Column("answered", sa.Float()),
        sa.ForeignKeyConstraint(["table"], ["tables.name"], name="fk_questions_table"),
        sa.PrimaryKeyConstraint("table", "question", name="pk_questions"),
    )


def _owned(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(["study"], ["studies.name"], name=f"fk_{table}_study")
