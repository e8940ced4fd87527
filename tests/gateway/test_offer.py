"""What a server offers: fetched whole, or only what has changed; compared kind by kind."""

from __future__ import annotations

from antiphon import Client, Server
from antiphon.gateway.offer import Offer, changes, fetch


async def test_only_what_has_changed_is_fetched():
    """The rest stays as it was."""
    server = Server("one")
    server.tool(name="x")(lambda: "x")
    server.prompt(name="p")(lambda: "p")
    server.add_resource("one://r", "r")
    async with Client(server) as client:
        whole = await fetch(client, Offer())
        assert changes(Offer(), whole) == ["tools", "prompts", "resources"]
        server.tool(name="y")(lambda: "y")
        server.prompt(name="q")(lambda: "q")
        part = await fetch(client, whole, ["tools"])
        assert [tool.name for tool in part.tools] == ["x", "y"]
        assert changes(whole, part) == ["tools"]
        assert changes(part, await fetch(client, part)) == ["prompts"]
