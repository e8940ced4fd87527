"""Types that are pydantic's, and that it is not loaded for others."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, NewType

import msgspec
import pydantic
import pytest
from typing_extensions import TypeAliasType, TypedDict

from antiphon.json_schema.validator import MismatchError
from antiphon.server.functions.shape import Adapter, adapt_type, encode_value, read_field
from antiphon.server.functions.signature import REQUIRED, Parameter

JsonValue = TypeAliasType("JsonValue", "bool | int | str | list[JsonValue] | dict[str, JsonValue] | None")


class Model(pydantic.BaseModel):
    x: int
    when: dt.date | None = None
    called: str = pydantic.Field("a", alias="calledBy")
    inner: list[Model] = []


@dataclass
class Holder:
    model: Model


class Typed(TypedDict):
    model: Model


class Named(NamedTuple):
    model: Model


class Plain(msgspec.Struct):
    x: int
    more: list[Plain] = []


@pytest.mark.parametrize(
    "annotation",
    [
        Model,
        list[Model],
        Model | None,
        dict[str, list[Model | None]],
        Holder,
        Typed,
        Named,
        NewType("New", Model),
        pydantic.HttpUrl,
        Annotated[int, pydantic.Field(ge=1)],
        list[Annotated[int, pydantic.Field(ge=1)]],
        JsonValue,
        dict[str, JsonValue],
        TypeAliasType("Backport", list[int]),
    ],
)
def test_what_has_pydantic_in_it_is_pydantics(annotation):
    """Wherever it occurs; so are aliases that msgspec cannot read."""
    assert isinstance(adapt_type(annotation, "x"), Adapter)


@pytest.mark.parametrize(
    "annotation", [int, list[int], Plain, Annotated[int, msgspec.Meta(ge=1)], Literal["a"], Any, None, dict[str, Plain]]
)
def test_other_types_are_not(annotation):
    """They are left to msgspec."""
    assert adapt_type(annotation, "x") is annotation


def test_reading_is_strict():
    """Text is no number; but a date is text in JSON."""
    adapter = Adapter(Model)
    assert adapter.decode(b'{"x": 1, "when": "2026-01-02"}').when == dt.date(2026, 1, 2)
    with pytest.raises(MismatchError, match='"x": input should be a valid integer'):
        adapter.decode(b'{"x": "1"}')


def test_reading_takes_undecoded_json():
    """As it stands in the arguments of a call."""
    assert Adapter(Model).decode(msgspec.Raw(b'{"x": 1}')).x == 1


def test_writing_uses_the_names_of_the_schema():
    """Aliases, that is."""
    assert Adapter(Model).encode(Model(x=1)) == b'{"x":1,"when":null,"calledBy":"a","inner":[]}'


class OwnNames(pydantic.BaseModel, serialize_by_alias=False):
    real: str = pydantic.Field(alias="alias")


@pytest.mark.parametrize("annotation", [OwnNames, list[OwnNames], OwnNames | None])
def test_a_model_that_is_not_written_by_alias_has_its_own_names(annotation):
    """The schema of results has them too; arguments are given by alias, as pydantic reads them."""
    adapter, value = Adapter(annotation), OwnNames(alias="a")
    assert b'{"real":"a"}' in adapter.encode([value] if annotation == list[OwnNames] else value)
    assert "alias" not in str(adapter.schema("serialization"))
    assert "'required': ['alias']" in str(adapter.schema("validation"))
    assert encode_value({"inside": value, "other": Model(x=1)}).startswith(b'{"inside":{"real":"a"},"other":{"x":1,')


@pytest.mark.parametrize(("annotation", "text", "value"), [(int, "3", 3), (bool, "true", True), (Model, '{"x": 1}', 1)])
def test_text_is_read_leniently(annotation, text, value):
    """A prompt's arguments can only be text."""
    found = Adapter(annotation).from_text(text)
    assert getattr(found, "x", found) == value


def test_text_that_does_not_fit_is_refused():
    """As JSON would be."""
    with pytest.raises(MismatchError, match="valid integer"):
        Adapter(int).from_text("x")


def field_of(annotation, default) -> Parameter:
    """Read a parameter of this type and default."""
    return read_field(Parameter(name="x", annotation=annotation, default=default))


@pytest.mark.parametrize(
    ("annotation", "default", "expected"),
    [
        (int, pydantic.Field(3, ge=1), 3),
        (int, pydantic.Field(ge=1), REQUIRED),
        (list, pydantic.Field(default_factory=list), []),
        (Annotated[int, pydantic.Field(default=4)], REQUIRED, 4),
        (Annotated[int, pydantic.Field(default=4)], 5, 5),
        (Annotated[int, pydantic.Field(ge=4)], REQUIRED, REQUIRED),
        (int, 6, 6),
        (int, REQUIRED, REQUIRED),
    ],
)
def test_fields_give_plain_defaults(annotation, default, expected):
    """``x: int = Field(3)`` is how users of other libraries write it."""
    found = field_of(annotation, default)
    assert (found.default if found.factory is None else found.factory()) == expected


def test_a_default_of_a_field_is_made_anew():
    """Each call gets a list of its own."""
    found = field_of(list, pydantic.Field(default_factory=list))
    assert found.factory is not None
    assert found.factory() is not found.factory()
    assert found.default is REQUIRED


@pytest.mark.parametrize(
    ("annotation", "default"),
    [
        (Annotated[int, pydantic.Field(alias="of")], REQUIRED),
        (Annotated[int, pydantic.Field(alias="of")], pydantic.Field(3)),
        (int, pydantic.Field(3, validation_alias="of")),
    ],
)
def test_a_field_names_the_argument(annotation, default):
    """The alias is its name on the wire."""
    assert field_of(annotation, default).wire_name == "of"


@pytest.mark.parametrize(
    "field",
    [
        pydantic.Field(validation_alias=pydantic.AliasChoices("a", "b")),
        pydantic.Field(default_factory=lambda data: data),
    ],
)
def test_fields_that_no_argument_can_be_are_refused(field):
    """Several names, or a default that is made of other members."""
    with pytest.raises(TypeError, match="give"):
        field_of(int, field)


def test_a_field_as_default_becomes_metadata():
    """So that its limits hold."""
    annotation = field_of(int, pydantic.Field(3, ge=1)).annotation
    assert isinstance(adapt_type(annotation, "x"), Adapter)
    with pytest.raises(MismatchError):
        Adapter(annotation).decode(b"0")


def test_pydantic_is_not_loaded_for_other_types():
    """It takes 70 ms that most servers do not owe."""
    program = (
        "import sys; from antiphon.server.features.tools import ServedTool as Tool\n"
        "def f(x: int = 1) -> dict[str, int]: ...\n"
        "Tool.from_function(f).definition; print(sorted({'pydantic', 'jsonschema_rs'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
