"""Files of other hosts, read as they are."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

import pytest

from antiphon.client.connection.server_files import (
    MAX_FILE,
    ServerEntry,
    read_json,
    read_servers,
    substitute_variables,
    variables_in,
)
from antiphon.errors import ConfigError

SHOP = ServerEntry(command="npx", args=["-y", "shop"], env={"KEY": "1"})
MEMBERS = '{"command": "npx", "args": ["-y", "shop"], "env": {"KEY": "1"}}'
CODEX = """
[mcp_servers.shop]
command = "npx"
args = ["-y", "shop"]
env = { KEY = "1" }

[mcp_servers.far]
url = "https://x.y/mcp"
http_headers = { A = "b" }
"""
FAR = ServerEntry(url="https://x.y/mcp", headers={"A": "b"})


@pytest.mark.parametrize(
    ("name", "text", "servers"),
    [
        (
            "claude.json",
            '{"mcpServers": {"shop": ' + MEMBERS.replace("{", '{"type": "stdio", ', 1) + "}}",
            {"shop": SHOP},
        ),
        (
            "vscode.json",
            """{
  // with comments, and a comma at the end
  "inputs": [],
  "servers": {
    "shop": {"command": "npx", "args": ["-y", "shop"], "env": {"KEY": "1"}}, /* two */
    "far": {"type": "http", "url": "https://x.y/mcp", "headers": {"A": "b"},},
  },
}""",
            {"shop": SHOP, "far": FAR},
        ),
        (
            "settings.json",
            '{"mcp": {"servers": {"far": {"url": "https://x.y/mcp", "headers": {"A": "b"}}}}}',
            {"far": FAR},
        ),
        (
            "zed.json",
            '{"context_servers": {"shop": ' + MEMBERS.replace("{", '{"source": "custom", ', 1) + "}}",
            {"shop": SHOP},
        ),
        (
            "old-zed.json",
            '{"context_servers": {"shop": {"command": {"path": "npx", "args": ["-y", "shop"], "env": {"KEY": "1"}}}}}',
            {"shop": SHOP},
        ),
        (
            "windsurf.json",
            '{"mcpServers": {"far": {"serverUrl": "https://x.y/mcp", "headers": {"A": "b"}}}}',
            {"far": FAR},
        ),
        ("gemini.json", '{"mcpServers": {"far": {"httpUrl": "https://x.y/mcp", "headers": {"A": "b"}}}}', {"far": FAR}),
        (
            "opencode.json",
            '{"mcp": {"shop": {"command": ["npx", "-y", "shop"], "environment": {"KEY": "1"}, "enabled": true}}}',
            {"shop": SHOP},
        ),
        ("codex.toml", CODEX, {"shop": SHOP, "far": FAR}),
    ],
)
def test_the_files_of_other_hosts_are_read_as_they_are(name: str, text: str, servers: dict[str, ServerEntry]):
    """Whatever their keys are called; members that are theirs are ignored."""
    assert read_servers(text.encode(), Path(name)) == servers


def test_tokens_that_codex_names_are_variables():
    """They are headers, filled in like the others."""
    text = b'[mcp_servers.a]\nurl = "https://x"\nbearer_token_env_var = "T"\nenv_http_headers = { X = "V" }'
    entry = read_servers(text, Path("c.toml"))["a"]
    assert variables_in(entry) == ["V", "T"]
    assert substitute_variables(entry, {"T": "1", "V": "2"}, Path(), "a").headers == {
        "Authorization": "Bearer 1",
        "X": "2",
    }


@pytest.mark.parametrize("text", ["${KEY}", "${env:KEY}", "{env:KEY}", "${KEY:-none}"])
def test_variables_are_filled_in_as_their_hosts_write_them(text: str):
    """In every text of an entry, headers too."""
    entry = ServerEntry(command=text, args=[text], env={"A": text}, cwd=text, url=text, headers={"B": text})
    assert variables_in(entry) == ["KEY"]
    assert set(substitute_variables(entry, {"KEY": "k"}, Path(), "a").texts) == {"k"}


def test_folders_are_known_without_the_environment():
    """No variable of the user's goes anywhere with them."""
    entry = ServerEntry(command="${workspaceFolder}/run", args=["${userHome}"])
    assert variables_in(entry) == []
    assert substitute_variables(entry, {}, Path("/srv"), "a") == ServerEntry(
        command="/srv/run", args=[str(Path.home())]
    )


