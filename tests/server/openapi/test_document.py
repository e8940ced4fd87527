"""Where documents come from, what their references lead to, and what hostile ones are refused for."""

from __future__ import annotations

import json
from collections import OrderedDict
from pathlib import Path

import pytest
from referencing import Registry

from antiphon import Server
from antiphon.errors import ConfigError
from tests.server.openapi.api import describe, document


def serve(described, **options):
    """Make a server of a document, without an API behind it."""
    return Server.from_openapi(described, client=print, **{"base_url": "https://api.test", **options})


def schema_of(server, name="op"):
    """Return the input schema of a tool."""
    return server.tools.get(name).definition.input_schema


def refer(reference):
    """Return the document of an operation whose body is elsewhere."""
    content = {"application/json": {"schema": {"$ref": reference}}}
    return describe("post", "/p", requestBody={"content": content})


YAML = """
openapi: 3.0.0
info: {title: Pets, version: 1.0}
paths:
  /p:
    get:
      operationId: op
      parameters:
        - {name: day, in: query, schema: {type: string, enum: [2020-01-01, yes]}}
      responses: {200: {description: ok}}
"""


def test_a_document_is_a_mapping_a_file_or_text(tmp_path):
    """A file may be named by a path or by text."""
    described = describe("get", "/p")
    path = tmp_path / "ä pets.json"
    path.write_text(json.dumps(described), encoding="utf-8")
    for given in (described, json.dumps(described), path, str(path)):
        assert serve(given).tools.names() == ["op"]


def test_yaml_is_read_as_its_version_1_2():
    """Dates and yes are text, and the status of an answer is a name."""
    assert schema_of(serve(YAML))["properties"]["day"]["enum"] == ["2020-01-01", "yes"]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"swagger": "2.0"}, "swagger '2.0': convert it first"),
        ({"openapi": "4.0.0"}, "openapi '4.0.0'"),
        ("{", "no JSON or YAML"),
        ("[1]\n", "not a mapping"),
        ("/no/such/file.json", "cannot be read"),
        (5, "is a mapping, the path of a file"),
        ('{"a":' * 100_000, "no JSON or YAML"),
    ],
)
def test_what_is_no_document_is_refused(given, problem):
    """The message says what it is and what to do."""
    with pytest.raises(ConfigError, match=problem):
        serve(given)


def test_aliases_of_yaml_cannot_stand_for_millions():
    """Each use of an alias counts."""
    bomb = "\n".join(
        ["openapi: 3.0.0", "a0: &a0 [x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9))]
    )
    with pytest.raises(ConfigError, match="more than 2,000,000 values"):
        serve(bomb)


def test_every_part_may_be_a_reference():
    """Path items, parameters, bodies and schemas, at any place of the document (fastmcp#786)."""
    described = document(
        {"/p": {"$ref": "#/x-paths/p"}},
        **{
            "x-paths": {
                "p": {
                    "post": {
                        "operationId": "op",
                        "parameters": [{"$ref": "#/components/parameters/limit"}],
                        "requestBody": {"$ref": "#/components/requestBodies/pet"},
                    }
                }
            }
        },
        components={
            "parameters": {"limit": {"name": "limit", "in": "query", "schema": {"$ref": "#/x-common/limit~1size"}}},
            "requestBodies": {
                "pet": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}}}
            },
            "schemas": {"Pet": {"type": "object", "additionalProperties": {"$ref": "#/components/schemas/Pet"}}},
        },
    )
    described["x-common"] = {"limit/size": {"type": "integer"}}
    schema = schema_of(serve(described))
    assert schema["properties"] == {"limit": {"$ref": "#/$defs/limit_1size"}, "body": {"$ref": "#/$defs/Pet"}}
    assert schema["$defs"]["limit_1size"] == {"type": "integer"}
    assert schema["$defs"]["Pet"] == {"type": "object", "additionalProperties": {"$ref": "#/$defs/Pet"}}


