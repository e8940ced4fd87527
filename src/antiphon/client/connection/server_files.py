"""Reading other hosts' configuration files that list servers.

Owns the keys of Claude, Cursor, VS Code, Zed, Windsurf, Gemini, opencode and Codex, and the variables in them. The
caller decides where to look for a file, and whether to trust it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import Struct

from antiphon.errors import ConfigError

__all__ = ["MAX_FILE", "Entry", "filled", "read_servers", "variables_in"]

MAX_FILE = 1024 * 1024
"""Most bytes; a file with a hundred servers has 50 kB."""
_VARIABLE = re.compile(r"\$\{(?:env:)?(?P<name>\w+)(?::-(?P<default>[^}]*))?\}|\{env:(?P<bare>\w+)\}")
_ASKED = re.compile(r"\$\{(?:input|command):[^}]*\}")
_FOLDERS = re.compile(r"\$\{(?P<name>workspaceFolder|userHome)\}")
_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING = re.compile(r'"(?:[^"\\\n]|\\.)*"|,(?=\s*[}\]])')
_SECTIONS = ("mcpServers", "servers", "context_servers", "mcp_servers", "mcp")
"""In this order: Claude, Cursor, Windsurf, Gemini; VS Code; Zed; Codex; opencode."""


class Entry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One server: a command with its arguments, or an address. Members for other purposes are ignored."""

    command: str | None = None
    args: list[str] = []
    env: dict[str, str] = {}
    cwd: str | None = None
    url: str | None = None
    headers: dict[str, str] = {}
    start_timeout: float | None = None
    """Seconds that the server may take to start."""
    fault: str | None = None
    """Why the entry cannot be used; it has no other members then."""

    @property
    def texts(self) -> Iterator[str]:
        """All texts in it that may contain variables."""
        yield from (text for text in (self.command, self.cwd, self.url) if text is not None)
        yield from (*self.args, *self.env.values(), *self.headers.values())

    @property
    def target(self) -> dict[str, Any]:
        """The entry as a target for ``Client``."""
        if self.url is not None:
            return {"url": self.url, "headers": self.headers}
        return {"command": self.command, "args": self.args, "env": self.env, "cwd": self.cwd}


def read_servers(data: bytes, place: Path) -> dict[str, Entry]:
    """Read the servers in a file; ``place`` is its path, whose suffix distinguishes TOML from JSON.

    An entry of the wrong form costs the other servers nothing: its ``fault`` names the member.

    Raises:
        ConfigError: the file cannot be read, or has the wrong form; the message names line and column.
    """
    if len(data) > MAX_FILE:
        raise ConfigError(f"{place}: larger than {MAX_FILE} bytes")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(f"{place}: not UTF-8") from None
    try:
        section, found = _section(_toml(text) if place.suffix == ".toml" else _json(text))
    except ConfigError as error:
        raise ConfigError(f"{place}{error}") from None
    servers: dict[str, Entry] = {}
    for name, members in found.items():
        try:
            servers[name] = _entry(members)
        except (msgspec.ValidationError, ConfigError) as error:
            servers[name] = Entry(fault=f"{section}.{name}: {error}")
    return servers


def variables_in(entry: Entry) -> list[str]:
    """Return the environment variables that an entry refers to, each once."""
    pieces = (piece for text in entry.texts for piece in _FOLDERS.split(text)[::2])
    return list(
        dict.fromkeys(found["name"] or found["bare"] for piece in pieces for found in _VARIABLE.finditer(piece))
    )


