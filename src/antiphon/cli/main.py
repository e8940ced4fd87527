"""The command tree, and the one place where errors become a message and an exit code.

Owns which commands there are. A command's module is imported only when it is the one that was asked for, so that
``antiphon --version`` stays fast. What the commands do is in their own files.
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
    "tools": "tools",
    "call": "call",
    "resources": "resources",
    "read": "read",
    "prompts": "prompts",
    "prompt": "prompt",
    "review": "review.command",
    "audit": "audit.command",
    "policy": "policy.command",
    "trust": "trust",
    "models": "models",
    "doctor": "doctor.command",
}
"""Each command in the order of the help, and the module below ``antiphon.cli.commands`` that has it as ``command`` or
``commands``."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted.

    ``arguments``: those of the process by default. With ``ANTIPHON_DEBUG=1`` in the environment an error is not caught.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given in (["--version"], ["-V"]):
        print(f"antiphon {__version__}")
        return 0
    _let_text_through()
    try:
        code = _application(given)(args=given, prog_name="antiphon", standalone_mode=True)
    except KeyboardInterrupt:
        return 130  # as ``opening.INTERRUPTED``, which may not have been imported yet
    except SystemExit as end:
        return _code(end)
    except Exception as error:
        if os.environ.get("ANTIPHON_DEBUG"):
            raise
        from antiphon.cli.failures import report

        return report(error)
    return code if isinstance(code, int) else 0


def _application(given: Sequence[str]) -> typer.Typer:
    """Build the command tree: only the command that is asked for, or all of them where help may be wanted."""
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
    # A shell that completes a line hands it over in the environment.
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
        # As Python does it: a file that is served may end itself, and says why.
        print(end.code, file=sys.stderr)
    return end.code if isinstance(end.code, int) else int(end.code is not None)


def _let_text_through() -> None:
    """Replace what the terminal's encoding lacks, instead of failing at it."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            with contextlib.suppress(ValueError):
                reconfigure(errors="replace")
