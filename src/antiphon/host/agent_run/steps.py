"""``Host.run``: ask a model, call the tools that it wants, and ask again, until it answers without tools.

Owns the order of steps, their bounds, and what is told while they go on. ``pipeline`` has the stages of each call.

A run is recorded, so that one that was interrupted goes on, and no call of a tool is made twice. Each entry is stored
before the next step begins:

    request -> answer -> (call began -> call ended) for each tool -> answer -> ...

A call that began and has not ended may have been made: its outcome is *not known*, and a person is asked about it.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec
from msgspec import Struct, field

from antiphon.errors import ConfigError, Rejected
from antiphon.host.agent_run import offered_tools
from antiphon.host.agent_run.offered_tools import ConfirmsCalls
from antiphon.host.checks.labels import FLOWING, SessionLabels
from antiphon.host.own_request import OwnAnswer, make_person_origin
from antiphon.host.review.definitions import digest_definition
from antiphon.host.store.base import Store
from antiphon.wire.content import TextContent, ToolResultContent, ToolUseContent
from antiphon.wire.elicitation import ElicitRequestParams, ElicitResult
from antiphon.wire.envelope import decode_wire, encode_value
from antiphon.wire.origin import ChangedCall, Origin
from antiphon.wire.sampling import CreateMessageRequestParams, SamplingMessage
from antiphon.wire.tools import CallToolRequestParams, CallToolResult

_MOST_SHOWN = 2_000
"""Most characters of the arguments of a call in the question about it."""
_OUTCOME_FILE = Path(__file__).with_name("outcome_form.json")
_OUTCOME = msgspec.json.decode(_OUTCOME_FILE.read_bytes(), type=dict[str, Any])
"""The form in which a person says what became of a call."""


class ToolEnded(msgspec.Struct, frozen=True, kw_only=True):
    """A call has ended, or was refused."""

    step: int
    use: ToolUseContent
    result: CallToolResult
    """What the model gets of it; ``is_error`` if it failed or was refused."""
    refused: str | None = None
    """Why it was refused, as ``data["reason"]`` of ``Rejected``; ``None`` if it was made. ``"unknown"``: the run was
    interrupted during the call, and nobody could say whether it was made."""


class RunEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One entry: exactly one of ``request``, ``answer``, ``began`` and ``ended`` is set."""

    request: CreateMessageRequestParams | None = None
    """The request of the run, without tools."""
    answer: OwnAnswer | None = None
    tools: Mapping[str, str] = {}
    """The digests of the definitions of the tools that the answer wants, by their names for the model."""
    began: Mapping[str, Any] | None = None
    """The arguments of a call that may be sent from now on."""
    ended: ToolEnded | None = None
    place: tuple[int, int] = (0, 0)
    """The step of a call, and its number within the step."""
    flowed: SessionLabels | None = None
    """What the run had read by then; everything, if it is not known what the call that begins will read."""


class RunRecord(Struct, eq=False):
    """The entries of one run. Without an id nothing is stored, and nothing was."""

    _store: Store
    _run: str | None
    _read_labels: Callable[[], SessionLabels | None]
    _restore_labels: Callable[[SessionLabels], None]
    _count: int = 0
    _adding: asyncio.Lock = field(default_factory=asyncio.Lock)
    began: dict[tuple[int, int], Mapping[str, Any]] = {}
    """The arguments of the calls that may have been sent."""
    ended: dict[tuple[int, int], ToolEnded] = {}
    """The calls that have ended, in this order."""
    answers: list[RunEntry] = []
    """The answers of the model, one for each step, with the digests of the tools that they want."""

    @property
    def is_stored(self) -> bool:
        """Whether the run can be resumed."""
        return self._run is not None

    async def open(self, request: CreateMessageRequestParams) -> None:
        """Read what was recorded; raise ``ConfigError`` if that is a run with another request."""
        bodies = [] if self._run is None else await self._store.run_entries(self._run)
        entries = [decode_wire(body.encode(), RunEntry) for body in bodies]
        for entry in entries:
            self._take(entry)
        for entry in entries:
            if entry.flowed is not None and (entry.began is None or entry.place not in self.ended):
                self._restore_labels(entry.flowed)
        begin = RunEntry(request=msgspec.structs.replace(request, tools=None))
        if not bodies:
            await self.add(begin)
        elif bodies[0] != encode_value(begin).decode():
            raise ConfigError(f"run {self._run!r} was begun with another request: give this one an id of its own")

    async def add(self, entry: RunEntry) -> None:
        """Record an entry; raise ``ConfigError`` if another process goes on with this run."""
        async with self._adding:
            if self._run is not None:
                if entry.request is None and entry.flowed is None:
                    entry = msgspec.structs.replace(entry, flowed=self._read_labels())
                body = encode_value(entry).decode()
                if not await self._store.add_run_entry(self._run, self._count, body):
                    raise ConfigError(f"run {self._run!r} goes on elsewhere, or was forgotten: this one ends")
            self._take(entry)

    def _take(self, entry: RunEntry) -> None:
        self._count += 1
        if entry.answer is not None:
            self.answers.append(entry)
        if entry.began is not None:
            self.began[entry.place] = entry.began
        if entry.ended is not None:
            self.ended[entry.place] = entry.ended


