"""Elicitation from a handler: make a form from a type, and a value of that type from the user's answer."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Generic, Literal, cast

import msgspec
from msgspec import Struct

from antiphon.errors import ConfigError, RemoteProtocolError, TooCostly
from antiphon.json_schema.validator import SchemaValidator
from antiphon.machine.other_frameworks import explain_other_names
from antiphon.server.asks.sample import T
from antiphon.server.calls.call import HandlerCall
from antiphon.server.functions.shape import Shape
from antiphon.wire.elicitation import ElicitRequestParams, ElicitResult


@explain_other_names
class Elicited(Struct, Generic[T], frozen=True):
    """What the user did with a question; the type parameter is the type that was asked for."""

    action: Literal["accept", "decline", "cancel"]
    """``accept``, ``decline`` (the user refused) or ``cancel`` (the user closed the question)."""
    value: T | None
    """The values of the form, in the type that was asked for; ``None`` unless it was accepted."""

    @property
    def accepted(self) -> bool:
        """Whether the user agreed."""
        return self.action == "accept"


async def elicit_form(
    call: HandlerCall, message: str, form: object, *, key: str | None, timeout: float | None
) -> Elicited[Any]:
    """Ask the user to fill in a form. See ``Context.elicit``."""
    asked = TypedForm.of(form)
    params = ElicitRequestParams.form(message, asked.schema)
    result = await call.ask("elicitation/create", params, ElicitResult, key=key, timeout=timeout)
    if result.action != "accept":
        return Elicited(result.action, None)
    try:
        return Elicited("accept", await asked.read(result.content or {}))
    except (ValueError, TooCostly) as error:
        raise RemoteProtocolError(f"The client's answer does not fit the form: {error}") from None


async def elicit_visit(
    call: HandlerCall, message: str, url: str, *, key: str | None, timeout: float | None
) -> Elicited[None]:
    """Ask the user to visit an address. See ``Context.elicit_url``."""
    # 2025-11-25 client/elicitation: each visit has a unique elicitationId; revisions without that member leave it
    # out.
    params = ElicitRequestParams.visit(message, url, elicitation_id=os.urandom(16).hex())
    result = await call.ask("elicitation/create", params, ElicitResult, key=key, timeout=timeout)
    return Elicited(result.action, None)


_Schema = dict[str, Any]

_FORMATS = {"email", "uri", "date", "date-time"}
_KEPT = {
    "string": ("minLength", "maxLength", "format"),
    "integer": ("minimum", "maximum"),
    "number": ("minimum", "maximum"),
    "boolean": (),
    "array": ("minItems", "maxItems"),
}
_WORDS = ("title", "description", "default")


class TypedForm(Struct, eq=False):
    """A form (``schema``), and the conversion of its answer (``read``). Make one with ``of``."""

    schema: _Schema
    _shape: Shape | None
    _fallbacks: _Schema
    _validator: SchemaValidator | None = None

    @classmethod
    def of(cls, kind: Any) -> TypedForm:
        """Make a form from a dataclass, Struct, TypedDict or pydantic model, or from the type of one member.

        The type of one member (``bool``, an enum, ``Literal["a", "b"]``, ...) becomes a form with the member
        ``result``. A mapping is used as the JSON Schema of a form, whose answer is a plain ``dict``. Raises
        ``ConfigError``, which names the member, for one that no form can show.
        """
        if isinstance(kind, Mapping):
            return cls(_narrow_schema(dict(cast("Mapping[str, Any]", kind)), "form"), None, {})
        if kind is None or isinstance(kind, list):
            raise ConfigError(
                f"form {kind!r} is no type: write Literal['a', 'b'] for choices, and for no values an empty schema: "
                "{'type': 'object', 'properties': {}}"
            )
        place = f'form "{getattr(kind, "__name__", kind)}"'
        shape = Shape(kind, place=place)
        members: _Schema = shape.schema.get("properties", {})
        required: list[str] = shape.schema.get("required", [])
        fallbacks = {
            name: members[name].get("default")
            for name in required
            if "default" in members[name] or _accepts_null(members[name])
        }
        needed = [name for name in required if name not in fallbacks]
        return cls(_narrow_schema({**shape.schema, "required": needed}, place), shape, fallbacks)

    async def read(self, content: Mapping[str, Any]) -> Any:
        """Convert an answer to the form's type, with defaults for empty members; ``ValueError`` names a misfit."""
        if self._shape is None:
            if self._validator is None:
                self._validator = SchemaValidator(self.schema, place="form")
            await self._validator.check(dict(content))
            return dict(content)
        return self._shape.decode(msgspec.json.encode({**self._fallbacks, **content}))


