"""Commands of typed functions: each parameter is an argument or an option of the command line.

A parameter is annotated with its type and an ``CommandOption`` or ``Argument``; its default is that of the command
line. Owns what each type means there. Several options that belong together are one parameter: a struct whose members
are annotated in the same way, an option set.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, Union, cast, get_args, get_origin

import click
from msgspec import structs

__all__ = ["Argument", "ClickCommand", "CommandOption", "Complete"]

Complete = Callable[[click.Context, click.Parameter, str], list[str]]
"""Lists the words that a shell may put in place of the one that was begun."""

_RANGES: dict[Any, Any] = {int: click.IntRange, float: click.FloatRange}


class Argument(NamedTuple):
    """An argument on the command line; required unless its parameter has a default."""

    metavar: str
    """How the help names it."""
    help: str = ""
    min: float | None = None
    complete: Complete | None = None

    def make(self, name: str, kind: Any, *, is_many: bool, **settings: Any) -> click.Parameter:
        """Make the parameter of click."""
        required = "default" not in settings
        many = {"nargs": -1} if is_many else {}
        return click.Argument([name], type=_make_type(kind, self.min), metavar=self.metavar, required=required,
                              shell_complete=self.complete, **many, **settings)  # fmt: skip


class CommandOption:
    """An option on the command line, by one of its names."""

    def __init__(
        self,
        *names: str,
        help: str,
        metavar: str | None = None,
        min: float | None = None,
        max: float | None = None,
        complete: Complete | None = None,
        envvar: str | None = None,
    ) -> None:
        self._names = names
        self._bounds = min, max
        self._settings = {"help": help, "metavar": metavar, "envvar": envvar, "shell_complete": complete}

    def make(self, name: str, kind: Any, *, is_many: bool, **settings: Any) -> click.Parameter:
        """Make the parameter of click."""
        type_ = {"is_flag": True} if kind is bool else {"type": _make_type(kind, *self._bounds), "multiple": is_many}
        return click.Option([*self._names, name], show_default=True, **type_, **self._settings, **settings)


class ClickCommand(click.Command):
    """The command that a function carries out; its docstring is the help."""

    def __init__(self, name: str | None, callback: Callable[..., int], **_settings: object) -> None:
        self._function = callback
        self._sets: dict[str, Any] = {}
        self._arguments: list[tuple[str, str]] = []
        super().__init__(name, callback=self._call, params=[*self._parameters()], help=callback.__doc__)

    def _parameters(self) -> Iterator[click.Parameter]:
        for name, one in inspect.signature(self._function, eval_str=True).parameters.items():
            if not hasattr(one.annotation, "__struct_fields__"):
                yield self._parameter(name, one.annotation, one.default, one.empty)
                continue
            self._sets[name] = one.annotation
            for member in structs.fields(one.annotation):
                yield self._parameter(member.name, member.type, member.default, ...)

    def _parameter(self, name: str, annotation: Any, default: Any, empty: Any) -> click.Parameter:
        kind, marker = get_args(annotation)
        if get_origin(kind) in (Union, UnionType):
            [kind] = [one for one in get_args(kind) if one is not NoneType]
        is_many = get_origin(kind) is list
        if isinstance(marker, Argument):
            self._arguments.append((marker.metavar, marker.help))
        settings = {} if default is empty else {"default": default}
        return marker.make(name, get_args(kind)[0] if is_many else kind, is_many=is_many, **settings)

    def _call(self, **given: Any) -> int:
        # What may be repeated is a list, or None if it was not given.
        values: dict[str, Any] = {
            name: [*cast("tuple[Any, ...]", one)] or None if isinstance(one, tuple) else one
            for name, one in given.items()
        }
        for name, kind in self._sets.items():
            values[name] = kind(**{each: values.pop(each) for each in kind.__struct_fields__})
        return self._function(**values)

    def get_short_help_str(self, limit: int = 0) -> str:
        """Return the first sentence of the help, whole."""
        return super().get_short_help_str(max(limit, 1000))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Explain the arguments before the options."""
        if self._arguments:
            with formatter.section("Arguments"):
                formatter.write_dl(self._arguments)
        super().format_options(ctx, formatter)


def _make_type(kind: Any, min: float | None, max: float | None = None) -> Any:
    if get_origin(kind) is Literal:
        return click.Choice(get_args(kind))
    if kind in _RANGES:
        return _RANGES[kind](min, max)
    return click.Path(path_type=Path) if kind is Path else kind
