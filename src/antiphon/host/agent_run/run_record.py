"""What is recorded of a run, so that a run that was interrupted goes on, and no call of a tool is made twice.

Each entry is stored before the next step begins:

    request -> answer -> (call began -> call ended) for each tool -> answer -> ...

A call that began and has not ended may have been made: its outcome is *not known*, and a person is asked about it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from antiphon.errors import ConfigError, Rejected
from antiphon.host.agent_run.offered_tools import ConfirmsCalls
from antiphon.host.checks.labels import SessionLabels
from antiphon.host.own_request import OwnAnswer, make_person_origin
from antiphon.host.store.base import Store
from antiphon.wire.content import TextContent, ToolUseContent
from antiphon.wire.elicitation import ElicitRequestParams, ElicitResult
from antiphon.wire.envelope import decode_wire, encode_value
from antiphon.wire.origin import ChangedCall, Origin
from antiphon.wire.sampling import CreateMessageRequestParams
from antiphon.wire.tools import CallToolRequestParams, CallToolResult

_MOST_SHOWN = 2_000
"""Most characters of the arguments of a call in the question about it."""
_OUTCOME: dict[str, Any] = {
    "type": "object",
    "properties": {
        "outcome": {
            "type": "string",
            "title": "What became of it?",
            "oneOf": [
                {"const": "ran", "title": "It ran: do not run it again"},
                {"const": "again", "title": "It did not run: run it now"},
                {"const": "unknown", "title": "I do not know: do not run it"},
            ],
        },
        "result": {"type": "string", "title": "What it returned, for the model, if it ran"},
    },
    "required": ["outcome"],
}


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


class Elicits(ConfirmsCalls, Protocol):
    """A host that can ask a person."""

    async def elicit(self, params: ElicitRequestParams, origin: Origin) -> ElicitResult:
        """Show a form to a person."""
        ...


class RunRecord:
    """The entries of one run. Without an id nothing is stored, and nothing was."""

    def __init__(
        self,
        store: Store,
        run: str | None,
        read_labels: Callable[[], SessionLabels | None],
        restore_labels: Callable[[SessionLabels], None],
    ) -> None:
        self._store, self._run = store, run
        self._read_labels, self._restore_labels = read_labels, restore_labels
        self._count = 0
        self._adding = asyncio.Lock()
        self.began: dict[tuple[int, int], Mapping[str, Any]] = {}
        """The arguments of the calls that may have been sent."""
        self.ended: dict[tuple[int, int], ToolEnded] = {}
        """The calls that have ended, in this order."""
        self._answers: list[RunEntry] = []

    @property
    def is_stored(self) -> bool:
        """Whether the run can be resumed."""
        return self._run is not None

    def find_answer(self, step: int) -> OwnAnswer | None:
        """Return the answer of the model in a step, if it was recorded."""
        return self._answers[step - 1].answer if step <= len(self._answers) else None

    def find_digest(self, step: int, tool: str) -> str | None:
        """Return the digest of the definition by which the model chose a tool in a step, if it was recorded."""
        return self._answers[step - 1].tools.get(tool)

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
            self._answers.append(entry)
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


async def ask_what_became(host: Elicits, name: str, arguments: Mapping[str, Any]) -> CallToolResult | None:
    """Ask a person about a call that began before the run was interrupted; ``None`` to make it now.

    Raises:
        Rejected: nobody knows; ``data.reason`` is ``"unknown"``.
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
