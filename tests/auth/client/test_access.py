"""Which login a client keeps to, where a server leaves it a choice."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from aiohttp import web
from yarl import URL

from antiphon import Client
from antiphon.auth.client.access import SignedIn, access_to
from antiphon.auth.client.authorization_code import Device
from antiphon.auth.client.oauth import OAuth
from antiphon.auth.client.sign_in import find_preregistered_client
from antiphon.auth.client.store import MemoryLogins
from antiphon.auth.metadata import ServerMetadata
from antiphon.errors import ConfigError, PeerError, Unauthorized
from tests.support.authority import Authority, Person, listening, protected
from tests.support.ports import free_port


async def test_a_login_stays_at_the_authorization_server_that_was_chosen():
    """Where the server names several: also when it is renewed, and when it is signed in to again without a choice."""
    other = Authority()
    person = Person()
    store = MemoryLogins()

    async def call(resource, **options):
        async with Client(resource.url, auth=OAuth(open_page=person, store=store, **options)) as client:
            await client.call_tool("echo", {})

    async with listening(other.handle) as url, protected() as resource:
        other.url = url
        resource.changes["authorization_servers"] = [url, resource.authority.url]
        await call(resource, issuer=resource.authority.url)
        resource.authority.tokens.clear()
        await call(resource)
        assert len(person.pages) == 1
        resource.authority.tokens.clear()
        resource.authority.refresh.clear()
        await call(resource)
    assert len(person.pages) == 2
    assert other.requests == []


async def test_a_server_that_answered_from_a_public_address_leads_nowhere_local():
    """Its own connection counts, whatever its name resolves to when the sign-in begins."""
    async with listening(Authority().handle) as url, protected() as resource:
        access = access_to(resource.url, OAuth())
        access.connects("93.184.215.14")
        entry = access.begin()
        challenge = f'Bearer resource_metadata="{url}/x"'
        with pytest.raises(Unauthorized, match="local network"):
            await entry.refused(401, {}, [challenge], ask=True)
    assert resource.authority.requests == []


async def test_a_channel_tells_the_address_of_its_connection(monkeypatch):
    """As the sign-in needs it."""
    met = []
    monkeypatch.setattr(SignedIn, "connects", lambda self, address: met.append(address))
    async with protected() as resource, Client(resource.url, auth=OAuth(open_page=Person())) as client:
        await client.call_tool("echo", {})
    assert set(met) == {"127.0.0.1"}


async def test_a_secret_without_the_server_that_it_is_for_is_refused():
    """The authorization server that the MCP server names would be sent it; before that, nothing is sent."""
    with pytest.raises(ConfigError, match="give its issuer"):
        async with Client("https://shop.example/mcp", auth=OAuth(client_id="me", client_secret="s3cret")):
            pass


def test_a_server_of_this_machine_gets_a_secret_sent_to_this_machine_only():
    """An issuer elsewhere has to be named."""
    settings = OAuth(client_id="me", client_secret="s3cret")
    near, far = (ServerMetadata(issuer=issuer) for issuer in ("http://127.0.0.1:9", "https://elsewhere.example"))
    assert find_preregistered_client(settings, near, None).secret == "s3cret"
    with pytest.raises(Unauthorized, match="give its issuer"):
        find_preregistered_client(settings, far, None)


async def test_a_403_that_does_not_name_the_scope_says_what_to_do():
    """Nobody is asked for nothing in particular, and no sign-in is claimed that never was."""
    person = Person()
    async with protected() as resource:
        resource._refusal = lambda *_: resource.refuse(403, error="insufficient_scope")
        with pytest.raises(PeerError, match=r"does not say which.*scopes="):
            await Client(resource.url, auth=OAuth(open_page=person)).connect()
    assert person.pages == []


async def test_an_authorization_server_that_refuses_the_resource_is_not_told_it():
    """Neither on its page, nor for the token, nor when that is renewed; by default each request names it."""
    person = Person()
    async with protected() as resource:
        resource.authority.lasts = 1
        async with Client(resource.url, auth=OAuth(open_page=person, names_resource=False)) as client:
            await client.call_tool("echo", {})
        requests = [*person.asked, *resource.authority.seen("/token")]
    assert {each.get("grant_type") for each in requests} == {None, "authorization_code", "refresh_token"}
    assert [each for each in requests if "resource" in each] == []


async def test_an_issuer_that_is_known_to_have_pkce_need_not_announce_it():
    """Microsoft Entra and Amazon Cognito do not; the challenge is sent all the same, and no other issuer is meant."""
    person = Person()
    async with protected() as resource:
        resource.authority.changes["code_challenge_methods_supported"] = None
        issuer = resource.authority.url
        with pytest.raises(Unauthorized, match=r"does not announce PKCE.*pkce_announced=False"):
            await Client(resource.url, auth=OAuth(open_page=person)).connect()
        auth = OAuth(open_page=person, issuer=issuer, pkce_announced=False)
        async with Client(resource.url, auth=auth) as client:
            assert (await client.call_tool("echo", {})).text == "done"
    assert [each["code_challenge_method"] for each in person.asked] == ["S256"]
    with pytest.raises(ConfigError, match="give its issuer"):
        OAuth(pkce_announced=False)


async def test_a_registration_may_have_members_that_are_empty():
    """Servers in Go write so what nobody has set; it says no more than a member that is left out."""
    empty = {"client_id": "me", "client_secret": "", "token_endpoint_auth_method": "", "grant_types": None}
    async with protected() as resource:
        resource.authority.answers["/register"] = lambda what, request: web.json_response(empty, status=201)
        async with Client(resource.url, auth=OAuth(open_page=Person())) as client:
            assert (await client.call_tool("echo", {})).text == "done"
    assert [what["client_id"] for what in resource.authority.seen("/token")] == ["me"]


async def test_a_registration_may_last_for_longer_than_a_number_can_say():
    """It is used until it is refused, like one that lasts for ever."""
    said = {"client_id": "me", "client_secret": "s", "client_secret_expires_at": 10**400}
    async with protected() as resource:
        resource.authority.answers["/register"] = lambda what, request: web.json_response(said, status=201)
        async with Client(resource.url, auth=OAuth(open_page=Person())) as client:
            assert (await client.call_tool("echo", {})).text == "done"


async def test_a_person_who_declines_leaves_the_registration():
    """The server has asked for this client, so it knows it; a second one would be left behind there."""
    oauth = OAuth(open_page=Person(pastes=False))
    async with protected() as resource:
        resource.authority.redirect = {"code": None, "error": "access_denied"}
        with pytest.raises(Unauthorized, match="it was declined"):
            async with Client(resource.url, auth=oauth) as client:
                await client.call_tool("echo", {})
        resource.authority.redirect = {}
        async with Client(resource.url, auth=oauth) as client:
            assert (await client.call_tool("echo", {})).text == "done"
        assert len(resource.authority.seen("/register")) == 1


def test_what_is_no_token_is_refused_at_once():
    """It would fail at the first request, without saying where."""
    wrong: Any = 5
    with pytest.raises(ConfigError, match="auth= is a token, an async function that returns one, or OAuth"):
        access_to("https://shop.example/mcp", wrong)


async def test_a_refresh_that_fails_is_not_tried_again_by_the_same_call():
    """The refresh token may have arrived, and an issuer that gets it twice ends the login."""
    async with protected() as resource:
        authority = resource.authority
        authority.lasts = 10
        async with Client(resource.url, auth=OAuth(open_page=Person())) as client:
            authority.tokens.clear()
            authority.answer = lambda *_: web.Response(status=503)
            before = len(authority.seen("/token"))
            with pytest.raises(Unauthorized, match="HTTP 503"):
                await client.call_tool("echo", {})
    assert len(authority.seen("/token")) == before + 1


@pytest.mark.parametrize("lasts", [10, 3600])
async def test_a_login_is_renewed_where_its_issuer_has_moved_its_token_endpoint(lasts):
    """The stored address leads nowhere; nobody has to sign in for that."""
    async with protected() as resource:
        authority, person = resource.authority, Person()
        authority.lasts = lasts
        async with Client(resource.url, auth=OAuth(open_page=person)) as client:
            authority.tokens.clear()
            authority.changes["token_endpoint"] = f"{authority.url}/moved"
            authority.answers["/moved"] = authority._token
            authority.answers["/token"] = lambda *_: web.Response(status=404)
            await client.call_tool("echo", {})
            authority.tokens.clear()
            await client.call_tool("echo", {})
    assert len(person.pages) == 1
    assert authority.seen("/moved")
    assert authority.ended == 0


@pytest.mark.parametrize("given", [None, "", "two words", "a\r\nX-Other: b"])
async def test_what_a_function_gives_as_a_token_is_checked_as_well(given):
    """``None`` was sent as the word, and its refusal said nothing of that."""

    async def give():
        return given

    async with protected() as resource:
        with pytest.raises(PeerError, match="auth= is no token"):
            await Client(resource.url, auth=give).connect()
    assert resource.seen() == []


async def test_a_redirect_address_whose_port_is_taken_is_said_to_be():
    """It failed as "OSError", with a traceback in the log."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"http://127.0.0.1:{taken.getsockname()[1]}/callback"
        async with protected() as resource:
            with pytest.raises(PeerError, match=f"browser at {address}: Address already in use"):
                await Client(resource.url, auth=OAuth(redirect_uri=address)).connect()
            with pytest.raises(PeerError, match="no such port"):
                await Client(resource.url, auth=OAuth(redirect_uri="http://127.0.0.1:70000/")).connect()
            person = Person()
            async with Client(resource.url, auth=OAuth(redirect_uri=address, open_page=person)) as client:
                assert (await client.call_tool("echo", {})).text == "done"


