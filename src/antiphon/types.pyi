from antiphon.wire.apps import ToolUser as ToolUser
from antiphon.wire.common import (
    Annotations as Annotations,
    CacheableResult as CacheableResult,
    CacheScope as CacheScope,
    ClientCapabilities as ClientCapabilities,
    ElicitationCapability as ElicitationCapability,
    EmptyResult as EmptyResult,
    Icon as Icon,
    Implementation as Implementation,
    LoggingLevel as LoggingLevel,
    Meta as Meta,
    NotificationParams as NotificationParams,
    PaginatedParams as PaginatedParams,
    PaginatedResult as PaginatedResult,
    ProgressToken as ProgressToken,
    RequestMeta as RequestMeta,
    RequestParams as RequestParams,
    Result as Result,
    Role as Role,
    RootsCapability as RootsCapability,
    RoundParams as RoundParams,
    SamplingCapability as SamplingCapability,
    Wire as Wire,
)
from antiphon.wire.completion import (
    CompleteRequestParams as CompleteRequestParams,
    CompleteResult as CompleteResult,
    Completion as Completion,
    CompletionArgument as CompletionArgument,
    CompletionContext as CompletionContext,
    PromptReference as PromptReference,
    ResourceTemplateReference as ResourceTemplateReference,
)
from antiphon.wire.content import (
    AudioContent as AudioContent,
    Block as Block,
    ContentBlock as ContentBlock,
    EmbeddedResource as EmbeddedResource,
    ImageContent as ImageContent,
    ResourceContents as ResourceContents,
    ResourceLink as ResourceLink,
    SamplingContent as SamplingContent,
    TextContent as TextContent,
    ToolResultContent as ToolResultContent,
    ToolUseContent as ToolUseContent,
    UnknownContent as UnknownContent,
)
from antiphon.wire.elicitation import (
    ElicitAction as ElicitAction,
    ElicitationCompleteNotificationParams as ElicitationCompleteNotificationParams,
    ElicitRequestParams as ElicitRequestParams,
    ElicitResult as ElicitResult,
    ElicitValue as ElicitValue,
)
from antiphon.wire.envelope import ErrorObject as ErrorObject
from antiphon.wire.lifecycle import (
    CancelledNotificationParams as CancelledNotificationParams,
    DiscoverResult as DiscoverResult,
    InitializeRequestParams as InitializeRequestParams,
    InitializeResult as InitializeResult,
    ListChangedCapability as ListChangedCapability,
    ProgressNotificationParams as ProgressNotificationParams,
    ResourcesCapability as ResourcesCapability,
    ServerCapabilities as ServerCapabilities,
    TasksCapability as TasksCapability,
)
from antiphon.wire.logging import (
    LoggingMessageNotificationParams as LoggingMessageNotificationParams,
    SetLevelRequestParams as SetLevelRequestParams,
)
from antiphon.wire.lossless import Received as Received
from antiphon.wire.origin import Origin as Origin, OriginCall as OriginCall, OriginTask as OriginTask, Round as Round
from antiphon.wire.prompts import (
    GetPromptRequestParams as GetPromptRequestParams,
    GetPromptResult as GetPromptResult,
    ListPromptsResult as ListPromptsResult,
    Prompt as Prompt,
    PromptArgument as PromptArgument,
    PromptMessage as PromptMessage,
)
from antiphon.wire.resources import (
    ListResourcesResult as ListResourcesResult,
    ListResourceTemplatesResult as ListResourceTemplatesResult,
    ReadResourceRequestParams as ReadResourceRequestParams,
    ReadResourceResult as ReadResourceResult,
    Resource as Resource,
    ResourceTemplate as ResourceTemplate,
    ResourceUpdatedNotificationParams as ResourceUpdatedNotificationParams,
    SubscribeRequestParams as SubscribeRequestParams,
    UnsubscribeRequestParams as UnsubscribeRequestParams,
)
from antiphon.wire.roots import ListRootsResult as ListRootsResult, Root as Root
from antiphon.wire.rounds import (
    InputRequest as InputRequest,
    InputRequiredResult as InputRequiredResult,
    InputResponses as InputResponses,
)
from antiphon.wire.sampling import (
    CreateMessageRequestParams as CreateMessageRequestParams,
    CreateMessageResult as CreateMessageResult,
    IncludeContext as IncludeContext,
    ModelHint as ModelHint,
    ModelPreferences as ModelPreferences,
    SamplingMessage as SamplingMessage,
    ToolChoice as ToolChoice,
)
from antiphon.wire.subscriptions import (
    SubscriptionFilter as SubscriptionFilter,
    SubscriptionsAcknowledgedNotificationParams as SubscriptionsAcknowledgedNotificationParams,
    SubscriptionsListenRequestParams as SubscriptionsListenRequestParams,
    SubscriptionsListenResult as SubscriptionsListenResult,
)
from antiphon.wire.skills import (
    GetSkillRequestParams as GetSkillRequestParams,
    GetSkillResult as GetSkillResult,
    ListSkillsResult as ListSkillsResult,
    ReadDirectoryRequestParams as ReadDirectoryRequestParams,
    ReadDirectoryResult as ReadDirectoryResult,
    Skill as Skill,
    SkillResource as SkillResource,
)
from antiphon.wire.task import (
    CreateTaskResult as CreateTaskResult,
    GetTaskResult as GetTaskResult,
    Task as Task,
    TaskParams as TaskParams,
    TaskStatus as TaskStatus,
    UpdateTaskParams as UpdateTaskParams,
)
from antiphon.wire.tools import (
    CallToolRequestParams as CallToolRequestParams,
    CallToolResult as CallToolResult,
    ListToolsResult as ListToolsResult,
    Tool as Tool,
    ToolAnnotations as ToolAnnotations,
    ToolExecution as ToolExecution,
)
