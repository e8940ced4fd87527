"""What a call sends, as a real API receives it: every style of a parameter, every kind of body, and nothing else."""

from __future__ import annotations

from base64 import b64encode

import httpx
import pytest

from antiphon import Client, Server
from antiphon.errors import ConfigError
from antiphon.server import ApiAnswer, ApiRequest
from tests.server.openapi.api import APP, calling, describe, send
from tests.support.asgi import running

LIST, OBJECT = ["a b", "c/d"], {"x": 1, "y": "ö"}


def one(place, **more):
    """Return the document of an operation with one parameter."""
    path = "/p/{v}/end" if place == "path" else "/p"
    return describe("get", path, parameters=[{"name": "v", "in": place, "required": True, "schema": {}, **more}])


@pytest.mark.parametrize(
    ("style", "explode", "value", "sent"),
    [
        ("simple", False, "a/b c", "a%2Fb%20c"),
        ("simple", False, 5, "5"),
        ("simple", False, True, "true"),
        ("simple", False, LIST, "a%20b,c%2Fd"),
        ("simple", True, LIST, "a%20b,c%2Fd"),
        ("simple", False, OBJECT, "x,1,y,%C3%B6"),
        ("simple", True, OBJECT, "x=1,y=%C3%B6"),
        ("label", False, "a.b", ".a.b"),
        ("label", False, LIST, ".a%20b,c%2Fd"),
        ("label", True, LIST, ".a%20b.c%2Fd"),
        ("label", False, OBJECT, ".x,1,y,%C3%B6"),
        ("label", True, OBJECT, ".x=1.y=%C3%B6"),
        ("matrix", False, "a;b", ";v=a%3Bb"),
        ("matrix", False, LIST, ";v=a%20b,c%2Fd"),
        ("matrix", True, LIST, ";v=a%20b;v=c%2Fd"),
        ("matrix", False, OBJECT, ";v=x,1,y,%C3%B6"),
        ("matrix", True, OBJECT, ";x=1;y=%C3%B6"),
    ],
)
async def test_a_path_has_every_style(style, explode, value, sent):
    """RFC 6570, as OpenAPI names it; no value adds a segment."""
    seen = await send(one("path", style=style, explode=explode), {"v": value})
    assert seen["path"] == f"/p/{sent}/end"


@pytest.mark.parametrize(
    ("style", "explode", "value", "sent"),
    [
        ("form", True, "a&b=c#d+e", "v=a%26b%3Dc%23d%2Be"),
        ("form", True, LIST, "v=a%20b&v=c%2Fd"),
        ("form", False, LIST, "v=a%20b,c%2Fd"),
        ("form", True, OBJECT, "x=1&y=%C3%B6"),
        ("form", False, OBJECT, "v=x,1,y,%C3%B6"),
        ("spaceDelimited", False, LIST, "v=a%20b%20c%2Fd"),
        ("spaceDelimited", True, LIST, "v=a%20b&v=c%2Fd"),
        ("pipeDelimited", False, LIST, "v=a%20b%7Cc%2Fd"),
        ("pipeDelimited", True, LIST, "v=a%20b&v=c%2Fd"),
        ("deepObject", True, OBJECT, "v%5Bx%5D=1&v%5By%5D=%C3%B6"),
        ("deepObject", True, {"in": {"a": [1, 2]}}, "v%5Bin%5D%5Ba%5D%5B0%5D=1&v%5Bin%5D%5Ba%5D%5B1%5D=2"),
        ("deepObject", True, {"a][b": 1}, "v%5Ba__b%5D=1"),
    ],
)
async def test_a_query_has_every_style(style, explode, value, sent):
    """Delimiters between values stay as they are, those within a value are encoded (fastmcp#1004, #4488)."""
    seen = await send(one("query", style=style, explode=explode), {"v": value})
    assert seen["query"] == sent


async def test_reserved_characters_stay_where_the_document_allows_them():
    """Those that would end the value or begin another parameter are encoded all the same."""
    seen = await send(one("query", allowReserved=True), {"v": "a/b?c:d&admin=1#x"})
    assert seen["query"] == "v=a/b?c:d%26admin%3D1%23x"


@pytest.mark.parametrize(("place", "sent"), [("path", "/p/a%3Fb%3D1%2Fc%3Bd/end"), ("cookie", "v=a%3Fb%3D1%2Fc%3Bd")])
async def test_reserved_characters_are_encoded_outside_of_queries(place, sent):
    """OpenAPI 3.1 allows them in queries alone: elsewhere they lead to another path, or begin another cookie."""
    seen = await send(one(place, allowReserved=True), {"v": "a?b=1/c;d"})
    assert {"path": seen["path"], "cookie": seen["headers"].get("cookie")}[place] == sent


