"""Large public OpenAPI documents as servers, ours and FastMCP's: ``python -m tests.interop.openapi_documents``.

Fetches packages from npm into the folder of the peers, never into the repository, and prints the table of
``docs/design/openapi.md``. For each document: its operations, how many are listed, how many schemas are invalid under
2020-12, the processor time to make the server and to list all tools, and the largest tool.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from pathlib import Path

from tests.interop.peers import Peers

DOCUMENTS = {
    "GitHub": ("@octokit/openapi@23.0.2", "package/generated/api.github.com.json"),
    "GitHub Enterprise": ("@octokit/openapi@23.0.2", "package/generated/ghec.json"),
    "ReadMe": ("@readme/oas-examples@8.2.2", "package/3.1/json/readme.json"),
    "Star Trek": ("@readme/oas-examples@8.2.2", "package/3.0/json/star-trek.json"),
    "styles of parameters": ("@readme/oas-examples@8.2.2", "package/3.0/json/parameters-style.json"),
    "types of schemas": ("@readme/oas-examples@8.2.2", "package/3.1/json/schema-types.json"),
    "Galaxy": ("@scalar/galaxy@0.2.20", "package/dist/latest.json"),
}
METHODS = {"get", "put", "post", "delete", "options", "head", "patch", "trace"}

MEASURE = """
import asyncio, json, sys, time, warnings
warnings.simplefilter("ignore")
which, path = sys.argv[1:]
async def send(request): ...
if which == "ours":
    from antiphon import Server
    from antiphon.wire.envelope import encode_value
else:
    import httpx2
    from fastmcp import FastMCP
start = time.process_time()
if which == "ours":
    server = Server.from_openapi(path, client=send, base_url="https://api.test")
else:
    client = httpx2.AsyncClient(base_url="https://api.test")
    server = FastMCP.from_openapi(json.load(open(path, encoding="utf-8")), client=client)
made = time.process_time()
if which == "ours":
    tools = [encode_value(tool.definition) for tool in server.tools]
else:
    listed = asyncio.run(server.list_tools())
    tools = [t.to_mcp_tool().model_dump_json(by_alias=True, exclude_none=True).encode() for t in listed]
end = time.process_time()
sys.stdout.write(json.dumps({"make": made - start, "list": end - made, "tools": [t.decode() for t in tools]}))
"""


def fetch(folder: Path, package: str, member: str) -> Path:
    """Return the path of a document, after fetching its package if it is not there."""
    folder = folder / package.replace("/", "+")
    if not (folder / member).is_file():
        folder.mkdir(parents=True, exist_ok=True)
        command = ["npm", "pack", "--silent", package]
        name = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.split()[-1]
        with tarfile.open(folder / name) as archive:
            archive.extractall(folder, filter="data")
    return folder / member


def count_operations(path: Path) -> int:
    """Count the operations of a document."""
    paths = json.loads(path.read_text(encoding="utf-8"))["paths"]
    return sum(len(METHODS & item.keys()) for item in paths.values())


def measure(python: str, which: str, path: Path) -> dict:
    """Make a server of a document and list its tools, in a process of its own."""
    done = subprocess.run([python, "-c", MEASURE, which, str(path)], check=False, capture_output=True, text=True)
    if done.returncode:
        return {"failure": done.stderr.strip().splitlines()[-1][:200]}
    return json.loads(done.stdout)


def count_invalid(tools: list[str]) -> int:
    """Count the schemas of tools that are invalid under 2020-12, or refer to what is not there."""
    import jsonschema_rs

    invalid = 0
    for tool in map(json.loads, tools):
        for schema in filter(None, (tool.get("inputSchema"), tool.get("outputSchema"))):
            try:
                jsonschema_rs.Draft202012Validator(schema)
            except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError):
                invalid += 1
    return invalid


def main() -> None:
    """Print the table."""
    peers = Peers.installed()
    print("| document | operations | | listed | invalid schemas | make, s | list, s | largest tool, kB |")
    print("|---|---|---|---|---|---|---|---|")
    for name, (package, member) in DOCUMENTS.items():
        path = fetch(peers.root / "openapi", package, member)
        for which, python in (
            ("Antiphon", sys.executable),
            ("FastMCP", str(peers.root / "fastmcp" / "bin" / "python")),
        ):
            got = measure(python, "ours" if which == "Antiphon" else "theirs", path)
            start = f"| {name} | {count_operations(path):,} | {which} |"
            if "failure" in got:
                print(f"{start} - | - | - | - | refused: {got['failure'].partition(':')[0]} |")
                continue
            tools = got["tools"]
            largest = max((len(tool) for tool in tools), default=0) / 1_000
            print(
                f"{start} {len(tools):,} | {count_invalid(tools)} | {got['make']:.2f} | {got['list']:.2f} | "
                f"{largest:,.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
