"""Types that many messages share: the base of all wire types, ``_meta``, implementations and client capabilities.

A type of one feature is in the module of that feature. ``ServerCapabilities`` is in ``lifecycle``, because only the
handshake carries it; ``ClientCapabilities`` is here, because from 2026-07-28 every request carries it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from msgspec import Raw, Struct, field

PROGRESS_TOKEN = "progressToken"
PROTOCOL_VERSION = "io.modelcontextprotocol/protocolVersion"
CLIENT_INFO = "io.modelcontextprotocol/clientInfo"
CLIENT_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
LOG_LEVEL = "io.modelcontextprotocol/logLevel"
CALL_KEY = "antiphon/call"
GATEWAY = "antiphon-gateway"
"""The name by which a gateway introduces itself."""
TAGS, VERSION = "antiphon/tags", "antiphon/version"
"""Members of a definition's ``_meta``: the words to find it by, and its version."""
CONFIRMS = "antiphon/confirms"
"""Member of a tool's ``_meta``: the server asks the user before each call of it. The value is the question, with the
names of arguments in braces, or true if a function makes it."""
PENDING_CALL = "antiphon/pendingCall"
"""Member of ``_meta`` of a gateway's result: the id of a call that waits for approval. A client may ask again by it."""
UNREADABLE = "antiphon/unreadable"
"""Member of a result's ``_meta``: text stands in the place of a block that could not be read."""
LEFT_OUT = "antiphon/leftOut"
"""The names of servers behind a gateway of which a list has nothing, because they were never listed."""
SERVER_INFO = "io.modelcontextprotocol/serverInfo"
SUBSCRIPTION_ID = "io.modelcontextprotocol/subscriptionId"

ABSENT = Raw(b"")
"""The only value for an undecoded member that is left out. Any other empty ``Raw`` would be encoded, and break the
JSON."""

Meta = dict[str, Any]
"""A ``_meta`` object, except that of a request, which is a ``RequestMeta``."""

ProgressToken = int | str
Role = Literal["user", "assistant"]
CacheScope = Literal["public", "private"]
LoggingLevel = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
LOGGING_LEVELS: tuple[str, ...] = get_args(LoggingLevel)
"""Severity of a log message, from the least to the most severe (RFC 5424)."""


class Wire(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Base of all wire types: frozen, keyword-only, snake_case here and camelCase on the wire.

    A member equal to its default is left out, so an optional member is ``None`` when absent, and a required one has no
    default. Unknown members are ignored here; ``wire.lossless.merge_change`` keeps them.
    """


class Icon(Wire, frozen=True, kw_only=True):
    """A picture for a server, tool, resource or prompt (2025-11-25 basic, icons)."""

    src: str
    mime_type: str | None = None
    sizes: Sequence[str] | None = None
    theme: str | None = None
    """``"light"`` or ``"dark"``; a server may name others."""


class Implementation(Wire, frozen=True, kw_only=True):
    """Name and version of a program that speaks the protocol. Only for display: anyone may claim any name."""

    name: str
    version: str
    title: str | None = None
    description: str | None = None
    website_url: str | None = None
    icons: Sequence[Icon] | None = None


class Annotations(Wire, frozen=True, kw_only=True):
    """Hints on how to use content or a resource; untrusted when the server is."""

    audience: Sequence[str] | None = None
    """``"user"`` or ``"assistant"``; a server may name others."""
    priority: int | float | None = None
    """From 0 (optional) to 1 (required)."""
    last_modified: str | None = None
    """Date and time in ISO 8601."""


class RootsCapability(Wire, frozen=True, kw_only=True, gc=False):
    """The client has roots; with ``list_changed`` it notifies the server when they change (legacy only)."""

    list_changed: bool | None = None


class SamplingCapability(Wire, frozen=True, kw_only=True):
    """The client can complete. A sub-capability is declared when it is not ``None``, however empty."""

    context: Mapping[str, Any] | None = None
    tools: Mapping[str, Any] | None = None


class ElicitationCapability(Wire, frozen=True, kw_only=True):
    """The client can ask its user. If neither mode is named, it supports forms."""

    form: Mapping[str, Any] | None = None
    url: Mapping[str, Any] | None = None


class ClientCapabilities(Wire, frozen=True, kw_only=True):
    """What a client can do for a server. A capability is declared when it is not ``None``."""

    experimental: Mapping[str, Any] | None = None
    extensions: Mapping[str, Any] | None = None
    roots: RootsCapability | None = None
    sampling: SamplingCapability | None = None
    elicitation: ElicitationCapability | None = None


class RequestMeta(Wire, frozen=True, kw_only=True):
    """The ``_meta`` of a request (2026-07-28 basic, per-request metadata; before that, only ``progress_token``).

    ``traceparent``, ``tracestate`` and ``baggage`` are W3C Trace Context. Decoding drops unknown keys.
    """

    progress_token: ProgressToken | None = None
    protocol_version: str | None = field(name=PROTOCOL_VERSION, default=None)
    client_info: Implementation | None = field(name=CLIENT_INFO, default=None)
    client_capabilities: ClientCapabilities | None = field(name=CLIENT_CAPABILITIES, default=None)
    log_level: LoggingLevel | None = field(name=LOG_LEVEL, default=None)
    traceparent: str | None = None
    tracestate: str | None = None
    baggage: str | None = None
    call_key: str | None = field(name=CALL_KEY, default=None)
    """A name of the call chosen by an Antiphon client, the same in all retries of a request. Not part of the
    protocol."""


class RequestParams(Wire, frozen=True, kw_only=True):
    """Params that every request may have, and the only ones of ``ping``, ``server/discover`` and ``roots/list``."""

    meta: RequestMeta | None = field(name="_meta", default=None)


class PaginatedParams(RequestParams, frozen=True, kw_only=True):
    """Params of a request for a list: where the page begins, or nothing for the first page."""

    cursor: str | None = None


class RoundParams(RequestParams, frozen=True, kw_only=True):
    """Params of a request that may be retried with answers (2026-07-28 input rounds)."""

    input_responses: dict[str, Raw] | None = None
    """The client's answers by the keys of their asks; not decoded, because their types are those of the asks."""
    request_state: str | None = None
    """The state that the server sent with its asks, returned unchanged. A server must treat it as untrusted input."""


class NotificationParams(Wire, frozen=True, kw_only=True):
    """Params that every notification may have."""

    meta: Meta | None = field(name="_meta", default=None)


class Result(Wire, frozen=True, kw_only=True):
    """Members that every result of a server may have."""

    meta: Meta | None = field(name="_meta", default=None)
    result_type: str | None = None
    """"complete" or "input_required" (2026-07-28); absent means complete. Set by the session."""


class EmptyResult(Result, frozen=True, kw_only=True):
    """A result without members of its own: the request succeeded."""


class CacheableResult(Result, frozen=True, kw_only=True):
    """A result that may be cached (2026-07-28 caching)."""

    ttl_ms: int | None = None
    """Milliseconds for which the result may be used again; with 0 or none it must not be."""
    cache_scope: str | None = None
    """A ``CacheScope``; any other word is none."""


class PaginatedResult(CacheableResult, frozen=True, kw_only=True):
    """One page of a list."""

    next_cursor: str | None = None
    """Cursor of the next page; ``None`` on the last page."""
