"""Skills read from a folder, and served: manifests, files, directories, and what is refused."""

from __future__ import annotations

import hashlib
import os
import socket
from pathlib import Path

import pytest

from antiphon import Client, Server
from antiphon.errors import ConfigError, InvalidParams, NotInRevision, ResourceNotFound
from antiphon.server.features import skill_folder
from antiphon.wire.common import PaginatedParams
from antiphon.wire.lossless import Received
from antiphon.wire.skills import SKILLS, ReadDirectoryRequestParams

HEAD = "---\nname: {name}\ndescription: About {name}\n---\n\nBody of {name}.\n"


def write_skill(folder: Path, name: str, **files: bytes) -> Path:
    """Write a skill below a folder; ``files`` by their names, where two underscores stand for a slash."""
    home = folder / name
    home.mkdir(parents=True, exist_ok=True)
    (home / "SKILL.md").write_text(HEAD.format(name=home.name), encoding="utf-8")
    for path, data in files.items():
        file = home.joinpath(*path.split("__"))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    return home


def make_server(folder: Path, **options) -> Server:
    """Make a server that serves a folder of skills."""
    server = Server("skilled")
    server.skills(folder, **options)
    return server


async def read_directory(client: Client, uri: str) -> dict[str, str | None]:
    """Read a directory: the media types of what is in it by URI."""
    params = ReadDirectoryRequestParams(uri=uri)
    result = await client.forward("resources/directory/read", params, Received.of(params))
    return {each.uri: each.mime_type for each in result.read.resources}


async def test_a_skill_is_listed_with_all_its_files(tmp_path):
    """Front matter verbatim, and every file with its size and digest; only SKILL.md is among the resources."""
    write_skill(tmp_path, "pdf", forms__a=b"\xff\x00", **{"notes.md": b"Notes"})
    async with Client(make_server(tmp_path)) as client:
        assert client.server_capabilities.extensions == {SKILLS: {"directoryRead": True}}
        [entry] = (await client.list_skills()).skills
        data = (tmp_path / "pdf" / "SKILL.md").read_bytes()
        assert entry.frontmatter == {"name": "pdf", "description": "About pdf"}
        assert {file.uri: (file.size, file.digest) for file in entry.resources} == {
            f"skill://pdf/{path}": (len(content), f"sha256:{hashlib.sha256(content).hexdigest()}")
            for path, content in {"SKILL.md": data, "forms/a": b"\xff\x00", "notes.md": b"Notes"}.items()
        }
        [listed] = (await client.list_resources()).resources
        assert (listed.uri, listed.name, listed.description) == ("skill://pdf/SKILL.md", "pdf", "About pdf")
        assert listed.mime_type == "text/markdown"
        [file] = (await client.read_resource("skill://pdf/forms/a")).contents
        assert (file.bytes, file.mime_type) == (b"\xff\x00", "application/octet-stream")


async def test_an_earlier_revision_has_files_and_no_skills(tmp_path):
    """Its clients see resources like any others."""
    write_skill(tmp_path, "pdf")
    async with Client(make_server(tmp_path), revision="2025-11-25") as client:
        assert client.server_capabilities.extensions is None
        with pytest.raises(NotInRevision):
            await client.list_skills()
        assert "Body" in ((await client.read_resource("skill://pdf/SKILL.md")).contents[0].text or "")


async def test_skills_stand_at_any_depth_and_in_one_another(tmp_path):
    """A nested skill is one of its own, and part of the skill around it."""
    write_skill(tmp_path / "acme", "refunds")
    write_skill(tmp_path / "acme" / "refunds", "letters")
    (tmp_path / "README.md").write_text("Of no skill.", encoding="utf-8")
    async with Client(make_server(tmp_path, prefix="team/a")) as client:
        sets = {skill.uri: {file.uri for file in skill.files} async for skill in client.skills()}
    outer, inner = "skill://team/a/acme/refunds/SKILL.md", "skill://team/a/acme/refunds/letters/SKILL.md"
    assert sets == {outer: {outer, inner}, inner: {inner}}


