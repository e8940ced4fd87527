"""The house limits of CONTRIBUTING.md that no linter knows: sizes, mirrors, names, places."""

from __future__ import annotations

import ast
import gc
import re
import subprocess
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support import public_surface

ROOT = Path(__file__).parent.parent
SRC = ROOT / "src" / "antiphon"
CHANGES = (
    (ROOT / "CONTRIBUTING.md")
    .read_text(encoding="utf-8")
    .partition("## What an everyday change touches")[2]
    .partition("\n## ")[0]
)
MAX_FILE = 540
MAX_FUNCTION = 59
DRAWERS = {"common", "helper", "helpers", "manager", "managers", "misc", "shared", "stuff", "util", "utils"}
REVISION = re.compile("2024-11-05|2025-03-26|2025-06-18|2025-11-25|2026-07-28")
OPEN_ENDS = re.compile(
    r"\b(TODO|FIXME|XXX)\b|#\s*noqa|#\s*pragma: no cover|pytest\.(skip|xfail)|mark\.(skip|skipif|xfail)"
)
# Spelled in pieces so that this file does not find itself.
PLACES = re.compile(
    "|".join(
        [
            "/" + "work/",
            "/" + "root/",
            r"(?<![\w.])/" + r"home/\w",
            r"(?<!file://)/" + "tmp/",
            "py" + r"pi\.org",
            "pythonhosted" + r"\.org",
            "registry" + r"\.npm",
            "npm" + r"js\.(org|com)",
            "proxy" + r"\.golang",
        ]
    )
)


def modules() -> list[Path]:
    """List the modules of the library."""
    return sorted(SRC.rglob("*.py"))


def programs() -> list[Path]:
    """List every Python file of the repository."""
    return [path for path in tracked() if path.suffix == ".py"]


@cache
def tracked() -> list[Path]:
    """List the files git keeps or would keep; in an unpacked archive, all that is there."""
    if not (ROOT / ".git").exists():
        folders = ("src", "tests", "docs", "examples", "benchmarks")
        found = [*ROOT.glob("*.*"), *(path for folder in folders for path in (ROOT / folder).rglob("*"))]
        return sorted(path for path in found if path.is_file() and "__pycache__" not in path.parts)
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout
    return sorted(path for name in listed.split("\0") if name and (path := ROOT / name).is_file())


@cache
def tree(path: Path) -> ast.Module:
    """Parse a file, once."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


@pytest.fixture(scope="module", autouse=True)
def no_garbage_is_collected() -> Iterator[None]:
    """Parse undisturbed, and do not look for garbage among millions of nodes.

    Until 3.11.8, ast.parse may fail with a SystemError where a finaliser of collected garbage parses meanwhile
    (python/cpython#106905).
    """
    gc.disable()
    yield
    tree.cache_clear()
    gc.enable()


def named(path: Path) -> str:
    """Name a file as it is seen from the top of the repository."""
    return path.relative_to(ROOT).as_posix()


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Walk over every function of a file, however deep."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Count the lines of a function from ``def`` to its end, without its docstring."""
    docstring = function.body[0] if ast.get_docstring(function, clean=False) is not None else None
    prose = docstring.end_lineno - docstring.lineno + 1 if docstring and docstring.end_lineno else 0
    return (function.end_lineno or function.lineno) - function.lineno + 1 - prose


def prose(path: Path) -> set[int]:
    """Collect the ids of the string nodes that stand alone: docstrings of every kind."""
    alone = (node.value for node in ast.walk(tree(path)) if isinstance(node, ast.Expr))
    return {id(value) for value in alone if isinstance(value, ast.Constant)}


def described(path: Path) -> int:
    """Count the lines of a file that are docstrings of its functions."""
    return sum((f.end_lineno or f.lineno) - f.lineno + 1 - length(f) for f in functions(path))


def test_no_file_is_longer_than_a_reader_can_hold():
    """A file that grows past the limit holds more than one thing. Docstrings of functions do not count."""
    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in programs()}
    long = {named(path): count - described(path) for path, count in lines.items() if count > MAX_FILE}
    assert {name: count for name, count in long.items() if count > MAX_FILE} == {}


