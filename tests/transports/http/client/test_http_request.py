"""One HTTP request: redirects, TLS, proxies, addresses."""

from __future__ import annotations

import asyncio
import datetime as dt
import errno
import ipaddress
import itertools
import resource
import ssl
from typing import Any

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from yarl import URL

from antiphon.errors import ConfigError
from antiphon.transports.http.client import http_request as open_files
from antiphon.transports.http.client.channel import HttpClientChannel
from antiphon.transports.http.client.error_replies import UNREACHABLE, UNUSABLE, Dial
from antiphon.transports.http.client.http_request import MAX_AT_ONCE, Places, are_used_up, check_headers, most_at_once
from tests.support.ports import free_port
from tests.support.web import ask, receive, result, serving


async def reply_from(url, **options):
    """Send one request and return the reply."""
    channel = await HttpClientChannel.open(Dial(url=url, **options))
    try:
        channel.send(ask(1))
        (reply,) = await receive(channel)
        return reply
    finally:
        await channel.close()


@pytest.mark.parametrize("status", [307, 308])
async def test_a_redirect_within_the_origin_is_followed_once(status):
    """With body and method; later requests go there at once."""

    async def answers(request, seen):
        if seen.path == "/mcp":
            return web.Response(status=status, headers={"Location": "/mcp/"})
        return result(seen.body["id"])

    async with serving(answers) as site:
        channel = await HttpClientChannel.open(Dial(url=site.url))
        for id in (1, 2):
            channel.send(ask(id))
            assert (await receive(channel))[0]["id"] == id
        await channel.close()
    assert [seen.path for seen in site.seen] == ["/mcp", "/mcp/", "/mcp/"]


@pytest.mark.parametrize("status", [404, 410])
async def test_a_redirect_that_leads_elsewhere_by_now_is_followed_anew(status):
    """Where it led before is gone: the address that was given says where the server is now."""
    place = "/blue"

    async def answers(request, seen):
        if seen.path == "/mcp":
            return web.Response(status=307, headers={"Location": place})
        return result(seen.body["id"]) if seen.path == place else web.Response(status=status)

    async with serving(answers) as site:
        channel = await HttpClientChannel.open(Dial(url=site.url))
        channel.send(ask(1))
        assert "result" in (await receive(channel))[0]
        place = "/green"
        channel.send(ask(2))
        assert "result" in (await receive(channel))[0]
        await channel.close()
    assert [seen.path for seen in site.seen] == ["/mcp", "/blue", "/blue", "/mcp", "/green"]


async def test_a_server_that_is_gone_where_its_redirect_leads_is_asked_twice():
    """Once more at most; the second answer counts."""

    async def answers(request, seen):
        if seen.path == "/mcp":
            return web.Response(status=307, headers={"Location": "/there"})
        return result(seen.body["id"]) if len(site.seen) == 2 else web.Response(status=404)

    async with serving(answers) as site:
        channel = await HttpClientChannel.open(Dial(url=site.url))
        for id in (1, 2):
            channel.send(ask(id))
            reply = (await receive(channel))[0]
        await channel.close()
    assert reply["error"]["code"] == 404
    assert [seen.path for seen in site.seen] == ["/mcp", "/there", "/there", "/mcp", "/there"]


@pytest.mark.parametrize(
    "target", ["http://localhost:1/mcp", "https://127.0.0.1/mcp", "http://127.0.0.1:1/mcp", "//other/mcp"]
)
async def test_a_redirect_to_another_origin_is_refused(target):
    """Who we are and what we ask is meant for nobody else; the message says where it wanted to lead."""

    async def answers(request, seen):
        return web.Response(status=307, headers={"Location": target})

    async with serving(answers) as site:
        error = (await reply_from(site.url))["error"]
    assert error["code"] == UNUSABLE
    assert "another origin" in error["message"]


@pytest.mark.parametrize("target", ["/x", "https://127.0.0.1/mcp"])
async def test_a_redirect_that_forgets_the_body_names_the_address_to_use(target):
    """Proxies send 301 from http to https; whoever reads the error can then connect there."""

    async def answers(request, seen):
        return web.Response(status=301, headers={"Location": target})

    async with serving(answers) as site:
        message = (await reply_from(site.url))["error"]["message"]
        there = site.url.replace("/mcp", "/x") if target == "/x" else target
    assert message.endswith(f"a redirect that cannot be followed: connect to {there} if you trust it")


