"""Configuration files whose servers are changed while everything else is kept: order, comments, spaces.

JSON is edited here by the positions of its members, because the libraries that keep comments take minutes for a file of
megabytes. TOML and YAML are edited by tomlkit and ruamel.yaml.
"""

from __future__ import annotations

import io
import json
import re
from bisect import bisect_left
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from antiphon.client.connection.server_files import read_json
from antiphon.errors import ConfigError
from antiphon.machine.files import decode_text
from antiphon.machine.public_names import describe_install

MAX_BYTES = 64 * 1024 * 1024
"""Most bytes of a file: some hosts keep their history beside their settings."""


def read_document(path: Path, data: bytes, section: str) -> HostDocument:
    """Read a file by the ending of its name; raise ``ConfigError`` if it cannot be read, or a package is missing."""
    text = decode_text(data, path, MAX_BYTES, encoding="utf-8")
    try:
        if path.suffix in (".toml", ".yaml", ".yml"):
            document = (_Toml if path.suffix == ".toml" else _Yaml)(path, text, section)
            document.servers().items()
            return document
    except ImportError as error:
        raise ConfigError(f"{path} needs more packages ({error.name}): {describe_install('gateway')}") from None
    except AttributeError:
        raise ConfigError(f"{path}: {section} is no table with servers in it") from None
    return _Json(path, text, section)


# --- JSON -------------------------------------------------------------------------------------------------------

_TOKEN = re.compile(
    r"(?P<space>\s+|//[^\n]*|/\*[^*]*+(?:\*++[^/*][^*]*+)*+\*++/)|(?P<string>\"(?:[^\"\\\n]|\\.)*+\")|(?P<mark>[{}\[\],:])"
    r"|(?P<word>[^\s\"{}\[\],:/]++)"
)
_LINE_COMMENT = re.compile(r"[ \t]*+(?://[^\n]*+|/\*[^*\n]*+(?:\*++[^/*\n][^*\n]*+)*+\*++/[ \t]*+(?=\n))")


class _Member(Struct):
    """A member of an object: where its name begins, where its value begins and ends, and where its comma is."""

    name: str
    start: int
    value: int
    end: int
    comma: int | None


class _Object(Struct):
    """An object: the places of its braces, and its members."""

    opens: int
    members: list[_Member]
    closes: int


class _Json:
    """JSON, with comments and trailing commas where a host allows them."""

    def __init__(self, path: Path, text: str, section: str) -> None:
        self._path = path
        self._text = text if text.strip("\ufeff \t\r\n") else "{}\n"
        self._section = section
        self._tokens = self._list_tokens()
        self._root = self._object(0)
        held = [member for member in self._root.members if member.name == section]
        if len(held) > 1:
            raise self._wrong(held[1].start, f"{section} stands here for the second time; leave one of them")
        self._held = (
            self._object(bisect_left(self._tokens, held[0].value, key=lambda token: token[1])) if held else None
        )

    def servers(self) -> dict[str, Any]:
        return {} if self._held is None else {entry.name: self._value(entry) for entry in self._held.members}

    def changed(self, *, without: list[str], added: Mapping[str, Any]) -> str:
        if self._held is not None:
            return self._rebuilt(self._held, without, added, depth=2)
        return self._rebuilt(self._root, [], {self._section: dict(added)} if added else {}, depth=1)

    # --- places ---------------------------------------------------------------------------------------------------

    def _list_tokens(self) -> list[tuple[str, int, int]]:
        """Return kind, begin and end of each token, without spaces and comments."""
        found: list[tuple[str, int, int]] = []
        at = 1 if self._text.startswith("\ufeff") else 0
        while at < len(self._text):
            match = _TOKEN.match(self._text, at)
            if match is None:
                raise self._wrong(at, "not JSON")
            if match.lastgroup != "space":
                found.append((cast("str", match.lastgroup), match.start(), match.end()))
            at = match.end()
        return found

    def _object(self, index: int) -> _Object:
        if self._kind(index) != "{":
            raise self._wrong(self._tokens[index][1], "an object is wanted here")
        opens = self._tokens[index][1]
        members: list[_Member] = []
        index += 1
        while self._kind(index) != "}":
            if self._kind(index) != "string" or self._kind(index + 1) != ":":
                raise self._wrong(self._tokens[index][1], "a member is wanted here")
            _, start, end = self._tokens[index]
            after = self._after_value(index + 2)
            comma = self._tokens[after][1] if self._kind(after) == "," else None
            if comma is None and self._kind(after) != "}":
                raise self._wrong(self._tokens[after][1], "a comma is wanted here")
            name = json.loads(self._text[start:end])
            members.append(_Member(name, start, self._tokens[index + 2][1], self._tokens[after - 1][2], comma))
            index = after + (comma is not None)
        return _Object(opens, members, self._tokens[index][1])

    def _kind(self, index: int) -> str:
        if index >= len(self._tokens):
            raise self._wrong(len(self._text), "the end is missing")
        kind, start, end = self._tokens[index]
        return self._text[start:end] if kind == "mark" else kind

    def _after_value(self, index: int) -> int:
        """Return the index of the token after the value that begins at one."""
        depth = 0
        while True:
            kind = self._kind(index)
            depth += (kind in ("{", "[")) - (kind in ("}", "]"))
            index += 1
            if depth <= 0:
                return index

    def _value(self, entry: _Member) -> Any:
        try:
            return read_json(self._text[entry.value : entry.end])
        except ConfigError as error:
            at = getattr(error.__context__, "pos", 0)
            raise self._wrong(entry.value + at, f"{entry.name}: {str(error).partition(': ')[2]}") from None

    # --- changes --------------------------------------------------------------------------------------------------

    def _rebuilt(self, changed: _Object, without: list[str], added: Mapping[str, Any], *, depth: int) -> str:
        """Return the text with an object put together again from its own pieces, without and with some members."""
        text, removed = self._text, {*without}
        found = re.search(r"^([ \t]+)\"", text, re.MULTILINE)
        indent = found[1] if found is not None else "  "
        pieces: list[str] = []
        at = changed.opens + 1
        for member in changed.members:
            behind = member.end if member.comma is None else member.comma + 1
            # A comment behind a comma belongs to the member before the comma.
            comment = _LINE_COMMENT.match(text, behind)
            ends = behind if comment is None else comment.end()
            if member.name not in removed:
                # Commas are written again: none after the last member, unless there was one.
                pieces.append(text[at : behind - (member.comma is not None)] + ",\0" + text[behind:ends])
            at = ends
        pad = "\n" + indent * depth
        for name, value in added.items():
            written = json.dumps(value, indent=indent, ensure_ascii=False).replace("\n", pad)
            pieces.append(f"{pad}{json.dumps(name)}: {written},\0")
        trailing = bool(changed.members) and changed.members[-1].comma is not None
        body = "".join(pieces)
        if not trailing:
            body = "".join(body.rsplit(",\0", 1))
        after = text[at : changed.closes]
        if pieces and "\n" in pieces[-1] and "\n" not in after:
            after = after.rstrip() + "\n" + indent * (depth - 1)
        return text[: changed.opens + 1] + body.replace("\0", "") + after + text[changed.closes :]

    def _wrong(self, at: int, what: str) -> ConfigError:
        line = self._text.count("\n", 0, at) + 1
        return ConfigError(f"{self._path}, line {line}, column {at - self._text.rfind(chr(10), 0, at)}: {what}")


