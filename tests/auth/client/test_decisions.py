"""Decisions of a sign-in that need no network, by tables: places, issuers, scopes, names, what comes back."""

from __future__ import annotations

import pytest
from yarl import URL

from antiphon.auth.boundary import check_address
from antiphon.auth.client.authorization_code import (
    MAX_ADDRESS,
    Expected,
    authorization_address,
    check_pkce,
    code_in,
    read_redirect,
)
from antiphon.auth.client.discovery import (
    FoundServer,
    check_server,
    covers_server,
    first_scopes,
    join_scopes,
    make_default_metadata,
    resource_places,
)
from antiphon.auth.client.oauth import OAuth
from antiphon.auth.client.sign_in import choose_registration, registration_request
from antiphon.auth.client.token_endpoint import choose_method, refusal_of
from antiphon.auth.metadata import Answer, ClientIdentity, ServerMetadata
from antiphon.errors import ConfigError, Unauthorized

ISSUER = "https://login.example"


def server(**changes):
    """The metadata of an authorization server."""
    said = {
        "issuer": ISSUER,
        "token_endpoint": f"{ISSUER}/t",
        "authorization_endpoint": f"{ISSUER}/a",
        "code_challenge_methods_supported": ["S256"],
    }
    return ServerMetadata(**{**said, **changes})


# --- places ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "hint", "places"),
    [
        ("https://a.example/mcp", "https://b.example/x", ["https://b.example/x", "/r/mcp", "/r"]),
        ("https://a.example/mcp", None, ["/r/mcp", "/r"]),
        ("https://a.example/x/mcp/", None, ["/r/x/mcp", "/r"]),
        ("https://a.example", None, ["/r"]),
        ("https://a.example/", "https://a.example/.well-known/oauth-protected-resource", ["/r"]),
    ],
)
def test_a_resource_is_looked_for_by_its_hint_then_its_path_then_at_the_root(url, hint, places):
    """2026-07-28, "Protected Resource Metadata Discovery Requirements"."""
    well_known = "https://a.example/.well-known/oauth-protected-resource"
    assert resource_places(URL(url), hint) == [place.replace("/r", well_known, 1) if place[0] == "/" else place
                                               for place in places]  # fmt: skip


@pytest.mark.parametrize(
    ("resource", "is_meant"),
    [
        ("https://a.example/x/mcp", True),
        ("https://a.example/x/mcp/", True),
        ("https://a.example/x", True),
        ("https://a.example", True),
        ("HTTPS://A.example/x", True),
        ("https://a.example:443/x", True),
        ("https://a.example/x/mc", False),
        ("https://a.example/y/../x/mcp", False),
        ("https://a.example/x/mcp/y", False),
        ("https://a.example:8443/x/mcp", False),
        ("http://a.example/x/mcp", False),
        ("https://b.example/x/mcp", False),
        ("https://a.example.evil/x", False),
        ("https://a.example/x?y", False),
        ("https://[", False),
        ("", False),
    ],
)
def test_a_token_is_only_wanted_for_the_server_itself(resource, is_meant):
    """A server cannot have us obtain a token for another."""
    assert covers_server(resource, URL("https://a.example/x/mcp")) is is_meant


@pytest.mark.parametrize("resource", ["https://[2001:DB8::1]/mcp", "https://[2001:db8:0:0:0:0:0:1]/mcp"])
def test_an_ipv6_address_is_one_host_however_it_is_written(resource):
    """RFC 4291, section 2.2, has several ways."""
    assert covers_server(resource, URL("https://[2001:db8::1]/mcp"))


def test_without_metadata_the_places_are_those_of_2025_03_26():
    """At the root of the server's own origin."""
    assumed = make_default_metadata(URL("https://a.example/v1/mcp"))
    assert assumed.authorization_endpoint == "https://a.example/authorize"
    assert assumed.token_endpoint == "https://a.example/token"
    assert assumed.registration_endpoint == "https://a.example/register"


OTHER_ISSUERS = (
    "https://LOGIN.example", f"{ISSUER}:443", "https://other.example", "https://other.example/", f"{ISSUER}//",
    f"{ISSUER}/x", f"{ISSUER}/?", "",
)  # fmt: skip


@pytest.mark.parametrize("issuer", OTHER_ISSUERS)
@pytest.mark.parametrize("named", [ISSUER, f"{ISSUER}/"])
def test_metadata_of_another_issuer_is_not_used(issuer, named):
    """Text against text, as RFC 8414 has it."""
    with pytest.raises(Unauthorized, match="is the metadata of"):
        check_server(server(issuer=issuer), named, "there")


