"""Streamable HTTP: headers, statuses, sessions, other origins, and what a server says of signing in."""

from __future__ import annotations

import pytest

from antiphon import Server
from antiphon.check import checkup
from antiphon.check.checkup import check_server
from antiphon.wire.revisions import LATEST, LATEST_LEGACY
from tests.check.fault_search import assert_found
from tests.check.faulty_web import SIGNING_IN, WEB_FAULTS, FaultyWeb, serve_web, start_web
from tests.support.network import listening

_MODERN = {
    "any method header", "no method header", "any revision header", "any name header", "200 for unknown",
    "breaks when a stream is closed",
}  # fmt: skip


@pytest.mark.parametrize("name", WEB_FAULTS)
async def test_a_fault_of_http_is_found_and_nothing_else(name: str, monkeypatch: pytest.MonkeyPatch):
    """A server with one fault has findings of one rule, at the place of the fault."""
    monkeypatch.setattr(checkup, "MEMORY_WAIT", 60.0)
    revision = LATEST.name if name in _MODERN else "auto" if name == "no fault" else LATEST_LEGACY.name
    # The memory of this process is not measured.
    async with (start_web if name == "grows with each session" else serve_web)(name) as url:
        report = await check_server(url, timeout=30.0, revision=revision)
    assert_found(report, WEB_FAULTS[name])
    assert bool(report.problem) == (name in SIGNING_IN or name == "redirects")


async def test_a_server_in_a_process_of_its_own_has_no_finding():
    """Its memory is measured while requests and sessions are repeated, and stays as it is."""
    async with start_web("no fault") as url:
        report = await check_server(url, timeout=30.0)
    assert (report.findings, report.problem) == ([], "")


async def test_a_server_that_cannot_be_reached_is_a_problem():
    """Nothing is known about a server that nobody has seen."""
    report = await check_server("http://127.0.0.1:9/mcp", timeout=5.0)
    assert report.problem
    assert report.findings == []


async def test_a_stream_that_can_be_resumed_is_right():
    """Its events have ids, and a GET that names one goes on with it."""
    async with serve_web("resumes") as url:
        report = await check_server(url, timeout=30.0, revision="2025-11-25")
    assert report.findings == []


async def test_a_header_with_a_token_goes_with_every_request(monkeypatch: pytest.MonkeyPatch):
    """It is sent as it was given, so that a server behind a login can be checked."""
    guard, tokens = FaultyWeb.guard, set[str | None]()

    def note(self, request):
        tokens.add(request.headers.get("Authorization"))
        return guard(self, request)

    monkeypatch.setattr(FaultyWeb, "guard", note)
    async with serve_web("no fault") as url:
        report = await check_server(url, headers={"Authorization": "Bearer x"}, timeout=30.0, revision="2025-11-25")
    assert tokens == {"Bearer x"}
    assert report.findings == []


async def test_a_server_with_http_sse_alone_is_checked_over_it():
    """Its messages are examined as those of any server, and its transport is advised against."""
    server = Server("old")

    @server.tool
    async def greet(name: str) -> str:
        """Greet somebody by name."""
        return f"Hello {name}"

    async with listening(server, "sse") as network:
        report = await check_server(f"http://{network.place}/sse", calls=['greet={"name": "you"}'], timeout=30.0)
    assert report.problem == ""
    assert [one.rule.id for one in report.findings] == ["http.oldest"], report.findings
    assert "tools greet" in report.definitions
    assert report.revisions[0] == "2024-11-05"
