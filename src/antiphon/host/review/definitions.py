"""The definitions of tools as they were allowed: what counts as a change, and what a person sees of it.

A server may change a tool's description or schema after somebody has allowed it. So the definition that was allowed is
kept with its hash, and a changed one is shown with the differences. ``pipeline.tool_consent`` decides.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterator

import msgspec

from antiphon.host.checks.contents import leaves
from antiphon.host.checks.instructions import first_instruction
from antiphon.host.checks.scan import MAX_HERE, MAX_SECONDS
from antiphon.host.checks.visible import hidden
from antiphon.host.review.diff import MAX_LINES, Line, compared, labelled, pretty
from antiphon.host.review.review import digest
from antiphon.host.store.base import DefinitionRow, Standing
from antiphon.machine.side_process.pool import run_aside
from antiphon.wire.envelope import encode
from antiphon.wire.origin import Origin
from antiphon.wire.tools import Tool

__all__ = ["MAX_KEPT", "Allowed", "Digests", "changes_of", "digest_document", "row_of", "speaks_to_the_model"]

MAX_KEPT = 64 * 1024
"""Most bytes of a definition that is kept to be compared with a later one; of a longer one only the hash is kept."""
_MOST_KNOWN = 1_000
"""Most definitions whose hash is remembered; the hash of any other is computed again at its next call."""


class Digests:
    """The hashes of the definitions that one host was shown, each computed once."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], tuple[Tool, str]] = OrderedDict()

    def known(self, identity: str, tool: Tool | None) -> str | None:
        """Return the hash of a definition, if it was computed before; see ``of``."""
        known = None if tool is None else self._known.get((identity, tool.name))
        return known[1] if known is not None and known[0] is tool else None

    async def of(self, identity: str, tool: Tool | None) -> str | None:
        """Return the hash of a definition; ``None`` if there is none.

        Args:
            identity: identity of its server.
            tool: the tool as its server lists it.

        Raises:
            TooCostly: it is too large to be hashed.
        """
        if tool is None:
            return None
        key = (identity, tool.name)
        known = self._known.get(key)
        if known is None or known[0] is not tool:
            known = self._known[key] = (tool, await _digest(tool))
            while len(self._known) > _MOST_KNOWN:
                self._known.popitem(last=False)
        return known[1]


class Allowed:
    """The definitions that one host has found allowed, by the server's identities and the tool's name.

    This only saves a read: each definition is confirmed in the transaction that records the call. See ``Supposed``.
    """

    def __init__(self) -> None:
        self._digests: OrderedDict[tuple[tuple[str, ...], str], str] = OrderedDict()

    def get(self, origin: Origin, tool: str) -> str | None:
        """Return the hash of the definition that was allowed, if that is remembered.

        Args:
            origin: the server.
            tool: name of the tool.
        """
        return self._digests.get((origin.identities, tool))

    def note(self, origin: Origin, tool: str, standing: Standing) -> None:
        """Remember a tool that is allowed; forget one that is blocked, switched off or not allowed.

        Args:
            origin: the server.
            tool: name of the tool.
            standing: what was read.
        """
        key, row = (origin.identities, tool), standing.definition
        if standing.blocked or row is None or row.off is not None:
            self._digests.pop(key, None)
            return
        self._digests[key] = row.digest
        while len(self._digests) > _MOST_KNOWN:
            self._digests.popitem(last=False)


def defining(tool: Tool) -> Tool:
    """Return the part of a definition that a person or a model decides by: without icons and ``_meta``."""
    return msgspec.structs.replace(tool, execution=None, icons=None, meta=None)


def speaks_to_the_model(tool: Tool) -> bool:
    """Tell whether a definition has hidden characters, or gives orders to the model."""
    found = (leaf.text for leaf in leaves(defining(tool)))
    return any(hidden(text) or first_instruction(text) is not None for text in found)


def row_of(origin: Origin, tool: Tool, digest: str, by: str | None = None) -> DefinitionRow:
    """Make what is stored of a definition that is allowed now."""
    body = encode(defining(tool))
    return DefinitionRow(
        identity=origin.identity,
        tool=tool.name,
        digest=digest,
        body=body.decode() if len(body) <= MAX_KEPT else "",
        allowed=time.time(),
        by=by,
    )


def changes_of(before: str, after: Tool | None) -> tuple[Line, ...] | None:
    """Compare the definition that was allowed with the present one, line by line.

    Args:
        before: the body of its row.
        after: the present definition; ``None`` if the server does not list the tool any more.

    Returns:
        The lines that differ, with some around them; ``None`` if either is too long to be compared.
    """
    if not before or (after is not None and len(encode(after)) > MAX_KEPT):
        return None
    old = list(_lines(msgspec.json.decode(before, type=Tool)))
    new = [] if after is None else list(_lines(after))
    return None if len(old) + len(new) > MAX_LINES else tuple(compared(old, new))


def digest_document(payload: bytes) -> bytes:
    """Hash a large definition, in a side process."""
    return digest(msgspec.json.decode(payload, type=Tool)).encode()


async def _digest(tool: Tool) -> str:
    counted = defining(tool)
    payload = encode(counted)
    if len(payload) <= MAX_HERE:
        return digest(counted)
    return (await run_aside(digest_document, payload, seconds=MAX_SECONDS)).decode()


def _lines(tool: Tool) -> Iterator[str]:
    """Return a definition as lines: texts as they are, so that a long description is compared line by line."""
    for field in msgspec.structs.fields(defining(tool)):
        value = getattr(defining(tool), field.name)
        if value is not None:
            yield from labelled(field.encode_name, value if isinstance(value, str) else pretty(value))
