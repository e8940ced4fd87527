"""Which of our variables a child gets."""

from __future__ import annotations

from antiphon.transports.stdio.client import child_environment

OURS = {
    "PATH": "/bin",
    "HOME": "/h",
    "LC_ALL": "C",
    "OPENAI_API_KEY": "secret",
    "LD_PRELOAD": "x.so",
    "SHELL": "() { :; }; bad",
}


def test_a_child_gets_what_programs_need_and_no_secrets():
    """Only known names are passed on, and no exported shell functions."""
    assert child_environment(None, ours=OURS) == {"PATH": "/bin", "HOME": "/h", "LC_ALL": "C"}


def test_what_is_given_stands_over_what_is_inherited():
    """The caller's variables are added, and win."""
    assert child_environment({"HOME": "/x", "TOKEN": "t"}, ours=OURS) == {
        "PATH": "/bin",
        "HOME": "/x",
        "LC_ALL": "C",
        "TOKEN": "t",
    }


def test_all_of_it_can_be_inherited():
    """On request the child gets everything but the secrets of our own commands."""
    ours = OURS | {"ANTIPHON_TOKEN": "t", "ANTIPHON_CLIENT_SECRET": "s", "ANTIPHON_TLS_PASSWORD": "p"}
    assert child_environment({"A": "1"}, inherit=True, ours=ours) == OURS | {"A": "1"}
