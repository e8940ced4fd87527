"""A server over HTTP with tokens, mounted beside another page, and its client, in one program.

In production server and client are separate programs; ``uvicorn over_http:app``, in this folder, runs the server.
"""

import asyncio
import socket
from typing import Any

import uvicorn

from antiphon import Client, Context, PeerError, Server

server = Server("whoami")
TOKENS = {"t-17": "ann"}


@server.tool
def whoami(ctx: Context) -> str:
    """Say who calls."""
    return f"{ctx.request.principal}, at revision {ctx.request.revision}"


mcp = server.asgi(check_token=TOKENS.get)  # serves /mcp; names of this machine only, unless allowed_hosts= says more


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Answer health checks, and leave everything else to the server."""
    if scope["type"] == "http" and scope["path"] == "/healthz":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
        await send({"type": "http.response.body", "body": b"ok"})
    else:
        await mcp(scope, receive, send)


async def main() -> None:
    """Serve on a free port, and call it with a token and without."""
    # Named as TCP: otherwise asyncio leaves small messages waiting for those before to be confirmed (40 ms).
    listening = socket.socket(proto=socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    web = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    serving = asyncio.create_task(web.serve(sockets=[listening]))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
    for revision in ("2025-11-25", "2026-07-28"):
        async with Client(url, headers={"Authorization": "Bearer t-17"}, revision=revision) as client:
            print((await client.call_tool("whoami")).text)
    try:
        async with Client(url):
            pass
    except PeerError as error:
        print("without a token:", error.code)
    web.should_exit = True
    await serving


if __name__ == "__main__":
    asyncio.run(main())
