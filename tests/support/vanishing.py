"""A process that vanishes in the middle of a transaction: run as ``python -m tests.support.vanishing PLACE``.

It becomes the only writer of the store, and stops itself.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from sqlalchemy import Connection, make_url

from antiphon.host.store import audit_tables
from antiphon.sql.runner import PostgresRunner


def work(connection: Connection) -> None:
    """Lock what every writer locks, and stop."""
    audit_tables.lock_chain(connection)
    os.kill(os.getpid(), signal.SIGSTOP)


async def main(place: str) -> None:
    """Begin a transaction."""
    await PostgresRunner(make_url(place).set(drivername="postgresql+asyncpg")).run(work)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
