"""What all adapters share: what they take, and which ways of deciding cannot be combined."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic_ai import RunContext
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RunUsage

from antiphon import Client, Server
from antiphon.adapters.pydantic_ai import AntiphonToolset
from antiphon.errors import ConfigError, LocalProtocolError
from antiphon.host import Host, Scripted
from tests.adapters.servers import every_kind


def test_a_framework_can_decide_only_with_a_host_and_its_clients():
    """Without a host there is no policy that leaves anything open; behind a file, a gateway decides."""
    for tools, host in ((Client(every_kind([])), None), ("servers.json", Host(Scripted([])))):
        with pytest.raises(ConfigError, match="needs host="):
            AntiphonToolset(tools, host=host, approval="framework")
    with pytest.raises(ConfigError, match="approval is"):
        AntiphonToolset([], approval=cast("Any", "nobody"))


@pytest.mark.parametrize(
    "given", [Server("shop"), [Server("shop")], "http://127.0.0.1:1/mcp", "python shop.py", {}, None]
)
def test_what_is_no_client_is_refused_with_the_remedy(given: Any):
    """A server, an address or a command line has to become a client first."""
    with pytest.raises(ConfigError, match=r"AntiphonToolset\(\) takes clients.*: write Client\(...\) around"):
        AntiphonToolset(given)


def test_a_misspelt_option_is_refused():
    """An approval that is silently dropped would let every call run."""
    with pytest.raises(ConfigError, match=r"AntiphonToolset\(\) takes no aproval=; did you mean approval=\?"):
        AntiphonToolset([], **cast("Any", {"aproval": "framework"}))


async def test_an_adapter_that_was_not_entered_says_so():
    """An empty list would give the agent no tools, and nobody a reason."""
    with pytest.raises(LocalProtocolError, match="use the AntiphonToolset inside `async with`"):
        await AntiphonToolset(Client(every_kind([]))).get_tools(cast("Any", None))


async def test_a_client_that_asks_by_itself_is_not_combined_with_the_framework():
    """Its decider would be asked besides, so nothing is connected."""
    host = Host(Scripted([]), reviewer=None)
    client = Client(every_kind([]), confirm=host)
    with pytest.raises(ConfigError, match="asks already"):
        async with AntiphonToolset(client, host=host, approval="framework"):
            pass
    assert not client.is_open


async def test_a_file_that_wants_variables_must_be_trusted(tmp_path: Path):
    """As for the commands; and a file that is not there is named."""
    file = tmp_path / "servers.json"
    file.write_text('{"mcpServers": {"shop": {"command": "x", "env": {"KEY": "${SECRET}"}}}}')
    for path, said in ((file, "antiphon trust add"), (tmp_path / "none.json", "none.json")):
        with pytest.raises(ConfigError, match=said):
            async with AntiphonToolset(path, host=Host(Scripted([]), reviewer=None)):
                pass


async def test_a_file_of_plain_entries_offers_all_of_their_tools(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    """As hosts write them, in the folder where VS Code has it; one that is wrong is named, and costs no other."""
    program = tmp_path / "shop.py"
    program.write_text(
        "from antiphon import Server\nserver = Server('s')\n"
        "@server.tool\ndef price() -> str:\n    return '3'\nserver.run()\n"
    )
    file = tmp_path / ".vscode" / "mcp.json"
    file.parent.mkdir()
    entry = {"command": sys.executable, "args": ["${workspaceFolder}/shop.py"]}
    file.write_text(json.dumps({"servers": {"shop": entry, "wrong": {"command": 5}}}))
    async with AntiphonToolset(file, host=Host(Scripted([]), reviewer=None)) as toolset:
        assert list(await toolset.get_tools(RunContext(deps=None, model=TestModel(), usage=RunUsage()))) == [
            "shop__price"
        ]
    assert "servers.wrong: Expected `str | array | null`, got `int` - at `$.command`" in caplog.text