def test_the_name_of_a_folder_fills_nothing_in():
    """A project chooses its folders' names: nothing that looks like a variable in one is replaced, asked or unasked."""
    entry = ServerEntry(url="https://x/${workspaceFolder}", args=["${SEC${workspaceFolder}RET}"])
    assert variables_in(entry) == []
    said = substitute_variables(entry, {"SECRET": "hunter2"}, Path("/srv/${SECRET}"), "a")
    assert said.url == "https://x//srv/${SECRET}"
    assert "hunter2" not in "".join(said.texts)


def test_what_only_an_editor_can_ask_for_is_named():
    """With what to write instead."""
    with pytest.raises(ConfigError, match=r"f: a: only VS Code can ask for \$\{input:key\}; write \$\{NAME\}"):
        substitute_variables(ServerEntry(command="x", env={"K": "${input:key}"}), {}, Path(), "f: a")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "f.json",
            '{\n  "mcpServers": {\n    "a" 1\n}}',
            "f.json, line 3, column 9: not JSON: Expecting ':' delimiter",
        ),
        ("f.json", '{ // no\n "x": }', "f.json, line 2, column 7: not JSON"),
        ("f.json", "[" * 100_000, "f.json: not JSON that can be read: too deep"),
        ("f.json", "[]", "f.json: is no object with servers in it"),
        ("f.json", "{}", "f.json: has no servers; they stand under one of: mcpServers, servers"),
        ("f.json", '{"servers": []}', "f.json: servers: is no object"),
        ("f.toml", "[mcp_servers.a", "f.toml: not TOML: "),
    ],
)
def test_a_file_that_cannot_be_read_is_named(name: str, text: str, message: str):
    """With line and column, or the member that is wrong."""
    with pytest.raises(ConfigError) as error:
        read_servers(text.encode(), Path(name))
    assert message in str(error.value)


def test_an_entry_of_the_wrong_form_costs_no_other():
    """Its fault names the member."""
    read = read_servers(b'{"mcpServers": {"a": {"args": "x"}, "b": {"command": "y"}, "c": []}}', Path("f.json"))
    assert read["a"].fault == "mcpServers.a: Expected `array | null`, got `str` - at `$.args`"
    assert read["b"] == ServerEntry(command="y")
    assert str(read["c"].fault).startswith("mcpServers.c: ")


@pytest.mark.parametrize(
    ("members", "told"),
    [
        ('{"command": "x", "env": {"A": "1", "B": 5}}', 'Expected `str`, got `int` - at `$.env["B"]`'),
        ('{"url": "http://x", "headers": {"X": null}}', 'Expected `str`, got `null` - at `$.headers["X"]`'),
        ('{"command": "x", "args": ["\\ud800"]}', "'\\ud800' has a character that is not allowed"),
        ('{"command": "x", "cwd": "a\\u0000b"}', "'a\\x00b' has a character that is not allowed"),
        ('{"command": "x", "envFile": "\\u0000"}', "'\\x00' has a character that is not allowed"),
    ],
)
def test_a_member_that_no_program_can_get_is_named(members: str, told: str):
    """Found when the file is read: later it would end whoever starts the server, a gateway with all others."""
    read = read_servers(f'{{"mcpServers": {{"a": {members}, "b": {{"command": "y"}}}}}}'.encode(), Path("f.json"))
    assert str(read["a"].fault).startswith(f"mcpServers.a: {told}")
    assert read["b"] == ServerEntry(command="y")


def test_an_entry_with_an_empty_command_has_none():
    """What reads it says what is missing, instead of what the system says about a program without a name."""
    assert read_servers(b'{"mcpServers": {"a": {"command": ""}}}', Path("f.json"))["a"].command is None


