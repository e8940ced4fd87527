"""A client that signs in: from a 401 to the result of a call, and what a token never does."""

from __future__ import annotations

import asyncio
import logging
import socket

import pytest
from aiohttp import web

from antiphon import Client
from antiphon.auth.client.grants import ClientCredentials
from antiphon.auth.client.oauth import OAuth
from antiphon.errors import ConfigError, PeerError, Unauthorized
from tests.support.authority import Authority, Person, listening, protected, reply


async def call(url, auth, tool="echo", **options):
    """Connect, call a tool, and return its text."""
    async with Client(url, auth=auth, **options) as client:
        result = await client.call_tool(tool, {})
        return result.content[0].text


async def failure(url, auth, tool="echo"):
    """Return what comes of it instead."""
    with pytest.raises(PeerError) as caught:
        await call(url, auth, tool)
    return str(caught.value)


# --- a token of one's own --------------------------------------------------------------------------------------------


async def test_a_token_is_sent_with_every_request():
    """The simplest way in: the token one has."""
    async with protected() as resource:
        resource.authority.tokens["mine"] = set()
        assert await call(resource.url, "mine") == "done"
    assert set(resource.seen()) == {"Bearer mine"}


async def test_a_function_gives_the_token_and_is_asked_again_when_it_was_refused():
    """Who keeps tokens elsewhere can say each time which is good now."""
    given = iter(["stale", "mine", "mine", "mine", "mine"])

    async def give():
        return next(given)

    async with protected() as resource:
        resource.authority.tokens["mine"] = set()
        assert await call(resource.url, give) == "done"
    assert resource.seen()[:2] == ["Bearer stale", "Bearer mine"]


async def test_a_token_that_is_refused_is_said_to_be():
    """It is not sent again and again, and not shown."""
    async with protected() as resource:
        said = await failure(resource.url, "s3cret")
    assert "the token given in auth= was refused" in said
    assert "s3cret" not in said
    assert len(resource.seen()) == 1


async def test_without_auth_the_error_says_what_to_do():
    """A new user learns from it how to sign in."""
    async with protected() as resource:
        said = await failure(resource.url, None)
    assert "antiphon login" in said
    assert "auth=" in said


@pytest.mark.parametrize("auth", ["mine", OAuth()])
def test_no_token_travels_in_plain_text(auth):
    """Http is for this machine only."""
    with pytest.raises(ConfigError, match="plain text"):
        Client("http://example.com/mcp", auth=auth)


@pytest.mark.parametrize("token", ["", "two words", "line\nbreak", "naïve"])
def test_what_cannot_be_a_token_is_refused_at_once(token):
    """It could not travel in a header."""
    with pytest.raises(ConfigError, match="no token"):
        Client("https://example.com/mcp", auth=token)


def test_a_token_and_a_header_exclude_each_other():
    """Which of them counts would be a guess."""
    with pytest.raises(ConfigError, match="exclude"):
        Client("https://example.com/mcp", auth="a", headers={"authorization": "Bearer b"})


def test_only_an_address_has_a_use_for_it():
    """A command line gets its secrets by its environment."""
    with pytest.raises(ConfigError, match="auth"):
        Client("server.py --x", auth="a")


# --- signing in ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pastes", [True, False])
async def test_a_person_signs_in_and_the_call_goes_on(pastes):
    """By the port of this machine, or by pasting the address: the whole way, from 401 to the result."""
    person = Person(pastes=pastes)
    async with protected() as resource:
        assert await call(resource.url, OAuth(open_page=person)) == "done"
        authority = resource.authority
    (asked,) = person.asked
    (registered,) = authority.seen("/register")
    (token,) = authority.seen("/token")
    assert asked["resource"] == token["resource"] == resource.url
    assert asked["code_challenge_method"] == "S256"
    assert asked["redirect_uri"] == token["redirect_uri"] == registered["redirect_uris"][0]
    assert registered["application_type"] == "native"
    assert set(registered["grant_types"]) == {"authorization_code", "refresh_token"}


async def test_one_sign_in_serves_all_calls_and_clients():
    """Twenty calls at once, and another client with the same settings: one page."""
    person = Person()
    oauth = OAuth(open_page=person)
    async with protected() as resource:
        async with Client(resource.url, auth=oauth) as client:
            resource.authority.tokens.clear()
            resource.authority.refresh.clear()
            await asyncio.gather(*(client.call_tool("echo", {}) for _ in range(20)))
        assert await call(resource.url, oauth) == "done"
    assert len(person.pages) == 2  # the first, and one for all twenty


