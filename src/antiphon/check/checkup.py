"""A check from its beginning to its end: what is started, on which revisions, in which order, within which bounds."""

from __future__ import annotations

import asyncio
import shlex
import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from msgspec import structs

from antiphon.check.calls import call_tools
from antiphon.check.deception import find_deceptions
from antiphon.check.definition_faults import find_definition_faults
from antiphon.check.findings import Finding, ServerDefinitions, excerpt_of
from antiphon.check.handshakes import open_session, try_unknown_revision
from antiphon.check.http_peer import HttpPeer
from antiphon.check.launch import find_launch_faults
from antiphon.check.life_cycle import try_life_cycle
from antiphon.check.lists import compare_definitions, read_definitions
from antiphon.check.peer import ChannelPeer, RawPeer, Report
from antiphon.check.probes import PROBES, listen_briefly
from antiphon.check.report import CheckReport
from antiphon.check.web_probes import try_signing_in, try_web
from antiphon.client.connection.targets import Address, Command, Serves, Target, locate_target, open_channel
from antiphon.errors import AntiphonError, ConfigError
from antiphon.host.checks.redact import find_secrets, mask_text, names_password
from antiphon.transports.http.client.http_request import new_session
from antiphon.transports.stdio.client import child_environment
from antiphon.transports.stdio.guardian import GUARDIAN
from antiphon.wire.revisions import REVISIONS, Revision, find_revision

START_WAIT = 60.0
"""Seconds for the first answer: a package may be fetched before."""
MODERN_WAIT = 5.0
"""Most seconds for the answer of a server that may not know the revision, and may ignore the question."""
TOTAL_WAIT = 600.0
"""Most seconds for all revisions together."""
PLACEHOLDER = "antiphon-check-placeholder"
"""Stands for a key in the environment of a server that is checked."""


class Checkup:
    """One server while it is checked.

    Args:
        where: the server.
        report: takes the findings.
        wait: seconds for one reply.
        headers: sent to a URL.
        calls: the tools that may be called.
        env: the variables that a process gets beside those of every child.
        revision: the only revision to try, or ``auto``.
    """

    def __init__(
        self,
        where: Serves | Command | Address,
        report: CheckReport,
        *,
        wait: float,
        headers: Mapping[str, str],
        calls: Sequence[str],
        env: Mapping[str, str],
        revision: str,
    ) -> None:
        self.where = where
        self.report = report
        self.wait = wait
        self.headers = headers
        self.calls = calls
        self.env = env
        self.revision = revision

    def note(self, revision: str, rule: str, place: str, seen: object) -> None:
        """Add a finding to the report."""
        self.report.add(Finding(rule=rule, place=place, seen=excerpt_of(seen), revision=revision))

    @asynccontextmanager
    async def connect(
        self, revision: Revision, report: Report, *, declares: Mapping[str, Any] | None = None
    ) -> AsyncGenerator[RawPeer]:
        """Connect once more, for as long as the context lasts; raises ``AntiphonError`` if that cannot be."""
        given: dict[str, Any] = {"wait": self.wait, "declares": declares or {}}
        if isinstance(self.where, Address):
            headers = {name.lower(): value for name, value in {**(self.where.headers or {}), **self.headers}.items()}
            async with new_session(ssl=self.where.ssl, proxy=self.where.proxy, trust_env=True) as session:
                peer = HttpPeer(self.where.url, session, revision, report, headers=headers, **given)
                yield peer
                await peer.close()
            return
        opened = await open_channel(self.where)
        peer = ChannelPeer(opened.channel, revision, report, **given)
        try:
            yield peer
        finally:
            await peer.close()
            if opened.serving is not None:
                opened.serving.cancel()
                await asyncio.gather(opened.serving, return_exceptions=True)

    async def run(self) -> None:
        """Check the server on every revision that it speaks: the newest with a handshake first, as most clients do."""
        *older, newest = (one for one in REVISIONS if not one.modern)
        order = [newest, *(one for one in REVISIONS if one.modern), *reversed(older)]
        answered = False
        for at, revision in enumerate(one for one in order if self.revision in ("auto", one.name)):
            # Of a server that did not even answer with an error, only the newest revision is tried besides.
            if at == 0 or answered or revision.modern:
                answered = await self._check_revision(revision, is_first=at == 0) or answered
        self.report.revisions.sort()
        if not self.report.revisions:
            if not any(one.rule.startswith(("auth.", "http.redirect", "handshake.")) for one in self.report.findings):
                self.note("", "handshake.none", "initialize", "every revision was refused")
        elif isinstance(self.where, Command):
            await try_life_cycle(
                self.where.argv, child_environment(self.env), self.where.cwd, partial(self.note, ""), START_WAIT
            )

    async def _check_revision(self, revision: Revision, *, is_first: bool) -> bool:
        """Check one revision if the server speaks it; return whether the server has answered at all."""
        held: list[tuple[str, str, object]] = []

        def hold(rule: str, place: str, seen: object) -> None:
            held.append((rule, place, seen))

        try:
            async with self.connect(revision, hold) as peer:
                peer.wait = START_WAIT if is_first else min(self.wait, MODERN_WAIT) if revision.modern else self.wait
                spoken = await open_session(peer, is_first=is_first)
                peer.wait = self.wait
                if not spoken:
                    await self._examine_refusal(peer, held if is_first else [])
                    return not peer.ended
                peer.report = partial(self.note, revision.name)
                for seen in held:
                    peer.report(*seen)
                self.report.revisions.append(revision.name)
                definitions = await self._examine(peer)
            await self._connect_again(revision, definitions)
        except AntiphonError as error:
            if is_first:
                self.note(revision.name, "handshake.none", "start", str(error))
            return False
        return True

    async def _examine_refusal(self, peer: RawPeer, held: Sequence[tuple[str, str, object]]) -> None:
        """Report what is wrong with how a revision was refused."""
        peer.report = partial(self.note, peer.revision.name)
        if isinstance(peer, HttpPeer) and peer.last.status == 401:
            held = [one for one in held if not one[0].startswith("handshake.")]
            await try_signing_in(peer)
        for seen in held:
            peer.report(*seen)

    async def _examine(self, peer: RawPeer) -> ServerDefinitions:
        """Try all that is tried on an open session."""
        definitions = await read_definitions(peer)
        for finding in (*find_definition_faults(definitions), *find_deceptions(definitions)):
            self.report.add(finding)
        await call_tools(peer, definitions, self.calls)
        for probe in PROBES:
            if not peer.ended:
                await probe(peer)
        if isinstance(peer, HttpPeer):
            await try_web(peer)
        return definitions

    async def _connect_again(self, revision: Revision, first: ServerDefinitions) -> None:
        """Open a second session that offers the server everything, and compare; then ask for no real revision."""
        everything = {"sampling": {}, "elicitation": {}, "roots": {"listChanged": True}}
        report = partial(self.note, revision.name)
        if revision.name == max(self.report.revisions):
            async with self.connect(revision, report, declares=everything) as peer:
                if await open_session(peer, is_first=False):
                    definitions = await read_definitions(peer)
                    await listen_briefly(peer)
                    if not peer.ended:
                        compare_definitions(peer, first, definitions)
                else:
                    report("session.second", "a second session", peer.ended or "refused")
            async with self.connect(revision, report) as peer:
                await try_unknown_revision(peer)


