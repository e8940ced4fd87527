"""Each fault that a server is tried with, and a program that has one: ``python -m tests.check.faults FAULT``."""

from __future__ import annotations

import json
import os
import sys
import time

from tests.check.faulty_server import (
    LEGACY,
    MODERN,
    TOOLS,
    VERSION,
    Fault,
    Json,
    also,
    answer,
    answer_unsent,
    ask,
    at,
    drop_cancelled,
    end,
    fail,
    flood,
    glue_to_cancelled,
    hoard,
    keep,
    merge,
    notify,
    on_cancelled,
    page,
    pages_without_end,
    refuse,
    result,
    start_child,
    succeed,
    tell_progress,
    turn_ids_to_text,
    unknown,
    wait_for_ever,
)  # fmt: skip

WRONG = {"code": "x", "message": 1}
FAULTS: dict[str, Fault] = {
    "no fault": Fault("", "", lambda _request, reply: [reply] if reply else []),
    # The opening.
    "silent": Fault("handshake.none", "initialize", lambda _request, _reply: []),
    "dies at once": Fault("handshake.none", "initialize", end),
    "hangs at start": Fault("handshake.none", "initialize", at("initialize", wait_for_ever)),
    "no revision": Fault("handshake.shape", "initialize result", at("initialize", result({}, "protocolVersion"))),
    "any revision": Fault(
        "handshake.version",
        "initialize with an unknown revision",
        at("initialize", lambda q, r: result({"protocolVersion": q["params"]["protocolVersion"]})(q, r)),
    ),
    "unpublished revision": Fault(
        "handshake.unpublished",
        "initialize with an unknown revision",
        at(
            "initialize",
            lambda q, r: (
                [r] if q["params"]["protocolVersion"] in LEGACY else result({"protocolVersion": "2031-01-01"})(q, r)
            ),
        ),
        "advice",
    ),
    "refuses revisions": Fault(
        "handshake.refused",
        "initialize with an unknown revision",
        at(
            "initialize",
            lambda q, r: (
                [r]
                if q["params"]["protocolVersion"] in LEGACY
                else [{"jsonrpc": "2.0", "id": q["id"], "error": {"code": -32602, "message": "no"}}]
            ),
        ),
        "advice",
    ),
    "no capabilities": Fault("handshake.shape", "initialize result", at("initialize", result({}, "capabilities"))),
    "capability is true": Fault(
        "handshake.shape",
        "initialize result.capabilities.completions",
        at("initialize", result({"capabilities": {"completions": True}})),
    ),
    "no name": Fault(
        "handshake.shape", "initialize result.serverInfo", at("initialize", result({"serverInfo": {"version": "1"}}))
    ),
    "instructions": Fault(
        "handshake.shape", "initialize result.instructions", at("initialize", result({"instructions": ["be", "kind"]}))
    ),
    "no versions": Fault(
        "discover.shape",
        "server/discover result.supportedVersions",
        at("server/discover", result({"supportedVersions": MODERN})),
    ),
    "serves any revision": Fault(
        "discover.unsupported",
        "server/discover of an unknown revision",
        at(
            "server/discover",
            lambda q, r: [r] if q["params"]["_meta"].get(VERSION) in (None, MODERN) else succeed()(q, r),
        ),
    ),
    "unknown revision is an unknown method": Fault(
        "discover.unsupported",
        "server/discover of an unknown revision",
        at(
            "server/discover", lambda q, r: [r] if q["params"]["_meta"].get(VERSION) in (None, MODERN) else refuse(q, r)
        ),
    ),
    "needs no metadata": Fault(
        "discover.metadata",
        "server/discover without metadata",
        at("server/discover", lambda q, r: [r] if q["params"]["_meta"] else succeed()(q, r)),
    ),
    "no result type": Fault("result.type", "prompts/list", at("prompts/list", result({}, "resultType"))),
    "no cache": Fault("result.cache", "tools/list", at("tools/list", result({}, "ttlMs"))),
    "public to none": Fault("result.cache", "server/discover", at("server/discover", result({"cacheScope": "secret"}))),
    # Messages.
    "banner": Fault("rpc.rubbish", "standard output", at("initialize", also(b"Server ready.", first=True))),
    "tells its environment": Fault(
        "rpc.rubbish",
        "standard output",
        at(
            "initialize",
            lambda q, r: [f"{os.environ.get('API_KEY')} HOME={os.environ['HOME']} {len(os.environ)}".encode(), r],
        ),
    ),
    "pretty print": Fault("rpc.rubbish", "", at("prompts/list", lambda q, r: [json.dumps(r, indent=1).encode(), r])),
    "latin": Fault(
        "rpc.encoding", "prompts/list", at("prompts/list", also(b'{"jsonrpc": "2.0", "method": "caf\xe9"}', first=True))
    ),
    "no message": Fault("rpc.message", "prompts/list", at("prompts/list", also([1], first=True))),
    "number of method": Fault(
        "rpc.message", "prompts/list", at("prompts/list", also({"jsonrpc": "2.0", "method": 7}, first=True))
    ),
    "version 1": Fault("rpc.version", "prompts/list", at("prompts/list", merge({"jsonrpc": "1.0"}))),
    "no version": Fault(
        "rpc.version", "tools/list", at("tools/list", lambda q, r: [{n: v for n, v in r.items() if n != "jsonrpc"}])
    ),
    "request without id": Fault(
        "rpc.request-id",
        "prompts/list",
        lambda q, r: (
            [{**ask("ping"), "id": None}, r]
            if q.get("method") == "prompts/list" and VERSION not in q["params"].get("_meta", {})
            else [r]
            if r
            else []
        ),
    ),
    "id as text": Fault("rpc.id", "prompts/list", at("prompts/list", lambda q, r: [{**r, "id": str(r["id"])}])),
    "ids are numbers": Fault("rpc.id", "", lambda q, r: [{**r, "id": -7 if q["id"] == "7" else q["id"]}] if r else []),
    "ids become text": Fault("rpc.id", "", turn_ids_to_text),
    "answers twice": Fault("rpc.twice", "prompts/list", at("prompts/list", lambda q, r: [r, r])),
    "both": Fault("rpc.outcome", "prompts/list", at("prompts/list", merge({"error": {"code": -1, "message": "x"}}))),
    "neither": Fault(
        "rpc.outcome",
        "ping",
        at("ping", lambda q, r: [{"jsonrpc": "2.0", "id": q["id"], "result": {}}, {"jsonrpc": "2.0", "id": q["id"]}]),
    ),
    "result is a list": Fault(
        "rpc.result", "resources/templates/list", at("resources/templates/list", merge({"result": []}))
    ),
    "code is text": Fault("rpc.error", "unknown method", unknown(merge({"error": WRONG}))),
    "error is text": Fault("rpc.error", "unknown method", unknown(merge({"error": "unknown method"}))),
    "no answer": Fault("rpc.silent", "unknown method", unknown(lambda q, r: [])),
    "ends in between": Fault("rpc.silent", "prompts/list", at("prompts/list", end)),
    "hangs in a list": Fault("rpc.silent", "prompts/list", at("prompts/list", wait_for_ever)),
    "unknown succeeds": Fault("rpc.unknown-method", "unknown method", unknown(succeed())),
    "another code": Fault(
        "rpc.unknown-method-code",
        "unknown method",
        unknown(merge({"error": {"code": -32000, "message": "what?"}})),
        "advice",
    ),
    "answers notifications": Fault("rpc.notification-answered", "notifications/antiphon-check-nothing", answer_unsent),
    "no ping": Fault("ping.answer", "ping", at("ping", refuse)),
    "pong": Fault("ping.empty", "ping", at("ping", result({"pong": True})), "advice"),
    "no batches": Fault("rpc.batch", "a batch of two pings", lambda q, r: [r] if r else [], "advice"),
    # Lists.
    "no list": Fault("list.refused", "prompts/list", at("prompts/list", refuse)),
    "list fails": Fault("list.failed", "prompts/list", at("prompts/list", fail), "advice"),
    "no templates": Fault(
        "list.templates", "resources/templates/list", at("resources/templates/list", refuse), "advice"
    ),
    "no array": Fault("list.shape", "tools/list result.tools", at("tools/list", result({"tools": {"a": TOOLS[0]}}))),
    "second page": Fault(
        "list.shape",
        "tools/list, page 2 result",
        at("tools/list", lambda q, r: result({}, "tools")(q, r) if "cursor" in q["params"] else [r]),
    ),
    "cursor is null": Fault("list.shape", "tools/list result.nextCursor", at("tools/list", page(None))),
    "cursor is a number": Fault("list.shape", "tools/list result.nextCursor", at("tools/list", page(1))),
    "cursor is empty": Fault("list.empty-cursor", "tools/list result.nextCursor", at("tools/list", page("")), "advice"),
    "same cursor": Fault(
        "list.repeated-cursor",
        "tools/list, page 2: nextCursor",
        at("tools/list", result({"nextCursor": "next"})),
        "advice",
    ),
    "endless": Fault("list.endless", "tools/list", at("tools/list", pages_without_end), "advice"),
    "any cursor": Fault(
        "list.bad-cursor",
        "tools/list with a cursor that was never given",
        at(
            "tools/list",
            lambda q, r: [r] if "result" in r else succeed({"tools": [], "ttlMs": 0, "cacheScope": "public"})(q, r),
        ),
        "advice",
    ),
    "same tool twice": Fault(
        "definition.repeated", "tools/list names", at("tools/list", result({"tools": [TOOLS[0]]})), "advice"
    ),
    "other tools": Fault(
        "list.unstable",
        "tools of two sessions",
        at(
            "tools/list",
            lambda q, r: result({"tools": [{**TOOLS[0], "name": f"t{os.getpid()}-{'cursor' in q['params']}"}]})(q, r),
        ),
        "advice",
    ),
    # What was declared.
    "no level": Fault("logging.level", "logging/setLevel", at("logging/setLevel", refuse)),
    "any level": Fault("logging.wrong-level", "logging/setLevel", at("logging/setLevel", succeed()), "advice"),
    "logs undeclared": Fault(
        "notify.undeclared-log",
        "prompts/list",
        lambda q, r: (
            [notify("notifications/message", level="error", data="x"), r]
            if q.get("method") == "prompts/list" and VERSION not in q["params"].get("_meta", {})
            else at("initialize", result({"capabilities": {"prompts": {}}}))(q, r)
        ),
    ),
    "logs unasked": Fault(
        "notify.unasked-log",
        "prompts/list",
        lambda q, r: (
            [notify("notifications/message", level="error", data="x"), r]
            if q.get("method") == "prompts/list" and VERSION in q["params"].get("_meta", {})
            else [r]
            if r
            else []
        ),
    ),
    "changes undeclared": Fault(
        "notify.undeclared",
        "prompts/list",
        at("prompts/list", also(notify("notifications/tools/list_changed"), first=True)),
        "advice",
    ),
    "other progress": Fault("progress.token", "tools/call greet", at("tools/call", tell_progress(1, token=7))),
    "unasked progress": Fault("progress.token", "prompts/list", at("prompts/list", tell_progress(1))),
    "progress stands": Fault("progress.grows", "tools/call greet", at("tools/call", tell_progress(1, 1))),
    "progress of words": Fault("progress.grows", "tools/call greet", at("tools/call", tell_progress("much"))),
    "no completions": Fault("completions.refused", "completion/complete", at("completion/complete", refuse)),
    "any prompt": Fault("prompts.unknown", "prompts/get", at("prompts/get", succeed({"messages": []})), "advice"),
    "any resource": Fault(
        "resources.unknown",
        "resources/read",
        at("resources/read", succeed({"contents": [], "ttlMs": 0, "cacheScope": "public"})),
        "advice",
    ),
    "code of resource": Fault(
        "resources.unknown-code",
        "resources/read",
        at("resources/read", merge({"error": {"code": -32603, "message": "x"}})),
        "advice",
    ),
    # Asks, floods.
    "asks undeclared": Fault(
        "asks.undeclared",
        "prompts/list",
        lambda q, r: (
            [ask("sampling/createMessage"), r]
            if q.get("method") == "prompts/list" and VERSION not in q["params"].get("_meta", {})
            else [r]
            if r
            else []
        ),
    ),
    "asks on modern": Fault(
        "asks.modern",
        "prompts/list",
        lambda q, r: (
            [ask("roots/list"), r]
            if q.get("method") == "prompts/list" and VERSION in q["params"].get("_meta", {})
            else [r]
            if r
            else []
        ),
    ),
    "floods": Fault("safety.flood", "prompts/list", at("prompts/list", flood), "advice"),
    "giant line": Fault(
        "safety.oversized",
        "prompts/list",
        at("prompts/list", lambda q, r: [b'{"' + b"x" * (17 * 1024 * 1024) + b'"}', r]),
        "advice",
    ),
    # Cancelling, and others at the same moment.
    "ends when cancelled": Fault("cancel.survival", "a request that is cancelled", on_cancelled(end)),
    "hangs when cancelled": Fault("cancel.survival", "a request that is cancelled", on_cancelled(wait_for_ever)),
    "answers what is cancelled again": Fault(
        "rpc.twice",
        "a request that is cancelled",
        on_cancelled(lambda q, _: [{"jsonrpc": "2.0", "id": q["params"]["requestId"], "result": {}}]),
    ),
    "wrong error when cancelled": Fault(
        "rpc.error",
        "a request that is cancelled",
        drop_cancelled(
            on_cancelled(lambda q, _: [{"jsonrpc": "2.0", "id": q["params"]["requestId"], "error": "cancelled"}])
        ),
    ),
    "no end of line when cancelled": Fault("rpc.rubbish", "a request that is cancelled", glue_to_cancelled()),
    "drops what is cancelled": Fault("", "", drop_cancelled(on_cancelled(lambda _request, _reply: []))),
    "takes a lock": Fault(
        "session.together", "two sessions at the same moment", lambda q, r: [r] if r else [], "advice"
    ),
    "takes a port": Fault(
        "session.together", "two sessions at the same moment", lambda q, r: [r] if r else [], "advice"
    ),
    "needs a network": Fault("start.network", "initialize", lambda q, r: [r] if r else [], "advice"),
    # The process.
    "no large messages": Fault(
        "size.large", "of three megabytes", lambda q, r: [] if len(str(q)) > 1_000_000 else [r] if r else [], "advice"
    ),
    "stays": Fault("stdio.exit", "end of standard input", lambda q, r: [r] if r else [], "advice"),
    "ignores the signal": Fault("stdio.exit", "end of standard input", lambda q, r: [r] if r else [], "advice"),
    "leaves a child": Fault(
        "stdio.orphan", "end of standard input", at("initialize", start_child(leaves_group=False)), "advice"
    ),
    "leaves a daemon": Fault(
        "stdio.orphan", "end of standard input", at("initialize", start_child(leaves_group=True)), "advice"
    ),
    "grows with each request": Fault("memory.request", "tools/list", keep(200_000), "advice"),
    "grows with a list": Fault("memory.request", "prompts/list", at("prompts/list", keep(200_000)), "advice"),
    "grows at first": Fault("", "", hoard),
    "starts slowly": Fault("start.slow", "a second start", lambda q, r: [r] if r else [], "advice"),
    "dies of a broken line": Fault("rpc.survival", "no JSON", lambda q, r: [r] if r else [], "advice"),
    "dies late of a broken line": Fault("rpc.survival", "no JSON", lambda q, r: [r] if r else [], "advice"),
    "ignores broken lines": Fault("rpc.parse-error", "no JSON", lambda q, r: [r] if r else [], "advice"),
    # Calls.
    "no content": Fault("call.content", "tools/call greet", at("tools/call", result({}, "content"))),
    "nothing structured": Fault(
        "call.unstructured", "tools/call count: structuredContent", at("tools/call", result({}, "structuredContent"))
    ),
    "mismatch": Fault(
        "call.mismatch",
        "tools/call count: structuredContent",
        at(
            "tools/call",
            lambda q, r: (
                result({"structuredContent": {"number": "1"}})(q, r) if q["params"]["name"] == "count" else [r]
            ),
        ),
    ),
    "any tool": Fault(
        "call.unknown",
        "tools/call of a tool",
        at("tools/call", lambda q, r: [r] if "result" in r else succeed({"content": []})(q, r)),
        "advice",
    ),
    "secret": Fault(
        "safety.secret",
        "tools/call greet",
        at(
            "tools/call",
            lambda q, r: (
                result({"content": [{"type": "text", "text": "AKIA" + "IOSFODNN7EXAMPLA"}]})(q, r)
                if q["params"]["name"] == "greet"
                else [r]
            ),
        ),
        "advice",
    ),
}
"""Each fault by what is wrong."""


