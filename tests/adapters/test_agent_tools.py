"""What all adapters share: what they take, and which ways of deciding cannot be combined."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

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
