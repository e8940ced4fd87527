"""The HTTP requests of a sign-in: bounded, not led elsewhere, and not into the local network for a stranger."""

from __future__ import annotations

import asyncio
import socket
import ssl

import pytest
from aiohttp import web
from yarl import URL

from antiphon.auth.client import fetch as module
from antiphon.auth.client.fetch import MAX_BODY, Fetch, Unreachable, open_fetch
from antiphon.errors import Unauthorized
from tests.support.authority import listening
from tests.support.certificates import write_certificate
from tests.support.ports import free_port

SERVER = URL("http://127.0.0.1/mcp")
PUBLIC = URL("https://93.184.215.14/mcp")


async def answered(handle, act):
    """Let ``act`` fetch from a server that answers so."""
    seen = []

    async def noting(request):
        seen.append((request.method, request.path, dict(request.headers), await request.read()))
        return await handle(request)

    async with listening(noting) as origin, open_fetch(SERVER) as fetch:
        return await act(fetch, URL(origin)), seen


@pytest.mark.parametrize("declared", [True, False])
async def test_a_document_of_ten_megabytes_is_left_where_it_is(declared):
    """Whether it says how large it is or not."""

    async def handle(request):
        if declared:
            return web.Response(body=b" " * 10_000_000)
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(160):
            await response.write(b" " * 65_536)
        return response

    with pytest.raises(Unauthorized, match=f"more than {MAX_BODY} bytes"):
        await answered(handle, lambda fetch, url: fetch.document(url))


async def test_a_server_that_says_nothing_is_not_waited_for(monkeypatch):
    """A drop each second would keep a person waiting for ever."""
    monkeypatch.setattr(module, "PATIENCE", 0.05)
    silent = socket.create_server(("127.0.0.1", 0))
    with silent:
        async with open_fetch(SERVER) as fetch:
            with pytest.raises(Unreachable, match="did not answer"):
                await fetch.document(URL(f"http://127.0.0.1:{silent.getsockname()[1]}/x"))


async def test_nobody_there_is_told_apart_from_a_refusal():
    """What was kept stays; the message shows no query, which may hold secrets."""
    port = free_port()
    async with open_fetch(SERVER) as fetch:
        with pytest.raises(Unreachable) as caught:
            await fetch.document(URL(f"http://127.0.0.1:{port}/x?code=s3cret"))
    assert "s3cret" not in str(caught.value)


async def test_a_public_document_may_be_redirected_within_its_origin():
    """Some servers add a slash."""

    async def handle(request):
        if request.path == "/a":
            raise web.HTTPFound("/b")
        return web.Response(text="here")

    data, seen = await answered(handle, lambda fetch, url: fetch.document(url / "a"))
    assert data == b"here"
    assert [path for _, path, *_ in seen] == ["/a", "/b"]


@pytest.mark.parametrize("target", ["http://localhost:1/x", "//evil.example/x", "file:///etc/passwd", "http://["])
async def test_a_document_that_leads_to_another_origin_is_none(target):
    """The next place is looked at."""

    async def handle(request):
        return web.Response(status=302, headers={"Location": target})

    data, seen = await answered(handle, lambda fetch, url: fetch.document(url / "a"))
    assert data is None
    assert len(seen) == 1


async def test_a_document_that_redirects_for_ever_is_none():
    """Two redirects are followed, and that is all."""

    async def handle(request):
        return web.Response(status=302, headers={"Location": "/a?again"})

    data, seen = await answered(handle, lambda fetch, url: fetch.document(url / "a"))
    assert data is None
    assert len(seen) == 3


async def test_a_request_with_credentials_is_never_redirected():
    """Not even within its origin: the answer is the redirect."""

    async def handle(request):
        return web.Response(status=307, headers={"Location": "/b"})

    async def act(fetch: Fetch, url: URL):
        return await fetch.post(url / "a", {"code": "c"}, {"Authorization": "Basic x"})

    answer, seen = await answered(handle, act)
    assert answer.status == 307
    assert len(seen) == 1


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "10.0.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "[::1]",
        "[fd00::1]",
        "[::ffff:10.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[::7f00:1]",
        "localhost",
    ],
)
async def test_a_public_server_cannot_have_us_ask_in_the_local_network(host):
    """Nothing is sent: not to a router, not to a cloud's own address, not to this machine."""
    async with open_fetch(PUBLIC) as fetch:
        with pytest.raises(Unauthorized, match="local network"):
            await fetch.document(URL(f"https://{host}/latest/meta-data"))


def resolve(monkeypatch, **answers):
    """Answer look-ups by the system's resolver from lists, the last of each again and again."""
    usual = socket.getaddrinfo
    left = {name.replace("_", "."): list(several) for name, several in answers.items()}

    def answer(host, *args, **kwargs):
        if host not in left:
            return usual(host, *args, **kwargs)
        found = left[host].pop(0) if len(left[host]) > 1 else left[host][0]
        return [one for address in found for one in usual(address, *args, **kwargs)]

    monkeypatch.setattr(socket, "getaddrinfo", answer)


