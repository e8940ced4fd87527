"""Errors as one message for the person at the terminal, and an exit code. Never a traceback.

Any function of the command line may raise ``ConfigError`` if input or configuration is wrong (exit code 2), or
``Failed`` (exit code 1). Their messages are written for that person, name the place, and say what to do, so the
docstrings do not list them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Generator
from contextlib import contextmanager

from antiphon.errors import AntiphonError, ConfigError, Rejected
from antiphon.host.checks.visible import make_inert

FAILED = 1
WRONG_USAGE = 2


class Failed(Exception):
    """A command has failed. The message names the place; ``code`` is the exit code."""

    def __init__(self, message: str, code: int = FAILED) -> None:
        super().__init__(message)
        self.code = code


@contextmanager
def prefix_errors(place: str) -> Generator[None]:
    """Prefix the message of any error of this library raised inside with the name of a place."""
    try:
        yield
    except (AntiphonError, Failed) as error:
        told = explain_error(error)
        # An error on the way to an address names the address already.
        said = told if "://" in place and place in told else f"{place}: {told}"
        raise Failed(said, exit_code(error)) from error


def exit_code(error: Exception) -> int:
    """Return the exit code for an error: 2 if input or configuration is wrong, else 1."""
    if isinstance(error, Failed):
        return error.code
    return WRONG_USAGE if isinstance(error, ConfigError) else FAILED


def explain_error(error: BaseException) -> str:
    """Return the text of an error, with its notes."""
    if isinstance(error, Failed | AntiphonError):
        text = str(error)
    elif isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    else:
        text = f"unexpected {type(error).__name__}: {error} (ANTIPHON_DEBUG=1 shows where)"
    # A person's reason for a refusal belongs to the line of the refusal.
    return ("; " if isinstance(error, Rejected) else "\n").join([text, *getattr(error, "__notes__", ())])


def report_error(error: Exception) -> int:
    """Write an error to standard error, made inert since it may quote a server, and return the exit code."""
    print(f"antiphon: {make_inert(explain_error(error))}", file=sys.stderr)
    return exit_code(error)


def find_json_mistake(data: bytes) -> str | None:
    """Say where a text is not JSON, by line and column; ``None`` if it is JSON."""
    try:
        json.loads(data)
    except json.JSONDecodeError as error:
        return f"line {error.lineno}, column {error.colno}: {error.msg}"
    except UnicodeDecodeError as error:
        return f"byte {error.start}: not UTF-8"
    except RecursionError:
        return "too deep"
    return None
