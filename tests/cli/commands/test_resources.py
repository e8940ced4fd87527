from __future__ import annotations

from tests.cli.conftest import Cli
from tests.cli.program import SERVERS, SHOP


def test_resources_and_templates_are_listed(shop: Cli):
    """One below the other."""
    assert shop("resources", SHOP).out.splitlines() == [
        "shop://list\ttext/plain\tlisting\tWhat there is.",
        "shop://logo\timage/png\tlogo\tA picture.",
        "shop://{product}/label\ttext/plain\tlabel\tOne label.",
    ]


def test_resources_are_printed_as_json(shop: Cli):
    """Each as the server describes it."""
    printed = shop("resources", SHOP, "--json").objects
    assert [one.get("uri") or one["uriTemplate"] for one in printed][-1] == "shop://{product}/label"


def test_a_server_without_resources_says_so(cli: Cli):
    """By a named error, since it does not offer them."""
    done = cli("resources", str(SERVERS / "hostile.py"))
    assert done.code == 1
    assert "resources/list" in done.err
