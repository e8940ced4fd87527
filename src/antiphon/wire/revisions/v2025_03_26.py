"""Revision 2025-03-26: no elicitation, structured content, links or titles; ``_meta`` in params and results only."""

from __future__ import annotations

from antiphon.wire import content
from antiphon.wire.common import Annotations, ClientCapabilities, Implementation
from antiphon.wire.completion import CompleteRequestParams, PromptReference
from antiphon.wire.elicitation import ElicitRequestParams, ElicitResult
from antiphon.wire.prompts import Prompt, PromptArgument
from antiphon.wire.resources import Resource, ResourceTemplate
from antiphon.wire.revisions.lowering import Difference, drop_structure
from antiphon.wire.roots import Root
from antiphon.wire.tools import CallToolResult, Tool

NAME = "2025-03-26"


DIFFERENCE = Difference(
    lacks={
        Annotations: ("last_modified",),
        content.AudioContent: ("meta",),
        ClientCapabilities: ("elicitation",),
        CompleteRequestParams: ("context",),
        content.EmbeddedResource: ("meta",),
        content.ImageContent: ("meta",),
        Implementation: ("title",),
        Prompt: ("title", "meta"),
        PromptArgument: ("title",),
        PromptReference: ("title",),
        Resource: ("title", "meta"),
        content.ResourceContents: ("meta",),
        ResourceTemplate: ("title", "meta"),
        Root: ("meta",),
        content.TextContent: ("meta",),
        Tool: ("title", "output_schema", "meta"),
    },
    refuses={
        ElicitRequestParams: "Elicitation",
        ElicitResult: "Elicitation",
        content.ResourceLink: "A link to a resource",
    },
    changes={CallToolResult: drop_structure},
)
