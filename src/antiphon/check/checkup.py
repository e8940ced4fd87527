"""A check from its beginning to its end: what is started, on which revisions, in which order, within which bounds.

::

    newest with a handshake -> modern -> older revisions
       each: open -> lists -> definitions -> calls -> probes -> those of the transport -> close
       the newest of each kind: a second session, and probes that need a connection of their own
"""

from __future__ import annotations

import asyncio
import re
import shlex
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec import structs

from antiphon.check import server_lists
from antiphon.check.check_report import CheckReport, add_fault
from antiphon.check.check_rules import PlayedClient, Probe, excerpt_of, find_faults, get_probes, read_object, read_rules
from antiphon.check.raw_peer import CLIENT, QUIET, ChannelPeer, Json, Note, RawPeer, Usual
from antiphon.client.connection.isolation import ALONE, MISSED, NetworkNamespace, describe_network, isolate_command
from antiphon.client.connection.targets import Address, Command, Serves, Target, locate_target, open_channel
from antiphon.errors import AntiphonError, ConfigError
from antiphon.host.checks.redact import find_secrets, names_password
from antiphon.identity import launch_of
from antiphon.machine.asyncio_tasks import end_tasks, wait_at_most
from antiphon.machine.loopback import is_loopback
from antiphon.machine.running_processes import MAX_GROWTH, find_growth
from antiphon.transports.stdio.client import GRACE, StdioClientChannel
from antiphon.wire.revisions import REVISIONS, Revision, find_revision

START_WAIT, MODERN_WAIT, TOTAL_WAIT, MEMORY_WAIT = 60.0, 3.0, 180.0, 3.0
"""Most seconds for the first answer, since a package may be fetched before; for that of a server that may ignore an
unknown revision; for all revisions together; and for the requests after which its memory is measured."""
SLOW_START = 10.0  # seconds: the least patient hosts wait no longer by default
_OPTION = re.compile(r"(?<=-)(\w[\w-]*)[= ](\S+)")
_EVERYTHING: Json = {"sampling": {}, "elicitation": {}, "roots": {"listChanged": True}}


