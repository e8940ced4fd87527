"""Names of FastMCP and of the official SDK that do not exist here, each with the name that does.

Owns the table, and how a missing name becomes a sentence: as an attribute of a class, as a name of the package, and as
an argument. A name that any of our classes gets is deleted from the table; a test looks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any, TypeVar

from antiphon.errors import ConfigError

__all__ = ["ELSEWHERE", "check_options", "explain_other_names", "find_name", "find_remedy"]

C = TypeVar("C", bound=type)

_TARGET = "Client(target): a URL, a command line, a .py file, a Server, or {'command': ..., 'args': [...]}"
_REGISTRY = "iterate over the registry: server.tools, server.resources, server.templates, server.prompts"
_CALL = "async with Client(server) as client: await client.call_tool(...), also for resources and prompts"
_VARIABLES = "keep it in a variable of the function, which runs once; for what outlives a call, in ctx.state"
_QUESTION = "call await ctx.elicit(message, type) or ctx.sample(...) in the function; it returns the answer"
_LOGGING = "configure Python's logging, under 'antiphon'"
_FEATURE = {"auth": "scopes=[...]", "tags": "meta={...}, which clients get"}
_ENDPOINT: Mapping[str, str] = {
    "stateless_http": "stateless=True",
    "streamable_http_path sse_path mount_path message_path": "path=",
    "middleware": "put the middleware around server.asgi(); @server.middleware is for requests of the protocol",
    "log_level uvicorn_config debug": _LOGGING,
    "show_banner json_response retry_interval": "leave it out",
    "session_idle_timeout": "idle_timeout=",
    "max_request_body_size": "max_body=",
    "host_origin_protection transport_security": "allowed_hosts= and allowed_origins=",
    "token_verifier auth_server_provider": "auth=ResourceServer(...)",
}

ELSEWHERE: Mapping[str, Mapping[str, str]] = {
    "antiphon": {
        "FastMCP MCPServer": "Server",
        "Image": "ImageContent.of(data, 'image/png')",
        "Audio": "AudioContent.of(data, 'audio/wav')",
        "File": "EmbeddedResource(resource=ResourceContents.of(uri, data)), with ResourceContents of antiphon.types",
        "TextResourceContents BlobResourceContents ResourceContent": "ResourceContents of antiphon.types",
        "Message UserMessage": "PromptMessage(role='user', content=TextContent.of(text)), or the text alone",
        "AssistantMessage": "PromptMessage(role='assistant', content=TextContent.of(text))",
        "ClientSession ClientSessionGroup stdio_client sse_client streamablehttp_client": _TARGET,
        "streamable_http_client websocket_client StdioServerParameters StdioTransport": _TARGET,
        "StreamableHttpTransport SSETransport PythonStdioTransport NpxStdioTransport UvxStdioTransport": _TARGET,
        "stdio_server": "server.run()",
        "McpError MCPError FastMCPError": "PeerError for what the other side refused, AntiphonError for all",
        "ResourceError PromptError NotFoundError": "ResourceNotFound or InvalidParams; ToolError in tools",
        "ToolResult": "CallToolResult",
        "Resolve Elicit": _QUESTION,
        "AcceptedElicitation DeclinedElicitation CancelledElicitation ElicitationResult": "Elicited, by its .action",
        "CurrentContext get_context": "a parameter ctx: Context",
        "OAuthClientProvider": "Client(url, auth=OAuth(...))",
        "BearerAuth": "Client(url, auth='token')",
        "AuthSettings TokenVerifier JWTVerifier RemoteAuthProvider": "ResourceServer",
        "StaticTokenVerifier": "check_token={'TOKEN': Caller('ann', frozenset({'read'}))}.get, Caller of antiphon.auth",
        "Depends": "lifespan= of Server(), whose state is ctx.state",
        "Middleware": "@server.middleware, a function",
    },
    "Server": {
        "http_app streamable_http_app": "server.asgi()",
        "sse_app": "server.asgi(), or server.run('sse') for the older transport",
        "run_http run_async run_http_async run_stdio_async": "server.run(transport), or server.asgi() in your own loop",
        "run_sse_async run_streamable_http_async": "server.run(transport), or server.asgi() in your own loop",
        "add_middleware": "@server.middleware",
        "add_provider add_transform import_server as_proxy": "server.mount(other, prefix='api')",
        "list_tools get_tools list_resources get_resources list_prompts get_prompts list_resource_templates": _REGISTRY,
        "get_tool get_resource get_resource_template": "server.tools.get(name), also of the other registries",
        "remove_tool remove_prompt remove_resource disable": "server.tools.remove(name), also of the other registries",
        "call_tool read_resource get_prompt render_prompt": _CALL,
        "completion add_completion_handler": "@server.complete('prompt or template', 'argument')",
        "custom_route": "mount server.asgi() in an application that has the route",
        "from_openapi from_fastapi": "server.add_tool(definition, handler), for each operation",
        "settings": "arguments of Server(...) and of server.run(...)",
        "get_context request_context": "a parameter ctx: Context",
    },
    "Server()": {
        **_ENDPOINT,
        "host port": "server.run('http', host=..., port=...)",
        "auth": "server.run('http', auth=ResourceServer(...)), or scopes= of a tool",
        "stateless_http": "server.run('http', stateless=True)",
        "token_verifier auth_server_provider": "server.run('http', auth=ResourceServer(...))",
        "event_store": "server.run('http', event_store=...)",
        "tools resources prompts": "server.add_tool(function), add_resource(uri, function), add_prompt(function)",
        "middleware": "@server.middleware",
        "providers transforms": "server.mount(other, prefix='api')",
        "on_duplicate on_duplicate_tools on_duplicate_resources on_duplicate_prompts": "leave it out: it is an error",
        "warn_on_duplicate_tools warn_on_duplicate_resources warn_on_duplicate_prompts": "leave it out: it is an error",
        "tags include_tags exclude_tags": "two Server objects with some tools in common",
        "mask_error_details": "error_details=True to show them; they are masked by default",
        "list_page_size": "page_size=",
        "sampling_handler sampling_handler_behavior": "sampling_fallback=",
        "request_state_security": "keys=",
    },
    "server.tool()": {
        "structured_output": "structured=",
        **_FEATURE,
        "enabled": "server.tools.remove(name)",
    },
    "server.resource()": _FEATURE,
    "server.prompt()": _FEATURE,
    "server.mount()": {
        "namespace": "prefix=",
        "as_proxy": "leave it out: a target outside of this process gets a proxy",
        "server": "the server comes first, without a name",
    },
    "server.run()": _ENDPOINT,
    "Context": {
        "report_progress": "await ctx.progress(progress, total, message)",
        "request_id": "ctx.request.id",
        "session_id client_id": "ctx.request.principal; not every revision has sessions",
        "session": "ctx.sample, ctx.elicit, ctx.list_roots and ctx.progress",
        "request_context": "ctx.request, and ctx.state for what the lifespan yielded",
        "lifespan_context": "ctx.state",
        "fastmcp mcp_server": "ctx.server",
        "headers get_http_request get_http_headers": "ctx.request.headers",
        "protocol_version": "ctx.request.revision",
        "set_state get_state delete_state": _VARIABLES,
        "list_resources list_prompts": "ctx.server.resources, ctx.server.prompts",
        "get_prompt": "ctx.server.prompts.get(name)",
        "notify_tools_changed notify_prompts_changed notify_resources_changed": "nothing: clients are notified for you",
        "notify_resource_updated": "server.resource_updated(uri)",
        "close_sse_stream": "ctx.close_stream()",
        "input_responses request_state": _QUESTION,
        "warn": "await ctx.warning(data)",
    },
    "ctx.elicit()": {
        "response_type schema": "form=, the second argument",
    },
    "ctx.sample()": {
        "mask_error_details": "Server(error_details=True) shows them; they are masked by default",
        "response_type": "result_type=",
    },
    "ctx.log()": {"logger_name": "logger= of ctx.log()", "message": "data=", "extra": "a dict as data"},
    "Elicited": {"data": ".value"},
    "Sample": {
        "result": ".value",
        "history": ".messages",
        "response": ".answer",
        "is_tool_use tool_calls": ".tool_uses, which is empty if there are none",
    },
    "Client": {
        "initialize": "async with Client(...) as client, or await client.connect()",
        "initialize_result": "client.server_info, .server_capabilities, .instructions and .revision",
        "is_connected": "client.is_open",
        "protocol_version": "client.revision",
        "set_logging_level": "await client.set_log_level(level)",
        "send_ping": "await client.ping()",
        "send_roots_list_changed": "await client.set_roots(roots)",
        "subscribe_resource unsubscribe_resource": "async with client.listen(uris=[uri]) as changes",
        "call_tool_mcp list_tools_mcp list_resources_mcp list_resource_templates_mcp list_prompts_mcp": "the name "
        "without _mcp",
        "read_resource_mcp get_prompt_mcp complete_mcp": "the name without _mcp",
        "session": "the client itself",
        "progress send_progress_notification": "progress= of call_tool() follows a call; clients report none",
        "get_task_status get_task_result cancel_task list_tasks": "client.task(id)",
        "set_sampling_callback set_elicitation_callback": "Client(target, sampling=..., elicitation=...)",
    },
    "Client()": {
        "sampling_handler sampling_callback": "sampling=",
        "elicitation_handler elicitation_callback": "elicitation=",
        "list_roots_callback": "roots=",
        "log_handler logging_callback": "on_log=",
        "message_handler": "on_log=, and client.listen() for changes",
        "progress_handler": "progress= of call_tool()",
        "read_timeout_seconds init_timeout": "timeout=, in seconds",
        "client_info name": "info=",
        "verify": "ssl=",
        "mode": "revision=",
        "input_required_max_rounds": "limits=RoundLimits(rounds=...)",
        "transport": "the target comes first, without a name",
        "sampling_capabilities": "sampling=Host(...), which declares what its provider can do",
        "extensions": "extension=",
    },
    "client.call_tool()": {
        "raise_on_error": "leave it out, and look at result.is_error",
        "progress_handler progress_callback": "progress=",
        "read_timeout_seconds": "timeout=, in seconds",
        "task": "await client.start_task(name, arguments)",
        "input_responses request_state": "client.rounds, for one round at a time",
    },
    "CallToolResult": {"data structuredContent": ".structured_content", "isError": ".is_error"},
}
"""Where a name is looked for; the names, several with one remedy beside each other; what to use instead."""

_PUBLIC = ("types", "server", "client", "host", "gateway", "auth", "testing")
"""Modules with public names beside the package itself."""


class _Elsewhere:
    """An attribute that only says what to use instead."""

    def __init__(self, sentence: str) -> None:
        self._sentence = sentence

    def __get__(self, instance: object, owner: type) -> object:
        raise AttributeError(self._sentence)


def explain_other_names(owner: C) -> C:
    """Let the attributes that another framework has, and the class has not, say what to use; a class decorator.

    Not by ``__getattr__``, with which each access to any attribute of an instance takes longer.
    """
    for names, remedy in ELSEWHERE[owner.__name__].items():
        for name in names.split():
            setattr(owner, name, _Elsewhere(f"{owner.__name__} has no {name}; here: {remedy}"))
    changed: Any = owner
    changed.__dir__ = _list_own
    return owner


def _list_own(self: object) -> list[str]:
    """List the attributes of an object, without those of other frameworks."""
    from inspect import getattr_static

    return [name for name in object.__dir__(self) if not isinstance(getattr_static(self, name, None), _Elsewhere)]


def check_options(place: str, given: Mapping[str, object], function: Callable[..., Any]) -> None:
    """Check the names of arguments.

    Args:
        place: the function as users write it.
        given: the arguments by name.
        function: takes them, by name only.

    Raises:
        ConfigError: the function takes no such argument; the message names the right one.
    """
    known = function.__kwdefaults__ or {}
    for name in given:
        if name not in known:
            remedy = find_remedy(place, name)
            raise ConfigError(f"{place} takes no {name}=; {f'here: {remedy}' if remedy else _similar(name, known)}")


def _similar(name: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, known, n=1)
    return f"did you mean {close[0]}=?" if close else f"it takes {', '.join(known)}"


def find_name(name: str) -> str | None:
    """Say what to import in place of a name that the package ``antiphon`` does not have; ``None`` if nobody knows."""
    if (remedy := find_remedy("antiphon", name)) is not None:
        return f"antiphon has no {name}; here: {remedy}"
    if not name[:1].isupper():
        return None
    homes = (f"antiphon.{home}" for home in _PUBLIC)
    return next((f"{name} is in {home}" for home in homes if name in import_module(home).__all__), None)


def find_remedy(place: str, name: str) -> str | None:
    """Return what the table says about a name; ``None`` if it is not in the table."""
    return next((remedy for names, remedy in ELSEWHERE[place].items() if name in names.split()), None)
