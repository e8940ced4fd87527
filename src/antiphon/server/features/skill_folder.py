"""Skills: folders of instructions, served file by file (extension ``io.modelcontextprotocol/skills``, SEP-2640).

Owns how a folder is read, and ``ServedSkill``. Everything is read once, when the author adds the folder: manifest and
contents then always agree, and no request of a client reaches the disk. Each file is a resource as any other.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from mimetypes import MimeTypes
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote, unquote

from msgspec import Struct

from antiphon.errors import ConfigError
from antiphon.machine.files import open_file
from antiphon.machine.front_matter import read_front_matter
from antiphon.server.features.checked_options import checked_scopes
from antiphon.server.features.registry import Via
from antiphon.server.features.resources import BINARY, TEXT, ServedResource
from antiphon.wire import skills as wire
from antiphon.wire.resources import Resource
from antiphon.wire.skills import SKILL_FILE

MAX_TOTAL = 64 * 1024 * 1024
"""Most bytes of all files of one folder, since all of them stay in memory."""
_MAX_DEPTH = 16
"""Most folders in one another."""
_MAX_ENTRIES = 20_000
"""Most entries of folders that are looked at, so that a folder given by mistake is refused and not searched."""

# The types that Python itself knows, and not those of the machine, so that every machine serves the same.
_TYPES = MimeTypes(filenames=())
for _ending, _type in {".md": "text/markdown", ".yaml": "application/yaml", ".yml": "application/yaml"}.items():
    _TYPES.add_type(_type, _ending)


class ServedSkill(Struct, eq=False):
    """A skill that a server offers. Make some with ``read_skills``."""

    definition: wire.Skill
    """The entry as it is listed."""
    files: Sequence[Resource]
    """Its files as resources."""
    scopes: Sequence[str]
    """What a caller's token has to allow."""
    via: Via | None = None
    """The mount that it came through, if it belongs to a mounted server."""
    requires: ClassVar[str | None] = None
    visible: ClassVar = None
    is_listed: ClassVar = True


def read_skills(
    folder: str | PathLike[str], prefix: str = "", scopes: Sequence[str] = ()
) -> tuple[list[ServedSkill], list[ServedResource]]:
    """Read a skill, or a folder of skills; return the skills, and the resources that hold their files.

    Raises ``ConfigError`` for a file that cannot or must not be served; the message names it.
    """
    place = f"skills in {os.fspath(folder)!r}"
    root = Path(folder).resolve()
    if not root.is_dir():
        raise ConfigError(f"{place}: there is no such folder")
    found = sorted(_list_files(root))
    homes = {path.parent for path in found if path.name == SKILL_FILE}
    if not homes:
        raise ConfigError(f"{place}: no folder in it has a {SKILL_FILE}")
    # A folder that is a skill itself keeps its name.
    start = [*filter(None, prefix.split("/")), *([root.name] if root in homes else [])]
    allowed, left = checked_scopes(scopes, place), MAX_TOTAL
    read: dict[Path, tuple[wire.SkillResource, ServedResource, dict[str, Any]]] = {}
    for path in found:
        if homes.isdisjoint(path.parents):
            continue
        data = _read_file(path, root)
        left -= len(data)
        if left < 0:
            raise ConfigError(f"{place}: the files have more than {MAX_TOTAL:,} bytes: serve fewer skills")
        try:
            parts = [quote(part, safe="!$&'()*+,;=") for part in (*start, *path.relative_to(root).parts)]
        except UnicodeEncodeError:
            raise ConfigError(f"{os.fsencode(path)!r}: the name of this file is not UTF-8: rename it") from None
        uri = f"skill://{'/'.join(parts)}"
        front = _read_front(path, data) if path.name == SKILL_FILE else {}
        entry = wire.SkillResource(uri=uri, digest=wire.compute_file_digest(data), size=len(data))
        served = _make_resource(uri, data, front.get("name", path.name), front.get("description"), allowed)
        read[path] = entry, served, front
    skills: list[ServedSkill] = []
    for home in sorted(homes):
        own = [each for path, each in read.items() if home in path.parents]
        main, _, front = read[home / SKILL_FILE]
        skill = wire.Skill(uri=main.uri, frontmatter=front, resources=[entry for entry, *_ in own])
        if (problem := wire.find_entry_problem(skill)) is not None:
            raise ConfigError(f"{home}: this skill cannot be served: {problem}")
        skills.append(ServedSkill(skill, [served.definition for _, served, _ in own], allowed))
    return skills, [served for _, served, _ in read.values()]


