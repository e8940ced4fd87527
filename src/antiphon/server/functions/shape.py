"""A type and its JSON: the schema, decoding and encoding, whichever library the type belongs to.

``arguments`` combines several types for a function; ``elicitation`` reduces one to a form.

Owns all contact with pydantic, which is imported only if the author's annotations use it. A type that contains one of
pydantic's anywhere is passed to it as a whole, so that its unions, aliases and validators behave as pydantic documents.
Validation is strict in JSON mode: a number is no string, but a string can be a date.
"""

from __future__ import annotations

import enum
import os
import sys
import typing
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from contextlib import suppress
from copy import copy
from functools import lru_cache, partial
from itertools import count
from typing import Annotated, Any, Literal, cast, get_args, get_origin

import msgspec
from msgspec import Raw

from antiphon.errors import ConfigError
from antiphon.json_schema.effort import walk_objects
from antiphon.json_schema.validator import MismatchError, describe_mismatch, prefix_place
from antiphon.server.functions.schema_gaps import fill_gaps, remove_unfit_defaults, walk_types
from antiphon.server.functions.signature import REQUIRED, Parameter, add_null, read_docstring
from antiphon.wire.envelope import to_plain, without_halves

_MARKS = ("__get_pydantic_core_schema__", "__pydantic_core_schema__", "__pydantic_validator__")
_PACKAGES = {"pydantic", "pydantic_core", "annotated_types"}


class Adapter:
    """A type in pydantic's view: JSON Schema, decoding and encoding."""

    __slots__ = ("_by_alias", "_schema", "_serializer", "_validator")

    def __init__(self, annotation: Any) -> None:
        from pydantic import TypeAdapter

        from antiphon.server.functions.pydantic_schema import compile_schema, with_base64, with_bounds

        adapter: TypeAdapter[Any] = TypeAdapter(with_bounds(annotation))
        self._by_alias = all(map(_writes_aliases, walk_types([annotation])))
        self._schema: Any = with_base64(adapter.core_schema)
        self._validator, self._serializer = adapter.validator, adapter.serializer
        if self._schema is not adapter.core_schema:
            self._validator, self._serializer = compile_schema(self._schema)

    def schema(self, mode: Literal["validation", "serialization"]) -> dict[str, Any]:
        """Return the JSON Schema, with its definitions under ``$defs``."""
        from antiphon.server.functions.pydantic_schema import JsonSchemas

        by_alias = self._by_alias or mode == "validation"
        return JsonSchemas(by_alias=by_alias, ref_template="#/$defs/{model}").generate(self._schema, mode=mode)

    def decode(self, raw: bytes | msgspec.Raw) -> Any:
        """Decode JSON. Raises ``MismatchError``."""
        return decode_with(lambda data: self._validator.validate_json(bytes(data), strict=True), raw)

    def from_text(self, value: Any) -> Any:
        """Convert a value that can only be given as text (or a list of texts). Raises ``MismatchError``."""
        try:
            return self._validator.validate_strings(value)
        except ValueError as error:
            if isinstance(value, str):
                try:
                    # Members of an enum may be numbers.
                    return self.decode(value.encode())
                except MismatchError:
                    if value.lstrip()[:1] in ("{", "["):
                        raise
            raise MismatchError(describe_mismatch(error)) from None

    def encode(self, value: Any) -> bytes:
        """Encode as JSON, with the names of the schema. A value of another type is encoded as what it is."""
        return _encode_with(self._serializer, value, by_alias=self._by_alias)


def _writes_aliases(kind: Any) -> bool:
    """Return whether results have a model's aliases, as they do unless its configuration says otherwise."""
    return not hasattr(kind, "__pydantic_fields__") or getattr(kind, "model_config", {}).get("serialize_by_alias", True)


def _encode_with(serializer: Any, value: Any, *, by_alias: bool) -> bytes:
    raw: bytes = serializer.to_json(value, by_alias=by_alias, warnings=False)
    if b"NaN" in raw or b"Infinity" in raw:
        # A model may ask for these constants (``ser_json_inf_nan``), which are no JSON.
        msgspec.json.decode(raw)
    return raw


@lru_cache
def _serializer_of(kind: Any) -> Any:
    from antiphon.server.functions.pydantic_schema import compile_schema, with_base64

    # Types of pydantic's own, such as AnyUrl, have a serializer alone.
    own = getattr(kind, "__pydantic_core_schema__", None)
    schema = own and with_base64(own)
    return kind.__pydantic_serializer__ if schema is own else compile_schema(schema)[1]


