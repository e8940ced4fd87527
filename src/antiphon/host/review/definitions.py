"""The definitions of tools as they were allowed, what of them has changed, and the servers of a gateway with theirs.

A server may change a tool's description or schema after somebody has allowed it. So the definition that was allowed is
kept with its hash, and a changed one is shown with the differences. ``pipeline.tool_consent`` decides. A gateway fills
``Servers``, which the review page shows; a host without a gateway has none.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Sequence
from secrets import token_hex
from typing import Literal, Protocol

import msgspec

from antiphon.host.audit import day_of
from antiphon.host.checks.message_parts import list_leaves
from antiphon.host.checks.risk import MAX_HERE, MAX_SECONDS, first_instruction
from antiphon.host.checks.visible import count_hidden
from antiphon.host.review.diff import MAX_LINES, DiffLine, compare_lines, list_members
from antiphon.host.review.review import digest
from antiphon.host.store.base import DefinitionRow, Standing, Store
from antiphon.machine.side_process.pool import run_aside
from antiphon.wire.apps import find_app_uri
from antiphon.wire.envelope import encode_value
from antiphon.wire.origin import Origin
from antiphon.wire.skills import Skill, find_skill_root
from antiphon.wire.tools import Tool, ToolAnnotations

MAX_TOOLS = 500
"""Most tools of one server that are listed: nobody switches more one by one, since filters can do that."""


class ShownTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that a server behind a gateway offers, and its name for clients."""

    tool: Tool
    """As its server defines it."""
    called: str | None
    """Its name for clients; ``None`` if it is not shown to them."""
    is_off: bool = False
    """Whether a person has switched it off. If not, a tool that clients do not see is denied by the configuration."""

    origins: tuple[str, ...] | None = None
    """The origins that its interface may use; ``None`` if it has none, or says so only when it is opened."""


class ShownServer(msgspec.Struct, frozen=True, kw_only=True):
    """One server behind a gateway, running or not: its state, its tools, and what it wrote last."""

    name: str
    """As configured."""
    identity: str
    target: str
    """The command line or URL, for display; without credentials."""
    state: Literal["stopped", "starting", "running", "failed"]
    since: float
    """When it entered its state: seconds since the epoch."""
    process: int | None = None
    error: str | None = None
    """Why it failed last."""
    heard: tuple[str, ...] = ()
    """The last lines that it wrote to standard error."""
    tools: tuple[ShownTool, ...] = ()
    conflicts: tuple[str, ...] = ()
    """Its names that had to be changed because of another server's names."""
    skills: tuple[Skill, ...] = ()
    """The entries of its skills; none of their files was fetched for this."""


class Servers(Protocol):
    """The servers of one program."""

    @property
    def upstreams(self) -> Sequence[ShownServer]:
        """Return the servers as they are now, in the order of the configuration."""
        ...

    async def switch_tool(self, identity: str, tool: str, *, on: bool, by: str | None) -> None:
        """Show a tool to clients, or hide and refuse it."""

    async def read_skill(self, identity: str, entry: Skill) -> bytes:
        """Fetch the ``SKILL.md`` of a skill, and verify it by its entry; raises ``AntiphonError`` if that fails."""
        ...


class Gated(msgspec.Struct, frozen=True, kw_only=True):
    """One server, with what the store knows of it."""

    server: ShownServer
    calls: int
    """Calls of its tools today (UTC)."""
    money: int
    """What its requests cost today, in nano-dollars."""
    tools: list[GatedTool]
    more: int
    """Number of its tools beyond those listed."""


class GatedTool(msgspec.Struct, frozen=True, kw_only=True):
    """One tool of such a server, with what the store knows of it."""

    served: ShownTool
    definition: Literal["new", "allowed", "changed"]
    changes: tuple[DiffLine, ...] | None = ()
    """What has changed since it was allowed; ``None`` if it is too long to be compared."""
    is_marked: bool = False
    """Whether its definition has hidden characters or gives orders to the model."""
    claims: tuple[str, ...] = ()
    """What its server claims of it."""
    app: str = ""
    """URI of its interface; empty if it has none."""


