"""Rules about what a server lists: types and members, names, schemas, annotations, addresses, capabilities.

Pure functions over JSON as it came. Any member may have the wrong type, and any list any length.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, Literal

from antiphon.check.findings import Finding, ServerDefinitions, name_place
from antiphon.check.json_places import (
    FITS,
    PlacedFault,
    describe_json,
    is_list,
    is_number,
    is_object,
    join_path,
    limit_findings,
    place_faults,
    read_list,
    read_object,
    walk_json,
)  # fmt: skip
from antiphon.check.schema_faults import find_schema_faults
from antiphon.errors import RemoteProtocolError
from antiphon.host.checks.redact import names_password
from antiphon.json_schema.effort import count_members
from antiphon.protocol.http.param_headers import header_params
from antiphon.wire.revisions import find_revision

MAX_ITEMS = 2_000
"""Most items of one list that are looked at; servers with more have them generated."""
MAX_MEMBERS = 100_000
"""Most members and items within one list that are looked at, in some seconds; real lists have below 20,000."""
MANY_TOOLS = 128
"""Most tools that OpenAI and Copilot accept in one request (seen 2025-05 to 2026-07)."""
LONG = 4_000
"""Characters from which a description costs a model more than it is worth."""
_LARGE_ICON = 64 * 1024
_LONGEST_URI = 2_048

_Kind = Literal["tools", "resources", "templates", "prompts"]
_METHODS: Mapping[_Kind, tuple[str, str, str]] = {
    "tools": ("tools/list", "tools", "name"),
    "resources": ("resources/list", "resources", "uri"),
    "templates": ("resources/templates/list", "resourceTemplates", "uriTemplate"),
    "prompts": ("prompts/list", "prompts", "name"),
}
"""The method of each list, its member of the result, and the member that names an item."""

_NAMED = "name! string, title string, description string, icons icon[], _meta object"
_SHAPES: Mapping[str, str] = {
    "tools": f"{_NAMED}, inputSchema! object, outputSchema object, annotations hints, execution execution",
    "resources": f"{_NAMED}, uri! string, mimeType string, size integer, annotations audience",
    "templates": f"{_NAMED}, uriTemplate! string, mimeType string, annotations audience",
    "prompts": f"{_NAMED}, arguments argument[]",
    "hints": "title string, readOnlyHint boolean, destructiveHint boolean, idempotentHint boolean,"
    " openWorldHint boolean",
    "audience": "audience string[], priority number, lastModified string",
    "icon": "src! string, mimeType string, sizes string[], theme string",
    "argument": "name! string, title string, description string, required boolean",
    "execution": "taskSupport string",
    "capability": "listChanged boolean, subscribe boolean",
    "info": "title string, description string, websiteUrl string, icons icon[]",
}
"""The members of each object as the schemas of the protocol have them; ``!`` marks those that must be there."""
_CAPABILITIES = ("tools", "resources", "prompts", "logging", "completions", "tasks", "experimental", "extensions")
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_VENDOR_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*+:(?:[^\s\x00-\x20\x7f<>\"{}|\\^`%]|%[0-9A-Fa-f]{2})*+")
_VARIABLE = r"(?:[A-Za-z0-9_.]|%[0-9A-Fa-f]{2})++(?:\*|:[1-9][0-9]{0,3})?"
_EXPRESSION = re.compile(rf"\{{[+#./;?&]?{_VARIABLE}(?:,{_VARIABLE})*+\}}")
_SCHEME = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*+:|\{)")
_MEDIA_TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+(?:\s*;\s*[^;]+)*")
_ICON_SIZE = re.compile(r"any|\d+x\d+")
_LABEL = r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_META_KEY = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*/)?(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?)?")
_DESTRUCTIVE = re.compile(r"(?:delete|remove|drop|destroy|erase|purge|truncate|wipe|uninstall|kill|terminate)(?![a-z])")
_READING = re.compile(r"(?:get|list|read|search|find|fetch|show|view|describe|count)(?![a-z])")
_WRITING_TITLE = re.compile(r"(?:delete|remove|drop|destroy|erase|purge|write|update|send|execute)\b", re.IGNORECASE)


def find_definition_faults(definitions: ServerDefinitions) -> Iterator[Finding]:
    """Find what is wrong with the definitions of a server, at most 20 findings of each rule.

    Args:
        definitions: what it says of itself on one revision.
    """
    return limit_findings(_find_faults(definitions))


def _find_faults(definitions: ServerDefinitions) -> Iterator[Finding]:
    revision = definitions.revision
    yield from place_faults(_find_opening_faults(definitions), "opening", revision)
    for kind in _METHODS:
        yield from _find_list_faults(definitions, kind)
    if len(definitions.tools) > MANY_TOOLS:
        seen = f"{len(definitions.tools)} tools"
        yield Finding(rule="vendor.many_tools", place="tools/list", seen=seen, revision=revision)


def count_items(items: Sequence[object]) -> int:
    """Return how many items of a list are looked at, from the first."""
    left = MAX_MEMBERS
    for at, item in enumerate(items[:MAX_ITEMS]):
        left -= count_members(item, left)
        if left < 0:
            return at
    return min(len(items), MAX_ITEMS)


def list_items(definitions: ServerDefinitions, kind: _Kind) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the items of a list that are objects, as many as ``count_items`` says, with their places."""
    method, member, key = _METHODS[kind]
    items = getattr(definitions, kind)
    for at, item in enumerate(items[: count_items(items)]):
        if is_object(item):
            yield name_place(method, member, at, read_object(item).get(key)), read_object(item)


