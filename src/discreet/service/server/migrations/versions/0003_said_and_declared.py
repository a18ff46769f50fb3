"""What a learner said when it published a policy, and the mechanisms of its guarantee."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make their columns."""
    op.add_column("policies", sa.Column("finding", sa.Text()))
    for table in ("ledger", "former"):
        op.add_column(table, sa.Column("declared", sa.Text()))
