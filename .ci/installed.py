"""Tries what is installed, and nothing more: a server that asks its client, at every revision, by stdio and HTTP.

Run it by the Python of an environment that has the package and what it needs, without any extra.
"""

import asyncio
import sys
from importlib.util import find_spec
from typing import Any

from antiphon import Client, Context, Server
from antiphon.errors import ConfigError
from antiphon.wire.revisions import REVISIONS

server = Server("shop")


@server.tool
async def describe(product: str, ctx: Context) -> str:
    """Ask twice: at 2026-07-28 that is two rounds, whose states the server has signed."""
    name = (await ctx.sample(f"Name {product}")).text
    return f"{name}: {(await ctx.sample(f'Praise {name}')).text}"


async def answer(params: Any, _origin: Any) -> str:
    """Answer in place of a model."""
    return f"<{params.messages[0].content.text}>"


async def call_tool(target: object, revision: str) -> None:
    """Call the tool over one transport."""
    async with Client(target, revision=revision, sampling=answer) as client:
        said = (await client.call_tool("describe", {"product": "hat"})).text
        assert said == "<Name hat>: <Praise <Name hat>>", said


async def main() -> None:
    """Call the tool over each transport at each revision."""
    for name in ("cryptography", "wcwidth"):
        assert find_spec(name) is None, f"{name} is installed: this is no empty environment"
    try:
        Server("shop", keys=[bytes(32)])
    except ConfigError as error:
        print(error)
    async with server.listen() as url:
        for revision in REVISIONS:
            await call_tool([sys.executable, __file__, "serve"], revision.name)
            await call_tool(url, revision.name)
            print(f"{revision.name}: stdio and HTTP")


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        server.run()
    else:
        asyncio.run(main())
