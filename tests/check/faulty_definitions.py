"""Definitions with one fault each, and where it is to be found; and a server that has none."""

from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from antiphon.check import findings
from antiphon.check.findings import ServerDefinitions

REVISION = "2025-11-25"
MODERN = "2026-07-28"
GOOD_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"text": {"type": "string", "description": "What the note says."}},
    "required": ["text"],
}
GOOD_TOOL: dict[str, Any] = {
    "name": "add_note",
    "description": "Adds a note to the list of today.",
    "inputSchema": GOOD_SCHEMA,
}
GOOD_RESOURCE: dict[str, Any] = {"uri": "notes://today", "name": "today"}
GOOD_TEMPLATE: dict[str, Any] = {"uriTemplate": "notes://{day}{?page,size}", "name": "day"}
GOOD_PROMPT: dict[str, Any] = {
    "name": "review",
    "description": "Goes through the notes.",
    "arguments": [{"name": "day", "required": True}],
}
GOOD_OPENING: dict[str, Any] = {
    "protocolVersion": REVISION,
    "capabilities": {"tools": {"listChanged": True}, "resources": {}, "prompts": {}},
    "serverInfo": {"name": "notes", "version": "1.0"},
    "instructions": "Keeps notes. Use add_note to write one.",
}


class FaultyCase(NamedTuple):
    """A server with one fault."""

    rule: str
    place: str
    """What the place of the finding ends with."""
    definitions: ServerDefinitions

    def __str__(self) -> str:
        return f"{self.rule} {self.place}"


def make_definitions(revision: str = REVISION, **changed: Any) -> ServerDefinitions:
    """Make the definitions of a server without a fault, except for what is given."""
    opening = {**GOOD_OPENING, **changed.pop("opening", {})}
    lists = {
        "tools": (GOOD_TOOL,),
        "resources": (GOOD_RESOURCE,),
        "templates": (GOOD_TEMPLATE,),
        "prompts": (GOOD_PROMPT,),
    }
    return ServerDefinitions(revision=revision, opening=opening, **{**lists, **changed})


def read_rules(file: str) -> set[str]:
    """Return the ids of the rules of one file."""
    tables = tomllib.loads((Path(findings.__file__).parent / "rules" / file).read_text(encoding="utf-8"))
    return {f"{subject}.{name}" for subject, rules in tables.items() for name in rules}


def change_tool(rule: str, place: str, *, revision: str = REVISION, **members: Any) -> FaultyCase:
    """Make a server whose second tool has other members."""
    tool = {**GOOD_TOOL, "name": "list_notes", "description": "Lists the notes.", **members}
    tool = {name: value for name, value in tool.items() if value is not ...}
    return FaultyCase(rule, place, make_definitions(revision, tools=(GOOD_TOOL, tool)))


def change_argument(rule: str, place: str, schema: Any, *, name: str = "day") -> FaultyCase:
    """Make a server whose second tool has another argument."""
    properties = {**GOOD_SCHEMA["properties"], name: schema}
    path = f"inputSchema.properties.{name}{place}"
    return change_tool(rule, path, inputSchema={**GOOD_SCHEMA, "properties": properties})


def change_schema(rule: str, place: str, **members: Any) -> FaultyCase:
    """Make a server whose second tool has another schema."""
    schema = {name: value for name, value in {**GOOD_SCHEMA, **members}.items() if value is not ...}
    return change_tool(rule, place, inputSchema=schema)


def change_other(kind: str, rule: str, place: str, **members: Any) -> FaultyCase:
    """Make a server whose resource, template or prompt has other members."""
    good = {"resources": GOOD_RESOURCE, "templates": GOOD_TEMPLATE, "prompts": GOOD_PROMPT}[kind]
    item = {name: value for name, value in {**good, **members}.items() if value is not ...}
    changed: dict[str, Any] = {kind: (item,)}
    return FaultyCase(rule, place, make_definitions(**changed))