async def test_the_time_a_person_takes_does_not_count():
    """The deadlines of the connection and of the call stand still meanwhile."""
    running = []

    class Watching(Person):
        async def __call__(self, address):
            link = client._link
            opening = None if link._opening is None else link._opening.when()
            waiting = link._reached.peer.waiting._waiters.values()
            running.append([opening, *(waiter.deadline for waiter in waiting)])
            return await super().__call__(address)

    async with protected() as resource:
        client = Client(resource.url, auth=OAuth(open_page=Watching()), timeout=60)
        async with client:
            await client.call_tool("write", {}, timeout=60)
    # Of the opening and its request; of the call.
    assert running == [[None, None], [None, None]]


async def test_a_call_that_is_cancelled_leaves_the_sign_in_to_others():
    """The person at the page does not notice."""
    shown, go_on = asyncio.Event(), asyncio.Event()

    class Waiting(Person):
        async def __call__(self, address):
            shown.set()
            await go_on.wait()
            return await super().__call__(address)

    person = Waiting()
    async with protected() as resource:
        oauth = OAuth(open_page=person)
        first = asyncio.create_task(call(resource.url, oauth))
        await shown.wait()
        second = asyncio.create_task(call(resource.url, oauth))
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        go_on.set()
        assert await second == "done"
    assert len(person.pages) == 1


async def test_program_credentials_need_nobody():
    """Client id and secret, by HTTP Basic."""
    async with protected() as resource:
        issuer = resource.authority.url
        oauth = OAuth(client_id="me", client_secret="s", issuer=issuer, grant=ClientCredentials())
        assert await call(resource.url, oauth) == "done"
        authority = resource.authority
    assert authority.seen("/register") == []
    headers = next(headers for path, _, headers in authority.requests if path == "/token")
    assert headers["Authorization"] == "Basic bWU6cw=="


# --- more scopes -----------------------------------------------------------------------------------------------------


async def test_a_scope_that_is_missing_is_asked_for_with_those_there_were():
    """Step-up: the union, once, and the call goes on."""
    person = Person()
    async with protected() as resource:
        resource.scopes["tools/list"] = resource.scopes["echo"] = {"read"}
        resource.changes["scopes_supported"] = ["read"]
        async with Client(resource.url, auth=OAuth(open_page=person)) as client:
            await client.call_tool("echo", {})
            await client.call_tool("write", {})
            await client.call_tool("write", {})
    assert [set(asked["scope"].split()) for asked in person.asked] == [{"read"}, {"read", "write"}]


async def test_a_scope_that_is_not_granted_is_asked_for_once():
    """A server that is never content does not keep the person busy; the error names what is missing."""
    person = Person()
    async with protected() as resource:
        resource.authority.grants = "read"
        said = await failure(resource.url, OAuth(open_page=person), "write")
    assert "HTTP 403" in said
    assert "scope write" in said
    assert len(person.pages) == 2


async def test_a_server_that_always_wants_more_is_left_after_three_sign_ins():
    """Each refusal names another scope; the call ends all the same."""
    person = Person()
    wanted = iter(range(100))
    async with protected() as resource, Client(resource.url, auth=OAuth(open_page=person)) as client:
        resource._refusal = lambda *_: resource.refuse(403, error="insufficient_scope", scope=f"more-{next(wanted)}")
        with pytest.raises(PeerError, match="3 sign-ins for one request"):
            await client.call_tool("echo", {})
    assert len(person.pages) == 1 + 3


async def test_a_403_that_wants_no_scope_asks_nobody():
    """The server does not allow it: no sign-in would."""
    person = Person()
    async with protected() as resource, Client(resource.url, auth=OAuth(open_page=person)) as client:
        resource._refusal = lambda *_: web.Response(status=403)
        with pytest.raises(PeerError, match="HTTP 403"):
            await client.call_tool("echo", {})
    assert len(person.pages) == 1


async def test_a_token_that_is_refused_right_after_it_was_obtained_ends_the_call():
    """Another sign-in would give another of the same."""
    person = Person()
    async with protected() as resource:
        resource._refusal = lambda *_: resource.refuse(401, error="invalid_token")
        said = await failure(resource.url, OAuth(open_page=person))
    assert "just obtained" in said
    assert len(person.pages) == 1


# --- another authorization server ------------------------------------------------------------------------------------


