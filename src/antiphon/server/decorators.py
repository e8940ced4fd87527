"""What a server offers: the registries of its features, and the decorators that fill them.

``tools``, ``resources`` and ``prompts`` interpret the signatures of functions; ``app`` decides who is served.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Never, TypeVar, Unpack, cast, overload

from antiphon.errors import ConfigError
from antiphon.machine.other_frameworks import check_options
from antiphon.server.features import resources
from antiphon.server.features.prompts import Completions, PromptOptions, ServedPrompt
from antiphon.server.features.registry import Registry
from antiphon.server.features.tools import ServedTool, ToolOptions
from antiphon.wire.tools import Tool

if TYPE_CHECKING:
    from antiphon.server.features.skill_folder import ServedSkill

F = TypeVar("F", bound=Callable[..., Any])


class Features:
    """Tools, resources, prompts, skills and completions of a server.

    Use the registries ``tools``, ``resources``, ``templates``, ``prompts`` and ``served_skills`` to look up, add and
    remove features; connected clients are notified of every change.

    Args:
        name: the server's name, as clients see it.
    """

    def __init__(self, name: str, *_more: Never, **_unknown: Never) -> None:
        if _more:
            raise ConfigError(f"Server() takes the rest by name, as in Server({name!r}, instructions=...)")
        check_options("Server()", _unknown, self.__init__)
        self.name = name
        self.tools: Registry[ServedTool] = Registry("tool")
        self.resources: Registry[resources.ServedResource] = Registry("resource")
        self.templates: Registry[resources.ServedTemplate] = Registry("resource template")
        self.prompts: Registry[ServedPrompt] = Registry("prompt")
        self.served_skills: Registry[ServedSkill] = Registry("skill")
        self._completions = Completions(self.prompts, self.templates)

    @overload
    def tool(self, function: F, /) -> F: ...
    @overload
    def tool(self, /, **options: Unpack[ToolOptions]) -> Callable[[F], F]: ...
    def tool(self, function: F | None = None, /, **options: Unpack[ToolOptions]) -> F | Callable[[F], F]:
        """Make a function a tool: schema from its signature, description and argument docs from its docstring.

        Use as ``@server.tool`` or ``@server.tool(title="...")``.

        Args:
            function: the function, plain or async; left out when the decorator has options.
            options: see ``ToolOptions``.

        Raises:
            ConfigError: the signature cannot be a tool's; the message names the place and says what to do.
        """
        return _register_function(lambda given: self.add_tool(given, **options), function)

    def resource(self, uri: str, /, **options: Unpack[resources.ResourceOptions]) -> Callable[[F], F]:
        """Make a function a resource or, with ``{gaps}`` in the URI (RFC 6570), a family of resources.

        Args:
            uri: URI, or URI template whose gaps are the function's parameters.
            options: see ``ResourceOptions``.

        Raises:
            ConfigError: the template is malformed, or its gaps and the function's parameters differ.
        """
        if uri.__class__ is not str:
            raise ConfigError(f'a resource needs a URI: write @server.resource("catalogue://..."), not {uri!r}')
        return _register_function(lambda given: self.add_resource(uri, given, **options), None)

    @overload
    def prompt(self, function: F, /) -> F: ...
    @overload
    def prompt(self, /, **options: Unpack[PromptOptions]) -> Callable[[F], F]: ...
    def prompt(self, function: F | None = None, /, **options: Unpack[PromptOptions]) -> F | Callable[[F], F]:
        """Make a function a prompt: its parameters are the arguments, its result the messages.

        Args:
            function: the function, plain or async; left out when the decorator has options.
            options: see ``PromptOptions``.

        Raises:
            ConfigError: the signature cannot be a prompt's; the message names the place and says what to do.
        """
        return _register_function(lambda given: self.add_prompt(given, **options), function)

    def list_by_tag(
        self, tag: str
    ) -> list[ServedTool | resources.ServedResource | resources.ServedTemplate | ServedPrompt]:
        """List the tools, resources, templates and prompts with a tag, also those that some callers do not see.

        Args:
            tag: the tag.
        """
        registries = (self.tools, self.resources, self.templates, self.prompts)
        return [each for registry in registries for each in registry if tag in each.tags]

    def complete(self, of: str, argument: str) -> Callable[[F], F]:
        """Make a function complete an argument. It takes what was typed so far and returns values, the best first.

        Args:
            of: name of a prompt, or URI template of a resource template.
            argument: name of the argument.
        """
        return _register_function(lambda given: self._completions.add(of, argument, given), None)

    def add_tool(
        self,
        tool: Tool | ServedTool | Callable[..., Any],
        handler: Callable[..., Any] | None = None,
        /,
        **options: Unpack[ToolOptions],
    ) -> None:
        """Add a tool without a decorator; connected clients are notified.

        Args:
            tool: a function, as ``@server.tool`` takes it; or a definition, ``antiphon.Tool``, which is listed
                unchanged and whose input schema the arguments are validated against.
            handler: for a definition: ``(arguments)`` or ``(arguments, ctx: Context)``, plain or async; ``arguments``
                is a plain ``dict``.
            options: see ``ToolOptions``; with a definition only those that it has no member for (``timeout``,
                ``requires``, ``inline``, ``once``, ``task``, ``confirm``, and ``AccessOptions``).

        Raises:
            ConfigError: the name is taken, a definition has no handler, or a schema or a signature cannot be used.
        """
        check_options("server.tool()", options, ToolOptions.__annotations__)
        if isinstance(tool, Tool):
            if handler is None:
                raise ConfigError(f"the definition of {tool.name!r} needs its handler: server.add_tool(tool, handler)")
            made = ServedTool.of_definition(tool, handler, **options)
        elif handler is not None:
            raise ConfigError("add_tool(function) takes no handler: the function is the handler")
        else:
            made = tool if isinstance(tool, ServedTool) else ServedTool.from_function(tool, **options)
        self.tools.add(made.name, made)

    def add_prompt(self, prompt: ServedPrompt | Callable[..., Any], /, **options: Unpack[PromptOptions]) -> None:
        """Add a prompt without a decorator; connected clients are notified.

        Args:
            prompt: a function, as ``@server.prompt`` takes it.
            options: see ``PromptOptions``.

        Raises:
            ConfigError: the name is taken, or the signature cannot be a prompt's.
        """
        check_options("server.prompt()", options, PromptOptions.__annotations__)
        made = prompt if isinstance(prompt, ServedPrompt) else ServedPrompt.from_function(prompt, **options)
        self.prompts.add(made.name, made)

    def add_resource(
        self, uri: str, content: str | bytes | Callable[..., Any], /, **options: Unpack[resources.ResourceOptions]
    ) -> None:
        """Add a resource without a decorator; connected clients are notified.

        Args:
            uri: URI, or with ``{gaps}`` (RFC 6570) the template of a family of resources.
            content: the text or bytes themselves, or a function, as ``@server.resource`` takes it.
            options: see ``ResourceOptions``.

        Raises:
            ConfigError: the URI is taken or malformed, or its gaps and the function's parameters differ.
        """
        check_options("server.resource()", options, resources.ResourceOptions.__annotations__)
        if isinstance(content, str | bytes):
            self.resources.add(uri, resources.ServedResource.of(uri, content, **options))
        elif "{" not in uri:
            self.resources.add(uri, resources.ServedResource.from_function(content, uri, **options))
        elif "size" in options:
            raise ConfigError(f"{uri}: a template has no size; leave size= out")
        else:
            rest = cast("resources.TemplateOptions", options)
            self.templates.add(uri, resources.ServedTemplate.from_function(content, uri, **rest))

    def app(
        self,
        uri: str,
        html: str | PathLike[str],
        /,
        *,
        connect: Sequence[str] = (),
        load: Sequence[str] = (),
        frames: Sequence[str] = (),
        base: Sequence[str] = (),
        permissions: Sequence[resources.BrowserFeature] = (),
        domain: str | None = None,
        border: bool | None = None,
        **options: Unpack[resources.AppOptions],
    ) -> None:
        """Offer an interface for tools, which name it by ``@server.tool(ui=...)`` (extension, SEP-1865).

        A host shows it in a sandbox that may use no origin but those named here.

        Args:
            uri: its URI, which begins with ``ui://``.
            html: the HTML document as text, or the path of its file, which is read at each request.
            connect: origins that it sends requests to, as in ``"https://api.example.com"``; none by default.
            load: origins that it loads scripts, styles, images, fonts and media from; none by default.
            frames: origins of the frames in it; none by default.
            base: origins of its base URI; none by default.
            permissions: what it asks the browser for: ``"camera"``, ``"microphone"``, ``"geolocation"``,
                ``"clipboardWrite"``; nothing by default.
            domain: an origin of its own, in the form that the host demands; by default the host chooses.
            border: whether the host draws a border; by default the host decides.
            options: see ``AppOptions``.

        Raises:
            ConfigError: the URI is taken or of another scheme, or something is no origin.
        """
        domains = {"connect": connect, "load": load, "frames": frames, "base": base}
        made = resources.make_app(
            uri, html, domains, permissions, {"domain": domain, "prefersBorder": border}, **options
        )
        self.resources.add(uri, made)

    def skills(self, folder: str | PathLike[str], /, *, prefix: str = "", scopes: Sequence[str] = ()) -> None:
        """Serve a folder of skills, or one skill: instructions for agents (extension, SEP-2640).

        A skill is a folder with a ``SKILL.md``; its files become resources such as ``skill://NAME/SKILL.md``. All are
        read now, and not again. Hidden files are left out. Needs the extra ``skills``.

        Args:
            folder: path of a skill, or of a folder with skills at any depth.
            prefix: parts of the URIs before the path of each skill, as in ``"acme/billing"``; none by default.
            scopes: scopes that a caller's token must have, all of them, if tokens are checked.

        Raises:
            ConfigError: a skill breaks a rule of its format, has too many files or bytes, or a file cannot be served
                safely: a link out of the folder, a pipe, a name that is not UTF-8. Nothing was added.
        """
        from antiphon.server.features.skill_folder import read_skills

        skills, files = read_skills(folder, prefix, scopes)
        for file in files:
            self.resources.check_free(file.uri)
        for file in files:
            self.resources.add(file.uri, file)
        for skill in skills:
            self.served_skills.add(skill.definition.uri, skill)


def _register_function(register: Callable[[F], object], function: F | None) -> Any:
    """Register a function and return it; without a function, return the decorator that does so."""

    def decorate(given: F) -> F:
        register(given)
        return given

    return decorate if function is None else decorate(function)
