"""Policies are kept as the bytes that their SHA-256 is of."""

from __future__ import annotations

import json
import zlib
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Write them anew, one at a time: names sorted, without spaces and the schema, which is 1."""
    for name, keys in (
        ("policies", ("study", "stream", "version")),
        ("former", ("study", "identity", "stream", "version")),
    ):
        table = sa.table(name, *map(sa.column, keys), sa.column("body", sa.LargeBinary))
        own = [table.c[key] for key in keys]
        for place in op.get_bind().execute(sa.select(*own)).all():
            same = [column == value for column, value in zip(own, place, strict=True)]
            body: Any = op.get_bind().scalar(sa.select(table.c.body).where(*same))
            fields = json.loads(zlib.decompress(body))
            fields.pop("schema", None)
            text = json.dumps(fields, sort_keys=True, separators=(",", ":"), allow_nan=False)
            packed = zlib.compress(text.encode(), 1)
            op.execute(sa.update(table).where(*same).values(body=packed))