def is_pydantic(annotation: Any) -> bool:
    """Return whether pydantic must handle a type, because the type, a part of it or its metadata is pydantic's."""
    marks = _MARKS if any(package in sys.modules for package in _PACKAGES) else ()
    return any(
        any(hasattr(part, mark) for mark in marks) or type(part).__module__.partition(".")[0] in _PACKAGES
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
    if default is None:
        annotation = add_null(annotation)
    return Parameter(name=parameter.name, annotation=annotation, default=default, factory=factory, alias=alias)


def _without_alias(field: Any) -> Any:
    nameless = copy(field)
    nameless.alias = nameless.validation_alias = nameless.serialization_alias = None
    return nameless


def describe_members(definitions: Mapping[str, dict[str, Any]], annotations: Iterable[Any]) -> None:
    """Add descriptions to members of these definitions that have none, from the classes they were made from."""
    for kind in walk_types(annotations):
        if not isinstance(kind, type) or get_args(kind) or not hasattr(kind, "__annotations__"):
            continue
        definition = _find_definition(definitions, kind)
        said = _read_member_texts(kind) if definition is not None else {}
        for name, member in (definition or {}).get("properties", {}).items():
            if name in said:
                member.setdefault("description", said[name])
        docs = read_docstring(kind.__doc__)
        if definition is not None and docs.arguments and "description" in definition:
            # The parts about members are in the members' own descriptions.
            definition["description"] = docs.description or kind.__name__


def words_of(metadata: Iterable[Any]) -> str | None:
    """Return the text in the metadata of ``Annotated[T, "text"]`` or ``Annotated[T, Doc("text")]`` (PEP 727)."""
    for item in metadata:
        text = item if isinstance(item, str) else getattr(item, "documentation", None)
        if isinstance(text, str):
            return text
    return None


def _find_definition(definitions: Mapping[str, dict[str, Any]], kind: type) -> dict[str, Any] | None:
    """Return the definition of a class: by its name, or by its qualified name if another class has the same name."""
    whole = f"{kind.__module__}.{kind.__qualname__}"
    names = (kind.__name__, whole, whole.replace(".", "_").replace("<", "_").replace(">", "_"))
    found = [definitions[name] for name in names if name in definitions]
    return found[0] if len(found) == 1 and found[0].get("title") == kind.__name__ else None


def _read_member_texts(kind: type) -> dict[str, str]:
    """Return the text for each member by its name on the wire; text beside the type wins over the docstring."""
    try:
        hints = typing.get_type_hints(kind, include_extras=True)
    except Exception:
        # msgspec has resolved them before, or reports the error itself.
        return {}
    wire: Mapping[str, str] = {}
    if issubclass(kind, msgspec.Struct):
        wire = {field.name: field.encode_name for field in msgspec.structs.fields(kind)}
    said = {wire.get(name, name): text for name, text in read_docstring(kind.__doc__).arguments.items()}
    for name, hint in hints.items():
        text = words_of(get_args(hint)[1:]) if get_origin(hint) is Annotated else None
        if text is not None:
            said[wire.get(name, name)] = text
    return said


def restore_order(schemas: Iterable[dict[str, Any]], annotations: Iterable[Any]) -> None:
    """Restore the order of every ``enum`` in these schemas, from the types that the schemas were made from."""
    limited = [node for schema in schemas for node in walk_objects(schema) if isinstance(node.get("enum"), list)]
    if not limited:
        return
    orders = {frozenset(map(repr, values)): values for values in _list_declared(annotations)}
    for node in limited:
        # Null, which a union may have added, stays last.
        values = [value for value in node["enum"] if value is not None]
        nulls = [None] * (len(node["enum"]) - len(values))
        node["enum"] = [*orders.get(frozenset(map(repr, values)), values), *nulls]


def _list_declared(annotations: Iterable[Any]) -> Iterator[list[Any]]:
    """List the values of every enum and ``Literal`` that a type is made of, in their order."""
    for annotation in walk_types(annotations):
        if get_origin(annotation) is Literal:
            yield [value for value in get_args(annotation) if value is not None]
        elif isinstance(annotation, enum.EnumType):
            yield [member.value for member in cast("Iterable[enum.Enum]", annotation)]


Schema = dict[str, Any]
Mode = Literal["validation", "serialization"]


class Shape:
    """One type: ``schema`` (JSON Schema 2020-12, self-contained, always an object at the top), ``decode``, ``encode``.

    A type that is no JSON object is wrapped in an object with the member ``result`` (``wrapped``), because results and
    output schemas must be objects up to 2025-11-25.

    Raises ``ConfigError``, which begins with ``place``, for a type without a JSON form.
    """

    __slots__ = ("__weakref__", "_adapter", "_decode", "annotation", "checks_results", "schema", "wrapped")

    def __init__(self, annotation: Any, *, place: str, mode: Mode = "validation") -> None:
        self.annotation = with_text_metadata(annotation)
        kind = adapt_type(self.annotation, place)
        (inner,), definitions = schemas_of([(place, kind)], mode=mode)
        top = _inline_reference(inner, definitions)
        self.wrapped = top.get("type") != "object"
        wrapper: Schema = {"type": "object", "properties": {"result": inner}, "required": ["result"]}
        self.schema: Schema = {**wrapper, **({"$defs": definitions} if definitions else {})} if self.wrapped else top
        remove_unfit_defaults(self.schema)
        self._adapter = kind if isinstance(kind, Adapter) else None
        self._decode: Callable[[bytes | Raw], Any] = (
            self._adapter.decode
            if self._adapter
            else partial(decode_with, msgspec.json.Decoder(self.annotation).decode)
        )

        self.checks_results = self._adapter is None and not any(map(_reads_more, walk_types([self.annotation])))
        """Whether ``decode`` holds a result to the schema, and does nothing else.

        It does not for pydantic's types, whose readers and writers may differ.
        """

    def decode(self, raw: bytes | Raw) -> Any:
        """Decode JSON that fits the schema, wrapped or not. Raises ``MismatchError``."""
        if not self.wrapped:
            return self._decode(raw)
        inner = decode_with(_decode_wrapped, raw).result
        try:
            return self._decode(inner)
        except MismatchError as error:
            raise MismatchError(prefix_place("result", error.mismatch)) from None

    def encode(self, value: Any) -> bytes:
        """Encode a value of this type, not wrapped. Raises ``TypeError`` if it has no JSON form."""
        try:
            return self._adapter.encode(value) if self._adapter else encode_value(value)
        except ValueError:
            # A value of another type is written as what it is, so that a check by the schema can name its place.
            return encode_value(value)


def _reads_more(kind: Any) -> bool:
    """Return whether a type is read from more than its schema says, or runs the author's code.

    Flags are read from combinations, and keys that are numbers from ``nan`` and ``inf``.
    """
    origin: Any = get_origin(kind)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return float in walk_types(get_args(kind)[:1])
    return hasattr(kind, "__post_init__") or (isinstance(kind, type) and issubclass(kind, enum.Flag))


def decode_with(decode: Callable[[bytes | Raw], Any], raw: bytes | Raw) -> Any:
    """Decode JSON, accepting whole numbers written as ``1.0`` for integers. Raises ``MismatchError``."""
    try:
        return decode(raw)
    except (msgspec.DecodeError, ValueError) as error:
        mismatch = describe_mismatch(error)
    if "number" in mismatch.problem or "integer" in mismatch.problem:
        # JSON Schema 2020-12, validation 6.1.1: "any number with a zero fractional part" is an integer. What follows
        # the number may be no JSON.
        with suppress(msgspec.DecodeError, ValueError):
            return decode(msgspec.json.encode(_read_whole_numbers(raw)))
    raise MismatchError(mismatch)


def _read_number(text: str) -> int | Raw:
    """Read a number that is not written as an integer, as one if it is whole; another one keeps all its digits."""
    value = float(text)
    return int(value) if value.is_integer() else Raw(text.encode())


_read_whole_numbers = msgspec.json.Decoder(float_hook=_read_number).decode


def schemas_of(typed: list[tuple[str, Any]], *, mode: Mode) -> tuple[list[Schema], Schema]:
    """Return the schemas of types that ``adapt_type`` has seen, and the definitions they share.

    A place begins the error for its type.
    """
    kinds = [kind for _, kind in typed]
    native = [kind for kind in kinds if not isinstance(kind, Adapter)]
    try:
        found, definitions = _make_components(native, mode)
    except Exception:
        # Name the type that has no schema.
        for place, kind in typed:
            try:
                _make_components([] if isinstance(kind, Adapter) else [kind], mode)
            except Exception as error:
                raise ConfigError(f"{place}: {_describe_reason(error)}") from None
        raise
    restore_order([*found, *definitions.values()], native)
    describe_members(definitions, native)
    written = iter(found)
    schemas = [
        _merge_definitions(_foreign_schema(kind, place, mode), definitions)
        if isinstance(kind, Adapter)
        else next(written)
        for kind, (place, _) in zip(kinds, typed, strict=True)
    ]
    return schemas, definitions


def adapt_type(annotation: Any, place: str) -> Any:
    """Return the ``Adapter`` of a type of pydantic's, or that only pydantic can read; any other type unchanged."""
    if isinstance(annotation, Adapter):
        return annotation
    is_foreign = is_pydantic(annotation)
    if not is_foreign:
        obstacle = find_obstacle(annotation)
        # What we refuse ourselves, pydantic shall not read either.
        is_refused = isinstance(obstacle, ConfigError | NameError) or any(map(_is_misread, walk_types([annotation])))
        if obstacle is None or is_refused:
            return annotation
    try:
        return Adapter(annotation)
    except Exception as error:
        if not is_foreign:
            # msgspec is going to say why; pydantic may not even be there.
            return annotation
        raise ConfigError(f"{place}: pydantic cannot use its type: {str(error).splitlines()[0]}") from None


def _is_misread(kind: Any) -> bool:
    """Return whether pydantic has a schema for a type, but reads no value of it, or not before the handler does."""
    if isinstance(kind, enum.EnumType):
        values = [member.value for member in cast("Iterable[enum.Enum]", kind)]
        return not values or not all(isinstance(value, str | int | float) for value in values)
    return (get_origin(kind) or kind) in (type, Iterable, Iterator, Generator)


def find_obstacle(annotation: Any) -> Exception | None:
    """Return why a type cannot be read by msgspec, or is refused by us; ``None`` if nothing is in the way."""
    try:
        _make_components([annotation], "validation")
        msgspec.json.Decoder(annotation)
    except Exception as error:
        return error
    return None


def encode_value(value: Any) -> bytes:
    """Encode any value as JSON, including pydantic models. Raises ``TypeError`` if it has no JSON form."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return _encode(without_halves(value, _encode_foreign))


def with_text_metadata(annotation: Any) -> Any:
    """Convert ``Annotated[T, "text"]`` and ``Annotated[T, Doc("text")]`` (PEP 727) to a description."""
    if get_origin(annotation) is not Annotated:
        return annotation
    inner, *metadata = get_args(annotation)
    text = words_of(metadata)
    if text is None:
        return annotation
    kept = [other for other in metadata if not isinstance(other, str) and words_of([other]) is None]
    return Annotated[inner, *kept, msgspec.Meta(description=text)]


def _encode_foreign(value: Any) -> Any:
    """Encode types that msgspec does not know: wire content, pydantic models, paths, rows and other collections."""
    original: Any = getattr(value, "__wire__", None)
    if original is not None:
        return original
    if hasattr(value, "__pydantic_serializer__"):
        return Raw(_encode_with(_serializer_of(value.__class__), value, by_alias=_writes_aliases(value.__class__)))
    if hasattr(value, "__await__"):
        raise TypeError(f"{type(value).__name__} was not awaited: an `await` is missing")
    is_path = isinstance(value, os.PathLike)
    plain = os.fspath(cast("os.PathLike[str]", value)) if is_path else to_plain(value)
    if plain is not None:
        return plain
    if type(value).__module__ == "ipaddress":
        return str(value)
    if hasattr(value.__class__, "keys"):
        return dict(value)
    if isinstance(value, Collection):
        return list(cast("Collection[Any]", value))
    raise TypeError(f"{type(value).__name__} has no JSON form")


_encode = msgspec.json.Encoder(enc_hook=_encode_foreign).encode


def _foreign_schema(adapter: Adapter, place: str, mode: Mode) -> Schema:
    try:
        return adapter.schema(mode)
    except Exception as error:
        raise ConfigError(f"{place}: its type has no JSON Schema: {str(error).splitlines()[0]}") from None


def _make_components(annotations: list[Any], mode: Mode) -> tuple[tuple[Schema, ...], Schema]:
    found = msgspec.json.schema_components(annotations, schema_hook=_any_object, ref_template="#/$defs/{name}")
    fill_gaps(*found, annotations, results=mode == "serialization")
    return found


def _any_object(kind: type) -> Schema:
    """Treat ``object`` as any JSON value, as strict type checkers do."""
    if kind is object:
        # An empty schema would mean the same, but msgspec takes it for "no schema".
        return {"type": ["object", "array", "string", "number", "boolean", "null"]}
    # msgspec expects this from a hook that has no schema for a type.
    raise NotImplementedError


def _describe_reason(error: Exception) -> str:
    """Return msgspec's reason for refusing a type, without its advice, which does not apply here."""
    if isinstance(error, NameError):
        return f"its type names something unknown: {error}; define it at the top of the module"
    if isinstance(error, ConfigError):
        return str(error)
    lines = [line for line in str(error).splitlines() if line]
    said = lines[-1] if lines else type(error).__name__
    if said.startswith("Type unions may not contain more than one"):
        return f"{said}; tell structs apart by a tag (msgspec.Struct, tag=True), or use types of pydantic's"
    more = "" if "pydantic" in sys.modules else ", or install pydantic, which reads more types"
    return f"{said}; use a type that has a JSON form{more}"


def _merge_definitions(schema: Schema, definitions: Schema) -> Schema:
    """Add the definitions of one schema to the others. Unless all that share a name are equal, they are renamed."""
    own: Schema = schema.pop("$defs", {})
    names = {name: name for name in own}
    if any(definitions.get(name, body) != body for name, body in own.items()):
        # One that looks the same may refer to another one.
        for name in (name for name in own if name in definitions):
            taken = {*definitions, *own, *names.values()}
            names[name] = next(free for number in count(2) if (free := f"{name}{number}") not in taken)
    for name, body in own.items():
        definitions[names[name]] = _rename_references(body, names)
    return _rename_references(schema, names)


def _rename_references(node: Any, names: Mapping[str, str]) -> Any:
    if isinstance(node, dict):
        renamed: Schema = {key: _rename_references(value, names) for key, value in cast("Schema", node).items()}
        target = renamed.get("$ref")
        if isinstance(target, str):
            name = target.removeprefix("#/$defs/")
            renamed["$ref"] = f"#/$defs/{names.get(name, name)}"
        return renamed
    return [_rename_references(item, names) for item in cast("list[Any]", node)] if isinstance(node, list) else node


def _inline_reference(schema: Schema, definitions: Schema) -> Schema:
    """Replace a reference by the definition it points to; other definitions stay under ``$defs``."""
    target: str = schema.get("$ref", "")
    name = target.removeprefix("#/$defs/")
    if not target:
        return {**schema, **({"$defs": definitions} if definitions else {})}
    top: Schema = {**definitions[name], **{key: value for key, value in schema.items() if key != "$ref"}}
    rest = {key: value for key, value in definitions.items() if key != name}
    if f'"{target}"'.encode() in msgspec.json.encode([top, rest]):
        rest = definitions
    return {**top, **({"$defs": rest} if rest else {})}


_MAX_INLINED = 256
"""References that are replaced in one schema, since what replaces one may hold many others; further ones stay."""
_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean"}
_WORDS = frozenset({"description", "title", "default", "examples", "deprecated"})
"""Keywords that replace those of a definition when they stand beside a reference to it."""


def simplify_schema(schema: Schema) -> Schema:
    """Return a schema in the words that hosts and their models read: with types of choices, and without references.

    Many hosts read no ``$ref``, so that their models do not know the arguments of a tool. References within what they
    refer to stay, and so do those beside a bound. Gemini refuses all tools for one choice without a type.
    """
    definitions: Schema = schema.get("$defs", {})
    count, has_rest = 0, False

    def inline(node: Any, around: tuple[str, ...]) -> Any:
        nonlocal count, has_rest
        if isinstance(node, list):
            return [inline(item, around) for item in cast("list[Any]", node)]
        if not isinstance(node, dict):
            return node
        members = cast("Schema", node)
        target = members.get("$ref")
        if isinstance(target, str):
            name = target.removeprefix("#/$defs/")
            beside = {key: value for key, value in members.items() if key != "$ref"}
            if name in around or name not in definitions or count == _MAX_INLINED or not beside.keys() <= _WORDS:
                has_rest = True
                return members
            count += 1
            members, around = {**definitions[name], **beside}, (*around, name)
        members = _with_type(members)
        # A discriminator names definitions, and repeats what the choices say of themselves.
        named: object = members.get("discriminator")
        left = {"discriminator"} if isinstance(named, dict) and "propertyName" in named else set[str]()
        return {key: inline(value, around) for key, value in members.items() if key not in left}

    whole = inline({key: value for key, value in schema.items() if key != "$defs"}, ())
    return {**whole, "$defs": definitions} if has_rest else whole


def _with_type(members: Schema) -> Schema:
    choices: Any = members.get("enum")
    if "type" in members or not isinstance(choices, list):
        return members
    kinds = {value.__class__ for value in cast("list[Any]", choices)}
    name = _TYPES.get(kinds.pop()) if len(kinds) == 1 else None
    return members if name is None else {"type": name, **members}


class _Wrapped(msgspec.Struct):
    result: Raw


_decode_wrapped = msgspec.json.Decoder(_Wrapped).decode
