"""The requests of one process: each runs once, even if its connection is lost and the client sends it again.

A person may take longer than a client waits. The client's retry then joins the open request, so that the person is not
asked twice; and an answer that no connection has received is kept for a while. Owns the decision which request is a
retry: equal requests that are not retries remain separate.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from antiphon.model_api.dialects.members import Failure, failure_of

KEPT = 600.0
"""Seconds that a request is kept without a connection: ten minutes, as long as a review may take by default."""
MAX_OPEN = 64
"""Most open requests of one process: the default limit for open asks of one server."""
MAX_LARGE = 16
"""Most requests of one process with large answers (embeddings) that are not read yet: together 256 MiB."""
MAX_KEPT = 64
"""Most answers of one process that are kept; the oldest is dropped."""

Answered = TypeVar("Answered")


class ModelCall(Generic[Answered]):
    """One request. Made by ``ModelCalls.open``."""

    def __init__(
        self,
        digest: bytes,
        key: str | None,
        work: Callable[[ModelCall[Answered]], Awaitable[Answered]],
        ended: Callable[[ModelCall[Any]], None],
        *,
        keeps: bool,
    ) -> None:
        self.digest = digest
        self.key = key
        self.keeps = keeps
        """Whether its answer is kept for a retry, once it has one."""
        self.pieces: list[str] = []
        """The text that has arrived so far."""
        self.readers = 0
        """Number of connections that wait for it."""
        self.timer: asyncio.TimerHandle | None = None
        self.on_end: Callable[[bool], None] = lambda delivered: None
        """Called once, with true when a connection has received the answer, or false when the call is dropped."""
        self._has_ended = False
        self._news = asyncio.Event()
        self.task: asyncio.Task[Answered | Failure] = asyncio.create_task(self._run(work), name="antiphon-model-api")
        self.task.add_done_callback(lambda _: self._told(ended))

    def add(self, piece: str) -> None:
        """Add text to the answer."""
        self.pieces.append(piece)
        self._tell()

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

    async def _run(self, work: Callable[[ModelCall[Answered]], Awaitable[Answered]]) -> Answered | Failure:
        try:
            return await work(self)
        except Exception as error:
            return failure_of(error)

    def _told(self, ended: Callable[[ModelCall[Any]], None]) -> None:
        self._tell()
        ended(self)

    def _tell(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()


def too_many() -> Failure:
    """Make the refusal of a request because too many are open."""
    return Failure(429, "refused_limit", "Too many requests are open.")


class ModelCalls:
    """The requests of one process that are open or kept."""

    def __init__(self, *, kept: float = KEPT) -> None:
        self._kept = kept
        self._calls: list[ModelCall[Any]] = []
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._calls)

    @property
    def is_full(self) -> bool:
        """Whether ``MAX_OPEN`` requests are open."""
        return sum(not call.task.done() for call in self._calls) >= MAX_OPEN

    def find(self, digest: bytes, key: str | None, *, is_retry: bool) -> ModelCall[Any] | None:
        """Return the request that this one repeats, or ``None`` if it is a new one.

        ``digest``: hash of the path and the body, both of which a client repeats byte by byte. ``is_retry``: whether
        the client says that it is a retry. Raises ``Failure`` if another request has this idempotency key.
        """
        if key is not None:
            named = next((call for call in self._calls if call.key == key), None)
            if named is not None and named.digest != digest:
                raise Failure(409, "idempotency_key_in_use", "Another request was made with this idempotency key.")
            if named is not None or not is_retry:
                return named
        alike = [call for call in self._calls if call.digest == digest] if is_retry else []
        # If there are several, the retry is of one that has lost its connection.
        return min(alike, key=lambda call: call.readers, default=None)

    def open(
        self,
        digest: bytes,
        key: str | None,
        work: Callable[[ModelCall[Answered]], Awaitable[Answered]],
        *,
        keeps: bool = True,
    ) -> ModelCall[Answered]:
        """Begin a request; raise ``Failure`` if too many are open, or the process has ended meanwhile.

        ``keeps``: whether the answer is kept for a retry; false for answers that are large and soon made again.
        """
        if self._is_closed:
            raise Failure(401, "revoked", "The token was revoked.")
        if self.is_full or (not keeps and sum(not call.keeps for call in self._calls) >= MAX_LARGE):
            raise too_many()
        call = ModelCall(digest, key, work, self._note_end, keeps=keeps)
        self._calls.append(call)
        return call

    def attach(self, call: ModelCall[Any]) -> None:
        """Note that a connection waits for a request."""
        call.readers += 1
        if call.timer is not None:
            call.timer.cancel()
            call.timer = None

    def detach(self, call: ModelCall[Any]) -> None:
        """Note that a connection waits no longer. Without one, the request is dropped after ``kept`` seconds."""
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

    def _note_end(self, call: ModelCall[Any]) -> None:
        if not call.readers and not call.keeps:
            self._forget(call)
        done = [each for each in self._calls if each.task.done() and not each.readers]
        for each in done[: max(0, len(done) - MAX_KEPT)]:
            self._forget(each)

    def _forget(self, call: ModelCall[Any]) -> None:
        if call not in self._calls:
            return
        self._calls.remove(call)
        if call.timer is not None:
            call.timer.cancel()
        call.task.cancel()
        call.end(was_delivered=False)