@pytest.mark.parametrize(("status", "target"), [(302, "/x"), (301, "/x"), (307, ""), (308, "http://[")])
async def test_a_redirect_that_cannot_be_followed_is_said(status, target):
    """One that forgets the body, one to nowhere."""

    async def answers(request, seen):
        return web.Response(status=status, headers={"Location": target})

    async with serving(answers) as site:
        assert "cannot be followed" in (await reply_from(site.url))["error"]["message"]


async def test_redirects_without_end_are_refused():
    """There is a bound."""
    count = iter(range(100))

    async def answers(request, seen):
        return web.Response(status=307, headers={"Location": f"/{next(count)}"})

    async with serving(answers) as site:
        assert "more than" in (await reply_from(site.url))["error"]["message"]
    assert len(site.seen) < 10


async def test_credentials_in_the_address_become_basic_authentication():
    """Unless a header says otherwise."""

    async def answers(request, seen):
        return result(1, {"was": seen.headers.get("Authorization")})

    async with serving(answers) as site:
        url = site.url.replace("//", "//me:secret@")
        assert (await reply_from(url))["result"]["was"] == "Basic bWU6c2VjcmV0"
        assert (await reply_from(url, headers={"authorization": "Bearer t"}))["result"]["was"] == "Bearer t"


async def cookies_of(url, requests, **options):
    """Return the header by which a server gets its cookies back, in each of some requests over one channel."""
    channel = await HttpClientChannel.open(Dial(url=url, **options))
    got = []
    for _ in range(requests):
        channel.send(ask(1))
        got.append((await receive(channel))[0]["result"]["cookie"])
    await channel.close()
    return got


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_cookie_is_sent_back_as_it_was_written(host):
    """A load balancer finds by it the replica that has the session; another channel knows nothing of it."""
    cookie = "AWSALB=a+b/c=="

    async def answers(request, seen):
        return result(1, {"cookie": seen.headers.get("Cookie")}, **{"Set-Cookie": f"{cookie}; Path=/; HttpOnly"})

    async with serving(answers) as site:
        url = site.url.replace("127.0.0.1", host)
        for _ in range(2):
            assert await cookies_of(url, 2) == [None, cookie]
        assert sorted((await cookies_of(url, 2, headers={"Cookie": "own=1"}))[1].split("; ")) == [cookie, "own=1"]


async def test_cookies_do_not_accumulate():
    """However many a server sets, a request stays within the bound that most servers have for a header."""
    count = itertools.count()

    async def answers(request, seen):
        reply = result(1, {"cookie": seen.headers.get("Cookie")})
        for _ in range(50):
            reply.headers.add("Set-Cookie", f"c{next(count)}={'x' * 100}; Domain=127.0.0.1; Path=/")
        return reply

    async with serving(answers) as site:
        *_, last = await cookies_of(site.url, 10)
    assert 4096 < len(last) <= 8192


async def test_a_proxy_gets_the_request():
    """The whole address is in what it sees."""

    async def answers(request, seen):
        return result(1, {"asked": request.raw_path})

    async with serving(answers) as site:
        proxy = str(URL(site.url).origin())
        reply = await reply_from("http://nowhere.invalid/mcp", proxy=proxy)
    assert reply["result"]["asked"] == "http://nowhere.invalid/mcp"


async def test_a_proxy_that_fails_is_told_apart_from_the_server():
    """With what to do, and without its password."""

    async def handle(_reader, writer):
        writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    proxy = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with proxy:
        port = proxy.sockets[0].getsockname()[1]
        reply = await reply_from("https://nowhere.invalid/mcp", proxy=f"http://me:secret@127.0.0.1:{port}")
    said = reply["error"]["message"]
    assert "its proxy answered HTTP 407 Proxy Authentication Required (the proxy wants authorization" in said
    gone = free_port()
    reply = await reply_from("https://nowhere.invalid/mcp", proxy=f"http://me:secret@127.0.0.1:{gone}")
    assert f"its proxy, 127.0.0.1:{gone}: Connection refused" in reply["error"]["message"]
    assert "secret" not in said + reply["error"]["message"]


