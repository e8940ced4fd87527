"""What a server offers: the registries of its features, and the decorators that fill them.

The meaning of a function's signature is the business of ``tools``, ``resources`` and ``prompts``; who is served, and
how long, is ``app``'s.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, Unpack, cast, overload

from antiphon.errors import ConfigError
from antiphon.server.features.completion import Completions
from antiphon.server.features.options import PromptOptions, ResourceOptions, TemplateOptions, ToolOptions
from antiphon.server.features.prompts import Prompt
from antiphon.server.features.registry import Registry
from antiphon.server.features.resources import Resource, ResourceTemplate
from antiphon.server.features.tools import Tool

__all__ = ["Features"]

F = TypeVar("F", bound=Callable[..., Any])


class Features:
    """Tools, resources, prompts and completions of a server.

    ``name``: the server's, as clients see it.
    ``tools``, ``resources``, ``templates``, ``prompts``: what there is, to look up, add and remove; connected clients
    are told of every change.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.tools: Registry[Tool] = Registry("tool")
        self.resources: Registry[Resource] = Registry("resource")
        self.templates: Registry[ResourceTemplate] = Registry("resource template")
        self.prompts: Registry[Prompt] = Registry("prompt")
        self._completions = Completions(self.prompts, self.templates)

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
            self._completions.add(of, argument, given)
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