def _find_list_faults(definitions: ServerDefinitions, kind: _Kind) -> Iterator[Finding]:
    method, member, key = _METHODS[kind]
    items, revision = getattr(definitions, kind), definitions.revision
    if count_items(items) < len(items):
        yield Finding(rule="definition.list_size", place=method, seen=f"{len(items)} items", revision=revision)
    for at, item in enumerate(items[: count_items(items)]):
        if not is_object(item):
            place = name_place(method, member, at)
            yield Finding(rule="definition.entry", place=place, seen=describe_json(item), revision=revision)
    known: dict[str, set[str]] = {"key": set(), "folded": set(), "text": set()}
    for place, item in list_items(definitions, kind):
        faults = (*_find_shape_faults(kind, item, revision), *_FINDERS[kind](item, revision), *_find_meta_faults(item))
        again = _find_repetitions(kind, item.get(key), item.get("description"), known)
        yield from place_faults((*faults, *again), place, revision)


def _find_repetitions(kind: _Kind, key: object, text: object, known: dict[str, set[str]]) -> Iterator[PlacedFault]:
    """Compare an item with those before it, and note it."""
    if isinstance(key, str):
        if key in known["key"]:
            yield PlacedFault(f"{kind}.twice", _METHODS[kind][2], key)
        elif kind == "tools" and key.lower() in known["folded"]:
            yield PlacedFault("tools.alike_case", "name", key)
        known["key"].add(key)
        known["folded"].add(key.lower())
    if kind == "tools" and isinstance(text, str) and text.strip():
        if text in known["text"]:
            yield PlacedFault("tools.same_description", "description", text)
        known["text"].add(text)


def _find_shape_faults(shape: str, item: Mapping[str, Any], revision: str, path: str = "") -> Iterator[PlacedFault]:
    """Compare an object with its shape, and the objects within it."""
    for member in _SHAPES[shape].split(","):
        name, kind = member.split()
        place = join_path(path, name.removesuffix("!"))
        value = item.get(name.removesuffix("!"))
        if name.removesuffix("!") not in item:
            if name.endswith("!"):
                yield PlacedFault("definition.missing", place, "nothing")
            continue
        many = kind.endswith("[]")
        if many and not is_list(value):
            yield PlacedFault("definition.type", place, describe_json(value))
        for at, each in enumerate(read_list(value)[:MAX_ITEMS] if many else [value]):
            inner = join_path(place, at) if many else place
            fits = FITS.get(kind.removesuffix("[]"), is_object)
            if not (many and not is_list(value)) and not fits(each):
                yield PlacedFault("definition.type", inner, describe_json(each))
            elif kind.removesuffix("[]") in _SHAPES:
                yield from _find_shape_faults(kind.removesuffix("[]"), read_object(each), revision, inner)
    if shape in _INNER_FINDERS:
        yield from _INNER_FINDERS[shape](item, path)


