"""Revision 2025-11-25, the newest with a handshake: no rounds or cache hints; structured content is an object."""

from __future__ import annotations

from typing import Any, TypeVar

from msgspec import Raw
from msgspec.structs import replace

from antiphon.wire.common import CacheableResult, ClientCapabilities, Result, RoundParams, Wire
from antiphon.wire.content import ToolResultContent
from antiphon.wire.elicitation import ElicitRequestParams
from antiphon.wire.envelope import encode_value
from antiphon.wire.lifecycle import ServerCapabilities
from antiphon.wire.methods import METHODS
from antiphon.wire.revisions.lowering import Difference, drop_structure, not_in
from antiphon.wire.rounds import InputRequiredResult
from antiphon.wire.skills import SKILLS
from antiphon.wire.task import TASKS, CreateTaskResult, GetTaskResult, as_experiment, handle_as_experiment
from antiphon.wire.tools import CallToolResult, Tool, read_properties

NAME = "2025-11-25"

C = TypeVar("C", ClientCapabilities, ServerCapabilities)


def _list_lacking_members() -> dict[type[Wire], tuple[str, ...]]:
    types = [kind for row in METHODS.values() for kind in (row.params, row.result) if kind]
    lacks: dict[type[Wire], tuple[str, ...]] = {}
    for kind in types:
        if issubclass(kind, CacheableResult):
            lacks[kind] = ("result_type", "ttl_ms", "cache_scope")
        elif issubclass(kind, Result):
            lacks[kind] = ("result_type",)
        elif issubclass(kind, RoundParams):
            lacks[kind] = ("input_responses", "request_state")
    return lacks


def _is_object(value: Any) -> bool:
    """Return whether a value becomes a JSON object: a mapping, encoded JSON, or a type that encodes to one."""
    if isinstance(value, dict):
        return True
    data = value if isinstance(value, Raw) else encode_value(value)
    return bytes(memoryview(data)[:16]).lstrip().startswith(b"{")


def _drop_other_structure(result: CallToolResult, revision: str) -> CallToolResult:
    structure = result.structured_content
    return result if structure is None or _is_object(structure) else drop_structure(result, revision)


def _drop_other_structure_of_use(result: ToolResultContent, _revision: str) -> ToolResultContent:
    if result.structured_content is None or _is_object(result.structured_content):
        return result
    return replace(result, structured_content=None)


def _schemas_of_objects(tool: Tool, _revision: str) -> Tool:
    """Convert both schemas to the older form: an object whose properties are schemas, not true or false."""
    changed: dict[str, Any] = {}
    if _has_boolean_properties(tool.input_schema):
        changed["input_schema"] = _spell_out_booleans(tool.input_schema)
    if tool.output_schema is not None:
        if tool.output_schema.get("type") != "object":
            changed["output_schema"] = None
        elif _has_boolean_properties(tool.output_schema):
            changed["output_schema"] = _spell_out_booleans(tool.output_schema)
    return replace(tool, **changed) if changed else tool


def _has_boolean_properties(schema: dict[str, Any]) -> bool:
    return any(isinstance(value, bool) for value in read_properties(schema).values())


def _spell_out_booleans(schema: dict[str, Any]) -> dict[str, Any]:
    # JSON Schema 2020-12, core 4.3.2: true is {}, false is {"not": {}}.
    spelled: dict[bool, dict[str, Any]] = {True: {}, False: {"not": {}}}
    members = read_properties(schema).items()
    fitted = {name: spelled[value] if isinstance(value, bool) else value for name, value in members}
    return {**schema, "properties": fitted}


def _url_with_id(params: ElicitRequestParams, revision: str) -> ElicitRequestParams:
    if params.mode == "url" and params.elicitation_id is None:
        raise not_in("A URL elicitation without an elicitationId", revision)
    return params


def _without_later_extensions(capabilities: C, _revision: str) -> C:
    """Leave out the extensions whose messages need a later revision. Other extensions are kept."""
    if not capabilities.extensions or capabilities.extensions.keys().isdisjoint((TASKS, SKILLS)):
        return capabilities
    kept = {name: value for name, value in capabilities.extensions.items() if name not in (TASKS, SKILLS)}
    return replace(capabilities, extensions=kept or None)


DIFFERENCE = Difference(
    lacks={**_list_lacking_members()},
    refuses={InputRequiredResult: "A result that asks for input"},
    changes={
        CallToolResult: _drop_other_structure,
        ClientCapabilities: _without_later_extensions,
        ServerCapabilities: _without_later_extensions,
        CreateTaskResult: handle_as_experiment,
        ElicitRequestParams: _url_with_id,
        GetTaskResult: as_experiment,
        Tool: _schemas_of_objects,
        ToolResultContent: _drop_other_structure_of_use,
    },
)
