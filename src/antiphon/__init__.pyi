__version__: str

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
    SkillInvalid as SkillInvalid,
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
from antiphon.server.context import Context as Context
from antiphon.server.functions.function import Depends as Depends
from antiphon.server.rate_limits import Rate as Rate
from antiphon.server.state.sql_state_store import SqlStateStore as SqlStateStore
from antiphon.machine.state_store import (
    CompareAndSetStore as CompareAndSetStore,
    MemoryStateStore as MemoryStateStore,
    StateStore as StateStore,
)
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
