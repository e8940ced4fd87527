"""What lets requests in, as a transport needs it: headers to send, and what to do when the answer is no.

The seam between HTTP and signing in: ``antiphon.auth.client.access`` has what is meant here, and neither imports the
other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

__all__ = ["REFUSING", "Access", "Entry", "Pause"]

REFUSING = (401, 403)
"""Statuses that say that a request was not let in, and so was not carried out."""

Pause = Callable[[], AbstractContextManager[None]]
"""Makes what lets the deadlines of a connection stand still: a person may take minutes to sign in."""


class Entry(Protocol):
    """One request, and its repetitions."""

    async def headers(self, method: str, url: str) -> Mapping[str, str]:
        """Return what the request carries, each time anew; nothing for another origin."""
        ...

    async def refused(self, status: int, headers: Mapping[str, str], lines: Sequence[str], *, ask: bool) -> bool:
        """Take note that it was refused, and tell whether to send it again.

        ``lines``: each ``WWW-Authenticate``. ``ask``: whether a person may be asked to sign in.

        Raises:
            Unauthorized: nothing helps; the message says why.
        """
        ...

    def answered(self, headers: Mapping[str, str]) -> None:
        """Take note of the headers of any answer."""
        ...

    def why(self, status: int) -> str | None:
        """Say why a request that was refused was not sent again, if there is more to say than the status."""
        ...


class Access(Protocol):
    """What lets requests into one server."""

    def begin(self) -> Entry:
        """Begin a request."""
        ...
