"""Checks what a server sends against the specification's own schemas.

Knows which definition a message must fit; the schemas are in ``tests/schemas``.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs

__all__ = ["SchemaCheck"]

SCHEMAS = Path(__file__).parent.parent / "schemas"
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
SENT = {
    "sampling/createMessage": "CreateMessageRequest",
    "elicitation/create": "ElicitRequest",
    "roots/list": "ListRootsRequest",
    "notifications/progress": "ProgressNotification",
    "notifications/message": "LoggingMessageNotification",
    "notifications/cancelled": "CancelledNotification",
    "notifications/subscriptions/acknowledged": "SubscriptionsAcknowledgedNotification",
}


@cache
def schema_of(revision: str) -> tuple[dict[str, Any], str]:
    """Read the schema of a revision; also return where its definitions are."""
    schema = json.loads((SCHEMAS / f"{revision}.json").read_text(encoding="utf-8"))
    return schema, "definitions" if "definitions" in schema else "$defs"


@cache
def validator(revision: str, name: str) -> jsonschema_rs.Validator:
    """Make the validator of one definition."""
    schema, place = schema_of(revision)
    return jsonschema_rs.validator_for({**schema, "$ref": f"#/{place}/{name}"})


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
            jsonschema_rs.ValidationError: it does not fit its definition.
        """
        for message in frame if isinstance(frame, list) else [frame]:
            name, value = self._definition(message)
            validator(self._revision, name).validate(value)
            self.checked += 1

    def _definition(self, message: dict[str, Any]) -> tuple[str, Any]:
        if "method" in message:
            return SENT[message["method"]], message
        if "error" in message:
            names = schema_of(self._revision)[0][schema_of(self._revision)[1]]
            # An id that could not be read is null before 2025-11-25, which those schemas forget to allow.
            known = message if message.get("id", 0) is not None else {**message, "id": 0}
            return ("JSONRPCErrorResponse" if "JSONRPCErrorResponse" in names else "JSONRPCError"), known
        result = message["result"]
        if result.get("resultType") == "input_required":
            return "InputRequiredResult", result
        return RESULTS.get(self._asked[message["id"]], "Result"), result
