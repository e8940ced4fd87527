"""A host: decides, by rules and with its user, which requests of a server are answered, and keeps a record.

The reviewer here is a few lines of code, so that the program ends by itself. The default, ``reviewer="terminal"``,
asks the person at the keyboard.
"""

import asyncio

from antiphon import Client, Context, Host, Rejected, Server
from antiphon.host import Approve, Decision, Deny, ElicitItem, Policy, Reviewer, ReviewItem, Rule, digest
from antiphon.types import ElicitResult

server = Server("writer")


@server.tool
async def write(words: int, ctx: Context) -> str:
    """Write a text of about this many words."""
    try:
        return (await ctx.sample("Write about autumn.", max_tokens=words * 2)).text
    except Rejected as error:
        return f"refused: {error.data['reason']}"


class Careful(Reviewer):
    """Approves what is short."""

    async def review(self, item: ReviewItem) -> Decision:
        """Decide on a sampling request, exactly as it will be sent."""
        if item.params.max_tokens <= 500:
            return Approve(digest=digest(item.params))
        return Deny(reason="too long")

    async def elicit(self, item: ElicitItem) -> ElicitResult:
        """Fill in no forms."""
        return ElicitResult(action="decline")


POLICY = Policy(
    rules=(
        Rule(effect="allow", max_tokens=100),  # short: no need to ask
        Rule(effect="deny", over_tokens=2_000),  # long: never
    ),
    default="ask",
)


async def main() -> None:
    """Ask for texts of four lengths."""
    host = Host("echo", policy=POLICY, reviewer=Careful())
    async with Client(server, sampling=host, revision="2025-11-25") as client:
        for words in (20, 200, 600, 5_000):
            print(words, (await client.call_tool("write", {"words": words})).text)
    for record in host.audit.records():
        if record.step in ("policy", "review"):
            print(record.step, record.outcome)


asyncio.run(main())
