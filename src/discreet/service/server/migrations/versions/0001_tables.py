"""The first version: a new database has the tables of schema.py, and runs no migration."""

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Nothing; a later migration changes tables of older databases here."""
