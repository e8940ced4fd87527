"""LangChain's ``langchain-mcp-adapters``, with all that it can be given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain.agents import create_agent
from langchain_mcp_adapters.callbacks import Callbacks
from langchain_mcp_adapters.client import MultiServerMCPClient
from mcp.types import ElicitResult

from tests.adapters.cases_langchain import calls, results
from tests.adapters.own_clients.client_program import start


async def accept(context: Any, params: Any, *_: Any) -> ElicitResult:
    """Accept a form or a visit."""
    return ElicitResult(action="accept", content={"size": "L"} if getattr(params, "requestedSchema", None) else None)


async def drive(url: str, name: str, arguments: Mapping[str, Any]) -> str:
    """Call one tool."""
    client = MultiServerMCPClient(
        {"s": {"transport": "streamable_http", "url": url}}, callbacks=Callbacks(on_elicitation=accept)
    )
    agent = create_agent(calls((name, dict(arguments))), await client.get_tools())
    found = results(await agent.ainvoke({"messages": "Go"}))
    return str([(message.content, message.artifact) for message in found])


if __name__ == "__main__":
    start(drive)
