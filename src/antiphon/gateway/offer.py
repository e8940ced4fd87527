"""What a server offers: its lists, fetched from it, and kept on disk for the next gateway.

On disk there is one file for each server and principal, so that what a server shows to one is never listed to another.
A file that is broken or old, or that somebody else could have written, is dropped; the server is then started to be
listed.

Skills of all servers are listed together, under URIs that begin with the server's word: ``skill://PATH/SKILL.md`` of
the server ``docs`` is ``skill://docs/PATH/SKILL.md`` here, so that no server's skill can take the place of another's.
No file is fetched before a client reads it. The host is asked about a skill as about a call of a tool whose definition
is the skill's entry: front matter, files, digests. So a decision that is remembered ends when any of them changes.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import re
import stat
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field, structs

from antiphon import errors
from antiphon.client.client import Client
from antiphon.client.connection.targets import Address, Command, Target, describe_location, locate_target
from antiphon.client.known_tools import iterate_pages
from antiphon.client.tool_calls import Confirming
from antiphon.errors import AntiphonError, ConfigError, Rejected
from antiphon.host.review.definitions import describe_skill
from antiphon.host.review.question import READ
from antiphon.machine.call_time import hold_variable
from antiphon.machine.files import open_file, replace_file
from antiphon.wire.common import PaginatedParams, PaginatedResult
from antiphon.wire.envelope import decode_wire, encode_value
from antiphon.wire.lossless import Received, merge_change, repair_members
from antiphon.wire.origin import Origin, OriginCall, identify_target
from antiphon.wire.prompts import Prompt
from antiphon.wire.resources import Resource, ResourceTemplate
from antiphon.wire.skills import Skill, find_skill_root
from antiphon.wire.tools import CallToolRequestParams, Tool, fit_schemas

log = logging.getLogger("antiphon.gateway")

MAX_SKILLS = 1_000
"""Most skills of one server that are listed, and most entries and approvals of it that are held."""
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def make_outer_uri(word: str, uri: str) -> str:
    """Return the URI, behind the gateway, of a file of a skill."""
    return f"skill://{word}/{uri.removeprefix('skill://')}"


def split_outer_uri(uri: str) -> tuple[str, str] | None:
    """Return the word of the server, and its own URI; ``None`` if this is no such URI."""
    word, slash, rest = uri.removeprefix("skill://").partition("/")
    if not uri.startswith("skill://") or not slash:
        return None
    return word, rest if _SCHEME.match(rest) else f"skill://{rest}"


def rewrite_entry(entry: Skill, word: str) -> Skill:
    """Return an entry with the URIs that it has behind the gateway."""
    files = entry.resources
    if files != "dynamic":
        files = [structs.replace(file, uri=make_outer_uri(word, file.uri)) for file in files]
    return structs.replace(entry, uri=make_outer_uri(word, entry.uri), resources=files)


async def fetch_skills(client: Client, server: str) -> tuple[Skill, ...]:
    """List the skills of a server; none if it has none, or if the list fails, which costs it nothing else."""
    taken: list[Skill] = []
    try:
        async for skill in client.skills():
            # An entry that cannot be loaded anywhere would only be refused later.
            if skill.problem is None and len(taken) < MAX_SKILLS:
                taken.append(skill.entry)
            elif skill.problem is not None:
                log.warning("%s: the skill %s is left out: %s", server, skill.uri, skill.problem)
    except AntiphonError as error:
        log.warning("%s: its skills cannot be listed: %s", server, error)
    return tuple(taken)


class HeldSkills:
    """The entries of one server's skills by which its files are verified, and the skills that were approved."""

    def __init__(self) -> None:
        self._listed: dict[str, Skill] = {}
        self._fetched: dict[str, Skill] = {}
        """The entries that were fetched by themselves since the list."""
        self._approved: set[bytes] = set()

    def hold(self, entry: Skill) -> None:
        """Hold the newest entry of a skill."""
        self._fetched[entry.uri] = entry
        if len(self._fetched) > MAX_SKILLS:
            del self._fetched[next(iter(self._fetched))]

    def renew(self, listed: tuple[Skill, ...]) -> None:
        """Hold the entries of a new list, and those that were fetched of skills which are not in it."""
        self._listed = {entry.uri: entry for entry in listed}
        self._fetched = {uri: entry for uri, entry in self._fetched.items() if uri not in self._listed}

    def find(self, uri: str) -> Skill | None:
        """Return the entry of the skill that a file belongs to: of several, the innermost; ``None`` if none is held."""
        held = (self._listed | self._fetched).values()
        found = [entry for entry in held if uri.startswith(f"{find_skill_root(entry.uri)}/")]
        return max(found, key=lambda entry: len(entry.uri), default=None)

    async def allow(
        self, entry: Skill, uri: str, origin: Origin, confirm: Confirming, read: Callable[[], Awaitable[bytes]]
    ) -> None:
        """Have the host decide about a skill before its ``SKILL.md`` is read, and before any other file of it once.

        Only a host that asks a person calls ``read``, which fetches and verifies the file: the person sees its text.
        Raises ``Rejected``: it was refused.
        """
        key = encode_value(entry)
        if uri != entry.uri and key in self._approved:
            return
        files = () if entry.resources == "dynamic" else entry.resources
        digest = next((file.digest for file in files if file.uri == uri), None)
        tool, arguments = describe_skill(entry), {"uri": uri, "digest": digest}
        call = OriginCall(id=origin.id, method="resources/read", name=uri, arguments=arguments)
        params = CallToolRequestParams.of(tool.name, arguments)
        with hold_variable(READ, read):
            allowed = await confirm.confirm(params, structs.replace(origin, call=call, tool=tool))
        if allowed is not True:
            raise Rejected(f"The skill {entry.uri} was not allowed as it is")
        if entry.resources != "dynamic":
            if len(self._approved) >= MAX_SKILLS:
                self._approved.clear()
            self._approved.add(key)


