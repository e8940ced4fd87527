"""The signature of an author's function: its parameters, their types, and which one takes the context.

Owns reading signatures and all errors about them, and which parts of a docstring are used (docstring-parser is loaded
only for docstrings with a section on arguments). ``shape`` and ``arguments`` convert the types to JSON.

A parameter annotated with the context type is filled in by the library and is no argument. The type is recognised by
its attribute ``__antiphon_context__``, so that this module need not import it.
"""

from __future__ import annotations

import functools
import inspect
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Annotated, Any, Union, cast, get_args, get_origin

from msgspec import Struct

from antiphon.errors import ConfigError

REQUIRED: Any = inspect.Parameter.empty
"""The default of a parameter without one."""

_MAX_FRAMES = 48
"""How many frames up the stack the scope of a decorated local function is searched: decorators take two or three, each
level of dependencies takes six."""


class Parameter(Struct, frozen=True, kw_only=True):
    """One argument of a function: its name, type and default (``REQUIRED`` for none)."""

    name: str
    annotation: Any
    default: Any
    factory: Callable[[], Any] | None = None
    """Makes the default of each call that leaves the argument out; ``default`` is then for the schema only."""
    alias: str | None = None
    """Its name on the wire, if that differs."""

    @property
    def wire_name(self) -> str:
        """Its name on the wire."""
        return self.alias or self.name

    @property
    def required(self) -> bool:
        """Whether a call must give it."""
        return self.default is REQUIRED and self.factory is None


class Signature(Struct, frozen=True, kw_only=True):
    """What is known about a function without calling it."""

    place: str
    """Describes the function in messages: ``tool "describe" (module.describe)``."""
    name: str
    """The function's own name; for a callable object the name of its class."""
    parameters: tuple[Parameter, ...]
    context: str | None = None
    """Name of the parameter that takes the context."""
    returns: Any = REQUIRED
    """Return annotation; ``REQUIRED`` without one."""
    is_async: bool
    docstring: str | None = None
    dependencies: Mapping[str, Any] = {}
    """What fills in the parameters that are no arguments: each a ``Depends``, by the parameter's name."""


class _ContextNotImported:
    """Stands for the context type if the author imports it for type checkers only."""

    __antiphon_context__ = True


def read_signature(
    function: Callable[..., Any], *, noun: str, name: str | None = None, yields: bool = False
) -> Signature:
    """Read a function, method, ``partial`` or other callable; ``ConfigError`` says why JSON cannot call it.

    ``yields``: whether it may be a generator.
    """
    if isinstance(function, str):
        raise ConfigError(f"a {noun} is made of a function, not of {function!r}; a name is given as name={function!r}")
    function = _undress_partial(function)
    # A decorated partial takes the same as the partial does; its ``__wrapped__`` may be the function inside.
    wrapped = inspect.unwrap(function, stop=lambda each: isinstance(each, partial))
    if isinstance(wrapped, partial):
        function = _undress_partial(wrapped)
    inner: Any = function
    bound: dict[str, Any] = {}
    while isinstance(inner, partial):
        outer = cast("partial[Any]", inner)
        inner, bound = outer.func, {**outer.keywords, **bound}
    own_name = getattr(inner, "__name__", type(inner).__name__)
    named: Any = inner if hasattr(inner, "__qualname__") else cast("Any", type(inner))
    place = f'{noun} "{name or own_name}" ({named.__module__}.{named.__qualname__})'
    if not callable(function) or isinstance(inner, type):
        raise ConfigError(f"{place}: {type(function).__name__} is not a function; decorate a function or bound method")
    code = inner if inspect.isroutine(inner) or hasattr(inner, "__wrapped__") else type(inner).__call__
    if _is_dispatcher(inspect.unwrap(code, stop=_is_dispatcher)):
        raise ConfigError(
            f"{place} chooses its code by the type of its first argument, which has no name in JSON: "
            "write a function that calls it"
        )
    if not yields and (inspect.isgeneratorfunction(code) or inspect.isasyncgenfunction(code)):
        raise ConfigError(f"{place} yields: return a list instead, and report on the way with ctx.progress")
    hints = _evaluate_hints(inspect.unwrap(code), place)
    parameters, context, dependencies = _split_parameters(function, hints, bound, place)
    return Signature(
        place=place,
        name=own_name,
        parameters=parameters,
        context=context,
        returns=hints.get("return", REQUIRED),
        is_async=inspect.iscoroutinefunction(code),
        docstring=code.__doc__ or (inner.__doc__ if code is not inner else None),
        dependencies=dependencies,
    )


