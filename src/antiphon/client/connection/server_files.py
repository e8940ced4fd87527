"""Reading other hosts' configuration files that list servers.

Owns the keys of Claude, Cursor, VS Code, Zed, Windsurf, Gemini, opencode and Codex, and the variables in them. The
caller decides where to look for a file, and whether to trust it. A server that its host has switched off is left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import Struct, structs

from antiphon.errors import ConfigError
from antiphon.machine.files import decode_text, expand_home, find_home, name_errors, parse_toml, read_file

MAX_FILE = 1024 * 1024
"""Most bytes; a file with a hundred servers has 50 kB."""
# Nothing in braces holds another beginning, so that each piece of a text is read once, closed or not.
_INNER = r"(?:[^}$]|\$++[^}${])*+\$*+"
_VARIABLE = re.compile(rf"\$\{{(?:env:)?(?P<name>\w+)(?::-(?P<default>{_INNER}))?\}}|\{{env:(?P<bare>\w+)\}}")
_ASKED = re.compile(rf"\$\{{(?:input|command):{_INNER}\}}")
_FOLDERS = re.compile(r"\$\{(?P<name>workspaceFolder|userHome)\}")
# Strings and comments end at the end of the text at the latest: otherwise each beginning would be tried to the end.
_STRING = r'"(?:[^"\\\n]|\\.)*+"?'
_COMMENT = re.compile(_STRING + r"|//[^\n]*+|/\*[^*]*+(?:\*++[^/*][^*]*+)*+(?:\*++/?)?", re.DOTALL)
_TRAILING = re.compile(_STRING + r"|,(?=\s*[}\]])", re.DOTALL)
_SECTIONS = ("mcpServers", "servers", "context_servers", "mcp_servers", "mcp")
"""In this order: Claude, Cursor, Windsurf, Gemini; VS Code; Zed; Codex; opencode."""


class FileOrigin(Struct, frozen=True, kw_only=True):
    """The file that an entry was moved from, as a person trusted it."""

    file: str
    sha256: str


class ServerEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One server: a command with its arguments, or an address. Members for other purposes are ignored."""

    command: str | None = None
    args: list[str] = []
    env: dict[str, str] = {}
    env_vars: list[str] = []
    """Variables of our own environment that the server gets, those that are set."""
    env_file: str | None = None
    """A file with further variables."""
    cwd: str | None = None
    url: str | None = None
    headers: dict[str, str] = {}
    enabled_tools: list[str] | None = None
    """The only tools that may be listed and called, by the server's own names; ``None`` for all."""
    disabled_tools: list[str] = []
    """Tools that may not be listed or called."""
    start_timeout: float | None = None
    """Seconds that the server may take to start."""
    origin: FileOrigin | None = None
    """Set if the entry was moved from a project's file: it is used only while that file is trusted as it was."""
    fault: str | None = None
    """Why the entry cannot be used; it has no other members then."""

    @property
    def texts(self) -> Iterator[str]:
        """All texts in it that may contain variables."""
        yield from (text for text in (self.command, self.cwd, self.url, self.env_file) if text is not None)
        yield from (*self.args, *self.env.values(), *self.headers.values())

    @property
    def target(self) -> dict[str, Any]:
        """The entry as a target for ``Client``."""
        if self.url is not None:
            return {"url": self.url, "headers": self.headers}
        return {"command": self.command, "args": self.args, "env": self.env, "cwd": self.cwd}

    @property
    def tool_globs(self) -> tuple[str, ...]:
        """The tools as globs for a gateway: the enabled ones, and each disabled one with ``!``; empty for all."""
        enabled = ["!*"] if self.enabled_tools == [] else [_literal_glob(name) for name in self.enabled_tools or ()]
        return (*enabled, *(f"!{_literal_glob(name)}" for name in self.disabled_tools))


