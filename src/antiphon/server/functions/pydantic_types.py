"""Types that pydantic handles: models, and any type with pydantic's metadata in it.

Owns all contact with pydantic, which is imported only if the author's annotations use it. A type that contains such a
type anywhere is passed to pydantic as a whole, so that its unions, aliases and validators behave as pydantic documents.
Validation is strict in JSON mode: a number is no string, but a string can be a date.
"""

from __future__ import annotations

import sys
from copy import copy
from functools import lru_cache, partial
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec

from antiphon.json_schema.validator import MismatchError, describe_mismatch
from antiphon.server.functions.schema_gaps import walk_types
from antiphon.server.functions.signature import REQUIRED, Parameter

_MARKS = ("__get_pydantic_core_schema__", "__pydantic_core_schema__", "__pydantic_validator__")
_PACKAGES = {"pydantic", "pydantic_core", "annotated_types"}


class Adapter:
    """A type in pydantic's view: JSON Schema, decoding and encoding."""

    __slots__ = ("_schema", "_serializer", "_validator")

    def __init__(self, annotation: Any) -> None:
        from pydantic import TypeAdapter

        from antiphon.server.functions.pydantic_schema import compile_schema, with_base64, with_bounds

        adapter: TypeAdapter[Any] = TypeAdapter(with_bounds(annotation))
        self._schema: Any = with_base64(adapter.core_schema)
        self._validator, self._serializer = adapter.validator, adapter.serializer
        if self._schema is not adapter.core_schema:
            self._validator, self._serializer = compile_schema(self._schema)

    def schema(self, mode: Literal["validation", "serialization"]) -> dict[str, Any]:
        """Return the JSON Schema, with its definitions under ``$defs``."""
        from antiphon.server.functions.pydantic_schema import JsonSchemas

        return JsonSchemas(ref_template="#/$defs/{model}").generate(self._schema, mode=mode)

    def decode(self, raw: bytes | msgspec.Raw) -> Any:
        """Decode JSON. Raises ``MismatchError``."""
        try:
            return self._validator.validate_json(bytes(raw), strict=True)
        except ValueError as error:
            raise MismatchError(describe_mismatch(error)) from None

    def from_text(self, value: Any) -> Any:
        """Convert a value that can only be given as text (or a list of texts). Raises ``MismatchError``."""
        try:
            return self._validator.validate_strings(value)
        except ValueError as error:
            if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
                return self.decode(value.encode())
            raise MismatchError(describe_mismatch(error)) from None

    def encode(self, value: Any) -> bytes:
        """Encode as JSON, with the names of the schema. A value of another type is encoded as what it is."""
        return _encode_with(self._serializer, value)


def encode_model(model: Any) -> bytes:
    """Encode a pydantic model as JSON."""
    return _encode_with(_serializer_of(model.__class__), model)


def _encode_with(serializer: Any, value: Any) -> bytes:
    raw: bytes = serializer.to_json(value, by_alias=True, warnings=False)
    if b"NaN" in raw or b"Infinity" in raw:
        # A model may ask for these constants (``ser_json_inf_nan``), which are no JSON.
        msgspec.json.decode(raw)
    return raw


@lru_cache
def _serializer_of(kind: Any) -> Any:
    from antiphon.server.functions.pydantic_schema import compile_schema, with_base64

    own = kind.__pydantic_core_schema__
    schema = with_base64(own)
    return kind.__pydantic_serializer__ if schema is own else compile_schema(schema)[1]


def is_pydantic(annotation: Any) -> bool:
    """Return whether pydantic must handle a type, because the type, a part of it or its metadata is pydantic's."""
    if not any(package in sys.modules for package in _PACKAGES):
        return False
    return any(
        any(hasattr(part, mark) for mark in _MARKS) or type(part).__module__.partition(".")[0] in _PACKAGES
        for part in walk_types([annotation])
    )


def read_field(parameter: Parameter) -> Parameter:
    """Read type, default and wire name of ``x: int = Field(3, ge=0)``; ``TypeError`` if it can be no argument."""
    if "pydantic" not in sys.modules:
        return parameter
    from pydantic.fields import FieldInfo

    annotation, default, factory = parameter.annotation, parameter.default, None
    if isinstance(default, FieldInfo):
        annotation, default = Annotated[annotation, default], REQUIRED
    kind, *metadata = get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)
    fields = [item for item in metadata if isinstance(item, FieldInfo)]
    aliases: list[Any] = [alias for field in fields if (alias := field.validation_alias or field.alias)]
    if not all(isinstance(alias, str) for alias in aliases):
        raise TypeError("an argument has one name; give Field(alias=...) a single text")
    if aliases:
        # Outside of a model pydantic has no use for an alias, and warns of it.
        annotation = Annotated[kind, *(_without_alias(item) if item in fields else item for item in metadata)]
    giving = next((field for field in reversed(fields) if not field.is_required()), None)
    if giving is not None and default is REQUIRED:
        if giving.default_factory_takes_validated_data:
            raise TypeError("its default_factory takes other values; give one that takes none")
        factory = partial(giving.get_default, call_default_factory=True)
        default = REQUIRED if giving.default_factory else giving.default
    alias = aliases[-1] if aliases else None
    return Parameter(name=parameter.name, annotation=annotation, default=default, factory=factory, alias=alias)


def _without_alias(field: Any) -> Any:
    nameless = copy(field)
    nameless.alias = nameless.validation_alias = nameless.serialization_alias = None
    return nameless
