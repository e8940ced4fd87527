"""``antiphon review screen``: the review on a whole terminal.

Owns the options, and the messages if it cannot be shown. Textual is imported only when it is shown.
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from typing import Annotated, Literal

import typer

from antiphon.cli.failures import Failed
from antiphon.cli.open_client import run
from antiphon.cli.options import By, option_sets, user_name
from antiphon.cli.store import StoreOptions, opened_store
from antiphon.errors import ConfigError

__all__ = ["screen"]

Language = Annotated[
    Literal["en", "zh"] | None,
    typer.Option("--language", help="English or 简体中文; by default that of your terminal.", show_default=False),
]
NoBell = Annotated[bool, typer.Option("--no-bell", help="Stay silent when something arrives.")]


@option_sets
def screen(
    *,
    language: Language = None,
    no_bell: NoBell = False,
    by: By = None,
    where: StoreOptions,
) -> int:
    """Review on the whole terminal, live, by single keys.

    ? lists the keys. It shows what the page in the browser shows. q leaves; whatever waits goes on waiting.
    """
    check_terminal()
    check_installed()
    return run(_shown(language, by or user_name() or "terminal", where, bell=not no_bell))


async def _shown(language: str | None, by: str, where: StoreOptions, *, bell: bool) -> None:
    from antiphon.cli.screen.program import ReviewApp
    from antiphon.cli.screen.stage import Setting
    from antiphon.host.review.texts import terminal_language

    async with opened_store(where, make=True) as opened:
        settings = where.settings
        setting = Setting(
            store=opened,
            by=by,
            language=terminal_language(language),
            bell=bell,
            undo=settings.review.undo,
            known=settings.server_names,
        )
        app = ReviewApp(setting)
        await app.run_async()
        if app.failure is not None:
            raise app.failure


def check_terminal() -> None:
    """Refuse to draw without a suitable terminal.

    Raises:
        ConfigError: standard input, output or error is no terminal, or one that cannot move its cursor.
    """
    # Textual reads from standard input, and draws on standard error.
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        raise ConfigError("the screen needs a terminal to be shown on; antiphon review list writes into a pipe")
    if os.environ.get("TERM") in ("", "dumb"):
        raise ConfigError(f"a terminal of type {os.environ['TERM']!r} cannot show the screen: antiphon review list")


def check_installed() -> None:
    """Check that the packages are installed.

    Raises:
        Failed: Textual, or a package of the page, is missing.
    """
    missing = [name for name in ("textual", "starlette", "jinja2") if find_spec(name) is None]
    if missing:
        raise Failed(f"the screen needs {' and '.join(missing)}: pip install 'antiphon[host]'")
