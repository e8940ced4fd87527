"""The table of the gateway in ``antiphon.toml``."""

from __future__ import annotations

import pytest

from antiphon.errors import ConfigError
from antiphon.host.config.gateway import Profile
from antiphon.host.config.parse import read

TEXT = """
[gateway]
tools = ["!delete_*"]
[gateway.servers.a]
tools = ["*"]
prefix = "x"
rename = { create = "new", read = "get" }
[gateway.profiles.work]
tools = ["!secret_*"]
[gateway.profiles.work.servers.a]
prefix = "y"
rename = { read = "fetch" }
"""


def test_a_profile_adds_to_what_holds_for_all():
    """Its lists in addition to the general ones, its names in place of them."""
    said = read(TEXT, "f").gateway
    work = said.profile("work")
    assert said.tool_lists(work) == [{"*": ("!delete_*",), "a": ("*",)}, {"*": ("!secret_*",)}]
    assert said.prefixes(work) == {"a": "y"}
    assert said.renamed(work) == {"a": {"create": "new", "read": "fetch"}}
    assert said.profile(None) == Profile()
    assert said.prefixes(Profile()) == {"a": "x"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "[gateway.servers.a]\ntool = []",
            "line 2: gateway.servers.a.tool: there is no such key; did you mean 'tools'",
        ),
        (
            "[gateway.profiles.p.servers.a]\nnames = 1",
            "line 2: gateway.profiles.p.servers.a.names: there is no such key",
        ),
        ("[gateway]\nservers = 1", "line 2: gateway.servers: Expected `object`"),
    ],
)
def test_a_misspelt_list_is_told(text: str, told: str):
    """It would deny nothing."""
    with pytest.raises(ConfigError, match=told):
        read(text, "f")
