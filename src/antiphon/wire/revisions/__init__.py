"""The protocol revisions: their names, their order, and the conversion of our types to each of them.

Owns negotiation of the name and the differences on the wire. ``wire.methods`` has the methods of each revision,
``protocol`` the differences in behaviour.
"""

from __future__ import annotations

from typing import Any, cast

from antiphon.errors import InternalError, InvalidParams, ResourceNotFound, UrlElicitationRequired
from antiphon.wire.envelope import ErrorObject
from antiphon.wire.revisions import v2024_11_05, v2025_03_26, v2025_06_18, v2025_11_25, v2026_07_28
from antiphon.wire.revisions.lowering import Difference
from antiphon.wire.revisions.lowering import Lowering


class Revision:
    """One revision of the protocol. Only those in ``REVISIONS`` exist: compare with ``is`` or by ``order``."""

    def __init__(self, name: str, order: int, *differences: Difference, modern: bool = False) -> None:
        self.name = name
        """The date that names it on the wire."""
        self.order = order
        """Position in time; 0 is the oldest."""
        self.modern = modern
        """No handshake, and rounds instead of requests from the server."""
        self.asks_for_tasks = name == v2025_11_25.NAME
        """Whether clients ask for a task in their call, and wait for its result by ``tasks/result``. From 2026-07-28 on
        the server decides whether a call becomes a task."""
        self.batches = name == v2025_03_26.NAME
        """Whether one frame may hold several messages."""
        self.null_id = name < v2025_11_25.NAME
        """Whether an error reply to a message without a readable id carries ``"id": null``; else it carries no id."""
        self.argument_errors_are_results = name >= v2025_11_25.NAME
        """Whether invalid arguments of a tool are a result with ``isError``, so that a model can correct itself;
        before, -32602."""
        self.sampling_has_parts = name >= v2025_11_25.NAME
        """Whether clients declare tools and context as sub-capabilities of sampling. Before, there were no tools, and
        any client with sampling could be asked for context."""
        self.lower = Lowering(name, differences).convert
        """Converts params, a result, a definition or a block of content to what this revision can carry."""

    def __repr__(self) -> str:
        return f"<Revision {self.name}>"

    def adapt_error(self, error: ErrorObject) -> ErrorObject:
        """Give an error that we send the code it has in this revision."""
        if error.code == ResourceNotFound.CODE and self.modern:
            # 2026-07-28 server/resources, error handling: invalid params with the URI in data.
            return ErrorObject(code=InvalidParams.CODE, message=error.message, data=error.data)
        if error.code == UrlElicitationRequired.CODE and self.name != v2025_11_25.NAME:
            return ErrorObject(code=InternalError.CODE, message=error.message)
        return error

    def lift_error(self, error: ErrorObject) -> ErrorObject:
        """Undo ``adapt_error`` on an error reply to ``resources/read``: -32602 that names a URI becomes -32002."""
        if self.modern and error.code == InvalidParams.CODE and isinstance(error.data, dict):
            data = cast("dict[str, Any]", error.data)
            if isinstance(data.get("uri"), str):
                return ErrorObject(code=ResourceNotFound.CODE, message=error.message, data=data)
        return error


def _list_legacy() -> tuple[Revision, ...]:
    files = (v2024_11_05, v2025_03_26, v2025_06_18, v2025_11_25)
    newest_first = [file.DIFFERENCE for file in reversed(files)]
    return tuple(Revision(file.NAME, at, *newest_first[: len(files) - at]) for at, file in enumerate(files))


LEGACY: tuple[Revision, ...] = _list_legacy()
"""The revisions with the ``initialize`` handshake, the oldest first."""

LATEST_LEGACY = LEGACY[-1]
LATEST = Revision(v2026_07_28.NAME, len(LEGACY), v2026_07_28.DIFFERENCE, modern=True)

REVISIONS: tuple[Revision, ...] = (*LEGACY, LATEST)
"""All revisions that are spoken, the oldest first."""

MODERN: frozenset[str] = frozenset(each.name for each in REVISIONS if each.modern)
"""Names of the revisions without a handshake."""

find_revision = {each.name: each for each in REVISIONS}.get
"""Return the revision of a name, or ``None`` if we do not speak it."""
