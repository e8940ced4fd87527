"""Who may call the endpoint, and what it takes: each guard by itself, with a client that sends what it is told."""

from __future__ import annotations

import asyncio

import pytest

from antiphon.host import Host, Scripted
from tests.model_api.served import asked, door

CHAT = "/v1/chat/completions"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 403),
        ({"host": "evil.example:80"}, 403),
        ({"origin": "http://127.0.0.1"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "same-origin"}, 403),
        ({"authorization": "Bearer sk-antiphon-guess"}, 401),
        ({"authorization": ""}, 401),
        ({"x-api-key": "another"}, 401),
        ({"content-type": "text/plain"}, 415),
        ({"content-encoding": "gzip"}, 415),
    ],
)
async def test_request_that_may_not_come_in_is_refused(headers: dict[str, str], status: int):
    """A browser, a foreign name (DNS rebinding), a wrong token or two of them: nothing is asked of the host."""
    host = Host(Scripted([]), review="never")
    async with door(host) as here, here.plain() as client:
        refused = await client.post(CHAT, json=asked(), headers=headers)
    assert (refused.status_code, refused.headers["x-should-retry"]) == (status, "false")
    assert "access-control-allow-origin" not in refused.headers
    assert host.audit.records() == []


async def test_preflight_of_a_browser_is_refused():
    """CORS: nothing allows a page to send what it would like to."""
    async with door(Host("echo", review="never")) as here, here.plain() as client:
        asked_first = {"origin": "http://evil.example", "access-control-request-method": "POST"}
        refused = await client.options(CHAT, headers=asked_first)
    assert refused.status_code == 403


@pytest.mark.parametrize("path", ["/v1/embeddings", "/embeddings", "/v1/images/generations", "/v2/chat/completions"])
async def test_path_that_is_not_served_is_an_error_of_the_vendors_shape(path: str):
    """Embeddings are refused as every unknown path is, and nothing is asked of the host."""
    host = Host(Scripted([]), review="never")
    async with door(host) as here, here.plain() as client:
        refused = await client.post(path, json={"model": "m", "input": "x"})
    error = refused.json()["error"]
    assert (refused.status_code, error["code"]) == (404, "unknown_path")
    assert error["message"] == "This host offers no such path."
    assert host.audit.records() == []


async def raw(address: str, *lines: str, body: bytes = b"") -> bytes:
    """Send a request as it is written; return what comes back before the connection ends."""
    host, _, port = address.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        return await reader.read(65536)
    finally:
        writer.close()
        await writer.wait_closed()


async def test_headers_that_smuggle_are_refused():
    """Two lengths, two hosts, or two tokens: no reading of them is chosen, and no second request is seen."""
    host = Host("echo", review="never")
    async with door(host) as here:
        name = here.address.removeprefix("http://")
        known = (f"POST {CHAT} HTTP/1.1", f"Authorization: Bearer {here.token}", "Content-Type: application/json")
        answers = [
            await raw(
                here.address, *known, f"Host: {name}", "Content-Length: 2", "Transfer-Encoding: chunked", body=b"{}"
            ),
            await raw(here.address, *known, f"Host: {name}", "Content-Length: 2", "Content-Length: 2", body=b"{}"),
            await raw(here.address, *known, f"Host: {name}", "Host: evil.example", "Content-Length: 2", body=b"{}"),
            await raw(
                here.address, *known, f"Host: {name}", "Authorization: Bearer x", "Content-Length: 2", body=b"{}"
            ),
        ]
    assert [answer.split(b" ")[1] for answer in answers] == [b"400"] * 4
    assert host.audit.records() == []


async def test_body_that_is_too_large_or_too_deep_is_refused():
    """100 MB are refused by their length, before they are read; deep nesting before it is decoded."""
    async with door(Host("echo", review="never")) as here, here.plain() as client:
        name = here.address.removeprefix("http://")
        lines = (f"POST {CHAT} HTTP/1.1", f"Host: {name}", f"Authorization: Bearer {here.token}")
        large = await raw(here.address, *lines, "Content-Type: application/json", f"Content-Length: {100 * 2**20}")
        json = {"content-type": "application/json"}
        deep = await client.post(CHAT, content=b"[" * 10_000 + b"]" * 10_000, headers=json)
        broken = await client.post(CHAT, content=b"{", headers=json)
        listed = await client.post(CHAT, content=b"[]", headers=json)
    assert large.startswith(b"HTTP/1.1 413")
    assert [each.status_code for each in (deep, broken, listed)] == [400, 400, 400]


async def test_models_are_listed_in_the_form_of_the_vendor_that_asks():
    """Anthropic's client names its version in a header; everybody else reads OpenAI's list."""
    async with door(Host("echo", review="never")) as here, here.plain() as client:
        plain = (await client.get("/v1/models")).json()
        other = (await client.get("/v1/models", headers={"anthropic-version": "2023-06-01"})).json()
        missing = await client.get("/v1/models/none")
        elsewhere = await client.get("/v1/files")
        wrong = await client.get(CHAT)
    assert (plain["object"], plain["data"][0]["id"]) == ("list", "echo")
    assert (other["has_more"], other["first_id"], other["data"][0]["type"]) == (False, "echo", "model")
    assert [each.status_code for each in (missing, elsewhere, wrong)] == [404, 404, 405]


async def test_what_has_no_effect_is_named():
    """The response names the members without effect, and so does the request that a reviewer sees."""
    provider = Scripted(["Yes."])
    async with door(Host(provider, review="never")) as here, here.plain() as client:
        said = await client.post(CHAT, json=asked(seed=7, top_p=0.5, brand_new=1))
    assert said.headers["antiphon-without-effect"] == "seed, top_p, brand_new"
    assert provider.requests[0].metadata == {"withoutEffect": ["seed", "top_p", "brand_new"]}


async def test_each_choice_is_an_ask_and_one_refusal_refuses_all():
    """``n`` multiplies what is asked, reserved and charged; more than a few are refused."""
    host = Host(Scripted(["One.", "Two.", "Three."]), review="never")
    async with door(host) as here, here.openai() as client, here.plain() as plain:
        said = await client.chat.completions.create(**asked(n=3))
        short = await plain.post(CHAT, json=asked(n=2))
        many = await plain.post(CHAT, json=asked(n=9))
    assert [choice.message.content for choice in said.choices] == ["One.", "Two.", "Three."]
    assert [short.status_code, many.status_code] == [500, 400]
    assert len({record.ask for record in host.audit.records()}) == 5


@pytest.mark.parametrize("version", ["", "/v1"])
async def test_a_path_is_served_with_and_without_its_version(version):
    """Vercel's AI SDK posts to the address that it is given and ``/messages``; others add the version."""
    message = {"model": "any", "max_tokens": 20, "messages": [{"role": "user", "content": "hello"}]}
    async with door(Host("echo", review="never")) as here, here.plain() as client:
        assert (await client.post(f"{version}/messages", json=message)).json()["type"] == "message"
        assert (await client.post(f"{version}/messages/count_tokens", json=message)).json()["input_tokens"] > 0
        assert (await client.post(f"{version}/chat/completions", json=message)).json()["object"] == "chat.completion"
        assert (await client.post(f"{version}/responses", json={"model": "any", "input": "hi"})).status_code == 200
        assert (await client.get(f"{version}/models")).status_code == 200
        refused = await client.post(f"{version}/messages", json={})
        assert refused.json()["type"] == "error"
