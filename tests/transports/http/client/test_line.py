"""What the requests of one channel say of the session."""

from __future__ import annotations

import asyncio
import logging

import pytest
from aiohttp import ClientSession, web
from yarl import URL

from antiphon.errors import ConfigError, LocalProtocolError
from antiphon.transports.http.client.channel import HttpClientChannel
from antiphon.transports.http.client.error_replies import Dial, HttpFailure, SessionGone
from antiphon.transports.http.client.http_request import Web
from antiphon.transports.http.client.message import OutgoingMessage
from antiphon.transports.http.client.post import ClientLine, find_surroundings
from tests.support.web import ask, legacy, opened, receive, result, serving, tell


@pytest.fixture
async def line():
    """A line to nowhere: nothing is sent."""
    async with ClientSession() as session:
        yield ClientLine(Web(URL("http://localhost/mcp"), session), max_frame=1000, on_gone=lambda: None)


async def test_the_era_is_that_of_the_last_message_that_says_it(line):
    """A notification names no revision; the handshake ends the modern era."""
    assert not line.notice(OutgoingMessage(id=1, method="tools/list"))
    assert line.notice(OutgoingMessage(id=1, method="tools/list", version="2026-07-28"))
    assert line.notice(OutgoingMessage(method="notifications/progress"))
    headers = line.post_headers(OutgoingMessage(method="notifications/progress"))
    assert (headers["Mcp-Method"], headers["MCP-Protocol-Version"]) == ("notifications/progress", "2026-07-28")
    assert not line.notice(OutgoingMessage(id=2, method="initialize"))
    assert "Mcp-Method" not in line.post_headers(OutgoingMessage(id=3, method="tools/list"))


@pytest.mark.parametrize("version", ["2025-06-18\\r\\nX: y", " ", "ä"])
async def test_a_revision_that_fits_no_header_is_not_named(line, version):
    """The session refuses it anyway."""
    line.agreed(b'{"id":1,"result":{"protocolVersion":"%b"}}' % version.encode())
    assert line.session_headers() == {}


async def test_a_mirrored_argument_that_does_not_fit_fails_its_call(line):
    """As invalid params."""

    def compute(tool, arguments):
        raise LocalProtocolError("too large")

    line.param_headers = compute
    message = OutgoingMessage(id=1, method="tools/call", version="2026-07-28", name="t")
    line.notice(message)
    with pytest.raises(HttpFailure, match="too large") as failed:
        line.post_headers(message)
    assert failed.value.code == -32602


async def test_losing_the_session_is_said_once(line):
    """Several requests meet the same 404."""
    said = []
    line._on_gone = lambda: said.append(1)
    line.lose_session()
    line.lose_session()
    assert said == [1] and line.is_gone


TARGET = URL("http://example.com/mcp")


@pytest.fixture(autouse=True)
def _quiet(monkeypatch, tmp_path):
    """Begin with an environment that says nothing."""
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    for name in ("NO_PROXY", "no_proxy", "REQUEST_METHOD"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))


def write_netrc(tmp_path, text):
    """Write the file that ``NETRC`` names; nobody else may read it."""
    path = tmp_path / "netrc"
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)


def test_an_environment_that_says_nothing_changes_nothing():
    """Neither the address nor the proxy."""
    assert find_surroundings(TARGET, None) == (TARGET, None)


def test_the_proxy_of_the_scheme_is_taken(monkeypatch):
    """That of another scheme is not, and one that was named wins."""
    monkeypatch.setenv("https_proxy", "http://other:1")
    assert find_surroundings(TARGET, None)[1] is None
    monkeypatch.setenv("http_proxy", "http://proxy:3128")
    assert URL(find_surroundings(TARGET, None)[1] or "") == URL("http://proxy:3128")
    assert find_surroundings(TARGET, "http://mine:1")[1] == "http://mine:1"


