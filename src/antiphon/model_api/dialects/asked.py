"""A vendor's request as a question to the host, with the form of its answer; and the host's answer.

Owns answers by a JSON schema. MCP's sampling has no such thing, so the schema is offered as a tool that must be used,
and the input of that tool is the answer. If tools cannot be offered, or the request has tools of its own, the prompt
asks for the schema in words.

Owns the members of a vendor's request, too: what becomes of each, by the tables in ``members.toml``, and its value,
checked for its type. Each mistake in a value is named by its place. The errors are written as each vendor writes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from antiphon.errors import ConfigError, InvalidParams, Rejected
from antiphon.host.providers.base import Completion, Usage
from antiphon.json_schema.validator import MismatchError, SchemaValidator
from antiphon.wire import sampling as wire
from antiphon.wire.content import TextContent, ToolUseContent
from antiphon.wire.envelope import read_data
from antiphon.wire.tools import Tool

NO_RETRY = (b"x-should-retry", b"false")
"""The vendors' clients repeat a request that failed with 408, 409, 429 or 5xx, unless the response has this header."""


class Failure(Exception):
    """A request that gets no answer. ``code`` is a short name for programs, ``param`` the member that is wrong."""

    def __init__(self, status: int, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.param = param


class _FailureTables(msgspec.Struct, frozen=True, kw_only=True):
    """See ``failures.toml``."""

    refused: dict[str, tuple[int, str]]
    openai: dict[int, str]
    anthropic: dict[int, str]


_FAILURES = msgspec.toml.decode(Path(__file__).with_name("failures.toml").read_bytes(), type=_FailureTables)


def failure_of(error: BaseException) -> Failure:
    """Convert what a host raises."""
    if isinstance(error, Failure):
        return error
    if isinstance(error, InvalidParams):
        place = read_data(error, "place")
        return Failure(400, "invalid_request", error.message, place if isinstance(place, str) else None)
    if isinstance(error, Rejected):
        reason = str(read_data(error, "reason") or "user")
        status, message = _FAILURES.refused.get(reason, (403, "The request was refused."))
        code = "insufficient_quota" if reason == "budget" else f"refused_{reason.replace('-', '_')}"
        return Failure(status, code, message)
    return Failure(500, "host_failed", "The host could not answer the request.")


def openai_error(failure: Failure) -> bytes:
    """Write a failure as OpenAI does."""
    kind = _FAILURES.openai.get(failure.status, "invalid_request_error" if failure.status < 500 else "server_error")
    error = {
        "message": failure.message,
        "type": "insufficient_quota" if failure.code == "insufficient_quota" else kind,
        "param": failure.param,
        "code": failure.code,
    }
    return msgspec.json.encode({"error": error})


def anthropic_error(failure: Failure) -> bytes:
    """Write a failure as Anthropic does."""
    kind = _FAILURES.anthropic.get(failure.status, "invalid_request_error" if failure.status < 500 else "api_error")
    if failure.code == "insufficient_quota":
        kind = "billing_error"
    # Its errors have no member for the place, so the message begins with it.
    is_placed = failure.param is None or failure.message.startswith(failure.param)
    message = failure.message if is_placed else f"{failure.param}: {failure.message}"
    return msgspec.json.encode({"type": "error", "error": {"type": kind, "message": message}})


class DialectMembers(msgspec.Struct, frozen=True, kw_only=True):
    """The members of one request; see ``members.toml``."""

    carried: dict[str, str]
    noted: tuple[str, ...]
    refused: dict[str, str]
    harmless: dict[str, tuple[Any, ...]]


_TABLES = msgspec.toml.decode(Path(__file__).with_name("members.toml").read_bytes(), type=dict[str, DialectMembers])
CHAT, MESSAGES, RESPONSES = _TABLES["chat"], _TABLES["messages"], _TABLES["responses"]


def collect_unused_members(body: Mapping[str, Any], table: DialectMembers) -> tuple[str, ...]:
    """Return the names of members without effect, unknown ones too; raise ``Failure`` if a member is refused."""
    noted: list[str] = []
    for name, value in body.items():
        if value is None or name in table.carried:
            continue
        if name not in table.refused:
            noted.append(name[:_LONGEST])
        elif value not in table.harmless.get(name, ()):
            raise make_unusable_failure(name, f"not offered here: {table.refused[name]}")
    return tuple(noted[:_MOST])


_LONGEST, _MOST = 64, 32
"""Most characters of a name, and most names, that are noted: more than any vendor's request has."""


def make_unusable_failure(place: str, problem: str) -> Failure:
    """Make the error for a member that cannot be used."""
    return Failure(400, "invalid_request", f"{place}: {problem}", place)


def _make_reader(kinds: tuple[type, ...], words: str) -> Callable[[object, str], Any]:
    """Make a function that returns a value of these types, and refuses any other by its place."""

    def read(value: object, place: str) -> Any:
        # Exactly these types: a truth value is no number.
        if type(value) not in kinds:
            raise make_unusable_failure(place, f"must be {words}")
        return value

    return read


read_text: Callable[[object, str], str] = _make_reader((str,), "a string")
read_number: Callable[[object, str], float] = _make_reader((int, float), "a number")
read_boolean: Callable[[object, str], bool] = _make_reader((bool,), "true or false")
read_items: Callable[[object, str], list[Any]] = _make_reader((list,), "an array")
read_members: Callable[[object, str], Mapping[str, Any]] = _make_reader((dict,), "an object")


def optional_text(value: object, place: str) -> str | None:
    """Return a text, or ``None`` for an absent one."""
    return None if value is None else read_text(value, place)


def read_whole_number(value: object, place: str) -> int:
    """Return a whole number of at least 1."""
    if type(value) is not int or value < 1:
        raise make_unusable_failure(place, "must be an integer of at least 1")
    return value


def read_objects(value: object, place: str) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Yield the objects of an array, each with its place."""
    for at, each in enumerate(read_items(value, place)):
        yield read_members(each, f"{place}[{at}]"), f"{place}[{at}]"


def read_arguments(value: object, place: str) -> Mapping[str, Any]:
    """Return the arguments of a tool, which OpenAI writes as JSON in a string; none if the member is absent."""
    try:
        given: object = msgspec.json.decode(read_text(value or "{}", place))
    except (ValueError, RecursionError):
        raise make_unusable_failure(place, "is not JSON") from None
    return read_members(given, place)


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
    n: int = 1
    streams: bool = False
    """Whether the program wants a stream."""
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
    body: Mapping[str, Any], table: DialectMembers, own: Own, *, offers_tools: bool
) -> DialectRequest:
    """Read the parts of a request that all vendors write alike, and make the request for the host."""
    noted = collect_unused_members(body, table)
    model, temperature = read_text(body.get("model"), "model"), body.get("temperature")
    params = wire.CreateMessageRequestParams(
        messages=own.messages,
        max_tokens=own.max_tokens,
        model_preferences=wire.ModelPreferences(hints=[wire.ModelHint(name=model)]) if model else None,
        system_prompt=own.system,
        temperature=None if temperature is None else read_number(temperature, "temperature"),
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
        streams=read_boolean(body.get("stream") or False, "stream"),
        counts=own.counts,
        form=form,
        noted=noted,
    )


def content_of(value: object, place: str, read: Callable[[Mapping[str, Any], str], C]) -> list[TextContent | C]:
    """Return the content of a message: a text alone, or blocks that ``read`` converts."""
    if isinstance(value, str):
        return [TextContent(text=value)]
    return [read(block, at) for block, at in read_objects(value, place)]


def tools_in(body: Mapping[str, Any], read: Callable[[Mapping[str, Any], str], Tool]) -> list[Tool]:
    """Return the tools that a request brings."""
    return [read(tool, place) for tool, place in read_objects(body.get("tools") or [], "tools")]


def only_tool(tools: Sequence[Tool], name: str, place: str) -> list[Tool]:
    """Return the tool of a name as a list of one, since no other tool is offered then."""
    found = [tool for tool in tools if tool.name == name]
    if not found:
        raise make_unusable_failure(place, "there is no such tool")
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
        raise make_unusable_failure("schema", str(error)) from None
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
