"""``antiphon doctor``: checks this installation and its models, or examines a server; and the report for a bug.

Owns the findings and their display, and the exit code.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import re
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from functools import cache
from importlib import metadata
from pathlib import Path
from statistics import median
from typing import Annotated, Any, Literal, NamedTuple, cast

import msgspec

from antiphon import __version__
from antiphon.channel import Channel
from antiphon.cli import config_files
from antiphon.cli.commands.install import list_hosts
from antiphon.cli.host_options import read_configuration
from antiphon.cli.open_client import list_left_out, open_client
from antiphon.cli.options import Json, Reach, complete_server
from antiphon.cli.output import formats
from antiphon.cli.output.progress import Teller
from antiphon.cli.store import StoreOptions, open_chosen_store
from antiphon.client.client import Client
from antiphon.client.connection.server_files import read_json
from antiphon.client.connection.targets import locate_target
from antiphon.errors import AntiphonError, ConfigError, MethodNotFound, Unauthorized
from antiphon.host.budget import Amount, format_dollars
from antiphon.host.checks.redact import mask_text
from antiphon.host.checks.visible import inert_line
from antiphon.host.config import Config, load_config
from antiphon.host.config.toml_files import config_paths as host_paths
from antiphon.host.configured_host import make_notices
from antiphon.host.model_catalogue import Model, ModelCatalogue
from antiphon.host.models.models import Models, RetryPatience
from antiphon.host.models.selection import KEY_NAMES, standard_model
from antiphon.host.providers.base import missing_key
from antiphon.host.review.notify import NotDelivered, ServiceNotices
from antiphon.host.review.summary import load_texts, terminal_language
from antiphon.host.store import MemoryStore, open_store, usual_store
from antiphon.host.store.chain import RecordSearch, Step
from antiphon.host.store.store_location import state_folder
from antiphon.host.terminal.tty import find_terminal
from antiphon.machine.files import find_home, is_there, open_replacement, parse_toml
from antiphon.machine.public_names import describe_install
from antiphon.wire.content import TextContent
from antiphon.wire.revisions import REVISIONS, find_revision
from antiphon.wire.sampling import CreateMessageRequestParams, SamplingMessage

_NEEDED = ("msgspec", "jsonschema-rs", "docstring-parser", "click", "aiohttp", "uvicorn", "uvloop")
_EXTRAS = {
    "host": "a store and the review page",
    "anthropic": "models of Anthropic",
    "google": "models of Google",
    "openai": "models of OpenAI, and of services that speak its API",
    "keys": "servers of several processes",
    "postgres": "a store in PostgreSQL",
    "telemetry": "traces and metrics",
    "notices": "notices by Slack, Telegram, e-mail, ntfy and others",
}
"""The purpose of each extra that is checked."""


class DoctorFinding(NamedTuple):
    """One finding. ``odd`` is worth a look, ``failed`` must be fixed."""

    kind: Literal["ok", "note", "odd", "failed"]
    subject: str
    text: str


def check_installation(config: Path | None = None) -> list[DoctorFinding]:
    """Check this installation. ``config``: read this file instead of the usual ones."""
    hosts = config is not None and config.suffix == ".toml"
    files = () if hosts else config_files.config_paths() if config is None else [config]
    servers = [finding for path in files for finding in _check_servers(path, may_lack=config is None)]
    settings = _check_settings(config if hosts else None) if hosts or config is None else ()
    placed = () if config is not None else _check_hosts()
    text = f"{sys.version.split()[0]} at {sys.executable}, antiphon {__version__}"
    python = DoctorFinding("ok" if sys.version_info >= (3, 11) else "failed", "python", text)
    return [python, *_check_dependencies(), *_check_extras(), _check_terminal(), *servers, *placed, *settings]


def _check_dependencies() -> Iterator[DoctorFinding]:
    for name in _NEEDED:
        if _is_installed(name):
            yield DoctorFinding("ok", name, metadata.version(name))
        elif name == "uvloop":
            yield DoctorFinding("note", name, "is not installed: servers work, at about half the speed")
        else:
            yield DoctorFinding("failed", name, "is not installed: install antiphon again")


def _check_extras() -> Iterator[DoctorFinding]:
    missing = list_missing_packages()
    for name, purpose in _EXTRAS.items():
        if packages := missing.get(name):
            remedy = f"{', '.join(packages)} not there; for {purpose}: {describe_install(name)}"
            yield DoctorFinding("note", f"antiphon[{name}]", remedy)
        else:
            yield DoctorFinding("ok", f"antiphon[{name}]", purpose)


_read_requirements = cache(metadata.requires)


def list_missing_packages() -> dict[str, list[str]]:
    """Return the packages of each extra that are not installed, also those of extras of other packages."""
    names = metadata.metadata("antiphon").get_all("Provides-Extra") or ()
    return {name: sorted(set(_find_missing("antiphon", name))) for name in names}


def _find_missing(package: str, extra: str) -> Iterator[str]:
    for line in _read_requirements(package) or ():
        found = re.match(r"([\w.-]+)(?:\[([\w,-]+)\])?", line)
        if found is None or not re.search(rf"extra == ['\"]{extra}['\"]", line):
            continue
        if not _is_installed(found[1]):
            yield found[1]
            continue
        for inner in (found[2] or "").split(","):
            yield from _find_missing(found[1], inner) if inner else ()


def _is_installed(package: str) -> bool:
    return any(metadata.distributions(name=package))  # unlike its version, found without parsing its description


def _check_terminal() -> DoctorFinding:
    path = find_terminal()
    if path is None:
        return DoctorFinding("note", "terminal", "none: nobody can be asked here; --yes answers without asking")
    encoding = sys.stdout.encoding or "unknown"
    colours = "no colours (NO_COLOR)" if os.environ.get("NO_COLOR") else os.environ.get("TERM", "TERM is not set")
    return DoctorFinding("ok", "terminal", f"{path}, {encoding}, {colours}")


def _check_servers(path: Path, *, may_lack: bool = False) -> Iterator[DoctorFinding]:
    """Name the servers of a file, and why some cannot be used."""
    try:
        if may_lack and not is_there(path):
            yield DoctorFinding("note", str(path), "not there")
            return
        servers = config_files.read_config(path)
    except ConfigError as error:
        yield _report_mistake(path, error)
        return
    yield DoctorFinding("ok", str(path), f"servers: {', '.join(servers) or 'none'}")
    for name, entry in servers.items():
        try:
            locate_target(config_files.target_of(config_files.fill_entry(path, name, entry), name))
        except ConfigError as error:
            yield _report_mistake(path, error)


def _check_hosts() -> Iterator[DoctorFinding]:
    """Say in which hosts the gateway is installed, and whether they would start it."""
    for name, place in list_hosts():
        if not place.is_installed:
            yield DoctorFinding("note", name, f"the gateway is not installed: antiphon install {name}")
            continue
        try:
            wrong = place.check()
        except ConfigError as error:
            wrong = str(error)
        if wrong:
            yield DoctorFinding("failed", name, f"{wrong}: antiphon uninstall {name}, and install it again")
        else:
            yield DoctorFinding("ok", name, "the gateway is installed")
        if os.access(place.servers, os.F_OK):
            yield from _check_servers(place.servers)


def _report_mistake(path: Path, error: ConfigError) -> DoctorFinding:
    return DoctorFinding("failed", str(path), str(error).removeprefix(str(path)).lstrip(":, "))


def _check_settings(file: Path | None) -> Iterator[DoctorFinding]:
    """Describe the host's configuration; without a file there is still a model, and a person to ask."""
    try:
        config = load_config(os.environ, file=file)
    except ConfigError as error:
        yield DoctorFinding("failed", "antiphon.toml", str(error))
        return
    files = ", ".join(map(str, config.files)) or "not there: the built-in settings apply"
    yield DoctorFinding("ok" if config.files else "note", "antiphon.toml", files)
    for unknown in config.gateway.find_unknown_servers(config_files.list_names(None)):
        yield DoctorFinding("odd", "antiphon.toml", unknown)
    yield _check_models(config)
    yield _check_store(config.store)


