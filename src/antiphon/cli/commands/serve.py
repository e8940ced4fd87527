"""``antiphon serve``: serve a ``Server`` object from a Python file, over stdio or a network."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Annotated

import click

from antiphon.cli.network_options import ListenOptions
from antiphon.cli.output.formats import Failed, exit_code
from antiphon.errors import AntiphonError, ConfigError
from antiphon.host.config import load_config
from antiphon.server.app import Server
from antiphon.server.serving.run import MAX_WORKERS

File = Annotated[str, "FILE[:NAME]: A Python file and, if it has several servers, the name of the variable."]
ConfigFile = Annotated[Path | None, "--config FILE: Read from [auth] of this antiphon.toml who may connect."]


def command(
    file: File,
    *,
    listening: ListenOptions,
    config: ConfigFile = None,
    stateless: bool = False,
    workers: Annotated[int, click.IntRange(1, MAX_WORKERS)] = 1,
) -> None:
    """Serve the server that a Python file defines.

    Over stdio, until the client disconnects; or, with --http, --sse or --ws, over a network until Ctrl-C.

    Usage:
        --stateless: Keep no sessions for clients of the older revisions, so that any process can serve any request.
            Only for servers that ask nothing of such clients; with --http.
        --workers N: Number of processes that serve. Ctrl-C or SIGTERM ends them all, SIGHUP replaces them one by one.
    """
    path, name = split_name(file)
    # Standard output belongs to the protocol, so what the file prints while loading goes to standard error.
    with contextlib.redirect_stdout(sys.stderr):
        server = find_server(load_file(path), name, str(path))
    place = listening.place
    if place is not None:
        options = listening.options(load_config(os.environ, file=config).auth if config is not None else None)
        if stateless and place.kind != "http":
            raise ConfigError(f"--stateless: the sessions of {place.option} cannot be left out; take --http")
        if stateless:
            options["stateless"] = True

        def tell(port: int) -> None:
            by = f" with {workers} workers" if workers > 1 else ""
            print(f"Serving {server.name!r} at {place.url(options, port)}{by}. Ctrl-C ends it.", file=sys.stderr)

        options["on_listening"] = tell
        server.run(place.kind, host=place.host, port=place.port, workers=workers, **options)
        return
    others = {"--config": config is not None, "--stateless": stateless, "--workers": workers > 1}
    given = ", ".join(filter(None, (listening.given, *(name for name, is_given in others.items() if is_given))))
    if given:
        raise ConfigError(f"{given}: for a network only; add --http, --sse or --ws")
    server.run()


def split_name(file: str) -> tuple[Path, str | None]:
    """Return the path of FILE[:NAME], which has to be a file, and the name."""
    stem, colon, name = file.rpartition(":")
    is_named = bool(colon) and stem.endswith(".py") and name.isidentifier()
    path = Path(stem if is_named else file)
    if path.is_dir():
        raise ConfigError(f"{path}: is a folder; name the .py file in it, as in {path / 'server.py'}")
    if not path.is_file():
        raise ConfigError(f"no such file: {path}")
    return path, name if is_named else None


def load_file(path: Path) -> ModuleType:
    """Import a file as a module of its own name, with its folder on the path, as ``python FILE`` would."""
    specification = importlib.util.spec_from_file_location(path.stem, path)
    if specification is None or specification.loader is None:
        raise ConfigError(f"{path}: not a Python file")
    module = importlib.util.module_from_spec(specification)
    sys.path.insert(0, str(path.parent.absolute()))
    # Dataclasses and type hints look their module up by name.
    sys.modules[path.stem] = module
    try:
        specification.loader.exec_module(module)
    except Exception as error:
        kind = "" if isinstance(error, AntiphonError) else f"{type(error).__name__}: "
        raise Failed(f"{find_line(error, path)}: {kind}{error}", exit_code(error)) from error
    return module


def find_line(error: BaseException, path: Path) -> str:
    """Return the line of the file at which it failed."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    # The importer makes the name of the file absolute.
    whole = path.absolute()
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == whole]
    return f"{path}:{lines[-1]}" if lines else str(path)


def find_server(module: ModuleType, name: str | None, place: str) -> Server:
    """Return the Server object of a module: the one of this name, or the only one."""
    servers = {key: value for key, value in vars(module).items() if isinstance(value, Server)}
    if name is not None:
        if name not in servers:
            raise ConfigError(f"{place}: {name!r} is no Server; it has: {', '.join(servers) or 'none'}")
        return servers[name]
    if not servers:
        raise ConfigError(f"{place}: there is no Server object at the top of this file")
    if len({id(server) for server in servers.values()}) > 1:
        names = ", ".join(servers)
        raise ConfigError(f"{place}: there are several Server objects ({names}); choose one, as in {place}:NAME")
    return next(iter(servers.values()))