def test_an_origin_is_one_issuer_with_and_without_a_slash_after_it():
    """Resources of Google's name https://accounts.google.com/, whose metadata has no slash; a path must be the same."""
    check_server(server(issuer=f"{ISSUER}/"), ISSUER, "there")
    check_server(server(), f"{ISSUER}/", "there")
    with pytest.raises(Unauthorized, match="is the metadata of"):
        check_server(server(issuer=f"{ISSUER}/x/"), f"{ISSUER}/x", "there")


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("authorization_endpoint", "javascript:alert(1)"),
        ("authorization_endpoint", "file:///etc/passwd"),
        ("authorization_endpoint", "ms-settings:x"),
        ("authorization_endpoint", "http://login.example/a"),
        ("authorization_endpoint", "https://127%2e0%2e0%2e1/a"),
        ("authorization_endpoint", "https://a b/a"),
        ("token_endpoint", "http://login.example/t"),
        ("token_endpoint", ""),
        ("token_endpoint", "https://u:p@login.example/t"),
        ("registration_endpoint", "ftp://login.example"),
    ],
)
def test_an_endpoint_that_is_no_web_page_or_plain_is_refused(name, address):
    """Whatever a server names is opened or sent to: it has to be https, or this machine."""
    with pytest.raises(Unauthorized):
        check_server(server(**{name: address}), ISSUER, "there")


# --- addresses -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["https://a.example/x", "http://localhost:1/x", "http://127.0.0.1", "http://[::1]:8"])
def test_https_and_this_machine_may_be_spoken_to(text):
    """Nothing is made of an address but what it says."""
    assert str(check_address(text, "it")) == text


@pytest.mark.parametrize(
    "text",
    ["", "a", "//a", "http://a.example", "http://localhost.evil/", "http://127.0.0.1.evil/", "https://", "https:///x",
     "https://a\nb", "https://a.example/" + "x" * 5000, "https://@a@b/"],
)  # fmt: skip
def test_all_else_may_not(text):
    """The message does not repeat what cannot be shown."""
    with pytest.raises(Unauthorized) as caught:
        check_address(text, "it")
    assert "\n" not in str(caught.value)


# --- scopes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "challenged", "listed", "chosen"),
    [
        (None, ["a"], ("b",), ("a",)),
        (None, [], ("b", "c"), ("b", "c")),
        (None, [], None, ()),
        (["x"], ["a"], ("b",), ("x", "a")),
        ([], [], ("b",), ()),
    ],
)
def test_scopes_are_those_of_the_challenge_else_those_the_resource_lists(wanted, challenged, listed, chosen):
    """2026-07-28, "Scope Selection Strategy"; what a user sets counts, too."""
    found = FoundServer(server=server(), resource="r", scopes=listed)
    assert first_scopes(wanted, challenged, found, refreshable=True) == chosen


def test_a_refresh_token_is_asked_for_where_that_has_a_name():
    """``offline_access`` only if the authorization server lists it, and the grant may give one."""
    found = FoundServer(server=server(scopes_supported=["offline_access"]), resource="r")
    assert first_scopes(None, ["a"], found, refreshable=True) == ("a", "offline_access")
    assert first_scopes(None, ["a"], found, refreshable=False) == ("a",)


def test_scopes_are_bounded():
    """A server may name thousands."""
    assert len(join_scopes([str(n) for n in range(10_000)])) == 256


# --- what we are called ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "metadata", "choice"),
    [
        ({"client_id": "x", "client_metadata_url": "https://a/b"}, {"registration_endpoint": "r"}, "preregistered"),
        ({"client_metadata_url": "https://a/b"}, {"client_id_metadata_document_supported": True}, "document"),
        ({"client_metadata_url": "https://a/b"}, {"registration_endpoint": "r"}, "dynamic"),
        ({}, {"registration_endpoint": "r", "client_id_metadata_document_supported": True}, "dynamic"),
    ],
)
def test_the_order_of_names(settings, metadata, choice):
    """Beforehand, by a document, by registration."""
    assert choose_registration(OAuth(**settings), server(**metadata)) == choice


def test_without_a_name_somebody_has_to_be_asked():
    """The error says where to put it."""
    with pytest.raises(Unauthorized, match="client_id"):
        choose_registration(OAuth(), server())


@pytest.mark.parametrize(
    ("methods", "method"),
    [(None, "none"), (["client_secret_basic", "none"], "none"), (["client_secret_post"], "client_secret_post")],
)
def test_a_registration_asks_for_no_secret_where_that_is_allowed(methods, method):
    """A program on a person's machine can keep none."""
    request = registration_request(OAuth(), server(token_endpoint_auth_methods_supported=methods), "http://x")
    assert request["token_endpoint_auth_method"] == method
    assert request["application_type"] == "native"


@pytest.mark.parametrize(
    "settings", [{"client_secret": "s"}, {"private_key": "k"}, {"scopes": "a b"}, {"client_metadata_url": "https://a"}]
)
def test_settings_that_do_not_go_together_are_refused(settings):
    """At once, not at the first request."""
    with pytest.raises(ConfigError):
        OAuth(**settings)


# --- the token endpoint ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("identity", "supported", "method"),
    [
        ({}, ["client_secret_basic"], "none"),
        ({"secret": "s"}, None, "client_secret_basic"),
        ({"secret": "s"}, ["client_secret_post"], "client_secret_post"),
        ({"secret": "s"}, ["none"], "none"),
        ({"secret": "s", "private_key": "k"}, ["client_secret_basic", "private_key_jwt"], "private_key_jwt"),
        ({"secret": "s", "method": "client_secret_post"}, ["client_secret_basic"], "client_secret_post"),
    ],
)
def test_how_a_client_says_who_it_is(identity, supported, method):
    """By what was registered; else by what the server takes."""
    assert choose_method(ClientIdentity(client_id="x", **identity), supported) == method


