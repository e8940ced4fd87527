"""A protected server as its clients meet it: what it asks for, where it says so, and who may do what."""

from __future__ import annotations

import json

import pytest

from antiphon import Client, ConfigError, InsufficientScope, PeerError, Server
from antiphon.auth.server.proofs import DPoP
from antiphon.auth.server.resource_server import ResourceServer
from antiphon.errors import Unauthorized
from tests.auth.server.protected import HEADERS, protected, protected_replicas, shop
from tests.support.asgi import running
from tests.support.issuer import AUDIENCE, Issuer
from tests.support.network import META, Bare, modern_call

WELL_KNOWN = "/.well-known/oauth-protected-resource"
READ, WRITE = "orders:read", "orders:write"


# --- where tokens come from -------------------------------------------------------------------------------------------


async def test_without_a_token_a_client_hears_where_to_get_one():
    """401, the document's address, and what to ask for; no error, since nothing was wrong yet."""
    async with protected(scopes=["shop", "base"]) as server:
        answer = await server.tool()
    assert answer.status == 401
    assert answer.challenge == (
        "Bearer",
        {"resource_metadata": f"https://mcp.example.com{WELL_KNOWN}/mcp", "scope": "base shop"},
    )


@pytest.mark.parametrize("path", [f"{WELL_KNOWN}/mcp", WELL_KNOWN, f"{WELL_KNOWN}/"])
async def test_the_document_is_at_both_places(path):
    """At the endpoint's and at the root, for anybody."""
    async with protected(scopes_supported=["a", "b"], name="Shop") as server:
        answer = await server.send("GET", server.origin + path, {"host": "localhost"})
        assert answer.status == 200
        assert answer.headers["content-type"] == "application/json"
        said = answer.json
        assert said["resource"] == AUDIENCE
        assert said["authorization_servers"] == [server.issuer.url]
        assert said["scopes_supported"] == ["a", "b"]
        assert said["bearer_methods_supported"] == ["header"]
        assert said["resource_name"] == "Shop"
        assert "ES256" in said["dpop_signing_alg_values_supported"]
        assert (await server.send("POST", server.origin + path, HEADERS, b"{}")).status == 405


async def test_nothing_comes_from_what_a_request_says_of_its_host():
    """Neither the document nor the challenge, whatever headers a request brings."""
    lies = {"host": "evil.example", "x-forwarded-host": "evil.example", "x-forwarded-proto": "http"}
    lies |= {"forwarded": "host=evil.example", "x-forwarded-prefix": "/evil", "x-original-url": "/evil"}
    async with protected(serve={"allowed_hosts": ["*"]}) as server:
        document = await server.send("GET", server.origin + WELL_KNOWN, lies)
        answer = await server.tool(**lies)
    assert document.json["resource"] == AUDIENCE
    assert "evil" not in document.body.decode() + str(answer.headers)


async def test_a_foreign_page_reads_no_document():
    """The guards stand before everything."""
    async with protected() as server:
        headers = {"host": "localhost", "origin": "https://evil.example"}
        assert (await server.send("GET", server.origin + WELL_KNOWN, headers)).status == 403


async def test_a_page_of_ours_may_read_it():
    """And the challenge, and the nonce."""
    page = "http://localhost:3000"
    async with protected() as server:
        found = await server.send("GET", server.origin + WELL_KNOWN, {"host": "localhost", "origin": page})
        refused = await server.tool(origin=page)
    assert found.headers["access-control-allow-origin"] == page
    assert "WWW-Authenticate, DPoP-Nonce" in refused.headers["access-control-expose-headers"]


@pytest.mark.parametrize(
    ("asked", "root_path"),
    [
        (f"/tools{WELL_KNOWN}/mcp", "/tools"),
        (f"/tools{WELL_KNOWN}", "/tools"),
        (f"{WELL_KNOWN}/mcp", ""),
        (f"{WELL_KNOWN}/tools/mcp", ""),
    ],
)
async def test_below_a_path_the_document_is_where_the_challenge_says(asked, root_path):
    """Mounted, or behind a proxy that takes the path away, or leaves the whole of it."""
    async with Issuer().open() as issuer:
        app = shop().asgi(auth=ResourceServer(issuer.url, "https://mcp.example.com/tools/mcp"))

        async def mounted(scope, receive, send):
            if scope["type"] == "http":
                scope = {**scope, "root_path": root_path}
            await app(scope, receive, send)

        async with running(mounted) as place, protected(issuer) as other:
            found = await other.send("GET", f"http://{place}{asked}", {"host": "localhost"})
            refused = await other.tool(url=f"http://{place}{root_path}/mcp")
    assert found.json["resource"] == "https://mcp.example.com/tools/mcp"
    hint = f"https://mcp.example.com/tools{WELL_KNOWN}/mcp"
    assert refused.challenge[1]["resource_metadata"] == hint


