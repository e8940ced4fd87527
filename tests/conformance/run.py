"""Run the official conformance suite against our fixtures, judge strictly, and print a table: ``make conformance``.

The server's scenarios are played directly, behind a gateway, and behind nginx with three replicas that share Redis
(``--engine postgres``: PostgreSQL); no check may be lost there. Needs nginx and redis-server.

Ends with 1 if anything is unexpected: a scenario that fails or warns and is not in ``baseline.toml``, an entry there
that is stale, a run that did not happen. Loopback only; the suite is installed by ``setup.sh`` beforehand.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from tests.conformance.verdicts import Baseline, Verdict, judge, lost
from tests.support.ports import free_port
from tests.support.three_replicas import three_replicas

HERE = Path(__file__).parent.absolute()
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
DIR = Path(os.environ.get("ANTIPHON_CONFORMANCE_DIR") or CACHE / "antiphon-conformance")
SUITE = DIR / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
REQUIREMENTS = ("2025-11-25", "2026-07-28")
SPEC_VERSIONS = ("2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
PATIENCE = 900
"""Seconds for a run of the suite, and for a program to start and to end: a machine may be busy with other runs."""


def suite(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the suite and wait for it."""
    own = DIR / "node_modules" / "node" / "bin" / "node"
    node = str(own) if own.exists() else "node"
    command = [node, str(SUITE), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)


# --- our server ------------------------------------------------------------------------------------------------------


@contextmanager
def serving(log: Path, program: str, *arguments: str) -> Iterator[str]:
    """Start the everything server, or the gateway in front of it; the value is its address."""
    port = free_port()
    command = [sys.executable, str(HERE / program), "--port", str(port), *arguments]
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            _await_port(port, process)
            yield f"http://localhost:{port}/mcp"
        finally:
            process.terminate()
            process.wait(timeout=PATIENCE)


def _await_port(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    sys.exit("conformance: the server did not start")


def server_runs() -> Iterator[tuple[str, Sequence[str]]]:
    """Name every run against the server, with its options."""
    for revision in REQUIREMENTS:
        yield f"required {revision}", ("--requirements", revision)
    for revision in SPEC_VERSIONS:
        yield f"all {revision}", ("--suite", "all", "--spec-version", revision)
    yield "all", ("--suite", "all")


Way = Callable[[Path], AbstractContextManager[str]]


@contextmanager
def through_gateway(out: Path) -> Iterator[str]:
    """Serve behind a gateway; the value is its address."""
    with serving(out / "behind-gateway.log", "server.py") as url, serving(out / "gateway.log", "gateway.py", url) as at:
        yield at


def play_server(out: Path, engine: str) -> list[Verdict]:
    """Run everything there is against the server, and against what may stand before it, side by side."""
    everything = list(server_runs())
    program = [sys.executable, str(HERE / "server.py"), "--port"]
    ways: list[tuple[str, Way, Sequence[tuple[str, Sequence[str]]]]] = [
        ("", lambda out: serving(out / "server.log", "server.py"), everything),
        ("gateway", through_gateway, everything[: len(REQUIREMENTS)]),
        ("replicas", lambda out: three_replicas(program, engine, logs=out), everything),
    ]

    def play(by: str, way: Way, runs: Sequence[tuple[str, Sequence[str]]]) -> list[Verdict]:
        with way(out) as url:
            return [
                one
                for number, (run, options) in enumerate(runs)
                for one in _played(url, run, options, out / f"{by or 'server'}-{number}", by)
            ]

    with ThreadPoolExecutor(len(ways)) as pool:
        return [one for verdicts in pool.map(play, *zip(*ways, strict=True)) for one in verdicts]


def _played(url: str, run: str, options: Sequence[str], folder: Path, by: str) -> Iterator[Verdict]:
    done = suite("server", "--url", url, *options, "-o", str(folder))
    played = re.findall(r"=== Running scenario: (\S+) ===", done.stdout)
    if not played or "=== SUMMARY ===" not in done.stdout:
        yield Verdict(run=run, side="server", scenario="-", passed=False, by=by, reasons=(done.stderr[-300:],))
    for scenario in played:
        yield judge(run, "server", scenario, folder, by=by)


# --- our client ------------------------------------------------------------------------------------------------------


def client_scenarios() -> Iterator[tuple[str, str]]:
    """List every scenario for clients with the revision it is to be played at; extensions have none."""
    for name, at in re.findall(r"- (\S+) \[(.*)\]", suite("list", "--client").stdout):
        for revision in at.split(","):
            yield name, revision


def play_client(out: Path, only: str, jobs: int) -> Iterator[Verdict]:
    """Play every scenario by itself, a few at the same time."""
    command = shlex.join([sys.executable, str(HERE / "client.py")])

    def play(scenario: str, revision: str) -> Verdict:
        folder = out / "client" / revision / scenario.replace("/", "-")
        at = () if revision == "extension" else ("--spec-version", revision)
        options = ("--scenario", scenario, *at, "--timeout", "60000", "-o", str(folder))
        done = suite("client", "--command", command, *options)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "said.txt").write_text(done.stdout + done.stderr, encoding="utf-8")
        return judge(revision, "client", scenario, folder, done.returncode)

    with ThreadPoolExecutor(jobs) as pool:
        wanted = [pair for pair in client_scenarios() if only in pair[0]]
        if not wanted and not only:
            yield Verdict(run="-", side="client", scenario="-", passed=False, reasons=("no scenario was listed",))
        yield from pool.map(lambda pair: play(*pair), wanted)


