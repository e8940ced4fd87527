"""Arguments and options that several commands share, so that they have the same names and explanations.

Those that belong together are one option set: a struct that a command takes as one parameter.
"""

from __future__ import annotations

import getpass
import re
from pathlib import Path
from typing import Annotated, Literal

import click
from msgspec import Struct

from antiphon.cli.config_files import list_names
from antiphon.cli.signatures import Argument, CommandOption
from antiphon.errors import ConfigError
from antiphon.wire.revisions import REVISIONS

__all__ = [
    "AnswerOptions",
    "Arguments",
    "By",
    "Config",
    "ConfigFile",
    "For",
    "Json",
    "Messages",
    "ModelName",
    "PageAnswers",
    "Provider",
    "Reach",
    "Review",
    "ReviewAt",
    "RevisionName",
    "StorePlace",
    "TargetText",
    "Texts",
    "Yes",
    "complete_server",
    "user_name",
]

ReviewAt = Literal["terminal", "page", "queue"]
"""Where a person is asked: at this terminal, in the browser, or wherever they read the store."""

_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""A field name (RFC 9110, section 5.1)."""
_PLAIN = re.compile(r"[\w.@+/-]+")
_NAMES = ", ".join(one.name for one in REVISIONS)


def complete_server(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """List the configured servers whose names begin like this, for a shell; its own signs are left out."""
    config: Path | tuple[Path, ...] | None = context.params.get("config")
    files = config if isinstance(config, tuple) else (config,)
    names = dict.fromkeys(name for file in files or (None,) for name in list_names(file))
    return [name for name in names if name.startswith(incomplete) and _PLAIN.fullmatch(name)]


TargetText = Annotated[
    str,
    Argument(
        metavar="TARGET",
        help="A URL, a command line in quotes, a .py file (or FILE.py:NAME), or the name of a server in a "
        "configuration file.",
        complete=complete_server,
    ),
]
Arguments = Annotated[
    list[str] | None,
    Argument(
        metavar="[KEY=VALUE]...",
        help="Arguments of the tool: key=value (read as the type that the tool wants), or key:=JSON. Or all of them "
        "as one JSON object: given here, in a file (@FILE), or on standard input (-).",
    ),
]
Texts = Annotated[list[str] | None, Argument(metavar="[KEY=VALUE]...", help="Arguments of the prompt, as key=value.")]
Config = Annotated[
    Path | None,
    CommandOption(
        "--config",
        help="Look up server names only in this file (mcpServers format). A file whose name ends in "
        ".toml is read as the configuration instead, and no other one is.",
        metavar="FILE",
    ),
]
Provider = Annotated[
    str | None,
    CommandOption(
        "--provider",
        metavar="NAME",
        help="Who answers when the server asks for a completion: echo (repeats the question; needs no "
        "key), manual (you type the answer), or a vendor such as openai. Default: the configured "
        "models.",
    ),
]
ModelName = Annotated[
    str | None,
    CommandOption(
        "--model",
        metavar="NAME",
        help="The model that answers: its name in antiphon.toml or, with --provider, the vendor's name for it.",
    ),
]
Review = Annotated[
    ReviewAt | None,
    CommandOption(
        "--review",
        metavar="terminal|page|queue",
        help="Where you are asked: at this terminal, on a page in the browser, or by antiphon review, "
        "for which questions wait in the store.",
    ),
]
StorePlace = Annotated[
    str | None,
    CommandOption(
        "--store", metavar="URL|PATH", help="The store: a file, or postgresql://... By default the configured one."
    ),
]
ConfigFile = Annotated[
    Path | None, CommandOption("--config", metavar="FILE.toml", help="Read this configuration file only.")
]
RevisionName = Annotated[
    str, CommandOption("--revision", help=f'Protocol revision: "auto", or one of {_NAMES}.', metavar="NAME")
]
Json = Annotated[bool, CommandOption("--json", help="Print the result as JSON, one object on each line.")]
For = Annotated[
    str | None,
    CommandOption(
        "--for",
        metavar="PRINCIPAL",
        help="Use the logins that antiphon gateway --http keeps for one of its clients: the client's "
        "issuer and subject, as the gateway's message names them.",
    ),
]
Messages = Annotated[
    bool, CommandOption("--messages/--no-messages", help="Print every message that is sent or received.")
]
ModelApi = Annotated[
    bool,
    CommandOption(
        "--model-api",
        help="For a server that calls a vendor's model itself: give it an address on this machine and "
        "a token in place of the key, so that those calls are decided here as well.",
    ),
]
Yes = Annotated[bool, CommandOption("--yes", help="Approve what the server asks without asking you.")]
By = Annotated[
    str | None,
    CommandOption(
        "--by", metavar="NAME", help="Name of the person who decides, for the audit. Default: your user name."
    ),
]


class Reach(Struct, frozen=True, kw_only=True):
    """How a command connects to its server: the options that all such commands have."""

    config: Config = None
    header: Annotated[
        list[str] | None,
        CommandOption(
            "--header",
            "-H",
            metavar="'NAME: VALUE'",
            help="An HTTP header to send with every request to a URL, such as 'Authorization: Bearer ...';"
            " may be repeated.",
        ),
    ] = None
    """As typed: ``NAME: VALUE``."""
    revision: RevisionName = "auto"
    timeout: Annotated[
        float,
        CommandOption(
            "--timeout",
            metavar="SECONDS",
            min=0.001,
            help="Most seconds for one call, not counting the time that you take to answer.",
        ),
    ] = 60.0
    messages: Messages = False
    verbose: Annotated[
        bool, CommandOption("--verbose", "-v", help="Show what the server writes to its standard error.")
    ] = False

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


class AnswerOptions(Struct, frozen=True, kw_only=True):
    """Who answers what a server asks: the options of the commands during which it may ask."""

    yes: Yes = False
    deny: Annotated[
        bool, CommandOption("--deny", help="Refuse everything that the server asks, without asking you.")
    ] = False
    provider: Provider = None
    model: ModelName = None
    store: StorePlace = None
    review: Review = None


class PageAnswers(AnswerOptions, frozen=True, kw_only=True):
    """The same for a command whose terminal is somebody else's: by default a person is asked on the page."""

    review: Annotated[
        ReviewAt,
        CommandOption(
            "--review",
            metavar="page|queue|terminal",
            help="Ask on a page in the browser, leave questions in the store for antiphon review, or ask at this "
            "terminal (the gateway only with --http, --sse or --ws).",
        ),
    ] = "page"


def user_name() -> str | None:
    """Return the name of this user, the default of ``By``; ``None`` in a container whose user has no name."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return None
