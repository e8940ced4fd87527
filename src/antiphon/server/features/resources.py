"""Resources: a function that serves one URI, or a family of URIs.

Owns ``ServedResource`` (one URI), ``ServedTemplate`` (RFC 6570) and what their functions may return. The server decides
which of them serves a URI. Also the interfaces of tools, as a server offers them (extension
``io.modelcontextprotocol/ui``, SEP-1865).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, TypedDict, Unpack, cast, get_args

from antiphon.errors import ConfigError, ResourceNotFound, ResultInvalid
from antiphon.server.features.checked_options import (
    AccessOptions,
    FeatureOptions,
    ServedFeature,
    describe_access,
    read_annotations,
)
from antiphon.server.features.uri_template import UriTemplate
from antiphon.server.functions.arguments import Arguments, takes_list, text_choices
from antiphon.server.functions.function import UserFunction
from antiphon.server.functions.shape import encode_value
from antiphon.server.functions.signature import Signature, members_of, read_docstring, read_signature
from antiphon.wire import resources as wire
from antiphon.wire.apps import APP_SCHEME, APP_TYPE, CSP_MEMBERS
from antiphon.wire.common import Annotations, Meta
from antiphon.wire.content import ResourceContents
from antiphon.wire.resources import ReadResourceResult

TEXT, BINARY, JSON = "text/plain", "application/octet-stream", "application/json"

_SCHEME = r"[A-Za-z][A-Za-z0-9+.-]*:"


class TemplateOptions(FeatureOptions, AccessOptions, total=False):
    """Options of a resource template."""

    description: str
    """What the resource holds; by default the function's docstring."""
    mime_type: str
    """Media type; by default from the return annotation: text or bytes."""
    annotations: Annotations
    """Hints to clients on how to use it."""


class ResourceOptions(TemplateOptions, total=False):
    """Options of a resource."""

    size: int
    """Size of the contents in bytes, before any encoding."""


class _Readable(ServedFeature):
    """A function, and how its return value becomes contents."""

    __slots__ = ("_mime_type", "_place")

    def __init__(self, function: UserFunction, place: str, mime_type: str | None, access: AccessOptions) -> None:
        super().__init__(function, place, access)
        self._place = place
        self._mime_type = mime_type

    @property
    def name(self) -> str:
        """Its name, as it is listed."""
        return cast("Any", self).definition.name

    async def _read(self, uri: str, values: dict[str, Any], context: Any) -> ReadResourceResult:
        value = await self._function.run(values, context)
        if isinstance(value, ReadResourceResult):
            return value
        items: Sequence[Any] = cast("Sequence[Any]", value) if isinstance(value, list | tuple) else ()
        several = any(isinstance(item, ResourceContents | bytes) for item in items)
        given = items if several else [cast("Any", value)]
        return ReadResourceResult(contents=[self._contents(uri, item) for item in given])

    def _contents(self, uri: str, value: Any) -> ResourceContents:
        """Convert a returned value: text stays text, bytes become a blob, contents pass, anything else becomes JSON."""
        if isinstance(value, ResourceContents):
            return value
        if isinstance(value, str):
            return ResourceContents.of(uri, value, self._mime_type or TEXT)
        if isinstance(value, bytes | bytearray | memoryview):
            return ResourceContents.of(uri, bytes(cast("bytes", value)), self._mime_type or BINARY)
        if value is None:
            raise ResultInvalid(f"{self._place} returned nothing; raise ResourceNotFound for what does not exist")
        try:
            return ResourceContents.of(uri, encode_value(value).decode(), self._mime_type or JSON)
        except (TypeError, ValueError, RecursionError) as error:
            raise ResultInvalid(f"{self._place} returned what is no text, bytes or JSON: {error}") from error


