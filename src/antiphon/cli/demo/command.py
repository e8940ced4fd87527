"""``antiphon demo``: the whole mission in one minute, on a server in a process of its own.

Owns the options and what they stand for. The run itself is ``run``.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from antiphon.cli.answering import choose_host
from antiphon.cli.demo.display import Display
from antiphon.cli.demo.run import Demo
from antiphon.cli.demo.server import MOST_PRODUCTS
from antiphon.cli.demo.store import Store
from antiphon.cli.opening import run
from antiphon.cli.options import Config, Json, Messages, ModelName, Provider, Review, RevisionName, Yes
from antiphon.errors import ConfigError

__all__ = ["command"]

_QUICK, _HUMAN = 0.2, 2.0
"""Seconds between two products: for a program, and for a person who reads along."""

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
    provider: Provider = None,
    model: ModelName = None,
    config: Config = None,
    review: Review = None,
) -> int:
    """Show sampling at work, in a minute.

    A shop's server has each new product described by your model, and you decide about every request.
    Without --yes you are asked about every request, at the terminal. No key is needed: where none is in the environment
    and no model configured, an offline provider that only echoes, and says so, stands in for the model.
    Exit code 0 only if every product was described and stored.
    """
    host = choose_host(yes=yes, deny=False, provider=provider, model=model, config=config, review=review)
    if not yes and (host.reviewer is None or not host.reviewer.available):
        raise ConfigError("there is no terminal to ask you at; --yes approves without asking")
    if store is not None:
        Store(store).close()  # a file that is none is our caller's mistake, not the server's
    display = Display(as_json=as_json, messages=messages)
    pace = interval if interval is not None else _QUICK if yes else _HUMAN
    with tempfile.TemporaryDirectory(prefix="antiphon-demo-") as folder:
        demo = Demo(display, host, store or Path(folder) / "shop.db", pace, is_kept=store is not None)
        return run(demo.run(products, revision))
