"""The requests of one process: each runs once, even if its connection is lost and the client sends it again.

A person may take longer than a client waits. The client's retry then joins the open request, so that the person is not
asked twice; and an answer that no connection has received is kept for a while. Owns the decision which request is a
retry: equal requests that are not retries remain separate.

Owns the tokens, too, that replace a vendor's key. A token is valid only for its process, and until that ends: a
connection counts only if it comes from that process, or from one that it has started. This is no sandbox, because
processes of one user have other ways to act for each other. On systems other than Linux the token alone counts.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import hashlib
import sys
from collections.abc import Awaitable, Callable, Collection, Iterator
from pathlib import Path
from secrets import token_urlsafe
from typing import TypeAlias

from antiphon.machine.asyncio_tasks import settle_future
from antiphon.model_api.dialects.asked import DialectAnswer, Failure, failure_of
from antiphon.wire.origin import Origin

KEPT = 600.0
"""Seconds that a request is kept without a connection: ten minutes, as long as a review may take by default."""
MAX_OPEN = 64
"""Most open requests of one process: the default limit for open asks of one server."""
MAX_KEPT = 64
"""Most answers of one process that are kept; the oldest is dropped."""

Work: TypeAlias = "Callable[[ModelCall], Awaitable[list[DialectAnswer]]]"
"""What makes the answers to a request, one for each choice."""


class ModelCall:
    """One request. Made by ``ModelCalls.open``."""

    def __init__(self, digest: bytes, key: str | None, work: Work, ended: Callable[[ModelCall], None]) -> None:
        self.digest = digest
        self.key = key
        self.pieces: list[str] = []
        """The text that has arrived so far."""
        self.readers = 0
        """Number of connections that wait for it."""
        self.timer: asyncio.TimerHandle | None = None
        self.on_end: Callable[[bool], None] = lambda delivered: None
        """Called once, with true when a connection has received the answer, or false when the call is dropped."""
        self._news = asyncio.Event()
        self.task: asyncio.Task[list[DialectAnswer] | Failure] = asyncio.create_task(
            self._run(work), name="antiphon-model-api"
        )
        self.task.add_done_callback(lambda _: self._tell())
        self.task.add_done_callback(lambda _: ended(self))

    def add(self, piece: str) -> None:
        """Add text to the answer."""
        self.pieces.append(piece)
        self._tell()

    def end(self, *, was_delivered: bool) -> None:
        """Report what became of its answer, once."""
        on_end = self.on_end
        self.on_end = lambda delivered: None
        on_end(was_delivered)

    @property
    def outcome(self) -> list[DialectAnswer] | Failure | None:
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

    async def _run(self, work: Work) -> list[DialectAnswer] | Failure:
        try:
            return await work(self)
        except Exception as error:
            return failure_of(error)

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
        self._calls: list[ModelCall] = []
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._calls)

    @property
    def is_full(self) -> bool:
        """Whether ``MAX_OPEN`` requests are open."""
        return sum(not call.task.done() for call in self._calls) >= MAX_OPEN

    def find(self, digest: bytes, key: str | None, *, is_retry: bool) -> ModelCall | None:
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

    def open(self, digest: bytes, key: str | None, work: Work) -> ModelCall:
        """Begin a request; raise ``Failure`` if too many are open, or the process has ended meanwhile."""
        if self._is_closed:
            raise Failure(401, "revoked", "The token was revoked.")
        if self.is_full:
            raise too_many()
        call = ModelCall(digest, key, work, self._drop_oldest)
        self._calls.append(call)
        return call

    def attach(self, call: ModelCall) -> None:
        """Note that a connection waits for a request."""
        call.readers += 1
        if call.timer is not None:
            call.timer.cancel()
            call.timer = None

    def detach(self, call: ModelCall) -> None:
        """Note that a connection waits no longer. Without one, the request is dropped after ``kept`` seconds."""
        call.readers -= 1
        if call.readers == 0 and call in self._calls:
            call.timer = asyncio.get_running_loop().call_later(self._kept, self._forget, call)

    def close(self) -> None:
        """Withdraw everything, for good."""
        self._is_closed = True
        for call in list(self._calls):
            self._forget(call)

    def _drop_oldest(self, _: ModelCall) -> None:
        done = [each for each in self._calls if each.task.done() and not each.readers]
        for each in done[: max(0, len(done) - MAX_KEPT)]:
            self._forget(each)

    def _forget(self, call: ModelCall) -> None:
        if call not in self._calls:
            return
        self._calls.remove(call)
        if call.timer is not None:
            call.timer.cancel()
        call.task.cancel()
        call.end(was_delivered=False)


_PREFIX = "sk-antiphon-"
"""Looks like a vendor's key, so that programs that mask keys, such as this one, mask tokens as well."""
_BYTES = 32
"""256 bits, so that no token can be guessed."""

_PROC = Path("/proc")
_SET_DUMPABLE = 4
"""``PR_SET_DUMPABLE`` of ``linux/prctl.h``."""


