"""A check of a client: each trial starts it with the address of a server that is right but for what the trial says.

Owns what is examined of each request, header and answer of a client; ``rules/90-trials.toml`` has the trials.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec
from aiohttp import web
from aiohttp.test_utils import RawTestServer

from antiphon.check.check_report import CheckReport, add_fault
from antiphon.check.check_rules import Probe, excerpt_of, find_faults, read_object, read_rules
from antiphon.check.checkup import START_WAIT, examine_launch
from antiphon.check.raw_peer import MAX_MESSAGES, QUIET, Json
from antiphon.client.connection.isolation import isolate_command
from antiphon.client.connection.targets import Command
from antiphon.protocol.http.param_headers import NAMED_BY
from antiphon.protocol.http.sse import encode_event
from antiphon.transports.stdio.client import StdioClientChannel
from antiphon.wire.common import CLIENT_CAPABILITIES, PROTOCOL_VERSION
from antiphon.wire.envelope import encode_value
from antiphon.wire.revisions import Revision, find_revision

TRIAL_WAIT, SETTLE = 60.0, 2.0
"""Most seconds for one trial; and seconds of silence after which a client that never ends by itself is ended."""
STATE, TOKEN, EVENT, RETRY = "antiphon-check-state", "antiphon-check-token", "antiphon-check-1", 600
"""What is to come back; what no other origin may get; the event after which a stream is cut, and for how many ms."""
_SESSION, _PIPED = "mcp-session-id", "antiphon-check-piped"


@dataclass(kw_only=True)
class TrialServer:
    """One trial of a client, from its start to its end."""

    trial: Probe
    report: CheckReport
    wait: float  # most seconds for the answer to one ask
    revision: Revision | None = None
    counts: Counter[str] = field(default_factory=Counter[str])  # of what 90-trials.toml names
    _heard: float = 0.0  # when the client was last heard, in seconds of the event loop
    _elsewhere: str = ""  # the address of another origin
    _declares: Json = field(default_factory=dict[str, Any])
    _ids: set[str] = field(default_factory=set[str])
    _asked: dict[str, asyncio.Future[Json]] = field(default_factory=dict[str, "asyncio.Future[Json]"])
    _cut: tuple[float, Json] | None = None

    async def run(self, command: Command, patience: float, *, ends: bool) -> tuple[str, str]:
        """Run the client until it ends, is silent, or is busy for too long; return which, and its standard error."""
        loop, how = asyncio.get_running_loop(), "silent"
        until, self._heard = loop.time() + TRIAL_WAIT, loop.time() + START_WAIT
        async with RawTestServer(self._handle) as here, RawTestServer(self._handle_elsewhere) as other:
            self._elsewhere, address = str(other.make_url("/mcp")), here.make_url("/mcp")
            line = [sys.executable, "-ISc", read_rules().relay, address.authority]
            entry = encode_value({"command": line[0], "args": line[1:]}).decode()
            given = {"SERVER": entry, "URL": str(address), "TOKEN": TOKEN}
            argv = [each for word in command.argv for each in (line if word == "{server}" else [word])]
            for name, value in given.items():
                argv = [word.replace(f"{{{name.lower()}}}", value) for word in argv]
            env = {**(command.env or {}), **{f"ANTIPHON_CHECK_{name}": value for name, value in given.items()}}
            channel = await StdioClientChannel.spawn(argv, env=env, grace=QUIET)
            try:
                while how == "silent" and (left := min(self._heard + patience, until) - loop.time()) > 0:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(min(left, QUIET)):
                            how = "silent" if await channel.receive() else "ended"
            finally:
                await channel.close()
        how = "busy" if how == "silent" and self._heard + patience > until else how
        silent = [name for name, reply in self._asked.items() if not reply.done() or reply.cancelled()]
        if self.counts["reached"]:
            about = {**self.counts, "silent": silent, "how": how if ends else "", "code": channel.returncode or 0}
            self._examine(f"trial:{self.trial.name}", about, self.trial.place)
        elif self.counts["spoken"]:
            add_fault(self.report, "client.unreached", self.trial.place, f"no {self.trial.method} was sent")
        return how, channel.stderr

    def _examine(self, kind: str, value: object, place: str, *, seen: object = None) -> None:
        """Apply the rules of a kind; ``seen`` is shown in place of the part that is wrong."""
        for rule, path, part in find_faults(kind, value, self.revision):
            where, shown = (f"{place}: {path}", part) if seen is None and path else (place, seen or part)
            add_fault(self.report, rule, where, shown, self.revision.name if self.revision else "")

    async def _handle_elsewhere(self, request: web.BaseRequest) -> web.StreamResponse:
        """Count a request that has come to the other origin."""
        self.counts.update(elsewhere=1, leaked=int(TOKEN in str(request.headers)))
        return web.Response(status=404)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Serve one HTTP request; there is no stream to GET but one that was cut."""
        headers = {name.lower(): value for name, value in request.headers.items()}
        self._heard = asyncio.get_running_loop().time()
        if request.method == "GET" and self._cut is not None:
            (began, message), self._cut = self._cut, None
            is_right, waited = headers.get("last-event-id") == EVENT, int(1000 * (self._heard - began))
            self.counts.update(resumed=int(is_right), waited=waited)
            return await self._stream(request, message, {})
        if request.method != "POST" or self.counts["all"] > MAX_MESSAGES:
            return web.Response(status=405)
        message = self._take(await request.read(), headers)
        is_request = isinstance(message.get("method"), str) and "id" in message
        return await self._respond(request, message, headers) if is_request else web.Response(status=202)

    def _take(self, data: bytes, headers: Json) -> Json:
        """Examine a message, and keep an answer; return the message, or an empty object if it is none."""
        try:
            found: object = msgspec.json.decode(data)
        except (msgspec.DecodeError, RecursionError):
            found = data.decode(errors="replace")
        message = read_object(found)
        method, params = str(message.get("method", "an answer")), read_object(message.get("params"))
        key, is_request = f"{headers.get(_PIPED)} {message.get('id')!r}"[:99], {"method", "id"} <= message.keys()
        is_new = not is_request or key not in self._ids or method == "initialize"
        if is_request:
            self._ids = {key} if method == "initialize" else {*self._ids, key}
            self._agree(method, params)
        elif (asked := self._asked.get(str(message.get("id")))) and not asked.done():
            asked.set_result(message)
        again = " again" if is_request and self.counts["reached"] else ""
        counted = f"{method}{again}" if method in ("initialize", "notifications/initialized") else "others"
        self.counts.update([counted, "all", *["after"] * bool(again), *["wrong"] * (params.get("name") == "wrong")])
        revision = headers.get("mcp-protocol-version")
        about = {
            "message": found, "headers": headers, "isNew": is_new,
            "isRevision": method == "initialize" or self.revision is None or revision == self.revision.name,
            "isMethod": headers.get("mcp-method") == message.get("method") or method == "initialize",
            "isName": headers.get("mcp-name") == params.get(NAMED_BY.get(method, "")),
        }  # fmt: skip
        if _PIPED in headers:
            about = {"message": found, "isNew": is_new}
        shown = {name: headers[name] for name in headers if name == "accept" or name.startswith("mcp-")}
        self._examine("sent", about, method, seen={**shown, "message": found})
        return message

    def _agree(self, method: str, params: Json) -> None:
        """Agree to a revision, as ``initialize`` offers it or the metadata of another request state it."""
        stated, speaks = read_object(params.get("_meta")), self.trial.speaks
        version, declared = stated.get(PROTOCOL_VERSION), stated.get(CLIENT_CAPABILITIES)
        if method == "initialize":
            version, declared = params.get("protocolVersion"), params.get("capabilities")
            version = version if version in speaks else speaks[-1]
        if method == "initialize" or version is not None:
            self.revision = find_revision(version) if version in speaks else None
            self._declares = read_object(declared)
        if self.revision is not None and method not in ("initialize", "server/discover"):
            self.counts["spoken"] += 1
            self.report.revisions = sorted({*self.report.revisions, self.revision.name})

    async def _respond(self, request: web.BaseRequest, message: Json, headers: Json) -> web.StreamResponse:
        method, is_opening = message["method"], message["method"] == "initialize"
        is_spoken = is_opening or self.revision is not None
        is_meant = is_spoken and method == self.trial.method and not self.counts["reached"]
        self.counts["reached"] += is_meant
        deed = self.trial.deed if is_meant else ""
        if deed == "gone":
            return web.Response(status=410)
        if deed == "redirect":
            return web.Response(status=307, headers={"Location": self._elsewhere})
        if deed == "cut":
            self._cut = (self._heard, message)
            return web.Response(body=encode_event(b"", id=EVENT, retry=RETRY), content_type="text/event-stream")
        session = f"antiphon-check-{self.counts['initialize']}-"
        if self.trial.deed == "lost" and self.counts["reached"] and headers.get(_SESSION) == f"{session}0":
            # What is on its way together with the first such request is no fault.
            self.counts["dead"] += self.counts["lost"]
            await asyncio.sleep(QUIET if is_meant else 0)
            self.counts["lost"] = 1
            return web.Response(status=404)
        kept = {_SESSION: f"{session}{self.counts['initialize again']}"} if is_opening else {}
        if is_meant:
            return await self._stream(request, message, kept)
        reply = self._serve(message, {})
        is_unknown = "error" in reply and self.revision is not None and self.revision.modern
        return web.json_response(reply, headers=kept, status=404 if is_unknown else 200)

    async def _stream(self, request: web.BaseRequest, message: Json, headers: Json) -> web.StreamResponse:
        """Send what the trial sends and asks before the reply, and the reply as often as it says."""
        stream = web.StreamResponse(headers={**headers, "Content-Type": "text/event-stream"})
        with suppress(OSError):
            await stream.prepare(request)
            for head, unit, count, tail in self.trial.sends:
                await stream.write(encode_event((head + unit * count + tail).encode("latin-1")))
            for ask in self.trial.asks if self.revision and not self.revision.modern else ():
                self._asked[ask.name] = asked = asyncio.get_running_loop().create_future()
                sent = {"jsonrpc": "2.0", "id": ask.name, "method": ask.method, "params": ask.params}
                await stream.write(encode_event(encode_value(sent)))
                with suppress(TimeoutError):
                    about = {**await asyncio.wait_for(asked, self.wait), "isDeclared": ask.needs in self._declares}
                    self._examine(f"answer:{ask.name}", about, f"the answer to {ask.method}")
            reply = self._serve(message, self.trial.result)
            for _ in range(self.trial.replies):
                await stream.write(encode_event(encode_value(reply)))
        return stream

    def _serve(self, request: Json, members: Mapping[str, Any]) -> Json:
        """Return the reply to a request; ``members`` replace those of its result."""
        reply: Json = {"jsonrpc": "2.0", "id": request["id"]}
        method, params = str(request["method"]), read_object(request.get("params"))
        is_modern = self.revision is not None and self.revision.modern
        result = {**read_rules().results.get(method, {"error": "unknown"})}
        is_other = method in ("initialize", "ping") if is_modern else method == "server/discover"
        if "error" in result or is_other or (self.revision is None and method != "initialize"):
            return {**reply, "error": {"code": -32601, "message": "not offered by antiphon check"}}
        if is_modern:
            result |= {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        if method == "initialize":
            result["protocolVersion"] = self.revision.name if self.revision else self.trial.speaks[-1]
        elif method == "tools/list":
            self.counts["pages"] += 1
            result["tools"] = result["tools"] * self.trial.copies
            if self.counts["pages"] < self.trial.pages:
                result["nextCursor"] = self.trial.cursor.replace("*", str(self.counts["pages"]))
        elif method == "tools/call" and is_modern:
            asks = [ask for ask in self.trial.asks if ask.needs in self._declares]
            wanted = {ask.name: {"method": ask.method, "params": ask.params} for ask in asks}
            if "inputResponses" in params:
                self._examine("round", {"params": params, "declared": self._declares}, method)
            elif wanted:
                result |= {"resultType": "input_required", "inputRequests": wanted, "requestState": STATE}
        return {**reply, "result": {**result, **members}}


async def check_client(command: Sequence[str], *, timeout: float = 10.0) -> CheckReport:
    """Check a client by starting it against servers that try it, one after another, and return a report.

    ``{url}`` and ``{token}`` in its command, and its environment, have an address and an access token. ``{server}`` has
    it tried over stdio: as a word it becomes the command line of a server, within a word the entry of a configuration.
    It is to list the tools there, call each, and end. ``timeout``: seconds for one answer, and of silence after which
    it is ended. Raises ``ConfigError`` if there is no such program; whatever else the client does becomes a finding.
    """
    report = CheckReport(target=examine_launch(command, network=True).target, is_client=True)
    over = "stdio" if any("{server}" in word for word in command) else "http"
    ends, said = True, ""
    with isolate_command(Command(argv=command)) as housed:
        for trial in [one for one in read_rules().trial if one.over in ("", over)]:
            server = TrialServer(trial=trial, report=report, wait=timeout)
            how, said = await server.run(housed, timeout if ends else SETTLE, ends=ends)
            # In the first trial the server is right: of a program that does not end then, silence says nothing.
            ends = ends and (how == "ended" or trial.name != "asks")
    if not report.revisions:
        report.problem = excerpt_of(f"it opened no session, and said: {said[-300:] or 'nothing'}")
    return report
