from __future__ import annotations

import sys
from pathlib import Path

from antiphon.cli.servers import identity_of, names_of
from antiphon.host.config import Config
from antiphon.host.config.settings import ServerEntry
from antiphon.identity import identity_of as found_at
from tests.cli.program import SHOP


def test_a_server_is_known_as_a_call_would_know_it():
    """By its command line, its address, or its file."""
    assert identity_of("python shop.py --fast") == found_at(["python", "shop.py", "--fast"])
    assert identity_of("https://Example.com:443/mcp#x") == found_at("https://example.com/mcp")
    assert identity_of(SHOP) == found_at([sys.executable, SHOP])


def test_a_named_server_is_looked_up(tmp_path: Path):
    """In the file that was given."""
    file = tmp_path / "servers.json"
    file.write_text('{"mcpServers": {"shop": {"command": "shop", "args": ["-v"]}}}', encoding="utf-8")
    assert identity_of("shop", file) == found_at(["shop", "-v"])


def test_an_identity_stays():
    """Whole, or as far as it was typed."""
    assert identity_of("command:12ab") == "command:12ab"


def test_configured_servers_have_names():
    """Those whose target is known; an identity alone is no name."""
    entries = (ServerEntry(target=("python", "my shop.py")), ServerEntry(identity="url:1"))
    assert names_of(Config(servers=entries)) == {found_at(["python", "my shop.py"]): "python 'my shop.py'"}