def _check_models(config: Config) -> DoctorFinding:
    """List the models, and whether any of them can answer the shortest request."""
    message = SamplingMessage(role="user", content=TextContent(text="Hello"))
    shortest = CreateMessageRequestParams(messages=[message], max_tokens=1)
    selection = Models(config.catalogue(), os.environ).select(shortest)
    if selection.winner is not None:
        return DoctorFinding("ok", "models", ", ".join(model.name for model in config.models))
    if config.models == (standard_model(os.environ),) and missing_key(config.models[0], os.environ):
        return DoctorFinding("note", "models", f"none, so only you can answer requests for one: set {KEY_NAMES}")
    return DoctorFinding("failed", "models", selection.why_none)


def _check_store(configured: str | None) -> DoctorFinding:
    """Say where commands store decisions; hosts in other programs choose for themselves."""
    if configured == "memory":
        return DoctorFinding("note", "store", "memory: decisions are lost when the process ends")
    usual = str(state_folder(os.environ) / "host.db")
    if configured not in (None, "default"):
        return DoctorFinding("ok", "store", mask_text(str(configured)))
    if isinstance(usual_store(), MemoryStore):
        return DoctorFinding("note", "store", f"{usual} cannot be used: decisions are lost when the process ends")
    return DoctorFinding("ok", "store", usual)


