"""A tool: a person's function, or a schema with a handler, made callable with the JSON of a call.

Owns ``Tool`` and what makes one. Knows no connection: deadlines, rate limits and the mapping of exceptions to results
belong to the dispatcher. The path from ``call`` to the body is kept short on purpose.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Raw

from antiphon.errors import ConfigError, TooCostly
from antiphon.json_schema.mismatch import MismatchError
from antiphon.json_schema.validator import SchemaValidator
from antiphon.server.functions.arguments import ArgumentError, Arguments
from antiphon.server.functions.docstrings import read_docstring
from antiphon.server.functions.function import UserFunction, holds_context
from antiphon.server.functions.results import ResultConverter, output_shape, text_result
from antiphon.server.functions.schema import described
from antiphon.server.functions.signature import Parameter, Signature, read_signature
from antiphon.wire import tools as wire
from antiphon.wire.common import Icon, Meta
from antiphon.wire.tools import CallToolResult, ToolAnnotations

__all__ = ["Requirement", "ServedTool"]

Requirement = Literal["sampling", "sampling.tools", "sampling.context", "elicitation", "elicitation.url", "roots"]
"""A client capability, by its path."""

# 2025-11-25 server/tools, Tool Names: 1 to 128 characters, letters, digits, "_", "-" and ".".
_NAME = r"[A-Za-z0-9_.-]{1,128}"

_Reader = Callable[[bytes | Raw], dict[str, Any]]


class ServedTool:
    """Something a client can call. Make one with ``from_function`` or ``raw``.

    ``name``; ``definition`` as it is listed; ``timeout`` in seconds (``None``: none of its own); ``requires``: the
    client capability without which it is of no use; ``wants_context``: whether it can ask back at all.
    """

    __slots__ = (
        "_arguments", "_build", "_definition", "_function", "_read", "_results", "name", "once", "requires", "timeout",
        "wants_context",
    )  # fmt: skip

    def __init__(
        self,
        *,
        name: str,
        function: UserFunction,
        read: _Reader,
        results: ResultConverter,
        build: Callable[[], wire.Tool],
        timeout: float | None,
        requires: Requirement | None,
        once: bool = False,
        arguments: SchemaValidator | None = None,
    ) -> None:
        self.name = name
        self.once = once
        """Whether a call of it must never be forked into two runs."""
        self.timeout = timeout
        self.requires: Requirement | None = requires
        self.wants_context = function.context is not None
        """Whether the function takes the context, and so may ask the client."""
        self._function = function
        self._read = read
        self._arguments = arguments
        """What checks the one value that was read, for a tool whose schema was written by hand."""
        self._results = results
        self._build = build
        self._definition: wire.Tool | None = None

    def __repr__(self) -> str:
        return f"Tool({self.name!r})"

    @property
    def definition(self) -> wire.Tool:
        """The tool as it is listed. Made when first asked for: docstrings cost more to read than to keep."""
        if self._definition is None:
            self._definition = self._build()
        return self._definition

    @property
    def may_ask(self) -> bool:
        """Whether the function can reach the client: it takes the context, or holds one already."""
        return self.wants_context or holds_context(self._function.call)

    @property
    def code(self) -> bytes:
        """The digest of the function's code."""
        return self._function.code

    @property
    def is_async(self) -> bool:
        """Whether the function is async; one that is not runs in a thread, unless it is ``inline``."""
        return self._function.is_async

    async def call(self, arguments: bytes | Raw, context: Any = None) -> CallToolResult:
        """Run the tool with the JSON object ``arguments`` (nothing at all counts as an empty one).

        ``context`` is handed to a function that wants it, untouched.

        Raises:
            ArgumentError: the arguments do not fit; nothing ran.
            ResultInvalid: what the function returned cannot be sent, or does not fit the output schema.
            Exception: whatever the function raises, ``ToolError`` included.
        """
        values = self._read(arguments)
        if self._arguments is not None:
            await _check_arguments(self._arguments, *values.values())
        function = self._function
        if function.is_async:
            if function.context is not None:
                values[function.context] = context
            value = await function.call(**values)
        else:
            value = await function.run(values, context)
        results = self._results
        if value.__class__ is str and results.is_plain:
            return text_result(value)
        return await results.checked(value) if results.validates else results.convert(value)

    @classmethod
    def from_function(
        cls,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        annotations: ToolAnnotations | None = None,
        icons: Sequence[Icon] | None = None,
        meta: Meta | None = None,
        output_schema: Mapping[str, Any] | None = None,
        structured: bool | None = None,
        timeout: float | None = None,
        requires: Requirement | None = None,
        inline: bool = False,
        once: bool = False,
    ) -> ServedTool:
        """Make a function a tool.

        The schema comes from the signature, the description and the words on arguments from the docstring, the output
        schema from the return annotation: ``output_schema`` replaces it (and results are then validated),
        ``structured`` false drops it, true demands one even of ``str``. ``inline`` runs a function that is not async
        on the event loop, for one that never waits.

        Raises:
            ConfigError: the function cannot be a tool; the message names it, the parameter and the remedy.
        """
        signature = read_signature(function, noun="tool", name=name)
        given = _checked_name(name or signature.name, signature.place)
        arguments = Arguments(signature.parameters, signature.place)
        shape, validator, listed = _output(signature, output_schema, structured)

        def build() -> wire.Tool:
            docs = read_docstring(signature.docstring)
            return wire.Tool(
                name=given,
                title=title,
                description=docs.description if description is None else description,
                input_schema=described(arguments.schema, docs.arguments),
                output_schema=listed,
                annotations=annotations,
                icons=icons,
                meta=meta,
            )

        return cls(
            name=given,
            function=UserFunction(function, signature, inline=inline),
            read=arguments.decode,
            results=ResultConverter(
                signature.place, shape=shape, validator=validator, structured=structured is not False
            ),
            build=build,
            timeout=timeout,
            requires=requires,
            once=once,
        )

    @classmethod
    def raw(
        cls,
        name: str,
        input_schema: Mapping[str, Any],
        handler: Callable[..., Any],
        *,
        title: str | None = None,
        description: str | None = None,
        annotations: ToolAnnotations | None = None,
        icons: Sequence[Icon] | None = None,
        meta: Meta | None = None,
        output_schema: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        requires: Requirement | None = None,
        inline: bool = False,
        lazy: bool = False,
    ) -> ServedTool:
        """Make a tool of a JSON Schema and a handler ``(arguments)`` or ``(arguments, ctx: Context)``.

        Arguments are validated against ``input_schema`` (2020-12 unless it says otherwise), which is listed verbatim,
        and handed over as a plain ``dict``. With ``lazy`` the schema is compiled at the first call.

        Raises:
            ConfigError: the name, the schema or the handler cannot be used.
        """
        definition = wire.Tool(
            name=name,
            title=title,
            description=description,
            input_schema=dict(input_schema),
            output_schema=None if output_schema is None else dict(output_schema),
            annotations=annotations,
            icons=icons,
            meta=meta,
        )
        return cls.of_definition(definition, handler, timeout=timeout, requires=requires, inline=inline, lazy=lazy)

    @classmethod
    def of_definition(
        cls,
        definition: wire.Tool,
        handler: Callable[..., Any],
        *,
        timeout: float | None = None,
        requires: Requirement | None = None,
        inline: bool = False,
        once: bool = False,
        lazy: bool = False,
    ) -> ServedTool:
        """Make a tool of a definition, which is listed as it is, and a handler. See ``raw``."""
        signature = read_signature(handler, noun="tool", name=definition.name)
        name = _checked_name(definition.name, signature.place)
        parameter = _only_parameter(signature)
        input_schema = definition.input_schema
        if input_schema.get("type") != "object":
            raise ConfigError(f'{signature.place}: its input schema must say "type": "object" at the top')
        validator = SchemaValidator(input_schema, place=f"{signature.place}: input schema", lazy=lazy)
        outgoing = None
        if definition.output_schema is not None:
            place = f"{signature.place}: output schema"
            outgoing = SchemaValidator(definition.output_schema, place=place, lazy=lazy)

        def read(raw: bytes | Raw) -> dict[str, Any]:
            return {parameter.name: _decoded(raw)}

        return cls(
            name=name,
            function=UserFunction(handler, signature, inline=inline),
            read=read,
            results=ResultConverter(signature.place, shape=None, validator=outgoing),
            build=lambda: definition,
            timeout=timeout,
            requires=requires,
            arguments=validator,
            once=once,
        )


