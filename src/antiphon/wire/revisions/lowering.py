"""How each revision states its differences from the next newer one, and the conversions that are made from them.

The differences themselves are in the modules of the revisions. Makes one function for each type that differs, or whose
members contain such a type, when a value of it is first converted; a type without a function needs no conversion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any, TypeVar, get_args, get_type_hints

from msgspec import Struct
from msgspec.structs import replace

from antiphon.errors import NotInRevision
from antiphon.wire.common import Wire
from antiphon.wire.content import TextContent
from antiphon.wire.envelope import encode_value
from antiphon.wire.tools import CallToolResult

Change = Callable[[Any, str], Any]
"""Converts a value to what the named revision can carry, or raises ``NotInRevision``."""


class Difference(Struct, frozen=True, kw_only=True):
    """What one revision cannot carry of what the next newer one can."""

    lacks: Mapping[type[Wire], tuple[str, ...]] = {}
    """Attributes that only describe: they are left out."""
    refuses: Mapping[type[Wire], str] = {}
    """Types that do not exist, with their name for error messages: leaving them out would change the meaning."""
    changes: Mapping[type[Wire], Change] = {}
    """All other conversions."""


def not_in(thing: str, revision: str) -> NotInRevision:
    """Make the error for what a revision cannot carry."""
    return NotInRevision(f"{thing} cannot be sent: protocol revision {revision} has no such thing")


def drop_structure(result: CallToolResult, _revision: str) -> CallToolResult:
    """Leave out structured content; if the result has nothing else, convert it to text so that it is not lost."""
    if result.structured_content is None:
        return result
    content = result.content or [TextContent(text=encode_value(result.structured_content).decode())]
    return replace(result, structured_content=None, content=content)


W = TypeVar("W", bound=Wire)

Conversion = Callable[[Any], Any]

_SEQUENCES = (list, tuple)


@cache
def find_nested(kind: type) -> Mapping[str, tuple[type[Wire], ...]]:
    """Return the attributes of a type whose values may be of wire types, with these types.

    ``_meta`` is left out: that of requests is made by the session, in the form that the revision has.
    """
    if not issubclass(kind, Wire):
        return {}
    found = {name: tuple(_list_wire_types(hint)) for name, hint in get_type_hints(kind).items() if name != "meta"}
    return {name: kinds for name, kinds in found.items() if kinds}


def _list_wire_types(hint: Any) -> Iterator[type[Wire]]:
    """Yield the wire types in an annotation, through unions and containers."""
    if isinstance(hint, type) and issubclass(hint, Wire):
        yield hint
    for part in get_args(hint):
        yield from _list_wire_types(part)


class Lowering(Struct, eq=False):
    """Converts messages to what one revision can carry.

    Members that only describe are left out. A value that needs no change is returned itself. ``RequestMeta`` in params
    is not changed, since only the session makes it.
    """

    _revision: str
    _differences: Sequence[Difference]
    _conversions: Mapping[type, Conversion | None] = {}
    """Replaced as a whole, so that no thread sees a type without those in it."""

    def convert(self, value: W) -> W:
        """Convert a value; ``NotInRevision`` if leaving something out would change the meaning."""
        kind, known = type(value), self._conversions
        convert = known[kind] if kind in known else self.find_conversion(kind)
        return value if convert is None else convert(value)

    def find_conversion(self, kind: type) -> Conversion | None:
        """Return the function for a type, after making it and those for the types in it; ``None`` if it needs none."""
        made = dict(self._conversions)
        self._settle(kind, made)
        self._conversions = made
        return made[kind]

    def _settle(self, kind: type, made: dict[type, Conversion | None]) -> bool:
        if kind not in made:
            made[kind] = None
            needs = {name: [self._settle(one, made) for one in kinds] for name, kinds in find_nested(kind).items()}
            made[kind] = self._make_conversion(kind, tuple(name for name in needs if any(needs[name])))
        return made[kind] is not None

    def _make_conversion(self, kind: type, nested: tuple[str, ...]) -> Conversion | None:
        differences = self._differences
        refused = next((each.refuses[kind] for each in differences if kind in each.refuses), None)
        if refused is not None:
            return partial(_refuse_value, refused, self._revision)
        lacks = tuple(dict.fromkeys(name for each in differences for name in each.lacks.get(kind, ())))
        changes = tuple(each.changes[kind] for each in differences if kind in each.changes)
        if not (lacks or changes or nested):
            return None
        return partial(self._convert_value, lacks, nested, changes)

    def _convert_value(
        self, lacks: tuple[str, ...], nested: tuple[str, ...], changes: Sequence[Change], value: Any
    ) -> Any:
        changed: dict[str, Any] = {}
        for name in lacks:
            if getattr(value, name) is not None:
                changed[name] = None
        for name in nested:
            inner: Any = getattr(value, name)
            # ``isinstance`` would make the type checker lose the type of the items.
            if issubclass(inner.__class__, _SEQUENCES):
                lowered = _convert_each(inner, self._conversions)
            elif (inward := self._conversions.get(inner.__class__)) is not None:
                lowered = inward(inner)
            else:
                continue
            if lowered is not inner:
                changed[name] = lowered
        if changed:
            value = replace(value, **changed)
        for change in changes:
            value = change(value, self._revision)
        return value


def _refuse_value(thing: str, revision: str, _value: Any) -> Any:
    raise not_in(thing, revision)


def _convert_each(items: Sequence[Any], made: Mapping[type, Conversion | None]) -> Sequence[Any]:
    """Convert the items that need it; if none does, return the same sequence."""
    lowered: list[Any] | None = None
    for place, item in enumerate(items):
        convert = made.get(item.__class__)
        if convert is not None and (new := convert(item)) is not item:
            lowered = lowered or [*items]
            lowered[place] = new
    return items if lowered is None else lowered