def test_the_proxy_of_all_schemes_is_taken_where_the_scheme_has_none(monkeypatch):
    """Most programs read ``ALL_PROXY``, and take an address without a scheme for one of HTTP."""
    monkeypatch.setenv("all_proxy", "proxy:3128")
    assert URL(find_surroundings(TARGET, None)[1] or "") == URL("http://proxy:3128")
    monkeypatch.setenv("http_proxy", "other:1")
    assert URL(find_surroundings(TARGET, None)[1] or "") == URL("http://other:1")


@pytest.mark.parametrize("variable", ["http_proxy", "all_proxy"])
def test_hosts_may_be_excepted(monkeypatch, variable):
    """``NO_PROXY`` names them."""
    monkeypatch.setenv(variable, "http://proxy:3128")
    monkeypatch.setenv("no_proxy", "example.com")
    assert find_surroundings(TARGET, None)[1] is None


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
def test_this_machine_is_reached_without_the_proxy_of_the_environment(monkeypatch, host):
    """The proxy of a company answers 502 for it, and few people set ``NO_PROXY``; one that was named is used."""
    monkeypatch.setenv("http_proxy", "http://proxy:3128")
    target = URL(f"http://{host}:8000/mcp")
    assert find_surroundings(target, None)[1] is None
    assert find_surroundings(target, "http://mine:1")[1] == "http://mine:1"


@pytest.mark.parametrize("scheme", ["https", "socks5", "socks5h"])
def test_a_proxy_that_is_not_of_http_is_left_to_others(monkeypatch, caplog, scheme):
    """And it is said."""
    monkeypatch.setenv("http_proxy", f"{scheme}://proxy:3128")
    assert find_surroundings(TARGET, None)[1] is None
    assert "is not used" in caplog.text


def test_a_proxy_without_an_address_is_refused(monkeypatch):
    """What is there is not shown: it may hold a password."""
    monkeypatch.setenv("http_proxy", "http://me:secret@[")
    with pytest.raises(ConfigError, match="no address") as caught:
        find_surroundings(TARGET, None)
    assert "secret" not in str(caught.value)


def test_credentials_come_from_netrc(monkeypatch, tmp_path):
    """For the server and for the proxy, unless an address has some."""
    write_netrc(tmp_path, "machine example.com login me password s:e@c\nmachine proxy login p password q\n")
    monkeypatch.setenv("http_proxy", "http://proxy:3128")
    target, proxy = find_surroundings(TARGET, None)
    assert (target.user, target.password) == ("me", "s:e@c")
    assert URL(proxy or "").user == "p"
    named = TARGET.with_user("you")
    assert find_surroundings(named, None)[0] == named
    assert find_surroundings(URL("http://other.com/"), None)[0] == URL("http://other.com/")


def test_a_netrc_that_cannot_be_read_is_as_none(tmp_path, caplog):
    """The log says so, without what is in it."""
    write_netrc(tmp_path, "nonsense secret")
    assert find_surroundings(TARGET, None) == (TARGET, None)
    assert "cannot be read" in caplog.text
    assert "secret" not in caplog.text


async def test_a_channel_looks_once(monkeypatch):
    """What changes later is for later channels: no request pays for looking."""

    async def answers(request: web.Request, seen):
        return result(1, {"asked": request.raw_path})

    async with serving(answers) as site:
        monkeypatch.setenv("http_proxy", str(URL(site.url).origin()))
        channel = await HttpClientChannel.open(Dial(url="http://nowhere.invalid/mcp", trust_env=True))
        monkeypatch.delenv("http_proxy")
        for _ in range(2):
            channel.send(ask(1))
            assert (await receive(channel))[0]["result"]["asked"] == "http://nowhere.invalid/mcp"
        await channel.close()


