"""A program with an agent's run that stops at a given point, so that a test can kill it there.

    python -m tests.support.interrupted_run STORE LOG POINT

It writes each point that it reaches to standard output, and what its tools have run to LOG. At POINT it waits for ever.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from antiphon import Client, Server
from antiphon.host import Host, Policy, Rule, RunEvent, Scripted, ToolBegan, ToolEnded
from antiphon.host.store.sql_store import SqlStore
from antiphon.sql.runner import SqliteRunner
from antiphon.types import CreateMessageResult, ToolUseContent
from tests.host.asks import Person, approve

ALLOW = Policy(rules=(Rule(effect="allow", kind="tool"),))


def buy_both() -> CreateMessageResult:
    """Make an answer that wants two purchases."""
    uses = [ToolUseContent(id=each, name="buy", input={"product": each}) for each in ("hat", "cap")]
    return CreateMessageResult(role="assistant", model="m", stop_reason="toolUse", content=uses)


def open_file(path: Path) -> SqlStore:
    """Open the store of the run."""
    return SqlStore(SqliteRunner(path))


def make_shop(log: Path, stop: str = "", hat: asyncio.Event | None = None) -> Server:
    """Make a server whose tool notes each purchase; the one of a cap may never end.

    ``hat``: set once the other call has ended, before which the one of a cap is not reached.
    """
    server = Server("shop")

    @server.tool
    async def buy(product: str) -> str:
        """Buy something."""
        with log.open("a") as file:
            file.write(f"{product}\n")
        if product == "cap" and hat is not None:
            await hat.wait()
        if product == "cap":
            await reach("in the tool", stop)
        return f"bought a {product}"

    return server


async def reach(point: str, stop: str) -> None:
    """Say that a point is reached; wait there if the run stops at it."""
    print(point, flush=True)
    if point == stop:
        await asyncio.Event().wait()


class Deciding(Person):
    """A person who decides, after the program has said so."""

    def __init__(self, stop: str) -> None:
        super().__init__(approve)
        self._stop = stop

    async def confirm(self, item):
        await reach(f"asked about {item.params.name}", self._stop)
        return await super().confirm(item)


async def main(store: Path, log: Path, stop: str) -> None:
    """Run until the point."""
    hat = asyncio.Event()

    async def tell(event: RunEvent) -> None:
        name = getattr(getattr(event, "use", None), "id", "")
        if isinstance(event, ToolEnded) and name == "hat":
            hat.set()
        if stop == "ToolBegan cap" and isinstance(event, ToolBegan) and name == "cap":
            # Otherwise the call of the hat could be in progress when the program is killed.
            await hat.wait()
        await reach(f"{type(event).__name__} {name}".strip(), stop)

    host = Host(
        Scripted([buy_both(), "Done."]),
        policy=None if stop.startswith("asked") else ALLOW,
        reviewer=Deciding(stop),
        store=open_file(store),
    )
    async with Client(make_shop(log, stop, hat if stop == "in the tool" else None)) as client:
        await host.run("Buy both", client, run_id="r", on_event=tell)
    await reach("answered", stop)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]))
