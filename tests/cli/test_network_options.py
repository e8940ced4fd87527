"""Options of commands that serve on a network: who may connect, from flags and from the configuration."""

from __future__ import annotations

import pytest

from antiphon.cli.network_options import ListenOptions, ListenPlace
from antiphon.errors import ConfigError
from antiphon.host.config.settings import AccessTokens

URL = "https://mcp.example/mcp"
ISSUER = "https://id.example"
ACCEPTS = AccessTokens(issuers=(ISSUER,), audience=URL, scopes=("mcp:use",))


def test_flags_are_enough():
    """The public address is the audience, unless another one is named; clients come by its name."""
    options = ListenOptions(issuer=[ISSUER], public_url=URL).options(None)
    assert (options["auth"].url, options["auth"].scopes) == (URL, ())
    assert options["allowed_hosts"] == ["mcp.example", "localhost", "127.0.0.1", "[::1]"]
    named = ListenOptions(issuer=[ISSUER], public_url=URL, audience=["api://gateway"]).options(None)
    assert named["auth"].url == URL


def test_flags_go_before_the_configuration():
    """One by one."""
    assert ListenOptions().options(ACCEPTS)["auth"].scopes == ("mcp:use",)
    changed = ListenOptions(scope=["other"], allow_host=["inner"]).options(ACCEPTS)
    assert (changed["auth"].scopes, changed["allowed_hosts"]) == (("other",), ["inner"])


def test_a_token_is_for_whoever_has_no_issuer():
    """One of the two."""
    assert ListenOptions(token="s3cret").options(None)["check_token"]("other") is None
    with pytest.raises(ConfigError, match="exclude each other"):
        ListenOptions(token="s3cret", issuer=[ISSUER], public_url=URL).options(None)
    assert "check_token" not in ListenOptions(token="s3cret").options(ACCEPTS)


def test_the_secret_of_introspection_is_in_the_environment():
    """And missed before anything listens."""
    accepts = AccessTokens(
        issuers=(ISSUER,), audience=URL, introspection_client="gateway", introspection_secret="GATEWAY_SECRET"
    )
    assert "auth" in ListenOptions().options(accepts, {"GATEWAY_SECRET": "s3cret"})
    with pytest.raises(ConfigError, match="GATEWAY_SECRET is not set"):
        ListenOptions().options(accepts, {})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"issuer": [ISSUER]}, "needs audience.*--public-url"),
        ({"public_url": URL}, "name who issues them, --issuer"),
        ({"issuer": [ISSUER], "audience": ["a"]}, "url="),
        ({"issuer": ["id.example"], "public_url": URL}, "Issuer"),
    ],
)
def test_half_of_it_is_refused(given: dict[str, object], message: str):
    """With what is missing."""
    with pytest.raises(ConfigError, match=message):
        ListenOptions(**given).options(None)


def test_what_was_given_is_named(monkeypatch: pytest.MonkeyPatch):
    """For a command that has no use for it; the token of the environment may be for another one."""
    monkeypatch.setenv("ANTIPHON_TOKEN", "t")
    assert ListenOptions(public_url=URL).given == "--public-url"
    assert "check_token" in ListenOptions().options(None)
    assert "auth" in ListenOptions(issuer=[ISSUER], public_url=URL).options(None)


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("localhost", True),
        ("127.0.0.9", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("::", False),
        ("::ffff:0.0.0.0", False),
        ("::ffff:192.0.2.1", False),
        ("0", False),
        ("127.1", False),
        ("*", False),
        ("localhost.example.com", False),
        ("unix", False),
        ("example.com", False),
    ],
)
def test_tells_this_machine_from_others(host: str, local: bool):
    """An address that all can reach is not local, and neither is a name."""
    assert ListenPlace(option="--http", kind="http", host=host, port=1).is_local is local


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ({"http": "8000"}, "http://127.0.0.1:8000/mcp"),
        ({"http": "0"}, "http://127.0.0.1:8000/mcp"),
        ({"sse": "[::1]:8000", "tls_cert": "cert.pem"}, "https://[::1]:8000/sse"),
        ({"ws": "localhost:8000"}, "ws://localhost:8000/ws"),
    ],
)
def test_a_place_has_the_address_of_its_transport(given: dict[str, str], url: str):
    """As clients need it, with the port that is served: the system may have chosen it."""
    listening = ListenOptions(**given)
    assert listening.place is not None
    assert listening.place.url(listening.options(None), 8000) == url
