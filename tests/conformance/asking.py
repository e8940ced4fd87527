"""What the everything server asks: the tools and the prompt that need an answer of the client's."""

from __future__ import annotations

import asyncio

from schemas import DEFAULTS_FORM, ENUMS_FORM

from antiphon import Context, Server

__all__ = ["add_asking"]

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
QUESTION = "What is the capital of France?"


def add_asking(server: Server) -> None:
    """Add everything that asks."""
    for function in (
        test_sampling,
        test_elicitation,
        test_elicitation_sep1034_defaults,
        test_elicitation_sep1330_enums,
        test_streaming_elicitation,
        test_input_required_result_elicitation,
        test_input_required_result_sampling,
        test_input_required_result_list_roots,
        test_input_required_result_request_state,
        test_input_required_result_multiple_inputs,
        test_input_required_result_multi_round,
        test_input_required_result_tampered_state,
        test_input_required_result_capabilities,
    ):
        server.tool(function)
    server.prompt(test_input_required_result_prompt)


# --- while the call goes on: up to 2025-11-25 ------------------------------------------------------------------------


async def test_sampling(prompt: str, ctx: Context) -> str:
    """Ask the client's model."""
    return f"LLM response: {(await ctx.sample(prompt, max_tokens=100)).text}"


async def test_elicitation(message: str, ctx: Context) -> str:
    """Ask the user for a name and an address."""
    members = {"username": {"type": "string"}, "email": {"type": "string"}}
    answer = await ctx.elicit(message, {"type": "object", "properties": members})
    return f"User response: {answer.action}, {answer.value}"


async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
    """Ask with a form whose members have defaults."""
    answer = await ctx.elicit("Please review the form", DEFAULTS_FORM)
    return f"Elicitation completed: {answer.action}, {answer.value}"


async def test_elicitation_sep1330_enums(ctx: Context) -> str:
    """Ask with a form that has every kind of choice."""
    answer = await ctx.elicit("Please choose", ENUMS_FORM)
    return f"Elicitation completed: {answer.action}, {answer.value}"


# --- in rounds: 2026-07-28 -------------------------------------------------------------------------------------------


async def test_streaming_elicitation(ctx: Context) -> str:
    """Report, then ask the user for a name."""
    await ctx.progress(1, 2)
    return f"Hello, {await _ask_name(ctx)}"


async def test_input_required_result_elicitation(ctx: Context) -> str:
    """Ask the user for a name."""
    return f"Hello, {await _ask_name(ctx)}!"


async def test_input_required_result_sampling(ctx: Context) -> str:
    """Ask the client's model a question."""
    return (await ctx.sample(QUESTION, max_tokens=100, key="capital_question")).text


async def test_input_required_result_list_roots(ctx: Context) -> str:
    """Ask the client for its roots."""
    return f"Roots: {', '.join(root.uri for root in await ctx.list_roots())}"


async def test_input_required_result_request_state(ctx: Context) -> str:
    """Ask, and know by the state that the answer belongs to the question."""
    return f"state-ok: {(await ctx.elicit('Please confirm', CONFIRM, key='confirm')).value}"


async def test_input_required_result_multiple_inputs(ctx: Context) -> str:
    """Ask the user, the model and the client at once."""
    name, greeting, roots = await asyncio.gather(
        _ask_name(ctx), ctx.sample("Generate a greeting", max_tokens=50, key="greeting"), ctx.list_roots()
    )
    return f"{greeting.text} {name}: {len(roots)} roots"


async def test_input_required_result_multi_round(ctx: Context) -> str:
    """Ask twice, one after the other."""
    name = await _ask_name(ctx, key="step1")
    form = {"type": "object", "properties": {"color": {"type": "string"}}, "required": ["color"]}
    color = await ctx.elicit("Step 2: what is your favorite color?", form, key="step2")
    return f"{name} likes {color.value}"


async def test_input_required_result_tampered_state(ctx: Context) -> str:
    """Ask, with a state that nobody can change unnoticed."""
    return f"confirmed: {(await ctx.elicit('Please confirm', CONFIRM, key='confirm')).value}"


async def test_input_required_result_capabilities(ctx: Context) -> str:
    """Ask only what the client says it can answer."""
    offered = ctx.request.capabilities
    said: list[str] = []
    if offered.sampling is not None:
        said.append((await ctx.sample(QUESTION, max_tokens=100, key="capital_question")).text)
    if offered.elicitation is not None:
        said.append(await _ask_name(ctx))
    return " ".join(said) or "Nothing to ask"


async def test_input_required_result_prompt(ctx: Context) -> str:
    """Write a prompt with words of the user's."""
    form = {"type": "object", "properties": {"context": {"type": "string"}}, "required": ["context"]}
    answer = await ctx.elicit("What context should the prompt use?", form, key="user_context")
    return f"Use this context: {answer.value}"


CONFIRM = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}


async def _ask_name(ctx: Context, key: str = "user_name") -> str:
    answer = await ctx.elicit("What is your name?", NAME, key=key)
    return str(answer.value["name"]) if answer.accepted else "stranger"
