"""Revision 2024-11-05, the first: no audio, tool annotations, progress messages or completions capability."""

from __future__ import annotations

from antiphon.wire.content import AudioContent
from antiphon.wire.lifecycle import ProgressNotificationParams, ServerCapabilities
from antiphon.wire.revisions.lowering import Difference
from antiphon.wire.tools import Tool

NAME = "2024-11-05"

DIFFERENCE = Difference(
    lacks={ProgressNotificationParams: ("message",), ServerCapabilities: ("completions",), Tool: ("annotations",)},
    refuses={AudioContent: "Audio"},
)