class RecordedConfirmation:
    """The host's confirmation of one call, which records that the call begins as soon as it is allowed."""

    def __init__(self, host: ConfirmsCalls, record: RunRecord, place: tuple[int, int]) -> None:
        self._host, self._record, self._place = host, record, place
        self.handed_over = getattr(host, "handed_over", None)

    async def confirm(self, params: CallToolRequestParams, origin: Origin) -> bool | ChangedCall | None:
        """Decide about the call; see ``Host.confirm``."""
        allowed = await self._host.confirm(params, origin)
        sent = allowed.params if isinstance(allowed, ChangedCall) else params if allowed is True else None
        if sent is not None:
            arguments = msgspec.json.decode(bytes(sent.arguments) or b"{}")
            await self._record.add(RunEntry(began=arguments, place=self._place))
        return allowed

    async def examine(self, result: CallToolResult, params: CallToolRequestParams, origin: Origin) -> CallToolResult:
        """Have the host look at the result; see ``Host.examine``."""
        return await self._host.examine(result, params, origin)


async def ask_what_became(host: RunHost, name: str, arguments: Mapping[str, Any]) -> CallToolResult | None:
    """Ask a person about a call that began before the run was interrupted; ``None`` to make it now.

    Raises ``Rejected``: nobody knows; ``data.reason`` is ``"unknown"``.
    """
    shown = encode_value(arguments).decode()[:_MOST_SHOWN]
    question = f"The run was interrupted during this call, so nobody knows whether it ran: {name} {shown}"
    answer = await host.elicit(ElicitRequestParams.form(question, _OUTCOME), make_person_origin())
    said = (answer.content or {}) if answer.action == "accept" else {}
    if said.get("outcome") == "again":
        return None
    if said.get("outcome") == "ran":
        text = said.get("result") or "It ran before the run was interrupted; its result was lost."
        return CallToolResult(content=[TextContent(text=str(text))])
    raise Rejected(
        "Nobody knows whether this call ran: the run was interrupted during it. It is not made again. Find out what it "
        "has done before you make another call in its place",
        data={"reason": "unknown"},
    )


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


RunEvent = TextGrew | ModelAnswered | ToolBegan | ToolProgressed | ToolEnded
"""What happens during a run."""
OnEvent = Callable[[RunEvent], object]
"""Called with each event; may be a coroutine function, which the run then waits for, except for texts that grow."""


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ended."""

    ended: Literal["answered", "max-steps"]
    """Whether the model has answered, or still wanted tools in the last step; these were not called."""
    answers: Sequence[OwnAnswer]
    """All answers of the model; the last one is the final one."""
    calls: Sequence[ToolEnded]
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


class RunHost(ConfirmsCalls, Protocol):
    """What a run needs of a host."""

    async def elicit(self, params: ElicitRequestParams, origin: Origin) -> ElicitResult:
        """Show a form to a person."""
        ...

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
    record: RunRecord,
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
        answer = record.answers[step - 1].answer if step <= len(record.answers) else None
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
    def __init__(
        self,
        host: RunHost,
        offered: Mapping[str, offered_tools.OfferedTool],
        max_result: int,
        events: _Events,
        record: RunRecord,
    ) -> None:
        self._host, self._offered, self._max_result, self._events = host, offered, max_result, events
        self._record = record
        self._room = asyncio.Semaphore(_AT_ONCE)
        self.definitions = [each.definition for each in offered.values()] or None
        """The tools for the model; ``None`` if there are none."""

    @property
    def tool_ends(self) -> list[ToolEnded]:
        """The calls that have ended, in this order."""
        return list(self._record.ended.values())

    async def record_answer(self, answer: OwnAnswer) -> None:
        """Record an answer, and by which definitions its calls were meant."""
        names = {use.name for use in _list_uses(answer)} if self._record.is_stored else ()
        tools = {name: await digest_definition(self._offered[name].tool) for name in names}
        await self._record.add(RunEntry(answer=answer, tools=tools))

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

    async def _make_call(self, step: int, use: ToolUseContent, at: int) -> ToolEnded:
        async with self._room:
            await self._events.tell(ToolBegan(step=step, use=use))
            result, refused = await offered_tools.call_for_model(self._call(step, use, at), self._max_result)
            end = ToolEnded(step=step, use=use, result=result, refused=refused)
            await self._record.add(RunEntry(ended=end, place=(step, at)))
            await self._events.tell(end)
        return end

    async def _call(self, step: int, use: ToolUseContent, at: int) -> CallToolResult:
        if at >= _MAX_CALLS:
            raise Rejected(f"At most {_MAX_CALLS} tools can be called in one step", data={"reason": "limit"})
        begun = self._record.began.get((step, at))
        if begun is not None and (known := await ask_what_became(self._host, use.name, begun)) is not None:
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
        offered, meant = self._offered.get(name), self._record.answers[step - 1].tools.get(name)
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
            return RecordedConfirmation(self._host, self._record, place)
        # The source asks this host by itself, so that nobody hears when the call was allowed.
        await self._record.add(RunEntry(began=use.input, place=place, flowed=(FLOWING, FLOWING)))
        return self._host
