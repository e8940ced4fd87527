"""What a response with an error status means for the request that got it: the server's own error, or the status.

Owns the choice between the two. Most often a JSON-RPC error in the body says more than the status. Not so where the
status tells whether we are let in: some server in between wrote that body, and only the status says what to do.
"""

from __future__ import annotations

from aiohttp import ClientResponse
from msgspec import Struct

from antiphon.protocol.http.rules import NOT_ACCEPTED
from antiphon.transports.http.client.failures import HttpFailure, printable, remedy
from antiphon.transports.http.client.message import error_of
from antiphon.transports.http.client.web import Web
from antiphon.wire.envelope import ErrorObject, RequestId, error_frame

__all__ = ["Refusal", "read_refusal"]


class Refusal(Struct, frozen=True, kw_only=True):
    """A request that was refused in HTTP."""

    where: str
    status: int
    reason: str
    said: str
    """The line of the body that can be shown."""
    error: ErrorObject | None
    """The JSON-RPC error in the body, if there is one."""
    not_accepted: bool = False
    """The server says that the request went nowhere."""

    @property
    def code(self) -> int | None:
        """The code of that error."""
        return None if self.error is None else self.error.code

    def failure(self, *, gone: bool = False) -> HttpFailure:
        """Say it as a failure of HTTP; ``gone``: it means that the session has ended."""
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
    """Read what came with an error status; the caller lets go of the response."""
    body, said = await web.refusal(response)
    return Refusal(
        where=web.where,
        status=response.status,
        reason=response.reason or "",
        said=said,
        error=error_of(body),
        not_accepted=response.status == 503 and NOT_ACCEPTED.decode() in response.headers,
    )
