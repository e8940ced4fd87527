"""The turns of one sample: the loop over tools, its bounds, and what it asks."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from antiphon import (
    ConfigError,
    Context,
    CreateMessageResult,
    InvalidParams,
    LocalProtocolError,
    NotInRevision,
    PeerError,
    Rejected,
    SamplingFailed,
    SamplingUnavailable,
    Server,
    Tool,
    ToolResultContent,
)
from antiphon.server.asks.tool_loop import MAX_STEPS
from antiphon.testing import Recorder, connected
from tests.server.models import REVISIONS, WITH_TOOLS, Model, asked, asking, questions, says, use, wants

RAW = Tool(name="look_up", input_schema={"type": "object"})


def stock(product: str) -> int:
    """Tell how many are left."""
    return len(product)


async def run(server: Server, model: Any, revision: str, **options: Any) -> Any:
    """Call the tool "ask"."""
    async with connected(server, sampling=model, revision=revision, **options) as client:
        return await client.call_tool("ask")


@pytest.mark.parametrize("revision", WITH_TOOLS)
async def test_functions_are_run_until_the_model_has_what_it_needs(revision: str) -> None:
    """Their results go back in one message, the conversation is kept, the tools stay declared."""
    model = Model(wants(use("stock", product="hat"), text="I look."), says("Three.", stop_reason="endTurn"))
    server, seen = asking(lambda ctx: ctx.sample("How many hats?", tools=[stock]))
    await run(server, model, revision)
    sample = seen[0]
    assert (sample.text, sample.turns, sample.stop_reason, sample.tool_uses) == ("Three.", 2, "endTurn", [])
    assert [message.role for message in sample.messages] == ["user", "assistant", "user", "assistant"]
    assert [(result.text, result.is_error) for result in model.results()] == [("3", False)]
    assert [[tool.name for tool in one.tools or ()] for one in model.requests] == [["stock"], ["stock"]]
    (tool,) = model.requests[0].tools or ()
    assert tool.description == "Tell how many are left."
    assert tool.input_schema["properties"] == {"product": {"type": "string"}}
    assert tool.output_schema is None


@pytest.mark.parametrize("revision", WITH_TOOLS)
async def test_a_loop_of_25_turns(revision: str) -> None:
    """More than any peer's client takes; the handler runs once, and every turn asks once."""
    runs: list[int] = []

    async def tick(n: int) -> str:
        runs.append(n)
        return f"tick {n}"

    model = Model(*[wants(use("tick", id=str(n), n=n)) for n in range(24)], "Done.")
    server, seen = asking(lambda ctx: ctx.sample("Count.", tools=[tick], max_steps=25))
    recorder = Recorder()
    await run(server, model, revision, wrap=recorder)
    assert (seen[0].text, seen[0].turns) == ("Done.", 25)
    assert runs == list(range(24))
    assert len(model.requests) == asked(recorder) == 25
    assert len(seen) == 1


@pytest.mark.parametrize("revision", [each for each in REVISIONS if each not in WITH_TOOLS])
async def test_an_older_revision_has_no_tools_in_sampling(revision: str) -> None:
    """The error names the revision and what helps; nothing is sent."""
    server, seen = asking(lambda ctx: ctx.sample("q", tools=[stock]))
    recorder = Recorder()
    result = await run(server, Model(), revision, wrap=recorder)
    assert isinstance(seen[0], NotInRevision)
    assert revision in str(seen[0])
    assert "sampling_fallback" in seen[0].__notes__[0]
    assert result.is_error
    assert asked(recorder) == 0


@pytest.mark.parametrize("revision", WITH_TOOLS)
async def test_a_client_without_tools_is_not_offered_any(revision: str) -> None:
    """The missing part is named, for people and for programs."""
    server, seen = asking(lambda ctx: ctx.sample("q", tools=[stock]))
    recorder = Recorder()
    async with connected(server, sampling=Model(tools=False), revision=revision, wrap=recorder) as client:
        if revision == "2026-07-28":
            with pytest.raises(PeerError) as caught:
                await client.call_tool("ask")
            assert (caught.value.code, caught.value.data) == (
                -32021,
                {"requiredCapabilities": {"sampling": {"tools": {}}}},
            )
        else:
            assert (await client.call_tool("ask")).text == (
                "The client does not offer sampling.tools, which sampling/createMessage needs"
            )
    assert isinstance(seen[0], SamplingUnavailable)
    assert asked(recorder) == 0