def list_directory(uri: str, skills: Iterable[ServedSkill]) -> tuple[dict[str, Resource], list[ServedSkill]]:
    """List a directory of skills: what is in it by URI, which is nothing if it is none, and whose it is."""
    found: dict[str, Resource] = {}
    owners: list[ServedSkill] = []
    start = f"{uri}/"
    for skill in skills:
        before = len(found)
        for file in skill.files:
            if file.uri.startswith(start):
                name, slash, _ = file.uri.removeprefix(start).partition("/")
                child = start + name
                found[child] = Resource(uri=child, name=unquote(name), mime_type=wire.DIRECTORY) if slash else file
        if len(found) > before:
            owners.append(skill)
    return found, owners


def _list_files(root: Path) -> Iterator[Path]:
    """List everything below a folder that is no folder, without hidden files and compiled Python."""

    def refuse(error: OSError) -> None:
        raise ConfigError(f"{error.filename}: cannot be read: {error.strerror}") from None

    looked = 0
    for place, folders, files in os.walk(root, onerror=refuse):
        folder = Path(place)
        looked += len(files)
        if looked + len(folders) > _MAX_ENTRIES or len(folder.relative_to(root).parts) >= _MAX_DEPTH:
            raise ConfigError(f"{folder}: it has too many entries, or is too deep, for a folder of skills")
        folders[:] = [name for name in folders if not name.startswith(".") and name != "__pycache__"]
        for path in (folder / name for name in folders):
            if path.is_symlink():
                raise ConfigError(f"{path}: a link to a folder is not followed: serve that folder by its own path")
        yield from (folder / name for name in files if not name.startswith("."))


def _read_file(path: Path, root: Path) -> bytes:
    try:
        real = path.resolve(strict=True)
        if not real.is_relative_to(root):
            raise ConfigError(f"{path}: a link out of the folder of skills is not followed")
        with open_file(real, follow=False) as file:
            data = file.read(wire.MAX_BYTES + 1)
    except (OSError, RuntimeError) as error:
        # ``resolve`` raises RuntimeError for a link to itself, in Python 3.11.
        raise ConfigError(f"{path}: cannot be read as a file of a skill: {error}") from None
    if len(data) > wire.MAX_BYTES:
        raise ConfigError(f"{path}: has more than {wire.MAX_BYTES:,} bytes, the most of a skill")
    return data


def _read_front(path: Path, data: bytes) -> dict[str, Any]:
    try:
        data.decode()
        if not data.startswith(b"---"):
            raise ValueError("it must begin with --- (and with no byte order mark before it)")
        return read_front_matter(data)
    except ValueError as error:
        what = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else error
        raise ConfigError(f"{path}: {what}") from None


def _make_resource(uri: str, data: bytes, name: str, description: str | None, scopes: Sequence[str]) -> ServedResource:
    content: str | bytes = data
    with suppress(UnicodeDecodeError):
        content = data.decode()
    kind = _TYPES.guess_type(uri.rpartition("/")[2])[0] or (TEXT if isinstance(content, str) else BINARY)
    made = ServedResource.of(uri, content, name=name, description=description, mime_type=kind, scopes=scopes)
    # Only skills are listed: a skill may have 512 files, and its entry names them.
    made.is_listed = uri.endswith(f"/{SKILL_FILE}")
    return made
