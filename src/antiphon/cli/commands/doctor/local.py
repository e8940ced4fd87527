"""Checks without a server: Python, installed packages, the terminal, configuration files; and the report for a bug."""

from __future__ import annotations

import json
import os
import platform
import re
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from antiphon import __version__
from antiphon.cli.commands.install import list_hosts
from antiphon.cli.config_files import config_paths, fill_entry, read_bytes, read_config, target_of
from antiphon.cli.output.formats import Failed, explain_error, format_time, json_line, print_text
from antiphon.cli.store import StoreOptions, open_chosen_store
from antiphon.client.connection.server_files import read_json
from antiphon.client.connection.targets import locate_target
from antiphon.errors import AntiphonError, ConfigError
from antiphon.host.checks.redact import mask_text
from antiphon.host.config import Config, load_config
from antiphon.host.config.toml_files import config_paths as host_paths
from antiphon.host.models.models import Models
from antiphon.host.models.selection import KEY_NAMES, standard_model
from antiphon.host.providers.base import missing_key
from antiphon.host.store import MemoryStore, usual_store
from antiphon.host.store.chain import RecordSearch, Step
from antiphon.host.store.store_location import state_folder
from antiphon.host.terminal.tty import find_terminal
from antiphon.machine.files import open_replacement, parse_toml
from antiphon.machine.public_names import describe_install
from antiphon.wire.content import TextContent
from antiphon.wire.revisions import REVISIONS
from antiphon.wire.sampling import CreateMessageRequestParams, SamplingMessage

_NEEDED = ("msgspec", "jsonschema-rs", "docstring-parser", "click", "aiohttp", "uvicorn", "uvloop")
_EXTRAS = {
    "host": "a store and the review page",
    "anthropic": "models of Anthropic",
    "google": "models of Google",
    "openai": "models of OpenAI, and of services that speak its API",
    "keys": "servers of several processes",
    "postgres": "a store in PostgreSQL",
    "telemetry": "traces and metrics",
    "notices": "notices by Slack, Telegram, e-mail, ntfy and others",
}
"""The purpose of each extra that is checked."""


class DoctorFinding(NamedTuple):
    """One finding. ``odd`` is worth a look, ``failed`` must be fixed."""

    kind: Literal["ok", "note", "odd", "failed"]
    subject: str
    text: str


def check_installation(config: Path | None = None) -> list[DoctorFinding]:
    """Check this installation. ``config``: read this file instead of the usual ones."""
    hosts = config is not None and config.suffix == ".toml"
    servers = () if hosts else _config_files(config)
    settings = _check_settings(config if hosts else None) if hosts or config is None else ()
    placed = () if config is not None else _check_hosts()
    text = f"{sys.version.split()[0]} at {sys.executable}, antiphon {__version__}"
    python = DoctorFinding("ok" if sys.version_info >= (3, 11) else "failed", "python", text)
    return [python, *_check_dependencies(), *_check_extras(), _check_terminal(), *servers, *placed, *settings]


def _check_dependencies() -> Iterator[DoctorFinding]:
    for name in _NEEDED:
        if _is_installed(name):
            yield DoctorFinding("ok", name, metadata.version(name))
        elif name == "uvloop":
            yield DoctorFinding("note", name, "is not installed: servers work, at about half the speed")
        else:
            yield DoctorFinding("failed", name, "is not installed: install antiphon again")


def _check_extras() -> Iterator[DoctorFinding]:
    missing = list_missing_packages()
    for name, purpose in _EXTRAS.items():
        if packages := missing.get(name):
            remedy = f"{', '.join(packages)} not there; for {purpose}: {describe_install(name)}"
            yield DoctorFinding("note", f"antiphon[{name}]", remedy)
        else:
            yield DoctorFinding("ok", f"antiphon[{name}]", purpose)


def list_missing_packages() -> dict[str, list[str]]:
    """Return the packages of each extra that are not installed, also those of extras of other packages."""
    names = metadata.metadata("antiphon").get_all("Provides-Extra") or ()
    return {name: sorted(set(_find_missing("antiphon", name))) for name in names}


def _find_missing(package: str, extra: str) -> Iterator[str]:
    for line in metadata.requires(package) or ():
        found = re.match(r"([\w.-]+)(?:\[([\w,-]+)\])?", line)
        if found is None or not re.search(rf"extra == ['\"]{extra}['\"]", line):
            continue
        if not _is_installed(found[1]):
            yield found[1]
            continue
        for inner in (found[2] or "").split(","):
            yield from _find_missing(found[1], inner) if inner else ()


def _is_installed(package: str) -> bool:
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        return False
    return True


