"""People who have proven who they are: the names that mean them, their roles, and how records name them."""

from __future__ import annotations

import pytest

from antiphon.host.checks.people import Demands, Person, check_name, read_deciders, write_decider

ANN = Person(issuer="https://id", subject="a", email="ann@example.org", groups=frozenset({"finance"}), role="reviewer")


def test_a_name_never_passes_for_a_person():
    """Neither one that was typed, nor one that an issuer claims."""
    assert read_deciders(write_decider("Ann <https://id sub:ann>")) == ()
    claimed = Person(issuer="https://id", subject="x y<>", name="Bob <https://id sub:bob> + Cy <https://id sub:cy>")
    assert read_deciders(str(claimed)) == ("https://id sub:x y<>",)


@pytest.mark.parametrize(
    "brackets", ["<>", "\uff1c\uff1e", "\u2039\u203a", "\u27e8\u27e9", "\u3008\u3009", "\ufe64\ufe65", "\u276e\u276f"]
)
def test_a_name_never_looks_like_a_person(brackets: str):
    """Brackets that a reader takes for those of a proven person are others in records, typed and claimed."""
    forged = "Ann {}https://id sub:ann{}".format(*brackets)
    assert write_decider(forged) == "Ann (https://id sub:ann)"
    assert str(Person(issuer="https://id", subject="x", name=forged)) == "Ann (https://id sub:ann) <https://id sub:x>"


def test_a_name_stands_on_one_line():
    """A line of its own could be read as another record."""
    person = Person(issuer="https://id.example.org", subject="ann", name="Ann\n2026-01-01 approved by\u2028Bob")
    assert write_decider(person) == "Ann 2026-01-01 approved by Bob <https://id.example.org sub:ann>"
    assert write_decider("Ann\r\nBob") == "Ann Bob"


@pytest.mark.parametrize(
    ("issuer", "subject"),
    [("", "a"), ("https://id", ""), ("my issuer", "a"), ("https://id\n", "a"), ("<https://id>", "a")],
)
def test_a_person_whom_records_cannot_name_is_refused(issuer: str, subject: str):
    """Such a person would not be recognized, and could approve the same twice."""
    with pytest.raises(ValueError, match="issuer without blanks"):
        Person(issuer=issuer, subject=subject)


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("ann@stra\u00dfe.example", "ann@strasse.example"),
        ("\u212aim@example.org", "kim@example.org"),
        ("group:platform", "group:platform"),
        ("sub:a", "sub:a"),
    ],
)
def test_an_address_is_no_other_address(address: str, name: str):
    """Letters beyond ASCII are compared as they are, and an address never passes for a group or a subject."""
    assert not Person(issuer="https://id", subject="x", email=address).is_among([name])


@pytest.mark.parametrize(
    ("name", "is_meant"),
    [
        ("group:finance", True),
        ("sub:a", True),
        ("Ann@Example.org", True),
        ("*", True),
        ("finance", False),
        ("group:fin", False),
        ("sub:ann@example.org", False),
        ("a", False),
    ],
)
def test_which_names_mean_a_person(name: str, is_meant: bool):
    """A group, the subject, the verified address, in whatever case."""
    assert ANN.is_among([name]) == is_meant
    assert not ANN.is_among([])


def test_a_higher_role_may_do_what_a_lower_one_may():
    """And not the other way round."""
    assert [ANN.has_role(role) for role in ("viewer", "reviewer", "admin")] == [True, True, False]


@pytest.mark.parametrize("name", ["", "finance", "group:", "role:x", "a@", "@b", "a b@c"])
def test_a_name_that_means_nobody_is_refused(name: str):
    """So that a typing error does not leave a call to nobody."""
    with pytest.raises(ValueError, match="group:NAME"):
        check_name(name)


def test_more_people_or_other_people_are_more():
    """What was met covers the same and less."""
    met = Demands(to=(("sub:a",), ("sub:b",)), people=2)
    assert not any(each.exceeds(met) for each in (met, Demands(), Demands(to=(("sub:b",),), people=2)))
    assert all(each.exceeds(met) for each in (Demands(people=3), Demands(to=(("sub:c",),))))