def _checked_name(name: str, place: str) -> str:
    if not re.fullmatch(_NAME, name):
        raise ConfigError(
            f'{place}: "{name}" cannot be a tool\'s name; use 1 to 128 letters, digits, "_", "-" or ".", '
            'as in name="describe_product"'
        )
    return name


def _output(
    signature: Signature, schema: Mapping[str, Any] | None, structured: bool | None, *, lazy: bool = False
) -> tuple[Any, SchemaValidator | None, dict[str, Any] | None]:
    """Choose between the author's output schema and the return annotation's."""
    if schema is not None:
        validator = SchemaValidator(schema, place=f"{signature.place}: output schema", lazy=lazy)
        return None, validator, dict(schema)
    shape = output_shape(signature.returns, signature.place, structured=structured)
    return shape, None, shape.schema if shape else None


def _only_parameter(signature: Signature) -> Parameter:
    if len(signature.parameters) != 1:
        raise ConfigError(f"{signature.place}: a raw tool's handler takes (arguments) or (arguments, ctx: Context)")
    return signature.parameters[0]


def _decoded(raw: bytes | Raw) -> Any:
    try:
        return msgspec.json.decode(raw or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ArgumentError(f"arguments: not JSON: {error}") from None


async def _check_arguments(validator: SchemaValidator, arguments: object) -> None:
    try:
        await validator.check(arguments)
    except TooCostly as error:
        raise ArgumentError(f"arguments: cannot be checked: {error}") from None
    except MismatchError as error:
        mismatch = error.mismatch
        sentence = mismatch.sentence("argument") if mismatch.place else f"arguments: {mismatch.problem}"
        raise ArgumentError(sentence, argument=mismatch.place) from None