def _find_opening_faults(definitions: ServerDefinitions) -> Iterator[PlacedFault]:
    """Find faults of the opening beyond those of the handshake, which ``opening`` finds."""
    opening = definitions.opening
    yield from _find_meta_faults(opening)
    info = read_object(opening.get("serverInfo"))
    info = info or read_object(read_object(opening.get("_meta")).get("io.modelcontextprotocol/serverInfo"))
    yield from _find_shape_faults("info", info, definitions.revision, "serverInfo")
    site = info.get("websiteUrl")
    if isinstance(site, str) and not _is_uri(site):
        yield PlacedFault("opening.website", "serverInfo.websiteUrl", site)
    if info.get("version") == "":
        yield PlacedFault("opening.version_empty", "serverInfo.version", '""')
    if is_object(capabilities := opening.get("capabilities")):
        yield from _find_capability_faults(definitions, capabilities)


def _find_capability_faults(definitions: ServerDefinitions, said: Mapping[str, Any]) -> Iterator[PlacedFault]:
    for name in ("tools", "resources", "prompts"):
        yield from _find_shape_faults(
            "capability", read_object(said.get(name)), definitions.revision, f"capabilities.{name}"
        )
    for name in islice(said, MAX_ITEMS):
        if name not in _CAPABILITIES:
            rule = "capability.client" if name in ("sampling", "roots", "elicitation") else "capability.unknown"
            yield PlacedFault(rule, join_path("capabilities", name), name)
    for kind, (_, member, _) in _METHODS.items():
        name = "resources" if kind == "templates" else kind
        if getattr(definitions, kind) and name not in said:
            yield PlacedFault(
                "capability.undeclared", join_path("capabilities", name), f"no {name}, but {member} listed"
            )
    for name in islice(read_object(said.get("extensions")), MAX_ITEMS):
        prefix, _, rest = name.partition("/")
        if not rest or not _META_KEY.fullmatch(name) or "." not in prefix:
            yield PlacedFault("capability.extension_name", join_path("capabilities.extensions", name), name)


def _find_meta_faults(item: Mapping[str, Any]) -> Iterator[PlacedFault]:
    for key in islice(read_object(item.get("_meta")), MAX_ITEMS):
        if len(key) > _LONGEST_URI or not _META_KEY.fullmatch(key):
            yield PlacedFault("definition.meta_key", join_path("_meta", key), key)


def _find_tool_faults(tool: Mapping[str, Any], revision: str) -> Iterator[PlacedFault]:
    yield from _find_text_faults(tool.get("name"), tool.get("description"))
    yield from _find_hint_faults(tool)
    known = find_revision(revision)
    for member in ("inputSchema", "outputSchema"):
        schema = tool.get(member)
        if not is_object(schema):
            continue
        kind = read_object(schema).get("type")
        free = member == "outputSchema" and known is not None and known.modern
        if kind != "object" and not free:
            rule = "schema.root_type" if member == "inputSchema" else "schema.output_root_type"
            yield PlacedFault(rule, f"{member}.type", describe_json(kind))
        for rule, path, seen in find_schema_faults(read_object(schema)):
            if member == "inputSchema" or not rule.startswith("vendor."):
                yield PlacedFault(rule, f"{member}.{path}".rstrip("."), seen)
    properties = read_object(read_object(tool.get("inputSchema")).get("properties"))
    yield from _find_undescribed_arguments({name: read_object(each) for name, each in properties.items()})
    if known is not None and known.modern:
        yield from _find_header_faults(read_object(tool.get("inputSchema")))


def _find_text_faults(name: object, text: object) -> Iterator[PlacedFault]:
    if isinstance(name, str):
        yield from _find_name_faults(name)
    if text is None or (isinstance(text, str) and not text.strip()):
        yield PlacedFault("tools.undescribed", "description", describe_json(text))
    elif isinstance(text, str) and len(text) > LONG:
        yield PlacedFault("tools.long_description", "description", f"{len(text)} characters")
    elif isinstance(text, str) and isinstance(name, str) and _join_words(text) == _join_words(name):
        yield PlacedFault("tools.description_is_name", "description", text)