async def test_an_empty_item_of_a_matrix_is_its_name_alone():
    """RFC 6570, 3.2.7: the sign is left out."""
    assert (await send(one("path", style="matrix", explode=True), {"v": ["", "a"]}))["path"] == "/p/;v;v=a/end"


async def test_headers_and_cookies_have_their_styles():
    """A header's values are not encoded; a cookie's are, so that none begins another cookie."""
    parameters = [
        {"name": "X-List", "in": "header", "schema": {}},
        {"name": "X-Object", "in": "header", "explode": True, "schema": {}},
        {"name": "plain", "in": "cookie", "schema": {}},
        {"name": "several", "in": "cookie", "explode": False, "schema": {}},
    ]
    given = {"X-List": [1, "b c"], "X-Object": {"a": 1, "b": 2}, "plain": "x; admin=1", "several": ["a", "b"]}
    seen = await send(describe("get", "/p", parameters=parameters), given)
    assert seen["headers"]["x-list"] == "1,b c"
    assert seen["headers"]["x-object"] == "a=1,b=2"
    assert seen["headers"]["cookie"] == "plain=x%3B%20admin%3D1; several=a,b"


@pytest.mark.parametrize("place", ["path", "query", "header"])
async def test_a_parameter_with_a_media_type_is_json(place):
    """``content`` in place of ``schema``."""
    described = one(place, content={"application/json": {"schema": {"type": "object"}}})
    seen = await send(described, {"v": {"a": [1]}})
    found = {"path": seen["path"], "query": seen["query"], "header": seen["headers"].get("v")}
    assert found[place] in ('{"a":[1]}', "v=%7B%22a%22%3A%5B1%5D%7D", "/p/%7B%22a%22%3A%5B1%5D%7D/end")


async def test_a_parameter_of_a_text_type_is_not_quoted():
    """JSON has signs around a text, which are a part of the value elsewhere."""
    content = {"text/plain": {"schema": {"type": "string"}}}
    assert (await send(one("query", content=content), {"v": "a b"}))["query"] == "v=a%20b"


@pytest.mark.parametrize(
    "value",
    [
        "..",
        ".",
        "../admin",
        "a/../../admin",
        "..\\admin",
        "%2e%2e/admin",
        "..%2Fadmin",
        "..;/admin",
        "a\r\nb",
        "\0",
        "",
    ],
)
async def test_no_value_leads_out_of_its_path(value):
    """Servers differ in what they decode before they look for dots, so all of these are refused."""
    async with calling(one("path")) as client:
        result = await client.call_tool("op", {"v": value})
    assert result.is_error
    assert "'v'" in result.content[0].text


async def test_values_together_do_not_lead_out_of_the_path_either():
    """Two gaps beside each other could hold a dot each."""
    parameters = [{"name": name, "in": "path", "required": True, "schema": {}} for name in "ab"]
    async with calling(describe("get", "/x/{a}{b}/y", parameters=parameters)) as client:
        assert (await client.call_tool("op", {"a": ".a", "b": "b."})).structured_content["path"] == "/x/.ab./y"
        for pair in ({"a": ".", "b": "."}, {"a": "", "b": ".."}):
            assert (await client.call_tool("op", pair)).is_error


@pytest.mark.parametrize("value", ["a\r\nAuthorization: b", "a\nb", "\x00", "ö"])
async def test_no_value_ends_a_header(value):
    """A line break would begin another header."""
    async with calling(one("header")) as client:
        assert (await client.call_tool("op", {"v": value})).is_error


async def test_headers_of_http_itself_are_not_for_a_model():
    """OpenAPI says so of three; the others would change whose request it is, or where it ends."""
    names = ("Authorization", "Host", "Content-Length", "Cookie", "Transfer-Encoding", "X-A\r\nX-B", "X-Fine")
    parameters = [{"name": name, "in": "header", "schema": {}} for name in names]
    server = Server.from_openapi(describe("get", "/p", parameters=parameters), client=print, base_url="http://a.test")
    assert list(server.tools.get("op").definition.input_schema["properties"]) == ["X-Fine"]


def body(media_type, schema, **more):
    """Return the document of an operation with a body."""
    content = {media_type: {"schema": schema, **more}}
    return describe("post", "/p", requestBody={"required": True, "content": content})


async def test_a_json_body_is_sent_as_it_was_given():
    """Also with a media type of its own."""
    seen = await send(body("application/vnd.pets+json", {}), {"body": {"a": [1, None]}})
    assert (seen["headers"]["content-type"], seen["body"]) == ("application/vnd.pets+json", '{"a":[1,null]}')


