"""The command tree, and the only place where errors become a message and an exit code.

The module of a command is imported only when it is used, so that ``antiphon --version`` stays fast.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence

from antiphon import __version__


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted.

    ``arguments``: by default those of the process. With ``ANTIPHON_DEBUG=1`` in the environment errors are not caught.
    """
    _open_closed_streams()
    given = list(sys.argv[1:] if arguments is None else arguments)
    _let_text_through()
    try:
        try:
            return _run(given)
        finally:
            _flush_streams()
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


def _run(given: list[str]) -> int:
    if given in (["--version"], ["-V"]):
        print(f"antiphon {__version__}")
        return 0
    if sorted(given) in (["--json", "--version"], ["--json", "-V"]):
        from antiphon.cli.commands.doctor.command import describe_version
        from antiphon.cli.output.formats import print_json

        print_json(describe_version())
        return 0
    from antiphon.cli.root import run_command

    return run_command(given)


def _flush_streams() -> None:
    """Write what is buffered: where Python cannot do that at its end, it prints a traceback and exits with 120."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            from antiphon.cli.output.formats import discard_output

            discard_output(stream, error)


def _open_closed_streams() -> None:
    """Open the null device for each standard stream that was closed, or a file of ours would get its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))


def _let_text_through() -> None:
    """Replace characters that the terminal's encoding lacks, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            with contextlib.suppress(ValueError):
                reconfigure(errors="replace")
