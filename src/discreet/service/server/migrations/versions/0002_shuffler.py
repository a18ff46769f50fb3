"""The tables of a shuffler."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make them; a service leaves them empty."""
    op.create_table(
        "relays",
        sa.Column("study", sa.String(100), primary_key=True),
        sa.Column("terms", sa.Text(), nullable=False),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.Column("policy", sa.String(64), nullable=False),
    )
    op.create_table(
        "relayed",
        _study(),
        sa.Column("digest", sa.String(64), primary_key=True),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("bytes", sa.Integer(), nullable=False),
    )
    op.create_table(
        "admitted",
        _study(),
        sa.Column("key", sa.String(16), primary_key=True),
        sa.Column("mark", sa.LargeBinary(), nullable=False),
        sa.UniqueConstraint("study", "mark"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "held",
        _study(),
        sa.Column("digest", sa.String(64), primary_key=True),
        sa.Column("mark", sa.LargeBinary(), primary_key=True),
        sa.Column("ciphertext", sa.LargeBinary(), nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "groups",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("study", sa.String(100), sa.ForeignKey("relays.study"), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sqlite_with_rowid=False,
    )


def _study() -> sa.Column[str]:
    return sa.Column("study", sa.String(100), sa.ForeignKey("relays.study"), primary_key=True)