def test_no_function_is_longer_than_a_screen():
    """Docstrings do not count; there are no exemptions."""
    found = {f"{named(path)}:{f.lineno} {f.name}": length(f) for path in programs() for f in functions(path)}
    assert {place: lines for place, lines in found.items() if lines > MAX_FUNCTION} == {}


def mirrors(path: Path) -> list[Path]:
    """Name the test modules that may cover a module: its mirror, or that of a package within a package it is in."""
    inside = path.relative_to(SRC)
    own = ROOT / "tests" / inside.with_name(f"test_{inside.name}")
    packages = [ROOT / "tests" / package for package in inside.parents if len(package.parts) > 1]
    return [own, *(package.with_name(f"test_{package.name}.py") for package in packages)]


def test_every_module_has_a_test_module():
    """src/antiphon/x/y.py is tested in tests/x/test_y.py."""
    sought = [path for path in modules() if path.name not in {"__init__.py", "__main__.py"}]
    missing = [named(path) for path in sought if not any(mirror.is_file() for mirror in mirrors(path))]
    assert missing == []


def test_every_test_module_tests_something():
    """A mirror without a test is no mirror."""
    tests = [path for path in programs() if path.name.startswith("test_") and path.is_relative_to(ROOT / "tests")]
    assert [named(path) for path in tests if not any(f.name.startswith("test_") for f in functions(path))] == []


def test_revision_names_stay_in_their_places():
    """Only wire/revisions, wire/methods.py and protocol/ may know the name of a protocol revision."""
    places = (SRC / "wire" / "revisions", SRC / "wire" / "methods.py", SRC / "protocol")
    found: list[str] = []
    for path in modules():
        if any(path.is_relative_to(place) for place in places):
            continue
        documents = prose(path)
        for node in ast.walk(tree(path)):
            is_text = isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documents
            if is_text and REVISION.search(node.value):
                found.append(f"{named(path)}:{node.lineno} {node.value!r}")
    assert found == []


def test_modules_import_each_name_from_its_home():
    """The package's root serves users; inside, it would hide who needs whom. Only the version is there."""
    found: list[str] = []
    for path in modules():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ImportFrom) and node.module == "antiphon" and node.level == 0:
                found += [f"{named(path)}:{node.lineno} {a.name}" for a in node.names if a.name != "__version__"]
    assert [place for place in found if not (SRC / f"{place.split()[-1]}.py").is_file()] == []


def test_every_module_says_what_it_owns():
    """A module without a docstring has no owner."""
    assert [named(path) for path in modules() if not ast.get_docstring(tree(path))] == []


def assigned(path: Path) -> set[str]:
    """Collect the names a module assigns or defines at its top, also where type checkers do not look."""
    body = tree(path).body
    below = [one for node in body if isinstance(node, ast.If) for one in node.orelse]
    return {name for node in [*body, *below] for name in assigned_by(node)}


def assigned_by(node: ast.stmt) -> set[str]:
    """Collect the names that a statement assigns or defines."""
    if isinstance(node, ast.Assign):
        return {target.id for target in node.targets if isinstance(target, ast.Name)}
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return {node.target.id}
    return {node.name} if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) else set()


def test_only_a_place_that_users_import_from_lists_its_names():
    """``__all__`` is a promise to users, or passes on what stands elsewhere; else a name without ``_`` says it."""
    promising = {*public_surface.PLACES, *public_surface.ELSEWHERE}
    needless: list[str] = []
    for path in modules():
        place = ".".join(path.relative_to(SRC.parent).with_suffix("").parts).removesuffix(".__init__")
        for node in tree(path).body:
            if isinstance(node, ast.Assign) and "__all__" in assigned_by(node) and place not in promising:
                needless += [place] if set(ast.literal_eval(node.value)) <= assigned(path) else []
    assert needless == []


