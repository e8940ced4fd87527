"""Answering: what is offered, the shapes an answer may have, and how many are given at once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Literal, cast

import pytest
from msgspec import structs

from antiphon.client.answers.answerers import Answers, shape_answer
from antiphon.errors import ConfigError, InternalError, LocalProtocolError, MethodNotFound, Rejected
from antiphon.host.host import Host
from antiphon.wire.common import ClientCapabilities, RequestParams, SamplingCapability
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


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_the_values_of_a_refused_form_stay_here(action: Literal["decline", "cancel"]) -> None:
    """A window may return what was typed even if the person has closed it; the server gets the action alone."""

    async def close(params: ElicitRequestParams, origin: Origin) -> ElicitResult:
        return ElicitResult(action=action, content={"name": "Ada"})

    assert await Answers(None, close, None).answer(FORM, ORIGIN) == ElicitResult(action=action)


@pytest.mark.parametrize(
    "given", [{"name": "Ada", "age": None}, ElicitResult(action="accept", content={"name": "Ada", "age": None})]
)
async def test_a_field_that_was_left_empty_is_left_out(given: Any) -> None:
    """Null is no value of a form, and servers refuse the whole answer for it."""

    async def fill(params: ElicitRequestParams, origin: Origin) -> Any:
        return given

    filled = ElicitResult(action="accept", content={"name": "Ada"})
    assert await Answers(None, fill, None).answer(FORM, ORIGIN) == filled


@pytest.mark.parametrize("timeout", [None, 60.0])
async def test_an_answerer_that_was_cancelled_does_not_cancel_the_caller(timeout: float | None) -> None:
    """The caller gets an error that it can handle, because nobody has cancelled its task."""

    async def lose(params: ElicitRequestParams, origin: Origin) -> ElicitResult:
        window: asyncio.Future[ElicitResult] = asyncio.get_running_loop().create_future()
        window.cancel()
        return await window

    with pytest.raises(InternalError):
        await Answers(None, lose, None, timeout=timeout).answer(FORM, ORIGIN)


async def test_a_rejected_elicitation_is_declined() -> None:
    """A form has a word for no: the call goes on."""

    async def refuse(_params: ElicitRequestParams, _origin: Origin) -> None:
        raise Rejected("no")

    assert await Answers(None, refuse, None).answer(FORM, ORIGIN) == ElicitResult(action="decline")


async def test_an_answerer_may_have_a_time_limit() -> None:
    """By default it has none. Sampling that takes longer is rejected, an elicitation cancelled."""
    stopped: list[str] = []

    async def slow(params: object, _origin: Origin) -> Any:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append(type(params).__name__)

    answers = Answers(slow, slow, None, timeout=0.01)
    with pytest.raises(Rejected) as caught:
        await answers.answer(SAMPLE, ORIGIN)
    assert caught.value.data == {"reason": "expired"}
    assert await answers.answer(FORM, ORIGIN) == ElicitResult(action="cancel")
    assert stopped == ["CreateMessageRequestParams", "ElicitRequestParams"]


async def test_an_answerers_own_time_limit_is_its_own() -> None:
    """It is not taken for ours."""

    async def impatient(_params: object, _origin: Origin) -> Any:
        raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine"):
        await Answers(impatient, None, None, timeout=60).answer(SAMPLE, ORIGIN)


@pytest.mark.parametrize("given", [None, 3, {"text": "hello"}])
async def test_what_is_no_answer_is_an_error_of_ours(given: Any) -> None:
    """It names what was given; nothing of it reaches the server."""

    async def wrong(_params: object, _origin: Origin) -> Any:
        return given

    with pytest.raises(LocalProtocolError, match=type(given).__name__):
        await Answers(wrong, None, None).answer(SAMPLE, ORIGIN)


async def test_an_answer_may_be_given_as_it_travels() -> None:
    """A mapping with the members of the result, as JSON names them."""

    async def plain(_params: object, _origin: Origin) -> Any:
        content = {"type": "text", "text": "hi"}
        return {"role": "assistant", "content": content, "model": "m", "stopReason": "endTurn"}

    answer = await Answers(plain, None, None).answer(SAMPLE, ORIGIN)
    assert isinstance(answer, CreateMessageResult)
    assert (answer.text, answer.model, answer.stop_reason) == ("hi", "m", "endTurn")


def test_an_answer_by_hand_takes_the_same_shapes() -> None:
    """As an answerer would give it, or as it travels."""
    assert shape_answer("sampling/createMessage", "hi") == CreateMessageResult(
        role="assistant", content=TextContent(text="hi"), model="unnamed", stop_reason="endTurn"
    )
    assert shape_answer("elicitation/create", None) == ElicitResult(action="decline")
    assert shape_answer("roots/list", ["file:///a"]) == ListRootsResult(roots=[Root(uri="file:///a")])
    ready = ListRootsResult(roots=[])
    assert shape_answer("roots/list", ready) is ready


@pytest.mark.parametrize(
    ("method", "given"), [("sampling/createMessage", {}), ("elicitation/create", "yes"), ("roots/list", "file:///a")]
)
def test_an_answer_of_another_shape_is_refused(method: str, given: object) -> None:
    """Before anything is sent."""
    with pytest.raises(LocalProtocolError, match="answered with"):
        shape_answer(method, given)


@pytest.mark.parametrize(("context", "seen"), [(None, None), ({}, "thisServer")])
def test_context_that_was_not_offered_is_dropped(context: Any, seen: str | None) -> None:
    """The answerer never sees the wish."""

    class Contextual:
        capabilities = ClientCapabilities(sampling=SamplingCapability(context=context))

        async def __call__(self, _params: object, _origin: Origin) -> str:
            return "x"

    asked = structs.replace(SAMPLE, include_context="thisServer")
    admitted = Answers(Contextual(), None, None).admit(asked)
    assert isinstance(admitted, CreateMessageRequestParams)
    assert admitted.include_context == seen


def test_a_host_that_is_given_for_elicitation_is_an_error_at_once() -> None:
    """It can be called with two arguments, but answers sampling then."""

    class Both:
        async def __call__(self, params: object, origin: object) -> str:
            return ""

        async def elicit(self, params: object, origin: object) -> None:
            return None

    both = Both()
    Answers(both, both.elicit, roots=None)
    with pytest.raises(ConfigError, match="elicitation= got a host, which answers sampling: give its elicit"):
        Answers(None, cast("Any", both), roots=None)


async def no_params() -> str:
    """Take nothing."""
    return ""


@pytest.mark.parametrize("name", ["sampling", "elicitation"])
def test_an_answerer_that_takes_something_else_is_an_error_at_once(name: str) -> None:
    """Not when the first ask comes."""
    given: dict[str, Any] = {"sampling": None, "elicitation": None, name: no_params}
    with pytest.raises(ConfigError, match=rf"{name}= must be an async function \(params, origin\)"):
        Answers(**given, roots=None)


async def test_an_answerer_that_is_not_async_is_named() -> None:
    """With the remedy, instead of the TypeError of an ``await``."""

    def plain(_params: object, _origin: object) -> Any:
        return "hello"

    with pytest.raises(LocalProtocolError, match="sampling= gave a str and nothing to await: write"):
        await Answers(plain, None, None).answer(SAMPLE, ORIGIN)
    with pytest.raises(LocalProtocolError, match="elicitation= gave a str"):
        await Answers(None, plain, None).answer(FORM, ORIGIN)


@pytest.mark.parametrize("roots", ["/srv/docs", 5])
async def test_roots_are_a_list(roots: Any) -> None:
    """Of one text the first letter would be a root of its own, and of a path that is everything there is."""
    with pytest.raises(ConfigError, match="roots= must be a list"):
        Answers(None, None, roots)
    answers = Answers(None, None, [])
    with pytest.raises(ConfigError, match="roots= must be a list"):
        answers.set_roots(roots)

    async def computed() -> Any:
        return roots

    with pytest.raises(ConfigError, match="roots= must be a list"):
        await Answers(None, None, computed).answer(RequestParams(), ORIGIN)


def test_who_looks_at_rounds_can_be_called() -> None:
    """Or it is said at once."""
    wrong: Any = 5
    with pytest.raises(ConfigError, match="on_round= must be a function"):
        Answers(None, None, None, on_round=wrong)
