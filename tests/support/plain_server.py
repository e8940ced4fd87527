"""A server written by hand, for tests to which it matters that a process serves, not what it is written with.

It starts in a sixth of the processor time of one that loads the library and asyncio. Its only tool says which file it
is, which process, and the value of ``A_VARIABLE`` in its environment; words after its name change nothing.
"""

from __future__ import annotations

import json
import os
import sys

LOOK = {"name": "look", "inputSchema": {"type": "object"}}


def answer(method: str) -> dict:
    """Return a reply without its id."""
    if method == "initialize":
        capable = {"capabilities": {"tools": {}}, "serverInfo": {"name": "plain", "version": "1"}}
        return {"result": {"protocolVersion": "2025-11-25", **capable}}
    if method == "tools/list":
        return {"result": {"tools": [LOOK]}}
    if method == "tools/call":
        seen = {"file": __file__, "process": os.getpid(), "variable": os.environ.get("A_VARIABLE")}
        return {"result": {"content": [{"type": "text", "text": json.dumps(seen)}]}}
    return {"error": {"code": -32601, "message": "unknown"}}


def run() -> None:
    """Answer each request of standard input."""
    for line in sys.stdin:
        request = json.loads(line)
        if "id" in request:
            print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer(request["method"])}), flush=True)


if __name__ == "__main__":
    run()
