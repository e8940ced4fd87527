"""The turns of one ``ctx.sample``: the model is asked, its tools are run, and its answer is read or repaired.

Owns the loop, its limits, and whose model answers. ``sample`` builds the request, ``Toolbox`` runs tools, and the call
sends the ask. The order of asks depends only on earlier answers, so that a call can be replayed.
``TypedAnswer`` reads answers as values of a type; docs/design/typed-answers.md says why this uses instructions and no
forced tool.

Source: 2025-11-25 client/sampling, "Multi-turn Tool Loop".
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Literal, TypedDict

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from antiphon import errors
from antiphon.json_schema.validator import MismatchError, SchemaMismatch, suggest_name
from antiphon.machine.asyncio_tasks import end_tasks
from antiphon.protocol.server_offer import may_include_context
from antiphon.server.asks.sample import Preferences, Sample
from antiphon.server.calls.call import HandlerCall, within
from antiphon.server.core import Core, Fallback
from antiphon.server.features.tools import ServedTool
from antiphon.server.functions.shape import Shape
from antiphon.wire import sampling as wire
from antiphon.wire.content import TextContent, ToolResultContent, ToolUseContent
from antiphon.wire.envelope import cause_of, decode_wire, encode_value, too_deep
from antiphon.wire.tools import Tool

log = logging.getLogger("antiphon.server")

SamplingTool = Callable[..., Any] | ServedTool | Tool
"""A function, a tool made from one (``antiphon.server.ServedTool``), or a definition."""

TOOL_CONCURRENCY = 8
"""Most functions of one turn that run at the same time: as many asks as a client answers at the same time."""

MAX_USES = 128
"""Most uses accepted from one answer; vendors allow no more parallel tool calls."""

_ENDS_ALL = (errors.Rejected, errors.ConnectionClosed, errors.CallDiverged)
"""Errors that are no result for a model: a person refused, the client is gone, or a replay diverged."""


class Toolbox:
    """The tools of one ``ctx.sample``. ``definitions`` are offered; ``runs``: whether the uses are run here.

    ``context`` is passed unchanged to functions that take it; ``concurrency`` of them run at the same time. Raises
    ``ConfigError`` if functions and definitions are mixed, or two tools have the same name.
    """

    __slots__ = ("_context", "_tools", "_turns", "definitions", "runs")

    def __init__(self, tools: Sequence[SamplingTool], context: object, concurrency: int) -> None:
        if concurrency < 1:
            raise errors.LocalProtocolError(f"tool_concurrency must be at least 1, got {concurrency}")
        made = [
            # Not structured: a model reads the text, and would pay for the same data twice.
            tool if isinstance(tool, Tool | ServedTool) else ServedTool.from_function(tool, structured=False)
            for tool in tools
        ]
        self._tools = {tool.name: tool for tool in made if isinstance(tool, ServedTool)}
        self._context = context
        self._turns = asyncio.Semaphore(concurrency)
        self.runs = len(self._tools) > 0
        self.definitions = [tool if isinstance(tool, Tool) else tool.definition for tool in made]
        if self.runs and any(isinstance(tool, Tool) for tool in made):
            raise errors.ConfigError(
                "tools= holds functions, which are run for the model, and definitions, which nobody can run: give only "
                "functions (or antiphon.server.ServedTool.of_definition(...) with a handler), or only definitions and "
                "use the tools yourself"
            )
        names = [tool.name for tool in made]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise errors.ConfigError(f'tools= holds two tools named "{twice[0]}": tell them apart by name')

    async def use(self, call: HandlerCall, core: Core, uses: Sequence[ToolUseContent]) -> wire.SamplingMessage:
        """Run the uses of one answer, concurrently where possible; return the message with all results, in order."""
        # The tasks are made in the order of the uses, so that a replay gives their asks the same names.
        tasks = [asyncio.get_running_loop().create_task(self._use(call, core, use)) for use in uses]
        try:
            results = await asyncio.gather(*tasks)
        except BaseException:
            await end_tasks(*tasks)
            raise
        return wire.SamplingMessage(role="user", content=results)

    async def _use(self, call: HandlerCall, core: Core, use: ToolUseContent) -> ToolResultContent:
        tool = self._tools.get(use.name)
        if tool is None:
            return _make_failed_result(use, f"There is no tool {use.name[:128]!r}{suggest_name(use.name, self._tools)}")
        async with self._turns:
            if tool.may_ask:
                # A step cannot ask, because no round is sent during a step. So a replay runs the tool
                # again over its recorded answers; its result is recorded nevertheless, because later
                # asks depend on it.
                result = await self._run(core, tool, use)
                return await _keep_result(call, use, lambda: asyncio.sleep(0, result))
            return await _keep_result(call, use, lambda: self._run(core, tool, use))

    async def _run(self, core: Core, tool: ServedTool, use: ToolUseContent) -> ToolResultContent:
        try:
            running = tool.call(Raw(encode_value(use.input)), self._context)
            result = await (running if tool.timeout is None else within(tool.timeout, tool.name, running))
        except _ENDS_ALL:
            raise
        except Exception as error:
            cause = cause_of(error)
            if isinstance(cause, _ENDS_ALL):
                raise cause from None
            return _make_failed_result(use, core.failure_text(tool.name, cause))
        return ToolResultContent(
            tool_use_id=use.id,
            # Some vendors refuse a result without content.
            content=result.content or [TextContent(text="null")],
            structured_content=result.structured_content if not result.content else None,
            is_error=result.is_error,
        )


def _make_failed_result(use: ToolUseContent, text: str) -> ToolResultContent:
    return ToolResultContent(tool_use_id=use.id, content=[TextContent(text=text)], is_error=True)


async def _keep_result(call: HandlerCall, use: ToolUseContent, work: Callable[[], Any]) -> ToolResultContent:
    """Do a step whose result is that of a tool; without replay the result is not encoded and decoded."""
    made: list[ToolResultContent] = []

    async def step(_key: str) -> bytes:
        made.append(await work())
        return encode_value(made[0])

    raw = await call.step(f"tool/{use.name}", step)
    return made[0] if made else decode_wire(raw, ToolResultContent)


MAX_STEPS = 10
"""Default for the most turns of a tool loop: enough for a task, few enough to protect a budget."""

_REMEDY = (
    "Use a client that offers it (tools, and several blocks in one message, came with the revision of November 2025), "
    "or give the server a model of its own: Server(sampling_fallback=...)"
)

_NO_TOOLS = wire.ToolChoice(mode="none")


class TurnOptions(TypedDict, total=False):
    """The arguments of a request for a completion; ``Context.sample`` describes them."""

    system_prompt: str | None
    max_tokens: int
    temperature: float | None
    stop_sequences: Sequence[str] | None
    model_preferences: Preferences | None
    include_context: wire.IncludeContext | None
    metadata: Mapping[str, Any] | None
    tool_choice: str | wire.ToolChoice | None


class SampleOptions(TurnOptions, total=False):
    """Options of ``Context.sample`` and ``Context.sample_step``, which describe them."""

    tools: Sequence[SamplingTool] | None
    tool_concurrency: int
    fallback: bool
    key: str | None
    timeout: float | None
    """Seconds."""


class ToolTurn(Struct, frozen=True, eq=False):
    """One answer, and the conversation up to and including it."""

    params: wire.CreateMessageRequestParams
    """The request."""
    answer: wire.CreateMessageResult
    messages: list[wire.SamplingMessage]

    @property
    def uses(self) -> list[ToolUseContent]:
        """The tools that the model wants to use."""
        return [block for block in self.answer.blocks if isinstance(block, ToolUseContent)]


class Turns(Struct, eq=False):
    """The turns of one sample. ``fallback``, ``key`` and ``timeout`` are those of ``Context.sample``."""

    call: HandlerCall
    core: Core
    """The server that samples."""
    fallback: bool = True
    key: str | None = None
    timeout: float | None = None
    by: Literal["client", "server"] = "client"
    """Whose model answers: the client's, unless it has none."""
    count: int = 0
    """Turns so far."""

    async def complete(
        self, params: wire.CreateMessageRequestParams, tools: Toolbox | None, max_steps: int, result_type: Any
    ) -> Sample[Any]:
        """Do the work of ``ctx.sample``. ``result_type``: a type with a JSON form, or ``None``."""
        if max_steps < 1:
            raise errors.LocalProtocolError(f"max_steps must be at least 1, got {max_steps}")
        if result_type is None:
            return self.sample(await (self.ask(params) if tools is None else self._run(params, tools, max_steps)))
        if tools is not None and not tools.runs:
            raise errors.ConfigError(
                "result_type= needs functions in tools=: uses of mere definitions would get no results"
            )
        wanted = TypedAnswer(result_type)
        params = replace(params, system_prompt=wanted.add_instructions(params.system_prompt))
        turn, value = await self._read(await self._run(params, tools, max_steps), wanted)
        return self.sample(turn, value)

    async def ask(self, params: wire.CreateMessageRequestParams) -> ToolTurn:
        """Do one turn."""
        self.count += 1
        try:
            answer = await (self._ask_client(params) if self.by == "client" else self._ask_server(params))
        except (errors.SamplingUnavailable, errors.NotInRevision) as error:
            # Reached only if nothing was sent. After a refusal no other model is asked.
            if self.by == "server":
                raise
            if self._model is None:
                error.add_note(_REMEDY)
                raise
            self.by = "server"
            answer = await self._ask_server(params)
        if type(answer.content) is not TextContent and any(isinstance(one, ToolResultContent) for one in answer.blocks):
            raise errors.SamplingFailed(
                "The answer holds results of tools, which only the server may give", text=answer.text
            )
        messages = [*params.messages, wire.SamplingMessage(role="assistant", content=answer.content)]
        return ToolTurn(params, answer, messages)

    async def _ask_server(self, params: wire.CreateMessageRequestParams) -> wire.CreateMessageResult:
        fallback = self._model
        if fallback is None:
            raise errors.SamplingUnavailable(
                "Nobody can complete: the client offers no sampling, nor is there a fallback"
            )

        async def complete(_key: str) -> bytes:
            return encode_value(await fallback.complete(params, self.timeout))

        # A step, so that the server's own model is asked once for each ask, and a replay uses the recorded
        # answer.
        return decode_wire(await self.call.step("sampling_fallback", complete), wire.CreateMessageResult)

    @property
    def _model(self) -> Fallback | None:
        # A mounted server without a model of its own uses that of the server its clients are connected to.
        return (self.core.fallback or self.call.core.fallback) if self.fallback else None

    def _ask_client(self, params: wire.CreateMessageRequestParams) -> Awaitable[wire.CreateMessageResult]:
        if params.include_context not in (None, "none"):
            params = self._run_gated(params)
        # A key names one ask on the wire, so the turns after the first get names derived from it.
        key = self.key if self.key is None or self.count == 1 else f"{self.key}-{self.count}"
        return self.call.ask("sampling/createMessage", params, wire.CreateMessageResult, key=key, timeout=self.timeout)

    def _run_gated(self, params: wire.CreateMessageRequestParams) -> wire.CreateMessageRequestParams:
        facts = self.call.facts
        if may_include_context(facts.revision, facts.capabilities):
            return params
        # 2025-11-25 client/sampling: servers "SHOULD NOT use them unless the client declares
        # sampling.context".
        if self.call.connection.session.first_time("includeContext"):
            log.warning("include_context=%r is left out: the client offers no sampling.context", params.include_context)
        return replace(params, include_context=None)

    async def _run(self, params: wire.CreateMessageRequestParams, tools: Toolbox | None, max_steps: int) -> ToolTurn:
        """Ask until the model has finished, at most ``max_steps`` times; the last turn offers no tools."""
        if tools is None or not tools.runs:
            return await self.ask(params)
        for step in range(1, max_steps + 1):
            turn = await self.ask(replace(params, tool_choice=_NO_TOOLS) if step == max_steps else params)
            if not turn.uses:
                return turn
            if step < max_steps:
                params = await self.serve(turn, tools)
        raise errors.SamplingFailed(f"The model still wants to use tools after {max_steps} turns; see max_steps=")

    async def serve(self, turn: ToolTurn, tools: Toolbox) -> wire.CreateMessageRequestParams:
        """Run the tools that a turn wants to use; return the next request."""
        uses = turn.uses
        if len(uses) > MAX_USES:
            raise errors.SamplingFailed(
                f"The model wants to use {len(uses)} tools at once; at most {MAX_USES} are taken"
            )
        if len({use.id for use in uses}) < len(uses):
            raise errors.SamplingFailed("The model gave two uses of tools the same id", text=turn.answer.text)
        results = await tools.use(self.call, self.core, uses)
        choice = turn.params.tool_choice
        # "required" applies to the first turn only: a model that must always use tools never finishes.
        if choice is not None and choice.mode == "required":
            choice = None
        return replace(turn.params, messages=[*turn.messages, results], tool_choice=choice)

    async def _read(self, turn: ToolTurn, wanted: TypedAnswer) -> tuple[ToolTurn, Any]:
        """Convert an answer to a value; the model may correct it once, then it is ``SamplingFailed`` with its text."""
        if turn.uses:
            raise errors.SamplingFailed("The model wants to use tools that it was not offered", text=turn.answer.text)
        try:
            return turn, wanted.read(turn.answer.text)
        except MismatchError as error:
            problem = error
        said = turn.messages if turn.answer.text else turn.params.messages
        question = wire.SamplingMessage(role="user", content=TextContent(text=wanted.repair(problem)))
        choice = _NO_TOOLS if turn.params.tools else None
        turn = await self.ask(replace(turn.params, messages=[*said, question], tool_choice=choice))
        try:
            return turn, wanted.read(turn.answer.text)
        except MismatchError as error:
            cut = "; it was cut off at max_tokens" if turn.answer.stop_reason == "maxTokens" else ""
            raise errors.SamplingFailed(
                f"The model's answer does not fit result_type, nor did a second one: {error}{cut}",
                text=turn.answer.text,
            ) from None

    def sample(
        self, turn: ToolTurn, value: Any = None, *, messages: Sequence[wire.SamplingMessage] | None = None
    ) -> Sample[Any]:
        """Make the author's result; ``messages`` if the conversation continued after the turn."""
        return Sample(messages or turn.messages, turn.answer, value, turns=self.count, by=self.by)


