"""Thirty operations of one document, each really called on the API that the document describes."""

from __future__ import annotations

import httpx
import pytest

from antiphon import Client, Server
from antiphon.errors import ConfigError
from tests.server.openapi.api import APP, calling, document
from tests.support.asgi import running

KINDS = ("pets", "people", "visits", "shops", "bills")
PET = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "tag": {"type": "string"}}}


def describe_shop():
    """Return a document with six operations for each of five kinds of things."""
    sent = {
        "type": "object",
        "required": ["method", "path", "query", "headers", "body"],
        "properties": {"method": {"type": "string"}, "path": {"type": "string"}, "headers": {"type": "object"}},
    }
    answers = {
        "200": {"description": "ok", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Sent"}}}}
    }
    thing = {"required": True, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Thing"}}}}
    number = {"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}
    page = {"name": "page", "in": "query", "schema": {"type": "integer", "minimum": 1}}
    paths = {}
    for kind in KINDS:
        paths[f"/{kind}"] = {
            "get": {"operationId": f"list_{kind}", "parameters": [page], "responses": answers},
            "post": {"operationId": f"add_{kind}", "requestBody": thing, "responses": answers},
        }
        paths[f"/{kind}/{{id}}"] = {
            "parameters": [number],
            **{
                method: {"operationId": f"{verb}_{kind}", "responses": answers}
                for method, verb in (("get", "get"), ("delete", "delete"), ("put", "replace"), ("patch", "change"))
            },
        }
        for method in ("put", "patch"):
            paths[f"/{kind}/{{id}}"][method]["requestBody"] = thing
    return document(paths, "3.0.3", components={"schemas": {"Sent": sent, "Thing": PET}})


@pytest.mark.parametrize("kind", KINDS)
async def test_thirty_operations_are_called(kind):
    """Five times six of them, over a real socket: method, path, query and body arrive, the answer fits its schema."""
    async with calling(describe_shop()) as client:
        assert len((await client.list_tools()).tools) == 30
        pet = {"name": "Ö/1", "tag": "x"}
        calls = [
            ("list", {"page": 2}, "GET", f"/{kind}", "page=2", ""),
            ("add", {"body": pet}, "POST", f"/{kind}", "", '{"name":"Ö/1","tag":"x"}'),
            ("get", {"id": 7}, "GET", f"/{kind}/7", "", ""),
            ("delete", {"id": 7}, "DELETE", f"/{kind}/7", "", ""),
            ("replace", {"id": 7, "body": pet}, "PUT", f"/{kind}/7", "", '{"name":"Ö/1","tag":"x"}'),
            ("change", {"id": 7, "body": pet}, "PATCH", f"/{kind}/7", "", '{"name":"Ö/1","tag":"x"}'),
        ]
        for verb, arguments, method, path, query, body in calls:
            result = await client.call_tool(f"{verb}_{kind}", arguments)
            sent = result.structured_content
            assert not result.is_error
            assert (sent["method"], sent["path"], sent["query"]) == (method, path, query)
            assert sent["body"].encode("latin-1").decode() == body


async def test_a_client_that_is_none_is_refused_before_anything_is_served():
    """An object with no methods of httpx, and no function."""
    with pytest.raises(ConfigError, match="async function of an ApiRequest"):
        Server.from_openapi(describe_shop(), client=object())


async def test_the_client_signs_requests_in():
    """Its headers go along with each request, and no model sees them."""
    async with (
        running(APP, "off") as place,
        httpx.AsyncClient(base_url=f"http://{place}", headers={"Authorization": "Bearer s3cret"}) as http,
        Client(Server.from_openapi(describe_shop(), client=http)) as client,
    ):
        tools = await client.list_tools()
        result = await client.call_tool("get_pets", {"id": 1})
    assert result.structured_content["headers"]["authorization"] == "Bearer s3cret"
    assert "authorization" not in str(tools).lower()
