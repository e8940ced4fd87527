"""Commands with subcommands: ``antiphon review approve``, ``antiphon audit verify``.

Owns which subcommand runs if none is named.
"""

from __future__ import annotations

from typing import Any

import click

from antiphon.cli.output.formats import is_interactive
from antiphon.cli.signatures import ClickCommand


class CommandGroup(click.Group):
    """A command with subcommands; if none is named, the one called ``usual`` runs, with its options."""

    command_class = ClickCommand

    def __init__(self, *args: Any, usual: str = "list", **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.usual = usual

    def choose_usual(self, args: list[str]) -> list[str]:
        """Return the arguments with the subcommand that runs if none is named."""
        return [self.usual, *args]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert the usual subcommand if none is named."""
        # While a shell completes the line, the person is about to name a subcommand.
        unnamed = not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names)
        return super().parse_args(ctx, self.choose_usual(args) if unnamed and not ctx.resilient_parsing else args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the subcommands, in the order of the source."""
        return list(self.commands)

    def get_short_help_str(self, limit: int = 0) -> str:
        """Return the first sentence of the help, whole."""
        return super().get_short_help_str(max(limit, 1000))


class ReviewGroup(CommandGroup):
    """A group that asks the person at the terminal, else lists; or opens the review page."""

    def choose_usual(self, args: list[str]) -> list[str]:
        """Insert ``queue`` where a person can be asked, unless there is an option of ``list``; ``web`` for --web."""
        if "--web" in args:
            return ["web", *(word for word in args if word != "--web")]
        return ["queue" if is_interactive() and not {"--json", "--watch", "-w"} & {*args} else self.usual, *args]
