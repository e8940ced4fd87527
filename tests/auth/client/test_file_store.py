"""Logins in a file: encrypted, for their owner only, changed by one process at a time."""

from __future__ import annotations

import asyncio
import json
import os
import stat

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked

from antiphon.auth.client.file_store import FileLogins
from antiphon.auth.client.store import MAX_LOGINS, Document, Login, Registered
from antiphon.auth.metadata import ClientIdentity, ServerMetadata
from antiphon.errors import ConfigError


class Ring(KeyringBackend):
    """A keyring in memory."""

    priority = 5

    def __init__(self):
        super().__init__()
        self.kept = {}
        self.locked = False

    def get_password(self, service, username):
        if self.locked:
            raise KeyringLocked
        return self.kept.get((service, username))

    def set_password(self, service, username, password):
        self.kept[service, username] = password


@pytest.fixture
def ring():
    """Put a keyring of the test's in the place of the system's."""
    before, ring = keyring.get_keyring(), Ring()
    keyring.set_keyring(ring)
    yield ring
    keyring.set_keyring(before)


def login(server="https://a.example/mcp", **changes):
    """A login."""
    metadata = ServerMetadata(issuer="https://login.example", token_endpoint="https://login.example/t")
    said = {
        "server": server,
        "label": "registered",
        "metadata": metadata,
        "resource": server,
        "identity": ClientIdentity(client_id="me", secret="s3cret"),
        "access_token": "t0ken",
        "token_type": "Bearer",
        "refresh_token": "r3fresh",
        "scopes": ("a", "b"),
        "key": {"kty": "EC", "d": "pr1vate"},
    }
    return Login(**{**said, **changes})


@pytest.mark.parametrize("with_ring", [True, False])
async def test_another_process_reads_what_was_kept(tmp_path, ring, with_ring):
    """All of it, by another object with the same file."""
    path = tmp_path / "state" / "logins"
    await FileLogins(path, keyring=with_ring).change(lambda kept: kept.put(login()))
    assert (await FileLogins(path, keyring=with_ring).read()).logins == [login()]


@pytest.mark.parametrize("with_ring", [True, False])
async def test_nothing_secret_stands_in_the_file(tmp_path, ring, with_ring):
    """Not a token, not a secret, not a key, not even the server; and only its owner may read it."""
    path = tmp_path / "state" / "logins"
    await FileLogins(path, keyring=with_ring).change(lambda kept: kept.put(login()))
    data = path.read_text()
    assert not [word for word in ("t0ken", "r3fresh", "s3cret", "pr1vate", "a.example") if word in data]
    files = [one for one in path.parent.iterdir() if one.suffix != ".lock"]
    assert {stat.S_IMODE(one.stat().st_mode) for one in files} == {0o600}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


async def test_the_key_is_in_the_keyring_where_there_is_one(tmp_path, ring):
    """A copy of the file opens nothing."""
    path = tmp_path / "logins"
    await FileLogins(path).change(lambda kept: kept.put(login()))
    assert json.loads(path.read_text())["key"] == "in the system's keyring"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["logins", "logins.lock"]
    ring.kept.clear()
    with pytest.raises(ConfigError, match="keyring"):
        await FileLogins(path).read()


async def test_without_a_keyring_the_file_says_where_its_key_is(tmp_path):
    """Whoever looks at it learns what protects it."""
    path = tmp_path / "logins"
    await FileLogins(path, keyring=False).change(lambda kept: kept.put(login()))
    assert "whoever can read the folder" in json.loads(path.read_text())["key"]
    assert (tmp_path / "logins.key").exists()


@pytest.mark.parametrize("with_ring", [True, False])
async def test_a_file_that_was_deleted_and_made_anew_is_read_with_its_new_key(tmp_path, ring, with_ring):
    """As the error about damage advises, while another process runs on."""
    path = tmp_path / "logins"
    running = FileLogins(path, keyring=with_ring)
    await running.change(lambda kept: kept.put(login()))
    path.unlink()
    await FileLogins(path, keyring=with_ring).change(lambda kept: kept.put(login("https://b.example/mcp")))
    assert [one.server for one in (await running.read()).logins] == ["https://b.example/mcp"]
    await running.change(lambda kept: kept.put(login("https://c.example/mcp")))
    assert len((await FileLogins(path, keyring=with_ring).read()).logins) == 2


