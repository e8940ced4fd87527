"""Validation of a sampling request: the protocol's rules, bounds on its size, and what its images and audio contain.

Pure. Owns the formats of media that a host accepts: it reads headers, never pixels or samples. ``policy`` has the
user's rules; ``risk`` finds what is legal but suspicious; ``wire.sampling`` checks the use of tools, and how many of
everything a request holds. Source: 2025-11-25 client/sampling ("Error Handling"), and the schema of that revision.
"""

from __future__ import annotations

import binascii
from typing import NamedTuple

from msgspec import structs

from antiphon.host.checks.message_parts import list_binaries, list_texts, message_blocks
from antiphon.wire import content, sampling
from antiphon.wire.envelope import encode_value, too_deep

MAX_TEXT = 10 * 1024 * 1024
"""Most bytes of all text together: ten times the context of the largest models of 2026, at four bytes a token."""
MAX_MEDIA = 20 * 1024 * 1024
"""Most bytes of all media together, decoded: what vendors accept in one request."""
MAX_JSON_DEPTH = 64
"""Deepest nesting of one JSON value in a request (a schema, an input): half of what a whole frame may have."""

_SHOWN_BLOCKS = (content.TextContent, content.ImageContent, content.AudioContent)
_RESULT_BLOCKS = (*_SHOWN_BLOCKS, content.ResourceLink, content.EmbeddedResource)
_ANSWER_BLOCKS = (*_SHOWN_BLOCKS, content.ToolUseContent)
_TOP_BLOCKS = (*_ANSWER_BLOCKS, content.ToolResultContent)


def validate_request(params: sampling.CreateMessageRequestParams) -> None:
    """Check a request; raise ``InvalidParams``, which names the place, if it is not valid."""
    sampling.check_counts(params)
    _check_numbers(params)
    _check_tools(params)
    for at, message in enumerate(params.messages):
        _check_message(message, f"messages[{at}]")
    sampling.check_conversation(params.messages)
    _check_contents(params)


def validate_result(result: sampling.CreateMessageResult, params: sampling.CreateMessageRequestParams) -> None:
    """Check an answer; ``InvalidParams`` names the place. It is our mistake, so the server must not get this error."""
    if result.role != "assistant":
        sampling.refuse_place("role", 'an answer comes from the "assistant"')
    names: dict[str, object] = {"model": result.model, "stopReason": result.stop_reason or ""}
    for name, value in names.items():
        if not isinstance(value, str):
            sampling.refuse_place(name, "not a string")
    if not result.blocks:
        sampling.refuse_place("content", "empty")
    offered = {tool.name for tool in params.tools or ()}
    for place, block in message_blocks(result, ""):
        if not isinstance(block, _ANSWER_BLOCKS):
            sampling.refuse_place(place, "not a kind of content an answer may have")
        if isinstance(block, content.ToolUseContent) and block.name not in offered:
            sampling.refuse_place(f"{place}.name", "a tool that was not offered")
        if isinstance(block, content.ToolUseContent):
            _check_depth(f"{place}.input", block.input)
    _check_contents(result)


def separate_uses(result: sampling.CreateMessageResult) -> sampling.CreateMessageResult:
    """Return an answer in which each use of a tool has an id of its own: some models give several the same, or none."""
    blocks = list(result.blocks)
    taken = {""}
    for at, block in enumerate(result.blocks):
        if isinstance(block, content.ToolUseContent):
            id = block.id
            if id in taken:
                id = f"{id or block.name}-{at}"
                while id in taken:
                    id += "-"
                blocks[at] = structs.replace(block, id=id)
            taken.add(id)
    return result if blocks == list(result.blocks) else structs.replace(result, content=blocks)


def _check_numbers(params: sampling.CreateMessageRequestParams) -> None:
    if params.temperature is not None and not abs(params.temperature) < 1e300:
        sampling.refuse_place("temperature", "must be a finite number")
    for name in ("cost", "speed", "intelligence"):
        value: float | None = getattr(params.model_preferences, f"{name}_priority", None)
        # Schema: minimum 0, maximum 1. The comparison is false for not-a-number as well.
        if value is not None and not 0 <= value <= 1:
            sampling.refuse_place(f"modelPreferences.{name}Priority", "must be from 0 to 1")


