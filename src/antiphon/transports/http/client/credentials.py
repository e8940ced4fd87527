"""Credentials as a transport uses them: headers for each request, and what to do when the server refuses it.

The interface between HTTP and signing in. ``antiphon.auth.client.access`` implements it; neither module imports the
other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, runtime_checkable

REFUSING = (401, 403)
"""Statuses of a request whose credentials were missing or not sufficient, so that it was not carried out."""

Pause = Callable[[], AbstractContextManager[None]]
"""Returns a context manager that stops the deadlines of a connection: a person may take minutes to sign in."""


class RequestCredentials(Protocol):
    """The credentials of one request, and of its repetitions."""

    async def headers(self, method: str, url: str) -> Mapping[str, str]:
        """Return the headers with the credentials, made anew for each attempt; none for another origin."""
        ...

    async def refused(self, status: int, headers: Mapping[str, str], lines: Sequence[str], *, ask: bool) -> bool:
        """Handle a refusal: renew the token or sign in. Return whether to send the request again.

        Raises:
            Unauthorized: nothing helps; the message says why.
        """
        ...

    def answered(self, headers: Mapping[str, str]) -> None:
        """Note what the headers of a response say, whatever its status."""
        ...

    def why(self, status: int) -> str | None:
        """Say why a request that was refused was not sent again, if there is more to say than the status."""
        ...


class Credentials(Protocol):
    """The credentials for one server."""

    def begin(self) -> RequestCredentials:
        """Return the credentials of a new request."""
        ...


@runtime_checkable
class WatchesConnections(Protocol):
    """Credentials that depend on the address of the server."""

    def connects(self, address: str) -> None:
        """Note that the server is being connected to, without a proxy."""
        ...
