"""The ``antiphon.toml`` files: how they are read, and how they are combined.

The user's file may say everything. A project's file may come from a stranger: it may only choose among the user's
models and make rules stricter. A file that is named explicitly (``--config``) is the only one read, and may say
everything.

A project's file is used only after a person has allowed exactly its bytes (``Trust``), since it names programs to start
and addresses to send variables to.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, NoReturn, TypeVar, cast, get_args, get_origin

import msgspec

from antiphon.errors import ConfigError
from antiphon.host.checks.ask_limits import words_in
from antiphon.host.checks.policy_rules import Policy
from antiphon.host.config import settings
from antiphon.host.model_catalogue import PROVIDERS, Model
from antiphon.host.models.selection import fill_in_model, standard_model
from antiphon.host.store.store_location import config_folder, state_folder
from antiphon.machine.files import decode_text, is_there, name_errors, open_file, parse_toml, read_file, replace_file
from antiphon.machine.other_frameworks import suggest_similar

NAME = "antiphon.toml"
MAX_CONFIG = 1024 * 1024
"""Most bytes; a file with a hundred models and servers has 50 kB."""


def config_paths(environ: Mapping[str, str], folder: Path | None = None) -> tuple[Path, Path]:
    """Return the paths of the user's file (XDG Base Directory Specification) and of the project's in ``folder``."""
    return config_folder(environ) / NAME, (folder or Path()) / NAME


def load_config(environ: Mapping[str, str], *, file: Path | None = None, folder: Path | None = None) -> settings.Config:
    """Read the configuration, with what is publicly known about its models filled in.

    ``file``: the only one to read; it must exist. Without a file, or a model in it, there is one model: that of the
    vendor whose key is in the environment, or one that refuses for want of a key. Raises ``ConfigError``, with file and
    line, if a file cannot be read or says something it may not.
    """
    user, project = config_paths(environ, folder)
    if file is not None:
        found = _combine_documents(_read_document(file), None, (file,))
    else:
        documents = {path: _read_document(path) for path in (user, project) if is_there(path)}
        found = _combine_documents(documents.get(user, ConfigDocument()), documents.get(project), tuple(documents))
        if project in documents:
            _check_project(documents[project], project)
    models = tuple(fill_in_model(model, environ) for model in found.models) or (standard_model(environ),)
    config = msgspec.structs.replace(found, models=models)
    config.catalogue()  # finds a default or an order that names no model
    return config


def _read_document(path: Path) -> ConfigDocument:
    with name_errors(path):
        data = read_file(path, MAX_CONFIG + 1)
    said = parse_document(decode_text(data, path, MAX_CONFIG), str(path))
    # If the folder depended on where a program is started, another server could be taken for this one.
    return msgspec.structs.replace(said, servers=tuple(entry.within(path.absolute().parent) for entry in said.servers))


def _combine_documents(
    said: ConfigDocument, project: ConfigDocument | None, files: tuple[Path, ...]
) -> settings.Config:
    chosen = (project or said).defaults
    order = chosen.order or said.defaults.order
    tables: dict[str, Any] = {name: getattr(said, name) for name in settings.ConfigTables.__struct_fields__}
    store = said.defaults.store
    if store is not None and store not in ("default", "memory") and "://" not in store:
        # The path must not depend on the current folder.
        store = str(files[0].absolute().parent / settings.expand_home(store))
    return settings.Config(
        **tables,
        default=chosen.model or said.defaults.model,
        # By default the order of the models in the file.
        order=order if order is not None else tuple(model.name for model in said.models),
        settings=settings.override_settings(said.defaults, settings.STANDARD),
        tightened=project.defaults if project else settings.ServerSettings(),
        tightened_servers=project.servers if project else (),
        **{name: getattr(said.defaults, name) for name in _OF_HOST},
        store=store,
        keep_content=said.defaults.keep_content or False,
        files=files,
    )


def _check_project(said: ConfigDocument, path: Path) -> None:
    """Refuse in a project's file what only the user may configure."""
    of_host = (*_OF_HOST, "store", "keep_content")
    said_of_host = [name for name in of_host if getattr(said.defaults, name) is not None]
    forbidden = ("models", "policy", "notify", "review", "auth", "gateway")
    sections = [section for section in forbidden if section in said.lines]
    for name in [*sections, *said_of_host]:
        line = said.lines.get(name) or said.lines["defaults"]
        raise ConfigError(
            f"{path}, line {line}: {name}: a project's file may not say this; "
            f"write it into your own (~/.config/antiphon/{NAME}), or name this file with --config"
        )