@pytest.mark.parametrize("transport", ["http", "sse", "websocket"])
async def test_every_transport_has_the_document(transport):
    """Each at its own path."""
    async with protected(transport=transport) as server:
        path = {"http": "/mcp", "sse": "/sse", "websocket": "/ws"}[transport]
        answer = await server.send("GET", f"{server.origin}{WELL_KNOWN}{path}", {"host": "localhost"})
    assert answer.json["resource"] == AUDIENCE


# --- how a token is sent ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["bearer", "BEARER", "BeArEr"])
async def test_the_scheme_is_read_in_any_case(scheme):
    """RFC 9110, section 11.1."""
    async with protected() as server:
        assert (await server.tool(token=server.issuer.token(), scheme=scheme)).status == 200


async def test_two_tokens_are_none():
    """A proxy may go by the one, and we by the other."""
    async with protected() as server:
        sent = modern_call("whoami")
        line = f"authorization: Bearer {server.issuer.token()}\r\n".encode()
        bare = await Bare.open(server.origin.removeprefix("http://"))
        bare.send(sent.replace(b"host: ", line + line.replace(b"auth", b"Auth") + b"host: "))
        status, _, _ = await bare.response()
        bare.vanish()
    assert status == 400


@pytest.mark.parametrize(
    "value", ["", "Bearer", "Bearer ", "Basic YTpi", "Token x", "Bearer a b", "Bearer, x", "Bearer \t", "bearerx y"]
)
async def test_what_is_no_bearer_token_lets_nobody_in(value):
    """Whatever else is in that header."""
    async with protected() as server:
        assert (await server.tool(authorization=value)).status == 401


async def test_a_token_in_the_address_is_not_looked_at():
    """2026-07-28: "Access tokens MUST NOT be included in the URI query string"."""
    async with protected() as server:
        token = server.issuer.token()
        for query in (f"?access_token={token}", f"?token={token}", f"?authorization=Bearer%20{token}"):
            assert (await server.tool(url=server.url + query)).status == 401


async def test_a_token_in_the_body_is_not_looked_at():
    """Nor in ``_meta``, nor as a form."""
    async with protected() as server:
        token = server.issuer.token()
        assert (await server.tool(arguments={"access_token": token, "authorization": f"Bearer {token}"})).status == 401
        form = {**HEADERS, "content-type": "application/x-www-form-urlencoded"}
        assert (await server.send("POST", server.url, form, f"access_token={token}".encode())).status == 401


@pytest.mark.parametrize("name", ["x-access-token", "proxy-authorization", "cookie", "x-forwarded-user"])
async def test_no_other_header_counts(name):
    """A proxy that has checked a token for itself is not asked."""
    async with protected() as server:
        assert (await server.tool(**{name: f"Bearer {server.issuer.token()}"})).status == 401


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "OPTIONS"])
async def test_every_method_wants_a_token(method):
    """Not POST alone."""
    async with protected() as server:
        assert (await server.send(method, server.url, HEADERS)).status == 401


# --- what a token allows ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("granted", ["", READ, WRITE, "other"])
async def test_all_scopes_that_are_required_are_named_at_once(granted):
    """403, also where the token has some of them: the client asks its person once."""
    async with protected(scopes=[]) as server:
        answer = await server.tool("order", token=server.issuer.token(scope=granted), arguments={"what": "tea"})
    scheme, said = answer.challenge
    assert (answer.status, scheme, said["error"]) == (403, "Bearer", "insufficient_scope")
    assert said["scope"] == f"{READ} {WRITE}"
    assert said["resource_metadata"] == f"https://mcp.example.com{WELL_KNOWN}/mcp"
    assert answer.json["error"]["data"] == {"requiredScopes": [READ, WRITE]}


async def test_a_token_with_all_of_them_may():
    """And with more."""
    async with protected() as server:
        token = server.issuer.token(scope=f"more {WRITE} {READ}")
        assert (await server.tool("order", token=token, arguments={"what": "tea"})).text == "tea"


