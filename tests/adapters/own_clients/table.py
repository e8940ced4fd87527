"""Measures the frameworks' own MCP clients by our adapters' cases: ``python -m tests.adapters.own_clients.table``.

Each runs in its framework's environment (``tests/interop/setup.sh``), against the server of the matrix over HTTP, once
for each revision. The table in ``docs/how-to/agent-frameworks.md`` is written again from what their models got, and
from what the server saw. ``tests/adapters/test_own_clients.py`` compares the page with what it measures.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field

from tests.adapters.environments import ROOT, find_python
from tests.adapters.matrix import CASES, EXPECTED, REVISIONS, SINCE, Carried, make_server
from tests.support.network import listening

CLIENTS = {
    "pydantic_ai": "pydantic-ai's `MCPToolset`",
    "langchain": "`langchain-mcp-adapters`",
    "openai_agents": "`MCPServerStreamableHttp` of the Agents SDK",
    "google_adk": "ADK's `McpToolset`",
}
PAGE = ROOT / "docs" / "how-to" / "agent-frameworks.md"
BEGIN, END = "<!-- written by tests.adapters.own_clients.table -->\n", "<!-- end -->\n"
PATIENCE = 900.0
"""Seconds for the 65 cases of one client."""
CANCEL_PATIENCE = 30.0
"""Seconds in which the server must hear that a call was cancelled."""
RAN = {"approve": ["hat"], "edit": ["cap"], "refuse": []}
"""What the server has run at the end of a case in which the user is asked."""


@dataclass
class Measured:
    """What came of one case on one revision."""

    got: str = ""
    """What the model got."""
    ran: list[str] = field(default_factory=list)
    """What the server has run."""
    asked: int = 0
    """How often the user was asked."""
    early: list[str] = field(default_factory=list)
    """What the server had run when the user was asked."""
    is_cancelled: bool = False
    """Whether the server heard that the call was cancelled."""


@dataclass(frozen=True)
class Note:
    """Why a client does not carry a case, or what it needs for it."""

    text: str
    says: str | None = None
    """What the model gets on each revision that is missing, as a pattern; ``None`` if none may be missing."""


_OLD = "The client speaks no revision without a handshake."
_NO_SAMPLING = "The client answers no requests for a completion, so there is none for a budget either."
_NOT_COUNTED = (
    "The framework's limits (`UsageLimits`, `ModelCallLimitMiddleware`, `RunConfig.max_llm_calls`) count what the agent"
    " asks of models, and not what servers ask of them."
)
_NO_QUESTIONS = "The client puts no questions of servers to its user."
_UNCHANGED = "An approval takes no other arguments, and the SDK refuses to run an item whose arguments were changed."
_PAYLOAD = (
    "With a `before_tool_callback` of your own, which takes the arguments or the reason from the payload of the"
    " confirmation."
)
_BY_HAND = (
    "With FastMCP's `Client` and a handler of your own; with `sampling_model=`, the client does not offer tools for"
    " sampling."
)
_SESSION = "With a callback of your own in `session_kwargs`, which the client hands to the official SDK."
_UNOFFERED = r"does not offer|An error occurred while running the tool"
NOTES = {
    ("pydantic_ai", "sampling with tools"): Note(_BY_HAND),
    ("pydantic_ai", "budget"): Note(_NOT_COUNTED, "a warm hat"),
    ("langchain", "2026-07-28"): Note(_OLD, "speaks no revision with a handshake"),
    ("langchain", "sampling"): Note(_SESSION),
    ("langchain", "sampling with tools"): Note(_SESSION),
    ("langchain", "budget"): Note(_NOT_COUNTED, "a warm hat"),
    ("openai_agents", "sampling"): Note(_NO_SAMPLING, _UNOFFERED),
    ("openai_agents", "sampling with tools"): Note(_NO_SAMPLING, _UNOFFERED),
    ("openai_agents", "budget"): Note(_NO_SAMPLING, _UNOFFERED),
    ("openai_agents", "form"): Note(_NO_QUESTIONS, _UNOFFERED),
    ("openai_agents", "url"): Note(_NO_QUESTIONS, _UNOFFERED),
    ("openai_agents", "edit"): Note(_UNCHANGED, "reused a tool call ID"),
    ("google_adk", "2026-07-28"): Note(_OLD, "no tool with that name is available"),
    ("google_adk", "edit"): Note(_PAYLOAD),
    ("google_adk", "refuse"): Note(_PAYLOAD),
    ("google_adk", "budget"): Note(_NOT_COUNTED, "a warm hat"),
}
"""Why cells of the table are not *all*, by client and case or by client and revision."""


def is_carried(case: str, measured: Measured) -> bool:
    """Return whether a client has carried a case."""
    if case == "cancel":
        return measured.is_cancelled
    if case == "budget":
        # Each framework has its own word for what it does not spend.
        return EXPECTED["sampling"] not in measured.got and re.search("budget|limit", measured.got) is not None
    if case in RAN and (measured.asked, measured.early, measured.ran) != (1, [], RAN[case]):
        return False
    return EXPECTED[case] in measured.got


Column = dict[tuple[str, str], Measured]
"""What came of each revision and case of one client."""


async def measure(framework: str) -> Column:
    """Run the cases of one client."""
    carried = {revision: Carried() for revision in REVISIONS}
    async with AsyncExitStack() as serving:
        addresses: dict[str, str] = {}
        for revision in REVISIONS:
            network = await serving.enter_async_context(listening(make_server(carried[revision], revision)))
            addresses[revision] = f"http://{network.place}/mcp"
        environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
        command = [find_python(framework), "-m", f"tests.adapters.own_clients.{framework}", json.dumps(addresses)]
        pipe = asyncio.subprocess.PIPE
        program = await asyncio.create_subprocess_exec(
            *command, cwd=ROOT, env=environment, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL
        )
        try:
            return await asyncio.wait_for(_follow(program, carried), PATIENCE)
        finally:
            if program.returncode is None:
                program.kill()
            await program.wait()


async def _follow(program: asyncio.subprocess.Process, carried: dict[str, Carried]) -> Column:
    """Read what a program tells, look at the server at each line, and let the program go on."""
    column: Column = {}
    output, replies = program.stdout, program.stdin
    assert output is not None and replies is not None
    measured, server = Measured(), Carried()
    while line := await output.readline():
        event = json.loads(line)
        if event["event"] == "begun":
            server = carried[event["revision"]]
            server.ran.clear()
            measured = column[event["revision"], event["case"]] = Measured()
        elif event["event"] == "asked":
            measured.asked, measured.early = measured.asked + 1, list(server.ran)
        elif event["event"] == "ended":
            measured.got, measured.ran = event["got"], list(server.ran)
            if event["case"] == "cancel" and server.waiting.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(server.cancelled.wait(), CANCEL_PATIENCE)
            measured.is_cancelled = server.cancelled.is_set()
        replies.write(b"waits\n" if server.waiting.is_set() else b"\n")
        await replies.drain()
    return column


def list_revisions(case: str) -> list[str]:
    """List the revisions that have a case."""
    return [revision for revision in REVISIONS if revision >= SINCE.get(case, "")]


def find_note(framework: str, revision: str, case: str) -> Note | None:
    """Find why a client does not carry a case on a revision."""
    return NOTES.get((framework, revision)) or NOTES.get((framework, case))


def find_unexplained(framework: str, column: Column) -> list[str]:
    """List what a client does not carry, unless its note is right about it."""
    missing: list[str] = []
    for case in CASES:
        for revision in list_revisions(case):
            measured = column[revision, case]
            note = find_note(framework, revision, case)
            is_explained = note is not None and note.says is not None and bool(re.search(note.says, measured.got))
            if not is_carried(case, measured) and not is_explained:
                missing.append(f"{framework} {revision} {case}: {measured}")
    return missing


def describe(column: Column, case: str) -> str:
    """Describe on which revisions a client has carried a case, of those that have it."""
    having = list_revisions(case)
    carried = [revision for revision in having if is_carried(case, column[revision, case])]
    if len(carried) == len(having):
        return "all"
    if len(carried) > 1 and carried == having[: len(carried)]:
        return f"up to {carried[-1]}"
    return ", ".join(carried) if carried else "none"


def write_column(framework: str, column: Column) -> list[str]:
    """Write the cells of one client, with the numbers of their notes."""
    order = list(dict.fromkeys(note.text for note in NOTES.values()))
    cells: list[str] = []
    for case in CASES:
        missing = [each for each in list_revisions(case) if not is_carried(case, column[each, case])]
        notes = [*(find_note(framework, revision, case) for revision in missing), NOTES.get((framework, case))]
        numbers = sorted({order.index(note.text) + 1 for note in notes if note is not None})
        cells.append(" ".join([describe(column, case), *(f"({number})" for number in numbers)]))
    return cells


def write_table(columns: dict[str, list[str]]) -> str:
    """Write the table and its notes as Markdown."""
    lines = [f"| case | our adapters | {' | '.join(CLIENTS[name] for name in columns)} |"]
    lines.append("|---|---" + "|---" * len(columns) + "|")
    lines += [f"| {case} | all | {' | '.join(cells)} |" for case, *cells in zip(CASES, *columns.values(), strict=True)]
    texts = dict.fromkeys(note.text for note in NOTES.values())
    notes = [f"{at}. {text}" for at, text in enumerate(texts, 1)]
    return "\n".join([*lines, "", *notes]) + "\n"


def read_page() -> str:
    """Read the table as the page has it."""
    return PAGE.read_text(encoding="utf-8").split(BEGIN)[1].split(END)[0]


async def measure_all() -> dict[str, Column]:
    """Measure all clients."""
    return dict(zip(CLIENTS, await asyncio.gather(*map(measure, CLIENTS)), strict=True))


def main() -> None:
    """Measure all clients, and write the page."""
    measured = asyncio.run(measure_all())
    for name, column in measured.items():
        print(*find_unexplained(name, column), sep="\n", file=sys.stderr)
    table = write_table({name: write_column(name, column) for name, column in measured.items()})
    text = PAGE.read_text(encoding="utf-8")
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    PAGE.write_text(f"{before}{BEGIN}{table}{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
