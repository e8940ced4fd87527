"""A tool: a function, or a schema with a handler, that is called with the JSON arguments of a request.

Owns ``ServedTool`` and its construction. Deadlines, rate limits and the conversion of exceptions to results belong to
the dispatcher. The path from ``call`` to the function's body is deliberately short.

A call may need the user's confirmation before its tool runs: ``@server.tool(confirm="Delete {count} drafts?")``. The
question is an elicitation of the call itself. So it is bound to the call's tool, arguments and principal, at 2026-07-28
by the sealed state, and its answer counts once. Whatever is not a clear yes refuses the call.
"""

from __future__ import annotations

import inspect
import re
import string
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, Unpack, get_args

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from antiphon.errors import AntiphonError, ConfigError, TooCostly, ToolError
from antiphon.json_schema.validator import MismatchError, SchemaValidator
from antiphon.server.features import checked_options
from antiphon.server.features.checked_options import AccessOptions, FeatureOptions
from antiphon.server.functions.arguments import ArgumentError, Arguments
from antiphon.server.functions.function import UserFunction, holds_context
from antiphon.server.functions.results import ResultConverter, output_shape, text_result
from antiphon.server.functions.shape import simplify_schema
from antiphon.server.functions.signature import Signature, read_docstring, read_signature
from antiphon.wire import tools as wire
from antiphon.wire.apps import ToolUser
from antiphon.wire.common import CONFIRMS, Meta
from antiphon.wire.elicitation import CONFIRM_FORM, shorten_value
from antiphon.wire.tools import CallToolResult, ToolAnnotations

Confirm = str | Callable[..., Any]
"""The question, with the names of arguments in braces; or a function of arguments that returns it, or ``None`` if this
call needs no confirmation. It may be async."""


class Confirmation:
    """The question about each call of one tool.

    Raises ``ConfigError``: the question names an argument that the tool does not have.
    """

    def __init__(self, question: Confirm, parameters: Mapping[str, Any], place: str) -> None:
        self._question = question
        try:
            if isinstance(question, str):
                named = {field for _, field, _, _ in string.Formatter().parse(question) if field is not None}
            else:
                named = set(inspect.signature(question).parameters)
            if unknown := sorted(named.difference(parameters)):
                raise ConfigError(f"{place}: confirm= names {unknown[0]!r}, which is no argument of the tool")
            if isinstance(question, str):
                # Each call fills it in with texts.
                question.format_map(dict.fromkeys(named, ""))
        except (TypeError, ValueError) as error:
            raise ConfigError(
                f'{place}: confirm= is a question, as in "Delete {{count}} drafts?", or a function of arguments, and '
                f"{question!r} cannot be used: {error}"
            ) from None
        self._usual = {name: parameters[name] for name in named}

    async def ask(self, values: Mapping[str, Any], context: Any) -> None:
        """Ask the user of a call. Raises ``ToolError``: the user did not confirm it, or cannot be asked."""
        if (question := await self._write_question(values)) is None:
            return
        try:
            answer = await context.elicit(question, CONFIRM_FORM)
        except AntiphonError as error:
            raise ToolError(
                f"This tool needs the user's confirmation, and the user could not be asked ({error}). Nothing was done."
            ) from None
        if not answer.accepted or answer.value != {"confirm": True}:
            raise ToolError("The user did not confirm this call. Nothing was done.")

    async def _write_question(self, values: Mapping[str, Any]) -> str | None:
        given = {name: values.get(name, usual) for name, usual in self._usual.items()}
        if isinstance(self._question, str):
            return self._question.format_map({name: shorten_value(value) for name, value in given.items()})
        question = self._question(**given)
        question = await question if inspect.isawaitable(question) else question
        if question is not None and not isinstance(question, str):
            raise ConfigError(f"confirm= returned {type(question).__name__}: return the question, or None")
        return question


def declare_confirmation(
    question: Confirm, annotations: ToolAnnotations | None, meta: Meta | None
) -> tuple[ToolAnnotations, dict[str, Any]]:
    """Return the members of a tool's definition that say that it asks before it runs."""
    hints = annotations or ToolAnnotations()
    if hints.destructive_hint is None and not hints.read_only_hint:
        hints = replace(hints, destructive_hint=True)
    return hints, {**(meta or {}), CONFIRMS: question if isinstance(question, str) else True}


