"""What is left of observations goes: marks of rewards, and sums of studies that are finished."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Erase it; where reports were private when they arrived, sums are nobody's observations."""
    op.execute("UPDATE decisions SET mark = NULL WHERE payload IS NULL")
    snapshots = sa.table("snapshots", sa.column("study"), sa.column("learner", sa.LargeBinary))
    studies = sa.table("studies", *map(sa.column, ("name", "trust_model", "state")))
    ended = sa.select(studies.c.name).where(
        studies.c.trust_model == "joint", studies.c.state == "finished"
    )
    op.execute(sa.update(snapshots).where(snapshots.c.study.in_(ended)).values(learner=b""))