async def test_plain_json_is_chosen_among_media_types():
    """Then JSON that merges, as Kubernetes offers it beside three other patches."""
    for names, chosen in (
        (["text/plain", "application/x-www-form-urlencoded", "application/json"], "application/json"),
        (["application/json-patch+json", "application/merge-patch+json"], "application/merge-patch+json"),
        (["*/*"], "application/json"),
    ):
        content = {name: {"schema": {}} for name in names}
        seen = await send(describe("post", "/p", requestBody={"content": content}), {"body": {}})
        assert seen["headers"]["content-type"] == chosen


async def test_a_form_repeats_lists_and_writes_objects_as_json():
    """The document may say another style for a member, as Stripe's does."""
    schema = {"type": "object", "properties": {"deep": {"type": "object"}}}
    described = body("application/x-www-form-urlencoded", schema, encoding={"deep": {"style": "deepObject"}})
    given = {"a": "x&y=z", "list": [1, 2], "object": {"b": 1}, "deep": {"c": {"d": [5]}}, "none": None}
    seen = await send(described, {"body": given})
    assert seen["headers"]["content-type"] == "application/x-www-form-urlencoded"
    assert seen["body"] == "a=x%26y%3Dz&list=1&list=2&object=%7B%22b%22%3A1%7D&deep%5Bc%5D%5Bd%5D%5B0%5D=5"


@pytest.mark.parametrize("media_type", ["application/x-www-form-urlencoded", "multipart/form-data"])
async def test_a_form_has_members(media_type):
    """A document that does not describe them lets a model write anything, which would be no form."""
    async with calling(body(media_type, {})) as client:
        for value in ("a=1", [1], None):
            result = await client.call_tool("op", {"body": value})
            assert result.content[0].text == "argument 'body': expected an object, the members of the form"


async def test_any_multipart_body_is_a_form():
    """The document leaves the type open."""
    seen = await send(body("multipart/*", {}), {"body": {"a": "b"}})
    assert seen["headers"]["content-type"].startswith("multipart/form-data; boundary=")


async def test_files_of_a_multipart_body_are_base64_in_the_arguments():
    """Names are escaped as browsers do, so that none begins another part."""
    properties = {"file": {"type": "string", "format": "binary"}, "meta": {"type": "object"}}
    described = body("multipart/form-data", {"type": "object", "properties": properties})
    given = {"file": b64encode(b"\x89\x00").decode(), "meta": {"a": 1}, 'x"\r\nX: y': "text"}
    seen = await send(described, {"body": given})
    kind, _, boundary = seen["headers"]["content-type"].partition("; boundary=")
    first, second, third, end = seen["body"].split(f"--{boundary}")[1:]
    assert kind == "multipart/form-data"
    assert first == (
        '\r\nContent-Disposition: form-data; name="file"; filename="file"\r\n'
        "Content-Type: application/octet-stream\r\n\r\n\x89\x00\r\n"
    )
    assert second.endswith('name="meta"\r\nContent-Type: application/json\r\n\r\n{"a":1}\r\n')
    assert 'name="x%22%0D%0AX: y"\r\n' in third
    assert end == "--\r\n"


async def test_bytes_and_text_are_bodies_of_their_own():
    """Bytes are base64 in the arguments; what is no base64 is refused."""
    described = body("application/octet-stream", {"type": "string", "format": "binary"})
    assert (await send(described, {"body": b64encode(b"\xff\x00").decode()}))["body"] == "\xff\x00"
    assert (await send(body("text/csv", {"type": "string"}), {"body": "a,b"}))["body"] == "a,b"
    async with calling(described) as client:
        result = await client.call_tool("op", {"body": "not base64!"})
    assert "base64" in result.content[0].text


async def test_a_function_can_be_the_client():
    """It gets the whole request, and signs it in as it likes."""
    got = []

    async def ask(request: ApiRequest):
        got.append(request)
        return ApiAnswer(status=200, headers={"content-type": "text/plain"}, body=b"hello")

    async with Client(Server.from_openapi(one("query"), client=ask, base_url="https://api.test/v1/")) as client:
        assert (await client.call_tool("op", {"v": "x"})).content[0].text == "hello"
    assert got == [ApiRequest(method="GET", url="https://api.test/v1/p?v=x", headers={}, body=None)]


async def test_the_clients_own_cookies_are_sent_as_well():
    """The client httpx would put them in the place of those of the call."""
    async with running(APP, "off") as place, httpx.AsyncClient(cookies={"session": "s"}) as http:
        server = Server.from_openapi(one("cookie"), client=http, base_url=f"http://{place}")
        async with Client(server) as client:
            seen = (await client.call_tool("op", {"v": "1"})).structured_content
    assert sorted(seen["headers"]["cookie"].split("; ")) == ["session=s", "v=1"]


@pytest.mark.parametrize("value", [None, [], {}, {"": ""}])
async def test_no_value_leaves_its_gap_empty(value):
    """The path without it is another operation's: ``DELETE /pets/`` instead of ``DELETE /pets/7``."""
    async with calling(one("path", schema={"nullable": True})) as client:
        result = await client.call_tool("op", {"v": value})
    assert result.is_error and "must not be empty" in result.content[0].text


