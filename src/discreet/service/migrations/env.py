"""Runs migrations on the connection that `discreet.service.upgrade` has begun a transaction on."""

from __future__ import annotations

from alembic import context

from discreet.service.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,  # SQLite changes columns by making the table anew
)
context.run_migrations()
