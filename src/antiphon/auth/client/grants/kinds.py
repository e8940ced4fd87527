"""The common interface of all ways to obtain a token."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from antiphon.auth.client.exchange import Endpoint, TokenAnswer

__all__ = ["Grant", "Wanted"]


class Wanted(Struct, frozen=True, kw_only=True):
    """A token to obtain."""

    endpoint: Endpoint
    """The token endpoint, used as one client."""
    resource: str | None
    scopes: tuple[str, ...]

    @property
    def scope(self) -> str | None:
        """The scopes as one text, as requests have them."""
        return " ".join(self.scopes) or None


class Grant(Protocol):
    """A way to obtain a token."""

    @property
    def name(self) -> str:
        """Its name in lists of logins."""
        ...

    @property
    def grant_type(self) -> str:
        """Its ``grant_type`` at authorization servers."""
        ...

    @property
    def needs_person(self) -> bool:
        """Whether a person has to act each time."""
        ...

    async def obtain(self, wanted: Wanted) -> TokenAnswer:
        """Obtain a token.

        Args:
            wanted: the resource, the scopes, and the token endpoint.

        Raises:
            Unauthorized: no token was granted; the message says why.
        """
        ...