T = TypeVar("T", bound=msgspec.Struct)
Table = dict[str, Any]

_SECTIONS = ("defaults", "models", "servers", "policy", "notify", "review", "auth", "gateway")
_OF_HOST = ("review_timeout", "generate_timeout", "attempts")
"""Bounds of the host, which concern no server."""
_NAMED = ("models", "servers")
"""Sections whose tables have names that a user chooses."""
_LIKELY_KEYS = ("key", "api_key", "apikey", "token", "secret", "password")

Place = tuple[str | int, ...]
"""A path of keys; after the name of an array of tables stands the index of an entry, from 0."""

_HEADER = re.compile(r"\s*(?P<open>\[{1,2})(?P<keys>[^\[\]]+)\]{1,2}\s*(?:#.*)?$")
_WORD = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
_KEY = re.compile(rf"\s*(?P<keys>{_WORD}(?:\s*\.\s*{_WORD})*)\s*=(?P<value>.*)$")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"|\'[^\']*\'|#.*')
_LONG = ('"""', "'''")


class DefaultsTable(settings.ServerSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The ``[defaults]`` table: settings for every server, and settings that concern no server."""

    model: str | None = None
    """The model that answers if nothing favours another one."""
    order: tuple[str, ...] | None = None
    """The models in the user's order; by default that of the file."""
    review_timeout: float | None = None
    generate_timeout: float | None = None
    attempts: int | None = None
    keep_content: bool | None = None
    store: str | None = None
    """Where the host keeps reviews, grants, budgets and the audit: a file (beside this one, if it has no folder),
    ``postgresql://...``, ``"default"`` for the user's own, ``"memory"`` for none."""

    def __post_init__(self) -> None:
        for name in _OF_HOST:
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name} is above 0")


class ConfigDocument(settings.ConfigTables, frozen=True, kw_only=True):
    """The content of one file."""

    defaults: DefaultsTable = DefaultsTable()
    lines: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    """The line of each top-level table that exists."""


_TABLES: Mapping[str, type[msgspec.Struct]] = {
    "defaults": DefaultsTable,
    "policy": Policy,
    "notify": settings.Notify,
    "review": settings.Reviewing,
    "auth": settings.AccessTokens,
    "gateway": settings.GatewaySettings,
}
"""The sections that are one table."""


def parse_document(text: str, file: str) -> ConfigDocument:
    """Parse a text. Errors are ``ConfigError``, and name ``file`` and the line."""
    return _Reader(text, file).document()


