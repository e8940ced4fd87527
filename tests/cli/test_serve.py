from __future__ import annotations

import json

import pytest

from antiphon.cli.serve import find_server, load
from antiphon.errors import ConfigError
from tests.cli.conftest import Cli
from tests.cli.program import SERVERS, in_process

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}},
}


def test_a_server_is_served_over_stdio():
    """Standard output holds messages only: what the file prints goes to standard error."""
    done = in_process("serve", f"{SERVERS / 'two.py'}:second", stdin=json.dumps(INITIALIZE) + "\n")
    assert done.code == 0
    [reply] = done.objects
    assert reply["result"]["serverInfo"]["name"] == "second"
    assert "loaded" in done.err


@pytest.mark.parametrize(
    ("file", "code", "message"),
    [
        ("two.py", 2, "there are several Server objects (first, second, also_second); choose one"),
        ("two.py:third", 2, "'third' is no Server; it has: first, second, also_second"),
        ("none.py", 2, "no such file"),
        ("silent.txt", 2, "no such file"),
        ("broken.py", 1, "broken.py:6: ZeroDivisionError: division by zero"),
        ("../program.py", 2, "there is no Server object at the top of this file"),
    ],
)
def test_what_cannot_be_served_is_named(file: str, code: int, message: str, cli: Cli):
    """Line or name."""
    done = cli("serve", str(SERVERS / file))
    assert done.code == code
    assert message in done.err


def test_one_server_under_two_names_is_one():
    """An alias is no second server."""
    module = load(SERVERS / "two.py")
    del module.first
    assert find_server(module, None, "x").name == "second"


def test_a_file_that_is_no_python_is_refused(tmp_path):
    """It cannot be imported."""
    file = tmp_path / "server.txt"
    file.touch()
    with pytest.raises(ConfigError, match="not a Python file"):
        load(file)
