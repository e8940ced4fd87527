"""Revision 2025-06-18: no icons or URL elicitation; sampling has no tools, and one block per message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from msgspec.structs import replace

from antiphon.wire.common import Implementation
from antiphon.wire.content import ResourceLink, ToolResultContent, ToolUseContent
from antiphon.wire.elicitation import ElicitRequestParams, ElicitResult
from antiphon.wire.lifecycle import CancelledNotificationParams, ServerCapabilities
from antiphon.wire.prompts import Prompt
from antiphon.wire.resources import Resource, ResourceTemplate
from antiphon.wire.revisions.lowering import Difference, not_in
from antiphon.wire.revisions.v2026_07_28 import with_request_id
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult, SamplingMessage
from antiphon.wire.tools import CallToolRequestParams, Tool

NAME = "2025-06-18"

Form = dict[str, Any]


def _one_block(message: SamplingMessage | CreateMessageResult, revision: str) -> SamplingMessage | CreateMessageResult:
    if not isinstance(message.content, Sequence):
        return message
    if len(message.content) != 1:
        raise not_in(f"A sampling message of {len(message.content)} content blocks", revision)
    return replace(message, content=message.content[0])


def _without_tools(params: CreateMessageRequestParams, revision: str) -> CreateMessageRequestParams:
    if params.tools or params.tool_choice is not None:
        raise not_in("Sampling with tools", revision)
    return params if params.tools is None else replace(params, tools=None)


def _plain_form(params: ElicitRequestParams, revision: str) -> ElicitRequestParams:
    if params.mode != "form" or params.requested_schema is None:
        raise not_in("Elicitation by URL", revision)
    form = {name: value for name, value in params.requested_schema.items() if name != "$schema"}
    properties = form.get("properties")
    if isinstance(properties, dict):
        entries = cast("dict[str, Any]", properties).items()
        form["properties"] = {name: _plain_property(value, name, revision) for name, value in entries}
    return params if form == params.requested_schema else replace(params, requested_schema=form)


def _plain_property(value: Any, name: str, revision: str) -> Any:
    if not isinstance(value, dict):
        return value
    schema = cast("Form", value)
    if schema.get("type") == "array":
        raise not_in(f"A form with multiple choices (`{name}`)", revision)
    plain = {key: part for key, part in schema.items() if key != "oneOf"}
    if schema.get("type") != "boolean":
        plain.pop("default", None)
    if isinstance(choices := schema.get("oneOf"), list):
        options = cast("list[Form]", choices)
        plain["enum"] = [option.get("const") for option in options]
        plain["enumNames"] = [option.get("title", option.get("const")) for option in options]
    return plain


def _single_values(result: ElicitResult, revision: str) -> ElicitResult:
    for name, value in (result.content or {}).items():
        if isinstance(value, list):
            raise not_in(f"A form's answer with several values (`{name}`)", revision)
    return result


DIFFERENCE = Difference(
    lacks={
        CallToolRequestParams: ("task",),
        Implementation: ("description", "website_url", "icons"),
        Prompt: ("icons",),
        Resource: ("icons",),
        ResourceLink: ("icons",),
        ResourceTemplate: ("icons",),
        SamplingMessage: ("meta",),
        ServerCapabilities: ("tasks",),
        Tool: ("icons", "execution"),
    },
    refuses={ToolResultContent: "The result of a tool in sampling", ToolUseContent: "The use of a tool in sampling"},
    changes={
        CancelledNotificationParams: with_request_id,
        CreateMessageRequestParams: _without_tools,
        CreateMessageResult: _one_block,
        ElicitRequestParams: _plain_form,
        ElicitResult: _single_values,
        SamplingMessage: _one_block,
    },
)
