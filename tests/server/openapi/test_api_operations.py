"""Which operations become tools, under which names, at which address, with which arguments."""

from __future__ import annotations

import pytest

from antiphon import Server
from antiphon.errors import ConfigError
from antiphon.server import ApiAnswer
from tests.server.openapi.api import describe, document

EVERY = ("get", "put", "post", "delete", "options", "head", "patch", "trace")


def serve(described, **options):
    """Make a server of a document, without an API behind it."""
    return Server.from_openapi(described, client=print, **{"base_url": "https://api.test", **options})


def paths(*ids):
    """Return paths with one operation each."""
    return {f"/{number}": {"get": {"operationId": each}} for number, each in enumerate(ids)}


def test_every_method_is_an_operation():
    """Those that no model needs are left out by the caller."""
    described = document({"/p": {**{method: {} for method in EVERY}, "summary": "x", "x-get": {}}})
    assert serve(described).tools.names() == [f"{method}_p" for method in EVERY]


def test_the_server_is_called_as_its_document():
    """Other arguments are those of Server."""
    made = serve(describe("get", "/p"), instructions="Be kind.")
    assert (made.name, made.info.version, made.instructions) == ("Pets", "1", "Be kind.")
    assert serve(describe("get", "/p"), name="zoo").name == "zoo"


def test_names_have_at_most_64_characters_and_are_unique():
    """What is too long or taken ends in a digest of method and path, so that it stays when others are added."""
    long = "list_everything_that_" * 5
    names = serve(document(paths("pets/list", long, long + "x", "a b", "a_b", "日本"))).tools.names()
    assert names[0] == "pets_list"
    assert len(set(names)) == 6
    assert max(map(len, names)) == 64
    assert serve(document(paths("x", long))).tools.names()[1] == names[1]


def test_the_caller_chooses_operations():
    """By all that the document says of one at a glance."""
    described = document(
        {"/p": {"get": {"operationId": "a", "tags": ["pets"]}, "delete": {"operationId": "b", "deprecated": True}}}
    )
    assert serve(described, include=lambda each: "pets" in each.tags).tools.names() == ["a"]
    assert serve(described, include=lambda each: each.deprecated).tools.names() == ["b"]
    assert serve(described, include=lambda each: each.path == "/q").tools.names() == []


def test_the_caller_chooses_names():
    """By the ids, or by a function."""
    described = document(paths("a", "b"))
    assert serve(described, rename={"a": "first"}).tools.names() == ["first", "b"]
    assert serve(described, rename=lambda each: "z" if each.path == "/1" else None).tools.names() == ["a", "z"]
    for name, problem in (("b b", "is no name of at most 64"), ("x" * 65, "is no name")):
        with pytest.raises(ConfigError, match=problem):
            serve(described, rename={"a": name})
    with pytest.raises(ConfigError, match=r"rename=\): no operation has the operationId 'c'"):
        serve(described, rename={"a": "first", "c": "third"})
    with pytest.raises(ConfigError, match=r"GET /1: the name 'same' is taken: choose another one by rename="):
        serve(described, rename=lambda each: "same")


def test_arguments_of_one_name_are_told_apart():
    """The same name may stand in the path, the query and a header, or be that of the body."""
    parameters = [{"name": "id", "in": place, "required": True, "schema": {}} for place in ("query", "path", "header")]
    parameters += [
        {"name": name, "in": "query", "schema": {}} for name in ("body", "filter[a]", "filter.a", "$", "x" * 90)
    ]
    described = describe("post", "/p/{id}", parameters=parameters, requestBody={"content": {"text/plain": {}}})
    schema = serve(described).tools.get("op").definition.input_schema
    names = list(schema["properties"])
    assert names[:4] == ["id", "id_query", "id_header", "body_query"]
    assert names[4:7] == ["filter_a", "filter_a_query", "query"]
    assert names[7:] == ["x" * 64, "body"]
    assert schema["required"] == ["id", "id_query", "id_header"]


def test_the_operations_own_parameters_replace_those_of_its_path():
    """And a gap that nothing describes is a text all the same."""
    item = {
        "parameters": [{"name": "a", "in": "query", "schema": {"type": "string"}}],
        "get": {"operationId": "op", "parameters": [{"name": "a", "in": "query", "schema": {"type": "integer"}}]},
    }
    schema = serve(document({"/p/{gap}": item})).tools.get("op").definition.input_schema
    assert schema["properties"] == {"gap": {"type": "string"}, "a": {"type": "integer"}}
    assert schema["required"] == ["gap"]


