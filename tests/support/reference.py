"""Write the pages of ``docs/reference`` from what the library says of itself: ``python -m tests.support.reference``.

``tests/test_docs_cli.py`` fails while a page is not what this would write.
"""

from __future__ import annotations

import contextlib
import enum
import inspect
import io
import os
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, cast
from unittest.mock import patch

from typer.main import get_group

from antiphon.cli.main import COMMANDS, main

__all__ = ["FOLDER", "PAGES"]

FOLDER = Path(__file__).parent.parent.parent / "docs" / "reference"

OPENED = ("Server", "Context", "Sample", "Elicited", "Client", "Host")
"""Classes whose members are listed as well."""

OWN = {"tool_wait", "describe_failure", "has", "arguments_of"}
"""Members that only the library's own handlers call."""

NEIGHBOURS = ("antiphon.host", "antiphon.testing")
"""Public modules besides the package itself."""

CLI_WORDS = """\
`antiphon` and each of its commands, as `--help` prints it. Exit codes: 0 done, 1 failed, 2 wrong usage, 130
interrupted. With `ANTIPHON_DEBUG=1` in the environment an error is shown with its traceback."""

API_WORDS = """\
Everything that `import antiphon` offers, and two modules beside it. What is not on this page may change without
notice. Types of messages have the members of the schema, in snake_case."""

GENERATED = "<!-- Written by `python -m tests.support.reference` out of the docstrings; change those, and run it. -->"


def cli_page() -> str:
    """Write the help of every command, and of each within it."""
    parts = [
        "# Command line",
        GENERATED,
        CLI_WORDS,
        f"```text\n{_help()}```",
    ]
    for name in COMMANDS:
        parts += [f"## antiphon {name}", f"```text\n{_help(name)}```"]
        for part in _parts(name):
            parts += [f"### antiphon {name} {part}", f"```text\n{_help(name, part)}```"]
    return "\n\n".join(parts) + "\n"


def _parts(name: str) -> list[str]:
    """List the commands within a command, if it has any."""
    group = getattr(import_module(f"antiphon.cli.{COMMANDS[name]}"), "commands", None)
    return [] if group is None else [*get_group(group).commands]


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
        "How they hang together is on [errors](../topics/errors.md).",
        _table(package, list(errors.__all__)),
    ]
    for name in OPENED:
        parts += [f"## {name}", *_members(getattr(package, name))]
    for name in NEIGHBOURS:
        module = import_module(name)
        parts += [f"## {name}", _first_sentence(module), _table(module, module.__all__)]
    return "\n\n".join(parts) + "\n"


def _table(module: ModuleType, names: list[str]) -> str:
    rows = [f"| `{name}` | {_described(getattr(module, name))} |" for name in sorted(names, key=str.lower)]
    return "\n".join(["| name | what it is |", "|---|---|", *rows])


def _described(thing: Any) -> str:
    if not (inspect.isclass(thing) or inspect.isroutine(thing)):
        members = getattr(thing, "__args__", ())
        return " or ".join(f"`{member.__name__}`" for member in members) + "."
    return _first_sentence(thing).replace("|", "\\|")


def _members(kind: type) -> Iterator[str]:
    yield _first_sentence(kind)
    yield f"`{kind.__name__}{_signature(kind)}`"
    rows = [f"| `{label}` | {_first_sentence(member)} |" for label, member in _public(kind)]
    if rows:
        yield "\n".join(["| member | what it does |", "|---|---|", *rows])


def _public(kind: type) -> Iterator[tuple[str, object]]:
    ours = [each for each in reversed(kind.__mro__) if each.__module__.startswith("antiphon.")]
    members = {name: member for each in ours for name, member in vars(each).items()}
    for name, member in members.items():
        if name == "__call__":
            yield f"await {kind.__name__.lower()}{_signature(member)}", member
        if name.startswith("_") or name in OWN:
            continue
        if isinstance(member, property):
            yield name, member
        elif inspect.isroutine(member):
            awaited = "await " if inspect.iscoroutinefunction(member) else ""
            yield f"{awaited}{name}{_signature(member)}", member


def _signature(thing: Any) -> str:
    """Write names and defaults; the types are in the editor."""
    parameters: list[str] = []
    starred = False
    for name, parameter in inspect.signature(thing).parameters.items():
        if name == "self":
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


def _first_sentence(thing: object) -> str:
    text = " ".join((inspect.getdoc(thing) or "").partition("\n\n")[0].split())
    sentence = re.split(r"(?<=[.!?])\s+(?=[A-Z`])", text)[0]
    return sentence.replace("``", "`")


PAGES = {"cli.md": cli_page, "api.md": api_page}
"""The pages of this folder, and who writes them."""


if __name__ == "__main__":
    for page, write in PAGES.items():
        (FOLDER / page).write_text(write(), encoding="utf-8")