class ServedResource(_Readable):
    """A resource with a fixed URI. Make one with ``from_function`` or ``of``."""

    __slots__ = ("definition", "uri")

    def __init__(self, function: UserFunction, place: str, definition: wire.Resource, access: AccessOptions) -> None:
        super().__init__(function, place, definition.mime_type, access)
        self.uri = definition.uri
        self.definition = definition
        """The resource as it is listed."""

    def __repr__(self) -> str:
        return f"Resource({self.uri!r})"

    async def read(self, uri: str, context: Any = None) -> ReadResourceResult:
        """Read the resource.

        Args:
            uri: URI to give the contents.
            context: passed unchanged to a function that takes the context.

        Raises:
            ResultInvalid: what the function returned is no text, bytes or JSON.
        """
        return await self._read(uri, {}, context)

    @classmethod
    def from_function(
        cls, function: Callable[..., Any], uri: str, **options: Unpack[ResourceOptions]
    ) -> ServedResource:
        """Make a function a resource. It takes no argument except, optionally, the context.

        Args:
            function: the function, plain or async.
            uri: URI of the resource.
            options: see ``ResourceOptions``.

        Raises:
            ConfigError: the URI has no scheme, or the function takes an argument.
        """
        signature = _read_signature(function, uri, "resource")
        if signature.parameters:
            raise ConfigError(
                f"{signature.place}: parameter {signature.parameters[0].name!r} has no gap in the URI; "
                f"put {{{signature.parameters[0].name}}} there, or remove the parameter"
            )
        members = _read_members(signature, options, ResourceOptions.__annotations__)
        definition = wire.Resource(uri=uri, size=options.get("size"), **members)
        user_function = UserFunction(function, signature, inline=options.get("inline", False))
        return cls(user_function, signature.place, definition, options)

    @classmethod
    def of(cls, uri: str, data: str | bytes, **options: Any) -> ServedResource:
        """Make a resource that always holds the same text or bytes.

        Args:
            uri: URI of the resource.
            data: the text or bytes.
            options: those of ``from_function``.

        Raises:
            ConfigError: the URI has no scheme.
        """

        def read() -> str | bytes:
            return data

        text = isinstance(data, str)
        defaults: dict[str, Any] = {
            "name": uri,
            "mime_type": TEXT if text else BINARY,
            "size": len(data.encode() if isinstance(data, str) else data),
        }
        return cls.from_function(read, uri, **{**defaults, **options}, inline=True)


class ServedTemplate(_Readable):
    """A family of resources whose URIs fit a template (RFC 6570). Make one with ``from_function``.

    Attributes: ``definition`` as it is listed; ``choices``: the possible values of gaps that have only some.
    """

    __slots__ = ("_arguments", "_template", "choices", "definition", "uri_template")

    def __init__(
        self,
        function: UserFunction,
        place: str,
        definition: wire.ResourceTemplate,
        template: UriTemplate,
        arguments: Arguments,
        access: AccessOptions,
    ) -> None:
        super().__init__(function, place, definition.mime_type, access)
        self.uri_template = definition.uri_template
        self.definition = definition
        self.choices = text_choices(arguments.schema)
        self._template = template
        self._arguments = arguments

    def __repr__(self) -> str:
        return f"ResourceTemplate({self.uri_template!r})"

    @property
    def arguments(self) -> tuple[str, ...]:
        """Names of the gaps, from left to right."""
        return self._template.variables

    def match(self, uri: str) -> dict[str, str | list[str]] | None:
        """Return the values of the template's gaps in a URI, or ``None`` if the URI does not match.

        Args:
            uri: the URI.
        """
        return self._template.match(uri)

    async def read(
        self, uri: str, context: Any = None, *, variables: dict[str, str | list[str]] | None = None
    ) -> ReadResourceResult:
        """Read a resource of this family.

        Args:
            uri: URI of the resource.
            context: passed unchanged to a function that takes the context.
            variables: what ``match`` returned for this URI; by default it is matched again.

        Raises:
            ResourceNotFound: the URI does not match.
            ArgumentError: a gap holds something that is not of its type, or a required one is left out.
            ResultInvalid: what the function returned is no text, bytes or JSON.
        """
        found = self.match(uri) if variables is None else variables
        if found is None:
            raise ResourceNotFound(f"Resource not found: {uri}", data={"uri": uri})
        return await self._read(uri, self._arguments.from_text(found), context)

    @classmethod
    def from_function(
        cls, function: Callable[..., Any], uri_template: str, **options: Unpack[TemplateOptions]
    ) -> ServedTemplate:
        """Make a function serve all URIs of a template; its parameters are the gaps.

        A parameter may have any type that can be read from text (``int``, an enum, ...); a gap that explodes
        (``{/path*}``) is a list.

        Args:
            function: the function, plain or async.
            uri_template: the URI template (RFC 6570).
            options: see ``TemplateOptions``.

        Raises:
            ConfigError: the template is malformed, or gaps and parameters differ; the message names both.
        """
        signature = _read_signature(function, uri_template, "resource template")
        template = UriTemplate(uri_template)
        arguments = Arguments(signature.parameters, signature.place)
        _refuse_difference(template, arguments, signature.place)
        members = _read_members(signature, options, TemplateOptions.__annotations__)
        definition = wire.ResourceTemplate(uri_template=uri_template, **members)
        user_function = UserFunction(function, signature, inline=options.get("inline", False))
        return cls(user_function, signature.place, definition, template, arguments, options)