async def test_what_every_token_must_allow_is_named_with_the_rest():
    """In the one challenge."""
    async with protected(scopes=["shop"]) as server:
        bare = await server.tool(token=server.issuer.token(scope=READ))
        narrow = await server.tool("orders", token=server.issuer.token(scope="shop"))
    assert (bare.status, bare.challenge[1]["scope"]) == (403, "shop")
    assert (narrow.status, narrow.challenge[1]["scope"]) == (403, f"{READ} shop")


async def test_a_broader_scope_includes_narrower_ones():
    """By the function of whoever knows what scopes mean."""

    def covers(granted, required):
        return granted == "admin" or (granted.endswith(":*") and required.startswith(granted[:-1]))

    async with protected(covers=covers) as server:
        for scope in ("admin", "orders:*"):
            token = server.issuer.token(scope=scope)
            assert (await server.tool("order", token=token, arguments={"what": "tea"})).status == 200
        assert (await server.tool("orders", token=server.issuer.token(scope="stock:*"))).status == 403


@pytest.mark.parametrize(
    ("method", "name", "params", "required"),
    [
        ("resources/read", "shop://stock", {"uri": "shop://stock"}, "stock:read"),
        ("resources/read", "shop://stock/tea", {"uri": "shop://stock/tea"}, "stock:read"),
        ("prompts/get", "greet", {"name": "greet", "arguments": {"name": "Ann"}}, "prompts:use"),
        (
            "completion/complete",
            None,
            {"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "name", "value": "A"}},
            "prompts:use",
        ),
        ("subscriptions/listen", None, {"notifications": {"resourceSubscriptions": ["shop://stock"]}}, "stock:read"),
    ],
)
async def test_every_feature_has_its_scopes(method, name, params, required):
    """Resources, templates, prompts, their completion, and hearing of changes."""
    async with protected() as server:
        narrow = {"authorization": f"Bearer {server.issuer.token(scope='other')}"}
        answer = await server.modern(method, name, params, **narrow)
        assert (answer.status, answer.challenge[1]["scope"]) == (403, required)
        if method != "subscriptions/listen":
            wide = {"authorization": f"Bearer {server.issuer.token(scope=required)}"}
            assert (await server.modern(method, name, params, **wide)).status == 200


@pytest.mark.parametrize("serve", [protected, protected_replicas])
async def test_a_session_of_a_legacy_client_is_told_likewise(serve):
    """And each of its requests goes by its own token: a wider one opens what the first one did not."""
    async with serve() as server:
        narrow, wide = server.issuer.token(), server.issuer.token(scope=READ)
        session = await server.session(narrow)
        answer = await server.legacy(session, narrow, "orders")
        assert (answer.status, answer.challenge[1]["scope"]) == (403, READ)
        assert (await server.legacy(session, wide, "orders")).text == "two"
        assert (await server.legacy(session, narrow, "orders")).status == 403


async def test_a_batch_goes_by_its_token_as_well():
    """Each message of it."""
    async with protected() as server:
        bearer = {"authorization": f"Bearer {server.issuer.token()}"}
        opened = {
            "jsonrpc": "2.0",
            "id": 0,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-03-26",
                "capabilities": {},
                "clientInfo": {"name": "t", "version": "1"},
            },
        }
        answer = await server.send("POST", server.url, {**HEADERS, **bearer}, opened)
        named = {"mcp-session-id": answer.headers["mcp-session-id"]}
        batch = [
            {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": name}}
            for number, name in enumerate(["orders", "whoami"], 1)
        ]
        answer = await server.send("POST", server.url, {**HEADERS, **bearer, **named}, batch)
    replies = {reply["id"]: reply for reply in answer.json}
    assert replies[1]["error"]["data"] == {"requiredScopes": [READ]}
    assert "result" in replies[2]


async def test_a_handler_may_find_out_that_more_is_needed():
    """Before it has sent anything; what its tool requires is named with it."""
    server = Server("t")

    @server.tool(scopes=["a"])
    async def deep(much: bool) -> str:
        """Want more."""
        if much:
            raise InsufficientScope(scopes=["b"])
        return "done"

    async with protected(server=server) as running_server:
        token = running_server.issuer.token(scope="a")
        assert (await running_server.tool("deep", token=token, arguments={"much": False})).status == 200
        answer = await running_server.tool("deep", token=token, arguments={"much": True})
    assert (answer.status, answer.challenge[1]["scope"]) == (403, "a b")


async def test_lists_show_all_unless_asked():
    """Whoever cannot use a thing may want to ask for the right."""
    async with protected() as server:
        bearer = {"authorization": f"Bearer {server.issuer.token()}"}
        answer = await server.modern("tools/list", **bearer)
        assert [tool["name"] for tool in answer.json["result"]["tools"]] == ["whoami", "orders", "order"]


@pytest.mark.parametrize(
    ("scope", "shown"),
    [("", ["whoami"]), (READ, ["whoami", "orders"]), (f"{READ} {WRITE}", ["whoami", "orders", "order"])],
)
async def test_lists_show_what_a_caller_may_use_where_asked(scope, shown):
    """Each caller its own, whoever asked before; nobody else may keep it."""
    async with protected(hides=True) as server:
        for other in ("", f"{READ} {WRITE}"):
            await server.modern("tools/list", authorization=f"Bearer {server.issuer.token(scope=other)}")
        bearer = {"authorization": f"Bearer {server.issuer.token(scope=scope)}"}
        answer = await server.modern("tools/list", **bearer)
        assert [tool["name"] for tool in answer.json["result"]["tools"]] == shown
        assert answer.json["result"]["cacheScope"] == "private"
        for method, member in (("resources/list", "resources"), ("prompts/list", "prompts")):
            assert (await server.modern(method, **bearer)).json["result"][member] == []


async def test_scopes_without_anybody_who_checks_them_close_a_network():
    """A tool that wants them is not open because ``auth=`` was forgotten; a local client may all."""
    async with running(shop().asgi()) as place, protected() as other:
        answer = await other.tool("orders", url=f"http://{place}/mcp")
        assert answer.status == 403
    async with Client(shop()) as client:
        assert (await client.call_tool("orders")).text == "two"


async def test_check_token_knows_no_scopes():
    """What wants some is closed to all of its principals."""
    async with running(shop().asgi(check_token={"t": "ann"}.get)) as place, protected() as other:
        answer = await other.tool("orders", token="t", url=f"http://{place}/mcp")
    assert (answer.status, answer.challenge[1]["scope"]) == (403, READ)


# --- whose things are whose -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("serve", [protected, protected_replicas])
async def test_another_principal_s_session_is_not_found(serve):
    """Nor with a good token of the same issuer; by its own it goes on, also with a newer token."""
    async with serve() as server:
        session = await server.session(server.issuer.token(sub="ann"))
        assert (await server.legacy(session, server.issuer.token(sub="bob"))).status == 404
        assert (await server.legacy(session, server.issuer.token(sub="ann"))).status == 200
        gone = {**HEADERS, **session, "authorization": f"Bearer {server.issuer.token(sub='bob')}"}
        assert (await server.send("DELETE", server.url, gone)).status == 404
        assert (await server.send("GET", server.url, gone)).status == 404


async def test_another_principal_s_state_is_not_opened():
    """A call that waits for answers goes on for whoever began it."""
    from antiphon import Context

    server = Server("t")

    @server.tool
    async def ask(ctx: Context) -> str:
        """Ask the model."""
        return (await ctx.sample("Hello", max_tokens=5)).text + f" {ctx.request.principal.rpartition(':')[2]}"

    answers = {"role": "assistant", "content": {"type": "text", "text": "Hi"}, "model": "m"}
    async with protected(server=server) as target:
        ann, bob = (f"Bearer {target.issuer.token(sub=name)}" for name in ("ann", "bob"))
        first = (await target.modern("tools/call", "ask", {"name": "ask"}, authorization=ann)).json["result"]
        key = next(iter(first["inputRequests"]))
        retry = {"name": "ask", "requestState": first["requestState"], "inputResponses": {key: answers}}
        stolen = await target.modern("tools/call", "ask", retry, authorization=bob)
        assert stolen.json["error"]["code"] == -32602
        mine = await target.modern("tools/call", "ask", retry, authorization=ann)
        assert mine.text == "Hi ann"


async def test_a_retry_goes_by_its_own_token():
    """What was allowed when a call began is not allowed for ever."""
    from antiphon import Context

    server = Server("t")

    @server.tool(scopes=["a"])
    async def ask(ctx: Context) -> str:
        """Ask the model."""
        return (await ctx.sample("Hello", max_tokens=5)).text

    async with protected(server=server) as target:
        wide, none = (f"Bearer {target.issuer.token(scope=scope)}" for scope in ("a", ""))
        first = (await target.modern("tools/call", "ask", {"name": "ask"}, authorization=wide)).json["result"]
        retry = {"name": "ask", "requestState": first["requestState"]}
        assert (await target.modern("tools/call", "ask", retry, authorization=none)).status == 403


async def test_our_client_with_a_token():
    """As a user would have it."""
    async with protected() as server:
        headers = {"Authorization": f"Bearer {server.issuer.token()}"}
        async with Client(server.url, headers=headers) as client:
            assert json.loads((await client.call_tool("whoami")).text)[0].endswith("sub:ann")
            with pytest.raises(PeerError):
                await client.call_tool("orders")


async def test_our_client_is_told_which_scopes_are_needed():
    """The error that a caller catches names them, as the body of the 403 does."""
    async with protected() as server:
        headers = {"Authorization": f"Bearer {server.issuer.token(scope=READ)}"}
        async with Client(server.url, headers=headers) as client:
            with pytest.raises(InsufficientScope) as refused:
                await client.call_tool("order", {"what": "tea"})
    assert refused.value.data["requiredScopes"] == [READ, WRITE]
    assert refused.value.data["httpStatus"] == 403


# --- streams and sockets ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("transport", ["websocket", "sse"])
async def test_a_channel_of_many_messages_goes_by_its_token(transport):
    """Whoever it is, what it allows, and until when."""
    scheme = "ws" if transport == "websocket" else "http"
    async with protected(transport=transport) as server:
        url = server.url.replace("http", scheme, 1)
        token = server.issuer.token(scope=READ)
        options = {"headers": {"Authorization": f"Bearer {token}"}, "revision": "2024-11-05"}
        async with Client(url, **options) as client:
            assert (await client.call_tool("orders")).text == "two"
            with pytest.raises(PeerError) as refused:
                await client.call_tool("order", {"what": "tea"})
            assert refused.value.data == {"requiredScopes": [READ, WRITE]}
        with pytest.raises(Unauthorized, match="401"):
            await Client(url, revision="2024-11-05").connect()


# --- set up wrongly ---------------------------------------------------------------------------------------------------


def nothing() -> None:
    """Do nothing."""


@pytest.mark.parametrize(
    ("made", "match"),
    [
        (lambda: ResourceServer([], AUDIENCE), "at least one"),
        (lambda: ResourceServer("http://auth.example.com", AUDIENCE), "https"),
        (lambda: ResourceServer("https://auth.example.com", ""), "audience"),
        (lambda: ResourceServer("https://auth.example.com", "api://x"), r"url="),
        (lambda: ResourceServer("https://auth.example.com", "http://mcp.example.com"), "https"),
        (lambda: ResourceServer("https://auth.example.com", AUDIENCE + "?a=b"), "query"),
        (lambda: ResourceServer("https://auth.example.com", AUDIENCE, scopes="a b"), "list"),
        (lambda: ResourceServer("https://auth.example.com", AUDIENCE, scopes=["offline_access"]), "offline_access"),
        (lambda: ResourceServer("https://auth.example.com", AUDIENCE, leeway=3600), "leeway"),
        (lambda: Server("t").asgi(auth=lambda token: token), "check="),
        (
            lambda: Server("t").asgi(
                auth=ResourceServer("https://auth.example.com", AUDIENCE), check_token={"t": "a"}.get
            ),
            "choose one",
        ),
        (lambda: Server("t").add_tool(print, scopes="a"), "list"),
        (lambda: Server("t").add_tool(nothing, scopes=["a b"]), "cannot be a scope"),
        (lambda: DPoP(max_age=0), "max_age"),
        (lambda: DPoP(nonce_keys=[b"short"]), "32 bytes"),
        (lambda: DPoP(algorithms=["HS256"]), "algorithms"),
    ],
)
def test_what_is_set_up_wrongly_says_so(made, match):
    """Before anybody is served."""
    with pytest.raises(ConfigError, match=match):
        made()


async def test_the_address_says_which_errors_are_whose():
    """A modern request to an unknown tool is not a matter of tokens."""
    async with protected() as server:
        answer = await server.tool("nothing", token=server.issuer.token())
        assert (answer.status, answer.json["error"]["code"]) == (200, -32602)
        assert META
