"""What every message has to be, on any revision and over any transport: JSON-RPC 2.0, and only what was declared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

_DECLARED = {
    "notifications/message": ("logging", ""),
    "notifications/tools/list_changed": ("tools", "listChanged"),
    "notifications/prompts/list_changed": ("prompts", "listChanged"),
    "notifications/resources/list_changed": ("resources", "listChanged"),
    "notifications/resources/updated": ("resources", "subscribe"),
}
"""Each notification with the capability, and its member, that allows it."""


def find_envelope_faults(message: object) -> Iterator[tuple[str, object]]:
    """Yield what is wrong with the envelope of a message: the id of the rule, and what was seen."""
    if not isinstance(message, dict):
        yield "rpc.message", message
        return
    message = cast("dict[str, Any]", message)
    if message.get("jsonrpc") != "2.0":
        yield "rpc.version", message
    if "method" in message:
        if not isinstance(message["method"], str):
            yield "rpc.message", message
        if "id" in message and not is_id(message["id"]):
            yield "rpc.request-id", message
        return
    yield from _find_response_faults(message)


def _find_response_faults(message: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    if ("result" in message) == ("error" in message):
        yield "rpc.outcome", message
    elif "error" in message and not is_error(message["error"]):
        yield "rpc.error", message
    elif "result" in message and not isinstance(message["result"], dict):
        yield "rpc.result", message


def is_id(value: object) -> bool:
    """Return whether this can be the id of a request: a string or a whole number."""
    return isinstance(value, (str, int)) and not isinstance(value, bool)


def is_error(error: object) -> bool:
    """Return whether this can be the error of a response: a code and a message."""
    if not isinstance(error, dict):
        return False
    error = cast("dict[str, Any]", error)
    return is_id(error.get("code")) and not isinstance(error["code"], str) and isinstance(error.get("message"), str)


def needs_declaration(method: str, capabilities: Mapping[str, Any]) -> str:
    """Return the capability that a server would have to declare for this notification; empty if it may send it."""
    name, member = _DECLARED.get(method, ("", ""))
    declared = capabilities.get(name)
    if not name or (isinstance(declared, dict) and (not member or cast("dict[str, Any]", declared).get(member))):
        return ""
    return name


def find_result_faults(method: str, result: Mapping[str, Any], *, modern: bool) -> Iterator[tuple[str, object]]:
    """Yield what a result lacks that each one of a revision without a handshake has."""
    if not modern:
        return
    if not isinstance(result.get("resultType"), str):
        yield "result.type", result
    if method.endswith("/list") or method == "server/discover":
        age = result.get("ttlMs")
        if not isinstance(age, int) or isinstance(age, bool) or age < 0 or result.get("cacheScope") not in _SCOPES:
            yield "result.cache", {name: result.get(name) for name in ("ttlMs", "cacheScope")}


_SCOPES = ("private", "public")