Kind = Literal["tools", "prompts", "resources"]
"""The kinds of lists, as notifications of changes name them; resources include their templates."""

KINDS: tuple[Kind, ...] = ("tools", "prompts", "resources")

MAX_ITEMS = 10_000
"""Most tools, prompts, resources or templates of one server that are listed."""

LIST_PATIENCE = 7.5
"""Seconds for a list beside that of the tools: a quarter of those that a server has to start."""

MAX_BYTES = 4 * 1024 * 1024
"""Most bytes of one file: some thousand tools with long schemas. Reading it takes 20 ms."""

MAX_TOTAL = 64 * 1024 * 1024
"""Most bytes of all files together; the oldest are deleted first."""

MAX_FILES = 1_000
"""Most files; the oldest are deleted first."""

_KEPT = re.compile(r"\.?[0-9a-f]{64}\.json(?:\.[0-9a-f]{12}\.part)?")
"""The name of such a file, or of one that was being written when its gateway was killed."""

KEPT_FOR = 30 * 86_400.0
"""Seconds after which a file is not used any more; the server is then started to be listed."""


class UpstreamOffer(Struct, frozen=True, kw_only=True):
    """What a server offers, as last listed."""

    tools: tuple[Tool, ...] = ()
    prompts: tuple[Prompt, ...] = ()
    resources: tuple[Resource, ...] = ()
    templates: tuple[ResourceTemplate, ...] = ()
    extensions: dict[str, Any] = {}
    """The extensions that it declares, with their settings."""
    experimental: dict[str, Any] = {}
    """The experimental capabilities that it declares."""
    skills: tuple[Skill, ...] = ()
    originals: dict[str, Raw] = {}
    """The undecoded JSON of definitions that have unknown members, by ``place_of``."""


def place_of(item: Definition) -> str:
    """Return a name of a definition that is unique within its server."""
    if isinstance(item, ResourceTemplate):
        return f"templates {item.uri_template}"
    return f"resources {item.uri}" if isinstance(item, Resource) else f"{_KINDS[type(item)]} {item.name}"


