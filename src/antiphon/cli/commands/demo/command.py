"""``antiphon demo``: shows sampling in one minute, with a server in a process of its own.

Owns the options; ``demonstration`` has the run.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from shutil import which
from typing import Annotated

import click
from msgspec import structs

from antiphon.cli import options
from antiphon.cli.bell import ring_for_questions
from antiphon.cli.commands.demo.demonstration import Demo, DemoRun, Display
from antiphon.cli.commands.demo.server import MOST_PRODUCTS
from antiphon.cli.host_options import choose_host, read_configuration
from antiphon.cli.output.formats import is_terminal
from antiphon.errors import ConfigError
from antiphon.host.checks.redact import mask_text
from antiphon.host.config.settings import Config as ConfigSettings
from antiphon.host.configured_host import ConfiguredHost
from antiphon.host.providers.api_keys import missing_key
from antiphon.host.providers.offline import Echo
from antiphon.host.review.review import obstacle_of
from antiphon.host.review_page import page_opener
from antiphon.host.store import MemoryStore
from antiphon.host.store.store_location import state_folder

_QUICK, _HUMAN = 0.2, 2.0
"""Seconds between two products: for a program, and for a person who reads along."""


async def command(
    *,
    yes: options.Yes = False,
    products: Annotated[int, click.IntRange(1, MOST_PRODUCTS)] = 3,
    as_json: options.Json = False,
    revision: options.RevisionName = "auto",
    messages: options.Messages = True,
    interval: Annotated[float | None, click.FloatRange(0.0)] = None,
    provider: options.Provider = None,
    model: options.ModelName = None,
    config: options.Config = None,
    review: options.Review = None,
    web: bool = False,
    port: options.Port = 0,
    browse: options.Browse = True,
) -> int:
    """Show sampling at work, in a minute.

    A shop's server has each new product described by your model, and you decide about every request.
    Without --yes you are asked about every request, at the terminal; with --web on a page in the browser, whose
    address is printed, and what waits is kept in your store. No key is needed: where none is in the environment
    and no model configured, the demo chooses an offline provider that only echoes, and says so.
    Exit code 0 only if every product was described and stored.

    Usage:
        --products, -n N: How many new products to wait for before the demo ends.
        --interval SECONDS: About how many seconds pass between two new products. Default: 0.2 with --yes, else 2.
        --web: Decide on a page in the browser.
    """
    if web and (yes or review is not None):
        raise ConfigError("--web asks in the browser: leave --yes and --review out")
    opener = page_opener() if web else None
    settings = read_configuration(config, os.environ)
    if provider is None and model is None and all(missing_key(one, os.environ) for one in settings.models):
        provider = Echo.name
    answers = options.AnswerOptions(yes=yes, provider=provider, model=model, review=review)
    if web:
        answers = structs.replace(answers, review="queue", store=settings.store or "default")
    host = choose_host(answers, config=config, soon=True)
    if not yes and (host.reviewer is None or not host.reviewer.available):
        raise ConfigError(f"nobody can be asked: {obstacle_of(host.reviewer)}; --yes approves without asking")
    run = DemoRun(
        products=products,
        revision=revision,
        interval=interval if interval is not None else _QUICK if yes else _HUMAN,
        is_paged=web,
        record=_describe_record(host, settings),
        next=_suggest_next(is_paged=web),
    )
    demo = Demo(Display(as_json=as_json, messages=messages), host, run)
    page = None if opener is None else opener(host.store, port=port, config=settings, browse=browse)
    return await _show_demo(demo, host, page, settings.notify.bell)


def _describe_record(host: ConfiguredHost, settings: ConfigSettings) -> str:
    """Say where decisions are stored, and how to look at them."""
    if isinstance(host.store, MemoryStore):
        return "in memory; it ends with this program"
    place = settings.store
    kept = str(state_folder(os.environ) / "host.db") if place in (None, "default") else mask_text(str(place))
    return f"{kept}; antiphon audit list shows it"


def _suggest_next(*, is_paged: bool) -> str:
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