def _is_dispatcher(function: Any) -> bool:
    """Return whether ``singledispatch`` made a function, or ``singledispatchmethod``, an object since 3.14."""
    run: Any = function if hasattr(function, "__code__") else function.__class__.__dict__.get("__call__")
    return getattr(getattr(run, "__code__", None), "co_filename", None) == functools.singledispatch.__code__.co_filename


def is_context(annotation: Any) -> bool:
    """Return whether an annotation means the context: its type, a subclass, or a form of these with ``None``."""
    if type(annotation) is type:
        return getattr(annotation, "__antiphon_context__", False) is True
    found = [member for member in members_of(annotation) if member is not type(None)]
    return len(found) == 1 and getattr(get_origin(found[0]) or found[0], "__antiphon_context__", False) is True


def members_of(annotation: Any) -> tuple[Any, ...]:
    """Return the members of a union, or the single type, without ``Annotated``."""
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) in (Union, types.UnionType):
        return tuple(inner for member in get_args(annotation) for inner in members_of(member))
    return (annotation,)


def add_null(annotation: Any) -> Any:
    """Return a type that null fits as well, as ``x: int = None`` says: models write it for what they leave out."""
    if get_origin(annotation) is Annotated:
        kind, *metadata = get_args(annotation)
        return Annotated[add_null(kind), *metadata]
    with suppress(TypeError):
        return annotation if annotation is Any else annotation | None
    return annotation


def _undress_partial(function: Any) -> Any:
    """Return a plain ``partial``: ``update_wrapper`` gives it the signature of the function inside."""
    method = getattr(function, "__partialmethod__", getattr(function, "_partialmethod", None))
    if isinstance(method, functools.partialmethod):
        made = cast("functools.partialmethod[Any]", method)
        return partial(_undress_partial(cast("Any", made.func).__get__(function.__self__)), *made.args, **made.keywords)
    if isinstance(function, partial):
        outer = cast("partial[Any]", function)
        return partial(_undress_partial(outer.func), *outer.args, **outer.keywords)
    return function


def _split_parameters(
    function: Callable[..., Any], hints: Mapping[str, Any], bound: Mapping[str, Any], place: str
) -> tuple[tuple[Parameter, ...], str | None, dict[str, Any]]:
    """Split the parameters into arguments, the context and dependencies, without what a ``partial`` has bound."""
    parameters: list[Parameter] = []
    contexts: list[str] = []
    dependencies: dict[str, Any] = {}
    for parameter in _list_declared(function, place):
        name = parameter.name
        if name in bound:
            continue
        annotation = hints.get(name, parameter.annotation)
        if parameter.annotation is REQUIRED:
            _refuse_untyped(name, place, first=not parameters)
        if is_context(annotation):
            contexts.append(name)
        elif not (type(annotation) is type and parameter.default is REQUIRED) and (
            dependency := _find_dependency(annotation, parameter.default)
        ):
            dependencies[name] = dependency
        else:
            typed = Any if annotation is REQUIRED else annotation
            if parameter.default is None:
                typed = add_null(typed)
            parameters.append(Parameter(name=name, annotation=typed, default=parameter.default))
    if len(contexts) > 1:
        raise ConfigError(f"{place}: parameters {contexts[0]!r} and {contexts[1]!r} both take the context; keep one")
    return tuple(parameters), contexts[0] if contexts else None, dependencies


def _find_dependency(annotation: Any, default: Any) -> Any:
    """Return the ``Depends`` of a parameter, from its annotation or its default; ``None`` if it has none."""
    for each in (*getattr(annotation, "__metadata__", ()), default):
        if getattr(each, "__antiphon_dependency__", False) is True:
            return each
    return None


