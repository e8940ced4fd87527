"""Names behind a gateway: stable, short enough, and nobody's but the server's they begin with."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import given as having
from hypothesis import strategies as st

from antiphon import Client, Server
from antiphon.errors import ConfigError, InvalidParams, ResourceNotFound
from antiphon.gateway import Filters, Gateway, names
from antiphon.gateway.names import (
    MAX_NAME,
    NameSettings,
    UriClaim,
    UriOwners,
    expose_name,
    find_refused_claims,
    server_names,
)
from antiphon.server.features.uri_template import UriTemplate
from tests.support.behind_gateway import ERAS, host
from tests.support.raw_server import RawServer

ANY = st.text(min_size=1, max_size=80)
TOOL = st.text(alphabet="abc_-.", min_size=1, max_size=80)


def test_a_name_says_whose_it_is():
    """As people would write it."""
    assert server_names(["GitHub", "my files", "über"]) == {"GitHub": "GitHub", "my files": "my_files", "über": "ber"}
    assert expose_name("github", "create_issue") == "github__create_issue"


@having(st.lists(ANY, min_size=2, max_size=6, unique=True), TOOL, TOOL)
def test_no_server_can_take_the_name_of_anothers_tool(names: list[str], one: str, other: str):
    """Whatever it calls itself and its tools: separators in them included."""
    words = server_names(names)
    first, second = words[names[0]], words[names[1]]
    assert first != second
    assert expose_name(first, one) != expose_name(second, other)
    assert expose_name(first, one).startswith(f"{first}__")


@having(st.lists(ANY, min_size=1, max_size=6, unique=True), TOOL)
def test_a_name_is_short_and_stays_the_same(names: list[str], tool: str):
    """At most as long as a model's API takes together with the host's own prefix; the same in every run."""
    word = server_names(names)[names[0]]
    name = expose_name(word, tool)
    assert len(name) <= MAX_NAME
    assert name == expose_name(server_names(names)[names[0]], tool)
    assert name.isascii() or not tool.isascii()


def test_foreign_letters_are_replaced_and_told_apart():
    """So that no name can imitate another by letters that look alike."""
    assert len({expose_name("s", "del\u0435te"), expose_name("s", "del\u0430te"), expose_name("s", "delete")}) == 3
    assert expose_name("s", "del\u0435te").isascii()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (NameSettings(renamed={"a": {"x": "same"}, "b": {"y": "Same"}}), "x of a and y of b are both called 'Same'"),
        (NameSettings(renamed={"a": {"x": "no spaces"}}), "x of a: 'no spaces' cannot be used"),
        (NameSettings(prefixes={"a": "w", "b": "W"}), "a and b both have the prefix 'W'"),
        (NameSettings(prefixes={"a": "a__b"}), "the prefix 'a__b' of a cannot be used"),
    ],
)
def test_a_name_by_hand_that_cannot_be_used_is_an_error(given: NameSettings, message: str):
    """It names what was written, and both servers where two have it."""
    with pytest.raises(ConfigError, match=message):
        given.checked()


def test_what_was_cut_is_told_apart():
    """Two long names that begin alike."""
    assert expose_name("s", "x" * 100 + "1") != expose_name("s", "x" * 100 + "2")


def claim(text: str, server: str = "one") -> UriClaim:
    """Make a claim; a text with a brace is a template."""
    return UriClaim(server, text, "{" in text)


def is_refused(one: str, other: str) -> bool:
    """Return whether two servers' claims exclude each other; both are refused, or neither."""
    claims = [claim(one), claim(other, "two")]
    refused = find_refused_claims(claims, UriOwners())
    assert set(refused) in (set(), set(claims))
    assert set(find_refused_claims(claims[::-1], UriOwners())) == set(refused)
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
    assert set(find_refused_claims(claims, UriOwners({"one": ["db://*"]}))) == set()
    assert set(find_refused_claims(claims, UriOwners({"one": ["*"], "two": ["{*"]}))) == set(claims[:2])


def test_claims_beyond_what_can_be_compared_are_refused(monkeypatch: pytest.MonkeyPatch):
    """In bounded time: but for those whose owner is named."""
    monkeypatch.setattr(names, "MAX_STEPS", 0)
    monkeypatch.setattr(names, "_LEAST_STEPS", 100)
    claims = [claim(f"x://{{a}}/{n}", server) for n in range(300) for server in ("one", "two")]
    claims.append(claim("x://mine"))
    assert set(find_refused_claims(claims, UriOwners({"one": ["x://mine"]}))) == set(claims[:-1])
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


@pytest.mark.parametrize(
    ("globs", "passing"),
    [
        (["*"], {"list", "delete_all", "get"}),
        (["*", "!delete_*"], {"list", "get"}),
        (["!delete_*"], {"list", "get"}),
        (["!delete_*", "delete_all"], set()),
        (["delete_all", "!delete_*", "get"], {"get"}),
        (["g?t"], {"get"}),
        (["!*"], set()),
    ],
)
def test_a_deny_wins_wherever_it_stands(globs: list[str], passing: set[str]):
    """Where a list allows something, the rest is denied."""
    filters = Filters({"a": globs})
    assert {name for name in ("list", "delete_all", "get") if filters.passes("a", name)} == passing
    assert filters.passes("b", "delete_all")


def test_a_tool_must_pass_every_list():
    """Those for all servers, for its server, and for a profile: none takes back what another denies."""
    filters = Filters({"*": ["!delete_*"], "a": ["*"]}).with_more({"a": ["get", "delete_all"]})
    assert [name for name in ("list", "delete_all", "get") if filters.passes("a", name)] == ["get"]
    assert not filters.passes("b", "delete_all")


@pytest.mark.parametrize("globs", [[], ["!"], ["*"] * 1001])
def test_a_list_that_cannot_be_meant_is_an_error(globs: list[str]):
    """An empty one could mean everything or nothing."""
    with pytest.raises(ConfigError, match="the tools of a"):
        Filters({"a": globs})
