"""``antiphon doctor``: checks the models that are configured, or examines a server.

Owns the display of findings, and the exit code. ``local`` checks the installation and writes the report.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Annotated, cast

import msgspec

from antiphon.channel import Channel
from antiphon.cli.commands.doctor.local import DoctorFinding, check_installation
from antiphon.cli.config_files import address_of, resolve_target
from antiphon.cli.host_options import read_configuration
from antiphon.cli.open_client import list_left_out, open_client
from antiphon.cli.options import Json, Reach, complete_server
from antiphon.cli.output.formats import FAILED, exit_code, explain_error, print_json
from antiphon.cli.output.progress import Teller
from antiphon.client.client import Client
from antiphon.errors import AntiphonError, ConfigError, MethodNotFound, Unauthorized
from antiphon.host.budget import convert_to_nano, format_dollars
from antiphon.host.checks.visible import inert_line
from antiphon.host.configured_host import make_notices
from antiphon.host.model_catalogue import Model, ModelCatalogue
from antiphon.host.models.models import Models, RetryPatience
from antiphon.host.providers.base import Usage, missing_key
from antiphon.host.review.notify import NotDelivered, ServiceNotices
from antiphon.host.review.summary import load_texts, terminal_language
from antiphon.host.store.memory_store import MemoryStore
from antiphon.wire.content import TextContent
from antiphon.wire.revisions import find_revision
from antiphon.wire.sampling import CreateMessageRequestParams, SamplingMessage

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
    address = address_of(resolve_target(target, reach.config))
    if address is None:
        return DoctorFinding("note", "login", "a server that is started here gets its secrets by its environment")
    from antiphon.cli.login_access import describe_sign_in

    try:
        return DoctorFinding("note", "login", await describe_sign_in(address))
    except AntiphonError as error:
        return DoctorFinding("odd", "login", explain_error(error))


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
    began = time.monotonic()
    try:
        said, usage = await _try_model(models, model)
    except AntiphonError as error:
        return DoctorFinding("failed", model.name, str(error))
    finally:
        await models.aclose()
    cost = None if usage is None else models.cost(model.name, usage)
    paid = "" if not cost else f", {format_dollars(convert_to_nano(cost))}"
    return DoctorFinding("ok", model.name, f"{said} in {time.monotonic() - began:.1f} s{paid}")


async def _try_model(models: Models, model: Model) -> tuple[str, Usage | None]:
    """Use a model once; return what it did, and what that took."""
    message = SamplingMessage(role="user", content=TextContent(text="Answer with the one word: ready"))
    request = CreateMessageRequestParams(messages=[message], max_tokens=_MOST_TOKENS)
    answer = await models.generate(request, model=model.name)
    return f'answered "{inert_line(answer.result.text.strip()[:_SHOWN])}"', answer.usage


async def check_notices(config: Path | None, environ: Mapping[str, str]) -> list[DoctorFinding]:
    """Send a notice to each service, all concurrently; findings are in the order of the configuration."""
    found = await asyncio.to_thread(read_configuration, config, environ)
    made = make_notices(MemoryStore(), found, environ)
    if made is None:
        return [DoctorFinding("note", "notices", "no service is configured: write [[notify.targets]]")]
    return await asyncio.gather(*map(_try_service, made.senders))


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
        from antiphon.cli.commands.doctor.local import collect_report, write_report

        write_report(await collect_report(findings, reach.config), Path(bundle or "antiphon-report.txt"))
        return 0
    teller = Teller(sys.stdout)
    for finding in findings:
        if as_json:
            print_json({"kind": finding.kind, "subject": finding.subject, "text": finding.text})
        else:
            teller.say(f"{_MARKS[finding.kind]}  {finding.subject}: {finding.text}", _STYLES[finding.kind])
    return FAILED if any(finding.kind == "failed" for finding in findings) else 0


async def _check_server(target: str, reach: Reach) -> list[DoctorFinding]:
    findings: list[DoctorFinding] = []
    try:
        await examine_server(target, reach, findings.append)
    except Exception as error:
        if exit_code(error) != FAILED:
            raise
        findings.append(DoctorFinding("failed", "connection", explain_error(error)))
        if isinstance(error.__cause__, Unauthorized):
            findings.append(await check_login(target, reach))
    return findings
