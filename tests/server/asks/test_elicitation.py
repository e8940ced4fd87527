"""Asking the user: forms of every kind of type, what comes back, and what the user may do instead."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

import msgspec
import pydantic
import pytest

from antiphon import Client, Context, ElicitationUnavailable, Elicited, ElicitRequestParams, ElicitResult, Server
from antiphon.errors import CallTimeout, ConfigError, NotInRevision, RemoteProtocolError
from antiphon.testing import Recorder
from antiphon.wire.common import ClientCapabilities, ElicitationCapability
from antiphon.wire.origin import Origin

ERAS = ["2025-11-25", "2026-07-28"]


@dataclass
class AsDataclass:
    """A size."""

    width: int
    colour: Literal["red", "blue"] = "red"


class AsStruct(msgspec.Struct):
    width: int
    colour: Literal["red", "blue"] = "red"


class AsDict(TypedDict):
    width: int
    colour: Literal["red", "blue"]


class AsModel(pydantic.BaseModel):
    width: int
    colour: Literal["red", "blue"] = "red"


SCHEMA = {"type": "object", "properties": {"width": {"type": "integer"}, "colour": {"type": "string"}}}
GIVEN: dict[str, Any] = {"width": 3, "colour": "blue"}


class Visitor:
    """An answerer that opens addresses too."""

    capabilities = ClientCapabilities(elicitation=ElicitationCapability(form={}, url={}))

    async def __call__(self, _params: ElicitRequestParams, _origin: Origin) -> ElicitResult:
        return ElicitResult(action="accept")


def asking(ask: Callable[[Context], Any], seen: list[Any]) -> Server:
    """Make a server with a tool that asks, and keeps what came of it."""
    server = Server("s")

    @server.tool
    async def form(ctx: Context) -> str:
        try:
            seen.append(await ask(ctx))
        except Exception as error:
            seen.append(error)
            raise
        return "done"

    return server


async def outcome(ask: Callable[[Context], Any], answer: Any, revision: str = "2026-07-28", **options: Any) -> Any:
    """Return what a handler got for its ask, be it an exception."""
    seen: list[Any] = []

    async def elicit(_params: ElicitRequestParams, _origin: Origin) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    async with Client(asking(ask, seen), elicitation=elicit, revision=revision, **options) as client:
        await client.call_tool("form")
    (one,) = seen
    return one


@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize(
    ("form", "value"),
    [
        (AsDataclass, AsDataclass(3, "blue")),
        (AsStruct, AsStruct(3, "blue")),
        (AsDict, GIVEN),
        (AsModel, AsModel(width=3, colour="blue")),
        (SCHEMA, GIVEN),
    ],
)
async def test_the_answer_is_of_the_type_that_was_asked_for(form: Any, value: Any, revision: str) -> None:
    """In either era."""
    done = await outcome(lambda ctx: ctx.elicit("Which?", form), GIVEN, revision)
    assert isinstance(done, Elicited)
    assert done.accepted
    assert done.value == value
    assert type(done.value) is type(value)


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_user_may_say_no(action: Any) -> None:
    """It is no error, and there is no value."""
    done = await outcome(lambda ctx: ctx.elicit("Which?", AsDataclass), ElicitResult(action=action))
    assert (done.action, done.accepted, done.value) == (action, False, None)
    assert repr(done) == f"Elicited(action={action!r}, value=None)"


@pytest.mark.parametrize(
    "wrong", [{}, {"width": "three"}, {"width": 1.5}, {"width": 1, "colour": "green"}, {"width": ["1"]}]
)
@pytest.mark.parametrize("form", [AsDataclass, AsModel])
async def test_an_answer_that_does_not_fit_is_the_clients_fault(form: Any, wrong: Any) -> None:
    """The handler learns where it is wrong."""
    done = await outcome(lambda ctx: ctx.elicit("Which?", form), wrong)
    assert isinstance(done, RemoteProtocolError)
    assert "does not fit the form" in str(done)


async def test_a_form_may_be_accepted_without_content() -> None:
    """Where nothing is required, an absent content is an empty one."""
    empty = {"type": "object", "properties": {"note": {"type": "string"}}}
    done = await outcome(lambda ctx: ctx.elicit("Go on?", empty), ElicitResult(action="accept"))
    assert (done.action, done.value) == ("accept", {})


async def test_a_form_cannot_be_nested() -> None:
    """The author learns at once, and nothing is sent."""

    @dataclass
    class Nested:
        inner: AsDataclass

    done = await outcome(lambda ctx: ctx.elicit("?", Nested), GIVEN)
    assert isinstance(done, ConfigError)


async def test_a_client_without_forms_is_not_asked() -> None:
    """The error says what is missing."""
    seen: list[Any] = []
    async with Client(asking(lambda ctx: ctx.elicit("?", AsDataclass), seen), revision="2025-11-25") as client:
        result = await client.call_tool("form")
    assert isinstance(seen[0], ElicitationUnavailable)
    assert seen[0].data == {"requiredCapabilities": {"elicitation": {"form": {}}}}
    assert result.is_error


async def test_a_revision_without_forms_is_not_asked() -> None:
    """The error names it."""
    done = await outcome(lambda ctx: ctx.elicit("?", AsDataclass), GIVEN, "2025-03-26")
    assert isinstance(done, NotInRevision)
    assert "2025-03-26" in str(done)


@pytest.mark.parametrize("revision", ERAS)
async def test_a_user_may_be_sent_to_an_address(revision: str) -> None:
    """What happens there is not the client's business; an id travels where the revision wants one."""
    recorder, seen = Recorder(), list[Any]()
    server = asking(lambda ctx: ctx.elicit_url("Sign in", "https://example.org/in"), seen)
    async with Client(server, elicitation=Visitor(), revision=revision, wrap=recorder) as client:
        await client.call_tool("form")
    if revision == "2025-11-25":
        (asked,) = recorder.received("elicitation/create")
        assert len(asked["elicitationId"]) == 32
    else:
        (ask,) = recorder.received("tools/call")[0]["inputRequests"].values()
        asked = ask["params"]
        assert "elicitationId" not in asked
    assert (asked["mode"], asked["url"], asked["message"]) == ("url", "https://example.org/in", "Sign in")
    assert (seen[0].action, seen[0].value) == ("accept", None)


