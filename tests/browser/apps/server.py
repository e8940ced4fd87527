"""A shop whose prices have an interface; it also serves the page of the host that shows it."""

from __future__ import annotations

import sys
from pathlib import Path

from starlette.responses import Response

from antiphon import Server
from antiphon.server import RouteRequest

folder = Path(sys.argv[1])
server = Server("shop")
stock = {"hat": 10}

server.app(
    "ui://shop/prices",
    "<!DOCTYPE html><html><head><title>Prices</title></head><body><output></output><button>Again</button>"
    f"<a>Elsewhere</a><p></p><script type=module>{(folder / 'view.js').read_text('utf-8')}</script></body></html>",
    connect=["https://api.example.com"],
)


@server.tool(ui="ui://shop/prices")
def prices() -> dict[str, int]:
    """List the prices."""
    return stock


@server.tool(ui="ui://shop/prices", visibility=["app"])
def refresh() -> dict[str, int]:
    """Fetch the prices again, for the interface."""
    stock["hat"] += 1
    return stock


@server.route("/", media_type="text/html")
def host(request: RouteRequest) -> str:
    """Return the page of the host."""
    return '<!DOCTYPE html><p></p><iframe sandbox="allow-scripts"></iframe><script type=module src=/host.js></script>'


@server.route("/host.js")
def script(request: RouteRequest) -> Response:
    """Return the host's program."""
    return Response((folder / "host.js").read_bytes(), media_type="text/javascript")


if __name__ == "__main__":
    server.run("http", port=int(sys.argv[2]))