# --- the table -------------------------------------------------------------------------------------------------------


def report(verdicts: Sequence[Verdict], baseline: Baseline, *, whole: bool) -> int:
    """Print what came of it; return how many things are unexpected."""
    unexpected = [one for one in verdicts if not one.passed and baseline.reason(one) is None]
    print(f"{'side':8}{'behind':10}{'run':22}{'passed':>8}{'baseline':>10}{'unexpected':>12}")
    for side, by, run in dict.fromkeys((one.side, one.by, one.run) for one in verdicts):
        here = [one for one in verdicts if (one.side, one.by, one.run) == (side, by, run)]
        passed, bad = sum(one.passed for one in here), sum(one in unexpected for one in here)
        print(f"{side:8}{by:10}{run:22}{passed:>8}{len(here) - passed - bad:>10}{bad:>12}")
    for one in unexpected:
        print(f"\nUNEXPECTED {one.side} {one.by} {one.run} {one.scenario}", *one.reasons, sep="\n    ")
    less = lost(verdicts, baseline)
    for one in less:
        print(f"\nLOST: {one}")
    stale = baseline.stale(verdicts) if whole else []
    for entry in stale:
        print(f"\nSTALE in baseline.toml: {entry} passes, or was not played")
    return len(unexpected) + len(stale) + len(less)


def main() -> None:
    """Play what is wanted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("side", nargs="?", choices=("server", "client"), help="one side only")
    parser.add_argument("--only", default="", help="client scenarios with this in their names")
    parser.add_argument("--jobs", type=int, default=2, help="client scenarios at the same time")
    parser.add_argument("--engine", choices=("redis", "postgres"), default="redis", help="what the replicas share")
    parser.add_argument("--output", type=Path, help="keep the suite's findings in this folder")
    given = parser.parse_args()
    if not SUITE.exists():
        sys.exit(f"conformance: no suite in {DIR}; run tests/conformance/setup.sh")
    out = given.output or Path(tempfile.mkdtemp(prefix="antiphon-conformance-"))
    out.mkdir(parents=True, exist_ok=True)
    verdicts: list[Verdict] = []
    if given.side != "client" and not given.only:
        verdicts += play_server(out, given.engine)
    if given.side != "server":
        verdicts += play_client(out, given.only, given.jobs)
    unexpected = report(verdicts, Baseline(HERE / "baseline.toml"), whole=given.side is None and not given.only)
    if unexpected:
        sys.exit(f"\nconformance: {unexpected} unexpected; the suite's findings are in {out}")
    if given.output is None:
        shutil.rmtree(out)


if __name__ == "__main__":
    main()