Requirement = Literal["sampling", "sampling.tools", "sampling.context", "elicitation", "elicitation.url", "roots"]
"""A client capability, by its path."""

AsTask = Literal["never", "allowed", "required", "later"]
"""When a call of a tool becomes a task."""


class ToolOptions(FeatureOptions, AccessOptions, total=False):
    """Options of a tool."""

    description: str
    """What the tool does, for models; by default the function's docstring."""
    annotations: ToolAnnotations
    """Hints to clients, for example that the tool only reads."""
    output_schema: Mapping[str, Any]
    """JSON Schema of the structured content; by default from the return annotation. Results are validated against
    it."""
    structured: bool
    """``False``: return text only. ``True``: return structured content even for a plain string."""
    timeout: float
    """Seconds for one call, not counting time spent waiting for the client's answers."""
    requires: Requirement
    """A client capability that the tool needs; clients without it are not offered the tool."""
    once: bool
    """Never run one call twice. Where processes share keys, the call continues in another process only if the
    ``state_store`` guarantees that it does not continue in both. For side effects that cannot be a step."""
    task: AsTask
    """When a call becomes a task, which outlives its request (extension, from 2026-07-28). ``"allowed"``: at once, if
    the client declares the extension; ``"required"``: at once, and clients without it are refused; ``"later"``: when
    the handler says so (``Context.go_on_as_task``). By default ``"never"``."""
    confirm: Confirm
    """What the user is asked before each call: a text with the names of arguments in braces, or a function of arguments
    that returns it (``None``: no confirmation is needed). Where the user cannot be asked the call is refused."""

    ui: str
    """URI of the tool's interface, made by ``server.app``: hosts that know the extension show it beside the result
    (``io.modelcontextprotocol/ui``). The result must say the same without it."""
    visibility: Sequence[ToolUser]
    """Who may call the tool: ``["app"]`` for the interface alone, which hosts then hide from models. By default both
    ``"model"`` and ``"app"``."""


_IN_DEFINITION = frozenset(
    {"annotations", "description", "icons", "meta", "name", "output_schema", "structured", "title", "ui", "visibility"}
)
"""Options that are members of a tool's definition, and so cannot be given beside one."""

_EXECUTIONS: Mapping[AsTask, wire.ToolExecution] = {
    "allowed": wire.ToolExecution(task_support="optional"),
    "required": wire.ToolExecution(task_support="required"),
}
"""``execution`` in a tool's definition, for clients of 2025-11-25, which decide before the call: there is no
"later"."""

# 2025-11-25 server/tools, Tool Names: 1 to 128 characters, letters, digits, "_", "-" and ".".
_NAME = r"[A-Za-z0-9_.-]{1,128}"

_Reader = Callable[[bytes | Raw], dict[str, Any]]


