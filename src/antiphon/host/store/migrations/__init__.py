"""How a store came to be: the changes of its tables, in order, for Alembic.

Owns bringing a database up to date. What the tables are now is ``schema``.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, func, inspect, select, text

from antiphon.host.store.schema import REVISION

__all__ = ["is_current", "upgrade"]

_LOCK = 0x616E7469
"""Any number that nobody else has: "anti". SQLite has one writer anyway."""


def is_current(connection: Connection) -> bool:
    """Tell whether nothing is to be done: without Alembic, whose import takes longer than opening a store."""
    if not inspect(connection).has_table("alembic_version"):
        return False
    found = connection.execute(text("SELECT version_num FROM alembic_version")).scalars().all()
    return list(found) == [REVISION]


def upgrade(connection: Connection) -> None:
    """Bring the tables up to date, within the transaction of the connection; one process at a time."""
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(_LOCK)))
        if is_current(connection):
            return
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
