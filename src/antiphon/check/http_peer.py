"""A raw connection over Streamable HTTP: one POST for each message, redirects not followed, every header as it came."""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import aiohttp
import msgspec
from yarl import URL

from antiphon.auth.challenge import oauth_challenge, read_challenges
from antiphon.auth.client.discovery import resource_places
from antiphon.check.check_rules import Probe, excerpt_of, get_probes, read_list, read_object
from antiphon.check.raw_peer import MAX_BYTES, QUIET, IsDone, Json, RawPeer
from antiphon.errors import RemoteProtocolError
from antiphon.machine.asyncio_tasks import end_tasks
from antiphon.machine.loopback import is_loopback
from antiphon.machine.running_processes import list_listeners
from antiphon.protocol.http.param_headers import NAMED_BY, encode_value
from antiphon.protocol.http.sse import EventParser
from antiphon.transports.http.client.error_replies import HttpFailure
from antiphon.transports.http.client.http_request import describe_error, read_body
from antiphon.wire.envelope import encode_value as encode_json

_SESSION = "mcp-session-id"


@dataclass(kw_only=True)
class HttpPeer(RawPeer):
    """A connection to a URL; ``headers``, in lower case, go with every request."""

    url: str
    session: aiohttp.ClientSession
    headers: Mapping[str, str]
    last: Json = field(default_factory=lambda: {"status": 0})
    """The latest response to a POST: ``status`` (0: none, -1: none in time), ``type``, ``text``, ``headers``."""
    session_id: str = ""
    event_id: str = ""  # of the first event that had one

    def _make_headers(self, message: object) -> dict[str, str]:
        found = {"content-type": "application/json", "accept": "application/json, text/event-stream", **self.headers}
        request = read_object(message)
        method = request.get("method")
        if method != "initialize":
            found |= {_SESSION: self.session_id} if self.session_id else {}
            found["mcp-protocol-version"] = self.revision.name
        if self.revision.modern and isinstance(method, str):
            found["mcp-method"] = method
            named = read_object(request.get("params")).get(NAMED_BY.get(method, ""))
            if isinstance(named, str):
                found["mcp-name"] = encode_value(named)
        return found

    async def exchange(self, messages: Sequence[object], is_done: IsDone = None) -> None:
        """Post messages, and take what their responses bring; notes a response that is no reply."""
        for message in messages:
            answer = await self._request("POST", self._make_headers(message), message, is_done)
            if is_done is None:
                continue
            self.last, status = answer, answer["status"]
            if is_done():
                continue
            if status == 0:
                self.ended = answer["text"]
            elif 300 <= status < 400:
                self.ended = f"redirected to {answer['headers'].get('location', 'nowhere')}"
                self.note_unreadable("http.redirect", self.ended)
            elif 200 <= status < 300 and answer["type"] not in ("application/json", "text/event-stream"):
                self.note_unreadable("http.content-type", _show_response(answer))
            elif status >= 400:
                # The specification lets a server refuse a POST with a status alone, which has no code of JSON-RPC.
                for each in read_list(message) or [read_object(message)]:
                    self.take_reply({"id": each.get("id"), "error": {"code": 0, "message": _show_response(answer)}})

    async def _request(
        self, verb: str, headers: Mapping[str, str], message: object = None, is_done: IsDone = None, url: str = ""
    ) -> Json:
        """Send a request and return its response; its messages are taken until ``is_done``. Never raises."""
        data = message if isinstance(message, bytes) else b"" if message is None else encode_json(message)
        body = io.BytesIO(data) if data else None
        sent = self.session.request(verb, url or self.url, data=body, headers=headers, allow_redirects=False)
        found: Json = {"status": 0, "type": "", "text": "", "headers": {}}
        try:
            async with asyncio.timeout(self.wait), sent as response:
                known = {name.lower(): value for name, value in response.headers.items()}
                kind = known.get("content-type", "").partition(";")[0].strip().lower()
                found = {"status": response.status, "type": kind, "text": "", "headers": known}
                if kind == "text/event-stream":
                    await self._read_events(response, is_done)
                    return found
                raw = await read_body(response, MAX_BYTES)
                if is_done is not None and raw.strip() and kind == "application/json":
                    self.take(raw)
                return {**found, "text": excerpt_of(raw), "body": raw}
        except TimeoutError:
            return {**found, "status": -1, "text": f"no response within {self.wait:g} s"}
        except (aiohttp.ClientError, OSError) as error:
            return {**found, "status": 0, "text": describe_error(error)}
        except (HttpFailure, RemoteProtocolError, ValueError) as error:
            return {**found, "status": 0, "text": str(error)}

    async def _read_events(self, response: aiohttp.ClientResponse, is_done: IsDone) -> None:
        parser = EventParser()
        while is_done is not None and not response.content.at_eof() and not self.ended and not is_done():
            for event in parser.feed(await response.content.readany()):
                self.event_id = self.event_id or event.id or ""
                if event.data.strip() and event.event == "message":
                    self.take(event.data)

    async def abandon(self, request: Json, notification: Json) -> None:
        """Send a request and cancel it: from 2026-07-28 on by closing its stream, before by a notification."""
        sent = asyncio.create_task(self._request("POST", self._make_headers(request), request, lambda: False))
        await asyncio.wait([sent], timeout=QUIET)
        if not self.revision.modern:
            await self.exchange([notification])
            await asyncio.wait([sent], timeout=QUIET)
        await end_tasks(sent)

    async def notify(self, method: str, params: Mapping[str, object]) -> None:
        """Send a notification; the first one follows the response that has opened the session."""
        if method == "notifications/initialized":
            self.session_id = self.last["headers"].get(_SESSION, "")
            self.examine("session", {"id": self.session_id} if self.session_id else {}, "initialize: Mcp-Session-Id")
        await super().notify(method, params)

    async def try_transport(self) -> None:
        """Try headers, statuses, other origins, and the end of the session."""
        is_local = is_loopback(URL(self.url).host or "")
        there = {"", *self.capabilities, "session" if self.session_id else "", "local" if is_local else ""}
        there |= {"events"} if self.event_id else set()
        for probe in get_probes("http", self.revision):
            if self.ended or probe.needs not in there:
                continue
            answer = await self._try_probe(probe)
            place = probe.place or f"POST with {', '.join(f'{name}: {value}' for name, value in probe.headers.items())}"
            if answer["status"] > 0:
                value = {**answer, "body": "", "isLocal": is_local}
                self.examine(f"http:{probe.name}", value, place, seen=_show_response(answer))
            if probe.method == "DELETE" and 200 <= answer["status"] < 300:
                there = {"ended"}
        self.session_id = "" if there == {"ended"} else self.session_id

    async def _try_probe(self, probe: Probe) -> Json:
        message: object = probe.raw.encode() or None
        if probe.method == "opening":
            message = self.make_opening()
        elif probe.method.startswith("notifications/"):
            message = {"jsonrpc": "2.0", "method": probe.method, "params": probe.params}
        elif not probe.raw and probe.method not in ("GET", "DELETE"):
            message = self.make_request(probe.method, probe.params)
        headers = {**self._make_headers(message), **probe.headers}
        kept = {name: value.replace("{event}", self.event_id) for name, value in headers.items() if value}
        answer = await self._request("POST" if message is not None else probe.method, kept, message)
        if probe.method == "opening" and (opened := answer["headers"].get(_SESSION)):
            if opened == self.session_id:
                self.note("http.session-shared", "initialize: Mcp-Session-Id of two sessions", opened)
            else:
                await self._request("DELETE", {**self.headers, _SESSION: opened})
        return answer

    async def explain_refusal(self) -> str:
        """Examine what a server that wants a token says of signing in; nothing is fetched from another host."""
        if self.last["status"] != 401:
            # A server that was reached and stays silent is a finding.
            return excerpt_of(self.ended) if self.last["status"] == 0 or 300 <= self.last["status"] < 400 else ""
        challenge = oauth_challenge(read_challenges([self.last["headers"].get("www-authenticate", "")]))
        places = resource_places(URL(self.url), None if challenge is None else challenge.resource_metadata)
        for place in [one for one in places if one.startswith(f"{URL(self.url).origin()}/")]:
            answer = await self._request("GET", {"accept": "application/json"}, url=place)
            if answer["status"] == 200:
                with suppress(msgspec.DecodeError, RecursionError):
                    self.examine("metadata", msgspec.json.decode(answer["body"]), f"GET {place}")
                break
        else:
            self.note("auth.challenge", "POST: WWW-Authenticate", _show_response(self.last))
        return "it wants a token: give one with --header 'Authorization: Bearer ...'"

    def list_processes(self) -> list[int]:
        """Return the processes that listen at the address, if it is on this machine."""
        url = URL(self.url)
        found = list_listeners(url.port or 0) if is_loopback(url.host or "") else []
        return [pid for pid in found if pid != os.getpid()]

    async def close(self) -> None:
        """End the session, where there is one."""
        if self.session_id:
            await self._request("DELETE", {**self.headers, _SESSION: self.session_id})


def _show_response(answer: Json) -> str:
    return f"HTTP {answer['status']} {answer['type']} {answer['text']}".strip()