class ServedTool(checked_options.NamedFeature[wire.Tool]):
    """A tool that clients can call. Make one with ``from_function``, ``raw`` or ``of_definition``.

    Attributes: ``name``; ``definition`` as it is listed; ``timeout`` in seconds (``None``: no limit of its own);
    ``requires``: the client capability that it needs; ``wants_context``: whether its function takes the context.
    """

    __slots__ = ("_arguments", "_confirmation", "_read", "_repeats", "_results", "once", "requires", "task", "timeout")

    def __init__(
        self,
        *,
        name: str,
        function: UserFunction,
        read: _Reader,
        results: ResultConverter,
        build: Callable[[], wire.Tool] | wire.Tool,
        options: ToolOptions,
        arguments: SchemaValidator | None = None,
        confirmation: Confirmation | None = None,
    ) -> None:
        for option, values in (("task", get_args(AsTask)), ("requires", (None, *get_args(Requirement)))):
            if (given := options.get(option, values[0])) not in values:
                wanted = ", ".join(filter(None, values))
                raise ConfigError(f"tool {name!r}: {option}= is one of {wanted}, not {given!r}")
        super().__init__(function, f"tool {name!r}", options)
        self.name = name
        self._build = build
        self.task: AsTask = options.get("task", "never")
        """When a call becomes a task."""
        self.once = options.get("once", False)
        """Whether one call must never become two runs."""
        self.timeout = options.get("timeout")
        self.requires: Requirement | None = options.get("requires")
        self._read = read
        self._arguments = arguments
        """Validates the arguments of a tool whose schema was written by hand."""
        self._confirmation = confirmation
        if confirmation is not None:
            # It asks the client, whether its function does or not.
            self.wants_context = True
        self._results = results
        self._repeats: bool | None = None

    def __repr__(self) -> str:
        return f"Tool({self.name!r})"

    @property
    def repeats(self) -> bool:
        """Whether it may run twice for one call: its author marked it as read-only or idempotent."""
        if self._repeats is None:
            hints = self.definition.annotations
            self._repeats = hints is not None and bool(hints.read_only_hint or hints.idempotent_hint)
        return self._repeats

    @property
    def may_ask(self) -> bool:
        """Whether the function can reach the client: it takes the context, or holds one already."""
        return self.wants_context or holds_context(self._function.call)

    async def call(self, arguments: bytes | Raw, context: Any = None) -> CallToolResult:
        """Run the tool.

        Args:
            arguments: the arguments, a JSON object; nothing at all counts as an empty one.
            context: passed unchanged to a function that takes the context.

        Raises:
            ArgumentError: the arguments do not fit; nothing was run.
            ResultInvalid: what the function returned cannot be sent, or does not fit the output schema.
            Exception: whatever the function raises, ``ToolError`` included.
        """
        values = self._read(arguments)
        if self._arguments is not None:
            await check_arguments(self._arguments, *values.values())
        if self._confirmation is not None:
            given = values if self._arguments is None else next(iter(values.values()))
            await self._confirmation.ask(given, context)
        function = self._function
        if function.is_async:
            if function.context is not None:
                values[function.context] = context
            try:
                value = await function.call(**values)
            except SystemExit as error:
                raise RuntimeError(f"SystemExit: {error}") from error
        else:
            value = await function.run(values, context)
        results = self._results
        if value.__class__ is str and results.is_plain:
            return text_result(value)
        return await results.checked(value) if results.validates else results.convert(value)

    @classmethod
    def from_function(cls, function: Callable[..., Any], **options: Unpack[ToolOptions]) -> ServedTool:
        """Make a function a tool: schemas from its signature, texts from its docstring.

        Args:
            function: the function, plain or async.
            options: see ``ToolOptions``.

        Raises:
            ConfigError: the function cannot be a tool; the message names it and the parameter, and says what to do.
        """
        signature = read_signature(function, noun="tool", name=options.get("name"))
        place, structured = signature.place, options.get("structured")
        arguments = Arguments(signature.parameters, place)
        annotations, meta = options.get("annotations"), options.get("meta")
        if options:
            meta = checked_options.describe_access(meta, options, place, ToolOptions.__annotations__)
            meta = checked_options.declare_ui(options.get("ui"), options.get("visibility"), meta, place)
        given = _check_name(options.get("name") or signature.name, place)
        shape, validator, listed = _choose_output(signature, options.get("output_schema"), structured)
        annotations = annotations and checked_options.read_annotations(annotations, ToolAnnotations, place)
        confirmation = None
        if (confirm := options.get("confirm")) is not None:
            confirmation = Confirmation(confirm, {each.name: each.default for each in signature.parameters}, place)
            annotations, meta = declare_confirmation(confirm, annotations, meta)
        bare = wire.Tool(
            name=given,
            title=options.get("title"),
            description=options.get("description"),
            input_schema={},
            output_schema=listed,
            annotations=annotations,
            icons=options.get("icons"),
            execution=_EXECUTIONS.get(options.get("task", "never")),
            meta=meta,
        )
        return cls(
            name=given,
            function=UserFunction(function, signature, inline=options.get("inline", False)),
            read=arguments.decode,
            results=ResultConverter(place, shape=shape, validator=validator, structured=structured is not False),
            build=partial(_document_tool, bare, arguments, signature.docstring),
            options=options,
            confirmation=confirmation,
        )

    @classmethod
    def of_definition(
        cls, definition: wire.Tool, handler: Callable[..., Any], *, lazy: bool = False, **options: Unpack[ToolOptions]
    ) -> ServedTool:
        """Make a tool from a definition, which is listed unchanged, and a handler.

        Args:
            definition: name, schemas and texts of the tool.
            handler: ``(arguments)`` or ``(arguments, ctx: Context)``, plain or async; ``arguments`` is a plain
                ``dict``.
            lazy: compile the schemas at the first call instead of now.
            options: see ``ToolOptions``; only those that the definition has no member for (``timeout``, ``requires``,
                ``inline``, ``once``, ``task``, ``confirm``, and ``AccessOptions``).

        Raises:
            ConfigError: the name, a schema, the handler or an option cannot be used.
        """
        if twice := sorted(_IN_DEFINITION & options.keys()):
            raise ConfigError(f"the definition of {definition.name!r} says this itself: leave out {', '.join(twice)}")
        signature = read_signature(handler, noun="tool", name=definition.name)
        name = _check_name(definition.name, signature.place)
        if len(signature.parameters) != 1:
            raise ConfigError(f"{signature.place}: a handler takes (arguments) or (arguments, ctx: Context)")
        [parameter] = signature.parameters
        given = definition.annotations
        read = given and checked_options.read_annotations(given, ToolAnnotations, signature.place)
        meta = checked_options.describe_access(definition.meta, options, signature.place, ToolOptions.__annotations__)
        if read is not given or meta is not definition.meta:
            definition = replace(definition, annotations=read, meta=meta)
        input_schema = definition.input_schema
        if input_schema.get("type") != "object":
            raise ConfigError(f'{signature.place}: its input schema must say "type": "object" at the top')
        validator = SchemaValidator(input_schema, place=f"{signature.place}: input schema", lazy=lazy)
        confirmation = None
        if (confirm := options.get("confirm")) is not None:
            known = {name: member.get("default") for name, member in input_schema.get("properties", {}).items()}
            confirmation = Confirmation(confirm, known, signature.place)
            hints, meta = declare_confirmation(confirm, read, definition.meta)
            definition = replace(definition, annotations=hints, meta=meta)
        outgoing = None
        if definition.output_schema is not None:
            place = f"{signature.place}: output schema"
            outgoing = SchemaValidator(definition.output_schema, place=place, lazy=lazy)

        return cls(
            name=name,
            function=UserFunction(handler, signature, inline=options.get("inline", False)),
            read=lambda raw: {parameter.name: decode_arguments(raw)},
            results=ResultConverter(signature.place, shape=None, validator=outgoing),
            build=definition,
            options=options,
            arguments=validator,
            confirmation=confirmation,
        )


