"""Rules about what in a server's definitions could mislead a person or a model, or give something away.

The patterns are those of ``host.checks``, which the host applies to each call as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from antiphon.check.definition_faults import list_items
from antiphon.check.findings import Finding, ServerDefinitions
from antiphon.check.json_places import (
    JsonText,
    PlacedFault,
    describe_json,
    limit_findings,
    list_json_texts,
    place_faults,
    read_object,
)  # fmt: skip
from antiphon.host.checks.redact import find_secrets, names_password
from antiphon.host.checks.risk import list_instruction_kinds
from antiphon.host.checks.visible import blank_runs, count_hidden, find_lookalikes
from antiphon.host.review.definitions import keep_defining_part
from antiphon.host.review.review import digest
from antiphon.wire.tools import Tool

MAX_TEXT = 1_000_000
"""Most characters of all definitions that are searched, in about a second; real lists have below 200,000."""
MAX_TOOL_TOKENS, MAX_LIST_TOKENS = 4_000, 20_000
"""Most tokens of one tool, and of all tools: a model reads them with every request."""
_IN_A_TOKEN = 4
"""Characters of a token of English text."""
_FOR_MODELS = ("name", "description", "inputSchema", "instructions")
_HIDDEN_RULES = {"bidi": "bidirectional", "tag": "smuggled", "variation": "smuggled", "control": "control"}
_ENCODED = re.compile(r"(?<![A-Za-z0-9+/=,])(?=[A-Za-z0-9+/]*\d)(?=[A-Za-z0-9+/]*[A-Z])[A-Za-z0-9+/]{160,}={0,2}")
_ADDRESS = re.compile(r"https?://[^\s\"'<>)\]`]{1,2000}", re.IGNORECASE)
_GAP = re.compile(r"[?&][^=&#\s]{1,80}=(?:\{|\$|%7B|\[)", re.IGNORECASE)
_COLLECTOR = re.compile(
    r"https?://(?:[\w.-]+\.)?(?:webhook\.site|requestbin\.\w+|pipedream\.net|ngrok\.(?:io|app)|ngrok-free\.app|oast\.\w+|interact\.sh"
    r"|burpcollaborator\.net|trycloudflare\.com|beeceptor\.com|requestcatcher\.com|hookdeck\.com)(?![\w.-])",
    re.IGNORECASE,
)
"""Hosts that anybody can receive requests at."""
_NUMBERED = re.compile(
    r"https?://(?!127\.|0\.0\.0\.0|10\.|192\.168\.|172\.(?:1[6-9]|2\d|3[01])\.)\d{1,3}(?:\.\d{1,3}){3}(?![\w.])"
)
_CONVERSATION = re.compile(
    r"(?:conversation|chat|message|dialog(?:ue)?)_?(?:history|log|transcript)|system_?prompt"
    r"|(?:full|entire|whole)_?(?:conversation|context|chat)",
    re.IGNORECASE,
)
_KNOWN_SERVERS = re.findall(
    r"\w+",
    "github gitlab slack notion stripe linear jira atlassian figma sentry supabase cloudflare vercel paypal gmail"
    " google dropbox playwright filesystem postgres memory fetch brave firecrawl context7 huggingface openai anthropic",
)
"""Names that a server may imitate."""
_TWINS = str.maketrans("0134578\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455", "oleastbaeopcyxijs")
"""Digits and Cyrillic letters, and what they are read as (Unicode Technical Standard 39)."""


def find_deceptions(definitions: ServerDefinitions, allowed: Mapping[str, str] | None = None) -> Iterator[Finding]:
    """Find what in the definitions of a server could mislead, at most 20 findings of each rule.

    Args:
        definitions: what it says of itself on one revision.
        allowed: the hashes of the definitions of its tools as they were allowed before, by the names of the tools.
    """
    return limit_findings(_find_deceptions(definitions, allowed or {}))


def _find_deceptions(definitions: ServerDefinitions, allowed: Mapping[str, str]) -> Iterator[Finding]:
    revision, left = definitions.revision, MAX_TEXT
    skeletons: dict[str, str] = {}
    tokens = 0
    for place, item, kind in _list_places(definitions):
        texts = list[JsonText]()
        for text in list_json_texts({name: each for name, each in item.items() if name != "icons"}):
            texts.append(text)
            left -= len(text.text)
            if left < 0:
                yield Finding(rule="deception.unsearched", place=place, seen="too much text", revision=revision)
                return
        # A model gets names, descriptions and input schemas; hosts keep the rest.
        size = sum(len(text.text) for text in texts if text.path.startswith(_FOR_MODELS)) // _IN_A_TOKEN
        tokens += size if kind == "tools" else 0
        faults = [fault for text in texts for fault in _find_text_faults(text, is_opening=kind == "opening")]
        if kind == "tools":
            faults += _find_tool_faults(item, skeletons)
            faults += _find_changes(item, allowed)
        if size > MAX_TOOL_TOKENS:
            faults.append(PlacedFault("size.definition", "", f"about {size} tokens"))
        yield from place_faults(faults, place, revision)
    yield from place_faults(_find_name_faults(definitions), "opening", revision)
    if tokens > MAX_LIST_TOKENS:
        yield Finding(rule="size.tools", place="tools/list", seen=f"about {tokens} tokens", revision=revision)


def _list_places(definitions: ServerDefinitions) -> Iterator[tuple[str, Mapping[str, Any], str]]:
    opening = {
        name: definitions.opening[name] for name in ("serverInfo", "instructions") if name in definitions.opening
    }
    yield "opening", opening, "opening"
    for kind in ("tools", "resources", "templates", "prompts"):
        for place, item in list_items(definitions, kind):
            yield place, item, kind


def _find_text_faults(leaf: JsonText, *, is_opening: bool) -> Iterator[PlacedFault]:
    path, text, is_name = leaf
    for order in sorted(list_instruction_kinds(text)):
        # Instructions of a server are for the model, and so is what an argument must have.
        if not (is_opening and order == "steering") and (order != "order" or path == "description"):
            yield PlacedFault(f"deception.{order}", path, text)
    for kind in count_hidden(text):
        name = _HIDDEN_RULES.get(kind, "invisible")
        yield PlacedFault(
            "deception.escape" if "\x1b" in text and name == "control" else f"deception.{name}", path, text
        )
    if blank_runs(text):
        yield PlacedFault("deception.blank_room", path, f"{len(text)} characters")
    for start, end in find_lookalikes(text):
        yield PlacedFault("deception.lookalike", path, text[start:end])
    for secret in find_secrets(text):
        yield PlacedFault("deception.secret", path, secret.kind)
    if not is_name:
        yield from _find_address_faults(path, text)
        begin = text.find("<!--")
        if begin >= 0 and (end := text.find("-->", begin)) > 0:
            yield PlacedFault("deception.comment", path, text[begin : end + 3])
        if found := _ENCODED.search(text):
            yield PlacedFault("deception.encoded", path, found[0])


def _find_address_faults(path: str, text: str) -> Iterator[PlacedFault]:
    for found in _ADDRESS.finditer(text):
        if _COLLECTOR.match(found[0]):
            yield PlacedFault("deception.collector", path, found[0])
        elif _NUMBERED.match(found[0]):
            yield PlacedFault("deception.numeric_address", path, found[0])
        elif _GAP.search(found[0]) and text[max(found.start() - 2, 0) : found.start()] == "](":
            yield PlacedFault("deception.leaking_image", path, found[0])


def _find_tool_faults(tool: Mapping[str, Any], skeletons: dict[str, str]) -> Iterator[PlacedFault]:
    name = tool.get("name")
    if isinstance(name, str):
        skeleton = re.sub(r"[\W_]", "", _reduce_name(name))
        if skeleton and skeletons.setdefault(skeleton, name) != name and skeletons[skeleton].lower() != name.lower():
            yield PlacedFault("deception.alike_names", "name", f"{name}, {skeletons[skeleton]}")
    for argument in read_object(read_object(tool.get("inputSchema")).get("properties")):
        path = f"inputSchema.properties.{argument[:80]}"
        if names_password(argument):
            yield PlacedFault("deception.secret_argument", path, argument)
        elif _CONVERSATION.fullmatch(argument[:80]):
            yield PlacedFault("deception.conversation_argument", path, argument)


def _find_changes(tool: Mapping[str, Any], allowed: Mapping[str, str]) -> Iterator[PlacedFault]:
    name = tool.get("name")
    before = allowed.get(name) if isinstance(name, str) else None
    if before is not None and hash_definition(tool) != before:
        yield PlacedFault("deception.changed", "", describe_json(name))


def hash_definition(tool: Mapping[str, Any]) -> str:
    """Return the hash of a definition as a host keeps it when a tool is allowed; empty if it is no tool.

    Args:
        tool: the definition as it came.
    """
    try:
        return digest(keep_defining_part(msgspec.convert(tool, Tool)))
    except (msgspec.ValidationError, ValueError, RecursionError):
        return ""


def _find_name_faults(definitions: ServerDefinitions) -> Iterator[PlacedFault]:
    name = read_object(definitions.opening.get("serverInfo")).get("name")
    words = re.findall(r"[^\W_]+", name[:200]) if isinstance(name, str) else ()
    known = {_reduce_name(one) for one in _KNOWN_SERVERS}
    for word in words:
        if word.lower() not in _KNOWN_SERVERS and _reduce_name(word) in known:
            yield PlacedFault("deception.server_name", "serverInfo.name", str(name))


def _reduce_name(name: str) -> str:
    """Return a name as a hurried reader sees it."""
    return name[:200].lower().translate(_TWINS).replace("rn", "m").replace("i", "l")