async def test_signing_in_on_this_machine_needs_no_proxy_of_the_environment(monkeypatch):
    """As the requests of the client itself."""
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_port()}")
    async with protected() as resource, Client(resource.url, auth=OAuth(open_page=Person())) as client:
        assert (await client.call_tool("echo", {})).text == "done"


@pytest.mark.parametrize("first", ["browser", "device"])
async def test_a_client_that_was_registered_for_another_grant_is_registered_anew(first):
    """A client without a redirect URI cannot be redirected, and one for browsers gets no code for a device."""

    async def tell(_page):
        """Say nothing: the person knows."""

    store = MemoryLogins()
    ways = {"browser": OAuth(open_page=Person(), store=store), "device": OAuth(grant=Device(tell), store=store)}
    async with protected() as resource:
        authority = resource.authority
        authority.changes["device_authorization_endpoint"] = f"{authority.url}/device"
        code = {"device_code": "d", "user_code": "u", "verification_uri": authority.url, "interval": 1}
        authority.answers["/device"] = lambda what, request: web.json_response(code)
        for way in (first, "device" if first == "browser" else "browser"):
            access = SignedIn(ways[way], URL(resource.url), ssl=True, proxy=None)
            login = await access.sign_in(None, None)
            assert ("redirect_uris" in authority.clients[login.identity.client_id]) == (way == "browser")
            await store.change(lambda kept: kept.logins.clear())


@pytest.mark.parametrize("status", [429, 502, 503, 504])
async def test_a_server_that_cannot_describe_itself_now_is_not_taken_for_an_old_one(status):
    """Nothing is registered at the default endpoints of 2025-03-26, and the login that there was is kept."""
    async with protected() as resource:
        asked = []

        async def handle(request):
            asked.append(request.path)
            described = request.path.startswith("/.well-known")
            return web.Response(status=status) if described else await resource.handle(request)

        async with listening(handle) as origin:
            resource.url = f"{origin}/mcp"
            with pytest.raises(Unauthorized, match=f"status {status}"):
                async with Client(resource.url, auth=OAuth(open_page=Person())) as client:
                    await client.call_tool("echo", {})
        assert "/register" not in asked


async def test_a_resource_that_wants_many_scopes_is_signed_in_to():
    """The address of the page has them all, and may be longer than any that a server names."""
    scopes = [f"https://scopes.example/auth/a-thing.number-{n}" for n in range(100)]
    async with protected() as resource:
        resource.changes["scopes_supported"] = scopes
        async with Client(resource.url, auth=OAuth(open_page=Person())) as client:
            assert (await client.call_tool("echo", {})).text == "done"