class _Reader:
    def __init__(self, text: str, file: str) -> None:
        self._file = file
        try:
            self._data = parse_toml(text, parse_float=Decimal)
        except RecursionError:
            raise ConfigError(f"{file}: not TOML that can be read") from None
        except ValueError as error:
            # tomllib's message ends in "(at line 3, column 5)", or in "(at end of document)".
            line = text.split("\n")[int((re.findall(r"at line (\d+)", str(error)) or "0")[0]) - 1]
            raise ConfigError(f"{file}: not TOML: {error}{_find_remedy(f'{error}: {line}', '')}") from None
        self._lines = Lines(text)

    def document(self) -> ConfigDocument:
        self._check_names(self._data, _SECTIONS, ())
        for section in _SECTIONS:
            if not isinstance(self._data.get(section, {}), dict):
                heading = f"{section}.NAME" if section in _NAMED else section
                self._fail((section,), f"is a table: write [{heading}]")
        tables: dict[str, Any] = {
            section: self._convert(self._data[section], kind, (section,))
            for section, kind in _TABLES.items()
            if section in self._data
        }
        document = ConfigDocument(
            models=tuple(self._convert_named("models", Model, with_name=True)),
            servers=tuple(self._convert_named("servers", settings.ServerEntry, with_name=False)),
            lines={name: self._lines.of((name,)) for name in self._data},
            **tables,
        )
        self._check_references(document)
        return document

    def _convert_named(self, section: str, kind: type[T], *, with_name: bool) -> Iterator[T]:
        for name, table in cast("Table", self._data.get(section, {})).items():
            place = (section, name)
            if not isinstance(table, dict):
                self._fail(place, f"is a table: write [{section}.{name}]")
            if with_name and "name" in table:
                self._fail((*place, "name"), f"the name is in the heading: [{section}.{name}]")
            added = {"name": name} if with_name else {}
            yield self._convert(cast("Table", table), kind, place, added)

    def _convert(self, table: Table, kind: type[T], place: Place, added: Mapping[str, str] | None = None) -> T:
        self._check_table(table, kind, place)
        try:
            return msgspec.convert({**table, **(added or {})}, kind)
        except msgspec.ValidationError as error:
            problem, _, path = str(error).partition(" - at ")
            steps = _split_path(path)
            self._fail((*place, *steps), problem + _list_choices(kind, steps, problem))

    def _check_table(self, table: Table, kind: type[msgspec.Struct], place: Place) -> None:
        """Refuse unknown members at any depth, because a misspelt limit would not limit anything."""
        fields = {field.name: field.type for field in msgspec.structs.fields(kind)}
        self._check_names(table, tuple(name for name in fields if name != "name" or kind is not Model), place)
        for name, value in table.items():
            inner = _struct_in(fields.get(name))
            if inner is None:
                continue
            if isinstance(value, dict) and get_origin(fields.get(name)) is dict:
                # A table of tables, by names that a user chooses, which msgspec's errors leave out.
                for key, item in cast("Table", value).items():
                    if isinstance(item, dict):
                        self._convert(cast("Table", item), inner, (*place, name, key))
                    else:
                        self._fail(
                            (*place, name, key), f"is a table: write [{'.'.join(map(str, (*place, name, key)))}]"
                        )
            elif isinstance(value, dict):
                self._check_table(cast("Table", value), inner, (*place, name))
            elif isinstance(value, list):
                for at, item in enumerate(cast("list[object]", value)):
                    if isinstance(item, dict):
                        self._check_table(cast("Table", item), inner, (*place, name, at))

    def _check_names(self, table: Table, known: tuple[str, ...], place: Place) -> None:
        for name in table:
            if name in known:
                continue
            if name.lower() in _LIKELY_KEYS:
                # The value is not repeated, because it may well be a key.
                self._fail((*place, name), 'keys stay in the environment: name the variable, key = "MY_API_KEY"')
            self._fail((*place, name), f"there is no such key; {suggest_similar(name, known)}")

    def _check_references(self, document: ConfigDocument) -> None:
        """Refuse names of models that are not in this file, if it has any: most likely a typing error."""
        known = [model.name for model in document.models]
        for model in document.models:
            key = model.key
            if key is not None and not (key.isidentifier() and key.isascii() and len(key) < 100):
                self._fail(("models", model.name, "key"), "is the name of an environment variable, not the key itself")
            self._check_provider(model)
            if model.fallback is not None:
                self._check_known(model.fallback, known, ("models", model.name, "fallback"))
        if known:
            if document.defaults.model is not None:
                self._check_known(document.defaults.model, known, ("defaults", "model"))
            for name in document.defaults.order or ():
                self._check_known(name, known, ("defaults", "order"))

    def _check_provider(self, model: Model) -> None:
        if model.provider not in PROVIDERS:
            close = suggest_similar(model.provider, [*PROVIDERS])
            remedy = close if close.startswith("did") else 'what speaks as OpenAI does is "openai-compatible"'
            self._fail(("models", model.name, "provider"), f"there is no provider {model.provider!r}; {remedy}")
        if model.provider == "openai-compatible" and model.base_url is None:
            self._fail(("models", model.name), "openai-compatible needs a base_url")

    def _check_known(self, name: str, known: list[str], place: Place) -> None:
        if name not in known:
            self._fail(place, f"there is no model {name!r}; there are: {', '.join(known)}")

    def _fail(self, place: Place, problem: str) -> NoReturn:
        path = ".".join(f"[{step}]" if isinstance(step, int) else step for step in place).replace(".[", "[")
        said = f"{path}: {problem}"
        raise ConfigError(f"{self._file}, line {self._lines.of(place)}: {said}{_find_remedy(said, path)}")


