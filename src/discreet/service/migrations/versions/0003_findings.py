"""What a learner said when it published a policy."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make its column."""
    op.add_column("policies", sa.Column("finding", sa.Text()))
