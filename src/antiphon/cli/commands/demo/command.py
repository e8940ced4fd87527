"""``antiphon demo``: shows sampling in one minute, with a server in a process of its own."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from shutil import which
from typing import Annotated, Any, cast

import click
import msgspec
from msgspec import Struct, structs

from antiphon.cli import options
from antiphon.cli.commands.demo.server import INTERVAL_VARIABLE, MOST_PRODUCTS, Product
from antiphon.cli.host_options import choose_host, describe_refusal, read_configuration, reason_of
from antiphon.cli.output.formats import FAILED, explain_error, is_terminal, print_json, print_list
from antiphon.cli.output.progress import LEGEND, Teller, format_message
from antiphon.cli.store import ring_for_questions
from antiphon.client.client import Client
from antiphon.errors import AntiphonError, ConfigError, ConnectionClosed, Rejected
from antiphon.host.budget import format_dollars
from antiphon.host.checks.redact import mask_text
from antiphon.host.config.settings import Config as ConfigSettings
from antiphon.host.configured_host import ConfiguredHost
from antiphon.host.models.models import missing_package
from antiphon.host.providers import Echo
from antiphon.host.providers.base import missing_key
from antiphon.host.review.review import obstacle_of
from antiphon.host.store import MemoryStore
from antiphon.host.store.store_location import state_folder
from antiphon.transports.recording import Message, RecordingChannel
from antiphon.web.page_reviewer import load_opener
from antiphon.wire.common import ClientCapabilities, Implementation
from antiphon.wire.origin import Origin
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult

_PATIENCE = 30.0
"""Seconds the call may take in addition to the time in which products arrive and answers are made."""
_AT_ONCE = 20
"""Concurrent calls: as many requests as a person can keep track of, and fewer than a host answers at once."""
_TEXTS = msgspec.toml.decode(Path(__file__).with_name("texts.toml").read_bytes(), type=dict[str, dict[str, str]])


class DemoRun(Struct, frozen=True, kw_only=True):
    """What one run shows: how many products, how fast, and where a person decides."""

    products: int
    revision: str
    interval: float
    is_paged: bool
    record: str
    """Where the host keeps decisions, for people."""
    next: str
    """What to do next, for people."""


class Display:
    """Shows events. ``messages``: also show every message."""

    def __init__(self, *, as_json: bool, messages: bool) -> None:
        self.teller = Teller(sys.stdout)
        self._as_json, self._messages = as_json, messages
        if messages and not as_json:
            self.teller.say(LEGEND, "dim")

    def event(self, event: str, **facts: Any) -> None:
        """Show an event."""
        if self._as_json:
            print_json({"event": event, **facts})
        elif event != "done" or facts["stored"] is not None:
            self.teller.say(_TEXTS["lines"][event].format_map(facts), _TEXTS["styles"].get(event, "bold"))

    def message(self, message: Message) -> None:
        """Show a message."""
        if self._messages and self._as_json:
            print_json({"event": "message", **msgspec.to_builtins(message)})
        elif self._messages:
            self.teller.say(format_message(message), "red" if message.kind == "error" else "dim")

    def shelf(self, products: Sequence[Product]) -> None:
        """Show products as a table."""
        if not self._as_json:
            self.teller.say("")
            columns: Mapping[str, Callable[[Product], str]] = {
                "product": lambda product: f"{product.sku} {product.name}",
                "description": lambda product: product.description or "",
                "by": lambda product: product.model or "",
            }
            print_list(products, columns, as_json=False, nothing="Nothing is stored.")
            self.teller.say("")


class Demo:
    """One run of the demonstration."""

    def __init__(self, display: Display, host: ConfiguredHost, run: DemoRun) -> None:
        self._display, self._host, self._run = display, host, run
        self._calls = 0
        self._asked = Counter[str]()
        """How often the server has asked, and how often it was answered and refused."""
        self._decisions = Counter[str]()

    async def run(self) -> int:
        """Have products described; return the exit code. The last events say what is stored, and what it took."""
        done: dict[str, Any] = {"stored": None, "wanted": self._run.products}
        began, spent = time.monotonic(), await self._sum_spending()
        try:
            await self._describe(done)
        except ConfigError:
            raise
        except AntiphonError as error:
            self._display.event("error", message=explain_error(error))
        self._display.event("done", **done, seconds=round(time.monotonic() - began, 1))
        self._display.event(
            "summary",
            calls=self._calls,
            **{name: self._asked[name] for name in ("asks", "answered", "refused")},
            cost=format_dollars(await self._sum_spending() - spent),
            decisions=", ".join(f"{each} ({count})" for each, count in self._decisions.items()) or "none",
            record=self._run.record,
            next=self._run.next,
        )
        return 0 if done["stored"] == done["wanted"] else FAILED

    async def _sum_spending(self) -> int:
        """Return the sum of all spending, in nano-dollars."""
        return sum(balance.spent.money for balance in await self._host.store.balances_of(["total"]))

    async def _describe(self, done: dict[str, Any]) -> None:
        """Have the products described. ``done`` gets the count of the server's own list, not that of our answers."""
        run = self._run
        # The interval is no argument, because arguments are part of the server's identity: a grant that is given in one
        # run applies in the next.
        environ = {INTERVAL_VARIABLE: str(run.interval)}
        client = Client(
            {"command": sys.executable, "args": ["-m", "antiphon.cli.commands.demo.server"], "env": environ},
            sampling=self.answer,
            revision=run.revision,
            timeout=_PATIENCE + run.products * run.interval * 2,
            log_level="info",
            on_log=lambda params: self._display.event(**cast("dict[str, Any]", params.data)),
            wrap=lambda channel: RecordingChannel(channel, self._display.message),
        )
        async with client:
            server, done["revision"] = cast("Implementation", client.server_info), client.revision
            self._display.event("connected", server=server.name, version=server.version, revision=client.revision)
            # On a page, requests can be seen side by side.
            calls = min(run.products, _AT_ONCE) if run.is_paged else 1
            counts = [len(range(at, run.products, calls)) for at in range(calls)]
            await asyncio.gather(*(self._call(client, count) for count in counts))
            contents = (await client.read_resource("shop://products")).contents
            shelf = msgspec.json.decode(contents[0].bytes, type=list[Product])
        done["stored"] = len(shelf)
        self._display.shelf(shelf)

    async def _call(self, client: Client, count: int) -> None:
        self._calls += 1
        try:
            # A server sends progress only if it is wanted; it is shown among the messages.
            result = await client.call_tool(
                "describe_new_products", {"count": count}, progress=lambda _done, _total, _message: None
            )
        except ConnectionClosed:
            raise
        except AntiphonError as error:
            # At 2026-07-28 a refusal ends the whole call; what was stored before stays stored.
            self._display.event("error", message=f"the call was given up: {explain_error(error)}")
            return
        if result.is_error:
            self._display.event("error", message=result.text)

    @property
    def capabilities(self) -> ClientCapabilities:
        """What the host can answer."""
        return self._host.capabilities

    async def answer(self, params: CreateMessageRequestParams, origin: Origin) -> CreateMessageResult:
        """Let the host answer, and show the outcome. Nothing else is shown while a person decides at this terminal."""
        self._asked["asks"] += 1
        number, prompt = self._asked["asks"], params.messages[-1].text
        self._display.event("ask", n=number, prompt=prompt, max_tokens=params.max_tokens, server=origin.target)
        try:
            with nullcontext() if self._run.is_paged else self._display.teller.held():
                result = await self._host(params, origin)
        except Rejected as error:
            self._asked["refused"] += 1
            self._display.event("refused", n=number, reason=reason_of(error), why=describe_refusal(error))
            raise
        finally:
            # The last decision about the request counts, by the policy or by a person.
            steps = [each for each in self._host.audit.records(origin.id) if each.step in ("policy", "review")]
            if steps:
                self._decisions[f"{steps[-1].outcome} by {steps[-1].by or steps[-1].step}"] += 1
        self._asked["answered"] += 1
        self._display.event("answer", n=number, model=result.model, text=result.text)
        return result


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
    address is printed, and what waits is kept in your store. No key is needed: where no model can be used, for want
    of a key or of its packages, the demo chooses an offline provider that only echoes, and says so.
    Exit code 0 only if every product was described and stored.

    Usage:
        --products, -n N: How many new products to wait for before the demo ends.
        --interval SECONDS: About how many seconds pass between two new products. Default: 0.2 with --yes, else 2.
        --web: Decide on a page in the browser.
    """
    if web and (yes or review is not None):
        raise ConfigError("--web asks in the browser: leave --yes and --review out")
    opener = load_opener() if web else None
    settings = read_configuration(config, os.environ)
    if (
        provider is None
        and model is None
        and all(missing_key(one, os.environ) or missing_package(one) for one in settings.models)
    ):
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
    try:
        if page is None:
            return await demo.run()
        async with page, ring_for_questions(host.store, wanted=settings.notify.bell):
            code = await demo.run()
            if is_terminal():
                # Decisions and costs can be viewed on the page until Ctrl-C.
                await asyncio.get_running_loop().create_future()
            return code
    finally:
        await host.aclose()


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
