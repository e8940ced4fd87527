"""The protocol revisions: their names, their order, and how our types are fitted to each.

Owns negotiation of the name and the differences on the wire. Which methods exist is in ``wire.methods``; what a
revision changes in behaviour is ``protocol``'s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast

from antiphon.errors import InternalError, InvalidParams, ResourceNotFound, UrlElicitationRequired
from antiphon.wire.common import Wire
from antiphon.wire.envelope import ErrorObject
from antiphon.wire.revisions import v2024_11_05, v2025_03_26, v2025_06_18, v2025_11_25, v2026_07_28
from antiphon.wire.revisions.difference import Difference
from antiphon.wire.revisions.lowering import Conversion, conversions

__all__ = ["LATEST", "LATEST_LEGACY", "LEGACY", "MODERN", "REVISIONS", "Revision", "revision"]

W = TypeVar("W", bound=Wire)


class Revision:
    """One revision of the protocol. There are exactly those in ``REVISIONS``: compare with ``is`` or by ``order``."""

    __slots__ = (
        "_conversions",
        "_differences",
        "argument_errors_are_results",
        "batches",
        "modern",
        "name",
        "null_id",
        "order",
        "sampling_has_parts",
    )

    def __init__(self, name: str, order: int, *differences: Difference, modern: bool = False) -> None:
        self.name = name
        """The date by which the wire knows it."""
        self.order = order
        """0 is the oldest."""
        self.modern = modern
        """No handshake, no requests from the server: rounds instead."""
        self.batches = name == v2025_03_26.NAME
        """Several messages may come in one frame."""
        self.null_id = name < v2025_11_25.NAME
        """An error reply to what had no readable id carries ``"id": null``; else it carries no id."""
        self.argument_errors_are_results = name >= v2025_11_25.NAME
        """Bad arguments of a tool are a result with ``isError``, so that a model can correct itself; before, -32602."""
        self.sampling_has_parts = name >= v2025_11_25.NAME
        """Clients declare apart whether sampling may use tools and include context; before, there were no tools and
        every client that sampled could be asked for context."""
        self._differences: Sequence[Difference] = differences
        self._conversions: Mapping[type, Conversion] | None = None

    def __repr__(self) -> str:
        return f"<Revision {self.name}>"

    def lower(self, value: W) -> W:
        """Turn params, a result, a definition or a block of content into what this revision can carry.

        What only describes is left out. A value that needs no change comes back itself. ``RequestMeta`` inside of
        params is not touched, since only the session makes it.

        Raises:
            NotInRevision: something cannot be left out without changing the meaning; names it and the revision.
        """
        table = self._conversions
        if table is None:
            table = self._conversions = conversions(self.name, self._differences)
        convert = table.get(type(value))
        return value if convert is None else convert(value)

    def adapt_error(self, error: ErrorObject) -> ErrorObject:
        """Give an error that we are to send the code that this revision has for it."""
        if error.code == ResourceNotFound.CODE and self.modern:
            # 2026-07-28 server/resources, error handling: invalid params with the URI in data.
            return ErrorObject(code=InvalidParams.CODE, message=error.message, data=error.data)
        if error.code == UrlElicitationRequired.CODE and self.name != v2025_11_25.NAME:
            return ErrorObject(code=InternalError.CODE, message=error.message)
        return error

    def lift_error(self, error: ErrorObject) -> ErrorObject:
        """Undo ``adapt_error`` on the error reply to ``resources/read``: -32602 that names a URI becomes -32002."""
        if self.modern and error.code == InvalidParams.CODE and isinstance(error.data, dict):
            data = cast("dict[str, Any]", error.data)
            if isinstance(data.get("uri"), str):
                return ErrorObject(code=ResourceNotFound.CODE, message=error.message, data=data)
        return error


def _legacy() -> tuple[Revision, ...]:
    files = (v2025_11_25, v2025_06_18, v2025_03_26, v2024_11_05)
    differences = [file.DIFFERENCE for file in files]
    oldest = len(files) - 1
    newest_first = [Revision(file.NAME, oldest - at, *differences[: at + 1]) for at, file in enumerate(files)]
    return tuple(reversed(newest_first))


LEGACY: tuple[Revision, ...] = _legacy()
"""With the ``initialize`` handshake, the oldest first."""

LATEST_LEGACY = LEGACY[-1]
LATEST = Revision(v2026_07_28.NAME, len(LEGACY), v2026_07_28.DIFFERENCE, modern=True)

REVISIONS: tuple[Revision, ...] = (*LEGACY, LATEST)
"""All that are spoken, the oldest first."""

MODERN: frozenset[str] = frozenset(each.name for each in REVISIONS if each.modern)
"""Names of the revisions without a handshake."""

_BY_NAME = {each.name: each for each in REVISIONS}


def revision(name: str) -> Revision | None:
    """Find a revision by its name, or ``None`` if we do not speak it."""
    return _BY_NAME.get(name)
