"""Antiphon: the Model Context Protocol, in which a server may call back.

Owns the list of public names and nothing else. A name is loaded when it is first used, so that
``import antiphon`` costs next to nothing and a client never pays for the server.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in typing, without importing it: type checkers take this name as true
if TYPE_CHECKING:
    from antiphon.auth.client.oauth import OAuth
    from antiphon.auth.server.resource_server import ResourceServer
    from antiphon.channel import Channel, Frame, Oversized
    from antiphon.client.by_hand import BY_HAND
    from antiphon.client.client import Client
    from antiphon.client.rounds.loop import RoundLimits
    from antiphon.client.rounds.pending import PendingRound
    from antiphon.errors import (
        AntiphonError,
        CallDiverged,
        CallTimeout,
        ClusterUnavailable,
        ConfigError,
        ConnectionClosed,
        ElicitationUnavailable,
        HeaderMismatch,
        InsufficientScope,
        InternalError,
        InvalidParams,
        InvalidRequest,
        LocalProtocolError,
        MethodNotFound,
        MissingCapability,
        NotInRevision,
        OutcomeUnknown,
        ParseError,
        PeerError,
        ProtocolError,
        Rejected,
        RemoteProtocolError,
        ResourceNotFound,
        ResultInvalid,
        SamplingFailed,
        SamplingUnavailable,
        TaskCancelled,
        TemporarilyUnavailable,
        TooCostly,
        ToolError,
        Unauthorized,
        UnsupportedVersion,
        UrlElicitationRequired,
    )
    from antiphon.host.host import Host
    from antiphon.server.app import Server
    from antiphon.server.asks.elicitation import Elicited
    from antiphon.server.asks.sample import Sample
    from antiphon.server.calls.call import CallAbandoned
    from antiphon.server.calls.sql_state_store import SqlStateStore
    from antiphon.server.calls.state_store import CompareAndSetStore, MemoryStateStore, StateStore
    from antiphon.server.context import Context
    from antiphon.server.limits import Rate
    from antiphon.wire.common import Annotations, Icon
    from antiphon.wire.content import (
        AudioContent,
        EmbeddedResource,
        ImageContent,
        ResourceContents,
        ResourceLink,
        TextContent,
        ToolResultContent,
        ToolUseContent,
    )
    from antiphon.wire.elicitation import ElicitRequestParams, ElicitResult
    from antiphon.wire.origin import Origin
    from antiphon.wire.prompts import GetPromptResult, PromptMessage
    from antiphon.wire.resources import ReadResourceResult
    from antiphon.wire.roots import Root
    from antiphon.wire.sampling import (
        CreateMessageRequestParams,
        CreateMessageResult,
        ModelHint,
        ModelPreferences,
        SamplingMessage,
        ToolChoice,
    )
    from antiphon.wire.tools import CallToolResult, Tool, ToolAnnotations

__all__ = [
    "BY_HAND",
    "Annotations",
    "AntiphonError",
    "AudioContent",
    "CallAbandoned",
    "CallDiverged",
    "CallTimeout",
    "CallToolResult",
    "Channel",
    "Client",
    "ClusterUnavailable",
    "CompareAndSetStore",
    "ConfigError",
    "ConnectionClosed",
    "Context",
    "CreateMessageRequestParams",
    "CreateMessageResult",
    "ElicitRequestParams",
    "ElicitResult",
    "ElicitationUnavailable",
    "Elicited",
    "EmbeddedResource",
    "Frame",
    "GetPromptResult",
    "HeaderMismatch",
    "Host",
    "Icon",
    "ImageContent",
    "InsufficientScope",
    "InternalError",
    "InvalidParams",
    "InvalidRequest",
    "LocalProtocolError",
    "MemoryStateStore",
    "MethodNotFound",
    "MissingCapability",
    "ModelHint",
    "ModelPreferences",
    "NotInRevision",
    "OAuth",
    "Origin",
    "OutcomeUnknown",
    "Oversized",
    "ParseError",
    "PeerError",
    "PendingRound",
    "PromptMessage",
    "ProtocolError",
    "Rate",
    "ReadResourceResult",
    "Rejected",
    "RemoteProtocolError",
    "ResourceContents",
    "ResourceLink",
    "ResourceNotFound",
    "ResourceServer",
    "ResultInvalid",
    "Root",
    "RoundLimits",
    "Sample",
    "SamplingFailed",
    "SamplingMessage",
    "SamplingUnavailable",
    "Server",
    "SqlStateStore",
    "StateStore",
    "TaskCancelled",
    "TemporarilyUnavailable",
    "TextContent",
    "TooCostly",
    "Tool",
    "ToolAnnotations",
    "ToolChoice",
    "ToolError",
    "ToolResultContent",
    "ToolUseContent",
    "Unauthorized",
    "UnsupportedVersion",
    "UrlElicitationRequired",
]

__version__ = "0.1.0"

# Where each name lives, unless it is an error: those are all in ``antiphon.errors``.
_HOMES = {
    "Annotations": "wire.common",
    "AudioContent": "wire.content",
    "BY_HAND": "client.by_hand",
    "CallAbandoned": "server.calls.call",
    "CallToolResult": "wire.tools",
    "Channel": "channel",
    "Client": "client.client",
    "CompareAndSetStore": "server.calls.state_store",
    "Context": "server.context",
    "CreateMessageRequestParams": "wire.sampling",
    "CreateMessageResult": "wire.sampling",
    "ElicitRequestParams": "wire.elicitation",
    "ElicitResult": "wire.elicitation",
    "Elicited": "server.asks.elicitation",
    "EmbeddedResource": "wire.content",
    "Frame": "channel",
    "GetPromptResult": "wire.prompts",
    "Host": "host.host",
    "Icon": "wire.common",
    "ImageContent": "wire.content",
    "MemoryStateStore": "server.calls.state_store",
    "ModelHint": "wire.sampling",
    "ModelPreferences": "wire.sampling",
    "OAuth": "auth.client.oauth",
    "Origin": "wire.origin",
    "Oversized": "channel",
    "PendingRound": "client.rounds.pending",
    "PromptMessage": "wire.prompts",
    "Rate": "server.limits",
    "ReadResourceResult": "wire.resources",
    "ResourceContents": "wire.content",
    "ResourceLink": "wire.content",
    "ResourceServer": "auth.server.resource_server",
    "Root": "wire.roots",
    "RoundLimits": "client.rounds.loop",
    "Sample": "server.asks.sample",
    "SamplingMessage": "wire.sampling",
    "Server": "server.app",
    "SqlStateStore": "server.calls.sql_state_store",
    "StateStore": "server.calls.state_store",
    "TextContent": "wire.content",
    "Tool": "wire.tools",
    "ToolAnnotations": "wire.tools",
    "ToolChoice": "wire.sampling",
    "ToolResultContent": "wire.content",
    "ToolUseContent": "wire.content",
}


def __getattr__(name: str) -> object:
    """Load a public name when it is first used, and keep it."""
    from importlib import import_module

    if name not in __all__:
        if not name.startswith("_") and (found := import_module("antiphon.machine.other_frameworks").find_name(name)):
            # An AttributeError would lose its text in `from antiphon import NAME`.
            raise ImportError(found)
        raise AttributeError(f"module 'antiphon' has no attribute {name!r}")

    value: object = getattr(import_module(f"antiphon.{_HOMES.get(name, 'errors')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return [*__all__, "__version__"]