def _check_tools(params: sampling.CreateMessageRequestParams) -> None:
    seen: set[str] = set()
    for at, tool in enumerate(params.tools or ()):
        if not tool.name or tool.name in seen:
            sampling.refuse_place(f"tools[{at}].name", "a second tool of this name" if tool.name else "empty")
        seen.add(tool.name)
        _check_depth(f"tools[{at}]", tool)
    if params.tool_choice is not None and params.tool_choice.mode == "required" and not params.tools:
        sampling.refuse_place("toolChoice.mode", '"required", but there are no tools')
    if params.metadata is not None:
        _check_depth("metadata", params.metadata)


def _check_message(message: sampling.SamplingMessage, place: str) -> None:
    if not message.blocks:
        sampling.refuse_place(f"{place}.content", "empty")
    for where, block in message_blocks(message, place):
        if not isinstance(block, _TOP_BLOCKS):
            sampling.refuse_place(where, "content of a kind that sampling does not have")
        if isinstance(block, content.ToolUseContent):
            _check_depth(f"{where}.input", block.input)
        if isinstance(block, content.ToolResultContent):
            _check_tool_result(where, block)


def _check_tool_result(place: str, result: content.ToolResultContent) -> None:
    if len(result.content) > sampling.MAX_BLOCKS:
        sampling.refuse_place(f"{place}.content", f"more than {sampling.MAX_BLOCKS} blocks")
    for at, block in enumerate(result.content):
        if not isinstance(block, _RESULT_BLOCKS):
            sampling.refuse_place(f"{place}.content[{at}]", "content of a kind that tool results do not have")
    _check_depth(f"{place}.structuredContent", result.structured_content)


def _check_contents(asked: sampling.CreateMessageRequestParams | sampling.CreateMessageResult) -> None:
    size = 0
    for place, text in list_texts(asked):
        # A text has at least as many bytes as characters, so one that is too long need not be encoded.
        size += len(text) if len(text) > MAX_TEXT else len(text.encode("utf-8", "surrogatepass"))
        if size > MAX_TEXT:
            sampling.refuse_place(place, f"more than {MAX_TEXT} bytes of text in one request")
    size = 0
    for place, data, mime_type, playable in list_binaries(asked):
        # Four characters of base64 are three bytes, so what is too large is refused without decoding it.
        size += len(data) * 3 // 4
        if size > MAX_MEDIA:
            sampling.refuse_place(place, f"more than {MAX_MEDIA} bytes of media in one request")
        _check_binary(place, data, mime_type, playable)


def _check_binary(place: str, data: str, mime_type: str, playable: bool) -> None:
    try:
        if playable:
            inspect_media(data, mime_type)
        else:
            binascii.a2b_base64(data, strict_mode=True)
    except binascii.Error:
        sampling.refuse_place(place, "not valid base64")
    except ValueError as error:
        sampling.refuse_place(place, str(error))


def _check_depth(place: str, value: object) -> None:
    try:
        deep = too_deep(encode_value(value), MAX_JSON_DEPTH)
    except (RecursionError, TypeError, ValueError, OverflowError):
        sampling.refuse_place(place, "not JSON, or nested too deep")
    if deep:
        sampling.refuse_place(place, f"JSON nested deeper than {MAX_JSON_DEPTH}")


MAX_PIXELS = 64_000_000
"""Most pixels of an image: twice a 32-megapixel camera. An image of 30,000 x 30,000 would unpack to 3.6 GB."""

_ALIASES = {
    "image/jpg": "image/jpeg",
    "audio/mp3": "audio/mpeg",
    "audio/x-wav": "audio/wav",
    "audio/wave": "audio/wav",
    "audio/vnd.wave": "audio/wav",
    "audio/x-flac": "audio/flac",
    "audio/opus": "audio/ogg",
    "audio/m4a": "audio/mp4",
    "audio/x-m4a": "audio/mp4",
}


