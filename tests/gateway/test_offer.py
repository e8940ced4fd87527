"""What a server offers: fetched whole, or only what has changed; compared kind by kind."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from antiphon import Client, Server
from antiphon.errors import RemoteProtocolError
from antiphon.gateway import Gateway, offer
from antiphon.gateway.offer import KeptLists, KeptOffer, UpstreamOffer, fetch_offer, list_changes
from antiphon.testing import Recorder
from antiphon.types import Tool
from tests.support.behind_gateway import ERAS, host
from tests.support.network import let_deadlines_pass
from tests.support.raw_server import CAPABILITIES, RawServer

TOOLS = {"tools": [{"name": "x", "inputSchema": {"type": "object"}}]}
DONE = {"content": [{"type": "text", "text": "done"}]}
MODERN = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}

OFFER = UpstreamOffer(tools=(Tool(name="x", input_schema={"type": "object"}),))


NULLS = {"title": None, "icons": None, "_meta": None, "description": None}
DEFINITIONS = {
    "tools/list": (
        "tools",
        {
            "name": "x", "inputSchema": {"type": "object", "default": None}, "outputSchema": None,
            "annotations": {"readOnlyHint": None, "title": None},
        },
    ),
    "prompts/list": ("prompts", {"name": "p", "arguments": [{"name": "a", "required": None, "description": None}]}),
    "resources/list": ("resources", {"name": "r", "uri": "r://r", "size": None, "annotations": None}),
    "resources/templates/list": ("resourceTemplates", {"name": "t", "uriTemplate": "t://{t}", "mimeType": None}),
}  # fmt: skip


@pytest.mark.parametrize("revision", ERAS)
async def test_members_that_are_null_for_nothing_do_not_reach_a_host(revision: str):
    """Hosts exist that refuse the whole list, with the tools of all other servers, for one null of one server."""
    server = RawServer()
    for method, (member, item) in DEFINITIONS.items():
        page = {member: [{**NULLS, **item}], "nextCursor": None, **MODERN}
        server.replies[method] = lambda _message, page=page: page
    text = {"type": "text", "text": "done", "annotations": None, "_meta": None}
    server.replies["tools/call"] = lambda _: {"content": [text], "isError": None, "_meta": None, **MODERN}
    recorder = Recorder()
    front = Gateway({"raw": server}, None, asks="relay", names="none").server
    async with Client(front, revision=revision, wrap=recorder) as client:
        assert (await client.call_tool("x")).is_error is False
        for listing in (client.tools, client.prompts, client.resources, client.resource_templates):
            assert len([item async for item in listing()]) == 1
    found = json.dumps([one.body for one in recorder.messages if one.direction == "received"])
    assert found.count("null") == found.count('"default": null') == 1


@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize("given", [{}, {"content": None}])
async def test_a_result_with_structured_content_alone_reaches_a_host_with_both(revision: str, given: dict[str, None]):
    """Hosts exist that refuse it otherwise, and the call was made."""
    server = RawServer()
    server.replies["tools/list"] = lambda _message: {**TOOLS, **MODERN}
    server.replies["tools/call"] = lambda _message: {**given, "structuredContent": {"a": 1}, "more": 2, **MODERN}
    recorder = Recorder()
    front = Gateway({"raw": server}, None, asks="relay", names="none").server
    async with Client(front, revision=revision, wrap=recorder) as client:
        result = await client.call_tool("x")
    assert (result.is_error, result.text, result.structured_content) == (False, '{"a":1}', {"a": 1})
    (sent,) = [one.body for one in recorder.messages if one.direction == "received" and "more" in one.body]
    assert (len(sent["content"]), sent["structuredContent"]) == (1, {"a": 1})


@pytest.mark.parametrize("revision", ERAS)
async def test_an_empty_result_reaches_a_host_as_an_empty_list(revision: str):
    """Hosts exist that take it for no result otherwise."""
    server = RawServer()
    server.replies["tools/list"] = lambda _message: {**TOOLS, **MODERN}
    server.replies["tools/call"] = lambda _message: {"resultType": "complete", "content": None}
    recorder = Recorder()
    front = Gateway({"raw": server}, None, asks="relay", names="none").server
    async with Client(front, revision=revision, wrap=recorder) as client:
        assert (await client.call_tool("x")).content == []
    sent = [one.body for one in recorder.messages if one.direction == "received" and "content" in one.body]
    assert [body["content"] for body in sent] == [[]]


@pytest.mark.parametrize("revision", ERAS)
async def test_a_block_that_cannot_be_read_does_not_reach_a_host(revision: str):
    """Hosts exist that refuse the whole result for it, and others that read what nobody has examined."""
    blocks = [{"type": "text", "text": "done", "more": 1}, {"type": "image", "data": "aGk="}]
    server = RawServer()
    server.replies["tools/list"] = lambda _message: {**TOOLS, **MODERN}
    server.replies["tools/call"] = lambda _message: {"content": blocks, "more": 2, **MODERN}
    recorder = Recorder()
    front = Gateway({"raw": server}, None, asks="relay", names="none").server
    async with Client(front, revision=revision, wrap=recorder) as client:
        texts = [block.text for block in (await client.call_tool("x")).content]
    (sent,) = [one.body for one in recorder.messages if one.direction == "received" and "more" in one.body]
    assert [block["type"] for block in sent["content"]] == ["text", "text"]
    assert texts == [block["text"] for block in sent["content"]]
    assert (texts[0], "mimeType" in texts[1]) == ("done", True)


@pytest.mark.parametrize("revision", ERAS)
async def test_a_schema_that_strict_hosts_refuse_reaches_none(revision: str):
    """Hosts exist that refuse the whole list, with the tools of all other servers, for one schema without a type."""
    odd = {"name": "x", "inputSchema": {"anyOf": [{}], "required": None}, "from_vendor": 1}
    server = RawServer(tools_list=lambda _: {"tools": [odd], **MODERN}, tools_call=lambda _: {"content": [], **MODERN})
    recorder = Recorder()
    front = Gateway({"raw": server}, host(), names="none").server
    async with Client(front, revision=revision, wrap=recorder) as client:
        [tool] = [tool async for tool in client.tools()]
        assert tool.input_schema == {"anyOf": [{}], "type": "object"}
        assert (await client.call_tool("x")).is_error is False
    received = [one.body for one in recorder.messages if one.direction == "received"]
    [listed] = [body["tools"] for body in received if "tools" in (body or {})]
    assert (listed[0]["from_vendor"], listed[0]["inputSchema"]) == (1, tool.input_schema)


async def test_only_what_has_changed_is_fetched():
    """The rest stays as it was."""
    server = Server("one")
    server.tool(name="x")(lambda: "x")
    server.prompt(name="p")(lambda: "p")
    server.add_resource("one://r", "r")
    async with Client(server) as client:
        whole = await fetch_offer(client, UpstreamOffer())
        assert list_changes(UpstreamOffer(), whole) == ["tools", "prompts", "resources"]
        server.tool(name="y")(lambda: "y")
        server.prompt(name="q")(lambda: "q")
        part = await fetch_offer(client, whole, ["tools"])
        assert [tool.name for tool in part.tools] == ["x", "y"]
        assert list_changes(whole, part) == ["tools"]
        assert list_changes(part, await fetch_offer(client, part)) == ["prompts"]


@pytest.mark.parametrize("revision", ERAS)
async def test_a_server_keeps_what_it_lists_if_it_does_not_know_another_list(revision: str):
    """It declares everything, and knows tools alone: lists, calls, log levels and completion work through a gateway."""
    extra = MODERN if revision == ERAS[1] else {}
    server = RawServer(
        tools_list=lambda _: TOOLS | extra,
        tools_call=lambda _: DONE | extra,
        **({"server_discover": _discover} if extra else {}),
    )
    gateway = Gateway({"raw": server}, host())
    async with Client(gateway.server, revision=ERAS[0], log_level="debug") as client:
        assert [tool.name async for tool in client.tools()] == ["raw__x"]
        assert [one async for one in client.prompts()] == [one async for one in client.resources()] == []
        assert (await client.call_tool("raw__x")).text == "done"


@pytest.mark.parametrize("reply", [{"prompts": {}}, -32603, -32000])
async def test_a_list_that_fails_costs_a_server_none_of_its_tools(reply: Any, caplog: pytest.LogCaptureFixture):
    """The log says which list it was; a server whose tools cannot be listed has none, and is told to be failing."""

    def fail(message: dict[str, Any]) -> dict[str, Any] | None:
        if not isinstance(reply, int):
            return reply
        server.send({"id": message["id"], "error": {"code": reply, "message": "broken"}})
        return None

    server = RawServer(tools_list=lambda _: TOOLS, tools_call=lambda _: DONE, prompts_list=fail)
    front = Gateway({"raw": server}, host()).server
    async with Client(front, revision=ERAS[0]) as client:
        assert (await client.call_tool("raw__x")).text == "done"
        assert [one async for one in client.prompts()] == []
        assert "raw: its prompts cannot be listed" in caplog.text
    async with Client(RawServer(tools_list=lambda _: {"tools": {}}), revision=ERAS[0]) as client:
        with pytest.raises(RemoteProtocolError):
            await fetch_offer(client, UpstreamOffer())


async def test_a_list_that_is_never_answered_costs_a_server_none_of_its_tools(caplog: pytest.LogCaptureFixture):
    """It could not start otherwise, and a client would wait for its tools for ever."""
    server = RawServer(
        tools_list=lambda _: TOOLS,
        tools_call=lambda _: DONE,
        prompts_list=lambda _: None,
        resources_list=lambda _: None,
    )
    front = Gateway({"raw": server}, host()).server
    async with Client(front, revision=ERAS[0]) as client:
        call = asyncio.create_task(client.call_tool("raw__x"))
        for kind in ("prompts", "resources"):
            await server.request(f"{kind}/list")
            let_deadlines_pass(8)
        assert (await call).text == "done"
        for kind in ("prompts", "resources"):
            assert f"raw: its {kind} cannot be listed: {kind}/list was not answered within 7.5 s" in caplog.text


def _discover(_message: object) -> dict[str, object]:
    return MODERN | {
        "supportedVersions": [ERAS[1]],
        "capabilities": CAPABILITIES,
        "serverInfo": {"name": "raw", "version": "1"},
    }


async def test_a_server_that_does_not_know_completion_suggests_nothing():
    """The gateway declares completion for all servers."""
    template = {"resourceTemplates": [{"uriTemplate": "raw://{x}", "name": "x"}]}
    server = RawServer(
        resources_templates_list=lambda _: template,
        initialize=lambda message: {
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": CAPABILITIES | {"completions": {}},
            "serverInfo": {"name": "raw", "version": "1"},
        },
    )
    async with Client(Gateway({"raw": server}, host()).server) as client:
        completion = await client.complete("raw://{x}", "x", "a")
    assert list(completion.completion.values) == []


async def test_a_client_connects_to_a_server_that_declares_logging_only():
    """Its log level cannot be set."""
    async with Client(RawServer(), log_level="debug") as client:
        assert [tool async for tool in client.tools()] == []


def place(folder: Path, seen_by: bytes = b"", **entry: object) -> KeptOffer:
    """Return where the offer of a server is kept."""
    kept = KeptLists(folder / "lists").of({"command": "server", **entry}, seen_by)
    assert kept is not None
    return kept


def test_an_offer_comes_back_as_it_was(tmp_path: Path):
    """In a file that nobody else reads."""
    place(tmp_path).save(OFFER)
    assert place(tmp_path).load() == OFFER
    assert place(tmp_path).path.stat().st_mode & 0o777 == 0o600
    assert place(tmp_path).path.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    "other",
    [(b"bob", {}), (b"", {"args": ["x"]}), (b"", {"env": {"TOKEN": "other"}}), (b"", {"cwd": "/"})],
    ids=["principal", "arguments", "environment", "folder"],
)
def test_nobody_else_gets_it(tmp_path: Path, other: tuple[bytes, dict[str, object]]):
    """Another principal, or a server that is started in another way."""
    place(tmp_path).save(OFFER)
    seen_by, entry = other
    assert place(tmp_path, seen_by, **entry).load() is None


@pytest.mark.parametrize("wrong", ["cut", "form", "old", "future", "open", "large", "link"])
def test_what_is_wrong_is_dropped(
    tmp_path: Path, wrong: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    """With a line in the log, and once."""
    kept = place(tmp_path)
    kept.save(OFFER)
    data = kept.path.read_bytes()
    if wrong == "cut":
        kept.path.write_bytes(data[:-9])
    elif wrong == "form":
        kept.path.write_bytes(data.replace(b'"form":1', b'"form":2'))
    elif wrong == "old":
        monkeypatch.setattr(offer, "KEPT_FOR", -1.0)
    elif wrong == "future":
        monkeypatch.setattr("time.time", lambda: 0.0)
    elif wrong == "open":
        kept.path.chmod(0o644)
    elif wrong == "large":
        monkeypatch.setattr(offer, "MAX_BYTES", 10)
    else:
        kept.path.rename(tmp_path / "elsewhere")
        kept.path.symlink_to(tmp_path / "elsewhere")
    with caplog.at_level(logging.WARNING):
        assert kept.load() is None
        assert kept.load() is None
    assert len(caplog.records) == 1
    assert "are not used" in caplog.text
    assert not os.path.lexists(kept.path)


def test_the_folder_does_not_grow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The oldest go, by number and by bytes; what is too large by itself is not kept at all."""
    monkeypatch.setattr(offer, "MAX_FILES", 3)
    places = [place(tmp_path, args=[str(number)]) for number in range(5)]
    for number, kept in enumerate(places):
        kept.save(OFFER)
        os.utime(kept.path, (number, number))
    assert [kept.load() is not None for kept in places] == [False, False, True, True, True]
    monkeypatch.setattr(offer, "MAX_TOTAL", 10)
    places[0].save(OFFER)
    assert list(places[0].path.parent.iterdir()) == []
    monkeypatch.setattr(offer, "MAX_BYTES", 10)
    places[0].save(OFFER)
    assert list(places[0].path.parent.iterdir()) == []