async def test_nor_by_a_name_that_leads_there(monkeypatch):
    """The name is looked up, and what is found is what counts."""
    resolve(monkeypatch, inside_example=[["10.0.0.1", "127.0.0.1"]])
    async with open_fetch(PUBLIC) as fetch:
        with pytest.raises(Unauthorized, match=r"inside\.example, which is of this machine or the local network"):
            await fetch.document(URL("https://inside.example/x"))


async def test_a_server_with_one_public_address_is_public(monkeypatch):
    """A second address of the local network would otherwise lift the rule."""
    resolve(monkeypatch, evil_example=[["93.184.215.14", "10.0.0.1"]])
    async with open_fetch(URL("https://evil.example/mcp")) as fetch:
        with pytest.raises(Unauthorized, match="local network"):
            await fetch.document(URL("http://127.0.0.1:1/x"))


async def test_a_public_server_cannot_move_its_own_name_into_the_local_network(monkeypatch):
    """DNS rebinding: the address of each connection counts, not that of the first look-up."""
    resolve(monkeypatch, evil_example=[["93.184.215.14"], ["127.0.0.1"]])
    async with open_fetch(URL("https://evil.example/mcp")) as fetch:
        with pytest.raises(Unauthorized, match=r"sends us to evil\.example"):
            await fetch.post_json(URL("https://evil.example/register"), {})


async def test_a_server_that_was_reached_at_a_public_address_stays_public(monkeypatch):
    """Even if its name has only local addresses when the sign-in begins."""
    resolve(monkeypatch, evil_example=[["10.0.0.1"]])
    async with open_fetch(URL("https://evil.example/mcp"), is_public=True) as fetch:
        with pytest.raises(Unauthorized, match="local network"):
            await fetch.document(URL("http://127.0.0.1:1/x"))


async def test_a_local_server_cannot_move_its_own_name_out_of_the_local_network(monkeypatch):
    """It may name any address, so it stays where it was when that was decided."""

    async def handle(request):
        return web.Response(text="here")

    resolve(monkeypatch, inside_example=[["127.0.0.1"], ["203.0.113.1"]])
    async with listening(handle) as origin, open_fetch(URL("https://inside.example/mcp")) as fetch:
        assert await fetch.document(URL(f"http://inside.example:{URL(origin).port}/x")) == b"here"


async def test_a_public_server_cannot_have_a_page_of_the_local_network_opened(monkeypatch):
    """A browser of this machine reaches the router, too."""
    resolve(monkeypatch, router_example=[["192.168.1.1"]])
    async with open_fetch(PUBLIC) as fetch:
        for page in ("https://router.example/admin", "http://127.0.0.1:9/x", "http://localhost:9/x"):
            with pytest.raises(Unauthorized, match="local network"):
                await fetch.check_page(URL(page))
        await fetch.check_page(URL("https://93.184.215.14/authorize"))


async def test_a_request_by_a_proxy_is_judged_by_its_name():
    """The proxy itself may be of this machine; it makes the look-up."""
    proxy = f"http://127.0.0.1:{free_port()}"
    async with open_fetch(PUBLIC, proxy=proxy) as fetch:
        with pytest.raises(Unauthorized, match="local network"):
            await fetch.document(URL("https://10.0.0.1/x"))
        with pytest.raises(Unreachable):
            await fetch.document(URL("https://other.example/x"))


async def test_a_host_that_the_user_named_may_be_anywhere():
    """A company's own issuer, say: then only the network can say no."""
    async with open_fetch(PUBLIC, named=frozenset({"127.0.0.1"})) as fetch:
        port = free_port()
        with pytest.raises(Unreachable):
            await fetch.document(URL(f"https://127.0.0.1:{port}/x"))


async def test_a_server_of_this_machine_may_name_this_machine():
    """As in every test here, and at every developer's desk."""

    async def handle(request):
        return web.Response(text="here")

    data, _ = await answered(handle, lambda fetch, url: fetch.document(url))
    assert data == b"here"


@pytest.mark.parametrize("body", [b"", b"[]", b"nul", b"\xff", b"[" * 100_000])
async def test_an_answer_that_is_no_object_is_as_an_empty_one(body):
    """Nothing that a server sends raises anything else."""

    async def handle(request):
        return web.Response(body=body)

    answer, _ = await answered(handle, lambda fetch, url: fetch.post_json(url, {}))
    assert answer.json() == {}


async def test_the_reason_of_a_failed_connection_is_told(tmp_path):
    """Not the name of a class: who reads it learns what to mend."""
    certificate, key = write_certificate(tmp_path)
    secured = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    secured.load_cert_chain(certificate, key)

    async def hang_up(_reader, writer):
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0, ssl=secured)
    async with server, open_fetch(SERVER) as fetch:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(Unreachable, match=r"\(its certificate is not accepted: self-signed.*SSL_CERT_FILE"):
            await fetch.document(URL(f"https://127.0.0.1:{port}/x"))
        with pytest.raises(Unreachable, match=r"\(Connection refused\)"):
            await fetch.document(URL(f"http://127.0.0.1:{free_port()}/x"))
