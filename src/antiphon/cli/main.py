"""The command tree, and the only place where errors become a message and an exit code.

Owns the list of commands. The module of a command is imported only when it is used, so that ``antiphon --version``
stays fast.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from antiphon import __version__

if TYPE_CHECKING:
    import typer

__all__ = ["COMMANDS", "main"]

COMMANDS = {
    "demo": "demo.command",
    "serve": "serve",
    "gateway": "gateway",
    "model-api": "model_api",
    "install": "install",
    "uninstall": "uninstall",
    "tools": "tools",
    "call": "call",
    "tasks": "background",
    "resources": "resources",
    "read": "read",
    "prompts": "prompts",
    "prompt": "prompt",
    "review": "review.command",
    "audit": "audit.command",
    "policy": "policy.command",
    "login": "login",
    "logins": "logins",
    "logout": "logout",
    "trust": "trust",
    "models": "models",
    "doctor": "doctor.command",
}
"""Each command in the order of the help, and the module below ``antiphon.cli.commands`` that has it as ``command`` or
``commands``."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted.

    ``arguments``: by default those of the process. With ``ANTIPHON_DEBUG=1`` in the environment errors are not caught.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given in (["--version"], ["-V"]):
        print(f"antiphon {__version__}")
        return 0
    _let_text_through()
    try:
        code = _application(given)(args=given, prog_name="antiphon", standalone_mode=True)
    except KeyboardInterrupt:
        return 130  # like ``open_client.INTERRUPTED``, which may not be imported yet
    except SystemExit as end:
        return _code(end)
    except Exception as error:
        if os.environ.get("ANTIPHON_DEBUG"):
            raise
        from antiphon.cli.failures import report

        return report(error)
    return code if isinstance(code, int) else 0


def _application(given: Sequence[str]) -> typer.Typer:
    """Build the command tree: only the command that is used, or all of them if help may be needed."""
    import typer

    from antiphon.cli.groups import ordered
    from antiphon.cli.options import root

    application = typer.Typer(
        name="antiphon",
        cls=ordered(COMMANDS),
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    application.callback()(root)
    # A shell that completes a line passes it in the environment.
    line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or ""
    words = given or line.split()[1:]
    asked_for = next((word for word in words if not word.startswith("-")), None)
    for name in [asked_for] if asked_for in COMMANDS else COMMANDS:
        module = import_module(f"antiphon.cli.commands.{COMMANDS[name]}")
        if hasattr(module, "commands"):
            application.add_typer(module.commands, name=name)
        else:
            application.command(name)(module.command)
    return application


def _code(end: SystemExit) -> int:
    if isinstance(end.code, str):
        # A served file may end the program with ``sys.exit("reason")``: print the reason, as Python does.
        print(end.code, file=sys.stderr)
    return end.code if isinstance(end.code, int) else int(end.code is not None)


def _let_text_through() -> None:
    """Replace characters that the terminal's encoding lacks, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            with contextlib.suppress(ValueError):
                reconfigure(errors="replace")
