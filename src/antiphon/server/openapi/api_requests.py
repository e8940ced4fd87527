"""The request that a call becomes, and the caller's HTTP client that sends it.

Owns the styles of parameters and the encodings of bodies (OpenAPI 3.1, 4.8.12 and 4.8.14). Arguments are hostile:
each one is encoded for its place, and what would still change the place (``..`` in a path, a line break in a header) is
refused. The client adds what signs requests in; no redirect is followed, since its credentials would go along.
"""

from __future__ import annotations

import re
import secrets
import zlib
from base64 import b64decode
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, cast
from urllib.parse import quote, unquote

from msgspec import Struct

from antiphon.errors import ConfigError, ToolError
from antiphon.server.functions.arguments import ArgumentError
from antiphon.server.openapi.document import TABLES
from antiphon.wire.envelope import encode_value

_CONTROL = r"[\x00-\x1f\x7f]"
# What servers take for the end of a segment: some decode "%2F" first, some take "\" for "/", some ignore what follows
# ";".
_SEGMENT_ENDS = r"[/\\;?#]"
_RESERVED = "!$'()*,;:@/?[]"
"""Reserved characters (RFC 3986, 2.2) that may stand in a query; "&", "=", "+" and "#" would end a value."""


class ApiParameter(Struct, frozen=True, kw_only=True):
    """A parameter, the body, or a member of a form: where it goes and in which form."""

    name: str
    argument: str = ""
    """Its name among the tool's arguments."""
    place: str = "query"
    style: str = "form"
    explode: bool = True
    reserved: bool = False
    """Whether reserved characters stay as they are."""
    media_type: str = ""
    """The type that the document names, if it does."""
    kind: str = ""
    """How it is written: ``json``, ``form``, ``multipart``, ``text``, or ``bytes`` (base64 as an argument)."""
    members: Mapping[str, ApiParameter] = {}
    """The members of a form that the document describes."""


class ApiRequest(Struct, frozen=True, kw_only=True):
    """A request to the API, complete but for what the client adds."""

    method: str
    url: str
    headers: dict[str, str]
    body: bytes | None


