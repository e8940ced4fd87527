"""Pages beside the endpoint: what they may be, where they may be, and that the endpoint stays as it is."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount

from antiphon import Client, Server
from antiphon.auth import ResourceServer
from antiphon.errors import ConfigError
from antiphon.server import RouteRequest


def page(request: RouteRequest) -> str:
    """Be a page."""
    return ""


def too_few() -> str:
    """Take no request."""
    return ""


def too_many(one: str, other: str) -> str:
    """Take two arguments."""
    return one + other


def shop() -> Server:
    """Make a server with a tool and pages of every kind."""
    server = Server("shop")
    server.tool(name="sell")(lambda: "sold")

    @server.route("/echo", methods=["GET", "POST"])
    async def echo(request: RouteRequest) -> Any:
        named = request.headers.get("X-Name", "")
        return [request.method, request.path, dict(request.query), named, request.body.decode()]

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await PlainTextResponse(f"{scope['root_path']} {scope['path']}")(scope, receive, send)

    def fail(request: RouteRequest) -> str:
        raise RuntimeError("the key is hunter2")

    def answer(value: Any) -> Any:
        def handler(request: RouteRequest) -> Any:
            return value

        return handler

    server.route("/", answer("<h1>shop</h1>"), media_type="text/html")
    server.route("/files/", app)
    server.route("/file", app)
    server.route("/gone", answer((410, "gone")))
    server.route("/theirs", answer(PlainTextResponse("theirs", 201)))
    server.route("/fail", fail)
    return server


def web(app: Any, **options: Any) -> httpx.AsyncClient:
    """Make a client of an application."""
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost", **options)


async def test_a_function_answers_with_text_json_a_status_or_a_response():
    """Its request has the method, the query, the headers and the body."""
    async with web(shop().asgi()) as client:
        page = await client.get("/")
        assert (page.headers["content-type"], page.text) == ("text/html; charset=utf-8", "<h1>shop</h1>")
        said = await client.post("/echo?a=1&b=&a=2", content=b"body", headers={"x-name": "Ann"})
        assert said.json() == ["POST", "/echo", {"a": "2", "b": ""}, "Ann", "body"]
        assert (await client.get("/gone")).status_code == 410
        assert ((await client.get("/theirs")).status_code, (await client.get("/theirs")).text) == (201, "theirs")


async def test_an_application_serves_all_below_its_path():
    """With its prefix as ``root_path``, as frameworks pass it; a single path is no prefix."""
    async with web(shop().asgi()) as client:
        assert (await client.put("/files/a/b")).text == "/files /files/a/b"
        assert (await client.put("/files/")).text == "/files /files/"
        assert (await client.put("/file")).text == " /file"
        assert (await client.get("/files")).status_code == 404


async def test_other_methods_are_refused():
    """The response names those that are served; HEAD has no body."""
    async with web(shop().asgi()) as client:
        refused = await client.delete("/echo")
        assert (refused.status_code, refused.headers["allow"]) == (405, "GET, POST")
        head = await client.head("/")
        assert (head.status_code, head.text) == (200, "")


async def test_a_failure_tells_nothing(caplog: pytest.LogCaptureFixture):
    """The log has it."""
    async with web(shop().asgi()) as client:
        failed = await client.get("/fail")
        assert (failed.status_code, failed.text) == (500, "Internal server error")
    assert "the route '/fail' failed" in caplog.text


async def test_hosts_and_origins_are_checked_as_at_the_endpoint():
    """A page of another site reads nothing by DNS rebinding."""
    async with web(shop().asgi()) as client:
        assert (await client.get("/", headers={"host": "evil.example"})).status_code == 403
        assert (await client.get("/", headers={"origin": "https://evil.example"})).status_code == 403
        assert (await client.get("/files/x", headers={"host": "evil.example"})).status_code == 403
    async with web(shop().asgi(allowed_hosts=["shop.example"])) as client:
        assert (await client.get("/", headers={"host": "shop.example"})).status_code == 200


async def test_a_body_has_a_bound():
    """A function gets no more than a megabyte."""
    async with web(shop().asgi()) as client:
        assert (await client.post("/echo", content=b"x" * (1024 * 1024 + 1))).status_code == 413


async def test_the_endpoint_and_its_documents_stay():
    """Routes ask for no token; the endpoint does."""
    server = shop()
    auth = ResourceServer("https://issuer.example", "https://shop.example/mcp")
    async with web(server.asgi(auth=auth)) as client:
        assert (await client.get("/.well-known/oauth-protected-resource")).status_code == 200
        assert (await client.post("/mcp", json={})).status_code == 401
        assert (await client.get("/")).status_code == 200
    await auth.close()


async def test_routes_hold_where_the_application_is_mounted():
    """The mount point itself is the endpoint, and pages are below it."""
    async with web(Starlette(routes=[Mount("/shop", shop().asgi())])) as client:
        assert (await client.get("/shop/gone")).status_code == 410
        assert (await client.get("/shop/echo")).json()[1] == "/echo"
        assert (await client.get("/shop/")).status_code != 200


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("health", "a path begins with one slash"),
        ("/{gap}", "has no gaps"),
        ("/a/../b", "begins with one slash"),
        ("/gone", "the path has a route already"),
        ("/.well-known/mine", "says where clients sign in"),
        ("/a/.well-known/", "says where clients sign in"),
    ],
)
def test_a_path_that_cannot_be_is_refused(path: str, said: str):
    """When it is added, with what to do."""
    with pytest.raises(ConfigError, match=said):
        shop().route(path, page)


@pytest.mark.parametrize(
    ("path", "options"),
    [
        ("/mcp", {}),
        ("/mcp/", {}),
        ("/api/", {"path": "/api/mcp"}),
        ("/healthz", {"health": True}),
        ("/", {"path": "/"}),
    ],
)
def test_a_route_never_shadows_the_endpoint(path: str, options: Any):
    """The error comes when the application is made."""
    server = Server("shop")
    server.route(path, page)
    with pytest.raises(ConfigError, match="the server itself answers at"):
        server.asgi(**options)


@pytest.mark.parametrize("handler", ["text", too_few, too_many])
def test_what_cannot_be_called_so_is_refused(handler: Any):
    """Neither a function of the request nor an application."""
    with pytest.raises(ConfigError, match="a route leads to a function of the request"):
        Server("shop").route("/x", handler)


def test_methods_are_a_list():
    """A text would be a list of letters."""
    with pytest.raises(ConfigError, match="methods= is a list"):
        Server("shop").route("/x", page, methods="GET")


PROGRAM = """
import sys
from antiphon import Server
server = Server("shop")
server.tool(name="sell")(lambda: "sold")
server.route("/page", lambda request: "a page")
if __name__ == "__main__":
    server.run("http", port=0, workers=int(sys.argv[1]), on_listening=lambda port: print(port, flush=True))
