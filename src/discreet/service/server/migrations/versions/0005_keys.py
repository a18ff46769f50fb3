"""Keys expire, have a rate and end their sessions; what waits knows by which key it came."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make their columns."""
    for name in ("expires", "rate", "signed_out"):
        op.add_column("keys", sa.Column(name, sa.Float()))
    for table in ("batches", "decisions"):
        op.add_column(table, sa.Column("key", sa.String(16)))
