"""``antiphon demo``: the whole mission in one minute, on a server in a process of its own.

Owns the client's side of the demonstration: the call, the host that answers, and the proof that all was stored.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, cast

import msgspec
import typer

from antiphon.channel import Channel
from antiphon.cli.answering import choose_host
from antiphon.cli.demo.display import Display
from antiphon.cli.demo.server import MOST_PRODUCTS
from antiphon.cli.demo.store import Product
from antiphon.cli.failures import FAILED, explain
from antiphon.cli.frames import Recorder
from antiphon.cli.opening import run
from antiphon.cli.options import Json, Messages, RevisionName, Yes
from antiphon.client.client import Client
from antiphon.errors import AntiphonError, ConfigError, ConnectionClosed, Rejected
from antiphon.host.host import Host
from antiphon.wire.common import ClientCapabilities
from antiphon.wire.logging import LoggingMessageNotificationParams
from antiphon.wire.origin import Origin
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult

__all__ = ["command"]

_QUICK, _HUMAN = 0.2, 2.0
"""Seconds between two products: for a program, and for a person who reads along."""
_PATIENCE = 30.0
"""Seconds the call may take beyond the time in which products arrive and we answer."""
_SHELF = "shop://products"

Products = Annotated[
    int, typer.Option("--products", "-n", min=1, max=MOST_PRODUCTS, help="How many new products to wait for.")
]
StoreFile = Annotated[
    Path | None,
    typer.Option("--store", metavar="FILE", help="Keep the shop in this SQLite file.", show_default=False),
]
Interval = Annotated[
    float | None,
    typer.Option("--interval", min=0.0, help="Seconds between two new products, about.", show_default=False),
]


def command(
    *,
    yes: Yes = False,
    products: Products = 3,
    as_json: Json = False,
    revision: RevisionName = "auto",
    messages: Messages = True,
    store: StoreFile = None,
    interval: Interval = None,
) -> int:
    """Show sampling at work, in a minute.

    A shop's server has each new product described by your model, and you decide about every request.
    Without --yes you are asked about every request, at the terminal. No key is needed: an offline provider that only
    echoes, and says so, stands in for the model. Exit code 0 only if every product was described and stored.
    """
    host = choose_host(yes=yes, deny=False)
    if not yes and (host.reviewer is None or not host.reviewer.available):
        raise ConfigError("there is no terminal to ask you at; --yes approves without asking")
    display = Display(as_json=as_json, messages=messages)
    pace = interval if interval is not None else _QUICK if yes else _HUMAN
    with tempfile.TemporaryDirectory(prefix="antiphon-demo-") as folder:
        demo = _Demo(display, host, store or Path(folder) / "shop.db", pace)
        return run(demo.run(products, revision))


class _Demo:
    """One run."""

    def __init__(self, display: Display, host: Host, store: Path, interval: float) -> None:
        self._display = display
        self._host = host
        self._store = store
        self._interval = interval
        self._pid: int | None = None
        self._asks = 0

    async def run(self, wanted: int, revision: str) -> int:
        """Have products described; return the exit code. The last event says how many really are stored."""
        began = time.monotonic()
        done: dict[str, object] = {"stored": None, "wanted": wanted}
        try:
            await self._described(wanted, revision, done)
        except ConfigError:
            raise
        except AntiphonError as error:
            self._display.event("error", message=explain(error))
        finally:
            self._display.event("done", **done, seconds=round(time.monotonic() - began, 1))
        return 0 if done["stored"] == wanted else FAILED

    async def _described(self, wanted: int, revision: str, done: dict[str, object]) -> None:
        is_new = not self._store.exists()
        self._display.legend()
        async with self._client(wanted, revision) as client:
            self._connected(client)
            done["revision"] = client.revision
            before: set[str] = set() if is_new else {product.sku for product in await _read_shelf(client)}
            await self._call(client, wanted)
            # What counts is what the server has, not what we have answered.
            shelf = [product for product in await _read_shelf(client) if product.sku not in before]
        done["stored"] = sum(1 for product in shelf if product.description)
        self._display.shelf(shelf)

    def _client(self, wanted: int, revision: str) -> Client:
        program = [sys.executable, "-m", "antiphon.cli.demo.server"]
        return Client(
            [*program, "--store", str(self._store), "--interval", str(self._interval)],
            sampling=self.answer,
            revision=revision,
            timeout=_PATIENCE + wanted * self._interval * 2,
            log_level="info",
            on_log=self._logged,
            errlog=self._display.stderr,
            wrap=self._recorded,
        )

    def _recorded(self, channel: Channel) -> Channel:
        pid = getattr(channel, "pid", None)
        self._pid = pid if isinstance(pid, int) else None
        return Recorder(channel, self._display.message)

    def _connected(self, client: Client) -> None:
        info = client.server_info
        self._display.event(
            "connected",
            server=info.name if info else "an unnamed server",
            version=info.version if info else "",
            revision=client.revision,
            pid=self._pid,
        )

    async def _call(self, client: Client, wanted: int) -> None:
        try:
            result = await client.call_tool("describe_new_products", {"count": wanted}, progress=_ignore)
        except ConnectionClosed:
            raise
        except AntiphonError as error:
            # At 2026-07-28 a refusal gives up the whole call; what was stored before it stays stored.
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
        """Let the host answer, and show what comes of it. Nothing else is shown while a person decides."""
        self._asks += 1
        number = self._asks
        prompt = params.messages[-1].text if params.messages else ""
        self._display.event("ask", n=number, prompt=prompt, max_tokens=params.max_tokens, server=origin.target)
        try:
            with self._display.teller.held():
                result = await self._host(params, origin)
        except Rejected as error:
            reason = cast("dict[str, object]", error.data).get("reason") if isinstance(error.data, dict) else None
            self._display.event("refused", n=number, reason=reason or "user")
            raise
        self._display.event("answer", n=number, model=result.model, text=result.text)
        return result


def _ignore(progress: float, total: float | None, message: str | None) -> None:
    """Take progress, so that the server sends it: it is shown among the messages."""


async def _read_shelf(client: Client) -> list[Product]:
    contents = (await client.read_resource(_SHELF)).contents
    return msgspec.json.decode(contents[0].bytes, type=list[Product])
