"""Install and check the servers of ``checked_servers.toml``, which other people publish; writes what was found.

    python -m tests.interop.checked_servers FOLDER [PACKAGE...]
    python -m tests.interop.checked_servers FOLDER --page

Each is installed into a folder of its own below FOLDER, and checked without a call and without a network.
FOLDER/found.json keeps what was found; servers that it has are only checked again if they are named. Needs npm, uv and
some 15 GB, which are free again when FOLDER is deleted. PYTHON names another interpreter for servers of PyPI. --page
writes docs/topics/checked-servers.md from what was found and from the verdicts in the table. No test.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Mapping
from importlib.metadata import PathDistribution
from pathlib import Path
from typing import Any

from antiphon.check.check_report import make_json
from antiphon.check.checkup import check_server
from tests.interop.host_homes import OFFLINE

SERVERS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))["server"]
INSTALL_WAIT = 420.0
"""Most seconds for one installation."""
SDKS = {
    "npm": (
        "fastmcp", "tmcp", "mcp-framework", "xmcp", "@modelcontextprotocol/server", "@modelcontextprotocol/sdk",
    ),
    "pypi": ("fastmcp", "mcp"),
}  # fmt: skip


def install_server(server: Mapping[str, Any], folder: Path) -> tuple[list[str], str]:
    """Install one server; return its command line, and the SDK that it was installed with."""
    folder.mkdir(parents=True)
    wanted = f"{server['package']}{'==' if 'pypi' in server else '@'}{server['version']}"
    if "pypi" in server:
        run_command(
            ["uv", "venv", "--quiet", "--python", os.environ.get("PYTHON", sys.executable), str(folder / "venv")],
            folder,
        )
        run_command(
            [
                "uv",
                "pip",
                "install",
                "--quiet",
                "--python",
                str(folder / "venv/bin/python"),
                wanted,
                *server.get("also", []),
            ],
            folder,
        )
        return find_python_program(server, folder)
    (folder / "package.json").write_text('{"private": true}')
    run_command(["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error", wanted], folder)
    home = folder / "node_modules" / server["package"]
    named: Any = json.loads((home / "package.json").read_text())["bin"]
    programs: dict[str, str] = {"": named} if isinstance(named, str) else named
    program = programs.get(server.get("program", server["package"].split("/")[-1]), next(iter(programs.values())))
    argv = [shutil.which("node") or "node", str(home / program)]
    for sdk in SDKS["npm"]:
        for package in (folder / "node_modules" / sdk, home / "node_modules" / sdk):
            if (package / "package.json").exists():
                return argv, f"{sdk} {json.loads((package / 'package.json').read_text())['version']}"
    return argv, server.get("sdk", "")


def find_python_program(server: Mapping[str, Any], folder: Path) -> tuple[list[str], str]:
    """Return the command line of an installed package of PyPI, and its SDK."""
    named = {
        re.sub("[-_.]+", "-", str(one.metadata["Name"]).lower()): one
        for one in map(PathDistribution, folder.glob("venv/lib/*/site-packages/*.dist-info"))
    }
    scripts = [one.name for one in named[server["package"]].entry_points if one.group == "console_scripts"]
    inside = folder / "venv" / "bin"
    # A wheel of a compiled program has no entry point, but the program itself.
    wanted = [server.get("program", server["package"]), *scripts, "server"]
    program = next(name for name in wanted if (inside / name).exists())
    sdk = next((f"{name} {named[name].version}" for name in SDKS["pypi"] if name in named), "")
    return [str(inside / program)], "" if server.get("language") else sdk


def run_command(argv: list[str], folder: Path) -> None:
    """Run a program of a package manager to its end; raises ``CalledProcessError``."""
    subprocess.run(argv, cwd=folder, check=True, capture_output=True, timeout=INSTALL_WAIT)


async def check_one(server: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Install and check one server; what fails becomes the ``problem`` of what is returned."""
    kept, work = folder / "command.json", folder / "work"
    try:
        if not kept.exists():
            shutil.rmtree(folder, ignore_errors=True)
            kept.write_text(json.dumps(await asyncio.to_thread(install_server, server, folder)))
    except (subprocess.SubprocessError, StopIteration, RuntimeError, OSError, LookupError) as error:
        output = getattr(error, "stderr", None) or b""
        return {"problem": f"not installed: {error!r:.200} {output.decode(errors='replace')[-300:]}", "findings": []}
    argv, sdk = json.loads(kept.read_text())
    work.mkdir(exist_ok=True)
    given = json.dumps([server.get("words", []), server.get("env", {})]).replace("FOLDER", str(work))
    words, env = json.loads(given)
    proxies = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), OFFLINE)
    entry = {"command": argv[0], "args": argv[1:] + words, "env": {**proxies, **env}, "cwd": str(work)}
    began = time.monotonic()
    report = make_json(await check_server(entry, keep_keys=True))
    return {**report, "target": "", "sdk": sdk, "seconds": round(time.monotonic() - began, 1)}


