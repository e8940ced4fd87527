"""Every exception Antiphon raises, and the JSON-RPC codes they travel under.

    AntiphonError
    ├── PeerError                     an error reply, received from or meant for the peer (code, message, data)
    │   ├── ParseError                -32700  the frame is not JSON
    │   ├── InvalidRequest            -32600  not a JSON-RPC request, or not allowed now
    │   ├── MethodNotFound            -32601
    │   ├── InvalidParams             -32602
    │   ├── InternalError             -32603
    │   ├── ResourceNotFound          -32002  (-32602 from 2026-07-28)
    │   ├── HeaderMismatch            -32020
    │   ├── MissingCapability         -32021  the client did not declare what the request needs
    │   │   ├── SamplingUnavailable           nobody can complete: the client offers no sampling (or not with tools)
    │   │   └── ElicitationUnavailable        nobody can be asked, or not in this mode
    │   ├── UnsupportedVersion        -32022
    │   ├── UrlElicitationRequired    -32042  (2025-11-25 only)
    │   ├── Unauthorized              401     the server wants a login, or signing in failed
    │   ├── InsufficientScope         403     the caller's token does not allow it
    │   ├── TemporarilyUnavailable    503     a store or engine of the server cannot be reached: call again later
    │   ├── OutcomeUnknown            -2      another process has the call: nobody knows whether it was carried out
    │   └── Rejected                  -1      a person, a policy, a limit or a budget said no
    ├── ProtocolError                 a rule of the protocol was broken on this side of the wire
    │   ├── LocalProtocolError        by our caller: nothing was sent
    │   │   ├── NotInRevision         the agreed revision has no such thing
    │   │   └── CallDiverged          a handler that was run again asked for something else
    │   └── RemoteProtocolError       by the peer: what it sent cannot be used
    ├── ConnectionClosed              the channel ended; for a child process with its exit code and stderr tail
    ├── CallTimeout (TimeoutError)    the deadline of a call passed
    ├── TaskCancelled                 the task that a call became was cancelled
    ├── ToolError                     raised by a tool: its text becomes a result with ``isError``
    ├── SamplingFailed                an answer came that cannot be used (wrong shape, too many steps)
    ├── ResultInvalid                 a tool's structured content does not fit its output schema
    ├── SkillInvalid                  a file of a skill is not what the skill's entry says
    ├── ClusterUnavailable            what the processes of a server share did not answer in time
    ├── TooCostly                     checking what a peer sent goes beyond the bounds of time or memory
    └── ConfigError                   a file, a command line or a decorator is wrong: names the place

Codes are those of JSON-RPC 2.0 and of the MCP specification; this module maps neither way: ``wire.envelope`` does.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, ClassVar


class AntiphonError(Exception):
    """Base of every exception this library raises on purpose."""


class PeerError(AntiphonError):
    """An error reply: what the peer answered, or what a handler wants the peer to be told.

    Args:
        message: one sentence.
        code: the JSON-RPC error code; by default that of the class.
        data: anything JSON can carry, or ``None``.
    """

    CODE: ClassVar[int] = -32603
    told: str | None = None
    """Sent to the peer instead of ``message``, if that is for this side only (a cause and its remedy)."""

    def __init__(self, message: str, *, code: int | None = None, data: Any = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = self.CODE if code is None else code
        self.data = data
        self.remote = False
        """True if the peer sent this error to us; it is then never passed on as our own reply."""

    def __str__(self) -> str:
        return f"{self.message} (code {self.code})"


class ParseError(PeerError):
    """The frame is not JSON (JSON-RPC 2.0, section 5.1)."""

    CODE = -32700


class InvalidRequest(PeerError):
    """The message is not a valid request, or is not allowed in the current state."""

    CODE = -32600


class MethodNotFound(PeerError):
    """The method does not exist, or not in this revision, or its capability was not declared."""

    CODE = -32601


class InvalidParams(PeerError):
    """The params do not fit the method; the message names the place."""

    CODE = -32602


class InternalError(PeerError):
    """The peer failed; the message never contains more than that."""

    CODE = -32603


class ResourceNotFound(PeerError):
    """No resource has this URI; ``data.uri`` repeats it."""

    CODE = -32002


class HeaderMismatch(PeerError):
    """An HTTP header and the body disagree (2026-07-28)."""

    CODE = -32020


class MissingCapability(PeerError):
    """The request needs a client capability that it does not declare (2026-07-28).

    ``data.requiredCapabilities`` has the shape of client capabilities.
    """

    CODE = -32021


class SamplingUnavailable(MissingCapability):
    """The client offers no sampling (or none with tools), and nothing else can complete."""


class ElicitationUnavailable(MissingCapability):
    """The client offers no elicitation, or not in this mode."""


class UnsupportedVersion(PeerError):
    """The protocol revision of the request is not spoken here; ``data.supported`` lists those that are."""

    CODE = -32022


class UrlElicitationRequired(PeerError):
    """The request cannot be served before a URL elicitation is done (2025-11-25 only)."""

    CODE = -32042


class Unauthorized(PeerError):
    """The server wants a login that we do not have, or signing in failed; the message says which, and what to do.

    The code is the HTTP status. The message never holds a token, a code or a secret.
    """

    CODE = 401


class InsufficientScope(PeerError):
    """The caller's token lacks a scope that the operation needs; ``data.requiredScopes`` lists all of them.

    Raise it in a handler that finds out only while it runs which scopes it needs. Over HTTP the response then has
    status 403 and ``WWW-Authenticate`` (2026-07-28 basic/authorization), unless something was sent before. The
    specification has no JSON-RPC code for this error, so the code is the HTTP status.

    Args:
        message: one sentence for the client; by default it names the scopes.
        scopes: all scopes that the operation needs.
        code: the JSON-RPC error code.
        data: what the error carries instead of ``requiredScopes``.
    """

    CODE = 403

    def __init__(
        self, message: str | None = None, *, scopes: Collection[str] = (), code: int | None = None, data: Any = None
    ) -> None:
        needed = sorted(scopes)
        if message is None:
            message = "Insufficient scope" + (f": {' '.join(needed)} needed" if needed else "")
        super().__init__(message, code=code, data={"requiredScopes": needed} if data is None else data)
        self.scopes = frozenset(scopes)


class TemporarilyUnavailable(PeerError):
    """What the server stores cannot be reached now. The call was not carried out, and may be made again.

    The code is the HTTP status, with which the error is sent if no stream has begun.
    """

    CODE = 503


class OutcomeUnknown(PeerError):
    """Another process of the server has the call, or its effect was not recorded: it may have been carried out or not.

    Find out before calling again, because the effect may then happen twice.
    """

    CODE = -2


class Rejected(PeerError):
    """A person, a policy, a limit or a budget refused; ``data.reason`` says which of these, without details."""

    CODE = -1


class ProtocolError(AntiphonError):
    """A rule of the protocol was broken on this side of the wire."""


class LocalProtocolError(ProtocolError):
    """This program asked for something that the protocol forbids; nothing was sent."""


class NotInRevision(LocalProtocolError):
    """The agreed protocol revision lacks something; the message names both."""


class CallDiverged(LocalProtocolError):
    """A handler that was run again asked for something else than before; the message says what.

    The call fails, so that no answer is given to the wrong question. A handler must ask the same in every run: whatever
    differs between runs (the time, random numbers, outside state) belongs in ``ctx.step``.
    """


class RemoteProtocolError(ProtocolError):
    """The peer sent something that cannot be used."""


class ConnectionClosed(AntiphonError):
    """The channel has ended; calls in flight will not be answered.

    Args:
        message: why it ended.
        exit_code: exit code of the peer, if it was a child process.
        stderr: the last lines of its standard error, if it was a child process.
    """

    def __init__(self, message: str, *, exit_code: int | None = None, stderr: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code
        self.stderr = stderr

    def __str__(self) -> str:
        parts = [self.message]
        if self.exit_code is not None:
            parts.append(f"(exit code {self.exit_code})")
        text = " ".join(parts)
        return f"{text}\n--- stderr of the server ---\n{self.stderr}" if self.stderr else text


class CallTimeout(AntiphonError, TimeoutError):
    """The deadline of a call passed. Time spent on answering the call's asks does not count."""