_REMOVED = "(removed)"
_LAST = 20
"""Most errors of each kind."""
_FAILURES: tuple[Step, ...] = ("failed", "invalid", "refused")
_PRIVATE = re.compile(r"env|header|secret|token|key|pass|cred|auth|cookie|webhook|targets|dsn", re.IGNORECASE)
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
    usual = (*host_paths(os.environ), *config_files.config_paths(), *(place.servers for _, place in list_hosts()))
    paths = [path for path in (usual if config is None else [config]) if os.access(path, os.F_OK)]
    return {
        "versions": [formats.json_line(describe_version())],
        "findings of antiphon doctor": [_describe_finding(one) for one in findings],
        "configuration without its values": [line for path in paths for line in _describe_file(path)],
        "store, and its last errors": [line async for line in _describe_store(StoreOptions(config=config))],
    }


def write_report(sections: Mapping[str, Sequence[str]], file: Path) -> None:
    """List what the report contains, and write it to a new file; ``-`` prints it."""
    text = "\n\n".join("\n".join([f"## {title}", *lines]) for title, lines in sections.items())
    text = clean_text(text, os.environ) + "\n"
    if str(file) == "-":
        formats.print_text(text)
        return
    if file.exists():
        raise ConfigError(f"{file}: is there already: name another file for the report")
    formats.print_text(f"{file} will contain:")
    for title, lines in sections.items():
        formats.print_text(f"  {title}: {sum(line.count(chr(10)) + 1 for line in lines)} lines")
    with open_replacement(file) as report:
        report.write(text.encode())
    formats.print_text(f"{file}: written. Read it before you attach it to a report.")


def _describe_finding(finding: DoctorFinding) -> str:
    # The message about a mistake in a file may quote the file.
    text = _QUOTED.sub(_REMOVED, finding.text) if finding.kind == "failed" else finding.text
    return f"{finding.kind}  {finding.subject}: {text}"


def _describe_file(path: Path) -> Iterator[str]:
    yield f"{path}:"
    try:
        data = config_files.read_bytes(path)
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
                    outcome, _, _ = record.outcome.partition(":")
                    yield f"{formats.format_time(record.at)}  {record.method}  {step}  {outcome}"
    except (AntiphonError, formats.Failed) as error:
        yield _QUOTED.sub(_REMOVED, formats.explain_error(error))


def clean_text(text: str, environ: Mapping[str, str]) -> str:
    """Return a text without the rest of URLs, values of secret variables, what looks like a secret, and our home."""
    secrets = [value for name, value in environ.items() if _SECRET_VARIABLE.search(name) and len(value) > 3]
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, _REMOVED)
    text, home = mask_text(_URL.sub(r"\1\2", text)), find_home()
    # The root folder, which a user without a home has, says nothing of anybody, and is in each address.
    return text if home == home.parent else text.replace(f"{home}{os.sep}", f"~{os.sep}")


_PINGS = 5