def _list_declared(function: Callable[..., Any], place: str) -> Iterable[Parameter]:
    # Reading the code object of a plain function takes a tenth of the time of ``inspect``, which matters for
    # 100,000 functions. A decorated function has entries in its ``__dict__``.
    if type(function) is types.FunctionType and not function.__dict__:
        code = function.__code__
        if not code.co_posonlyargcount and not code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
            return _list_named(function, code)
    try:
        declared = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        raise ConfigError(f"{place} has no signature: wrap it in a function of your own") from None
    for each in declared:
        if (refused := _UNNAMED.get(each.kind)) is not None:
            raise ConfigError(f"{place}: {refused.format(each.name)}")
    return [Parameter(name=each.name, annotation=each.annotation, default=each.default) for each in declared]


def _list_named(function: types.FunctionType, code: types.CodeType) -> Iterable[Parameter]:
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    given = function.__defaults__ or ()
    first = code.co_argcount - len(given)
    defaults = {**dict(zip(names[first:], given, strict=False)), **(function.__kwdefaults__ or {})}
    typed = function.__annotations__
    return [
        Parameter(name=name, annotation=typed.get(name, REQUIRED), default=defaults.get(name, REQUIRED))
        for name in names
    ]


_UNNAMED: Mapping[Any, str] = {
    inspect.Parameter.POSITIONAL_ONLY: "parameter {0!r} is positional-only; remove the '/' behind it",
    inspect.Parameter.VAR_POSITIONAL: "*{0} has no name on the wire; take a list: {0}: list[...]",
    inspect.Parameter.VAR_KEYWORD: "**{0} has no schema; name the arguments, or take one: {0}: dict[str, ...]",
}
"""Why a JSON object of arguments cannot fill a parameter, by its kind."""


def _refuse_untyped(name: str, place: str, *, first: bool) -> None:
    if first and name in ("self", "cls"):
        raise ConfigError(
            f"{place} is not bound to an object: register the bound method, as in server.tool(thing.method)"
        )
    if name == "ctx":
        raise ConfigError(f"{place}: parameter 'ctx' has no type; write ctx: Context to be given the context")


def _evaluate_hints(function: Any, place: str) -> dict[str, Any]:
    """Evaluate the annotations, including strings that name something local, or imported for type checkers only."""
    try:
        with suppress(NameError):
            return typing.get_type_hints(function, include_extras=True)
        scope = _collect_scope(function)
        if "Context" not in getattr(function, "__globals__", {}):
            scope.setdefault("Context", _ContextNotImported)
        return typing.get_type_hints(function, localns=scope, include_extras=True)
    except NameError as error:
        raise ConfigError(
            f"{place}: {error}, but an annotation needs it; import it at run time, not under TYPE_CHECKING"
        ) from None
    except Exception as error:
        raise ConfigError(f"{place}: its annotations cannot be evaluated: {error}") from error


def _collect_scope(function: Any) -> dict[str, Any]:
    """Collect the local names visible to the function's author: those of the callers in the same module."""
    scope: dict[str, Any] = {}
    frame = inspect.currentframe()
    own_globals = getattr(function, "__globals__", None)
    for _ in range(_MAX_FRAMES):
        if frame is None:
            break
        if frame.f_globals is own_globals:
            scope = {**frame.f_locals, **scope}
        frame = frame.f_back
    return scope


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
    """Split a docstring into its description, with results and examples, which help a model, and its arguments."""
    cleaned = inspect.cleandoc(text).strip() if text else ""
    if not re.search(_ARGUMENTS, cleaned, re.MULTILINE):
        return Docs(cleaned or None, {})
    from docstring_parser import parse

    # The parser takes the indentation of the second line for that of the whole text.
    found = parse("\n" + cleaned).params
    arguments = {p.arg_name.lstrip("*"): " ".join(p.description.split()) for p in found if p.description}
    return Docs(re.sub(_CUT, "", cleaned, flags=re.MULTILINE).strip() or None, arguments)
