"""FastMCP 4: ``python -m benchmarks.io_bound.fastmcp4_server PORT``. Without sessions, with JSON answers."""

from __future__ import annotations

import os
import sys

os.environ |= {"FASTMCP_LOG_LEVEL": "ERROR", "FASTMCP_CHECK_FOR_UPDATES": "off"}

import uvicorn
from fastmcp import FastMCP

from benchmarks.io_bound.work import TOOLS

server = FastMCP("shop")
for tool in TOOLS:
    server.tool(output_schema=None)(tool)

if __name__ == "__main__":
    app = server.http_app(stateless_http=True, json_response=True)
    uvicorn.run(app, port=int(sys.argv[1]), loop="uvloop", http="httptools", access_log=False, log_level="error")
