"""What a bug report needs, as one text: versions, findings, configuration, store and last errors.

Owns what of it is left out. Of a configuration only the values are kept that are known to be harmless: all others are
removed, because a secret may stand anywhere. At the end the whole text loses the rest of each URL and the values of
variables whose names sound like secrets.
"""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from antiphon import __version__
from antiphon.cli.commands.doctor.local import DoctorFinding, list_missing_packages
from antiphon.cli.commands.install import list_hosts
from antiphon.cli.config_files import config_paths as server_paths
from antiphon.cli.config_files import read_bytes
from antiphon.cli.output.formats import Failed, explain_error, format_time, json_line, print_text
from antiphon.cli.store import StoreOptions, open_chosen_store
from antiphon.client.connection.server_files import read_json
from antiphon.errors import AntiphonError, ConfigError
from antiphon.host.checks.redact import mask_text
from antiphon.host.config.toml_files import config_paths
from antiphon.host.store.chain import RecordSearch, Step
from antiphon.host.store.store_location import state_folder
from antiphon.machine.files import open_replacement, parse_toml
from antiphon.wire.revisions import REVISIONS

_REMOVED = "(removed)"
_LAST = 20
"""Most errors of each kind."""
_FAILURES: tuple[Step, ...] = ("failed", "invalid", "refused")
_PRIVATE = re.compile(r"env|header|secret|token|key|pass|cred|auth|cookie|webhook|dsn", re.IGNORECASE)
"""Names of members whose values are never shown, whatever they are."""
_HARMLESS = re.compile(
    r"asks|default|effect|elicit_in|fallback|headless|models?|names|provider|review|scope|start|type"
)
"""Members whose texts are words of ours, or names of models."""
_SECRET_VARIABLE = re.compile(r"secret|token|key|pass|cred|auth|cookie|dsn|_pat$|url$", re.IGNORECASE)
_URL = re.compile(r"\b([a-z][a-z0-9+.-]*://)(?:[^\s\"/?#]*@)?([\w.-]*)[^\s\"]*", re.IGNORECASE)
_QUOTED = re.compile(r"(['\"`]).*?\1")
_OPTION_NAME = re.compile(r"--[a-z][a-z-]{1,30}(?==|$)")


def describe_version() -> dict[str, object]:
    """Return the version of this package, and of all that decides how it behaves."""
    return {
        "antiphon": __version__,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": platform.platform(),
        "extras": [name for name, missing in list_missing_packages().items() if not missing],
        "revisions": [one.name for one in REVISIONS],
    }


async def collect_report(findings: Sequence[DoctorFinding], config: Path | None) -> dict[str, list[str]]:
    """Return the lines of the report by section."""
    usual = (*config_paths(os.environ), *server_paths(), *(place.servers for _, place in list_hosts()))
    paths = [path for path in (usual if config is None else [config]) if path.is_file()]
    return {
        "versions": [json_line(describe_version())],
        "findings of antiphon doctor": [_describe_finding(one) for one in findings],
        "configuration without its values": [line for path in paths for line in _describe_file(path)],
        "store, and its last errors": [line async for line in _describe_store(StoreOptions(config=config))],
    }


def write_report(sections: Mapping[str, Sequence[str]], file: Path) -> None:
    """List what the report contains, and write it to a new file; ``-`` prints it."""
    text = "\n\n".join("\n".join([f"## {title}", *lines]) for title, lines in sections.items())
    text = clean_text(text, os.environ) + "\n"
    if str(file) == "-":
        print_text(text)
        return
    if file.exists():
        raise ConfigError(f"{file}: is there already: name another file for the report")
    print_text(f"{file} will contain:")
    for title, lines in sections.items():
        print_text(f"  {title}: {sum(line.count(chr(10)) + 1 for line in lines)} lines")
    with open_replacement(file) as report:
        report.write(text.encode())
    print_text(f"{file}: written. Read it before you attach it to a report.")


def _describe_finding(finding: DoctorFinding) -> str:
    # The message about a mistake in a file may quote the file.
    text = _QUOTED.sub(_REMOVED, finding.text) if finding.kind == "failed" else finding.text
    return f"{finding.kind}  {finding.subject}: {text}"


def _describe_file(path: Path) -> Iterator[str]:
    yield f"{path}:"
    try:
        data = read_bytes(path)
        read = parse_toml(data.decode()) if path.suffix == ".toml" else read_json(data.decode())
        yield json.dumps(clean_value(read), indent=1)
    except (AntiphonError, ValueError, RecursionError) as error:
        yield f"cannot be read: {type(error).__name__}"


def clean_value(value: Any, key: str = "", *, is_private: bool = False) -> Any:
    """Return a value of a configuration without anything that may be a secret. ``key``: the member that has it."""
    is_private = is_private or _PRIVATE.search(key) is not None
    if isinstance(value, Mapping):
        members = cast("Mapping[str, Any]", value)
        return {name: clean_value(member, name, is_private=is_private) for name, member in members.items()}
    if isinstance(value, list):
        return [clean_value(one, key, is_private=is_private) for one in cast("list[Any]", value)]
    if is_private:
        return _REMOVED
    if isinstance(value, str):
        name = _OPTION_NAME.match(value) if key == "args" else None
        return name[0] if name else value if _HARMLESS.fullmatch(key) or _URL.fullmatch(value) else _REMOVED
    return value if value is None or isinstance(value, bool | int | float) else _REMOVED


async def _describe_store(where: StoreOptions) -> AsyncIterator[str]:
    try:
        if where.settings.store is None and not (state_folder(os.environ) / "host.db").exists():
            yield "none was made yet"
            return
        async with open_chosen_store(where) as store:
            head, waiting, grants = await store.head(), await store.waiting(), await store.grants()
            yield f"{type(store).__name__}: {head.seq} records, {waiting} questions wait, {len(grants)} grants"
            for step in _FAILURES:
                for record in [entry.record for entry in await store.find_records(RecordSearch(step=step), _LAST)]:
                    yield f"{format_time(record.at)}  {record.method}  {step}  {record.outcome.partition(':')[0]}"
    except (AntiphonError, Failed) as error:
        yield _QUOTED.sub(_REMOVED, explain_error(error))


def clean_text(text: str, environ: Mapping[str, str]) -> str:
    """Return a text without the rest of URLs, values of secret variables, what looks like a secret, and our home."""
    secrets = [value for name, value in environ.items() if _SECRET_VARIABLE.search(name) and len(value) > 3]
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, _REMOVED)
    return mask_text(_URL.sub(r"\1\2", text)).replace(f"{Path.home()}{os.sep}", f"~{os.sep}")
