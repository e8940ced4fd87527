"""Antiphon: the Model Context Protocol, in which a server may call back.

Owns the list of public names and nothing else. A name is loaded when it is first used, so that
``import antiphon`` costs next to nothing and a client never pays for the server.
"""

from __future__ import annotations

__version__ = "0.1.0"

TYPE_CHECKING = False  # as in typing, without importing it: type checkers take this name as true
if TYPE_CHECKING:
    from antiphon.auth.client.oauth import OAuth as OAuth
    from antiphon.auth.server.resource_server import ResourceServer as ResourceServer
    from antiphon.channel import Channel as Channel, Frame as Frame, Oversized as Oversized
    from antiphon.client.by_hand import BY_HAND as BY_HAND
    from antiphon.client.client import Client as Client
    from antiphon.client.rounds.loop import PendingRound as PendingRound, RoundLimits as RoundLimits
    from antiphon.errors import (
        AntiphonError as AntiphonError,
        CallDiverged as CallDiverged,
        CallTimeout as CallTimeout,
        ClusterUnavailable as ClusterUnavailable,
        ConfigError as ConfigError,
        ConnectionClosed as ConnectionClosed,
        ElicitationUnavailable as ElicitationUnavailable,
        HeaderMismatch as HeaderMismatch,
        InsufficientScope as InsufficientScope,
        InternalError as InternalError,
        InvalidParams as InvalidParams,
        InvalidRequest as InvalidRequest,
        LocalProtocolError as LocalProtocolError,
        MethodNotFound as MethodNotFound,
        MissingCapability as MissingCapability,
        NotInRevision as NotInRevision,
        OutcomeUnknown as OutcomeUnknown,
        ParseError as ParseError,
        PeerError as PeerError,
        ProtocolError as ProtocolError,
        Rejected as Rejected,
        RemoteProtocolError as RemoteProtocolError,
        ResourceNotFound as ResourceNotFound,
        ResultInvalid as ResultInvalid,
        SamplingFailed as SamplingFailed,
        SamplingUnavailable as SamplingUnavailable,
        TaskCancelled as TaskCancelled,
        TemporarilyUnavailable as TemporarilyUnavailable,
        TooCostly as TooCostly,
        ToolError as ToolError,
        Unauthorized as Unauthorized,
        UnsupportedVersion as UnsupportedVersion,
        UrlElicitationRequired as UrlElicitationRequired,
    )
    from antiphon.host.host import Host as Host
    from antiphon.server.app import Server as Server
    from antiphon.server.asks.elicitations import Elicited as Elicited
    from antiphon.server.asks.sample import Sample as Sample
    from antiphon.server.calls.call import CallAbandoned as CallAbandoned
    from antiphon.server.state.sql_state_store import SqlStateStore as SqlStateStore
    from antiphon.server.state.state_store import (
        CompareAndSetStore as CompareAndSetStore,
        MemoryStateStore as MemoryStateStore,
        StateStore as StateStore,
    )
    from antiphon.server.context import Context as Context
    from antiphon.server.rate_limits import Rate as Rate
    from antiphon.wire.common import Annotations as Annotations, Icon as Icon
    from antiphon.wire.content import (
        AudioContent as AudioContent,
        EmbeddedResource as EmbeddedResource,
        ImageContent as ImageContent,
        ResourceContents as ResourceContents,
        ResourceLink as ResourceLink,
        TextContent as TextContent,
        ToolResultContent as ToolResultContent,
        ToolUseContent as ToolUseContent,
    )
    from antiphon.wire.elicitation import ElicitRequestParams as ElicitRequestParams, ElicitResult as ElicitResult
    from antiphon.wire.origin import Origin as Origin
    from antiphon.wire.prompts import GetPromptResult as GetPromptResult, PromptMessage as PromptMessage
    from antiphon.wire.resources import ReadResourceResult as ReadResourceResult
    from antiphon.wire.roots import Root as Root
    from antiphon.wire.sampling import (
        CreateMessageRequestParams as CreateMessageRequestParams,
        CreateMessageResult as CreateMessageResult,
        ModelHint as ModelHint,
        ModelPreferences as ModelPreferences,
        SamplingMessage as SamplingMessage,
        ToolChoice as ToolChoice,
    )
    from antiphon.wire.tools import CallToolResult as CallToolResult, Tool as Tool, ToolAnnotations as ToolAnnotations
else:
    _HOMES = {
        "antiphon.auth.client.oauth": "OAuth",
        "antiphon.auth.server.resource_server": "ResourceServer",
        "antiphon.channel": "Channel Frame Oversized",
        "antiphon.client.by_hand": "BY_HAND",
        "antiphon.client.client": "Client",
        "antiphon.client.rounds.loop": "PendingRound RoundLimits",
        "antiphon.errors": (
            "AntiphonError CallDiverged CallTimeout ClusterUnavailable ConfigError ConnectionClosed "
            "ElicitationUnavailable HeaderMismatch InsufficientScope InternalError InvalidParams "
            "InvalidRequest LocalProtocolError MethodNotFound MissingCapability NotInRevision OutcomeUnknown "
            "ParseError PeerError ProtocolError Rejected RemoteProtocolError ResourceNotFound ResultInvalid "
            "SamplingFailed SamplingUnavailable TaskCancelled TemporarilyUnavailable TooCostly ToolError "
            "Unauthorized UnsupportedVersion UrlElicitationRequired"
        ),
        "antiphon.host.host": "Host",
        "antiphon.server.app": "Server",
        "antiphon.server.asks.elicitations": "Elicited",
        "antiphon.server.asks.sample": "Sample",
        "antiphon.server.calls.call": "CallAbandoned",
        "antiphon.server.state.sql_state_store": "SqlStateStore",
        "antiphon.server.state.state_store": "CompareAndSetStore MemoryStateStore StateStore",
        "antiphon.server.context": "Context",
        "antiphon.server.rate_limits": "Rate",
        "antiphon.wire.common": "Annotations Icon",
        "antiphon.wire.content": (
            "AudioContent EmbeddedResource ImageContent ResourceContents ResourceLink TextContent ToolResultContent "
            "ToolUseContent"
        ),
        "antiphon.wire.elicitation": "ElicitRequestParams ElicitResult",
        "antiphon.wire.origin": "Origin",
        "antiphon.wire.prompts": "GetPromptResult PromptMessage",
        "antiphon.wire.resources": "ReadResourceResult",
        "antiphon.wire.roots": "Root",
        "antiphon.wire.sampling": (
            "CreateMessageRequestParams CreateMessageResult ModelHint ModelPreferences SamplingMessage ToolChoice"
        ),
        "antiphon.wire.tools": "CallToolResult Tool ToolAnnotations",
    }
    __all__ = [name for names in _HOMES.values() for name in names.split()]

    def __getattr__(name: str) -> object:
        from antiphon.machine.public_names import load_public_name

        if name not in __all__ and not name.startswith("_"):
            from antiphon.machine.other_frameworks import find_name

            if found := find_name(name):
                # An AttributeError would lose its text in `from antiphon import NAME`.
                raise ImportError(found)
        return load_public_name(__name__, _HOMES, name)

    def __dir__() -> list[str]:
        return [*__all__, "__version__"]
