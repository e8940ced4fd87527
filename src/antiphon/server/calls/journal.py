"""The journal of a call that asks: what it has learnt so far, by the place in the handler where it learnt it.

A handler that is run again (*replay*) meets its journal first: asks that were answered return at once, steps that were
taken are not taken again. Owns places, what is kept at them, and their bytes. Who asks, waits or seals is not its
business. Pure: no clock, no I/O.

The design: docs/how-to/several-processes.md; the protocol leaves the content of ``requestState`` to the server.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator
from typing import Literal

import msgspec

from antiphon.errors import CallDiverged
from antiphon.wire.envelope import encode_canonical

__all__ = ["MAX_JOURNAL", "Entry", "Journal", "Place", "digest_of"]

MAX_JOURNAL = 1024 * 1024
"""Most bytes a journal may hold. A call that has learnt more can only go on where it is parked."""

_COMPRESSED_FROM = 512
"""Bytes from which a journal is compressed: below, there is nothing to gain."""

_PLAIN, _DEFLATED = b"\0", b"\1"

Kind = Literal["answer", "step", "timeout", "withdrawn"]


class Place(msgspec.Struct, frozen=True, array_like=True):
    """Where in a handler something was asked or done.

    ``path``: the author's key or the task and what was asked there; ``count``: how often that came before; ``digest``:
    of what was asked, which for an author's key is no part of the path.
    """

    path: str
    count: int
    digest: bytes

    @property
    def name(self) -> str:
        """The place as the journal has it."""
        return f"{self.path}#{self.count}"


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """What was learnt at a place. ``value``: JSON bytes of an answer or of a step's result."""

    kind: Kind
    digest: bytes = b""
    value: bytes = b""


class Journal:
    """What one call has learnt. ``place`` finds where the handler is, ``take`` what it knew there, ``note`` adds."""

    __slots__ = ("_claimed", "_counts", "_entries", "_has_secrets", "size")

    def __init__(self, entries: dict[str, Entry] | None = None) -> None:
        self._entries = entries or {}
        self._claimed: set[str] = set()
        self._counts: dict[str, int] = {}
        self._has_secrets = False
        self.size = sum(_size(name, entry) for name, entry in self._entries.items())
        """Bytes kept, nearly."""

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def is_full(self) -> bool:
        """Whether it has outgrown what may be kept."""
        return self.size > MAX_JOURNAL

    def place(self, lane: str, what: str, digest: bytes, key: str | None = None) -> Place:
        """Say where the handler is. The same path met again is another place.

        ``lane``: path of the task among the handler's tasks; ``what``: the method asked or the step's name.
        """
        path = f"={key}" if key is not None else f"{lane}/{what}/{digest.hex()}"
        count = self._counts.get(path, 0)
        self._counts[path] = count + 1
        return Place(path, count, digest)

    def take(self, place: Place) -> Entry | None:
        """Return what the call knew at a place, ``None`` if this is new to it.

        Raises:
            CallDiverged: the author's key was used for something else before.
        """
        name = place.name
        entry = self._entries.get(name)
        if entry is None:
            return None
        if entry.digest != place.digest:
            raise CallDiverged(f"The ask with the key {place.path[1:]!r} is not the one that was answered under it")
        self._claimed.add(name)
        return entry

    def note(self, place: Place, kind: Kind, value: bytes = b"", *, secret: bool = False) -> None:
        """Keep what was learnt at a place. With ``secret`` among it, a journal is never compressed: length tells."""
        name = place.name
        self.record(name, Entry(kind, place.digest, value))
        self._claimed.add(name)
        self._has_secrets = self._has_secrets or secret

    def record(self, name: str, entry: Entry) -> None:
        """Keep what the handler will find when it comes to a place."""
        self._entries[name] = entry
        self.size += _size(name, entry)

    def unclaimed(self) -> Iterator[str]:
        """Name the places whose answer the handler, run again, has not come to."""
        for name, entry in self._entries.items():
            if entry.kind == "answer" and name not in self._claimed:
                yield name

    def pack(self) -> bytes:
        """Return the journal as bytes."""
        data = msgspec.msgpack.encode((self._has_secrets, self._entries))
        if self._has_secrets or len(data) < _COMPRESSED_FROM:
            return _PLAIN + data
        return _DEFLATED + zlib.compress(data, 1)

    @classmethod
    def unpack(cls, data: bytes) -> Journal:
        """Make a journal of its bytes.

        Raises:
            ValueError: these are none, or they would grow beyond what a journal may hold.
        """
        form, body = data[:1], data[1:]
        if form == _DEFLATED:
            body = _inflate(body)
        elif form != _PLAIN:
            raise ValueError("no journal")
        try:
            has_secrets, entries = msgspec.msgpack.decode(body, type=tuple[bool, dict[str, Entry]])
        except msgspec.DecodeError as error:
            raise ValueError("no journal") from error
        journal = cls(entries)
        journal._has_secrets = has_secrets
        return journal


def digest_of(method: str, params: msgspec.Struct) -> bytes:
    """Digest an ask: 16 bytes that are the same in every process, whatever the order of sets and mappings."""
    return hashlib.blake2b(encode_canonical([method, params]), digest_size=16).digest()


def _size(name: str, entry: Entry) -> int:
    return len(name) + len(entry.digest) + len(entry.value) + 8


def _inflate(data: bytes) -> bytes:
    # Twice the bound: names and framing come on top of what ``size`` counts.
    inflater = zlib.decompressobj()
    try:
        body = inflater.decompress(data, 2 * MAX_JOURNAL)
    except zlib.error as error:
        raise ValueError("no journal") from error
    if not inflater.eof:
        raise ValueError("a journal that is too long")
    return body
