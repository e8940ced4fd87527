"""The command tree, and the only place where errors become a message and an exit code.

Owns the list of commands. The module of a command is imported only when it is used, so that ``antiphon --version``
stays fast.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence

from antiphon import __version__

COMMANDS = {
    "demo": ("demo.command", "Show sampling at work, in a minute."),
    "serve": ("serve", "Serve the server that a Python file defines."),
    "dev": ("dev", "Serve a Python file over HTTP, and again whenever it changes."),
    "pack": ("pack.command", "Write a server's bundle, and its entry for the registry."),
    "gateway": ("gateway", "Serve all configured servers as one."),
    "model-api": ("model_api", "Have a program's calls to OpenAI or Anthropic decided here."),
    "install": ("install", "Put the gateway before a host's servers, or list the hosts."),
    "uninstall": ("install:uninstall", "Give a host its own servers back."),
    "tools": ("read:tools", "List the tools of a server."),
    "call": ("call:command", "Call a tool of a server."),
    "tasks": ("call:commands", "List and follow tasks that call --background started."),
    "resources": ("read:resources", "List what a server lets you read."),
    "read": ("read", "Read a resource of a server."),
    "prompts": ("read:prompts", "List the prompts of a server."),
    "prompt": ("read:prompt", "Print a prompt of a server, filled in."),
    "review": ("review.command", "Decide what waits for you, from any terminal."),
    "audit": ("audit.command", "See what happened to each ask, and what was spent."),
    "policy": ("policy", "See what servers may ask, and why."),
    "login": ("login", "Sign in to a server, for all commands."),
    "logins": ("login:logins", "List where you are signed in."),
    "logout": ("login:logout", "Forget the login to a server, and have its tokens revoked."),
    "trust": ("trust", "Decide which server files of projects may be used."),
    "models": ("models", "List the models, or explain a choice."),
    "check": ("check", "Check whether a server is right, and safe to use."),
    "doctor": ("doctor.command", "Check this installation, or a server."),
}
"""Each command in the order of the help: the module below ``antiphon.cli.commands`` that has it as ``command`` or
``commands``, or what stands after the colon; and the first sentence of its help."""


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
        if sorted(given) in (["--json", "--version"], ["--json", "-V"]):
            return _print_version()
        from antiphon.cli.root import run_command

        return run_command(COMMANDS, given)
    except KeyboardInterrupt:
        return 130  # like ``options.INTERRUPTED``, which may not be imported yet
    except SystemExit as end:
        if isinstance(end.code, str):
            # A served file may end the program with ``sys.exit("reason")``: print the reason, as Python does.
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except Exception as error:
        if os.environ.get("ANTIPHON_DEBUG"):
            raise
        from antiphon.cli.output.formats import report_error

        return report_error(error)


def _print_version() -> int:
    from antiphon.cli.commands.doctor.command import describe_version
    from antiphon.cli.output.formats import print_json

    print_json(describe_version())
    return 0


def _let_text_through() -> None:
    """Replace characters that the terminal's encoding lacks, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            with contextlib.suppress(ValueError):
                reconfigure(errors="replace")