def test_files_of_others_in_the_folder_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """They may be old and large, and the folder may be one of the user's own."""
    kept = place(tmp_path)
    kept.save(OFFER)
    movie = kept.path.with_name("movie.json")
    movie.write_bytes(b"x")
    os.utime(movie, (1, 1))
    monkeypatch.setattr(offer, "MAX_FILES", 0)
    kept.save(OFFER)
    assert list(kept.path.parent.iterdir()) == [movie]


def test_a_folder_that_cannot_be_written_costs_a_line_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    """And no list."""
    (tmp_path / "lists").write_text("a file")
    place(tmp_path).save(OFFER)
    assert "are not kept" in caplog.text


def test_a_server_in_this_process_needs_no_file(tmp_path: Path):
    """Nor does what is no target at all."""
    assert KeptLists(tmp_path).of(Server("one"), b"") is None
    assert KeptLists(tmp_path).of([], b"") is None


async def test_lists_are_kept_though_a_note_that_they_are_late_overtakes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Both are saved in threads, which may run in any order; the newest is what counts."""
    threads: list[Callable[[], None]] = []

    async def run_later(work: Callable[[], None]) -> None:
        threads.append(work)

    monkeypatch.setattr(asyncio, "to_thread", run_later)
    kept = place(tmp_path)
    await kept.keep(None)
    await kept.keep(OFFER)
    for run in reversed(threads):
        run()
    assert place(tmp_path).load() == OFFER


async def test_a_save_that_is_cancelled_has_ended_when_its_task_has(tmp_path: Path) -> None:
    """A thread goes on after that, so a gateway that closes waits for the file."""
    begun, goes_on = threading.Event(), threading.Event()

    class Slow(KeptLists):
        def write(self, path: Path, data: bytes) -> None:
            begun.set()
            assert goes_on.wait(30)
            super().write(path, data)

    kept = KeptOffer(Slow(tmp_path), tmp_path / "a.json")
    saving = asyncio.ensure_future(kept.keep(OFFER))
    assert await asyncio.to_thread(begun.wait, 30)
    saving.cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not saving.done()
    goes_on.set()
    await asyncio.wait([saving])
    assert saving.cancelled()
    assert kept.load() == OFFER