async def test_a_folder_can_be_a_skill_itself(tmp_path):
    """It keeps its name."""
    home = write_skill(tmp_path, "pdf")
    async with Client(make_server(home)) as client:
        assert [skill.uri async for skill in client.skills()] == ["skill://pdf/SKILL.md"]


async def test_directories_are_read_level_by_level(tmp_path):
    """Folders of skills as well as folders in skills; a file and an unknown URI are none."""
    write_skill(tmp_path / "acme", "pdf", **{"forms__a b.md": b"A"})
    async with Client(make_server(tmp_path)) as client:
        assert await read_directory(client, "skill://acme") == {"skill://acme/pdf": "inode/directory"}
        assert await read_directory(client, "skill://acme/pdf") == {
            "skill://acme/pdf/SKILL.md": "text/markdown",
            "skill://acme/pdf/forms": "inode/directory",
        }
        assert await read_directory(client, "skill://acme/pdf/forms") == {
            "skill://acme/pdf/forms/a%20b.md": "text/markdown"
        }
        for uri in ("skill://acme/pdf/SKILL.md", "skill://acme/pd", "file:///etc"):
            with pytest.raises(InvalidParams, match="not a directory"):
                await read_directory(client, uri)


async def test_unknown_skills_are_refused_by_their_code(tmp_path):
    """-32602, also for the URI of a file that is no skill."""
    write_skill(tmp_path, "pdf", a=b"")
    async with Client(make_server(tmp_path)) as client:
        for uri in ("skill://other/SKILL.md", "skill://pdf/a", "skill://pdf"):
            with pytest.raises(InvalidParams, match="No skill is served"):
                await client.skill(uri)
        with pytest.raises(ResourceNotFound):
            await client.read_resource("skill://pdf/../pdf/SKILL.md")


async def test_what_changes_on_disk_is_not_served(tmp_path):
    """Everything was read when the folder was added, so that manifest and contents agree."""
    home = write_skill(tmp_path, "pdf", a=b"before")
    server = make_server(tmp_path)
    (home / "a").write_bytes(b"after!")
    (home / "SKILL.md").unlink()
    async with Client(server) as client:
        skill = await client.skill("skill://pdf/SKILL.md")
        assert (await skill.read("a"), await skill.text()) == (b"before", HEAD.format(name="pdf"))


async def test_a_mounted_server_keeps_its_skills(tmp_path):
    """They are listed, fetched and read through the outer server, by the same URIs."""
    write_skill(tmp_path, "pdf", forms__a=b"A")
    outer = Server("outer")
    outer.mount(make_server(tmp_path), prefix="inner")
    async with Client(outer) as client:
        [skill] = [skill async for skill in client.skills()]
        assert skill.entry == (await client.skill(skill.uri)).entry
        assert await skill.read("forms/a") == b"A"
        assert await read_directory(client, "skill://pdf/forms") == {"skill://pdf/forms/a": "text/plain"}


async def test_a_mounted_server_with_middleware_is_asked(tmp_path):
    """Its middleware sees the requests for its skills."""
    write_skill(tmp_path, "pdf", forms__a=b"A")
    inner, seen = make_server(tmp_path), []

    @inner.middleware
    async def note(request, call_next):
        seen.append(request.method)
        return await call_next(request)

    outer = Server("outer")
    outer.mount(inner)
    async with Client(outer) as client:
        [skill] = [skill async for skill in client.skills()]
        await client.skill(skill.uri)
        await read_directory(client, "skill://pdf/forms")
        with pytest.raises(InvalidParams):
            await client.skill("skill://other/SKILL.md")
    assert seen[:3] == ["skills/list", "skills/get", "resources/directory/read"]


