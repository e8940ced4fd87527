"""What tells clients where to obtain tokens (RFC 9728): the metadata document, its paths, and the challenge.

Addresses are taken from the operator's configuration, never from the headers of a request: its ``Host`` is chosen by
the sender, who could make clients request tokens for another server. Makes no requests.
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
    """The location of an endpoint, for clients and in this process.

    ``url``: the address for clients; ``path``: the path in this process, which may be a part of that, since a mount or
    a proxy removes the rest. ``metadata_url``: the location of the document for clients, if it is served elsewhere.
    """

    def __init__(self, url: str, path: str, metadata_url: str | None = None) -> None:
        parts = resource_address(url)
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self._path = path.rstrip("/")
        outer = parts.path.rstrip("/")
        self._prefix = outer[: len(outer) - len(self._path)] if outer.endswith(self._path) else None
        self._url = url
        # Below the mount it always reaches this process; at the root of the host only if nothing else is
        # mounted there.
        self.metadata_url = metadata_url or (
            f"{self._origin}{self._prefix}{_WELL_KNOWN}{self._path}"
            if self._prefix
            else f"{self._origin}{_WELL_KNOWN}{outer}"
        )
        self.paths = frozenset({_WELL_KNOWN, f"{_WELL_KNOWN}{self._path}", f"{_WELL_KNOWN}{outer}"})
        """Request paths that return the document: "at the path of the server's MCP endpoint" or "at the root"
        (2026-07-28 basic/authorization/authorization-server-discovery)."""

    def address(self, path: str) -> str:
        """Return the address for clients of a path in this process."""
        if path == self._path:
            return self._url
        return f"{self._origin}{self._prefix or ''}{path}"


def resource_address(url: str) -> SplitResult:
    """Parse the address of a server that requires tokens.

    Raises:
        ConfigError: it is no ``https`` address (or ``http`` of this machine), or has a query, fragment or credentials.
    """
    parts = checked_address(url, "ResourceServer(url=)")
    if parts.fragment or parts.query:
        raise ConfigError(f"ResourceServer(url=): {url!r} has a query or a fragment; leave it out")
    return parts


def encoded(document: Document) -> bytes:
    """Encode the document as JSON."""
    return msgspec.json.encode(document)


def challenge(scheme: str, parameters: Mapping[str, str | None]) -> bytes:
    """Build a ``WWW-Authenticate`` header (RFC 9110, section 11.6.1). Parameters that are ``None`` are left out."""
    given = ", ".join(f'{name}="{_quoted(value)}"' for name, value in parameters.items() if value)
    return f"{scheme} {given}".rstrip().encode("ascii")


def _quoted(value: str) -> str:
    plain = "".join(sign for sign in value if " " <= sign <= "~")
    return plain.replace("\\", "\\\\").replace('"', '\\"')


def listed(scopes: Collection[str]) -> str:
    """Join scopes to one text, always in the same order."""
    return " ".join(sorted(set(scopes)))
