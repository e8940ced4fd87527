"""The ``antiphon.toml`` files, and how they are combined.

The user's file may say everything. A project's file may come from a stranger: it may only choose among the user's
models and make rules stricter. A file that is named explicitly (``--config``) is the only one read, and may say
everything.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from antiphon.errors import ConfigError
from antiphon.host.config.default_model import placed, standard_model
from antiphon.host.config.parse import Document, read
from antiphon.host.config.settings import STANDARD, Config, Settings, over
from antiphon.machine.files import read_file

__all__ = ["NAME", "config_paths", "load_config"]

NAME = "antiphon.toml"
MAX_CONFIG = 1024 * 1024
"""Most bytes; a file with a hundred models and servers has 50 kB."""


def config_paths(environ: Mapping[str, str], folder: Path | None = None) -> tuple[Path, Path]:
    """Return the paths of the user's and the project's file, existing or not (XDG Base Directory Specification).

    ``folder``: of the project; by default the current one.
    """
    home = environ.get("XDG_CONFIG_HOME") or str(Path(environ.get("HOME") or "~").expanduser() / ".config")
    return Path(home) / "antiphon" / NAME, (folder or Path()) / NAME


def load_config(environ: Mapping[str, str], *, file: Path | None = None, folder: Path | None = None) -> Config:
    """Read the configuration, with what is publicly known about its models filled in.

    ``file``: the only one to read; it must exist. Without a file, or a model in it, there is one model: that of the
    vendor whose key is in the environment, or one that refuses for want of a key.

    Raises:
        ConfigError: a file cannot be read or says something it may not; the message has file and line, and says what to
            do.
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
    config.catalogue()  # finds a default or an order that names no model
    return config


def _is_there(path: Path) -> bool:
    """Tell whether there is a file to read. One that exists but cannot be read must not be ignored.

    Raises:
        ConfigError: it is a folder, a broken link or the like, so that its rules would not apply.
    """
    try:
        path.lstat()
        if path.is_file():
            return True
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    raise ConfigError(f"{path}: cannot be read as a file, so its settings would not apply")


def _document(path: Path) -> Document:
    try:
        data = read_file(path, MAX_CONFIG + 1)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    if len(data) > MAX_CONFIG:
        raise ConfigError(f"{path}: larger than {MAX_CONFIG} bytes")
    try:
        said = read(data.decode(), str(path))
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not UTF-8") from None
    # If the folder depended on where a program is started, another server could be taken for this one.
    folder = path.absolute().parent
    return msgspec.structs.replace(said, servers=tuple(entry.within(folder) for entry in said.servers))


def _combined(said: Document, project: Document | None, files: tuple[Path, ...]) -> Config:
    chosen = (project or said).defaults
    order = chosen.order or said.defaults.order
    return Config(
        models=said.models,
        default=chosen.model or said.defaults.model,
        # By default the order of the models in the file.
        order=order if order is not None else tuple(model.name for model in said.models),
        settings=over(said.defaults.settings, STANDARD),
        servers=said.servers,
        tightened=project.defaults.settings if project else Settings(),
        tightened_servers=project.servers if project else (),
        policy=said.policy,
        notify=said.notify,
        review=said.review,
        auth=said.auth,
        gateway=said.gateway,
        review_timeout=said.defaults.review_timeout,
        generate_timeout=said.defaults.generate_timeout,
        attempts=said.defaults.attempts,
        store=_store(said.defaults.store, files),
        keep_content=said.defaults.keep_content or False,
        files=files,
    )


def _store(said: str | None, files: tuple[Path, ...]) -> str | None:
    """Resolve the store's path, so that it does not depend on the current folder."""
    if said is None or said in ("default", "memory") or "://" in said:
        return said
    return str(files[0].absolute().parent / Path(said).expanduser())


def _check_project(said: Document, path: Path) -> None:
    """Refuse in a project's file what only the user may configure."""
    said_of_host = [
        name
        for name in ("review_timeout", "generate_timeout", "attempts", "store", "keep_content")
        if getattr(said.defaults, name) is not None
    ]
    forbidden = ("models", "policy", "notify", "review", "auth", "gateway")
    sections = [section for section in forbidden if section in said.lines]
    for name in [*sections, *said_of_host]:
        line = said.lines.get(name) or said.lines["defaults"]
        raise ConfigError(
            f"{path}, line {line}: {name}: a project's file may not say this; "
            f"write it into your own (~/.config/antiphon/{NAME}), or name this file with --config"
        )
