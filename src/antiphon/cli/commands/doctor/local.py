"""Checks without a server: Python, installed packages, the terminal, configuration files."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Literal, NamedTuple

from antiphon import __version__
from antiphon.cli.commands.install import list_hosts
from antiphon.cli.config_files import config_paths, fill_entry, read_config
from antiphon.cli.targets import target_of
from antiphon.client.connection.targets import resolve
from antiphon.errors import ConfigError
from antiphon.host.checks.redact import mask
from antiphon.host.config import Config, load_config
from antiphon.host.config.default_model import KEY_NAMES, standard_model
from antiphon.host.models.models import Models
from antiphon.host.providers.api_keys import missing_key
from antiphon.host.store import MemoryStore, usual_store
from antiphon.host.store.location import state_folder
from antiphon.host.terminal.tty import find_terminal
from antiphon.machine.extras import describe_install
from antiphon.wire.content import TextContent
from antiphon.wire.sampling import CreateMessageRequestParams, SamplingMessage

__all__ = ["Finding", "local_findings"]

_NEEDED = ("msgspec", "cryptography", "jsonschema-rs", "docstring-parser", "click", "wcwidth", "aiohttp", "uvicorn")
_EXTRAS = {
    "host": (
        ("pydantic-ai-slim", "genai-prices", "sqlalchemy", "starlette", "jinja2"),
        "models and a store",
    ),
    "postgres": (("asyncpg",), "a store in PostgreSQL"),
    "telemetry": (("opentelemetry-api",), "traces and metrics"),
}
"""For each extra: some of its packages, and its purpose."""


class Finding(NamedTuple):
    """One finding. ``odd`` is worth a look, ``failed`` must be fixed."""

    kind: Literal["ok", "note", "odd", "failed"]
    subject: str
    text: str


def local_findings(config: Path | None = None) -> list[Finding]:
    """Check this installation. ``config``: read this file instead of the usual ones."""
    hosts = config is not None and config.suffix == ".toml"
    servers = () if hosts else _config_files(config)
    settings = _settings(config if hosts else None) if hosts or config is None else ()
    placed = () if config is not None else _hosts()
    return [_python(), *_dependencies(), _uvloop(), *_extras(), _terminal(), *servers, *placed, *settings]


def _python() -> Finding:
    text = f"{sys.version.split()[0]} at {sys.executable}, antiphon {__version__}"
    return Finding("ok" if sys.version_info >= (3, 11) else "failed", "python", text)


def _dependencies() -> Iterator[Finding]:
    for name in _NEEDED:
        try:
            yield Finding("ok", name, metadata.version(name))
        except metadata.PackageNotFoundError:
            yield Finding("failed", name, "is not installed: install antiphon again")


def _uvloop() -> Finding:
    try:
        return Finding("ok", "uvloop", metadata.version("uvloop"))
    except metadata.PackageNotFoundError:
        return Finding("note", "uvloop", "is not installed: servers work, at about half the speed")


def _extras() -> Iterator[Finding]:
    for name, (packages, purpose) in _EXTRAS.items():
        missing = [package for package in packages if not _is_there(package)]
        subject = f"antiphon[{name}]"
        if missing:
            remedy = f"{', '.join(missing)} not there; for {purpose}: {describe_install(name)}"
            yield Finding("note", subject, remedy)
        else:
            yield Finding("ok", subject, purpose)


def _is_there(package: str) -> bool:
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        return False
    return True


def _terminal() -> Finding:
    path = find_terminal()
    if path is None:
        return Finding("note", "terminal", "none: nobody can be asked here; --yes answers without asking")
    encoding = sys.stdout.encoding or "unknown"
    colours = "no colours (NO_COLOR)" if os.environ.get("NO_COLOR") else os.environ.get("TERM", "TERM is not set")
    return Finding("ok", "terminal", f"{path}, {encoding}, {colours}")


def _config_files(config: Path | None) -> Iterator[Finding]:
    for path in config_paths() if config is None else [config]:
        if config is None and not path.is_file():
            yield Finding("note", str(path), "not there")
            continue
        yield from _servers(path)


def _servers(path: Path) -> Iterator[Finding]:
    """Name the servers of a file, and why some cannot be used."""
    try:
        servers = read_config(path)
    except ConfigError as error:
        yield _mistake(path, error)
        return
    yield Finding("ok", str(path), f"servers: {', '.join(servers) or 'none'}")
    for name, entry in servers.items():
        try:
            resolve(target_of(fill_entry(path, name, entry), name))
        except ConfigError as error:
            yield _mistake(path, error)


def _hosts() -> Iterator[Finding]:
    """Say in which hosts the gateway is installed, and whether they would start it."""
    for name, place in list_hosts():
        if not place.is_installed:
            yield Finding("note", name, f"the gateway is not installed: antiphon install {name}")
            continue
        try:
            wrong = place.check()
        except ConfigError as error:
            wrong = str(error)
        remedy = f"antiphon uninstall {name}, and install it again"
        yield (
            Finding("failed", name, f"{wrong}: {remedy}") if wrong else Finding("ok", name, "the gateway is installed")
        )
        if place.servers.is_file():
            yield from _servers(place.servers)


def _mistake(path: Path, error: ConfigError) -> Finding:
    return Finding("failed", str(path), str(error).removeprefix(str(path)).lstrip(":, "))


def _settings(file: Path | None) -> Iterator[Finding]:
    """Describe the host's configuration; without a file there is still a model, and a person to ask."""
    try:
        config = load_config(os.environ, file=file)
    except ConfigError as error:
        yield Finding("failed", "antiphon.toml", str(error))
        return
    files = ", ".join(map(str, config.files)) or "not there: the built-in settings apply"
    yield Finding("ok" if config.files else "note", "antiphon.toml", files)
    yield _models(config)
    yield _store(config.store)


def _models(config: Config) -> Finding:
    """List the models, and whether any of them can answer the shortest request."""
    message = SamplingMessage(role="user", content=TextContent(text="Hello"))
    shortest = CreateMessageRequestParams(messages=[message], max_tokens=1)
    selection = Models(config.catalogue(), os.environ).select(shortest)
    if selection.winner is not None:
        return Finding("ok", "models", ", ".join(model.name for model in config.models))
    if config.models == (standard_model(os.environ),) and missing_key(config.models[0], os.environ):
        return Finding("note", "models", f"none, so only you can answer requests for one: set {KEY_NAMES}")
    return Finding("failed", "models", selection.why_none)


def _store(configured: str | None) -> Finding:
    """Say where commands store decisions; hosts in other programs choose for themselves."""
    if configured == "memory":
        return Finding("note", "store", "memory: decisions are lost when the process ends")
    usual = str(state_folder(os.environ) / "host.db")
    if configured not in (None, "default"):
        return Finding("ok", "store", mask(str(configured)))
    if isinstance(usual_store(), MemoryStore):
        return Finding("note", "store", f"{usual} cannot be used: decisions are lost when the process ends")
    return Finding("ok", "store", usual)
