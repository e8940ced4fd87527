"""The journal of a call that asks: what it has learnt so far, by the place in the handler where it learnt it.

A handler that is run again (*replay*) consults its journal first: answered asks return at once, and completed steps are
not repeated. Owns places, their entries, and the encoding of both. No clock, no I/O.

A place begins with a lane, a name for the task that asks, which is the same when the handler is run again: the first
task of a call is lane ``1``; the tasks it creates are ``1.1``, ``1.2``, in the order of their creation, and so on. The
lane distinguishes two branches that ask the same question. Owns the task factory that assigns lanes; for tasks of no
call it costs one look-up in their context.

The design: docs/how-to/several-processes.md; the protocol leaves the content of ``requestState`` to the server.
"""

from __future__ import annotations

import asyncio
import hashlib
import zlib
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator
from contextlib import AbstractContextManager
from contextvars import Context, ContextVar, copy_context
from typing import Any, Literal, TypeVar

import msgspec

from antiphon.errors import CallDiverged, LocalProtocolError
from antiphon.machine.call_time import hold_variable
from antiphon.wire.envelope import encode_canonical

CATCH_UP = 5.0
"""Seconds that a replayed handler has to come to every answered ask before its new asks count as a divergence: long
enough for its work in between."""

MAX_JOURNAL = 1024 * 1024
"""Most bytes of a journal. A call that has learnt more can continue only where it is parked."""

_COMPRESSED_FROM = 512
"""Bytes from which a journal is compressed; below that nothing is gained."""

_PLAIN, _DEFLATED = b"\0", b"\1"

Kind = Literal["answer", "error", "step", "timeout", "withdrawn"]


class JournalPlace(msgspec.Struct, frozen=True, array_like=True):
    """A place in a handler where something was asked or done.

    ``path``: the author's key, or the task and what was asked there; ``count``: how often that came before; ``digest``:
        the digest of what was asked, which is part of the path unless the author gave a key.
    """

    path: str
    count: int
    digest: bytes

    @property
    def name(self) -> str:
        """The name of the place in the journal."""
        return f"{self.path}#{self.count}"


class JournalEntry(msgspec.Struct, frozen=True, array_like=True):
    """What was learnt at a place. ``value``: JSON of an answer, of the error in its place, or of a step's result."""

    kind: Kind
    digest: bytes = b""
    value: bytes = b""


class Journal:
    """What one call has learnt: ``place`` computes where the handler is, ``take`` reads an entry, ``note`` adds one."""

    __slots__ = ("_claimed", "_counts", "_has_secrets", "entries", "size")

    def __init__(self, entries: dict[str, JournalEntry] | None = None) -> None:
        self.entries = entries or {}
        """All entries, by their places."""
        self._claimed: set[str] = set()
        self._counts: dict[str, int] = {}
        self._has_secrets = False
        self.size = sum(_measure_entry(name, entry) for name, entry in self.entries.items())
        """Bytes kept, approximately."""

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def is_full(self) -> bool:
        """Whether it is larger than allowed."""
        return self.size > MAX_JOURNAL

    def place(self, lane: str, what: str, digest: bytes, key: str | None = None) -> JournalPlace:
        """Return the place of a task (``lane``) that asks or takes the step ``what``; each place is new."""
        path = f"={key}" if key is not None else f"{lane}/{what}/{digest.hex()}"
        count = self._counts.get(path, 0)
        self._counts[path] = count + 1
        return JournalPlace(path, count, digest)

    def place_of_ask(self, method: str, params: msgspec.Struct | msgspec.Raw, key: str | None) -> JournalPlace:
        """Return the place where the running task asks: ``LocalProtocolError`` if it and the ask have no name."""
        lane = "" if key is not None else lane_of(method, "give the ask a key=")
        return self.place(lane, method, digest_of(method, params), key)

    def place_of_step(self, name: str) -> JournalPlace:
        """Return the place where the running task takes a step; raises as ``place_of_ask`` does."""
        return self.place(lane_of(f"the step {name!r}", "create it with asyncio"), f"step/{name}", b"")

    def take(self, place: JournalPlace) -> JournalEntry | None:
        """Return the entry of a place, ``None`` if it is new; ``CallDiverged`` if it is of another ask or step."""
        name = place.name
        entry = self.entries.get(name)
        if entry is None:
            return None
        if entry.digest != place.digest:
            raise CallDiverged(f"The ask with the key {place.path[1:]!r} is not the one that was answered under it")
        self._claimed.add(name)
        return entry

    def note(self, place: JournalPlace, kind: Kind, value: bytes = b"", *, secret: bool = False) -> None:
        """Add an entry. A journal with a ``secret`` is never compressed: its length would reveal something."""
        name = place.name
        self.record(name, JournalEntry(kind, place.digest, value))
        self._claimed.add(name)
        self._has_secrets = self._has_secrets or secret

    def record(self, name: str, entry: JournalEntry) -> None:
        """Add an entry that the handler will find when it comes to this place."""
        self.entries[name] = entry
        self.size += _measure_entry(name, entry)

    def list_unclaimed(self) -> Iterator[str]:
        """Yield the places whose answer the replayed handler has not come to yet."""
        for name, entry in self.entries.items():
            if entry.kind == "answer" and name not in self._claimed:
                yield name

    def divergence(self, asked: Iterable[str]) -> CallDiverged:
        """Return the error of a replayed handler that asks at new places instead of coming to all that was answered."""
        return CallDiverged(
            f"Run again, the handler asks for {', '.join(asked)}, and within {CATCH_UP:g} s it did not ask for "
            f"what was answered before: {', '.join(self.list_unclaimed())}"
        )

    def pack(self) -> bytes:
        """Encode the journal."""
        data = msgspec.msgpack.encode((self._has_secrets, self.entries))
        if self._has_secrets or len(data) < _COMPRESSED_FROM:
            return _PLAIN + data
        return _DEFLATED + zlib.compress(data, 1)

    @classmethod
    def unpack(cls, data: bytes) -> Journal:
        """Decode a journal. Raises ``ValueError`` for other bytes, and for a journal longer than allowed."""
        form, body = data[:1], data[1:]
        if form == _DEFLATED:
            body = _inflate_data(body)
        elif form != _PLAIN:
            raise ValueError("no journal")
        try:
            has_secrets, entries = msgspec.msgpack.decode(body, type=tuple[bool, dict[str, JournalEntry]])
        except msgspec.DecodeError as error:
            raise ValueError("no journal") from error
        journal = cls(entries)
        journal._has_secrets = has_secrets
        return journal


