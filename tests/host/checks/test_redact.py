"""What looks like a secret is found, and masked for logs."""

from __future__ import annotations

import pytest

from antiphon.host.checks.redact import find_secrets, make_masked_json, mask_content, mask_text, secrets_of
from antiphon.wire.content import (
    EmbeddedResource,
    ImageContent,
    ResourceContents,
    ResourceLink,
    TextContent,
    ToolResultContent,
    ToolUseContent,
)
from antiphon.wire.sampling import ModelHint, ModelPreferences, SamplingMessage
from antiphon.wire.tools import CallToolRequestParams, Tool
from tests.host.asks import request, says

SECRETS = [
    ("API key", "sk-proj-abcdefghijklmnop1234"),
    ("AWS access key", "AKIAIOSFODNN7EXAMPLE"),
    ("Google API key", "AIza" + "x" * 35),
    ("GitHub token", "ghp_" + "a" * 36),
    ("Slack token", "xoxb-123456789012-abcdef"),
    ("JSON web token", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc-def"),
    ("bearer token", "Bearer abcdefghijklmnop1234"),
    ("private key", "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----"),
    ("private key", r"-----BEGIN PRIVATE KEY-----\nVersion: 2\n" + "MIIEvQIBADANBgkq" * 9 + "=="),
    ("password in a URL", "postgres://bob:hunter2@"),
    ("key in a URL", "?key=abcdefgh12"),
    ("password", "password = hunter22"),
]


@pytest.mark.parametrize(("kind", "secret"), SECRETS)
def test_a_secret_is_found_and_masked(kind: str, secret: str):
    """Each vendor's form is recognised; what is left names only the kind."""
    text = f"before {secret} after"
    assert kind in [finding.kind for finding in find_secrets(text)]
    assert mask_text(text) == f"before [{kind}] after"


@pytest.mark.parametrize(
    "text", ["Describe a sweater", "risk-adjusted skeleton", "the password is up to you", "x" * 999]
)
def test_ordinary_text_has_none(text: str):
    """A word about secrets is not one."""
    assert find_secrets(text) == []
    assert mask_text(text) == text


KEY = "AK" + "IAQ3EGLNPZ7KJH2MBD"
LINE = f"first line\n{KEY}\nthird line"
"""Encoded, the line end before the key is a letter beside it."""


def use(**more: object) -> list[SamplingMessage]:
    """Make a tool use of the assistant's."""
    return [SamplingMessage(role="assistant", content=ToolUseContent(**{"id": "1", "name": "f", "input": {}, **more}))]


def result(*content: object, **more: object) -> list[SamplingMessage]:
    """Make a tool result."""
    return [SamplingMessage(role="user", content=[ToolResultContent(tool_use_id="1", content=content, **more)])]


PLACES = {
    "system prompt": request(system_prompt=LINE),
    "text": request(LINE),
    "tool description": request(tools=[Tool(name="f", description=LINE, input_schema={})]),
    "schema": request(tools=[Tool(name="f", input_schema={"properties": {"a": {"default": LINE}}})]),
    "name in a schema": request(tools=[Tool(name="f", input_schema={"properties": {LINE: {}}})]),
    "title": request(tools=[Tool(name="f", title=LINE, input_schema={})]),
    "metadata": request(metadata={"a": [{"b": LINE}]}),
    "metadata called data": request(metadata={"data": LINE + "x" * 200, "blob": LINE}),
    "hint": request(model_preferences=ModelPreferences(hints=[ModelHint(name=LINE)])),
    "stop": request(stop_sequences=[LINE]),
    "input": request(messages=use(input={"a": LINE})),
    "id": request(messages=use(id=LINE)),
    "structured": request(messages=result(structured_content={"a": {"b": LINE}})),
    "nested text": request(messages=result(TextContent(text=LINE))),
    "link": request(messages=result(ResourceLink(uri="file:///a", name="a", description=LINE))),
    "title of a link": request(messages=result(ResourceLink(uri="file:///a", name="a", title=LINE))),
    "resource": request(messages=result(EmbeddedResource(resource=ResourceContents(uri="file:///a", text=LINE)))),
    "uri": request(messages=result(EmbeddedResource(resource=ResourceContents(uri=LINE, text="x")))),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_secret_is_found_wherever_it_stands(place: str):
    """In each text as it is after decoding; what is sent on has it nowhere."""
    params = PLACES[place]
    assert secrets_of(params)
    assert KEY not in make_masked_json(params)
    assert KEY not in make_masked_json(mask_content(params))


def test_only_data_of_a_block_is_no_text():
    """It is exempt by the type of its block, whatever members are called elsewhere."""
    picture = ImageContent(data=KEY, mime_type="image/png")
    assert not secrets_of(request(messages=[SamplingMessage(role="user", content=picture)]))
    assert secrets_of(request(metadata={"type": "image", "data": KEY}))


@pytest.mark.parametrize(
    "blocks",
    [
        [KEY[:4], KEY[4:]],
        [f"key: {KEY[:9]}", f"{KEY[9:]} end"],
        [KEY[:5], KEY[5:11], KEY[11:]],
        ["a", "b ", KEY[:7], KEY[7:]],
    ],
)
def test_a_secret_across_blocks_is_found(blocks: list[str]):
    """A model reads neighbouring blocks in a row."""
    params = request(messages=[SamplingMessage(role="user", content=[TextContent(text=text) for text in blocks])])
    clean = mask_content(params)
    joined = "".join(block.text for block in clean.messages[0].blocks)
    assert KEY not in joined
    assert not any(len(text) > 3 and text in joined for text in (KEY[:4], KEY[4:], KEY[9:]))


def test_a_secret_with_an_image_in_it_is_found():
    """A model that reads both texts puts it together."""
    picture = ImageContent(data="AAAA", mime_type="image/png")
    parts = [TextContent(text=KEY[:9]), picture, picture, TextContent(text=KEY[9:])]
    clean = mask_content(request(messages=[SamplingMessage(role="user", content=parts)]))
    assert [block.text for block in clean.messages[0].blocks if isinstance(block, TextContent)] == [
        "[AWS access key]"
    ] * 2


def test_texts_of_two_messages_are_not_one():
    """What a person and a model say is not read in a row."""
    assert not secrets_of(request(messages=[says(KEY[:4]), says(KEY[4:], "assistant")]))


@pytest.mark.parametrize(
    "text", [f"{KEY[:6]}\u200b{KEY[6:]}", "\u2060".join(KEY), f"x\u202e {KEY[:3]}\U000e0041{KEY[3:]}"]
)
def test_invisible_characters_hide_no_secret(text: str):
    """They are taken out before it is looked for, and go with it."""
    assert "[AWS access key]" in mask_text(text)
    assert KEY[-6:] not in mask_text(text)


@pytest.mark.parametrize("text", [f"{KEY}\u200bmore", '{"a": "\\n' + KEY + '"}', f"\\u000a{KEY}\\t"])
def test_nothing_beside_it_hides_a_secret(text: str):
    """A character nobody sees keeps it apart from the next word; an escape in a text is no letter."""
    assert KEY in text
    assert KEY not in mask_text(text)


@pytest.mark.parametrize("name", ["password", "dbPassword", "X_API_KEY", "client_secret"])
def test_a_member_is_masked_by_its_name(name: str):
    """Its value alone could be anything."""
    params = CallToolRequestParams.of("f", {name: "correct horse battery"})
    assert [finding.kind for _, finding in secrets_of(params)] == ["password"]
    assert "battery" not in make_masked_json(params)


def test_names_that_become_one_lose_no_member():
    """Two secrets as names of members."""
    first, second = KEY, KEY[:-1] + "E"
    params = CallToolRequestParams.of("f", {first: 1, second: 2})
    assert '"[AWS access key]":1,"[AWS access key] 1":2' in make_masked_json(params)