def read_servers(data: bytes, place: Path) -> dict[str, ServerEntry]:
    """Read the servers in a file; ``place`` is its path, whose suffix distinguishes TOML from JSON.

    An entry of the wrong form costs the other servers nothing: its ``fault`` names the member. Raises
    ``ConfigError``, which names line and column, for a file that cannot be read or has the wrong form.
    """
    text = decode_text(data, place, MAX_FILE)
    try:
        section, found = _find_section(_parse_toml(text) if place.suffix == ".toml" else read_json(text))
    except ConfigError as error:
        raise ConfigError(f"{place}{error}") from None
    servers: dict[str, ServerEntry] = {}
    for name, members in found.items():
        if is_switched_off(members):
            continue
        try:
            servers[name] = _read_entry(members)
        except (msgspec.ValidationError, ConfigError) as error:
            servers[name] = ServerEntry(fault=f"{section}.{name}: {_name_member(str(error), members)}")
    return servers


def is_switched_off(members: object) -> bool:
    """Return whether an entry says that its host does not start the server."""
    said = cast("dict[str, Any]", members) if isinstance(members, dict) else {}
    return said.get("disabled") is True or said.get("enabled") is False


def variables_in(entry: ServerEntry) -> list[str]:
    """Return the environment variables that an entry refers to, each once."""
    pieces = (piece for text in entry.texts for piece in _FOLDERS.split(text)[::2])
    referred = (found["name"] or found["bare"] for piece in pieces for found in _VARIABLE.finditer(piece))
    return list(dict.fromkeys([*referred, *entry.env_vars]))


def find_project(path: Path) -> Path:
    """Return the folder of the project that a file with servers belongs to, for ``${workspaceFolder}``."""
    folder = path.absolute().parent
    return folder.parent if folder.name in (".vscode", ".cursor", ".zed") else folder


def substitute_variables(entry: ServerEntry, environ: Mapping[str, str], folder: Path, place: str) -> ServerEntry:
    """Substitute ``${NAME}``, ``${NAME:-default}``, ``${env:NAME}``, ``{env:NAME}`` and two folders.

    ``folder``: that of the project, for ``${workspaceFolder}``. ``place``: how messages name the entry. Raises
    ``ConfigError`` for a variable that is not set, or that only another host can ask its user for.
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
        folders = {"workspaceFolder": str(folder), "userHome": str(find_home())}
        # Piece by piece, so that a folder whose name contains a variable is not substituted again.
        pieces = _FOLDERS.split(text)
        return "".join(folders[piece] if at % 2 else _VARIABLE.sub(value, piece) for at, piece in enumerate(pieces))

    given = {name: environ[name] for name in entry.env_vars if name in environ}
    if entry.env_file is not None:
        given |= _read_env_file(folder / expand_home(fill(entry.env_file)), place)
    return structs.replace(
        entry,
        command=None if entry.command is None else fill(entry.command),
        args=[fill(argument) for argument in entry.args],
        env={**given, **{name: fill(text) for name, text in entry.env.items()}},
        env_vars=[],
        env_file=None,
        cwd=None if entry.cwd is None else fill(entry.cwd),
        url=None if entry.url is None else fill(entry.url),
        headers={name: fill(text) for name, text in entry.headers.items()},
    )


def _read_env_file(path: Path, place: str) -> dict[str, str]:
    """Read lines of ``NAME=value``; values may be quoted, and ``#`` begins a comment."""
    place = f"{place}: envFile {path}"
    with name_errors(place):
        data = read_file(path, MAX_FILE + 1)
    lines = decode_text(data, place, MAX_FILE).splitlines()
    variables: dict[str, str] = {}
    for line in lines:
        name, equals, text = line.strip().removeprefix("export ").partition("=")
        if not equals or name.startswith("#"):
            continue
        text = text.strip()
        is_quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
        variables[name.strip()] = text[1:-1] if is_quoted else text.partition(" #")[0].rstrip()
    return variables


def _literal_glob(name: str) -> str:
    """Return a glob that matches only this name."""
    # A leading "!" would deny, and cannot stand first in a class.
    return re.sub(r"^!", '["!]', re.sub(r"[*?\[]", r"[\g<0>]", name))


def read_json(text: str) -> object:
    """Read JSON with comments and trailing commas, as VS Code and Zed allow, in a time that grows with its length.

    Raises ``ConfigError``, which names line and column, for anything else.
    """

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
    except ValueError:
        raise ConfigError(": not JSON that can be read: a number is too long") from None