class TaskCancelled(AntiphonError):
    """The task that a call became was cancelled, so that there is no result."""


class ToolError(AntiphonError):
    """Raise this in a tool to tell the model what went wrong: the text becomes a result with ``isError``."""


class SamplingFailed(AntiphonError):
    """An answer to a sampling request cannot be used.

    Args:
        message: why.
        text: the text of the answer.
    """

    def __init__(self, message: str, *, text: str = "") -> None:
        super().__init__(message)
        self.text = text


class ResultInvalid(AntiphonError):
    """Structured content does not fit the tool's output schema; the message names the place."""

    mismatch: str = ""
    """The place and the broken rule, without anything of the result, for the tool's client."""


class SkillInvalid(AntiphonError):
    """A file of a skill is not what the skill's entry says, or the entry cannot be used; nothing of it was returned."""


class ClusterUnavailable(AntiphonError):
    """What the processes of a server share could not be reached in time; the operation may have taken effect."""


class TooCostly(AntiphonError):
    """Checking what a peer sent (a schema, a value, a text) would exceed the limits of time or memory; it is unused."""


class ConfigError(AntiphonError):
    """A file, a command line or a decorated function is wrong; the message names the place and says what to do."""


if not TYPE_CHECKING:
    __all__ = [name for name, each in sorted(globals().items()) if getattr(each, "__module__", "") == __name__]
