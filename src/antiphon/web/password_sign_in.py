"""Signing in on the page with a name and a password, for a team without an OpenID provider.

The passwords are in a file of the user, as Argon2id hashes (RFC 9106); ``antiphon review password`` makes one. Owns the
file and the bounds on guessing. At each sign-in the file is read, and parsed if it has changed: changes count at once.
"""

from __future__ import annotations

import asyncio
import logging
from functools import lru_cache
from pathlib import Path
from unicodedata import normalize

import msgspec
from argon2 import PasswordHasher, Type, extract_parameters
from argon2.exceptions import InvalidHashError, VerificationError, VerifyMismatchError

from antiphon.errors import ConfigError
from antiphon.host.checks.people import Person, find_role
from antiphon.host.config.settings import SignIn
from antiphon.host.review.decisions import InvalidInput
from antiphon.machine.files import decode_text, keep_from_others, name_errors, parse_toml, read_file
from antiphon.web.site import Site

MAX_FILE = 1024 * 1024
"""Most bytes of the file: some 5,000 people."""
MAX_WRONG = 5
"""Wrong passwords for one name in a row, after which it has to pause."""
PAUSE = 60.0
"""Seconds of that pause. Each further wrong password begins another one."""
MAX_CHECKING = 20
"""Most sign-ins that are checked or wait for that: each takes 64 MiB and some 50 ms of a processor."""
_AT_ONCE = 2
_MOST_MEMORY = 1024 * 1024 * 1024
"""Most bytes of memory that checking one hash may take; the library's own take 64 MiB and three rounds."""
_MOST_ROUNDS = 20
_UNKNOWN = 1_000
"""Most names that the file does not have and that are counted all the same; the one that was tried first goes first."""

_log = logging.getLogger("antiphon.web")


class PersonEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One person in the file: a table that is called as the person is when signing in."""

    password: str
    """What ``antiphon review password`` has printed."""
    name: str = ""
    email: str | None = None
    groups: tuple[str, ...] = ()


class PasswordSignIn:
    """Signs people in by the file that the settings name."""

    def __init__(self, settings: SignIn, site: Site) -> None:
        """Read the file once, so that what is wrong with it is known before somebody signs in.

        Raises ``ConfigError``: the file cannot be read, or an entry is not right.
        """
        assert settings.passwords is not None, "the settings have a provider instead"
        self._settings = settings
        self._path = Path(settings.passwords).expanduser()
        self._site = site
        self._nobody = hash_password("")
        self._wrong: dict[str, tuple[int, float]] = {}
        """The wrong passwords in a row, by name, and when the last one was tried."""
        self._checking = 0
        self._turn = asyncio.Semaphore(_AT_ONCE)
        read_people(self._path)

    async def check(self, name: str, password: str) -> Person:
        """Return who has this name and this password.

        Raises ``InvalidInput``: nobody is signed in; says why, and not whether there is such a name. Raises
        ``Unauthorized``: the person has no role here.
        """
        if self._checking >= MAX_CHECKING:
            raise InvalidInput("signed.busy")
        self._checking += 1
        try:
            return await self._check(normalize("NFC", name), password)
        except ConfigError as error:
            _log.warning("nobody can sign in: %s", error)
            raise InvalidInput("signed.broken") from None
        finally:
            self._checking -= 1

    async def _check(self, name: str, password: str) -> Person:
        people = read_people(self._path)
        entry = people.get(name)
        wrong, last = self._wrong.get(name, (0, 0.0))
        if wrong >= MAX_WRONG and 0 <= self._site.clock() - last < PAUSE:
            raise InvalidInput("signed.pause", n=round(PAUSE))
        # Counted before it is checked, so that no number of attempts at the same time is one attempt.
        self._wrong.pop(name, None)
        self._wrong[name] = wrong + 1, self._site.clock()
        # Names that are not there are counted as others are, so that a pause tells nobody which names are.
        for unknown in [each for each in self._wrong if each not in people][:-_UNKNOWN]:
            del self._wrong[unknown]
        async with self._turn:
            # Also for a name that is not there: how long it takes tells nobody which names are.
            fits = await asyncio.to_thread(_verify, self._nobody if entry is None else entry.password, password)
        if entry is None or not fits:
            raise InvalidInput("signed.wrong")
        self._wrong.pop(name, None)
        issuer, groups = self._settings.origin, frozenset(entry.groups)
        person = Person(issuer=issuer, subject=name, name=entry.name, email=entry.email, groups=groups)
        return find_role(person, self._settings.roles)


def hash_password(password: str) -> str:
    """Return the hash of a password, for the file: Argon2id with the library's parameters of today.

    The password is normalized (NFC, as in RFC 8265, section 4.2): systems type the same letters in different ways.
    """
    return PasswordHasher().hash(normalize("NFC", password))


def _verify(hashed: str, password: str) -> bool:
    try:
        return PasswordHasher().verify(hashed, normalize("NFC", password))
    except VerifyMismatchError:
        return False
    except VerificationError as error:
        raise ConfigError(f"a hash cannot be checked: {error}") from None


def read_people(path: Path) -> dict[str, PersonEntry]:
    """Read the file of people, by the names with which they sign in; nobody else may read it afterwards.

    Raises ``ConfigError``: it cannot be read, or an entry is not right; the text names it.
    """
    with name_errors(f"{path}: cannot be read, or kept from others"):
        keep_from_others(path)
        data = read_file(path, MAX_FILE + 1)
    return _parse_people(path, decode_text(data, path, MAX_FILE))


@lru_cache(maxsize=1)
def _parse_people(path: Path, text: str) -> dict[str, PersonEntry]:
    people: dict[str, PersonEntry] = {}
    name = ""
    try:
        for name, table in parse_toml(text).items():
            entry = msgspec.convert(table, PersonEntry)
            if people.setdefault(normalize("NFC", name), entry) is not entry:
                raise ValueError("the name stands here twice, in letters that look the same")
            if not name.strip() or not _is_hash(entry.password):
                raise ValueError("password is not a hash: antiphon review password makes one")
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: {name and f'[{name}] '}{error}") from None
    return people


def _is_hash(text: str) -> bool:
    try:
        found = extract_parameters(text)
    except InvalidHashError:
        return False
    rounds_or_threads = max(found.time_cost, found.parallelism)
    return found.type is Type.ID and found.memory_cost * 1024 <= _MOST_MEMORY and rounds_or_threads <= _MOST_ROUNDS
