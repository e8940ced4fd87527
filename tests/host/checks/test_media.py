"""Media are what their bytes say, and stay small once unpacked."""

from __future__ import annotations

import base64
import struct

import pytest

from antiphon.host.checks.media import inspect_media

PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"
JPEG = b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc0\x00\x11\x08"


def png(width: int, height: int) -> bytes:
    """Make the beginning of a picture of this size."""
    return PNG + struct.pack(">II", width, height) + b"\x08\x06\x00\x00\x00"


def jpeg(width: int, height: int) -> bytes:
    """Make the beginning of a photograph of this size."""
    return JPEG + struct.pack(">HH", height, width) + b"\x03"


def encoded(raw: bytes) -> str:
    """Write bytes as they travel."""
    return base64.b64encode(raw).decode()


@pytest.mark.parametrize(
    ("raw", "mime_type"),
    [
        (png(3, 4), "image/png"),
        (jpeg(3, 4), "image/jpeg"),
        (b"GIF89a\x03\x00\x04\x00", "image/gif"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8L\x00\x00\x00\x00/\x02\xc0\x00\x00", "image/webp"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 " + b"\x00" * 10 + b"\x03\x00\x04\x00", "image/webp"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x03\x00\x00", "image/webp"),
    ],
)
def test_a_picture_is_known_by_its_bytes(raw: bytes, mime_type: str):
    """Format and size in pixels come from the header."""
    media = inspect_media(encoded(raw), mime_type)
    assert (media.mime_type, media.size, media.pixels) == (mime_type, len(raw), 12)


@pytest.mark.parametrize(
    ("raw", "declared"),
    [
        (b"RIFF\x00\x00\x00\x00WAVEfmt ", "audio/x-wav"),
        (b"ID3\x04\x00", "audio/mpeg"),
        (b"\xff\xfb\x90\x00", "audio/mp3"),
        (b"\xff\xf1\x50\x80", "audio/aac"),
        (b"OggS\x00", "audio/ogg; codecs=opus"),
        (b"fLaC\x00", "audio/flac"),
        (b"\x00\x00\x00\x20ftypM4A ", "audio/mp4"),
    ],
)
def test_sound_is_known_by_its_bytes(raw: bytes, declared: str):
    """The usual names for a format are all understood."""
    assert inspect_media(encoded(raw), declared).pixels == 0


@pytest.mark.parametrize(
    ("data", "declared", "problem"),
    [
        ("not base64!", "image/png", "not valid base64"),
        ("AAA", "image/png", "not valid base64"),
        (encoded(b"<svg onload=alert(1)>"), "image/svg+xml", "not in an accepted format"),
        (encoded(b"MZ\x90\x00"), "image/png", "not in an accepted format"),
        (encoded(png(1, 1)), "image/jpeg", "another type"),
        (encoded(png(30_000, 30_000)), "image/png", "pixels"),
        (encoded(jpeg(30_000, 30_000)), "image/jpeg", "pixels"),
        ("", "image/png", "not in an accepted format"),
    ],
)
def test_what_is_not_what_it_says_is_refused(data: str, declared: str, problem: str):
    """Wrong types, bombs and rubbish do not reach a provider."""
    with pytest.raises(ValueError, match=problem):
        inspect_media(data, declared)
