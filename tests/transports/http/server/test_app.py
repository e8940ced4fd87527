"""The way of a request to whoever serves it: path, method, media types, form, limits."""

from __future__ import annotations

import asyncio

import pytest

from tests.transports.http.server.driver import Open, ask, begin, closing, post, scope_of
from tests.transports.http.server.fakes import Bench, call, initialize, modern, modern_headers

MODERN = modern_headers(name="echo")


@pytest.fixture
async def bench():
    """Make an application with fake peers, and close it at the end."""
    made = Bench()
    async with closing(made.app):
        yield made


async def test_a_modern_call_is_one_json_response(bench):
    """With its length, and nothing of a session."""
    response = await post(bench.app, modern("echo", a=1), **MODERN)
    assert (response.status, response.json) == (200, {"jsonrpc": "2.0", "id": 1, "result": {"a": 1}})
    assert response.headers == {"content-type": "application/json", "content-length": str(len(response.body))}


@pytest.mark.parametrize(
    ("path", "root", "status"),
    [
        ("/mcp", "", 200),
        ("/mcp/", "", 200),
        ("/", "", 404),
        ("/mcp/x", "", 404),
        ("/api/mcp", "/api", 200),
        ("/api/x", "/api", 404),
    ],
)
async def test_there_is_one_endpoint(bench, path, root, status):
    """With or without a slash, and below where it is mounted."""
    scope = scope_of("POST", {"content-type": "application/json", **MODERN}, path, root_path=root)
    body = b'{"jsonrpc":"2.0","method":"x"}'
    response = await Open(bench.app, scope, [body]).done()
    assert (response.status in {200, 202}) is (status == 200)


async def test_who_misses_it_is_told_where_it_is(bench):
    """The usual mistake is an address without its path."""
    scope = scope_of("POST", {"content-type": "application/json", **MODERN}, "/")
    response = await Open(bench.app, scope, [b"{}"]).done()
    assert response.json["error"]["message"] == "Not found: the endpoint is /mcp"


@pytest.mark.parametrize("path", ["/", "/mcp"])
@pytest.mark.parametrize("slash", ["", "/"])
async def test_where_it_is_mounted_is_the_endpoint_itself(path, slash):
    """Whatever path it was given."""
    bench = Bench(path=path)
    async with closing(bench.app) as app:
        sent = {"content-type": "application/json", **MODERN}
        scope = scope_of("POST", sent, f"/tools/mcp{slash}", root_path="/tools/mcp")
        response = await Open(app, scope, [b'{"jsonrpc":"2.0","method":"x"}']).done()
    assert response.status == 202


@pytest.mark.parametrize("method", ["PUT", "HEAD", "OPTIONS", "PATCH"])
async def test_other_methods_are_405(bench, method):
    """And say which there are."""
    response = await ask(bench.app, method)
    assert (response.status, response.headers["allow"]) == (405, "GET, POST, DELETE")


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_a_modern_client_has_no_get_and_no_delete(bench, method):
    """2026-07-28: 405."""
    response = await ask(bench.app, method, **modern_headers())
    assert response.status == 405


@pytest.mark.parametrize(
    ("headers", "status"),
    [({"content-type": "text/plain"}, 415), ({"content-encoding": "gzip"}, 415), ({"accept": "application/json"}, 406)],
)
async def test_media_types_are_checked(bench, headers, status):
    """Before the body is read."""
    assert (await post(bench.app, modern("echo"), **MODERN, **headers)).status == status


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", -32700),
        (b"\xff", -32700),
        (b"", -32700),
        (b'{"jsonrpc":"1.0","id":5,"method":"x"}', -32600),
        (b"3", -32600),
        (b"[" * 200 + b"]" * 200, -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"x"}', -32600),
    ],
)
async def test_what_is_no_message_is_400(bench, body, code):
    """With the error that says why."""
    response = await post(bench.app, body)
    assert (response.status, response.json["error"]["code"]) == (400, code)
    assert bench.peers == []


async def test_an_error_repeats_the_id_where_it_can_be_read(bench):
    """Even if the message cannot."""
    response = await post(bench.app, b'{"jsonrpc":"1.0","id":5,"method":"x"}')
    assert response.json["id"] == 5


