"""Arguments and options that several commands share, so that they have the same names and explanations."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

import typer
from msgspec import Struct

from antiphon import __version__
from antiphon.errors import ConfigError
from antiphon.wire.common import LoggingLevel
from antiphon.wire.revisions import REVISIONS

__all__ = [
    "Arguments",
    "Config",
    "Deny",
    "For",
    "Headers",
    "Json",
    "Messages",
    "ModelApi",
    "ModelName",
    "Provider",
    "Reach",
    "Review",
    "ReviewAt",
    "RevisionName",
    "TargetText",
    "Texts",
    "Timeout",
    "Verbose",
    "Yes",
    "root",
]

ReviewAt = Literal["terminal", "page", "queue"]
"""Where a person is asked: at this terminal, in the browser, or wherever they read the store."""

_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""A field name (RFC 9110, section 5.1)."""
_NAMES = ", ".join(one.name for one in REVISIONS)

TargetText = Annotated[
    str,
    typer.Argument(
        metavar="TARGET",
        help="A URL, a command line in quotes, a .py file (or FILE.py:NAME), or the name of a server in a "
        "configuration file.",
        show_default=False,
    ),
]
Arguments = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[KEY=VALUE]...",
        help="Arguments of the tool: key=value (read as the type that the tool wants), or key:=JSON. Or all of them "
        "as one JSON object: given here, in a file (@FILE), or on standard input (-).",
        show_default=False,
    ),
]
Texts = Annotated[
    list[str] | None,
    typer.Argument(metavar="[KEY=VALUE]...", help="Arguments of the prompt, as key=value.", show_default=False),
]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="Look up server names only in this file (mcpServers format). A file whose name ends in "
        ".toml is read as the configuration instead, and no other one is.",
        metavar="FILE",
        show_default=False,
    ),
]
Provider = Annotated[
    str | None,
    typer.Option(
        "--provider",
        metavar="NAME",
        help="Who answers when the server asks for a completion: echo (repeats the question; needs no "
        "key), manual (you type the answer), or a vendor such as openai. Default: the configured "
        "models.",
        show_default=False,
    ),
]
ModelName = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="NAME",
        help="The model that answers: its name in antiphon.toml or, with --provider, the vendor's name for it.",
        show_default=False,
    ),
]
Review = Annotated[
    ReviewAt | None,
    typer.Option(
        "--review",
        metavar="terminal|page|queue",
        help="Where you are asked: at this terminal, on a page in the browser, or by antiphon review, "
        "for which questions wait in the store.",
        show_default=False,
    ),
]
RevisionName = Annotated[
    str, typer.Option("--revision", help=f'Protocol revision: "auto", or one of {_NAMES}.', metavar="NAME")
]
Timeout = Annotated[
    float,
    typer.Option(
        "--timeout", min=0.001, help="Most seconds for one call, not counting the time that you take to answer."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON, one object on each line.")]
Headers = Annotated[
    list[str] | None,
    typer.Option(
        "--header",
        "-H",
        metavar="'NAME: VALUE'",
        help="An HTTP header to send with every request to a URL, such as 'Authorization: Bearer ...';"
        " may be repeated.",
        show_default=False,
    ),
]
For = Annotated[
    str | None,
    typer.Option(
        "--for",
        metavar="PRINCIPAL",
        help="Use the logins that antiphon gateway --http keeps for one of its clients: the client's "
        "issuer and subject, as the gateway's message names them.",
        show_default=False,
    ),
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show what the server writes to its standard error.")]
Messages = Annotated[
    bool, typer.Option("--messages/--no-messages", help="Print every message that is sent or received.")
]
ModelApi = Annotated[
    bool,
    typer.Option(
        "--model-api",
        help="For a server that calls a vendor's model itself: give it an address on this machine and "
        "a token in place of the key, so that those calls are decided here as well.",
    ),
]
Yes = Annotated[bool, typer.Option("--yes", help="Approve what the server asks without asking you.")]
Deny = Annotated[bool, typer.Option("--deny", help="Refuse everything that the server asks, without asking you.")]


class Reach(Struct, frozen=True, kw_only=True):
    """How a command connects to its server: the options that all such commands have."""

    target: str
    config: Path | None = None
    header: list[str] | None = None
    """As typed: ``NAME: VALUE``."""
    revision: str = "auto"
    timeout: float = 60.0
    verbose: bool = False
    messages: bool = False
    yes: bool = False
    deny: bool = True
    """By default asks are refused, since a list is no occasion for them; they are still declared, because lists depend
    on it."""
    provider: str | None = None
    model: str | None = None
    store: str | None = None
    review: ReviewAt | None = None
    model_api: bool = False
    roots: list[str] = []
    log_level: LoggingLevel | None = None

    @property
    def headers(self) -> dict[str, str] | None:
        """The headers for an address; ``None`` for none.

        Raises:
            ConfigError: one is not written as a header.
        """
        found: dict[str, str] = {}
        for text in self.header or ():
            name, colon, value = text.partition(":")
            if not colon or not _HEADER.fullmatch(name.strip()) or "\n" in value or "\r" in value:
                # The value is not repeated, because it may be a token.
                raise ConfigError("--header is written 'NAME: VALUE', such as 'Authorization: Bearer ...'")
            found[name.strip()] = value.strip()
        return found or None


def root(
    *,
    version: Annotated[bool, typer.Option("--version", "-V", help="Show the version and exit.", is_eager=True)] = False,
) -> None:
    """Speak the Model Context Protocol: serve, call, inspect, and answer what servers ask."""
    if version:
        print(f"antiphon {__version__}")
        raise typer.Exit
