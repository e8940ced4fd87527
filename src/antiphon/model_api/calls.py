"""The requests of one process: each runs once, whoever waits for it, and outlives its connection.

A person may think longer than a client waits. Its retry then joins the request that is open, instead of putting the
question a second time, and an answer that nobody took is kept for a while. Owns which request is a retry of which; two
equal requests that are no retries stay two.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from antiphon.model_api.dialects.failures import Failure, failure_of

__all__ = ["KEPT", "MAX_KEPT", "MAX_LARGE", "MAX_OPEN", "Answered", "Call", "Calls", "too_many"]

KEPT = 600.0
"""Seconds for which a request outlives its last connection: ten minutes, as long as a review may take by default."""
MAX_OPEN = 64
"""Most open requests of one process; as many asks of one server are open at most by default."""
MAX_LARGE = 16
"""Most requests of one process whose answers are large (embeddings), each until it was read: 256 MiB together."""
MAX_KEPT = 64
"""Most answers of one process that are kept; the oldest is dropped."""

Answered = TypeVar("Answered")


class Call(Generic[Answered]):
    """One request. Made by ``Calls.open``."""

    def __init__(
        self,
        digest: bytes,
        key: str | None,
        work: Callable[[Call[Answered]], Awaitable[Answered]],
        ended: Callable[[Call[Any]], None],
        *,
        keeps: bool,
    ) -> None:
        self.digest = digest
        self.key = key
        self.keeps = keeps
        """Whether its answer is kept for a retry, once it has one."""
        self.pieces: list[str] = []
        """The text that has come so far."""
        self.readers = 0
        """Connections that wait for it."""
        self.timer: asyncio.TimerHandle | None = None
        self.on_end: Callable[[bool], None] = lambda delivered: None
        """Called once: when somebody has its answer, or when it is forgotten and nobody had."""
        self._has_ended = False
        self._news = asyncio.Event()
        self.task: asyncio.Task[Answered | Failure] = asyncio.create_task(self._run(work), name="antiphon-model-api")
        self.task.add_done_callback(lambda _: self._told(ended))

    def add(self, piece: str) -> None:
        """Add text to the answer."""
        self.pieces.append(piece)
        self._tell()

    def delivered(self) -> None:
        """Note that somebody has its answer."""
        self.end(was_delivered=True)

    def end(self, *, was_delivered: bool) -> None:
        """Report what became of its answer, once."""
        if not self._has_ended:
            self._has_ended = True
            self.on_end(was_delivered)

    @property
    def outcome(self) -> Answered | Failure | None:
        """The answer, or why there is none; ``None`` while it runs."""
        if not self.task.done():
            return None
        if self.task.cancelled():
            return Failure(401, "revoked", "The token was revoked.")
        return self.task.result()

    async def news(self, seen: int) -> None:
        """Wait until there are more than ``seen`` pieces, or the outcome is known."""
        while len(self.pieces) <= seen and not self.task.done():
            await self._news.wait()

    async def _run(self, work: Callable[[Call[Answered]], Awaitable[Answered]]) -> Answered | Failure:
        try:
            return await work(self)
        except Exception as error:
            return failure_of(error)

    def _told(self, ended: Callable[[Call[Any]], None]) -> None:
        self._tell()
        ended(self)

    def _tell(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()


def too_many() -> Failure:
    """Make the refusal of a request where too many are open."""
    return Failure(429, "refused_limit", "Too many requests are open.")


class Calls:
    """The requests of one process that are open or kept."""

    def __init__(self, *, kept: float = KEPT) -> None:
        self._kept = kept
        self._calls: list[Call[Any]] = []
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._calls)

    @property
    def is_full(self) -> bool:
        """Whether as many are open as may be."""
        return sum(not call.task.done() for call in self._calls) >= MAX_OPEN

    def find(self, digest: bytes, key: str | None, *, is_retry: bool) -> Call[Any] | None:
        """Return the request that this one repeats, or ``None`` if it is a new one.

        Args:
            digest: of the path and the body; a client repeats both byte by byte.
            key: its idempotency key, if it has one.
            is_retry: whether the client says that it is a retry.

        Raises:
            Failure: another request has this key.
        """
        if key is not None:
            named = next((call for call in self._calls if call.key == key), None)
            if named is not None and named.digest != digest:
                raise Failure(409, "idempotency_key_in_use", "Another request was made with this idempotency key.")
            if named is not None or not is_retry:
                return named
        alike = [call for call in self._calls if call.digest == digest] if is_retry else []
        # Of several, one that lost its connection.
        return min(alike, key=lambda call: call.readers, default=None)

    def open(
        self,
        digest: bytes,
        key: str | None,
        work: Callable[[Call[Answered]], Awaitable[Answered]],
        *,
        keeps: bool = True,
    ) -> Call[Answered]:
        """Begin a request.

        Args:
            digest: of the path and the body.
            key: its idempotency key, if it has one.
            work: makes the answer.
            keeps: whether the answer is kept for a retry; one that is large and soon made again is not.

        Raises:
            Failure: too many are open, or its process has ended while the request came in.
        """
        if self._is_closed:
            raise Failure(401, "revoked", "The token was revoked.")
        if self.is_full or (not keeps and sum(not call.keeps for call in self._calls) >= MAX_LARGE):
            raise too_many()
        call = Call(digest, key, work, self._ended, keeps=keeps)
        self._calls.append(call)
        return call

    def attach(self, call: Call[Any]) -> None:
        """Note that a connection waits for a request."""
        call.readers += 1
        if call.timer is not None:
            call.timer.cancel()
            call.timer = None

    def detach(self, call: Call[Any]) -> None:
        """Note that it does not any more: the request is forgotten after a while, unless a retry comes."""
        call.readers -= 1
        if call.readers == 0 and call.task.done() and not call.keeps:
            self._forget(call)
        elif call.readers == 0 and call in self._calls:
            call.timer = asyncio.get_running_loop().call_later(self._kept, self._forget, call)

    def close(self) -> None:
        """Withdraw everything, for good."""
        self._is_closed = True
        for call in list(self._calls):
            self._forget(call)

    def _ended(self, call: Call[Any]) -> None:
        if not call.readers and not call.keeps:
            self._forget(call)
        done = [each for each in self._calls if each.task.done() and not each.readers]
        for each in done[: max(0, len(done) - MAX_KEPT)]:
            self._forget(each)

    def _forget(self, call: Call[Any]) -> None:
        if call not in self._calls:
            return
        self._calls.remove(call)
        if call.timer is not None:
            call.timer.cancel()
        call.task.cancel()
        call.end(was_delivered=False)
