"""The client the official conformance suite starts, once for each scenario: ``python client.py URL``.

The scenario is named by ``MCP_CONFORMANCE_SCENARIO``, the revision by ``MCP_CONFORMANCE_PROTOCOL_VERSION``; some have
data in ``MCP_CONFORMANCE_CONTEXT``. What is said of no scenario in particular: connect, list the tools, leave.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from signing_in import oauth

from antiphon import AntiphonError, Client, ElicitRequestParams, Origin

Scenario = Callable[[Client], Awaitable[None]]


async def only_list(client: Client) -> None:
    """List the tools."""
    await names(client)


async def add_numbers(client: Client) -> None:
    """Call the one tool there is."""
    if "add_numbers" in await names(client):
        await client.call_tool("add_numbers", {"a": 5, "b": 3})


async def fill_defaults(client: Client) -> None:
    """Be asked, and accept what the form proposes."""
    await names(client)
    await client.call_tool("test_client_elicitation_defaults")


async def reconnect(client: Client) -> None:
    """Call a tool whose answer comes after the stream was closed."""
    await names(client)
    await client.call_tool("test_reconnection")


async def say_who(client: Client) -> None:
    """Send a few requests, each of which must say who asks."""
    for name in await names(client):
        await client.call_tool(name, {})


async def send_headers(client: Client) -> None:
    """Send a request of every kind that has a header of its own."""
    for name in await names(client):
        await client.call_tool(name, {})
    for resource in [one async for one in client.resources()]:
        await client.read_resource(resource.uri)
    for prompt in [one async for one in client.prompts()]:
        await client.get_prompt(prompt.name)


async def send_parameters(client: Client) -> None:
    """Call what the suite says, with arguments that travel as headers as well."""
    await names(client)
    for call in context()["toolCalls"]:
        await client.call_tool(call["name"], call["arguments"])


async def avoid_invalid(client: Client) -> None:
    """Call every tool that the library lets through."""
    async for tool in client.tools():
        await client.call_tool(tool.name, dummies(tool.input_schema))


async def echo_state(client: Client) -> None:
    """Go through rounds with and without a state."""
    await names(client)
    for name in ("test_mrtr_echo_state", "test_mrtr_unrelated", "test_mrtr_no_state", "test_mrtr_no_result_type"):
        await client.call_tool(name, {})


async def echo_schema(client: Client) -> None:
    """Send a schema back exactly as it was listed."""
    schemas = {tool.name: tool.input_schema async for tool in client.tools()}
    await client.call_tool("json_schema_echo", {"schema": schemas["json_schema_2020_12_tool"]})


async def call_test_tool(client: Client) -> None:
    """Be let in, and use what may be used."""
    for name in await names(client):
        await client.call_tool(name, {})


async def only_list_skills(client: Client) -> None:
    """List the skills."""
    async for _ in client.skills():
        pass


async def load_skills(client: Client) -> None:
    """Load every skill with all its files, unless the first file is refused."""
    async for skill in client.skills():
        await skill.text()
        for file in () if skill.files == "dynamic" else skill.files:
            await skill.read(file.uri)


SCENARIOS: dict[str, Scenario] = {
    "initialize": only_list,
    "tools_call": add_numbers,
    "elicitation-sep1034-client-defaults": fill_defaults,
    "sse-retry": reconnect,
    "request-metadata": say_who,
    "http-standard-headers": send_headers,
    "http-custom-headers": send_parameters,
    "http-invalid-tool-headers": avoid_invalid,
    "sep-2322-client-request-state": echo_state,
    "json-schema-ref-no-deref": only_list,
    "json-schema-2020-12-preservation": echo_schema,
    "sep-2640-client-no-prefetch": only_list_skills,
    "sep-2640-client-verify-digest": load_skills,
    "sep-2640-client-verify-frontmatter": load_skills,
    "sep-2640-client-verify-size": load_skills,
}


async def names(client: Client) -> list[str]:
    """List the names of the tools, if the server has any to offer."""
    if client.server_capabilities.tools is None:
        return []
    return [tool.name async for tool in client.tools()]


def context() -> Mapping[str, Any]:
    """Read the data of a scenario that has any."""
    return json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))


def dummies(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Make arguments of the right types."""
    values: dict[str, Any] = {"string": "a", "integer": 1, "number": 1.5, "boolean": True, "array": [], "object": {}}
    members = schema.get("properties", {})
    return {name: values.get(member.get("type")) for name, member in members.items()}


async def accept(params: ElicitRequestParams, origin: Origin) -> Mapping[str, Any]:
    """Fill in every default; where there is none, agree."""
    members = (params.requested_schema or {}).get("properties", {})
    dummy = dummies({"properties": members})
    return {name: member.get("default", dummy[name]) for name, member in members.items()}


async def answer(params: object, origin: Origin) -> str:
    """Answer a sampling request: no scenario sends one, but some look whether it is offered."""
    return "Answer"


async def run(url: str, name: str, scenario: Scenario, revision: str) -> None:
    """Play a scenario."""
    offered: dict[str, Any] = {"sampling": answer, "elicitation": accept, "roots": ["file:///conformance"]}
    auth = oauth(name, context()) if name.startswith("auth/") else None
    async with Client(url, revision=revision, auth=auth, **offered) as client:
        await scenario(client)


def main() -> None:
    """Play the scenario of the environment; say what is wrong in one line."""
    name = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    scenario = call_test_tool if name.startswith("auth/") else SCENARIOS.get(name)
    if scenario is None:
        sys.exit(f"client: the scenario {name!r} is not supported")
    revision = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "auto")
    if name.startswith("sep-2640"):
        # The suite names the newest revision with a handshake for every extension; skills need a later one.
        revision = "2026-07-28"
    try:
        asyncio.run(run(sys.argv[-1], name, scenario, revision))
    except AntiphonError as error:
        sys.exit(f"client: {type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