async def test_hidden_files_and_compiled_python_are_no_part(tmp_path):
    """A folder often holds secrets and rubbish that nobody means to publish."""
    home = write_skill(tmp_path, "pdf", **{".env": b"SECRET=1", ".git__config": b""})
    (home / "__pycache__").mkdir()
    (home / "__pycache__" / "a.pyc").write_bytes(b"")
    (tmp_path / "notes.md").write_bytes(b"")
    async with Client(make_server(tmp_path)) as client:
        [skill] = [skill async for skill in client.skills()]
        assert [file.uri for file in skill.files] == [skill.uri]


async def test_a_link_within_the_folder_is_a_file(tmp_path):
    """It is served as what it leads to."""
    home = write_skill(tmp_path, "pdf", a=b"A")
    (home / "b").symlink_to("a")
    async with Client(make_server(tmp_path)) as client:
        assert await (await client.skill("skill://pdf/SKILL.md")).read("b") == b"A"


def link_out(home: Path) -> None:
    """Link to a file outside of the folder."""
    secret = home.parents[1] / "secret"
    secret.write_text("secret", encoding="utf-8")
    (home / "a").symlink_to(secret)


def link_nowhere(home: Path) -> None:
    """Link to nothing."""
    (home / "a").symlink_to("missing")


def link_in_circle(home: Path) -> None:
    """Link to itself."""
    (home / "a").symlink_to("a")


def link_folder(home: Path) -> None:
    """Link to a folder, even one within."""
    (home / "a").symlink_to("..", target_is_directory=True)


def make_pipe(home: Path) -> None:
    """Put a pipe there, whose reader would wait for ever."""
    os.mkfifo(home / "a")


def make_socket(home: Path) -> None:
    """Put a socket there."""
    with socket.socket(socket.AF_UNIX) as made:
        before = Path.cwd()
        os.chdir(home)
        try:
            made.bind("a")
        finally:
            os.chdir(before)


def name_in_latin(home: Path) -> None:
    """Give a file a name that is not UTF-8."""
    (home / os.fsdecode(b"caf\xe9")).write_bytes(b"")


def write_latin(home: Path) -> None:
    """Write SKILL.md in another encoding."""
    (home / "SKILL.md").write_bytes("---\nname: pdf\ndescription: Café\n---\n".encode("latin-1"))


def write_mark(home: Path) -> None:
    """Write a byte order mark before the front matter."""
    (home / "SKILL.md").write_text("\ufeff" + HEAD.format(name="pdf"), encoding="utf-8")


def write_nothing(home: Path) -> None:
    """Write no front matter."""
    (home / "SKILL.md").write_text("# PDF\n", encoding="utf-8")


def name_otherwise(home: Path) -> None:
    """Write another name than the folder's."""
    (home / "SKILL.md").write_text(HEAD.format(name="other"), encoding="utf-8")


def describe_nothing(home: Path) -> None:
    """Leave the description empty."""
    (home / "SKILL.md").write_text('---\nname: pdf\ndescription: " "\n---\n', encoding="utf-8")


def write_many(home: Path) -> None:
    """Write one file more than a skill may have."""
    for number in range(512):
        (home / f"{number}").touch()


def write_much(home: Path) -> None:
    """Write a file that makes the skill too large; it takes no space on the disk."""
    with (home / "a").open("wb") as file:
        file.truncate(16 * 1024 * 1024 - 10)


def write_large(home: Path) -> None:
    """Write one file that is too large by itself."""
    with (home / "a").open("wb") as file:
        file.truncate(1024**4)


