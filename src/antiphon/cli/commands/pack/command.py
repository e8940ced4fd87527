"""``antiphon pack``: write a server's bundle (MCPB) and its entry for the registry, from its ``pyproject.toml``.

Beside this file stand the templates of both documents, their own schemas (without the prose), and the schema of what is
read. No code of the project runs, and the same files give the same bytes.
"""

from __future__ import annotations

import hashlib
import io
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Annotated, Any, cast

import jsonschema_rs
import msgspec

from antiphon.errors import ConfigError
from antiphon.json_schema.validator import describe_mismatch
from antiphon.machine.files import TOOL_FOLDERS, parse_toml, read_file, replace_file

_MAX_FILES, _MAX_BYTES = 2_000, 64 * 1024 * 1024
"""Most files of a bundle, and most bytes of them: a server with its data, without what it depends on."""
_SUFFIXES = (".pyc", ".pyo", ".mcpb", ".env", ".egg-info")
_REPOSITORY = re.compile(r"(?P<url>https://(?P<source>github|gitlab)\.com/[\w.-]+(?:/[\w.-]+)+)")
_FORMATS = {"directory": "filepath", "file": "filepath", "number": "number", "boolean": "boolean"}
"""What the registry calls types of variables; any other is a string."""
Folder = Annotated[Path, "[FOLDER]: The folder of the server's pyproject.toml; by default this one."]


def command(folder: Folder = Path()) -> None:
    """Write a server's bundle, and its entry for the registry.

    Both are made from pyproject.toml and its table [tool.antiphon.pack], checked with their own schemas, and written to
    FOLDER/dist: NAME-VERSION.mcpb for hosts, server.json for the registry. No code of the server runs.
    """
    project, pack = _read_tables(folder / "pyproject.toml")
    files = dict(_read_files(folder, pack.get("exclude", ())))
    templates = _read_data("documents.json")
    facts = _collect_facts(project, pack, templates["input"])
    manifest = {**_fill_template(templates["manifest"], facts), **pack.get("manifest", {})}
    # What no schema knows, but a host or the registry would miss.
    icon = manifest.get("icon")
    script, readme, start, mark = project["name"], project["readme"], pack["entry_point"], f"mcp-name: {pack['name']}"
    if script not in project["scripts"]:
        raise ConfigError(f'pyproject.toml: project.scripts: uvx starts {script}: add {script} = "module:main"')
    if not re.search(rf"{re.escape(mark)}(?![\w./-])".encode(), files.get(readme, b"")):
        raise ConfigError(f"{readme}: add the line <!-- {mark} -->, by which the registry knows the owner")
    if start not in files:
        raise ConfigError(f"pyproject.toml: tool.antiphon.pack.entry_point: {start} is not among the packed files")
    if icon is not None and files.get(str(icon), b"")[:4] != b"\x89PNG":
        raise ConfigError(f"pyproject.toml: tool.antiphon.pack.manifest.icon: {icon} is not a packed PNG image")
    packed = {**files, "manifest.json": _encode_document(manifest, "mcpb-0.4.json")}
    entry = _encode_document(_fill_template(templates["entry"], facts), "server-2025-12-11.json")
    out = folder / "dist"
    out.mkdir(exist_ok=True)
    bundle = io.BytesIO()
    with zipfile.ZipFile(bundle, "w") as archive:
        for name, data in packed.items():
            # Without times, owners and rights, which would differ from machine to machine.
            listed = zipfile.ZipInfo(name)
            listed.create_system, listed.external_attr = 3, 0o100644 << 16
            archive.writestr(listed, data, zipfile.ZIP_DEFLATED, 9)
    file = f"{project['name']}-{project['version']}.mcpb"
    for name, data in ((file, bundle.getvalue()), ("server.json", entry)):
        replace_file(out / name, data, mode=0o644)
        print(f"{out / name}: {len(data):,} bytes, SHA-256 {hashlib.sha256(data).hexdigest()}")
    print(f"In the bundle: {', '.join(packed)}")


def _read_data(name: str) -> dict[str, Any]:
    return msgspec.json.decode(Path(__file__).with_name(name).read_bytes())