async def check_all(folder: Path, packages: list[str]) -> None:
    """Check what has no result yet, or the given packages, three at a time."""
    kept = folder / "found.json"
    found: dict[str, Any] = json.loads(kept.read_text()) if kept.exists() else {}
    room = asyncio.Semaphore(3)

    async def check_next(server: Mapping[str, Any]) -> None:
        name = server["package"]
        async with room:
            found[name] = await check_one(server, folder / name.replace("/", "+"))
        kept.write_text(json.dumps(found, indent=1))
        errors = sum(one["severity"] == "error" for one in found[name]["findings"])
        print(f"{name}: {found[name]['problem'] or f'{errors} errors'}", flush=True)

    chosen = [one for one in SERVERS if (one["package"] in packages if packages else one["package"] not in found)]
    await asyncio.gather(*map(check_next, chosen))


PAGE = Path(__file__).parents[2] / "docs" / "topics" / "checked-servers.md"
EVERYWHERE = ("rpc.parse-error", "rpc.batch")
"""Advice for nearly every server, since it is about its SDK."""
TIMED = ("start.slow", "stdio.exit", "size.large", "safety.unfinished")
"""Advice that goes by time, and so by what else the machine does."""
HEAD = """\
# Servers that were checked

What [`antiphon check`](../how-to/check.md) finds in servers that people publish, each started from its package of npm
or PyPI without a network, with made-up keys, and without calling a tool. Checked in November 2026. Each error was
compared by hand with what the server sent and with the specification; the last column says what was seen.

{started} servers were checked, {right} of them without an error. Nearly all get two pieces of advice that are about
their SDK and are left out below: `rpc.parse-error` ({parse}) and `rpc.batch` ({batch}). So is advice that goes by time,
since the machine was busy. A number in brackets is that of findings; of each rule a check keeps ten. The
[rules](../reference/check-rules.md) say what each is.

| server | SDK | revisions | errors | advice | looked at by hand |
|---|---|---|---|---|---|
"""
UNSTARTED = """\

## Servers that did not start

{count} others did not answer here, most of them since they need a network, an account or a device. That is reported
as an error, `handshake.none`, or as a problem of the check.

| server | why |
|---|---|
"""


def format_rules(result: Mapping[str, Any], severity: str) -> str:
    """Name the broken rules of a severity, with the number of findings where there are several."""
    broken = [one["rule"] for one in result["findings"] if one["severity"] == severity]
    names = dict.fromkeys(one for one in broken if one not in (*EVERYWHERE, *TIMED))
    return ", ".join(f"`{one}`{f' ({broken.count(one)})' if broken.count(one) > 1 else ''}" for one in names)


def write_page(found: Mapping[str, Any]) -> str:
    """Write the page about all servers of the table."""
    started = [one for one in SERVERS if found[one["package"]].get("revisions")]
    others = [one for one in SERVERS if one not in started]
    rows = ""
    for one in sorted(started, key=lambda one: str(one["package"]).lstrip("@")):
        result = found[one["package"]]
        spoken = result["revisions"]
        revisions = spoken[0] if len(spoken) == 1 else f"{spoken[0]} to {spoken[-1]}"
        sdk = result["sdk"].replace("@modelcontextprotocol/", "") or one.get("language", "bundled")
        cells = (sdk, revisions, format_rules(result, "error"), format_rules(result, "advice"), one.get("verdict", ""))
        rows += f"| {one['package']} {one['version']} | {' | '.join(cells)} |\n"
    rules = [[finding["rule"] for finding in found[one["package"]]["findings"]] for one in started]
    right = sum(not format_rules(found[one["package"]], "error") for one in started)
    counts = {
        "parse": sum("rpc.parse-error" in one for one in rules),
        "batch": sum("rpc.batch" in one for one in rules),
    }
    head = HEAD.format(started=len(started), right=right, **counts)
    lost = "".join(f"| {one['package']} {one['version']} | {one.get('verdict', '')} |\n" for one in others)
    return head + rows + UNSTARTED.format(count=len(others)) + lost


if __name__ == "__main__":
    place = Path(sys.argv[1]).absolute()
    place.mkdir(parents=True, exist_ok=True)
    if "--page" in sys.argv:
        PAGE.write_text(write_page(json.loads((place / "found.json").read_text())), encoding="utf-8")
    else:
        asyncio.run(check_all(place, sys.argv[2:]))
