"""Write the pages of ``docs/reference`` from what the library says of itself: ``python -m tests.support.reference``.

``tests/test_docs_cli.py`` fails while a page is not what this would write.
"""

from __future__ import annotations

import ast
import contextlib
import enum
import inspect
import io
import os
import re
import textwrap
from collections.abc import Iterator
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any, cast, is_typeddict
from unittest.mock import patch

from antiphon.check.check_rules import read_rules
from antiphon.cli.main import main
from antiphon.cli.root import COMMANDS
from tests.support.public_surface import PLACES

__all__ = ["FOLDER", "PAGES"]

FOLDER = Path(__file__).parent.parent.parent / "docs" / "reference"

OPENED = {
    "Server": "antiphon.Server",
    "Options of server.tool": "antiphon.server.features.tools.ToolOptions",
    "Options of server.resource": "antiphon.server.features.resources.ResourceOptions",
    "Options of server.prompt": "antiphon.server.features.prompts.PromptOptions",
    "Options of server.asgi": "antiphon.server.serving.network.HttpOptions",
    "Options of server.run": "antiphon.server.serving.network.ServeOptions",
    "Context": "antiphon.Context",
    "Context.request": "antiphon.server.context.RequestFacts",
    "Sample": "antiphon.Sample",
    "Elicited": "antiphon.Elicited",
    "Client": "antiphon.Client",
    "PendingRound": "antiphon.PendingRound",
    "Host": "antiphon.Host",
    "Host: Policy": "antiphon.host.Policy",
    "Host: Rule": "antiphon.host.Rule",
    "Host: Limits": "antiphon.host.Limits",
    "Host: Budget": "antiphon.host.Budget",
    "Host: Cap": "antiphon.host.Cap",
    "Host: Redaction": "antiphon.host.Redaction",
    "Host: Terms": "antiphon.host.Terms",
    "Origin": "antiphon.Origin",
    "Origin.call": "antiphon.wire.origin.OriginCall",
    "Origin.round": "antiphon.wire.origin.Round",
}
"""Classes whose members are listed as well, by their headings."""

MADE_HERE = {"RequestFacts", "PendingRound", "OriginCall", "Round", "Origin"}
"""Classes that nobody but the library makes an object of: their signatures are left out."""

OWN = {"tool_wait", "describe_failure", "has", "arguments_of"}
"""Members that only the library's own handlers call."""

NEIGHBOURS = [place for place in PLACES if place not in {"antiphon", "antiphon.errors"}]
"""Public modules besides the package itself and its errors, which have sections of their own."""

CLI_WORDS = """\
`antiphon` and each of its commands, as `--help` prints it. Exit codes: 0 done, 1 failed, 2 wrong usage, 130
interrupted. With `ANTIPHON_DEBUG=1` in the environment an error is shown with its traceback."""

_BESIDE = ", ".join(f"`{place}`" for place in PLACES[1:])

API_WORDS = f"""\
Everything that can be imported: from `antiphon`, and from the modules beside it:
{_BESIDE}.
What is not on this page may change without notice. Types of messages have the members of the schema, in snake_case:
`max_tokens`, `structured_content`."""

GENERATED = "<!-- Written by `python -m tests.support.reference` out of the docstrings; change those, and run it. -->"


def cli_page() -> str:
    """Write the help of every command, and of each within it."""
    parts = ["# Command line", GENERATED, CLI_WORDS, f"```text\n{_help()}```"]
    for name in COMMANDS:
        parts += [f"## antiphon {name}", f"```text\n{_help(name)}```"]
        for part in _parts(name):
            parts += [f"### antiphon {name} {part}", f"```text\n{_help(name, part)}```"]
    return "\n\n".join(parts) + "\n"


def _parts(name: str) -> list[str]:
    """List the commands within a command, if it has any."""
    module, _, function = COMMANDS[name][0].partition(":")
    found = getattr(import_module(f"antiphon.cli.commands.{module}"), function or "commands", None)
    return [*getattr(found, "commands", ())]


