"""Params that HTTP headers repeat, and the encoding of text as header values.

2026-07-28 basic/transports/streamable-http, "Standard Request Headers", "Custom Headers from Tool Parameters" and
"Value Encoding". Owns which member of the params names a request, which annotations of a tool's ``inputSchema`` are
valid, which headers a call gets, and the encoding in both directions.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from msgspec import Struct

from antiphon.errors import LocalProtocolError, RemoteProtocolError
from antiphon.wire.tools import list_subschemas

NAMED_BY: Mapping[str, str] = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "task_id",
    "tasks/update": "task_id",
    "tasks/cancel": "task_id",
}
"""Methods that need ``Mcp-Name``, and the member of ``params`` it repeats, by its name in Python ("Standard Request
Headers")."""

PREFIX = "Mcp-Param-"
"""Prefix of the names of headers that repeat an argument."""

_ANNOTATION = "x-mcp-header"

# RFC 9110, section 5.6.2: tchar.
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_SENTINEL = re.compile(r"=\?base64\?(.*)\?=", re.DOTALL)

_PRIMITIVES = frozenset({"string", "integer", "boolean"})

_SAFE_INTEGER = 2**53 - 1
"""Largest integer that every JSON reader represents exactly ("MUST be within the safe range for JavaScript")."""

_MAX_DEPTH = 64
"""Deepest nesting of subschemas that is searched; real schemas nest below 10."""


class HeaderParam(Struct, frozen=True):
    """One argument that is mirrored in a header."""

    header: str
    """The full name of the header."""
    path: tuple[str, ...]
    """The ``properties`` keys that lead to the argument."""


def encode_value(text: str) -> str:
    """Encode text as a header value: unchanged if that is safe, else in the Base64 form."""
    # Visible ASCII with spaces inside. A tab is legal too, but proxies turn it into a space.
    is_plain = text.isascii() and text.isprintable() and text.strip(" ") == text
    if is_plain and not (text.startswith("=?") and _SENTINEL.fullmatch(text)):
        return text
    return f"=?base64?{b64encode(text.encode()).decode()}?="


def decode_value(value: str) -> str | None:
    """Undo ``encode_value``; ``None`` if the value claims to be Base64 of UTF-8 and is not."""
    encoded = _SENTINEL.fullmatch(value)
    if encoded is None:
        return value
    try:
        return b64decode(encoded[1], validate=True).decode()
    except (binascii.Error, ValueError):
        return None


def header_params(schema: Mapping[str, Any]) -> tuple[HeaderParam, ...]:
    """Find the arguments that ``inputSchema`` wants in headers; a tool with invalid ones must not be offered."""
    found: list[HeaderParam] = []
    names: set[str] = set()
    for path, annotation, types, reachable in _find_annotations(schema, (), reachable=True, depth=0):
        place = ".".join(path) or "the root of the schema"
        name = _check_annotation(annotation, types, place, reachable=reachable and bool(path))
        if name.lower() in names:
            raise RemoteProtocolError(f"{_ANNOTATION} {name!r} occurs twice (at {place})")
        names.add(name.lower())
        found.append(HeaderParam(PREFIX + name, path))
    return tuple(found)


def param_headers(params: Sequence[HeaderParam], arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers of a call, without absent arguments; ``LocalProtocolError`` for too large integers."""
    headers: dict[str, str] = {}
    for param in params:
        text = _format_value(find_argument(arguments, param.path), param)
        if text is not None:
            headers[param.header] = encode_value(text)
    return headers


def find_argument(arguments: object, path: Sequence[str]) -> Any:
    """Return the member of the arguments at a path, ``None`` if there is none."""
    for step in path:
        if not isinstance(arguments, Mapping):
            return None
        arguments = cast("Mapping[str, object]", arguments).get(step)
    return arguments


def _format_value(value: Any, param: HeaderParam) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int):
        return None
    if abs(value) > _SAFE_INTEGER:
        raise LocalProtocolError(f"{'.'.join(param.path)}: {value} is too large to travel in {param.header}")
    return str(value)


def _check_annotation(annotation: Any, types: frozenset[str], place: str, *, reachable: bool) -> str:
    if not reachable:
        raise RemoteProtocolError(f"{_ANNOTATION} at {place} cannot be reached through properties alone")
    if not isinstance(annotation, str) or not _TOKEN.fullmatch(annotation):
        raise RemoteProtocolError(f"{_ANNOTATION} at {place} is no header name")
    # A value that may also be null is allowed: "Parameter value is null: Client MUST omit the header".
    if not types - {"null"} or types - _PRIMITIVES - {"null"}:
        raise RemoteProtocolError(f"{_ANNOTATION} at {place} stands on what is neither string, integer nor boolean")
    return annotation


_Found = tuple[tuple[str, ...], Any, frozenset[str], bool]


def _find_annotations(schema: Any, path: tuple[str, ...], *, reachable: bool, depth: int) -> Iterator[_Found]:
    if not isinstance(schema, Mapping):
        return
    if depth > _MAX_DEPTH:
        raise RemoteProtocolError(f"the schema nests deeper than {_MAX_DEPTH}")
    here = cast("Mapping[str, Any]", schema)
    if _ANNOTATION in here:
        yield path, here[_ANNOTATION], _list_types(here), reachable
    for keyword, steps, inner in list_subschemas(here):
        is_reachable = reachable and keyword == "properties"
        yield from _find_annotations(inner, (*path, str(steps[-1])), reachable=is_reachable, depth=depth + 1)


def _list_types(schema: Mapping[str, Any]) -> frozenset[str]:
    """Return the types that ``type`` names; an empty set if it cannot be read."""
    types = schema.get("type")
    if isinstance(types, str):
        return frozenset((types,))
    listed = cast("list[Any]", types) if isinstance(types, list) else []
    return frozenset(each if isinstance(each, str) else "unknown" for each in listed)
