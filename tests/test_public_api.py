"""The public names: an exact list, each loaded when first used, each documented."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import defaultdict
from importlib import import_module
from pathlib import Path

import pytest

import antiphon
from antiphon import errors
from antiphon.gateway import Gateway
from antiphon.host import Scripted
from antiphon.server.tasks.served_tasks import ServedTasks
from tests.support import public_surface

ERRORS = set(errors.__all__)
NAMES = {
    "Annotations",
    "AudioContent",
    "BY_HAND",
    "CallAbandoned",
    "CallToolResult",
    "Channel",
    "Client",
    "CompareAndSetStore",
    "Context",
    "CreateMessageRequestParams",
    "CreateMessageResult",
    "Depends",
    "ElicitRequestParams",
    "ElicitResult",
    "Elicited",
    "EmbeddedResource",
    "Frame",
    "GetPromptResult",
    "Host",
    "Icon",
    "ImageContent",
    "MemoryStateStore",
    "ModelHint",
    "ModelPreferences",
    "OAuth",
    "Origin",
    "Oversized",
    "PendingRound",
    "PromptMessage",
    "Rate",
    "ReadResourceResult",
    "ResourceContents",
    "ResourceLink",
    "ResourceServer",
    "Root",
    "RoundLimits",
    "Sample",
    "SamplingMessage",
    "Server",
    "SqlStateStore",
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
    assert set(loaded) & {"cryptography", "jsonschema_rs", "uvloop", "rich", "click", "pydantic"} == set()


def test_a_client_does_not_pay_for_the_server():
    """The two sides are independent of each other."""
    loaded = in_fresh_python("import sys, antiphon; antiphon.Client; print(*sys.modules)").split()
    assert "antiphon.client.client" in loaded
    assert [name for name in loaded if name.startswith("antiphon.server")] == []


_SELDOM = (
    "antiphon.machine.side_process",
    "antiphon.engine.request_telemetry",
    "antiphon.server.asks.elicitations",
    "antiphon.server.calls.recorded_call",
    "antiphon.server.calls.replayed_call",
)
"""What only some servers use: those that check costly schemas, report to OpenTelemetry, elicit, or have replicas."""


def test_a_server_loads_nothing_that_most_servers_never_use():
    """What asyncio brings along is there anyway."""
    usual = "import sys, asyncio, logging, inspect, msgspec; usual = set(sys.modules)"
    code = f"{usual}; from antiphon import Server; Server('x'); print(*set(sys.modules) - usual)"
    loaded = set(in_fresh_python(code).split())
    assert loaded & {"pathlib", "secrets", "concurrent.futures.thread", "uvicorn", "urllib.parse", "zlib"} == set()
    assert {name for name in loaded if name.startswith(_SELDOM)} == set()
    assert "antiphon.server.app" in loaded


def test_an_unknown_name_is_an_attribute_error():
    """The lazy look-up answers like any module."""
    name = "Nothing"
    with pytest.raises(AttributeError, match="module 'antiphon' has no attribute 'Nothing'"):
        getattr(antiphon, name)


def test_dir_lists_the_public_names():
    """Completion in an editor or a shell sees what is not loaded yet."""
    assert set(antiphon.__all__) <= set(dir(antiphon))


def test_every_type_in_a_public_signature_is_public():
    """Whoever is given something, or asked for it, can name its type: export it from a public place."""
    assert public_surface.leaks() == []


def test_a_type_that_is_not_public_would_be_found():
    """In a parameter, and in an attribute that only a method assigns."""
    assert {leak.partition(": ")[0] for leak in public_surface.leaks({"ServedTasks": ServedTasks})} >= {
        "ServedTasks.__init__(seal)",
        "ServedTasks.core",
        "ServedTasks.stored",
    }


def test_every_parameter_of_the_public_api_has_its_line():
    """Editors show the docstring beside the call: meaning, unit and default of each parameter are found at a glance."""
    assert public_surface.undescribed() == []


@pytest.mark.parametrize("place", public_surface.PLACES)
def test_a_public_place_lists_what_is_in_it(place: str):
    """No name twice, none that is not there."""
    module = import_module(place)
    assert len(set(module.__all__)) == len(module.__all__)
    assert [name for name in module.__all__ if getattr(module, name, None) is None] == []


MEANT_TWICE = {"Answer", "Change", "Completion", "Extension", "Grant", "Listening"}
"""Names that stand for one thing in one public place and for another in another: docs/design/rough-edges.md."""


def test_a_name_is_the_same_thing_in_every_public_place():
    """Whoever has seen it in one need not look it up in another."""
    places: dict[str, set[int]] = defaultdict(set)
    for name, value in public_surface.public().items():
        places[name.rpartition(".")[2]].add(id(value))
    assert {name for name, things in places.items() if len(things) > 1} == MEANT_TWICE


MEMBERS = {
    "Server": "add_prompt add_resource add_tool app asgi complete confirmer extend from_openapi info instructions "
    "list_by_tag list_changed list_roots listen middleware mount name notify on_unsubscribe prompt prompts resource "
    "resource_updated resources route run serve served_skills skills state subscribed task_changed templates tool "
    "tool_definition tools watched_tasks",
    "Context": "cancelled close_stream debug elicit elicit_url error go_on_as_task info list_roots log progress "
    "read_resource request sample sample_step server state step warning",
    "Host": "aclose answer audit capabilities complete confirm elicit equip examine forget_run grants "
    "handed_over model_names offers policy provider reviewer run store",
    "Gateway": "configure expose run server switch_tool upstreams",
    "Client": "call_tool close complete confirmers connect forward get_prompt instructions is_answering is_open "
    "list_prompts list_resource_templates list_resources list_skills list_tools listen notify ping prompts "
    "read_resource resource_templates resources revision rounds skill skills "
    "server_capabilities server_info set_log_level set_roots start_task task timeout tools",
}
"""What an author may use of each, and nothing else: plumbing begins with an underscore."""


@pytest.mark.parametrize("name", sorted(MEMBERS))
def test_only_what_an_author_may_use_shows(name: str):
    """In an editor, ``dir`` is the documentation that everybody reads."""
    made = {
        "Server": antiphon.Server("s"),
        "Client": antiphon.Client(antiphon.Server("s")),
        "Context": object.__new__(antiphon.Context),
        "Host": antiphon.Host(Scripted([])),
        "Gateway": Gateway({"s": antiphon.Server("s")}, None, asks="relay"),
    }
    shown = [member for member in dir(made[name]) if not member.startswith("_")]
    assert " ".join(sorted(shown)) == " ".join(sorted(MEMBERS[name].split()))


def test_the_changelog_names_every_public_place():
    """What it does not name may change without a word."""
    text = (Path(__file__).parent.parent / "CHANGELOG.md").read_text(encoding="utf-8")
    promise = text.partition("Public is what")[2].partition("list in")[0]
    assert set(re.findall(r"`([\w.]+)`", promise)) == {*public_surface.PLACES, *public_surface.ELSEWHERE}


def test_pages_and_examples_import_from_public_places():
    """What a page shows must go on working: each module is a public place, and each name is in its list."""
    root = Path(__file__).parent.parent
    pages = [*root.glob("*.md"), *root.glob("docs/**/*.md"), *root.glob("examples/**/*.py")]
    wanted = {page.relative_to(root).as_posix(): _imported(page.read_text(encoding="utf-8")) for page in pages}
    assert sum(len(names) for names in wanted.values()) > 100
    assert [f"{page}: {name}" for page, names in wanted.items() for name in sorted(names - _PUBLIC)] == []


_PUBLIC = {
    *(*public_surface.PLACES, *public_surface.ELSEWHERE),
    *(*public_surface.public(), *public_surface.public_elsewhere()),
}

_IMPORT = re.compile(
    r"^[ >]*(?:from (antiphon[\w.]*) import (\([^)]*\)|[^\n#]*)|import (antiphon[\w.]*)(?: as \w+)?\s*$)", re.MULTILINE
)


def _imported(text: str) -> set[str]:
    """List the full names of what the programs in a text import from the package."""
    found: set[str] = set()
    for place, names, module in _IMPORT.findall(text):
        given = [name.split(" as ")[0].strip() for name in re.sub(r"[()]|#.*", "", names).split(",")]
        found |= {f"{place}.{name}" for name in given if name} if place else {module}
    return found


def test_an_import_of_what_is_not_public_would_be_found():
    """From another module, of another name, over several lines, and with another name for it."""
    several = "from antiphon import (\n    Server,\n    Hidden,  # ours\n)\n"
    modules = "    from antiphon.wire.tools import Tool as T\nimport antiphon.gateway\nimport antiphon.cli as c\n"
    assert _imported(several + modules) - _PUBLIC == {"antiphon.Hidden", "antiphon.wire.tools.Tool", "antiphon.cli"}


_LAZY = [place for place in public_surface.PLACES if hasattr(import_module(place), "__getattr__")]


@pytest.mark.parametrize("place", _LAZY)
def test_a_type_checker_sees_the_names_that_are_loaded_lazily(place: str):
    """Each comes from the same module in the stub for type checkers and at run time, under its own name."""
    module = import_module(place)
    body = ast.parse(Path(f"{module.__file__}i").read_text(encoding="utf-8")).body
    imports = [node for node in body if isinstance(node, ast.ImportFrom)]
    seen = {(node.module, one.name) for node in imports for one in node.names if one.name == one.asname}
    assert sorted(name for _, name in seen) == sorted(module.__all__)
    assert [name for home, name in seen if getattr(import_module(home), name) is not getattr(module, name)] == []


def test_a_star_import_brings_the_public_names():
    """``__all__`` is read from the stub when it is first asked for."""
    brought = in_fresh_python("from antiphon.client import *; print(*sorted(n for n in dir() if n[0] != '_'))")
    assert brought.split() == sorted(import_module("antiphon.client").__all__)


def test_the_lazy_places_are_found():
    """Every place with more than a few modules behind it."""
    assert {"antiphon", "antiphon.server", "antiphon.client", "antiphon.host", "antiphon.gateway"} <= {*_LAZY}
