"""Interfaces of tools: how they are declared, and read."""

from __future__ import annotations

import pytest

from antiphon import Client, Server
from antiphon.errors import ConfigError
from antiphon.server.features.resources import AppOptions

HTML = "<!DOCTYPE html><title>Prices</title>"
URI = "ui://shop/prices"


def tool() -> str:
    """Return nothing."""
    return ""


def shop(**options) -> Server:
    """Make a server with a tool that has an interface."""
    server = Server("shop")
    server.app(URI, HTML, **options)

    @server.tool(ui=URI)
    def prices() -> dict[str, int]:
        """List the prices."""
        return {"hat": 10}

    @server.tool(ui=URI, visibility=["app"], meta={"a": 1})
    def refresh() -> str:
        """Fetch them again."""
        return "ok"

    return server


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_a_tool_names_its_interface(revision):
    """And says who may call it; its result says the same as text."""
    async with Client(shop(), revision=revision) as client:
        tools = {tool.name: tool async for tool in client.tools()}
        assert tools["prices"].meta == {"ui": {"resourceUri": URI}}
        assert tools["refresh"].meta == {"a": 1, "ui": {"resourceUri": URI, "visibility": ["app"]}}
        result = await client.call_tool("prices")
        assert (result.structured_content, "10" in result.text) == ({"hat": 10}, True)


async def test_an_interface_is_read_with_its_policy():
    """By the profile's media type; what is not named is left out, so that hosts allow nothing."""
    options: AppOptions = {"name": "prices", "title": "Prices"}
    server = shop(
        connect=["https://api.example.com", "wss://*.example.com:8443"], load=["https://cdn.example.com"],
        frames=[], base=["https://example.com"], permissions=["camera"], domain="a.example", border=True, **options,
    )  # fmt: skip
    ui = {
        "csp": {
            "connectDomains": ["https://api.example.com", "wss://*.example.com:8443"],
            "resourceDomains": ["https://cdn.example.com"],
            "baseUriDomains": ["https://example.com"],
        },
        "permissions": {"camera": {}},
        "domain": "a.example",
        "prefersBorder": True,
    }
    async with Client(server) as client:
        [listed] = [one async for one in client.resources()]
        assert (listed.name, listed.title, listed.mime_type) == ("prices", "Prices", "text/html;profile=mcp-app")
        [read] = (await client.read_resource(URI)).contents
        assert (read.text, read.mime_type) == (HTML, "text/html;profile=mcp-app")
        assert listed.meta == read.meta == {"ui": ui}


async def test_a_file_is_read_at_each_request(tmp_path):
    """A change of it is seen."""
    page = tmp_path / "page.html"
    server = Server("shop")
    server.app("ui://shop/page", page)
    async with Client(server) as client:
        for text in ("one", "two"):
            page.write_text(text, encoding="utf-8")
            assert (await client.read_resource("ui://shop/page")).contents[0].text == text


@pytest.mark.parametrize(
    ("add", "why"),
    [
        (lambda server: server.app("https://a/b", HTML), "begins with"),
        (lambda server: server.app(URI, HTML, connect="https://a.example"), "a list of origins"),
        (lambda server: server.app(URI, HTML, connect=["https://a.example; script-src *"]), "a list of origins"),
        (lambda server: server.app(URI, HTML, load=["https://a.example/path"]), "a list of origins"),
        (lambda server: server.app(URI, HTML, frames=["*"]), "a list of origins"),
        (lambda server: server.app(URI, HTML, permissions=["usb"]), "permissions="),
        (lambda server: server.tool(ui="https://a/b")(tool), "ui= is the URI"),
        (lambda server: server.tool(visibility="app")(tool), "visibility= is a list"),
        (lambda server: server.tool(visibility=[])(tool), "visibility= is a list"),
        (lambda server: server.tool(visibility=["user"])(tool), "visibility= is a list"),
    ],
)
def test_what_no_host_could_use_is_refused(add, why):
    """When the author writes it."""
    server = Server("shop")
    with pytest.raises(ConfigError, match=why):
        add(server)
    assert len(server.resources) == 0
