"""Arguments and options that several commands share, so that they have the same names and explanations.

Those that belong together are one option set: a struct that a command takes as one parameter.
"""

from __future__ import annotations

import getpass
import re
from pathlib import Path
from typing import Annotated, Literal

import click
from click.shell_completion import CompletionItem
from msgspec import Struct

from antiphon.cli.config_files import list_names
from antiphon.errors import ConfigError
from antiphon.wire.revisions import REVISIONS

ReviewAt = Literal["terminal", "page", "queue"]
"""Where a person is asked: at this terminal, in the browser, or wherever they read the store."""

_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""A field name (RFC 9110, section 5.1)."""
_PLAIN = re.compile(r"[\w.@+/-]+")
_NAMES = ", ".join(one.name for one in REVISIONS)


def complete_server(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """List the configured servers whose names begin like this, or else have the shell complete the name of a file.

    Names with signs of the shell are left out.
    """
    config: Path | tuple[Path, ...] | None = context.params.get("config")
    files = config if isinstance(config, tuple) else (config,)
    names = dict.fromkeys(name for file in files or (None,) for name in list_names(file))
    fitting = [name for name in names if name.startswith(incomplete) and _PLAIN.fullmatch(name)]
    return [*map(CompletionItem, fitting)] or [CompletionItem(incomplete, type="file")]


TargetText = Annotated[
    str,
    "TARGET: A URL, a command line in quotes, a .py file (or FILE.py:NAME), or the name of a server in a "
    "configuration file.",
    complete_server,
]
Config = Annotated[
    Path | None,
    "--config FILE: Look up server names only in this file (mcpServers format). A file whose name ends in .toml "
    "is read as the configuration instead, and no other one is.",
]
Provider = Annotated[
    str | None,
    "--provider NAME: Who answers when the server asks for a completion: echo (repeats the question; needs no "
    "key), manual (you type the answer), or a vendor such as openai. Default: the configured models.",
]
ModelName = Annotated[
    str | None,
    "--model NAME: The model that answers: its name in antiphon.toml or, with --provider, the vendor's name for it.",
]
Review = Annotated[
    ReviewAt | None,
    "--review terminal|page|queue: Where you are asked: at this terminal, on a page in the browser, or by "
    "antiphon review, for which questions wait in the store.",
]
StorePlace = Annotated[
    str | None, "--store URL|PATH: The store: a file, or postgresql://... By default the configured one."
]
ConfigFile = Annotated[Path | None, "--config FILE.toml: Read this configuration file only."]
RevisionName = Annotated[str, f'--revision NAME: Protocol revision: "auto", or one of {_NAMES}.']
Json = Annotated[bool, "--json: Print the result as JSON, one object on each line."]
For = Annotated[
    str | None,
    "--for PRINCIPAL: Use the logins that antiphon gateway --http keeps for one of its clients: the client's "
    "issuer and subject, as the gateway's message names them.",
]
Messages = Annotated[bool, "--messages/--no-messages: Print every message that is sent or received."]
ModelApi = Annotated[
    bool,
    "--model-api: For a server that calls a vendor's model itself: give it an address on this machine and a token"
    " in place of the key, so that those calls are decided here as well.",
]
Yes = Annotated[bool, "--yes: Approve what the server asks without asking you."]
By = Annotated[str | None, "--by NAME: Name of the person who decides, for the audit. Default: your user name."]
Port = Annotated[int, "--port N: Port of the page; 0 is any that is free.", click.IntRange(0, 65535)]
Browse = Annotated[bool, "--open/--no-open: Open a browser, where there is one."]


class Reach(Struct, frozen=True, kw_only=True):
    """How a command connects to its server: the options that all such commands have.

    Usage:
        --header, -H 'NAME: VALUE': An HTTP header to send with every request to a URL, such as 'Authorization: Bearer
            ...'; may be repeated.
        --timeout SECONDS: Most seconds for one call, not counting the time that you take to answer.
        --verbose, -v: Show what the server writes to its standard error.
    """

    config: Config = None
    header: list[str] | None = None
    """As typed: ``NAME: VALUE``."""
    revision: RevisionName = "auto"
    timeout: Annotated[float, click.FloatRange(0.001)] = 60.0
    messages: Messages = False
    verbose: bool = False

    @property
    def headers(self) -> dict[str, str] | None:
        """The headers for an address; ``None`` for none."""
        found: dict[str, str] = {}
        for text in self.header or ():
            name, colon, value = text.partition(":")
            if not colon or not _HEADER.fullmatch(name.strip()) or "\n" in value or "\r" in value:
                # The value is not repeated, because it may be a token.
                raise ConfigError("--header is written 'NAME: VALUE', such as 'Authorization: Bearer ...'")
            found[name.strip()] = value.strip()
        return found or None


class AnswerOptions(Struct, frozen=True, kw_only=True):
    """Who answers what a server asks: the options of the commands during which it may ask.

    Usage:
        --deny: Refuse everything that the server asks, without asking you.
    """

    yes: Yes = False
    deny: bool = False
    provider: Provider = None
    model: ModelName = None
    store: StorePlace = None
    review: Review = None


class PageAnswers(AnswerOptions, frozen=True, kw_only=True):
    """Who answers, for a command whose terminal another program uses: by default a person is asked on the page.

    Usage:
        --review page|queue|terminal: Ask on a page in the browser, leave questions in the store for antiphon review, or
            ask at this terminal (the gateway only with --http, --sse or --ws).
    """

    review: ReviewAt = "page"


def user_name() -> str | None:
    """Return the name of this user, the default of ``By``; ``None`` in a container whose user has no name."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return None
