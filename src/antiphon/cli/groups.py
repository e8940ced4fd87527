"""Commands with subcommands: ``antiphon review approve``, ``antiphon audit verify``.

Owns which subcommand runs if none is named.
"""

from __future__ import annotations

from collections.abc import Mapping

import click

from antiphon.cli.output.formats import is_interactive
from antiphon.cli.signatures import ClickCommand

__all__ = ["CommandGroup", "ListGroup", "ReviewGroup", "ShowGroup"]


class CommandGroup(click.Group):
    """A command with subcommands; if none is named, the one called ``usual`` runs, with its options."""

    command_class = ClickCommand
    usual = ""
    doors: Mapping[str, str] = {}
    """Options that stand for a subcommand, each with the name of that."""

    def choose_usual(self, args: list[str]) -> str:
        """Return the subcommand that runs if none is named, for these options."""
        return self.usual

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert the usual subcommand if none is named."""
        # Not for a line that is being completed, which is about to name one.
        unnamed = not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names)
        if unnamed and not ctx.resilient_parsing:
            door = next((word for word in args if word in self.doors), "")
            args = [self.doors.get(door) or self.choose_usual(args), *(word for word in args if word != door)]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the subcommands, in the order of the source."""
        return list(self.commands)

    def get_short_help_str(self, limit: int = 0) -> str:
        """Return the first sentence of the help, whole."""
        return super().get_short_help_str(max(limit, 1000))


class ListGroup(CommandGroup):
    """A group that lists."""

    usual = "list"


class ReviewGroup(ListGroup):
    """A group that asks the person at the terminal, else lists; or opens the review page."""

    doors: Mapping[str, str] = {"--web": "web"}

    def choose_usual(self, args: list[str]) -> str:
        """Return ``queue`` where a person can be asked, unless there is an option of ``list``."""
        return "queue" if is_interactive() and not {"--json", "--watch", "-w"} & {*args} else self.usual


class ShowGroup(CommandGroup):
    """A group that shows."""

    usual = "show"
