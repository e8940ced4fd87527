"""URI templates (RFC 6570): match a URI, or expand a template.

Owns parsing and the matching of whole URIs; ``uri_parts`` matches single parts. Values are returned as data: the
function that uses a value must judge ``..`` or ``%2F`` in it.

Matching takes at most (length of the URI) x (parts of the template) steps, without backtracking. Where a URI can match
in several ways, each variable from the left takes as much as it can.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise

from msgspec.structs import replace

from antiphon.errors import ConfigError
from antiphon.server.features import uri_parts

MAX_URI = 4096
"""Longest URI that is matched, in characters. Web servers refuse URIs beyond 2 to 8 KiB."""

MAX_VARIABLES = 32
"""Most variables in one template: the cost of a match grows with their number. Templates in use have fewer than ten."""

_PIECE = r"\{([^{}]*)\}|([^{}]+)"
_VARIABLE = r"([A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*)(?:(\*)|:([1-9][0-9]{0,3}))?"


class UriTemplate:
    """A parsed template: ``{var} {+var} {#var} {.var} {/var} {;var} {?var} {&var}``, with ``*`` and ``:n``.

    Raises:
        ConfigError: the template is malformed, names a variable twice, or has two adjacent variables with no delimiter
            between them; the message names the template and the place.
    """

    __slots__ = ("_parts", "_pieces", "lists", "template", "variables")

    def __init__(self, template: str) -> None:
        self.template = template
        self._pieces = list(_split_template(template))
        expressions = [piece for piece in self._pieces if isinstance(piece, uri_parts.Expression)]
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
        uri = uri_parts.normalize_uri(uri)
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

    def expand(self, values: Mapping[str, uri_parts.Value]) -> str:
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


def _split_template(template: str) -> Iterator[str | uri_parts.Expression]:
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
            yield uri_parts.normalize_literal(literal) if position else uri_parts.normalize_uri(literal)
        position = piece.end()


def _parse_expression(template: str, body: str) -> uri_parts.Expression:
    """Parse the text between two braces."""
    symbol = body[:1] if body[:1] in uri_parts.OPERATORS else ""
    variables: list[uri_parts.Variable] = []
    for spec in body[len(symbol) :].split(","):
        matched = re.fullmatch(_VARIABLE, spec)
        if matched is None:
            raise ConfigError(
                f"URI template {template!r}: {{{body}}} is not an expression; write for example {{name}}, {{+path}}, "
                "{/segments*} or {?page,size}"
            )
        name, explode, limit = matched.groups()
        variables.append(uri_parts.Variable(name, explode is not None, int(limit) if limit else None))
    return uri_parts.Expression(uri_parts.OPERATORS[symbol], tuple(variables))


def _refuse_ambiguity(template: str, pieces: list[str | uri_parts.Expression], names: list[str]) -> None:
    """Refuse templates that can be expanded but not matched unambiguously."""
    if len(names) > MAX_VARIABLES:
        raise ConfigError(f"URI template {template!r}: {len(names)} variables, at most {MAX_VARIABLES} are taken")
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"URI template {template!r}: variable {name!r} comes twice")
    for left, right in pairwise(pieces):
        if (
            isinstance(left, uri_parts.Expression)
            and isinstance(right, uri_parts.Expression)
            and not right.operator.first
        ):
            first, second = left.variables[-1].name, right.variables[0].name
            raise ConfigError(
                f"URI template {template!r}: nothing stands between {first!r} and {second!r}; put a character there"
            )


def _convert_pieces(pieces: list[str | uri_parts.Expression]) -> tuple[uri_parts.UriPart, ...]:
    """Convert pieces to parts to match, from left to right."""
    parts: list[uri_parts.UriPart] = []
    in_query = False
    for piece in pieces:
        if isinstance(piece, str):
            in_query = in_query or "?" in piece
            parts.append(uri_parts.UriPart(lead=piece))
        elif piece.operator.named:
            _add_named(parts, piece)
        else:
            parts += _make_parts(piece, in_query=in_query)
    return tuple(_bound_part(part, parts[index + 1 :]) for index, part in enumerate(parts))


def _make_parts(piece: uri_parts.Expression, *, in_query: bool) -> Iterator[uri_parts.UriPart]:
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
        yield uri_parts.UriPart(
            lead=lead,
            stops=stops,
            least=0 if lead else 1,
            optional=bool(lead),
            variables=(variable,),
            separator=operator.separator,
        )


def _add_named(parts: list[uri_parts.UriPart], piece: uri_parts.Expression) -> None:
    """Make one part for all variables of an expression, joining ``{?a}{&b}`` into one."""
    operator = piece.operator
    if parts and parts[-1].named and operator.first == "&" and parts[-1].separator == "&":
        parts[-1] = replace(parts[-1], variables=parts[-1].variables + piece.variables)
        return
    parts.append(
        uri_parts.UriPart(
            lead=operator.first,
            stops=operator.stops if operator.first != ";" else "/?#",
            optional=True,
            variables=piece.variables,
            separator=operator.separator,
            named=True,
        )
    )


def _bound_part(part: uri_parts.UriPart, behind: list[uri_parts.UriPart]) -> uri_parts.UriPart:
    """Keep ``{+var}`` and ``{#var}`` from matching a query or fragment that has a part of its own."""
    if part.stops is None or part.stops.strip(","):
        return part
    leads = {other.lead for other in behind if other.optional}
    return replace(part, stops=part.stops + "".join(mark for mark in "?#" if mark in leads))
