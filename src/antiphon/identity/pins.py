"""Whether the command line of a package runner states the exact version of the package it runs.

Owns the syntax of ``npx``, ``uvx`` and similar programs, and of those that run images of containers; ``command_lines``
reads all other command lines.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath

_RUNNERS: dict[tuple[str, ...], str] = {
    ("npx",): "npx",
    ("npm", "exec"): "npx",
    ("npm", "x"): "npx",
    ("pnpx",): "npx",
    ("pnpm", "dlx"): "npx",
    ("pnpm", "exec"): "npx",
    ("yarn", "dlx"): "npx",
    ("bunx",): "npx",
    ("bun", "x"): "npx",
    ("uvx",): "uvx",
    ("uv", "tool", "run"): "uvx",
    ("pipx", "run"): "pipx",
}
"""Words that begin a run of a package that may first be downloaded, and the syntax of the rest."""
_WRAPPED = 4
"""Number of words at the beginning of a command line in which a runner is looked for."""
_ALONE = {
    "npx": frozenset(
        ["-y", "--yes", "-q", "--quiet", "-s", "--silent", "--prefer-offline", "--prefer-online", "--offline", "--bun"]
    ),
    "uvx": frozenset(
        [
            "-q",
            "--quiet",
            "-v",
            "--verbose",
            "--refresh",
            "--isolated",
            "--offline",
            "--no-cache",
            "-n",
            "--no-progress",
            "--native-tls",
            "--no-build",
            "--no-config",
            "--no-env-file",
        ]
    ),
    "pipx": frozenset(["-q", "--quiet", "-v", "--verbose", "--no-cache"]),
}
"""Options that take no further word."""
_WITH_PACKAGE = {
    "npx": frozenset({"-p", "--package"}),
    "uvx": frozenset({"--from", "--with", "-w"}),
    "pipx": frozenset({"--spec", "--with"}),
}
"""Options whose argument is a package; all but ``--with`` name what to download instead of the command's own name."""
_WITH_WORD = {
    "npx": frozenset[str](),
    "uvx": frozenset({"-p", "--python", "--cache-dir", "--python-preference", "--exclude-newer"}),
    "pipx": frozenset({"--python"}),
}
"""Options whose argument is not a package."""
_EXACT = {
    "npx": re.compile(r"(?:@[\w.~-]+/)?[\w.~-]+@\d+\.\d+\.\d+(?:[-+][\w.+-]+)?|.*#[0-9a-f]{40}"),
    "uvx": re.compile(r"[\w.-]+(?:\[[\w,.-]*\])?(?:==|@)\d[\w.!+]*|git\+.*@[0-9a-f]{40}(?:#.*)?"),
    "pipx": re.compile(r"[\w.-]+(?:\[[\w,.-]*\])?==\d[\w.!+]*|git\+.*@[0-9a-f]{40}(?:#.*)?"),
}
"""A package with exactly one version: for npm ``name@1.2.3``, for Python ``name==1.2.3``, or a full commit hash."""
_LOCAL = re.compile(r"(?:\.{0,2}[/\\]|~|[A-Za-z]:[/\\]|file:).*")
"""A package on this disk; its location is part of the identity."""
_VERSIONED = re.compile(r"(?P<name>(?:@[\w.~-]+/)?[\w.~-]+(?:\[[\w,.-]*\])?)(?:@|==|>=|<=|~=|>|<|!=)[^/]*")


_CONTAINERS = frozenset({"docker", "podman", "nerdctl"})
"""Programs that run images."""
_RUN = (("run",), ("create",), ("container", "run"), ("container", "create"))
"""The words of such a program that run an image, which may first be downloaded."""
BEGINNINGS = _CONTAINERS | {beginning[0] for beginning in _RUNNERS}
"""The first words of all command lines that may download; ``is_pinned`` is true of any other."""
_IMAGE_ALONE = re.compile(
    r"-[itdPq]+|--(?:interactive|tty|detach|rm|init|privileged|read-only|publish-all|quiet|no-healthcheck)"
)
"""Options of such programs that take no further word."""
_DIGEST = re.compile(r"[^@\s]+@sha256:[0-9a-f]{64}")
"""An image that is the same for ever; a tag may be moved."""


def runner_of(words: Sequence[str]) -> str | None:
    """Return whose syntax a package runner follows (npx, uvx or pipx), or ``None`` if these words start none."""
    for beginning, kind in _RUNNERS.items():
        if tuple(words[: len(beginning)]) == beginning:
            return kind
    return None


def may_download(words: Sequence[str]) -> bool:
    """Return whether a command line may download a package or image first, also behind ``cmd /c`` or ``env``."""
    for at in range(min(len(words), _WRAPPED)):
        program = PurePath(words[at]).stem
        if program in _CONTAINERS or runner_of([program, *words[at + 1 :]]) is not None:
            return True
    return False


def is_pinned(words: Sequence[str]) -> bool:
    """Return whether every package has an exact version; not if an unknown option may hide a package."""
    if words and words[0] in _CONTAINERS:
        return _is_digest(words[1:])
    kind = runner_of(words)
    if kind is None:
        return True
    start = next(len(beginning) for beginning in _RUNNERS if tuple(words[: len(beginning)]) == beginning)
    packages: list[str] = []
    is_named = False
    at = start
    while at < len(words):
        option, equals, value = words[at].partition("=")
        if option in _WITH_PACKAGE[kind]:
            at += not equals
            packages.append(value if equals else "".join(words[at : at + 1]))
            is_named = is_named or (option != "--with" and not (kind == "uvx" and option == "-w"))
        elif option in _WITH_WORD[kind]:
            at += not equals
        elif words[at].startswith("-") and words[at] != "--":
            if words[at] not in _ALONE[kind]:
                return False
        elif words[at] != "--":
            packages += [] if is_named else [words[at]]
            break
        at += 1
    return bool(packages) and all(_EXACT[kind].fullmatch(one) or _LOCAL.fullmatch(one) for one in packages)


def _is_digest(words: Sequence[str]) -> bool:
    """Return whether these words run an image that is named by its digest, and nothing else that could change."""
    start = next((len(run) for run in _RUN if tuple(words[: len(run)]) == run), None)
    if start is None:
        # It starts an existing container, or what a compose file says.
        return False
    at = start
    while at < len(words) and words[at].startswith("-"):
        # An unknown option is taken to need the next word. At worst that was the image, which then counts as unpinned.
        at += 1 if "=" in words[at] or _IMAGE_ALONE.fullmatch(words[at]) else 2
    return at < len(words) and _DIGEST.fullmatch(words[at]) is not None


def without_version(word: str) -> str:
    """Remove the version from a word that may name a package."""
    found = _VERSIONED.fullmatch(word)
    return found["name"] if found else word
