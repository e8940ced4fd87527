"""Names of FastMCP and of the official SDK that do not exist here, each with the name that does.

Owns how a missing name becomes a sentence: as an attribute of a class, as a name of the package, and as an argument;
and how an argument of a plain type is checked.
The table beside it has the places, the names, several with one remedy beside each other, and the remedies. A name that
any of our classes gets is deleted from the table; a test looks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module
from io import FileIO
from numbers import Integral, Real
from types import NoneType
from typing import Any, Literal, TypeVar, get_args, get_origin

import msgspec

from antiphon.errors import ConfigError

C = TypeVar("C", bound=type)


def _read_table() -> dict[str, dict[str, str]]:
    """Read the table; of two remedies for one name at one place, the first one counts."""
    # Not by ``pathlib``, which most servers do not load.
    with FileIO(__file__.replace(".py", ".json")) as file:
        data = file.readall()
    table: dict[str, dict[str, str]] = {}
    for places, remedies in msgspec.json.decode(data, type=dict[str, dict[str, str]]).items():
        for place in places.split():
            for names, remedy in remedies.items():
                for name in names.split():
                    table.setdefault(place, {}).setdefault(name, remedy)
    return table


ELSEWHERE: Mapping[str, Mapping[str, str]] = _read_table()
"""Where a name is looked for; the name, or ``*`` for any other one; what to use instead."""

_PUBLIC = ("types", "server", "client", "host", "gateway", "auth", "testing", "middleware", "web")
"""Modules with public names beside the package itself."""
_PLAIN = {"str": str, "int": Integral, "float": Real, "bool": bool, "None": NoneType}


class _Elsewhere:
    """An attribute that only says what to use instead."""

    def __init__(self, sentence: str) -> None:
        self._sentence = sentence

    def __get__(self, instance: object, owner: type) -> object:
        raise AttributeError(self._sentence)


def explain_other_names(owner: C) -> C:
    """Add properties that explain other frameworks' names to a class: ``__getattr__`` would slow each access."""
    for name, remedy in ELSEWHERE[owner.__name__].items():
        setattr(owner, name, _Elsewhere(f"{owner.__name__} has no {name}; here: {remedy}"))
    changed: Any = owner
    changed.__dir__ = _list_own
    return owner


def _list_own(self: object) -> list[str]:
    """List the attributes of an object, without those of other frameworks."""
    from inspect import getattr_static

    return [name for name in object.__dir__(self) if not isinstance(getattr_static(self, name, None), _Elsewhere)]


def check_options(place: str, given: Mapping[str, object], taken: Callable[..., Any] | Iterable[str]) -> None:
    """Refuse arguments that a function does not take, with the right name; ``place`` is how users call it.

    ``taken``: the function, or the names that it takes.
    """
    known = [*(taken.__kwdefaults__ or {})] if callable(taken) else [*taken]
    for name in given:
        if name not in known:
            from difflib import get_close_matches

            close = get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]}=?" if close else f"it takes {', '.join(known)}"
            remedy = (remedies := ELSEWHERE.get(place, {})).get(name) or (None if close else remedies.get("*"))
            raise ConfigError(f"{place} takes no {name}=; {f'here: {remedy}' if remedy else hint}")


def check_argument_types(owner: type, given: Mapping[str, Any]) -> None:
    """Refuse a constructor's arguments that are not what its annotations want: a plain type, class or ``Literal``.

    ``given``: the arguments, as ``locals()`` has them. Other types, such as functions, are checked by what takes them.
    """
    for name, hint, kinds, words in _list_checks(owner):
        value: Any = given.get(name)
        is_list = hint.startswith("Collection[")
        if words and not all(each in words for each in (value if is_list and hasattr(value, "__iter__") else [value])):
            form = "a list of" if is_list else "one of"
            raise ConfigError(f"{owner.__name__}({name}=) is {form} {', '.join(words)}, not {value!r}")
        if kinds and not isinstance(value, kinds):
            raise ConfigError(f"{owner.__name__}({name}=) must be {hint.replace(' | ', ' or ')}, got {value!r}")
        if isinstance(value, int | float) and not value >= 0:
            raise ConfigError(f"{owner.__name__}({name}=) must be at least 0, got {value!r}")


@cache
def _list_checks(owner: type) -> Sequence[tuple[str, str, tuple[type, ...], tuple[str, ...]]]:
    """List the arguments that can be checked: name, annotation, classes, and the words of a ``Literal``."""
    function: Any = owner.__init__
    known: Any = {**function.__globals__, **_PLAIN}
    found: list[Any] = []
    # As text also where a program has put a function of its own in place of ours.
    for name, hint in ((name, str(hint)) for name, hint in function.__annotations__.items()):
        alias = known.get(hint.removeprefix("Collection[").removesuffix("]"))
        words = get_args(alias) if get_origin(alias) is Literal else ()
        if hint.startswith("Literal[") and hint.endswith("]"):
            words = tuple(hint.removeprefix("Literal[").removesuffix("]").replace("'", "").split(", "))
        kinds = tuple(known.get(kind) for kind in hint.split(" | "))
        are_classes = all(isinstance(kind, type) and getattr(kind, "_is_runtime_protocol", True) for kind in kinds)
        found.append((name, hint, kinds * are_classes, words))
    return [each for each in found if each[2] or each[3]]


def suggest_similar(name: str, known: Sequence[str]) -> str:
    """Return a hint for a message: the known name that was probably meant, or all known names."""
    from difflib import get_close_matches

    close = get_close_matches(name, known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(known[:50]) or 'none'}"


def find_name(name: str) -> str | None:
    """Say what to import in place of a name that a package of ours does not have; ``None`` if nobody knows."""
    if (remedy := ELSEWHERE["antiphon"].get(name)) is not None:
        return f"antiphon has no {name}; here: {remedy}"
    homes = ("antiphon", *(f"antiphon.{home}" for home in _PUBLIC)) if name[:1].isupper() else ()
    return next((f"{name} is in {home}" for home in homes if name in import_module(home).__all__), None)
