"""What a server published that this one was restored from."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make its table."""
    op.create_table(
        "former",
        sa.Column("study", sa.String(100), nullable=False),
        sa.Column("identity", sa.String(100), nullable=False),
        sa.Column("stream", sa.String(100), nullable=False),
        sa.Column("version", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("budget", sa.BigInteger(), nullable=False),
        sa.Column("budget_delta", sa.Float(), nullable=False),
        sa.Column("asked", sa.BigInteger(), nullable=False),
        sa.Column("held", sa.BigInteger(), nullable=False),
        sa.Column("delta", sa.Float(), nullable=False),
        sa.Column("reports", sa.BigInteger(), nullable=False),
        sa.Column("guarantee", sa.Text(), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("drawn", sa.Float(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("people", sa.BigInteger(), nullable=False),
        sa.Column("published", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(["study"], ["studies.name"], name="fk_former_study"),
        sa.PrimaryKeyConstraint("study", "identity", "stream", "version", name="pk_former"),
    )