async def fetch_offer(
    client: Client, before: UpstreamOffer, kinds: Collection[Kind] = KINDS, server: str = "a server"
) -> UpstreamOffer:
    """List what a server offers. Only lists of these ``kinds`` are fetched; all else is taken from ``before``.

    A server with tools keeps them although another of its lists fails or never comes; the log names the ``server``.
    """
    has = client.server_capabilities
    offer = structs.replace(before, extensions=dict(has.extensions or {}), experimental=dict(has.experimental or {}))
    offered = {"tools": has.tools, "prompts": has.prompts, "resources": has.resources, "templates": has.resources}
    for name in ("tools", "prompts", "resources", "templates"):
        if ("resources" if name == "templates" else name) in kinds:
            timeout = UNSET if name == "tools" or has.tools is None else LIST_PATIENCE
            try:
                items, originals = await _fetch_definitions(client, name, timeout) if offered[name] else ((), {})
            except (errors.PeerError, errors.RemoteProtocolError, errors.CallTimeout) as error:
                if timeout is UNSET:
                    raise
                log.warning("%s: its %s cannot be listed: %s", server, name, error)
                continue
            kept = {place: raw for place, raw in offer.originals.items() if not place.startswith(f"{name} ")}
            offer = structs.replace(offer, originals={**kept, **originals}, **{name: items})
    if "resources" in kinds:
        offer = structs.replace(offer, skills=await fetch_skills(client, server))
    return offer


def list_changes(before: UpstreamOffer, after: UpstreamOffer) -> list[Kind]:
    """Return the kinds in which two offers differ."""

    def differ(*members: str) -> bool:
        return any(getattr(before, member) != getattr(after, member) for member in members)

    lists = {"tools": ("tools",), "prompts": ("prompts",), "resources": ("resources", "templates", "skills")}
    return [kind for kind in KINDS if differ("originals", *lists[kind])]


Definition = Tool | Prompt | Resource | ResourceTemplate

_KINDS: Mapping[type[Definition], str] = {
    Tool: "tools",
    Prompt: "prompts",
    Resource: "resources",
    ResourceTemplate: "templates",
}
_NOTHING = Received(Raw(b"{}"), PaginatedParams())


class _Page(Struct):
    """One page of any list, with its definitions undecoded."""

    tools: list[Raw] = []
    prompts: list[Raw] = []
    resources: list[Raw] = []
    templates: list[Raw] = field(default_factory=list[Raw], name="resourceTemplates")


async def _fetch_definitions(
    client: Client, name: str, timeout: float | UnsetType
) -> tuple[tuple[Any, ...], dict[str, Raw]]:
    """List all of one kind; return the definitions, and the undecoded JSON of those with unknown members."""
    taken: dict[str, Any] = {}
    originals: dict[str, Raw] = {}
    method = "resources/templates/list" if name == "templates" else f"{name}/list"

    async def page(cursor: str | None) -> tuple[PaginatedResult, int]:
        received = await client.forward(method, PaginatedParams(cursor=cursor), _NOTHING, timeout=timeout)
        for raw in getattr(decode_wire(received.raw, _Page), name):
            place, original = _examine_definition(raw, name)
            if original is None:
                originals.pop(place, None)
            else:
                originals[place] = original
        return received.read, len(received.raw)

    member = "resource_templates" if name == "templates" else name
    async for item in iterate_pages(page, lambda listed: getattr(listed, member)):
        place = place_of(item)
        taken[place] = fit_schemas(item) if isinstance(item, Tool) else item
        if taken[place] is not item and place in originals:
            originals[place] = Raw(merge_change(originals[place], item, taken[place]))
        if len(taken) == MAX_ITEMS:
            break
    return tuple(taken.values()), {place: raw for place, raw in originals.items() if place in taken}


def _examine_definition(raw: Raw, name: str) -> tuple[str, Raw | None]:
    """Return the place of a definition, and its JSON if it has unknown members; few have."""
    kind = next(kind for kind, named in _KINDS.items() if named == name)
    item = decode_wire(raw, kind)
    original = Raw(bytes(repair_members(raw, item)))
    is_known = msgspec.json.decode(original) == msgspec.json.decode(encode_value(item))
    return place_of(item), None if is_known else original


class _File(Struct, frozen=True):
    """The content of a file. A change of this form needs a new version number."""

    form: Literal[1]
    saved: float
    offer: UpstreamOffer | None
    """``None`` if the server failed or was late, and was never listed."""


