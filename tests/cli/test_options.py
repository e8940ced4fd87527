from __future__ import annotations

import pytest

from antiphon.wire.revisions import REVISIONS
from tests.cli.conftest import Cli


@pytest.mark.parametrize("name", ["tools", "call", "resources", "read", "prompts", "prompt", "doctor"])
def test_commands_share_their_options(name: str, cli: Cli):
    """Spelled alike everywhere."""
    printed = cli(name, "--help").out
    for option in ("--json", "--config", "--revision", "--timeout", "--messages", "--verbose"):
        assert option in printed


def test_the_help_names_the_revisions(cli: Cli):
    """All there are."""
    printed = cli("tools", "--help").out
    assert all(revision.name in printed for revision in REVISIONS)
