"""How a request over HTTP is let in: headers made anew, repetitions, and what is said when nothing helps."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
from aiohttp import web

from antiphon.errors import ConfigError, Unauthorized
from antiphon.transports.http.client.channel import HttpClientChannel
from antiphon.transports.http.client.error_replies import UNUSABLE, Dial
from tests.support.web import ask, event, receive, result, serving, stream, tell


class Entry:
    """Lets in after so many refusals."""

    def __init__(self, log, *, refusals=1, why=None, error=None):
        self.log = log
        self.left = refusals
        self.reason = why
        self.error = error
        self.sent = 0

    async def headers(self, method, url):
        self.sent += 1
        return {"Authorization": f"Bearer {self.sent}", "X-For": f"{method} {url}"}

    async def refused(self, status, headers, lines, *, ask):
        self.log.append((status, list(lines), ask))
        if self.error is not None:
            raise self.error
        self.left -= 1
        return self.left >= 0

    def answered(self, headers):
        self.log.append(headers.get("X-Answer"))

    def why(self, status):
        return self.reason


class Access:
    """Makes the same kind of entry for each request."""

    def __init__(self, **options):
        self.log = []
        self.options = options

    def begin(self):
        return Entry(self.log, **self.options)


def refusing(until):
    """A server that lets in who has come so often."""

    async def answers(request, seen):
        if seen.headers.get("Authorization") == f"Bearer {until}":
            return result(seen.body["id"]) if seen.body and "id" in seen.body else web.Response(status=202)
        answer = web.Response(status=401, headers={"X-Answer": "a"})
        answer.headers.extend([("WWW-Authenticate", "Basic"), ("WWW-Authenticate", "Bearer")])
        return answer

    return answers


async def one(until, access, frame=None, pause=None):
    """Send one request."""
    async with serving(refusing(until)) as site:
        options = {} if pause is None else {"pause": pause}
        channel = await HttpClientChannel.open(Dial(url=site.url, access=access, **options))
        try:
            channel.send(frame or ask(1))
            (reply,) = await receive(channel)
            return reply, site
        finally:
            await channel.close()


async def test_a_request_that_is_let_in_at_last_has_its_reply():
    """Each time with headers of its own, for its own address; every WWW-Authenticate is seen."""
    access = Access(refusals=2)
    reply, site = await one(3, access)
    assert reply["result"] == {}
    assert [seen.headers["Authorization"] for seen in site.seen] == ["Bearer 1", "Bearer 2", "Bearer 3"]
    assert {seen.headers["X-For"] for seen in site.seen} == {f"POST {site.url}"}
    assert access.log == ["a", (401, ["Basic", "Bearer"], True), "a", (401, ["Basic", "Bearer"], True), None]


async def test_a_refusal_that_stands_is_the_reply():
    """With the status, and what helps."""
    reply, site = await one(9, Access(refusals=0))
    assert reply["error"]["code"] == 401
    assert "antiphon login" in reply["error"]["message"]
    assert len(site.seen) == 1


async def test_what_is_known_of_a_refusal_is_said():
    """In place of a general remedy."""
    reply, _ = await one(9, Access(refusals=0, why="it wants the scope x"))
    assert reply["error"]["message"].endswith("answered HTTP 401: it wants the scope x")


async def test_an_error_of_the_sign_in_is_the_reply():
    """The request was not carried out, and the caller is told why."""
    reply, _ = await one(9, Access(error=Unauthorized("the person said no")))
    assert reply["error"]["code"] == 401
    assert "the person said no" in reply["error"]["message"]


@pytest.mark.parametrize(
    ("error", "code"), [(Unauthorized("the login is over"), 401), (ConfigError("x/logins: is damaged"), UNUSABLE)]
)
async def test_a_login_that_cannot_be_read_is_the_reply(error, code):
    """Nothing was sent, and the caller is told why."""

    class Broken(Entry):
        async def headers(self, method, url):
            raise error

    access = Access()
    access.begin = lambda: Broken([])
    reply, site = await one(1, access)
    assert reply["error"]["code"] == code
    assert error.args[0] in reply["error"]["message"]
    assert site.seen == []


async def test_what_is_wrong_with_kept_logins_is_said_after_a_refusal_too():
    """A file that is damaged is no failure of the server's."""
    reply, _ = await one(9, Access(error=ConfigError("x/logins: is damaged")))
    assert reply["error"]["code"] == UNUSABLE
    assert "x/logins: is damaged" in reply["error"]["message"]


async def test_deadlines_stand_still_only_while_it_takes_its_time():
    """Not while a request is on its way."""
    log = []

    @contextmanager
    def pause():
        log.append("stopped")
        yield
        log.append("on")

    await one(3, Access(refusals=2), pause=pause)
    assert log == ["stopped", "on"] * 2


async def test_a_notification_asks_nobody_to_sign_in():
    """Nobody waits for it: the next request will ask."""
    access = Access(refusals=1)
    async with serving(refusing(2)) as site:
        channel = await HttpClientChannel.open(Dial(url=site.url, access=access))
        channel.send(tell("notifications/cancelled", requestId=5, reason="x"))
        await site.until(lambda seen: seen.headers["Authorization"] == "Bearer 2")
        await channel.close()
    assert (401, ["Basic", "Bearer"], False) in access.log


async def test_the_rest_of_a_broken_stream_asks_to_sign_in():
    """A call waits for it; the token may have expired meanwhile."""
    access = Access(refusals=1)

    async def answers(request, seen):
        if seen.method == "POST":
            return await stream(request, event(None, id="1", retry=1))
        if seen.headers["Authorization"] == "Bearer 1":
            return web.Response(status=401, headers={"WWW-Authenticate": "Bearer"})
        return await stream(request, event({"jsonrpc": "2.0", "id": 1, "result": {}}))

    async with serving(answers) as site:
        channel = await HttpClientChannel.open(Dial(url=site.url, access=access))
        channel.send(ask(1))
        (reply,) = await receive(channel)
        await channel.close()
    assert reply["result"] == {}
    assert (401, ["Bearer"], True) in access.log


async def test_headers_are_made_for_the_address_a_redirect_leads_to():
    """A proof is for one address."""

    async def answers(request, seen):
        if seen.path == "/mcp":
            return web.Response(status=307, headers={"Location": "/mcp/"})
        return result(seen.body["id"])

    async with serving(answers) as site:
        channel = await HttpClientChannel.open(Dial(url=site.url, access=Access()))
        channel.send(ask(1))
        await receive(channel)
        await channel.close()
    assert [seen.headers["X-For"] for seen in site.seen] == [f"POST {site.url}", f"POST {site.url}/"]
