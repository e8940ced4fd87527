"""``antiphon pack``: what stands in a bundle and in the registry's entry, and what is refused with which remedy."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import zipfile
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from antiphon import Client
from antiphon.cli.commands.pack import command as pack
from tests.cli.conftest import Cli

HERE = Path(pack.__file__).parent
PROJECT = """
[project]
name = "weather-server"
version = "1.2.0rc1"
description = "The weather of any town"
readme = "README.md"
requires-python = ">=3.11"
license = "MIT"
authors = [{ email = "a@example.com" }, { name = "Ann", email = "ann@example.com" }]
keywords = ["weather"]
dependencies = ["antiphon"]

[project.scripts]
weather-server = "server:main"

[project.urls]
Homepage = "https://weather.example.com"
Repository = "https://github.com/ann/weather"
Issues = "https://github.com/ann/weather/issues"

[tool.antiphon.pack]
name = "io.github.ann/weather"
entry_point = "server.py"
title = "Weather"
exclude = ["tests", "*.csv"]
manifest = { icon = "images/icon.png" }

[tool.antiphon.pack.variables.WEATHER_KEY]
title = "Key"
description = "Key of the weather service"
required = true
sensitive = true

[tool.antiphon.pack.variables.WEATHER_FOLDER]
description = "Where maps are kept"
type = "directory"
"""
SERVER = """
import os
from antiphon import Server

server = Server("weather")


@server.tool
async def weather(town: str) -> str:
    return f"Rain in {town}, says {os.environ['WEATHER_KEY']}"


if __name__ == "__main__":
    server.run()
