"""What every way to obtain a token is given, and what it returns."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from antiphon.auth.client.exchange import Endpoint, TokenAnswer

__all__ = ["Grant", "Wanted"]


class Wanted(Struct, frozen=True, kw_only=True):
    """A token that is wanted."""

    endpoint: Endpoint
    """Where it is asked for, and as whom."""
    resource: str | None
    scopes: tuple[str, ...]

    @property
    def scope(self) -> str | None:
        """The scopes as a request has them."""
        return " ".join(self.scopes) or None


class Grant(Protocol):
    """A way to obtain a token."""

    @property
    def name(self) -> str:
        """What it is called in lists of logins."""
        ...

    @property
    def grant_type(self) -> str:
        """What it is called at authorization servers."""
        ...

    @property
    def needs_person(self) -> bool:
        """Whether a person has to do something, each time."""
        ...

    async def obtain(self, wanted: Wanted) -> TokenAnswer:
        """Obtain a token.

        Args:
            wanted: what it is for, and where to ask for it.

        Raises:
            Unauthorized: there is none; the message says why.
        """
        ...
