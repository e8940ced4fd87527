"""``Host.run``: ask a model, call the tools that it wants, and ask again, until it answers without tools.

Owns the order of steps, their bounds, and what is told while they go on. ``pipeline`` has the stages of each call.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec

from antiphon.errors import ConfigError, Rejected
from antiphon.host.agent_run import offered_tools, run_record
from antiphon.host.checks.labels import FLOWING
from antiphon.host.own_request import OwnAnswer
from antiphon.host.review.definitions import digest_definition
from antiphon.host.store.base import Store
from antiphon.wire.content import ToolResultContent, ToolUseContent
from antiphon.wire.sampling import CreateMessageRequestParams, SamplingMessage
from antiphon.wire.tools import CallToolResult

MAX_STEPS = 10
"""Most calls of the model in one run, unless the caller says otherwise."""
_MAX_CALLS = 64
"""Most tools that a model may call in one step."""
_AT_ONCE = 8
"""Most of these calls at the same time: as many as a client answers asks at a time."""


class TextGrew(msgspec.Struct, frozen=True, kw_only=True):
    """Text of an answer that is still coming, masked; only from models that stream."""

    step: int
    text: str


class ModelAnswered(msgspec.Struct, frozen=True, kw_only=True):
    """The model has answered."""

    step: int
    """From 1."""
    answer: OwnAnswer


class ToolBegan(msgspec.Struct, frozen=True, kw_only=True):
    """The model wants a tool; whether it may be called is decided now."""

    step: int
    use: ToolUseContent


class ToolProgressed(msgspec.Struct, frozen=True, kw_only=True):
    """A tool reports how far it has come."""

    step: int
    use: ToolUseContent
    progress: float
    total: float | None = None
    message: str | None = None


RunEvent = TextGrew | ModelAnswered | ToolBegan | ToolProgressed | run_record.ToolEnded
"""What happens during a run."""
OnEvent = Callable[[RunEvent], object]
"""Called with each event; may be a coroutine function, which the run then waits for, except for texts that grow."""


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ended."""

    ended: Literal["answered", "max-steps"]
    """Whether the model has answered, or still wanted tools in the last step; these were not called."""
    answers: Sequence[OwnAnswer]
    """All answers of the model; the last one is the final one."""
    calls: Sequence[run_record.ToolEnded]
    """All calls of tools, in the order in which they ended."""
    messages: Sequence[SamplingMessage]
    """The whole conversation, for a run that goes on with it; without an answer whose tools were not called."""

    @property
    def text(self) -> str:
        """The text of the last answer."""
        return self.answers[-1].text

    @property
    def money(self) -> int | None:
        """Nano-dollars for all answers; ``None`` if the price of one of them is not known."""
        paid = [answer.money for answer in self.answers]
        return None if None in paid else sum(filter(None, paid))


class RunHost(run_record.Elicits, Protocol):
    """What a run needs of a host."""

    @property
    def store(self) -> Store:
        """Where runs are recorded."""
        ...

    async def complete(
        self,
        messages: CreateMessageRequestParams,
        *,
        by: str | None = None,
        model: str | None = None,
        flow: Callable[[str], object] | None = None,
    ) -> OwnAnswer:
        """Ask the model once; see ``Host.complete``."""
        ...


async def run_steps(
    host: RunHost,
    request: CreateMessageRequestParams,
    sources: Sequence[offered_tools.ToolSource],
    *,
    record: run_record.RunRecord,
    max_steps: int,
    max_result: int,
    on_event: OnEvent | None,
    by: str | None,
    model: str | None,
) -> RunResult:
    """Run; see ``Host.run``."""
    if max_steps < 1:
        raise ConfigError("run(): max_steps is at least 1")
    events = _Events(on_event)
    await record.open(request)
    calls = _ToolCalls(host, await offered_tools.offer_tools(sources), max_result, events, record)
    messages, answers, tools = list(request.messages), list[OwnAnswer](), calls.definitions
    while True:
        step = len(answers) + 1
        answer = record.find_answer(step)
        if answer is None:
            asked = msgspec.structs.replace(request, messages=messages, tools=tools)
            answer = await host.complete(asked, by=by, model=model, flow=events.flow(step))
            await calls.record_answer(answer)
            await events.tell(ModelAnswered(step=step, answer=answer))
        answers.append(answer)
        said = SamplingMessage(role="assistant", content=answer.blocks)
        uses = _list_uses(answer)
        if not uses:
            return RunResult(ended="answered", answers=answers, calls=calls.tool_ends, messages=[*messages, said])
        if step >= max_steps:
            return RunResult(ended="max-steps", answers=answers, calls=calls.tool_ends, messages=messages)
        results = await calls.make(step, uses)
        messages = [*messages, said, SamplingMessage(role="user", content=results)]


def _list_uses(answer: OwnAnswer) -> list[ToolUseContent]:
    return [block for block in answer.blocks if isinstance(block, ToolUseContent)]