def test_a_model_is_not_asked_for_the_key():
    """Some documents list it as a parameter; it is the client's."""
    parameters = [{"name": name, "in": "query", "schema": {}} for name in ("key", "page")]
    parameters += [{"name": "x-key", "in": "header", "schema": {}}]
    schemes = {
        "k": {"type": "apiKey", "in": "query", "name": "key"},
        "h": {"type": "apiKey", "in": "header", "name": "X-Key"},
    }
    described = describe("get", "/p", parameters=parameters) | {"components": {"securitySchemes": schemes}}
    assert list(serve(described).tools.get("op").definition.input_schema["properties"]) == ["page"]


def test_descriptions_come_from_the_document():
    """Summary and description, once if they are the same."""
    definition = (
        serve(describe("get", "/p", summary="List.", description="Long.", deprecated=True)).tools.get("op").definition
    )
    assert (definition.title, definition.description) == ("List.", "List.\n\nLong.\n\nThis operation is deprecated.")
    assert serve(describe("get", "/p")).tools.get("op").definition.description == "GET /p"


async def call_at(described, **options):
    """Return the address that an operation is called at."""
    got = []

    async def ask(request):
        got.append(request.url)
        return ApiAnswer(status=200, headers={}, body=b"")

    server = Server.from_openapi(described, client=ask, **options)
    await server.tools.get("op").call(b"{}")
    return got[0]


async def test_the_nearest_servers_are_those_of_the_operation():
    """Then those of its path, then the document's; base_url comes before all of them."""
    described = describe("get", "/p", servers=[{"url": "https://op.test"}])
    described["paths"]["/p"]["servers"] = [{"url": "https://path.test/"}]
    described["servers"] = [{"url": "https://api.test/v1"}]
    assert await call_at(described) == "https://op.test/p"
    del described["paths"]["/p"]["get"]["servers"]
    assert await call_at(described) == "https://path.test/p"
    del described["paths"]["/p"]["servers"]
    assert await call_at(described) == "https://api.test/v1/p"
    assert await call_at(described, base_url="http://mine.test/v2/") == "http://mine.test/v2/p"


async def test_variables_of_a_server_have_their_defaults():
    """Those that the document has as defaults."""
    variables = {"region": {"default": "eu", "enum": ["eu", "us"]}, "version": {"default": "v1"}}
    described = describe("get", "/p") | {
        "servers": [{"url": "https://{region}.api.test/{version}", "variables": variables}]
    }
    assert await call_at(described) == "https://eu.api.test/v1/p"


@pytest.mark.parametrize(
    "url",
    [
        "/v1",
        "ftp://api.test",
        "https://",
        "https://a.test/\r\nX: y",
        "file:///etc",
        "https://a.test/v1?x=1",
        "https://a.test/v1#f",
        "https://[a",
        "https://a.test:99999",
        "https://a.test\\@b.test",
        "https://a.test/v1/%2e%2e/v2",
        "https://{tenant}.a.test",
    ],
)
def test_an_address_of_no_server_is_refused(url):
    """A relative one is relative to where the document was, which nobody said."""
    with pytest.raises(ConfigError, match="say base_url="):
        Server.from_openapi(describe("get", "/p") | {"servers": [{"url": url}]}, client=print)


def test_a_relative_address_stands_in_the_remedy():
    """Only the host is missing."""
    with pytest.raises(ConfigError, match=r"say base_url='https://\.\.\./api/v3'"):
        Server.from_openapi(describe("get", "/p") | {"servers": [{"url": "/api/v3"}]}, client=print)


@pytest.mark.parametrize("name", ["include", "resources"])
def test_a_list_is_no_choice(name):
    """The message says what is."""
    with pytest.raises(
        ConfigError, match=rf"from_openapi\({name}=\) takes a function of an ApiOperation, not \['op'\]"
    ):
        serve(describe("get", "/p"), **{name: ["op"]})


@pytest.mark.parametrize("schema", [{}, True, False, None, 5])
def test_a_parameter_without_a_type_is_described(schema):
    """3.1 has schemas that are true or false; they are listed as anything."""
    described = describe(
        "get", "/p/{v}", parameters=[{"name": "v", "in": "path", "description": "Of a pet.", "schema": schema}]
    )
    assert serve(described).tools.get("op").definition.input_schema["properties"] == {"v": {"description": "Of a pet."}}
    assert len(list(serve(described, resources=lambda operation: True).templates)) == 1