def _parse_toml(text: str) -> object:
    try:
        return parse_toml(text)
    except RecursionError:
        raise ConfigError(": not TOML that can be read") from None
    except ValueError as error:
        raise ConfigError(f": not TOML: {error}") from None


def _find_section(read: object) -> tuple[str, dict[str, Any]]:
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


def _name_member(mistake: str, members: Any) -> str:
    """Name the variable or the header that is wrong, which msgspec calls ``[...]``."""
    found = re.search(r"`\$\.(\w+)\[\.\.\.\]`", mistake)
    wrong = [name for name, value in members[found[1]].items() if not isinstance(value, str)] if found else ["..."]
    return mistake.replace("[...]", f"[{json.dumps(wrong[0])}]") if found else mistake


class _ForwardedVariable(Struct):
    """A variable that Codex passes on, written as a table."""

    name: str


class _EntryMembers(Struct):
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
    env_file: str | None = msgspec.field(default=None, name="envFile")
    env_vars: list[str | _ForwardedVariable] = []
    enabled_tools: list[str] | None = None
    include_tools: list[str] | None = msgspec.field(default=None, name="includeTools")
    tools: list[str] | dict[str, Any] | None = None
    disabled_tools: list[str] = []
    exclude_tools: list[str] = msgspec.field(default=[], name="excludeTools")
    switched_off_tools: list[str] = msgspec.field(default=[], name="disabledTools")
    start_timeout: float | None = None
    startup_timeout_sec: float | None = None
    startup_timeout_ms: float | None = None
    discovery_timeout_ms: float | None = msgspec.field(default=None, name="discoveryTimeoutMs")
    origin: FileOrigin | None = None

    @property
    def list_allowed_tools(self) -> list[str] | None:
        """The tools that all lists of allowed tools have; ``None`` without such a list."""
        # Gemini CLI allows "name(arguments)" in a list; it decides by the name.
        include = None if self.include_tools is None else [name.partition("(")[0] for name in self.include_tools]
        # Copilot CLI: a list, with "*" for all. Codex has a table of approvals under the same name.
        listed = self.tools if isinstance(self.tools, list) and "*" not in self.tools else None
        lists = [names for names in (self.enabled_tools, include, listed) if names is not None]
        return [name for name in lists[0] if all(name in names for names in lists)] if lists else None

    @property
    def seconds_to_start(self) -> float | None:
        """The first of the members that limit the start, in seconds."""
        in_ms = self.startup_timeout_ms or self.discovery_timeout_ms
        return self.start_timeout or self.startup_timeout_sec or (in_ms / 1000 if in_ms else None)


def _read_entry(members: object) -> ServerEntry:
    if isinstance(members, dict) and isinstance(cast("dict[str, Any]", members).get("command"), dict):
        # Zed before 2025: {"command": {"path": ..., "args": [...], "env": {...}}}.
        inner = cast("dict[str, Any]", members)["command"]
        members = {**inner, "command": inner.get("path"), "args": inner.get("args") or []}
    said = msgspec.convert(members, _EntryMembers)
    words = [said.command] if isinstance(said.command, str) else said.command or []
    headers = {**(said.http_headers or {}), **(said.headers or {})}
    headers |= {name: f"${{{variable}}}" for name, variable in (said.env_http_headers or {}).items()}
    if said.bearer_token_env_var:
        headers["Authorization"] = f"Bearer ${{{said.bearer_token_env_var}}}"
    entry = ServerEntry(
        command=(words[0] or None) if words else None,
        args=[*words[1:], *(said.args or [])],
        env={**(said.environment or {}), **(said.env or {})},
        env_vars=[one if isinstance(one, str) else one.name for one in said.env_vars],
        env_file=said.env_file,
        cwd=said.cwd,
        url=said.url or said.server_url or said.http_url,
        headers=headers,
        enabled_tools=said.list_allowed_tools,
        disabled_tools=[*said.disabled_tools, *said.exclude_tools, *said.switched_off_tools],
        start_timeout=said.seconds_to_start,
        origin=said.origin,
    )
    for text in entry.texts:
        if "\0" in text or text.encode("utf-8", "replace").decode() != text:
            raise ConfigError(f"{text!a} has a character that is not allowed in it")
    return entry