def _help(*command: str) -> str:
    printed = io.StringIO()
    with patch.dict(os.environ, COLUMNS="80", TERMINAL_WIDTH="80"), contextlib.redirect_stdout(printed):
        code = main([*command, "--help"])
    if code:
        raise RuntimeError(f"antiphon {' '.join(command)} --help ended with {code}")
    return "".join(f"{line.rstrip()}\n" for line in printed.getvalue().strip("\n").splitlines())


def api_page() -> str:
    """List the public names and what their docstrings begin with."""
    package = import_module("antiphon")
    errors = import_module("antiphon.errors")
    things = [name for name in package.__all__ if name not in errors.__all__]
    parts = [
        "# Public names",
        GENERATED,
        API_WORDS,
        "## antiphon",
        _table(package, things),
        "### Errors",
        "Also in `antiphon.errors`. How they hang together is on [errors](../topics/errors.md).",
        _table(package, list(errors.__all__)),
    ]
    for heading, path in OPENED.items():
        place, _, name = path.rpartition(".")
        parts += [f"## {heading}", *_members(getattr(import_module(place), name))]
    for name in NEIGHBOURS:
        module = import_module(name)
        parts += [f"## {name}", _first_sentence(module), _table(module, module.__all__)]
    return "\n\n".join(parts) + "\n"


def _table(module: ModuleType, names: list[str]) -> str:
    rows = [f"| `{name}` | {_described(module, name)} |" for name in sorted(names, key=str.lower)]
    return "\n".join(["| name | what it is |", "|---|---|", *rows])


def _described(module: ModuleType, name: str) -> str:
    thing = getattr(module, name)
    is_made = inspect.isclass(thing) or inspect.isroutine(thing)
    said = _first_sentence(thing) if is_made else _sentence(_below(module, name)) or _members_of(thing)
    return said.replace("|", "\\|")


def _members_of(alias: Any) -> str:
    """Say what a name for several types or values stands for."""
    members = [getattr(one, "__name__", None) or repr(one) for one in getattr(alias, "__args__", ())]
    return " or ".join(f"`{member}`" for member in members) + "." if members else _first_sentence(alias)


def _below(module: ModuleType, name: str) -> str:
    """Read the docstring below the assignment of a name, in the module that this one imports it from."""
    stub = Path(f"{module.__file__}i")
    body = ast.parse(stub.read_text(encoding="utf-8") if stub.exists() else inspect.getsource(module))
    homes = [node.module for node in ast.walk(body) if isinstance(node, ast.ImportFrom) and name in _names(node)]
    if homes and homes[0] not in {None, "typing"}:
        return _below(import_module(str(homes[0])), name)
    for node, below in pairwise(body.body):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name and isinstance(below, ast.Expr):
            return ast.literal_eval(below.value)
    return ""


def _names(node: ast.ImportFrom) -> set[str]:
    return {one.name for one in node.names}


def _members(kind: type) -> Iterator[str]:
    yield _first_sentence(kind)
    if kind.__name__ not in MADE_HERE and not is_typeddict(kind):
        yield f"`{kind.__name__}{_signature(kind)}`"
    rows = [f"| `{name}` | {_sentence(text)} |" for name, text in _attributes(kind)]
    rows += [f"| `{label}` | {_first_sentence(member)} |" for label, member in _public(kind)]
    if rows:
        yield "\n".join(["| member | what it is, or does |", "|---|---|", *rows])


def _is_record(kind: type) -> bool:
    """Tell whether a class is nothing but its members, so that those without a word are listed as well."""
    return is_typeddict(kind) or hasattr(kind, "__struct_fields__")