def test_a_server_that_takes_no_proof_of_ours_is_told_apart():
    """Nothing is sent to it."""
    with pytest.raises(Unauthorized, match="accepts none of"):
        choose_method(ClientIdentity(client_id="x", secret="s"), ["tls_client_auth"])


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"error": "invalid_grant", "error_description": "<b>you</b>"}', "invalid_grant"),
        (b'{"error": "<script>"}', "HTTP 400"),
        (b"<html>", "HTTP 400"),
        (b'{"error": ["x"]}', "HTTP 400"),
    ],
)
def test_of_a_refusal_only_its_code_is_shown(body, said):
    """The prose of a stranger is for nobody."""
    refused = refusal_of(Answer(status=400, headers={}, body=body), ISSUER)
    assert refused.message == f"signing in failed: {ISSUER} refused with {said}"


# --- the browser comes back ------------------------------------------------------------------------------------------


def expected():
    """What is remembered of a request."""
    return Expected(issuer=ISSUER, redirect_uri="http://127.0.0.1:5/callback")


def test_a_server_without_pkce_is_not_used():
    """A code that is caught could be used by others."""
    for methods in (None, [], ["plain"]):
        with pytest.raises(Unauthorized, match="PKCE"):
            check_pkce(server(code_challenge_methods_supported=methods))


def test_the_address_of_the_page_keeps_its_own_query():
    """Some servers tell their tenants apart so."""
    metadata = server(authorization_endpoint="https://login.example/a?tenant=7#x")
    address = URL(authorization_address(metadata, "me", expected(), scope="a offline_access", resource="https://r/m"))
    assert address.query["tenant"] == "7"
    assert address.query["prompt"] == "consent"
    assert address.query["resource"] == "https://r/m"
    assert address.fragment == ""


@pytest.mark.parametrize(
    ("advertised", "iss", "accepted"),
    [
        (True, ISSUER, True),
        (True, None, False),
        (True, f"{ISSUER}/", False),
        (False, None, True),
        (False, ISSUER, True),
        (False, "https://other.example", False),
        (False, "https://LOGIN.example", False),
        (False, "", False),
    ],
)
@pytest.mark.parametrize("outcome", [{"code": "c"}, {"error": "access_denied"}])
def test_the_issuer_is_compared_as_text_also_of_errors(advertised, iss, accepted, outcome):
    """2026-07-28, "Authorization Response Validation"; of a wrong one not even the error is shown."""
    sent = expected()
    answer = {"state": sent.state, **outcome, **({} if iss is None else {"iss": iss})}
    metadata = server(authorization_response_iss_parameter_supported=advertised)
    if accepted and "code" in outcome:
        assert code_in(answer, sent, metadata) == "c"
        return
    with pytest.raises(Unauthorized) as caught:
        code_in(answer, sent, metadata)
    assert ("declined" in str(caught.value)) is accepted


@pytest.mark.parametrize("state", [None, "", "other", "naïve"])
def test_an_answer_to_another_request_is_not_used(state):
    """Whoever does not know the state cannot make us redeem a code of theirs."""
    answer = {"code": "c", **({} if state is None else {"state": state})}
    with pytest.raises(Unauthorized, match="does not belong to this sign-in"):
        code_in(answer, expected(), server())


@pytest.mark.parametrize(
    "address",
    [
        "http://127.0.0.1:6/callback?code=c",
        "http://evil.example/callback?code=c",
        "http://127.0.0.1:5/other?code=c",
        "http://127.0.0.1:5/callback?code=c&code=d",
        "http://127.0.0.1:5/callback?" + "&".join(f"a{n}=1" for n in range(100)),
        "http://127.0.0.1:5/callback?code=" + "c" * MAX_ADDRESS,
        "http://127.0.0.1:5/callback?code=\udcff",
        "http://[",
        "",
    ],
)
def test_an_address_that_was_not_waited_for_is_not_read(address):
    """What a person pastes may be anything."""
    with pytest.raises(Unauthorized):
        read_redirect(address, "http://127.0.0.1:5/callback")


@pytest.mark.parametrize(
    ("address", "redirect_uri"),
    [
        ("http://localhost:5/x?code=c", "http://LOCALHOST:5/x"),
        ("http://LOCALHOST:5/x?code=c", "http://localhost:5/x"),
        ("http://localhost:5/?code=c", "http://localhost:5"),
    ],
)
def test_an_address_is_read_as_browsers_write_it(address, redirect_uri):
    """With the host in lower case, and a slash for an empty path (RFC 3986, section 6.2)."""
    assert read_redirect(address, redirect_uri) == {"code": "c"}


def test_the_secrets_of_a_request_are_its_own():
    """Long, never the same, and in no repr."""
    one, other = expected(), expected()
    assert len({one.state, other.state, one.verifier, other.verifier}) == 4
    assert 43 <= len(one.verifier) <= 128
    assert one.state not in repr(one)
    assert one.verifier not in repr(one)
