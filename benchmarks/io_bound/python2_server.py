"""The official Python SDK 2: ``python -m benchmarks.io_bound.python2_server PORT``. No sessions, JSON answers."""

from __future__ import annotations

import sys

import uvicorn
from mcp.server import MCPServer

from benchmarks.io_bound.work import TOOLS

server = MCPServer("shop", log_level="ERROR")
for tool in TOOLS:
    server.tool(structured_output=False)(tool)

if __name__ == "__main__":
    app = server.streamable_http_app(stateless_http=True, json_response=True)
    uvicorn.run(app, port=int(sys.argv[1]), loop="uvloop", http="httptools", access_log=False, log_level="error")