async def examine_server(target: str, reach: Reach, report: Callable[[DoctorFinding], object]) -> None:
    """Connect to a server and report findings one by one; errors are raised."""
    channels: list[Channel] = []
    began = time.perf_counter()
    async with open_client(target, reach, seen=channels.append) as client:
        report(DoctorFinding("ok", "connection", f"open after {time.perf_counter() - began:.2f} s"))
        for finding in _report_identity(client):
            report(finding)
        report(await _round_trip(client))
        async for finding in _check_lists(client):
            report(finding)
        noise = sum(getattr(channel, "noise", 0) for channel in channels)
        if noise:
            report(DoctorFinding("odd", "stdout", f"{noise} lines that are not messages (logs belong on stderr)"))
        if len(channels) > 1:
            report(DoctorFinding("odd", "start", "it ended when asked for its revisions, and had to be started again"))


async def check_login(target: str, reach: Reach) -> DoctorFinding:
    """Say what a server requires from clients that sign in, by its and its authorization server's metadata."""
    address = config_files.address_of(config_files.resolve_target(target, reach.config))
    if address is None:
        return DoctorFinding("note", "login", "a server that is started here gets its secrets by its environment")
    from antiphon.cli.login_access import describe_sign_in

    try:
        return DoctorFinding("note", "login", await describe_sign_in(address))
    except AntiphonError as error:
        return DoctorFinding("odd", "login", formats.explain_error(error))


def _report_identity(client: Client) -> Iterator[DoctorFinding]:
    info = client.server_info
    if info is None:
        yield DoctorFinding("odd", "server", "does not state its name and version")
    else:
        yield DoctorFinding("ok", "server", f"{info.title or info.name} {info.version}".strip())
    agreed = find_revision(client.revision)
    era = "modern" if agreed is not None and agreed.modern else "legacy: with a handshake"
    yield DoctorFinding("ok", "revision", f"{client.revision} ({era})")
    declared = cast("dict[str, dict[str, object] | None]", msgspec.to_builtins(client.server_capabilities))
    offers = sorted(declared.items())
    text = ", ".join(name + (f" ({', '.join(sorted(parts))})" if parts else "") for name, parts in offers)
    yield DoctorFinding("ok" if text else "odd", "offers", text or "nothing at all")


async def _round_trip(client: Client) -> DoctorFinding:
    taken: list[float] = []
    for _ in range(_PINGS):
        began = time.perf_counter()
        try:
            await client.ping()
        except MethodNotFound:
            return DoctorFinding("odd", "round trip", "it does not know ping")
        taken.append((time.perf_counter() - began) * 1e3)
    kind = "odd" if median(taken) > 1_000 else "ok"
    return DoctorFinding(kind, "round trip", f"{median(taken):.1f} ms (median of {_PINGS})")


async def _check_lists(client: Client) -> AsyncIterator[DoctorFinding]:
    offered = client.server_capabilities
    for name in await list_left_out(client):
        yield DoctorFinding(
            "failed", f"server {name}", "is left out, since it has not been listed yet: antiphon doctor NAME"
        )
    if offered.tools is not None:
        yield DoctorFinding("ok", "tools", str(len([tool async for tool in client.tools()])))
    if offered.resources is not None:
        resources = [one async for one in client.resources()]
        templates = [one async for one in client.resource_templates()]
        yield DoctorFinding("ok", "resources", f"{len(resources)}, and {len(templates)} templates")
    if offered.prompts is not None:
        yield DoctorFinding("ok", "prompts", str(len([one async for one in client.prompts()])))


_DEADLINE = 30.0
"""Seconds for an answer, since a local model may have to be loaded first."""
_MOST_TOKENS = 200
"""Most tokens of the answer; reasoning models need some before their first word."""
_SHOWN = 40
"""Characters of the answer that are shown."""


async def check_models(config: Path | None, environ: Mapping[str, str]) -> list[DoctorFinding]:
    """Ask each model for one word, all concurrently; findings are in the order of the configuration."""
    found = await asyncio.to_thread(read_configuration, config, environ)
    return await asyncio.gather(*(_ask_model(model, environ) for model in found.catalogue()))