def _struct_in(kind: object) -> type[msgspec.Struct] | None:
    """Return the struct that the type of a field is, or contains."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return kind
    return next((found for inner in get_args(kind) if (found := _struct_in(inner)) is not None), None)


def _list_choices(kind: object, steps: list[str | int], problem: str) -> str:
    """List the allowed words, where another one was written."""
    if not problem.startswith("Invalid enum value"):
        return ""
    for step in steps:
        struct = _struct_in(kind)
        fields = {field.name: field.type for field in msgspec.structs.fields(struct)} if struct else {}
        kind = fields.get(str(step), kind) if isinstance(step, str) else kind
    return f"; there are: {', '.join(words_in(kind))}"


def _find_remedy(said: str, path: str) -> str:
    """Say what to write, if the mistake is a usual one."""
    table = msgspec.toml.decode(Path(__file__).with_name("mistakes.toml").read_bytes(), type=dict[str, str])
    return next((f"; {each.replace('PLACE', path)}" for form, each in table.items() if re.search(form, said)), "")


def _split_path(path: str) -> list[str | int]:
    """Split msgspec's path ``$.steps[1].input`` (in backquotes); a name that a user has chosen is not in it."""
    steps: list[str | int] = []
    for part in path.removeprefix("`key` in ").strip("`").removeprefix("$").replace("[...]", "").split("."):
        name, _, rest = part.partition("[")
        if name:
            steps.append(name)
        steps += [int(number) for number in rest.rstrip("]").split("][") if number.isdigit()]
    return steps


class Lines:
    """The lines of one text, by place."""

    def __init__(self, text: str) -> None:
        self._lines: dict[Place, int] = {(): 1}
        self._counts: dict[Place, int] = {}
        self._table: Place = ()
        self._closing: str | None = None
        """The end of the multi-line string that is being skipped."""
        self._depth = 0
        """Number of open brackets; the lines of a multi-line array have no keys."""
        for number, line in enumerate(text.splitlines(), 1):
            self._read_line(number, line)

    def of(self, place: Place) -> int:
        """Return the line of a key, or that of the nearest enclosing place that has one."""
        while place not in self._lines:
            place = place[:-1]
        return self._lines[place]

    def _read_line(self, number: int, line: str) -> None:
        if self._closing is not None:
            if self._closing in line:
                self._closing = None
            return
        if self._depth == 0 and (header := _HEADER.match(line)):
            self._enter(number, _split_keys(header["keys"]), is_array=header["open"] == "[[")
            return
        key = _KEY.match(line) if self._depth == 0 else None
        if key:
            place: Place = (*self._table, *_split_keys(key["keys"]))
            for end in range(len(self._table) + 1, len(place) + 1):
                self._lines.setdefault(place[:end], number)
        self._skip(key["value"] if key else line)

    def _enter(self, number: int, keys: list[str], *, is_array: bool) -> None:
        place: Place = ()
        for at, key in enumerate(keys):
            place = (*place, key)
            self._lines.setdefault(place, number)
            is_last = at == len(keys) - 1
            if is_array and is_last:
                self._counts[place] = self._counts.get(place, 0) + 1
            if place in self._counts:
                place = (*place, self._counts[place] - 1)
                self._lines.setdefault(place, number)
        self._table = place

    def _skip(self, value: str) -> None:
        """Detect a value that continues on the next line: a multi-line string, or an array."""
        for quotes in _LONG:
            if value.count(quotes) % 2:
                self._closing = quotes
                return
        bare = _STRING.sub("", value)
        self._depth = max(0, self._depth + bare.count("[") + bare.count("{") - bare.count("]") - bare.count("}"))