"""
README = "# Weather\n\n<!-- mcp-name: io.github.ann/weather -->\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write a project that can be packed, and what has no place in a bundle."""
    made = tmp_path / "wetter — 天气"
    for name, text in {
        "pyproject.toml": PROJECT,
        "README.md": README,
        "server.py": SERVER,
        "images/icon.png": "icon",
        "maps/town.txt": "Hamburg",
        ".env": "KEY=1",
        "prod.env": "KEY=1",
        ".git/config": "[core]",
        ".venv/lib/python.py": "",
        "venv/pyvenv.cfg": "",
        "node_modules/a/index.js": "",
        "__pycache__/server.pyc": "",
        "weather_server.egg-info/PKG-INFO": "",
        "maps/.hidden/a.txt": "",
        "maps/all.csv": "1",
        "tests/data/test_server.py": "",
    }.items():
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text(text, encoding="utf-8")
    (made / "images" / "icon.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    return made


def change(folder: Path, before: str, after: str) -> None:
    """Change the project's file."""
    file = folder / "pyproject.toml"
    text = file.read_text(encoding="utf-8")
    assert before in text
    file.write_text(text.replace(before, after), encoding="utf-8")


def unpack(folder: Path) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """Return the manifest, the registry's entry, and the names of what is in the bundle."""
    [bundle] = (folder / "dist").glob("*.mcpb")
    with zipfile.ZipFile(bundle) as archive:
        manifest = json.loads(archive.read("manifest.json"))
        return manifest, json.loads((folder / "dist" / "server.json").read_bytes()), archive.namelist()


def test_both_documents_say_what_the_project_says(cli: Cli, folder: Path):
    """Each in its own words: a pre-release is semantic in the bundle, and the index's in the registry."""
    done = cli("pack", str(folder))
    assert (done.code, done.err) == (0, "")
    assert f"{folder / 'dist' / 'weather-server-1.2.0rc1.mcpb'}: " in done.out
    manifest, entry, _ = unpack(folder)
    jsonschema_rs.validator_for(json.loads((HERE / "mcpb-0.4.json").read_bytes())).validate(manifest)
    jsonschema_rs.validator_for(json.loads((HERE / "server-2025-12-11.json").read_bytes())).validate(entry)
    assert (manifest["name"], manifest["version"]) == ("weather-server", "1.2.0-rc1")
    assert manifest["author"] == {"name": "Ann", "email": "ann@example.com"}
    assert manifest["server"] == {
        "type": "uv",
        "entry_point": "server.py",
        "mcp_config": {
            "command": "uv",
            "args": ["run", "--directory", "${__dirname}", "server.py"],
            "env": {"WEATHER_KEY": "${user_config.weather_key}", "WEATHER_FOLDER": "${user_config.weather_folder}"},
        },
    }
    assert manifest["user_config"]["weather_key"]["sensitive"] is True
    assert manifest["user_config"]["weather_folder"]["default"] == ""
    assert (manifest["icon"], manifest["support"]) == ("images/icon.png", "https://github.com/ann/weather/issues")
    assert "tools" not in manifest
    assert (entry["name"], entry["version"]) == ("io.github.ann/weather", "1.2.0rc1")
    assert entry["repository"] == {"url": "https://github.com/ann/weather", "source": "github"}
    [package] = entry["packages"]
    assert (package["registryType"], package["identifier"], package["version"]) == (
        *("pypi", "weather-server"),
        "1.2.0rc1",
    )
    assert package["transport"] == {"type": "stdio"}
    assert package["environmentVariables"] == [
        {"name": "WEATHER_KEY", "description": "Key of the weather service", "isRequired": True, "isSecret": True},
        {"name": "WEATHER_FOLDER", "description": "Where maps are kept", "format": "filepath"},
    ]


def test_nothing_hidden_or_made_by_tools_is_packed(cli: Cli, folder: Path):
    """Neither are former bundles, nor what the project excludes."""
    for _ in range(2):
        assert cli("pack", str(folder)).code == 0
        _, _, names = unpack(folder)
        assert sorted(names) == [
            *("README.md", "images/icon.png", "manifest.json", "maps/town.txt", "pyproject.toml", "server.py")
        ]


def test_what_is_not_packed_is_not_looked_at(cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch):
    """A ``.venv`` has thousands of files, and a folder of data may have millions."""
    change(folder, "exclude = [", 'exclude = ["data", ')
    for place in (".venv/lib", "node_modules/a", "data/b"):
        (folder / place).mkdir(parents=True, exist_ok=True)
    seen = list[str]()
    listing = Path.iterdir
    monkeypatch.setattr(Path, "iterdir", lambda path: (seen.append(path.name), listing(path))[1])
    assert cli("pack", str(folder)).code == 0
    assert {".venv", "lib", "node_modules", "a", "data", "b"} & {*seen} == set()
    assert "maps" in seen


def test_the_same_files_give_the_same_bytes(cli: Cli, folder: Path):
    """Times and rights of the files do not matter."""
    assert cli("pack", str(folder)).code == 0
    before = {file.name: file.read_bytes() for file in (folder / "dist").iterdir()}
    os.utime(folder / "server.py", (0, 0))
    (folder / "server.py").chmod(0o700)
    assert cli("pack", str(folder)).code == 0
    assert {file.name: file.read_bytes() for file in (folder / "dist").iterdir()} == before
    assert len(before) == 2


def test_no_code_of_the_project_runs(cli: Cli, folder: Path):
    """A file that would fail is packed as it is."""
    (folder / "server.py").write_text("raise SystemExit('I ran')\nserver.run()\n", encoding="utf-8")
    assert cli("pack", str(folder)).code == 0


async def test_a_host_starts_the_server_of_a_bundle(cli: Cli, folder: Path, tmp_path: Path):
    """Without dependencies the host's Python runs it, by the command line of the manifest."""
    change(folder, 'dependencies = ["antiphon"]', "")
    # In a thread, because a command has an event loop of its own.
    assert (await asyncio.to_thread(cli, "pack", str(folder))).code == 0
    manifest, _, _ = unpack(folder)
    [bundle] = (folder / "dist").glob("*.mcpb")
    with zipfile.ZipFile(bundle) as archive:
        archive.extractall(tmp_path / "unpacked")
    assert manifest["server"]["type"] == "python"
    start = manifest["server"]["mcp_config"]
    assert start["command"] == "python"
    words = [word.replace("${__dirname}", str(tmp_path / "unpacked")) for word in start["args"]]
    async with Client(["env", "WEATHER_KEY=Ann", sys.executable, *words]) as client:
        assert (await client.call_tool("weather", {"town": "Kiel"})).text == "Rain in Kiel, says Ann"


def test_a_file_in_place_of_the_folder_is_told(cli: Cli, folder: Path):
    """Most commands take the server's file."""
    done = cli("pack", str(folder / "weather.py"))
    assert done.code == 2
    assert "antiphon pack takes the folder of a pyproject.toml" in done.err


def test_all_that_is_missing_is_named_at_once(cli: Cli, folder: Path):
    """Who begins with an empty file would otherwise run the command as often as there are keys."""
    (folder / "pyproject.toml").write_text("[project]\nname = 'weather'\n")
    done = cli("pack", str(folder))
    assert done.code == 2
    assert all(f'missing "project.{name}"' in done.err for name in ("version", "description", "readme", "authors"))
    assert 'missing "tool.antiphon.pack.name"' in done.err


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ('"1.2.0rc1"', '"1.2.*"', '"project.version": "1.2.*" does not match'),
        ('"1.2.0rc1"', '">=1.2.0"', "write one version of three numbers, as in 1.2.0 or 1.2.0rc1"),
        ('version = "1.2.0rc1"', 'dynamic = ["version"]', 'missing "project.version"'),
        ("io.github.ann/weather", "weather", "write io.github.OWNER/NAME, or a domain of yours"),
        ("io.github.ann/weather", "io.github.ann/weather/two", "tool.antiphon.pack.name"),
        ("io.github.ann/weather", "io.github.ann/other", "README.md: add the line <!-- mcp-name: io.github.ann/other"),
        ("io.github.ann/weather", "io.github.ann/weath", "README.md: add the line <!-- mcp-name: io.github.ann/weath"),
        ("The weather of any town", "W" * 101, "write a shorter one as description in [tool.antiphon.pack]"),
        ("weather-server =", "weather =", 'uvx starts weather-server: add weather-server = "module:main"'),
        ("server.py", "serve.py", "entry_point: serve.py is not among the packed files"),
        ("images/icon.png", "README.md", "manifest.icon: README.md is not a packed PNG image"),
        ('name = "Ann", ', "", '"project.authors": '),
        ('name = "Ann", ', "", "give one author a name"),
        ("ann@example.com", "ann", '"ann" is not a "email"'),
        ('license = "MIT"', 'license = { file = "LICENSE" }', "write an SPDX expression, as in MIT"),
        ("WEATHER_KEY", "weather-key", "tool.antiphon.pack.variables"),
        ("sensitive = true", 'sensitive = true\ndefault = "1234"', "leave out the default of a secret"),
        ('type = "directory"', 'type = "folder"', "user_config.weather_folder.type"),
        ("title = ", "titel = ", "known are name, entry_point, title"),
        (
            '"https://github.com/ann/weather/issues"',
            '"no address"',
            'breaks mcpb-0.4.json: "support": "no address" is not a "uri"',
        ),
        ("[tool.antiphon.pack]", "[tool.other]", 'missing "tool.antiphon.pack.name"'),
        ("[project]", "[project", "pyproject.toml: cannot be read"),
    ],
)
def test_a_mistake_is_named_with_its_remedy(cli: Cli, folder: Path, before: str, after: str, told: str):
    """Nothing is written then."""
    change(folder, before, after)
    done = cli("pack", str(folder))
    assert (done.code, done.out) == (2, "")
    assert told in done.err
    assert not (folder / "dist").exists()


