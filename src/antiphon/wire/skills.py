"""Skills: folders of instructions that a server offers, file by file, as resources (extension, from 2026-07-28).

Owns the entries of skills, their limits, and what an entry must be.
``machine.front_matter`` reads the head of a ``SKILL.md``.

Source: the extension ``io.modelcontextprotocol/skills`` (SEP-2640).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Literal

from msgspec import field

from antiphon.wire.common import CacheableResult, Meta, PaginatedParams, PaginatedResult, RequestParams, Wire
from antiphon.wire.resources import Resource

SKILLS = "io.modelcontextprotocol/skills"
"""Name of the extension, in the capabilities of a server."""

DIRECTORY_READ = "directoryRead"
"""The setting of the extension that says that a server has ``resources/directory/read``."""

SKILL_FILE = "SKILL.md"
DIRECTORY = "inode/directory"
"""Media type of a directory."""

MAX_FILES = 512
"""Most files of one skill (SEP-2640, Limits)."""
MAX_BYTES = 16 * 1024 * 1024
"""Most bytes of all files of one skill (SEP-2640, Limits)."""
MAX_DESCRIPTION = 1_024
"""Most characters of a description (Agent Skills specification)."""

_NAME = re.compile(r"(?!.*--)[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")
"""The name of a skill (Agent Skills specification)."""
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class SkillResource(Wire, frozen=True, kw_only=True):
    """A file of a skill."""

    uri: str
    digest: str
    """SHA-256 of its bytes, as ``sha256:`` and 64 lower-case hexadecimal digits."""
    size: int
    """Its bytes, before any encoding."""


class Skill(Wire, frozen=True, kw_only=True):
    """The entry of one skill."""

    uri: str
    """URI of its ``SKILL.md``."""
    frontmatter: dict[str, Any]
    """The YAML at the head of its ``SKILL.md``, as JSON."""
    resources: Sequence[SkillResource] | Literal["dynamic"]
    """All its files, or that they are generated, so that nothing about them can be promised."""
    meta: Meta | None = field(name="_meta", default=None)


class ListSkillsResult(PaginatedResult, frozen=True, kw_only=True):
    """Result of ``skills/list``."""

    skills: Sequence[Skill]


class GetSkillRequestParams(RequestParams, frozen=True, kw_only=True):
    """Params of ``skills/get``."""

    uri: str


class GetSkillResult(CacheableResult, frozen=True, kw_only=True):
    """Result of ``skills/get``."""

    skill: Skill


class ReadDirectoryRequestParams(PaginatedParams, frozen=True, kw_only=True):
    """Params of ``resources/directory/read``."""

    uri: str


class ReadDirectoryResult(PaginatedResult, frozen=True, kw_only=True):
    """Result of ``resources/directory/read``: what is directly in a directory."""

    resources: Sequence[Resource]


def compute_file_digest(data: bytes) -> str:
    """Return the digest of a file as an entry has it."""
    return f"sha256:{sha256(data).hexdigest()}"


def find_skill_root(uri: str) -> str:
    """Return the URI of a skill's folder; empty if this is not the URI of a ``SKILL.md``."""
    root, _, name = uri.rpartition("/")
    return root if name == SKILL_FILE and "://" in root else ""


def find_entry_problem(skill: Skill) -> str | None:
    """Return why a skill cannot be loaded, as far as its entry says; ``None`` if it can be."""
    root, front, files = find_skill_root(skill.uri), skill.frontmatter, skill.resources
    if not root:
        return f"its URI does not end with /{SKILL_FILE}"
    name, description, folder = front.get("name"), front.get("description"), root.rpartition("/")[2]
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return "its name must have 1 to 64 lower-case letters, digits and single hyphens between them"
    if name != folder:
        return f"its name is {name!r}, but its folder is called {folder!r}"
    if not isinstance(description, str) or not 1 <= len(description.strip()) <= len(description) <= MAX_DESCRIPTION:
        return f"its description must be text of 1 to {MAX_DESCRIPTION:,} characters"
    return None if files == "dynamic" else _find_files_problem(skill.uri, root, files)


def _find_files_problem(uri: str, root: str, files: Sequence[SkillResource]) -> str | None:
    if len(files) > MAX_FILES:
        return f"it has {len(files):,} files, more than {MAX_FILES}"
    if (total := sum(file.size for file in files)) > MAX_BYTES:
        return f"its files have {total:,} bytes, more than {MAX_BYTES:,}"
    uris = {file.uri for file in files}
    if uri not in uris or len(uris) < len(files):
        return f"its files are not {SKILL_FILE} and others, each once"
    for file in files:
        if not is_within_skill(file.uri, root):
            return f"{file.uri} is not in its folder"
        if file.size < 0 or not _DIGEST.fullmatch(file.digest):
            return f"{file.uri} has no size and SHA-256 digest that can be checked"
    return None


def is_within_skill(uri: str, root: str) -> bool:
    """Return whether a URI is that of a file below a folder, by its text alone: no part of it leads elsewhere."""
    # Loaded here, since most servers have no skills.
    from urllib.parse import unquote

    # Decoded, because "%2e%2e" means ".." to whoever follows a URI, and to whoever makes a path of it.
    parts = unquote(uri.removeprefix(f"{root}/")).split("/")
    return uri.startswith(f"{root}/") and not {"", ".", ".."}.intersection(parts)