async def test_a_key_that_others_could_read_is_closed_to_them(tmp_path, caplog):
    """And the log says it, since they may have read it."""
    path = tmp_path / "logins"
    await FileLogins(path, keyring=False).change(lambda kept: kept.put(login()))
    key = tmp_path / "logins.key"
    key.chmod(0o644)
    assert (await FileLogins(path, keyring=False).read()).logins == [login()]
    assert key.stat().st_mode & 0o777 == 0o600
    assert "logins.key: others could read or write it" in caplog.text


async def test_a_keyring_that_is_locked_is_told_apart_from_damage(tmp_path, ring):
    """What is kept is not lost: the person can unlock it."""
    path = tmp_path / "logins"
    await FileLogins(path).change(lambda kept: kept.put(login()))
    before = path.read_bytes()
    ring.locked = True
    with pytest.raises(ConfigError, match="unlock it"):
        await FileLogins(path).change(lambda kept: kept.put(login("https://b.example")))
    assert path.read_bytes() == before


@pytest.mark.parametrize("damage", [b"", b"{}", b"no", b"[" * 10_000, None])
async def test_a_file_that_was_changed_by_others_is_refused(tmp_path, damage):
    """Nobody can put a login of theirs into it; the error says what to do."""
    path = tmp_path / "logins"
    store = FileLogins(path, keyring=False)
    await store.change(lambda kept: kept.put(login()))
    if damage is None:
        said = json.loads(path.read_text())
        said["key"] = "in the system's keyring "
        damage = json.dumps(said).encode()
    path.write_bytes(damage)
    with pytest.raises(ConfigError, match="sign in again"):
        await FileLogins(path, keyring=False).read()


async def test_a_change_that_changes_nothing_writes_nothing(tmp_path):
    """Whoever only looks does not make others read anew."""
    path = tmp_path / "logins"
    store = FileLogins(path, keyring=False)
    await store.change(lambda kept: kept.put(login()))
    before = path.stat()
    assert await store.change(lambda kept: len(kept.logins)) == 1
    assert path.stat() == before or path.stat().st_mtime_ns == before.st_mtime_ns


async def test_a_file_is_read_again_only_when_it_has_changed(tmp_path, monkeypatch):
    """A look costs no decryption."""
    path = tmp_path / "logins"
    store = FileLogins(path, keyring=False)
    await store.change(lambda kept: kept.put(login()))
    await store.read()
    loads = []
    load = FileLogins._load
    monkeypatch.setattr(FileLogins, "_load", lambda self: loads.append(1) or load(self))
    for _ in range(10):
        await store.read()
    assert loads == []
    await FileLogins(path, keyring=False).change(lambda kept: kept.drop("https://a.example/mcp", "registered"))
    assert (await store.read()).logins == []


async def test_changes_at_the_same_time_are_all_kept(tmp_path):
    """One after another, whatever object or thread they come from."""
    path = tmp_path / "logins"
    stores = [FileLogins(path, keyring=False) for _ in range(4)]

    async def add(number):
        await stores[number % 4].change(lambda kept: kept.put(login(f"https://a.example/{number}")))

    await asyncio.gather(*(add(number) for number in range(40)))
    assert len((await stores[0].read()).logins) == 40


async def test_a_folder_that_cannot_be_written_is_an_error_that_says_so(tmp_path):
    """Not a traceback."""
    place = tmp_path / "file"
    place.write_text("")
    with pytest.raises(ConfigError, match="cannot be"):
        await FileLogins(place / "logins", keyring=False).change(lambda kept: kept.put(login()))


def test_what_is_kept_is_bounded():
    """The oldest login goes first."""
    document = Document()
    for number in range(MAX_LOGINS + 5):
        document.put(login(f"https://a.example/{number}"))
    assert len(document.logins) == MAX_LOGINS
    assert document.find("https://a.example/0", "registered") is None


def test_a_registration_ends_when_its_issuer_said():
    """And is of one issuer only."""
    document = Document()
    document.register(Registered(issuer="a", identity=ClientIdentity(client_id="x"), expires_at=10.0))
    assert document.registration("a", 9.0) is not None
    assert document.registration("a", 11.0) is None
    assert document.registration("b", 9.0) is None


def test_the_name_of_a_store_shows_its_place_only():
    """A log may hold it."""
    assert repr(FileLogins("x/logins")) == f"FileLogins('x{os.sep}logins')"