class KeptLists:
    """The folder with the kept lists.

    ``folder``: its path. It is created when first needed, readable by its owner only.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def of(self, target: Target, seen_by: bytes) -> KeptOffer | None:
        """Return the kept lists of one server; ``None`` for a server in this process, which is listed fast anyway.

        ``seen_by``: key of the principal, and of anything else that the server's lists may depend on.
        """
        try:
            where = locate_target(target)
        except ConfigError:
            # The start of the server reports what is wrong with the target.
            return None
        if not isinstance(where, Command | Address):
            return None
        # The identity alone is not enough: a server may offer something else to another token, or in another folder.
        if isinstance(where, Address):
            whole: list[Any] = [where.url, dict(where.headers or {})]
        else:
            whole = [list(where.argv), dict(where.env or {}), os.path.realpath(where.cwd or ".")]
        how: list[Any] = [identify_target(describe_location(where)), whole, seen_by.hex()]
        name = hashlib.sha256(json.dumps(how, sort_keys=True).encode()).hexdigest()
        return KeptOffer(self, self._folder / f"{name}.json")

    def write(self, path: Path, data: bytes) -> None:
        """Write one file atomically, and delete the oldest files beyond the limits.

        Raises ``OSError``: the disk is full, or the folder cannot be written.
        """
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Not durable: a file that a power cut has left empty is dropped when it is read.
        replace_file(path, data, durable=False)
        self._prune()

    def _prune(self) -> None:
        found: list[tuple[float, int, Path]] = []
        # Only files of ours: nobody says that a folder has nothing else in it.
        for entry in filter(lambda entry: _KEPT.fullmatch(entry.name), os.scandir(self._folder)):
            with suppress(FileNotFoundError):
                status = entry.stat(follow_symlinks=False)
                found.append((status.st_mtime, status.st_size, Path(entry.path)))
        total = 0
        for count, (_, size, path) in enumerate(sorted(found, reverse=True), 1):
            total += size
            if count > MAX_FILES or total > MAX_TOTAL:
                path.unlink(missing_ok=True)


class KeptOffer:
    """The kept lists of one server for one principal."""

    def __init__(self, lists: KeptLists, path: Path) -> None:
        self.path = path
        self._lists = lists
        self._newest: UpstreamOffer | None = None
        self._saving = threading.Lock()
        self.was_late = False
        """Whether the server failed, or was late, in an earlier gateway, and was never listed."""

    def load(self) -> UpstreamOffer | None:
        """Return the last offer of the server; ``None`` if none is kept, or it cannot be used."""
        try:
            kept = decode_wire(_read_file(self.path), _File)
            if not 0 <= time.time() - kept.saved <= KEPT_FOR:
                raise ValueError(f"older than {KEPT_FOR / 86_400:.0f} days")
        except FileNotFoundError:
            return None
        except (OSError, ValueError, msgspec.DecodeError) as error:
            log.warning("the lists kept in %s are not used: %s", self.path, error)
            with suppress(OSError):
                self.path.unlink()
            return None
        self.was_late = kept.offer is None
        return kept.offer

    async def keep(self, offer: UpstreamOffer | None) -> None:
        """Save an offer in a thread. Threads may overtake each other, so each saves the newest offer there is.

        A thread cannot be cancelled: a caller that is, such as a server that ends, waits until the file is written.
        """
        self._newest = offer
        saving = asyncio.ensure_future(asyncio.to_thread(self._save_newest))
        try:
            await asyncio.shield(saving)
        finally:
            await asyncio.wait([saving])

    def _save_newest(self) -> None:
        with self._saving:
            self.save(self._newest)

    def save(self, offer: UpstreamOffer | None) -> None:
        """Keep an offer, unless it is too large or cannot be written; ``None`` notes that the server was late."""
        data = encode_value(_File(form=1, saved=time.time(), offer=offer))
        try:
            if len(data) > MAX_BYTES:
                self.path.unlink(missing_ok=True)
                return
            self._lists.write(self.path, data)
        except OSError as error:
            log.warning("lists are not kept in %s: %s", self.path, error)


def _read_file(path: Path) -> bytes:
    with open_file(path, follow=False) as file:
        status = os.fstat(file.fileno())
        if os.name == "posix" and (status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077):
            raise ValueError("others may have written or read it")
        if status.st_size > MAX_BYTES:
            raise ValueError(f"larger than {MAX_BYTES} bytes")
        return file.read(MAX_BYTES)
