"""``antiphon check``: whether a server is right, and safe to use.

Owns what a person is shown and asked before a stranger's program is started, and how the reports are printed.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, cast

import click

from antiphon import __version__
from antiphon.check.check_report import CheckReport, format_report, make_json
from antiphon.check.check_rules import excerpt_of
from antiphon.check.checkup import check_server, examine_launch
from antiphon.cli.config_files import find_entries, resolve_target, target_of
from antiphon.cli.options import Config, Json, Reach, RevisionName, complete_server
from antiphon.cli.output import formats
from antiphon.cli.output.progress import Teller
from antiphon.cli.output.report_files import make_junit, make_sarif, read_definitions, write_report
from antiphon.client.connection.targets import Command, Target, locate_target
from antiphon.errors import AntiphonError, ConfigError
from antiphon.host.checks.redact import mask_text

_STYLES = {"error": "bold red", "advice": "yellow", None: ""}


async def command(
    words: Annotated[
        list[str] | None, "TARGET: A URL, a command after --, a .py file, or a configured name.", complete_server
    ] = None,
    *,
    every: Annotated[
        bool, "--all: Check each server of the configuration file TARGET, or of your own; each is asked for."
    ] = False,
    client: Annotated[bool, "--client: TARGET is the command of a client, which is tried by servers."] = False,
    call: list[str] | None = None,
    yes: bool = False,
    keys: bool = False,
    network: bool = False,
    since: Path | None = None,
    played: Annotated[
        str, "--as CLIENT: Also say what this host would lose: claude-code, codex, gemini, copilot or opencode."
    ] = "",
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
    several times after you were shown what would run: in a home of its own, without your keys and, where the system can
    do that, without a network. No tool is called without --call. With --client, a client is started several times in
    the same way, with the network; {url} in its command becomes the address, or {server} the command over stdio, of a
    server whose tools it is to list, and to call each.

    Exit code 1 if a MUST of the specification is broken (advice is no failure), 2 if it could not be checked; of
    several servers the highest.

    Usage:
        --call NAME: A tool that may be called, by its name or as NAME={...} with its arguments; may be repeated.
        --yes: Start the program without asking you.
        --keys: Also give it the secrets in its entry, in place of a placeholder.
        --network: Also give it the network of this machine, as a command that downloads what it runs gets it always.
        --since FILE: Also report definitions that are not those of an earlier check, which --json has printed.
        --sarif FILE: Also write the findings as SARIF 2.1.0.
        --junit FILE: Also write each rule as a test case of JUnit XML.
        --header, -H 'NAME: VALUE': An HTTP header to send with every request to a URL; may be repeated.
        --timeout SECONDS: Most seconds for one reply; the first one may take a minute.
    """
    if client and (every or call or keys or network or since or played or header or revision != "auto" or not words):
        raise ConfigError("--client takes a command, and of the options --yes, --json, --sarif, --junit and --timeout")
    if every and since is not None:
        raise ConfigError("--since compares one server: give its name in place of --all")
    check: Callable[[Any], Awaitable[CheckReport]] = partial(
        check_server, calls=call or (), headers=Reach(header=header).headers, timeout=timeout, keep_keys=keys,
        network=network, revision=revision, previous=since and read_definitions(since), client=played,
    )  # fmt: skip
    if client:
        # Imported here, because a server needs no other server to be checked.
        from antiphon.check.client_checkup import check_client

        check = cast("Any", partial(check_client, timeout=timeout))
    reports: list[CheckReport] = []
    teller = Teller(sys.stdout)
    targets = {"": lambda: words or ()} if client else _list_targets(words or [], config, every=every)
    for name, find_target in targets.items():
        try:
            target = find_target()
            _ask_to_start(target, yes=yes, keys=keys, network=network or client)
            report = await check(target)
        except (AntiphonError, formats.Failed) as error:
            if not every:
                raise
            report = CheckReport("its entry", problem=excerpt_of(str(error)))
        report.target = excerpt_of(f"{name}: {report.target}") if every else report.target
        reports.append(report)
        for line, severity in () if as_json else format_report(report):
            teller.say(line, _STYLES[severity])
        if as_json:
            formats.print_json(make_json(report))
    write_report(sarif, formats.json_line(make_sarif(reports, __version__)).encode())
    write_report(junit, make_junit(reports))
    return max(formats.WRONG_USAGE if one.problem else formats.FAILED if one.errors else 0 for one in reports)


def _list_targets(words: Sequence[str], config: Path | None, *, every: bool) -> Mapping[str, Callable[[], Target]]:
    if not every:
        if not words:
            raise ConfigError("name a server: a URL, a command after --, a .py file, or a configured name; or --all")
        return {words[0]: partial(resolve_target, words[0], config) if len(words) == 1 else lambda: words}
    found = find_entries([Path(word) for word in words] or ([] if config is None else [config]))
    if not found:
        raise ConfigError("--all: no server is configured; name a file that has some")
    return {name: partial(target_of, one, name) for name, one in found.items()}


def _ask_to_start(target: Target, *, yes: bool, keys: bool, network: bool) -> None:
    """Show what would run, and ask; raises ``Failed`` if nobody allows it."""
    where = locate_target(target)
    if not isinstance(where, Command) or yes:
        return
    teller, found = Teller(sys.stderr), examine_launch(target, network=network)
    teller.say(f"This program would be started several times, as you:\n  {found.target}")
    teller.say(f"  folder       {where.cwd or Path.cwd()}")
    teller.say("  home         a temporary one, deleted afterwards")
    teller.say(f"  network      {found.network}")
    shown = "".join(f", {name}={mask_text(value)[:80]}" for name, value in (where.env or {}).items())
    teller.say(f"  environment  PATH, language and terminal{shown}; keys {'included' if keys else 'replaced'}")
    for one in found.findings:
        teller.say(f"  {one.rule.severity}: {one.rule.title} {one.seen} [{one.rule.id}]", _STYLES[one.rule.severity])
    if not formats.is_interactive():
        raise formats.Failed("nothing was started: nobody can be asked here; --yes allows it", formats.WRONG_USAGE)
    formats.write_line("Start it? [y/N] ", sys.stderr)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise formats.Failed("nothing was started", formats.WRONG_USAGE)
