"""Records of the audit as events of other systems: OCSF, and logs of OpenTelemetry.

Pure. Owns which member of theirs each of ours becomes. Sources: OCSF 1.3.0, class API Activity (6003) with the profile
Security Control; OpenTelemetry Protocol 1.5, JSON encoding of ``ExportLogsServiceRequest``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version
from typing import Any

import msgspec

from antiphon.host.store.chain import Entry, Record

_API_ACTIVITY, _APPLICATION_ACTIVITY, _OTHER = 6003, 6, 99
_STATUS: Mapping[str, tuple[int, int]] = {
    "answered": (1, 1),
    "refused": (2, 2),
    "invalid": (2, 2),
    "failed": (2, 1),
    "withdrawn": (2, 1),
}
"""By step: ``status_id`` (1 success, 2 failure) and ``disposition_id`` (1 allowed, 2 blocked)."""
_SEVERITIES: Mapping[str, tuple[int, int, str]] = {"refused": (2, 13, "WARN"), "failed": (3, 17, "ERROR")}
"""By step: ``severity_id`` of OCSF, number and text of OpenTelemetry."""
_USUAL = (1, 9, "INFO")


def ocsf_lines(entries: Iterable[Entry]) -> Iterator[str]:
    """Yield one event of OCSF for each record, as a line of JSON."""
    for entry in entries:
        yield msgspec.json.encode(_make_event(entry)).decode() + "\n"


def otel_lines(entries: Iterable[Entry]) -> Iterator[str]:
    """Yield one line of JSON for each record, as the file exporter of OpenTelemetry writes logs."""
    for entry in entries:
        yield make_log_request([entry]).decode() + "\n"


def make_log_request(entries: Iterable[Entry]) -> bytes:
    """Make the body that sends records to ``/v1/logs`` of a collector."""
    resource = {"attributes": _list_attributes({"service.name": "antiphon", "service.version": version("antiphon")})}
    logs = {"scope": {"name": "antiphon.audit"}, "logRecords": [_make_log(entry) for entry in entries]}
    return msgspec.json.encode({"resourceLogs": [{"resource": resource, "scopeLogs": [logs]}]})


def _make_event(entry: Entry) -> dict[str, Any]:
    record = entry.record
    severity, _, _ = _SEVERITIES.get(record.step, _USUAL)
    product = {"name": "Antiphon", "vendor_name": "Antiphon", "version": version("antiphon")}
    event: dict[str, Any] = {
        "class_uid": _API_ACTIVITY,
        "category_uid": _APPLICATION_ACTIVITY,
        "activity_id": _OTHER,
        "activity_name": record.step,
        "type_uid": _API_ACTIVITY * 100 + _OTHER,
        "severity_id": severity,
        "time": round(record.at * 1000),
        "message": f"{record.step} {record.outcome}".strip(),
        "metadata": {
            "version": "1.3.0",
            "profiles": ["security_control"],
            "product": product,
            "uid": entry.hash,
            "sequence": entry.seq,
        },
        "actor": {"app_name": "antiphon"} if record.by is None else {"user": {"name": record.by}},
        "api": {
            "operation": record.method,
            "request": {"uid": record.ask},
            "service": {"name": record.server or record.identity, "uid": record.identity},
        },
        "src_endpoint": {"uid": record.host or "unknown"},
        "unmapped": _list_members(record),
    }
    if record.reason is not None:
        event["status_detail"] = record.reason
    if record.step in _STATUS:
        event["status_id"], event["disposition_id"] = _STATUS[record.step]
    return event


def _make_log(entry: Entry) -> dict[str, Any]:
    record = entry.record
    _, number, text = _SEVERITIES.get(record.step, _USUAL)
    members = {"seq": entry.seq, "hash": entry.hash, **_list_members(record)}
    return {
        "timeUnixNano": str(round(record.at * 1e9)),
        "severityNumber": number,
        "severityText": text,
        "eventName": f"antiphon.audit.{record.step}",
        "body": {"stringValue": f"{record.step} {record.outcome}".strip()},
        "attributes": _list_attributes({f"antiphon.{name}": value for name, value in members.items()}),
    }


def _list_members(record: Record) -> dict[str, Any]:
    members = msgspec.to_builtins(record)
    return {name: value for name, value in members.items() if name != "at" and value is not None}


def _list_attributes(values: Mapping[str, object]) -> list[dict[str, Any]]:
    return [{"key": name, "value": _make_value(value)} for name, value in values.items()]


def _make_value(value: object) -> dict[str, object]:
    # In its JSON encoding, a number of 64 bits is a text.
    if isinstance(value, bool):
        return {"boolValue": value}
    return {"intValue": str(value)} if isinstance(value, int) else {"stringValue": str(value)}
