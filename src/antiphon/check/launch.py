"""Rules about how a server is started or reached: what can be seen without starting it."""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from antiphon.check.findings import Finding, excerpt_of
from antiphon.check.json_places import PlacedFault, limit_findings, place_faults
from antiphon.host.checks.redact import find_secrets, is_password, names_password
from antiphon.identity.command_lines import launch_of
from antiphon.identity.pins import runner_of
from antiphon.machine.loopback import is_loopback
from antiphon.wire.origin import Launch

_SHELLS = frozenset(["sh", "bash", "zsh", "dash", "ksh", "fish", "cmd", "pwsh", "powershell"])
_SHELL_OPTION = re.compile(r"-[a-z]*c|/c|-(?:command|encodedcommand|enc)", re.IGNORECASE)
_PIPED = re.compile(
    r"\b(?:curl|wget|iwr|invoke-webrequest)\b[^|;&]{0,2000}\|\s*(?:sudo\s+)?(?:\S*/)?(?:ba|z|da|k)?sh\b"
    r"|(?:\(|`|<\()\s*(?:curl|wget)\b|\biex\b|invoke-expression",
    re.IGNORECASE,
)
_CODE_OPTIONS = {
    "python": ("-c",),
    "node": ("-e", "--eval", "-p"),
    "ruby": ("-e",),
    "perl": ("-e", "-E"),
    "deno": ("eval",),
}
_HOOKS = re.compile(
    r"LD_PRELOAD|LD_AUDIT|DYLD_INSERT_LIBRARIES|NODE_OPTIONS|PYTHONSTARTUP|PYTHONPATH|BASH_ENV|PERL5OPT|RUBYOPT"
    r"|_?JAVA_(?:TOOL_)?OPTIONS|NPM_CONFIG_SCRIPT_SHELL|GIT_SSH_COMMAND"
)
"""Variables that run other code within a program."""
_UNCHECKED = {
    "NODE_TLS_REJECT_UNAUTHORIZED": "0",
    "PYTHONHTTPSVERIFY": "0",
    "GIT_SSL_NO_VERIFY": "1",
    "NPM_CONFIG_STRICT_SSL": "false",
}
_REROUTED = re.compile(r"(?:https?|all)_proxy|\w+_(?:base_?url|api_base)", re.IGNORECASE)
_REGISTRIES = ("--registry", "--index-url", "-i", "--extra-index-url", "--index", "--default-index", "--find-links")
_MOUNTS = ("-v", "--volume", "--mount")
_WIDE_MOUNT = re.compile(
    r"(?:.*source=|.*src=)?(?:/|~|\$HOME|\$\{HOME\}|/home/?[^/:,]*|/root|/etc|/var/run/docker\.sock)(?:[:,].*)?"
)
_PRIVILEGES = {"--privileged", "--network=host", "--net=host", "--pid=host", "--cap-add=ALL", "--cap-add=SYS_ADMIN"}


def find_launch_faults(
    target: str | Sequence[str], *, env: Mapping[str, str] | None = None, cwd: str | None = None
) -> Iterator[Finding]:
    """Find what is unsafe about starting or reaching a server, without doing so.

    Args:
        target: its URL, or its command line as a list of words.
        env: environment variables that its configuration sets; none by default.
        cwd: the folder it is started in; by default the current one.
    """
    if isinstance(target, str):
        faults = _find_address_faults(target)
    else:
        faults = (*_find_command_faults(list(target), env or {}, cwd), *_find_variable_faults(env or {}))
    return limit_findings(place_faults(faults, "launch:", ""))


def _find_address_faults(url: str) -> Iterator[PlacedFault]:
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError as error:
        yield PlacedFault("launch.address", "URL", str(error))
        return
    if not host or parts.scheme not in ("http", "https", "ws", "wss"):
        yield PlacedFault("launch.address", "URL", url)
    elif parts.scheme in ("http", "ws") and not is_loopback(host):
        yield PlacedFault("launch.plain_http", "URL", f"{parts.scheme}://{host}")
    if parts.username or parts.password or find_secrets(url):
        yield PlacedFault("launch.secret_in_url", "URL", f"{parts.scheme}://{host}")
    if not host.isascii() or "xn--" in host:
        yield PlacedFault("launch.lookalike_host", "URL", host)


