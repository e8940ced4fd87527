"""``antiphon check``: whether a server is right, and safe to use.

Owns what a person is shown and asked before a stranger's program is started, and how the reports are printed.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import click

from antiphon import __version__
from antiphon.check.checkup import check_server, find_launch_findings, name_target
from antiphon.check.findings import Finding
from antiphon.check.report import CheckReport, format_report, make_json, make_junit, make_sarif
from antiphon.cli.config_files import find_entries
from antiphon.cli.error_messages import FAILED, Failed
from antiphon.cli.options import Config, Json, Reach, RevisionName, complete_server
from antiphon.cli.output.formats import is_interactive, json_line, print_json, write_line
from antiphon.cli.output.progress import Teller
from antiphon.cli.target_text import resolve_target, target_of
from antiphon.client.connection.targets import Command, Target, locate_target
from antiphon.errors import ConfigError
from antiphon.host.checks.redact import mask_text
from antiphon.machine.files import replace_file

_STYLES = {"error": "bold red", "advice": "yellow", None: ""}


async def command(
    target: Annotated[str | None, complete_server] = None,
    *,
    all: bool = False,
    call: list[str] | None = None,
    yes: bool = False,
    keys: bool = False,
    as_json: Json = False,
    sarif: Path | None = None,
    junit: Path | None = None,
    config: Config = None,
    header: list[str] | None = None,
    revision: RevisionName = "auto",
    timeout: Annotated[float, click.FloatRange(0.001)] = 10.0,
) -> int:
    """Check whether a server is right, and safe to use.

    It is tried on every revision of the protocol that it speaks, and only what it declares. A program is started
    several times, in a home of its own and without your keys, after you were shown what would run. No tool is called
    without --call.

    Exit code 1 if a MUST of the specification is broken; advice is no failure.

    Usage:
        [TARGET]: A URL, a command line in quotes, a .py file, or the name of a configured server; with --all a
            configuration file.
        --all: Check every server of a configuration file, or of the usual ones.
        --call NAME: A tool that may be called, by its name or as NAME={...} with its arguments; or all. May be
            repeated.
        --yes: Start the program without asking you.
        --keys: Also give it the secrets in its entry, in place of a placeholder.
        --sarif FILE: Also write the findings as SARIF 2.1.0.
        --junit FILE: Also write them as JUnit XML.
        --header, -H 'NAME: VALUE': An HTTP header to send with every request to a URL; may be repeated.
        --timeout SECONDS: Most seconds for one reply; the first one may take a minute.
    """
    targets = _choose_targets(target, config, all=all)
    teller, reports = Teller(sys.stdout), list[CheckReport]()
    for one in targets:
        found = list(find_launch_findings(one))
        _ask_to_start(one, found, yes=yes, keys=keys)
        headers = Reach(header=header).headers
        report = await check_server(
            one, calls=call or (), headers=headers, timeout=timeout, keep_keys=keys, revision=revision
        )
        reports.append(report)
        if as_json:
            print_json(make_json(report))
            continue
        for line, level in format_report(report):
            teller.say(line, _STYLES[level])
    if sarif is not None:
        _write_file(sarif, json_line(make_sarif(reports, __version__)))
    if junit is not None:
        _write_file(junit, make_junit(reports))
    return FAILED if any(report.errors for report in reports) else 0


def _choose_targets(target: str | None, config: Path | None, *, all: bool) -> Sequence[Target]:
    if all:
        file = config if target is None else Path(target)
        return [target_of(found, name) for name, found in find_entries([] if file is None else [file]).items()]
    if target is None:
        raise ConfigError("give a server: a URL, a command line, a .py file or a configured name; or --all")
    return [resolve_target(target, config)]


def _ask_to_start(target: Target, found: Sequence[Finding], *, yes: bool, keys: bool) -> None:
    """Show what would run, and ask; raises ``Failed`` if nobody allows it."""
    where = locate_target(target)
    if not isinstance(where, Command) or yes:
        return
    teller = Teller(sys.stderr)
    teller.say(f"This program would be started several times, as you:\n  {name_target(target)}")
    teller.say(f"  folder       {where.cwd or Path.cwd()}")
    teller.say("  home         a temporary one, deleted afterwards")
    teller.say(f"  environment  {_format_variables(where.env or {}, keys=keys)}")
    for finding in found:
        teller.say(f"  {finding.level}: {finding.place}: {finding.seen} [{finding.rule}]", _STYLES[finding.level])
    if not is_interactive():
        raise Failed("nothing was started: nobody can be asked here; --yes allows it")
    write_line("Start it? [y/N] ", sys.stderr)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise Failed("nothing was started")


def _format_variables(env: Mapping[str, str], *, keys: bool) -> str:
    shown = ", ".join(f"{name}={mask_text(value)[:80]}" for name, value in env.items())
    return f"PATH, language and terminal{', ' + shown if shown else ''}; keys {'included' if keys else 'replaced'}"


def _write_file(path: Path, text: str) -> None:
    try:
        replace_file(path, text.encode())
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
