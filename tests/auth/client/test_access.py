"""Which login a client keeps to, where a server leaves it a choice."""

from __future__ import annotations

from antiphon import Client
from antiphon.auth.client.oauth import OAuth
from antiphon.auth.client.store import MemoryLogins
from tests.support.authority import Authority, Person, listening, protected


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
