"""Files that are replaced as a whole, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
import inspect
import os
import pwd
import stat
from pathlib import Path

import pytest

from antiphon.auth.client.file_store import FileLogins
from antiphon.auth.client.grants import WorkloadIdentity
from antiphon.auth.client.store import Registered
from antiphon.auth.metadata import ClientIdentity
from antiphon.cli.arguments import read_arguments, read_request
from antiphon.cli.commands.audit.command import read_anchors, verify_file
from antiphon.cli.commands.gateway import _has_servers
from antiphon.cli.config_files import read_config
from antiphon.errors import AntiphonError, ConfigError
from antiphon.host.config import load_config
from antiphon.host.config.toml_files import Trust
from antiphon.host.store import open_store
from antiphon.machine.files import (
    bound_by_open_files,
    decode_text,
    find_home,
    is_there,
    open_file,
    open_replacement,
    read_file,
    replace_file,
)


def mode(path: Path) -> int:
    """Return the rights of a file."""
    return stat.S_IMODE(path.stat().st_mode)


def test_until_the_end_the_old_file_is_there(tmp_path: Path):
    """With its content; nobody but its owner may read what is written meanwhile."""
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with open_replacement(path, mode=0o644) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
        (part,) = set(tmp_path.iterdir()) - {path}
        assert mode(part) == 0o600
    assert (path.read_bytes(), mode(path)) == (b"new", 0o644)
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_is_its_owner_s_alone(tmp_path: Path):
    """One that others could read before, too."""
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o666)
    replace_file(path, b"new")
    assert (path.read_bytes(), mode(path)) == (b"new", 0o600)


@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_only_a_file_is_replaced(kind: str, tmp_path: Path):
    """Whoever names a pipe means what reads it, and root would lose ``/dev/null``."""
    path = tmp_path / "there"
    (os.mkdir if kind == "folder" else os.mkfifo)(path)
    with pytest.raises(OSError, match=r"is a folder, a pipe or a device, not a file: '.*there'$"):
        replace_file(path, b"new")
    assert (path.is_dir() or path.is_fifo(), list(tmp_path.iterdir())) == (True, [path])


def test_an_error_names_the_file_that_was_to_be_written(tmp_path: Path):
    """And not the one of another name that is moved there."""
    with pytest.raises(FileNotFoundError) as error:
        replace_file(tmp_path / "missing" / "file", b"new")
    assert error.value.filename == str(tmp_path / "missing" / "file")


@pytest.mark.parametrize("step", ["fsync", "chmod", "replace"])
def test_where_a_step_fails_nothing_has_changed(step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The old file stays as it was, and nothing is left beside it."""
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def full(*_given: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os if step == "fsync" else Path, step, full)
    with pytest.raises(OSError, match="No space"):
        replace_file(path, b"new", mode=0o640)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_not_written_to_its_end_is_not_there(tmp_path: Path):
    """Whatever ends it: here, somebody at the keyboard."""

    def write() -> None:
        with open_replacement(tmp_path / "file") as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("durable", [True, False])
