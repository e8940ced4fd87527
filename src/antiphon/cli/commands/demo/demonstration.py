"""The client of the demonstration: the call, the host that answers, and the check that everything was stored.

Owns the order of events, and shows them: as lines for a person, or as JSON lines for a program.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from shutil import which
from typing import Any, cast

import msgspec

from antiphon.channel import Channel
from antiphon.cli.commands.demo.server import STORE_VARIABLE, Product
from antiphon.cli.failures import FAILED, explain
from antiphon.cli.output.formats import print_json, print_list
from antiphon.cli.output.frames import LEGEND, line
from antiphon.cli.output.progress import Teller
from antiphon.client.client import Client
from antiphon.errors import AntiphonError, ConfigError, ConnectionClosed, Rejected
from antiphon.host.budget import dollars
from antiphon.host.configured_host import ConfiguredHost
from antiphon.transports.recording import Message, RecordingChannel
from antiphon.wire.common import ClientCapabilities
from antiphon.wire.logging import LoggingMessageNotificationParams
from antiphon.wire.origin import Origin
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult

__all__ = ["Demo", "Display"]

_PATIENCE = 30.0
"""Seconds the call may take in addition to the time in which products arrive and answers are made."""
_SHELF = "shop://products"
_AT_ONCE = 20
"""Concurrent calls: as many requests as a person can keep track of, and fewer than a host answers at once."""

_STYLES = {
    "product": "bold cyan",
    "ask": "bold yellow",
    "answer": "bold green",
    "stored": "bold green",
    "refused": "bold red",
    "error": "bold red",
}


class Demo:
    """One run of the demonstration."""

    def __init__(
        self,
        display: Display,
        host: ConfiguredHost,
        store: Path,
        interval: float,
        *,
        is_kept: bool,
        is_paged: bool,
        record: str,
    ) -> None:
        """Prepare a run.

        ``is_kept``: the shop may have products already. ``is_paged``: a person decides on a page. ``record`` says where
        the host keeps decisions, for people.
        """
        self._record = record
        self._display = display
        self._host = host
        self._store = store
        self._interval = interval
        self._is_kept = is_kept
        self._is_paged = is_paged
        self._pid: int | None = None
        self._asks = 0
        self._made = 0
        """Number of calls made."""
        self._answered = 0
        self._refused = 0

    async def run(self, wanted: int, revision: str) -> int:
        """Have products described; return the exit code. The last event says how many are actually stored."""
        began, spent = time.monotonic(), await self._spent()
        done: dict[str, object] = {"stored": None, "wanted": wanted}
        try:
            await self._described(wanted, revision, done)
        except ConfigError:
            raise
        except AntiphonError as error:
            self._display.event("error", message=explain(error))
        self._display.event("done", **done, seconds=round(time.monotonic() - began, 1))
        self._display.summary(
            calls=self._made,
            asks=self._asks,
            answered=self._answered,
            refused=self._refused,
            cost=dollars(await self._spent() - spent),
            record=self._record,
        )
        return 0 if done["stored"] == wanted else FAILED

    async def _spent(self) -> int:
        """Return what was spent in all, in nano-dollars."""
        return sum(balance.spent.money for balance in await self._host.store.balances_of(["total"]))

    async def _described(self, wanted: int, revision: str, done: dict[str, object]) -> None:
        self._display.legend()
        async with self._client(wanted, revision) as client:
            self._connected(client)
            done["revision"] = client.revision
            before: set[str] = {product.sku for product in await _read_shelf(client)} if self._is_kept else set()
            await self._calls(client, wanted)
            # The server's list counts, not the answers that were sent.
            shelf = [product for product in await _read_shelf(client) if product.sku not in before]
        done["stored"] = sum(1 for product in shelf if product.description)
        self._display.shelf(shelf)

    def _client(self, wanted: int, revision: str) -> Client:
        # Not in its arguments, which are part of its identity: a grant given in one run then applies in the
        # next.
        environ = {STORE_VARIABLE: str(self._store.absolute())}
        program = ["-m", "antiphon.cli.commands.demo.server", "--interval", str(self._interval)]
        return Client(
            {"command": sys.executable, "args": program, "env": environ},
            sampling=self.answer,
            revision=revision,
            timeout=_PATIENCE + wanted * self._interval * 2,
            log_level="info",
            on_log=self._logged,
            wrap=self._recorded,
        )

    def _recorded(self, channel: Channel) -> Channel:
        pid = getattr(channel, "pid", None)
        self._pid = pid if isinstance(pid, int) else None
        return RecordingChannel(channel, self._display.message)

    def _connected(self, client: Client) -> None:
        info = client.server_info
        self._display.event(
            "connected",
            server=info.name if info else "an unnamed server",
            version=info.version if info else "",
            revision=client.revision,
            pid=self._pid,
        )

    async def _calls(self, client: Client, wanted: int) -> None:
        """Make one call for all products; with a page one call for each, so that they can be seen side by side."""
        if not self._is_paged:
            await self._call(client, wanted)
            return
        at_once = asyncio.Semaphore(_AT_ONCE)

        async def one() -> None:
            async with at_once:
                await self._call(client, 1)

        await asyncio.gather(*(one() for _ in range(wanted)))

    async def _call(self, client: Client, wanted: int) -> None:
        self._made += 1
        try:
            result = await client.call_tool("describe_new_products", {"count": wanted}, progress=_ignore)
        except ConnectionClosed:
            raise
        except AntiphonError as error:
            # At 2026-07-28 a refusal ends the whole call; what was stored before stays stored.
            self._display.event("error", message=f"the call was given up: {explain(error)}")
            return
        if result.is_error:
            self._display.event("error", message=result.text)

    def _logged(self, params: LoggingMessageNotificationParams) -> None:
        facts = cast("dict[str, object]", params.data) if isinstance(params.data, dict) else {}
        event = facts.get("event")
        if event in ("product", "stored"):
            self._display.event(str(event), **{key: value for key, value in facts.items() if key != "event"})

    # --- the answerer -------------------------------------------------------------------------------------------

    @property
    def capabilities(self) -> ClientCapabilities:
        """What the host can answer."""
        return self._host.capabilities

    async def answer(self, params: CreateMessageRequestParams, origin: Origin) -> CreateMessageResult:
        """Let the host answer, and show the outcome. Nothing else is shown while a person decides at this terminal."""
        self._asks += 1
        number = self._asks
        prompt = params.messages[-1].text if params.messages else ""
        self._display.event("ask", n=number, prompt=prompt, max_tokens=params.max_tokens, server=origin.target)
        try:
            with nullcontext() if self._is_paged else self._display.teller.held():
                result = await self._host(params, origin)
        except Rejected as error:
            reason = cast("dict[str, object]", error.data).get("reason") if isinstance(error.data, dict) else None
            self._refused += 1
            self._display.event("refused", n=number, reason=reason or "user")
            raise
        self._answered += 1
        self._display.event("answer", n=number, model=result.model, text=result.text)
        return result


def _ignore(progress: float, total: float | None, message: str | None) -> None:
    """Ignore progress; passing a callback makes the server send it, and it is shown among the messages."""


async def _read_shelf(client: Client) -> list[Product]:
    contents = (await client.read_resource(_SHELF)).contents
    return msgspec.json.decode(contents[0].bytes, type=list[Product])


class Display:
    """Shows events. ``messages``: also show every message."""

    def __init__(self, *, as_json: bool, messages: bool) -> None:
        self.teller = Teller(sys.stdout)
        self._as_json = as_json
        self._messages = messages

    def event(self, event: str, **facts: Any) -> None:
        """Show an event."""
        if self._as_json:
            print_json({"event": event, **facts})
        elif event in _LINES and (event != "done" or facts["stored"] is not None):
            facts = {name: f"{fact:.2f}" if isinstance(fact, float) else fact for name, fact in facts.items()}
            self.teller.say(_LINES[event].format_map(_Facts(facts)), _STYLES.get(event, "bold"))

    def message(self, message: Message) -> None:
        """Show a message."""
        if self._messages and self._as_json:
            print_json({"event": "message", **msgspec.to_builtins(message)})
        elif self._messages:
            self.teller.say(line(message), "red" if message.kind == "error" else "dim")

    def summary(self, *, calls: int, asks: int, answered: int, refused: int, cost: str, record: str) -> None:
        """Show a summary; ``record`` says where it is stored."""
        facts = {"calls": calls, "asks": asks, "answered": answered, "refused": refused, "cost": cost, "record": record}
        self.event("summary", **facts)

    def legend(self) -> None:
        """Explain the arrows."""
        if self._messages and not self._as_json:
            self.teller.say(LEGEND, "dim")

    def hint(self, *, is_paged: bool) -> None:
        """Say what to do next."""
        if self._as_json:
            return
        if is_paged:
            self.teller.say("History and spending stay on the page until Ctrl-C.", "bold")
        else:
            self.teller.say(f"Decide yourself, in the browser: {_program()} demo --web", "bold")

    def shelf(self, products: Sequence[Product]) -> None:
        """Show the stored products as a table."""
        if self._as_json:
            return
        self.teller.say("")
        print_list(
            products,
            {
                "product": lambda product: f"{product.sku} {product.name}",
                "description": lambda product: product.description or "",
                "by": lambda product: product.model or "",
            },
            as_json=False,
            nothing="Nothing is stored.",
        )
        self.teller.say("")


def _program() -> str:
    """Return the name of this program, so that printed commands can be typed."""
    started = sys.argv[0]
    return started if Path(started).name == "antiphon" and which("antiphon") != started else "antiphon"


class _Facts(dict[str, Any]):
    """Facts of an event; some may be missing, because they come from the server."""

    def __missing__(self, key: str) -> str:
        return "?"


_LINES: Mapping[str, str] = {
    "connected": "Connected to {server} {version} in a process of its own (pid {pid}), revision {revision}.",
    "product": "  ● new product   {sku}  {name}, {price} EUR",
    "ask": "  ? the server asks us for a description (at most {max_tokens} tokens): {prompt}",
    "answer": "  ✓ answered by {model}: {text}",
    "refused": "  ✗ refused ({reason})",
    "stored": "  ■ stored        {sku}  {name}",
    "error": "  ✗ {message}",
    "done": "{stored} of {wanted} new products are described and stored (read back from the server), in {seconds} s.",
    "summary": "Calls {calls} · asks of the server {asks} · answered {answered} · refused {refused} · cost {cost}\n"
    "Record: {record}",
}