async def test_a_server_that_moves_to_another_authorization_server_is_signed_in_to_there():
    """Registered anew; nothing of the first is sent to the second."""
    person = Person()
    async with protected() as resource:
        first, second = resource.authority, Authority()
        async with listening(second.handle) as second.url:
            async with Client(resource.url, auth=OAuth(open_page=person)) as client:
                await client.call_tool("echo", {})
                resource.authority = second
                await client.call_tool("echo", {})
            assert [page.startswith(one.url) for page, one in zip(person.pages, (first, second), strict=True)]
            old = {"refresh_token", "client-0"} & {name for what in second.seen("/token") for name in what}
            assert len(second.seen("/register")) == 1
            assert old == set()
            assert all(what["grant_type"] == "authorization_code" for what in second.seen("/token"))


async def test_credentials_registered_beforehand_are_not_sent_to_another_authorization_server():
    """They are of one issuer; the person is told."""
    person = Person()
    async with protected() as resource:
        second = Authority()
        async with listening(second.handle) as second.url:
            oauth = OAuth(client_id="mine", open_page=person)
            async with Client(resource.url, auth=oauth) as client:
                resource.authority.tokens.clear()
                resource.authority = second
                with pytest.raises(Unauthorized, match="mine is registered at"):
                    await client.call_tool("echo", {})
            assert second.seen("/token") == []
            assert second.seen("/authorize") == []


async def test_an_issuer_that_was_set_is_the_only_one():
    """A server that names another is not followed."""
    person = Person()
    async with protected() as resource:
        said = await failure(resource.url, OAuth(issuer="https://login.example.com", open_page=person))
    assert "does not accept logins of https://login.example.com" in said
    assert person.pages == []


# --- renewal ---------------------------------------------------------------------------------------------------------


async def test_a_login_that_is_about_to_end_is_renewed_before_it_is_sent():
    """No request is refused for it."""
    async with protected() as resource:
        resource.authority.lasts = 1
        person = Person()
        async with Client(resource.url, auth=OAuth(open_page=person)) as client:
            seen = len(resource.seen())
            await client.call_tool("echo", {})
            assert None not in resource.seen()[seen:]
    assert len(person.pages) == 1
    assert {what["grant_type"] for what in resource.authority.seen("/token")[1:]} == {"refresh_token"}
    assert resource.authority.ended == 0


async def test_a_login_that_the_server_no_longer_takes_is_renewed():
    """The server decides; twenty calls at once renew it once."""
    async with protected() as resource:
        person = Person()
        async with Client(resource.url, auth=OAuth(open_page=person)) as client:
            resource.authority.tokens.clear()
            await asyncio.gather(*(client.call_tool("echo", {}) for _ in range(20)))
    assert len(person.pages) == 1
    assert len(resource.authority.seen("/token")) == 2
    assert resource.authority.ended == 0


async def test_a_login_is_kept_when_it_could_not_be_renewed():
    """A server that fails says nothing of the token: it is good once that is mended."""
    async with protected() as resource:
        authority = resource.authority
        person = Person()
        async with Client(resource.url, auth=OAuth(open_page=person)) as client:
            tokens = dict(authority.tokens)
            authority.tokens.clear()
            authority.answer = lambda *_: web.Response(status=503)
            with pytest.raises(Unauthorized, match="HTTP 503"):
                await client.call_tool("echo", {})
            authority.answer = None
            authority.tokens.update(tokens)
            await client.call_tool("echo", {})
    assert len(person.pages) == 1


async def test_a_login_is_forgotten_when_its_issuer_says_so():
    """``invalid_grant``: then a person signs in again."""
    async with protected() as resource:
        person = Person()
        async with Client(resource.url, auth=OAuth(open_page=person)) as client:
            resource.authority.tokens.clear()
            resource.authority.refresh.clear()
            await client.call_tool("echo", {})
    assert len(person.pages) == 2


# --- what a token never does -----------------------------------------------------------------------------------------


