"""A small server that keeps every rule, and faults that can be switched on in it, one at a time.

``faults`` has the table of the faults, and speaks over standard input and output; ``faulty_web`` serves over HTTP.
It is written by hand, so that no part of the library hides a fault.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

Json = dict[str, Any]
LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN = "2026-07-28"
VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES: Json = {"tools": {}, "resources": {}, "prompts": {}, "logging": {}, "completions": {}}
NUMBER = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}
TOOLS: list[Json] = [
    {
        "name": "count",
        "description": "Count the signs of a text.",
        "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
        "outputSchema": NUMBER,
    },
    {"name": "greet", "description": "Say hello.", "inputSchema": {"type": "object", "properties": {}}},
]
LISTS: dict[str, tuple[str, list[Any]]] = {
    "tools/list": ("tools", TOOLS),
    "resources/list": ("resources", [{"uri": "note://one", "name": "one", "mimeType": "text/plain"}]),
    "resources/templates/list": ("resourceTemplates", [{"uriTemplate": "note://{id}", "name": "notes"}]),
    "prompts/list": ("prompts", [{"name": "hello", "description": "Say hello."}]),
}


class Refused(Exception):
    """An error reply: its code, its message, its data."""


def answer(request: Json) -> Json:
    """Answer a request as it should be."""
    try:
        return {"jsonrpc": "2.0", "id": request["id"], "result": serve(request)}
    except Refused as error:
        code, message, *data = error.args
        body = {"code": code, "message": message, **({"data": data[0]} if data else {})}
        return {"jsonrpc": "2.0", "id": request["id"], "error": body}


def serve(request: Json) -> Json:
    """Return the result of a request, or raise ``Refused``."""
    method, params = request["method"], request.get("params", {})
    meta = params.get("_meta", {})
    if method == "initialize":
        version = params["protocolVersion"]
        return {
            "protocolVersion": version if version in LEGACY else LEGACY[-1],
            "capabilities": CAPABILITIES,
            "serverInfo": {"name": "faulty", "version": "1"},
        }
    modern = VERSION in meta or method == "server/discover"
    if modern:
        if VERSION not in meta:
            raise Refused(-32602, "the metadata are missing")
        if meta[VERSION] != MODERN:
            raise Refused(-32022, "unknown revision", {"requested": meta[VERSION], "supported": [MODERN, *LEGACY]})
    result = dispatch(method, params, modern=modern)
    return {"resultType": "complete", **result} if modern else result


def dispatch(method: str, params: Json, *, modern: bool) -> Json:
    """Serve one method."""
    kept = {"ttlMs": 0, "cacheScope": "private"} if modern else {}
    if method == "server/discover":
        info = {"name": "faulty", "version": "1"}
        return {"supportedVersions": [MODERN, *LEGACY], "capabilities": CAPABILITIES, "serverInfo": info, **kept}
    if method in LISTS:
        member, items = LISTS[method]
        at = {None: 0, "next": 1}.get(params.get("cursor"))
        if at is None or at >= max(len(items), 1):
            raise Refused(-32602, "unknown cursor")
        more = {"nextCursor": "next"} if at + 1 < len(items) else {}
        return {member: items[at : at + 1], **more, **kept}
    if method == "tools/call":
        return call_tool(params)
    if method == "ping" and not modern:
        return {}
    if method == "logging/setLevel" and not modern and params.get("level") == "error":
        return {}
    if method == "resources/read":
        raise Refused(-32602 if modern else -32002, "no such resource")
    if method in {"prompts/get", "completion/complete", "logging/setLevel"}:
        raise Refused(-32602, "no such thing")
    raise Refused(-32601, "unknown method")


def call_tool(params: Json) -> Json:
    """Carry out a tool."""
    if params["name"] == "greet":
        return {"content": [{"type": "text", "text": "hello"}]}
    if params["name"] != "count":
        raise Refused(-32602, "unknown tool")
    number = len(params["arguments"]["text"])
    return {"content": [{"type": "text", "text": f"{number}"}], "structuredContent": {"number": number}}


Change = Callable[[Json, Json], Iterable[object]]
"""Takes a message of the client (and the right reply; empty for a notification), returns what is sent instead."""


class Fault(NamedTuple):
    """What is wrong, where a check has to find it, and the rule that it breaks."""

    rule: str
    place: str
    change: Change
    level: str = "error"


def at(method: str, change: Change) -> Change:
    """Make a change of the messages of one method only."""

    def apply(request: Json, reply: Json) -> Iterable[object]:
        return change(request, reply) if request.get("method") == method else [reply] if reply else []

    return apply


def merge(members: Json) -> Change:
    """Replace members of the reply."""
    return lambda _request, reply: [{**reply, **members}]


def result(members: Json, *without: str) -> Change:
    """Replace members of the result; leave some out."""

    def apply(_request: Json, reply: Json) -> Iterable[object]:
        kept = {name: value for name, value in reply.get("result", {}).items() if name not in without}
        return [reply if "error" in reply else {**reply, "result": {**kept, **members}}]

    return apply


def also(*others: object, first: bool = False) -> Change:
    """Send something besides the reply."""
    return lambda _request, reply: [*others, reply] if first else [reply, *others]


def succeed(members: Json | None = None) -> Change:
    """Answer with a result in place of an error."""

    def apply(request: Json, _reply: Json) -> Iterable[object]:
        shared = {"resultType": "complete"} if VERSION in request["params"].get("_meta", {}) else {}
        return [{"jsonrpc": "2.0", "id": request["id"], "result": {**shared, **(members or {})}}]

    return apply


def refuse(request: Json, _reply: Json) -> Iterable[object]:
    """Answer that the method is unknown."""
    return [{"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32601, "message": "no"}}]


def fail(request: Json, _reply: Json) -> Iterable[object]:
    """Answer that something else is away."""
    return [{"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32603, "message": "no database"}}]


def unknown(change: Change) -> Change:
    """Make a change of the replies to unknown methods."""
    return lambda request, reply: (
        change(request, reply) if request.get("method", "").startswith("antiphon-check/") else [reply] if reply else []
    )


def notify(method: str, **params: Any) -> Json:
    """Make a notification."""
    return {"jsonrpc": "2.0", "method": method, "params": params}


def tell_progress(*values: object, token: object = None) -> Change:
    """Tell of progress before the reply, with the token of the request if no other one is given."""

    def apply(request: Json, reply: Json) -> Iterable[object]:
        wanted = request["params"].get("_meta", {}).get("progressToken", "antiphon-check")
        for value in values:
            yield notify("notifications/progress", progressToken=wanted if token is None else token, progress=value)
        yield reply

    return apply


def on_cancelled(change: Change) -> Change:
    """Make a change when a request is cancelled that was there."""

    def apply(request: Json, reply: Json) -> Iterable[object]:
        is_meant = request.get("params", {}).get("requestId", "antiphon-check-nothing") != "antiphon-check-nothing"
        return change(request, reply) if is_meant else [reply] if reply else []

    return apply


def turn_ids_to_text(_request: Json, reply: Json) -> Iterable[object]:
    """Reply with text for each id; as a server of one page of tools, so that the number 7 comes after the text "7"."""
    if "result" in reply:
        kept = {name: value for name, value in reply["result"].items() if name != "nextCursor"}
        reply = {**reply, "result": kept | ({"capabilities": {"tools": {}}} if "capabilities" in kept else {})}
    return [{**reply, "id": str(reply["id"])}] if reply else []


def glue_to_cancelled() -> Change:
    """Write the reply to a cancelled request without the end of its line, so that the next reply stands in it."""
    cancelled: list[object] = []

    def apply(request: Json, reply: Json) -> Iterable[object]:
        if reply and cancelled:
            unended = {"jsonrpc": "2.0", "id": cancelled.pop(), "result": {}}
            return [json.dumps(unended).encode() + json.dumps(reply).encode()]
        return [reply] if reply else []

    def note(request: Json, _reply: Json) -> Iterable[object]:
        cancelled.append(request["params"]["requestId"])
        return []

    return lambda request, reply: on_cancelled(note)(request, reply) if not reply else apply(request, reply)


def drop_cancelled(change: Change) -> Change:
    """Do not answer the call that is cancelled, which is the one that wants no progress."""

    def apply(request: Json, reply: Json) -> Iterable[object]:
        params = request.get("params", {})
        is_dropped = params.get("name") == "greet" and "progressToken" not in params.get("_meta", {})
        return [] if is_dropped else change(request, reply)

    return apply


def end(_request: Json, _reply: Json) -> Iterable[object]:
    """End the process."""
    sys.stdout.flush()
    os._exit(3)


def start_child(*, leaves_group: bool) -> Change:
    """Start a process that goes on when the server has ended."""

    def apply(_request: Json, reply: Json) -> Iterable[object]:
        import subprocess

        quiet = subprocess.DEVNULL
        subprocess.Popen(["sleep", "600"], stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=leaves_group)
        return [reply]

    return apply


KEPT: list[bytes] = []


def keep(size: int) -> Change:
    """Take memory for each request that is never given back."""

    def apply(_request: Json, reply: Json) -> Iterable[object]:
        KEPT.append(b"x" * size)
        return [reply] if reply else []

    return apply


def hoard(request: Json, reply: Json) -> Iterable[object]:
    """Keep a cache that has a bound: it grows at first."""
    del KEPT[60:]
    return keep(1_000_000)(request, reply)


def wait_for_ever(_request: Json, _reply: Json) -> Iterable[object]:
    """Do nothing, for longer than any check."""
    time.sleep(3600)
    return []


def ask(method: str) -> Json:
    """Make a request of the server's."""
    return {"jsonrpc": "2.0", "id": "mine", "method": method, "params": {}}


def flood(_request: Json, _reply: Json) -> Iterable[object]:
    """Send without end."""
    while True:
        yield notify("notifications/antiphon-flood", text="x" * 1000)


def answer_unsent(request: Json, reply: Json) -> Iterable[object]:
    """Answer a notification."""
    return [reply] if reply else [{"jsonrpc": "2.0", "id": None, "error": {"code": -32601, "message": "unknown"}}]


def page(cursor: object) -> Change:
    """Replace the cursor of the first page."""
    return lambda request, reply: (
        [reply] if "cursor" in request["params"] else result({"nextCursor": cursor})(request, reply)
    )


def pages_without_end(request: Json, reply: Json) -> Iterable[object]:
    """List pages that never end."""
    if request["params"].get("cursor") == "antiphon-check-nothing":
        return [reply]
    number = int(request["params"].get("cursor", "0"))
    tools = [{**TOOLS[1], "name": f"t{number}"}]
    return succeed({"tools": tools, "nextCursor": str(number + 1), "ttlMs": 0, "cacheScope": "private"})(request, reply)
