"""URIs and templates of several servers: none that may overlap is served before its owner is named."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon import Client, Server
from antiphon.errors import ConfigError, InvalidParams, ResourceNotFound
from antiphon.gateway import Gateway, uri_owners
from antiphon.gateway.uri_owners import Claim, Owners, refused_claims
from antiphon.server.features.uri_template import UriTemplate
from tests.support.behind_gateway import ERAS, host
from tests.support.raw_server import RawServer


def claim(text: str, server: str = "one") -> Claim:
    """Make a claim; a text with a brace is a template."""
    return Claim(server, text, "{" in text)


def is_refused(one: str, other: str) -> bool:
    """Return whether two servers' claims exclude each other; both are refused, or neither."""
    claims = [claim(one), claim(other, "two")]
    refused = refused_claims(claims, Owners())
    assert set(refused) in (set(), set(claims))
    assert set(refused_claims(claims[::-1], Owners())) == set(refused)
    return bool(refused)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x://1", "x://1"),
        ("x://1", "x://{n}"),
        ("db://{t}", "{+all}"),
        ("db://{t}", "db://{+all}"),
        ("db://{t}", "{scheme}://{t}"),
        ("x://{a}/b", "x://c/{d}"),
        ("x://a{/rest*}", "x://a"),
        ("x://a{?q}", "x://a?q=1"),
        ("x://a{?q,r}", "x://a{?r}"),
        ("x://{a}{.ext}", "x://file.txt"),
        ("x://a{#part}", "x://a#b"),
        ("x://{broken", "x://y"),
        ("x://{a}{b}", "x://y"),
        ("x://{bad name!}", "x://y"),
    ],
)
def test_claims_that_may_overlap_are_refused(one: str, other: str):
    """In either order, fixed URIs and templates that cannot be read included."""
    assert is_refused(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x://1", "x://2"),
        ("a://{n}", "b://{n}"),
        ("x://{id}", "x://{id}/profile"),
        ("x://{o}/{r}/issues/{n}", "x://{o}/{r}/contents{/path*}"),
        ("x://{n}.txt", "x://{n}.pdf"),
        ("x://a", "x://ab"),
    ],
)
def test_claims_that_cannot_overlap_are_served(one: str, other: str):
    """A simple variable ends before the next slash."""
    assert not is_refused(one, other)


PIECES = st.sampled_from(["a", "b", "/", "?", "x://", "{v}", "{+v}", "{/v}", "{.v}", "{?v}", "{#v}", "{v*}", "{;v}"])


@given(st.lists(PIECES, max_size=4), st.lists(PIECES, max_size=4), st.text("ab/?.x", max_size=3))
def test_no_uri_of_one_template_is_matched_by_another_that_is_not_refused(one: list[str], other: list[str], value: str):
    """Of all templates that can be read."""
    texts = ["".join(piece.replace("v", f"v{at}") for at, piece in enumerate(pieces)) for pieces in (one, other)]
    try:
        first, second = map(UriTemplate, texts)
    except ConfigError:
        return
    for content in (None, value, [value, "b"]):
        uri = first.expand({} if content is None else dict.fromkeys(first.variables, content))
        if second.match(uri) is not None or uri == texts[1]:
            assert is_refused(*texts)


def test_a_named_owner_is_served():
    """Only if the other server is not named as well."""
    claims = [claim("db://{t}"), claim("{+all}", "two"), claim("z://{n}", "two")]
    assert set(refused_claims(claims, Owners({"one": ["db://*"]}))) == set()
    assert set(refused_claims(claims, Owners({"one": ["*"], "two": ["{*"]}))) == set(claims[:2])


def test_claims_beyond_what_can_be_compared_are_refused(monkeypatch: pytest.MonkeyPatch):
    """In bounded time: but for those whose owner is named."""
    monkeypatch.setattr(uri_owners, "MAX_STEPS", 0)
    monkeypatch.setattr(uri_owners, "_LEAST_STEPS", 100)
    claims = [claim(f"x://{{a}}/{n}", server) for n in range(300) for server in ("one", "two")]
    claims.append(claim("x://mine"))
    assert set(refused_claims(claims, Owners({"one": ["x://mine"]}))) == set(claims[:-1])
    assert is_refused("x://" + "{a}-" * 2_000, "x://" + "{a}." * 2_000)


def reading(name: str, uri: str) -> Server | RawServer:
    """Make a server with one resource or template, which completes its variable, and says its name."""
    if uri == "{+t}":
        # A server of this library is not allowed a template without a scheme.
        return RawServer(resources_templates_list=lambda _: {"resourceTemplates": [{"uriTemplate": uri, "name": "t"}]})
    server = Server(name)
    if "{" in uri:
        server.resource(uri)(_values(name))
        server.complete(uri, "t")(lambda value: [name])
    else:
        server.add_resource(uri, name)
    return server


def _values(name: str) -> Any:
    def read(t: str) -> str:
        return name

    return read


@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize("evil", ["{+t}", "db://{+t}", "db://users"])
async def test_a_server_takes_over_no_read_of_another(
    revision: str, evil: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Nor its completion or subscriptions; both are named, until the owner is."""
    servers = {"evil": reading("evil", evil), "good": reading("good", "db://{t}")}
    gateway = Gateway(servers, host())
    async with Client(gateway.server, revision=revision) as client:
        assert [one async for one in client.resource_templates()] == [one async for one in client.resources()] == []
        for reached in (client.read_resource("db://users"), _subscribed(client)):
            with pytest.raises(ResourceNotFound, match=r"db://\{t\} of good.*owns = \["):
                await reached
        with pytest.raises(InvalidParams, match="is not served"):
            await client.complete("db://{t}", "t", "x")
        assert f"{evil} of evil is not served, since it may overlap with db://{{t}} of good" in caplog.text
        assert all("may overlap" in one.conflicts[0] for one in gateway.upstreams)
        gateway.expose(owns={"good": ["db://*"]})
        assert (await client.read_resource("db://users")).contents[0].text == "good"
        assert (await client.complete("db://{t}", "t", "x")).completion.values == ["good"]
        await _subscribed(client)


async def _subscribed(client: Client) -> None:
    async with client.listen(uris=["db://users"]) as changes:
        if not changes.honoured.resource_subscriptions:
            # At 2026-07-28 what is refused is not acknowledged: reading says why.
            await client.read_resource("db://users")