def nest_deep(home: Path) -> None:
    """Nest folders without end."""
    home.joinpath(*["d"] * 40).mkdir(parents=True)


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (link_out, "out of the folder"),
        (link_nowhere, "No such file"),
        (link_in_circle, "link|loop"),
        (link_folder, "a link to a folder"),
        (make_pipe, "pipe or a device"),
        (make_socket, "cannot be read"),
        (name_in_latin, "not UTF-8: rename"),
        (write_latin, "SKILL.md: it is not UTF-8"),
        (write_mark, "byte order mark"),
        (write_nothing, "must begin with ---"),
        (name_otherwise, "its folder is called 'pdf'"),
        (describe_nothing, "description"),
        (write_many, "513 files"),
        (write_much, "more than 16,777,216"),
        (write_large, "more than 16,777,216"),
        (nest_deep, "too deep"),
    ],
)
def test_a_spoilt_skill_is_refused_and_nothing_added(tmp_path, spoil, why):
    """When the author adds the folder, by a message that names the file."""
    home = write_skill(tmp_path / "skills", "pdf")
    spoil(home)
    server = Server("skilled")
    with pytest.raises(ConfigError, match=why):
        server.skills(tmp_path / "skills")
    assert (len(server.served_skills), len(server.resources)) == (0, 0)


def test_a_skill_of_the_largest_size_is_served(tmp_path):
    """512 files, and 16 MiB."""
    home = write_skill(tmp_path, "pdf")
    for number in range(510):
        (home / f"{number}").touch()
    left = 16 * 1024 * 1024 - (home / "SKILL.md").stat().st_size
    with (home / "rest").open("wb") as file:
        file.truncate(left)
    server = make_server(tmp_path)
    [skill] = server.served_skills
    assert (len(skill.files), sum(file.size for file in skill.definition.resources)) == (512, 16 * 1024 * 1024)


def test_all_skills_together_are_bounded(tmp_path, monkeypatch):
    """They stay in memory."""
    monkeypatch.setattr(skill_folder, "MAX_TOTAL", 1_000)
    for name in ("one", "two"):
        write_skill(tmp_path, name, a=b"x" * 600)
    with pytest.raises(ConfigError, match="serve fewer skills"):
        make_server(tmp_path)


@pytest.mark.parametrize(("name", "why"), [("missing", "no such folder"), ("empty", "has a SKILL.md")])
def test_a_folder_without_skills_is_an_error(tmp_path, name, why):
    """It is a mistake of the author."""
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match=why):
        make_server(tmp_path / name)


def test_a_folder_given_by_mistake_is_refused_and_not_searched(tmp_path, monkeypatch):
    """A home folder has a million files."""
    monkeypatch.setattr(skill_folder, "_MAX_ENTRIES", 3)
    write_skill(tmp_path, "pdf", a=b"", b=b"")
    make_server(tmp_path)
    write_skill(tmp_path, "pdf", c=b"", d=b"")
    with pytest.raises(ConfigError, match="too many entries"):
        make_server(tmp_path)


def test_many_small_folders_are_as_many_entries_as_a_large_one(tmp_path, monkeypatch):
    """A home folder has few files in each folder."""
    monkeypatch.setattr(skill_folder, "_MAX_ENTRIES", 5)
    write_skill(tmp_path, "pdf", one__a=b"", two__b=b"", three__c=b"")
    make_server(tmp_path)
    write_skill(tmp_path, "pdf", one__d=b"", two__e=b"")
    with pytest.raises(ConfigError, match="too many entries"):
        make_server(tmp_path)


def test_a_folder_cannot_be_added_twice(tmp_path):
    """Its URIs are taken."""
    write_skill(tmp_path, "pdf")
    server = make_server(tmp_path)
    with pytest.raises(ConfigError, match="is there already"):
        server.skills(tmp_path)
    server.skills(tmp_path, prefix="other")
    assert len(server.served_skills) == 2


async def test_pages_of_skills_split_no_entry(tmp_path):
    """Each is on one page, with all its files."""
    for number in range(5):
        write_skill(tmp_path, f"s{number}", a=b"A")
    server = Server("skilled", page_size=2)
    server.skills(tmp_path)
    async with Client(server) as client:
        page = await client.list_skills()
        assert (len(page.skills), page.next_cursor is None) == (2, False)
        assert [(skill.name, len(skill.files)) async for skill in client.skills()] == [(f"s{n}", 2) for n in range(5)]
        # The files are not among the resources, and do not end their list early.
        assert len([each async for each in client.resources()]) == 5
        assert PaginatedParams().cursor is None
