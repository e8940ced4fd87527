"""The changes of a store's tables, in order, for Alembic.

Owns bringing a database up to date. What the tables are now is ``tables``.
"""

from __future__ import annotations

import logging
from pathlib import Path
from threading import Lock

from sqlalchemy import Connection, func, inspect, select, text, update

from antiphon.errors import ConfigError
from antiphon.host.store.tables import OLDEST, REVISION, compatible
from antiphon.sql.runner import TRANSACTION

__all__ = ["is_current", "refuse_newer", "revision", "upgrade"]

_log = logging.getLogger("antiphon.host")

_LOCK = 0x616E7469
"""Any number that nobody else has: "anti". SQLite has one writer anyway."""

_alembic = Lock()
"""Held while Alembic runs, since it keeps what it works on in variables of its modules: stores of one process that are
opened at the same time, each in a thread of its own, would otherwise change each other's tables."""


def is_current(connection: Connection) -> bool:
    """Return whether the tables can be used as they are.

    That includes tables to which a newer release has added what this one may ignore. Alembic is not used for this,
    because its import takes longer than opening a store.

    Raises:
        ConfigError: a newer release has added what this one must not ignore.
    """
    if not inspect(connection).has_table("alembic_version"):
        return False
    found = revision(connection)
    if found <= REVISION:
        return found == REVISION
    refuse_newer(connection)
    _log.warning("the store is of a newer release (%s) than this one (%s), which can work with it", found, REVISION)
    return True


def refuse_newer(connection: Connection) -> None:
    """Check that this release obeys everything in the store that decides about a request.

    Raises:
        ConfigError: a newer release has added what this one must not ignore; says what to do.
    """
    found = revision(connection)
    if found <= REVISION:
        return
    oldest = connection.scalar(select(compatible.c.oldest))
    if oldest is None or oldest > REVISION:
        raise ConfigError(
            f"the store is of a newer release of antiphon: it is at revision {found}, which needs code of "
            f"{oldest or found} or later, and this is {REVISION}. Update antiphon here, or use another store"
        )


def revision(connection: Connection) -> str:
    """Return the newest of the migrations that were made; empty without any."""
    return max(connection.execute(text("SELECT version_num FROM alembic_version")).scalars().all(), default="")


def upgrade(connection: Connection) -> bool:
    """Bring the tables up to date, within the transaction of the connection; return whether they are.

    They may not be while another process is at it, which is not waited for here: a transaction that waits is given up
    after seconds, and on a busy machine that takes longer.
    """
    if connection.dialect.name == "postgresql":
        if not connection.execute(select(func.pg_try_advisory_xact_lock(_LOCK))).scalar_one():
            return False
        # Nothing is sent while the migrations are read, which takes longer there than we are otherwise silent.
        longest = func.set_config("idle_in_transaction_session_timeout", f"{TRANSACTION:g}s", True)
        connection.execute(select(longest))
    # Another process may have done it since somebody looked.
    if is_current(connection):
        return True
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.attributes["connection"] = connection
    with _alembic:
        command.upgrade(config, "head")
    connection.execute(update(compatible).values(oldest=OLDEST))
    return True
