"""What the layout of ``src`` measures up to: ``python -m tests.support.house``.

Counts what a reader meets: how many names stand side by side in a folder, which names are used twice, whether imports
run in a circle, how many files one call leads through, which public signatures name a type that cannot be imported
from a public place, and which names nobody uses. The tests hold bounds on these figures (``tests/test_house.py``); the
page ``docs/design/layers.md`` quotes them.
"""

from __future__ import annotations

import ast
import asyncio
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from types import FrameType

import grimp

from antiphon import Client, Context, Server
from tests.support.public_surface import leaks, public, public_elsewhere

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src" / "antiphon"


def entries() -> dict[str, int]:
    """Count the names side by side in each folder of ``src``: modules with their stubs, packages, folders of data."""
    folders = [SRC, *(path for path in SRC.rglob("*") if path.is_dir() and path.name != "__pycache__")]
    return {
        path.relative_to(SRC.parent).as_posix(): len(
            [p for p in path.iterdir() if not p.name.startswith("__") and p.suffix not in (".pyi", ".typed")]
        )
        for path in folders
    }


def twice() -> dict[str, list[str]]:
    """Collect the names that more than one module or package has, each with the folders it stands in."""
    places: dict[str, list[str]] = defaultdict(list)
    for path in sorted(SRC.rglob("*.py")):
        own = path.parent if path.name == "__init__.py" else path
        if own != SRC and own.stem != "__main__":
            places[own.stem].append(own.parent.relative_to(SRC.parent).as_posix())
    return {name: folders for name, folders in sorted(places.items()) if len(folders) > 1}


def names() -> dict[str, str]:
    """Collect the names that ``src`` gives to modules, classes, functions, parameters and variables, with a place."""
    found: dict[str, str] = {}
    for path in sorted(SRC.rglob("*.py")):
        place = path.relative_to(SRC).as_posix()
        found.setdefault(path.stem, place)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                    found.setdefault(name, place)
                case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                    found.setdefault(name, place)
                case _:
                    pass
    return found


def largest_circle(*, with_types: bool) -> list[str]:
    """Find the largest set of modules that all import each other, directly or not.

    ``with_types``: imports under ``TYPE_CHECKING`` count as well. The package's own list of public names does not.
    """
    graph = grimp.build_graph("antiphon", exclude_type_checking_imports=not with_types)
    imports = {
        module: {one for one in graph.find_modules_directly_imported_by(module) if one != "antiphon"}
        for module in graph.modules
        if module != "antiphon"
    }
    return max(_components(imports), key=len, default=[])


def _components(edges: dict[str, set[str]]) -> Iterator[list[str]]:
    """Yield the strongly connected components of more than one node (Tarjan's algorithm, without recursion)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    for start, first in edges.items():
        if start in index:
            continue
        work = [(start, iter(first))]
        index[start] = low[start] = len(index)
        stack.append(start)
        while work:
            node, following = work[-1]
            after = next(following, None)
            if after is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    cut = stack.index(node)
                    component, stack[cut:] = stack[cut:], []
                    if len(component) > 1:
                        yield sorted(component)
            elif after not in index:
                index[after] = low[after] = len(index)
                stack.append(after)
                work.append((after, iter(edges.get(after, ()))))
            elif after in stack:
                low[node] = min(low[node], index[after])


def walks() -> dict[str, list[str]]:
    """List the files that one call leads through, both sides, in memory: of ``tools/call``, and of ``ctx.sample``."""
    return asyncio.run(_walks())


async def _walks() -> dict[str, list[str]]:
    server = Server("walk", tool_rate=None)

    @server.tool
    async def echo(text: str) -> str:
        return text

    @server.tool
    async def ask(text: str, ctx: Context) -> str:
        return (await ctx.sample(text)).text

    async with Client(server, sampling=_answer) as client:
        return {
            "tools/call": await _files(lambda: client.call_tool("echo", {"text": "hello"})),
            "ctx.sample": await _files(lambda: client.call_tool("ask", {"text": "hello"})),
        }


async def _answer(_params: object, _origin: object) -> str:
    return "hello"


async def _files(call: Callable[[], Awaitable[object]]) -> list[str]:
    """List the files of ours in which a function runs, in a second call: what is made once was made by the first."""
    await call()
    met: set[str] = set()

    def trace(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(SRC)):
            met.add(frame.f_code.co_filename)

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        await call()
    finally:
        sys.settrace(before)
    return sorted(Path(name).relative_to(SRC).as_posix() for name in met)


def unused() -> list[str]:
    """List the functions, classes and constants at the top of a module that no other line of ``src`` names.

    What users import (``PLACES``) is for them; Python calls names like ``__dir__``, and pytest those of its hooks.
    """
    promised = {name.rsplit(".", 1)[1] for name in [*public(), *public_elsewhere()]}
    words: dict[str, int] = defaultdict(int)
    listed = subprocess.run(
        ["git", "ls-files", "src", "pyproject.toml"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in listed.stdout.split():
        path = ROOT / name
        if path.suffix in {".py", ".pyi", ".toml", ".html", ".js"} and path.is_file():
            text = re.sub(r"__all__ = \[[^]]*\]", "", path.read_text(encoding="utf-8"))
            for word in re.findall(r"\w+", text):
                words[word] += 1
    found: list[str] = []
    for path in sorted(SRC.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            names = _defined(node)
            found += [
                f"{path.relative_to(SRC).as_posix()}: {name}"
                for name in names
                if words[name] < 2 and name not in promised
            ]
    return found


def _defined(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [] if node.decorator_list or node.name.startswith(("__", "pytest_")) else [node.name]
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name) and target.id != "__all__"]
    return []


def code_lines() -> int:
    """Count the lines of ``src`` that hold code: neither empty, nor comment, nor docstring."""
    total = 0
    for path in SRC.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        alone = [node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)]
        prose = {
            line
            for value in alone
            if isinstance(value, ast.Constant) and isinstance(value.value, str)
            for line in range(value.lineno, (value.end_lineno or value.lineno) + 1)
        }
        lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        total += sum(1 for number, line in lines if line.strip() and line.strip()[0] != "#" and number not in prose)
    return total


def report() -> Iterator[str]:
    """Yield the figures, a line each."""
    files = [path for path in SRC.rglob("*.py") if path.name != "__init__.py"]
    short = [path for path in files if len(path.read_text(encoding="utf-8").splitlines()) < 60]
    widest = sorted(entries().items(), key=lambda item: -item[1])[:5]
    yield f"modules: {len(files)}; lines of code: {code_lines()}; under 60 lines: {len(short) / len(files):.0%}"
    yield "widest folders: " + ", ".join(f"{name} {count}" for name, count in widest)
    yield "names used twice: " + (", ".join(f"{name} ({len(places)})" for name, places in twice().items()) or "none")
    yield f"largest circle of imports: {len(largest_circle(with_types=False))} modules"
    yield f"the same with imports for type checkers: {len(largest_circle(with_types=True))} modules"
    for name, met in walks().items():
        yield f"files on the walk of {name}: {len(met)}"
    yield f"public signatures that name a type without a public import: {len(leaks())}"
    yield f"names that nothing uses: {len(unused())}"


if __name__ == "__main__":
    print("\n".join(report()))
    if "--all" in sys.argv:
        for name, met in walks().items():
            print(name, *met, sep="\n  ")
        print("leaks", *leaks(), sep="\n  ")
        print("unused", *unused(), sep="\n  ")
        print("circle", *largest_circle(with_types=True), sep="\n  ")
