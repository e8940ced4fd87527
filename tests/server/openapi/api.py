"""A real API and its document: what it was sent comes back, so that tests see what is on the wire."""

from __future__ import annotations

from contextlib import asynccontextmanager

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from antiphon import Client, Server
from tests.support.asgi import running


def describe(method, path, **more):
    """Return a document of one operation."""
    operation = {"operationId": "op", "responses": {"200": {"description": "ok"}}, **more}
    return document({path: {method: operation}})


def document(paths, version="3.1.0", **more):
    """Return a document."""
    return {"openapi": version, "info": {"title": "Pets", "version": "1"}, "paths": paths, **more}


async def echo(request: Request):
    """Answer with the request: the path and the query as they were sent."""
    body = await request.body()
    return JSONResponse(
        {
            "method": request.method,
            "path": request.scope["raw_path"].decode(),
            "query": request.scope["query_string"].decode(),
            "headers": dict(request.headers),
            "body": body.decode("latin-1"),
        }
    )


ANSWERS = {
    "missing": lambda: JSONResponse({"detail": "no such pet"}, 404),
    "broken": lambda: PlainTextResponse("x" * 100_000, 500),
    "large": lambda: PlainTextResponse("x" * 3_000_000),
    "elsewhere": lambda: RedirectResponse("http://192.0.2.1/secret", 302),
    "image": lambda: Response(b"\x89PNG", media_type="image/png"),
    "zip": lambda: Response(b"PK", media_type="application/zip"),
    "nothing": lambda: Response(status_code=204),
    "list": lambda: JSONResponse([1, 2]),
    "text": lambda: PlainTextResponse("hello"),
    "false": lambda: Response(b"{nothing", media_type="application/json"),
    "pet": lambda: JSONResponse({"id": 1, "name": None}),
}
"""What the API answers, by the last part of the path."""


async def answer(request: Request):
    """Answer in the way that the path names."""
    return ANSWERS[request.path_params["kind"]]()


APP = Starlette(
    routes=[
        Route("/answer/{kind}", answer, methods=["GET", "POST", "DELETE"]),
        Route("/{rest:path}", echo, methods=["GET", "PUT", "POST", "DELETE", "PATCH", "OPTIONS"]),
    ]
)


@asynccontextmanager
async def calling(described, **options):
    """Serve the API and a server of its document; yields the server's client."""
    async with running(APP, "off") as place, httpx.AsyncClient(base_url=f"http://{place}") as http:
        server = Server.from_openapi(described, client=http, **options)
        async with Client(server) as client:
            yield client


async def send(described, arguments, **options):
    """Call the operation of a document of one, and return what the API was sent."""
    async with calling(described, **options) as client:
        result = await client.call_tool("op", arguments)
        assert not result.is_error, result
        return result.structured_content
