"""Files that are replaced atomically: a reader finds the old content or the new, never a part."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO

__all__ = ["replace_file", "replaced_file"]

_PRIVATE = 0o600


@contextmanager
def replaced_file(path: Path, *, mode: int = _PRIVATE, durable: bool = True) -> Generator[BinaryIO]:
    """Write a file of another name beside ``path``, and move it there at the end of the block; not if that fails.

    Args:
        path: the file, new or there already. A link is replaced, not followed.
        mode: its permissions; while it is being written, only its owner may open it.
        durable: wait until the disk has its content, so that a power cut leaves no empty file. Not needed for content
            that can be made again.

    Raises:
        OSError: it cannot be written; nothing has changed then.
    """
    part = path.with_name(f".{path.name}.{token_hex(6)}.part")
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        if mode != _PRIVATE:
            part.chmod(mode)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def replace_file(path: Path, data: bytes, *, mode: int = _PRIVATE, durable: bool = True) -> None:
    """Replace a file by these bytes; see ``replaced_file``."""
    with replaced_file(path, mode=mode, durable=durable) as file:
        file.write(data)