def _join_words(text: str) -> str:
    return re.sub(r"[\W_]", "", text[:LONG]).lower()


def _find_name_faults(name: str) -> Iterator[PlacedFault]:
    if not 0 < len(name) <= 128:
        yield PlacedFault("tools.name_length", "name", f"{len(name)} characters")
    elif not _NAME.fullmatch(name):
        yield PlacedFault("tools.name_characters", "name", name)
    elif not _VENDOR_NAME.fullmatch(name):
        yield PlacedFault("vendor.tool_name", "name", name)


def _find_hint_faults(tool: Mapping[str, Any]) -> Iterator[PlacedFault]:
    hints, name = read_object(tool.get("annotations")), tool.get("name")
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name[:200]).lower() if isinstance(name, str) else ""
    reads = hints.get("readOnlyHint") is True
    if reads and hints.get("destructiveHint") is True:
        yield PlacedFault("annotation.contradiction", "annotations", "readOnlyHint and destructiveHint")
    if _DESTRUCTIVE.match(words) and reads:
        yield PlacedFault("annotation.read_only_name", "annotations.readOnlyHint", words)
    if _DESTRUCTIVE.match(words) and not reads and hints.get("destructiveHint") is False:
        yield PlacedFault("annotation.harmless_name", "annotations.destructiveHint", words)
    for said, place in ((tool.get("title"), "title"), (hints.get("title"), "annotations.title")):
        if isinstance(said, str) and _DESTRUCTIVE.match(words) and _READING.match(said.lower()):
            yield PlacedFault("annotation.harmless_title", place, said)
        if isinstance(said, str) and _READING.match(words) and _WRITING_TITLE.match(said):
            yield PlacedFault("annotation.other_title", place, said)
    known = {"title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}
    for hint in islice(hints, MAX_ITEMS):
        alike = _join_words(hint)
        if hint not in known and any(alike in (one.lower(), one.lower().removesuffix("hint")) for one in known):
            yield PlacedFault("annotation.misspelt", join_path("annotations", hint), hint)
    support = read_object(tool.get("execution")).get("taskSupport")
    if isinstance(support, str) and support not in ("forbidden", "optional", "required"):
        yield PlacedFault("tools.task_support", "execution.taskSupport", support)


def _find_undescribed_arguments(arguments: Mapping[str, Mapping[str, Any]]) -> Iterator[PlacedFault]:
    says = {"description", "title", "$ref", "enum"}
    if len(arguments) > 1 and not any(says & each.keys() for each in arguments.values()):
        yield PlacedFault("tools.arguments_undescribed", "inputSchema.properties", ", ".join([*arguments][:10]))


def _find_header_faults(schema: Mapping[str, Any]) -> Iterator[PlacedFault]:
    headed = [(path, node) for path, node in walk_json(schema) if "x-mcp-header" in read_object(node)]
    for path, _ in headed:
        if names_password(path.rpartition(".")[2]):
            yield PlacedFault("tools.secret_header", f"inputSchema.{path}", path.rpartition(".")[2])
    try:
        if headed:
            header_params(schema)
    except RemoteProtocolError as error:
        yield PlacedFault("tools.header", "inputSchema", str(error))


def _find_resource_faults(item: Mapping[str, Any], revision: str) -> Iterator[PlacedFault]:
    uri, size = item.get("uri"), item.get("size")
    if isinstance(uri, str) and not _is_uri(uri):
        yield PlacedFault("resources.uri", "uri", uri)
    elif isinstance(uri, str) and re.search(r"(?:^|[/\\])\.\.(?:[/\\]|$)", uri):
        yield PlacedFault("resources.climbing_uri", "uri", uri)
    if is_number(size) and size < 0:
        yield PlacedFault("resources.size", "size", describe_json(size))
    yield from _find_media_faults(item)


def _find_template_faults(item: Mapping[str, Any], revision: str) -> Iterator[PlacedFault]:
    template = item.get("uriTemplate")
    if isinstance(template, str):
        rest, variables = _EXPRESSION.subn("", template[:_LONGEST_URI])
        if len(template) > _LONGEST_URI or re.search(r"[{}\s\"<>\\^`|]", rest):
            yield PlacedFault("templates.syntax", "uriTemplate", template)
        elif not _SCHEME.match(template):
            yield PlacedFault("templates.scheme", "uriTemplate", template)
        elif not variables:
            yield PlacedFault("templates.no_variable", "uriTemplate", template)
    yield from _find_media_faults(item)


def _find_media_faults(item: Mapping[str, Any]) -> Iterator[PlacedFault]:
    kind = item.get("mimeType")
    if isinstance(kind, str) and (len(kind) > 256 or not _MEDIA_TYPE.fullmatch(kind)):
        yield PlacedFault("resources.media_type", "mimeType", kind)


def _find_prompt_faults(item: Mapping[str, Any], revision: str) -> Iterator[PlacedFault]:
    if not item.get("description"):
        yield PlacedFault("prompts.undescribed", "description", describe_json(item.get("description")))
    names: set[str] = set()
    for at, argument in enumerate(read_list(item.get("arguments"))[:MAX_ITEMS]):
        name = read_object(argument).get("name")
        place = join_path(join_path("arguments", at), "name")
        if isinstance(name, str) and name in names:
            yield PlacedFault("prompts.argument_twice", place, name)
        elif name == "":
            yield PlacedFault("prompts.argument_nameless", place, '""')
        names |= {name} if isinstance(name, str) else set()
    if item.get("name") == "":
        yield PlacedFault("prompts.nameless", "name", '""')


def _find_audience_faults(item: Mapping[str, Any], path: str) -> Iterator[PlacedFault]:
    for at, who in enumerate(read_list(item.get("audience"))[:MAX_ITEMS]):
        if isinstance(who, str) and who not in ("user", "assistant"):
            yield PlacedFault("resources.audience", f"{path}.audience[{at}]", who)
    priority, modified = item.get("priority"), item.get("lastModified")
    if is_number(priority) and not 0 <= priority <= 1:
        yield PlacedFault("resources.priority", f"{path}.priority", describe_json(priority))
    if isinstance(modified, str):
        try:
            datetime.fromisoformat(modified)
        except ValueError:
            yield PlacedFault("resources.last_modified", f"{path}.lastModified", modified)


def _find_icon_faults(item: Mapping[str, Any], path: str) -> Iterator[PlacedFault]:
    source, kind, theme = item.get("src"), item.get("mimeType"), item.get("theme")
    if isinstance(source, str):
        scheme = source[:20].partition(":")[0].lower()
        if scheme not in ("https", "http", "data"):
            yield PlacedFault("icon.scheme", f"{path}.src", source)
        elif scheme == "http":
            yield PlacedFault("icon.plain_http", f"{path}.src", source)
        elif scheme == "data" and len(source) > _LARGE_ICON:
            yield PlacedFault("icon.large", f"{path}.src", f"{len(source)} characters")
    if isinstance(kind, str) and not kind.startswith("image/"):
        yield PlacedFault("icon.media_type", f"{path}.mimeType", kind)
    for at, size in enumerate(read_list(item.get("sizes"))[:MAX_ITEMS]):
        if isinstance(size, str) and not _ICON_SIZE.fullmatch(size):
            yield PlacedFault("icon.size", f"{path}.sizes[{at}]", size)
    if isinstance(theme, str) and theme not in ("light", "dark"):
        yield PlacedFault("icon.theme", f"{path}.theme", theme)


def _is_uri(text: str) -> bool:
    return len(text) <= _LONGEST_URI and _URI.fullmatch(text) is not None


_FINDERS: Mapping[_Kind, Callable[[Mapping[str, Any], str], Iterator[PlacedFault]]] = {
    "tools": _find_tool_faults,
    "resources": _find_resource_faults,
    "templates": _find_template_faults,
    "prompts": _find_prompt_faults,
}
_INNER_FINDERS: Mapping[str, Callable[[Mapping[str, Any], str], Iterator[PlacedFault]]] = {
    "audience": _find_audience_faults,
    "icon": _find_icon_faults,
}