async def check_server(
    target: Target,
    *,
    calls: Sequence[str] = (),
    headers: Mapping[str, str] | None = None,
    timeout: float = 10.0,
    keep_keys: bool = False,
    revision: str = "auto",
) -> CheckReport:
    """Check a server by connecting to it, on every revision that it speaks, and return a report.

    A command is started several times, in a home of its own that is deleted afterwards, with a small environment. No
    tool is called but those in ``calls``. What a server does never raises: it becomes a finding.

    Args:
        target: a ``Server``, a URL, a command line, a ``.py`` file, or an entry of a configuration.
        calls: names of tools that may be called, each also as ``NAME={"argument": 1}``, or ``"all"``; none by default.
        headers: HTTP headers for a URL, such as ``Authorization``.
        timeout: seconds for one reply; the first one may take a minute.
        keep_keys: give the server the secrets in its entry, which are replaced by a placeholder otherwise.
        revision: the only revision to try; ``"auto"``, the default, for all.

    Raises:
        ConfigError: the target is none, ``timeout`` is not positive, or ``revision`` is not known.
    """
    if timeout <= 0:
        raise ConfigError("timeout must be more than 0 seconds")
    if revision != "auto" and find_revision(revision) is None:
        raise ConfigError(f"there is no revision {revision!r}: give one of {', '.join(one.name for one in REVISIONS)}")
    report = CheckReport(target=name_target(target))
    where = locate_target(target)
    with GUARDIAN.held(), tempfile.TemporaryDirectory(prefix="antiphon-check-", ignore_cleanup_errors=True) as home:
        env: dict[str, str] = {}
        for finding in find_launch_findings(target):
            report.add(finding)
        if isinstance(where, Command):
            env = make_environment(where, home, keep_keys=keep_keys)
            where = structs.replace(where, env=env, may_inherit_env=False)
        checkup = Checkup(where, report, wait=timeout, headers=headers or {}, calls=calls, env=env, revision=revision)
        try:
            async with asyncio.timeout(TOTAL_WAIT):
                await checkup.run()
        except TimeoutError:
            checkup.note("", "safety.unfinished", "the whole check", f"not finished within {TOTAL_WAIT:g} s")
    return report


def find_launch_findings(target: Target) -> list[Finding]:
    """Return what is unsafe about starting or reaching a server, without doing so."""
    where = locate_target(target)
    if isinstance(where, Address):
        return list(find_launch_faults(where.url))
    return list(find_launch_faults(where.argv, env=where.env, cwd=where.cwd)) if isinstance(where, Command) else []


def name_target(target: Target) -> str:
    """Return a target as a line of text for people, without secrets."""
    where = locate_target(target)
    if isinstance(where, Address):
        return mask_text(where.url)
    return mask_text(shlex.join(where.argv)) if isinstance(where, Command) else str(getattr(where, "name", "server"))


def make_environment(where: Command, home: str, *, keep_keys: bool) -> dict[str, str]:
    """Return the variables that a server gets beside those of every child; ``home`` is its home.

    Secrets of its entry are replaced by a placeholder unless ``keep_keys``.
    """
    folders = ("HOME", "USERPROFILE", "TMPDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "APPDATA")
    found = {**(where.env or {})}
    for name, value in found.items():
        if not keep_keys and (names_password(name) or find_secrets(value)):
            found[name] = PLACEHOLDER
    return {**dict.fromkeys(folders, home), **found}