def test_a_reference_may_name_an_anchor():
    """3.1 has the anchors of JSON Schema."""
    described = refer("#pet")
    described["components"] = {"schemas": {"Pet": {"$anchor": "pet", "type": "object"}}}
    assert schema_of(serve(described))["$defs"] == {"pet": {"type": "object"}}
    described["$defs"] = {"Pet": {"type": "string"}}
    assert schema_of(serve(described))["$defs"] == {"pet": {"type": "object"}}


def test_names_of_schemas_are_looked_for_once(monkeypatch):
    """A search for each of a thousand anchors would take minutes."""
    searches = []
    search = Registry.crawl
    monkeypatch.setattr(Registry, "crawl", lambda registry: searches.append(1) or search(registry))
    parts = {f"S{number}": {"$anchor": f"a{number}", "type": "string"} for number in range(50)}
    described = refer("#a0")
    described["paths"]["/p"]["post"]["requestBody"]["content"]["application/json"]["schema"] = {
        "anyOf": [{"$ref": f"#a{number}"} for number in range(50)]
    }
    described["components"] = {"schemas": parts}
    serve(described)
    assert sum(searches) == 1


def test_names_are_not_looked_for_at_millions_of_places():
    """A mapping of Python may hold one schema at each of them; the path of a schema is found at once."""
    schema = {"type": "string"}
    for _ in range(24):
        schema = {"type": "object", "properties": {"x": schema, "y": schema}}
    parts = {"Large": schema, "Pet": {"$anchor": "pet", "type": "object"}}
    with pytest.raises(ConfigError, match="over 2,000,000 parts: write it as '#/"):
        serve(refer("#pet") | {"components": {"schemas": parts}})
    made = serve(refer("#/components/schemas/Pet") | {"components": {"schemas": parts}})
    assert schema_of(made)["$defs"] == {"Pet": {"type": "object"}}


@pytest.mark.parametrize(
    "reference", ["file:///etc/passwd", "http://192.0.2.1/x.json#/a", "other.json", "\\\\host\\x", "//host/x"]
)
def test_no_other_document_is_fetched_unasked(reference):
    """Not even from this machine: the caller says what may be read (fastmcp#2293)."""
    with pytest.raises(ConfigError, match=r"POST /p: .ref .* leaves the document, and references= has no"):
        serve(refer(reference))


def test_other_documents_are_those_that_the_caller_has(tmp_path):
    """As a mapping or a function; what they refer to is relative to them."""
    other = {"Pet": {"type": "object", "properties": {"tag": {"$ref": "more.json#/Tag"}}}}
    more = {"Tag": {"type": "string"}, "openapi": "3.1.0"}
    folder = {"https://api.test/docs/other.json": other, "https://api.test/docs/more.json": more}
    for references in (folder, folder.__getitem__):
        schema = schema_of(serve(refer("https://api.test/docs/other.json#/Pet"), references=references))
        assert schema["$defs"]["Pet"]["properties"] == {"tag": {"$ref": "#/$defs/Tag"}}
        assert schema["$defs"]["Tag"] == {"type": "string"}
    path = tmp_path / "api.json"
    path.write_text(json.dumps(refer("./other.json#/Pet")), encoding="utf-8")
    (tmp_path / "other.json").write_text(json.dumps({"Pet": {"type": "object"}}), encoding="utf-8")

    def read(uri):
        assert uri == (tmp_path / "other.json").as_uri()
        return Path(tmp_path / "other.json")

    assert schema_of(serve(path, references=read))["$defs"] == {"Pet": {"type": "object"}}


def test_a_chain_of_documents_ends():
    """Each may refer to another one, without end."""

    def make(uri):
        number = int(uri.rpartition("/")[2])
        return {"X": {"$ref": f"https://api.test/{number + 1}#/X"}}

    with pytest.raises(ConfigError, match="more than 100 documents"):
        serve(refer("https://api.test/1#/X"), references=make)


