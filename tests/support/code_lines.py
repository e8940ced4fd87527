"""Lines of code that the commits of the redraw have added to ``src``: ``python -m tests.support.code_lines``.

Comments, docstrings and empty lines do not count. Features that came between these commits are left out, so that the
sum says what redrawing the house has cost or saved; ``docs/design/layers.md`` quotes it.
"""

from __future__ import annotations

import ast
import io
import subprocess
import tokenize
from pathlib import Path

REDRAW = {
    "moves and words": [
        "Move every module to the folder that names its feature",
        "Share the words of a review between page and terminals",
        "Say in plain words why a login or a token is refused",
        "Reword messages that had to be read twice",
        "Remove a word that nobody says to the guardian",
    ],
    "the public API, closed": [
        "Close the public API: every type in it can be imported",
        "Keep attributes of public objects within public types",
    ],
    "no circle, the table of a call": [
        "Give what serves a server and what its calls share their own objects",
        "Hold the layout by its figures, and break the last circle",
        "Run modern calls on a table of states and events",
    ],
    "no way around a check, fewer calls": [
        "Check every request and every sealed state, each time",
        "Handle a request of a connection with fewer calls",
        "Hold a place of an HTTP call without a generator",
        "Look a session up in one function, and pass messages to it at once",
        "Decide once per client who hears what became of an answer",
        "Give the endpoint its requests as they were parsed",
        "Load what serves tasks in servers that have some",
        "Answer a request over HTTP in fewer steps",
        "Look for the wish for a task beside large arguments",
        "Read the wish for a task where the params are read",
        "Put headers into a dictionary as they are parsed",
        "Bind a state without searching its arguments for fractions",
        "Look up the states and events of a call once",
        "Describe a call that may ask by a struct and partials",
    ],
    "merges": [
        "Merge modules of one caller: a call leads through 27 files",
        "Read and check asks and answers where they are given",
        "Merge three modules that one caller has each",
        "Put a connection into two files without stand-ins for itself",
        "Keep what a client knows of tools in one place",
        "Bound a request's counts in one place, and lower where it is written",
        "State the options that commands share once, as sets",
        "Follow the lifespan of ASGI in one place",
        "List where an issuer's metadata may be in one place",
        "Move side processes into the folder of this machine",
        "Decide which hosts are this machine in one place",
        "Replace files as a whole in one place",
        "Build the four lists of a server alike",
        "Receive from an inbox and send by an outbox in one place",
        "Tell whether a process still runs in one place",
        "Decide by one look-up whether a call may be repeated",
        "Open and close both stores of a server by the same lines",
        "Follow a task by one loop, and clean a peer's text by one function",
        "Describe every option of a feature beside its own name",
        "Let a session keep its open requests itself",
        "Read tools and content alike in the dialects of the model API",
        "Merge what two commands, two views and two stages repeat",
        "Take one lock where processes make tables",
        "Close six channels by one class",
        "Pass a list of the screen what reads it",
        "Make the classes of connections where types are checked",
    ],
}
"""Subjects of commits, by what they were for."""

ROOT = Path(__file__).parents[2]
_BLANK = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER,
}  # fmt: skip


def code_lines(text: str) -> int:
    """Count the lines of a module that hold code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _BLANK:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def added(commit: str) -> int:
    """Count the lines of code that a commit has added to ``src``, less those that it took away."""
    changed = _git("diff", "--no-renames", "--name-only", f"{commit}^", commit, "--", "src").splitlines()
    programs = [path for path in changed if path.endswith(".py")]
    return sum(_lines_at(commit, path) - _lines_at(f"{commit}^", path) for path in programs)


def _lines_at(commit: str, path: str) -> int:
    return code_lines(_git("show", f"{commit}:{path}")) if _git("ls-tree", commit, path) else 0


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60).stdout


def main() -> None:
    """Print the sums."""
    subjects = dict(line.partition(" ")[::2] for line in _git("log", "--format=%H %s").splitlines())
    commits = {subject: commit for commit, subject in subjects.items()}
    sums = {what: sum(added(commits[subject]) for subject in found) for what, found in REDRAW.items()}
    for what, lines in sums.items():
        print(f"{what}: {lines:+}")
    print(f"together: {sum(sums.values()):+}")


if __name__ == "__main__":
    main()
