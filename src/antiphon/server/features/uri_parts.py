"""The parts of a URI template (RFC 6570): what each may stand for, and where in a URI it can.

Owns the operator table, variables, the matching of one part and its expansion. ``uri_template`` parses templates and
puts the parts together; nothing here sees a whole template.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from msgspec import Struct

__all__ = ["OPERATORS", "Expression", "Operator", "Part", "Scalar", "Value", "Variable"]

Scalar = str | int | float
Value = Scalar | Sequence[Scalar] | Mapping[str, Scalar] | None
"""What a variable may hold when a template is expanded; ``None`` and what is empty count as undefined."""

_RESERVED = ":/?#[]@!$&'()*+,;="
_TRIPLET = r"(%[0-9A-Fa-f]{2})"


class Operator(Struct, frozen=True, kw_only=True):
    """How the expressions of one operator look (RFC 6570, appendix A)."""

    first: str = ""
    separator: str = ","
    named: bool = False
    if_empty: str = ""
    safe: str = ""
    stops: str = "/?#"
    """Characters that a value never holds unencoded. Wider than the RFC's, because people write URIs by hand."""


OPERATORS: Mapping[str, Operator] = {
    "": Operator(),
    "+": Operator(safe=_RESERVED, stops=""),
    "#": Operator(first="#", safe=_RESERVED, stops=""),
    ".": Operator(first=".", separator="."),
    "/": Operator(first="/", separator="/"),
    ";": Operator(first=";", separator=";", named=True),
    "?": Operator(first="?", separator="&", named=True, if_empty="=", stops="#"),
    "&": Operator(first="&", separator="&", named=True, if_empty="=", stops="#"),
}


class Variable(Struct, frozen=True):
    """One variable of an expression: ``name``, ``name*`` or ``name:limit``."""

    name: str
    explode: bool = False
    limit: int | None = None


class Expression(Struct, frozen=True):
    """What stands between one pair of braces."""

    operator: Operator
    variables: tuple[Variable, ...]

    def expand(self, values: Mapping[str, Value]) -> str:
        """Write the expression with these values (RFC 6570, section 3.2.1)."""
        pieces: list[str] = []
        for variable in self.variables:
            value = values.get(variable.name)
            if value is not None and value not in ([], (), {}):
                pieces += self._pieces(variable, value)
        return self.operator.first + self.operator.separator.join(pieces) if pieces else ""

    def _pieces(self, variable: Variable, value: Value) -> list[str]:
        if isinstance(value, Mapping):
            pairs = [(self._quote(str(key)), self._quote(str(item))) for key, item in value.items()]
            if variable.explode:
                return ["=".join(pair) for pair in pairs]
            return [self._named(variable, ",".join(",".join(pair) for pair in pairs))]
        if isinstance(value, Sequence) and not isinstance(value, str):
            items = [self._quote(str(item)) for item in value]
            return [self._named(variable, item) for item in (items if variable.explode else [",".join(items)])]
        return [self._named(variable, self._quote(str(value)[: variable.limit]))]

    def _named(self, variable: Variable, text: str) -> str:
        if not self.operator.named:
            return text
        return variable.name + (f"={text}" if text else self.operator.if_empty)

    def _quote(self, text: str) -> str:
        from urllib.parse import quote

        safe = self.operator.safe
        if not safe:
            return quote(text, safe="")
        # "reserved expansion": triplets that are there already stay as they are.
        return "".join(
            part if index % 2 else quote(part, safe=safe) for index, part in enumerate(re.split(_TRIPLET, text))
        )


class Part(Struct, frozen=True, kw_only=True):
    """Something that stands for a stretch of a URI: ``lead``, then any characters but those in ``stops``."""

    lead: str
    stops: str | None = None
    """``None``: nothing follows the lead (a literal)."""
    least: int = 0
    """How many characters follow the lead at least: 0 or 1."""
    optional: bool = False
    variables: tuple[Variable, ...] = ()
    separator: str = ","
    named: bool = False

    def reach(self, uri: str, after: bytearray) -> bytearray:
        """Tell for every position of ``uri`` whether this part and all behind it match from there to the end.

        ``after`` says the same for the parts behind this one; both are as long as the URI and one more.
        """
        body = after if self.stops is None else self._body(uri, after)
        good = bytearray(after) if self.optional else bytearray(len(uri) + 1)
        skip = len(self.lead)
        position = uri.find(self.lead)
        while 0 <= position <= len(uri):
            if body[position + skip]:
                good[position] = 1
            position = uri.find(self.lead, position + 1)
        return good

    def _body(self, uri: str, after: bytearray) -> bytearray:
        """Tell from which positions at least ``least`` characters that may follow the lead go to a good end."""
        reached = bytearray(len(uri) + 1)
        start = 0
        for stop in [*_stop_positions(uri, self.stops or ""), len(uri)]:
            # Between two stops, every position up to the last good end reaches it.
            last = after.rfind(1, start, stop + 1)
            count = last + 1 - self.least - start
            if last >= 0 and count > 0:
                reached[start : start + count] = b"\x01" * count
            start = stop + 1
        return reached

    def end(self, uri: str, start: int, after: bytearray) -> int:
        """Return where this part ends if it starts at ``start``: as far right as the parts behind it allow.

        Equals ``start`` if the part is left out. ``reach`` must have found ``start`` good.
        """
        if not uri.startswith(self.lead, start):
            return start
        first = start + len(self.lead)
        if self.stops is None:
            return first
        stop = next(_stop_positions(uri, self.stops, first), len(uri))
        best = after.rfind(1, first + self.least, stop + 1)
        return start if best < 0 else best

    def bind(self, text: str, found: dict[str, str | list[str]]) -> bool:
        """Put what ``text`` says about the variables into ``found``; false if it cannot come from this template."""
        if not self.variables or not text:
            return True
        try:
            body = text[len(self.lead) :]
            return self._bind_named(body, found) if self.named else self._bind_one(self.variables[0], body, found)
        except UnicodeDecodeError:
            return False

    def _bind_one(self, variable: Variable, body: str, found: dict[str, str | list[str]]) -> bool:
        if variable.explode:
            found[variable.name] = [_decode(item) for item in body.split(self.separator)]
            return True
        value = found[variable.name] = _decode(body)
        return variable.limit is None or len(value) <= variable.limit

    def _bind_named(self, body: str, found: dict[str, str | list[str]]) -> bool:
        known = {variable.name: variable for variable in self.variables}
        for pair in body.split(self.separator) if body else ():
            name, _, raw = pair.partition("=")
            variable = known.get(_decode(name))
            if variable is None:
                return False
            value = _decode(raw)
            if variable.limit is not None and len(value) > variable.limit:
                return False
            if not variable.explode:
                if variable.name in found:
                    return False
                found[variable.name] = value
                continue
            values = found.setdefault(variable.name, [])
            if isinstance(values, list):
                values.append(value)
        return True


@cache
def _scan(stops: str) -> re.Pattern[str]:
    return re.compile("[" + re.escape(stops) + "]")


def _stop_positions(uri: str, stops: str, start: int = 0) -> Iterator[int]:
    """Say where, from ``start`` on, a value has to end."""
    return (found.start() for found in _scan(stops).finditer(uri, start)) if stops else iter(())


def _decode(text: str) -> str:
    """Undo percent-encoding; what is no triplet stays, what is not UTF-8 raises ``UnicodeDecodeError``."""
    if "%" not in text:
        return text
    from urllib.parse import unquote

    return unquote(text, errors="strict")
