"""Which tools pass a gateway."""

from __future__ import annotations

import pytest

from antiphon.errors import ConfigError
from antiphon.gateway import Filters


@pytest.mark.parametrize(
    ("globs", "passing"),
    [
        (["*"], {"list", "delete_all", "get"}),
        (["*", "!delete_*"], {"list", "get"}),
        (["!delete_*"], {"list", "get"}),
        (["!delete_*", "delete_all"], set()),
        (["delete_all", "!delete_*", "get"], {"get"}),
        (["g?t"], {"get"}),
        (["!*"], set()),
    ],
)
def test_a_deny_wins_wherever_it_stands(globs: list[str], passing: set[str]):
    """Where a list allows something, the rest is denied."""
    filters = Filters({"a": globs})
    assert {name for name in ("list", "delete_all", "get") if filters.passes("a", name)} == passing
    assert filters.passes("b", "delete_all")


def test_a_tool_must_pass_every_list():
    """Those for all servers, for its server, and for a profile: none takes back what another denies."""
    filters = Filters({"*": ["!delete_*"], "a": ["*"]}).with_more({"a": ["get", "delete_all"]})
    assert [name for name in ("list", "delete_all", "get") if filters.passes("a", name)] == ["get"]
    assert not filters.passes("b", "delete_all")


@pytest.mark.parametrize("globs", [[], ["!"], ["*"] * 1001])
def test_a_list_that_cannot_be_meant_is_an_error(globs: list[str]):
    """An empty one could mean everything or nothing."""
    with pytest.raises(ConfigError, match="the tools of a"):
        Filters({"a": globs})
