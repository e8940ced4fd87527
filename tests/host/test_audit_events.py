"""Records as events of OCSF and as logs of OpenTelemetry."""

from __future__ import annotations

import json

import pytest

from antiphon.host.audit import make_log_request, ocsf_lines, otel_lines
from antiphon.host.store.base import Change
from antiphon.host.store.chain import Entry, Record
from antiphon.host.store.memory_store import MemoryStore


async def entries(*records: Record) -> list[Entry]:
    """Put records into a store, and return them in their places."""
    store = MemoryStore()
    await store.commit(Change(records=records))
    return await store.entries(0, 100)


def record(step: str, **more) -> Record:
    """Make a record of a call."""
    return Record(at=1.5, ask="7", identity="command:ab", method="tools/call", step=step, host="h1", **more)


@pytest.mark.parametrize(
    ("step", "status", "disposition", "severity"),
    [("answered", 1, 1, 1), ("refused", 2, 2, 2), ("failed", 2, 1, 3), ("policy", None, None, 1)],
)
async def test_an_event_has_the_required_members(step: str, status, disposition, severity: int):
    """Those of API Activity, with what became of the call where the record is about that."""
    [line] = ocsf_lines(await entries(record(step, outcome="x", server="shop.py", tool="order", by="anna")))
    event = json.loads(line)
    required = {"activity_id", "actor", "api", "category_uid", "class_uid", "metadata", "severity_id", "src_endpoint"}
    assert required | {"time", "type_uid"} <= event.keys()
    assert event["type_uid"] == event["class_uid"] * 100 + event["activity_id"]
    assert (event.get("status_id"), event.get("disposition_id"), event["severity_id"]) == (
        status,
        disposition,
        severity,
    )
    assert (event["time"], event["actor"], event["unmapped"]["tool"]) == (1500, {"user": {"name": "anna"}}, "order")
    assert event["api"]["service"] == {"name": "shop.py", "uid": "command:ab"}


async def test_a_log_has_every_member_of_its_record():
    """Numbers of 64 bits are texts in this encoding."""
    made = await entries(record("refused", outcome="policy", money=2**40, told=True, reason="no"))
    [line] = otel_lines(made)
    assert json.loads(line) == json.loads(make_log_request(made))
    [logs] = json.loads(line)["resourceLogs"][0]["scopeLogs"]
    [log] = logs["logRecords"]
    assert (log["timeUnixNano"], log["severityText"], log["eventName"]) == (
        "1500000000",
        "WARN",
        "antiphon.audit.refused",
    )
    values = {each["key"].removeprefix("antiphon."): each["value"] for each in log["attributes"]}
    assert values["money"] == {"intValue": str(2**40)}
    assert values["told"] == {"boolValue": True}
    assert values["hash"] == {"stringValue": made[0].hash}
    assert values["identity"] == {"stringValue": "command:ab"}
