"""What an installation weighs, beside others: megabytes with compiled files, and packages, in one run.

``python -m benchmarks.install_sizes`` installs each into a folder of its own, with what pip brings along, and prints a
table. It needs the network or a cache of packages.
"""

from __future__ import annotations

import compileall
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
INSTALLED = {
    "antiphon": str(ROOT),
    "antiphon[host]": f"{ROOT}[host]",
    "antiphon[anthropic]": f"{ROOT}[anthropic]",
    "antiphon[openai]": f"{ROOT}[openai]",
    "antiphon[google]": f"{ROOT}[google]",
    "mcp": "mcp",
    "fastmcp": "fastmcp",
}


def install(what: str, folder: Path) -> None:
    """Install a package and all it needs into a folder, compiled."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    subprocess.run([*pip, "--target", str(folder), what], check=True)
    compileall.compile_dir(folder, quiet=2, workers=0)


def measure(folder: Path) -> tuple[float, int]:
    """Return megabytes of files (of 1,000,000 bytes) and the count of packages."""
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    return size / 1e6, len(list(folder.glob("*.dist-info")))


def main() -> None:
    """Install each and print the table."""
    print(f"Python {sys.version.split()[0]}, {sys.platform}\n\n| install | MB | packages |\n|---|---|---|")
    for name, what in INSTALLED.items():
        with tempfile.TemporaryDirectory() as folder:
            install(what, Path(folder))
            size, count = measure(Path(folder))
        print(f"| `{name}` | {size:.0f} | {count} |", flush=True)


if __name__ == "__main__":
    main()
