"""Commands with subcommands: ``antiphon review approve``, ``antiphon audit verify``.

Owns which subcommand runs if none is named.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import typer
from typer.core import TyperGroup

from antiphon.cli.output.formats import is_interactive

__all__ = ["Group", "ListGroup", "ReviewGroup", "ShowGroup", "group", "ordered"]


class Group(TyperGroup):
    """A command with subcommands; if none is named, the one called ``usual`` runs, with its options."""

    usual = ""
    doors: Mapping[str, str] = {}
    """Options that stand for a subcommand, each with the name of that."""

    def choose_usual(self, args: list[str]) -> str:
        """Return the subcommand that runs if none is named, for these options."""
        return self.usual

    # The context is typer's or click's own, by the version of typer.
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert the usual subcommand if none is named."""
        # Not for a line that is being completed, which is about to name one.
        unnamed = not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names)
        if unnamed and not ctx.resilient_parsing:
            door = next((word for word in args if word in self.doors), "")
            args = [self.doors.get(door) or self.choose_usual(args), *(word for word in args if word != door)]
        return super().parse_args(ctx, args)


def ordered(names: Collection[str]) -> type[TyperGroup]:
    """Make a group whose help lists commands in this order; typer would list groups last."""

    class Ordered(TyperGroup):
        def list_commands(self, ctx: Any) -> list[str]:
            return [name for name in names if name in self.commands]

    return Ordered


class ListGroup(Group):
    """A group that lists."""

    usual = "list"


class ReviewGroup(ListGroup):
    """A group that asks the person at the terminal, else lists; or opens the review page."""

    doors: Mapping[str, str] = {"--web": "web"}

    def choose_usual(self, args: list[str]) -> str:
        """Return ``queue`` where a person can be asked, unless there is an option of ``list``."""
        return "queue" if is_interactive() and not {"--json", "--watch", "-w"} & {*args} else self.usual


class ShowGroup(Group):
    """A group that shows."""

    usual = "show"


def group(kind: type[Group], words: str) -> typer.Typer:
    """Make a group without commands; ``words`` is its help text."""
    return typer.Typer(cls=kind, help=words, rich_markup_mode=None, add_completion=False, no_args_is_help=False)
