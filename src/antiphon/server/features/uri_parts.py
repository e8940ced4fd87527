"""The parts of a URI template (RFC 6570): which text each may match, and at which positions of a URI.

Owns the operator table, variables, and the matching and expansion of one part. ``uri_template`` parses templates and
combines the parts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from msgspec import Struct

Scalar = str | int | float
Value = Scalar | Sequence[Scalar] | Mapping[str, Scalar] | None
"""What a variable may hold in an expansion; ``None`` and empty lists and mappings count as undefined."""

_RESERVED = ":/?#[]@!$&'()*+,;="
_TRIPLET = r"(%[0-9A-Fa-f]{2})"


_UNRESERVED = "-._~"
_scheme = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(?=:)").match
_is_plain = re.compile(r"[a-z][a-z0-9+.-]*:[!#$&-;=?-Z\[\]_a-z~]*").fullmatch


def normalize_uri(text: str) -> str:
    """Return a URI in the one form in which equal URIs are equal texts.

    Hex digits get upper case, encoded letters, digits and ``-._~`` are decoded, and the scheme gets lower case (RFC
    3986, section 6.2.2). Hosts keep their case: many schemes of servers have a name there. Characters that no URI has
    are percent-encoded.
    """
    if _is_plain(text):
        return text
    text = normalize_literal(text)
    scheme = _scheme(text)
    return text if scheme is None else scheme[0].lower() + text[scheme.end() :]


def normalize_literal(text: str) -> str:
    """Normalize a part of a template, where spaces and other characters stand for their encoding (RFC 6570, 3.1)."""
    from urllib.parse import quote

    safe = _RESERVED + _UNRESERVED + "%"
    return "".join(
        _normalize_triplet(piece) if index % 2 else quote(piece, safe=safe, errors="surrogatepass")
        for index, piece in enumerate(re.split(_TRIPLET, text))
    )


def _normalize_triplet(triplet: str) -> str:
    character = chr(int(triplet[1:], 16))
    return character if character.isascii() and (character.isalnum() or character in _UNRESERVED) else triplet.upper()


class Operator(Struct, frozen=True, kw_only=True):
    """How expressions with one operator are written (RFC 6570, appendix A)."""

    first: str = ""
    separator: str = ","
    named: bool = False
    if_empty: str = ""
    safe: str = ""
    stops: str = "/?#"
    """Characters that a value never holds unencoded. More than the RFC requires, because people write URIs by hand."""


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
    """The text between one pair of braces."""

    operator: Operator
    variables: tuple[Variable, ...]

    def expand(self, values: Mapping[str, Value]) -> str:
        """Expand the expression with these values (RFC 6570, section 3.2.1)."""
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
        # "reserved expansion": percent-encoded triplets that are already there stay unchanged.
        return "".join(
            part if index % 2 else quote(part, safe=safe) for index, part in enumerate(re.split(_TRIPLET, text))
        )


class UriPart(Struct, frozen=True, kw_only=True):
    """A part that matches a stretch of a URI: ``lead``, then any characters except those in ``stops``."""

    lead: str
    stops: str | None = None
    """``None`` for a literal: nothing follows the lead."""
    least: int = 0
    """Least number of characters after the lead: 0 or 1."""
    optional: bool = False
    variables: tuple[Variable, ...] = ()
    separator: str = ","
    named: bool = False

    def reach(self, uri: str, after: bytearray) -> bytearray:
        """For every position, compute whether this part and all after it (``after``) match the rest of ``uri``."""
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
        """Mark the positions from which at least ``least`` characters other than stops lead to a marked position."""
        reached = bytearray(len(uri) + 1)
        start = 0
        for stop in [*_stop_positions(uri, self.stops or ""), len(uri)]:
            # Between two stops, every position up to the last marked one can reach it.
            last = after.rfind(1, start, stop + 1)
            count = last + 1 - self.least - start
            if last >= 0 and count > 0:
                reached[start : start + count] = b"\x01" * count
            start = stop + 1
        return reached

    def end(self, uri: str, start: int, after: bytearray) -> int:
        """Return where a part from ``start`` ends, as far right as ``reach`` allows; ``start`` if it is left out."""
        if not uri.startswith(self.lead, start):
            return start
        first = start + len(self.lead)
        if self.stops is None:
            return first
        stop = next(_stop_positions(uri, self.stops, first), len(uri))
        best = after.rfind(1, first + self.least, stop + 1)
        return start if best < 0 else best

    def bind(self, text: str, found: dict[str, str | list[str]]) -> bool:
        """Add the variables in ``text`` to ``found``; return false if this template cannot have produced the text."""
        if not self.variables or not text:
            return True
        try:
            body = text[len(self.lead) :]
            return self._bind_named(body, found) if self.named else self._bind_one(self.variables[0], body, found)
        except UnicodeDecodeError:
            return False

    def _bind_one(self, variable: Variable, body: str, found: dict[str, str | list[str]]) -> bool:
        if variable.explode:
            found[variable.name] = [_decode_percent(item) for item in body.split(self.separator)]
            return True
        value = found[variable.name] = _decode_percent(body)
        return variable.limit is None or len(value) <= variable.limit

    def _bind_named(self, body: str, found: dict[str, str | list[str]]) -> bool:
        known = {variable.name: variable for variable in self.variables}
        for pair in body.split(self.separator) if body else ():
            name, _, raw = pair.partition("=")
            variable = known.get(_decode_percent(name))
            if variable is None:
                return False
            value = _decode_percent(raw)
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
def _make_scan(stops: str) -> re.Pattern[str]:
    return re.compile("[" + re.escape(stops) + "]")


def _stop_positions(uri: str, stops: str, start: int = 0) -> Iterator[int]:
    """Yield the positions from ``start`` on at which a value must end."""
    return (found.start() for found in _make_scan(stops).finditer(uri, start)) if stops else iter(())


def _decode_percent(text: str) -> str:
    """Decode percent-encoding. Malformed triplets stay; what is not UTF-8 raises ``UnicodeDecodeError``."""
    if "%" not in text:
        return text
    from urllib.parse import unquote

    return unquote(text, errors="strict")