def _check_terminal() -> DoctorFinding:
    path = find_terminal()
    if path is None:
        return DoctorFinding("note", "terminal", "none: nobody can be asked here; --yes answers without asking")
    encoding = sys.stdout.encoding or "unknown"
    colours = "no colours (NO_COLOR)" if os.environ.get("NO_COLOR") else os.environ.get("TERM", "TERM is not set")
    return DoctorFinding("ok", "terminal", f"{path}, {encoding}, {colours}")


def _config_files(config: Path | None) -> Iterator[DoctorFinding]:
    for path in config_paths() if config is None else [config]:
        if config is None and not path.is_file():
            yield DoctorFinding("note", str(path), "not there")
            continue
        yield from _check_servers(path)


def _check_servers(path: Path) -> Iterator[DoctorFinding]:
    """Name the servers of a file, and why some cannot be used."""
    try:
        servers = read_config(path)
    except ConfigError as error:
        yield _report_mistake(path, error)
        return
    yield DoctorFinding("ok", str(path), f"servers: {', '.join(servers) or 'none'}")
    for name, entry in servers.items():
        try:
            locate_target(target_of(fill_entry(path, name, entry), name))
        except ConfigError as error:
            yield _report_mistake(path, error)


def _check_hosts() -> Iterator[DoctorFinding]:
    """Say in which hosts the gateway is installed, and whether they would start it."""
    for name, place in list_hosts():
        if not place.is_installed:
            yield DoctorFinding("note", name, f"the gateway is not installed: antiphon install {name}")
            continue
        try:
            wrong = place.check()
        except ConfigError as error:
            wrong = str(error)
        remedy = f"antiphon uninstall {name}, and install it again"
        yield (
            DoctorFinding("failed", name, f"{wrong}: {remedy}")
            if wrong
            else DoctorFinding("ok", name, "the gateway is installed")
        )
        if place.servers.is_file():
            yield from _check_servers(place.servers)


def _report_mistake(path: Path, error: ConfigError) -> DoctorFinding:
    return DoctorFinding("failed", str(path), str(error).removeprefix(str(path)).lstrip(":, "))


def _check_settings(file: Path | None) -> Iterator[DoctorFinding]:
    """Describe the host's configuration; without a file there is still a model, and a person to ask."""
    try:
        config = load_config(os.environ, file=file)
    except ConfigError as error:
        yield DoctorFinding("failed", "antiphon.toml", str(error))
        return
    files = ", ".join(map(str, config.files)) or "not there: the built-in settings apply"
    yield DoctorFinding("ok" if config.files else "note", "antiphon.toml", files)
    yield _check_models(config)
    yield _check_store(config.store)


def _check_models(config: Config) -> DoctorFinding:
    """List the models, and whether any of them can answer the shortest request."""
    message = SamplingMessage(role="user", content=TextContent(text="Hello"))
    shortest = CreateMessageRequestParams(messages=[message], max_tokens=1)
    selection = Models(config.catalogue(), os.environ).select(shortest)
    if selection.winner is not None:
        return DoctorFinding("ok", "models", ", ".join(model.name for model in config.models))
    if config.models == (standard_model(os.environ),) and missing_key(config.models[0], os.environ):
        return DoctorFinding("note", "models", f"none, so only you can answer requests for one: set {KEY_NAMES}")
    return DoctorFinding("failed", "models", selection.why_none)


def _check_store(configured: str | None) -> DoctorFinding:
    """Say where commands store decisions; hosts in other programs choose for themselves."""
    if configured == "memory":
        return DoctorFinding("note", "store", "memory: decisions are lost when the process ends")
    usual = str(state_folder(os.environ) / "host.db")
    if configured not in (None, "default"):
        return DoctorFinding("ok", "store", mask_text(str(configured)))
    if isinstance(usual_store(), MemoryStore):
        return DoctorFinding("note", "store", f"{usual} cannot be used: decisions are lost when the process ends")
    return DoctorFinding("ok", "store", usual)


_REMOVED = "(removed)"
_LAST = 20
"""Most errors of each kind."""
_FAILURES: tuple[Step, ...] = ("failed", "invalid", "refused")
_PRIVATE = re.compile(r"env|header|secret|token|key|pass|cred|auth|cookie|webhook|targets|dsn", re.IGNORECASE)
"""Names of members whose values are never shown, whatever they are."""
_HARMLESS = re.compile(
    r"asks|default|effect|elicit_in|fallback|headless|models?|names|provider|review|scope|start|type"
)
"""Members whose texts are words of ours, or names of models."""
_SECRET_VARIABLE = re.compile(r"secret|token|key|pass|cred|auth|cookie|dsn|_pat$|url$", re.IGNORECASE)
_URL = re.compile(r"\b([a-z][a-z0-9+.-]*://)(?:[^\s\"/?#]*@)?([\w.-]*)[^\s\"]*", re.IGNORECASE)
_QUOTED = re.compile(r"(['\"`]).*?\1")
_OPTION_NAME = re.compile(r"--[a-z][a-z-]{1,30}(?==|$)")


