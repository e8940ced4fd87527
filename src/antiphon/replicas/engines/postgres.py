"""Replicas that share a PostgreSQL: five tables, and NOTIFY to wake whoever has a message.

A message is a row; a notification carries nothing, since it is limited to 8 kB and lost while nobody listens. A replica
deletes its rows as it reads them, also once a second in case a notification was lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from antiphon.errors import ClusterUnavailable, ConfigError
from antiphon.machine.asyncio_tasks import end_tasks, start_in, wait_at_most
from antiphon.machine.public_names import describe_install
from antiphon.replicas.engines import base

_LOOK = 1.0
"""Seconds between two looks for messages without a notification."""

_CONNECTIONS = 8
"""Most connections of one replica, beside the one that listens."""

_SWEEP = 60.0
"""Seconds between two removals of what has expired."""

# Read before the tables are made, so that nothing is added to those of a release that is too new.
_REVISIONS = """
SELECT pg_advisory_xact_lock(hashtext('~'));
CREATE TABLE IF NOT EXISTS ~revision (id int PRIMARY KEY, revision int NOT NULL, oldest int NOT NULL);
"""

_RAISE_REVISION = """
INSERT INTO ~revision VALUES (1, $1, $2) ON CONFLICT (id)
DO UPDATE SET revision = excluded.revision, oldest = excluded.oldest WHERE ~revision.revision < excluded.revision
"""

_TABLES = Path(__file__).with_name("postgres_tables.sql").read_text("utf-8")


_SWEEPS = (
    "DELETE FROM ~records WHERE until <= clock_timestamp()",
    "DELETE FROM ~events WHERE until <= clock_timestamp()",
    # As long as messages wait for one that was only cut off.
    "DELETE FROM ~replicas WHERE until <= clock_timestamp() - interval '60 s'",
    "DELETE FROM ~messages WHERE until <= clock_timestamp()",
)


async def _leave_as_it_is(_connection: object) -> None:
    """Reset nothing when a connection is given back: each statement is a transaction, and changes no setting."""


class PostgresCluster(base.ClusterMember):
    """A replica of a server whose replicas share a PostgreSQL (13 or later). Needs ``antiphon[postgres]``.

    Args:
        url: where it is: ``postgresql://user:password@host/database``. No pooler that hands a connection to another
            client between two transactions may stand before it.
        prefix: what the names of its tables begin with; servers with the same prefix and name share what they keep.
        lease: seconds without a sign of life after which a replica counts as dead.
        patience: seconds that the database has for one operation.

    Raises:
        ConfigError: asyncpg is not installed, or the prefix cannot be one.
    """

    def __init__(
        self, url: str, *, prefix: str = "antiphon", lease: float = base.LEASE, patience: float = base.PATIENCE
    ) -> None:
        super().__init__(lease=lease)
        try:
            # Any: it has no types.
            asyncpg: Any = import_module("asyncpg")
        except ImportError:
            raise ConfigError(f"PostgresCluster needs asyncpg: {describe_install('postgres')}") from None
        if not re.fullmatch(r"[a-z_][a-z0-9_]{0,30}", prefix):
            raise ConfigError("PostgresCluster(prefix=) has at most 31 small letters, digits and underscores")
        self._url = url
        self._p = prefix
        self._patience = patience
        self._asyncpg = asyncpg
        self._errors = (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError, ValueError)
        self._pool: Any = None
        self._is_open = False
        self._reading: asyncio.Task[None] | None = None
        self._running: set[asyncio.Task[tuple[Any, Exception | None]]] = set()
        """Statements that have not ended yet."""
        self._woken = asyncio.Event()
        self._swept = 0.0
        self._sweeping: asyncio.Task[None] | None = None

    # --- life ---------------------------------------------------------------------------------------------------

    async def _join(self) -> None:
        try:
            async with asyncio.timeout(self._patience):
                self._pool = await self._asyncpg.create_pool(
                    self._url, min_size=0, max_size=_CONNECTIONS, reset=_leave_as_it_is
                )
        except self._errors as error:
            raise self._failed(error) from None
        await self._do("execute", _REVISIONS)
        await self._do("execute", _RAISE_REVISION, base.REVISION, base.OLDEST)
        found = await self._do("fetchrow", "SELECT revision, oldest FROM ~revision")
        base.check_revision(found["revision"], found["oldest"])
        await self._do("execute", _TABLES)
        await self._renew()
        self._is_open = True
        self._reading = asyncio.get_running_loop().create_task(self._read_on())

    async def _leave(self) -> None:
        self._is_open = False
        await end_tasks(self._reading, self._sweeping)
        with contextlib.suppress(ClusterUnavailable):
            await self._do("execute", "DELETE FROM ~replicas WHERE replica = $1", self.replica)
            await self._do("execute", "DELETE FROM ~messages WHERE receiver = $1", self.replica)
        pool, self._pool = self._pool, None
        if pool is not None:
            try:
                async with asyncio.timeout(self._patience):
                    await pool.close()
            except self._errors:
                pool.terminate()
        if self._running:
            await asyncio.wait(self._running, timeout=self._patience)

    async def _renew(self) -> bool:
        # Of a row that was inserted, and not updated, xmax is 0.
        was_known = await self._do(
            "fetchval",
            "INSERT INTO ~replicas VALUES ($1, clock_timestamp() + make_interval(secs => $2)) "
            "ON CONFLICT (replica) DO UPDATE SET until = excluded.until RETURNING xmax <> 0",
            self.replica,
            self._lease,
        )
        now = asyncio.get_running_loop().time()
        if now - self._swept > _SWEEP and (self._sweeping is None or self._sweeping.done()):
            self._swept, self._sweeping = now, asyncio.get_running_loop().create_task(self._sweep())
        return bool(was_known)

    async def _sweep(self) -> None:
        """Remove what has expired, in a task of its own: the next sign of life does not wait for it."""
        with contextlib.suppress(ClusterUnavailable):
            for statement in _SWEEPS:
                await self._do("execute", statement)

    async def is_alive(self, replica: str) -> bool:
        statement = "SELECT 1 FROM ~replicas WHERE replica = $1 AND until > clock_timestamp()"
        return bool(await self._do("fetchval", statement, replica))

    # --- messages -----------------------------------------------------------------------------------------------

    async def send(self, replica: str, topic: str, data: bytes) -> None:
        await self._store_message(replica, topic, data)

    async def publish(self, topic: str, data: bytes) -> None:
        await self._store_message(None, topic, data)

    async def _store_message(self, replica: str | None, topic: str, data: bytes) -> None:
        """Store a message for a replica, or for all others; also for those that may only have been cut off lately."""
        await self._do(
            "execute",
            "WITH sent AS (INSERT INTO ~messages (receiver, sender, topic, data, until) "
            "SELECT receiver, $1, $2, $3, clock_timestamp() + make_interval(secs => $4) FROM ("
            "SELECT $5::text WHERE $5::text IS NOT NULL UNION ALL SELECT replica FROM ~replicas WHERE $5::text IS NULL "
            "AND until > clock_timestamp() - make_interval(secs => $4) AND replica <> $1"
            ") AS known (receiver) RETURNING receiver) SELECT pg_notify('~' || receiver, '') FROM sent",
            *(self.replica, topic, data, base.WAITING, replica),
        )

    async def _read_on(self) -> None:
        """Deliver messages until this replica leaves, over as many connections as it takes."""
        while self._is_open:
            connection: Any = None
            try:
                async with asyncio.timeout(self._patience):
                    connection = await self._asyncpg.connect(self._url, command_timeout=self._patience)
                    await connection.add_listener(self._named("~") + self.replica, self._wake)
                while self._is_open:
                    await self._read(connection)
            except self._errors as error:
                base.log.debug("the database cannot be read: %r", error)
                await asyncio.sleep(_LOOK / 4)
            finally:
                if connection is not None:
                    connection.terminate()

    async def _read(self, connection: Any) -> None:
        """Deliver what there is, and wait until there is more."""
        self._woken.clear()
        rows = await connection.fetch(
            self._named(
                "DELETE FROM ~messages WHERE receiver = $1 AND id IN "
                "(SELECT id FROM ~messages WHERE receiver = $1 ORDER BY id LIMIT $2) "
                "RETURNING id, sender, topic, data"
            ),
            self.replica,
            base.READ,
        )
        for _, sender, topic, data in sorted(tuple(row) for row in rows):
            self.take(sender, topic, data)
        if not rows:
            await wait_at_most(_LOOK, self._woken.wait())

    def _wake(self, *_: object) -> None:
        self._woken.set()

    # --- records ------------------------------------------------------------------------------------------------

    async def get(self, key: str) -> bytes | None:
        statement = "SELECT value FROM ~records WHERE key = $1 AND until > clock_timestamp()"
        return await self._do("fetchval", statement, key)

    async def put(self, key: str, value: bytes, ttl: float) -> None:
        await self._store(key, value, ttl, replaces=True)

    async def add(self, key: str, value: bytes, ttl: float) -> bool:
        return await self._store(key, value, ttl, replaces=False)

    async def _store(self, key: str, value: bytes, ttl: float, *, replaces: bool) -> bool:
        statement = (
            "INSERT INTO ~records VALUES ($1, $2, clock_timestamp() + make_interval(secs => $3)) ON CONFLICT (key) "
            "DO UPDATE SET value = excluded.value, until = excluded.until "
            "WHERE $4 OR ~records.until <= clock_timestamp() RETURNING 1"
        )
        return bool(await self._do("fetchval", statement, key, value, ttl, replaces))

    async def replace(self, key: str, value: bytes, ttl: float, *, expected: bytes) -> bool:
        statement = (
            "UPDATE ~records SET value = $2, until = clock_timestamp() + make_interval(secs => $3) "
            "WHERE key = $1 AND value = $4 AND until > clock_timestamp() RETURNING 1"
        )
        return bool(await self._do("fetchval", statement, key, value, ttl, expected))

    async def delete(self, key: str) -> None:
        await self._do("execute", "DELETE FROM ~records WHERE key = $1", key)

    # --- events -------------------------------------------------------------------------------------------------

    async def append(self, stream: str, number: int, data: bytes) -> None:
        statement = (
            "INSERT INTO ~events VALUES ($1, $2, $3, clock_timestamp() + make_interval(secs => $4)) "
            "ON CONFLICT DO NOTHING"
        )
        await self._do("execute", statement, stream, number, data, base.EVENTS_FOR)
        if number % 100 == 0 and number >= base.EVENTS:
            oldest = "DELETE FROM ~events WHERE stream = $1 AND number <= $2"
            await self._do("execute", oldest, stream, number - base.EVENTS)

    async def after(self, stream: str, number: int) -> Sequence[tuple[int, bytes]]:
        statement = (
            "SELECT number, data FROM ~events WHERE stream = $1 AND number > $2 "
            "AND until > clock_timestamp() ORDER BY number"
        )
        return [(row[0], row[1]) for row in await self._do("fetch", statement, stream, number)]

    async def forget(self, stream: str) -> None:
        await self._do("execute", "DELETE FROM ~events WHERE stream = $1", stream)

    async def _do(self, how: str, statement: str, *values: object) -> Any:
        """Run a statement, no longer than the database has for one."""
        base.check_size(*values)
        if self._pool is None:
            raise ClusterUnavailable("This replica has not joined its cluster")
        # In a task of its own: asyncpg, once cancelled, first asks the database to stop, which may not answer.
        task = start_in(self._running, self._run(how, statement, values))
        await asyncio.wait((task,), timeout=self._patience)
        if not task.done():
            task.cancel()
            raise self._failed(TimeoutError())
        result, error = task.result()
        if error is not None:
            raise self._failed(error)
        return result

    async def _run(self, how: str, statement: str, values: Sequence[object]) -> tuple[Any, Exception | None]:
        try:
            try:
                return await getattr(self._pool, how)(self._named(statement), *values), None
            except self._asyncpg.UndefinedTableError:
                # The database was made anew while this replica was running.
                await self._pool.execute(self._named(_TABLES))
                return await getattr(self._pool, how)(self._named(statement), *values), None
        except self._errors as error:
            return None, error

    def _named(self, statement: str) -> str:
        """Put the prefix before the names of tables. It is no value, which a statement could take as a parameter."""
        return statement.replace("~", f"{self._p}_")

    def _failed(self, error: Exception) -> ClusterUnavailable:
        return base.make_unavailable("PostgreSQL", self._patience, error)
