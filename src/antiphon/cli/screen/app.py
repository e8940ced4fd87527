"""The program around the screen: colours of the terminal, leaving, and no traceback with prompts in it.

Owns the life of the terminal. What is on it is ``stage``'s.
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
        # The terminal's own colours: they suit its background, dark or light, and NO_COLOR takes them away.
        super().__init__(ansi_color=True)
        self.theme = "ansi-dark"
        self.stage = ReviewStage(setting, self)
        self.failure: Exception | None = None
        """What ended it, if that was no person."""

    def get_default_screen(self) -> ReviewStage:
        """Show the queue."""
        return self.stage

    def _handle_exception(self, error: Exception) -> None:
        self.failure = self.failure or error
        super()._handle_exception(error)

    def _fatal_error(self) -> None:
        # Textual would print the variables of every frame, prompts among them: whoever runs us says what went wrong.
        self.exit(return_code=1)
