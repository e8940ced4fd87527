"""Files of other hosts, changed in one place: all else stays, to the byte."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.errors import ConfigError
from antiphon.gateway.hosts.host_documents import read_document
from antiphon.machine.public_names import describe_install

ZED = """// settings
{
  "theme": "dark", // of an evening
  /* servers */
  "context_servers": {
    // the first
    "one": {"command": "uvx", "args": ["a,}", ], }, // about one
    "two": {"command": "npx"} // about two
  },
}
"""
CODEX = """# models
model = "o9"   # the best

[mcp_servers.docs]
command = "docs"  # as it is
args = ["--x"]

[mcp_servers.docs.env]
KEY = "1"

[tui]
theme = "dark"
"""
GOOSE = """# goose
GOOSE_MODEL: o9
extensions:
  developer:   # built in
    type: builtin
    enabled: true
  files:
    cmd: npx
    args: [files]   # one
    enabled: true
"""
OURS = {"antiphon": {"command": "a", "args": ["gateway"]}}


def changed(name: str, text: str, section: str, without: list[str], added: Any = OURS) -> str:
    """Change a file."""
    return read_document(Path(name), text.encode(), section).changed(without=without, added=added)


def test_comments_and_order_of_json_stay():
    """A remark behind an entry goes with it, and so does what stands before it."""
    after = changed("settings.json", ZED, "context_servers", ["one"])
    assert after == ZED.replace(
        """    // the first
    "one": {"command": "uvx", "args": ["a,}", ], }, // about one
    "two": {"command": "npx"} // about two
""",
        """    "two": {"command": "npx"}, // about two
    "antiphon": {
      "command": "a",
      "args": [
        "gateway"
      ]
    }
""",
    )
    assert list(read_document(Path("x.json"), after.encode(), "context_servers").servers()) == ["two", "antiphon"]


@pytest.mark.parametrize(
    ("name", "text", "section"), [("c.toml", CODEX, "mcp_servers"), ("g.yaml", GOOSE, "extensions")]
)
def test_comments_and_order_of_toml_and_yaml_stay(name: str, text: str, section: str):
    """Every line that was not moved is there, in its place."""
    document = read_document(Path(name), text.encode(), section)
    gone = list(document.servers())[-1]
    after = document.changed(without=[gone], added=OURS)
    assert list(read_document(Path(name), after.encode(), section).servers())[-1] == "antiphon"
    assert gone not in read_document(Path(name), after.encode(), section).servers()
    assert document.servers()[gone]
    for line in text.splitlines():
        if line.startswith(("#", "model", "GOOSE", "  developer", "theme")):
            assert line in after.splitlines()


@pytest.mark.parametrize(
    "text", ["", "{}", "\ufeff{}", "{\n}\n", '{"a": 1}', '{"mcpServers": {}}', '{\n\t"a": [1, 2]\n}\n']
)
def test_a_file_without_servers_gets_one(text: str):
    """Whatever is there stays."""
    after = changed("m.json", text, "mcpServers", [])
    read = json.loads(after.removeprefix("\ufeff"))
    assert read.pop("mcpServers") == OURS
    before = json.loads(text.removeprefix("\ufeff") or "{}")
    before.pop("mcpServers", None)
    assert read == before


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(st.text(max_size=6), VALUES, max_size=4),
    st.dictionaries(
        st.text(min_size=1, max_size=6), st.dictionaries(st.text(max_size=4), VALUES, max_size=2), max_size=4
    ),
    st.data(),
    st.sampled_from([None, 2, "\t"]),
)
def test_only_what_is_named_changes(rest: dict[str, Any], servers: dict[str, Any], data: st.DataObject, indent: Any):
    """Any JSON, in any layout: read again, it is what was wanted; changed in nothing, it is the same to the byte."""
    rest.pop("mcpServers", None)
    servers.pop("antiphon", None)
    text = json.dumps({**rest, "mcpServers": servers}, indent=indent, ensure_ascii=False)
    gone = data.draw(st.lists(st.sampled_from(sorted(servers)), unique=True)) if servers else []
    document = read_document(Path("m.json"), text.encode("utf-8", "surrogatepass"), "mcpServers")
    assert document.changed(without=[], added={}) == text
    after = json.loads(document.changed(without=gone, added=OURS))
    kept = {name: entry for name, entry in servers.items() if name not in gone}
    assert after == {**rest, "mcpServers": {**kept, **OURS}}
    assert list(after["mcpServers"]) == [*kept, "antiphon"]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"mcpServers": {"a": {}', "line 1, column 24: the end is missing"),
        ('{"mcpServers": []}', "line 1, column 16: an object is wanted here"),
        ('{\n  "a" 1}', "line 2, column 3: a member is wanted here"),
        ('{"a": 1 "b": 2}', "line 1, column 9: a comma is wanted here"),
        ("[]", "line 1, column 1: an object is wanted here"),
        ('{"a": "x', "line 1, column 7: not JSON"),
        (
            # Hosts use the last one, so that servers in the first are none of theirs.
            '{"mcpServers": {},\n "mcpServers": {}}',
            "line 2, column 2: mcpServers stands here for the second time; leave one of them",
        ),
    ],
)
def test_what_is_no_json_is_named_with_its_place(text: str, place: str):
    """Nothing is changed in a file that is not understood."""
    with pytest.raises(ConfigError) as caught:
        read_document(Path("m.json"), text.encode(), "mcpServers")
    assert str(caught.value) == f"m.json, {place}"


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ('{"command": "x"\n "args": []}', "line 2, column 2: a: not JSON: Expecting ',' delimiter"),
        ('{"command": "C:\\x"}', "line 1, column 37: a: not JSON: Invalid \\escape"),
    ],
)
def test_a_mistake_in_an_entry_is_named_with_its_own_place(entry: str, told: str):
    """Its owner has written it by hand, and has to find it."""
    file = read_document(Path("m.json"), f'{{"mcpServers": {{"a": {entry}}}}}'.encode(), "mcpServers")
    with pytest.raises(ConfigError) as caught:
        file.servers()
    assert str(caught.value) == f"m.json, {told}"


@pytest.mark.parametrize(("name", "text"), [("c.toml", "= 1"), ("g.yaml", "a: [")])
def test_what_is_no_toml_or_yaml_is_refused(name: str, text: str):
    """With the library's words for it."""
    with pytest.raises(ConfigError, match=f"{name}: not (TOML|YAML)"):
        read_document(Path(name), text.encode(), "x")