def change_opening(rule: str, place: str, **members: Any) -> FaultyCase:
    """Make a server that says something else of itself."""
    return FaultyCase(rule, place, make_definitions(opening=members))


def change_icon(rule: str, place: str, **members: Any) -> FaultyCase:
    """Make a server whose second tool has an icon."""
    icon = {"src": "https://example.com/i.png", "mimeType": "image/png", "sizes": ["48x48"], **members}
    return change_tool(rule, f"icons[0].{place}", icons=[icon])


def make_modern(case: FaultyCase, place: str) -> FaultyCase:
    """Let the server of a case speak the modern revision."""
    return case._replace(place=place, definitions=dataclasses.replace(case.definitions, revision=MODERN))


def nest_schema(levels: int) -> dict[str, Any]:
    """Make a schema of objects in objects."""
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"inner": schema}}
    return schema


CAPABILITIES = GOOD_OPENING["capabilities"]
FAULTY: tuple[FaultyCase, ...] = (
    FaultyCase("definition.entry", "tools[1]", make_definitions(tools=(GOOD_TOOL, None))),
    FaultyCase("definition.entry", "prompts[0]", make_definitions(prompts=([],))),
    change_tool("definition.missing", "name", name=...),
    change_tool("definition.missing", "inputSchema", inputSchema=...),
    change_tool("definition.type", "inputSchema", inputSchema=None),
    change_tool("definition.type", "title", title=None),
    change_tool("definition.type", "description", description=["text"]),
    change_tool("definition.type", "annotations.readOnlyHint", annotations={"readOnlyHint": "true"}),
    change_tool("definition.type", "icons", icons={}),
    change_tool("definition.type", "icons[0]", icons=["https://example.com/i.png"]),
    change_tool("definition.missing", "icons[0].src", icons=[{}]),
    change_tool("definition.meta_key", "_meta.com.example/-x", _meta={"com.example/-x": 1}),
    change_tool("definition.meta_key", "_meta./x", _meta={"/x": 1}),
    change_other("resources", "definition.missing", "uri", uri=...),
    change_other("resources", "definition.type", "size", size="12"),
    change_other("templates", "definition.missing", "name", name=...),
    change_other("prompts", "definition.type", "arguments[0].required", arguments=[{"name": "day", "required": "yes"}]),
    change_other("prompts", "definition.missing", "arguments[0].name", arguments=[{"title": "Day"}]),
    change_opening(
        "definition.type", "capabilities.tools.listChanged", capabilities={**CAPABILITIES, "tools": {"listChanged": 1}}
    ),
    change_opening(
        "opening.website", "websiteUrl", serverInfo={"name": "notes", "version": "1", "websiteUrl": "example.com"}
    ),
    change_opening("opening.version_empty", "serverInfo.version", serverInfo={"name": "notes", "version": ""}),
    change_opening("capability.client", "capabilities.sampling", capabilities={**CAPABILITIES, "sampling": {}}),
    change_opening("capability.unknown", "capabilities.tool", capabilities={**CAPABILITIES, "tool": {}}),
    change_opening("capability.undeclared", "capabilities.prompts", capabilities={"tools": {}, "resources": {}}),
    change_opening(
        "capability.extension_name", "extensions.skills", capabilities={**CAPABILITIES, "extensions": {"skills": {}}}
    ),
    FaultyCase("tools.twice", "name", make_definitions(tools=(GOOD_TOOL, {**GOOD_TOOL, "description": "Other."}))),
    FaultyCase("resources.twice", "uri", make_definitions(resources=(GOOD_RESOURCE, GOOD_RESOURCE))),
    FaultyCase("templates.twice", "uriTemplate", make_definitions(templates=(GOOD_TEMPLATE, GOOD_TEMPLATE))),
    FaultyCase("prompts.twice", "name", make_definitions(prompts=(GOOD_PROMPT, GOOD_PROMPT))),
    change_tool("tools.alike_case", "name", name="Add_Note"),
    change_tool("tools.same_description", "description", description=GOOD_TOOL["description"]),
    change_tool("tools.name_length", "name", name=""),
    change_tool("tools.name_length", "name", name="a" * 129),
    change_tool("tools.name_characters", "name", name="list notes"),
    change_tool("vendor.tool_name", "name", name="notes.list"),
    change_tool("vendor.tool_name", "name", name="l" * 65),
    change_tool("tools.undescribed", "description", description=...),
    change_tool("tools.undescribed", "description", description=" "),
    change_tool("tools.long_description", "description", description="Lists notes. " * 400),
    change_tool("tools.description_is_name", "description", description="List notes."),
    change_tool(
        "tools.arguments_undescribed",
        "inputSchema.properties",
        inputSchema={"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}},
    ),
    change_tool("tools.task_support", "execution.taskSupport", execution={"taskSupport": "always"}),
    make_modern(change_argument("tools.header", "", {"type": "number", "x-mcp-header": "Day"}), "inputSchema"),
    make_modern(
        change_argument("tools.secret_header", "", {"type": "string", "x-mcp-header": "Key"}, name="api_key"), "api_key"
    ),
    change_schema("schema.root_type", "inputSchema.type", type=...),
    change_schema("schema.root_type", "inputSchema.type", type="array"),
    change_tool("schema.output_root_type", "outputSchema.type", outputSchema={"type": "array", "items": {}}),
    change_argument("schema.invalid", ".type", {"type": "strin"}),
    change_argument("schema.invalid", ".required", {"type": "string", "required": True}),
    change_argument("schema.invalid", ".pattern", {"type": "string", "pattern": "("}),
    change_tool("schema.invalid", "outputSchema.properties", outputSchema={"type": "object", "properties": []}),
    change_schema("schema.dialect", "$schema", **{"$schema": "http://example.com/own"}),
    change_argument("schema.unbounded", "", nest_schema(70))._replace(place="inputSchema"),
    change_argument("schema.remote_ref", ".$ref", {"$ref": "https://example.com/day.json"}),
    change_argument("schema.dangling_ref", ".$ref", {"$ref": "#/$defs/Day"}),
    change_argument("schema.slow_pattern", ".pattern", {"type": "string", "pattern": "(?=a)b"}),
    change_argument("schema.slow_pattern", ".pattern", {"type": "string", "pattern": "(a{1000}){1000}"}),
    change_schema("schema.unknown_required", "inputSchema.required", required=["text", "day"]),
    change_schema("schema.impossible_required", "inputSchema.required", required=["day"], additionalProperties=False),
    change_argument("schema.bounds", ".minimum", {"type": "integer", "minimum": 3, "maximum": 1}),
    change_argument("schema.empty_enum", ".enum", {"type": "string", "enum": []}),
    change_argument("schema.alike_properties", "", {"type": "string"}, name="Text")._replace(
        place="inputSchema.properties"
    ),
    change_argument("schema.misspelt_keyword", ".minlength", {"type": "string", "minlength": 1}),
    change_argument("schema.openapi_keyword", ".nullable", {"type": "string", "nullable": True}),
    change_argument("schema.enum_type", ".enum[1]", {"type": "integer", "enum": ["a"]})._replace(
        place="enum[0]", rule="schema.enum_type"
    ),
    change_argument("schema.unfit_default", ".default", {"type": "string", "default": None}),
    change_argument("schema.unfit_example", ".examples[0]", {"type": "integer", "examples": ["1"]}),
    change_schema("vendor.root_union", "inputSchema.anyOf", anyOf=[{"required": ["text"]}]),
    change_argument("vendor.array_items", "", {"type": "array"}),
    change_argument("vendor.enum_numbers", ".enum", {"type": "integer", "enum": [1, 2]}),
    change_argument("vendor.untyped", "", {"description": "Anything."}),
    change_argument("vendor.property_name", "", {"type": "string"}, name="filter[day]")._replace(
        place="inputSchema.properties"
    ),
    change_argument("vendor.depth", "", nest_schema(12))._replace(place="inputSchema"),
    change_argument(
        "vendor.properties", "", {"type": "object", "properties": {f"p{at}": {"type": "string"} for at in range(5_001)}}
    )._replace(place="inputSchema"),
    change_argument("vendor.enum_size", "", {"type": "string", "enum": [str(at) for at in range(1_001)]})._replace(
        place="inputSchema"
    ),
    change_schema(
        "vendor.recursion",
        "inputSchema",
        **{"$defs": {"Note": {"type": "object", "properties": {"below": {"$ref": "#/$defs/Note"}}}}},
    ),
    FaultyCase(
        "vendor.many_tools",
        "tools/list",
        make_definitions(
            tools=tuple({**GOOD_TOOL, "name": f"add_{at}", "description": f"Adds {at}."} for at in range(129))
        ),
    ),
    change_tool("annotation.contradiction", "annotations", annotations={"readOnlyHint": True, "destructiveHint": True}),
    change_tool(
        "annotation.read_only_name", "annotations.readOnlyHint", name="delete_note", annotations={"readOnlyHint": True}
    ),
    change_tool(
        "annotation.read_only_name", "annotations.readOnlyHint", name="deleteNote", annotations={"readOnlyHint": True}
    ),
    change_tool(
        "annotation.harmless_name",
        "annotations.destructiveHint",
        name="remove_note",
        annotations={"destructiveHint": False},
    ),
    change_tool("annotation.harmless_title", "title", name="delete_note", title="Show note"),
    change_tool("annotation.other_title", "annotations.title", annotations={"title": "Delete all notes"}),
    change_tool("annotation.misspelt", "annotations.readonlyHint", annotations={"readonlyHint": True}),
    change_tool("annotation.misspelt", "annotations.destructive", annotations={"destructive": True}),
    change_icon("icon.scheme", "src", src="javascript:alert(1)"),
    change_icon("icon.plain_http", "src", src="http://example.com/i.png"),
    change_icon("icon.large", "src", src="data:image/png;base64," + "A" * 70_000),
    change_icon("icon.media_type", "mimeType", mimeType="text/html"),
    change_icon("icon.size", "sizes[0]", sizes=["48"]),
    change_icon("icon.theme", "theme", theme="blue"),
    change_icon("definition.type", "sizes", sizes="48x48"),
    change_other("resources", "resources.uri", "uri", uri="today"),
    change_other("resources", "resources.uri", "uri", uri="notes://to day"),
    change_other("resources", "resources.uri", "uri", uri="notes://%zz"),
    change_other("resources", "resources.climbing_uri", "uri", uri="file:///notes/../secret"),
    change_other("resources", "resources.size", "size", size=-1),
    change_other("resources", "resources.media_type", "mimeType", mimeType="markdown"),
    change_other("resources", "resources.audience", "annotations.audience[0]", annotations={"audience": ["model"]}),
    change_other("resources", "resources.priority", "annotations.priority", annotations={"priority": 2}),
    change_other("resources", "resources.last_modified", "lastModified", annotations={"lastModified": "yesterday"}),
    change_other("templates", "templates.syntax", "uriTemplate", uriTemplate="notes://{day"),
    change_other("templates", "templates.syntax", "uriTemplate", uriTemplate="notes://{day name}"),
    change_other("templates", "templates.scheme", "uriTemplate", uriTemplate="notes/{day}"),
    change_other("templates", "templates.no_variable", "uriTemplate", uriTemplate="notes://today"),
    change_other("prompts", "prompts.undescribed", "description", description=...),
    change_other("prompts", "prompts.argument_twice", "arguments[1].name", arguments=[{"name": "a"}, {"name": "a"}]),
    change_other("prompts", "prompts.argument_nameless", "arguments[0].name", arguments=[{"name": ""}]),
    change_other("prompts", "prompts.nameless", "name", name=""),
)
"""Each is found by ``find_definition_faults``, and nothing else is."""
