"""The call that became a task: how it is stored, and read again."""

from __future__ import annotations

from msgspec import Raw

from antiphon.errors import InternalError
from antiphon.protocol.caller import Caller
from antiphon.protocol.events import Request
from antiphon.server.tasks.task_record import TaskRecord
from antiphon.wire.common import Wire
from antiphon.wire.envelope import decode, encode
from antiphon.wire.methods import METHODS
from antiphon.wire.revisions import revision

__all__ = ["call_params", "stored_request"]


def call_params(request: Request) -> bytes:
    """Return the params of a call without what belongs to its rounds."""
    members: dict[str, Raw] = decode(request.raw, dict[str, Raw])
    if "requestState" in members:
        members.pop("requestState")
        members.pop("inputResponses", None)
    return encode(members)


def stored_request(record: TaskRecord, stored: bytes) -> Request:
    """Return the request that became a task. ``stored``: its params."""
    agreed, method = revision(record.revision), METHODS["tools/call"]
    if agreed is None:
        raise InternalError(f"The revision {record.revision} is not spoken any more")
    params: Wire = decode(Raw(stored), method.params)
    meta = getattr(params, "meta", None)
    request = Request(record.id, method, params, Raw(stored), agreed, meta, record.capabilities)
    if record.has_token:
        implied = frozenset(record.implied)
        request.caller = Caller(
            record.owner or "", frozenset(record.scopes), covers=lambda _, required: required in implied
        )
    return request
