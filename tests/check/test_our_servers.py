"""What the rules find in servers that are right: our own."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import msgspec
import pytest

from antiphon import Client, Server
from antiphon.check.deception import find_deceptions
from antiphon.check.definition_faults import find_definition_faults
from antiphon.check.findings import ServerDefinitions
from antiphon.cli.commands.demo.server import make_server
from antiphon.wire.envelope import encode_value

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


def list_servers() -> dict[str, Server]:
    """Load the servers of the examples and of the demo."""
    servers = {"demo": make_server(0.0)}
    for path in sorted(EXAMPLES.glob("*.py")):
        for name, value in runpy.run_path(str(path), run_name="example").items():
            if isinstance(value, Server):
                servers[f"{path.name}:{name}"] = value
    return servers


SERVERS = list_servers()


async def read_definitions(server: Server) -> ServerDefinitions:
    """List all that a server defines, as plain JSON."""
    async with Client(server) as client:

        def plain(value: object) -> Any:
            return msgspec.json.decode(encode_value(value))

        opening = {"capabilities": plain(client.server_capabilities), "serverInfo": plain(client.server_info)}
        has = opening["capabilities"]
        templates = (await client.list_resource_templates()).resource_templates if "resources" in has else ()
        return ServerDefinitions(
            revision=client.revision,
            opening={**opening, "instructions": client.instructions or ""},
            tools=tuple(map(plain, (await client.list_tools()).tools)) if "tools" in has else (),
            resources=tuple(map(plain, (await client.list_resources()).resources)) if "resources" in has else (),
            templates=tuple(map(plain, templates)),
            prompts=tuple(map(plain, (await client.list_prompts()).prompts)) if "prompts" in has else (),
        )


@pytest.mark.parametrize("server", SERVERS.values(), ids=[*SERVERS])
async def test_our_own_servers_break_no_rule(server: Server):
    """The examples and the demo mislead nobody, and break no rule of the specification."""
    definitions = await read_definitions(server)
    assert list(find_deceptions(definitions)) == []
    found = {finding.rule for finding in find_definition_faults(definitions)}
    assert found <= {"tools.undescribed", "tools.arguments_undescribed", "prompts.undescribed"}