def test_the_home_of_an_unknown_user_is_named():
    """It stands in an entry that anybody may have written."""
    entry = ServerEntry(command="x", env_file="~nobody-of-that-name/.env")
    with pytest.raises(ConfigError, match=r"~nobody-of-that-name/\.env: there is no such user"):
        substitute_variables(entry, {}, Path(), "f.json: a")


def test_a_file_of_other_bytes_is_named():
    """A mark at its beginning, which some editors write, is none."""
    with pytest.raises(ConfigError, match=r"f\.json: not UTF-8"):
        read_servers(b"\xff", Path("f.json"))
    assert read_servers(b'\xef\xbb\xbf{"servers": {}}', Path("f.json")) == {}


def test_a_server_that_its_host_has_switched_off_is_left_out():
    """In the words of either kind of host."""
    servers = {"a": {"command": "a", "disabled": True}, "b": {"command": "b", "enabled": False}, "c": {"command": "c"}}
    assert list(read_servers(json.dumps({"mcpServers": servers}).encode(), Path("mcp.json"))) == ["c"]


def test_variables_come_from_a_file_and_from_our_environment(tmp_path: Path):
    """What the entry itself says wins; a variable of ours that is not set is not passed on."""
    (tmp_path / ".env").write_text("# keys\nexport A='1 2'\nB = two # second\nC=\"3\"\nwithout\n")
    entry = ServerEntry(command="x", env_file=".env", env={"C": "own"}, env_vars=["D", "E"])
    assert substitute_variables(entry, {"D": "4"}, tmp_path, "a").env == {"A": "1 2", "B": "two", "C": "own", "D": "4"}
    assert variables_in(entry) == ["D", "E"]


@pytest.mark.parametrize("kind", ["missing", "pipe", "large"])
def test_a_file_with_variables_that_cannot_be_read_is_named(kind: str, tmp_path: Path):
    """A pipe does not keep the reader waiting."""
    if kind == "pipe":
        os.mkfifo(tmp_path / ".env")
    elif kind == "large":
        (tmp_path / ".env").write_bytes(b"A=1\n" * 300_000)
    with pytest.raises(ConfigError, match=r"a: envFile .*\.env"):
        substitute_variables(ServerEntry(command="x", env_file=".env"), {}, tmp_path, "a")


PIECES = (
    "/*",
    "/* */",
    "//",
    '"',
    '\\"',
    '"\\',
    ", ",
    ",\n",
    "{",
    "[",
    "/",
    "*",
    "${a:-",
    "${input:",
    "${a",
    "{env:a",
    "1",
)
STARTS = ("", '{"mcpServers": {"a": {"command": "', '{"mcpServers": {"a": {"command": "x"}}, "b": ')


@pytest.mark.timeout(60)
@pytest.mark.parametrize("piece", PIECES)
@pytest.mark.parametrize("start", STARTS)
def test_a_megabyte_is_read_in_a_time_that_grows_with_its_length(piece: str, start: str):
    """Before anybody has trusted the file: a time that grew with the square would be an hour."""
    text = start + piece * ((MAX_FILE - 100) // len(piece)) + "}}}"
    with suppress(ConfigError):
        for entry in read_servers(text.encode(), Path("x.json")).values():
            variables_in(entry)
            substitute_variables(entry, {"a": "1"}, Path(), "x")


@pytest.mark.parametrize(
    "text",
    [
        '{"a": "// no comment", "b": "/* none */", "c": "a,}"}',
        '{"a": "// no comment", /* one */ "b": "/* none */", // "two"\n "c": "a,}", /* , */ }',
        '{"a": "// no comment", /***/ "b": /* " */ "/* none */", "c": "a,}" // }\n, }',
    ],
)
def test_comments_and_trailing_commas_are_passed_over(text: str):
    """But not in strings."""
    assert read_json(text) == {"a": "// no comment", "b": "/* none */", "c": "a,}"}


def test_a_number_that_is_too_long_is_an_error_of_the_file():
    """Python refuses to read it."""
    with pytest.raises(ConfigError, match="a number is too long"):
        read_json("9" * 5_000)
