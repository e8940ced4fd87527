"""A raw connection over Streamable HTTP: one POST for each message, redirects not followed, every header as it came."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Mapping
from typing import Any, cast

import aiohttp
from msgspec import Struct

from antiphon.check.findings import excerpt_of
from antiphon.check.peer import Json, RawPeer, Report, key_of
from antiphon.errors import RemoteProtocolError
from antiphon.protocol.http.param_headers import NAMED_BY
from antiphon.protocol.http.param_headers import encode_value as encode_header
from antiphon.protocol.http.sse import EventParser
from antiphon.transports.http.client.http_request import HttpFailure, describe_error, read_body
from antiphon.wire.envelope import encode_value
from antiphon.wire.revisions import Revision

MAX_BODY = 32 * 1024 * 1024
"""Most bytes of one response: two of the largest frames."""
ACCEPT = "application/json, text/event-stream"


class HttpAnswer(Struct, frozen=True):
    """A response as it came; ``status`` 0 if there was none, and ``text`` says why."""

    status: int
    headers: Mapping[str, str] = {}
    text: str = ""
    body: bytes = b""

    @property
    def kind(self) -> str:
        """Its media type, without parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    def __str__(self) -> str:
        return f"HTTP {self.status} {self.kind} {self.text}".strip() if self.status else self.text


class HttpPeer(RawPeer):
    """A connection to a URL; ``headers`` go with every request."""

    def __init__(
        self,
        url: str,
        session: aiohttp.ClientSession,
        revision: Revision,
        report: Report,
        *,
        wait: float,
        declares: Mapping[str, Any],
        headers: Mapping[str, str],
    ) -> None:
        super().__init__(revision, report, wait=wait, declares=declares)
        self.url = url
        self.session = session
        self.headers = headers
        self.session_id = ""
        self.last = HttpAnswer(0)
        """The latest response to a POST."""
        self._event_ids: set[str] = set()

    def headers_for(self, message: object) -> dict[str, str]:
        """Return the headers that go with a message."""
        found = {"content-type": "application/json", "accept": ACCEPT, **self.headers}
        if self.session_id:
            found["mcp-session-id"] = self.session_id
        request = cast("Json", message) if isinstance(message, dict) else {}
        method = request.get("method")
        if method != "initialize":
            found["mcp-protocol-version"] = self.revision.name
        if self.revision.modern and isinstance(method, str):
            found["mcp-method"] = method
            named = request.get("params", {}).get(NAMED_BY.get(method, ""))
            if isinstance(named, str):
                found["mcp-name"] = encode_header(named)
        return found

    async def exchange(self, message: object, is_done: Callable[[], bool]) -> None:
        """Post a message, and take what its response brings; reports a response that is no reply."""
        answer = await self.post(message, is_done=is_done)
        if not is_done():
            self.place = f"{self.place} ({answer})" if not self.ended else self.place
            if 300 <= answer.status < 400:
                self.report("http.redirect", "POST", f"{answer} location: {answer.headers.get('location', '')}")
                self.ended = f"redirected to {answer.headers.get('location', 'nowhere')}"
            elif answer.status == 0:
                self.ended = answer.text
            elif 200 <= answer.status < 300 and answer.kind not in ("application/json", "text/event-stream"):
                self.report("http.content-type", f"POST {self.place}", str(answer))
                self.is_explained = True
            elif 400 <= answer.status < 500:
                # The specification lets a server refuse a POST with a status alone.
                self.reply_by_status(cast("Json", message)["id"], str(answer))

    def reply_by_status(self, id: object, text: str) -> None:
        """Take an HTTP status for the error reply to a request; its code is 0."""
        self.file_reply(key_of(id), {"error": {"code": 0, "message": text}})

    async def send(self, message: object) -> None:
        """Post what has no reply; its response is looked at by ``web_probes``."""
        self.last = await self.post_alone(message)

    async def post(
        self, message: object, *, headers: Mapping[str, str | None] | None = None, is_done: Callable[[], bool] = bool
    ) -> HttpAnswer:
        """Post a message, or bytes as they are, take the messages that come, and return the response.

        ``headers``: replace those that go with every message; ``None`` leaves one out.
        """
        given = {**self.headers_for(message), **(headers or {})}
        chosen = {name: value for name, value in given.items() if value is not None}
        data = message if isinstance(message, bytes) else encode_value(message)
        self.last = await self.request("POST", chosen, data, is_done)
        return self.last

    async def post_alone(self, message: object, *, headers: Mapping[str, str | None] | None = None) -> HttpAnswer:
        """Post a message whose response is looked at as HTTP only, and return it with a bounded piece of its body."""
        given = {**self.headers_for(message), **(headers or {})}
        chosen = {name: value for name, value in given.items() if value is not None}
        data = message if isinstance(message, bytes) else encode_value(message)
        return await self.request("POST", chosen, data, lambda: True, is_message=False)

    async def request(
        self,
        method: str,
        headers: Mapping[str, str],
        data: bytes | None = None,
        is_done: Callable[[], bool] = bool,
        *,
        url: str = "",
        is_message: bool = True,
    ) -> HttpAnswer:
        """Send a request of any method, and return the response; never raises.

        ``is_message``: take the messages in its body.
        """
        try:
            async with (
                asyncio.timeout(self.wait),
                self.session.request(
                    method,
                    url or self.url,
                    data=None if data is None else io.BytesIO(data),
                    headers=headers,
                    allow_redirects=False,
                ) as response,
            ):
                found = HttpAnswer(response.status, {name.lower(): value for name, value in response.headers.items()})
                if found.kind == "text/event-stream":
                    await self._read_events(response, is_done)
                    return found
                body = await read_body(response, MAX_BODY)
                if is_message and body.strip() and found.kind == "application/json":
                    self.take(body)
                return HttpAnswer(found.status, found.headers, excerpt_of(body), body)
        except TimeoutError:
            return HttpAnswer(0, text=f"no response within {self.wait:g} s")
        except (aiohttp.ClientError, OSError) as error:
            return HttpAnswer(0, text=describe_error(error))
        except (HttpFailure, RemoteProtocolError, ValueError) as error:
            return HttpAnswer(0, text=excerpt_of(str(error)))

    async def _read_events(self, response: aiohttp.ClientResponse, is_done: Callable[[], bool]) -> None:
        parser = EventParser()
        while not response.content.at_eof() and not self.ended and not is_done():
            for event in parser.feed(await response.content.readany()):
                if event.id:
                    if event.id in self._event_ids:
                        self.report("http.event-ids", f"POST {self.place}", f"the event id {event.id!r} came twice")
                    self._event_ids.add(event.id)
                if event.data.strip() and event.event == "message":
                    self.take(event.data)

    def answer(self, message: Json) -> None:
        """Leave what a server asks unanswered: every request of ours is about something else."""

    async def close(self) -> None:
        """End the session, where there is one."""
        if self.session_id:
            await self.request("DELETE", self.headers_for(None))
            self.session_id = ""
