"""The application around the screen: terminal colours, leaving, and errors without tracebacks, which contain prompts.

Owns the life of the terminal; ``stage`` has the content.
"""

from __future__ import annotations

from typing import ClassVar

from textual.app import App
from textual.binding import Binding, BindingType

from antiphon.cli.screen.stage import ReviewStage, Setting

__all__ = ["ReviewApp"]


class ReviewApp(App[None]):
    """The screen of one reviewer."""

    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+c", "quit", priority=True)]

    def __init__(self, setting: Setting) -> None:
        # The terminal's own colours suit its background, dark or light, and NO_COLOR removes them.
        super().__init__(ansi_color=True)
        self.theme = "ansi-dark"
        self.stage = ReviewStage(setting, self)
        self.failure: Exception | None = None
        """The error that ended it, if it was not a person."""

    def get_default_screen(self) -> ReviewStage:
        """Show the queue."""
        return self.stage

    def _handle_exception(self, error: Exception) -> None:
        self.failure = self.failure or error
        super()._handle_exception(error)

    def _fatal_error(self) -> None:
        # Textual would print the variables of every frame, including prompts; the caller reports the error
        # instead.
        self.exit(return_code=1)
