"""What every result of a modern server carries: its type, and who the server is (2026-07-28 basic, Responses).

Owns how those members get into a result, typed or already encoded; knows nothing of sessions. Legacy results need none.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw, structs

from antiphon.errors import LocalProtocolError
from antiphon.protocol.events import Request
from antiphon.protocol.frames import prepend
from antiphon.wire.common import SERVER_INFO, Implementation, Meta, Result, Wire
from antiphon.wire.envelope import encode
from antiphon.wire.rounds import InputRequiredResult

__all__ = ["ModernResults"]

_COMPLETE = "complete"


class ModernResults:
    """Encodes the results of one server. What is the same in all of them is encoded once."""

    __slots__ = ("_complete", "_info", "_meta")

    def __init__(self, info: Implementation) -> None:
        self._info = info
        self._meta = b'"_meta":%b' % encode({SERVER_INFO: info})
        self._complete = b'"resultType":"%b",%b' % (_COMPLETE.encode(), self._meta)

    def encode(self, request: Request, result: Wire | Raw) -> bytes:
        """Encode the result of a modern request.

        Raises:
            LocalProtocolError: a round that this request may not have, or that asks for nothing.
            NotInRevision: the revision cannot carry it.
        """
        if isinstance(result, Raw):
            return self._relayed(result)
        if isinstance(result, InputRequiredResult):
            return self._round(request, result)
        if not isinstance(result, Result):
            return prepend(self._complete, encode(request.revision.lower(result)))
        if result.meta is not None or result.result_type is not None:
            kind = result.result_type or _COMPLETE
            result = structs.replace(result, meta=self._with_info(result.meta), result_type=kind)
            return encode(request.revision.lower(result))
        return prepend(self._complete, encode(request.revision.lower(result)))

    def _with_info(self, meta: Meta | None) -> Meta:
        return {SERVER_INFO: self._info, **(meta or {})}

    def _relayed(self, result: Raw) -> bytes:
        """Complete a result that came encoded: our own lists at once, one from elsewhere so that what it has stays."""
        encoded = bytes(result)
        is_plain = encoded[:2] in (b'{"', b"{}") and b'"resultType"' not in encoded and b'"_meta"' not in encoded
        if is_plain:
            return prepend(self._complete, encoded)
        members = msgspec.json.decode(result, type=dict[str, Raw])
        meta = msgspec.json.decode(members.get("_meta", b"{}"), type=dict[str, Raw])
        members.setdefault("resultType", Raw(encode(_COMPLETE)))
        members["_meta"] = Raw(encode(self._with_info(meta)))
        return encode(members)

    def _round(self, request: Request, result: InputRequiredResult) -> bytes:
        # 2026-07-28 basic/patterns/mrtr: "Servers MUST NOT send InputRequiredResult responses on any other client
        # requests", and "MUST include at least one of inputRequests or requestState".
        if not request.method.rounds:
            raise LocalProtocolError(f"{request.method.name} may not be answered with a round")
        if not result.input_requests and result.request_state is None:
            raise LocalProtocolError("A round must have asks or a state")
        if result.meta is not None:
            return encode(structs.replace(result, meta=self._with_info(result.meta)))
        return prepend(self._meta, encode(result))
