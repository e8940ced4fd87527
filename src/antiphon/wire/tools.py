"""Tools: what a server can do for a model, the call, and its result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self, cast

from msgspec import Raw, field
from msgspec.structs import replace

from antiphon.wire.common import ABSENT, Icon, Meta, PaginatedResult, RequestMeta, Result, RoundParams, Wire
from antiphon.wire.content import ContentBlock, TextContent, text_of
from antiphon.wire.envelope import encode_value


class ToolAnnotations(Wire, frozen=True, kw_only=True, gc=False):
    """Hints about what a tool does; untrusted when the server is (from 2025-03-26)."""

    title: str | None = None
    read_only_hint: bool | None = None
    destructive_hint: bool | None = None
    idempotent_hint: bool | None = None
    open_world_hint: bool | None = None


class ToolExecution(Wire, frozen=True, kw_only=True, gc=False):
    """Whether a tool may, or must, run as a task (2025-11-25)."""

    task_support: str | None = None
    """``"forbidden"``, ``"optional"`` or ``"required"``."""


class Tool(Wire, frozen=True, kw_only=True):
    """Definition of a tool. Both schemas are JSON Schema (2020-12 unless they name another dialect)."""

    name: str
    input_schema: dict[str, Any]
    title: str | None = None
    description: str | None = None
    output_schema: dict[str, Any] | None = None
    annotations: ToolAnnotations | None = None
    execution: ToolExecution | None = None
    icons: Sequence[Icon] | None = None
    meta: Meta | None = field(name="_meta", default=None)


class ListToolsResult(PaginatedResult, frozen=True, kw_only=True):
    """Result of ``tools/list``."""

    tools: Sequence[Tool]


class CallToolRequestParams(RoundParams, frozen=True, kw_only=True):
    """Params of ``tools/call``. The arguments stay undecoded until the tool, and so their type, is known."""

    name: str
    arguments: Raw = ABSENT
    task: Any = None
    """How a client of 2025-11-25 asks for a task: a ``TaskWish``, not converted yet."""

    @classmethod
    def of(
        cls, name: str, arguments: Mapping[str, Any] | Raw | None = None, *, meta: RequestMeta | None = None
    ) -> Self:
        """Make the params of a call from plain values.

        Args:
            name: name of the tool.
            arguments: the tool's arguments by name, or as undecoded JSON; none by default.
            meta: the request's ``_meta``.
        """
        return cls(name=name, arguments=ABSENT if arguments is None else Raw(encode_value(arguments)), meta=meta)


class CallToolResult(Result, frozen=True, kw_only=True):
    """Result of ``tools/call``. ``is_error`` marks the failure of a tool, which is for the model and raises nothing."""

    content: Sequence[ContentBlock]
    structured_content: Any = None
    """An object; from 2026-07-28 any JSON value, of which ``null`` cannot be told from an absent one."""
    is_error: bool = False

    @property
    def text(self) -> str:
        """All blocks of text, joined by newlines."""
        return text_of(self.content)


def fail_tool(text: str) -> CallToolResult:
    """Make the result of a tool that failed; the text is for the model."""
    return CallToolResult(content=[TextContent(text=text)], is_error=True)


_KINDS = {
    "one": "items additionalItems unevaluatedItems additionalProperties unevaluatedProperties propertyNames contains "
    "contentSchema not if then else",
    "list": "allOf anyOf oneOf prefixItems",
    "named": "properties patternProperties dependentSchemas dependencies $defs definitions",
}
SUBSCHEMAS: Mapping[str, str] = {keyword: kind for kind, said in _KINDS.items() for keyword in said.split()}
"""The keywords of JSON Schema whose values are schemas: one, a list of them, or several by name."""


_CHECKED: Mapping[str, type] = {"properties": dict, "required": list, "$defs": dict, "definitions": dict}
"""What the values of keywords must be that strict readers look at."""


def fit_schemas(tool: Tool) -> Tool:
    """Return a tool with schemas that strict readers take: many refuse a whole list because of one tool in it.

    An input schema says that arguments are an object, as they always are; keywords with unfit values are left out.
    """
    given = {"input_schema": {**tool.input_schema, "type": "object"}, "output_schema": tool.output_schema}
    fitted = {
        name: {word: value for word, value in schema.items() if isinstance(value, _CHECKED.get(word, object))}
        for name, schema in given.items()
        if schema is not None
    }
    return tool if all(getattr(tool, name) == schema for name, schema in fitted.items()) else replace(tool, **fitted)


def read_properties(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a schema says of the members of an object; nothing if that is malformed."""
    properties = schema.get("properties")
    return cast("dict[str, Any]", properties) if isinstance(properties, dict) else {}


def list_subschemas(schema: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str | int, ...], Any]]:
    """List the schemas directly inside of a schema: each with its keyword, and its path: that, and a name or an index.

    A schema comes from a peer, so what stands in the place of an inner schema may be anything.
    """
    for keyword, value in schema.items():
        kind = SUBSCHEMAS.get(keyword)
        if kind == "named" and isinstance(value, Mapping):
            yield from ((keyword, (keyword, name), inner) for name, inner in cast("Mapping[str, Any]", value).items())
        elif kind is not None and isinstance(value, list):
            yield from ((keyword, (keyword, at), each) for at, each in enumerate(cast("list[Any]", value)))
        elif kind is not None:
            yield keyword, (keyword,), value


def resolve_schema(schema: object, root: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema with what its references in ``root`` lead to, a few in a row; what stands beside one prevails."""
    found: dict[str, Any] = {}
    followed: set[str] = set()
    for _ in range(8):
        found = {**cast("dict[str, Any]", schema), **found} if isinstance(schema, dict) else found
        reference, parts = found.pop("$ref", None), found.get("allOf")
        if reference is None and isinstance(parts, list) and len(cast("list[Any]", parts)) == 1:
            # Frameworks wrap a reference so, to say more beside it.
            [schema] = found.pop("allOf")
            continue
        if not isinstance(reference, str) or not reference.startswith("#/") or reference in followed:
            break
        followed.add(reference)
        schema = root
        for part in reference[2:].split("/"):
            name = part.replace("~1", "/").replace("~0", "~")
            if isinstance(schema, list):
                # RFC 6901, section 4: a position in an array is written in digits.
                schema = dict(zip(map(str, range(len(items := cast("list[Any]", schema)))), items, strict=True))
            schema = cast("Any", schema).get(name) if isinstance(schema, Mapping) else None
    return found


def walk_schemas(schema: object, most: int) -> Iterator[tuple[tuple[str | int, ...], dict[str, Any]]]:
    """Yield a schema and every schema inside that is an object, each with its path, from at most ``most`` values."""
    pending: list[tuple[tuple[str | int, ...], object]] = [((), schema)]
    for _ in range(most):
        if not pending:
            return
        path, node = pending.pop()
        if isinstance(node, dict):
            yield path, (here := cast("dict[str, Any]", node))
            pending += [((*path, *steps), inner) for _, steps, inner in list_subschemas(here)]
