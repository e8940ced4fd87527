"""What an answer becomes, and which features an API has: tools, resources and templates."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from antiphon import Client, ResourceNotFound, Server
from antiphon.errors import ConfigError, InternalError
from antiphon.server import ApiAnswer
from antiphon.types import EmbeddedResource, ImageContent, TextContent
from tests.server.openapi.api import APP, calling, describe, document
from tests.support.asgi import running

PET = {"type": "object", "properties": {"id": {"type": "integer"}, "name": {"type": "string"}}}


def answering(schema, **more):
    """Return the document of an operation whose answers fit a schema."""
    content = {"application/json": {"schema": schema}}
    return describe("get", "/answer/{kind}", responses={"200": {"content": content}}, **more)


async def ask(kind, described=None, **options):
    """Return the result of one call."""
    async with calling(described or describe("get", "/answer/{kind}"), **options) as client:
        return await client.call_tool("op", {"kind": kind})


async def test_an_object_is_structured_content():
    """With or without a schema of it, and as text, too."""
    for described in (None, answering({**PET, "properties": {"id": {"type": "integer"}}})):
        result = await ask("pet", described)
        assert result.structured_content == {"id": 1, "name": None}
        assert result.content[0].text == '{"id":1,"name":null}'


async def test_a_list_stands_under_result_if_the_document_describes_it():
    """Structured content is an object always."""
    assert (await ask("list")).structured_content is None
    result = await ask("list", answering({"type": "array", "items": {"type": "integer"}}))
    assert result.structured_content == {"result": [1, 2]}


async def test_an_answer_that_differs_from_its_document_is_an_error_with_the_answer():
    """A result must fit the schema that was listed (fastmcp#1241); the model learns that the request was done."""
    result = await ask("pet", answering(PET))
    assert result.is_error
    text = result.content[0].text
    assert text.startswith("HTTP 200: the request succeeded, but not with what the API describes")
    assert text.endswith('{"id":1,"name":null}')


async def test_answers_can_be_left_unchecked():
    """For an API whose document is wrong (fastmcp#2472): then no output schema is listed."""
    async with calling(answering(PET), check_answers=False) as client:
        assert [tool.output_schema for tool in (await client.list_tools()).tools] == [None]
        assert (await client.call_tool("op", {"kind": "pet"})).structured_content == {"id": 1, "name": None}


async def test_an_answer_without_content_breaks_no_promise():
    """An operation that may answer 204 has no output schema."""
    described = answering(PET)
    described["paths"]["/answer/{kind}"]["get"]["responses"]["204"] = {"description": "nothing"}
    async with calling(described) as client:
        assert [tool.output_schema for tool in (await client.list_tools()).tools] == [None]
        assert (await client.call_tool("op", {"kind": "nothing"})).content[0].text == "HTTP 204, without content"
    assert (await ask("nothing", answering(PET))).is_error


async def test_failures_are_errors_with_a_part_of_their_body():
    """The model can act on what the API says; it cannot be flooded by it."""
    result = await ask("missing")
    assert result.is_error and result.content[0].text == 'HTTP 404\n{"detail":"no such pet"}'
    result = await ask("broken")
    assert result.is_error and len(result.content[0].text) < 5_000


async def test_a_redirect_is_not_followed():
    """The client's credentials would go along; an address that the document promises is an answer."""
    result = await ask("elsewhere")
    assert result.is_error and "http://192.0.2.1/secret, which is not followed" in result.content[0].text
    result = await ask("elsewhere", describe("get", "/answer/{kind}", responses={"302": {"description": "found"}}))
    assert not result.is_error and result.content[0].text == "HTTP 302: http://192.0.2.1/secret"


async def test_answers_are_bounded_in_size_and_time():
    """The rest of a long answer is not read."""
    assert "more than 1,048,576 bytes" in (await ask("large")).content[0].text
    assert not (await ask("large", max_answer=4_000_000)).is_error

    async def wait(request):
        await asyncio.Event().wait()

    described = describe("get", "/answer/{kind}")
    async with Client(Server.from_openapi(described, client=wait, base_url="http://a.test", timeout=0.01)) as client:
        result = await client.call_tool("op", {"kind": "x"})
    assert result.content[0].text == "the API has not answered within 0.01 s"


async def test_a_failing_client_tells_a_model_no_address():
    """It may hold a key."""

    async def fail(request):
        raise RuntimeError("no route to https://api.test/?key=secret")

    async with Client(Server.from_openapi(describe("get", "/p"), client=fail, base_url="http://a.test")) as client:
        result = await client.call_tool("op", {})
    assert result.is_error and result.content[0].text == "the API could not be asked: RuntimeError"


@pytest.mark.parametrize(
    ("kind", "type_"),
    [("image", ImageContent), ("zip", EmbeddedResource), ("text", TextContent), ("false", TextContent)],
)
async def test_other_answers_are_content_of_their_kind(kind, type_):
    """Bytes stay bytes; JSON that is none is an error."""
    result = await ask(kind)
    assert isinstance(result.content[0], type_)
    assert result.is_error is (kind == "false")


async def test_arguments_are_checked_before_anything_is_sent():
    """Unknown ones as well, since a model that invents one should learn that it has no effect."""
    parameters = [{"name": "n", "in": "query", "schema": {"type": "integer"}}]
    async with calling(describe("get", "/p", parameters=parameters)) as client:
        assert '"n"' in (await client.call_tool("op", {"n": "x"})).content[0].text
        assert (await client.call_tool("op", {"m": 1})).is_error


async def test_the_method_says_what_a_tool_may_do():
    """As RFC 9110 has it: a GET only reads, PUT and DELETE can be repeated."""
    methods = ("get", "put", "post", "delete")
    paths = {"/p": {method: {"operationId": method} for method in methods}}
    async with calling(document(paths)) as client:
        hints = {tool.name: tool.annotations for tool in (await client.list_tools()).tools}
    assert [each.read_only_hint for each in hints.values()] == [True, False, False, False]
    assert [bool(each.idempotent_hint) for each in hints.values()] == [False, True, False, True]
    assert hints["delete"].destructive_hint and not hints["post"].destructive_hint


async def test_a_rule_makes_resources_and_templates_of_gets():
    """Their parameters become gaps, of the types that they have."""
    paths = {
        "/answer/pet": {"get": {"operationId": "pet"}, "delete": {"operationId": "remove"}},
        "/all/{kind}": {
            "get": {
                "operationId": "all",
                "parameters": [
                    {"name": "kind", "in": "path", "required": True, "schema": {"type": "string"}},
                    {"name": "per-page", "in": "query", "schema": {"type": "integer"}},
                    {"name": "only", "in": "query", "explode": False, "schema": {"type": "array"}},
                ],
            }
        },
        "/answer/{kind}": {"get": {"operationId": "answer"}},
    }
    async with calling(document(paths), resources=lambda operation: True) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["remove"]
        assert [each.uri for each in (await client.list_resources()).resources] == ["openapi://pets/answer/pet"]
        templates = (await client.list_resource_templates()).resource_templates
        assert templates[0].uri_template == "openapi://pets/all/{kind}{?per_page,only}"
        assert (await client.read_resource("openapi://pets/answer/pet")).contents[0].text == '{"id":1,"name":null}'
        read = await client.read_resource("openapi://pets/all/cats?per_page=5&only=a,b")
        assert '"query":"per-page=5&only=a,b"' in read.contents[0].text
        with pytest.raises(ResourceNotFound):
            await client.read_resource("openapi://pets/answer/missing")
        with pytest.raises(InternalError):
            await client.read_resource("openapi://pets/answer/broken")


def test_what_fits_into_no_uri_is_no_resource():
    """The message says which rule to change."""
    described = describe("get", "/p", parameters=[{"name": "X-A", "in": "header", "required": True, "schema": {}}])
    with pytest.raises(ConfigError, match=r"GET /p: a resource has no 'X-A': let resources= return False"):
        Server.from_openapi(described, client=print, base_url="http://a.test", resources=lambda operation: True)


async def test_an_api_can_be_mounted_beside_other_tools():
    """A server of an API is a server as any other."""
    main = Server("main")
    async with running(APP, "off") as place, httpx.AsyncClient(base_url=f"http://{place}") as http:
        main.mount(Server.from_openapi(describe("get", "/answer/{kind}"), client=http), "pets")
        async with Client(main) as client:
            assert (await client.call_tool("pets__op", {"kind": "text"})).content[0].text == "hello"


def test_a_client_is_needed():
    """The message names all that can be one."""
    with pytest.raises(ConfigError, match=r"httpx\.AsyncClient, or an async function"):
        Server.from_openapi(describe("get", "/p"), client="https://api.test")


async def test_a_function_that_answers_too_much_is_bounded_as_well():
    """No client may fill a model's context."""

    async def flood(request):
        return ApiAnswer(status=200, headers={}, body=b"x" * 2_000_000)

    async with Client(Server.from_openapi(describe("get", "/p"), client=flood, base_url="http://a.test")) as client:
        assert (await client.call_tool("op", {})).is_error
