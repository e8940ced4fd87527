"""Thirty operations of different shapes, called on an API whose requests a framework of its own reads: aiohttp.

The document is written in OpenAPI; the API says what it understood, in its own terms. Both sides were written apart,
so what arrives is what was asked only if requests have the form that OpenAPI and HTTP give them.
"""

from __future__ import annotations

from base64 import b64encode
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import httpx
import pytest
from aiohttp import web

from antiphon import Client, Server
from tests.server.openapi.api import document

ODD = "a b/ü&c=d+e%2F;f,g#h?i"
"""A text with what is special in paths, queries, forms and headers."""
PNG = b"\x89PNG\r\n\x1a\n\x00\xff--"
LIST = {"type": "array", "items": {"type": "string"}}
FILE = {"type": "string", "format": "binary"}


class Shape(NamedTuple):
    """An operation, the arguments of a call, and what the API has to understand."""

    method: str
    path: str
    arguments: dict[str, Any]
    read: dict[str, Any]
    parameters: tuple[dict[str, Any], ...] = ()
    body: dict[str, Any] | None = None


def at(place: str, name: str, schema: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """Return a parameter."""
    return {"name": name, "in": place, "required": place == "path", "schema": schema or {"type": "string"}, **more}


def holding(media_type: str, schema: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """Return a request body."""
    return {"required": True, "content": {media_type: {"schema": schema or {}, **more}}}


FORM, PARTS = "application/x-www-form-urlencoded", "multipart/form-data"
SHAPES = {
    "path_text": Shape("get", "/a/{id}", {"id": ODD}, {"path": {"id": ODD}}, (at("path", "id"),)),
    "path_number": Shape("get", "/b/{n}", {"n": 7}, {"path": {"n": "7"}}, (at("path", "n", {"type": "integer"}),)),
    "path_two": Shape(
        "get", "/c/{x}/of/{y}", {"x": "1/2", "y": "ö"}, {"path": {"x": "1/2", "y": "ö"}},
        (at("path", "x"), at("path", "y")),
    ),
    "path_list": Shape("get", "/d/{l}", {"l": ["a", "b"]}, {"path": {"l": "a,b"}}, (at("path", "l", LIST),)),
    "path_label": Shape("get", "/e/{v}", {"v": "x"}, {"path": {"v": ".x"}}, (at("path", "v", style="label"),)),
    "path_matrix": Shape("get", "/f/{v}", {"v": "x"}, {"path": {"v": ";v=x"}}, (at("path", "v", style="matrix"),)),
    "path_suffix": Shape("get", "/g/{id}.json", {"id": "a.b"}, {"path": {"id": "a.b"}}, (at("path", "id"),)),
    "query_text": Shape("get", "/h", {"q": ODD}, {"query": [["q", ODD]]}, (at("query", "q"),)),
    "query_true": Shape("get", "/i", {"q": True}, {"query": [["q", "true"]]}, (at("query", "q", {"type": "boolean"}),)),
    "query_none": Shape("get", "/j", {}, {"query": []}, (at("query", "q"),)),
    "query_list": Shape(
        "get", "/k", {"q": ["a b", "c&d"]}, {"query": [["q", "a b"], ["q", "c&d"]]}, (at("query", "q", LIST),)
    ),
    "query_commas": Shape(
        "get", "/l", {"q": ["a", "b"]}, {"query": [["q", "a,b"]]}, (at("query", "q", LIST, explode=False),)
    ),
    "query_pipes": Shape(
        "get", "/m", {"q": ["a", "b"]}, {"query": [["q", "a|b"]]},
        (at("query", "q", LIST, style="pipeDelimited", explode=False),),
    ),
    "query_spaces": Shape(
        "get", "/n", {"q": ["a", "b"]}, {"query": [["q", "a b"]]},
        (at("query", "q", LIST, style="spaceDelimited", explode=False),),
    ),
    "query_deep": Shape(
        "get", "/o", {"q": {"a": "1", "b": {"c": "=&"}}}, {"query": [["q[a]", "1"], ["q[b][c]", "=&"]]},
        (at("query", "q", {"type": "object"}, style="deepObject"),),
    ),
    "query_object": Shape(
        "get", "/p", {"q": {"a": "1", "b&": "2"}}, {"query": [["a", "1"], ["b&", "2"]]},
        (at("query", "q", {"type": "object"}),),
    ),
    "query_json": Shape(
        "get", "/q", {"q": {"a": [1]}}, {"query": [["q", '{"a":[1]}']]},
        ({"name": "q", "in": "query", "content": {"application/json": {"schema": {"type": "object"}}}},),
    ),
    "query_named_so": Shape("get", "/r", {"a_b": "x"}, {"query": [["a[b]", "x"]]}, (at("query", "a[b]"),)),
    "header_text": Shape("get", "/s", {"X-A": "b; c=d"}, {"headers": {"X-A": "b; c=d"}}, (at("header", "X-A"),)),
    "header_list": Shape("get", "/t", {"X-A": ["b", "c"]}, {"headers": {"X-A": "b,c"}}, (at("header", "X-A", LIST),)),
    "cookie_text": Shape("get", "/u", {"c": "x; y=1"}, {"cookies": {"c": "x%3B%20y%3D1"}}, (at("cookie", "c"),)),
    "cookies_two": Shape(
        "get", "/v", {"c": "1", "d": "2"}, {"cookies": {"c": "1", "d": "2"}}, (at("cookie", "c"), at("cookie", "d"))
    ),
    "body_json": Shape(
        "post", "/w", {"body": {"a": [1, None, ODD]}}, {"json": {"a": [1, None, ODD]}}, (), holding("application/json")
    ),
    "body_patch": Shape(
        "patch", "/x/{id}", {"id": "1", "body": {"a": None}}, {"path": {"id": "1"}, "json": {"a": None}},
        (at("path", "id"),), holding("application/merge-patch+json"),
    ),
    "body_form": Shape(
        "post", "/y", {"body": {"a": ODD, "l": ["1", "2"]}}, {"form": [["a", ODD], ["l", "1"], ["l", "2"]]},
        (), holding(FORM),
    ),
    "body_deep_form": Shape(
        "post", "/z", {"body": {"d": {"e": "f&"}}}, {"form": [["d[e]", "f&"]]}, (),
        holding(FORM, {"properties": {"d": {"type": "object"}}}, encoding={"d": {"style": "deepObject"}}),
    ),
    "body_file": Shape(
        "put", "/aa", {"body": {"f": b64encode(PNG).decode(), "n": "ü", "m": {"a": 1}}},
        {"form": [["f", PNG.hex()], ["n", "ü"], ["m", '{"a":1}']]}, (),
        holding(PARTS, {"type": "object", "properties": {"f": FILE}}, encoding={"f": {"contentType": "image/png"}}),
    ),
    "body_files": Shape(
        "post", "/bb", {"body": {"f": [b64encode(PNG).decode(), "AAAA"]}},
        {"form": [["f", PNG.hex()], ["f", "000000"]]}, (),
        holding(PARTS, {"type": "object", "properties": {"f": {"type": "array", "items": FILE}}}),
    ),
    "body_bytes": Shape(
        "put", "/cc", {"body": b64encode(PNG).decode()}, {"bytes": PNG.hex()},
        (), holding("application/octet-stream", FILE),
    ),
    "body_text": Shape("post", "/dd", {"body": ODD}, {"text": ODD}, (), holding("text/plain", {"type": "string"})),
    "all_places": Shape(
        "delete", "/ee/{id}", {"id": "1", "id_query": "2", "X-Id": "3", "body": {"id": 4}},
        {"path": {"id": "1"}, "query": [["id", "2"]], "headers": {"X-Id": "3"}, "json": {"id": 4}},
        (at("path", "id"), at("query", "id"), at("header", "X-Id")), holding("application/json"),
    ),
}  # fmt: skip


def describe_api() -> dict[str, Any]:
    """Return the document of all shapes; each answers with what it has read."""
    answers = {"200": {"content": {"application/json": {"schema": {"type": "object", "required": ["method"]}}}}}
    paths: dict[str, Any] = {}
    for name, shape in SHAPES.items():
        body = {} if shape.body is None else {"requestBody": shape.body}
        operation = {"operationId": name, "parameters": list(shape.parameters), "responses": answers, **body}
        paths[shape.path] = {shape.method: operation}
    return document(paths)


def read_field(field: Any) -> str:
    """Return what aiohttp has of a field: a file, the bytes of a part with a type of its own, or a text."""
    if isinstance(field, web.FileField):
        return field.file.read().hex()
    return field if isinstance(field, str) else bytes(field).decode()


async def read_request(request: web.Request) -> web.Response:
    """Answer with what aiohttp reads of a request."""
    read: dict[str, Any] = {
        "method": request.method,
        "path": dict(request.match_info),
        "query": [list(pair) for pair in request.query.items()],
        "headers": {name: value for name, value in request.headers.items() if name.startswith("X-")},
        "cookies": dict(request.cookies),
    }
    kind = request.content_type if request.can_read_body else ""
    if kind.endswith("json"):
        read["json"] = await request.json()
    elif kind in (FORM, PARTS):
        read["form"] = [[name, read_field(each)] for name, each in (await request.post()).items()]
    elif kind == "text/plain":
        read["text"] = await request.text()
    elif kind:
        read["bytes"] = (await request.read()).hex()
    return web.json_response(read)


@asynccontextmanager
async def serving_api():
    """Run the API; yields its address."""
    app = web.Application()
    for shape in SHAPES.values():
        app.router.add_route(shape.method, shape.path, read_request)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_thirty_operations_of_different_shapes_arrive_as_they_were_asked(revision):
    """Of each: the method, the path, and every place that the document names; nothing stands at another place."""
    assert len(SHAPES) >= 30
    async with serving_api() as address, httpx.AsyncClient(base_url=address) as http:
        server = Server.from_openapi(describe_api(), client=http)
        async with Client(server, revision=revision) as client:
            assert {tool.name async for tool in client.tools()} == set(SHAPES)
            for name, shape in SHAPES.items():
                result = await client.call_tool(name, shape.arguments)
                assert not result.is_error, (name, result)
                expected = {"path": {}, "query": [], "headers": {}, "cookies": {}, **shape.read}
                assert result.structured_content == {"method": shape.method.upper(), **expected}, name
