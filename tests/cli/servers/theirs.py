"""A server that would call a vendor's API itself: it shows the address and the key that it would use."""

from __future__ import annotations

import os

from antiphon import Server

server = Server("theirs")


@server.tool
def vendor() -> dict[str, str]:
    """Show where a call would go, and with which key."""
    return {"address": os.environ["OPENAI_BASE_URL"], "key": os.environ["OPENAI_API_KEY"]}


if __name__ == "__main__":
    server.run()
