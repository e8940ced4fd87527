"""Arguments that a tool wants mirrored into HTTP headers, as far as its definition is known (from 2026-07-28).

Owns what was learnt of the server's tools; the rules are ``protocol.param_headers``'.
Source: 2026-07-28 basic/transports/streamable-http, "Custom Headers from Tool Parameters".
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, cast, runtime_checkable

import msgspec

from antiphon.channel import Channel
from antiphon.errors import RemoteProtocolError
from antiphon.protocol.http.param_headers import HeaderParam, header_params, param_headers
from antiphon.wire.tools import Tool

__all__ = ["ToolHeaders"]

log = logging.getLogger("antiphon.client")

MAX_TOOLS = 10_000
"""Most tools whose headers are remembered."""


@runtime_checkable
class _Asks(Protocol):
    """A channel that asks which headers a call gets."""

    param_headers: Callable[[str, bytes], Mapping[str, str]] | None


class ToolHeaders:
    """The header parameters of one server's tools."""

    def __init__(self) -> None:
        self._params: dict[str, Sequence[HeaderParam]] = {}

    def attach(self, channel: Channel) -> None:
        """Let a channel over HTTP ask for the headers of each call."""
        if isinstance(channel, _Asks):
            channel.param_headers = self.of

    def learn(self, tools: Sequence[Tool]) -> list[Tool]:
        """Remember the header parameters of some tools; return those that may be used.

        "Clients MUST exclude a tool whose annotations are invalid from the result of tools/list."
        """
        usable: list[Tool] = []
        for tool in tools:
            try:
                params = header_params(tool.input_schema)
            except RemoteProtocolError as error:
                log.warning("the tool %r cannot be used over HTTP: %s", tool.name, error)
                continue
            usable.append(tool)
            if len(self._params) < MAX_TOOLS:
                self._params[tool.name] = params
        return usable

    def of(self, tool: str, arguments: bytes) -> Mapping[str, str]:
        """Return the headers for a call."""
        params = self._params.get(tool)
        if not params:
            return {}
        values: object = msgspec.json.decode(arguments or b"{}")
        return param_headers(params, cast("dict[str, Any]", values)) if isinstance(values, dict) else {}