def _check_name(name: str, place: str) -> str:
    if not re.fullmatch(_NAME, name):
        raise ConfigError(
            f'{place}: "{name}" cannot be a tool\'s name; use 1 to 128 letters, digits, "_", "-" or ".", '
            'as in name="describe_product"'
        )
    return name


def _document_tool(tool: wire.Tool, arguments: Arguments, docstring: str | None) -> wire.Tool:
    """Complete the definition of a function by its arguments and its docstring."""
    docs = read_docstring(docstring)
    described_tool = replace(tool, input_schema=simplify_schema(arguments.describe(docs.arguments)))
    return described_tool if tool.description is not None else replace(described_tool, description=docs.description)


def _choose_output(
    signature: Signature, schema: Mapping[str, Any] | None, structured: bool | None
) -> tuple[Any, SchemaValidator | None, dict[str, Any] | None]:
    """Choose between the author's output schema and the return annotation's."""
    if schema is not None:
        return None, SchemaValidator(schema, place=f"{signature.place}: output schema"), dict(schema)
    shape = output_shape(signature.returns, signature.place, structured=structured)
    if shape is None and signature.returns in (bytes, memoryview):
        raise ConfigError(f"{signature.place}: returns bytes: say what they are, by ImageContent or EmbeddedResource")
    return shape, None, shape.schema if shape else None


def decode_arguments(raw: bytes | Raw) -> Any:
    """Return the arguments of a request; ``ArgumentError`` if they are no JSON."""
    try:
        return msgspec.json.decode(raw or b"{}")
    except msgspec.DecodeError as error:
        raise ArgumentError(f"arguments: not JSON: {error}") from None


async def check_arguments(validator: SchemaValidator, arguments: object) -> None:
    """Raise ``ArgumentError`` unless arguments fit a schema."""
    try:
        await validator.check(arguments)
    except TooCostly as error:
        raise ArgumentError(f"arguments: cannot be checked: {error}") from None
    except MismatchError as error:
        mismatch = error.mismatch
        sentence = mismatch.sentence("argument") if mismatch.place else f"arguments: {mismatch.problem}"
        raise ArgumentError(sentence, argument=mismatch.place) from None