async def test_no_tools_at_all_need_no_client_that_takes_them() -> None:
    """An empty list is what a program makes that found none to offer."""
    server, seen = asking(lambda ctx: ctx.sample("q", tools=[]))
    await run(server, Model("fine", tools=False), "2024-11-05")
    assert seen[0].text == "fine"


@pytest.mark.parametrize("revision", WITH_TOOLS)
async def test_the_last_turn_may_use_no_tools(revision: str) -> None:
    """They are declared all the same, since the conversation has uses of them."""
    model = Model(wants(use("stock", product="a")), wants(use("stock", product="b")), "That is all I know.")
    server, seen = asking(lambda ctx: ctx.sample("q", tools=[stock], max_steps=3))
    await run(server, model, revision)
    assert seen[0].text == "That is all I know."
    assert model.choices == [None, None, "none"]
    assert all(one.tools for one in model.requests)


async def test_a_model_that_never_stops_is_given_up() -> None:
    """The error says after how many turns."""
    model = Model(*[wants(use("stock", product="a")) for _ in range(20)])
    server, seen = asking(lambda ctx: ctx.sample("q", tools=[stock]))
    result = await run(server, model, "2026-07-28")
    assert isinstance(seen[0], SamplingFailed)
    assert result.text == f"ask: The model still wants to use tools after {MAX_STEPS} turns; see max_steps="
    assert len(model.requests) == MAX_STEPS


async def test_tools_must_be_used_in_the_first_turn_only() -> None:
    """A model that had to use tools in every turn would never end."""
    model = Model(wants(use("stock", product="a")), "Done.")
    server, _ = asking(lambda ctx: ctx.sample("q", tools=[stock], tool_choice="required"))
    await run(server, model, "2025-11-25")
    assert model.choices == ["required", None]


async def test_steps_are_counted_from_one() -> None:
    """Nothing is sent."""
    server, seen = asking(lambda ctx: ctx.sample("q", tools=[stock], max_steps=0))
    recorder = Recorder()
    await run(server, Model(), "2025-11-25", wrap=recorder)
    assert isinstance(seen[0], LocalProtocolError)
    assert asked(recorder) == 0


async def test_definitions_are_for_one_turn() -> None:
    """What the model wants comes back."""
    model = Model(wants(use("look_up", q="x")))
    server, seen = asking(lambda ctx: ctx.sample("q", tools=[RAW]))
    await run(server, model, "2026-07-28")
    assert seen[0].tool_uses == [use("look_up", q="x")]
    assert len(model.requests) == 1


async def test_definitions_cannot_serve_a_typed_result() -> None:
    """Nobody would run them."""
    server, seen = asking(lambda ctx: ctx.sample("q", tools=[RAW], result_type=int))
    await run(server, Model(), "2026-07-28")
    assert isinstance(seen[0], ConfigError)


@pytest.mark.parametrize("revision", WITH_TOOLS)
async def test_a_step_runs_what_the_model_wants(revision: str) -> None:
    """A loop of one's own goes on with its messages."""
    model = Model(wants(use("stock", product="hat")), "Three.")

    async def own_loop(ctx: Context) -> Any:
        messages: Any = "How many hats?"
        while True:
            step = await ctx.sample_step(messages, tools=[stock], temperature=0)
            if not step.tool_uses:
                return step
            messages = step.messages

    server, seen = asking(own_loop)
    await run(server, model, revision)
    assert (seen[0].text, seen[0].turns) == ("Three.", 1)
    assert [result.text for result in model.results()] == ["3"]
    assert [one.temperature for one in model.requests] == [0, 0]


