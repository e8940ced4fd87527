"""Facts about the request a handler serves: what the client sent, and what the transport knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from antiphon.server.calls.call import Call
from antiphon.wire.common import ClientCapabilities, Implementation
from antiphon.wire.envelope import RequestId

__all__ = ["RequestFacts"]


class _Meta(msgspec.Struct):
    meta: dict[str, Any] = msgspec.field(name="_meta", default_factory=dict)


_read_meta = msgspec.json.Decoder(_Meta).decode


class RequestFacts:
    """The request being served, or between rounds the last one.

    Only ``principal``, ``scopes`` and ``claims`` are verified.
    """

    __slots__ = ("_call",)

    def __init__(self, call: Call) -> None:
        self._call = call

    @property
    def id(self) -> RequestId:
        """The request's JSON-RPC id."""
        return self._call.facts.id

    @property
    def method(self) -> str:
        """The method, such as ``tools/call``."""
        return self._call.facts.method.name

    @property
    def revision(self) -> str:
        """The protocol revision the request speaks."""
        return self._call.facts.revision.name

    @property
    def client(self) -> Implementation | None:
        """Name and version that the client declares."""
        facts, handshake = self._call.facts, self._call.connection.session.client
        if facts.meta is not None and facts.meta.client_info is not None:
            return facts.meta.client_info
        return handshake.client_info if handshake is not None else None

    @property
    def capabilities(self) -> ClientCapabilities:
        """The capabilities that the client declares: sampling, elicitation, roots."""
        return self._call.facts.capabilities or ClientCapabilities()

    @property
    def principal(self) -> str | None:
        """The client's verified principal; ``None`` if the transport does not authenticate."""
        return self._call.connection.principal

    @property
    def scopes(self) -> frozenset[str]:
        """The scopes of the client's token, as its issuer names them; empty without tokens."""
        caller = self._call.facts.caller
        return caller.scopes if caller is not None else frozenset()

    @property
    def claims(self) -> Mapping[str, Any]:
        """What else the client's token says (``sub``, ``iss``, ``client_id`` ...); empty without tokens."""
        caller = self._call.facts.caller
        return caller.claims if caller is not None else {}

    @property
    def headers(self) -> Mapping[str, str]:
        """HTTP headers of the request, by lower-case name; empty over other transports."""
        return self._call.headers

    @property
    def meta(self) -> dict[str, Any]:
        """The request's ``_meta`` as received, including keys that this library does not know."""
        return _read_meta(self._call.facts.raw or b"{}").meta
