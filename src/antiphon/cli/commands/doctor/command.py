"""``antiphon doctor``: checks the installation, or examines a server.

Owns the display of findings, and the exit code. ``local``, ``models`` and ``server`` have the checks, ``bundle`` the
report.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Annotated

from antiphon.cli.commands.doctor.local import DoctorFinding, check_installation
from antiphon.cli.commands.doctor.server import check_login, examine_server
from antiphon.cli.error_messages import FAILED, exit_code, explain_error
from antiphon.cli.options import Json, Reach, complete_server
from antiphon.cli.output.formats import print_json
from antiphon.cli.output.progress import Teller
from antiphon.errors import ConfigError, Unauthorized

_REPORT = "antiphon-report.txt"
_MARKS = {"ok": "ok  ", "note": "note", "odd": "odd ", "failed": "FAIL"}
_STYLES = {"ok": "green", "note": "", "odd": "yellow", "failed": "bold red"}


async def command(
    target: Annotated[str | None, complete_server] = None,
    *,
    models: bool = False,
    bundle: str | None = None,
    as_json: Json = False,
    reach: Reach,
) -> int:
    """Check this installation, or a server.

    With --models each configured model is asked for one word, which costs a fraction of a cent.
    Of a server: what it is, how fast it answers, and what is odd about it.

    Exit code 1 if anything failed; what is only odd is not a failure.

    Usage:
        [TARGET]: A server to connect to and examine.
        --bundle [FILE]: Write what a bug report needs to this file (antiphon-report.txt by default, - for
            standard output): versions, findings, configuration without its values, the store and its last errors.
            Secrets are left out, and what it contains is listed first.
        --models: Also ask each configured model for one word, to see that it works.
    """
    if target is None:
        findings = await asyncio.to_thread(check_installation, reach.config)
        if models:
            from antiphon.cli.commands.doctor.models import check_models

            findings += await check_models(reach.config, os.environ)
    elif models:
        raise ConfigError("--models asks the models of this installation: leave the server out")
    else:
        findings = await _check_server(target, reach)
    if bundle is not None:
        from antiphon.cli.commands.doctor.bundle import collect_report, write_report

        write_report(await collect_report(findings, reach.config), Path(bundle or _REPORT))
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
