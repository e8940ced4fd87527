"""``antiphon`` itself: the table of commands as a group of click, of which only the command that is used is loaded.

Owns completion, too. The scripts for shells are click's: its one for bash needs bash 4.4.
"""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import msgspec
from click.shell_completion import get_completion_class, shell_complete

from antiphon import __version__
from antiphon.errors import ConfigError
from antiphon.machine.other_frameworks import ELSEWHERE

COMMANDS = msgspec.toml.decode(Path(__file__).with_name("commands.toml").read_bytes(), type=dict[str, tuple[str, str]])
"""The module of each command and the first sentence of its help, in the order of the help."""
_exempt_loaded = cache(gc.freeze)
VARIABLE = "_ANTIPHON_COMPLETE"
"""The environment variable by which a shell's script asks for words: ``bash_complete``."""


def _print_script(root: click.Command) -> None:
    """Print the script for the shell that has started this process, where that can be read, else for the user's."""
    shell = Path(os.environ.get("SHELL", "powershell" if os.name == "nt" else "")).name
    with suppress(OSError):
        parent = Path(f"/proc/{os.getppid()}/comm").read_text(encoding="utf-8").strip()
        shell = shell if get_completion_class(parent) is None else parent
    kind = get_completion_class(shell)
    if kind is None:
        raise ConfigError(f"{shell or 'this shell'}: there is completion for bash, fish, zsh only")
    print(kind(root, {}, "antiphon", VARIABLE).source(), end="")


class _Unloaded(click.Command):
    """A command whose module is imported only when the command is used."""

    def __init__(self, name: str, module: str, help: str) -> None:
        super().__init__(name, short_help=help)
        self._module, _, self._function = f"antiphon.cli.commands.{module}".partition(":")

    def make_context(self, *args: Any, **settings: Any) -> click.Context:
        from antiphon.cli.options import ClickCommand

        module = import_module(self._module)
        _exempt_loaded()  # what is loaded stays: searching it for garbage takes a fifth of a short command's time
        found = getattr(module, self._function or ("commands" if hasattr(module, "commands") else "command"))
        command = found if isinstance(found, click.Command) else ClickCommand(self.name, found)
        return command.make_context(*args, **settings)


class _Root(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


def run_command(arguments: Sequence[str]) -> int:
    """Run the command that the arguments name, or complete a line for a shell, and return the exit code."""
    root = _Root(
        help="Speak the Model Context Protocol: serve, call, inspect, and answer what servers ask.",
        commands={name: _Unloaded(name, *row) for name, row in COMMANDS.items()},
        params=[
            _make_flag(
                "-V",
                "--version",
                help="Show the version and exit; with --json, all that a bug report needs.",
                act=lambda _: print(f"antiphon {__version__}"),
            ),
            _make_flag(
                "--show-completion",
                help="Print what completes this command in your shell, to append to the file that it starts with.",
                act=_print_script,
            ),
        ],
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    try:
        if instruction := os.environ.get(VARIABLE):
            return shell_complete(root, {}, "antiphon", VARIABLE, instruction)
        return root.main(arguments, prog_name="antiphon", standalone_mode=False) or 0
    except click.ClickException as error:
        error.show()
        words = re.findall(r"[\w-]+", error.message) if error.message.startswith("No such") else []
        for remedy in (ELSEWHERE["commands"][word] for word in words if word in ELSEWHERE["commands"]):
            print(f"Here: {remedy}", file=sys.stderr)
        return error.exit_code
    except click.Abort:
        raise KeyboardInterrupt from None


def _make_flag(*names: str, help: str, act: Callable[[click.Command], None]) -> click.Option:
    """Make an option that does one thing and ends the program."""

    def callback(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
        if value and not context.resilient_parsing:
            act(context.command)
            context.exit()

    return click.Option(names, help=help, is_flag=True, is_eager=True, expose_value=False, callback=callback)
