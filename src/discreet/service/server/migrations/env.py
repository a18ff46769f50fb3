"""Runs migrations in the transaction that `upgrade` began."""

from __future__ import annotations

from alembic import context

from discreet.service.server.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,  # SQLite changes columns by making the table anew
)
context.run_migrations()
