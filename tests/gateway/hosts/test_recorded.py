"""The files of all hosts as they are recorded in ``recorded``: installed in, read by the gateway, and undone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from antiphon.client.connection.server_files import read_servers
from antiphon.gateway.hosts.host_documents import read_document
from antiphon.gateway.hosts.installation import KNOWN, Installation

RECORDED = Path(__file__).parent / "recorded"
FILES = {path.stem: path for path in RECORDED.iterdir() if path.stem in KNOWN}
MOVED = {
    "claude-desktop": ["filesystem", "github"],
    "claude-code": ["shop", "notes"],
    "cursor": ["files", "remote"],
    "vscode": ["memory", "github"],
    "windsurf": ["github", "figma"],
    "zed": ["local-mcp-server", "remote-mcp-server"],
    "goose": ["github", "tickets"],
    "codex": ["shop", "wiki"],
    "gemini": ["shop", "wiki"],
    "qwen": ["shop", "wiki"],
    "copilot": ["shop", "wiki"],
    "lm-studio": ["hf-mcp-server", "playwright"],
    "opencode": ["shop", "sentry"],
}
LEFT = {
    "vscode": {"perplexity": "its host asks for values"},
    "windsurf": {"old": "switched off"},
    "zed": {"mcp-server-github": "not a server that can be started or reached"},
    "goose": {"developer": "not a server that can be started or reached"},
    "opencode": {"off": "switched off"},
}
COMMENT = re.compile(r"#[^!].*$|//.*$|/\*.*?\*/", re.MULTILINE)


def test_every_host_is_recorded_with_its_source():
    """Whoever doubts a file can look it up."""
    assert set(FILES) == set(KNOWN) == set(MOVED)
    told = (RECORDED / "README.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([\w.-]+)` \| [^|]+ \| ([^|]+) \|$", told, re.MULTILINE))
    assert set(rows) == {path.name for path in FILES.values()}
    assert all("https://" in source or "npm `" in source for source in rows.values())


@pytest.mark.parametrize("name", KNOWN)
def test_a_recorded_file_is_taken_over_and_given_back(name: str, tmp_path: Path):
    """One entry in its own form; what is not a moved server stays, comments too; undone, it is the same to the byte."""
    before = FILES[name].read_bytes()
    # The host's own name for it, since the ending says how it is read.
    path = tmp_path / Path(KNOWN[name].places["*"]).name
    path.write_bytes(before)
    made = Installation(name, KNOWN[name], path, home=tmp_path / "config", state=tmp_path / "state")
    change = made.plan("/usr/bin/antiphon", keep=False)
    made.install(change)

    now = read_document(path, path.read_bytes(), KNOWN[name].section).servers()
    assert set(now) == {"antiphon", *LEFT.get(name, {})}
    assert change.left == LEFT.get(name, {})
    args = ["gateway", "--config", str(made.servers)]
    assert now["antiphon"] == KNOWN[name].entry("/usr/bin/antiphon", args)
    served = read_servers(made.servers.read_bytes(), made.servers)
    assert list(served) == MOVED[name]
    assert all(entry.command or entry.url for entry in served.values())
    for secret in ("0000",):
        assert secret not in path.read_text(encoding="utf-8") or name == "zed"

    assert made.uninstall().exactly
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", KNOWN)
def test_comments_outside_of_what_moves_stay(name: str, tmp_path: Path):
    """Also when the file was changed since, and is put together again."""
    path = tmp_path / Path(KNOWN[name].places["*"]).name
    path.write_bytes(FILES[name].read_bytes())
    made = Installation(name, KNOWN[name], path, home=tmp_path / "config", state=tmp_path / "state")
    made.install(made.plan("/usr/bin/antiphon", keep=True))
    said = [comment for comment in COMMENT.findall(FILES[name].read_text(encoding="utf-8")) if "://" not in comment]
    now = path.read_text(encoding="utf-8")
    assert [comment for comment in said if comment.strip() not in now] == []
    path.write_text(now + "\n", encoding="utf-8")
    assert not made.uninstall().exactly
    again = read_document(path, path.read_bytes(), KNOWN[name].section).servers()
    assert list(again) == list(read_document(path, FILES[name].read_bytes(), KNOWN[name].section).servers())
