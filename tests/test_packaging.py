"""What the package declares is what it uses, and what is pinned is only versions."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import entry_points, packages_distributions, version
from pathlib import Path

import antiphon

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
OFFERED = [*PROJECT["dependencies"], *(line for extra, lines in EXTRAS.items() if extra != "dev" for line in lines)]
USED = [requirement for requirement in OFFERED if not requirement.startswith("antiphon[")]
"""What a user may install."""
DECLARED = [*USED, *(requirement for requirement in EXTRAS["dev"] if not requirement.startswith("antiphon["))]

# Used when the user has it, never required: pydantic's models as argument and result types, and what exports telemetry.
# The second line is read by type checkers only.
OPTIONAL = {
    *("pydantic", "pydantic-core", "opentelemetry-sdk"),
    *("typing-extensions", "opentelemetry-semantic-conventions"),
    "pytest",  # loads our plugin of it by itself
}

# Ours by their names alone: uvicorn's parsers, SQLAlchemy's driver.
LOADED_BY_OTHERS = {"httptools", "websockets", "asyncpg"}

FRAMEWORKS = {"langchain-core", "langgraph", "openai-agents", "google-adk"}
"""Each has an environment of its own, which tests/interop/setup.sh pins: they exclude each other's packages."""

# What comes with others: vendors' clients with extras of pydantic-ai-slim, safe strings with jinja2, C code with the
# oldest ruamel.yaml.
BROUGHT_ALONG = {"anthropic", "openai", "markupsafe", "ruamel-yaml-clib"}


def plain(requirement: str) -> str:
    """Take the name out of a requirement, spelled as package indexes compare names."""
    return re.sub(r"[-_.]+", "-", re.split(r"[\s<>=!~;\[]", requirement, maxsplit=1)[0]).lower()


def imported() -> set[str]:
    """Collect the distributions that the library imports anywhere, also inside functions."""
    modules: set[str] = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if path.stem.startswith(("langchain", "openai_agents", "google_adk")) and path.parent.name == "adapters":
                continue
            if isinstance(node, ast.Import):
                modules.update(alias.name.partition(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                modules.add(node.module.partition(".")[0])
    homes = packages_distributions()
    foreign = modules - sys.stdlib_module_names - {"antiphon"}
    return {plain(home) for module in foreign for home in homes.get(module, [f"unknown {module}"])}


def pins() -> dict[str, str]:
    """Read constraints.txt: name -> version."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return {plain(line): line.partition("==")[2] for line in lines}


def test_every_import_is_declared_and_every_declaration_imported():
    """A dependency nobody imports is not declared; one that is imported is."""
    declared = {plain(requirement) for requirement in USED}
    assert declared == (imported() - OPTIONAL - BROUGHT_ALONG) | LOADED_BY_OTHERS | FRAMEWORKS


def test_every_dependency_is_pinned():
    """The tests run with known versions of all that is declared."""
    assert {plain(requirement) for requirement in DECLARED} - FRAMEWORKS <= set(pins())
    setup = (ROOT / "tests" / "interop" / "setup.sh").read_text(encoding="utf-8")
    peers = ("langchain", "langgraph", "openai-agents", "google-adk")
    assert [name for name in peers if not re.search(rf"{name}(\[\w+\])?==", setup)] == []


def test_the_pins_are_versions_only():
    """No address of an index, no path, no hash: just names and versions."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.!+]+", line)] == []


def test_every_dependency_is_explained():
    """A new one needs a row that says why, how big, how slow, and who keeps it."""
    page = (ROOT / "docs" / "design" / "dependencies.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1].lower().replace(".", "-") for line in page.splitlines() if line.startswith("| ")]
    assert [name for name in map(plain, DECLARED) if not any(re.search(rf"\b{name}\b", row) for row in rows)] == []


def test_the_version_is_the_installed_one():
    """The version is stated once, in the package."""
    assert version("antiphon") == antiphon.__version__


def test_the_command_is_installed():
    """``antiphon`` is the main function of the command line."""
    (command,) = entry_points(group="console_scripts", name="antiphon")
    assert command.value == "antiphon.cli.main:main"
    assert callable(command.load())


def test_every_extra_is_on_the_page_about_installing():
    """Whoever needs one finds what it is for, and its size."""
    page = (ROOT / "docs" / "how-to" / "install.md").read_text(encoding="utf-8")
    named = {name for names in re.findall(r"\./antiphon\[([\w,-]+)\]", page) for name in names.split(",")}
    assert named == EXTRAS.keys() - {"dev"}


def test_no_library_has_an_upper_bound():
    """Programs that share their libraries with this package can have newer ones."""
    assert [one for one in DECLARED if "<" in one] == []