async def _ask_model(model: Model, environ: Mapping[str, str]) -> DoctorFinding:
    missing = missing_key(model, environ)
    if missing is not None:
        return DoctorFinding("failed", model.name, f"{missing}: set it, or take the model out of the configuration")
    models = Models(ModelCatalogue((model,)), environ, patience=RetryPatience(attempts=1, deadline=_DEADLINE))
    message = SamplingMessage(role="user", content=TextContent(text="Answer with the one word: ready"))
    request = CreateMessageRequestParams(messages=[message], max_tokens=_MOST_TOKENS)
    began = time.monotonic()
    try:
        answer = await models.generate(request, model=model.name)
    except AntiphonError as error:
        return DoctorFinding("failed", model.name, str(error))
    finally:
        await models.aclose()
    spent = 0 if answer.usage is None else Amount.of(answer.usage, model.price).money
    paid = f", {format_dollars(spent)}" if spent else ""
    said = inert_line(answer.result.text.strip()[:_SHOWN])
    return DoctorFinding("ok", model.name, f'answered "{said}" in {time.monotonic() - began:.1f} s{paid}')


async def check_notices(config: Path | None, environ: Mapping[str, str]) -> list[DoctorFinding]:
    """Send a notice to each service, all concurrently; findings are in the order of the configuration."""
    found = await asyncio.to_thread(read_configuration, config, environ)
    if not found.notify.targets:
        return [DoctorFinding("note", "notices", "no service is configured: write [[notify.targets]]")]
    # The devices that Web Push tells are in the store.
    async with aclosing(open_store(found.store)) as store:
        made = make_notices(store, found, environ)
        return await asyncio.gather(*map(_try_service, () if made is None else made.senders))


async def _try_service(service: ServiceNotices) -> DoctorFinding:
    try:
        await service.send_text(load_texts(terminal_language(None))("notice.test"))
    except NotDelivered as error:
        return DoctorFinding("failed", service.name, str(error))
    return DoctorFinding("ok", service.name, "took a notice")


_MARKS = {"ok": "ok  ", "note": "note", "odd": "odd ", "failed": "FAIL"}
_STYLES = {"ok": "green", "note": "", "odd": "yellow", "failed": "bold red"}


async def command(
    target: Annotated[str | None, complete_server] = None,
    *,
    models: bool = False,
    notices: bool = False,
    bundle: str | None = None,
    as_json: Json = False,
    reach: Reach,
) -> int:
    """Check this installation, or a server.

    With --models each configured model is asked for one word, which costs a fraction of a cent.
    Of a server: what it is, how fast it answers, and what it offers; antiphon check says what is wrong with that.

    Exit code 1 if anything failed; what is only odd is not a failure.

    Usage:
        [TARGET]: A server to connect to and examine.
        --bundle [FILE]: Write what a bug report needs to this file (antiphon-report.txt by default, - for
            standard output): versions, findings, configuration without its values, the store and its last errors.
            Secrets are left out, and what it contains is listed first.
        --models: Also ask each configured model for one word, to see that it works.
        --notices: Also send a notice to each service of [[notify.targets]], to see that it arrives.
    """
    if target is None:
        findings = await asyncio.to_thread(check_installation, reach.config)
        if models:
            findings += await check_models(reach.config, os.environ)
        if notices:
            findings += await check_notices(reach.config, os.environ)
    elif models or notices:
        raise ConfigError("--models and --notices try what this installation has: leave the server out")
    else:
        findings = await _check_server(target, reach)
    if bundle is not None:
        write_report(await collect_report(findings, reach.config), Path(bundle or "antiphon-report.txt"))
        return 0
    teller = Teller(sys.stdout)
    for finding in findings:
        if as_json:
            formats.print_json({"kind": finding.kind, "subject": finding.subject, "text": finding.text})
        else:
            teller.say(f"{_MARKS[finding.kind]}  {finding.subject}: {finding.text}", _STYLES[finding.kind])
    return formats.FAILED if any(finding.kind == "failed" for finding in findings) else 0


async def _check_server(target: str, reach: Reach) -> list[DoctorFinding]:
    findings: list[DoctorFinding] = []
    try:
        await examine_server(target, reach, findings.append)
    except Exception as error:
        if formats.exit_code(error) != formats.FAILED:
            raise
        findings.append(DoctorFinding("failed", "connection", formats.explain_error(error)))
        if isinstance(error.__cause__, Unauthorized):
            findings.append(await check_login(target, reach))
    return findings
