"""Replicas that share a Redis (7 or later) or a Valkey: records as strings, events and messages as streams.

Messages are streams rather than pub/sub, so that a connection that breaks loses none: the reader goes on where it was.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Sequence
from typing import Any, cast

from antiphon.errors import ClusterUnavailable, ConfigError
from antiphon.machine.asyncio_tasks import end_tasks
from antiphon.machine.public_names import describe_install
from antiphon.replicas.engines import base

_BLOCK = 1.0
"""Seconds for which one read waits for messages; between two reads the connection is known to work."""

_CONNECTIONS = 16
"""Most connections of one replica, beside the one that reads; beyond that, operations wait their turn."""

_TRIM = 0.1
"""Seconds after which messages that were read are removed: one operation for all of them, and not one for each."""

_PUBLISHED = 10_000
"""Most messages to all replicas that are kept for those that have lost their connection; Redis may keep a few more."""

_PAUSE = 1.0
"""Most seconds between two attempts to connect again."""

_RAISE_REVISION = """
if tonumber(redis.call('HGET', KEYS[1], 'revision') or '0') < tonumber(ARGV[1]) then
  redis.call('HSET', KEYS[1], 'revision', ARGV[1], 'oldest', ARGV[2])
end
return redis.call('HMGET', KEYS[1], 'revision', 'oldest')
"""

_REPLACE = """
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
  return 1
