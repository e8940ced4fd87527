"""The environment of a child process: by default the variables that programs need to run, and no secrets."""

from __future__ import annotations

import os
from collections.abc import Mapping

__all__ = ["child_environment"]

POSIX = frozenset({"HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"})

SECRETS = frozenset({"ANTIPHON_CLIENT_SECRET", "ANTIPHON_TLS_PASSWORD", "ANTIPHON_TOKEN"})
"""Variables that the commands of this library read, and no child needs."""

WINDOWS = frozenset({
    "APPDATA", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATH", "PATHEXT", "PROCESSOR_ARCHITECTURE",
    "PROGRAMDATA", "PROGRAMFILES", "PROGRAMFILES(X86)", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP", "USERNAME",
    "USERPROFILE", "WINDIR",
})  # fmt: skip


def child_environment(
    extra: Mapping[str, str] | None, *, inherit: bool = False, ours: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Return the environment of a child: a safe part of ``ours`` (all with ``inherit``), updated with ``extra``.

    The secrets of this program's own commands are never among them.
    """
    kept = {name: value for name, value in ours.items() if (inherit and name not in SECRETS) or _is_safe(name, value)}
    return kept | dict(extra or {})


def _is_safe(name: str, value: str) -> bool:
    # "()" begins a function that old shells export, and execute when they start (CVE-2014-6271).
    if value.startswith("()"):
        return False
    if os.name == "nt":
        return name.upper() in WINDOWS
    return name in POSIX or name.startswith("LC_")
