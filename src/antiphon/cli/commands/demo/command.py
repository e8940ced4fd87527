"""``antiphon demo``: shows sampling in one minute, with a server in a process of its own.

Owns the options; ``demonstration`` has the run itself.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from shutil import which
from typing import Annotated

import click
from msgspec import structs

from antiphon.cli.bell import ring_for_questions
from antiphon.cli.commands.demo.demonstration import Demo, Display, Wanted
from antiphon.cli.commands.demo.server import MOST_PRODUCTS, ProductStore
from antiphon.cli.commands.review.web import Browse, Port
from antiphon.cli.host_options import choose_host, read_configuration
from antiphon.cli.open_client import run_coroutine
from antiphon.cli.options import AnswerOptions, Config, Json, Messages, ModelName, Provider, Review, RevisionName, Yes
from antiphon.cli.output.formats import is_terminal
from antiphon.cli.store import configured_place
from antiphon.errors import ConfigError
from antiphon.host.checks.redact import mask_text
from antiphon.host.configured_host import ConfiguredHost
from antiphon.host.providers.api_keys import missing_key
from antiphon.host.providers.offline import Echo
from antiphon.host.review.review import obstacle_of
from antiphon.host.review_page import page_opener
from antiphon.host.store import MemoryStore
from antiphon.host.store.store_location import state_folder

__all__ = ["command"]

_QUICK, _HUMAN = 0.2, 2.0
"""Seconds between two products: for a program, and for a person who reads along."""


def command(
    *,
    yes: Yes = False,
    products: Annotated[int, click.IntRange(1, MOST_PRODUCTS)] = 3,
    as_json: Json = False,
    revision: RevisionName = "auto",
    messages: Messages = True,
    store: Path | None = None,
    interval: Annotated[float | None, click.FloatRange(0.0)] = None,
    provider: Provider = None,
    model: ModelName = None,
    config: Config = None,
    review: Review = None,
    web: bool = False,
    port: Port = 0,
    browse: Browse = True,
) -> int:
    """Show sampling at work, in a minute.

    A shop's server has each new product described by your model, and you decide about every request.
    Without --yes you are asked about every request, at the terminal; with --web on a page in the browser, whose
    address is printed, and what waits is kept in your store. No key is needed: where none is in the environment
    and no model configured, the demo chooses an offline provider that only echoes, and says so.
    Exit code 0 only if every product was described and stored.

    Usage:
        --products, -n N: How many new products to wait for before the demo ends.
        --store FILE: Keep the shop's products in this SQLite file.
        --interval SECONDS: About how many seconds pass between two new products. Default: 0.2 with --yes, else 2.
        --web: Decide on a page in the browser.
    """
    if web and (yes or review is not None):
        raise ConfigError("--web asks in the browser: leave --yes and --review out")
    opener = page_opener() if web else None
    if provider is None and model is None and not _has_model(config):
        provider = Echo.name
    answers = AnswerOptions(yes=yes, provider=provider, model=model, review=review)
    if web:
        answers = structs.replace(answers, review="queue", store=configured_place(config) or "default")
    host = choose_host(answers, config=config, soon=True)
    if not yes and (host.reviewer is None or not host.reviewer.available):
        raise ConfigError(f"nobody can be asked: {obstacle_of(host.reviewer)}; --yes approves without asking")
    if store is not None:
        ProductStore(store).close()  # so that a file that is no store is reported here, and not by the server
    with tempfile.TemporaryDirectory(prefix="antiphon-demo-") as folder:
        wanted = Wanted(
            products=products,
            revision=revision,
            interval=interval if interval is not None else _QUICK if yes else _HUMAN,
            shop=store or Path(folder) / "shop.db",
            is_paged=web,
            record=_describe_record(host, config),
            next=_next(is_paged=web),
        )
        demo = Demo(Display(as_json=as_json, messages=messages), host, wanted)
        settings = read_configuration(config, os.environ)
        page = None if opener is None else opener(host.store, port=port, config=settings, browse=browse)
        return run_coroutine(_show_demo(demo, host, page, settings.notify.bell))


def _has_model(config: Path | None) -> bool:
    """Return whether the configuration, or a key in the environment, names a model that can answer."""
    return any(missing_key(model, os.environ) is None for model in read_configuration(config, os.environ).models)


def _describe_record(host: ConfiguredHost, config: Path | None) -> str:
    """Say where decisions are stored, and how to look at them."""
    if isinstance(host.store, MemoryStore):
        return "in memory; it ends with this program"
    place = configured_place(config)
    kept = str(state_folder(os.environ) / "host.db") if place in (None, "default") else mask_text(str(place))
    return f"{kept}; antiphon audit list shows it"


def _next(*, is_paged: bool) -> str:
    """Say what to do next, with a command that can be typed as it is printed."""
    if is_paged and is_terminal():
        return "History and spending stay on the page until Ctrl-C."
    started = sys.argv[0]
    program = started if Path(started).name == "antiphon" and which("antiphon") != started else "antiphon"
    if is_paged:
        return f"History and spending, again: {program} review --web"
    return f"Decide yourself, in the browser: {program} demo --web"


async def _show_demo(
    demo: Demo, host: ConfiguredHost, page: AbstractAsyncContextManager[object] | None, wants_bell: bool
) -> int:
    try:
        if page is None:
            return await demo.run()
        async with page, ring_for_questions(host.store, wanted=wants_bell):
            code = await demo.run()
            if is_terminal():
                # Decisions and costs can be viewed on the page until Ctrl-C.
                await asyncio.get_running_loop().create_future()
            return code
    finally:
        await host.aclose()