async def test_nothing_secret_is_logged_or_shown(caplog):
    """Not in a log, not in an exception, not in a repr."""
    caplog.set_level(logging.DEBUG)
    person = Person()
    async with protected() as resource:
        issuer = resource.authority.url
        oauth = OAuth(client_id="me", client_secret="s3cret", issuer=issuer, open_page=person)
        async with Client(resource.url, auth=oauth) as client:
            resource._refusal = lambda *_: resource.refuse(401, error="invalid_token")
            with pytest.raises(PeerError) as caught:
                await client.call_tool("echo", {})
            kept = await oauth.store.read()
        authority = resource.authority
        secrets = {*authority.tokens, *authority.refresh, *authority.used, "s3cret"}
        shown = f"{caught.value!r} {caught.value} {kept!r} {oauth!r} {kept.logins[0]!r}"
    records = " ".join(record.getMessage() for record in caplog.records if record.name.startswith("antiphon"))
    assert not [secret for secret in secrets if secret in shown or secret in records]


async def test_a_redirect_to_another_origin_gets_no_token():
    """It is refused before anything is sent there."""
    seen = []

    async def other(request):
        seen.append(request.headers)
        return web.json_response(reply(await request.json()))

    async with protected() as resource, listening(other) as elsewhere:
        resource.authority.tokens["mine"] = set()
        resource._refusal = lambda *_: web.Response(status=307, headers={"Location": f"{elsewhere}/mcp"})
        said = await failure(resource.url, "mine")
    assert "another origin" in said
    assert seen == []


# --- names that are kept ---------------------------------------------------------------------------------------------


async def test_a_registration_is_used_again_with_its_port():
    """The browser comes back to the very address that was registered."""
    person = Person(pastes=False)
    oauth = OAuth(open_page=person)
    async with protected() as resource:
        await call(resource.url, oauth)
        resource.authority.tokens.clear()
        resource.authority.refresh.clear()
        await call(resource.url, oauth)
        assert len(resource.authority.seen("/register")) == 1
    assert len({asked["redirect_uri"] for asked in person.asked}) == 1


async def test_a_client_whose_port_is_taken_is_registered_anew():
    """With another port."""
    person = Person(pastes=False)
    oauth = OAuth(open_page=person)
    async with protected() as resource:
        await call(resource.url, oauth)
        resource.authority.tokens.clear()
        resource.authority.refresh.clear()
        port = int(person.asked[0]["redirect_uri"].split(":")[2].split("/")[0])
        with socket.create_server(("127.0.0.1", port)):
            await call(resource.url, oauth)
        assert len(resource.authority.seen("/register")) == 2
    assert len({asked["redirect_uri"] for asked in person.asked}) == 2


async def test_a_client_that_its_issuer_has_lost_is_registered_anew_next_time():
    """A test system that was set up afresh, say."""
    oauth = OAuth(open_page=Person())
    async with protected() as resource:
        authority = resource.authority
        authority.answer = lambda *_: web.json_response({"error": "invalid_client"}, status=401)
        assert "invalid_client" in await failure(resource.url, oauth)
        authority.answer = None
        assert await call(resource.url, oauth) == "done"
        assert len(authority.seen("/register")) == 2


# --- hostile servers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("resource_says", "authority_says", "why"),
    [
        ({"resource": "https://bank.example/mcp"}, {}, "another server"),
        ({"authorization_servers": []}, {}, "names no authorization server"),
        ({"authorization_servers": ["http://login.example"]}, {}, "plain http"),
        ({"authorization_servers": ["file:///etc/passwd"]}, {}, "not an http"),
        ({"authorization_servers": 5}, {}, "not the OAuth metadata"),
        ({}, {"issuer": "https://bank.example"}, "is the metadata of https://bank.example"),
        ({}, {"code_challenge_methods_supported": None}, "PKCE"),
        ({}, {"authorization_endpoint": "javascript:alert(1)"}, "not an http"),
        ({}, {"authorization_endpoint": "vscode://x"}, "not an http"),
        ({}, {"authorization_endpoint": None}, "no page to sign in at"),
        ({}, {"token_endpoint": "http://evil.example/t"}, "plain http"),
        ({}, {"token_endpoint": None}, "no token_endpoint"),
        ({}, {"registration_endpoint": None}, "client_id"),
    ],
)
async def test_a_hostile_description_is_refused_before_any_page_is_shown(resource_says, authority_says, why):
    """And the error says why."""
    person = Person()
    async with protected() as resource:
        resource.changes.update(resource_says)
        resource.authority.changes.update(authority_says)
        said = await failure(resource.url, OAuth(open_page=person))
        assert why in said
        assert resource.authority.seen("/token") == []
    assert person.pages == []


