"""How each revision states its differences from the next newer one, and the conversions that are made from them.

The differences themselves are in the modules of the revisions. Owns which types contain which others (``NESTED``), and
makes one function for each type that differs; a type without a function needs no conversion.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from antiphon.errors import NotInRevision
from antiphon.wire import common, completion, content, lifecycle, prompts, resources, roots, sampling, skills, tools
from antiphon.wire.common import Wire
from antiphon.wire.content import TextContent
from antiphon.wire.envelope import encode_value
from antiphon.wire.tools import CallToolResult

Change = Callable[[Any, str], Any]
"""Converts a value to what the named revision can carry, or raises ``NotInRevision``."""


class Difference(Struct, frozen=True, kw_only=True):
    """What one revision cannot carry of what the next newer one can."""

    lacks: Mapping[type[Wire], tuple[str, ...]] = {}
    """Attributes that only describe: they are left out."""
    refuses: Mapping[type[Wire], str] = {}
    """Types that do not exist, with their name for error messages: leaving them out would change the meaning."""
    changes: Mapping[type[Wire], Change] = {}
    """All other conversions."""


def not_in(thing: str, revision: str) -> NotInRevision:
    """Make the error for what a revision cannot carry."""
    return NotInRevision(f"{thing} cannot be sent: protocol revision {revision} has no such thing")


def drop_structure(result: CallToolResult, _revision: str) -> CallToolResult:
    """Leave out structured content; if the result has nothing else, convert it to text so that it is not lost."""
    if result.structured_content is None:
        return result
    content = result.content or [TextContent(text=encode_value(result.structured_content).decode())]
    return replace(result, structured_content=None, content=content)


W = TypeVar("W", bound=Wire)

Conversion = Callable[[Any], Any]
Types = tuple[type[Wire], ...]

_SEQUENCES = (list, tuple)

_BLOCKS: Types = (
    content.TextContent,
    content.ImageContent,
    content.AudioContent,
    content.ResourceLink,
    content.EmbeddedResource,
)
_SAMPLING_BLOCKS: Types = (
    content.TextContent,
    content.ImageContent,
    content.AudioContent,
    content.ToolUseContent,
    content.ToolResultContent,
)
_ANNOTATED: Mapping[str, Types] = {"annotations": (common.Annotations,)}

NESTED: Mapping[type[Wire], Mapping[str, Types]] = {
    common.ClientCapabilities: {"roots": (common.RootsCapability,)},
    common.RequestMeta: {"client_capabilities": (common.ClientCapabilities,), "client_info": (common.Implementation,)},
    completion.CompleteRequestParams: {"ref": (completion.PromptReference,)},
    content.TextContent: _ANNOTATED,
    content.ImageContent: _ANNOTATED,
    content.AudioContent: _ANNOTATED,
    content.ResourceLink: _ANNOTATED,
    content.EmbeddedResource: {**_ANNOTATED, "resource": (content.ResourceContents,)},
    content.ToolResultContent: {"content": _BLOCKS},
    lifecycle.DiscoverResult: {"capabilities": (lifecycle.ServerCapabilities,)},
    lifecycle.InitializeRequestParams: {
        "capabilities": (common.ClientCapabilities,),
        "client_info": (common.Implementation,),
    },
    lifecycle.InitializeResult: {
        "capabilities": (lifecycle.ServerCapabilities,),
        "server_info": (common.Implementation,),
    },
    prompts.GetPromptResult: {"messages": (prompts.PromptMessage,)},
    prompts.ListPromptsResult: {"prompts": (prompts.Prompt,)},
    prompts.Prompt: {"arguments": (prompts.PromptArgument,)},
    prompts.PromptMessage: {"content": _BLOCKS},
    resources.ListResourceTemplatesResult: {"resource_templates": (resources.ResourceTemplate,)},
    resources.ListResourcesResult: {"resources": (resources.Resource,)},
    resources.ReadResourceResult: {"contents": (content.ResourceContents,)},
    resources.Resource: _ANNOTATED,
    resources.ResourceTemplate: _ANNOTATED,
    roots.ListRootsResult: {"roots": (roots.Root,)},
    sampling.CreateMessageRequestParams: {"messages": (sampling.SamplingMessage,), "tools": (tools.Tool,)},
    sampling.CreateMessageResult: {"content": _SAMPLING_BLOCKS},
    sampling.SamplingMessage: {"content": _SAMPLING_BLOCKS},
    skills.ReadDirectoryResult: {"resources": (resources.Resource,)},
    tools.CallToolResult: {"content": _BLOCKS},
    tools.ListToolsResult: {"tools": (tools.Tool,)},
}
"""Attributes whose values some revision carries differently, with the types that these values may have."""


class Lowering:
    """Converts messages to what one revision can carry.

    Members that only describe are left out. A value that needs no change is returned itself. ``RequestMeta`` in params
    is not changed, since only the session makes it.
    """

    __slots__ = ("_conversions", "_differences", "_revision")

    def __init__(self, revision: str, differences: Sequence[Difference]) -> None:
        self._revision = revision
        self._differences = differences
        self._conversions: Mapping[type, Conversion] | None = None

    def convert(self, value: W) -> W:
        """Convert a value; ``NotInRevision`` if leaving something out would change the meaning."""
        table = self._conversions
        if table is None:
            table = self._conversions = make_conversions(self._revision, self._differences)
        convert = table.get(type(value))
        return value if convert is None else convert(value)


def make_conversions(revision: str, differences: Sequence[Difference]) -> Mapping[type, Conversion]:
    """Make the functions for a revision from its differences and those of all newer revisions, the newest first."""
    made: dict[type, Conversion] = {}
    settled: set[type] = set()

    def settle(kind: type[Wire]) -> bool:
        if kind not in settled:
            settled.add(kind)
            nested = tuple(name for name, kinds in NESTED.get(kind, {}).items() if any(settle(one) for one in kinds))
            conversion = _make_conversion(kind, revision, differences, nested, made)
            if conversion is not None:
                made[kind] = conversion
        return kind in made

    for difference in differences:
        for kind in (*difference.lacks, *difference.refuses, *difference.changes):
            settle(kind)
    for kind in NESTED:
        settle(kind)
    return made


def _make_conversion(
    kind: type[Wire],
    revision: str,
    differences: Sequence[Difference],
    nested: tuple[str, ...],
    made: Mapping[type, Conversion],
) -> Conversion | None:
    refused = next((each.refuses[kind] for each in differences if kind in each.refuses), None)
    if refused is not None:
        return partial(_refuse_value, refused, revision)
    lacks = tuple(dict.fromkeys(name for each in differences for name in each.lacks.get(kind, ())))
    changes = tuple(each.changes[kind] for each in differences if kind in each.changes)
    if not (lacks or changes or nested):
        return None
    return partial(_convert_value, lacks, nested, changes, revision, made)


def _convert_value(
    lacks: tuple[str, ...],
    nested: tuple[str, ...],
    changes: Sequence[Change],
    revision: str,
    made: Mapping[type, Conversion],
    value: Any,
) -> Any:
    changed: dict[str, Any] = {}
    for name in lacks:
        if getattr(value, name) is not None:
            changed[name] = None
    for name in nested:
        inner: Any = getattr(value, name)
        # ``isinstance`` would make the type checker lose the type of the items.
        if issubclass(inner.__class__, _SEQUENCES):
            lowered = _convert_each(inner, made)
        elif (inward := made.get(inner.__class__)) is not None:
            lowered = inward(inner)
        else:
            continue
        if lowered is not inner:
            changed[name] = lowered
    if changed:
        value = replace(value, **changed)
    for change in changes:
        value = change(value, revision)
    return value


def _refuse_value(thing: str, revision: str, _value: Any) -> Any:
    raise not_in(thing, revision)


def _convert_each(items: Sequence[Any], made: Mapping[type, Conversion]) -> Sequence[Any]:
    """Convert the items that need it; if none does, return the same sequence."""
    lowered: list[Any] | None = None
    for place, item in enumerate(items):
        convert = made.get(item.__class__)
        if convert is not None and (new := convert(item)) is not item:
            lowered = lowered or [*items]
            lowered[place] = new
    return items if lowered is None else lowered