def _split_keys(keys: str) -> list[str]:
    return [key.strip("\"'") for key in re.findall(_WORD, keys)]


_LARGEST = 4 * 1024 * 1024
"""Most bytes of the record; one entry takes about 200."""


class Trusted(msgspec.Struct, frozen=True, kw_only=True):
    """A file that was allowed, with its content at that time."""

    path: str
    """Its path, links followed."""
    digest: str
    """SHA-256 of its content."""
    since: float
    """Seconds since the epoch."""
    environment: bool = False
    """Whether its servers may get the user's whole environment behind a gateway."""
    is_moved: bool = False
    """Whether its servers were moved behind a gateway, which needs this permission though the file has changed."""


class Trust:
    """The files that a user has allowed, kept in one file of the user (mode 0600)."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        """Use the user's state folder, found from ``environ`` (by default the process's environment)."""
        self.place = state_folder(os.environ if environ is None else environ) / "trusted.json"

    def covers(self, path: Path, data: bytes, *, environment: bool = False) -> bool:
        """Return whether this file was allowed with exactly these bytes, and its ``environment``."""
        return self.has(path, _compute_digest(data), environment=environment)

    def has(self, path: Path, digest: str, *, environment: bool = False) -> bool:
        """Return whether a file was allowed with content of this SHA-256; ``environment`` as for ``covers``."""
        wanted = (os.path.realpath(path), digest)
        return any((one.path, one.digest) == wanted and one.environment >= environment for one in self.all())

    def add(self, path: Path, data: bytes, *, environment: bool = False, is_moved: bool = False) -> None:
        """Allow a file with this content; an earlier permission for it ends, unless its servers were moved.

        ``environment``: its servers may also get the user's whole environment.
        """
        kept = [one for one in self.all() if one.path != os.path.realpath(path) or one.is_moved or is_moved]
        new = Trusted(path=os.path.realpath(path), digest=_compute_digest(data), since=time.time())
        self._write([*kept, msgspec.structs.replace(new, environment=environment, is_moved=is_moved)])

    def end_move(self, path: Path) -> None:
        """Forget the permissions that servers of a file needed behind a gateway."""
        self._write([one for one in self.all() if one.path != os.path.realpath(path) or not one.is_moved])

    def revoke(self, path: Path) -> bool:
        """Withdraw the permission for a file. Returns whether there was one."""
        found = self.all()
        kept = [one for one in found if one.path not in (os.path.realpath(path), str(path))]
        if len(kept) < len(found):
            self._write(kept)
        return len(kept) < len(found)

    def all(self) -> list[Trusted]:
        """Return the allowed files, oldest first; raise ``ConfigError`` if others may write the record."""
        try:
            with open_file(self.place) as file:
                if os.name == "posix" and os.fstat(file.fileno()).st_mode & 0o022:
                    raise ConfigError(f"{self.place}: others may write it; chmod 600 {self.place}")
                data = file.read(_LARGEST)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise ConfigError(f"{self.place}: {error.strerror}") from None
        try:
            return msgspec.json.decode(data, type=list[Trusted])
        except msgspec.DecodeError as error:
            raise ConfigError(f"{self.place}: {error}; remove it, and trust again what you know") from None

    def _write(self, trusted: list[Trusted]) -> None:
        """Replace the record atomically: a process that is killed leaves the old one or the new one."""
        with name_errors(self.place):
            self.place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(self.place, msgspec.json.format(msgspec.json.encode(trusted), indent=1))


def _compute_digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
