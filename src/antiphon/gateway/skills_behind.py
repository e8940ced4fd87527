"""Skills of the servers behind a gateway: listed together, under URIs that begin with the server's word.

``skill://PATH/SKILL.md`` of the server ``docs`` is ``skill://docs/PATH/SKILL.md`` here, and ``github://a/SKILL.md`` is
``skill://docs/github://a/SKILL.md``, so that no server's skill can take the place of another's. Files keep their bytes.

No file is fetched before a client reads it. The host is asked about a skill as about a call of a tool whose definition
is the skill's entry: front matter, files, digests. So a decision that is remembered ends when any of them changes. A
person who is asked is shown the text of the file, which is fetched for that, and handed over as it was shown.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable
from secrets import token_hex

from msgspec import json, structs

from antiphon.client.client import Client
from antiphon.client.connection.targets import Target, describe_location, locate_target
from antiphon.client.requests.request_calls import loose_origin
from antiphon.client.tool_calls import Confirming
from antiphon.errors import AntiphonError, Rejected
from antiphon.host.review.question import READ
from antiphon.wire.envelope import encode_value
from antiphon.wire.origin import OriginCall
from antiphon.wire.skills import Skill, find_skill_root
from antiphon.wire.tools import CallToolRequestParams, Tool

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


async def fetch_skills(client: Client) -> tuple[Skill, ...]:
    """List the skills of a server; none if it has none, or if the list fails, which costs it nothing else."""
    taken: list[Skill] = []
    try:
        async for skill in client.skills():
            # An entry that cannot be loaded anywhere would only be refused later.
            if skill.problem is None and len(taken) < MAX_SKILLS:
                taken.append(skill.entry)
            elif skill.problem is not None:
                log.warning("the skill %s is left out: %s", skill.uri, skill.problem)
    except AntiphonError as error:
        log.warning("the skills of a server cannot be listed: %s", error)
    return tuple(taken)


class HeldSkills:
    """The entries of one server's skills by which its files are verified, and the skills that were approved."""

    def __init__(self) -> None:
        self._entries: dict[str, Skill] = {}
        self._approved: set[bytes] = set()

    def hold(self, entry: Skill) -> None:
        """Hold the newest entry of a skill."""
        if len(self._entries) >= MAX_SKILLS:
            self._entries.clear()
        self._entries[entry.uri] = entry

    def renew(self, listed: tuple[Skill, ...]) -> None:
        """Hold the entries of a new list."""
        self._entries = {entry.uri: entry for entry in listed}

    def find(self, uri: str) -> Skill | None:
        """Return the entry of the skill that a file belongs to: of several, the innermost; ``None`` if none is held."""
        found = [entry for entry in self._entries.values() if uri.startswith(f"{find_skill_root(entry.uri)}/")]
        return max(found, key=lambda entry: len(entry.uri), default=None)

    async def allow(
        self, entry: Skill, uri: str, target: Target, confirm: Confirming, read: Callable[[], Awaitable[bytes]]
    ) -> None:
        """Have the host decide about a skill before its ``SKILL.md`` is read, and before any other file of it once.

        Only a host that asks a person calls ``read``, which fetches and verifies the file: the person sees its text.

        Raises:
            Rejected: it was refused.
        """
        key = encode_value(entry)
        if uri != entry.uri and key in self._approved:
            return
        origin = loose_origin(describe_location(locate_target(target)))
        files = () if entry.resources == "dynamic" else entry.resources
        digest = next((file.digest for file in files if file.uri == uri), None)
        tool, arguments = _describe_skill(entry), {"uri": uri, "digest": digest}
        call = OriginCall(id=origin.id, method="resources/read", name=uri, arguments=arguments)
        params = CallToolRequestParams.of(tool.name, arguments)
        before = READ.set(read)
        try:
            allowed = await confirm.confirm(params, structs.replace(origin, call=call, tool=tool))
        finally:
            READ.reset(before)
        if allowed is not True:
            raise Rejected(f"The skill {entry.uri} was not allowed as it is")
        if entry.resources != "dynamic":
            if len(self._approved) >= MAX_SKILLS:
                self._approved.clear()
            self._approved.add(key)


def _describe_skill(entry: Skill) -> Tool:
    """Describe a skill as a tool, whose definition a decision is bound to."""
    files = entry.resources
    if files == "dynamic":
        # Different each time, so that no decision about it is remembered.
        lines = [f"its files are made anew each time ({token_hex(8)})"]
    else:
        lines = [f"{file.uri}, {file.size:,} bytes, {file.digest}" for file in files]
    front = json.format(json.encode(entry.frontmatter, order="deterministic"), indent=2).decode()
    text = "\n".join(["Read a skill: instructions for the agent.", front, *lines])
    name = f"skill:{find_skill_root(entry.uri).removeprefix('skill://')}"
    return Tool(name=name, description=text, input_schema={"type": "object"})