async def test_a_modern_mismatch_repeats_the_id(bench):
    """And reaches no handler."""
    response = await post(bench.app, modern("echo", id="x"), **modern_headers(name="other"))
    assert (response.status, response.json["id"], response.json["error"]["code"]) == (400, "x", -32020)
    assert bench.peers == []


async def test_a_body_beyond_the_limit_is_413():
    """By default at 16 MiB."""
    bench = Bench(max_body=10)
    async with closing(bench.app) as app:
        assert (await post(app, modern("echo"), **MODERN)).status == 413


async def test_there_is_a_bound_on_what_is_open():
    """Beyond it clients are told to come back later."""
    bench = Bench(max_open=1)
    async with closing(bench.app) as app:
        waiting = begin(app, modern("wait"), **modern_headers(name="wait"))
        await bench.waiting.wait()
        assert (await post(app, modern("echo"), **MODERN)).status == 503
        bench.peers[0].go.set()
        assert (await waiting.done()).json["result"] == "waited"
        assert (await post(app, modern("echo"), **MODERN)).status == 200


async def test_a_websocket_is_refused(bench):
    """It is another transport's."""
    sent = []

    async def receive():
        return {"type": "websocket.connect"}

    async def send(message):
        sent.append(message)

    await bench.app({"type": "websocket"}, receive, send)
    assert sent == [{"type": "websocket.close", "code": 1008}]


async def test_closing_waits_for_what_is_served():
    """For as long as it was told; new requests are refused meanwhile, answers to asks are not."""
    bench = Bench()
    app = bench.app
    opened = await post(app, initialize())
    session = {"mcp-session-id": opened.headers["mcp-session-id"]}
    asking = begin(app, call("ask", id=1), **session)
    await asking.response.until(b"sampling")
    closing_app = asyncio.ensure_future(app.close(drain=5))
    await asyncio.sleep(0)
    assert (await post(app, call("echo", id=2), **session)).status == 503
    assert (await post(app, modern("echo"), **MODERN)).status == 503
    assert (await post(app, {"jsonrpc": "2.0", "id": 7, "result": "me"}, **session)).status == 202
    await closing_app
    assert (await asking.done()).messages[-1]["result"] == "me"


async def test_closing_ends_what_does_not_end_by_itself():
    """A call that waits gets a response all the same."""
    bench = Bench()
    waiting = begin(bench.app, modern("wait"), **modern_headers(name="wait"))
    await bench.waiting.wait()
    await bench.app.close()
    assert (await waiting.done()).status == 503
    assert bench.peer.is_over


# --- health ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_a_probe_is_answered_under_any_name_and_without_a_token(path):
    """Whoever probes a container knows its address; it learns a status and nothing else."""
    made = Bench(health=True, check_token=lambda token: None)
    async with closing(made.app):
        response = await ask(made.app, "GET", path, host="10.1.2.3:8000", origin="https://evil.example")
        assert (response.status, response.body) == (200, b"")
        assert not {name for name in response.headers if name.startswith(("access-control", "mcp"))}
        assert (await ask(made.app, "DELETE", path)).status == 405
    assert made.peers == []


async def test_a_process_that_drains_is_healthy_and_not_ready():
    """It finishes what it has begun, and wants no more."""
    made = Bench(health=True)
    async with closing(made.app):
        waiting = begin(made.app, modern("wait"), **modern_headers(name="wait"))
        await made.waiting.wait()
        closed = asyncio.create_task(made.app.close(drain=60))
        await asyncio.sleep(0)
        statuses = [(await ask(made.app, "GET", path)).status for path in ("/healthz", "/readyz")]
        assert statuses == [200, 503]
        made.peer.go.set()
        await waiting.done()
        await closed
        assert (await ask(made.app, "GET", "/healthz")).status == 503


async def test_without_the_option_there_are_no_such_pages():
    """An application that the endpoint is mounted in may have its own."""
    made = Bench()
    async with closing(made.app):
        assert (await ask(made.app, "GET", "/healthz")).status == 404
