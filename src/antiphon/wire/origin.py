"""Who asks, and why: the facts that go with every ask from the client to whoever answers it.

Pure data, built by the client, read by the host; none of it travels. How an answer is found is the host's business.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Sequence
from typing import Any
from urllib.parse import SplitResult, urlsplit, urlunsplit

import msgspec

from antiphon.wire.common import Implementation
from antiphon.wire.tools import Tool

__all__ = ["MEMORY", "Launch", "Origin", "OriginCall", "Round", "coarser", "describe_target", "identify", "is_former"]

_DEFAULT_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}
MEMORY = "memory:"
"""The first word of a server that is no program: an object in this process."""
_COMMAND = "command:2."
"""Begins the identity of a launch. Earlier releases hashed the words of a command line: ``command:<sha256>``."""


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """What a command line would run, as ``antiphon.identity`` found it out."""

    program: str
    """The root of a virtual environment, or the program's file; an interpreter's without its minor version."""
    arguments: tuple[str, ...] = ()
    """As they are given, but for the file of a script, which is absolute."""
    variables: tuple[tuple[str, str], ...] = ()
    """Those of the entry that choose code, by name."""
    folder: str | None = None
    """Where it is started, if that chooses code."""
    alike: tuple[str, ...] = ()
    """The words that are left without folders, versions and options of the interpreter."""
    typed: tuple[str, ...] = ()
    """The command line as it was configured."""
    shown: tuple[str, ...] = ()
    """The command line for people: as it was configured, but for the file of a script, which is absolute."""
    pinned: bool = True
    """Whether it names the version of what it runs; false for a package that is fetched in its newest version."""


class OriginCall(msgspec.Struct, frozen=True, kw_only=True):
    """The request of ours that an ask belongs to."""

    id: str
    """Names the call on this side: the same for all its asks, rounds and retries, never reused by another call."""
    method: str
    """``"tools/call"``, ``"prompts/get"``, ..."""
    name: str | None = None
    """The tool, prompt or URI."""
    arguments: dict[str, Any] | None = None
    """What the tool or prompt was called with."""


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """Which ask-and-retry of a call this is (modern era)."""

    n: int
    """From 1."""
    max: int
    """How many the client will go along with."""


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks and why. An answerer is called with ``(params, origin)``."""

    id: str
    """Names this ask on this side; unique in the process."""
    identity: str
    """Who the server is, by what would run or by its URL (see ``identify``), never by what it says of itself."""
    coarser: tuple[str, ...] = ()
    """Identities that it shares with servers alike: without folders, versions and variables, and in the form of earlier
    releases. Denials, caps and spending go by these as well, permissions never."""
    pinned: bool = True
    """Whether it is known which version would run; if not, no permission outlasts the process."""
    target: str
    """The command line or URL, for display; without credentials."""
    server: Implementation | None = None
    """Name and version as the server declares them: not to be trusted."""
    call: OriginCall | None = None
    """The request of ours this belongs to; ``None`` if the server asked in the background."""
    round: Round | None = None
    """``None`` in the legacy era."""
    revision: str | None = None
    """The agreed protocol revision, as a label."""
    patience: float | None = None
    """Seconds that the answer is waited for, as far as that is known on this side; ``None`` where it is not."""
    tool: Tool | None = None
    """Where a call of ours is to be confirmed: what the server says of the tool, not to be trusted."""

    @property
    def identities(self) -> tuple[str, ...]:
        """Its identity, and those coarser than it: whatever denies one of them denies this server."""
        return (self.identity, *self.coarser)

    @property
    def alike(self) -> str:
        """What caps and spending count by: the first of the coarser identities, or else its own."""
        return self.coarser[0] if self.coarser else self.identity


def identify(target: str | Sequence[str] | Launch) -> str:
    """Compute who a server is from where it was found: ``"url:<sha256>"`` or ``"command:2.<sha256>"``.

    A string is a URL. Two spellings of one URL (case of the host, default port, fragment, credentials) are one
    identity. Of a launch, everything counts that chooses what runs. A sequence of words is a server in memory
    (``"memory:<sha256>"``), or a command line as earlier releases hashed it: ``"command:<sha256>"``.
    """
    if isinstance(target, str):
        return f"url:{_digest(_normal_url(target))}"
    if isinstance(target, Launch):
        return _COMMAND + _digest(json.dumps([target.program, target.arguments, target.variables, target.folder]))
    return f"{'memory' if _is_memory(target) else 'command'}:{_digest(chr(0).join(target))}"


def coarser(target: str | Sequence[str] | Launch) -> tuple[str, ...]:
    """Compute the identities that a server shares with those alike, the one that caps count by first.

    Of a URL: that of its host, port and path, whatever its scheme and query. Of a launch: that of its words without
    folders, versions and variables, and that which earlier releases would have computed.
    """
    if isinstance(target, str):
        parts = urlsplit(_normal_url(target))
        return (f"coarse:{_digest(parts.netloc + parts.path.rstrip('/'))}",)
    if isinstance(target, Launch):
        return (f"coarse:{_digest(json.dumps(target.alike))}", identify(target.typed))
    return (f"command:{_digest(chr(0).join(target))}",) if _is_memory(target) else ()


def is_former(identity: str) -> bool:
    """Tell whether an identity is in the form of earlier releases, which hashed a command line as it was typed.

    A permission under it holds for nothing any more.
    """
    return identity.startswith("command:") and not identity.startswith(_COMMAND)


def describe_target(target: str | Sequence[str] | Launch) -> str:
    """Write a URL (without its credentials), a command line or a launch for people.

    Of a launch, the folder and the names of variables are written beside it where they choose what runs.
    """
    if isinstance(target, Launch):
        names = ", ".join(name for name, _ in target.variables)
        beside = [f"in {target.folder}" if target.folder else "", f"with {names} set" if names else ""]
        said = ", ".join(filter(None, beside))
        return shlex.join(target.shown) + (f" ({said})" if said else "")
    if not isinstance(target, str):
        return shlex.join(target)
    parts = urlsplit(target)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _is_memory(words: Sequence[str]) -> bool:
    return words[:1] == [MEMORY]


def _normal_url(url: str) -> str:
    parts = urlsplit(url)
    host = (parts.hostname or "").lower()
    port = "" if parts.port in (None, _DEFAULT_PORTS.get(parts.scheme)) else f":{parts.port}"
    return urlunsplit(SplitResult(parts.scheme, host + port, parts.path or "/", parts.query, ""))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