_FENCE = "```"
_OPENING = re.compile(r"```[a-zA-Z]*+[ \t]*+\n")
_MOST_FENCES = 8
"""Most code fences of an answer that are examined."""

_ASK = "Answer with one JSON value and nothing else: no words around it, no code fence. It must fit this JSON Schema:\n"


class TypedAnswer:
    """A type that answers must have. Raises ``ConfigError`` for a type without a JSON form."""

    __slots__ = ("_is_text", "_shape")

    def __init__(self, kind: Any) -> None:
        self._is_text = kind is str
        """Any answer is text, so no instruction is needed."""
        self._shape = Shape(kind, place="result_type")

    def add_instructions(self, system_prompt: str | None) -> str | None:
        """Add a description of the required answer to a system prompt."""
        if self._is_text:
            return system_prompt
        instruction = _ASK + self._schema
        return f"{system_prompt}\n\n{instruction}" if system_prompt else instruction

    def read(self, text: str) -> Any:
        """Read JSON that stands alone, in a code fence or between words; ``MismatchError`` if none fits."""
        if self._is_text:
            return text
        first: MismatchError | None = None
        for candidate in _list_candidates(text):
            for document in self._readings(candidate):
                try:
                    return self._shape.decode(document)
                except (MismatchError, RecursionError) as error:
                    # The error of the most likely reading is the most useful one.
                    if first is None and isinstance(error, MismatchError):
                        first = error
        raise first or MismatchError(SchemaMismatch("", "no JSON in the answer"))

    def repair(self, error: MismatchError) -> str:
        """Tell the model what is wrong, with the schema, because a client may drop the system prompt."""
        return f"This does not fit: {error}. {_ASK}{self._schema}"

    @property
    def _schema(self) -> str:
        return encode_value(self._shape.schema).decode()

    def _readings(self, candidate: str) -> list[bytes]:
        """List the possible JSON of a text: the text and, if the value is wrapped, the bare value or bare words."""
        is_json = _is_json(candidate)
        whole = [candidate.encode()] if is_json else []
        if not self._shape.wrapped:
            return whole
        bare = b'{"result":%b}' % (candidate.encode() if is_json else encode_value(candidate))
        return [*whole, bare] if candidate.startswith("{") else [bare]


def _list_candidates(text: str) -> Iterator[str]:
    """Yield the parts of an answer that may be the JSON, the most likely first."""
    stripped = text.strip()
    if _is_json(stripped):
        yield stripped
        return
    yield from (part for part in islice(_list_fenced(text), _MOST_FENCES) if _is_json(part))
    starts = [at for at in (stripped.find("{"), stripped.find("[")) if at >= 0]
    if starts:
        start = min(starts)
        end = stripped.rfind("}" if stripped[start] == "{" else "]")
        part = stripped[start : end + 1]
        if part and _is_json(part):
            yield part
    # Bare words, such as the name of a choice without quotes.
    yield stripped


def _list_fenced(text: str) -> Iterator[str]:
    """Yield the contents of code fences. A fence that is not closed ends the search."""
    at = text.find(_FENCE)
    while at >= 0:
        opening = _OPENING.match(text, at)
        end = at if opening is None else text.find(_FENCE, opening.end())
        if end < 0:
            return
        if opening is not None:
            yield text[opening.end() : end].strip()
        at = text.find(_FENCE, end + len(_FENCE))


def _is_json(text: str) -> bool:
    try:
        data = text.encode()
        if too_deep(data):
            return False
        msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return True