end
return 0
"""


class RedisCluster(base.ClusterMember):
    """A replica of a server whose replicas share a Redis. Needs ``antiphon[redis]``.

    Args:
        url: where it is: ``redis://user:password@host:6379/0``, ``rediss://`` for TLS, or ``unix://``.
        prefix: what the names of all keys begin with; servers with the same prefix and name share what they keep.
        lease: seconds without a sign of life after which a replica counts as dead.
        patience: seconds that the engine has for one operation.

    Raises:
        ConfigError: redis-py is not installed, or the address is none.
    """

    def __init__(
        self, url: str, *, prefix: str = "antiphon", lease: float = base.LEASE, patience: float = base.PATIENCE
    ) -> None:
        super().__init__(lease=lease)
        try:
            from redis.asyncio import BlockingConnectionPool, Redis
            from redis.exceptions import RedisError
        except ImportError:
            raise ConfigError(f"RedisCluster needs redis-py: {describe_install('redis')}") from None
        self._patience = patience
        self._prefix = prefix
        self._errors = (RedisError, OSError, TimeoutError)
        options: dict[str, Any] = {"socket_connect_timeout": patience, "retry": None, "timeout": patience}
        connect = cast("Any", BlockingConnectionPool).from_url
        try:
            # Any: by its types, whatever redis-py returns may be text, bytes or nothing.
            self._redis: Any = Redis.from_pool(
                connect(url, socket_timeout=patience, max_connections=_CONNECTIONS, **options)
            )
            # A read waits until there is a message, so it has a connection and a time limit of its own.
            self._inbound: Any = Redis.from_pool(
                connect(url, socket_timeout=_BLOCK + patience, max_connections=1, **options)
            )
        except ValueError as error:
            raise ConfigError(f"RedisCluster: {error}") from None
        self._reading: asyncio.Task[None] | None = None
        self._trimming: asyncio.Task[None] | None = None
        self._seen: dict[str, str] = {}
        self._is_open = False

    # --- life ---------------------------------------------------------------------------------------------------

    async def _join(self) -> None:
        revision, oldest = await self._done(
            self._redis.eval(_RAISE_REVISION, 1, self._key("revision"), base.REVISION, base.OLDEST)
        )
        base.check_revision(int(revision), int(oldest))
        last = await self._done(self._redis.xrevrange(self._key("all"), count=1))
        self._seen = {self._key("to", self.replica): "0", self._key("all"): last[0][0] if last else "0"}
        await self._renew()
        self._is_open = True
        self._reading = asyncio.get_running_loop().create_task(self._read_on())

    async def _leave(self) -> None:
        self._is_open = False
        await end_tasks(self._reading, self._trimming)
        with contextlib.suppress(ClusterUnavailable):
            await self._done(self._redis.delete(self._key("alive", self.replica), self._key("to", self.replica)))
        for client in (self._redis, self._inbound):
            with contextlib.suppress(*self._errors):
                await client.aclose()

    async def _renew(self) -> bool:
        before = await self._done(
            self._redis.set(self._key("alive", self.replica), b"1", px=_convert_to_ms(self._lease), get=True)
        )
        return before is not None

    async def is_alive(self, replica: str) -> bool:
        return bool(await self._done(self._redis.exists(self._key("alive", replica))))

    # --- messages -----------------------------------------------------------------------------------------------

    async def send(self, replica: str, topic: str, data: bytes) -> None:
        key = self._key("to", replica)
        steps = self._redis.pipeline(transaction=False)
        steps.xadd(key, self._message(topic, data))
        # Should that replica be dead, nobody else would ever remove it.
        steps.expire(key, base.WAITING)
        await self._done(steps.execute())

    async def publish(self, topic: str, data: bytes) -> None:
        await self._done(self._redis.xadd(self._key("all"), self._message(topic, data), maxlen=_PUBLISHED))

    def _message(self, topic: str, data: bytes) -> dict[Any, Any]:
        base.check_size(data)
        return {"f": self.replica, "t": topic, "d": data}

    async def _read_on(self) -> None:
        """Deliver messages until this replica leaves, over as many connections as it takes."""
        pause = 0.0
        # A flag ends this, since redis-py may turn a cancellation into a timeout.
        while self._is_open:
            try:
                found = await self._inbound.xread(dict(self._seen), count=base.READ, block=_convert_to_ms(_BLOCK))
            except self._errors as error:
                pause = min(_PAUSE, 2 * pause + 0.05)
                base.log.debug("the engine cannot be read: %r", error)
                await asyncio.sleep(pause)
                continue
            pause = 0.0
            if isinstance(found, dict):
                # RESP3 returns a mapping of each stream to a list of lists.
                by_stream = cast("dict[bytes, Any]", found)
                found = [(stream, batch) for stream, batches in by_stream.items() for batch in batches]
            for stream, messages in found or ():
                self._take(stream.decode(), messages)

    def _take(self, stream: str, messages: Sequence[tuple[bytes, dict[bytes, bytes]]]) -> None:
        own = stream == self._key("to", self.replica)
        if own and (self._trimming is None or self._trimming.done()):
            self._trimming = asyncio.get_running_loop().create_task(self._trim(stream))
        for id, fields in messages:
            self._seen[stream] = id.decode()
            sender = fields.get(b"f", b"").decode("ascii", "replace")
            if own or sender != self.replica:
                self.take(sender, fields.get(b"t", b"").decode("ascii", "replace"), fields.get(b"d", b""))

    async def _trim(self, stream: str) -> None:
        """Remove the messages that were read: those of a tenth of a second in one operation."""
        await asyncio.sleep(_TRIM)
        with contextlib.suppress(ClusterUnavailable):
            milliseconds, _, number = self._seen[stream].partition("-")
            await self._done(self._redis.xtrim(stream, minid=f"{milliseconds}-{int(number) + 1}", approximate=False))

    # --- records ------------------------------------------------------------------------------------------------

    async def get(self, key: str) -> bytes | None:
        return await self._done(self._redis.get(self._key("record", key)))

    async def put(self, key: str, value: bytes, ttl: float) -> None:
        base.check_size(value)
        await self._done(self._redis.set(self._key("record", key), value, px=_convert_to_ms(ttl)))

    async def add(self, key: str, value: bytes, ttl: float) -> bool:
        base.check_size(value)
        return bool(await self._done(self._redis.set(self._key("record", key), value, px=_convert_to_ms(ttl), nx=True)))

    async def replace(self, key: str, value: bytes, ttl: float, *, expected: bytes) -> bool:
        base.check_size(value)
        script = self._redis.eval(_REPLACE, 1, self._key("record", key), expected, value, _convert_to_ms(ttl))
        return bool(await self._done(script))

    async def delete(self, key: str) -> None:
        await self._done(self._redis.delete(self._key("record", key)))

    # --- events -------------------------------------------------------------------------------------------------

    async def append(self, stream: str, number: int, data: bytes) -> None:
        base.check_size(data)
        key = self._key("events", stream)
        steps = self._redis.pipeline(transaction=False)
        # Redis knows no id 0-0, and refuses one that is not above the last: then this event is kept already.
        steps.xadd(key, {"d": data}, id=f"{number}-1", maxlen=base.EVENTS)
        steps.expire(key, base.EVENTS_FOR)
        added, _ = await self._done(steps.execute(raise_on_error=False))
        if isinstance(added, Exception) and "equal or smaller" not in str(added):
            raise self._failed(added)

    async def after(self, stream: str, number: int) -> Sequence[tuple[int, bytes]]:
        first = f"({number}-1" if number >= 0 else "-"
        found = await self._done(self._redis.xrange(self._key("events", stream), min=first, count=base.EVENTS))
        return [(int(id.partition(b"-")[0]), fields[b"d"]) for id, fields in found]

    async def forget(self, stream: str) -> None:
        await self._done(self._redis.delete(self._key("events", stream)))

    # --- names --------------------------------------------------------------------------------------------------

    def _key(self, *parts: str) -> str:
        return ":".join((self._prefix, *parts))

    async def _done(self, operation: Awaitable[Any]) -> Any:
        """Wait for an operation, no longer than the engine has for one."""
        try:
            async with asyncio.timeout(self._patience):
                return await operation
        except self._errors as error:
            raise self._failed(error) from None

    def _failed(self, error: Exception) -> ClusterUnavailable:
        return base.make_unavailable("Redis", self._patience, error)


def _convert_to_ms(seconds: float) -> int:
    return max(1, round(seconds * 1000))
