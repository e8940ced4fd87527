"""People who have proven who they are: their roles, the names by which rules speak of them, and how records name them.

Pure. ``web.provider_sign_in`` and ``web.password_sign_in`` find out who somebody is, and ``review.question`` has the
rules about who may decide what. A person at a terminal, or a name that was typed, proves nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Literal
from urllib.parse import quote, unquote

import msgspec

from antiphon.errors import Unauthorized

Role = Literal["viewer", "reviewer", "admin"]
ROLES: tuple[Role, ...] = ("viewer", "reviewer", "admin")
"""Each may do what those before it may: see, decide, and change what lasts (grants, blocks, tools)."""

_PROVEN = re.compile(r"<(\S+) sub:([^\s<>]+)>")
_ANGLES = str.maketrans("<\u2039\u276e\u27e8\u3008\ufe64\uff1c>\u203a\u276f\u27e9\u3009\ufe65\uff1e", "((((((()))))))")
"""Those that name a proven person, and those that a reader could mistake for them."""
_MAX_NAME = 80
"""Most characters of a name in records."""


MOST_PEOPLE = 5
"""Most people that a rule can want to approve the same."""


class Demands(msgspec.Struct, frozen=True, kw_only=True):
    """Whom rules leave a call to; by default to anybody."""

    to: tuple[tuple[str, ...], ...] = ()
    """Lists of names, each of which must mean whoever decides; see ``Person.is_among``."""
    people: int = 1
    """How many people have to approve the same."""

    def __bool__(self) -> bool:
        return self != Demands()

    def exceeds(self, other: Demands) -> bool:
        """Return whether these ask for more than others.

        Args:
            other: the demands that were met.
        """
        return self.people > other.people or not set(self.to) <= set(other.to)


class Person(msgspec.Struct, frozen=True, kw_only=True):
    """One who has signed in.

    Args:
        issuer: who vouches for the person: the address of an OpenID provider.
        subject: the person's unchanging id there; unique only together with ``issuer``.
        name: what the person is called there, for display; it proves nothing.
        email: the address, if the issuer says that it is verified.
        groups: the person's groups, as the issuer says.
        role: what the person may do here.

    Raises:
        ValueError: the issuer or the subject is empty, or the issuer has blanks or angle brackets.
    """

    issuer: str
    subject: str
    name: str = ""
    email: str | None = None
    groups: frozenset[str] = frozenset()
    role: Role = "viewer"

    def __post_init__(self) -> None:
        # Records name a person by both, and whoever approves a second time is recognized there.
        if not re.fullmatch(r"[^\s<>]+", self.issuer) or not self.subject:
            raise ValueError("a person has an issuer without blanks and angle brackets, and a subject")

    @property
    def principal(self) -> str:
        """Issuer and subject, as callers of a gateway are named."""
        return f"{self.issuer} sub:{self.subject}"

    def has_role(self, role: Role) -> bool:
        """Return whether the person has this role, or a higher one.

        Args:
            role: the lowest role that suffices.
        """
        return ROLES.index(self.role) >= ROLES.index(role)

    def is_among(self, names: Collection[str]) -> bool:
        """Return whether one of these names means the person.

        Args:
            names: ``"group:NAME"``, ``"sub:SUBJECT"``, a verified e-mail address, or ``"*"`` for everybody.
        """
        # Beyond ASCII, letters of different domains have the same lower case: straße.example is not strasse.example.
        return not {"*", f"sub:{self.subject}", *(f"group:{group}" for group in self.groups)}.isdisjoint(names) or any(
            ":" not in name and re.fullmatch(re.escape(name), self.email or "", re.ASCII | re.IGNORECASE)
            for name in names
        )

    def __str__(self) -> str:
        name = _clean_name(self.name).strip()[:_MAX_NAME]
        return f"{name} <{self.issuer} sub:{quote(self.subject, safe='@:/.-_~')}>".strip()


Decider = str | Person
"""Who decides: a person who has signed in, or a name that proves nothing."""


def write_decider(by: Decider | None) -> str | None:
    """Return how records name a decider. Only a proven person's name ends with ``<ISSUER sub:SUBJECT>``."""
    return str(by) if isinstance(by, Person) else None if by is None else _clean_name(by)


def _clean_name(name: str) -> str:
    return " ".join(name.translate(_ANGLES).split())


def read_deciders(by: str | None) -> tuple[str, ...]:
    """Return the principal of each proven person that a record names."""
    return tuple(f"{issuer} sub:{unquote(subject)}" for issuer, subject in _PROVEN.findall(by or ""))


def find_role(person: Person, roles: Mapping[Role, Collection[str]]) -> Person:
    """Return the person with the highest role that these names give; raise ``Unauthorized`` if that is none."""
    found = [role for role in ROLES if person.is_among(roles.get(role, ()))]
    if not found:
        raise Unauthorized(f"{person} has no role here: an entry in [review.sign_in.roles] gives one")
    return msgspec.structs.replace(person, role=found[-1])


def check_name(name: str) -> None:
    """Raise ``ValueError`` for a name that means nobody: see ``Person.is_among``."""
    kind, _, rest = name.partition(":")
    if name != "*" and not (kind in ("group", "sub") and rest) and not re.fullmatch(r"[^\s@:]+@[^\s@:]+", name):
        raise ValueError(f'{name!r} is "group:NAME", "sub:SUBJECT" or an e-mail address')
