"""Descriptions of the members of a class in its JSON Schema: from ``Annotated[T, "..."]``, and from its docstring.

msgspec, which writes the schemas, only knows its own ``Meta``.
"""

from __future__ import annotations

import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, get_args, get_origin

import msgspec

from antiphon.server.functions.docstrings import read_docstring
from antiphon.server.functions.type_parts import walk_types

__all__ = ["classes_of", "describe_members", "words_of"]


def describe_members(definitions: Mapping[str, dict[str, Any]], annotations: Iterable[Any]) -> None:
    """Add descriptions to members of these definitions that have none, from the classes they were made from."""
    for kind in classes_of(annotations):
        definition = _definition(definitions, kind)
        said = _said(kind) if definition is not None else {}
        for name, member in (definition or {}).get("properties", {}).items():
            if name in said:
                member.setdefault("description", said[name])
        docs = read_docstring(kind.__doc__)
        if definition is not None and docs.arguments and "description" in definition:
            # The parts about members are in the members' own descriptions.
            definition["description"] = docs.description or kind.__name__


def words_of(metadata: Iterable[Any]) -> str | None:
    """Return the text in the metadata of ``Annotated[T, "text"]`` or ``Annotated[T, Doc("text")]`` (PEP 727)."""
    for item in metadata:
        text = item if isinstance(item, str) else getattr(item, "documentation", None)
        if isinstance(text, str):
            return text
    return None


def _definition(definitions: Mapping[str, dict[str, Any]], kind: type) -> dict[str, Any] | None:
    """Return the definition of a class: by its name, or by its qualified name if another class has the same name."""
    whole = f"{kind.__module__}.{kind.__qualname__}"
    names = (kind.__name__, whole, whole.replace(".", "_").replace("<", "_").replace(">", "_"))
    found = [definitions[name] for name in names if name in definitions]
    return found[0] if len(found) == 1 and found[0].get("title") == kind.__name__ else None


def _said(kind: type) -> dict[str, str]:
    """Return the text for each member by its name on the wire; text beside the type wins over the docstring."""
    try:
        hints = typing.get_type_hints(kind, include_extras=True)
    except Exception:
        # msgspec has resolved them before, or reports the error itself.
        return {}
    wire: Mapping[str, str] = {}
    if issubclass(kind, msgspec.Struct):
        wire = {field.name: field.encode_name for field in msgspec.structs.fields(kind)}
    said = {wire.get(name, name): text for name, text in read_docstring(kind.__doc__).arguments.items()}
    for name, hint in hints.items():
        text = words_of(get_args(hint)[1:]) if get_origin(hint) is Annotated else None
        if text is not None:
            said[wire.get(name, name)] = text
    return said


def classes_of(annotations: Iterable[Any]) -> Iterator[type]:
    """Yield the classes with members that a type consists of, each once."""
    for annotation in walk_types(annotations):
        if isinstance(annotation, type) and get_args(annotation) == () and hasattr(annotation, "__annotations__"):
            yield annotation
