"""What a server offers: the registries, the decorators that fill them, and what follows from what is in them.

The meaning of a function's signature is the business of ``tools``, ``resources`` and ``prompts``; who is served, and
how long, is ``app``'s.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, Unpack, cast, overload

from antiphon.errors import ConfigError
from antiphon.server.context import Context
from antiphon.server.features.completion import Completions
from antiphon.server.features.options import PromptOptions, ResourceOptions, TemplateOptions, ToolOptions
from antiphon.server.features.prompts import Prompt
from antiphon.server.features.registry import Registry
from antiphon.server.features.resources import Resource, ResourceTemplate
from antiphon.server.features.tools import Tool
from antiphon.server.handlers import not_found
from antiphon.wire.lifecycle import ListChangedCapability, ResourcesCapability, ServerCapabilities
from antiphon.wire.resources import ReadResourceResult

__all__ = ["Features"]

F = TypeVar("F", bound=Callable[..., Any])


class Features:
    """Tools, resources, prompts and completions of a server."""

    def __init__(self) -> None:
        self.tools: Registry[Tool] = Registry("tool")
        self.resources: Registry[Resource] = Registry("resource")
        self.templates: Registry[ResourceTemplate] = Registry("resource template")
        self.prompts: Registry[Prompt] = Registry("prompt")
        self.completions = Completions(self.prompts, self.templates)

    # --- to add them ---------------------------------------------------------------------------------------------

    @overload
    def tool(self, function: F, /) -> F: ...
    @overload
    def tool(self, /, **options: Unpack[ToolOptions]) -> Callable[[F], F]: ...
    def tool(self, function: F | None = None, /, **options: Unpack[ToolOptions]) -> F | Callable[[F], F]:
        """Make a function a tool: schema from its signature, description and argument docs from its docstring.

        Use as ``@server.tool`` or ``@server.tool(title="...")``; see ``ToolOptions``.

        Raises:
            ConfigError: the signature cannot be a tool's; the message names the place and the remedy.
        """
        return _decorate(lambda given: self.add_tool(Tool.from_function(given, **options)), function)

    def resource(self, uri: str, /, **options: Unpack[ResourceOptions]) -> Callable[[F], F]:
        """Make a function a resource, or with ``{gaps}`` in the URI (RFC 6570) a family of resources.

        The gaps are the function's parameters. See ``ResourceOptions``.

        Raises:
            ConfigError: the template is malformed, or its gaps and the parameters differ.
        """
        if uri.__class__ is not str:
            raise ConfigError(f'a resource needs a URI: write @server.resource("catalogue://..."), not {uri!r}')
        return lambda given: _decorate(lambda function: self._add_resource(function, uri, options), given)

    @overload
    def prompt(self, function: F, /) -> F: ...
    @overload
    def prompt(self, /, **options: Unpack[PromptOptions]) -> Callable[[F], F]: ...
    def prompt(self, function: F | None = None, /, **options: Unpack[PromptOptions]) -> F | Callable[[F], F]:
        """Make a function a prompt: its parameters are the arguments, its result the messages.

        Raises:
            ConfigError: the signature cannot be a prompt's; the message names the place and the remedy.
        """
        return _decorate(lambda given: self.add_prompt(Prompt.from_function(given, **options)), function)

    def complete(self, of: str, argument: str) -> Callable[[F], F]:
        """Make a function complete an argument: ``of`` is a prompt's name or a template's URI.

        The function takes what was typed so far and returns the values that fit, the best first.
        """

        def register(given: F) -> F:
            self.completions.add(of, argument, given)
            return given

        return register

    def add_tool(self, tool: Tool) -> None:
        """Add a tool made elsewhere; connected clients are told. Raises ``ConfigError`` if its name is taken."""
        _refuse_unmade(tool, Tool)
        self.tools.add(tool.name, tool)

    def add_prompt(self, prompt: Prompt) -> None:
        """Add a prompt made elsewhere; connected clients are told. Raises ``ConfigError`` if its name is taken."""
        _refuse_unmade(prompt, Prompt)
        self.prompts.add(prompt.name, prompt)

    def _add_resource(self, function: Callable[..., Any], uri: str, options: ResourceOptions) -> None:
        if "{" not in uri:
            self.resources.add(uri, Resource.from_function(function, uri, **options))
            return
        if "size" in options:
            raise ConfigError(f"{uri}: a template has no size; leave size= out")
        rest = cast("TemplateOptions", options)
        self.templates.add(uri, ResourceTemplate.from_function(function, uri, **rest))

    # --- what is there ------------------------------------------------------------------------------------------

    def capabilities(self) -> ServerCapabilities:
        """Say what this server offers, from what has been added to it so far."""
        has_resources = len(self.resources) + len(self.templates) > 0
        return ServerCapabilities(
            tools=ListChangedCapability(list_changed=True) if len(self.tools) else None,
            prompts=ListChangedCapability(list_changed=True) if len(self.prompts) else None,
            resources=ResourcesCapability(list_changed=True, subscribe=True) if has_resources else None,
            completions={} if len(self.completions) else None,
            logging={},
        )

    def has(self, method: str, name: str) -> bool:
        """Tell whether there is a tool or a prompt of this name, by the method that wants it."""
        return name in (self.tools if method == "tools/call" else self.prompts)

    async def read_resource(self, uri: str, context: Context) -> ReadResourceResult:
        """Read a resource of this server's: a fixed one, else the first template that fits.

        Raises:
            ResourceNotFound: nothing serves this URI.
        """
        fixed = self.resources.get(uri)
        if fixed is not None:
            return await fixed.read(uri, context)
        for template in self.templates:
            variables = template.match(uri)
            if variables is not None:
                return await template.read(uri, context)
        raise not_found(uri)

    def code_of_resource(self, uri: str) -> bytes:
        """Return the digest of the code that serves a URI, empty if none does."""
        fixed = self.resources.get(uri)
        fitting = (template for template in self.templates if template.match(uri) is not None)
        found = fixed or next(fitting, None)
        return found.code if found is not None else b""


def _decorate(register: Callable[[F], object], function: F | None) -> Any:
    """Register a function and give it back; without one, return the decorator that will."""

    def decorate(given: F) -> F:
        register(given)
        return given

    return decorate if function is None else decorate(function)


def _refuse_unmade(given: object, kind: type[Tool | Prompt]) -> None:
    if not isinstance(given, kind):
        name = kind.__name__
        raise ConfigError(
            f"add_{name.lower()} takes a {name}, not a {type(given).__name__}: write server.{name.lower()}(function)"
        )
