"""Resources and templates made of functions."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from pydantic import Field

from antiphon import Client, Server
from antiphon.errors import ConfigError, ResourceNotFound, ResultInvalid
from antiphon.server.context import Context
from antiphon.server.features.resources import ServedResource, ServedTemplate
from antiphon.server.functions.arguments import ArgumentError
from antiphon.wire.common import Annotations
from antiphon.wire.content import ResourceContents
from antiphon.wire.resources import ReadResourceResult


@dataclass
class Item:
    name: str
    page: int


def returning(value, **options) -> ServedResource:
    """Make a resource whose function returns a value."""
    return ServedResource.from_function(lambda: value, "shop://thing", name="thing", inline=True, **options)


def item(product: str, page: int = 1) -> Item:
    """Read an item."""
    return Item(product, page)


TEMPLATE = ServedTemplate.from_function(item, "shop://{product}{?page}", inline=True)


def test_a_resource_is_listed_with_what_is_known():
    """From the function and the options."""

    def price_list() -> str:
        """All prices."""
        return ""

    annotations = Annotations(priority=1)
    definition = ServedResource.from_function(
        price_list, "shop://prices", title="Prices", size=7, annotations=annotations, meta={"a": 1}
    ).definition
    assert (definition.uri, definition.name, definition.title) == ("shop://prices", "price_list", "Prices")
    assert (definition.description, definition.mime_type, definition.size) == ("All prices.", "text/plain", 7)
    assert (definition.annotations, definition.meta) == (annotations, {"a": 1})


@pytest.mark.parametrize(
    ("value", "mime_type", "text", "blob"),
    [
        ("a", "text/plain", "a", None),
        (b"\0", "application/octet-stream", None, base64.b64encode(b"\0").decode()),
        (memoryview(b"\0"), "application/octet-stream", None, base64.b64encode(b"\0").decode()),
        ({"a": 1}, "application/json", '{"a":1}', None),
        (Item("a", 1), "application/json", '{"name":"a","page":1}', None),
        (["a", "b"], "application/json", '["a","b"]', None),
    ],
)
async def test_what_is_returned_becomes_contents(value, mime_type, text, blob):
    """Text, bytes, or JSON for all else, under the URI that was asked for."""
    result = await returning(value).read("shop://thing")
    assert list(result.contents) == [ResourceContents(uri="shop://thing", mime_type=mime_type, text=text, blob=blob)]


async def test_several_contents_may_be_returned():
    """A folder holds its files."""
    inner = ResourceContents.of("shop://thing/1", "a")
    contents = (await returning([inner, "b", b"c"]).read("shop://thing")).contents
    assert [one.uri for one in contents] == ["shop://thing/1", "shop://thing", "shop://thing"]
    assert [one.bytes for one in contents] == [b"a", b"b", b"c"]


async def test_the_authors_media_type_wins():
    """Over the one that was guessed."""
    resource = returning("<a/>", mime_type="text/xml")
    assert resource.definition.mime_type == "text/xml"
    assert (await resource.read("shop://thing")).contents[0].mime_type == "text/xml"


async def test_a_finished_result_passes():
    """Untouched."""
    result = ReadResourceResult(contents=[])
    assert await returning(result).read("shop://thing") is result


@pytest.mark.parametrize(("value", "problem"), [(None, "returned nothing"), (object(), "no text, bytes or JSON")])
async def test_what_cannot_be_sent_is_refused(value, problem):
    """Naming the resource."""
    with pytest.raises(ResultInvalid, match=f'resource "shop://thing" .*{problem}'):
        await returning(value).read("shop://thing")


async def test_a_resource_can_hold_fixed_data():
    """Without a function."""
    resource = ServedResource.of("shop://logo", b"\0\1", name="logo", mime_type="image/png")
    assert (resource.definition.size, resource.definition.mime_type) == (2, "image/png")
    assert (await resource.read("shop://logo")).contents[0].bytes == b"\0\1"
    assert ServedResource.of("shop://motto", "é").definition.size == 2


async def test_the_context_is_passed():
    """To a resource or template that wants it."""

    async def who(ctx: Context, name: str = "") -> str:
        return f"{ctx}{name}"

    assert not returning("x").wants_context
    template = ServedTemplate.from_function(who, "who://{name}")
    assert template.wants_context
    assert (await template.read("who://b", "a")).contents[0].text == "ab"


def test_a_template_is_listed():
    """With its URI template."""
    definition = TEMPLATE.definition
    assert (definition.uri_template, definition.name, definition.description) == (
        "shop://{product}{?page}",
        "item",
        "Read an item.",
    )
    assert TEMPLATE.arguments == ("product", "page")


@pytest.mark.parametrize(
    ("uri", "text"),
    [
        ("shop://a%20b", '{"name":"a b","page":1}'),
        ("shop://a?page=3", '{"name":"a","page":3}'),
        ("shop://..%2Fx", '{"name":"../x","page":1}'),
    ],
)
async def test_gaps_become_typed_parameters(uri, text):
    """Decoded, and what is left out is the default."""
    assert (await TEMPLATE.read(uri)).contents[0].text == text


async def test_a_match_can_be_used_again():
    """Matching once is enough."""
    found = TEMPLATE.match("shop://a")
    assert found == {"product": "a"}
    assert (await TEMPLATE.read("shop://a", variables=found)).contents[0].uri == "shop://a"


async def test_an_exploded_gap_is_a_list():
    """Of the type that the parameter has."""
    template = ServedTemplate.from_function(lambda path: path, "sum:{/path*}", name="sum", inline=True)
    assert (await template.read("sum:/1/2")).contents[0].text == '["1","2"]'

    def add(path: list[int]) -> str:
        return str(sum(path))

    assert (await ServedTemplate.from_function(add, "sum:{/path*}").read("sum:/1/2")).contents[0].text == "3"


async def test_what_does_not_match_is_not_found():
    """With the URI in the data."""
    with pytest.raises(ResourceNotFound, match="Resource not found: other://a") as caught:
        await TEMPLATE.read("other://a")
    assert caught.value.data == {"uri": "other://a"}


async def test_a_gap_of_the_wrong_type_is_named():
    """It is the client's error."""
    with pytest.raises(ArgumentError, match='argument "page": expected integer, got string'):
        await TEMPLATE.read("shop://a?page=x")


