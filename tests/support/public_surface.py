"""What users can name: the public places, the types in their signatures, and parameters that no docstring describes.

A public place is a module whose ``__all__`` is a promise. Everything else may move at any time.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import re
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]

PLACES = (
    "antiphon",
    "antiphon.types",
    "antiphon.errors",
    "antiphon.server",
    "antiphon.client",
    "antiphon.host",
    "antiphon.host.store",
    "antiphon.auth",
    "antiphon.gateway",
    "antiphon.testing",
    "antiphon.middleware",
    "antiphon.web",
    "antiphon.model_api",
    "antiphon.adapters.pydantic_ai",
)
"""The modules that users import from; docs/reference/api.md lists what is in them."""

ELSEWHERE = tuple(
    f"antiphon.adapters.{name}"
    for name in ("google_adk", "langchain", "langchain_models", "openai_agents", "openai_agents_models")
)
"""Public places that can be imported only beside their framework; its environment tests and type-checks them."""


GIVEN = {
    "ConfiguredHost",
    "Context",
    "Listening",
    "RemoteSkill",
    "RequestFacts",
    "Rounds",
    "ServerApp",
    "ServerRequest",
    "TaskHandle",
    "TokenEndpoint",
} | {f"Served{kind}" for kind in ("Feature", "Prompt", "Resource", "Skill", "Template", "Tool")}
"""Classes whose objects users are given and never make: what their constructors take is ours alone."""


def public() -> dict[str, object]:
    """Return every public object by its full name."""
    return {
        f"{place}.{name}": getattr(module, name)
        for place in PLACES
        for module in [import_module(place)]
        for name in module.__all__
    }


def public_elsewhere() -> set[str]:
    """Return the full names in the places that cannot be imported here, as their ``__all__`` has them."""
    found: set[str] = set()
    for place in ELSEWHERE:
        path = ROOT / "src" / Path(*place.split(".")).with_suffix(".py")
        listed = re.search(r"^__all__ = (\[.*?\])", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
        assert listed is not None, place
        found |= {f"{place}.{name}" for name in ast.literal_eval(listed[1])}
    return found


def leaks(things: Mapping[str, object] | None = None) -> list[str]:
    """List the places in public signatures whose type is ours and cannot be imported from a public place.

    ``things``: whose signatures are looked at, all public ones by default.
    """
    named = {id(value) for value in public().values()}
    found: set[str] = set()
    for name, value in (public() if things is None else things).items():
        for place, hint in _hints(name, value):
            found.update(
                f"{place}: {kind.__module__}.{kind.__qualname__}"
                for kind in _classes(hint)
                if kind.__module__.split(".")[0] == "antiphon" and id(kind) not in named
            )
    _parse_classes.cache_clear()  # each later search for garbage would look at a million nodes
    return sorted(found)


def undescribed() -> list[str]:
    """List the parameters of public functions, methods and constructors that have no line in the docstring.

    A method that implements one of an interface may refer to it instead: "See ``Store.commit``."
    """
    found: set[str] = set()
    for name, value in public().items():
        for place, function, words in _described(name, value):
            if "See ``" in words:
                continue
            found.update(
                f"{place}({parameter})"
                for parameter in inspect.signature(function).parameters
                if parameter not in {"self", "cls"} and not parameter.startswith("_")
                if not re.search(rf"^ *{parameter}: ", words, re.MULTILINE)
            )
    return sorted(found)


def _described(name: str, value: object) -> Iterator[tuple[str, Callable[..., Any], str]]:
    """Yield each public function with its docstring; the class may describe what its constructor takes."""
    if inspect.isfunction(value):
        yield name, value, value.__doc__ or ""
    elif inspect.isclass(value):
        for member, what in inspect.getmembers_static(value):
            function: Any = getattr(what, "__func__", what)
            made = member == "__init__" and value.__name__ not in GIVEN and not getattr(value, "_is_protocol", False)
            if inspect.isfunction(function) and (made or not member.startswith("_")) and _is_ours(what):
                owner = next(kind for kind in value.__mro__ if member in vars(kind))
                # That of the interface, if the method implements one and has no words of its own.
                own = inspect.getdoc(getattr(value, member)) or ""
                words = f"{value.__doc__}\n{owner.__doc__}\n{function.__doc__}" if made else own
                yield f"{name}.{member}", function, words


def _hints(name: str, value: object) -> Iterator[tuple[str, object]]:
    """Yield each annotated place of a public object with what it is annotated with."""
    if inspect.isclass(value):
        yield from ((f"{name}.{member}", hint) for member, hint in _own_hints(value).items())
        yield from ((f"{name}.{member}", hint) for member, hint in _given_by_methods(value))
        for member, what in inspect.getmembers_static(value):
            made = member == "__init__" and value.__name__ not in GIVEN
            if (made or not member.startswith("_")) and _is_ours(what):
                yield from _hints(f"{name}.{member}", what)
    elif isinstance(value, property) and value.fget is not None:
        yield from _function(name, value.fget)
    elif isinstance(value, staticmethod | classmethod):
        yield from _function(name, value.__func__)
    elif inspect.isfunction(value):
        yield from _function(name, value)
    elif typing.get_origin(value) is not None or isinstance(value, types.UnionType):
        yield name, value


def _is_ours(member: object) -> bool:
    function: Any = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
    return str(getattr(function, "__module__", "")).startswith("antiphon")


def _function(name: str, function: Callable[..., Any]) -> Iterator[tuple[str, object]]:
    for overload in [function, *typing.get_overloads(function)]:
        yield from ((f"{name}({parameter})", hint) for parameter, hint in _resolved(overload).items())


def _own_hints(kind: type) -> dict[str, object]:
    return {member: hint for member, hint in _resolved(kind).items() if not member.startswith("_")}


def _given_by_methods(kind: type) -> Iterator[tuple[str, object]]:
    """Yield each public attribute that only a method annotates or assigns, with the type that this tells."""
    known = _own_hints(kind)
    for owner in [owner for owner in kind.__mro__ if owner.__module__.startswith("antiphon")]:
        names = {**vars(sys.modules[owner.__module__]), **_imported_for_type_checkers(owner.__module__)}
        for method in _parse_classes(owner.__module__)[owner.__qualname__]:
            if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef):
                annotated = {one.arg: one.annotation for one in [*method.args.args, *method.args.kwonlyargs]}
                for target, value in _assigned(method):
                    if ast.unparse(target.value) == "self" and target.attr not in known and target.attr[0] != "_":
                        yield from ((target.attr, hint) for hint in _kinds(value, annotated, names, owner))


@cache
def _parse_classes(module: str) -> dict[str, list[ast.stmt]]:
    """Return the statements of each class of a module, which is parsed once, not for each of its classes."""
    found: dict[str, list[ast.stmt]] = {}

    def look(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef):
                found[f"{prefix}{child.name}"] = child.body
                look(child, f"{prefix}{child.name}.")
            elif not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                look(child, prefix)

    look(ast.parse(inspect.getsource(import_module(module))), "")
    return found


def _assigned(method: ast.AST) -> Iterator[tuple[ast.Attribute, ast.expr]]:
    """Yield the attributes that a method assigns, each with its annotation or else its value."""
    for node in ast.walk(method):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Attribute):
            yield node.target, node.annotation
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Attribute):
                    yield target, node.value
                elif isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    pairs = zip(target.elts, node.value.elts, strict=True)
                    yield from ((one, value) for one, value in pairs if isinstance(one, ast.Attribute))


def _kinds(
    value: ast.expr, annotated: Mapping[str, ast.expr | None], names: Mapping[str, Any], owner: type
) -> Iterator[object]:
    """Yield the types of an assigned value, as far as an annotation or the called function tells."""
    match value:
        case ast.IfExp(body=one, orelse=other) | ast.BoolOp(values=[one, *_, other]):
            yield from _kinds(one, annotated, names, owner)
            yield from _kinds(other, annotated, names, owner)
        case ast.Name(id=name) if annotated.get(name) is not None:
            yield _evaluated(typing.cast("ast.expr", annotated[name]), names)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name)):
            yield _resolved(getattr(owner, name)).get("return")
        case ast.Call(func=ast.Name(id=name)) if inspect.isclass(names.get(name)):
            yield names[name]
        case ast.Call(func=ast.Name(id=name)) if inspect.isfunction(names.get(name)):
            yield _resolved(names[name]).get("return")
        case ast.Name() | ast.Subscript() | ast.BinOp(op=ast.BitOr()):
            with contextlib.suppress(NameError):
                yield _evaluated(value, names)
        case _:
            pass


def _evaluated(annotation: ast.expr, names: Mapping[str, Any]) -> object:
    return eval(compile(ast.Expression(annotation), "annotation", "eval"), dict(names))


def _resolved(value: Any) -> dict[str, Any]:
    """Read annotations, names that are imported for type checkers only included."""
    return typing.get_type_hints(value, localns=_for_type_checkers(value), include_extras=False)


def _for_type_checkers(value: Any) -> dict[str, object]:
    """Import what modules name under ``TYPE_CHECKING`` for the annotations of a function or a class and its bases."""
    kinds = value.__mro__ if inspect.isclass(value) else [value]
    names: dict[str, object] = {}
    for module in {kind.__module__ for kind in kinds if kind.__module__.startswith("antiphon")}:
        names |= _imported_for_type_checkers(module)
    return names


@cache
def _imported_for_type_checkers(module: str) -> dict[str, object]:
    """Import what one module names under ``TYPE_CHECKING``; read once, since most functions share their module."""
    names: dict[str, object] = {}
    for node in ast.walk(ast.parse(inspect.getsource(import_module(module)))):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for one in node.body:
                if isinstance(one, ast.ImportFrom) and one.module:
                    source_module = import_module(one.module)
                    names |= {n.asname or n.name: getattr(source_module, n.name) for n in one.names}
    return names


def _classes(hint: object) -> Iterator[type]:
    """Yield the classes in an annotation, however deep, and those that bound its type parameters."""
    if isinstance(hint, typing.TypeVar):
        names = {**vars(sys.modules[hint.__module__]), **_imported_for_type_checkers(hint.__module__)}
        for bound in filter(None, (hint.__bound__, *hint.__constraints__)):
            text = bound.__forward_arg__ if isinstance(bound, typing.ForwardRef) else None
            yield from _classes(bound if text is None else eval(text, dict(names)))
    arguments = typing.get_args(hint)
    if not arguments and inspect.isclass(hint):
        yield hint
    origin = typing.get_origin(hint)
    if inspect.isclass(origin):
        yield origin
    for argument in arguments:
        if isinstance(argument, list):
            for each in argument:
                yield from _classes(each)
        else:
            yield from _classes(argument)
