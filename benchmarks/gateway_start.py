"""How long a host waits for the tools of a gateway: from its start to the first list, over 1, 20 and 200 servers.

Warm is with the lists of an earlier gateway on disk: nothing starts. Cold is with none: every server starts, and is
listed. Beside them stands the bare import of the package, in an interpreter of its own. Run it with
``.venv/bin/python -m benchmarks.gateway_start``; it prints the table.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

__all__ = ["main"]

ROUNDS = 7
COUNTS = (1, 20, 200)
TOOLS = 10

IMPORT = "import antiphon.gateway"

SERVER = """
import json, sys
tools = [
    {"name": f"t{n}", "description": "One of ten tools.", "inputSchema": {"type": "object", "properties": {"x": {}}}}
    for n in range(int(sys.argv[1]))
]
capabilities = {"tools": {"listChanged": True}}
for line in sys.stdin:
    asked = json.loads(line)
    if asked.get("method") == "initialize":
        info = {"name": "s", "version": "1"}
        result = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info}
    elif asked.get("method") == "tools/list":
        result = {"tools": tools}
    elif "id" in asked:
        error = {"code": -32601, "message": "no such method"}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": error}), flush=True)
        continue
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""

GATEWAY = """
import json, sys
from pathlib import Path
from antiphon.gateway import Gateway
from antiphon.host import Host, Policy, Scripted
servers = json.loads(Path(sys.argv[1]).read_text())["mcpServers"]
host = Host(Scripted([]), policy=Policy(default="allow"))
Gateway(servers, host, lists=Path(sys.argv[2])).run()
"""

REQUESTS = [
    {
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "b", "version": "1"}},
    },
    {"method": "notifications/initialized"},
    {"id": 2, "method": "tools/list"},
]


def importing() -> float:
    """Return the seconds in which an interpreter starts, imports the package, and ends."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", IMPORT], check=True)
    return time.perf_counter() - began


def listing(command: list[str], env: dict[str, str], count: int) -> float:
    """Return the seconds from the start of a gateway to its first list, which must be whole."""
    began = time.perf_counter()
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=env,
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process:
        for request in REQUESTS:
            process.stdin.write(json.dumps({"jsonrpc": "2.0", **request}).encode() + b"\n")
        process.stdin.flush()
        seen: list[str] = []
        names: set[str] = set()
        for line in process.stdout:
            reply = json.loads(line)
            if reply.get("id") == 2:
                taken = time.perf_counter() - began
                result = reply["result"]
                names |= {tool["name"] for tool in result["tools"]}
                if "nextCursor" not in result:
                    break
                seen.append(result["nextCursor"])
                more = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {"cursor": seen[-1]}}
                process.stdin.write(json.dumps(more).encode() + b"\n")
                process.stdin.flush()
        else:
            raise SystemExit("the gateway ended without a list")
        process.stdin.close()
    if len(names) != count * TOOLS:
        raise SystemExit(f"{len(names)} tools were listed, and not {count * TOOLS}")
    return taken


def measure(folder: Path, count: int) -> dict[str, list[float]]:
    """Measure everything in turns, so that what disturbs one disturbs its neighbours too."""
    server, config = folder / "server.py", folder / f"{count}.json"
    server.write_text(SERVER)
    entry = {"command": sys.executable, "args": ["-IS", str(server), str(TOOLS)]}
    config.write_text(
        json.dumps({"mcpServers": {f"s{n}": {**entry, "args": [*entry["args"], str(n)]} for n in range(count)}})
    )
    state = folder / f"state{count}"
    env = {**os.environ, "XDG_STATE_HOME": str(state), "XDG_CONFIG_HOME": str(folder / "none")}
    library = [sys.executable, "-c", GATEWAY, str(config), str(state / "antiphon" / "lists")]
    program = [sys.executable, "-m", "antiphon", "gateway", "--config", str(config), "--deny"]
    found: dict[str, list[float]] = {"import": [], "cold": [], "warm": [], "warm program": []}
    for _ in range(ROUNDS if count < 100 else 3):
        shutil.rmtree(state, ignore_errors=True)
        found["cold"].append(listing(library, env, count))
        found["import"].append(importing())
        found["warm"].append(listing(library, env, count))
        listing(program, env, count)
        found["warm program"].append(listing(program, env, count))
    return found


def main() -> None:
    """Print the table."""
    columns = (
        "import",
        "warm, `Gateway.run()`",
        "times the import",
        "warm, `antiphon gateway`",
        "cold, `Gateway.run()`",
    )
    print("| servers |", " | ".join(columns), "|")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for count in COUNTS:
            found = {name: statistics.median(values) * 1e3 for name, values in measure(Path(folder), count).items()}
            ratio = found["warm"] / found["import"]
            print(
                f"| {count} | {found['import']:.0f} ms | {found['warm']:.0f} ms | {ratio:.2f} "
                f"| {found['warm program']:.0f} ms | {found['cold']:.0f} ms |",
                flush=True,
            )


if __name__ == "__main__":
    main()
