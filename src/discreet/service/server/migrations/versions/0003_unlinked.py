"""A shuffler knows by no row which key sent a ciphertext whose group is fixed."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make both tables anew, in the order of what they hold, so that no place in a file links."""
    op.execute(
        "CREATE TABLE former_admitted AS SELECT admitted.study, admitted.key, admitted.mark, "
        "held.digest, held.ciphertext FROM admitted LEFT JOIN held "
        "ON held.study = admitted.study AND held.mark = admitted.mark"
    )
    op.drop_table("held")
    op.drop_table("admitted")
    mark, key = sa.LargeBinary(), sa.String(16)
    _create("admitted", sa.Column("key", key, primary_key=True))
    _create(
        "held",
        sa.Column("digest", sa.String(64), primary_key=True),
        sa.Column("mark", mark, primary_key=True),
        sa.Column("key", key, nullable=False),
        sa.Column("ciphertext", sa.LargeBinary(), nullable=False),
        sa.UniqueConstraint("study", "key"),
    )
    _create("passed", sa.Column("mark", mark, primary_key=True))
    for table, columns, rows in (
        ("admitted", "study, key", "true"),
        ("held", "study, digest, mark, key, ciphertext", "ciphertext IS NOT NULL"),
        ("passed", "study, mark", "ciphertext IS NULL"),
    ):
        op.execute(
            f"INSERT INTO {table} ({columns}) SELECT {columns} FROM former_admitted "
            f"WHERE {rows} ORDER BY {columns}"
        )
    op.drop_table("former_admitted")


def _create(name: str, *columns: sa.schema.SchemaItem) -> None:
    study = sa.ForeignKey("relays.study")
    first = sa.Column("study", sa.String(100), study, primary_key=True)
    op.create_table(name, first, *columns, sqlite_with_rowid=False)
