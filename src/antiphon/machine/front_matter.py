"""The front matter of a ``SKILL.md``: the YAML between two lines of ``---`` at its beginning, as JSON.

YAML is read as its version 1.2 has it, where ``yes`` and dates are text, as in the other implementations of the
extension for skills.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast

import msgspec

from antiphon.errors import ConfigError
from antiphon.machine.public_names import describe_install
from antiphon.machine.side_process.pool import run_aside

MAX_BYTES = 64 * 1024
"""Most bytes of front matter. The specification has some 2 KiB; reading 64 KiB of YAML takes a second."""
_MAX_NODES = 10_000
"""Most values, each use of an alias counted, so that a few aliases of aliases cannot stand for millions."""

_FRONT = re.compile(rb"---[ \t]*\r?\n((?:.*\n)*?)---[ \t]*\r?(?:\n|\Z)")
_TAG = "tag:yaml.org,2002:"
_TEXT, _NULL, _BOOL, _NUMBERS = f"{_TAG}str", f"{_TAG}null", f"{_TAG}bool", (f"{_TAG}int", f"{_TAG}float")
_PLAIN = {_TEXT, _NULL, _BOOL, *_NUMBERS, f"{_TAG}timestamp", f"{_TAG}merge", f"{_TAG}value"}
# YAML 1.2.2, section 10.3.2.
_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")


def read_front_matter(data: bytes) -> dict[str, Any]:
    """Return the front matter of a file.

    Raises ``ValueError``, which says what is wrong with it, and ``ConfigError`` without the library for YAML.
    """
    found = _FRONT.match(data[: MAX_BYTES + 16].removeprefix(b"\xef\xbb\xbf"))
    if found is None:
        raise ValueError(f"it does not begin with front matter between two lines of --- (at most {MAX_BYTES:,} bytes)")
    return read_yaml(found[1].decode(), _MAX_NODES, "its front matter")


def read_yaml(text: str, most: int, noun: str) -> dict[str, Any]:
    """Return the mapping that YAML text is, of at most ``most`` values.

    Raises ``ValueError``, which says what is wrong with ``noun``, and ``ConfigError`` without the library for YAML.
    """
    try:
        from ruamel.yaml import YAML
        from ruamel.yaml.error import YAMLError
    except ImportError:
        raise ConfigError(f"{noun} needs a package that reads YAML: {describe_install('skills')}") from None
    yaml: Any = YAML(typ="safe", pure=True)
    try:
        node = yaml.compose(text)
        if node is None or node.id != "mapping":
            raise ValueError(f"{noun} is not a mapping")
        return cast("dict[str, Any]", _convert_node(node, noun, iter(range(most))))
    except YAMLError as error:
        raise ValueError(f"{noun} is not YAML: {' '.join(str(error).split())[:200]}") from None
    except StopIteration:
        raise ValueError(f"{noun} has more than {most:,} values") from None
    except RecursionError:
        raise ValueError(f"{noun} is nested too deep") from None


async def read_untrusted_front_matter(data: bytes) -> dict[str, Any]:
    """Return the front matter of a peer's file, read aside: YAML of some KiB takes longer than the event loop may wait.

    Raises ``ValueError`` as ``read_front_matter`` does, and ``TooCostly``.
    """
    front, problem = msgspec.json.decode(await run_aside(encode_front_matter, data[: MAX_BYTES + 16]))
    if problem:
        raise ValueError(problem)
    return front


def encode_front_matter(data: bytes) -> bytes:
    """Return front matter and problem as JSON; runs in a side process."""
    try:
        return msgspec.json.encode((read_front_matter(data), ""))
    except ValueError as error:
        return msgspec.json.encode((None, str(error)))


def _convert_node(node: Any, noun: str, places: Iterator[int]) -> object:
    """Return the value of a node. ``places``: as many as there may be values; ``StopIteration`` if there are more."""
    next(places)
    if node.id == "scalar":
        return _convert_scalar(node, noun)
    if node.tag not in (f"{_TAG}map", f"{_TAG}seq"):
        raise ValueError(f"{noun} has a value of the unknown type {node.tag}")
    if node.id == "sequence":
        return [_convert_node(each, noun, places) for each in node.value]
    read: dict[str, object] = {}
    for key, value in node.value:
        if key.id != "scalar" or key.value in read:
            raise ValueError(f"{noun} has a key that is there already, or that is no text")
        read[key.value] = _convert_node(value, noun, places)
    return read


def _convert_scalar(node: Any, noun: str) -> object:
    tag, text = node.tag, str(node.value)
    if tag not in _PLAIN:
        raise ValueError(f"{noun} has a value of the unknown type {tag}")
    if tag == _NULL:
        return None
    if tag == _BOOL:
        return text.lower() == "true"
    if tag in _NUMBERS and _INTEGER.fullmatch(text) and len(text) < 20:
        number = int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
        return number if -(2**63) <= number < 2**63 else float(number)
    if tag in _NUMBERS and _FLOAT.fullmatch(text):
        number = float(text)
        return number if abs(number) != float("inf") else text
    return text
