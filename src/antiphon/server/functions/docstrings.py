"""What a docstring says about a function: the description, and a text for each argument.

Owns which parts of a docstring are used. docstring-parser reads sections of Google, NumPy and Sphinx style; it is
loaded only for docstrings with a section on arguments.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping

from msgspec import Struct

__all__ = ["Docs", "read_docstring"]

_ARGUMENTS = (
    r"^(?:(?:Args|Arguments|Parameters|Params|Attributes)[ \t]*:[ \t]*$"
    r"|(?:Parameters|Attributes)[ \t]*\n-{3,}[ \t]*$"
    r"|:(?:param|parameter|arg|argument)\b[^:\n]*:)"
)
# Sections that callers do not need: arguments are in the schema, and exceptions are not for models.
_CUT = (
    r"^(?:(?:Args|Arguments|Parameters|Params|Attributes|Raises)[ \t]*:[ \t]*\n(?:[ \t]+\S.*(?:\n|\Z)|[ \t]*\n)*"
    r"|(?:Parameters|Attributes|Raises)[ \t]*\n-{3,}[ \t]*(?:\n(?!.+\n-{3,}[ \t]*$).*)*(?:\n|\Z)"
    r"|:(?:param|parameter|arg|argument|type|raises?|rtype)\b[^:\n]*:.*(?:\n[ \t]+\S.*)*(?:\n|\Z))"
)


class Docs(Struct, frozen=True):
    """A description (``None`` if there is none), and the text for each argument by name."""

    description: str | None
    arguments: Mapping[str, str]


def read_docstring(text: str | None) -> Docs:
    """Split a docstring into the description and the arguments.

    Text about results, examples and the like stays in the description, because it helps a model. A docstring without a
    section on arguments is used unchanged.
    """
    cleaned = inspect.cleandoc(text).strip() if text else ""
    if not re.search(_ARGUMENTS, cleaned, re.MULTILINE):
        return Docs(cleaned or None, {})
    from docstring_parser import parse

    # The parser takes the indentation of the second line for that of the whole text.
    found = parse("\n" + cleaned).params
    arguments = {p.arg_name.lstrip("*"): " ".join(p.description.split()) for p in found if p.description}
    return Docs(re.sub(_CUT, "", cleaned, flags=re.MULTILINE).strip() or None, arguments)
