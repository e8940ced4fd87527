"""The small client over standard streams, with faults that are found there, too: ``python -m ... FAULT COMMAND...``.

It starts the server that it was given, lists its tools, calls each, and ends. ``PIPED_FAULTS`` says which rule each
fault breaks, in which trial, and where that is found.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from itertools import count
from typing import Any

from tests.check.faulty_client import LEGACY, ClientFault, Json

PIPED_FAULTS = {
    "sends rubbish": ClientFault("client.message", "older", "an answer"),
    "fraction as id": ClientFault("client.id", "older", "tools/list"),
    "not initialized": ClientFault("client.initialized", "older", "2025-03-26"),
    "answers the unknown": ClientFault("client.unknown-method", "asks", "antiphon-check/nothing"),
    "any revision": ClientFault("client.revision", "unknown-revision", "1999-12-31", "advice"),
    "first page only": ClientFault("client.first-page", "endless", "pages", "advice"),
    "waits for the dead": ClientFault("client.stuck", "gone", "ends during a call", "advice"),
}
"""Each fault by what is wrong."""


class Gone(Exception):
    """The server has ended, or was left."""


class PipedClient:
    """The client, with one fault."""

    def __init__(self, fault: str, command: list[str]) -> None:
        self.fault, self.ids = fault, count(1)
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def send(self, message: Json | bytes) -> None:
        """Send a message as one line, or bytes as they are."""
        assert self.process.stdin is not None
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.process.stdin.write(data + b"\n")
        self.process.stdin.flush()

    def request(self, method: str, params: Json) -> Json:
        """Send a request, answer what is asked meanwhile, and return the result."""
        number: Any = next(self.ids)
        if self.fault == "fraction as id" and method != "initialize":
            number += 0.5
        self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        assert self.process.stdout is not None
        for line in self.process.stdout:
            try:
                message: Json = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if "method" not in message and message["id"] == number:
                return message.get("result", {})
            if "method" in message and "id" in message:
                refusal: Json = {"error": {"code": -32601, "message": "unknown"}}
                is_unknown = message["method"] == "antiphon-check/nothing"
                is_known = message["method"] == "ping" or (is_unknown and self.fault == "answers the unknown")
                self.send({"jsonrpc": "2.0", "id": message["id"], **({"result": {}} if is_known else refusal)})
        if self.fault == "waits for the dead":
            time.sleep(3600)
        raise Gone

    def run(self) -> None:
        """List the tools on at most 50 pages, and call each."""
        info = {"name": "piped", "version": "1"}
        opening: Json = {"protocolVersion": LEGACY[-1], "capabilities": {}, "clientInfo": info}
        if self.request("initialize", opening).get("protocolVersion") not in LEGACY and self.fault != "any revision":
            raise Gone
        if self.fault == "sends rubbish":
            self.send(b"hello")
        if self.fault != "not initialized":
            self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        names: dict[str, None] = {}
        cursors: dict[str, None] = {}
        page = self.request("tools/list", {})
        while isinstance(page.get("tools"), list):
            names |= dict.fromkeys(tool["name"] for tool in page["tools"])
            cursor = page.get("nextCursor")
            if cursor is None or cursor in cursors or len(cursors) > 50 or self.fault == "first page only":
                break
            cursors[cursor] = None
            page = self.request("tools/list", {"cursor": cursor})
        for name in names:
            self.request("tools/call", {"name": name, "arguments": {}})

    def close(self) -> None:
        """Close the input of the server, and wait for its end."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def main(fault: str, command: list[str]) -> None:
    """Run the client to its end."""
    client = PipedClient(fault, command)
    try:
        client.run()
    except (Gone, BrokenPipeError):
        print("the server has ended, or was left", file=sys.stderr)
    finally:
        client.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
