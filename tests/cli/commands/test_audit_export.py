"""``antiphon audit export``: to files, to a collector, once and as records come."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.cli.commands.test_audit import spent
from tests.cli.program import COMMAND, Done, environment


class Collector:
    """Takes logs over HTTP, as a collector of OpenTelemetry does."""

    def __init__(self, *statuses: int) -> None:
        self.bodies: list[tuple[str, dict]] = []
        left, bodies = list(statuses), self.bodies

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status = left.pop(0) if left else 200
                if status == 200:
                    bodies.append((self.path, body))
                self.send_response(status)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Print nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        Thread(target=self._server.serve_forever, daemon=True).start()

    def sequence(self) -> list[str]:
        """Return the numbers of the records that it took."""
        logs = [log for _, body in self.bodies for log in body["resourceLogs"][0]["scopeLogs"][0]["logRecords"]]
        return [one["value"]["intValue"] for log in logs for one in log["attributes"] if one["key"] == "antiphon.seq"]

    def close(self) -> None:
        """Stop it."""
        self._server.shutdown()
        self._server.server_close()


async def test_records_are_exported_as_events_of_ocsf(kept, audit: Callable[..., Done]):
    """One for each record, with its number and hash."""
    await kept(spent(1.0, 1), spent(2.0, 1))
    events = audit("export", "--format", "ocsf").objects
    assert [(event["class_uid"], event["metadata"]["sequence"], event["time"]) for event in events] == [
        (6003, 1, 1000),
        (6003, 2, 2000),
    ]


async def test_records_are_sent_to_a_collector_from_where_it_stopped(kept, audit: Callable[..., Done], tmp_path: Path):
    """A collector that refuses them gets them the next time; each once if all goes well."""
    await kept(spent(1.0, 1), spent(2.0, 1))
    collector = Collector(503)
    words = ["export", "--format", "otel", "--collector", collector.url, "--position", str(tmp_path / "position")]
    try:
        refused = audit(*words)
        assert (refused.code, "took the records up to 0" in refused.err) == (1, True)
        assert audit(*words).err == "2 records sent\n"
        await kept(spent(3.0, 1))
        assert audit(*words).code == 0
    finally:
        collector.close()
    assert {path for path, _ in collector.bodies} == {"/v1/logs"}
    assert collector.sequence() == ["1", "2", "3"]
    assert audit("export", "--collector", collector.url).code == 2


async def test_an_export_goes_on_with_the_records_that_come(kept, tmp_path: Path):
    """Line by line, until it is stopped."""
    await kept(spent(1.0, 1))
    export = [*COMMAND, "audit", "export", "--format", "ocsf", "--follow", "--store", str(tmp_path / "host.db")]
    process = await asyncio.create_subprocess_exec(*export, env=environment(), stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            first = json.loads(await process.stdout.readline())
            await kept(spent(2.0, 1))
            second = json.loads(await process.stdout.readline())
    finally:
        process.terminate()
        await process.wait()
    assert [each["metadata"]["sequence"] for each in (first, second)] == [1, 2]


async def test_a_file_is_continued_from_a_position(kept, audit: Callable[..., Done], tmp_path: Path):
    """Each record once, and one heading."""
    file, position = tmp_path / "out.csv", tmp_path / "position"
    words = ["export", "--format", "csv", "-o", str(file), "--position", str(position)]
    for at in (1.0, 2.0):
        await kept(spent(at, 1))
        assert audit(*words).code == 0
    rows = list(csv.DictReader(io.StringIO(file.read_text(encoding="utf-8"))))
    assert [row["seq"] for row in rows] == ["1", "2"]
    position.write_text("many", encoding="utf-8")
    assert audit(*words).code == 2


@pytest.mark.parametrize("data", [b"\xff", b"9" * 30, b"", b"-1", b"x"])
def test_a_position_that_is_none_is_named(data: bytes, audit: Callable[..., Done], tmp_path: Path):
    """Nothing is exported from a place that nobody knows."""
    file = tmp_path / "position"
    file.write_bytes(data)
    done = audit("export", "--position", str(file))
    assert (done.code, done.err) == (2, f"antiphon: {file}: holds no number of a record\n")


@pytest.mark.parametrize("name", ["", "missing/out"])
async def test_what_cannot_be_written_is_named(name: str, kept, audit: Callable[..., Done]):
    """As it was typed."""
    await kept(spent(1.0, 1))
    done = audit("export", "-o", name)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"antiphon: {name or '.'}: ")
