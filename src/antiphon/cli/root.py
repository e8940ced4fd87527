"""``antiphon`` itself: the table of commands as a group of click, of which only the command that is used is loaded."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import click
from click.shell_completion import shell_complete

from antiphon import __version__


class _Unloaded(click.Command):
    """A command whose module is imported only when the command is used."""

    def __init__(self, name: str, module: str, help: str) -> None:
        super().__init__(name, short_help=help)
        self._module, _, self._function = f"antiphon.cli.commands.{module}".partition(":")

    def make_context(self, *args: Any, **settings: Any) -> click.Context:
        from antiphon.cli.signatures import ClickCommand

        module = import_module(self._module)
        command: click.Command = getattr(module, "commands", None) or ClickCommand(
            self.name, getattr(module, self._function or "command")
        )
        return command.make_context(*args, **settings)


class _Root(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


def run_command(table: Mapping[str, tuple[str, str]], arguments: Sequence[str]) -> int:
    """Run the command that the arguments name, or complete a line for a shell, and return the exit code."""
    root = _Root(
        help="Speak the Model Context Protocol: serve, call, inspect, and answer what servers ask.",
        commands={name: _Unloaded(name, *row) for name, row in table.items()},
        params=[
            _make_flag(
                "-V",
                "--version",
                help="Show the version and exit; with --json, all that a bug report needs.",
                act=_print_version,
            ),
            _make_flag(
                "--install-completion", help="Install completion for the current shell.", act=_install_completion
            ),
            _make_flag(
                "--show-completion",
                help="Show completion for the current shell, to copy it or customize the installation.",
                act=_show_completion,
            ),
        ],
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    try:
        if instruction := os.environ.get("_ANTIPHON_COMPLETE"):
            return shell_complete(root, {}, "antiphon", "_ANTIPHON_COMPLETE", instruction)
        return root.main(arguments, prog_name="antiphon", standalone_mode=False) or 0
    except click.ClickException as error:
        error.show()
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


def _print_version(_root: click.Command) -> None:
    print(f"antiphon {__version__}")


def _install_completion(root: click.Command) -> None:
    from antiphon.cli.shell_completion import install_script

    install_script(root)


def _show_completion(root: click.Command) -> None:
    from antiphon.cli.shell_completion import print_script

    print_script(root)
