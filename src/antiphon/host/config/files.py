"""Which ``antiphon.toml`` files there are, and what holds when they are put together.

The user's file says everything. A project's file came with the project, perhaps from a stranger: it may choose among
the user's models and make things stricter, and nothing else. A file that is named explicitly (``--config``) is the only
one, and says everything.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from antiphon.errors import ConfigError
from antiphon.host.config.environment import placed, standard_model
from antiphon.host.config.parse import Document, read
from antiphon.host.config.shape import STANDARD, Config, Settings, over

__all__ = ["NAME", "config_paths", "load_config"]

NAME = "antiphon.toml"
MAX_CONFIG = 1024 * 1024
"""Bytes; a file of a hundred models and servers has 50 kB."""


def config_paths(environ: Mapping[str, str], folder: Path | None = None) -> tuple[Path, Path]:
    """Name the user's file and the project's, whether they exist or not (XDG Base Directory Specification).

    ``folder``: of the project; by default the current one.
    """
    home = environ.get("XDG_CONFIG_HOME") or str(Path(environ.get("HOME") or "~").expanduser() / ".config")
    return Path(home) / "antiphon" / NAME, (folder or Path()) / NAME


def load_config(environ: Mapping[str, str], *, file: Path | None = None, folder: Path | None = None) -> Config:
    """Read what is configured, with the models placed and what is publicly known of them filled in.

    ``file``: the only one to read; it must exist. Without any file, or any model in them, there is one model: that of
    the vendor whose key is in the environment, or the echo.

    Raises:
        ConfigError: a file cannot be read, or says what cannot be said; file, line and remedy are named.
    """
    user, project = config_paths(environ, folder)
    if file is not None:
        found = _combined(_document(file), None, (file,))
    else:
        documents = {path: _document(path) for path in (user, project) if _is_there(path)}
        found = _combined(documents.get(user, Document()), documents.get(project), tuple(documents))
        if project in documents:
            _check_project(documents[project], project)
    models = tuple(placed(model, environ) for model in found.models) or (standard_model(environ),)
    config = msgspec.structs.replace(found, models=models)
    config.catalogue()  # a default or an order that names no model is found out here
    return config


def _is_there(path: Path) -> bool:
    """Tell whether there is a file to read. What is there and cannot be read must not pass for nothing said.

    Raises:
        ConfigError: it is a folder, a link to nowhere, or the like: rules that were written down would not hold.
    """
    try:
        path.lstat()
        if path.is_file():
            return True
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    raise ConfigError(f"{path}: is no file that can be read, and what it should say would not hold")


def _document(path: Path) -> Document:
    try:
        with path.open("rb") as opened:
            data = opened.read(MAX_CONFIG + 1)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    if len(data) > MAX_CONFIG:
        raise ConfigError(f"{path}: larger than {MAX_CONFIG} bytes")
    try:
        said = read(data.decode(), str(path))
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not UTF-8") from None
    # A folder that depended on where a program happens to be started would let another server pass for this one.
    folder = path.absolute().parent
    return msgspec.structs.replace(said, servers=tuple(entry.within(folder) for entry in said.servers))


def _combined(said: Document, project: Document | None, files: tuple[Path, ...]) -> Config:
    chosen = (project or said).defaults
    order = chosen.order or said.defaults.order
    return Config(
        models=said.models,
        default=chosen.model or said.defaults.model,
        # By default the order in which the models are written down.
        order=order if order is not None else tuple(model.name for model in said.models),
        settings=over(said.defaults.settings, STANDARD),
        servers=said.servers,
        tightened=project.defaults.settings if project else Settings(),
        tightened_servers=project.servers if project else (),
        policy=said.policy,
        notify=said.notify,
        review=said.review,
        review_timeout=said.defaults.review_timeout,
        generate_timeout=said.defaults.generate_timeout,
        attempts=said.defaults.attempts,
        store=_store(said.defaults.store, files),
        files=files,
    )


def _store(said: str | None, files: tuple[Path, ...]) -> str | None:
    """Name the store so that it is the same one from every folder."""
    if said is None or said in ("default", "memory") or "://" in said:
        return said
    return str(files[0].absolute().parent / Path(said).expanduser())


def _check_project(said: Document, path: Path) -> None:
    """Refuse in a project's file what only the user may say."""
    said_of_host = [
        name
        for name in ("review_timeout", "generate_timeout", "attempts", "store")
        if getattr(said.defaults, name) is not None
    ]
    sections = [section for section in ("models", "policy", "notify", "review") if section in said.lines]
    for name in [*sections, *said_of_host]:
        line = said.lines.get(name) or said.lines["defaults"]
        raise ConfigError(
            f"{path}, line {line}: {name}: a project's file may not say this; "
            f"write it into your own (~/.config/antiphon/{NAME}), or name this file with --config"
        )
