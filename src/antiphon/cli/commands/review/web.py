"""``antiphon review --web``: the queue as a page in the browser, until Ctrl-C.

Owns the options. ``antiphon.web`` has the page, and is loaded only here.
"""

from __future__ import annotations

import asyncio
from typing import Annotated

from antiphon.cli.bell import ring_for_questions
from antiphon.cli.open_client import run_coroutine
from antiphon.cli.signatures import CommandOption
from antiphon.cli.store import StoreOptions, opened_store
from antiphon.host.review_page import page_opener

__all__ = ["Browse", "Port", "web"]

Port = Annotated[
    int, CommandOption("--port", metavar="N", min=0, max=65535, help="Port of the page; 0 is any that is free.")
]
Browse = Annotated[bool, CommandOption("--open/--no-open", help="Open a browser, where there is one.")]


def web(
    *,
    port: Port = 0,
    host: Annotated[
        str, CommandOption("--host", metavar="ADDRESS", help="Address to serve the page at.")
    ] = "127.0.0.1",
    remote: Annotated[
        bool, CommandOption("--remote", help="Allow a --host that others can reach. Nothing is encrypted.")
    ] = False,
    browse: Browse = True,
    where: StoreOptions,
) -> int:
    """Decide in the browser; also: antiphon review --web.

    Prints an address that opens the page once, in one browser; the page's settings make further ones. Only this machine
    can reach it. Over SSH, forward the port: ssh -L 8700:127.0.0.1:8700, with --port 8700 here.
    """
    opened_page = page_opener()
    settings = where.settings

    async def served() -> None:
        async with (
            opened_store(where, make=True) as opened,
            opened_page(opened, host=host, port=port, config=settings, remote=remote, browse=browse),
            ring_for_questions(opened, wanted=settings.notify.bell),
        ):
            await asyncio.get_running_loop().create_future()

    return run_coroutine(served())
