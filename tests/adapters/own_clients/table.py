"""Measures the frameworks' own MCP clients by our adapters' cases: ``python -m tests.adapters.own_clients.table``.

Each runs in its framework's environment (``tests/interop/setup.sh``), against the server of the matrix over HTTP, once
for each revision. The table in ``docs/how-to/agent-frameworks.md`` is written again from what their models got.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import AsyncExitStack

from tests.adapters.environments import ROOT, find_python
from tests.adapters.matrix import EXPECTED, REVISIONS, SINCE, TOOLS, Carried, make_server
from tests.support.network import listening

CLIENTS = {
    "pydantic_ai": "pydantic-ai's `MCPToolset`",
    "langchain": "`langchain-mcp-adapters`",
    "openai_agents": "`MCPServerStreamableHttp` of the Agents SDK",
    "google_adk": "ADK's `McpToolset`",
}
CASES = [case for case in TOOLS if case not in ("approve", "edit", "refuse", "budget")]
PAGE = ROOT / "docs" / "how-to" / "agent-frameworks.md"
BEGIN, END = "<!-- written by tests.adapters.own_clients.table -->\n", "<!-- end -->\n"
PATIENCE = 900.0
"""Seconds for the 50 cases of one client."""


async def measure(framework: str) -> dict[tuple[str, str], bool]:
    """Run the cases of one client; return which of them were carried, by revision and case."""
    carried = {revision: Carried() for revision in REVISIONS}
    async with AsyncExitStack() as serving:
        addresses: dict[str, str] = {}
        for revision in REVISIONS:
            network = await serving.enter_async_context(listening(make_server(carried[revision], revision)))
            addresses[revision] = f"http://{network.place}/mcp"
        environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
        command = [find_python(framework), "-m", f"tests.adapters.own_clients.{framework}", json.dumps(addresses)]
        program = await asyncio.create_subprocess_exec(
            *command, cwd=ROOT, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
        )
        output, _ = await asyncio.wait_for(program.communicate(), PATIENCE)
    found: dict[tuple[str, str], bool] = {}
    for line in output.decode().splitlines():
        told = json.loads(line)
        case, revision = told["case"], told["revision"]
        is_cancelled = case == "cancel" and carried[revision].cancelled.is_set()
        found[revision, case] = is_cancelled or EXPECTED.get(case, "nothing") in told["got"]
        if not found[revision, case]:
            print(framework, revision, case, told["got"][:300], file=sys.stderr)
    return found


def describe(found: dict[tuple[str, str], bool], case: str) -> str:
    """Describe on which revisions a client has carried a case, of those that have it."""
    having = [revision for revision in REVISIONS if revision >= SINCE.get(case, "")]
    carried = [revision for revision in having if found.get((revision, case))]
    if len(carried) == len(having):
        return "all"
    if len(carried) > 1 and carried == having[: len(carried)]:
        return f"up to {carried[-1]}"
    return ", ".join(carried) if carried else "none"


def write_table(measured: dict[str, dict[tuple[str, str], bool]]) -> str:
    """Write the table as Markdown."""
    lines = [f"| case | our adapters | {' | '.join(CLIENTS[name] for name in measured)} |"]
    lines.append("|---|---" + "|---" * len(measured) + "|")
    lines += [
        f"| {case} | all | {' | '.join(describe(found, case) for found in measured.values())} |" for case in CASES
    ]
    return "\n".join(lines) + "\n"


async def measure_all() -> dict[str, dict[tuple[str, str], bool]]:
    """Measure all clients."""
    return {name: await measure(name) for name in CLIENTS}


def main() -> None:
    """Measure all clients, and write the page."""
    table = write_table(asyncio.run(measure_all()))
    text = PAGE.read_text(encoding="utf-8")
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    PAGE.write_text(f"{before}{BEGIN}{table}{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