def _narrow_schema(schema: _Schema, place: str) -> _Schema:
    """Reduce a schema to what a form may contain, or refuse it."""
    found: Any = schema.get("properties")
    if schema.get("type") != "object" or not isinstance(found, dict):
        raise ConfigError(
            f"{place}: a form is an object with named members; give a dataclass, Struct, TypedDict or pydantic model, "
            "a single type such as bool, or a JSON Schema with properties"
        )
    members = cast("dict[str, _Schema]", found)
    required = [name for name in schema.get("required", []) if not _accepts_null(members.get(name, {}))]
    properties = {
        name: _convert_member(member, schema, f'{place}: member "{name}"') for name, member in members.items()
    }
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def _convert_member(member: _Schema, whole: _Schema, place: str) -> _Schema:
    resolved = _resolve_member(member, whole)
    words = {key: resolved[key] for key in _WORDS if resolved.get(key) is not None}
    options = _list_options(resolved)
    if options is not None:
        choice = _make_choice(options, place)
        if "enumNames" in resolved:
            # 2025-11-25 LegacyTitledEnumSchema: kept if the author wrote this older form.
            choice = {
                "enum": [value for value, _ in options],
                "enumNames": [title or value for value, title in options],
            }
        return {"type": "string", **choice, **words}
    kind = resolved.get("type")
    if kind == "array":
        # A tuple has ``false`` here.
        items = _list_options(_resolve_member(resolved.get("items") or {}, whole))
        if items is None:
            raise ConfigError(f"{place} is a list of anything; a form only has lists of choices: list[Literal[...]]")
        chosen = _make_choice(items, place)
        shown = {"anyOf": chosen["oneOf"]} if "oneOf" in chosen else {"type": "string", **chosen}
        return {"type": "array", "items": shown, **_keep_members(resolved, "array"), **words}
    if kind not in _KEPT:
        raise ConfigError(
            f"{place} cannot be shown in a form: it must be text, a number, a bool, a choice (enum or Literal of "
            "strings) or a list of choices; take nested objects apart"
        )
    return {"type": kind, **_keep_members(resolved, kind), **words}


def _resolve_member(member: _Schema, whole: _Schema) -> _Schema:
    """Follow references and leave out null, keeping titles and descriptions beside them."""
    words = {key: member[key] for key in _WORDS if key in member}
    target: str = member.get("$ref", "")
    if target:
        definition: _Schema = whole.get("$defs", {}).get(target.removeprefix("#/$defs/"), {})
        # The title of a definition is the name of a class, which is no label for people.
        return {**{k: v for k, v in _resolve_member(definition, whole).items() if k != "title"}, **words}
    for key in ("anyOf", "oneOf", "allOf"):
        others = [other for other in member.get(key, []) if other.get("type") != "null"]
        if [other.get("type") for other in others] == ["number", "string"]:
            # Pydantic takes a decimal as either; only text keeps its digits.
            del others[0]
        if len(others) == 1:
            return {**_resolve_member(others[0], whole), **words}
    kinds: Any = member.get("type")
    if isinstance(kinds, list):
        kept = [kind for kind in cast("list[Any]", kinds) if kind != "null"]
        return {**member, "type": kept[0]} if len(kept) == 1 else {}
    return member


def _list_options(schema: _Schema) -> list[tuple[Any, str | None]] | None:
    """List the choices of a schema, each with its title if it has one; ``None`` if it is no choice."""
    if "const" in schema:
        return [(schema["const"], None)]
    if "enum" in schema:
        names: list[str | None] = schema.get("enumNames") or [None] * len(schema["enum"])
        return list(zip([value for value in schema["enum"] if value is not None], names, strict=False))
    branches: list[_Schema] = schema.get("oneOf") or schema.get("anyOf") or []
    if branches and all("const" in branch for branch in branches):
        return [(branch["const"], branch.get("title")) for branch in branches]
    return None


def _make_choice(options: list[tuple[Any, str | None]], place: str) -> _Schema:
    if not all(isinstance(value, str) for value, _ in options):
        raise ConfigError(f"{place} is a choice of something other than strings; a form only has choices of strings")
    if any(title for _, title in options):
        return {"oneOf": [{"const": value, "title": title or value} for value, title in options]}
    return {"enum": [value for value, _ in options]}


def _keep_members(schema: _Schema, kind: str) -> _Schema:
    kept = {key: schema[key] for key in _KEPT[kind] if key in schema}
    if kept.get("format") not in _FORMATS:
        kept.pop("format", None)
    if kind == "integer":
        for exclusive, inclusive, step in (("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1)):
            if exclusive in schema:
                kept[inclusive] = schema[exclusive] + step
    return kept


def _accepts_null(member: _Schema) -> bool:
    """Return whether a member may be ``None``, and so may be left empty."""
    kinds = member.get("type")
    if kinds == "null" or (isinstance(kinds, list) and "null" in kinds) or None in member.get("enum", ()):
        return True
    return any(_accepts_null(other) for key in ("anyOf", "oneOf") for other in member.get(key, ()))
