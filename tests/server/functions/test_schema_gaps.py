"""The parts of a JSON Schema that msgspec leaves out."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import uuid
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple

import attrs
import jsonschema_rs
import msgspec
import pytest
from msgspec import Meta

from antiphon.errors import ConfigError
from antiphon.server.functions.schema_gaps import fill_gaps, remove_unfit_defaults


class Size(enum.Enum):
    SMALL = 1
    LARGE = 2


class Cat(msgspec.Struct, tag=True):
    born: dt.datetime


class Dog(msgspec.Struct, tag=True):
    walks: dict[dt.date, dt.time]


class Pair(NamedTuple):
    first: dt.time
    rest: dict[int, list[dt.datetime]]


def written(annotation: Any, *, results: bool = False) -> str:
    """Write the schema of a type."""
    schemas, definitions = msgspec.json.schema_components([annotation], ref_template="#/$defs/{name}")
    fill_gaps(schemas, definitions, [annotation], results=results)
    return msgspec.json.encode([*schemas, definitions], order="sorted").decode()


@pytest.mark.parametrize(
    ("keys", "names"),
    [
        (int, '{"pattern":"^-?(0|[1-9][0-9]*)$"}'),
        (dt.date, '{"format":"date"}'),
        (uuid.UUID, '{"format":"uuid"}'),
        (decimal.Decimal, '{"format":"decimal"}'),
        (bytes, '{"contentEncoding":"base64"}'),
        (Size, '{"enum":["1","2"]}'),
        (Literal["a", "b"], '{"enum":["a","b"]}'),
        (Annotated[str, Meta(min_length=2)], '{"minLength":2}'),
        (dt.date | Size, '{"anyOf":[{"format":"date"},{"enum":["1","2"]}]}'),
    ],
)
def test_the_keys_of_an_object_have_their_form(keys, names):
    """They are text, so a number is its digits."""
    assert f'"propertyNames":{names}' in written(dict[keys, int])


@pytest.mark.parametrize("bound", [-1000, -101, -100, -99, -10, -9, -1, 0, 1, 9, 10, 11, 99, 100, 119, 190, 999])
def test_the_bounds_of_whole_numbers_hold_for_keys(bound):
    """Digits are compared instead of numbers, since a key is text."""
    around = [*range(bound - 15, bound + 16), *range(-1100, 1100, 7), 10**20, -(10**20)]
    for meta, is_within in (
        (Meta(ge=bound), lambda number: number >= bound),
        (Meta(gt=bound), lambda number: number > bound),
        (Meta(le=bound), lambda number: number <= bound),
        (Meta(lt=bound), lambda number: number < bound),
        (Meta(gt=bound - 3, le=bound), lambda number: bound - 3 < number <= bound),
    ):
        schemas, definitions = msgspec.json.schema_components([dict[Annotated[int, meta], int]])
        fill_gaps(schemas, definitions, [dict[Annotated[int, meta], int]])
        validator = jsonschema_rs.validator_for(schemas[0])
        assert [n for n in around if validator.is_valid({str(n): 1}) is not is_within(n)] == []


@pytest.mark.parametrize("keys", [str, Any, str | int])
def test_keys_that_may_be_any_text_have_none(keys):
    """Nothing would be refused."""
    assert "propertyNames" not in written(dict[keys, int])


@pytest.mark.parametrize("keys", [tuple[int, int], frozenset[int], bool, Pair])
def test_keys_that_cannot_be_text_are_refused(keys):
    """No call could send such an object."""
    with pytest.raises(ConfigError, match=r"keys of a JSON object are text.*list\[tuple"):
        written(list[dict[keys, int]])


@pytest.mark.parametrize(
    ("annotation", "formats"),
    [
        (dt.datetime, {"date-time": 1}),
        (dict[str, list[dt.time | None]], {"time": 1}),
        (tuple[dt.datetime, int, dt.time], {"date-time": 1, "time": 1}),
        (Cat | Dog | dt.datetime | None, {"date-time": 2, "date": 1, "time": 1}),
        (Pair, {"time": 1, "date-time": 1}),
    ],
)
def test_dates_and_times_have_their_format_wherever_they_stand(annotation, formats):
    """The library writes it only for those with a zone."""
    text = written(annotation)
    assert {name: text.count(f'"format":"{name}"') for name in ("date", "date-time", "time")} == {
        "date": 0, "date-time": 0, "time": 0, **formats,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("annotation", "count"),
    [
        (dt.datetime | None, 0),
        (dict[str, list[dt.time]], 0),
        (dict[dt.datetime, dt.timedelta], 0),
        (Cat | Dog, 1),
        (Annotated[dt.datetime, Meta(tz=True)], 1),
        (Annotated[str, Meta(extra_json_schema={"format": "date-time"})], 1),
        (dt.date, 1),
    ],
)
def test_times_that_are_written_have_a_format_only_if_every_value_fits_it(annotation, count):
    """RFC 3339 wants a zone in a time, and no fraction or sign in a duration; strict clients refuse the result."""
    assert written(annotation, results=True).count('"format"') == count


@pytest.mark.parametrize(
    ("schema", "default", "is_kept"),
    [
        ({"type": "integer"}, 3, True),
        ({"type": "integer"}, True, False),
        ({"type": "integer", "minimum": 5}, 3, False),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, None, True),
        ({"type": "string"}, None, False),
        ({"enum": ["a", "b"]}, "c", False),
        ({"type": "string", "format": "date"}, "x", False),
        ({"$ref": "#/$defs/small"}, 9, False),
        ({"$ref": "#/$defs/small"}, 1, True),
        ({"type": "string", "pattern": "(?P<a>x)(?P=a)"}, "y", True),
    ],
)
def test_a_default_that_its_schema_refuses_is_removed(schema, default, is_kept):
    """At any depth. Where a pattern cannot be checked, the default stays."""
    inner = {**schema, "default": default}
    whole = {"$defs": {"small": {"maximum": 5}}, "properties": {"a": {"items": inner}}}
    remove_unfit_defaults(whole)
    assert ("default" in inner) is is_kept


def test_a_member_called_default_stays():
    """It is a name there, not a keyword."""
    whole = {"properties": {"default": {"type": "integer"}, "not": {}}}
    remove_unfit_defaults(whole)
    assert "default" in whole["properties"]


@dataclass
class Area:
    width: int
    height: list[Level] = field(default_factory=list)


@dataclass
class Level:
    number: int
    is_open: bool = field(init=False, default=False)


@attrs.define
class Sealed:
    number: int
    seal: int = attrs.field(init=False, default=0)


@attrs.define
class Hidden:
    _number: int


@pytest.mark.parametrize(
    ("kind", "named"), [(Level, "Level.is_open"), (Area, "Level.is_open"), (Sealed, "Sealed.seal")]
)
def test_a_field_that_its_class_alone_sets_is_no_argument(kind, named):
    """A client could set it, or would have to."""
    with pytest.raises(ConfigError, match=f"{named}, which has init=False"):
        written(list[kind])
    assert named.partition(".")[2] in written(list[kind], results=True)


def test_a_field_that_is_never_written_is_in_no_result():
    """Msgspec leaves private attributes of attrs classes out, so that the result would lack them."""
    assert "_number" in written(Hidden)
    with pytest.raises(ConfigError, match=r"Hidden\._number"):
        written(Hidden, results=True)
