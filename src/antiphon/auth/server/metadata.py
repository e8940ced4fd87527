"""Where tokens for a server come from, as it tells clients (RFC 9728): the document, its places, and the challenge.

Everything here comes from the address the operator has named, never from a header of a request: what a request says of
its host is its sender's, and would let tokens be asked for another server. Sans-IO.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from urllib.parse import SplitResult

import msgspec
from msgspec import Struct

from antiphon.auth.server.documents import checked_address
from antiphon.errors import ConfigError

__all__ = ["Document", "Place", "challenge"]

_WELL_KNOWN = "/.well-known/oauth-protected-resource"


class Document(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Protected resource metadata (RFC 9728, section 2)."""

    resource: str
    authorization_servers: Sequence[str]
    bearer_methods_supported: Sequence[str] | None = None
    scopes_supported: Sequence[str] | None = None
    resource_name: str | None = None
    resource_documentation: str | None = None
    dpop_signing_alg_values_supported: Sequence[str] | None = None
    dpop_bound_access_tokens_required: bool = False


class Place:
    """Where an endpoint is: for clients, and in this process.

    ``url``: as clients have it; ``path``: below which it is served here; the rest of the one is what a mount or a proxy
    takes away. ``metadata_url``: where clients find the document, if that is elsewhere.
    """

    def __init__(self, url: str, path: str, metadata_url: str | None = None) -> None:
        parts = resource_address(url)
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self._path = path.rstrip("/")
        outer = parts.path.rstrip("/")
        self._prefix = outer[: len(outer) - len(self._path)] if outer.endswith(self._path) else None
        self._url = url
        # Below the mount it always comes to us; at the root of the host only if nothing is before us.
        self.metadata_url = metadata_url or (
            f"{self._origin}{self._prefix}{_WELL_KNOWN}{self._path}"
            if self._prefix
            else f"{self._origin}{_WELL_KNOWN}{outer}"
        )
        self.paths = frozenset({_WELL_KNOWN, f"{_WELL_KNOWN}{self._path}", f"{_WELL_KNOWN}{outer}"})
        """Where a request for the document may come to us: "at the path of the server's MCP endpoint" or "at the root"
        (2026-07-28 basic/authorization/authorization-server-discovery)."""

    def address(self, path: str) -> str:
        """Return the address of a path of ours as clients have it."""
        if path == self._path:
            return self._url
        return f"{self._origin}{self._prefix or ''}{path}"


def resource_address(url: str) -> SplitResult:
    """Read the address of a server that takes tokens.

    Raises:
        ConfigError: it is no ``https`` address (or ``http`` of this machine), or says more than where.
    """
    parts = checked_address(url, "ResourceServer(url=)")
    if parts.fragment or parts.query:
        raise ConfigError(f"ResourceServer(url=): {url!r} has a query or a fragment; leave it out")
    return parts


def encoded(document: Document) -> bytes:
    """Write the document as JSON."""
    return msgspec.json.encode(document)


def challenge(scheme: str, parameters: Mapping[str, str | None]) -> bytes:
    """Write a ``WWW-Authenticate`` header (RFC 9110, section 11.6.1). Parameters that are ``None`` are left out."""
    given = ", ".join(f'{name}="{_quoted(value)}"' for name, value in parameters.items() if value)
    return f"{scheme} {given}".rstrip().encode("ascii")


def _quoted(value: str) -> str:
    plain = "".join(sign for sign in value if " " <= sign <= "~")
    return plain.replace("\\", "\\\\").replace('"', '\\"')


def listed(scopes: Collection[str]) -> str:
    """Write scopes as one text, always in the same order."""
    return " ".join(sorted(set(scopes)))
