"""Servers: tools, resources, prompts and completion from plain functions, and asks to the client.

Lists what authors of servers may import besides the classes of ``antiphon`` itself; each name is loaded on first use.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in typing, without importing it
if TYPE_CHECKING:
    from antiphon.server.app import Lifespan, Mountable, Server
    from antiphon.server.asks.elicitation import Elicited
    from antiphon.server.asks.sample import Sample
    from antiphon.server.asks.tool_loop import SampleOptions, TurnOptions
    from antiphon.server.calls.call import CallAbandoned
    from antiphon.server.calls.sql_state_store import SqlStateStore
    from antiphon.server.calls.state_store import MemoryStateStore, StateStore
    from antiphon.server.calls.task.sql_task_store import SqlTaskStore
    from antiphon.server.calls.task.task_options import TaskOptions
    from antiphon.server.calls.task.task_store import (
        MemoryTaskStore,
        StoredTask,
        TaskNotice,
        TaskRoom,
        TasksFull,
        TaskStore,
    )
    from antiphon.server.context import Context
    from antiphon.server.core import Extension
    from antiphon.server.decorators import Features
    from antiphon.server.fallback import Completes
    from antiphon.server.features.feature_options import PromptOptions, ResourceOptions, TemplateOptions, ToolOptions
    from antiphon.server.features.prompts import ServedPrompt
    from antiphon.server.features.registry import Page, Registry, Via
    from antiphon.server.features.resources import ServedResource, ServedTemplate
    from antiphon.server.features.tools import AsTask, ServedTool
    from antiphon.server.limits import Rate
    from antiphon.server.middleware import CallNext, Middleware, ServerRequest
    from antiphon.server.network import HttpOptions, ServeOptions, ServerApp
    from antiphon.server.request_info import RequestFacts
    from antiphon.transports.cluster.base import Cluster
    from antiphon.transports.cluster.memory import MemoryCluster
    from antiphon.transports.cluster.postgres import PostgresCluster
    from antiphon.transports.cluster.redis import RedisCluster
    from antiphon.transports.http.server.event_store import EventStore

__all__ = [
    "AsTask",
    "CallAbandoned",
    "CallNext",
    "Cluster",
    "Completes",
    "Context",
    "Elicited",
    "EventStore",
    "Extension",
    "Features",
    "HttpOptions",
    "Lifespan",
    "MemoryCluster",
    "MemoryStateStore",
    "MemoryTaskStore",
    "Middleware",
    "Mountable",
    "Page",
    "PostgresCluster",
    "PromptOptions",
    "Rate",
    "RedisCluster",
    "Registry",
    "RequestFacts",
    "ResourceOptions",
    "Sample",
    "SampleOptions",
    "ServeOptions",
    "ServedPrompt",
    "ServedResource",
    "ServedTemplate",
    "ServedTool",
    "Server",
    "ServerApp",
    "ServerRequest",
    "SqlStateStore",
    "SqlTaskStore",
    "StateStore",
    "StoredTask",
    "TaskNotice",
    "TaskOptions",
    "TaskRoom",
    "TaskStore",
    "TasksFull",
    "TemplateOptions",
    "ToolOptions",
    "TurnOptions",
    "Via",
]

_HOMES = {
    "RedisCluster": "antiphon.transports.cluster.redis",
    "MemoryCluster": "antiphon.transports.cluster.memory",
    "Cluster": "antiphon.transports.cluster.base",
    "AsTask": "antiphon.server.features.tools",
    "CallAbandoned": "antiphon.server.calls.call",
    "CallNext": "antiphon.server.middleware",
    "Completes": "antiphon.server.fallback",
    "Context": "antiphon.server.context",
    "Elicited": "antiphon.server.asks.elicitation",
    "EventStore": "antiphon.transports.http.server.event_store",
    "Extension": "antiphon.server.core",
    "Features": "antiphon.server.decorators",
    "HttpOptions": "antiphon.server.network",
    "Lifespan": "antiphon.server.app",
    "MemoryStateStore": "antiphon.server.calls.state_store",
    "MemoryTaskStore": "antiphon.server.calls.task.task_store",
    "Middleware": "antiphon.server.middleware",
    "Mountable": "antiphon.server.app",
    "Page": "antiphon.server.features.registry",
    "PostgresCluster": "antiphon.transports.cluster.postgres",
    "PromptOptions": "antiphon.server.features.feature_options",
    "Rate": "antiphon.server.limits",
    "Registry": "antiphon.server.features.registry",
    "RequestFacts": "antiphon.server.request_info",
    "ResourceOptions": "antiphon.server.features.feature_options",
    "Sample": "antiphon.server.asks.sample",
    "SampleOptions": "antiphon.server.asks.tool_loop",
    "ServeOptions": "antiphon.server.network",
    "ServedPrompt": "antiphon.server.features.prompts",
    "ServedResource": "antiphon.server.features.resources",
    "ServedTemplate": "antiphon.server.features.resources",
    "ServedTool": "antiphon.server.features.tools",
    "Server": "antiphon.server.app",
    "ServerApp": "antiphon.server.network",
    "ServerRequest": "antiphon.server.middleware",
    "SqlTaskStore": "antiphon.server.calls.task.sql_task_store",
    "SqlStateStore": "antiphon.server.calls.sql_state_store",
    "StateStore": "antiphon.server.calls.state_store",
    "StoredTask": "antiphon.server.calls.task.task_store",
    "TaskNotice": "antiphon.server.calls.task.task_store",
    "TaskOptions": "antiphon.server.calls.task.task_options",
    "TaskRoom": "antiphon.server.calls.task.task_store",
    "TaskStore": "antiphon.server.calls.task.task_store",
    "TasksFull": "antiphon.server.calls.task.task_store",
    "TemplateOptions": "antiphon.server.features.feature_options",
    "ToolOptions": "antiphon.server.features.feature_options",
    "TurnOptions": "antiphon.server.asks.tool_loop",
    "Via": "antiphon.server.features.registry",
}


def __getattr__(name: str) -> object:
    """Load a public name on first use, and keep it."""
    if name not in _HOMES:
        raise AttributeError(f"module 'antiphon.server' has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