async def test_a_header_wins_over_netrc(tmp_path):
    """Who we are is said once."""
    write_netrc(tmp_path, "machine 127.0.0.1 login me password secret\n")

    async def answers(request, seen):
        return result(1, {"was": seen.headers.get("Authorization")})

    async def told(**options):
        channel = await HttpClientChannel.open(Dial(url=site.url, trust_env=True, **options))
        channel.send(ask(1))
        reply = (await receive(channel))[0]["result"]["was"]
        await channel.close()
        return reply

    async with serving(answers) as site:
        assert await told() == "Basic bWU6c2VjcmV0"
        assert await told(headers={"Authorization": "Bearer t"}) == "Bearer t"


async def test_an_answer_is_posted_again_when_the_connection_breaks():
    """The server waits for it; to receive it twice harms nobody."""
    tries = iter(range(9))

    async def answers(request, seen):
        if next(tries) == 0:
            request.transport.abort()
        return web.Response(status=202)

    async with serving(answers) as site:
        channel = await HttpClientChannel.open(Dial(url=site.url))
        channel.send(type(ask(1))(b'{"jsonrpc":"2.0","id":3,"result":{}}'))
        await site.until(lambda _: len(site.seen) == 2)
        await channel.close()
    assert site.seen[0].body == site.seen[1].body


@pytest.mark.parametrize("status", [502, 503, 504])
async def test_an_answer_is_posted_again_when_its_server_dies(status):
    """A proxy says so; the next server takes it."""
    tries = iter(range(9))

    async def answers(request, seen):
        return web.Response(status=status if next(tries) == 0 else 202)

    async with serving(answers) as site:
        channel = await HttpClientChannel.open(Dial(url=site.url))
        channel.send(type(ask(1))(b'{"jsonrpc":"2.0","id":3,"result":{}}'))
        await site.until(lambda _: len(site.seen) == 2)
        await channel.close()
    assert site.seen[0].body == site.seen[1].body


async def test_many_messages_without_a_reply_make_the_sender_wait():
    """A server that asks faster than it takes answers cannot make us hold them all."""
    go = asyncio.Event()

    async def answers(request, seen):
        await go.wait()
        return web.Response(status=202)

    async with serving(answers) as site:
        channel = await HttpClientChannel.open(Dial(url=site.url))
        waits = [channel.send(tell("n")) for _ in range(70)]
        assert waits[0] is None
        assert waits[-1] is not None
        go.set()
        await waits[-1]
        await channel.close()


async def test_a_refused_notification_is_logged(caplog):
    """Nobody waits for it, but somebody may look for it."""

    async def answers(request, seen):
        return web.Response(status=500, text="broken")

    async with serving(answers) as site:
        channel = await HttpClientChannel.open(Dial(url=site.url))
        with caplog.at_level(logging.WARNING):
            channel.send(tell("notifications/progress"))
            await channel.close()
    assert "notifications/progress" in caplog.text
    assert "500" in caplog.text


async def test_a_session_that_is_gone_shows_in_a_notification():
    """Whichever message meets the 404."""
    base = legacy()

    async def answers(request, seen):
        if seen.body and seen.body.get("method") == "notifications/roots/list_changed":
            return web.Response(status=404)
        return await base(request, seen)

    async with serving(answers) as site:
        channel = await opened(site)
        channel.send(tell("notifications/roots/list_changed"))
        assert await channel.receive() == []
        assert isinstance(channel.closed_error(), SessionGone)
        await channel.close()


async def test_notifications_make_no_frame():
    """Whatever comes back for them."""

    async def answers(request, seen):
        if "id" in seen.body:
            return web.json_response({"jsonrpc": "2.0", "id": 1, "result": {}})
        return web.json_response({"jsonrpc": "2.0", "method": "odd"})

    async with serving(answers) as site:
        channel = await HttpClientChannel.open(Dial(url=site.url))
        await asyncio.sleep(0)
        channel.send(tell("notifications/progress"))
        await site.until(lambda seen: "id" not in seen.body)
        channel.send(ask(1))
        assert (await receive(channel))[0]["id"] == 1
        await channel.close()
