"""Images and audio by their contents: the format of the bytes, and the number of pixels when decoded.

Owns the formats a host accepts. It decodes base64 and reads headers, never pixels or samples.
"""

from __future__ import annotations

import binascii
from typing import NamedTuple

__all__ = ["MAX_PIXELS", "Media", "inspect_media"]

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
    """Decode base64 and determine the format.

    Raises:
        ValueError: it is not base64, has no accepted format, not the declared type, or too many pixels.
    """
    try:
        raw = binascii.a2b_base64(data, strict_mode=True)
    except (binascii.Error, ValueError):
        raise ValueError("not valid base64") from None
    actual = _sniff(raw)
    if actual is None:
        raise ValueError("not in an accepted format (png, jpeg, gif, webp; wav, mp3, ogg, flac, aac, mp4, webm)")
    said = declared.partition(";")[0].strip().lower()
    if _ALIASES.get(said, said) != actual:
        raise ValueError(f"declared as another type than its content, which is {actual}")
    pixels = _pixels(raw, actual)
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


def _sniff(raw: bytes) -> str | None:
    for offset, magic, mime_type in _MAGIC:
        if raw[offset : offset + len(magic)] == magic and (offset != 8 or raw[:4] == b"RIFF"):
            return mime_type
    # MPEG audio without a tag starts with a frame of eleven set bits; layer bits 00 occur in AAC (ADTS) only.
    if len(raw) > 3 and raw[0] == 0xFF and raw[1] & 0xE0 == 0xE0:
        return "audio/mpeg" if raw[1] & 0x06 else "audio/aac"
    return None


def _pixels(raw: bytes, mime_type: str) -> int:
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
