"""From the JSON of a call to the keyword arguments of a function.

Owns decoding and its errors. One decode by msgspec turns the JSON object into typed values; arguments whose type is
pydantic's are left as bytes by it and read by pydantic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw, structs

from antiphon.errors import InvalidParams
from antiphon.json_schema.mismatch import Mismatch, MismatchError, describe, suggest, within
from antiphon.server.functions.pydantic_types import Adapter, field_default
from antiphon.server.functions.schema import choices, input_schema
from antiphon.server.functions.shape import adapted, decode_with, with_text_metadata
from antiphon.server.functions.signature import REQUIRED, Parameter

__all__ = ["ArgumentError", "Arguments"]

_as_dict = structs.asdict


class ArgumentError(InvalidParams):
    """The arguments of a call do not fit; the message names the argument.

    ``argument`` is the place: ``count``, ``items[2].price``, or empty for the arguments as a whole.
    """

    def __init__(self, message: str, *, argument: str = "") -> None:
        super().__init__(message)
        self.argument = argument


class Arguments:
    """The arguments of one function: their ``schema`` and how to read them.

    Raises ``ConfigError``, which begins with ``place`` and names the parameter, for types that have no JSON form.
    """

    __slots__ = ("_decode", "_foreign", "names", "parameters", "place", "schema")

    def __init__(self, parameters: Sequence[Parameter], place: str) -> None:
        self.place = place
        self.parameters = tuple(_normal(parameter, place) for parameter in parameters)
        self.names = tuple(parameter.name for parameter in self.parameters)
        self.schema = input_schema(self.parameters, place)
        self._foreign = {p.name: p.annotation for p in self.parameters if isinstance(p.annotation, Adapter)}
        fields = [(p.name, Raw if p.name in self._foreign else p.annotation, _field(p)) for p in self.parameters]
        # Of a class that is named so, Python mangles no name: a parameter may begin with two underscores.
        struct = msgspec.defstruct("_", fields, kw_only=True, forbid_unknown_fields=True, gc=False)
        self._decode = msgspec.json.Decoder(struct)

    @property
    def required(self) -> tuple[str, ...]:
        """Names of the arguments that every call must give."""
        return tuple(parameter.name for parameter in self.parameters if parameter.required)

    def decode(self, raw: bytes | Raw) -> dict[str, Any]:
        """Turn the JSON object of a call into keyword arguments, defaults included. Nothing at all is no arguments.

        Raises ``ArgumentError``. A number is never taken for a string, nor a string for a number.
        """
        raw = raw or b"{}"
        try:
            values = _as_dict(self._decode.decode(raw))
        except (msgspec.DecodeError, UnicodeDecodeError):
            values = self._decode_again(raw)
        if self._foreign:
            self._read_foreign(values)
        return values

    def from_text(self, texts: Mapping[str, str | list[str]]) -> dict[str, Any]:
        """Turn arguments that could only be given as text (prompts, URIs) into keyword arguments.

        ``"3"`` is an ``int`` where one is wanted; what is neither text nor a scalar is read as JSON.
        Raises ``ArgumentError``.
        """
        for name in texts:
            if name not in self.names:
                raise self._error(Mismatch(name, "", "unknown"))
        values: dict[str, Any] = {}
        for parameter in self.parameters:
            if parameter.name in texts:
                values[parameter.name] = self._from_text(parameter, texts[parameter.name])
            elif parameter.required:
                raise self._error(Mismatch(parameter.name, "", "missing"))
        return values

    def _from_text(self, parameter: Parameter, text: str | list[str]) -> Any:
        try:
            adapter = self._foreign.get(parameter.name)
            return adapter.from_text(text) if adapter else _lenient(text, parameter.annotation)
        except (MismatchError, msgspec.ValidationError) as error:
            raise self._error(within(parameter.name, describe(error))) from None

    def _decode_again(self, raw: bytes | Raw) -> dict[str, Any]:
        """Find out why the first try failed; it may have been a whole number written as ``1.0``, or ``null``."""
        try:
            return _as_dict(decode_with(self._decode, b"{}" if bytes(raw).strip() == b"null" else raw))
        except MismatchError as error:
            raise self._error(error.mismatch) from None

    def _read_foreign(self, values: dict[str, Any]) -> None:
        for name, adapter in self._foreign.items():
            if isinstance(values[name], Raw):
                try:
                    values[name] = adapter.decode(values[name])
                except MismatchError as error:
                    raise self._error(within(name, error.mismatch)) from None

    def _error(self, mismatch: Mismatch) -> ArgumentError:
        place, problem, kind = mismatch
        if kind == "unknown":
            problem = suggest(place, self.names)
        elif kind == "invalid" and place in self.names:
            allowed = choices(self.schema, place)
            if allowed and "nvalid" in problem:
                problem += ", expected one of " + ", ".join(msgspec.json.encode(one).decode() for one in allowed[:20])
        elif kind == "invalid" and not place:
            return ArgumentError(f"arguments: {problem}")
        return ArgumentError(Mismatch(place, problem, kind).sentence("argument"), argument=place)


def _normal(parameter: Parameter, place: str) -> Parameter:
    """Resolve text metadata and pydantic's ways to give a default; a type that is pydantic's becomes an ``Adapter``."""
    annotation, default = field_default(parameter.annotation, parameter.default, REQUIRED)
    kind = adapted(with_text_metadata(annotation), f'{place}: parameter "{parameter.name}"')
    return Parameter(name=parameter.name, annotation=kind, default=default)


def _field(parameter: Parameter) -> Any:
    if parameter.required:
        return msgspec.field()
    if isinstance(parameter.default, list | dict | set | bytearray):
        # As in a call of the function itself, every call without the argument gets the same object.
        return msgspec.field(default_factory=lambda: parameter.default)
    return msgspec.field(default=parameter.default)


def _lenient(text: str | list[str], annotation: Any) -> Any:
    try:
        return msgspec.convert(text, annotation, strict=False)
    except msgspec.ValidationError:
        if not isinstance(text, str):
            raise
        try:
            document = msgspec.json.decode(text)
        except msgspec.DecodeError:
            document = text
        if isinstance(document, list | dict):
            return msgspec.convert(document, annotation)
        raise