class _Events:
    """Whoever is told of the events of one run."""

    def __init__(self, on_event: OnEvent | None) -> None:
        self._on_event = on_event
        self._growing: set[asyncio.Future[Any]] = set()

    def flow(self, step: int) -> Callable[[str], None] | None:
        """Return what tells of an answer that grows; ``None`` if nobody wants to know."""
        on_event = self._on_event
        if on_event is None:
            return None

        def pass_text(text: str) -> None:
            told = on_event(TextGrew(step=step, text=text))
            if inspect.isawaitable(told):
                future = asyncio.ensure_future(told)
                self._growing.add(future)
                future.add_done_callback(self._growing.discard)

        return pass_text

    async def tell(self, event: RunEvent) -> None:
        """Tell of an event, after all texts that came before it."""
        if self._growing:
            await asyncio.gather(*self._growing)
        told: object = None if self._on_event is None else self._on_event(event)
        if inspect.isawaitable(told):
            await told


class _ToolCalls:
    """The calls of one run."""

    def __init__(
        self,
        host: RunHost,
        offered: Mapping[str, offered_tools.OfferedTool],
        max_result: int,
        events: _Events,
        record: run_record.RunRecord,
    ) -> None:
        self._host, self._offered, self._max_result, self._events = host, offered, max_result, events
        self._record = record
        self._room = asyncio.Semaphore(_AT_ONCE)
        self.definitions = [each.definition for each in offered.values()] or None
        """The tools for the model; ``None`` if there are none."""

    @property
    def tool_ends(self) -> list[run_record.ToolEnded]:
        """The calls that have ended, in this order."""
        return list(self._record.ended.values())

    async def record_answer(self, answer: OwnAnswer) -> None:
        """Record an answer, and by which definitions its calls were meant."""
        names = {use.name for use in _list_uses(answer)} if self._record.is_stored else ()
        tools = {name: await digest_definition(self._offered[name].tool) for name in names}
        await self._record.add(run_record.RunEntry(answer=answer, tools=tools))

    async def make(self, step: int, uses: Sequence[ToolUseContent]) -> list[ToolResultContent]:
        """Make the calls of one step, some of them at a time, and return their results in the given order."""
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._use(step, use, at)) for at, use in enumerate(uses)]
        except ExceptionGroup as failed:
            # Only a mistake of the program ends a run; the first one is enough to mend.
            raise failed.exceptions[0] from None
        return [task.result() for task in tasks]

    async def _use(self, step: int, use: ToolUseContent, at: int) -> ToolResultContent:
        end = self._record.ended.get((step, at)) or await self._make_call(step, use, at)
        return ToolResultContent(
            tool_use_id=use.id,
            content=end.result.content,
            structured_content=end.result.structured_content,
            is_error=end.result.is_error,
        )

    async def _make_call(self, step: int, use: ToolUseContent, at: int) -> run_record.ToolEnded:
        async with self._room:
            await self._events.tell(ToolBegan(step=step, use=use))
            result, refused = await offered_tools.call_for_model(self._call(step, use, at), self._max_result)
            end = run_record.ToolEnded(step=step, use=use, result=result, refused=refused)
            await self._record.add(run_record.RunEntry(ended=end, place=(step, at)))
            await self._events.tell(end)
        return end

    async def _call(self, step: int, use: ToolUseContent, at: int) -> CallToolResult:
        if at >= _MAX_CALLS:
            raise Rejected(f"At most {_MAX_CALLS} tools can be called in one step", data={"reason": "limit"})
        begun = self._record.began.get((step, at))
        if begun is not None and (known := await run_record.ask_what_became(self._host, use.name, begun)) is not None:
            return known
        offered = await self._find_offered(step, use.name)

        def tell_progress(progress: float, total: float | None, message: str | None) -> Awaitable[None]:
            event = ToolProgressed(step=step, use=use, progress=progress, total=total, message=message)
            return self._events.tell(event)

        confirm = await self._record_begin(offered, use, (step, at))
        return await offered_tools.call_tool(offered, use.input, confirm, tell_progress)

    async def _find_offered(self, step: int, name: str) -> offered_tools.OfferedTool:
        """Return the tool that the model meant; after an interruption, its server may offer another one by this name.

        The host takes no answer that uses a tool which was not offered.
        """
        offered, meant = self._offered.get(name), self._record.find_digest(step, name)
        if offered is None or (meant is not None and meant != await digest_definition(offered.tool)):
            text = (
                f"The tool {name!r} has changed since it was chosen. It was not called: look at its description again"
            )
            raise Rejected(text, data={"reason": "definition"})
        return offered

    async def _record_begin(
        self, offered: offered_tools.OfferedTool, use: ToolUseContent, place: tuple[int, int]
    ) -> offered_tools.ConfirmsCalls:
        """Have the beginning of a call recorded; return what confirms it."""
        if not self._record.is_stored:
            return self._host
        source = offered.source
        asked = source.confirmers if isinstance(source, offered_tools.ToolClient) else ()
        if self._host.confirm not in [getattr(each, "confirm", each) for each in asked]:
            return run_record.RecordedConfirmation(self._host, self._record, place)
        # The source asks this host by itself, so that nobody hears when the call was allowed.
        await self._record.add(run_record.RunEntry(began=use.input, place=place, flowed=(FLOWING, FLOWING)))
        return self._host
