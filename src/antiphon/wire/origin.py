"""Who asks, and why: the facts that a client passes to an answerer with every ask.

Plain data, made by the client and read by the host; none of it is sent.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import SplitResult, urlsplit, urlunsplit

import msgspec

from antiphon.wire.common import Implementation
from antiphon.wire.content import TextContent
from antiphon.wire.tools import CallToolRequestParams, CallToolResult, Tool

_DEFAULT_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}
MEMORY = "memory:"
"""First word of a target that is an object in this process, and not a program."""


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """What a command line would run, as ``antiphon.identity`` determined it."""

    program: str
    """The root of a virtual environment, or the file of the program; for an interpreter, without its minor version."""
    arguments: tuple[str, ...] = ()
    """As given, except that the file of a script is absolute."""
    variables: tuple[tuple[str, str], ...] = ()
    """Environment variables of the configuration that determine which code runs, by name."""
    folder: str | None = None
    """Working folder, if it determines which code runs."""
    alike: tuple[str, ...] = ()
    """The words without folders, versions and options of the interpreter."""
    shown: tuple[str, ...] = ()
    """The command line for people: as configured, except that the file of a script is absolute."""
    pinned: bool = True
    """Whether it names a fixed version; false for a package that is fetched in its newest version."""
    script: str = ""
    """SHA-256 of the script that it runs, as it was when this was found out; empty if it runs none."""


class OriginCall(msgspec.Struct, frozen=True, kw_only=True):
    """The request of this client that an ask belongs to."""

    id: str
    """Names the call on this side: the same in all its asks, rounds and retries, and never reused."""
    method: str
    """``"tools/call"``, ``"prompts/get"``, ..."""
    name: str | None = None
    """Name of the tool or prompt, or the URI."""
    arguments: dict[str, Any] | None = None
    """The arguments of the tool or prompt."""


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """Which round of a call this is (modern era)."""

    n: int
    """From 1."""
    max: int
    """Most rounds the client allows."""


class OriginTask(msgspec.Struct, frozen=True, kw_only=True):
    """The task that an ask belongs to (modern era). Only ``says`` comes from its server."""

    name: str
    """Name of the task, the same in every process that follows it. A hash, because the id allows acting on the task."""
    ask: str
    """Name of the ask in its task; the same if it is asked again after the process that followed the task has died."""
    started: float | None = None
    """When its call was made, in seconds since the epoch; ``None`` if another client has made the call."""
    says: str = ""
    """The server's last message about it; not verified."""
    first: float | None = None
    """When a host with the same store was first asked for it, in seconds since the epoch; set by the host."""
    asks: int = 0
    """Asks of it that such hosts had before this one; set by the host."""
    money: int = 0
    """Nano-dollars that they have spent on it; set by the host."""
    tokens: int = 0
    """Tokens that they have spent on it; set by the host."""


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks and why. An answerer is called with ``(params, origin)``."""

    id: str
    """Names this ask on this side; unique in the process."""
    identity: str
    """Identifies the server by what its command line runs, or by its URL (see ``identify_target``), not by what it
    declares."""
    coarser: tuple[str, ...] = ()
    """Identities shared with similar servers: without folders, versions and variables. Denials, caps and spending apply
    to these as well, permissions never do."""
    pinned: bool = True
    """Whether it is known which version runs; if not, no permission outlasts the process."""
    script: str = ""
    """SHA-256 of the script that the server runs, without what it imports; see ``Launch.script``."""
    target: str
    """The command line or URL, for display; without credentials."""
    server: Implementation | None = None
    """Name and version that the server declares; not verified."""
    call: OriginCall | None = None
    """The request this ask belongs to; ``None`` if the server asked in the background, or if it is unclear."""
    round: Round | None = None
    """``None`` in the legacy era."""
    task: OriginTask | None = None
    """The task that its call has become; ``None`` if it has not."""
    revision: str | None = None
    """The name of the agreed protocol revision."""
    patience: float | None = None
    """Seconds for which the server waits for the answer; ``None`` if unknown."""
    tool: Tool | None = None
    """What the server declares about the tool whose call is to be confirmed; not verified."""
    door: str | None = None
    """How the ask came if not as a message of the protocol: ``"model-api"``."""
    principal: str | None = None
    """Whose call it is, if it came through a gateway that knows its clients: the principal of their token."""
    unclear: bool = False
    """Whether it may belong to one of several calls, or to a call that has ended: nobody knows to which."""

    @property
    def identities(self) -> tuple[str, ...]:
        """Its identity and the coarser ones: a denial of any of them denies this server."""
        return (self.identity, *self.coarser)

    @property
    def chain(self) -> str:
        """Name of the group of asks that this one is counted with: its task, or else its call, or else itself alone."""
        if self.task is not None:
            return f"task:{self.task.name}"
        return self.call.id if self.call is not None else f"ask:{self.id}"

    @property
    def alike(self) -> str:
        """The identity that caps and spending are counted by: the first coarser one, or else its own."""
        return self.coarser[0] if self.coarser else self.identity


class ChangedCall(msgspec.Struct, frozen=True, kw_only=True):
    """What a person wants in place of a call of a tool as it was asked for: other params, or a result without it."""

    params: CallToolRequestParams | None = None
    """The call to make instead."""
    note: str = ""
    """What the model is told about it, in the result; empty for nothing."""
    result: CallToolResult | None = None
    """The result, if the tool is not to be called."""

    def decode_arguments(self) -> dict[str, Any]:
        """Return the arguments of the call to make instead."""
        return msgspec.json.decode(b"{}" if self.params is None else bytes(self.params.arguments), type=dict[str, Any])

    def add_note(self, result: CallToolResult) -> CallToolResult:
        """Return the result of the changed call with what the model is told about it.

        Args:
            result: what the tool returned.
        """
        if not self.note:
            return result
        return msgspec.structs.replace(result, content=[*result.content, TextContent(text=self.note)])


class Equipment(Protocol):
    """What a host gives to the process of a server, for as long as it runs, so that it can use the model API."""

    def environment(self, env: Mapping[str, str]) -> Mapping[str, str]:
        """Return the environment of the child, made from the one it would have.

        Args:
            env: the variables that the child would have without this.
        """
        ...

    def started(self, pid: int) -> None:
        """Note that the child runs.

        Args:
            pid: its process id.
        """

    def ended(self) -> None:
        """Note that it has ended, or was never started. May be called twice."""


def identify_target(target: str | Sequence[str] | Launch) -> str:
    """Compute who a server is from where it was found: ``"url:<sha256>"`` or ``"command:<sha256>"``.

    A string is a URL. Two spellings of one URL (case of the host, default port, fragment, credentials) are one
    identity. Of a launch, everything counts that chooses what runs. A sequence of words is a server in memory:
    ``"memory:<sha256>"``.
    """
    if isinstance(target, str):
        return f"url:{_compute_digest(_normal_url(target))}"
    if isinstance(target, Launch):
        said = json.dumps([target.program, target.arguments, target.variables, target.folder])
        return f"command:{_compute_digest(said)}"
    return MEMORY + _compute_digest(chr(0).join(target))


def list_coarser(target: str | Sequence[str] | Launch) -> tuple[str, ...]:
    """Compute the identities that a server shares with those alike, the one that caps count by first.

    A URL's has host, port and path; a launch's the words without folders, versions and variables.
    """
    if isinstance(target, str):
        parts = urlsplit(_normal_url(target))
        return (f"coarse:{_compute_digest(parts.netloc + parts.path.rstrip('/'))}",)
    if isinstance(target, Launch):
        return (f"coarse:{_compute_digest(json.dumps(target.alike))}",)
    return ()


def task_name(identity: str, *words: str) -> str:
    """Make the name of a task, or of an ask of it, as a hash of words that only its client and its server know."""
    return _compute_digest(chr(0).join((identity, *words)))[:32]


def describe_target(target: str | Sequence[str] | Launch) -> str:
    """Write a URL (without its credentials), a launch, or the name of a server in this process for people.

    Of a launch, the folder and the names of variables are written beside it where they choose what runs.
    """
    if isinstance(target, Launch):
        names = ", ".join(name for name, _ in target.variables)
        beside = [f"in {target.folder}" if target.folder else "", f"with {names} set" if names else ""]
        said = ", ".join(filter(None, beside))
        return shlex.join(target.shown) + (f" ({said})" if said else "")
    if not isinstance(target, str):
        return " ".join(target[1:]) if target[0] == MEMORY else shlex.join(target)
    parts = urlsplit(target)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _normal_url(url: str) -> str:
    parts = urlsplit(url)
    host = (parts.hostname or "").lower()
    port = "" if parts.port in (None, _DEFAULT_PORTS.get(parts.scheme)) else f":{parts.port}"
    return urlunsplit(SplitResult(parts.scheme, host + port, parts.path or "/", parts.query, ""))


def _compute_digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
