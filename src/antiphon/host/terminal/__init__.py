"""The reviewer at the terminal: shows who asks for what, exactly, and reads the person's decision."""

from __future__ import annotations

from antiphon.host.terminal.reviewer import TerminalReviewer

__all__ = ["TerminalReviewer"]