def filled(entry: Entry, environ: Mapping[str, str], folder: Path, place: str) -> Entry:
    """Substitute ``${NAME}``, ``${NAME:-default}``, ``${env:NAME}``, ``{env:NAME}`` and two folders.

    ``folder``: that of the project, for ``${workspaceFolder}``. ``place``: how messages name the entry.

    Raises:
        ConfigError: a variable is not set, or only another host can ask its user for it.
    """

    def value(match: re.Match[str]) -> str:
        name = match["name"] or match["bare"]
        found = environ.get(name) or match["default"]
        if found is None:
            raise ConfigError(f"{place}: the environment has no variable {name}")
        return found

    def fill(text: str) -> str:
        if asked := _ASKED.search(text):
            raise ConfigError(
                f"{place}: only VS Code can ask for {asked[0]}; write ${{NAME}} and set the variable NAME"
            )
        folders = {"workspaceFolder": str(folder), "userHome": str(Path.home())}
        # Piece by piece, so that a folder whose name contains a variable is not substituted again.
        pieces = _FOLDERS.split(text)
        return "".join(folders[piece] if at % 2 else _VARIABLE.sub(value, piece) for at, piece in enumerate(pieces))

    return Entry(
        command=None if entry.command is None else fill(entry.command),
        args=[fill(argument) for argument in entry.args],
        env={name: fill(text) for name, text in entry.env.items()},
        cwd=None if entry.cwd is None else fill(entry.cwd),
        url=None if entry.url is None else fill(entry.url),
        headers={name: fill(text) for name, text in entry.headers.items()},
    )


def _json(text: str) -> object:
    """Read JSON with comments and trailing commas, as VS Code and Zed allow."""

    def blank(found: re.Match[str]) -> str:
        kept = found[0].startswith('"')
        # Keeps line and column of everything that follows.
        return found[0] if kept else re.sub(r"[^\n]", " ", found[0])

    try:
        return json.loads(_TRAILING.sub(blank, _COMMENT.sub(blank, text)))
    except json.JSONDecodeError as error:
        raise ConfigError(f", line {error.lineno}, column {error.colno}: not JSON: {error.msg}") from None
    except RecursionError:
        raise ConfigError(": not JSON that can be read: too deep") from None


def _toml(text: str) -> object:
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f": not TOML: {error}") from None
    except (RecursionError, ValueError):
        raise ConfigError(": not TOML that can be read") from None


def _section(read: object) -> tuple[str, dict[str, Any]]:
    """Return the servers in a file, and the name of the member that holds them."""
    if not isinstance(read, dict):
        raise ConfigError(": is no object with servers in it")
    top = cast("dict[str, Any]", read)
    for name in _SECTIONS:
        found: Any = top.get(name)
        if found is None:
            continue
        if not isinstance(found, dict):
            raise ConfigError(f": {name}: is no object with servers in it")
        inner: Any = cast("dict[str, Any]", found).get("servers")
        # VS Code's settings.json nests them one level deeper.
        is_nested = name == "mcp" and isinstance(inner, dict) and "command" not in inner and "url" not in inner
        return (
            (f"{name}.servers", cast("dict[str, Any]", inner)) if is_nested else (name, cast("dict[str, Any]", found))
        )
    raise ConfigError(f": has no servers; they stand under one of: {', '.join(_SECTIONS)}")


class _Members(Struct):
    """All names that hosts use for the members of an entry."""

    command: str | list[str] | None = None
    args: list[str] | None = None
    env: dict[str, str] | None = None
    environment: dict[str, str] | None = None
    cwd: str | None = None
    url: str | None = None
    server_url: str | None = msgspec.field(default=None, name="serverUrl")
    http_url: str | None = msgspec.field(default=None, name="httpUrl")
    headers: dict[str, str] | None = None
    http_headers: dict[str, str] | None = None
    env_http_headers: dict[str, str] | None = None
    bearer_token_env_var: str | None = None


def _entry(members: object) -> Entry:
    if isinstance(members, dict) and isinstance(cast("dict[str, Any]", members).get("command"), dict):
        # Zed before 2025: {"command": {"path": ..., "args": [...], "env": {...}}}.
        inner = cast("dict[str, Any]", members)["command"]
        members = {**inner, "command": inner.get("path"), "args": inner.get("args") or []}
    said = msgspec.convert(members, _Members)
    words = [said.command] if isinstance(said.command, str) else said.command or []
    headers = {**(said.http_headers or {}), **(said.headers or {})}
    headers |= {name: f"${{{variable}}}" for name, variable in (said.env_http_headers or {}).items()}
    if said.bearer_token_env_var:
        headers["Authorization"] = f"Bearer ${{{said.bearer_token_env_var}}}"
    return Entry(
        command=words[0] if words else None,
        args=[*words[1:], *(said.args or [])],
        env={**(said.environment or {}), **(said.env or {})},
        cwd=said.cwd,
        url=said.url or said.server_url or said.http_url,
        headers=headers,
    )
