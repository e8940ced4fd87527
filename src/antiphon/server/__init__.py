"""Servers: tools, resources, prompts and completion from plain functions, and asks to the client.

Lists what authors of servers may import besides the classes of ``antiphon`` itself; each name is loaded on first use.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in typing, without importing it: type checkers take this name as true
if TYPE_CHECKING:
    from antiphon.server.app import Lifespan as Lifespan, Mountable as Mountable, Server as Server
    from antiphon.server.asks.elicitations import Elicited as Elicited
    from antiphon.server.asks.sample import Sample as Sample
    from antiphon.server.asks.tool_loop import SampleOptions as SampleOptions, TurnOptions as TurnOptions
    from antiphon.server.calls.call import CallAbandoned as CallAbandoned
    from antiphon.server.state.sql_state_store import SqlStateStore as SqlStateStore
    from antiphon.server.state.state_store import MemoryStateStore as MemoryStateStore, StateStore as StateStore
    from antiphon.server.tasks.sql_task_store import SqlTaskStore as SqlTaskStore
    from antiphon.server.tasks.task_store import (
        MemoryTaskStore as MemoryTaskStore,
        StoredTask as StoredTask,
        TaskNotice as TaskNotice,
        TaskOptions as TaskOptions,
        TaskRoom as TaskRoom,
        TasksFull as TasksFull,
        TaskStore as TaskStore,
    )
    from antiphon.server.context import Context as Context, RequestFacts as RequestFacts
    from antiphon.server.core import Extension as Extension
    from antiphon.server.fallback import Completes as Completes
    from antiphon.server.decorators import Features as Features
    from antiphon.server.features.feature_options import (
        PromptOptions as PromptOptions,
        ResourceOptions as ResourceOptions,
        TemplateOptions as TemplateOptions,
        ToolOptions as ToolOptions,
    )
    from antiphon.server.features.prompts import ServedPrompt as ServedPrompt
    from antiphon.server.features.registry import Page as Page, Registry as Registry, Via as Via
    from antiphon.server.features.resources import ServedResource as ServedResource, ServedTemplate as ServedTemplate
    from antiphon.server.features.tools import AsTask as AsTask, ServedTool as ServedTool
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
    from antiphon.replicas.engines.base import Cluster as Cluster
    from antiphon.replicas.engines.memory import MemoryCluster as MemoryCluster
    from antiphon.replicas.engines.postgres import PostgresCluster as PostgresCluster
    from antiphon.replicas.engines.redis import RedisCluster as RedisCluster
    from antiphon.transports.http.server.event_store import EventStore as EventStore
else:
    _HOMES = {
        "antiphon.server.app": "Lifespan Mountable Server",
        "antiphon.server.asks.elicitations": "Elicited",
        "antiphon.server.asks.sample": "Sample",
        "antiphon.server.asks.tool_loop": "SampleOptions TurnOptions",
        "antiphon.server.calls.call": "CallAbandoned",
        "antiphon.server.state.sql_state_store": "SqlStateStore",
        "antiphon.server.state.state_store": "MemoryStateStore StateStore",
        "antiphon.server.tasks.sql_task_store": "SqlTaskStore",
        "antiphon.server.tasks.task_store": (
            "MemoryTaskStore StoredTask TaskNotice TaskOptions TaskRoom TaskStore TasksFull"
        ),
        "antiphon.server.context": "Context RequestFacts",
        "antiphon.server.core": "Extension",
        "antiphon.server.fallback": "Completes",
        "antiphon.server.decorators": "Features",
        "antiphon.server.features.feature_options": "PromptOptions ResourceOptions TemplateOptions ToolOptions",
        "antiphon.server.features.prompts": "ServedPrompt",
        "antiphon.server.features.registry": "Page Registry Via",
        "antiphon.server.features.resources": "ServedResource ServedTemplate",
        "antiphon.server.features.tools": "AsTask ServedTool",
        "antiphon.server.rate_limits": "Rate",
        "antiphon.server.server_middleware": "CallNext Middleware ServerRequest",
        "antiphon.server.serving.network": "HttpOptions ServeOptions ServerApp",
        "antiphon.replicas.engines.base": "Cluster",
        "antiphon.replicas.engines.memory": "MemoryCluster",
        "antiphon.replicas.engines.postgres": "PostgresCluster",
        "antiphon.replicas.engines.redis": "RedisCluster",
        "antiphon.transports.http.server.event_store": "EventStore",
    }
    __all__ = [name for names in _HOMES.values() for name in names.split()]

    def __getattr__(name: str) -> object:
        from antiphon.machine.public_names import load_public_name

        return load_public_name(__name__, _HOMES, name)
