"""Install and check the servers of ``checked_servers.toml``, which other people publish; writes what was found.

    python -m tests.interop.checked_servers FOLDER [PACKAGE...]

Each is installed into a folder of its own below FOLDER, and checked without a call and without a network.
FOLDER/found.json keeps what was found; servers that it has are only checked again if they are named. Needs npm, uv and
some 15 GB, which are free again when FOLDER is deleted. PYTHON names another interpreter for servers of PyPI. No test.
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


if __name__ == "__main__":
    place = Path(sys.argv[1]).absolute()
    place.mkdir(parents=True, exist_ok=True)
    asyncio.run(check_all(place, sys.argv[2:]))