@pytest.mark.parametrize(
    ("name", "text"), [("c.toml", "x = 1"), ("g.yaml", "x: [a]"), ("g.yaml", "[x]"), ("g.yaml", "text")]
)
def test_servers_that_are_no_table_are_refused(name: str, text: str):
    """Its owner learns which member is wrong."""
    with pytest.raises(ConfigError, match=f"^{name}: x is no table with servers in it$"):
        read_document(Path(name), text.encode(), "x")


@pytest.mark.parametrize(("name", "lacking"), [("config.toml", "tomlkit"), ("config.yaml", "ruamel")])
def test_missing_packages_are_named(name: str, lacking: str, monkeypatch: pytest.MonkeyPatch):
    """With what installs them."""
    for module in [one for one in sys.modules if one.partition(".")[0] == lacking]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, lacking, None)
    remedy = re.escape(describe_install("gateway"))
    with pytest.raises(ConfigError, match=rf"^{name} needs more packages \({lacking}.*: {remedy}$"):
        read_document(Path(name), b"", "servers")


def test_a_long_file_is_read_in_one_pass():
    """Some hosts keep megabytes of history in the same file: reading it takes as long as it is long, no longer."""
    text = json.dumps(
        {"history": [{"text": "x" * 50, "n": n} for n in range(5_000)], "mcpServers": {"a": {"command": "b"}}}
    )
    assert json.loads(changed(".claude.json", text, "mcpServers", ["a"]))["mcpServers"] == OURS


@pytest.mark.parametrize("rest", ["", '\n[projects."/srv"]\ntrust = 1\n', "\n[tui]\n# how\na = 1\n"])
@pytest.mark.parametrize("servers", ["", '\n[mcp_servers.a]\ncommand = "a"\n\n[mcp_servers.a.env]\nX = "1"\n'])
def test_a_toml_file_has_no_more_blank_lines_after_the_way_there_and_back(servers: str, rest: str):
    """Nor less: each table is one blank line away from the last."""
    text = f'model = "x"\n{servers}{rest}'
    before = read_document(Path("config.toml"), text.encode(), "mcp_servers")
    moved = before.servers()
    there = before.changed(without=list(moved), added={"antiphon": {"command": "antiphon"}})
    assert "\n\n\n" not in there
    assert all(part.endswith("\n\n") for part in there.split("[")[1:-1])
    now = read_document(Path("config.toml"), there.replace("x", "y").encode(), "mcp_servers")
    back = now.changed(without=["antiphon"], added=moved)
    assert sorted(back.split("\n")) == sorted(text.replace("x", "y").split("\n"))
