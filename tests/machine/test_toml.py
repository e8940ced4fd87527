"""TOML of strangers: its keys are bounded, and text in strings and comments does not count."""

from __future__ import annotations

from contextlib import suppress

import pytest

from antiphon.machine.files import MAX_PARTS, parse_toml

LONG = "a." * MAX_PARTS + "a"
HIDDEN = (
    f"{LONG} = 1",
    f"[{LONG}]",
    "x = {" + LONG + " = 1}",
    '"a b" . ' * MAX_PARTS + "c = 1",
    'x = {y = """b"c""", ' + LONG + " = 1}",
    "x = 'it is \\'\n" + LONG + " = 1",
    "x = '''it's'''\n" + LONG + " = 1",
)
SHOWN = (f'x = "{LONG}"', f"x = '{LONG}'", f"# {LONG}\n", f'x = """\n{LONG} = 1\n"""', "a.b.c = 1.5")
PIECES = ("a.", '"a".', '\\"', "'", '"', '"""', "#", "[a]\n", "x.y.", '"\\', "x = [", "a . ", "a" * 30 + " ")


@pytest.mark.parametrize("text", HIDDEN)
def test_a_key_with_too_many_parts_is_refused(text: str):
    """Wherever it stands, and however it is written."""
    with pytest.raises(ValueError, match="more than 32 parts"):
        parse_toml(text)


@pytest.mark.parametrize("text", SHOWN)
def test_dots_in_strings_and_comments_are_no_parts(text: str):
    """As in names of hosts."""
    assert isinstance(parse_toml(text), dict)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("piece", PIECES)
@pytest.mark.parametrize("start", ["", "x = '''", 'x = """', "x = {"])
def test_a_megabyte_is_read_in_a_time_that_grows_with_its_length(piece: str, start: str):
    """Whether it is TOML or not: a time that grew with the square would be hours."""
    with suppress(ValueError, RecursionError):
        parse_toml(start + piece * (1024 * 1024 // len(piece)))
