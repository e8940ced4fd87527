"""The tables of docs/topics/errors.md say what errors.py says."""

from __future__ import annotations

import re
from pathlib import Path

from antiphon import errors
from antiphon.errors import AntiphonError, PeerError
from antiphon.wire.envelope import ErrorObject, from_wire

TEXT = (Path(__file__).parent.parent / "docs" / "topics" / "errors.md").read_text(encoding="utf-8")
CODES = {int(code): name for code, name in re.findall(r"^\| (-?\d+) \| `(\w+)` \|", TEXT, re.MULTILINE)}


def test_every_code_becomes_the_class_the_page_names():
    """What arrives with a code is raised as the class beside it."""
    assert {code: type(from_wire(ErrorObject(code=code, message=""))).__name__ for code in CODES} == CODES


def test_no_code_is_left_out():
    """Every class with a code of its own has a row."""
    own = {vars(kind)["CODE"] for kind in PeerError.__subclasses__()}
    assert own == set(CODES)


def test_every_error_is_on_the_page():
    """Also those without a code."""
    missing = [name for name in errors.__all__ if f"`{name}`" not in TEXT]
    assert missing == []


def test_the_page_names_no_error_that_is_not_there():
    """A renamed class leaves no trace."""
    named = set(re.findall(r"^\|(?: -?\d+ \|)? `([A-Z]\w+)` \|", TEXT, re.MULTILINE))
    assert all(issubclass(getattr(errors, name), AntiphonError) for name in named)