@pytest.mark.parametrize(
    ("back", "why"),
    [
        ({"iss": "https://evil.example"}, "another issuer"),
        ({"iss": None}, "does not name the issuer"),
        ({"state": "other"}, "does not belong to this sign-in"),
        ({"state": None}, "does not belong to this sign-in"),
        ({"code": None}, "no code"),
        ({"code": None, "error": "server_error"}, "server_error"),
        ({"iss": "https://evil.example", "error": "access_denied"}, "another issuer"),
    ],
)
async def test_a_mixed_up_answer_is_never_redeemed(back, why):
    """A code goes to nobody but the issuer it is of (RFC 9207)."""
    async with protected() as resource:
        resource.authority.redirect = back
        assert why in await failure(resource.url, OAuth(open_page=Person()))
        assert resource.authority.seen("/token") == []


OVER = "invalid_client unauthorized_client bad_refresh_token invalid_grant invalid_request invalid_token"


@pytest.mark.parametrize("error", OVER.split())
@pytest.mark.parametrize("status", [200, 401])
async def test_a_login_that_can_no_longer_be_renewed_is_obtained_again(error, status):
    """Also where the server has deleted the client that was registered: a new one is."""
    person = Person()
    async with protected() as resource:
        authority = resource.authority
        granted = authority._token

        def answer(what, request):
            if what["grant_type"] == "refresh_token":
                return web.json_response({"error": error}, status=status)
            authority.answer = None
            try:
                return granted(what, request)
            finally:
                authority.answer = answer

        authority.answer = answer
        async with Client(resource.url, auth=OAuth(open_page=person)) as client:
            authority.tokens.clear()
            assert (await client.call_tool("echo", {})).content[0].text == "done"
    assert len(person.asked) == 2
    assert len(authority.clients) == 1 + ("client" in error)


async def test_a_sign_in_that_nobody_completes_is_not_begun_again_with_the_same_client():
    """A server that has deleted the client may show that on its page only, and a person then gives up."""

    async def away(address):
        return None

    oauth = OAuth(open_page=away, timeout=0.05)
    async with protected() as resource:
        await failure(resource.url, oauth)
        await failure(resource.url, oauth)
    assert len(resource.authority.clients) == 2


@pytest.mark.parametrize(
    "hint", ["http://evil.example/x", "file:///etc/passwd", "https://u:p@evil.example/", "x" * 5_000, "?"]
)
async def test_a_hint_that_leads_astray_is_refused(hint):
    """A server says where it describes itself; not everything may be fetched."""
    async with protected() as resource:
        resource._refusal = lambda *_: web.Response(
            status=401, headers={"WWW-Authenticate": f'Bearer resource_metadata="{hint}"'}
        )
        assert "signing in was stopped" in await failure(resource.url, OAuth(open_page=Person()))


async def test_a_person_who_does_not_come_back_is_not_waited_for_for_ever():
    """The call ends, and says how long it waited."""

    async def away(address):
        return None

    async with protected() as resource:
        said = await failure(resource.url, OAuth(open_page=away, timeout=0.05))
    assert "nobody completed it within 0.05 s" in said


async def test_a_server_of_2025_03_26_signs_in_by_itself():
    """No metadata of any kind: its own origin has the endpoints."""
    person = Person()
    authority = Authority()

    async def handle(request):
        if request.path == "/mcp":
            granted = request.headers.get("Authorization", "").removeprefix("Bearer ") in authority.tokens
            return web.json_response(reply(await request.json())) if granted else web.Response(status=401)
        known = ("/authorize", "/token", "/register")
        return await authority.handle(request) if request.path in known else web.Response(status=404)

    async with listening(handle) as authority.url:
        assert await call(f"{authority.url}/mcp", OAuth(open_page=person)) == "done"
    assert "resource" not in person.asked[0]
    assert person.asked[0]["code_challenge_method"] == "S256"


async def test_tokens_are_bound_to_a_key_where_the_resource_wants_that():
    """DPoP: a proof for each request, and the scheme says so."""
    person = Person()
    async with protected() as resource:
        resource.changes["dpop_bound_access_tokens_required"] = True
        resource.authority.answer = lambda what, _: resource.authority.grant("", token_type="DPoP")
        assert await call(resource.url, OAuth(open_page=person)) == "done"
        sent = [headers for path, headers in resource.requests if path == "/mcp" and "Authorization" in headers]
        token = next(headers for path, _, headers in resource.authority.requests if path == "/token")
    assert {headers["Authorization"].split()[0] for headers in sent} == {"DPoP"}
    assert len({headers["DPoP"] for headers in sent}) == len(sent) > 1
    assert "DPoP" in token