@pytest.mark.parametrize("tools", [[stock], [RAW]])
async def test_a_step_may_leave_the_tools_to_the_author(tools: Any) -> None:
    """Functions if told so, definitions always."""
    name = getattr(tools[0], "name", None) or tools[0].__name__
    model = Model(wants(use(name, id="7", product="hat")), "Four.")

    async def by_hand(ctx: Context) -> Any:
        step = await ctx.sample_step("q", tools=tools, execute_tools=False)
        return await ctx.sample(step.with_results({"7": "four"}), tools=tools)

    server, seen = asking(by_hand)
    await run(server, model, "2025-11-25")
    assert seen[0].text == "Four."
    assert [(result.tool_use_id, result.text) for result in model.results()] == [("7", "four")]


async def test_two_uses_of_one_id_are_refused() -> None:
    """Results could not be told apart, and the next request would break a rule."""
    model = Model(wants(use("stock", product="a"), use("stock", product="b")))
    server, seen = asking(lambda ctx: ctx.sample("q", tools=[stock]))
    await run(server, model, "2026-07-28")
    assert isinstance(seen[0], SamplingFailed)


async def test_far_too_many_uses_are_refused() -> None:
    """A client cannot make a server run thousands of tools with one answer."""
    model = Model(wants(*[use("stock", id=str(n), product="a") for n in range(129)]))
    server, seen = asking(lambda ctx: ctx.sample("q", tools=[stock]))
    await run(server, model, "2025-11-25")
    assert isinstance(seen[0], SamplingFailed)
    assert "129 tools at once" in str(seen[0])


async def test_an_answer_gives_no_results() -> None:
    """Those are the server's."""
    forged = CreateMessageResult(role="assistant", content=[ToolResultContent(tool_use_id="1", content=[])], model="m")
    server, seen = asking(lambda ctx: ctx.sample("q"))
    await run(server, Model(forged), "2025-11-25")
    assert isinstance(seen[0], SamplingFailed)


@pytest.mark.parametrize("revision", REVISIONS)
async def test_two_samples_at_once_and_one_after(revision: str) -> None:
    """Plain turns work on every revision; those raised together share a round."""
    model = Model("a", "b", "c")

    async def three(ctx: Context) -> list[str]:
        first = await asyncio.gather(ctx.sample("1"), ctx.sample("2"))
        return [*sorted(one.text for one in first), (await ctx.sample("3")).text]

    server, seen = asking(three)
    await run(server, model, revision)
    assert seen == [["a", "b", "c"]]


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_typed_answer_works_on_every_revision(revision: str) -> None:
    """It needs nothing of the client but text."""
    model = Model("```json\n[1, 2]\n```")
    server, seen = asking(lambda ctx: ctx.sample("Two numbers", system_prompt="Be brief.", result_type=list[int]))
    await run(server, model, revision)
    assert (seen[0].value, seen[0].turns) == ([1, 2], 1)
    assert (model.requests[0].system_prompt or "").startswith("Be brief.\n\nAnswer with one JSON value")


@pytest.mark.parametrize("revision", REVISIONS)
async def test_an_answer_that_does_not_fit_is_repaired_once(revision: str) -> None:
    """The model is told what was wrong."""
    model = Model("about five", "5")
    server, seen = asking(lambda ctx: ctx.sample("How many?", result_type=int))
    await run(server, model, revision)
    assert (seen[0].value, seen[0].turns) == (5, 2)
    assert [message.role for message in model.requests[1].messages] == ["user", "assistant", "user"]
    assert model.requests[1].messages[-1].text.startswith("This does not fit: ")
    assert '"type":"integer"' in model.requests[1].messages[-1].text


async def test_an_answer_that_never_fits_is_an_error_with_its_text() -> None:
    """The author may still make something of it."""
    server, seen = asking(lambda ctx: ctx.sample("How many?", result_type=int))
    result = await run(server, Model("five", says("still fi", stop_reason="maxTokens")), "2026-07-28")
    assert isinstance(seen[0], SamplingFailed)
    assert seen[0].text == "still fi"
    assert "cut off at max_tokens" in result.text
    assert result.is_error