class Token:
    """The access of one process. ``origin`` makes the origin of an ask, with the call that is open at that moment."""

    def __init__(self, digest: bytes, origin: Callable[[], Origin]) -> None:
        self.digest = digest
        self.origin = origin
        self.calls = ModelCalls()
        self.peer = PeerProcess()
        self.pid: int | None = None
        """The process it was given to."""


class Tokens:
    """The tokens that are valid. Only their digests are kept."""

    def __init__(self) -> None:
        self._tokens: dict[bytes, Token] = {}

    def issue(self, origin: Callable[[], Origin]) -> tuple[str, Token]:
        """Make a token; returns its text, which is kept nowhere else."""
        text = _PREFIX + token_urlsafe(_BYTES)
        token = Token(hashlib.sha256(text.encode()).digest(), origin)
        self._tokens[token.digest] = token
        return text, token

    def find(self, given: bytes) -> Token | None:
        """Return the token of a text. How long this takes reveals nothing about any token, since only hashes differ."""
        return self._tokens.get(hashlib.sha256(given).digest())

    def revoke(self, token: Token) -> None:
        """Forget a token, and withdraw what was asked with it."""
        self._tokens.pop(token.digest, None)
        token.calls.close()

    def close(self) -> None:
        """Revoke all tokens."""
        for token in list(self._tokens.values()):
            self.revoke(token)


def protect_memory() -> None:
    """Keep other processes of the same user from reading the memory and the environment of this one, on Linux.

    Its environment holds the vendors' keys, which servers must not get.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_SET_DUMPABLE, 0, 0, 0, 0)


class PeerProcess:
    """Checks the connections that use one token. Those that come at the same time are checked together."""

    def __init__(self) -> None:
        self._waiting: dict[int, asyncio.Future[bool]] = {}
        self._looking: asyncio.Task[None] | None = None

    async def is_other(self, port: int, ours: int, pid: int) -> bool:
        """Return whether a connection comes from another process, as ``other_peers`` does for several."""
        found = self._waiting.get(port)
        if found is None:
            found = self._waiting[port] = asyncio.get_running_loop().create_future()
        if self._looking is None:
            self._looking = asyncio.create_task(self._look(ours, pid), name="antiphon-peer-process")
        # Another request of the same connection may wait for the same result.
        return await asyncio.shield(found)

    async def _look(self, ours: int, pid: int) -> None:
        while self._waiting:
            waiting, self._waiting = self._waiting, {}
            others, problem = set[int](), None
            try:
                others = await asyncio.to_thread(other_peers, list(waiting), ours, pid)
            except Exception as error:
                problem = error
            for port, found in waiting.items():
                settle_future(found, problem, port in others)
        self._looking = None


def other_peers(ports: Collection[int], ours: int, pid: int, *, proc: Path = _PROC) -> set[int]:
    """Return the connections that certainly come neither from the process ``pid`` nor from one that it has started.

    ``ports`` are those of the other ends, ``ours`` that of this end. Where the tables can be read, a connection that is
    not in them comes from a process that is gone. Reads as many small files as there are processes: call it in a
    thread, once for each connection at most.
    """
    sought = _find_inodes(ports, ours, proc)
    if sought is None:
        return set()
    # The other end has been closed: its process is gone, or wants no answer any more.
    gone = {*ports} - sought.keys()
    held: set[str] = set()
    for each in _list_family(pid, proc):
        sockets = _list_sockets(proc / str(each))
        if sockets is None:
            # Its files cannot be read, so any of the open connections may come from it.
            return gone
        held |= sockets
    return gone | {port for port, inode in sought.items() if f"socket:[{inode}]" not in held}


def _find_inodes(ports: Collection[int], ours: int, proc: Path) -> dict[int, str] | None:
    """Return the sockets that are the other ends of open connections, by port; ``None`` if no table can be read."""
    is_readable = False
    ends = {f"{port:04X}": port for port in ports}
    found: dict[int, str] = {}
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            lines = (proc / "net" / table).read_text().splitlines()[1:]
            is_readable = True
            for line in lines:
                words = line.split()
                port = ends.get(words[1].rpartition(":")[2]) if len(words) > 9 else None
                if port is not None and words[2].endswith(f":{ours:04X}"):
                    found.setdefault(port, words[9])
    return found if is_readable else None


def _list_family(pid: int, proc: Path) -> Iterator[int]:
    """Yield a process, those below it, and those of the session that it leads."""
    parents: dict[int, int] = {}
    sessions: dict[int, int] = {}
    for folder in proc.glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            # The name of the program, in brackets, may hold anything.
            words = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
            parents[int(folder.name)], sessions[int(folder.name)] = int(words[1]), int(words[3])
    for each in parents:
        above = each
        for _ in range(len(parents)):
            if above == pid or sessions.get(above) == pid:
                yield each
                break
            above = parents.get(above, 0)
            if above == 0:
                break


def _list_sockets(folder: Path) -> set[str] | None:
    """Return the sockets that a process has open; ``None`` if it hides its files, as a process with secrets may do."""
    found: set[str] = set()
    try:
        for each in (folder / "fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                found.add(str(each.readlink()))
    except PermissionError:
        return None
    except OSError:
        # It has ended.
        return found
    return found
