"""URI templates (RFC 6570): match a URI, or expand a template.

Owns the one form of a URI, the operator table, parsing, and matching, of single parts and of whole URIs. Values are
returned as data: the function that uses a value must judge ``..`` or ``%2F`` in it.

Matching takes at most (length of the URI) x (parts of the template) steps, without backtracking. Where a URI can match
in several ways, each variable from the left takes as much as it can.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from antiphon.errors import ConfigError

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
            is_long = variable.limit is not None and len(value) > variable.limit
            if is_long or (variable.name in found and not variable.explode):
                return False
            values = found.setdefault(variable.name, [] if variable.explode else value)
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


MAX_URI = 4096
"""Longest URI that is matched, in characters. Web servers refuse URIs beyond 2 to 8 KiB."""

MAX_VARIABLES = 32
"""Most variables in one template: the cost of a match grows with their number. Templates in use have fewer than ten."""

_PIECE = r"\{([^{}]*)\}|([^{}]+)"
_VARIABLE = r"([A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*)(?:(\*)|:([1-9][0-9]{0,3}))?"


class UriTemplate:
    """A parsed template: ``{var} {+var} {#var} {.var} {/var} {;var} {?var} {&var}``, with ``*`` and ``:n``.

    Raises ``ConfigError``: the template is malformed, names a variable twice, or has two adjacent variables with no
    delimiter between them; the message names the template and the place.
    """

    __slots__ = ("_parts", "_pieces", "lists", "template", "variables")

    def __init__(self, template: str) -> None:
        self.template = template
        self._pieces = list(_split_template(template))
        expressions = [piece for piece in self._pieces if isinstance(piece, Expression)]
        names = [variable.name for expression in expressions for variable in expression.variables]
        _refuse_ambiguity(template, self._pieces, names)
        self.variables = tuple(names)
        """Names of the variables, from left to right."""
        self.lists = {variable.name for one in expressions for variable in one.variables if variable.explode}
        """Names of the variables that explode (``*``)."""
        self._parts = _convert_pieces(self._pieces)

    def __repr__(self) -> str:
        return f"UriTemplate({self.template!r})"

    def match(self, uri: str) -> dict[str, str | list[str]] | None:
        """Return the variables of ``uri``, decoded; ``None`` if it does not match, or is longer than ``MAX_URI``.

        An exploded variable (``*``) is a list; optional variables may be missing. Query parameters may come in
        any order, but all of them must be in the template. Both are compared as ``normalize_uri`` writes them.
        """
        parts = self._parts
        uri = normalize_uri(uri)
        if len(uri) > MAX_URI or not uri.startswith(parts[0].lead if parts and not parts[0].optional else ""):
            return None
        reached = self._compute_reach(uri)
        if not reached[0][0]:
            return None
        found: dict[str, str | list[str]] = {}
        start = 0
        for part, after in zip(parts, reached[1:], strict=True):
            end = part.end(uri, start, after)
            if not part.bind(uri[start:end], found):
                return None
            start = end
        return found

    def expand(self, values: Mapping[str, Value]) -> str:
        """Expand the template with these values (RFC 6570, section 3); undefined ones are left out."""
        return "".join(p if isinstance(p, str) else p.expand(values) for p in self._pieces)

    def _compute_reach(self, uri: str) -> list[bytearray]:
        """Compute for each part, and for the end, from which positions the rest of the URI matches."""
        last = bytearray(len(uri) + 1)
        last[-1] = 1
        reached = [last]
        for part in reversed(self._parts):
            reached.append(part.reach(uri, reached[-1]))
        reached.reverse()
        return reached


def _split_template(template: str) -> Iterator[str | Expression]:
    """Split a template into literal text and expressions."""
    position = 0
    pattern = re.compile(_PIECE)
    while position < len(template):
        piece = pattern.match(template, position)
        if piece is None:
            raise ConfigError(f"URI template {template!r}: brace without its partner at character {position + 1}")
        body, literal = piece.groups()
        if body is not None:
            yield _parse_expression(template, body)
        else:
            yield normalize_literal(literal) if position else normalize_uri(literal)
        position = piece.end()


def _parse_expression(template: str, body: str) -> Expression:
    """Parse the text between two braces."""
    symbol = body[:1] if body[:1] in OPERATORS else ""
    variables: list[Variable] = []
    for spec in body[len(symbol) :].split(","):
        matched = re.fullmatch(_VARIABLE, spec)
        if matched is None:
            raise ConfigError(
                f"URI template {template!r}: {{{body}}} is not an expression; write for example {{name}}, {{+path}}, "
                "{/segments*} or {?page,size}"
            )
        name, explode, limit = matched.groups()
        variables.append(Variable(name, explode is not None, int(limit) if limit else None))
    return Expression(OPERATORS[symbol], tuple(variables))


def _refuse_ambiguity(template: str, pieces: list[str | Expression], names: list[str]) -> None:
    """Refuse templates that can be expanded but not matched unambiguously."""
    if len(names) > MAX_VARIABLES:
        raise ConfigError(f"URI template {template!r}: {len(names)} variables, at most {MAX_VARIABLES} are taken")
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"URI template {template!r}: variable {name!r} comes twice")
    for left, right in pairwise(pieces):
        if isinstance(left, Expression) and isinstance(right, Expression) and not right.operator.first:
            first, second = left.variables[-1].name, right.variables[0].name
            raise ConfigError(
                f"URI template {template!r}: nothing stands between {first!r} and {second!r}; put a character there"
            )


def _convert_pieces(pieces: list[str | Expression]) -> tuple[UriPart, ...]:
    """Convert pieces to parts to match, from left to right."""
    parts: list[UriPart] = []
    in_query = False
    for piece in pieces:
        if isinstance(piece, str):
            in_query = in_query or "?" in piece
            parts.append(UriPart(lead=piece))
        elif piece.operator.named:
            _add_named(parts, piece)
        else:
            parts += _make_parts(piece, in_query=in_query)
    return tuple(_bound_part(part, parts[index + 1 :]) for index, part in enumerate(parts))


def _make_parts(piece: Expression, *, in_query: bool) -> Iterator[UriPart]:
    """Make one part per variable; all but the first of an expression without an operator are optional."""
    operator = piece.operator
    for index, variable in enumerate(piece.variables):
        lead = operator.separator if index else operator.first
        shared = operator.separator if len(piece.variables) > 1 and not variable.explode else ""
        stops = operator.stops + shared
        if variable.explode:
            stops = stops.replace(operator.separator, "")
        elif in_query and operator.stops:
            stops += "&"
        yield UriPart(
            lead=lead,
            stops=stops,
            least=0 if lead else 1,
            optional=bool(lead),
            variables=(variable,),
            separator=operator.separator,
        )


def _add_named(parts: list[UriPart], piece: Expression) -> None:
    """Make one part for all variables of an expression, joining ``{?a}{&b}`` into one."""
    operator = piece.operator
    if parts and parts[-1].named and operator.first == "&" and parts[-1].separator == "&":
        parts[-1] = replace(parts[-1], variables=parts[-1].variables + piece.variables)
        return
    parts.append(
        UriPart(
            lead=operator.first,
            stops=operator.stops,
            optional=True,
            variables=piece.variables,
            separator=operator.separator,
            named=True,
        )
    )


def _bound_part(part: UriPart, behind: list[UriPart]) -> UriPart:
    """Keep ``{+var}`` and ``{#var}`` from matching a query or fragment that has a part of its own."""
    if part.stops is None or part.stops.strip(","):
        return part
    leads = {other.lead for other in behind if other.optional}
    return replace(part, stops=part.stops + "".join(mark for mark in "?#" if mark in leads))
