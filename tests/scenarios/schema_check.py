"""Checks what a server sends against the specification's own schemas.

Knows which definition a message must fit; the schemas are in ``tests/schemas``.
"""

from __future__ import annotations

from typing import Any

from tests.support.mcp_schema import definitions, messages, problems

__all__ = ["SchemaCheck"]

RESULTS = {
    "initialize": "InitializeResult",
    "server/discover": "DiscoverResult",
    "tools/list": "ListToolsResult",
    "tools/call": "CallToolResult",
    "resources/list": "ListResourcesResult",
    "resources/templates/list": "ListResourceTemplatesResult",
    "resources/read": "ReadResourceResult",
    "prompts/list": "ListPromptsResult",
    "prompts/get": "GetPromptResult",
    "completion/complete": "CompleteResult",
    "subscriptions/listen": "SubscriptionsListenResult",
}


class SchemaCheck:
    """Follows one conversation and checks each message of the server."""

    def __init__(self, revision: str) -> None:
        self._revision = revision
        self._asked: dict[int | str, str] = {}
        self.checked = 0

    def sent(self, frame: Any) -> None:
        """Take note of a message of the client: its method says what the result must be."""
        for message in frame if isinstance(frame, list) else [frame]:
            if isinstance(message, dict) and isinstance(message.get("id"), int | str):
                self._asked[message["id"]] = message.get("method", "")

    def received(self, frame: Any) -> None:
        """Check a message of the server.

        Raises:
            AssertionError: it does not fit its definition, or has members that the definition does not know.
        """
        for message in frame if isinstance(frame, list) else [frame]:
            name, value = self._definition(message)
            assert problems(self._revision, name, value) == [], message
            self.checked += 1

    def _definition(self, message: dict[str, Any]) -> tuple[str, Any]:
        if "method" in message:
            name = messages(self._revision)[message["method"]]
            known = definitions(self._revision)[name]["properties"]
            # The older definitions leave out what every message has.
            return name, {key: value for key, value in message.items() if key in known or key not in ("jsonrpc", "id")}
        if "error" in message:
            # An id that could not be read is null before 2025-11-25, which those schemas forget to allow.
            named = message if message.get("id", 0) is not None else {**message, "id": 0}
            is_newer = "JSONRPCErrorResponse" in definitions(self._revision)
            return ("JSONRPCErrorResponse" if is_newer else "JSONRPCError"), named
        result = message["result"]
        if result.get("resultType") == "input_required":
            return "InputRequiredResult", result
        return RESULTS.get(self._asked[message["id"]], "EmptyResult"), result
