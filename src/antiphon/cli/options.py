"""Commands of typed functions: each parameter is an argument or an option; and those that several commands share.

Its type and default are those of the Python parameter. How it is typed and its help stand in the docstring of the
function, below ``Usage:``, in a line such as::

    --limit, -n N: How many of the latest records.

Parameters that several commands share are annotated with this line. An annotation may also contain a type of click, and
a function that completes words. Several options that belong together are one parameter: a struct whose members are
described in the same way, an option set.
"""

from __future__ import annotations

import asyncio
import getpass
import inspect
import math
import re
from collections.abc import Callable
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

import click
import msgspec
from click.shell_completion import CompletionItem
from msgspec import Struct, structs

from antiphon.cli.config_files import list_names
from antiphon.cli.output.formats import is_interactive
from antiphon.errors import ConfigError
from antiphon.wire.revisions import REVISIONS

INTERRUPTED = 130
"""The exit code that shells expect after Ctrl-C: 128 and the number of the signal."""
_OPTION = re.compile(r"(?P<names>-[^ ,:]+(?:, -[^ ,:]+)*)(?: (?P<metavar>'.*?'|[^ :]\S*?))?(?:: (?P<help>.*))?")


class ClickCommand(click.Command):
    """The command that a function or a coroutine function carries out; its docstring is the help."""

    def __init__(self, name: str | None, callback: Callable[..., Any], **_settings: object) -> None:
        self._function = callback
        self._sets: dict[str, Any] = {}
        self._arguments: list[tuple[str, str]] = []
        usage, params = _Usage(callback), list[click.Parameter]()
        for each, one in inspect.signature(callback, eval_str=True).parameters.items():
            if hasattr(one.annotation, "__struct_fields__"):
                self._sets[each] = one.annotation
                said = _Usage(*reversed(one.annotation.__mro__))
                params += [
                    said.make_option(each.name, each.type, each.default) for each in structs.fields(one.annotation)
                ]
            elif one.kind is one.KEYWORD_ONLY:
                params.append(usage.make_option(each, one.annotation, one.default))
            else:
                params.append(usage.make_argument(each, one.annotation, one.default, self._arguments))
        super().__init__(name, callback=self._call, params=params, help=usage.text)

    def _call(self, **given: Any) -> int | None:
        if any(isinstance(one, float) and math.isnan(one) for one in given.values()):
            # Neither below nor above any bound: click lets it pass, and a deadline of it never comes.
            raise click.UsageError("'nan' is not a number.")
        # What may be repeated is a list, or None if it was not given.
        values: dict[str, Any] = {
            name: [*cast("tuple[Any, ...]", one)] or None if isinstance(one, tuple) else one
            for name, one in given.items()
        }
        for name, kind in self._sets.items():
            values[name] = kind(**{each: values.pop(each) for each in kind.__struct_fields__})
        result = self._function(**values)
        try:
            return asyncio.run(result) if inspect.iscoroutine(result) else result
        except KeyboardInterrupt:
            # Caught here, because click would print an empty line.
            return INTERRUPTED

    def get_short_help_str(self, limit: int = 0) -> str:
        """Return the first sentence of the help, whole."""
        return super().get_short_help_str(max(limit, 1000))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Explain the arguments before the options."""
        if self._arguments:
            with formatter.section("Arguments"):
                formatter.write_dl(self._arguments)
        super().format_options(ctx, formatter)


class _Usage:
    """How the parameters of a function, or the members of option sets, are typed."""

    def __init__(self, *sources: object) -> None:
        """Read the docstrings of the sources; a later one may describe a parameter anew."""
        self.text, lines = "", list[str]()
        for source in sources:
            self.text, _, said = inspect.cleandoc(source.__doc__ or "").partition("\n\nUsage:\n")
            lines += [" ".join(line.split()) for line in re.split(r"^ {4}(?=\S)", said, flags=re.MULTILINE) if line]
        self._options = {re.split(r"[:,/ ]", line)[0]: line for line in lines if line.startswith("--")}
        self._arguments = iter([line for line in lines if not line.startswith("--")])

    def make_option(self, name: str, annotation: Any, default: Any) -> click.Option:
        usual = f"--{name.replace('_', '-')}"
        kind, line, settings = _read_annotation(annotation, default)
        found = _OPTION.fullmatch(line or self._options.get(usual, usual))
        assert found is not None
        settings |= {"is_flag": True} if kind is bool else {"multiple": settings.pop("nargs", 1) < 0}
        if (found["metavar"] or "").startswith("["):
            # The option may be given without a value.
            settings |= {"is_flag": False, "flag_value": ""}
        return click.Option(
            [*found["names"].split(", "), name],
            metavar=found["metavar"],
            help=found["help"],
            show_default=True,
            **settings,
        )

    def make_argument(
        self, name: str, annotation: Any, default: Any, explained: list[tuple[str, str]]
    ) -> click.Argument:
        """Make the argument of a parameter, and append how the help names and explains it."""
        _, line, settings = _read_annotation(annotation, default)
        metavar, _, text = (line or next(self._arguments, name.upper())).partition(": ")
        explained.append((metavar, text))
        return click.Argument([name], metavar=metavar, required="default" not in settings, **settings)


def _read_annotation(annotation: Any, default: Any) -> tuple[Any, str | None, dict[str, Any]]:
    """Return the type of a value, how the parameter is typed if the annotation says it, and the settings for click."""
    kind, *marks = get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)
    if get_origin(kind) in (Union, UnionType):
        [kind] = [one for one in get_args(kind) if one is not NoneType]
    settings: dict[str, Any] = {} if default is inspect.Parameter.empty else {"default": default}
    if get_origin(kind) is list:
        [kind], settings["nargs"] = get_args(kind), -1
    line, completes = None, None
    type_: Any = click.Path(path_type=Path) if kind is Path else kind
    if get_origin(kind) is Literal:
        type_ = click.Choice(get_args(kind))
    for mark in marks:
        if isinstance(mark, str):
            line = mark
        elif inspect.isfunction(mark):
            completes = mark
        else:
            type_ = mark
    settings |= {"type": type_, "shell_complete": completes}
    return kind, line, settings


class TomlFile(click.Path):
    """A configuration file. One of another name would be taken for a list of servers, and say nothing here."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the path; an error of usage for one that does not end in ``.toml``."""
        path = cast("Path", super().convert(value, param, ctx))
        if path.is_file() and path.suffix != ".toml":
            self.fail(f"{str(path)!r} does not end in .toml, so its settings would not apply.", param, ctx)
        return path


