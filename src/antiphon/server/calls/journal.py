"""The journal of a call that asks: what it has learnt so far, by the place in the handler where it learnt it.

A handler that is run again (*replay*) consults its journal first: answered asks return at once, and completed steps are
not repeated. Owns places, their entries, and the encoding of both. No clock, no I/O.

The design: docs/how-to/several-processes.md; the protocol leaves the content of ``requestState`` to the server.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

from antiphon.errors import CallDiverged
from antiphon.server.calls.task_names import lane_of
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