async def collect_servers_shown(servers: Servers | None, store: Store, digests: Digests, now: float) -> list[Gated]:
    """Collect what is shown of the servers, if there are any. The store must have gathered the audit before."""
    if servers is None:
        return []
    lines, _ = await store.spending()
    today = day_of(now)
    calls = await store.calls(now // 86_400 * 86_400)
    allowed = {(row.identity, row.tool): row for row in await store.definitions()}
    return [
        Gated(
            server=server,
            calls=calls.get(server.identity, 0),
            money=sum(line.money for line in lines if line.day == today and line.identity == server.identity),
            tools=[
                await _describe_tool(digests, server, each, allowed.get((server.identity, each.tool.name)))
                for each in server.tools[:MAX_TOOLS]
            ],
            more=max(0, len(server.tools) - MAX_TOOLS),
        )
        for server in servers.upstreams
    ]


async def compare_skill(server: ShownServer, entry: Skill, store: Store, digests: Digests) -> GatedTool:
    """Compare the entry of a skill with what was allowed of it. Nothing is allowed for longer if it is generated."""
    tool = describe_skill(entry)
    known = (await store.standing((server.identity,), tool.name)).definition
    row = None if entry.resources == "dynamic" else known
    return await _describe_tool(digests, server, ShownTool(tool=tool, called=None), row)


async def _describe_tool(
    digests: Digests, server: ShownServer, served: ShownTool, row: DefinitionRow | None
) -> GatedTool:
    tool, allowed = served.tool, row.digest if row is not None else ""
    is_large = len(encode_value(tool)) > MAX_KEPT
    changed = bool(allowed) and not is_large and await digests.of(server.identity, tool) != allowed
    hints = tool.annotations or ToolAnnotations()
    claims = {"read-only": hints.read_only_hint, "destructive": hints.destructive_hint}
    return GatedTool(
        served=served,
        definition="changed" if changed else "allowed" if allowed else "new",
        changes=changes_of(row.body, tool) if changed and row is not None else (),
        # In a thread, because the patterns take a moment where there are hundreds of tools.
        is_marked=is_large or await asyncio.to_thread(speaks_to_the_model, tool),
        claims=tuple(name for name, claim in claims.items() if claim),
        app=find_app_uri(tool),
    )


MAX_KEPT = 64 * 1024
"""Most bytes of a definition that is kept to be compared with a later one; of a longer one only the hash is kept."""
_MOST_KNOWN = 1_000
"""Most definitions whose hash is remembered; the hash of any other is computed again at its next call."""


class Digests:
    """The hashes of the definitions that one host was shown, each computed once."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], tuple[Tool, str]] = OrderedDict()

    def find_known(self, identity: str, tool: Tool | None) -> str | None:
        """Return the hash of a definition, if it was computed before; see ``of``."""
        known = None if tool is None else self._known.get((identity, tool.name))
        return known[1] if known is not None and known[0] is tool else None

    async def of(self, identity: str, tool: Tool | None) -> str | None:
        """Return the hash of a definition; ``None`` if there is none.

        Raises ``TooCostly``: it is too large to be hashed.
        """
        if tool is None:
            return None
        known = self.find_known(identity, tool)
        if known is None:
            known = await digest_definition(tool)
            self._known[identity, tool.name] = (tool, known)
            while len(self._known) > _MOST_KNOWN:
                self._known.popitem(last=False)
        return known


class Allowed:
    """The definitions that one host has found allowed, by the server's identities and the tool's name.

    This only saves a read: each definition is confirmed in the transaction that records the call. See ``Supposed``.
    """

    def __init__(self) -> None:
        self._digests: OrderedDict[tuple[tuple[str, ...], str], tuple[str, str | None]] = OrderedDict()

    def get(self, origin: Origin, tool: str) -> tuple[str, str | None] | None:
        """Return the hash of the definition that was allowed and the tool's labels, if that is remembered."""
        return self._digests.get((origin.identities, tool))

    def note(self, origin: Origin, tool: str, standing: Standing) -> None:
        """Remember a tool that is allowed; forget one that is blocked, switched off or not allowed."""
        key, row = (origin.identities, tool), standing.definition
        if standing.blocked or row is None or row.off is not None:
            self._digests.pop(key, None)
            return
        self._digests[key] = (row.digest, row.labels)
        while len(self._digests) > _MOST_KNOWN:
            self._digests.popitem(last=False)


def keep_defining_part(tool: Tool) -> Tool:
    """Return the part of a definition that a person or a model decides by: without icons and ``_meta``."""
    return msgspec.structs.replace(tool, execution=None, icons=None, meta=None)


def speaks_to_the_model(tool: Tool) -> bool:
    """Tell whether a definition has hidden characters, or gives orders to the model."""
    found = (leaf.text for leaf in list_leaves(keep_defining_part(tool)))
    return any(count_hidden(text) or first_instruction(text) is not None for text in found)


def row_of(origin: Origin, tool: Tool, digest: str, by: str | None = None, labels: str | None = None) -> DefinitionRow:
    """Make what is stored of a definition that is allowed now."""
    body = encode_value(keep_defining_part(tool))
    return DefinitionRow(
        identity=origin.identity,
        tool=tool.name,
        digest=digest,
        body=body.decode() if len(body) <= MAX_KEPT else "",
        allowed=time.time(),
        by=by,
        labels=labels,
    )


def changes_of(before: str, after: Tool | None) -> tuple[DiffLine, ...] | None:
    """Compare the definition that was allowed with the present one, line by line.

    Returns:
        The lines that differ, with some around them; ``None`` if either is too long to be compared.
    """
    if not before or (after is not None and len(encode_value(after)) > MAX_KEPT):
        return None
    old = list(list_members(keep_defining_part(msgspec.json.decode(before, type=Tool))))
    new = [] if after is None else list(list_members(keep_defining_part(after)))
    return None if len(old) + len(new) > MAX_LINES else tuple(compare_lines(old, new))


def describe_skill(entry: Skill) -> Tool:
    """Describe a skill as a tool, whose definition a decision is bound to."""
    files = entry.resources
    if files == "dynamic":
        # Different each time, so that no decision about it is remembered.
        lines = [f"its files are made anew each time ({token_hex(8)})"]
    else:
        lines = [f"{file.uri}, {file.size:,} bytes, {file.digest}" for file in files]
    front = msgspec.json.format(msgspec.json.encode(entry.frontmatter, order="deterministic"), indent=2).decode()
    text = "\n".join(["Read a skill: instructions for the agent.", front, *lines])
    name = f"skill:{find_skill_root(entry.uri).removeprefix('skill://')}"
    return Tool(name=name, description=text, input_schema={"type": "object"})


def digest_document(payload: bytes) -> bytes:
    """Hash a large definition, in a side process."""
    return digest(msgspec.json.decode(payload, type=Tool)).encode()


async def digest_definition(tool: Tool) -> str:
    """Hash the part of a definition that a person or a model decides by; raise ``TooCostly`` if it is too large."""
    counted = keep_defining_part(tool)
    payload = encode_value(counted)
    if len(payload) <= MAX_HERE:
        return digest(counted)
    return (await run_aside(digest_document, payload, seconds=MAX_SECONDS)).decode()