@pytest.mark.parametrize(
    "reference", ["#/components/schemas/None", "#/paths/0/1", "#/paths/~1p/post/x", "#nothing", "#/a%ZZ"]
)
def test_a_reference_to_nothing_names_its_operation(reference):
    """When the server is made, not when a client asks; include= is the way around."""
    described = refer(reference)
    described["paths"]["/q"] = {"get": {"operationId": "fine"}}
    with pytest.raises(ConfigError, match=r"POST /p: \$ref .* leads nowhere .*include="):
        serve(described)
    assert serve(described, include=lambda each: each.method == "GET").tools.names() == ["fine"]


def test_references_are_found_in_containers_of_other_readers():
    """Readers of YAML that keep comments return types of their own, derived from those of Python."""

    class Items(list):
        """A list of such a reader."""

    content = OrderedDict({"application/json": {"schema": {"anyOf": Items([{"$ref": "#/none"}])}}})
    with pytest.raises(ConfigError, match=r"POST /p: \$ref '#/none' leads nowhere"):
        serve(describe("post", "/p", requestBody=OrderedDict(content=content)))


def test_references_in_a_circle_are_no_trap():
    """Of schemas they mean nothing but themselves (fastmcp#1206); of parameters nothing can be read."""
    described = refer("#/components/schemas/A")
    described["components"] = {
        "schemas": {"A": {"$ref": "#/components/schemas/B"}, "B": {"$ref": "#/components/schemas/A"}},
        "parameters": {"P": {"$ref": "#/components/parameters/P"}},
    }
    assert set(schema_of(serve(described))["$defs"]) == {"A", "B"}
    with pytest.raises(ConfigError, match="more than 20 references in a row"):
        serve(
            document({"/p": {"get": {"parameters": [{"$ref": "#/components/parameters/P"}]}}})
            | {"components": described["components"]}
        )


def test_a_python_object_within_itself_ends():
    """A mapping that the caller made may contain itself."""
    schema = {"type": "object"}
    schema["properties"] = {"again": schema}
    made = serve(describe("post", "/p", requestBody={"content": {"application/json": {"schema": schema}}}))
    assert schema_of(made)["properties"]["body"]["type"] == "object"


def test_deep_documents_are_refused():
    """A walk without recursion finds them."""
    schema = {}
    for _ in range(3_000):
        schema = {"items": schema}
    with pytest.raises(ConfigError, match="POST /p: the document nests deeper than 200"):
        serve(describe("post", "/p", requestBody={"content": {"application/json": {"schema": schema}}}))


def test_a_million_parameters_are_refused():
    """The message names the operation and the way around."""
    parameters = [{"name": f"p{number}", "in": "query"} for number in range(1_000_000)]
    with pytest.raises(ConfigError, match="GET /p: more than 500 parameters: leave it out by include="):
        serve(describe("get", "/p", parameters=parameters))


@pytest.mark.parametrize("version", ["3.1", "3.0.3"])
def test_the_version_may_be_a_number(version):
    """YAML has 3.1 as one."""
    assert serve(f"openapi: {version}\ninfo: {{title: a}}\npaths: {{/p: {{get: {{}}}}}}\n").tools.names() == ["get_p"]


def test_an_address_is_not_fetched():
    """The message says how to."""
    with pytest.raises(ConfigError, match=r"is not fetched: give its text, as in httpx\.get\(url\)\.text"):
        serve("https://api.test/openapi.json")


def test_keys_that_are_no_text_are_named():
    """YAML has numbers and truth values there; the status of an answer may be one."""
    described = describe("post", "/p", responses={200: {"description": "ok"}})
    assert serve(described).tools.names() == ["op"]
    content = {"application/json": {"schema": {"properties": {True: {}}}}}
    with pytest.raises(ConfigError, match=r"POST /p: the key True is no text: quote it, or give the YAML as text"):
        serve(describe("post", "/p", requestBody={"content": content}))
    assert serve(document({5: {"get": {}}, "/p": {"get": {}}})).tools.names() == ["get_p"]
    schemes = {5: {"type": "apiKey", "in": "query", "name": "key"}}
    assert serve(describe("get", "/p") | {"components": {"securitySchemes": schemes}}).tools.names() == ["op"]