class Media(NamedTuple):
    """The properties of an image or a sound."""

    mime_type: str
    """By its content, not by the declared type."""
    size: int
    """Size in bytes, decoded from base64."""
    pixels: int
    """Width times height; 0 for audio, or if the header does not say."""


def inspect_media(data: str, declared: str) -> Media:
    """Return the properties of base64 data; raise ``ValueError`` unless its format is accepted and declared."""
    try:
        raw = binascii.a2b_base64(data, strict_mode=True)
    except (binascii.Error, ValueError):
        raise ValueError("not valid base64") from None
    actual = _sniff_type(raw)
    if actual is None:
        raise ValueError("not in an accepted format (png, jpeg, gif, webp; wav, mp3, ogg, flac, aac, mp4, webm)")
    said = declared.partition(";")[0].strip().lower()
    if _ALIASES.get(said, said) != actual:
        raise ValueError(f"declared as another type than its content, which is {actual}")
    pixels = _count_pixels(raw, actual)
    if pixels > MAX_PIXELS:
        raise ValueError(f"a picture of more than {MAX_PIXELS} pixels")
    return Media(actual, len(raw), pixels)


_MAGIC: tuple[tuple[int, bytes, str], ...] = (
    (0, b"\x89PNG\r\n\x1a\n", "image/png"),
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, b"GIF87a", "image/gif"),
    (0, b"GIF89a", "image/gif"),
    (8, b"WEBP", "image/webp"),
    (8, b"WAVE", "audio/wav"),
    (0, b"ID3", "audio/mpeg"),
    (0, b"OggS", "audio/ogg"),
    (0, b"fLaC", "audio/flac"),
    (4, b"ftypM4A", "audio/mp4"),
    (4, b"ftypmp42", "audio/mp4"),
    (4, b"ftypisom", "audio/mp4"),
    (0, b"\x1aE\xdf\xa3", "audio/webm"),
)


def _sniff_type(raw: bytes) -> str | None:
    for offset, magic, mime_type in _MAGIC:
        if raw[offset : offset + len(magic)] == magic and (offset != 8 or raw[:4] == b"RIFF"):
            return mime_type
    # MPEG audio without a tag starts with a frame of eleven set bits; layer bits 00 occur in AAC (ADTS) only.
    if len(raw) > 3 and raw[0] == 0xFF and raw[1] & 0xE0 == 0xE0:
        return "audio/mpeg" if raw[1] & 0x06 else "audio/aac"
    return None


def _count_pixels(raw: bytes, mime_type: str) -> int:
    if mime_type == "image/png":
        return int.from_bytes(raw[16:20], "big") * int.from_bytes(raw[20:24], "big")
    if mime_type == "image/gif":
        return int.from_bytes(raw[6:8], "little") * int.from_bytes(raw[8:10], "little")
    if mime_type == "image/webp":
        return _webp_pixels(raw)
    return _jpeg_pixels(raw) if mime_type == "image/jpeg" else 0


def _webp_pixels(raw: bytes) -> int:
    kind = raw[12:16]
    if kind == b"VP8X":
        return (int.from_bytes(raw[24:27], "little") + 1) * (int.from_bytes(raw[27:30], "little") + 1)
    if kind == b"VP8L":
        bits = int.from_bytes(raw[21:25], "little")
        return ((bits & 0x3FFF) + 1) * ((bits >> 14 & 0x3FFF) + 1)
    if kind == b"VP8 ":
        return (int.from_bytes(raw[26:28], "little") & 0x3FFF) * (int.from_bytes(raw[28:30], "little") & 0x3FFF)
    return 0


def _jpeg_pixels(raw: bytes) -> int:
    """Walk the segments of a JPEG up to its frame header (ITU-T T.81, annex B)."""
    at = 2
    while at + 9 <= len(raw) and raw[at] == 0xFF:
        marker = raw[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return int.from_bytes(raw[at + 5 : at + 7], "big") * int.from_bytes(raw[at + 7 : at + 9], "big")
        at += 2 + max(2, int.from_bytes(raw[at + 2 : at + 4], "big"))
    return 0
