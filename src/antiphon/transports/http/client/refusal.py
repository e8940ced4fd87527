"""What a response with an error status means for its request: the server's own error, or the status.

A JSON-RPC error in the body usually says more than the status. But if the status is about authentication or a proxy,
another server wrote the body, and only the status says what to do.
"""

from __future__ import annotations

from aiohttp import ClientResponse
from msgspec import Struct

from antiphon.protocol.http.rules import NOT_ACCEPTED
from antiphon.transports.http.client.failures import HttpFailure, printable, remedy
from antiphon.transports.http.client.http_request import Web
from antiphon.transports.http.client.message import error_of
from antiphon.wire.envelope import ErrorObject, RequestId, error_frame

__all__ = ["Refusal", "read_refusal"]


class Refusal(Struct, frozen=True, kw_only=True):
    """A request that was refused in HTTP."""

    where: str
    status: int
    reason: str
    said: str
    """The part of the body that can be shown."""
    error: ErrorObject | None
    """The JSON-RPC error in the body, if there is one."""
    not_accepted: bool = False
    """Whether the server says that no handler saw the request."""

    @property
    def code(self) -> int | None:
        """The code of that error."""
        return None if self.error is None else self.error.code

    def failure(self, *, gone: bool = False) -> HttpFailure:
        """Convert it to a failure of HTTP; ``gone``: it means that the session has ended."""
        said = self.said if self.error is None else printable(self.error.message)
        return HttpFailure.of_status(
            self.where, self.status, self.reason, said, gone=gone, not_accepted=self.not_accepted
        )

    def reply(self, id: RequestId, *, gone: bool = False) -> bytes:
        """Make the error reply for the request."""
        if self.error is None or gone or self.not_accepted or remedy(self.status):
            return self.failure(gone=gone).frame(id)
        return error_frame(id, self.error, null_id=False)


async def read_refusal(web: Web, response: ClientResponse) -> Refusal:
    """Read a response with an error status; the caller releases the response."""
    body, said = await web.refusal(response)
    return Refusal(
        where=web.where,
        status=response.status,
        reason=response.reason or "",
        said=said,
        error=error_of(body),
        not_accepted=response.status == 503 and NOT_ACCEPTED.decode() in response.headers,
    )