def test_the_disk_has_it_before_the_old_file_goes(durable: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Unless it can be had again, where waiting for the disk is not worth it."""
    path = tmp_path / "file"
    path.write_bytes(b"old")
    seen: list[tuple[int, bytes]] = []

    def sync(handle: int) -> None:
        seen.append((os.fstat(handle).st_size, path.read_bytes()))

    monkeypatch.setattr(os, "fsync", sync)
    replace_file(path, b"new!", durable=durable)
    assert seen == ([(4, b"old")] if durable else [])
    assert path.read_bytes() == b"new!"


def test_a_link_is_replaced_and_not_followed(tmp_path: Path):
    """What it names stays as it is, so that nobody makes us write somewhere else."""
    (tmp_path / "other").write_bytes(b"theirs")
    (tmp_path / "file").symlink_to("other")
    replace_file(tmp_path / "file", b"ours")
    assert (tmp_path / "other").read_bytes() == b"theirs"
    assert not (tmp_path / "file").is_symlink()


def test_a_file_is_read_up_to_a_limit(tmp_path: Path):
    """Through a link, too, unless that is not wanted."""
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to("file")
    assert read_file(tmp_path / "link") == b"content"
    assert read_file(tmp_path / "file", 3) == b"con"
    with pytest.raises(OSError, match="link"):
        open_file(tmp_path / "link", follow=False)


def test_a_text_is_bounded_utf_8():
    """The error names the place; a mark of the order of bytes, as Windows writes it, is no part of the text."""
    assert decode_text(b"\xef\xbb\xbfa = 1", "f.toml", 8) == "a = 1"
    assert decode_text(b"\xef\xbb\xbf", "f.toml", 8, encoding="utf-8") == "\ufeff"
    for data, problem in ((b"123456789", "f.toml: larger than 8 bytes"), (b"\xff", "f.toml: not UTF-8")):
        with pytest.raises(ConfigError, match=problem):
            decode_text(data, "f.toml", 8)


def test_a_pipe_a_device_and_a_folder_are_no_files(tmp_path: Path):
    """Reading one could wait for ever; nothing is read, and nobody is waited for."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(OSError, match="is a pipe or a device"):
            read_file(path)
    with pytest.raises(IsADirectoryError):
        read_file(tmp_path)


async def _read_logins(path: Path) -> object:
    return await FileLogins(path, keyring=False).read()


async def _read_key(path: Path) -> object:
    store = FileLogins(path.with_name("logins"), keyring=False)
    await store.change(lambda kept: kept.register(Registered(issuer="i", identity=ClientIdentity(client_id="c"))))
    await asyncio.to_thread(path.rename, path.with_name("logins.key"))
    return await FileLogins(store.path, keyring=False).read()


async def _open_store(path: Path) -> None:
    store = open_store(str(path))
    try:
        await store.head()
    finally:
        await store.aclose()


READERS = {
    "settings": lambda path: load_config({}, file=path),
    "servers": read_config,
    "settings or servers": _has_servers,
    "trusted files": lambda path: Trust({"XDG_STATE_HOME": str(path.parent.parent)}).all(),
    "logins": _read_logins,
    "key of logins": _read_key,
    "token of a workload": lambda path: WorkloadIdentity(path)._from_file(""),
    "anchors": read_anchors,
    "exported record": lambda path: verify_file(path, []),
    "request": read_request,
    "argument": lambda path: read_arguments([f"@{path}"], {}),
    "store": _open_store,
}


@pytest.mark.parametrize("reader", READERS)
async def test_a_pipe_in_the_place_of_a_file_of_ours_is_an_error(tmp_path: Path, reader: str):
    """Nobody writes to it, so that a reader would wait for ever."""
    path = tmp_path / "antiphon" / "trusted.json"
    path.parent.mkdir()
    os.mkfifo(path)

    async def read() -> None:
        if inspect.isawaitable(reading := READERS[reader](path)):
            await reading

    with pytest.raises((AntiphonError, OSError)):
        await read()


@pytest.mark.parametrize(("soft", "most"), [(1024, 512), (4096, 1000), (None, 1000)])
def test_half_of_the_files_that_may_be_open_is_a_bound(soft: int | None, most: int, monkeypatch: pytest.MonkeyPatch):
    """What is left is for the connections and files that something else opens."""
    # A module that Windows does not have.
    import resource

    limit = resource.RLIM_INFINITY if soft is None else soft
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    assert bound_by_open_files(1000) == most


def test_a_user_without_a_home_has_the_root_folder(monkeypatch: pytest.MonkeyPatch):
    """In a container any number may be a user's, and no file says where this user is at home."""

    def find_nobody(_number: int) -> object:
        raise KeyError

    assert find_home({"HOME": "/users/ada"}) == Path("/users/ada")
    monkeypatch.delenv("HOME")
    assert find_home() == Path(pwd.getpwuid(os.getuid()).pw_dir)
    monkeypatch.setattr(pwd, "getpwuid", find_nobody)
    assert find_home() == Path("/")
    assert find_home({}) == Path("/")


def test_a_file_of_settings_is_there_or_not_and_anything_else_is_an_error(tmp_path: Path):
    """A folder, a broken link, a place that cannot be looked at: settings would silently not apply."""
    file, link, folder = (tmp_path / name for name in ("file", "link", "folder"))
    file.touch()
    folder.mkdir()
    link.symlink_to("nowhere")
    assert is_there(file)
    assert not is_there(tmp_path / "other")
    assert not is_there(file / "below")
    for wrong in (folder, link, tmp_path / ("x" * 300)):
        with pytest.raises(ConfigError, match=wrong.name):
            is_there(wrong)
