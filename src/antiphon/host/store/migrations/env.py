"""What Alembic runs: the migrations, on the connection that ``upgrade`` hands over and within its transaction."""

from __future__ import annotations

from alembic import context

from antiphon.host.store.tables import metadata

__all__: list[str] = []

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transaction_per_migration=False,
)
context.run_migrations()
