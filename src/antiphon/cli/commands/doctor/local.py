"""Checks without a server: Python, installed packages, the terminal, configuration files."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Literal, NamedTuple

from antiphon import __version__
from antiphon.cli.commands.install import list_hosts
from antiphon.cli.config_files import config_paths, fill_entry, read_config, target_of
from antiphon.client.connection.targets import locate_target
from antiphon.errors import ConfigError
from antiphon.host.checks.redact import mask_text
from antiphon.host.config import Config, load_config
from antiphon.host.models.models import Models
from antiphon.host.models.selection import KEY_NAMES, standard_model
from antiphon.host.providers.base import missing_key
from antiphon.host.store import MemoryStore, usual_store
from antiphon.host.store.store_location import state_folder
from antiphon.host.terminal.tty import find_terminal
from antiphon.machine.public_names import describe_install
from antiphon.wire.content import TextContent
from antiphon.wire.sampling import CreateMessageRequestParams, SamplingMessage

_NEEDED = (
    "msgspec",
    "cryptography",
    "jsonschema-rs",
    "docstring-parser",
    "click",
    "wcwidth",
    "aiohttp",
    "uvicorn",
    "uvloop",
)
_EXTRAS = {"host": "models and a store", "postgres": "a store in PostgreSQL", "telemetry": "traces and metrics"}
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
    return [_check_python(), *_check_dependencies(), *_check_extras(), _check_terminal(), *servers, *placed, *settings]


def _check_python() -> DoctorFinding:
    text = f"{sys.version.split()[0]} at {sys.executable}, antiphon {__version__}"
    return DoctorFinding("ok" if sys.version_info >= (3, 11) else "failed", "python", text)


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
    """Return the packages of each extra that are not installed."""
    missing: dict[str, list[str]] = {}
    for line in metadata.requires("antiphon") or ():
        if extra := re.search(r"extra == ['\"]([\w-]+)", line):
            package = re.split(r"[^\w.-]", line, maxsplit=1)[0]
            missing.setdefault(extra[1], []).extend([] if _is_installed(package) else [package])
    return missing


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