"""


@pytest.mark.parametrize("workers", [1, 2])
async def test_a_server_that_listens_has_its_pages(tmp_path: Path, workers: int):
    """In one process or several, beside the endpoint."""
    program = tmp_path / "shop.py"
    program.write_text(PROGRAM)
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(program), str(workers), stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        port = int(await process.stdout.readline())
        async with httpx.AsyncClient() as client:
            assert (await client.get(f"http://127.0.0.1:{port}/page")).text == "a page"
        async with Client(f"http://127.0.0.1:{port}/mcp") as client:
            assert (await client.call_tool("sell")).text == "sold"
    finally:
        process.terminate()
        await process.wait()


async def test_what_a_stranger_sends_becomes_no_page():
    """A text is plain even if it begins like a page, so no browser runs a script that came with a link."""
    server = Server("shop")
    server.route("/search", lambda request: request.query["q"])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(server.asgi()), base_url="http://localhost") as web:
        page = await web.get("/search", params={"q": "<script>alert(1)</script>"})
    assert (page.headers["content-type"], page.text) == ("text/plain; charset=utf-8", "<script>alert(1)</script>")
    assert page.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("status", [99_999, 0, -1, "200", None])
async def test_a_status_that_http_does_not_have_is_a_failure(status: Any, caplog: pytest.LogCaptureFixture):
    """The visitor gets an answer, and the log says what is wrong."""
    server = Server("shop")
    server.route("/page")(lambda request: (status, "text"))
    async with web(server.asgi()) as client:
        assert (await client.get("/page")).status_code == 500
    assert f"a route returns a status from 200 to 599, not {status!r}" in caplog.text


async def test_a_query_of_too_many_fields_is_refused(caplog: pytest.LogCaptureFixture):
    """Nothing of it is logged, since strangers could fill the log."""
    async with web(shop().asgi()) as client:
        assert (await client.get("/echo?" + "&".join(["a=1"] * 1_000))).status_code == 200
        assert (await client.get("/echo?" + "&".join(["a=1"] * 1_001))).status_code == 414
    assert not caplog.text
