"""The vendors' requests, member by member: carried, noted or refused, as the table says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from anthropic.types.message_create_params import MessageCreateParamsBase
from openai.types.chat.completion_create_params import CompletionCreateParamsBase
from openai.types.embedding_create_params import EmbeddingCreateParams
from openai.types.responses.response_create_params import ResponseCreateParamsBase

from antiphon.model_api.dialects import embeddings
from antiphon.model_api.dialects.chat import Chat
from antiphon.model_api.dialects.failures import Failure
from antiphon.model_api.dialects.members import CHAT, EMBEDDINGS, MESSAGES, RESPONSES, Member
from antiphon.model_api.dialects.messages import Messages
from antiphon.model_api.dialects.responses import Responses

SAID = [{"role": "user", "content": "x"}]
REMOTE = {"type": "image", "source": {"type": "url", "url": "http://x/y.png"}}
BASE: dict[str, dict[str, Any]] = {
    "chat": {"model": "m", "messages": SAID},
    "messages": {"model": "m", "messages": SAID, "max_tokens": 5},
    "responses": {"model": "m", "input": "x"},
}
DIALECTS = {"chat": Chat(), "messages": Messages(), "responses": Responses()}
TABLES = {"chat": CHAT, "messages": MESSAGES, "responses": RESPONSES}


def read(vendor: str, **more: Any):
    """Read a request of a vendor."""
    return DIALECTS[vendor].read({**BASE[vendor], **more}, offers_tools=True)


@pytest.mark.parametrize(
    ("table", "theirs"),
    [
        (CHAT, CompletionCreateParamsBase),
        (MESSAGES, MessageCreateParamsBase),
        (RESPONSES, ResponseCreateParamsBase),
        (EMBEDDINGS, EmbeddingCreateParams),
    ],
    ids=[*DIALECTS, "embeddings"],
)
def test_table_has_every_member_that_the_vendors_client_can_send(table: tuple[Member, ...], theirs: type):
    """A member that a new release of the client brings is decided about, not overlooked."""
    ours = {member.name for member in table}
    sent = set(theirs.__annotations__) - {"stream"}
    assert sent - ours == set()


@pytest.mark.parametrize("vendor", DIALECTS)
def test_members_have_the_fate_that_the_table_says(vendor: str):
    """What is noted is named and no more; what is refused fails with its place, unless its value asks for nothing."""
    for member in TABLES[vendor]:
        if member.fate == "noted":
            assert read(vendor, **{member.name: 1}).noted == (member.name,)
        if member.fate == "refused":
            with pytest.raises(Failure) as refused:
                read(vendor, **{member.name: {"some": "thing"}})
            assert (refused.value.status, refused.value.param) == (400, member.name)
            for harmless in (None, *member.harmless):
                assert read(vendor, **{member.name: harmless}).noted == ()


def test_user_of_embeddings_has_no_effect():
    """The only member of such a request that is noted; one that is new is named as well."""
    read = embeddings.read({"model": "m", "input": "x", "user": "y", "input_type": "query"})
    assert read.noted == ("user", "input_type")


def test_members_that_are_carried_reach_the_host():
    """Each of the plain members arrives in the request that the host sees."""
    chat = read("chat", max_completion_tokens=9, temperature=0.5, stop="END", stream=True).params
    assert (chat.max_tokens, chat.temperature, chat.stop_sequences) == (9, 0.5, ["END"])
    assert read("chat").params.max_tokens == 4096
    other = read("messages", system=[{"type": "text", "text": "Be brief."}], stop_sequences=["END"]).params
    assert (other.system_prompt, other.stop_sequences, other.max_tokens) == ("Be brief.", ["END"], 5)


@pytest.mark.parametrize(
    ("vendor", "given", "place"),
    [
        ("chat", {"messages": "x"}, "messages"),
        ("chat", {"messages": [{"role": "king", "content": "x"}]}, "messages[0].role"),
        ("chat", {"messages": [{"role": "user", "content": [{"type": "file"}]}]}, "messages[0].content[0].type"),
        (
            "chat",
            {
                "messages": [
                    {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x/y.png"}}]}
                ]
            },
            "messages[0].content[0].image_url.url",
        ),
        ("chat", {"max_tokens": True}, "max_tokens"),
        ("chat", {"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ("chat", {"response_format": {"type": "grammar"}}, "response_format.type"),
        ("messages", {"max_tokens": None}, "max_tokens"),
        ("messages", {"tools": [{"type": "bash_20250124", "name": "bash"}]}, "tools[0].type"),
        ("messages", {"messages": [{"role": "user", "content": [REMOTE]}]}, "messages[0].content[0]"),
    ],
)
def test_mistake_is_named_by_its_place(vendor: str, given: dict[str, Any], place: str):
    """A program learns which member is wrong, in the vendor's own names."""
    with pytest.raises(Failure) as refused:
        read(vendor, **given)
    assert (refused.value.status, refused.value.param) == (400, place)


def test_single_tool_is_offered_alone():
    """A choice of one tool becomes the only tool, which must be used."""
    tools = [{"type": "function", "function": {"name": name}} for name in ("a", "b")]
    chosen = read("chat", tools=tools, tool_choice={"type": "function", "function": {"name": "b"}}).params
    assert ([tool.name for tool in chosen.tools], chosen.tool_choice.mode) == (["b"], "required")
    with pytest.raises(Failure):
        read("chat", tools=tools, tool_choice={"type": "function", "function": {"name": "c"}})


def test_page_says_what_the_tables_say():
    """The documentation's tables, row by row."""
    page = Path(__file__).parents[2] / "docs" / "how-to" / "server-with-its-own-key.md"
    rows = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    tables = [*CHAT, *RESPONSES, *MESSAGES, *EMBEDDINGS]
    assert rows == [f"| `{each.name}` | {each.fate} | {each.remark} |" for each in tables]