# --- TOML and YAML ----------------------------------------------------------------------------------------------


class _Toml:
    def __init__(self, path: Path, text: str, section: str) -> None:
        import tomlkit
        from tomlkit.exceptions import TOMLKitError

        try:
            self._document: Any = tomlkit.parse(text)
        except TOMLKitError as error:
            raise ConfigError(f"{path}: not TOML: {error}") from None
        self._section = section

    def servers(self) -> dict[str, Any]:
        return self._document.get(self._section, {}).unwrap() if self._section in self._document else {}

    def changed(self, *, without: list[str], added: Mapping[str, Any]) -> str:
        import tomlkit

        before = tomlkit.dumps(self._document)
        document: Any = tomlkit.parse(before)
        for name in without:
            del document[self._section][name]
        if added and self._section not in document:
            document[self._section] = tomlkit.table(is_super_table=True)
        for name, value in added.items():
            document[self._section][name] = tomlkit.item(value)
        text = tomlkit.dumps(document)
        for value in added.values():
            # The blank line before the next table went with the table that was removed.
            last = tomlkit.dumps(value).rstrip("\n").rpartition("\n")[2]
            text = text.replace(f"\n{last}\n[", f"\n{last}\n\n[")
        text = text if "\n\n\n" in before else re.sub(r"\n{3,}", "\n\n", text)
        return text if before.endswith("\n\n") else re.sub(r"\n{2,}\Z", "\n", text)


class _Yaml:
    def __init__(self, path: Path, text: str, section: str) -> None:
        from ruamel.yaml import YAML
        from ruamel.yaml.error import YAMLError

        self._yaml: Any = YAML()
        self._yaml.preserve_quotes = True
        self._text = text
        self._section = section
        try:
            self._document: dict[Any, Any] = self._yaml.load(text) or {}
        except YAMLError as error:
            raise ConfigError(f"{path}: not YAML: {error}") from None

    def servers(self) -> dict[str, Any]:
        found: Any = self._document.get(self._section) or {}
        return {str(name): entry for name, entry in found.items()}

    def changed(self, *, without: list[str], added: Mapping[str, Any]) -> str:
        # Read again, so that the entries that ``servers`` returned are not changed.
        document: dict[Any, Any] = self._yaml.load(self._text) or {}
        if not document.get(self._section):
            document[self._section] = {}
        for name in without:
            del document[self._section][name]
        document[self._section].update(added)
        written = io.StringIO()
        self._yaml.dump(document, written)
        return written.getvalue()


HostDocument = _Json | _Toml | _Yaml
"""A file with servers in a section of it: ``servers`` returns the entries as they are, ``changed`` the new text without
some entries, and with others at the end of the section. Nothing is written."""
