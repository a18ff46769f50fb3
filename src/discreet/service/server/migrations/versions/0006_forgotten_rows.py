"""Indexes without the rows that nobody waits for, and the counts of rows that are deleted."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make them."""
    op.add_column("server", sa.Column("clock", sa.Float()))
    op.add_column("studies", sa.Column("closed", sa.Text(), nullable=False, server_default="{}"))
    op.create_table(
        "pruned",
        sa.Column("study", sa.String(100), nullable=False),
        sa.Column("stream", sa.String(100), nullable=False),
        sa.Column("version", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["study"], ["studies.name"], name="fk_pruned_study"),
        sa.PrimaryKeyConstraint("study", "stream", "version", "state", name="pk_pruned"),
    )
    op.drop_index("ix_decisions_waiting", "decisions")
    op.drop_index("ix_decisions_expires", "decisions")
    op.drop_index("ix_batches_waiting", "batches")
    _index(
        "ix_decisions_waiting",
        "decisions",
        ["study", "state", "id"],
        "payload IS NOT NULL AND released IS NULL",
    )
    _index("ix_decisions_held", "decisions", ["expires"], "payload IS NOT NULL")
    _index("ix_decisions_empty", "decisions", ["expires"], "payload IS NULL")
    _index("ix_decisions_aside", "decisions", ["study"], "state = 'unreadable'")
    _index("ix_batches_waiting", "batches", ["study", "stream", "id"], "released IS NULL")
    _index("ix_batches_empty", "batches", ["received"], "released >= 0")
    _index("ix_batches_aside", "batches", ["study"], "released = -1")


def _index(name: str, table: str, columns: list[str], where: str) -> None:
    only = sa.text(where)
    op.create_index(name, table, columns, sqlite_where=only, postgresql_where=only)
