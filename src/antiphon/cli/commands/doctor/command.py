"""``antiphon doctor``: is everything in place here, and what is there to know about a server.

Owns how findings are shown and what they mean for the exit code. The checks are ``local`` and ``server``.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated

import typer

from antiphon.cli.commands.doctor.local import Finding, local_findings
from antiphon.cli.commands.doctor.server import examine
from antiphon.cli.failures import FAILED, exit_code, explain
from antiphon.cli.options import Config, Headers, Json, Messages, Reach, RevisionName, Timeout, Verbose
from antiphon.cli.output import print_json
from antiphon.cli.progress import Teller
from antiphon.cli.session import run

__all__ = ["command"]

OptionalTarget = Annotated[
    str | None,
    typer.Argument(metavar="[TARGET]", help="A server to connect to and examine.", show_default=False),
]

_MARKS = {"ok": "ok  ", "note": "note", "odd": "odd ", "failed": "FAIL"}
_STYLES = {"ok": "green", "note": "", "odd": "yellow", "failed": "bold red"}


def command(
    target: OptionalTarget = None,
    *,
    as_json: Json = False,
    config: Config = None,
    header: Headers = None,
    revision: RevisionName = "auto",
    timeout: Timeout = 60.0,
    messages: Messages = False,
    verbose: Verbose = False,
) -> int:
    """Check this installation, or a server.

    Of a server: what it is, how fast it answers, and what is odd about it.

    Exit code 1 if anything failed; what is only odd is no failure.
    """
    if target is None:
        return run(_local(as_json=as_json, config=config))
    reach = Reach(
        target=target,
        config=config,
        header=header,
        revision=revision,
        timeout=timeout,
        verbose=verbose,
        messages=messages,
    )
    return run(_server(reach, as_json=as_json))


async def _local(*, as_json: bool, config: Config) -> int:
    findings = await asyncio.to_thread(local_findings, config)
    return _show(findings, as_json=as_json)


async def _server(reach: Reach, *, as_json: bool) -> int:
    findings: list[Finding] = []
    try:
        await examine(reach, findings.append)
    except Exception as error:
        if exit_code(error) != FAILED:
            raise
        findings.append(Finding("failed", "connection", explain(error)))
    return _show(findings, as_json=as_json)


def _show(findings: list[Finding], *, as_json: bool) -> int:
    teller = Teller(sys.stdout)
    for finding in findings:
        if as_json:
            print_json({"kind": finding.kind, "subject": finding.subject, "text": finding.text})
        else:
            teller.say(f"{_MARKS[finding.kind]}  {finding.subject}: {finding.text}", _STYLES[finding.kind])
    return FAILED if any(finding.kind == "failed" for finding in findings) else 0