class ApiAnswer(Struct, frozen=True, kw_only=True):
    """What the API answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes


SendRequest = Callable[[ApiRequest], Awaitable[ApiAnswer]]
"""Sends a request and returns the answer. It follows no redirects, and adds what signs the request in."""


def build_request(
    method: str, base: str, path: str, parameters: list[ApiParameter], arguments: dict[str, Any]
) -> ApiRequest:
    """Return the request for arguments that fit their schema; ``ArgumentError`` for a value that has no safe form."""
    gaps: dict[str, str] = {}
    pairs: dict[str, list[str]] = {"query": [], "cookie": []}
    headers: dict[str, str] = {}
    content = None
    for each in parameters:
        value = arguments.get(each.argument)
        if each.place == "path":
            gaps[each.name] = _fill_gap(each, value)
        elif each.place == "body" and each.argument in arguments:
            headers["Content-Type"], content = _encode_body(each, value)
        elif value is None:
            continue
        elif each.place == "header":
            headers[each.name] = ",".join(_expand_value(each, value, None)).strip(" ")
            if re.search(_CONTROL, headers[each.name]) or not headers[each.name].isascii():
                raise ArgumentError(f"argument {each.argument!r}: a header has no line breaks, and only ASCII")
        else:
            pairs[each.place] += _expand_value(each, value)
    if pairs["cookie"]:
        headers["Cookie"] = "; ".join(pairs["cookie"])
    # What follows "#" tells operations apart, and is never sent.
    pieces = re.split(r"\{([^{}]*)\}", path.partition("#")[0])
    filled = "".join(gaps[each] if at % 2 else quote(each, safe=f"{_RESERVED}&=+%") for at, each in enumerate(pieces))
    if any(each in (".", "..") for each in unquote(filled).split("/")):
        raise ArgumentError(f"the path {path!r} cannot hold these values together: they would lead out of it")
    query = "&".join(pairs["query"])
    url = base + filled + (("&" if "?" in filled else "?") + query if query else "")
    return ApiRequest(method=method, url=url, headers=headers, body=content)


def _list_texts(parameter: ApiParameter, value: Any) -> list[str]:
    """Return a value as texts: a list's items, an object's names and values in turn; deeper ones become JSON."""
    if parameter.kind == "json":
        return [encode_value(value).decode()]
    inner = cast("list[Any]", value) if isinstance(value, list) else [value]
    if isinstance(value, dict):
        inner = [each for pair in cast("dict[str, Any]", value).items() for each in pair]
    return [each if isinstance(each, str) else "" if each is None else encode_value(each).decode() for each in inner]


def _expand_value(parameter: ApiParameter, value: Any, safe: str | None = "") -> list[str]:
    """Return the texts that a value becomes in its style (RFC 6570); not encoded if ``safe`` is None."""
    safe = _RESERVED if parameter.reserved and safe is not None else safe
    style, name = parameter.style, quote(parameter.name, safe="")
    if style == "deepObject" and isinstance(value, dict | list):
        return _flatten_value(parameter, value, parameter.name, safe or "")
    texts = [each if safe is None else quote(each, safe=safe) for each in _list_texts(parameter, value)]
    if parameter.explode and isinstance(value, dict) and parameter.kind != "json":
        return [f"{key}={text}" for key, text in zip(texts[::2], texts[1::2], strict=True)]
    if not parameter.explode or not isinstance(value, list):
        texts = [TABLES.styles[parameter.place][style][2].join(texts)]
    if style in ("simple", "label"):
        return texts
    # Only a matrix has no sign for an empty value (RFC 6570, 3.2.7).
    return [f"{name}={text}" if text or style != "matrix" else name for text in texts]


def _flatten_value(parameter: ApiParameter, value: Any, prefix: str, safe: str) -> list[str]:
    """Return the members of an object as ``name[member]=value``, at any depth; arrays by their indices."""
    if not isinstance(value, dict | list):
        return [f"{quote(prefix, safe='')}={quote(_list_texts(parameter, value)[0], safe=safe)}"]
    members = cast("Any", value.items() if isinstance(value, dict) else enumerate(cast("list[Any]", value)))
    # A bracket in a name would open another level.
    keys = [(f"{prefix}[{re.sub('[][]', '_', str(key))}]", each) for key, each in members]
    return [pair for key, each in keys for pair in _flatten_value(parameter, each, key, safe)]


def _fill_gap(parameter: ApiParameter, value: Any) -> str:
    """Return the text of a gap in the path; ``ArgumentError`` for a value that could lead out of it."""
    pieces = _list_texts(parameter, value)
    # Decoded once more, as some servers do.
    for text in (*pieces, *map(unquote, pieces)):
        if re.search(_CONTROL, text) or any(each in (".", "..") for each in re.split(_SEGMENT_ENDS, text)):
            raise ArgumentError(f"argument {parameter.argument!r}: {text[:100]!r} cannot stand in a path")
    if not any(pieces):
        # Another operation has the path without it, which may delete everything.
        raise ArgumentError(f"argument {parameter.argument!r}: must not be empty, since it is a part of the path")
    start, separator, _ = TABLES.styles["path"][parameter.style]
    return start + separator.join(_expand_value(parameter, value))


def _encode_body(body: ApiParameter, value: Any) -> tuple[str, bytes]:
    """Return the media type of a body and its bytes."""
    if body.kind not in ("form", "multipart"):
        # The text is UTF-8, whatever the document says.
        bare = re.sub(r";\s*charset=[^;]*", "", body.media_type, flags=re.IGNORECASE)
        is_text = body.kind == "text" and isinstance(value, str)
        return f"{bare}; charset=utf-8" if is_text else body.media_type, _encode_plain(body, "body", value)
    if not isinstance(value, dict):
        raise ArgumentError("argument 'body': expected an object, the members of the form")
    members = [
        (body.members.get(name) or ApiParameter(name=name), each)
        for name, each in cast("dict[str, Any]", value).items()
        if each is not None
    ]
    if body.kind == "form":
        pairs: list[str] = []
        for member, inner in members:
            # By default an array repeats its name, and an object is JSON (OpenAPI 3.1, 4.8.15).
            items = cast("list[Any]", inner) if isinstance(inner, list) else [inner]
            is_json = member.style == "form" and any(isinstance(each, dict | list) for each in items)
            pairs += _expand_value(ApiParameter(name=member.name, kind="json") if is_json else member, inner)
        return body.media_type, "&".join(pairs).encode()
    boundary = secrets.token_hex(16)
    parts = b"".join(_encode_part(each, inner, boundary) for each, inner in members)
    return f"{body.media_type}; boundary={boundary}", parts + f"--{boundary}--\r\n".encode()


def _encode_part(member: ApiParameter, value: Any, boundary: str) -> bytes:
    """Return a member of a multipart body; an array becomes several parts of one name."""
    # As browsers write names (HTML, multipart form data): nothing in one can end it.
    label = re.sub(r'[\r\n"]', lambda sign: f"%{ord(sign[0]):02X}", member.name)
    file = f'; filename="{label}"' if member.kind == "bytes" else ""
    parts = b""
    for each in cast("list[Any]", value) if isinstance(value, list) else [value]:
        nested = "application/json" if isinstance(each, dict | list) else "text/plain; charset=utf-8"
        kind = member.media_type or nested
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="{label}"{file}\r\nContent-Type: {kind}\r\n\r\n'
        parts += head.encode(errors="replace") + _encode_plain(member, f"body.{member.name}", each) + b"\r\n"
    return parts


def _encode_plain(parameter: ApiParameter, place: str, value: Any) -> bytes:
    """Return the bytes of a body or of a part of one: a text as it is, the bytes that base64 stands for, or JSON."""
    if parameter.kind == "bytes":
        try:
            return b64decode(value, validate=True)
        except (TypeError, ValueError):
            raise ArgumentError(f"argument {place!r}: expected base64") from None
    is_text = isinstance(value, str) and parameter.kind != "json"
    return value.encode(errors="replace") if is_text else encode_value(value)


def make_sender(client: Any, most: int) -> SendRequest:
    """Return the function that sends requests by a client and reads at most ``most`` bytes of an answer."""
    # Only the client that is asynchronous has "aclose".
    is_httpx = hasattr(client, "build_request") and hasattr(client, "aclose")
    if not (callable(client) or is_httpx):
        raise ConfigError(
            "from_openapi(client=) takes an httpx.AsyncClient, or an async function of an ApiRequest that returns an "
            f"ApiAnswer, not {client!r:.100}"
        )
    ask = cast("SendRequest", partial(_ask_httpx, client, most) if is_httpx else client)

    async def send(request: ApiRequest) -> ApiAnswer:
        answer: Any = await ask(request)
        if not (isinstance(answer, ApiAnswer) and isinstance(cast("Any", answer.body), bytes)):
            raise ConfigError("from_openapi(client=): the function must return an ApiAnswer, whose body is bytes")
        if len(answer.body) > most:
            raise ToolError(f"the API's answer has more than {most:,} bytes: ask for less, as by a filter or a page")
        headers = {name.lower(): value for name, value in answer.headers.items()}
        return ApiAnswer(status=answer.status, headers=headers, body=answer.body)

    return send


async def _ask_httpx(client: Any, most: int, request: ApiRequest) -> ApiAnswer:
    if client.is_closed:
        raise ConfigError("from_openapi(client=): the client is closed: keep it open while the server runs")
    made = client.build_request(request.method, request.url, headers={"Accept-Encoding": "gzip"}, content=request.body)
    for name, value in request.headers.items():
        # The cookies of a call do not replace the client's own.
        own = [made.headers[name]] if name == "Cookie" and name in made.headers else []
        made.headers[name] = "; ".join([*own, value])
    response, body = await client.send(made, stream=True, follow_redirects=False), bytearray()
    packed = response.headers.get("content-encoding", "identity").lower()
    # httpx would unpack a whole piece at once, a thousand times its size. What a test has made is unpacked already.
    is_plain, inflater = packed == "identity" or response.is_stream_consumed, zlib.decompressobj(wbits=47)
    try:
        if not is_plain and packed not in ("gzip", "x-gzip", "deflate"):
            raise ToolError(f"the API's answer is packed as {packed[:50]!r}, and gzip was asked for")
        async for chunk in response.aiter_bytes() if is_plain else response.aiter_raw():
            body += chunk if is_plain else inflater.decompress(chunk, most + 1 - len(body))
            if len(body) > most:
                break
    finally:
        await response.aclose()
    return ApiAnswer(status=response.status_code, headers=response.headers, body=bytes(body))
