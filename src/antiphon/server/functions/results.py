"""What a tool returns, converted to a ``CallToolResult``.

Owns one rule: content stays content, text becomes text, and everything else becomes structured content, with its JSON
as text for clients that do not know structured content. A value that is no JSON object is wrapped under ``result``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Coroutine, Iterable, Sequence
from typing import Annotated, Any, Literal, Never, NoReturn, cast, get_args, get_origin
from weakref import WeakValueDictionary

import msgspec
from msgspec import Raw

from antiphon.errors import ConfigError, ResultInvalid, TooCostly
from antiphon.json_schema.validator import MismatchError, SchemaValidator, describe_rule
from antiphon.server.functions.shape import Shape, encode_value
from antiphon.server.functions.signature import REQUIRED, members_of
from antiphon.wire.content import (
    AudioContent,
    Block,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    UnknownContent,
)
from antiphon.wire.tools import CallToolResult

CONTENT = (TextContent, ImageContent, AudioContent, ResourceLink, EmbeddedResource, UnknownContent)
"""The types of content that a function may return, for ``isinstance``."""

_SEQUENCES = (list, tuple, set, frozenset, Sequence, Iterable, Collection)
_UNSTRUCTURED = {str, bytes, bytearray, memoryview, Any, object, None, type(None), Never, NoReturn, REQUIRED}


class ResultConverter:
    """Converts the return values of one tool to results.

    ``shape`` is the declared type, ``validator`` the output schema that an author wrote by hand. With ``structured``
    false there is no structured content.
    """

    __slots__ = ("_place", "_shape", "_structured", "_validator", "is_plain", "validates")

    def __init__(
        self, place: str, *, shape: Shape | None, validator: SchemaValidator | None, structured: bool = True
    ) -> None:
        self._place = place
        self._shape = shape
        if shape is not None and not shape.checks_results:
            validator = SchemaValidator(shape.schema, place=f"{place}: output schema", lazy=True)
        self._validator = validator
        self._structured = structured
        self.is_plain = shape is None and validator is None
        """Whether a string becomes a text result and nothing more."""
        self.validates = validator is not None
        """Whether results must be converted by ``checked``."""

    def convert(self, value: Any) -> CallToolResult:
        """Convert a value to a result, or raise ``ResultInvalid``; if it ``validates``, the check comes later."""
        result = value if isinstance(value, CallToolResult) else self._convert_value(value)
        if self._shape is not None and not self.validates and not result.is_error:
            try:
                self._shape.decode(self._convert_structured(result))
            except MismatchError as error:
                raise self._unfit(error) from None
        return result

    async def checked(self, value: Any) -> CallToolResult:
        """Convert a value to a result that fits the output schema, or raise ``ResultInvalid``."""
        result = self.convert(value)
        if self._validator is not None and not result.is_error:
            is_structured = self._structured or result is value
            raw = self._convert_structured(result) if is_structured else self._encode(value)
            try:
                await self._validator.check(msgspec.json.decode(raw))
            except MismatchError as error:
                raise self._unfit(error) from None
            except TooCostly as error:
                why = f"{self._place}: its result cannot be checked by the output schema: {error}"
                raise ResultInvalid(why) from None
        return result

    def _convert_structured(self, result: CallToolResult) -> bytes:
        if result.structured_content is None:
            raise ResultInvalid(
                f"{self._place} has an output schema, but returned no structured content: give structured_content=, or "
                "leave output_schema= out"
            )
        return encode_value(result.structured_content)

    def _convert_value(self, value: Any) -> CallToolResult:
        content = _convert_content(value) if self._shape is None else None
        if content is not None and self._validator is None:
            return CallToolResult(content=content)
        raw = self._encode(value)
        if content is None:
            content = [TextContent(text=value if isinstance(value, str) else raw.decode())]
        if not self._structured:
            return CallToolResult(content=content)
        wrap = self._shape.wrapped if self._shape else self._validator is None and raw[:1] != b"{"
        return CallToolResult(content=content, structured_content=Raw(b'{"result":' + raw + b"}") if wrap else Raw(raw))

    def _encode(self, value: Any) -> bytes:
        if self._shape is None and isinstance(value, bytes | bytearray | memoryview):
            raise ResultInvalid(
                f"{self._place} returned bytes: say what they are, as in ImageContent.of(data, 'image/png') or "
                "EmbeddedResource(resource=ResourceContents.of(uri, data, mime_type))"
            )
        try:
            return self._shape.encode(value) if self._shape else encode_value(value)
        except (TypeError, ValueError, RecursionError) as error:
            raise ResultInvalid(f"{self._place} returned what has no JSON form: {error}") from error

    def _unfit(self, error: MismatchError) -> ResultInvalid:
        schema = self._shape.schema if self._shape is not None else self._validator.schema if self._validator else {}
        invalid = ResultInvalid(f"{self._place}: its result does not fit the output schema: {error}")
        invalid.mismatch = describe_rule(error.mismatch, schema)
        return invalid


def text_result(text: str) -> CallToolResult:
    """Make a result of plain text."""
    return CallToolResult(content=[TextContent(text=text)])


def content_of(value: Any) -> list[ContentBlock]:
    """Convert a value to content: text becomes text, content stays, anything else becomes its JSON as text."""
    content = _convert_content(value)
    if content:
        return content
    try:
        return [TextContent(text=encode_value(value).decode())]
    except (TypeError, ValueError, RecursionError) as error:
        raise ResultInvalid(f"A tool's result has no JSON form: {error}") from error


def output_shape(annotation: Any, place: str, *, structured: bool | None = None) -> Shape | None:
    """Return the shape that a return annotation promises, or ``None`` if it promises none.

    Text, content and unknown types (``Any``, a bare ``list``, no annotation) promise none, unless ``structured`` is
    set.
    """
    if get_origin(annotation) in (Awaitable, Coroutine):
        annotation = get_args(annotation)[-1]
    if structured is False:
        return None
    if structured and annotation is REQUIRED:
        raise ConfigError(f"{place}: structured=True needs a return annotation")
    members = members_of(annotation)
    if not structured and (
        all(_is_one_of(member, _UNSTRUCTURED) or member in _SEQUENCES for member in members)
        or any(_mentions_content(member) for member in members)
    ):
        return None
    return _find_shape(annotation, f"{place}: return type")


_shared: WeakValueDictionary[tuple[object, str], Shape] = WeakValueDictionary()
"""The shapes in use, by type and its text, which distinguishes types that Python considers equal."""


def _find_shape(annotation: Any, place: str) -> Shape:
    """Return the shape of a type, shared with other functions that return the same type."""
    try:
        hash(annotation)
    except TypeError:
        return Shape(annotation, place=place, mode="serialization")
    key = (annotation, repr(annotation))
    found = _shared.get(key)
    if found is None:
        found = _shared[key] = Shape(annotation, place=place, mode="serialization")
    return found


def _mentions_content(annotation: Any) -> bool:
    """Return whether a type is content, or a list that may contain content."""
    if isinstance(annotation, type) and issubclass(annotation, (Block, UnknownContent, CallToolResult)):
        return True
    if get_origin(annotation) not in _SEQUENCES and get_origin(annotation) is not Annotated:
        return False
    inner = [member for argument in get_args(annotation) for member in members_of(argument)]
    return any(member in (Any, object) or _mentions_content(member) for member in inner)


def _is_one_of(annotation: Any, kinds: set[Any]) -> bool:
    if get_origin(annotation) is Literal:
        return all(isinstance(value, str) for value in get_args(annotation))
    return getattr(annotation, "__hash__", None) is not None and annotation in kinds


def _convert_content(value: Any) -> list[ContentBlock] | None:
    """Return the blocks of content that a value consists of, or ``None`` if it is no content."""
    if isinstance(value, str):
        return [TextContent(text=value)]
    if value is None:
        return []
    if isinstance(value, CONTENT):
        return [value]
    if isinstance(value, list | tuple):
        items = cast("Sequence[Any]", value)
        return [_make_block(item) for item in items] if any(isinstance(item, CONTENT) for item in items) else None
    return None


def _make_block(item: Any) -> ContentBlock:
    if isinstance(item, CONTENT):
        return item
    return TextContent(text=item if isinstance(item, str) else encode_value(item).decode())