def test_choices_are_known_for_completion():
    """Those of enums and literals."""

    def shelf(kind: Literal["new", "old"]) -> str:
        return kind

    assert set(ServedTemplate.from_function(shelf, "shelf://{kind}").choices["kind"]) == {"new", "old"}


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: ServedTemplate.from_function(item, "shop://{thing}"), r"no parameter takes the gap {thing}"),
        (lambda: ServedTemplate.from_function(item, "shop://{?page}"), r"parameter 'product' has no gap in the URI"),
        (lambda: ServedTemplate.from_function(item, "shop://{product"), "brace without its partner"),
        (
            lambda: ServedResource.from_function(item, "shop://x"),
            r"parameter 'product' has no gap in the URI; put {product}",
        ),
        (
            lambda: ServedResource.from_function(lambda: "", "things"),
            'needs a scheme of its own, as in "catalogue://things"',
        ),
    ],
)
def test_a_uri_and_a_function_that_differ_are_refused(make, problem):
    """Naming both."""
    with pytest.raises(ConfigError, match=problem):
        make()


def test_a_parameter_with_a_default_needs_no_gap():
    """It simply keeps its default."""
    assert ServedTemplate.from_function(item, "shop://{product}").arguments == ("product",)


@pytest.mark.parametrize(
    ("annotation", "mime_type"),
    [
        (str, "text/plain"),
        (bytes, "application/octet-stream"),
        (dict, "application/json"),
        (str | bytes, None),
        (int, None),
    ],
)
def test_the_media_type_is_guessed_from_the_annotation(annotation, mime_type):
    """Where it says enough."""

    def read(): ...

    read.__annotations__["return"] = annotation
    assert ServedResource.from_function(read, "a:b").definition.mime_type == mime_type


@pytest.mark.parametrize(
    ("uri", "spelt"),
    [
        ("app://fixed/h\u00e9llo world", "app://fixed/h%C3%A9llo%20world"),
        ("app://fixed/h%c3%a9", "app://fixed/h\u00e9"),
        ("app://fixed/\U0001f600", "app://fixed/%F0%9F%98%80"),
        ("app://fixed/a", "APP://fixed/%61"),
    ],
)
async def test_a_fixed_uri_is_read_in_every_spelling(uri, spelt):
    """The encoded form is the only one that is a URI."""
    server = Server("s")
    server.resource(uri)(lambda: "fixed")
    for revision in ("2025-11-25", "2026-07-28"):
        async with Client(server, revision=revision) as client:
            contents = (await client.read_resource(spelt)).contents
            assert contents[0].text == "fixed"


async def test_a_subscriber_of_the_encoded_form_is_told():
    """The server names the resource as its author wrote it."""
    server = Server("s")
    server.resource("app://my docs")(lambda: "x")
    for revision in ("2025-11-25", "2026-07-28"):
        async with Client(server, revision=revision) as client, client.listen(uris=["app://my%20docs"]) as changes:
            server.resource_updated("app://my docs")
            assert (await anext(aiter(changes))).uri == "app://my%20docs"


@pytest.mark.parametrize("kind", [str, int, dict[str, str], str | None])
def test_a_gap_that_explodes_needs_a_list(kind):
    """It has several values, which no text can be."""

    def read(path: Any) -> str:
        return "ok"

    read.__annotations__["path"] = kind
    with pytest.raises(ConfigError, match=r"gap \{path\*\} is a list; write path: list\[str\]"):
        ServedTemplate.from_function(read, "r://{/path*}")


@pytest.mark.parametrize("kind", [list[str], tuple[str, ...], list[str] | None, Any, object, set[int]])
def test_a_list_takes_a_gap_that_explodes(kind):
    """In any of its forms."""

    def read(path: Any) -> str:
        return "ok"

    read.__annotations__["path"] = kind
    assert ServedTemplate.from_function(read, "r://{/path*}").arguments == ("path",)


async def test_a_gap_has_the_alias_and_the_default_of_a_field():
    """As an argument of a tool has."""
    seen: list[Any] = []

    def read(a: str, size: int = Field(3, alias="pageSize", ge=1)) -> str:
        seen.append((a, size))
        return "ok"

    template = ServedTemplate.from_function(read, "r://{a}{?pageSize}")
    await template.read("r://x")
    await template.read("r://x?pageSize=7")
    assert seen == [("x", 3), ("x", 7)]
    with pytest.raises(ArgumentError, match='"pageSize"'):
        await template.read("r://x?pageSize=0")