def _attributes(kind: type) -> Iterator[tuple[str, str]]:
    """Read the docstrings that stand below the attributes of a class, in its body or in its ``__init__``.

    Of options, all are there, also those that their names explain, and those of the classes they extend.
    """
    made = cast("ast.ClassDef", ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0])
    for base in made.bases if is_typeddict(kind) else ():
        extended = getattr(import_module(kind.__module__), cast("ast.Name", base).id)
        yield from _attributes(extended) if is_typeddict(extended) else ()
    body = made.body
    makers = [node.body for node in body if isinstance(node, ast.FunctionDef) and node.name == "__init__"]
    for part in (body, *makers):
        for node, below in pairwise([*part, ast.Pass()]):
            if isinstance(node, ast.Assign | ast.AnnAssign) and (isinstance(below, ast.Expr) or _is_record(kind)):
                target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
                name = target.attr if isinstance(target, ast.Attribute) else cast("ast.Name", target).id
                if not name.startswith("_"):
                    yield name, ast.literal_eval(below.value) if isinstance(below, ast.Expr) else ""


def _public(kind: type) -> Iterator[tuple[str, object]]:
    ours = [each for each in reversed(kind.__mro__) if each.__module__.startswith("antiphon.")]
    members = {name: member for each in ours for name, member in vars(each).items()}
    for name, member in members.items():
        if name == "__call__":
            yield f"await {kind.__name__.lower()}{_signature(member)}", member
        if name.startswith("_") or name in OWN or not hasattr(kind, name):
            continue
        if isinstance(member, property):
            yield name, member
        elif isinstance(member, classmethod):
            yield f"{kind.__name__}.{name}{_signature(getattr(kind, name))}", member
        elif inspect.isroutine(member):
            awaited = "await " if inspect.iscoroutinefunction(member) else ""
            yield f"{awaited}{name}{_signature(member)}", member


def _signature(thing: Any) -> str:
    """Write names and defaults; the types are in the editor."""
    parameters: list[str] = []
    starred = False
    for name, parameter in inspect.signature(thing).parameters.items():
        if name == "self" or name.startswith("_"):
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            parameters.append("*")
            starred = True
        mark = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        default = "" if parameter.default is parameter.empty else f"={_default(parameter.default)}"
        parameters.append(f"{mark}{name}{default}")
    return f"({', '.join(parameters)})"


def _default(value: object) -> str:
    if isinstance(value, enum.Enum) or not isinstance(value, str | int | float | tuple | None):
        return "..."
    text = repr(cast("object", value))
    return text if len(text) < 30 else "..."


CHECK_WORDS = """\
What `antiphon check` looks for. A rule is an **error** only where the specification says MUST; all else is *advice*,
at times with the vendor that refuses it and the time at which that was seen. Of each rule the first ten findings are
reported."""


def check_rules_page() -> str:
    """List the rules of ``antiphon check``, by their subjects."""
    rules = read_rules().rules.values()
    parts = ["# Rules of antiphon check", GENERATED.replace("the docstrings", "its tables of rules"), CHECK_WORDS]
    for subject in dict.fromkeys(rule.id.partition(".")[0] for rule in rules):
        rows = ["| rule | what is wrong | why it matters | how to mend it |", "|---|---|---|---|"]
        for rule in rules:
            if rule.id.partition(".")[0] == subject:
                severity = f"**error**: {rule.section}" if rule.severity == "error" else "advice"
                cells = (f"`{rule.id}` ({severity})", rule.title, rule.why, rule.mend)
                rows.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
        parts += [f"## {subject}", "\n".join(rows)]
    return "\n\n".join(parts) + "\n"


def _first_sentence(thing: object) -> str:
    return _sentence(inspect.getdoc(thing) or "")


def _sentence(docstring: str) -> str:
    text = " ".join(docstring.partition("\n\n")[0].split())
    sentence = re.split(r"(?<=[.!?])\s+(?=[A-Z`])", text)[0]
    return sentence.replace("``", "`")


PAGES = {"cli.md": cli_page, "api.md": api_page, "check-rules.md": check_rules_page}
"""The pages of this folder, and who writes them."""


if __name__ == "__main__":
    for page, write in PAGES.items():
        (FOLDER / page).write_text(write(), encoding="utf-8")