class CommandGroup(click.Group):
    """A command with subcommands; if none is named, the one called ``usual`` runs, with its options."""

    command_class = ClickCommand

    def __init__(self, *args: Any, usual: str = "list", **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.usual = usual

    def choose_usual(self, args: list[str]) -> list[str]:
        """Return the arguments with the subcommand that runs if none is named."""
        return [self.usual, *args]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert the usual subcommand if none is named."""
        # While a shell completes the line, the person is about to name a subcommand.
        unnamed = not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names)
        return super().parse_args(ctx, self.choose_usual(args) if unnamed and not ctx.resilient_parsing else args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the subcommands, in the order of the source."""
        return list(self.commands)

    def get_short_help_str(self, limit: int = 0) -> str:
        """Return the first sentence of the help, whole."""
        return super().get_short_help_str(max(limit, 1000))


class ReviewGroup(CommandGroup):
    """A group that asks the person at the terminal, else lists; or opens the review page."""

    def choose_usual(self, args: list[str]) -> list[str]:
        """Insert ``queue`` where a person can be asked, unless there is an option of ``list``; ``web`` for --web."""
        if "--web" in args:
            return ["web", *(word for word in args if word != "--web")]
        return ["queue" if is_interactive() and not {"--json", "--watch", "-w"} & {*args} else self.usual, *args]


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


_TEXTS = msgspec.toml.decode(Path(__file__).with_name("shared_options.toml").read_bytes(), type=dict[str, str])
"""How parameters that several commands share are typed, and their help."""
TargetText = Annotated[str, _TEXTS["target_text"], complete_server]
Config = Annotated[Path | None, _TEXTS["config"]]
Provider = Annotated[str | None, _TEXTS["provider"]]
ModelName = Annotated[str | None, _TEXTS["model_name"]]
Review = Annotated[ReviewAt | None, _TEXTS["review"]]
StorePlace = Annotated[str | None, _TEXTS["store_place"]]
ConfigFile = Annotated[Path | None, _TEXTS["config_file"], TomlFile(path_type=Path)]
RevisionName = Annotated[str, _TEXTS["revision_name"].format(names=_NAMES)]
Json = Annotated[bool, _TEXTS["json"]]
For = Annotated[str | None, _TEXTS["for"]]
Messages = Annotated[bool, _TEXTS["messages"]]
ModelApi = Annotated[bool, _TEXTS["model_api"]]
Yes = Annotated[bool, _TEXTS["yes"]]
By = Annotated[str | None, _TEXTS["by"]]
Port = Annotated[int, _TEXTS["port"], click.IntRange(0, 65535)]
Browse = Annotated[bool, _TEXTS["browse"]]


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
