"""Resources: a function that serves one URI, or a family of URIs.

Owns ``ServedResource`` (one URI), ``ServedTemplate`` (RFC 6570) and what their functions may return. The server decides
which of them serves a URI.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Unpack, cast

from antiphon.errors import ConfigError, ResourceNotFound, ResultInvalid
from antiphon.server.features.checked_options import AccessOptions, ServedFeature, describe_access, read_annotations
from antiphon.server.features.uri_template import UriTemplate
from antiphon.server.functions.arguments import Arguments, takes_list, text_choices
from antiphon.server.functions.function import UserFunction
from antiphon.server.functions.shape import encode_value
from antiphon.server.functions.signature import Signature, members_of, read_docstring, read_signature
from antiphon.wire import resources as wire
from antiphon.wire.common import Annotations, Icon, Meta
from antiphon.wire.content import ResourceContents
from antiphon.wire.resources import ReadResourceResult

TEXT, BINARY, JSON = "text/plain", "application/octet-stream", "application/json"

_SCHEME = r"[A-Za-z][A-Za-z0-9+.-]*:"


class _Readable(ServedFeature):
    """A function, and how its return value becomes contents."""

    __slots__ = ("_mime_type", "_place")

    def __init__(self, function: UserFunction, place: str, mime_type: str | None, access: AccessOptions) -> None:
        super().__init__(function, place, access)
        self._place = place
        self._mime_type = mime_type

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
        if isinstance(value, bytes | bytearray):
            return ResourceContents.of(uri, bytes(value), self._mime_type or BINARY)
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
        cls,
        function: Callable[..., Any],
        uri: str,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        mime_type: str | None = None,
        size: int | None = None,
        annotations: Annotations | None = None,
        icons: Sequence[Icon] | None = None,
        meta: Meta | None = None,
        inline: bool = False,
        **access: Unpack[AccessOptions],
    ) -> ServedResource:
        """Make a function a resource. It takes no argument except, optionally, the context.

        Args:
            function: the function, plain or async.
            uri: URI of the resource.
            name: name of the resource; by default the function's.
            title: name for people.
            description: what the resource holds; by default the function's docstring.
            mime_type: media type; by default from the return annotation: text or bytes.
            size: size of the contents in bytes, before any encoding.
            annotations: hints to clients on how to use it.
            icons: pictures that a client may show.
            meta: the definition's ``_meta``.
            inline: run a function that is not async on the event loop: only for one that never blocks.
            access: see ``AccessOptions``.

        Raises:
            ConfigError: the URI has no scheme, or the function takes an argument.
        """
        signature = _read_signature(function, uri, "resource")
        if signature.parameters:
            raise ConfigError(
                f"{signature.place}: parameter {signature.parameters[0].name!r} has no gap in the URI; "
                f"put {{{signature.parameters[0].name}}} there, or remove the parameter"
            )
        definition = wire.Resource(
            uri=uri,
            name=name or signature.name,
            title=title,
            description=_choose_description(signature, description),
            mime_type=mime_type or _mime_type(signature.returns),
            size=size,
            annotations=annotations and read_annotations(annotations, Annotations, signature.place),
            icons=icons,
            meta=describe_access(meta, access, signature.place),
        )
        return cls(UserFunction(function, signature, inline=inline), signature.place, definition, access)

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
        cls,
        function: Callable[..., Any],
        uri_template: str,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        mime_type: str | None = None,
        annotations: Annotations | None = None,
        icons: Sequence[Icon] | None = None,
        meta: Meta | None = None,
        inline: bool = False,
        **access: Unpack[AccessOptions],
    ) -> ServedTemplate:
        """Make a function serve all URIs of a template; its parameters are the gaps.

        A parameter may have any type that can be read from text (``int``, an enum, ...); a gap that explodes
        (``{/path*}``) is a list.

        Args:
            function: the function, plain or async.
            uri_template: the URI template (RFC 6570).
            name: name of the template; by default the function's.
            title: name for people.
            description: what the resources hold; by default the function's docstring.
            mime_type: media type; by default from the return annotation: text or bytes.
            annotations: hints to clients on how to use them.
            icons: pictures that a client may show.
            meta: the definition's ``_meta``.
            inline: run a function that is not async on the event loop: only for one that never blocks.
            access: see ``AccessOptions``.

        Raises:
            ConfigError: the template is malformed, or gaps and parameters differ; the message names both.
        """
        signature = _read_signature(function, uri_template, "resource template")
        template = UriTemplate(uri_template)
        arguments = Arguments(signature.parameters, signature.place)
        _refuse_difference(template, arguments, signature.place)
        definition = wire.ResourceTemplate(
            uri_template=uri_template,
            name=name or signature.name,
            title=title,
            description=_choose_description(signature, description),
            mime_type=mime_type or _mime_type(signature.returns),
            annotations=annotations and read_annotations(annotations, Annotations, signature.place),
            icons=icons,
            meta=describe_access(meta, access, signature.place),
        )
        user_function = UserFunction(function, signature, inline=inline)
        return cls(user_function, signature.place, definition, template, arguments, access)


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


def _choose_description(signature: Signature, given: str | None) -> str | None:
    return read_docstring(signature.docstring).description if given is None else given


def _mime_type(returns: Any) -> str | None:
    """Return the media type that a return annotation implies, or ``None`` if it allows several."""
    kinds = {member for member in members_of(returns) if isinstance(member, type)}
    if kinds == {str}:
        return TEXT
    if kinds & {bytes, bytearray} and str not in kinds:
        return BINARY
    return JSON if kinds == {dict} else None