KEPT_OPEN: list[object] = []


def prepare(name: str) -> None:
    """Do what is wrong before the first message. What only one fault needs is imported for it: a check starts often."""
    if name == "starts slowly":
        time.sleep(1.0)
    if name == "ignores the signal":
        import signal

        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if name == "takes a lock":
        import fcntl

        lock = os.open(f"{os.environ['HOME']}/lock", os.O_WRONLY | os.O_CREAT)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    if name == "takes a port":
        import socket

        KEPT_OPEN.append(socket.create_server(("127.0.0.1", 8765)))
    if name == "needs a network":
        import socket

        socket.create_connection(("192.0.2.1", 443), timeout=1.0)


def main(name: str) -> None:
    """Serve over standard input and output, with one fault."""
    change = FAULTS[name].change
    prepare(name)
    for line in sys.stdin.buffer:
        try:
            messages: Json | list[Json] = json.loads(line)
        except ValueError:
            if name == "dies of a broken line":
                return
            if name == "dies late of a broken line":
                # As a reader does that takes the next lines for the rest of this one.
                sys.stdin.buffer.readline()
                sys.stdin.buffer.readline()
                return
            if name != "ignores broken lines":
                write({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "no JSON"}})
            continue
        if isinstance(messages, list):
            write([answer(one) for one in messages])
            continue
        if "method" not in messages:
            continue
        for message in change(messages, answer(messages) if "id" in messages else {}):
            write(message)
    if name in ("stays", "ignores the signal"):
        time.sleep(600)


def write(message: object) -> None:
    """Write a message, or bytes as they are."""
    data = message if isinstance(message, bytes) else json.dumps(message).encode()
    sys.stdout.buffer.write(data + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(sys.argv[1])
