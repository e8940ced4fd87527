"""A vendor's request as a question to the host, with the form of its answer; and the host's answer.

Owns answers by a JSON schema. MCP's sampling has no such thing, so the schema is offered as a tool that must be used,
and the input of that tool is the answer. If tools cannot be offered, or the request has tools of its own, the prompt
asks for the schema in words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from antiphon.errors import ConfigError
from antiphon.host.providers.base import Completion, Usage
from antiphon.json_schema.validator import MismatchError, SchemaValidator
from antiphon.model_api.dialects import members
from antiphon.model_api.dialects.members import Failure
from antiphon.wire import sampling as wire
from antiphon.wire.content import TextContent, ToolUseContent
from antiphon.wire.tools import Tool

C = TypeVar("C")

_TOOL = "give_answer"
_BY_TOOL = "Gives the answer. Call this exactly once."
_BY_WORDS = "Answer with one JSON value and nothing else: no prose, no code fence."


class AnswerForm(msgspec.Struct, frozen=True, kw_only=True):
    """The form of JSON that an answer must have."""

    schema: Mapping[str, Any] | None = None
    """``None``: any object."""
    by_tool: bool = False


class DialectRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request."""

    params: wire.CreateMessageRequestParams
    model: str
    """Whether the program wants a stream."""
    n: int = 1
    streams: bool = False
    counts: bool = False
    """Whether a stream ends with the usage."""
    form: AnswerForm | None = None
    noted: tuple[str, ...] = ()
    """Members without effect."""


class DialectAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer."""

    text: str
    uses: tuple[ToolUseContent, ...] = ()
    stop: str
    model: str
    usage: Usage


class Own(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a request that each vendor writes differently, as its dialect has read them."""

    messages: list[wire.SamplingMessage]
    system: str | None
    max_tokens: int
    tools: list[Tool]
    choice: wire.ToolChoice | None = None
    stops: list[str] | None = None
    schema: tuple[Mapping[str, Any] | None] | None = None
    """The schema of the answer in a tuple, ``(None,)`` for any object; ``None`` if the answer is text."""
    n: int = 1
    counts: bool = False


def read_common_parts(
    body: Mapping[str, Any], table: members.DialectMembers, own: Own, *, offers_tools: bool
) -> DialectRequest:
    """Read the parts of a request that all vendors write alike, and make the request for the host."""
    noted = members.collect_unused_members(body, table)
    model, temperature = members.read_text(body.get("model"), "model"), body.get("temperature")
    params = wire.CreateMessageRequestParams(
        messages=own.messages,
        max_tokens=own.max_tokens,
        model_preferences=wire.ModelPreferences(hints=[wire.ModelHint(name=model)]) if model else None,
        system_prompt=own.system,
        temperature=None if temperature is None else members.read_number(temperature, "temperature"),
        stop_sequences=own.stops,
        # Tells a reviewer which members have no effect.
        metadata={"withoutEffect": list(noted)} if noted else None,
        tools=own.tools or None,
        tool_choice=own.choice,
    )
    form = None
    if own.schema is not None:
        params, form = _ask_for_json(params, own.schema[0], offers_tools=offers_tools)
    return DialectRequest(
        params=params,
        model=model,
        n=own.n,
        streams=members.read_boolean(body.get("stream") or False, "stream"),
        counts=own.counts,
        form=form,
        noted=noted,
    )


def content_of(value: object, place: str, read: Callable[[Mapping[str, Any], str], C]) -> list[TextContent | C]:
    """Return the content of a message: a text alone, or blocks that ``read`` converts."""
    if isinstance(value, str):
        return [TextContent(text=value)]
    return [read(block, at) for block, at in members.read_objects(value, place)]


def tools_in(body: Mapping[str, Any], read: Callable[[Mapping[str, Any], str], Tool]) -> list[Tool]:
    """Return the tools that a request brings."""
    return [read(tool, place) for tool, place in members.read_objects(body.get("tools") or [], "tools")]


def only_tool(tools: Sequence[Tool], name: str, place: str) -> list[Tool]:
    """Return the tool of a name as a list of one, since no other tool is offered then."""
    found = [tool for tool in tools if tool.name == name]
    if not found:
        raise members.make_unusable_failure(place, "there is no such tool")
    return found


def _ask_for_json(
    params: wire.CreateMessageRequestParams, schema: Mapping[str, Any] | None, *, offers_tools: bool
) -> tuple[wire.CreateMessageRequestParams, AnswerForm]:
    """Return a request that asks for JSON, and the form of its answer; raise ``Failure`` for an unusable schema."""
    if schema is None:
        return _in_words(params, _BY_WORDS), AnswerForm()
    try:
        SchemaValidator(schema, place="schema", lazy=True)
    except ConfigError as error:
        raise members.make_unusable_failure("schema", str(error)) from None
    if offers_tools and not params.tools and schema.get("type") == "object":
        tool = Tool(name=_TOOL, description=_BY_TOOL, input_schema=dict(schema))
        choice = wire.ToolChoice(mode="required")
        return msgspec.structs.replace(params, tools=[tool], tool_choice=choice), AnswerForm(
            schema=schema, by_tool=True
        )
    written = f"{_BY_WORDS} It fits this JSON schema: {msgspec.json.encode(schema).decode()}"
    return _in_words(params, written), AnswerForm(schema=schema)


def _in_words(params: wire.CreateMessageRequestParams, words: str) -> wire.CreateMessageRequestParams:
    system = f"{params.system_prompt}\n\n{words}" if params.system_prompt else words
    return msgspec.structs.replace(params, system_prompt=system)


async def read_answer(completion: Completion, asked: DialectRequest) -> DialectAnswer:
    """Read an answer; raise ``Failure`` if it is not in the form that was asked for."""
    result = completion.result
    texts = [block.text for block in result.blocks if isinstance(block, TextContent)]
    uses = tuple(block for block in result.blocks if isinstance(block, ToolUseContent))
    read = DialectAnswer(
        text="".join(texts),
        uses=uses,
        stop=result.stop_reason or "endTurn",
        model=result.model,
        usage=completion.usage or Usage(),
    )
    return read if asked.form is None or (uses and not asked.form.by_tool) else await _fit_to_form(read, asked.form)


async def _fit_to_form(read: DialectAnswer, form: AnswerForm) -> DialectAnswer:
    if form.by_tool and read.uses:
        value: Any = read.uses[0].input
        read = msgspec.structs.replace(
            read,
            text=msgspec.json.encode(value).decode(),
            uses=(),
            stop="endTurn" if read.stop == "toolUse" else read.stop,
        )
    else:
        try:
            value = msgspec.json.decode(read.text)
        except (ValueError, RecursionError):
            raise Failure(502, "not_json", "The answer is not the JSON that was asked for.") from None
    if form.schema is not None:
        try:
            await SchemaValidator(form.schema, place="schema").check(value)
        except MismatchError:
            raise Failure(502, "not_in_schema", "The answer does not fit the JSON schema.") from None
    return read
