"""The hosts whose configuration is known: one row each.

Sources, read in November 2026: the documentation of each host, and the tables of ToolHive (``pkg/client/config.go``)
and add-mcp (``src/agents.ts``), two installers that write the same files.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

__all__ = ["KNOWN", "HostFile", "place_of"]

Shape = Literal["plain", "typed", "codex", "copilot", "goose", "opencode"]


class HostFile(Struct, frozen=True, kw_only=True):
    """Where a host keeps its servers, and in which form."""

    title: str
    """The host's name, for people."""
    section: str
    """The member that holds the servers."""
    places: Mapping[str, str]
    """The path of the file by platform (``sys.platform``), ``*`` for all others; ``~`` and ``$NAME`` are expanded."""
    shape: Shape = "plain"
    """The form of an entry."""
    has_projects: bool = False
    """Whether the file also has servers for single projects, under ``projects``."""

    def entry(self, command: str, args: Sequence[str], variables: Sequence[str] = ()) -> dict[str, Any]:
        """Write the entry of a program as this host reads it, with the variables that it needs if they must be named.

        Args:
            command: the program.
            args: its arguments.
            variables: names of the variables.
        """
        match self.shape:
            case "plain":
                return {"command": command, "args": list(args)}
            case "typed":
                return {"type": "stdio", "command": command, "args": list(args)}
            case "codex":
                # It ends a call after 60 seconds otherwise. Half an hour is enough for two questions of ten minutes and
                # an answer, so that its user learns where a question waited that nobody saw.
                return {"command": command, "args": list(args), "env_vars": list(variables), "tool_timeout_sec": 1800}
            case "copilot":
                return {"type": "local", "command": command, "args": list(args), "tools": ["*"]}
            case "goose":
                said = {"name": "antiphon", "type": "stdio", "cmd": command, "args": list(args)}
                return {**said, "enabled": True, "timeout": 300}
            case "opencode":
                return {"type": "local", "command": [command, *args], "enabled": True}


KNOWN: Mapping[str, HostFile] = {
    "claude-desktop": HostFile(
        title="Claude Desktop",
        section="mcpServers",
        places={
            "darwin": "~/Library/Application Support/Claude/claude_desktop_config.json",
            "win32": "$APPDATA/Claude/claude_desktop_config.json",
            "*": "~/.config/Claude/claude_desktop_config.json",
        },
    ),
    "claude-code": HostFile(
        title="Claude Code", section="mcpServers", places={"*": "~/.claude.json"}, shape="typed", has_projects=True
    ),
    "cursor": HostFile(title="Cursor", section="mcpServers", places={"*": "~/.cursor/mcp.json"}),
    "vscode": HostFile(
        title="VS Code",
        section="servers",
        places={
            "darwin": "~/Library/Application Support/Code/User/mcp.json",
            "win32": "$APPDATA/Code/User/mcp.json",
            "*": "~/.config/Code/User/mcp.json",
        },
        shape="typed",
    ),
    "windsurf": HostFile(title="Windsurf", section="mcpServers", places={"*": "~/.codeium/windsurf/mcp_config.json"}),
    "zed": HostFile(
        title="Zed",
        section="context_servers",
        places={"win32": "$APPDATA/Zed/settings.json", "*": "~/.config/zed/settings.json"},
    ),
    "goose": HostFile(
        title="Goose",
        section="extensions",
        places={"win32": "$APPDATA/Block/goose/config/config.yaml", "*": "~/.config/goose/config.yaml"},
        shape="goose",
    ),
    "codex": HostFile(title="Codex", section="mcp_servers", places={"*": "~/.codex/config.toml"}, shape="codex"),
    "gemini": HostFile(title="Gemini CLI", section="mcpServers", places={"*": "~/.gemini/settings.json"}),
    "qwen": HostFile(title="Qwen Code", section="mcpServers", places={"*": "~/.qwen/settings.json"}),
    "copilot": HostFile(
        title="Copilot CLI", section="mcpServers", places={"*": "~/.copilot/mcp-config.json"}, shape="copilot"
    ),
    "lm-studio": HostFile(title="LM Studio", section="mcpServers", places={"*": "~/.lmstudio/mcp.json"}),
    "opencode": HostFile(
        title="opencode", section="mcp", places={"*": "~/.config/opencode/opencode.json"}, shape="opencode"
    ),
}
"""The known hosts, by their names on the command line."""


def place_of(host: HostFile, environ: Mapping[str, str]) -> Path:
    """Return the path of a host's file on this machine, whether the file exists or not."""
    place = host.places.get(sys.platform, host.places["*"])
    home = environ.get("HOME") or environ.get("USERPROFILE") or str(Path.home())
    return Path(place.replace("$APPDATA", environ.get("APPDATA", "~/AppData/Roaming")).replace("~", home, 1))
