"""What the demonstration shows: its events, as lines for a person or as lines of JSON for a program.

Owns the names of the events and how each looks. What happens, and when, is ``command``'s.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from shutil import which
from typing import Any

import msgspec

from antiphon.cli.commands.demo.store import Product
from antiphon.cli.frames import LEGEND, line
from antiphon.cli.output import print_json, print_list
from antiphon.cli.progress import Teller
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
    """Shows events. ``messages``: whether every message that travels is one."""

    def __init__(self, *, as_json: bool, messages: bool) -> None:
        self.teller = Teller(sys.stdout)
        self._as_json = as_json
        self._messages = messages

    def event(self, event: str, **facts: Any) -> None:
        """Show that something has happened."""
        if self._as_json:
            print_json({"event": event, **facts})
        elif event in _LINES and (event != "done" or facts["stored"] is not None):
            facts = {name: f"{fact:.2f}" if isinstance(fact, float) else fact for name, fact in facts.items()}
            self.teller.say(_LINES[event].format_map(_Facts(facts)), _STYLES.get(event, "bold"))

    def message(self, message: Message) -> None:
        """Show a message that travels."""
        if self._messages and self._as_json:
            print_json({"event": "message", **msgspec.to_builtins(message)})
        elif self._messages:
            self.teller.say(line(message), "red" if message.kind == "error" else "dim")

    def summary(self, *, calls: int, asks: int, answered: int, refused: int, cost: str, record: str) -> None:
        """Show what happened in all; ``record`` says where it is kept."""
        facts = {"calls": calls, "asks": asks, "answered": answered, "refused": refused, "cost": cost, "record": record}
        self.event("summary", **facts)

    def legend(self) -> None:
        """Say what the arrows mean."""
        if self._messages and not self._as_json:
            self.teller.say(LEGEND, "dim")

    def hint(self, *, is_paged: bool) -> None:
        """Say how to go on from here."""
        if self._as_json:
            return
        if is_paged:
            self.teller.say("History and spending stay on the page until Ctrl-C.", "bold")
        else:
            self.teller.say(f"Decide yourself, in the browser: {_program()} demo --web", "bold")

    def shelf(self, products: Sequence[Product]) -> None:
        """Show what is stored, as a table."""
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
    """Name this program so that what is printed can be typed."""
    started = sys.argv[0]
    return started if Path(started).name == "antiphon" and which("antiphon") != started else "antiphon"


class _Facts(dict[str, Any]):
    """Facts of an event, of which a line may lack some: a server may say what it likes."""

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
