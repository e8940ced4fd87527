"""Output of the demonstration: its events, as lines for a person or as JSON lines for a program.

Owns the names and the appearance of events.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from shutil import which
from typing import Any

import msgspec

from antiphon.cli.commands.demo.products import Product
from antiphon.cli.output.formats import print_json, print_list
from antiphon.cli.output.frames import LEGEND, line
from antiphon.cli.output.progress import Teller
from antiphon.transports.recording import Message

__all__ = ["Display"]

_STYLES = {
    "product": "bold cyan",
    "ask": "bold yellow",
    "answer": "bold green",
    "stored": "bold green",
    "refused": "bold red",
    "error": "bold red",
}


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
