from antiphon.server.app import Lifespan as Lifespan, Mountable as Mountable, Server as Server
from antiphon.server.asks.elicitations import Elicited as Elicited
from antiphon.server.asks.sample import Sample as Sample
from antiphon.server.asks.tool_loop import SampleOptions as SampleOptions, TurnOptions as TurnOptions
from antiphon.server.context import PerCaller as PerCaller
from antiphon.server.calls.call import CallAbandoned as CallAbandoned
from antiphon.server.context import Context as Context, RequestFacts as RequestFacts
from antiphon.server.core import Extension as Extension
from antiphon.server.decorators import Features as Features
from antiphon.server.core import Completes as Completes
from antiphon.server.features.checked_options import AccessOptions as AccessOptions, ServedFeature as ServedFeature
from antiphon.server.features.prompts import PromptOptions as PromptOptions, ServedPrompt as ServedPrompt
from antiphon.server.features.registry import Page as Page, Registry as Registry, Via as Via
from antiphon.server.features.resources import (
    AppOptions as AppOptions,
    BrowserFeature as BrowserFeature,
    ResourceOptions as ResourceOptions,
    ServedResource as ServedResource,
    ServedTemplate as ServedTemplate,
    TemplateOptions as TemplateOptions,
)
from antiphon.server.features.skill_folder import ServedSkill as ServedSkill
from antiphon.server.features.tools import AsTask as AsTask, ServedTool as ServedTool, ToolOptions as ToolOptions
from antiphon.server.functions.function import Depends as Depends
from antiphon.server.openapi.api_requests import (
    ApiAnswer as ApiAnswer,
    ApiRequest as ApiRequest,
    SendRequest as SendRequest,
)
from antiphon.server.openapi.served_api import ApiOperation as ApiOperation
from antiphon.server.rate_limits import Rate as Rate
from antiphon.server.server_middleware import (
    CallNext as CallNext,
    Middleware as Middleware,
    ServerRequest as ServerRequest,
)
from antiphon.server.serving.network import (
    HttpOptions as HttpOptions,
    ServeOptions as ServeOptions,
    ServerApp as ServerApp,
)
from antiphon.server.state.sql_state_store import SqlStateStore as SqlStateStore
from antiphon.machine.state_store import MemoryStateStore as MemoryStateStore, StateStore as StateStore
from antiphon.server.tasks.sql_task_store import SqlTaskStore as SqlTaskStore
from antiphon.server.tasks.task_store import (
    MemoryTaskStore as MemoryTaskStore,
    StoredTask as StoredTask,
    TaskNotice as TaskNotice,
    TaskOptions as TaskOptions,
    TaskRoom as TaskRoom,
    TaskStore as TaskStore,
    TasksFull as TasksFull,
)
from antiphon.replicas.engines.base import Cluster as Cluster
from antiphon.replicas.engines.unix import MemoryCluster as MemoryCluster
from antiphon.replicas.engines.postgres import PostgresCluster as PostgresCluster
from antiphon.replicas.engines.redis import RedisCluster as RedisCluster
from antiphon.transports.http.server.event_store import EventStore as EventStore
from antiphon.transports.http.server.routes import RouteRequest as RouteRequest