def _read_tables(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return ``[project]`` and ``[tool.antiphon.pack]``."""
    try:
        data = parse_toml(read_file(path).decode())
        project, pack = data.get("project", {}), data.get("tool", {}).get("antiphon", {}).get("pack", {})
    except (OSError, ValueError, RecursionError, AttributeError) as error:
        wrong = "" if path.parent.is_dir() else "; antiphon pack takes the folder of a pyproject.toml"
        raise ConfigError(f"{path}: cannot be read: {error}{wrong}") from None
    _check_document({"project": project, "tool": {"antiphon": {"pack": pack}}}, "pyproject.json", str(path))
    return project, pack


def _read_files(folder: Path, exclude: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Read what is packed: nothing hidden, nothing that tools have made, and no links."""
    left = _MAX_BYTES, _MAX_FILES
    pending = sorted(folder.iterdir(), reverse=True)
    while pending:
        path = pending.pop()
        name = path.relative_to(folder).as_posix()
        if path.name.startswith(".") or path.name in TOOL_FOLDERS or path.name.endswith(_SUFFIXES):
            continue
        if any(fnmatchcase(name, each) or fnmatchcase(name, f"{each}/*") for each in exclude):
            continue
        if name.encode(errors="replace").decode() != name:
            raise ConfigError(f"{name!a}: the name of this file is not UTF-8: rename it")
        if path.is_symlink():
            raise ConfigError(f"{path}: is a link: put a file there, or add it to exclude in [tool.antiphon.pack]")
        if path.is_dir():
            # Only what is packed is looked at: a ``.venv`` has thousands of files.
            pending += sorted(path.iterdir(), reverse=True)
            continue
        data = read_file(path, left[0] + 1)
        left = left[0] - len(data), left[1] - 1
        if min(left) < 0:
            most = f"{_MAX_FILES:,} files or {_MAX_BYTES:,} bytes"
            raise ConfigError(f"{folder}: has more than {most}: add folders to exclude in [tool.antiphon.pack]")
        yield name, data


def _collect_facts(project: Mapping[str, Any], pack: Mapping[str, Any], template: object) -> dict[str, Any]:
    """Collect what the templates name; ``template`` is that of a variable in the registry."""
    kind, arguments = "python", [f"${{__dirname}}/{pack['entry_point']}"]
    if project.get("dependencies"):
        # One that is compiled differs from machine to machine, so the host's uv installs all of them.
        kind, arguments = "uv", ["run", "--directory", "${__dirname}", pack["entry_point"]]
    options: dict[str, Any] = {}
    inputs: list[dict[str, Any]] = []
    for name, option in pack.get("variables", {}).items():
        # Without a default, a host would leave the placeholder in the environment.
        default = {} if option.get("required") else {"default": ""}
        options[name.lower()] = {"type": "string", "title": name, **default, **option}
        format = _FORMATS.get(option.get("type", "string"))
        inputs.append(_fill_template(template, {"name": name, "format": format, **option}))
    urls = {label.lower(): url for label, url in project.get("urls", {}).items()}
    hosted = _REPOSITORY.fullmatch(urls.get("repository", ""))
    return {
        "project": project,
        "pack": {"description": project["description"], **pack},
        "version": re.sub(r"(?<=\d)(?=[abr])", "-", project["version"]),
        "author": next(author for author in project["authors"] if "name" in author),
        "urls": urls,
        "repository": {"type": "git", "url": urls["repository"]} if "repository" in urls else None,
        "hosted": hosted.groupdict() if hosted else None,
        "kind": kind,
        "arguments": arguments,
        "environment": {name: f"${{user_config.{name.lower()}}}" for name in pack.get("variables", {})},
        "options": options,
        "inputs": inputs,
    }


def _fill_template(template: Any, facts: Mapping[str, Any]) -> Any:
    """Replace each "{name.member}" by that fact; leave out members without one, and what is empty then."""
    if isinstance(template, str) and template.startswith("{"):
        steps = template[1:-1].split(".")
        return reduce(lambda found, step: found.get(step) if found else None, steps, cast("Any", facts))
    if isinstance(template, list):
        return [_fill_template(each, facts) for each in cast("list[Any]", template)]
    if isinstance(template, dict):
        filled = {name: _fill_template(each, facts) for name, each in cast("dict[str, Any]", template).items()}
        return {name: each for name, each in filled.items() if each not in (None, [], {})}
    return template


def _encode_document(document: dict[str, Any], schema: str) -> bytes:
    _check_document(document, schema, f"pyproject.toml: what is made from it breaks {schema}")
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def _check_document(document: dict[str, Any], schema: str, place: str) -> None:
    """Check a document with a schema. An error names all members that are wrong, and what the schema says of each."""
    rules, told = _read_data(schema), list[str]()
    for error in jsonschema_rs.validator_for(rules).iter_errors(msgspec.json.decode(msgspec.json.encode(document))):
        mismatch, said = describe_mismatch(error), ""
        with suppress(LookupError, TypeError):
            said = f": {reduce(getitem, mismatch.rule[:-1], cast('Any', rules))['description']}"
        told.append(f"{place}: {mismatch.sentence()}{said}")
    if told:
        raise ConfigError("\n".join(told))
