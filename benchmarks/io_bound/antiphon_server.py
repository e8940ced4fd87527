"""Our server: ``python -m benchmarks.io_bound.antiphon_server PORT``. Without sessions, as the others are."""

from __future__ import annotations

import sys

from antiphon import Server
from benchmarks.io_bound.work import TOOLS

server = Server("shop", tool_rate=None)
for tool in TOOLS:
    server.tool(structured=False)(tool)

if __name__ == "__main__":
    server.run("http", port=int(sys.argv[1]), stateless=True)
