"""What an answer becomes, and which features an API has: tools, resources and templates."""

from __future__ import annotations

import asyncio
import gzip
import tracemalloc
import zlib

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from antiphon import Client, ResourceNotFound, Server
from antiphon.errors import ConfigError, InternalError, InvalidParams
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


@pytest.mark.parametrize(
    ("schema", "text", "sent"),
    [
        ({"$ref": "#/components/schemas/Number"}, "5", "5"),
        ({"type": ["integer", "null"]}, "5", "5"),
        ({"type": "number", "nullable": True}, "0.5", "0.5"),
        ({"type": ["integer", "string"]}, "a", "a"),
        ({"$ref": "#/components/schemas/Names"}, "a,b", "a,b"),
    ],
)
async def test_a_gap_has_the_type_that_its_schema_refers_to(schema, text, sent):
    """A text of a URI would fit no schema of numbers, and no reading would succeed."""
    parameters = [{"name": "v", "in": "query", "explode": False, "schema": schema}]
    described = describe("get", "/p", parameters=parameters)
    described["components"] = {"schemas": {"Number": {"type": "integer"}, "Names": {"type": "array"}}}
    async with calling(described, resources=lambda operation: True) as client:
        read = await client.read_resource(f"openapi://pets/p?v={text}")
    assert f'"query":"v={sent}"' in read.contents[0].text


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


async def serve_answer(answer, described=None):
    """Return the result of a call that the API answers so."""

    async def reply(request):
        return answer

    described = described or describe("get", "/a/{b}")
    server = Server.from_openapi(described, client=reply, base_url="https://ann:secret@api.test")
    async with Client(server) as client:
        return await client.call_tool("op", {"b": "c"} if "/a/{b}" in described["paths"] else {})


def answer_of(body, kind="application/json", status=200, **headers):
    """Return an answer."""
    return ApiAnswer(status=status, headers={"content-type": kind, **headers}, body=body)


@pytest.mark.parametrize("body", [b'\n {"a": 1}', b'\xef\xbb\xbf{"a": 1}', b'{\n"a": 1\n}\n'])
async def test_json_may_begin_with_a_mark_or_with_spaces(body):
    """As that of some frameworks does."""
    assert (await serve_answer(answer_of(body))).structured_content == {"a": 1}


async def test_an_answer_that_no_message_can_hold_is_an_error():
    """JSON in a message nests at most 128 deep; the client would see a broken reply."""
    result = await serve_answer(answer_of(b'{"a":' + b"[" * 120 + b"]" * 120 + b"}"))
    assert result.is_error and "nests deeper than 100" in result.content[0].text


async def test_several_lines_of_json_are_text():
    """They are no value together."""
    result = await serve_answer(answer_of(b'{"a":1}\n{"a":2}\n', "application/x-ndjson"))
    assert not result.is_error and result.content[0].text == '{"a":1}\n{"a":2}\n'


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("text/csv; charset=ISO-8859-1", "Zoë".encode("latin-1")),
        ('text/csv; charset="windows-1252"', "Zoë".encode("cp1252")),
        ("text/csv; charset=punycode", "Zoë".encode()),
    ],
)
async def test_text_is_read_in_its_encoding(kind, body):
    """Of those that are in use; any other is taken for UTF-8."""
    assert (await serve_answer(answer_of(body, kind))).content[0].text == "Zoë"


async def test_a_drawing_in_xml_is_text():
    """Models take no images of this type, and refuse the whole conversation."""
    assert isinstance((await serve_answer(answer_of(b"<svg/>", "image/svg+xml"))).content[0], TextContent)


async def test_no_part_of_the_address_is_told():
    """Its user and password are the author's."""
    result = await serve_answer(answer_of(b"PK", "application/zip"))
    assert result.content[0].resource.uri == "openapi:/a/%7Bb%7D"
    assert "secret" not in repr(result)


async def test_an_answer_is_a_redirect_only_with_an_address():
    """304 says that nothing has changed."""
    assert (await serve_answer(answer_of(b"", status=304))).content[0].text == "HTTP 304"


async def test_head_has_no_content_to_check():
    """Documents repeat the answers of GET there."""
    described = answering(PET)
    described["paths"] = {"/p": {"head": described["paths"]["/answer/{kind}"]["get"]}}
    assert not (await serve_answer(answer_of(b""), described)).is_error


async def test_a_value_that_no_path_can_hold_is_a_mistake_of_the_caller():
    """Of a template as well; the log has nothing of it."""
    described = describe("get", "/a/{b}")
    server = Server.from_openapi(described, client=print, base_url="https://api.test", resources=lambda operation: True)
    async with Client(server) as client:
        with pytest.raises(InvalidParams, match="cannot stand in a path"):
            await client.read_resource("openapi://pets/a/%2e%2e")


def test_a_resource_has_the_address_of_its_path():
    """Its characters are encoded; names that are alike in a URI are refused."""

    def serve(path):
        return Server.from_openapi(
            describe("get", path), client=print, base_url="https://api.test", resources=lambda operation: True
        )

    assert [each.uri for each in serve("/a b#c").resources] == ["openapi://pets/a%20b%23c"]
    with pytest.raises(ConfigError, match="like names in a URI: let resources= return False"):
        serve("/{a-b}/{a_b}")


@pytest.mark.parametrize("packing", ["gzip", "deflate", "br"])
async def test_packed_answers_are_bounded_by_what_they_hold(packing):
    """A hundred megabytes of zeros are packed into some hundred kilobytes; no more is unpacked than may be answered."""
    data = bytes(100_000_000)
    packed = {"gzip": gzip.compress(data, 1), "deflate": zlib.compress(data, 1), "br": b"?"}[packing]
    small = {"gzip": gzip.compress(b"hello"), "deflate": zlib.compress(b"hello"), "br": b"?"}[packing]

    async def answer(request):
        body = packed if request.url.path.endswith("large") else small
        return Response(body, media_type="text/plain", headers={"content-encoding": packing})

    app = Starlette(routes=[Route("/answer/{kind}", answer)])
    async with running(app, "off") as place, httpx.AsyncClient(base_url=f"http://{place}") as http:
        server = Server.from_openapi(describe("get", "/answer/{kind}"), client=http)
        async with Client(server) as client:
            tracemalloc.start()
            large = await client.call_tool("op", {"kind": "large"})
            _, most = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            few = await client.call_tool("op", {"kind": "small"})
    assert large.is_error and most < 20_000_000
    assert few.content[0].text == (
        "the API's answer is packed as 'br', and gzip was asked for" if packing == "br" else "hello"
    )


async def test_a_test_may_stand_in_for_the_network():
    """Its answers were read before they are asked for."""
    transport = httpx.MockTransport(lambda request: httpx.Response(200, json={"a": 1}))
    async with httpx.AsyncClient(base_url="https://api.test", transport=transport) as http:
        server = Server.from_openapi(describe("get", "/p"), client=http)
        async with Client(server) as client:
            assert (await client.call_tool("op", {})).structured_content == {"a": 1}
