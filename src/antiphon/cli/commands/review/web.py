"""``antiphon review --web``: the queue as a page in the browser, until Ctrl-C.

Owns the options. ``antiphon.web`` has the page, and is loaded only here.
"""

from __future__ import annotations

import asyncio
from typing import Annotated

import click

from antiphon.cli.bell import ring_for_questions
from antiphon.cli.store import StoreOptions, opened_store
from antiphon.host.review_page import page_opener

__all__ = ["Browse", "Port", "web"]

Port = Annotated[int, "--port N: Port of the page; 0 is any that is free.", click.IntRange(0, 65535)]
Browse = Annotated[bool, "--open/--no-open: Open a browser, where there is one."]


async def web(
    *,
    port: Port = 0,
    host: str = "127.0.0.1",
    remote: bool = False,
    browse: Browse = True,
    where: StoreOptions,
) -> None:
    """Decide in the browser; also: antiphon review --web.

    Prints an address that opens the page once, in one browser; the page's settings make further ones. Only this machine
    can reach it. Over SSH, forward the port: ssh -L 8700:127.0.0.1:8700, with --port 8700 here.

    Usage:
        --host ADDRESS: Address to serve the page at.
        --remote: Allow a --host that others can reach. Nothing is encrypted.
    """
    open_page = page_opener()
    settings = where.settings
    async with (
        opened_store(where, make=True) as store,
        open_page(store, host=host, port=port, config=settings, remote=remote, browse=browse),
        ring_for_questions(store, wanted=settings.notify.bell),
    ):
        await asyncio.get_running_loop().create_future()