@dataclass
class Checkup:
    """One server while it is checked; ``check_server`` says what each option means."""

    where: Serves | Command | Address
    report: CheckReport
    calls: Mapping[str, Mapping[str, Any]]
    wait: float
    revision: str
    previous: Mapping[str, str]
    client: PlayedClient | None = None
    alone: NetworkNamespace | None = None  # in which its processes run, if they do not get the network of this machine
    grace: float = GRACE  # seconds for the end of a process: as many as hosts give only for the first one
    usual: Sequence[Usual] = (("ping", {}),)  # requests that are allowed: a list, and a call
    slowness: float = 0.0  # seconds until the first answer: a server that starts slowly does so each time
    is_oldest: bool = False  # whether the server at this address speaks HTTP+SSE, and not Streamable HTTP

    @asynccontextmanager
    async def _connect(self, revision: Revision, note: Note, declares: Json | None = None) -> AsyncGenerator[RawPeer]:
        """Connect once more, for as long as the context lasts; raises ``AntiphonError`` if that cannot be."""
        given: Json = {"revision": revision, "note": note, "declares": declares or {}, "info": CLIENT}
        given["wait"] = self.wait + 2 * self.slowness
        if self.client and revision.name in self.client.revisions:
            given |= {"declares": self.client.declares, "info": self.client.info}
        where = self.where
        async with AsyncExitStack() as stack:
            if isinstance(where, Address) and where.url.startswith("http") and not self.is_oldest:
                # Imported here, because most servers are programs.
                from antiphon.check.http_peer import HttpPeer
                from antiphon.transports.http.client.http_request import new_session

                headers = {name.lower(): value for name, value in (where.headers or {}).items()}
                new = new_session(ssl=where.ssl, proxy=where.proxy, trust_env=True)
                session = await stack.enter_async_context(new)
                peer: RawPeer = HttpPeer(url=where.url, session=session, headers=headers, **given)
            elif isinstance(where, Command):
                told: Json = {"env": where.env, "cwd": where.cwd, "grace": self.grace, "name": self.report.target}
                channel = await StdioClientChannel.spawn(where.argv, **told)
                peer = ChannelPeer(channel=channel, is_first=self.grace == GRACE, **given)
                self.grace = QUIET
            else:
                opened = await open_channel(where, oldest=self.is_oldest)
                stack.push_async_callback(end_tasks, opened.serving)
                peer = ChannelPeer(channel=opened.channel, **given)
            stack.push_async_callback(peer.close)
            yield peer

    async def run(self) -> None:
        """Check the server on every revision that it speaks: the newest with a handshake first, as most clients do."""
        *older, newest = (one for one in REVISIONS if not one.modern)
        order = [newest, *(one for one in REVISIONS if one.modern), *reversed(older)]
        answers = False
        for at, revision in enumerate(one for one in order if self.revision in ("auto", one.name)):
            # Of a server that did not even answer with an error, only the newest revision is tried besides.
            if at == 0 or answers or (revision.modern and not self.report.problem):
                answers = await self._check_revision(revision, is_first=at == 0) or answers
        self.report.revisions.sort()
        if not self.report.revisions and not self.report.problem and not self.report.errors:
            add_fault(self.report, "handshake.none", "initialize", "every revision was refused")
        if self.client and self.report.revisions and not {*self.client.revisions} & {*self.report.revisions}:
            add_fault(self.report, "as.revision", self.client.title, self.report.revisions)
        missing = [name for name in self.calls if f"tools {name:.200}" not in self.report.definitions]
        if missing and self.report.revisions and not self.report.problem:
            self.report.problem = excerpt_of(f"it has no tool {', '.join(missing)}, which was to be called")

    async def _check_revision(self, revision: Revision, *, is_first: bool) -> bool:
        """Check one revision if the server speaks it; return whether the server has answered at all."""
        held: list[tuple[str, str, object]] = []
        note: Note = partial(add_fault, self.report, revision=revision.name)
        try:
            # Only older revisions are offered everything: some servers list more to a client that can be asked.
            given = None if is_first or revision.modern else _EVERYTHING
            async with self._connect(revision, lambda rule, at, seen: held.append((rule, at, seen)), given) as peer:
                wait = min(self.wait, MODERN_WAIT) if revision.modern else self.wait
                peer.wait = START_WAIT if is_first else wait + 2 * self.slowness
                speaks = await _open_session(peer, is_first=is_first)
                self.slowness = peer.took if speaks and is_first else self.slowness
                peer.wait = self.wait
                if is_first and not speaks and not peer.ended and await self._find_stream(note):
                    return await self._check_revision(revision, is_first=True)
                if is_first and not speaks:
                    self.report.problem = await peer.explain_refusal()
                    if self.alone is not None and "handshake.none" in [rule for rule, *_ in held]:
                        self.report.problem = excerpt_of(self.alone.explain_silence(getattr(peer, "channel", None)))
                for rule, at, seen in held if speaks or is_first else ():
                    # What was wrong on a revision that the server does not speak says nothing.
                    has_missed = rule == "handshake.none" and self.report.problem == MISSED
                    if has_missed or rule != "handshake.none" or not self.report.problem:
                        note("start.network" if has_missed else rule, at, seen)
                if not speaks:
                    return not peer.ended
                peer.note = note
                lists = await self._examine_session(peer)
            if revision.name == max(self.report.revisions):
                await self._connect_again(revision, note, lists)
        except AntiphonError as error:
            if is_first or isinstance(error, ConfigError):
                self.report.problem = self.report.problem or excerpt_of(str(error))
            return False
        return True

    async def _find_stream(self, note: Note) -> bool:
        """Find out whether a server that has refused a POST speaks HTTP+SSE, and remember it."""
        if isinstance(self.where, Address) and self.where.url.startswith("http") and not self.is_oldest:
            with suppress(AntiphonError):
                await (await open_channel(self.where, oldest=True)).channel.close()
                self.is_oldest = True
                note("http.oldest", "POST", "refused, and a GET opens a stream that names another address")
                return True
        return False

    async def _examine_session(self, peer: RawPeer) -> server_lists.Definitions:
        self.report.revisions.append(peer.revision.name)
        peer.examine("text", {name: peer.opening.get(name) for name in ("serverInfo", "instructions")}, "opening")
        lists = await server_lists.read_lists(peer)
        found = server_lists.examine_definitions(peer, lists)
        self._play_client(peer, lists)
        if not self.report.definitions:
            self.report.definitions = found
            for name in self.previous.keys() & found.keys():
                if self.previous[name] != found[name]:
                    peer.note("deception.changed", name, f"{self.previous[name]}, now {found[name]}")
        await server_lists.call_tools(peer, lists, self.calls)
        self.usual = peer.usual
        for probe in get_probes("probe", peer.revision):
            # Over HTTP, what is no JSON is refused by a status.
            is_meant = not probe.is_fresh and not (probe.raw and (self.is_oldest or type(peer) is not ChannelPeer))
            there = {"", *peer.capabilities, "" if peer.counts["silent"] else "answers"}
            if is_meant and not peer.ended and probe.needs in there:
                await _try_probe(peer, probe)
        await peer.try_transport()
        return lists

    def _play_client(self, peer: RawPeer, lists: server_lists.Definitions) -> None:
        """Examine what the host that is played would lose of the server, on a revision that it asks for."""
        if self.client and peer.revision.name in self.client.revisions:
            about: Json = {name: len(lists.get(name, [])) for name in ("prompts", "resources")}
            about["tools"] = lists.get("tools", [])[: server_lists.MAX_ITEMS]
            about["instructions"] = peer.opening.get("instructions") or ""
            peer.examine(f"as:{self.client.name}", about, f"{self.client.title}:")

    async def _connect_again(self, revision: Revision, note: Note, first: server_lists.Definitions) -> None:
        """Open a second session, which is to get the same lists; then try what needs a connection of its own."""
        async with self._connect(revision, note) as peer:
            is_open = await _open_session(peer, is_first=False)
            if is_open and peer.took > SLOW_START and isinstance(self.where, Command):
                # The first start may have included the download of a package.
                note("start.slow", "a second start", f"{peer.took:.1f} s until the first answer")
            if not is_open:
                note("session.second", "a second session", peer.ended or "refused")
            elif (second := await server_lists.read_lists(peer)) != first and not peer.ended:
                differing = [member for member, items in first.items() if items != second.get(member)]
                note("list.unstable", f"{', '.join(differing)} of two sessions", "the two are not the same")
            elif not peer.ended and {"rpc.silent", "rpc.id", "rpc.twice"}.isdisjoint(
                one.rule.id for one in self.report.findings
            ):
                try:
                    await self._ask_together(peer, note)
                except AntiphonError as error:
                    note("session.together", "two sessions at the same moment", str(error))
            if self.report.revisions == [revision.name]:
                await wait_at_most(MEMORY_WAIT, self._watch_memory(peer, note))
        for probe in get_probes("probe", revision):
            if probe.is_fresh:
                async with self._connect(revision, note) as peer:
                    await _try_probe(peer, probe)

    async def _ask_together(self, peer: RawPeer, note: Note) -> None:
        """Send requests with the same ids in one more session at the same time: each is to get its own answers."""
        place, met, shared = "two sessions at the same moment", CheckReport(""), list[Json]()
        async with self._connect(peer.revision, note) as other:
            if not await _open_session(other, is_first=False):
                note("session.together", place, other.ended or "the second one was refused")
                return
            peer.is_calling, other.is_calling, other.token = True, True, f"{peer.token}-other"
            peer.note = other.note = partial(add_fault, met)
            unknown: Usual = ("antiphon-check/nothing", {})
            pairs = [(each, each) for each in self.usual] + [(self.usual[0], unknown), (unknown, self.usual[0])] * 4
            for at, pair in enumerate(pairs):
                replies = await asyncio.gather(*[
                    one.ask(method, {**params, "_meta": {"progressToken": one.token}}, id=f"shared-{at}")
                    for one, (method, params) in zip((peer, other), pair, strict=True)
                ])  # fmt: skip
                shared += [{"asked": asked, "reply": reply} for (asked, _), reply in zip(pair, replies, strict=True)]
            crossed = [f"{one.rule.id} {one.seen}" for one in met.findings]
            faults = [fault for each in shared for fault in find_faults("together", {**each, "crossed": crossed})]
            # What has crossed, which comes first, explains what is missing.
            for rule, _, seen in sorted(faults, key=lambda fault: fault[0])[:1]:
                note(rule, place, seen or peer.ended or other.ended or "no reply")

    async def _watch_memory(self, peer: RawPeer, note: Note) -> None:
        """Note by what the server grows: by some request, or by sessions where one process serves them all."""
        peer.note, processes = partial(add_fault, CheckReport("")), peer.list_processes()
        methods = [method for capability, method, *_ in server_lists.LISTS if capability in peer.capabilities]
        for method in (*methods, *[""] * (not isinstance(self.where, Command))) if processes else ():
            step = partial(peer.ask, method) if method else partial(self._use_session, peer)
            if times := await find_growth(processes, step, 24 if method else 6):
                rule, place = ("memory.request", method) if method else ("memory.session", "sessions opened and closed")
                note(rule, place, f"{MAX_GROWTH // 2**20} MB more, {times} times later")

    async def _use_session(self, peer: RawPeer) -> bool:
        async with self._connect(peer.revision, peer.note) as other:
            return await _open_session(other, is_first=False)