def _read_members(signature: Signature, options: TemplateOptions, known: Iterable[str]) -> dict[str, Any]:
    """Return the members that the definitions of resources and templates share."""
    annotations, described = options.get("annotations"), options.get("description")
    return {
        "name": options.get("name") or signature.name,
        "title": options.get("title"),
        "description": read_docstring(signature.docstring).description if described is None else described,
        "mime_type": options.get("mime_type") or _mime_type(signature.returns),
        "annotations": annotations and read_annotations(annotations, Annotations, signature.place),
        "icons": options.get("icons"),
        "meta": describe_access(options.get("meta"), options, signature.place, known),
    }


def _read_signature(function: Callable[..., Any], uri: str, noun: str) -> Signature:
    if not re.match(_SCHEME, uri):
        raise ConfigError(f'{noun} "{uri}": the URI needs a scheme of its own, as in "catalogue://{uri}"')
    return read_signature(function, noun=noun, name=uri)


def _refuse_difference(template: UriTemplate, arguments: Arguments, place: str) -> None:
    parameters = {parameter.wire_name: parameter for parameter in arguments.parameters}
    for name in template.variables:
        if name not in parameters:
            raise ConfigError(f"{place}: no parameter takes the gap {{{name}}}; add {name}: str")
        if name in template.lists and not takes_list(arguments.schema, name):
            raise ConfigError(
                f"{place}: the gap {{{name}*}} is a list; write {name}: list[str], or {{+{name}}} for text"
            )
    for name, parameter in parameters.items():
        if name not in template.variables and parameter.required:
            raise ConfigError(
                f"{place}: parameter {name!r} has no gap in the URI; put {{{name}}} there, or give it a default"
            )


def _mime_type(returns: Any) -> str | None:
    """Return the media type that a return annotation implies, or ``None`` if it allows several."""
    kinds = {member for member in members_of(returns) if isinstance(member, type)}
    if kinds == {str}:
        return TEXT
    if kinds & {bytes, bytearray, memoryview} and str not in kinds:
        return BINARY
    return JSON if kinds == {dict} else None


class AppOptions(TypedDict, total=False):
    """Options of an interface."""

    name: str
    """Name of the interface; by default its URI without ``ui://``."""
    title: str
    """Name for people."""
    description: str
    """What the interface shows."""
    scopes: Sequence[str]
    """Scopes that a caller's token must have, all of them, if tokens are checked (``auth=``)."""


BrowserFeature = Literal["camera", "microphone", "geolocation", "clipboardWrite"]
"""What an interface may use of the browser, if the host allows it."""

_ORIGIN = re.compile(r"(?:https?|wss?)://(?:\*\.)?[A-Za-z0-9.-]+(?::[0-9]{1,5}|:\*)?")
"""An origin, perhaps with all its subdomains; nothing that could end the directive of a policy it is put into."""


def make_app(
    uri: str,
    html: str | PathLike[str],
    domains: Mapping[str, Sequence[str]],
    permissions: Sequence[BrowserFeature],
    more: Mapping[str, Any],
    **options: Any,
) -> ServedResource:
    """Make the resource of an interface.

    ``domains``: origins by the members of ``csp``; ``more``: other members of ``ui``; ``options``: those of a resource.
    """
    place = f"app {uri!r}"
    if not uri.startswith(APP_SCHEME):
        raise ConfigError(f'{place}: the URI of an interface begins with "{APP_SCHEME}"')
    for origins in domains.values():
        wrong = [origins] if isinstance(origins, str) else [one for one in origins if not _ORIGIN.fullmatch(one)]
        if wrong:
            raise ConfigError(f'{place}: a list of origins, as in ["https://api.example.com"], not {wrong[0]!r}')
    for one in permissions:
        if one not in get_args(BrowserFeature):
            raise ConfigError(f"{place}: permissions= is a list of {', '.join(get_args(BrowserFeature))}, not {one!r}")
    csp = {name: list(origins) for name, origins in zip(CSP_MEMBERS, domains.values(), strict=True) if origins}
    ui: dict[str, Any] = {"csp": csp, "permissions": {one: {} for one in permissions}, **more}
    meta: Meta = {"ui": {name: value for name, value in ui.items() if value not in (None, {})}}

    def read() -> ResourceContents:
        """Read the interface; its file each time, so that a change is seen."""
        from pathlib import Path

        text = html if isinstance(html, str) else Path(html).read_text(encoding="utf-8")
        return ResourceContents(uri=uri, text=text, mime_type=APP_TYPE, meta=meta)

    name = options.pop("name", None) or uri.removeprefix(APP_SCHEME)
    return ServedResource.from_function(read, uri, name=name, mime_type=APP_TYPE, meta=meta, **options)
