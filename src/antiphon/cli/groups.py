"""Commands that have commands of their own: ``antiphon review approve``, ``antiphon audit verify``.

Owns what such a command does when none of its own is named. Which there are is their modules' business.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import typer
from typer.core import TyperGroup

__all__ = ["Group", "ListGroup", "ReviewGroup", "ShowGroup", "group", "ordered"]


class Group(TyperGroup):
    """A command with commands; where none is named, the one called ``usual`` is meant, with its options."""

    usual = ""
    doors: Mapping[str, str] = {}
    """Options that stand for a command, each with the command's name, where none is named."""

    # The context is typer's or click's own, by the version of typer.
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the usual command in where none is named."""
        # Not for a line that is being completed: it is about to name one.
        unnamed = not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names)
        if unnamed and not ctx.resilient_parsing:
            door = next((word for word in args if word in self.doors), "")
            args = [self.doors.get(door, self.usual), *(word for word in args if word != door)]
        return super().parse_args(ctx, args)


def ordered(names: Collection[str]) -> type[TyperGroup]:
    """Make a group whose help lists commands in this order; typer would put those with commands of their own last."""

    class Ordered(TyperGroup):
        def list_commands(self, ctx: Any) -> list[str]:
            return [name for name in names if name in self.commands]

    return Ordered


class ListGroup(Group):
    """A group that lists."""

    usual = "list"


class ReviewGroup(ListGroup):
    """A group that lists, or opens the page."""

    doors: Mapping[str, str] = {"--web": "web"}


class ShowGroup(Group):
    """A group that shows."""

    usual = "show"


def group(kind: type[Group], words: str) -> typer.Typer:
    """Make a group without commands; ``words`` is its help."""
    return typer.Typer(cls=kind, help=words, rich_markup_mode=None, add_completion=False, no_args_is_help=False)