def describe_version() -> dict[str, object]:
    """Return the version of this package, and of all that decides how it behaves."""
    return {
        "antiphon": __version__,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": platform.platform(),
        "extras": [name for name, missing in list_missing_packages().items() if not missing],
        "revisions": [one.name for one in REVISIONS],
    }


async def collect_report(findings: Sequence[DoctorFinding], config: Path | None) -> dict[str, list[str]]:
    """Return the lines of the report by section."""
    usual = (*host_paths(os.environ), *config_paths(), *(place.servers for _, place in list_hosts()))
    paths = [path for path in (usual if config is None else [config]) if path.is_file()]
    return {
        "versions": [json_line(describe_version())],
        "findings of antiphon doctor": [_describe_finding(one) for one in findings],
        "configuration without its values": [line for path in paths for line in _describe_file(path)],
        "store, and its last errors": [line async for line in _describe_store(StoreOptions(config=config))],
    }


def write_report(sections: Mapping[str, Sequence[str]], file: Path) -> None:
    """List what the report contains, and write it to a new file; ``-`` prints it."""
    text = "\n\n".join("\n".join([f"## {title}", *lines]) for title, lines in sections.items())
    text = clean_text(text, os.environ) + "\n"
    if str(file) == "-":
        print_text(text)
        return
    if file.exists():
        raise ConfigError(f"{file}: is there already: name another file for the report")
    print_text(f"{file} will contain:")
    for title, lines in sections.items():
        print_text(f"  {title}: {sum(line.count(chr(10)) + 1 for line in lines)} lines")
    with open_replacement(file) as report:
        report.write(text.encode())
    print_text(f"{file}: written. Read it before you attach it to a report.")


def _describe_finding(finding: DoctorFinding) -> str:
    # The message about a mistake in a file may quote the file.
    text = _QUOTED.sub(_REMOVED, finding.text) if finding.kind == "failed" else finding.text
    return f"{finding.kind}  {finding.subject}: {text}"


def _describe_file(path: Path) -> Iterator[str]:
    yield f"{path}:"
    try:
        data = read_bytes(path)
        read = parse_toml(data.decode()) if path.suffix == ".toml" else read_json(data.decode())
        yield json.dumps(clean_value(read), indent=1)
    except (AntiphonError, ValueError, RecursionError) as error:
        yield f"cannot be read: {type(error).__name__}"


def clean_value(value: Any, key: str = "", *, is_private: bool = False) -> Any:
    """Return a value of a configuration without anything that may be a secret. ``key``: the member that has it."""
    is_private = is_private or _PRIVATE.search(key) is not None
    if isinstance(value, Mapping):
        members = cast("Mapping[str, Any]", value)
        return {name: clean_value(member, name, is_private=is_private) for name, member in members.items()}
    if isinstance(value, list):
        return [clean_value(one, key, is_private=is_private) for one in cast("list[Any]", value)]
    if is_private:
        return _REMOVED
    if isinstance(value, str):
        name = _OPTION_NAME.match(value) if key == "args" else None
        return name[0] if name else value if _HARMLESS.fullmatch(key) or _URL.fullmatch(value) else _REMOVED
    return value if value is None or isinstance(value, bool | int | float) else _REMOVED


async def _describe_store(where: StoreOptions) -> AsyncIterator[str]:
    try:
        if where.settings.store is None and not (state_folder(os.environ) / "host.db").exists():
            yield "none was made yet"
            return
        async with open_chosen_store(where) as store:
            head, waiting, grants = await store.head(), await store.waiting(), await store.grants()
            yield f"{type(store).__name__}: {head.seq} records, {waiting} questions wait, {len(grants)} grants"
            for step in _FAILURES:
                for record in [entry.record for entry in await store.find_records(RecordSearch(step=step), _LAST)]:
                    yield f"{format_time(record.at)}  {record.method}  {step}  {record.outcome.partition(':')[0]}"
    except (AntiphonError, Failed) as error:
        yield _QUOTED.sub(_REMOVED, explain_error(error))


def clean_text(text: str, environ: Mapping[str, str]) -> str:
    """Return a text without the rest of URLs, values of secret variables, what looks like a secret, and our home."""
    secrets = [value for name, value in environ.items() if _SECRET_VARIABLE.search(name) and len(value) > 3]
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, _REMOVED)
    return mask_text(_URL.sub(r"\1\2", text)).replace(f"{Path.home()}{os.sep}", f"~{os.sep}")