async def test_two_visits_have_two_ids() -> None:
    """An id is never used again."""
    recorder = Recorder()

    async def both(ctx: Context) -> None:
        for _ in range(2):
            await ctx.elicit_url("Sign in", "https://example.org/in")

    async with Client(asking(both, []), elicitation=Visitor(), revision="2025-11-25", wrap=recorder) as client:
        await client.call_tool("form")
    first, second = recorder.received("elicitation/create")
    assert first["elicitationId"] != second["elicitationId"]


async def test_a_client_that_only_shows_forms_is_sent_nowhere() -> None:
    """The error says what is missing."""
    seen: list[Any] = []

    async def fill(*_: Any) -> ElicitResult:
        return ElicitResult(action="accept")

    server = asking(lambda ctx: ctx.elicit_url("Sign in", "https://example.org/in"), seen)
    async with Client(server, elicitation=fill, revision="2025-11-25") as client:
        await client.call_tool("form")
    assert isinstance(seen[0], ElicitationUnavailable)
    assert seen[0].data == {"requiredCapabilities": {"elicitation": {"url": {}}}}


async def test_a_revision_without_addresses_is_not_asked() -> None:
    """Url mode began with 2025-11-25."""
    seen: list[Any] = []
    server = asking(lambda ctx: ctx.elicit_url("Sign in", "https://example.org/in"), seen)
    async with Client(server, elicitation=Visitor(), revision="2025-06-18") as client:
        await client.call_tool("form")
    assert isinstance(seen[0], NotInRevision)


@pytest.mark.parametrize("revision", ERAS)
async def test_a_user_may_be_too_slow(revision: str) -> None:
    """Only if the author set a limit."""
    seen: list[Any] = []
    ended = asyncio.Event()

    async def never(*_: Any) -> None:
        await ended.wait()

    async def ask(ctx: Context) -> Any:
        try:
            return await ctx.elicit("?", AsDataclass, timeout=0.01)
        finally:
            ended.set()

    async with Client(asking(ask, seen), elicitation=never, revision=revision) as client:
        assert (await client.call_tool("form")).is_error
    assert isinstance(seen[0], CallTimeout)