async def _open_session(peer: RawPeer, *, is_first: bool) -> bool:
    """Open a session, and return whether the server speaks the revision of the peer."""
    began = time.monotonic()
    reply = (await peer.ask_all([peer.make_opening()], may_fail=True))[0]
    peer.took = time.monotonic() - began
    if reply is None and is_first and not peer.is_explained:
        peer.note("handshake.none", peer.place, peer.ended or f"no reply within {peer.wait:g} s")
    result = read_object((reply or {}).get("result"))
    spoken = result.get("supportedVersions" if peer.revision.modern else "protocolVersion")
    # A text, or a list, that names another revision; what is missing or of another type is for the rules.
    if not result or (isinstance(spoken, str | list) and peer.revision.name not in (spoken, *spoken)):
        return False
    peer.opening, peer.capabilities = result, read_object(result.get("capabilities"))
    peer.examine("opening", reply)
    if not peer.revision.modern:
        await peer.notify("notifications/initialized", {})
    return not peer.ended


async def _try_probe(peer: RawPeer, probe: Probe) -> None:
    before = peer.counts["without id"]
    if probe.raw:
        await peer.exchange([probe.raw.encode()])
    is_notification = probe.method.startswith("notifications/")
    if probe.name == "cancellation":
        await peer.cancel(probe.params)
    elif is_notification:
        await peer.notify(probe.method, probe.params)
    is_harmless = probe.raw or is_notification or probe.method == "harmless"
    method = probe.method if not is_harmless else "server/discover" if peer.revision.modern else "ping"
    request = peer.make_request(method, {} if is_harmless else probe.params, id=probe.id)
    if probe.pad:
        request["params"].setdefault("_meta", {})["com.example/padding"] = "\u00e9\U0001f426\u2028" * (probe.pad // 3)
    if probe.is_bare:
        request["params"]["_meta"] = {}
    requests = [request, peer.make_request(method)] if probe.name == "batch" else [request]
    messages = [requests] if probe.name == "batch" else requests
    replies = await peer.ask_all(requests, messages, place=probe.place or probe.method, may_fail=probe.may_fail)
    if None in replies and probe.needs == "answers":
        peer.ended = peer.ended or "it does not answer any more"
    if replies[0] is not None or (probe.may_fail and not peer.is_explained):
        unread = peer.counts["without id"] - before
        value = {**(replies[0] or {}), "errorsWithoutId": unread, "answered": None not in replies}
        peer.examine(f"reply:{probe.name}", value, seen=replies[0] or peer.ended or "no reply")


async def check_server(
    target: Target,
    *,
    calls: Sequence[str] = (),
    headers: Mapping[str, str] | None = None,
    timeout: float = 10.0,
    keep_keys: bool = False,
    network: bool = False,
    revision: str = "auto",
    previous: Mapping[str, str] | None = None,
    client: str = "",
) -> CheckReport:
    """Check a server by connecting to it, on every revision that it speaks, and return a report.

    A command is started several times, in a home of its own that is deleted afterwards, with a small environment, and
    without a network where the system can do that and the command has nothing to download. No tool is called but those
    in ``calls``. What a server does never raises: it becomes a finding.

    Args:
        target: a ``Server``, a URL, a command line, a ``.py`` file, or an entry of a configuration.
        calls: names of tools that may be called, each also as ``NAME={"argument": 1}``; none by default.
        headers: HTTP headers for a URL, such as ``Authorization``.
        timeout: seconds for one reply; the first one may take a minute.
        keep_keys: give the server the secrets in its entry, which are replaced by a placeholder otherwise.
        network: start a command with the network of this machine; false by default.
        revision: the only revision to try; ``"auto"``, the default, for all.
        previous: the ``definitions`` of an earlier report; what has changed since becomes a finding.
        client: a host to play, such as ``"codex"``: what it would lose of the server becomes advice. By default none.

    Raises:
        ConfigError: the target is none, or ``calls``, ``revision`` or ``client`` are not known.
    """
    if client and client not in read_rules().clients:
        raise ConfigError(f"no host {client!r} was measured: there are {', '.join(read_rules().clients)}")
    if revision != "auto" and find_revision(revision) is None:
        raise ConfigError(f"there is no revision {revision!r}: give one of {', '.join(one.name for one in REVISIONS)}")
    try:
        pairs = [call.partition("=") for call in calls]
        allowed = {name: msgspec.json.decode(text or "{}", type=dict[str, Any]) for name, _, text in pairs}
    except ValueError as error:
        raise ConfigError(f"calls are written NAME or NAME={{...}}, with a JSON object: {error}") from None
    where, report = locate_target(target), await asyncio.to_thread(examine_launch, target, network=network)
    if isinstance(where, Address):
        where = structs.replace(where, headers={**(where.headers or {}), **(headers or {})})
    alone = await asyncio.to_thread(NetworkNamespace) if report.network == ALONE else None
    with isolate_command(where if keep_keys else hide_keys(where), alone) as housed:
        played = read_rules().clients.get(client)
        checkup = Checkup(housed, report, allowed, timeout, revision, previous or {}, played, alone)
        try:
            async with asyncio.timeout(TOTAL_WAIT):
                await checkup.run()
        except TimeoutError:
            add_fault(report, "safety.unfinished", "the whole check", f"not finished within {TOTAL_WAIT:g} s")
        if alone is not None and alone.count_attempts():
            report.network += ", in which it looked for something in vain"
    return report


def hide_keys(where: Any) -> Any:
    """Return a target whose command gets a placeholder for each of its keys."""
    env: Mapping[str, str] = (where.env if isinstance(where, Command) else None) or {}
    keys = [one for one, text in env.items() if names_password(one) or find_secrets(text)]
    return structs.replace(where, env={**env, **dict.fromkeys(keys, "antiphon-check-placeholder")}) if keys else where


def examine_launch(target: Target, *, network: bool = False) -> CheckReport:
    """Return a report with what is unsafe about starting or reaching a server, and its network, without doing so."""
    where = locate_target(target)
    about: Json = {}
    name = str(getattr(where, "name", "server"))
    if isinstance(where, Address):
        parts = urlsplit(name := where.url)
        host = parts.hostname or ""
        about = {"user": parts.username or "", "host": host, "scheme": parts.scheme, "isLocal": is_loopback(host)}
    elif isinstance(where, Command):
        name, line = shlex.join(where.argv), " ".join(where.argv)
        pinned = launch_of(where.argv, env=where.env, cwd=where.cwd).pinned
        about = {
            "program": PurePath(where.argv[0]).stem.lower(), "words": [*where.argv], "line": line, "isPinned": pinned,
            "pairs": dict(_OPTION.findall(line)), "env": {**(where.env or {})},
        }  # fmt: skip
    hidden = _OPTION.sub(lambda found: f"{found[1]} ***" if names_password(found[1]) else found[0], name)
    report = CheckReport(target=excerpt_of(hidden))
    report.network = describe_network(where.argv, is_allowed=network) if isinstance(where, Command) else ""
    for rule, path, seen in find_faults("launch", about):
        add_fault(report, rule, f"start {path}".rstrip(), seen)
    return report
