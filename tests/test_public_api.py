"""The public names: an exact list, each loaded when first used, each documented."""

from __future__ import annotations

import subprocess
import sys

import pytest

import antiphon
from antiphon import errors

ERRORS = set(errors.__all__)
NAMES = {
    "Annotations",
    "AudioContent",
    "BY_HAND",
    "CallAbandoned",
    "CallToolResult",
    "Client",
    "CompareAndSetStore",
    "Context",
    "CreateMessageRequestParams",
    "CreateMessageResult",
    "ElicitRequestParams",
    "ElicitResult",
    "Elicited",
    "EmbeddedResource",
    "Host",
    "Icon",
    "ImageContent",
    "MemoryStateStore",
    "ModelHint",
    "ModelPreferences",
    "Origin",
    "PendingRound",
    "PromptMessage",
    "ResourceLink",
    "Root",
    "RoundLimits",
    "Sample",
    "SamplingMessage",
    "Server",
    "StateStore",
    "TextContent",
    "Tool",
    "ToolAnnotations",
    "ToolChoice",
    "ToolResultContent",
    "ToolUseContent",
}


def in_fresh_python(program: str) -> str:
    """Run a program in a new interpreter without site packages' start-up hooks and return what it printed."""
    done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, check=True, text=True)
    return done.stdout.strip()


def test_the_list_is_exact():
    """A new public name needs a line here and one in the changelog."""
    assert set(antiphon.__all__) == NAMES | ERRORS
    assert len(antiphon.__all__) == len(set(antiphon.__all__))


@pytest.mark.parametrize("name", sorted(NAMES | ERRORS))
def test_a_public_name_is_documented(name: str):
    """Every public name loads and says what it is."""
    assert (getattr(antiphon, name).__doc__ or "").strip()


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_public_name_is_the_one_of_its_module(name: str):
    """What the package hands out is the very object its module defines."""
    found = getattr(antiphon, name)
    assert getattr(sys.modules[found.__module__], name) is found


def test_importing_loads_nothing_heavy():
    """``import antiphon`` brings in no module but itself."""
    loaded = in_fresh_python(
        "import sys; before = set(sys.modules); import antiphon; print(*(set(sys.modules) - before))"
    )
    assert set(loaded.split()) - {"__future__"} == {"antiphon"}


@pytest.mark.parametrize("name", ["Client", "TextContent", "Host", "Server"])
def test_a_name_loads_no_terminal_and_no_cryptography(name: str):
    """Using one part of the library does not pay for the edges."""
    loaded = in_fresh_python(f"import sys, antiphon; antiphon.{name}; print(*sys.modules)").split()
    assert set(loaded) & {"cryptography", "jsonschema_rs", "uvloop", "rich", "typer", "pydantic"} == set()


def test_a_client_does_not_pay_for_the_server():
    """The two sides are independent of each other."""
    loaded = in_fresh_python("import sys, antiphon; antiphon.Client; print(*sys.modules)").split()
    assert "antiphon.server.app" not in loaded


def test_an_unknown_name_is_an_attribute_error():
    """The lazy look-up answers like any module."""
    name = "Nothing"
    with pytest.raises(AttributeError, match="module 'antiphon' has no attribute 'Nothing'"):
        getattr(antiphon, name)


def test_dir_lists_the_public_names():
    """Completion in an editor or a shell sees what is not loaded yet."""
    assert set(antiphon.__all__) <= set(dir(antiphon))
