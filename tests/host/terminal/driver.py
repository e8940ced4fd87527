"""A program for the tests that need a real terminal: answers one ask on standard output, or several at once.

Usage: driver.py ASKS, where ASKS is JSON: a list of {"params": ...}, {"elicit": ...} or {"call": [TOOL, ARGUMENTS]},
whose tool "says" something.
The first may have "provider" ("two" for two models), "expires" and "review_response" for the host, "one_by_one" (not
all at once), "undo" (seconds in which a permission can be taken back) and "opened" (a file that gets the address that
is opened). The signal USR1 withdraws the first.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import threading
from decimal import Decimal
from pathlib import Path

import msgspec

from antiphon.errors import PeerError
from antiphon.host import Host, Provider
from antiphon.host.model_catalogue import Model, ModelCatalogue, ModelPrice
from antiphon.host.models.models import Models
from antiphon.host.terminal import TerminalReviewer
from antiphon.host.terminal.forms import Opener
from antiphon.wire.elicitation import ElicitRequestParams
from antiphon.wire.envelope import encode_value
from antiphon.wire.sampling import CreateMessageRequestParams
from antiphon.wire.tools import CallToolRequestParams, Tool
from tests.host.asks import origin


async def answer(host: Host, ask: dict, number: int) -> str:
    """Let the host answer one ask, and write down what came of it."""
    try:
        if "elicit" in ask:
            return encode_value(
                await host.elicit(msgspec.convert(ask["elicit"], ElicitRequestParams), origin(str(number)))
            ).decode()
        if "call" in ask:
            tool = Tool(name=ask["call"][0], input_schema={}, description=ask.get("says", "Orders \x1b[2J something"))
            where = msgspec.structs.replace(origin(str(number)), tool=tool)
            return json.dumps(await host.confirm(CallToolRequestParams.of(*ask["call"]), where))
        params = msgspec.convert(ask["params"], CreateMessageRequestParams)
        return encode_value(await host(params, origin(str(number)))).decode()
    except PeerError as error:
        return json.dumps({"code": error.code, "data": error.data, "notes": getattr(error, "__notes__", [])})


def provider(name: str) -> str | Provider:
    """Choose the provider: ``two`` has two models, both of which echo."""
    free = ModelPrice(input=Decimal(0), output=Decimal(0))
    models = (
        Model(name=name, provider="echo", model="echo", context=9_999, price=free) for name in ("first", "second")
    )
    return Models(ModelCatalogue(tuple(models), default="first"), {}) if name == "two" else name


def opener(path: str) -> Opener:
    """Make a browser that only notes the address."""

    async def note(url: str) -> bool:
        await asyncio.to_thread(Path(path).write_text, url)
        return True

    return note


async def main(asks: list[dict]) -> None:
    """Answer all, print what came of each, then which threads are left."""
    first = asks[0]
    host = Host(
        provider(first.get("provider", "echo")),
        reviewer=TerminalReviewer(
            pause=0.0, color=False, opener=opener(first.get("opened", "")), undo=first.get("undo", 0.0)
        ),
        review_response=first.get("review_response", "never"),
        review_timeout=first.get("expires", 30),
    )
    tasks: list[asyncio.Task[str]] = []
    for number, ask in enumerate(asks, 1):
        tasks.append(asyncio.create_task(answer(host, ask, number)))
        if first.get("one_by_one"):
            await tasks[-1]
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, tasks[0].cancel)
    for task in tasks:
        [result] = await asyncio.gather(task, return_exceptions=True)
        said = result if isinstance(result, str) else type(result).__name__
        # In one piece: what is typed meanwhile would stand in it.
        sys.stdout.write(f"RESULT {said}\n")
    print("THREADS", [thread.name for thread in threading.enumerate() if not thread.daemon])


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