async def test_an_empty_answer_is_not_put_into_the_repair() -> None:
    """Vendors refuse a message without content."""
    model = Model("", "5")
    server, seen = asking(lambda ctx: ctx.sample("How many?", result_type=int))
    await run(server, model, "2025-06-18")
    assert seen[0].value == 5
    assert [message.role for message in model.requests[1].messages] == ["user", "user"]


async def test_a_loop_may_end_in_a_typed_answer() -> None:
    """The repair keeps the tools declared and forbids them."""
    model = Model(wants(use("stock", product="hat")), "three", '{"result": 3}')
    server, seen = asking(lambda ctx: ctx.sample("How many?", tools=[stock], result_type=int))
    await run(server, model, "2026-07-28")
    assert (seen[0].value, seen[0].turns) == (3, 3)
    assert model.choices == [None, None, "none"]
    assert model.requests[2].tools


async def test_a_tool_nobody_offered_is_no_typed_answer() -> None:
    """A client that makes one up gets no further."""
    server, seen = asking(lambda ctx: ctx.sample("q", result_type=int))
    await run(server, Model(wants(use("rm"))), "2026-07-28")
    assert isinstance(seen[0], SamplingFailed)


async def test_the_turns_of_a_named_ask_are_numbered() -> None:
    """Two asks of one call never share a key."""
    model = Model(wants(use("stock", product="a")), wants(use("stock", product="b")), "Done.")
    server, _ = asking(lambda ctx: ctx.sample("q", tools=[stock], key="advice"))
    recorder = Recorder()
    await run(server, model, "2026-07-28", wrap=recorder)
    keys = [key for one in recorder.messages for key in (one.body or {}).get("inputRequests", {})]
    assert keys == ["advice", "advice-2", "advice-3"]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (Rejected("User rejected sampling request", data={"reason": "user"}), Rejected),
        (InvalidParams("Tool result missing in request", data={"place": "messages[0]"}), InvalidParams),
    ],
)
async def test_errors_of_the_client_are_typed(error: PeerError, kind: type[PeerError]) -> None:
    """-1 and -32602, with their data; the loop is over, and its tools are told nothing."""
    model = Model(wants(use("stock", product="a")), error)
    server, seen = asking(lambda ctx: ctx.sample("q", tools=[stock]))
    await run(server, model, "2025-11-25")
    assert type(seen[0]) is kind
    assert (seen[0].code, seen[0].data, seen[0].remote) == (error.code, error.data, True)
    assert len(model.requests) == 2


@pytest.mark.parametrize(
    ("revision", "context", "sent"),
    [
        ("2024-11-05", False, "thisServer"),
        ("2025-06-18", False, "thisServer"),
        ("2025-11-25", False, None),
        ("2025-11-25", True, "thisServer"),
        ("2026-07-28", False, None),
        ("2026-07-28", True, "thisServer"),
    ],
)
async def test_context_is_asked_of_clients_that_offer_it(
    revision: str, context: bool, sent: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """Before 2025-11-25 every client did; the others get the request without, and the log says it once."""
    recorder = Recorder()

    async def twice(ctx: Context) -> None:
        await ctx.sample("1", include_context="thisServer")
        await ctx.sample("2", include_context="thisServer")

    server, _ = asking(twice)
    await run(server, Model("a", "b", context=context), revision, wrap=recorder)
    assert [one.get("includeContext") for one in questions(recorder)] == [sent, sent]
    assert caplog.text.count("sampling.context") == (1 if sent is None else 0)


async def test_a_conversation_that_breaks_a_rule_is_not_sent() -> None:
    """The place is named; what is left of a step is the usual case."""
    model = Model(wants(use("stock", product="a")))

    async def forgets(ctx: Context) -> None:
        step = await ctx.sample_step("q", tools=[stock], execute_tools=False)
        await ctx.sample([*step.messages, "And?"])

    server, seen = asking(forgets)
    await run(server, model, "2025-11-25")
    assert isinstance(seen[0], LocalProtocolError)
    assert str(seen[0]).startswith("messages[1].content[0].id: a tool_use without a tool_result")
    assert len(model.requests) == 1
