"""Which addresses the requests of one sign-in may reach."""

from __future__ import annotations

import socket

import pytest

from antiphon.auth.boundary import Boundary, NotPublic, draw_boundary


@pytest.mark.parametrize(
    ("addresses", "is_public"),
    [
        (["93.184.215.14"], True),
        (["10.0.0.1", "93.184.215.14"], True),
        (["10.0.0.1", "64:ff9b::7f00:1"], False),
        (["127.0.0.1"], False),
    ],
)
async def test_a_server_is_local_only_if_no_address_is_public(addresses, is_public, monkeypatch):
    """One local address among others lifts no rule."""
    found = [one for address in addresses for one in socket.getaddrinfo(address, None, type=socket.SOCK_STREAM)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    assert (await draw_boundary("any.example")).is_public is is_public


async def test_a_server_that_is_not_found_may_be_public(monkeypatch):
    """A proxy may reach it; of this machine it is only by its name."""

    def fail(*_, **__):
        raise socket.gaierror

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    assert (await draw_boundary("any.example")).is_public
    assert not (await draw_boundary("x.localhost")).is_public


@pytest.mark.parametrize("host", ["10.0.0.1", "::ffff:10.0.0.1", "localhost", "x.localhost"])
def test_a_request_by_a_proxy_is_judged_by_its_name(host):
    """Only a public server is held to it."""
    with pytest.raises(NotPublic):
        Boundary("any.example", [], is_public=True).check_name(host)
    Boundary("any.example", [], is_public=False).check_name(host)
