"""Files: read without waiting, and replaced atomically; and the TOML of strangers.

A reader of a replaced file finds the old content or the new, never a part. TOML is read in a time that grows with its
length.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import stat
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import Any, BinaryIO

from antiphon.errors import ConfigError

TOOL_FOLDERS = frozenset({"node_modules", "venv", "env", "build", "dist", "target", "site-packages", "__pycache__"})
"""Folders that tools fill, and nobody writes in."""

_log = logging.getLogger("antiphon")
_PRIVATE = 0o600
# Opening a pipe waits for its other end. Windows has neither of these, but tells text from bytes.
_READING = sum(getattr(os, name, 0) for name in ("O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_BINARY", "O_NOINHERIT"))


def find_home(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the user's home; as in containers, the root folder for a user who has none."""
    with suppress(RuntimeError):
        return Path(environ.get("HOME") or Path.home())
    return Path("/")


def expand_home(text: str) -> Path:
    """Return a path in which ``~`` or ``~user`` is the home; ``ConfigError`` if there is no such user."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise ConfigError(f"{text}: there is no such user") from None


def open_file(path: Path, *, follow: bool = True) -> BinaryIO:
    """Open a regular file, by default also through a link; ``OSError`` for a pipe or device, which may block."""
    handle = os.open(path, os.O_RDONLY | _READING | (0 if follow else getattr(os, "O_NOFOLLOW", 0)))
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "is a pipe or a device, not a file", str(path))
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def read_file(path: Path, limit: int = -1) -> bytes:
    """Read a regular file, or its first ``limit`` bytes; raises ``OSError`` as ``open_file`` does."""
    with open_file(path) as file:
        return file.read(limit)


@contextmanager
def name_errors(place: object) -> Generator[None]:
    """Turn an ``OSError`` into a ``ConfigError`` that names the place."""
    try:
        yield
    except OSError as error:
        raise ConfigError(f"{place}: {error.strerror}") from None


def is_there(path: Path) -> bool:
    """Return whether there is a file; raise ``ConfigError`` for a folder, a broken link or the like."""
    try:
        path.lstat()
        if path.is_file():
            return True
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    raise ConfigError(f"{path}: cannot be read as a file, so its settings would not apply")


def decode_text(data: bytes, place: object, most: int, *, encoding: str = "utf-8-sig") -> str:
    """Return the text of a file; ``ConfigError`` names the place of one that is too large, or not UTF-8."""
    if len(data) > most:
        raise ConfigError(f"{place}: larger than {most} bytes")
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
        raise ConfigError(f"{place}: not UTF-8") from None


def keep_from_others(path: Path) -> bool:
    """Remove all rights to a file from everybody but its owner; tell whether others had some. ``OSError`` on failure.

    On Windows it does nothing: mode bits say nothing about other users there.
    """
    # Not opened: closing a database's file would end this process's locks on it.
    rights = stat.S_IMODE(path.stat().st_mode)
    if os.name != "posix" or not rights & 0o077:
        return False
    path.chmod(rights & 0o700)
    _log.warning("%s: others could read or write it; they cannot any more", path)
    return True


@contextmanager
def open_replacement(path: Path, *, mode: int = _PRIVATE, durable: bool = True) -> Generator[BinaryIO]:
    """Write a file of another name beside ``path``, and move it there at the end of the block; not if that fails.

    A link at ``path`` is replaced, not followed. ``mode``: the file's permissions; while it is being written, only
    its owner may open it. ``durable``: wait until the disk has its content, so that a power cut leaves no empty
    file; not needed for content that can be made again. Raises ``OSError`` if it cannot be written, or is a folder, a
    pipe or a device; nothing has changed then.
    """
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "is a folder, a pipe or a device, not a file", str(path))
    part = path.with_name(f".{path.name}.{token_hex(6)}.part")
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE), "wb") as file:
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        if mode != _PRIVATE:
            part.chmod(mode)
        part.replace(path)
    except BaseException as error:
        if isinstance(error, OSError) and (error.errno == errno.ENOSPC or str(error.filename) == str(part)):
            error.filename = str(path)
        with suppress(OSError):
            part.unlink()
        raise


def replace_file(path: Path, data: bytes, *, mode: int = _PRIVATE, durable: bool = True) -> None:
    """Replace a file by these bytes; see ``open_replacement``."""
    with open_replacement(path, mode=mode, durable=durable) as file:
        file.write(data)


def bound_by_open_files(most: int) -> int:
    """Return ``most``, or half the number of files that this process may have open if that is less."""
    try:
        import resource
    except ImportError:  # Windows
        return most
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return most if soft == resource.RLIM_INFINITY else min(soft // 2, most)


MAX_PARTS = 32
"""Most parts of a dotted key. ``tomllib`` takes a time that grows with the square of their number."""

# Each ends at the end of the text at the latest, so that no beginning is tried twice.
_TEXTS = re.compile(
    r'"""(?:"{0,2}+(?:\\.|[^"\\]))*+"{0,5}'
    r"|'''(?:'{0,2}+[^'])*+'{0,5}"
    r'|"(?:[^"\\\n]|\\[^\n])*+"?'
    r"|'[^'\n]*+'?"
    r"|\#[^\n]*+",
    re.DOTALL,
)
_LONG_KEY = re.compile(rf"(?<![\w-])(?:[\w-]++[ \t]*+\.[ \t]*+){{{MAX_PARTS}}}")


def parse_toml(text: str, *, parse_float: Callable[[str], Any] = float) -> dict[str, Any]:
    """Parse a TOML text, with ``parse_float`` for numbers with a point; ``RecursionError`` for deep nesting."""
    # Imported here, because a host made by a program reads no file.
    import tomllib

    if _LONG_KEY.search(_TEXTS.sub("x", text)):
        raise ValueError(f"a key has more than {MAX_PARTS} parts")
    return tomllib.loads(text, parse_float=parse_float)