def test_a_shorter_description_is_for_the_registry(cli: Cli, folder: Path):
    """Which takes 100 characters, while the package may have more."""
    change(folder, "The weather of any town", "W" * 200)
    change(folder, 'title = "Weather"', 'title = "Weather"\ndescription = "The weather"')
    assert cli("pack", str(folder)).code == 0
    manifest, entry, _ = unpack(folder)
    assert (manifest["description"], entry["description"]) == ("W" * 200, "The weather")


def test_what_a_project_does_not_say_is_left_out(cli: Cli, folder: Path):
    """An icon and a repository are no duty."""
    change(folder, 'manifest = { icon = "images/icon.png" }\n', "")
    change(folder, 'Repository = "https://github.com/ann/weather"\n', "")
    assert cli("pack", str(folder)).code == 0
    manifest, entry, _ = unpack(folder)
    assert not {"icon", "repository"} & (manifest.keys() | entry.keys())


def test_a_link_is_refused(cli: Cli, folder: Path, tmp_path: Path):
    """It might lead to what nobody meant to publish."""
    (tmp_path / "key").write_text("secret", encoding="utf-8")
    (folder / "maps" / "key").symlink_to(tmp_path / "key")
    done = cli("pack", str(folder))
    assert done.code == 2
    assert f"{folder / 'maps' / 'key'}: is a link" in done.err
    change(folder, '"*.csv"', '"*.csv", "maps/key"')
    assert cli("pack", str(folder)).code == 0


def test_a_name_that_is_not_utf_8_is_refused(cli: Cli, folder: Path):
    """No bundle could have it."""
    Path(os.fsdecode(os.fsencode(folder / "maps") + b"/\xff.txt")).touch()
    done = cli("pack", str(folder))
    assert (done.code, done.err) == (2, "antiphon: 'maps/\\udcff.txt': the name of this file is not UTF-8: rename it\n")


@pytest.mark.parametrize("bound", ["_MAX_FILES", "_MAX_BYTES"])
def test_a_bundle_is_bounded(cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch, bound: str):
    """In the number of its files, and in their size."""
    monkeypatch.setattr(pack, bound, 3)
    done = cli("pack", str(folder))
    assert done.code == 2
    assert "add folders to exclude in [tool.antiphon.pack]" in done.err


def test_a_folder_without_a_project_is_named(cli: Cli, tmp_path: Path):
    """By the file that is missing."""
    done = cli("pack")
    assert done.code == 2
    assert "pyproject.toml: cannot be read: " in done.err