async def test_a_proxy_from_the_environment_is_used_only_if_wanted(monkeypatch):
    """``trust_env`` says so."""

    async def answers(request, seen):
        return result(1)

    async with serving(answers) as site:
        monkeypatch.setenv("HTTP_PROXY", str(URL(site.url).origin()))
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        assert "result" in await reply_from("http://nowhere.invalid/mcp", trust_env=True)
        assert (await reply_from("http://nowhere.invalid/mcp"))["error"]["code"] == UNREACHABLE


async def test_too_many_headers_are_refused():
    """What a server says about itself is bounded, too."""

    async def answers(request, seen):
        return result(1, {}, **{f"X-{n}": "x" for n in range(500)})

    async with serving(answers) as site:
        assert "error" in await reply_from(site.url)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """The files of a certificate for 127.0.0.1 that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    start = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    signed = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, start, start + dt.timedelta(days=36500))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    folder = tmp_path_factory.mktemp("tls")
    (folder / "cert.pem").write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return str(folder / "cert.pem"), str(folder / "key.pem")


async def test_tls_is_checked_and_its_authorities_can_be_named(certificate):
    """A stranger's certificate is refused before anything is sent; a trusted one is fine."""
    cert, key = certificate
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)

    async def answers(request, seen):
        return result(1)

    async with serving(answers, ssl=context) as site:
        error = (await reply_from(site.url))["error"]
        assert error["code"] == UNREACHABLE
        assert "certificate" in error["message"].lower()
        assert site.seen == []
        assert "result" in await reply_from(site.url, ssl=ssl.create_default_context(cafile=cert))
        assert "result" in await reply_from(site.url, ssl=False)


@pytest.mark.parametrize(
    ("soft", "most"), [(1024, 512), (4, 8), (resource.RLIM_INFINITY, MAX_AT_ONCE), (10**9, MAX_AT_ONCE)]
)
def test_half_of_the_files_are_for_calls(soft: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Never more than the bound, never so few that nothing goes on."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, soft))
    assert most_at_once() == most


def test_which_failures_mean_that_there_are_none() -> None:
    """Those of the process and of the system."""
    assert are_used_up(OSError(errno.EMFILE, "too many"))
    assert are_used_up(OSError(errno.ENFILE, "too many"))
    assert not are_used_up(OSError(errno.ECONNREFUSED, "refused"))
    assert not are_used_up(ValueError())


async def test_who_comes_last_waits_for_a_place_and_tries_at_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """The calls before may wait for this very one: after a while it goes on without a place."""
    monkeypatch.setattr(open_files, "most_at_once", lambda: 1)
    places = Places()
    assert await places.take()
    waiting = asyncio.ensure_future(places.take())
    await asyncio.sleep(0)
    assert not waiting.done()
    places.free()
    assert await waiting
    monkeypatch.setattr(open_files, "PATIENCE", 0.01)
    assert not await places.take()
    places.free()
    assert await places.take()


async def test_places_are_given_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """The call that waits longest is next, and one that comes later does not pass those that wait."""
    monkeypatch.setattr(open_files, "most_at_once", lambda: 1)
    places = Places()
    assert await places.take()
    first, second = (asyncio.ensure_future(places.take()) for _ in range(2))
    await asyncio.sleep(0)
    places.free()
    third = asyncio.ensure_future(places.take())
    assert await first
    assert not second.done()
    places.free()
    assert await second
    assert not third.done()
    places.free()
    assert await third


async def test_a_call_that_is_given_up_keeps_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it still waits, or was just given one: the next call gets it."""
    monkeypatch.setattr(open_files, "most_at_once", lambda: 1)
    places = Places()
    assert await places.take()
    waiting, chosen, last = (asyncio.ensure_future(places.take()) for _ in range(3))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait((waiting,))
    places.free()
    chosen.cancel()
    await asyncio.wait((chosen,))
    assert chosen.cancelled()
    assert await last
    places.free()
    assert await places.take()


def test_a_header_that_is_no_text_is_named():
    """A number is the most likely one."""
    wrong: Any = {"X-Count": 5}
    with pytest.raises(ConfigError, match="the header 'X-Count' cannot be sent"):
        check_headers(wrong)
