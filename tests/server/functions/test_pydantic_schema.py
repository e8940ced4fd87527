"""Bounds by ``msgspec.Meta`` and bytes, in types that pydantic handles."""

from __future__ import annotations

import base64
import dataclasses
import datetime as dt
import enum
from dataclasses import dataclass
from typing import Annotated, NotRequired

import jsonschema_rs
import msgspec
import pydantic
import pytest
from typing_extensions import TypedDict

from antiphon.json_schema.validator import MismatchError
from antiphon.server.functions.shape import Adapter

BINARY = b"\x89\xfb\xff\x00"
TEXT = base64.b64encode(BINARY).decode()


class Model(pydantic.BaseModel):
    x: int


@dataclass
class Beside:
    n: Annotated[int, msgspec.Meta(ge=1)]
    model: Model


@dataclass
class Defaulted:
    model: Model
    n: Annotated[int, msgspec.Meta(ge=1)] = 3


class Loose(TypedDict):
    model: Model
    n: NotRequired[Annotated[int, msgspec.Meta(ge=1)]]


class Blob(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow", frozen=True)

    data: bytes
    _seen: list[str] = pydantic.PrivateAttr(default_factory=list)

    def model_post_init(self, context, /):
        self._seen.append("after")

    @pydantic.field_validator("data")
    @classmethod
    def check(cls, data):
        if not data:
            raise ValueError("no data")
        return data

    @pydantic.computed_field
    @property
    def size(self) -> int:
        return len(self.data)


class NamedBlob(Blob):
    name: str


class Made(pydantic.BaseModel):
    data: bytes

    def __init__(self, **values):
        super().__init__(**values)


@pydantic.dataclasses.dataclass
class Stored:
    blob: Blob
    copies: list[bytes] = dataclasses.field(default_factory=list)


class Root(pydantic.RootModel[list[bytes]]):
    pass


MOMENT = dt.datetime.fromisoformat("2026-01-02T03:04:05.000006")


class Stamped(pydantic.BaseModel):
    at: dt.datetime
    clock: dt.time
    took: dt.timedelta


@pytest.mark.parametrize(
    ("annotation", "bad"),
    [
        (Annotated[int, msgspec.Meta(ge=1), pydantic.Field(le=5)], b"0"),
        (Annotated[str, msgspec.Meta(pattern="^a+$"), pydantic.Field(description="d")], b'"b"'),
        (Annotated[list[Model], msgspec.Meta(min_length=1)], b"[]"),
        (Annotated[dict[str, Annotated[int, msgspec.Meta(ge=1)]], pydantic.Field(min_length=1)], b'{"a":0}'),
        (Annotated[int, msgspec.Meta(ge=1)] | Model, b"0"),
        (Beside, b'{"n":0,"model":{"x":1}}'),
        (Defaulted, b'{"n":0,"model":{"x":1}}'),
        (Loose, b'{"n":0,"model":{"x":1}}'),
        (Annotated[Beside, pydantic.Field(description="d")] | None, b'{"n":0,"model":{"x":1}}'),
    ],
)
def test_bounds_by_meta_hold_where_pydantic_reads_a_type(annotation, bad):
    """In the schema and in the check."""
    adapter = Adapter(annotation)
    assert not jsonschema_rs.validator_for(adapter.schema("validation")).is_valid(msgspec.json.decode(bad))
    with pytest.raises(MismatchError):
        adapter.decode(bad)


@pytest.mark.parametrize(
    ("annotation", "json"),
    [
        (Blob, {"data": TEXT, "more": [1]}),
        (Blob | NamedBlob, {"data": TEXT, "name": "n"}),
        (dict[str, Root], {"a": [TEXT]}),
        (Stored, {"blob": {"data": TEXT}, "copies": [TEXT, TEXT]}),
        (Annotated[bytes, pydantic.Field(max_length=4)] | int, TEXT),
    ],
)
def test_bytes_are_base64_within_models_too(annotation, json):
    """A model keeps its class, validators, private members and further members."""
    adapter = Adapter(annotation)
    value = adapter.decode(msgspec.json.encode(json))
    sent = msgspec.json.decode(adapter.encode(value))
    assert jsonschema_rs.validator_for(adapter.schema("validation")).is_valid(json)
    assert jsonschema_rs.validator_for(adapter.schema("serialization")).is_valid(sent)
    if isinstance(value, Blob):
        assert (type(value), value._seen, value.data) == (NamedBlob if "name" in json else Blob, ["after"], BINARY)
        assert sent == {**json, "size": 4}
        with pytest.raises(MismatchError, match="no data"):
            adapter.decode(msgspec.json.encode({**json, "data": ""}))
    else:
        assert repr(BINARY) in repr(value)


def test_a_union_writes_each_model_with_its_own_members():
    """A model of the other's class has members of its own."""
    adapter = Adapter(list[Blob | NamedBlob])
    raw = adapter.encode([Blob(data=BINARY), NamedBlob(data=BINARY, name="n")])
    assert [set(each) for each in msgspec.json.decode(raw)] == [{"data", "size"}, {"data", "size", "name"}]


def test_a_model_with_its_own_init_reads_and_writes_as_pydantic_does():
    """Only that method knows the model's values; the schema says what holds."""
    adapter = Adapter(Made)
    assert adapter.decode(b'{"data":"text"}').data == b"text"
    assert "base64" not in str(adapter.schema("validation"))


def test_bounds_by_meta_in_a_model_are_refused():
    """Pydantic has read the model before, and would drop them without a word."""

    class Bounded(pydantic.BaseModel):
        n: Annotated[int, msgspec.Meta(ge=1)]

    with pytest.raises(TypeError, match=r"Bounded has bounds by msgspec\.Meta.*use pydantic\.Field"):
        Adapter(list[Bounded])


def test_a_time_has_a_zone_or_none_as_meta_says():
    """Pydantic itself takes both."""
    aware = Adapter(Annotated[dt.datetime, msgspec.Meta(tz=True), pydantic.Field(description="d")])
    naive = Adapter(Annotated[dt.datetime, msgspec.Meta(tz=False), pydantic.Field(description="d")])
    assert aware.decode(b'"2026-01-02T03:04:05Z"').tzinfo is not None
    assert naive.decode(b'"2026-01-02T03:04:05"').tzinfo is None
    with pytest.raises(MismatchError, match="with a time zone"):
        aware.decode(b'"2026-01-02T03:04:05"')
    with pytest.raises(MismatchError, match="without a time zone"):
        naive.decode(b'"2026-01-02T03:04:05Z"')


@pytest.mark.parametrize(
    ("annotation", "value", "count"),
    [
        (Stamped, Stamped(at=MOMENT, clock=MOMENT.time(), took=dt.timedelta(seconds=-0.5)), 0),
        (list[Stamped | None], [None], 0),
        (pydantic.AwareDatetime, MOMENT.replace(tzinfo=dt.UTC), 1),
        (pydantic.NaiveDatetime, MOMENT, 0),
    ],
)
def test_times_that_are_written_have_a_format_only_if_every_value_fits_it(annotation, value, count):
    """Those without a zone are no times of RFC 3339, so strict clients refuse the result; arguments keep the format."""
    adapter = Adapter(annotation)
    schema = adapter.schema("serialization")
    written = msgspec.json.decode(adapter.encode(value))
    assert jsonschema_rs.validator_for(schema, validate_formats=True).is_valid(written)
    assert str(schema).count("'format'") == count
    assert str(adapter.schema("validation")).count("'format'") == (3 if "Stamped" in str(annotation) else 1)


def test_an_alias_in_an_enum_adds_no_value():
    """Pydantic repeats the value, and validators refuse a schema whose choices are not unique."""

    class Colour(enum.Enum):
        RED = "red"
        ROUGE = RED
        POINT = (1, 2)

    class Painted(pydantic.BaseModel):
        colour: Colour

    schema = Adapter(Painted).schema("validation")
    assert schema["$defs"]["Colour"]["enum"] == ["red", [1, 2]]
    assert Adapter(Painted).decode(b'{"colour": "red"}').colour is Colour.ROUGE


def test_words_and_further_members_of_meta_are_published():
    """As msgspec publishes them."""
    meta = msgspec.Meta(title="t", description="d", examples=[1], extra_json_schema={"x-unit": "m"})
    schema = Adapter(Annotated[int, meta, pydantic.Field(ge=1)]).schema("validation")
    assert schema == {
        "type": "integer", "minimum": 1, "title": "t", "description": "d", "examples": [1], "x-unit": "m",
    }  # fmt: skip


def test_the_default_of_bytes_is_base64():
    """Any other text could not be sent."""

    class Defaults(pydantic.BaseModel):
        data: bytes = BINARY
        pairs: tuple[bytes, int] = (BINARY, 1)
        blob: Blob = Blob(data=BINARY)
        text: str = "a"

    members = Adapter(Defaults).schema("validation")["properties"]
    assert [members[name].get("default") for name in ("data", "pairs", "text")] == [TEXT, [TEXT, 1], "a"]
