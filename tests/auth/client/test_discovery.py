"""Finding the authorization server: addresses that have something else are passed over."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
from yarl import URL

from antiphon.auth.client.discovery import discover_server
from antiphon.auth.client.fetch import Fetch, TooLarge
from antiphon.errors import Unauthorized

BASE = "https://api.example"
PAGE = "<!doctype html><title>app</title>"
RESOURCE, SERVER, OPENID = (
    f"/.well-known/{name}"
    for name in ("oauth-protected-resource", "oauth-authorization-server", "openid-configuration")
)


class Documents(Fetch):
    """What a site has, by path; ``None`` stands for all other paths. Text is a page, other values are JSON."""

    def __init__(self, by_path: dict[str | None, Any]) -> None:
        self._by_path = by_path

    async def document(self, url: URL) -> bytes | None:
        """Return what is there."""
        found = self._by_path.get(url.path, self._by_path.get(None))
        if isinstance(found, Exception):
            raise found
        if found is None:
            return None
        return found.encode() if isinstance(found, str) else json.dumps(found).encode()

    async def check_page(self, url: URL) -> None:
        """Let a browser open every page: no name is looked up."""


def issuer(path: str = "", **changes: Any) -> dict[str, Any]:
    """Describe an authorization server."""
    at = {"authorization_endpoint": f"{BASE}/authorize", "token_endpoint": f"{BASE}{path}/token"}
    return {"issuer": f"{BASE}{path}", **at, "response_types_supported": ["code"], **changes}


def resource(path: str = "/svc/mcp", at: str = "") -> dict[str, Any]:
    """Describe the MCP server."""
    return {"resource": f"{BASE}{path}", "authorization_servers": [f"{BASE}{at}"]}


BELOW = {RESOURCE + "/svc/mcp": resource(at="/t"), "/t" + OPENID: issuer("/t")}
TWO = {"resource": f"{BASE}/svc/mcp", "authorization_servers": [f"{BASE}/p", f"{BASE}/t"]}
AT_ROOT = {RESOURCE: resource(""), SERVER: issuer()}
CASES: dict[str, dict[str | None, Any]] = {
    "a page below the path": {RESOURCE + "/svc/mcp": PAGE, **AT_ROOT},
    "pages for the resource": {RESOURCE + "/svc/mcp": PAGE, RESOURCE: PAGE, SERVER: issuer()},
    "pages everywhere else": {None: PAGE, **AT_ROOT},
    "a large page": {RESOURCE + "/svc/mcp": TooLarge("large"), **AT_ROOT},
    "nothing with status 200": {RESOURCE + "/svc/mcp": "", **AT_ROOT},
    "an array": {RESOURCE + "/svc/mcp": ["x"], **AT_ROOT},
    "null": {RESOURCE + "/svc/mcp": "null", **AT_ROOT},
    "an empty object": {RESOURCE + "/svc/mcp": {}, **AT_ROOT},
    "a broken description": {RESOURCE + "/svc/mcp": {"authorization_servers": 5}, **AT_ROOT},
    "a page for OAuth": {**BELOW, SERVER + "/t": PAGE},
    "an array for OAuth": {**BELOW, SERVER + "/t": []},
    "nothing of the first server": {**BELOW, RESOURCE + "/svc/mcp": TWO},
    "pages of the first server": {
        **BELOW, RESOURCE + "/svc/mcp": TWO, SERVER + "/p": PAGE, OPENID + "/p": PAGE, "/p" + OPENID: PAGE,
    },
    "another issuer for OAuth": {**BELOW, SERVER + "/t": issuer("/other")},
    "a slash after the origin in the resource": {RESOURCE: resource("", at="/"), SERVER: issuer()},
    "a slash after the origin in the issuer": {RESOURCE: resource(""), SERVER: issuer(issuer=f"{BASE}/")},
    "OpenID metadata alone, at the root": {OPENID: issuer()},
    "a page for OAuth, and OpenID metadata": {SERVER: PAGE, OPENID: issuer()},
    "no token endpoint for OAuth": {**BELOW, SERVER + "/t": issuer("/t", token_endpoint=None)},
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
async def test_discovery_goes_on_after_something_that_is_no_metadata(case):
    """Sites whose unknown paths show their start page exist; such an address counts as an empty one."""
    found = await discover_server(Documents(CASES[case]), URL(f"{BASE}/svc/mcp"), None)
    assert found.server.token_endpoint in (f"{BASE}/token", f"{BASE}/t/token")
    assert found.is_described


@pytest.mark.parametrize(
    ("documents", "why"),
    [
        ({RESOURCE: {"authorization_servers": 5}}, "not the OAuth metadata"),
        ({RESOURCE: resource(""), SERVER: PAGE}, "malformed"),
        ({RESOURCE: resource(""), SERVER: issuer("/other")}, "is the metadata of https://api.example/other"),
        ({RESOURCE: resource(""), SERVER: issuer("", token_endpoint="http://evil.example")}, "plain http"),
    ],
)
async def test_without_metadata_the_first_problem_is_named(documents, why):
    """A broken description is no reason to sign in anywhere else."""
    with pytest.raises(Unauthorized, match=why):
        await discover_server(Documents(cast("Any", documents)), URL(f"{BASE}/svc/mcp"), None)


@pytest.mark.parametrize(("set_up", "named"), [(BASE, f"{BASE}/"), (f"{BASE}/", BASE), (BASE, BASE)])
async def test_a_client_that_is_set_up_for_an_origin_signs_in_there_however_it_is_spelt(set_up, named):
    """What the resource names is what the metadata is asked for."""
    site = Documents({RESOURCE: {**resource(""), "authorization_servers": [named]}, SERVER: issuer()})
    found = await discover_server(site, URL(f"{BASE}/svc/mcp"), None, issuer=set_up)
    assert found.server.issuer == BASE
