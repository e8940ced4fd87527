"""Skills as a client loads them: lazily, and verified."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from antiphon import Client, Server
from antiphon.client import RemoteSkill
from antiphon.errors import MethodNotFound, SkillInvalid
from antiphon.server.server_middleware import CallNext, ServerRequest
from antiphon.wire.content import ResourceContents
from antiphon.wire.resources import ReadResourceResult
from antiphon.wire.skills import GetSkillResult, ListSkillsResult, Skill, SkillResource, compute_file_digest
from tests.server.features.test_skill_folder import write_skill

URI = "skill://pdf/SKILL.md"
BODY = b"---\nname: pdf\ndescription: About pdf\nversion: 1.0\n---\nBody.\n"
FRONT = {"name": "pdf", "description": "About pdf", "version": 1}


def describe(uri: str, data: bytes) -> SkillResource:
    """Make the entry of a file."""
    return SkillResource(uri=uri, digest=compute_file_digest(data), size=len(data))


def entry_of(**changed) -> Skill:
    """Make the entry of a skill with two files."""
    files = [describe(URI, BODY), describe("skill://pdf/a%20b.md", b"A")]
    return Skill(**{"uri": URI, "frontmatter": FRONT, "resources": files, **changed})


def serve(entry: Skill, **files: bytes) -> Callable[[str], Awaitable[ReadResourceResult]]:
    """Return what reads files; by default those that the entry describes."""
    contents = {URI: BODY, "skill://pdf/a%20b.md": b"A", **files}

    async def fetch(uri: str) -> ReadResourceResult:
        return ReadResourceResult(contents=[ResourceContents.of(uri, contents[uri])])

    return fetch


async def test_nothing_is_fetched_before_it_is_read(tmp_path):
    """Neither on connecting nor on listing; each file then once."""
    write_skill(tmp_path, "pdf", a=b"A")
    server, reads = Server("skilled"), []
    server.skills(tmp_path)

    @server.middleware
    async def note(request: ServerRequest, call_next: CallNext):
        if request.method == "resources/read":
            reads.append(request.params.uri)
        return await call_next(request)

    async with Client(server) as client:
        [skill] = [skill async for skill in client.skills()]
        skill = await client.skill(skill.uri)
        assert (reads, skill.name, skill.description) == ([], "pdf", "About pdf")
        assert await skill.read("a") == await skill.read("./a") == b"A"
        assert reads == ["skill://pdf/a"]


@pytest.mark.parametrize("path", ["a b.md", "./x/../a b.md", "a%20b.md", "skill://pdf/a%20b.md"])
async def test_files_are_found_by_path_and_by_uri(path):
    """As a link in SKILL.md names them."""
    assert await RemoteSkill(entry_of(), serve(entry_of())).text(path) == "A"


@pytest.mark.parametrize("path", ["b", "../pdf/b", "..", "/etc/passwd", "skill://other/SKILL.md", "../../SKILL.md", ""])
async def test_a_file_that_is_not_named_is_not_read(path):
    """A read of it counts as a wrong digest, and nothing is sent."""
    with pytest.raises(SkillInvalid, match="is not a file of the skill"):
        await RemoteSkill(entry_of(), serve(entry_of())).read(path)


@pytest.mark.parametrize(
    ("body", "why"), [(BODY.replace(b"Body", b"Evil"), "digest"), (BODY + b"More.\n", "and not"), (b"", "and not")]
)
async def test_other_bytes_are_refused(body, why):
    """By their digest, or already by their size."""
    skill = RemoteSkill(entry_of(), serve(entry_of(), **{URI: body}))
    with pytest.raises(SkillInvalid, match=why):
        await skill.read()


@pytest.mark.parametrize(
    "front",
    [
        {**FRONT, "description": "About"},
        {**FRONT, "allowed-tools": "Bash"},
        {"name": "pdf", "description": "About pdf"},
        {**FRONT, "version": True},
        {**FRONT, "version": "1.0"},
    ],
)
async def test_other_front_matter_is_refused(front):
    """What a person approves from the entry is what the model reads."""
    skill = RemoteSkill(entry_of(frontmatter=front), serve(entry_of()))
    with pytest.raises(SkillInvalid, match="front matter is not that of the entry"):
        await skill.text()
    assert await skill.text("a b.md") == "A"


async def test_a_dynamic_skill_is_compared_by_its_front_matter_alone():
    """Nothing else is promised; its size is still bounded."""
    dynamic = entry_of(resources="dynamic")
    skill = RemoteSkill(dynamic, serve(dynamic, **{"skill://pdf/c": b"C", "skill://pdf/d": b"d" * 16 * 1024 * 1024}))
    assert (await skill.read(), await skill.read("c")) == (BODY, b"C")
    with pytest.raises(SkillInvalid, match="more than 16,777,216 bytes"):
        await skill.read("d")
    with pytest.raises(SkillInvalid):
        await skill.read("../c")
    with pytest.raises(SkillInvalid, match="not that of the entry"):
        await RemoteSkill(dynamic, serve(dynamic, **{URI: BODY.replace(b"pdf", b"xls")})).read()


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"uri": "skill://pdf/OTHER.md"}, "does not end with"),
        ({"frontmatter": {**FRONT, "name": "Pdf"}}, "lower-case"),
        ({"frontmatter": {**FRONT, "name": "xls"}}, "folder is called"),
        ({"frontmatter": {**FRONT, "description": 1}}, "description"),
        ({"resources": [describe("skill://pdf/a", b"A")]}, "each once"),
        ({"resources": [describe(URI, BODY), describe(URI, BODY)]}, "each once"),
        ({"resources": [describe(URI, BODY), describe("skill://xls/a", b"A")]}, "not in its folder"),
        ({"resources": [describe(URI, BODY), describe("skill://pdf/../x", b"A")]}, "not in its folder"),
        ({"resources": [SkillResource(uri=URI, digest="sha256:" + "A" * 64, size=1)]}, "digest"),
        ({"resources": [SkillResource(uri=URI, digest="sha256:" + "a" * 64, size=-1)]}, "digest"),
        ({"resources": [describe(f"skill://pdf/{n}", b"") for n in range(513)]}, "513 files"),
        ({"resources": [SkillResource(uri=URI, digest="sha256:" + "a" * 64, size=2**24 + 1)]}, "16,777,217 bytes"),
    ],
)
async def test_a_skill_with_a_wrong_entry_says_why_it_cannot_be_loaded(changed, why):
    """It is still listed, with its problem, so that a person learns of it."""
    skill = RemoteSkill(entry_of(**changed), serve(entry_of()))
    assert skill.problem is not None
    with pytest.raises(SkillInvalid, match=why):
        await skill.read()


@pytest.mark.parametrize(
    "result",
    [
        ReadResourceResult(contents=[]),
        ReadResourceResult(contents=[ResourceContents.of(URI, BODY)] * 2),
        ReadResourceResult(contents=[ResourceContents(uri=URI, blob="?")]),
    ],
)
async def test_a_file_must_be_one_resource(result):
    """Anything else cannot be verified."""

    async def fetch(uri: str) -> ReadResourceResult:
        return result

    with pytest.raises(SkillInvalid):
        await RemoteSkill(entry_of(), fetch).read()


async def test_a_binary_file_is_no_text():
    """``read`` has its bytes."""
    entry = entry_of(resources=[describe(URI, BODY), describe("skill://pdf/x", b"\xff")])
    skill = RemoteSkill(entry, serve(entry, **{"skill://pdf/x": b"\xff"}))
    assert await skill.read("x") == b"\xff"
    with pytest.raises(SkillInvalid, match="not UTF-8"):
        await skill.text("x")


async def test_a_server_without_skills_lists_none():
    """Nothing is sent to it."""
    async with Client(Server("plain")) as client:
        assert [skill async for skill in client.skills()] == []
        with pytest.raises(MethodNotFound):
            await client.skill(URI)


async def test_an_unreadable_entry_hides_no_other_and_another_entry_is_refused(tmp_path):
    """Of a server that sends anything."""
    write_skill(tmp_path, "xls")
    server = Server("odd")
    server.skills(tmp_path)

    @server.middleware
    async def answer(request: ServerRequest, call_next: CallNext):
        if request.method == "skills/list":
            return ListSkillsResult(skills=[entry_of(resources="other"), entry_of()])
        return GetSkillResult(skill=entry_of()) if request.method == "skills/get" else await call_next(request)

    async with Client(server) as client:
        assert [skill.uri async for skill in client.skills()] == [URI]
        with pytest.raises(SkillInvalid, match="is that of"):
            await client.skill("skill://xls/SKILL.md")