def test_no_module_is_a_drawer():
    """A module is named for what it is about; ``wire/common.py`` is the one exception."""
    allowed = {SRC / "wire" / "common.py"}
    found = [path for path in modules() if DRAWERS & {path.stem, path.parent.name}]
    assert [named(path) for path in found if path not in allowed] == []


def test_nothing_is_left_open_or_switched_off():
    """No marks for later, no silenced checks, no skipped tests."""
    found: list[str] = []
    for path in programs():
        if path == Path(__file__):
            continue
        lines = path.read_text(encoding="utf-8").splitlines()
        found += [f"{named(path)}:{number}" for number, line in enumerate(lines, 1) if OPEN_ENDS.search(line)]
    assert found == []


def test_no_file_names_a_machine_or_a_registry():
    """What is in the repository works anywhere."""
    found: list[str] = []
    for path in tracked():
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            continue
        found += [
            f"{named(path)}:{number} {line.strip()[:80]}" for number, line in enumerate(lines, 1) if PLACES.search(line)
        ]
    assert found == []


PAGE = re.compile(r"(?<![\w/])docs/[\w/-]+\.md")


def test_no_comment_refers_to_a_page_that_is_not_there():
    """A reference that leads nowhere is worse than none."""
    found = {
        f"{named(path)}: {page}"
        for path in modules()
        for page in PAGE.findall(path.read_text(encoding="utf-8"))
        if not (ROOT / page).is_file()
    }
    assert found == set()


def test_a_name_with_its_module_is_found_there():
    """Comments that say ``module.name`` lead to it: what was moved or renamed since would send the reader away."""
    names = {path.relative_to(SRC).with_suffix("").as_posix().removesuffix("/__init__"): path for path in modules()}
    texts = {f"/{name}": path.read_text(encoding="utf-8") for name, path in names.items()}
    wrong = [
        (path, written)
        for path, text in texts.items()
        for written in re.findall(r"``((?:[a-z_]\w*\.)+(?!db\b|toml\b)\w+)``", text)
        if not _leads_somewhere(written.split("."), texts)
    ]
    assert not wrong


def _leads_somewhere(parts: list[str], texts: dict[str, str]) -> bool:
    for end in range(len(parts), 0, -1):
        homes = [text for path, text in texts.items() if path.endswith("/" + "/".join(parts[:end]))]
        if homes:
            return any(all(re.search(rf"\b{part}\b", text) for part in parts[end:]) for text in homes)
    return True


def test_the_map_shows_the_layers_that_are_checked():
    """docs/design/layers.md draws the same order as the import contract in pyproject.toml."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    page = (ROOT / "docs" / "design" / "layers.md").read_text(encoding="utf-8")
    drawn = next(block for block in re.findall(r"```text\n(.*?)```", page, re.DOTALL) if "->" in block)
    order = [re.findall(r"\w+", row) for row in drawn.split("->")]
    assert order == [re.findall(r"\w+", row) for row in contracts[0]["layers"]]


@pytest.mark.parametrize(
    "row", re.findall(r"^\| (.+?) \| `(.+?)` \| (`.+`) \|$", CHANGES, re.MULTILINE), ids=lambda row: row[0]
)
def test_an_everyday_change_touches_the_files_that_the_table_names(row: tuple[str, str, str]):
    """CONTRIBUTING.md has ten changes, each as one that was made: where that is found, and nowhere else."""
    pattern = re.compile(row[1].replace(r"\|", "|"), re.MULTILINE)
    found = {
        path.relative_to(SRC).as_posix()
        for path in SRC.rglob("*")
        if path.suffix in {".py", ".html", ".toml", ".json"} and pattern.search(path.read_text(encoding="utf-8"))
    }
    # The table of what other libraries call things names all that is public.
    assert found - {"machine/other_frameworks.json"} == set(re.findall(r"`(.+?)`", row[2]))


def test_the_table_of_everyday_changes_has_ten():
    """What a newcomer is asked for first."""
    assert len(re.findall(r"^\| .+ \| `.+` \| `.+` \|$", CHANGES, re.MULTILINE)) == 10