@pytest.mark.parametrize(
    ("path", "sent", "query"),
    [("/p?action=list", "/p", "action=list&v=1"), ("/p#second", "/p", "v=1"), ("/a b/ü", "/a%20b/%C3%BC", "v=1")],
)
async def test_a_path_of_the_document_is_an_address(path, sent, query):
    """Some documents have a query in it, or a fragment by which operations are told apart."""
    described = describe("get", path, parameters=[{"name": "v", "in": "query", "schema": {}}])
    seen = await send(described, {"v": 1})
    assert (seen["path"], seen["query"]) == (sent, query)


async def test_spaces_around_a_header_are_left_out():
    """HTTP has none there, and the client would refuse to send the request."""
    assert (await send(one("header"), {"v": " a b "}))["headers"]["v"] == "a b"


@pytest.mark.parametrize(("place", "given"), [("query", "key"), ("query", "KEY"), ("cookie", "session")])
async def test_no_member_of_an_object_sets_the_clients_key(place, given):
    """The members of an exploded object are sent as parameters of their own."""
    schemes = {
        "a": {"type": "apiKey", "in": "query", "name": "key"},
        "b": {"type": "apiKey", "in": "cookie", "name": "session"},
    }
    async with calling(one(place) | {"components": {"securitySchemes": schemes}}) as client:
        result = await client.call_tool("op", {"v": {"a": 1, given: "mine"}})
        assert result.is_error and "the key of the API's client" in result.content[0].text
        assert not (await client.call_tool("op", {"v": {"a": 1}})).is_error


async def test_a_member_of_a_parameter_in_json_is_none_of_the_clients_key():
    """It is sent inside of the parameter's value."""
    schemes = {"a": {"type": "apiKey", "in": "query", "name": "key"}}
    described = one("query", content={"application/json": {}}) | {"components": {"securitySchemes": schemes}}
    assert (await send(described, {"v": {"key": 1}}))["query"] == "v=%7B%22key%22%3A1%7D"


@pytest.mark.parametrize(
    ("media_type", "sent"),
    [
        ("text/plain; charset=ISO-8859-1", "text/plain; charset=utf-8"),
        ('text/csv; header=present; charset="utf-8"', "text/csv; header=present; charset=utf-8"),
        ("application/json; charset=utf-8; v=2", "application/json; charset=utf-8; v=2"),
    ],
)
async def test_a_body_has_the_parameters_of_its_media_type(media_type, sent):
    """Each once: the text is UTF-8, whatever the document says."""
    seen = await send(body(media_type, {"type": "string"}), {"body": "a"})
    assert seen["headers"]["content-type"] == sent


@pytest.mark.parametrize(
    ("media_type", "sent"), [("image/*", "application/octet-stream"), ("text/*", "text/plain; charset=utf-8")]
)
async def test_a_range_of_media_types_is_not_sent(media_type, sent):
    """A body has one type; the document leaves it open."""
    seen = await send(body(media_type, {"type": "string"}), {"body": "AAAA"})
    assert seen["headers"]["content-type"] == sent


async def test_xml_is_a_text_that_the_model_writes():
    """Sent as JSON, an object would not be of the type that the request has."""
    described = body("application/xml", {"type": "object", "properties": {"a": {"type": "integer"}}})
    seen = await send(described, {"body": "<p><a>1</a></p>"})
    assert seen["headers"]["content-type"].startswith("application/xml")
    assert seen["body"] == "<p><a>1</a></p>"


def test_a_client_that_is_not_asynchronous_is_refused():
    """Its request would be sent and its answer lost."""
    with pytest.raises(ConfigError, match=r"takes an httpx\.AsyncClient"):
        Server.from_openapi(one("query"), client=httpx.Client(base_url="https://api.test"))


async def test_a_client_that_is_closed_is_named_in_the_log(caplog):
    """It was opened around the making of the server, and not around its life."""
    async with httpx.AsyncClient(base_url="https://api.test") as http:
        server = Server.from_openapi(one("query"), client=http)
    async with Client(server) as client:
        assert (await client.call_tool("op", {"v": 1})).is_error
    assert "the client is closed: keep it open while the server runs" in caplog.text


@pytest.mark.parametrize("answer", [None, httpx.Response(200), ApiAnswer(status=200, headers={}, body="text")])
async def test_a_function_that_returns_something_else_is_named_in_the_log(answer, caplog):
    """The model can do nothing about it."""

    async def ask(request):
        return answer

    async with Client(Server.from_openapi(one("query"), client=ask, base_url="https://api.test")) as client:
        assert (await client.call_tool("op", {"v": 1})).is_error
    assert "must return an ApiAnswer, whose body is bytes" in caplog.text