def _find_command_faults(words: list[str], env: Mapping[str, str], cwd: str | None) -> Iterator[PlacedFault]:
    if not words:
        yield PlacedFault("launch.missing", "command", "no words")
        return
    launch = launch_of(words, env=env, cwd=cwd)
    name = Path(words[0]).stem.lower()
    if not launch.pinned:
        yield PlacedFault("launch.unpinned", "command", excerpt_of(" ".join(words)))
    if name in ("sudo", "doas", "su", "pkexec", "runas"):
        yield PlacedFault("launch.superuser", "command", words[0])
    if name in _SHELLS and any(_SHELL_OPTION.fullmatch(word) for word in words[1:3]):
        yield PlacedFault("launch.shell", "command", excerpt_of(" ".join(words)))
    for program, options in _CODE_OPTIONS.items():
        if name.rstrip("0123456789.") == program and words[1:2] and words[1] in options:
            yield PlacedFault("launch.inline_code", "arguments[0]", excerpt_of(" ".join(words)))
    yield from _find_word_faults(words, name)
    yield from _find_file_faults(words, launch, env, cwd)


def _find_word_faults(words: list[str], name: str) -> Iterator[PlacedFault]:
    in_container = name in ("docker", "podman", "nerdctl")
    for at, word in enumerate(words[1:]):
        place = f"arguments[{at}]"
        before, option, value = words[at], *word.partition("=")[::2]
        if _PIPED.search(word):
            yield PlacedFault("launch.piped_download", place, word)
        if find_secrets(word) or (names_password(before.lstrip("-")) and before.startswith("-") and _is_literal(word)):
            yield PlacedFault("launch.secret_argument", place, before if before.startswith("-") else option)
        if runner_of([name, *words[1:]]) and option in _REGISTRIES:
            yield PlacedFault("launch.registry", place, word)
        if re.match(r"(?:\w+=)?http://", word) and not is_loopback(
            urlsplit(word[word.index("http://") :]).hostname or ""
        ):
            yield PlacedFault("launch.plain_http", place, word)
        if in_container and (word in _PRIVILEGES or f"{before}={word}" in _PRIVILEGES):
            yield PlacedFault("launch.privileged", place, word)
        if in_container and (before in _MOUNTS or option in _MOUNTS) and _WIDE_MOUNT.fullmatch(value or word):
            yield PlacedFault("launch.wide_mount", place, word)


def _is_literal(word: str) -> bool:
    return not word.startswith("-") and is_password(word)


def _find_variable_faults(env: Mapping[str, str]) -> Iterator[PlacedFault]:
    for name, value in env.items():
        place = f"env.{name[:80]}"
        if find_secrets(f"{name}={value}") or (names_password(name) and is_password(value)):
            yield PlacedFault("launch.secret_variable", place, name)
        if _HOOKS.fullmatch(name):
            yield PlacedFault("launch.hooking_variable", place, value)
        if value and _UNCHECKED.get(name) == value:
            yield PlacedFault("launch.unchecked_tls", place, f"{name}={value}")
        if _REROUTED.fullmatch(name) and value:
            yield PlacedFault("launch.rerouting_variable", place, name)


def _find_file_faults(
    words: Sequence[str], launch: Launch, env: Mapping[str, str], cwd: str | None
) -> Iterator[PlacedFault]:
    files = [Path(cwd or ".", word) for word in launch.arguments[:50] if Path(word).is_absolute()]
    found = _find_program(words[0], env, cwd)
    if found is None:
        yield PlacedFault("launch.missing", "command", words[0])
    else:
        files.insert(0, found)
        if os.sep in words[0] and not Path(words[0]).is_absolute():
            yield PlacedFault("launch.relative", "command", words[0])
    for file in files:
        yield from _find_access_faults(file)


def _find_program(word: str, env: Mapping[str, str], cwd: str | None) -> Path | None:
    try:
        found = shutil.which(word if os.sep not in word else str(Path(cwd or ".", word)), path=env.get("PATH"))
    except ValueError:
        return None
    return None if found is None else Path(found)


def _find_access_faults(file: Path) -> Iterator[PlacedFault]:
    """Find who else may change a file that runs: others than its owner and the superuser."""
    try:
        about, above = file.stat(), file.parent.stat()
    except (OSError, ValueError):
        return
    if not stat.S_ISREG(about.st_mode) or os.name == "nt":
        return
    # In a folder with the sticky bit only the owner of a file may replace it.
    is_open = above.st_mode & stat.S_IWOTH and not above.st_mode & stat.S_ISVTX
    if about.st_mode & stat.S_IWOTH or is_open:
        yield PlacedFault("launch.writable", str(file), stat.filemode(about.st_mode))
    elif about.st_uid not in (0, os.getuid()):
        yield PlacedFault("launch.foreign_file", str(file), f"owner {about.st_uid}")
    elif file.is_relative_to(tempfile.gettempdir()):
        yield PlacedFault("launch.temporary", str(file), str(file.parent))
