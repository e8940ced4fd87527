"""``antiphon login``: its help and its options. The rest is in ``tests/cli/test_login_access.py``."""

from __future__ import annotations

from tests.cli.conftest import Cli


def test_it_says_what_it_does(cli: Cli):
    """In one sentence; no option takes a secret, which others could read in a list of processes."""
    done = cli("login", "--help")
    assert done.code == 0
    assert "Sign in to a server, for all commands." in " ".join(done.out.split())
    assert "--client-secret" not in done.out
    assert "--token" not in done.out


def test_logins_it_says_what_it_does(cli: Cli):
    """In one sentence; no option takes a secret, which others could read in a list of processes."""
    done = cli("logins", "--help")
    assert done.code == 0
    assert "List where you are signed in." in " ".join(done.out.split())
    assert "--client-secret" not in done.out
    assert "--token" not in done.out


def test_logout_it_says_what_it_does(cli: Cli):
    """In one sentence; no option takes a secret, which others could read in a list of processes."""
    done = cli("logout", "--help")
    assert done.code == 0
    assert "Forget the login to a server, and have its tokens revoked." in " ".join(done.out.split())
    assert "--client-secret" not in done.out
    assert "--token" not in done.out
