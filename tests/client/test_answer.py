"""Answering: what is offered, the shapes an answer may have, and how many are given at once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from antiphon.client.answer import MAX_AT_ONCE, Answers
from antiphon.errors import ConfigError, MethodNotFound
from antiphon.host.host import Host
from antiphon.wire.common import RequestParams
from antiphon.wire.content import TextContent
from antiphon.wire.elicitation import ElicitRequestParams, ElicitResult
from antiphon.wire.origin import Origin
from antiphon.wire.roots import ListRootsResult, Root
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult, SamplingMessage

SAMPLE = CreateMessageRequestParams(
    messages=[SamplingMessage(role="user", content=TextContent(text="hello"))], max_tokens=5
)
FORM = ElicitRequestParams.form("name?", {"type": "object", "properties": {}})
ORIGIN = Origin(id="1", identity="command:0", target="server")


async def say(params: CreateMessageRequestParams, origin: Origin) -> str:
    """Answer with a string."""
    return f"{params.messages[0].text} {origin.target}"


def test_nothing_is_offered_unless_it_can_be_answered() -> None:
    """A client without answerers declares no capability."""
    offered = Answers(None, None, None).capabilities()
    assert (offered.sampling, offered.elicitation, offered.roots) == (None, None, None)


def test_plain_functions_offer_the_plain_form() -> None:
    """Text sampling without tools, forms without addresses."""

    async def fill(_params: ElicitRequestParams, _origin: Origin) -> None:
        return None

    offered = Answers(say, fill, []).capabilities()
    assert offered.sampling is not None
    assert offered.sampling.tools is None
    assert offered.elicitation is not None
    assert offered.elicitation.form is not None
    assert offered.elicitation.url is None
    assert offered.roots is not None


def test_a_host_says_itself_what_it_offers() -> None:
    """Through ``capabilities``, also for its bound ``elicit``."""
    host = Host("echo", reviewer=None)
    offered = Answers(host, host.elicit, None).capabilities()
    assert offered.sampling == host.capabilities.sampling
    assert offered.elicitation == host.capabilities.elicitation


def test_an_answerer_that_cannot_be_called_is_an_error_at_once() -> None:
    """With the remedy."""
    with pytest.raises(ConfigError, match="async function"):
        Answers("echo", None, None)  # pyright: ignore[reportArgumentType]


async def test_a_string_is_a_text_answer() -> None:
    """The rest of the result is filled in."""
    answer = await Answers(say, None, None).answer(SAMPLE, ORIGIN)
    assert isinstance(answer, CreateMessageResult)
    assert (answer.role, answer.text, answer.stop_reason) == ("assistant", "hello server", "endTurn")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"name": "Ann"}, ElicitResult(action="accept", content={"name": "Ann"})),
        (None, ElicitResult(action="decline")),
        (ElicitResult(action="cancel"), ElicitResult(action="cancel")),
    ],
)
async def test_an_elicitation_may_be_answered_in_short(given: Any, expected: ElicitResult) -> None:
    """A mapping accepts, nothing declines."""

    async def fill(_params: ElicitRequestParams, _origin: Origin) -> Any:
        return given

    assert await Answers(None, fill, None).answer(FORM, ORIGIN) == expected


async def test_roots_are_paths_or_addresses(tmp_path: Path) -> None:
    """Paths become file addresses with a name."""
    given = [tmp_path, str(tmp_path / "a b"), "https://example.com/x", Root(uri="file:///y", name="Y")]
    answer = await Answers(None, None, given).answer(RequestParams(), ORIGIN)
    assert isinstance(answer, ListRootsResult)
    assert [root.uri for root in answer.roots] == [
        tmp_path.as_uri(),
        (tmp_path / "a b").as_uri(),
        "https://example.com/x",
        "file:///y",
    ]


async def test_roots_may_be_computed() -> None:
    """A function is asked each time."""

    async def roots() -> list[str]:
        return ["file:///now"]

    answer = await Answers(None, None, roots).answer(RequestParams(), ORIGIN)
    assert isinstance(answer, ListRootsResult)
    assert answer.roots[0].uri == "file:///now"


async def test_what_is_not_offered_is_not_answered() -> None:
    """Even if somebody asks."""
    with pytest.raises(MethodNotFound):
        await Answers(None, None, None).answer(SAMPLE, ORIGIN)


async def test_few_are_answered_at_once() -> None:
    """A hostile server cannot start a thousand completions at the same time."""
    running, most, gate = 0, 0, asyncio.Event()

    async def slow(_params: CreateMessageRequestParams, _origin: Origin) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await gate.wait()
        running -= 1
        return "done"

    answers = Answers(slow, None, None)
    tasks = [asyncio.create_task(answers.answer(SAMPLE, ORIGIN)) for _ in range(50)]
    for _ in range(5):
        await asyncio.sleep(0)
    gate.set()
    await asyncio.gather(*tasks)
    assert most == MAX_AT_ONCE