def digest_of(method: str, params: msgspec.Struct | msgspec.Raw) -> bytes:
    """Compute the digest of an ask: 16 bytes, the same in every process whatever the order of sets and mappings."""
    return hashlib.blake2b(encode_canonical([method, params]), digest_size=16).digest()


def _measure_entry(name: str, entry: JournalEntry) -> int:
    return len(name) + len(entry.digest) + len(entry.value) + 8


def _inflate_data(data: bytes) -> bytes:
    # Twice the limit, because names and framing are added to what ``size`` counts.
    inflater = zlib.decompressobj()
    try:
        body = inflater.decompress(data, 2 * MAX_JOURNAL)
    except zlib.error as error:
        raise ValueError("no journal") from error
    if not inflater.eof:
        raise ValueError("a journal that is too long")
    return body


T = TypeVar("T")

TaskFactory = Callable[..., "asyncio.Future[Any]"]
Work = Coroutine[Any, Any, Any] | Generator[Any, None, Any]


class _Lane:
    __slots__ = ("_children", "_path", "name", "task")

    def __init__(self, path: str) -> None:
        self.name = path
        self.task: asyncio.Future[Any] | None = None
        """The task; ``None`` while it is being created, when it may already run (eager tasks)."""
        self._path = f"{path}." if path else ""
        self._children = 0

    def child(self) -> _Lane:
        self._children += 1
        return _Lane(f"{self._path}{self._children}")


_LANE: ContextVar[_Lane | None] = ContextVar("antiphon_lane", default=None)


def lane_here() -> str | None:
    """Return the lane of the running task; ``None`` if it was not made by its loop's task factory."""
    lane = _LANE.get()
    if lane is None or not lane.name or (lane.task is not None and lane.task is not asyncio.current_task()):
        return None
    return lane.name


def lane_of(what: str, remedy: str) -> str:
    """Return the name of the task that asks; ``LocalProtocolError``, which says what to do, if it has none."""
    lane = lane_here()
    if lane is None:
        raise LocalProtocolError(
            f"{what} comes from a task that its event loop's task factory did not make: run again, the call could not "
            f"tell whose answer is whose; {remedy}"
        )
    return lane


def use_lanes(loop: asyncio.AbstractEventLoop) -> None:
    """Install the task factory in a loop. The loop's previous factory still makes the tasks."""
    present = loop.get_task_factory()
    if not isinstance(present, _Factory):
        loop.set_task_factory(_Factory(present))


def run_in_lane(work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """Run the body of a call in a task of its own, as its first lane. The loop must ``use_lanes``."""
    context = copy_context()
    context.run(_LANE.set, _Lane(""))
    return context.run(asyncio.get_running_loop().create_task, work)


def begin_lane() -> None:
    """Make the running task the first lane of a call, whose body it is about to run."""
    use_lanes(asyncio.get_running_loop())
    lane = _Lane("1")
    lane.task = asyncio.current_task()
    _LANE.set(lane)


def beside_lanes() -> AbstractContextManager[None]:
    """Give no lanes to tasks that are created meanwhile, because they are not the handler's own."""
    return hold_variable(_LANE, None)


async def outside_lanes(work: Coroutine[Any, Any, T]) -> T:
    """Await a store's work, which takes no lane: it may create tasks in one run and none in the next."""
    return await asyncio.get_running_loop().create_task(work, context=Context())


class _Factory:
    """Makes tasks with the previous factory, and names those of calls."""

    __slots__ = ("_make",)

    def __init__(self, before: TaskFactory | None) -> None:
        self._make = before or _plain_task

    def __call__(
        self, loop: asyncio.AbstractEventLoop, work: Work, *, context: Context | None = None, **options: Any
    ) -> asyncio.Future[Any]:
        if context is not None:
            return self._make_in(context, loop, work, options)
        creator = _LANE.get()
        if creator is None:
            return self._make(loop, work, **options)
        own, lane = copy_context(), creator.child()
        own.run(_LANE.set, lane)
        # Run in the context instead of passing ``context=``, which factories for Python before 3.11 do not
        # know.
        lane.task = task = own.run(self._make, loop, work, **options)
        return task

    def _make_in(
        self, context: Context, loop: asyncio.AbstractEventLoop, work: Work, options: dict[str, Any]
    ) -> asyncio.Future[Any]:
        creator = context.get(_LANE)
        if creator is None:
            return self._make(loop, work, context=context, **options)
        lane = creator.child()
        try:
            context.run(_LANE.set, lane)
        except RuntimeError:
            # The context is in use, so it cannot be changed from here: the task has no lane, and its asks
            # need keys.
            return self._make(loop, work, context=context, **options)
        lane.task = task = self._make(loop, work, context=context, **options)
        return task


def _plain_task(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
    return asyncio.Task(work, loop=loop, **options)
