"""Real servers that try to pass for another one: permissions do not follow them, denials do."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from antiphon import Client, Host, Rejected
from antiphon.host import Approve, Deny, MemoryStore, Reviewer, digest, identity_of
from antiphon.host.review.review import ToolItem
from tests.host.asks import Person
from tests.support import plain_server

SERVER = Path(plain_server.__file__).read_text(encoding="utf-8")


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Two folders with the same server, the second of which is the stranger's."""
    for name in ("mine", "strange"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "shopserver.py").write_text(SERVER, encoding="utf-8")
    return tmp_path / "mine", tmp_path / "strange"


def entry(folder: Path, *args: str, env: Mapping[str, str] | None = None, command: str | None = None) -> dict:
    """Write the entry of a configuration file."""
    return {"command": command or sys.executable, "args": list(args), "cwd": str(folder), "env": dict(env or {})}


async def call(target: object, reviewer: Reviewer, store: MemoryStore) -> str:
    """Call the tool, with a person who is asked about it; return which file has answered."""
    async with Client(target, confirm=Host(reviewer=reviewer, store=store)) as client:  # pyright: ignore[reportArgumentType]
        return json.loads((await client.call_tool("look")).text)["file"]


def always(item: ToolItem) -> Approve:
    """Allow it for good."""
    return Approve(digest=digest(item.params), scope="always")


def deny(_: object) -> Deny:
    """Block the server."""
    return Deny(reach="server")


def disguised(way: str, mine: Path, strange: Path) -> tuple[dict, dict]:
    """Return a server, and what runs the stranger's code under the same words, or the same folder."""
    path = os.environ["PATH"]
    module = ("-m", "shopserver")
    match way:
        case "folder":
            return entry(mine, "shopserver.py"), entry(strange, "shopserver.py")
        case "module":
            return entry(mine, *module), entry(strange, *module)
        case "code":
            words = ("-c", "import shopserver; shopserver.run()")
            return entry(mine, *words), entry(strange, *words)
        case "PYTHONPATH":
            aside = mine / "empty"
            aside.mkdir()
            env = {"PYTHONPATH": str(mine)}
            return entry(aside, *module, env=env), entry(aside, *module, env={"PYTHONPATH": str(strange)})
        case "PATH":
            program = strange / "python3"
            program.write_text(f"#!/bin/sh\nexec '{sys.executable}' {strange}/shopserver.py\n", encoding="utf-8")
            program.chmod(0o755)
            own = {"PATH": f"{Path(sys.executable).parent}:{path}"}
            words, file = {"command": "python3"}, str(mine / "shopserver.py")
            return (
                entry(mine, file, env=own, **words),
                entry(mine, file, env={"PATH": f"{strange}:{own['PATH']}"}, **words),
            )
        case _:
            return entry(mine, "shopserver.py"), entry(mine, "../strange/shopserver.py")


@pytest.mark.parametrize("more", ["", "x" * 2**21], ids=["short", "longer than a program that is taken for a script"])
async def test_a_lasting_permission_ends_when_the_script_changes(folders: tuple[Path, Path], more: str):
    """The file is another program then: the person is asked again, and may allow it anew."""
    mine, _ = folders
    store, person = MemoryStore(), Person(always)
    (mine / "shopserver.py").write_text(f"{SERVER}\n#{more}\n", encoding="utf-8")
    for _ in range(2):
        await call(entry(mine, "shopserver.py"), person, store)
    assert len(person.shown) == 1
    (mine / "shopserver.py").write_text(f"{SERVER}\n#{more} other code\n", encoding="utf-8")
    for _ in range(2):
        await call(entry(mine, "shopserver.py"), person, store)
    assert len(person.shown) == 2


WAYS = ["folder", "module", "code", "PYTHONPATH", "PATH", "file"]


@pytest.mark.parametrize("way", WAYS)
async def test_a_permission_does_not_follow_what_runs_other_code(way: str, folders: tuple[Path, Path]):
    """Given for good to one server, it holds for that one, and the other is asked about."""
    mine, strange = folders
    own, other = disguised(way, mine, strange)
    store, person = MemoryStore(), Person(always)
    assert Path(await call(own, person, store)).parent == mine
    assert Path(await call(own, person, store)).parent == mine
    assert len(person.shown) == 1, "the permission is remembered"
    with pytest.raises(Rejected):
        await call(other, Person(deny), store)


@pytest.mark.parametrize("way", WAYS)
async def test_a_block_follows_a_change_of_folder(way: str, folders: tuple[Path, Path]):
    """Nobody escapes it by another folder, path or variable."""
    mine, strange = folders
    own, other = disguised(way, mine, strange)
    store = MemoryStore()
    with pytest.raises(Rejected):
        await call(own, Person(deny), store)
    willing = Person(always)
    with pytest.raises(Rejected):
        await call(other, willing, store)
    assert willing.shown == []


async def test_one_file_is_one_server_by_every_way_in(folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch):
    """A permission given in a program of one's own holds for the command line's targets, whichever name is typed."""
    mine, _ = folders
    monkeypatch.chdir(mine)
    store, person = MemoryStore(), Person(always)
    await call("shopserver.py", person, store)
    name = Path(sys.executable).with_name("python3")
    assert name.exists()
    ways = [
        "./shopserver.py",
        shlex.join([str(name), "shopserver.py"]),
        [str(name), str(mine / "shopserver.py")],
        entry(mine, "shopserver.py"),
    ]
    for way in ways:
        await call(way, person, store)
    assert len(person.shown) == 1


async def test_the_origin_says_what_runs(folders: tuple[Path, Path]):
    """Before the server is started: what it does to its files changes nothing."""
    mine, strange = folders
    person = Person(always)
    shutil.copy(strange / "shopserver.py", mine / "other.py")
    await call(entry(mine, "-m", "other"), person, MemoryStore())
    [item] = person.shown
    assert item.origin.target.endswith(f"-m other (in {mine})")
    assert item.origin.identity == identity_of([sys.executable, "-m", "other"], cwd=str(mine))
    assert item.origin.pinned
